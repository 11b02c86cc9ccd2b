/* SPDX-License-Identifier: MIT */
/* sneck doctor: what is well passes, what is not is named with what to do, and the exit code says the
 * worst. */
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

static struct test_server server;

static int start(void **state) {
	(void)state;
	return test_server_start_tcp(&server, (const char *const[]){ "--appendonly", "yes", NULL });
}

static int stop(void **state) {
	(void)state;
	test_server_stop(&server);
	return 0;
}

static void has(const char *text, const char *part) {
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in: %s", part, text);
}

/* The finding about `check`, borrowed from `json`. */
static json_t *finding(json_t *json, const char *check) {
	size_t i;
	json_t *one;

	json_array_foreach(look_at(json, "checks"), i, one) {
		if (!strcmp(look_text(one, "check"), check))
			return one;
	}
	fail_msg("nothing was said about %s", check);
	return NULL;
}

/* Ask, and expect this one finding; others of the same run do not matter. */
static void expect(int code, const char *check, const char *result, const char *text) {
	json_t *json = look_json(&server, code, CLI_ARGS("doctor", "--json"));
	json_t *one = finding(json, check);

	assert_string_equal(look_text(one, "result"), result);
	has(look_text(one, "text"), text);
	if (strcmp(result, "pass") != 0)
		assert_true(strlen(look_text(one, "remedy")) > 10);
	else
		assert_true(json_is_null(look_at(one, "remedy")));
	json_decref(json);
}

static void test_a_good_server_passes(void **state) {
	static const char *const checks[] = { "reach", "version", "role", "eviction", "persistence",
		"replicas", "clock", "rights", "messages", "lock" };
	struct cli cli;

	(void)state;
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("doctor")), 0);
	for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
		char line[64];
		snprintf(line, sizeof(line), "PASS  %-12s", checks[i]);
		has(cli_out(&cli), line);
	}
	has(cli_out(&cli), "OK: this server is fit for locks (10 pass, 0 warn, 0 fail)\n");
	json_t *json = look_json(&server, 0, CLI_ARGS("doctor", "--json"));
	assert_string_equal(look_text(json, "verdict"), "pass");
	assert_int_equal(json_array_size(look_at(json, "checks")), 10);
	assert_in_range(look_number(json, "rtt_us"), 1, 1000000);
	json_decref(json);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("doctor", "-q")), 0);
	assert_string_equal(cli_out(&cli), "");
	/* Nothing stays behind but the memory of an idle lock. */
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("ls", "--names")), 0);
	assert_string_equal(cli_out(&cli), "");
}

static void test_eviction_is_warned_about(void **state) {
	(void)state;
	test_redis_ok(&server, "CONFIG SET maxmemory-policy volatile-lru");
	expect(1, "eviction", "warn", "volatile-lru can drop locks as soon as maxmemory is set");
	test_redis_ok(&server, "CONFIG SET maxmemory 100mb");
	expect(1, "eviction", "warn", "volatile-lru can drop locks when memory is full");
	test_redis_ok(&server, "CONFIG SET maxmemory 0");
	test_redis_ok(&server, "CONFIG SET maxmemory-policy noeviction");
	expect(0, "eviction", "pass", "noeviction");
}

static void test_persistence_is_looked_at(void **state) {
	(void)state;
	test_redis_ok(&server, "CONFIG SET appendonly no");
	expect(1, "persistence", "warn", "none: a restart frees all locks");
	test_redis_ok(&server, "CONFIG SET save %s", "3600 1");
	expect(1, "persistence", "warn", "snapshots alone");
	test_redis_ok(&server, "CONFIG SET save %s", "");
	test_redis_ok(&server, "CONFIG SET appendonly yes");
	expect(0, "persistence", "pass", "append-only file");
}

static bool has_replicas(int count) {
	redisReply *reply = test_redis(&server, "INFO replication");
	char line[32];

	snprintf(line, sizeof(line), "connected_slaves:%d", count);
	bool so = reply && strstr(reply->str, line);
	freeReplyObject(reply);
	return so;
}

static void test_replicas_and_their_role(void **state) {
	struct test_server replica;
	struct cli cli;
	char port[16];

	(void)state;
	snprintf(port, sizeof(port), "%d", server.port);
	assert_int_equal(test_server_start(&replica, (const char *const[]){ "--replicaof", "127.0.0.1", port,
	                                                     "--repl-diskless-sync-delay", "0", NULL }),
	        0);
	assert_true(WAIT_UNTIL(has_replicas(1), 20000));
	expect(1, "replicas", "warn", "1: a failover can forget");
	assert_int_equal(cli_run(&cli, &replica, CLI_ARGS("doctor")), 2);
	has(cli_err(&cli), "is a replica; connect to the primary instead");
	has(cli_out(&cli), "FAIL  reach");
	test_server_stop(&replica);
	assert_true(WAIT_UNTIL(has_replicas(0), 20000));
}

