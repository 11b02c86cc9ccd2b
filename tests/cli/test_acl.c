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
#include "rule.h"
#include "wait.h"

static struct test_server server;
static struct test_server as_user; /* the same server, with a URL that names a user */

static int start(void **state) {
	(void)state;
	if (test_server_start(&server, NULL) < 0)
		return -1;
	setenv("HOME", server.dir, 1); /* where no server has been looked at */
	unsetenv("XDG_CACHE_HOME");
	return 0;
}

static int stop(void **state) {
	(void)state;
	test_server_stop(&server);
	return 0;
}

/* Ask for the rule, and do as it says. */
static void make_user(const char *role, struct test_rule *rule) {
	struct cli cli;

	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("acl", "-q", "--role", role)), 0);
	test_rule_read(rule, cli_out(&cli));
	test_rule_obey(rule, &server, 1, NULL);
	as_user = server;
	snprintf(as_user.url, sizeof(as_user.url), "unix://%s?user=sneck-%s&password=pw", server.socket_path,
	        role);
}

static void begin_watching(void) {
	test_redis_ok(&server, "SCRIPT FLUSH");
	test_redis_ok(&server, "ACL LOG RESET");
	test_redis_ok(&server, "CONFIG RESETSTAT");
}

/* One question is asked in the hope of an answer, and works without one. */
static bool may_be_refused(const char *object) {
	return strcmp(object, "config|get") == 0;
}

static void all_was_used_and_nothing_refused(const struct test_rule *rule) {
	test_nothing_refused(&server, 1, may_be_refused);
	test_rule_all_used(rule, &server, 1);
}

/* A lock with a holder and a waiting reader of which there are no processes: nobody else calls anything. */
static void plant(const char *name) {
	redisReply *time = test_redis(&server, "TIME");
	long long now = strtoll(time->element[0]->str, NULL, 10) * 1000;

	freeReplyObject(time);
	test_redis_ok(&server,
	        "ZADD sneck:{%s} %lld000 #1 %lld Wghost:1:x.1 %lld rghost:2:y.1 %lld lghost:2:y.1", name, now,
	        now + 60000, -4000000000000000 + now, 100000000000000 + now + 60000);
}

/* ---- Holder ---------------------------------------------------------------------------------*/

static void test_a_holder_lives_its_life(void **state) {
	struct cli holder, waiter, cli;
	struct test_rule rule;

	(void)state;
	make_user("holder", &rule);
	begin_watching();
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("try", "fresh")), 0);
	look_hold(&holder, &as_user, "demo", CLI_ARGS("-m", "mine"));
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("run", "-n", "demo", "true")), 75);
	assert_non_null(strstr(cli_err(&cli), "note:    mine\n"));
	cli_start(&waiter, &as_user, CLI_ARGS("run", "-s", "demo", "echo", "got"));
	/* The connection for messages asks after a while whether anybody is there. */
	assert_true(WAIT_UNTIL(test_calls(&server, 1, "ping") > 0, 20000));
	assert_int_equal(cli_wait(&holder, 10000), 0);
	assert_int_equal(cli_wait(&waiter, 10000), 0);
	assert_string_equal(cli_out(&waiter), "got\n");
	all_was_used_and_nothing_refused(&rule);
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("doctor")), 1);
	assert_non_null(strstr(cli_out(&cli), "PASS  rights"));
	assert_non_null(strstr(cli_out(&cli), "PASS  messages"));
	assert_non_null(strstr(cli_out(&cli), "PASS  lock"));
}

/* The doctor names each right that is taken away, and no other; a lock that then fails says it too. */
static void test_each_missing_right_is_named(void **state) {
	struct test_rule rule;
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
		test_redis_ok(&server, "ACL SETUSER sneck-holder -%s", command);
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
		test_redis_ok(&server, "ACL SETUSER sneck-holder +%s", command);
	}
}

/* The warning about a server that drops locks reaches those who hold by the rule, once; whoever may not
 * ask is not told, and the question stays open. */
static void test_a_holder_is_warned_of_eviction(void **state) {
	struct test_rule rule;
	struct cli cli;

	(void)state;
	make_user("holder", &rule);
	test_redis_ok(&server, "CONFIG SET maxmemory 100mb");
	test_redis_ok(&server, "CONFIG SET maxmemory-policy allkeys-lru");
	setenv("XDG_CACHE_HOME", server.dir, 1);
	test_redis_ok(&server, "ACL SETUSER sneck-holder -info");
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("run", "demo", "true")), 0);
	assert_string_equal(cli_err(&cli), "");
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("run", "-v", "demo", "true")), 0);
	assert_non_null(strstr(cli_err(&cli), "needs +info"));
	test_redis_ok(&server, "ACL SETUSER sneck-holder +info");
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("run", "demo", "true")), 0);
	assert_non_null(strstr(cli_err(&cli), "allkeys-lru"));
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("run", "demo", "true")), 0);
	assert_string_equal(cli_err(&cli), "");
	unsetenv("XDG_CACHE_HOME");
	test_redis_ok(&server, "CONFIG SET maxmemory-policy noeviction");
	test_redis_ok(&server, "CONFIG SET maxmemory 0");
}

/* ---- Viewer, operator -----------------------------------------------------------------------*/

static void test_a_viewer_looks(void **state) {
	struct test_rule rule;
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
	all_was_used_and_nothing_refused(&rule);
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("doctor", "--role", "viewer")), 1);
	assert_non_null(strstr(cli_out(&cli), "PASS  rights"));
	/* And no more than that. */
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("run", "-n", "fresh", "true")), 77);
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("break", "planted", "--id", id, "-m", "x")), 77);
	assert_int_equal(look_count(&server, "planted", "holder_count"), 1);
	test_redis_ok(&server, "DEL sneck:{planted}");
}

static void test_an_operator_breaks(void **state) {
	struct test_rule rule;
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
	all_was_used_and_nothing_refused(&rule);
	test_redis_ok(&server, "DEL sneck:{planted}");
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
