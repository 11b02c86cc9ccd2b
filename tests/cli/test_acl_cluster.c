/* SPDX-License-Identifier: MIT */
/* sneck acl in a cluster, where other commands are called and users are known to each node alone: the rule
 * makes a user who can live the life of its role, uses all of it, and misses each part of it.
 *
 * As in test_acl.c the nodes' ACL logs and statistics are the witnesses, all of them together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster.h"
#include "locks.h"
#include "look.h"
#include "rule.h"
#include "wait.h"

enum { MANY_LOCKS = 160 };

static struct test_cluster cluster;
static struct test_server face, as_user; /* the administrator's, and the user's */

static int start(void **state) {
	(void)state;
	if (test_cluster_start(&cluster, NULL) < 0)
		return -1;
	face = test_cluster_face(&cluster, CLUSTER_NODES);
	setenv("HOME", face.dir, 1);
	unsetenv("XDG_CACHE_HOME");
	return 0;
}

static int stop(void **state) {
	(void)state;
	test_cluster_stop(&cluster);
	return 0;
}

/* ---- Rules --------------------------------------------------------------------------------------*/

/* Ask for the rule, and do on every node as it says. */
static void make_user(const char *dialect, const char *role, struct test_rule *rule) {
	struct cli cli;
	char url[TEST_URL_MAX];

	assert_int_equal(
	        cli_run(&cli, &face, CLI_ARGS("acl", "-q", "--dialect", dialect, "--role", role)), 0);
	test_rule_read(rule, cli_out(&cli));
	test_rule_obey(rule, cluster.nodes, CLUSTER_NODES, NULL);
	as_user = face;
	snprintf(as_user.url, sizeof as_user.url, "%s",
	        test_url_with(&face, url, "dialect=%s&user=sneck-%s&password=pw", dialect, role));
}

static void set_right(const char *role, char sign, const char *command) {
	for (int i = 0; i < CLUSTER_NODES; i++)
		test_redis_ok(&cluster.nodes[i], "ACL SETUSER sneck-%s %s%s", role, sign == '+' ? "+" : "-",
		        command);
}

/* ---- Witnesses ----------------------------------------------------------------------------------*/

static void begin_watching(void) {
	for (int i = 0; i < CLUSTER_NODES; i++) {
		if (i < CLUSTER_PRIMARIES)
			test_redis_ok(&cluster.nodes[i], "SCRIPT FLUSH");
		test_redis_ok(&cluster.nodes[i], "ACL LOG RESET");
		test_redis_ok(&cluster.nodes[i], "CONFIG RESETSTAT");
	}
}

static long calls(const char *command) {
	return test_calls(cluster.nodes, CLUSTER_NODES, command);
}

/* What the doctor asks in the hope of an answer, and says that it could not see. */
static bool may_be_refused(const char *object) {
	return !strcmp(object, "config|get") || !strcmp(object, "cluster|info") ||
	       !strcmp(object, "cluster|shards");
}

static void nothing_was_refused(void) {
	test_nothing_refused(cluster.nodes, CLUSTER_NODES, may_be_refused);
}

/* ---- Lives --------------------------------------------------------------------------------------*/

/* Wait in vain for so many locks that their channels are not kept. */
static void stop_listening(void) {
	sneck_client *holder = test_open(as_user.url), *waiter = test_open(as_user.url);
	sneck_acquire_options options = test_waiting(5);

	for (int i = 0; i < MANY_LOCKS && calls("sunsubscribe") == 0; i++) {
		char name[32];
		snprintf(name, sizeof name, "many-%d", i);
		sneck_hold *hold = test_take(holder, name, SNECK_WRITE, 0), *none = NULL;
		assert_result(SNECK_ETIMEDOUT,
		        sneck_acquire(waiter, name, SNECK_WRITE, &options, &none, NULL), NULL);
		test_release(hold);
	}
	assert_true(WAIT_UNTIL(calls("sunsubscribe") > 0, 10000));
	sneck_close(waiter);
	sneck_close(holder);
}

