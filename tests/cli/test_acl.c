/* SPDX-License-Identifier: MIT */
/* sneck acl: the rule that it prints makes a user who can live the life of its role, and has no right that
 * this life does not use.
 *
 * The server itself is the witness. Its ACL log has what was refused: nothing may be. Its statistics
 * have what was called, in scripts as well: all that the rule allows must be there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "look.h"
#include "wait.h"

enum { WORDS_MAX = 48, RULE_MAX = 1024 };

static struct test_server server;
static redisContext *redis;        /* the administrator's */
static struct test_server as_user; /* the same server, with a URL that names a user */

struct rule {
	char text[RULE_MAX];
	const char *words[WORDS_MAX];
	int count;
};

static int start(void **state) {
	(void)state;
	if (test_server_start(&server, NULL) < 0)
		return -1;
	setenv("HOME", server.dir, 1); /* where no server has been looked at */
	unsetenv("XDG_CACHE_HOME");
	redis = test_server_connect(&server);
	return redis ? 0 : -1;
}

static int stop(void **state) {
	(void)state;
	redisFree(redis);
	test_server_stop(&server);
	return 0;
}

static void admin(const char *format, ...) {
	va_list args;

	va_start(args, format);
	redisReply *reply = redisvCommand(redis, format, args);
	va_end(args);
	assert_non_null(reply);
	if (reply->type == REDIS_REPLY_ERROR)
		fail_msg("%s: %s", format, reply->str);
	freeReplyObject(reply);
}

/* Ask for the rule, and do as it says. */
static void make_user(const char *role, struct rule *rule) {
	struct cli cli;

	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("acl", "-q", "--role", role)), 0);
	snprintf(rule->text, sizeof(rule->text), "%.*s", (int)strcspn(cli_out(&cli), "\n"), cli_out(&cli));
	rule->count = 0;
	for (char *word = strtok(rule->text, " "); word; word = strtok(NULL, " ")) {
		assert_true(rule->count < WORDS_MAX);
		rule->words[rule->count++] = !strcmp(word, ">PASSWORD") ? ">pw" : word;
	}
	redisReply *reply = redisCommandArgv(redis, rule->count, rule->words, NULL);
	assert_non_null(reply);
	if (reply->type == REDIS_REPLY_ERROR)
		fail_msg("%s", reply->str);
	freeReplyObject(reply);
	as_user = server;
	snprintf(as_user.url, sizeof(as_user.url), "unix://%s?user=sneck-%s&password=pw", server.socket_path,
	        role);
}

static void begin_watching(void) {
	admin("SCRIPT FLUSH");
	admin("ACL LOG RESET");
	admin("CONFIG RESETSTAT");
}

/* How often it was called; `stats` is the answer to INFO commandstats. */
static long calls(const char *stats, const char *command) {
	char line[64];

	snprintf(line, sizeof(line), "cmdstat_%s:calls=", command);
	const char *at = strstr(stats, line);
	return at ? strtol(at + strlen(line), NULL, 10) : 0;
}

static bool was_called(const char *command) {
	redisReply *reply = redisCommand(redis, "INFO commandstats");

	assert_non_null(reply);
	bool called = calls(reply->str, command) > 0;
	freeReplyObject(reply);
	return called;
}

/* All that the rule allows was called; INFO is read first, before our own is counted. */
static void all_was_used(const struct rule *rule) {
	redisReply *reply = redisCommand(redis, "INFO commandstats");

	assert_non_null(reply);
	for (int i = 0; i < rule->count; i++) {
		if (rule->words[i][0] == '+' && calls(reply->str, rule->words[i] + 1) == 0)
			fail_msg("nobody called %s", rule->words[i] + 1);
	}
	freeReplyObject(reply);
}