/* The server's clock is wrong by a minute, ahead and behind. */
static void test_a_wrong_clock_is_warned_about(void **state) {
	static const struct {
		const char *seconds, *text;
	} cases[] = { { "60", "ms ahead" }, { "-60", "ms behind" } };
	struct test_server wrong;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		setenv("SHIFT_SECONDS", cases[i].seconds, 1);
		setenv("LD_PRELOAD", SHIFTED_CLOCK, 1);
		int r = test_server_start(&wrong, (const char *const[]){ "--appendonly", "yes", NULL });
		unsetenv("LD_PRELOAD");
		unsetenv("SHIFT_SECONDS");
		assert_int_equal(r, 0);
		json_t *json = look_json(&wrong, 1, CLI_ARGS("doctor", "--json"));
		json_t *clock = finding(json, "clock");
		assert_string_equal(look_text(clock, "result"), "warn");
		has(look_text(clock, "text"), cases[i].text);
		has(look_text(clock, "remedy"), "NTP");
		/* Locks do not depend on it. */
		assert_string_equal(look_text(finding(json, "lock"), "result"), "pass");
		json_decref(json);
		test_server_stop(&wrong);
	}
}

static void test_rights_and_messages(void **state) {
	struct test_server as_user = server;

	(void)state;
	test_redis_ok(&server, "ACL SETUSER mute on >pw ~sneck:* resetchannels +@all");
	snprintf(as_user.url, sizeof(as_user.url), "redis://mute:pw@127.0.0.1:%d", server.port);
	json_t *json = look_json(&as_user, 2, CLI_ARGS("doctor", "--json"));
	assert_string_equal(look_text(finding(json, "rights"), "result"), "fail");
	has(look_text(finding(json, "rights"), "text"), "publish subscribe");
	has(look_text(finding(json, "rights"), "remedy"), "&sneck:!* +publish +subscribe");
	assert_string_equal(look_text(finding(json, "messages"), "result"), "warn");
	assert_string_equal(look_text(json, "server") + strlen("redis://127"), strchr(server.url, '.'));
	json_decref(json);
	/* One who may only look is well as a viewer. */
	test_redis_ok(&server, "ACL SETUSER eyes on >pw %%R~sneck:* resetchannels +@all");
	snprintf(as_user.url, sizeof(as_user.url), "redis://eyes:pw@127.0.0.1:%d", server.port);
	json = look_json(&as_user, 0, CLI_ARGS("doctor", "--json", "--role", "viewer"));
	assert_string_equal(look_text(finding(json, "rights"), "result"), "pass");
	json_decref(json);
	test_redis_ok(&server, "ACL SETUSER none on >pw ~other:* resetchannels +@all");
	snprintf(as_user.url, sizeof(as_user.url), "redis://none:pw@127.0.0.1:%d", server.port);
	json = look_json(&as_user, 2, CLI_ARGS("doctor", "--json"));
	has(look_text(finding(json, "rights"), "text"), "may run no scripts on ~sneck:*");
	assert_string_equal(look_text(finding(json, "lock"), "result"), "fail");
	json_decref(json);
}

static void test_what_cannot_be_reached_fails(void **state) {
	struct cli cli;

	(void)state;
	int64_t begun_ms = test_now_ms();
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("doctor", "--server", "redis://127.0.0.1:1")), 2);
	assert_true(test_now_ms() - begun_ms < 5000);
	has(cli_err(&cli), "127.0.0.1:1");
	has(cli_out(&cli), "FAIL  reach");
	has(cli_out(&cli), "NOT usable");
	json_t *json = look_json(
	        &server, 2, CLI_ARGS("doctor", "--json", "--server", "redis://nobody:wrong@127.0.0.1:1"));
	assert_string_equal(look_text(json, "verdict"), "fail");
	assert_string_equal(look_text(json, "server"), "redis://127.0.0.1:1");
	json_decref(json);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("doctor", "--server", "http://x")), 78);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_good_server_passes),
		cmocka_unit_test(test_eviction_is_warned_about),
		cmocka_unit_test(test_persistence_is_looked_at),
		cmocka_unit_test(test_replicas_and_their_role),
		cmocka_unit_test(test_a_wrong_clock_is_warned_about),
		cmocka_unit_test(test_rights_and_messages),
		cmocka_unit_test(test_what_cannot_be_reached_fails),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