/* A lock that is taken while its slot is being moved is at the new place already. */
static void take_while_it_moves(void) {
	char key[] = "sneck:{moved}";
	int slot = test_cluster_slot(&cluster, key), from = test_cluster_owner(&cluster, key);
	int to = (from + 1) % CLUSTER_PRIMARIES;
	struct cli cli;

	test_cluster_move_begin(&cluster, slot, from, to);
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("run", "moved", "true")), 0);
	while (test_cluster_move_keys(&cluster, slot, from, to, 100) > 0)
		;
	test_cluster_move_end(&cluster, slot, from, to);
	test_cluster_settle(&cluster);
}

static void a_holder_lives_its_life(void **state) {
	struct cli holder, waiter, cli;
	struct test_rule rule;

	(void)state;
	make_user("native", "holder", &rule);
	begin_watching();
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("try", "fresh")), 0);
	look_hold(&holder, &as_user, "demo", CLI_ARGS("-m", "mine"));
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("run", "-n", "demo", "true")), 75);
	assert_non_null(strstr(cli_err(&cli), "note:    mine\n"));
	cli_start(&waiter, &as_user, CLI_ARGS("run", "-s", "demo", "echo", "got"));
	stop_listening();
	take_while_it_moves();
	/* The connection for messages asks after a while whether anybody is there. */
	assert_true(WAIT_UNTIL(calls("ping") > 0, 20000));
	assert_int_equal(cli_wait(&holder, 10000), 0);
	assert_int_equal(cli_wait(&waiter, 10000), 0);
	assert_string_equal(cli_out(&waiter), "got\n");
	nothing_was_refused();
	test_rule_all_used(&rule, cluster.nodes, CLUSTER_NODES);
	(void)cli_run(&cli, &as_user, CLI_ARGS("doctor"));
	assert_non_null(strstr(cli_out(&cli), "PASS  rights"));
	assert_non_null(strstr(cli_out(&cli), ": a primary of a cluster"));
}

/* By each kind of channel: whoever waits is woken by a message. */
static void holders_of_other_layouts_live_theirs(void **state) {
	static const char *const dialects[] = { "redisson:lock", "redisson:rwlock", "redisson:fenced",
		"redisson:fair", "counted", "intent" };
	struct cli holder, waiter;
	struct test_rule rule;

	(void)state;
	for (size_t i = 0; i < sizeof dialects / sizeof dialects[0]; i++) {
		bool sharded = !strncmp(dialects[i], "redisson", 8);
		make_user(dialects[i], "holder", &rule);
		begin_watching();
		look_hold(&holder, &as_user, "demo", CLI_ARGS("-q"));
		cli_start(&waiter, &as_user, CLI_ARGS("run", "demo", "echo", "got"));
		assert_true(WAIT_UNTIL(calls(sharded ? "ssubscribe" : "subscribe") > 0, 10000));
		assert_int_equal(cli_wait(&holder, 10000), 0);
		assert_int_equal(cli_wait(&waiter, 10000), 0);
		assert_string_equal(cli_out(&waiter), "got\n");
		assert_true(calls(sharded ? "spublish" : "publish") > 0);
		nothing_was_refused();
	}
}