/* One question is asked in the hope of an answer, and works without one. */
static void nothing_was_refused(void) {
	redisReply *log = redisCommand(redis, "ACL LOG 100");

	assert_non_null(log);
	assert_int_equal(log->type, REDIS_REPLY_ARRAY);
	for (size_t i = 0; i < log->elements; i++) {
		const redisReply *entry = log->element[i];
		const char *object = "", *reason = "";
		for (size_t j = 0; j + 1 < entry->elements; j += 2) {
			if (!strcmp(entry->element[j]->str, "object"))
				object = entry->element[j + 1]->str;
			if (!strcmp(entry->element[j]->str, "reason"))
				reason = entry->element[j + 1]->str;
		}
		if (strcmp(object, "config|get") != 0)
			fail_msg("refused (%s): %s", reason, object);
	}
	freeReplyObject(log);
}

/* A lock with a holder and a waiting reader of which there are no processes: nobody else calls anything. */
static void plant(const char *name) {
	redisReply *time = redisCommand(redis, "TIME");
	long long now = strtoll(time->element[0]->str, NULL, 10) * 1000;

	freeReplyObject(time);
	admin("ZADD sneck:{%s} %lld000 #1 %lld Wghost:1:x.1 %lld rghost:2:y.1 %lld lghost:2:y.1", name, now,
	        now + 60000, -4000000000000000 + now, 100000000000000 + now + 60000);
}

/* ---- Holder ---------------------------------------------------------------------------------*/

static void test_a_holder_lives_its_life(void **state) {
	struct cli holder, waiter, cli;
	struct rule rule;

	(void)state;
	make_user("holder", &rule);
	begin_watching();
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("try", "fresh")), 0);
	look_hold(&holder, &as_user, "demo", CLI_ARGS("-m", "mine"));
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("run", "-n", "demo", "true")), 75);
	assert_non_null(strstr(cli_err(&cli), "note:    mine\n"));
	cli_start(&waiter, &as_user, CLI_ARGS("run", "-s", "demo", "echo", "got"));
	/* The connection for messages asks after a while whether anybody is there. */
	assert_true(WAIT_UNTIL(was_called("ping"), 20000));
	assert_int_equal(cli_wait(&holder, 10000), 0);
	assert_int_equal(cli_wait(&waiter, 10000), 0);
	assert_string_equal(cli_out(&waiter), "got\n");
	nothing_was_refused();
	all_was_used(&rule);
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("doctor")), 1);
	assert_non_null(strstr(cli_out(&cli), "PASS  rights"));
	assert_non_null(strstr(cli_out(&cli), "PASS  messages"));
	assert_non_null(strstr(cli_out(&cli), "PASS  lock"));
}

/* The doctor names each right that is taken away, and no other; a lock that then fails says it too. */
static void test_each_missing_right_is_named(void **state) {
	struct rule rule;
	struct cli cli;
	char expected[64];

	(void)state;
	make_user("holder", &rule);
	for (int i = 0; i < rule.count; i++) {
		if (rule.words[i][0] != '+')
			continue;
		const char *command = rule.words[i] + 1;
		if (!strcmp(command, "info"))
			continue; /* locks do not need it */
		admin("ACL SETUSER sneck-holder -%s", command);
		json_t *json = look_json(&as_user, 2, CLI_ARGS("doctor", "--json"));
		size_t j;
		json_t *check;
		snprintf(expected, sizeof(expected), "this user may not: %s", command);
		json_array_foreach(look_at(json, "checks"), j, check) {
			if (!strcmp(look_text(check, "check"), "rights"))
				assert_string_equal(look_text(check, "text"), expected);
		}
		json_decref(json);
		if (!strcmp(command, "zadd")) {
			assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("run", "demo", "true")), 77);
			assert_non_null(strstr(cli_err(&cli), "+zadd"));
		}
		admin("ACL SETUSER sneck-holder +%s", command);
	}
}

/* The warning about a server that drops locks reaches those who hold by the rule, once; whoever may not
 * ask is not told, and the question stays open. */
