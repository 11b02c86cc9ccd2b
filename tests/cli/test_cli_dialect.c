/* SPDX-License-Identifier: MIT */
/* The command on other programs' layouts: where the dialect is named, and what each command makes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli.h"
#include "rule.h"
#include "server.h"
#include "wait.h"

static struct test_server server;

static int start(void **state) {
	(void)state;
	unsetenv("SNECK_DIALECT");
	unsetenv("SNECK_HELD");
	if (test_server_start(&server, NULL) < 0)
		return -1;
	setenv("HOME", server.dir, 1);
	return 0;
}

static int stop(void **state) {
	(void)state;
	test_server_stop(&server);
	return 0;
}

static int clean(void **state) {
	(void)state;
	unsetenv("SNECK_DIALECT");
	test_redis_ok(&server, "FLUSHALL");
	return 0;
}

/* The type of key `x` while the command runs, and its token. */
static const char inside[] = "redis-cli -s \"${SNECK_SERVER#unix://}\" TYPE x; echo \"${SNECK_TOKEN-none}\"";

static void expect_under_lock(struct cli *cli, const char *expected) {
	if (strcmp(cli_out(cli), expected) != 0)
		fail_msg("'%s', not '%s'; %s", cli_out(cli), expected, cli_err(cli));
}

static void test_where_it_is_named(void **state) {
	(void)state;
	struct cli cli;
	char url[TEST_URL_MAX], path[512];

	assert_int_equal(cli_run(&cli, &server,
	                         CLI_ARGS("run", "--dialect", "redisson:lock", "x", "sh", "-c", inside)),
	        0);
	expect_under_lock(&cli, "hash\nnone\n");
	setenv("SNECK_DIALECT", "redisson:fenced", 1);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "x", "sh", "-c", inside)), 0);
	expect_under_lock(&cli, "hash\n1\n");
	/* The URL counts before the environment. */
	test_url_with(&server, url, "dialect=redisson:rwlock");
	assert_int_equal(
	        cli_run(&cli, &server,
	                CLI_ARGS("run", "--server", url, "x", "sh", "-c", "echo ${SNECK_TOKEN-none}")),
	        0);
	expect_under_lock(&cli, "none\n");
	unsetenv("SNECK_DIALECT");
	snprintf(path, sizeof path,
	        "mkdir -p %s/.config/sneck && echo dialect=redisson:fenced > "
	        "%s/.config/sneck/config",
	        server.dir, server.dir);
	assert_int_equal(system(path), 0);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "x", "sh", "-c", inside)), 0);
	expect_under_lock(&cli, "hash\n2\n");
	assert_int_equal(
	        cli_run(&cli, &server, CLI_ARGS("run", "--dialect", "native", "x", "sh", "-c", inside)), 0);
	assert_null(strstr(cli_out(&cli), "hash"));
	snprintf(path, sizeof path, "%s/.config/sneck/config", server.dir);
	assert_int_equal(remove(path), 0);
}

static void test_wrong_names(void **state) {
	(void)state;
	struct cli cli;
	char url[TEST_URL_MAX];

	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "--dialect", "redisson", "x", "true")), 64);
	assert_non_null(strstr(cli_err(&cli), "redisson:rwlock"));
	setenv("SNECK_DIALECT", "redisson", 1);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("ls")), 78);
	assert_non_null(strstr(cli_err(&cli), "redisson:lock"));
	unsetenv("SNECK_DIALECT");
	test_url_with(&server, url, "dialect=redisson:rwlock");
	assert_int_equal(cli_run(&cli, &server,
	                         CLI_ARGS("run", "--server", url, "--dialect", "redisson:lock", "x", "true")),
	        78);
	assert_non_null(strstr(cli_err(&cli), "name it once"));
}

static void test_looking_and_breaking(void **state) {
	(void)state;
	struct cli cli;

	test_redis_ok(&server, "HSET x J:7 2");
	test_redis_ok(&server, "HSET other field value");
	setenv("SNECK_DIALECT", "redisson:lock", 1);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("ls", "--names")), 0);
	assert_string_equal(cli_out(&cli), "x\n");
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("show", "x")), 0);
	assert_non_null(strstr(cli_out(&cli), "J:7"));
	assert_non_null(strstr(cli_out(&cli), "held 2 times"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-n", "x", "true")), 75);
	assert_non_null(strstr(cli_err(&cli), "J:7"));
	assert_int_equal(
	        cli_run(&cli, &server, CLI_ARGS("break", "--now", "--id", "WJ:7", "-m", "test", "x")), 0);
	assert_int_equal(test_redis_int(&server, "EXISTS x"), 0);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("doctor")), 1); /* it saves nothing */
	assert_non_null(strstr(cli_out(&cli), "PASS  rights"));
	assert_non_null(strstr(cli_out(&cli), "PASS  lock"));
	assert_null(strstr(cli_out(&cli), "FAIL"));
	unsetenv("SNECK_DIALECT");
}

static bool somebody_listens(void) {
	redisReply *reply = test_redis(&server, "PUBSUB CHANNELS redisson_*");
	bool any = reply && reply->elements > 0;
	freeReplyObject(reply);
	return any;
}

/* Do as `sneck acl` says; the URL of the user that it makes. */
static void make_user(char url[TEST_URL_MAX]) {
	struct cli cli;
	struct test_rule rule;

	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("acl", "-q", "--user", "u")), 0);
	test_rule_read(&rule, cli_out(&cli));
	test_rule_obey(&rule, &server, 1, NULL);
	snprintf(url, TEST_URL_MAX, "unix://%s?user=u&password=pw", server.socket_path);
}

/* The rule that `sneck acl` prints suffices for holding and for waiting, in each object. The server's log has
 * what it refused. */
static void test_the_rule_suffices(void **state) {
	(void)state;
	static const char *const dialects[] = { "redisson:lock", "redisson:rwlock", "redisson:fenced",
		"redisson:fair", NULL };

	for (const char *const *dialect = dialects; *dialect; dialect++) {
		char url[TEST_URL_MAX];
		struct cli holder, waiter;
		setenv("SNECK_DIALECT", *dialect, 1);
		make_user(url);
		test_redis_ok(&server, "SCRIPT FLUSH");
		test_redis_ok(&server, "ACL LOG RESET");
		cli_start(&holder, &server,
		        CLI_ARGS("run", "--server", url, "x", "sh", "-c", "echo in; read line"));
		assert_true(cli_wait_out(&holder, "in", 10000));
		cli_start(&waiter, &server, CLI_ARGS("run", "--server", url, "x", "echo", "then"));
		assert_true(WAIT_UNTIL(somebody_listens(), 10000));
		assert_int_equal(cli_wait(&holder, 10000), 1);
		assert_int_equal(cli_wait(&waiter, 10000), 0);
		assert_string_equal(cli_out(&waiter), "then\n");
		redisReply *log = test_redis(&server, "ACL LOG");
		assert_int_equal(log->elements, 0);
		freeReplyObject(log);
	}
	unsetenv("SNECK_DIALECT");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_where_it_is_named, clean),
		cmocka_unit_test_setup(test_wrong_names, clean),
		cmocka_unit_test_setup(test_looking_and_breaking, clean),
		cmocka_unit_test_setup(test_the_rule_suffices, clean),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