static void a_viewer_looks_and_an_operator_breaks(void **state) {
	struct cli holder, cli;
	struct test_rule rule;
	char id[128];

	(void)state;
	look_hold(&holder, &face, "planted", CLI_ARGS("-q"));
	make_user("native", "viewer", &rule);
	begin_watching();
	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("ls", "--names", "plant*")), 0);
	assert_string_equal(cli_out(&cli), "planted\n");
	assert_int_equal(look_count(&as_user, "planted", "holder_count"), 1);
	nothing_was_refused();
	json_t *json = look_json(&as_user, 0, CLI_ARGS("show", "--json", "planted"));
	snprintf(id, sizeof id, "%s", look_text(json, "lock.holders.0.id"));
	json_decref(json);
	make_user("native", "operator", &rule);
	begin_watching();
	assert_int_equal(
	        cli_run(&cli, &as_user, CLI_ARGS("break", "planted", "--id", id, "-m", "x", "--now")), 0);
	assert_int_equal(look_count(&as_user, "planted", "holder_count"), 0);
	(void)cli_run(&cli, &as_user, CLI_ARGS("doctor", "--role", "operator"));
	assert_non_null(strstr(cli_out(&cli), "PASS  rights"));
	nothing_was_refused();
	cli_kill(&holder);
}

/* ---- What is missing ----------------------------------------------------------------------------*/

/* As many primaries say so. */
static void expect_missing(const char *command, int nodes) {
	json_t *json = look_json(&as_user, 2, CLI_ARGS("doctor", "--json")), *check;
	char expected[64];
	size_t i, found = 0;

	snprintf(expected, sizeof expected, "this user may not: %s", command);
	json_array_foreach(look_at(json, "checks"), i, check) {
		if (strcmp(look_text(check, "check"), "rights") != 0)
			continue;
		const char *said = strstr(look_text(check, "text"), "this user may not");
		found += said && !strcmp(said, expected);
	}
	json_decref(json);
	if (found != (size_t)nodes)
		fail_msg("%s is missing on %d nodes, and on %zu it is said", command, nodes, found);
}

/* Without the map nothing can be asked, and that is said. */
static void expect_no_map(void) {
	struct cli cli;

	assert_int_equal(cli_run(&cli, &as_user, CLI_ARGS("run", "demo", "true")), 77);
	assert_non_null(strstr(cli_err(&cli), "cluster|slots"));
}

/* Of the other layouts what is different in a cluster; the rest of their tables is asked for in the same way.
 */
static bool is_left_out(const char *dialect, const char *command) {
	static const char *const ours[] = { "publish", "subscribe", "unsubscribe", "spublish", "ssubscribe",
		"sunsubscribe", "asking", "cluster|slots" };

	if (!strcmp(command, "info"))
		return true; /* locks do not need it */
	for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
		if (!strcmp(command, ours[i]))
			return false;
	return strcmp(dialect, "native") != 0;
}

static void each_missing_right_is_named(void **state) {
	static const char *const dialects[] = { "native", "redisson:rwlock", "counted" };
	struct test_rule rule;

	(void)state;
	for (size_t i = 0; i < sizeof dialects / sizeof dialects[0]; i++) {
		make_user(dialects[i], "holder", &rule);
		for (int j = 0; j < rule.count; j++) {
			const char *command = rule.words[j] + 1;
			if (rule.words[j][0] != '+' || is_left_out(dialects[i], command))
				continue;
			set_right("holder", '-', command);
			if (!strcmp(command, "cluster|slots"))
				expect_no_map();
			else
				expect_missing(command, CLUSTER_PRIMARIES);
			set_right("holder", '+', command);
		}
	}
}

/* Nodes do not tell each other of users. */
static void one_node_that_does_not_know_is_named(void **state) {
	struct test_rule rule;

	(void)state;
	make_user("native", "holder", &rule);
	for (int i = 0; i < CLUSTER_PRIMARIES; i++) {
		test_redis_ok(&cluster.nodes[i], "ACL SETUSER sneck-holder -zadd");
		expect_missing("zadd", 1);
		test_redis_ok(&cluster.nodes[i], "ACL SETUSER sneck-holder +zadd");
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_holder_lives_its_life),
		cmocka_unit_test(holders_of_other_layouts_live_theirs),
		cmocka_unit_test(a_viewer_looks_and_an_operator_breaks),
		cmocka_unit_test(each_missing_right_is_named),
		cmocka_unit_test(one_node_that_does_not_know_is_named),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