static void test_a_holder_is_warned_of_eviction(void **state) {
	struct rule rule;
	struct cli cli;

	(void)state;
	make_user("holder", &rule);
	admin("CONFIG SET maxmemory 100mb");
	admin("CONFIG SET maxmemory-policy allkeys-lru");
	setenv("XDG_CACHE_HOME", server.dir, 1);
	admin("ACL SETUSER sneck-holder -info");
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("run", "demo", "true")), 0);
	assert_string_equal(cli_err(&cli), "");
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("run", "-v", "demo", "true")), 0);
	assert_non_null(strstr(cli_err(&cli), "needs +info"));
	admin("ACL SETUSER sneck-holder +info");
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("run", "demo", "true")), 0);
	assert_non_null(strstr(cli_err(&cli), "allkeys-lru"));
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("run", "demo", "true")), 0);
	assert_string_equal(cli_err(&cli), "");
	unsetenv("XDG_CACHE_HOME");
	admin("CONFIG SET maxmemory-policy noeviction");
	admin("CONFIG SET maxmemory 0");
}

/* ---- Viewer, operator -----------------------------------------------------------------------*/

static void test_a_viewer_looks(void **state) {
	struct rule rule;
	struct cli cli;
	char id[] = "Wghost:1:x.1";

	(void)state;
	make_user("viewer", &rule);
	plant("planted");
	begin_watching();
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("ls", "--names", "plant*")), 0);
	assert_string_equal(cli_out(&cli), "planted\n");
	assert_int_equal(look_count(&as_user, "planted", "waiter_count"), 1);
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("try", "fresh")), 0);
	nothing_was_refused();
	all_was_used(&rule);
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("doctor", "--role", "viewer")), 1);
	assert_non_null(strstr(cli_out(&cli), "PASS  rights"));
	/* And no more than that. */
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("run", "-n", "fresh", "true")), 77);
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("break", "planted", "--id", id, "-m", "x")), 77);
	assert_int_equal(look_count(&server, "planted", "holder_count"), 1);
	admin("DEL sneck:{planted}");
}

static void test_an_operator_breaks(void **state) {
	struct rule rule;
	struct cli cli;
	char id[] = "Wghost:1:x.1";

	(void)state;
	make_user("operator", &rule);
	plant("planted");
	begin_watching();
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("ls", "--names", "plant*")), 0);
	assert_string_equal(cli_out(&cli), "planted\n");
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("try", "fresh")), 0);
	assert_int_equal(
	        cli_run(&cli, &as_user, CLI_ARGS("break", "planted", "--id", id, "-m", "x", "--now")), 0);
	/* It has passed on to the reader that waited. */
	assert_int_equal(look_count(&as_user, "planted", "waiter_count"), 0);
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("doctor", "--role", "operator")), 1);
	assert_non_null(strstr(cli_out(&cli), "PASS  rights"));
	assert_non_null(strstr(cli_out(&cli), "PASS  eviction    noeviction"));
	nothing_was_refused();
	all_was_used(&rule);
	admin("DEL sneck:{planted}");
}

/* ---- The rule itself ------------------------------------------------------------------------*/

static void test_the_rule_follows_namespace_database_and_user(void **state) {
	struct cli cli;
	char url[160];

	(void)state;
	snprintf(url, sizeof(url), "unix://%s?db=3", server.socket_path);
	assert_int_equal(cli_run(&cli, &server,
	                         CLI_ARGS("acl", "--server", url, "--namespace", "jobs", "--user", "bob")),
	        0);
	assert_non_null(strstr(cli_out(&cli), "ACL SETUSER bob reset on >PASSWORD ~jobs:* &jobs:!* "));
	assert_non_null(strstr(cli_out(&cli), " +select\n"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("acl")), 0);
	assert_null(strstr(cli_out(&cli), "+select"));
	json_t *json = look_json(&server, 0, CLI_ARGS("acl", "--json", "--role", "viewer"));
	assert_string_equal(look_text(json, "role"), "viewer");
	assert_non_null(strstr(look_text(json, "rule"), " %R~sneck:* +"));
	json_decref(json);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_holder_lives_its_life),
		cmocka_unit_test(test_each_missing_right_is_named),
		cmocka_unit_test(test_a_holder_is_warned_of_eviction),
		cmocka_unit_test(test_a_viewer_looks),
		cmocka_unit_test(test_an_operator_breaks),
		cmocka_unit_test(test_the_rule_follows_namespace_database_and_user),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
