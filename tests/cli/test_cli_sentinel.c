/* SPDX-License-Identifier: MIT */
/* The command on servers that sentinels watch: the two rules that `sneck acl` prints make users who suffice,
 * one on the servers and one on the sentinels, and none of their rights is more than is used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "look.h"
#include "rule.h"
#include "sentinels.h"
#include "wait.h"

static struct test_sentinels all;
static struct test_server face; /* what the commands are told to use */
static char password_file[160], user_url[640];

static int up(void **state) {
	(void)state;
	if (test_sentinels_start(&all, NULL, NULL) < 0)
		return -1;
	face = all.servers[0];
	setenv("HOME", face.dir, 1);
	snprintf(password_file, sizeof password_file, "%s/password", face.dir);
	FILE *file = fopen(password_file, "we");
	if (!file)
		return -1;
	fputs("pw\n", file);
	snprintf(user_url, sizeof user_url,
	        "redis+sentinel://sneck-holder:pw@%s?sentinel_user=sneck&sentinel_password=",
	        strstr(all.url, "://") + 3);
	return fclose(file);
}

static int down(void **state) {
	(void)state;
	test_sentinels_stop(&all);
	return 0;
}

/* Do as the line says, on each of them, without the right `but` (may be NULL). */
static void apply(const char *line, struct test_server *servers, int n, const char *but) {
	struct test_rule rule;

	test_rule_read(&rule, line);
	test_rule_obey(&rule, servers, (size_t)n, but);
}

/* Run something under a lock as the users of the rules. */
static int run_as_user(struct cli *cli, const char *seconds) {
	char file[200];

	snprintf(file, sizeof file, "SNECK_SENTINEL_PASSWORD_FILE=%s", password_file);
	cli_start_program(cli, &face, "env",
	        CLI_ARGS(file, SNECK_BINARY, "run", "--server", user_url, "door", "sleep", seconds));
	return cli_wait(cli, 20000);
}

static long long refusals(void) {
	long long n = 0;

	for (int i = 0; i < SENTINELS_N; i++) {
		redisReply *log = test_redis(&all.sentinels[i], "ACL LOG 100");
		assert_non_null(log);
		n += (long long)log->elements;
		freeReplyObject(log);
	}
	return n;
}

static void forget_refusals(void) {
	for (int i = 0; i < SENTINELS_N; i++)
		test_redis_ok(&all.sentinels[i], "ACL LOG RESET");
}

static void test_the_rules_suffice_and_are_needed(void **state) {
	static const char *const rights[] = { "+sentinel|master", "+sentinel|get-master-addr-by-name",
		"+subscribe", "&+switch-master" };
	struct cli cli, tried;
	(void)state;

	assert_int_equal(cli_run(&cli, &face, CLI_ARGS("acl", "-q", "--server", all.url)), 0);
	const char *servers = cli_out(&cli), *sentinels = strchr(servers, '\n') + 1;
	apply(servers, all.servers, SENTINELS_SERVERS, NULL);
	apply(sentinels, all.sentinels, SENTINELS_N, NULL);
	forget_refusals();
	/* Long enough for the question to be repeated. */
	if (run_as_user(&tried, "6") != 0)
		fail_msg("%s", cli_err(&tried));
	assert_int_equal(refusals(), 0);
	for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
		apply(sentinels, all.sentinels, SENTINELS_N, rights[i]);
		forget_refusals();
		(void)run_as_user(&tried, "0.1");
		if (refusals() == 0)
			fail_msg("nobody needs %s", rights[i]);
	}
	apply(sentinels, all.sentinels, SENTINELS_N, "+unsubscribe");
	forget_refusals();
	(void)run_as_user(&tried, "6");
	assert_true(refusals() > 0);
	apply(sentinels, all.sentinels, SENTINELS_N, "+sentinel|master");
	assert_int_equal(run_as_user(&tried, "0"), 77);
	assert_non_null(strstr(cli_err(&tried), "sentinel 127.0.0.1"));
	apply(sentinels, all.sentinels, SENTINELS_N, NULL);
	assert_int_equal(run_as_user(&tried, "0"), 0);
}

static void test_what_is_wrong_is_named(void **state) {
	struct cli cli;
	char url[640];
	(void)state;

	snprintf(url, sizeof url, "%s?sentinel_user=sneck&sentinel_password=canary", all.url);
	assert_int_equal(cli_run(&cli, &face, CLI_ARGS("run", "--server", url, "door", "true")), 77);
	assert_non_null(strstr(cli_err(&cli), "SNECK_SENTINEL_PASSWORD_FILE"));
	assert_null(strstr(cli_err(&cli), "canary"));
	snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/1nothing", all.sentinels[0].port);
	assert_int_not_equal(cli_run(&cli, &face, CLI_ARGS("run", "--server", url, "door", "true")), 0);
	assert_non_null(strstr(cli_err(&cli), "no service '1nothing'"));
}

/* Neither a service that begins with a digit nor the sentinels' password is taken for something else. */
static void test_the_url_is_read_as_it_is_meant(void **state) {
	struct cli cli;
	char url[640];
	(void)state;

	json_t *json = look_json(&face, 0, CLI_ARGS("acl", "--json", "--server", all.url));
	assert_non_null(strstr(look_text(json, "sentinel_rule"), "ACL SETUSER sneck reset on >PASSWORD "));
	assert_null(strstr(look_text(json, "rule"), "+select"));
	json_decref(json);
	snprintf(url, sizeof url, "%s/2", all.url);
	assert_int_equal(cli_run(&cli, &face, CLI_ARGS("acl", "--server", url)), 0);
	assert_non_null(strstr(cli_out(&cli), "+select"));
	/* REDISCLI_AUTH is for the server, whatever the URL has for the sentinels. */
	for (int i = 0; i < SENTINELS_SERVERS; i++)
		test_redis_ok(&all.servers[i], "ACL SETUSER default >other");
	snprintf(url, sizeof url, "%s?sentinel_user=sneck&sentinel_password=pw", all.url);
	cli_start_program(&cli, &face, "env",
	        CLI_ARGS("REDISCLI_AUTH=other", SNECK_BINARY, "run", "--server", url, "door", "true"));
	int code = cli_wait(&cli, 10000);
	if (code != 0)
		fail_msg("%d: %s", code, cli_err(&cli));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_rules_suffice_and_are_needed),
		cmocka_unit_test(test_what_is_wrong_is_named),
		cmocka_unit_test(test_the_url_is_read_as_it_is_meant),
	};
	return cmocka_run_group_tests(tests, up, down);
}
