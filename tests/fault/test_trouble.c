/* SPDX-License-Identifier: MIT */
/* Trouble that a program need not notice, or is told about in plain words: forgotten scripts, killed
 * connections, a paused or full server, slow and broken lines, and each error reply that a server can
 * give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "locks.h"
#include "proxy.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

static void forgotten_scripts_are_sent_again(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_error error = { 0 };
	for (int i = 0; i < 5; i++) {
		test_redis_ok(server, "SCRIPT FLUSH");
		sneck_hold *hold = test_take(a, "door", SNECK_READ, 0);
		test_redis_ok(server, "SCRIPT FLUSH");
		assert_result(0, sneck_renew(hold, 0, &error), &error);
		test_redis_ok(server, "SCRIPT FLUSH");
		sneck_acquire_options options = test_waiting(0);
		assert_result(0, sneck_upgrade(hold, &options, &error), &error);
		struct test_call call;
		test_redis_ok(server, "SCRIPT FLUSH");
		test_call_start(&call, b, "door", SNECK_WRITE, NULL);
		assert_true(test_await_members(server, "door", "w", 1, 2000));
		test_redis_ok(server, "SCRIPT FLUSH");
		assert_result(0, sneck_downgrade(hold, &error), &error);
		test_redis_ok(server, "SCRIPT FLUSH");
		test_release(hold);
		assert_result(0, test_call_join(&call), &call.error);
		test_redis_ok(server, "SCRIPT FLUSH");
		test_release(call.hold);
		assert_true(test_is_idle(server, "door"));
	}
	assert_int_equal(test_stats(a).losses, 0);
	sneck_close(a);
	sneck_close(b);
}

static void killed_connections_are_replaced(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_acquire_options options = test_waiting(5000);
	options.lease_ms = 600;
	for (int i = 0; i < 5; i++) {
		sneck_hold *hold = test_take_opts(a, "door", SNECK_WRITE, &options);
		struct test_call call;
		test_call_start(&call, b, "door", SNECK_WRITE, NULL);
		assert_true(test_await_members(server, "door", "w", 1, 2000));
		test_redis_ok(server, "CLIENT KILL TYPE normal SKIPME yes");
		test_redis_ok(server, "CLIENT KILL TYPE pubsub");
		uint64_t renewals = test_stats(a).renewals;
		if (i % 2)
			assert_true(WAIT_UNTIL(test_stats(a).renewals > renewals, 600));
		assert_int_equal(sneck_hold_state(hold), SNECK_HELD);
		test_release(hold);
		assert_result(0, test_call_join(&call), &call.error);
		test_release(call.hold);
		assert_true(test_is_idle(server, "door"));
	}
	assert_true(test_stats(a).connects >= 5);
	assert_int_equal(test_stats(a).losses, 0);
	sneck_close(a);
	sneck_close(b);
}

static void a_short_pause_is_waited_out(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	sneck_hold *hold = test_take(client, "window", SNECK_WRITE, 0);
	test_redis_ok(server, "CLIENT PAUSE 300 ALL");
	int64_t start_ms = test_now_ms();
	test_release(test_take(client, "door", SNECK_WRITE, 2000));
	assert_true(test_now_ms() - start_ms >= 250);
	assert_int_equal(sneck_hold_state(hold), SNECK_HELD);
	test_release(hold);
	sneck_close(client);
}

static void a_full_server_takes_no_locks_but_gives_them_back(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_error error = { 0 };
	sneck_acquire_options options = test_waiting(0);
	sneck_hold *writes = test_take(a, "door", SNECK_WRITE, 0);
	sneck_hold *reads = test_take(a, "window", SNECK_READ, 0);
	struct test_call call;
	test_call_start(&call, b, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	test_redis_ok(server, "CONFIG SET maxmemory 1");
	sneck_hold *none = NULL;
	assert_result(SNECK_ESERVER, sneck_acquire(a, "other", SNECK_WRITE, &options, &none, &error), &error);
	assert_string_equal(error.server, "OOM");
	assert_non_null(strstr(error.text, "maxmemory"));
	assert_result(0, sneck_renew(writes, 60000, &error), &error);
	assert_true(sneck_check(writes, 50000));
	test_release(reads);
	test_release(writes);
	/* The waiter is granted by the release, full or not, and gives it back as well. */
	assert_result(0, test_call_join(&call), &call.error);
	test_release(call.hold);
	test_redis_ok(server, "CONFIG SET maxmemory 0");
	assert_true(test_is_idle(server, "door"));
	assert_true(test_is_idle(server, "window"));
	assert_int_equal(test_redis_int(server, "EXISTS sneck:{other}"), 0);
	test_release(test_take(a, "other", SNECK_WRITE, 0));
	sneck_close(a);
	sneck_close(b);
}

static void a_slow_or_dribbling_line_is_only_slow(void **state) {
	(void)state;
	struct test_proxy proxy;
	test_proxy_start(&proxy, server->socket_path);
	for (int slow = 0; slow < 2; slow++) {
		if (slow)
			test_proxy_delay(&proxy, 40);
		else
			test_proxy_dribble(&proxy, true);
		sneck_client *a = test_open(proxy.url);
		sneck_client *b = test_open(proxy.url);
		sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 2000);
		struct test_call call;
		test_call_start(&call, b, "door", SNECK_READ, NULL);
		assert_true(test_await_members(server, "door", "r", 1, 3000));
		test_release(hold);
		assert_result(0, test_call_join(&call), &call.error);
		test_release(call.hold);
		assert_true(test_is_idle(server, "door"));
		assert_int_equal(test_stats(a).disconnects, 0);
		assert_int_equal(test_stats(a).resends, 0);
		sneck_close(a);
		sneck_close(b);
		test_proxy_calm(&proxy);
	}
	test_proxy_stop(&proxy);
}

/* Time spent on the way counts: the hold is never believed longer than the server keeps it. */
static void validity_counts_from_before_the_request(void **state) {
	(void)state;
	struct test_proxy proxy;
	test_proxy_start(&proxy, server->socket_path);
	sneck_client *client = test_open(proxy.url);
	test_release(test_take(client, "warm", SNECK_WRITE, 0));
	sneck_acquire_options options = test_waiting(5000);
	options.lease_ms = 400;
	options.fixed = 1;
	for (int hold_ms = 100; hold_ms <= 500; hold_ms += 200) {
		struct proxy_rule late = {
			.action = PROXY_HOLD_REPLY, .class = PROXY_SCRIPT, .nth = 1, .hold_ms = hold_ms
		};
		test_proxy_arm(&proxy, &late);
		sneck_hold *hold = NULL;
		int64_t start_ms = test_now_ms();
		int r = sneck_acquire(client, "door", SNECK_WRITE, &options, &hold, NULL);
		int64_t took_ms = test_now_ms() - start_ms;
		if (r == 0) {
			assert_true(sneck_hold_left_ms(hold) <= 400 - took_ms || took_ms > 400);
			int64_t server_left_ms =
			        (int64_t)test_score(server, "door", "W") - test_server_ms(server);
			assert_true(sneck_hold_left_ms(hold) <= (server_left_ms > 0 ? server_left_ms : 0));
			(void)sneck_release(hold);
		}
		assert_true(hold_ms < 400 ? r == 0 : true);
		assert_true(test_await_members(server, "door", "RWrwul", 0, 2000));
	}
	sneck_close(client);
	test_proxy_stop(&proxy);
}

/* Replies that are one late must never be taken for one's own. */
static void replies_of_others_are_not_believed(void **state) {
	(void)state;
	struct test_proxy proxy;
	test_proxy_start(&proxy, server->socket_path);
	sneck_client *other = test_open(server->url);
	sneck_hold *held = test_take(other, "taken", SNECK_WRITE, 0);
	for (int i = 0; i < 3; i++) {
		sneck_client *client = test_open_command_ms(proxy.url, 300);
		sneck_hold *mine = test_take(client, "mine", SNECK_WRITE, 0); /* its reply says "granted" */
		struct proxy_rule shift = { .action = PROXY_SHIFT, .class = PROXY_SCRIPT, .nth = 1 };
		test_proxy_arm(&proxy, &shift);
		sneck_hold *none = NULL;
		sneck_acquire_options options = test_waiting(i * 100);
		int r = sneck_acquire(client, "taken", SNECK_WRITE, &options, &none, NULL);
		if (r == 0)
			fail_msg("another's reply was believed");
		assert_int_not_equal(sneck_err_outcome(r), SNECK_OUTCOME_LOST);
		test_proxy_calm(&proxy);
		/* One answer that does not fit, and none on that connection is believed any more. */
		assert_true(WAIT_UNTIL(test_stats(client).disconnects >= 1, 2000));
		test_release(mine);
		assert_true(test_await_members(server, "mine", "RWrwul", 0, 2000));
		assert_true(test_await_members(server, "taken", "rwul", 0, 2000));
		sneck_close(client);
	}
	assert_int_equal(test_members(server, "taken", "W"), 1);
	test_release(held);
	sneck_close(other);
	test_proxy_stop(&proxy);
}

/* Two requests about one attempt in a row: the answer to the first, "wait", comes again in place of the
 * answer to the second, which would confirm what a message has granted. */
static void an_answer_that_comes_again_is_not_believed(void **state) {
	(void)state;
	struct test_proxy proxy;
	test_proxy_start(&proxy, server->socket_path);
	sneck_client *holder = test_open(server->url);
	sneck_client *client = test_open(proxy.url);
	for (int i = 0; i < 5; i++) {
		sneck_hold *held = test_take(holder, "door", SNECK_WRITE, 0);
		struct test_call call;
		test_call_start(&call, client, "door", SNECK_WRITE, NULL);
		assert_true(test_await_members(server, "door", "w", 1, 2000));
		uint64_t breaks = test_stats(client).disconnects;
		test_proxy_arm(&proxy,
		        &(struct proxy_rule){ .action = PROXY_SHIFT, .class = PROXY_SCRIPT, .nth = 1 });
		test_release(held);
		assert_result(0, test_call_join(&call), &call.error);
		assert_true(WAIT_UNTIL(test_stats(client).disconnects > breaks, 2000));
		test_proxy_calm(&proxy);
		assert_true(WAIT_UNTIL(sneck_hold_state(call.hold) == SNECK_HELD, 2000));
		assert_int_equal(test_members(server, "door", "W"), 1);
		assert_result(0, sneck_renew(call.hold, 0, &call.error), &call.error);
		test_release(call.hold);
	}
	assert_int_equal(test_stats(client).losses, 0);
	sneck_close(client);
	sneck_close(holder);
	test_proxy_stop(&proxy);
}

/* Each error line, in place of the answer to an acquire and to a release. */
static const struct {
	const char *line;
	int acquire; /* without waiting; 0: it is asked again and succeeds */
	const char *word;
} errors[] = {
	{ "-NOSCRIPT No matching script. Please use EVAL.", 0, "" },
	{ "-LOADING Redis is loading the dataset in memory", 0, "" },
	{ "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", 0, "" },
	{ "-OOM command not allowed when used memory > 'maxmemory'. script: abc, on @user_script:1.",
	        SNECK_ESERVER, "OOM" },
	{ "-MISCONF Redis is configured to save RDB snapshots", SNECK_ESERVER, "MISCONF" },
	{ "-NOAUTH Authentication required.", SNECK_EACCES, "NOAUTH" },
	{ "-NOPERM this user has no permissions to run the 'evalsha' command", SNECK_EACCES, "NOPERM" },
	{ "-WRONGTYPE Operation against a key holding the wrong kind of value", SNECK_ETYPE, "WRONGTYPE" },
	{ "-MOVED 3999 127.0.0.1:6381", SNECK_ENOTSUP, "MOVED" },
};

static void error_replies_have_their_own_meaning(void **state) {
	(void)state;
	struct test_proxy proxy;
	test_proxy_start(&proxy, server->socket_path);
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		sneck_client *client = test_open_command_ms(proxy.url, 500);
		test_release(test_take(client, "warm", SNECK_WRITE, 0));
		struct proxy_rule rule = {
			.action = PROXY_ANSWER, .class = PROXY_SCRIPT, .nth = 1, .line = errors[i].line
		};
		test_proxy_arm(&proxy, &rule);
		sneck_hold *hold = NULL;
		sneck_error error = { 0 };
		sneck_acquire_options options = test_waiting(errors[i].acquire ? 0 : 2000);
		int r = sneck_acquire(client, "door", SNECK_WRITE, &options, &hold, &error);
		if (r != errors[i].acquire)
			fail_msg("%s: %s %s", errors[i].line, r ? sneck_err_name(r) : "0", error.text);
		if (r != 0)
			assert_string_equal(error.server, errors[i].word);
		if (r == 0)
			test_release(hold);
		assert_true(test_await_members(server, "door", "RWrwul", 0, 2000));
		/* In place of the answer to a release: the hold goes all the same, or its lease does. */
		hold = test_take(client, "door", SNECK_WRITE, 0);
		test_proxy_arm(&proxy, &rule);
		r = sneck_release(hold);
		if (errors[i].acquire == 0)
			assert_result(0, r, NULL);
		else
			assert_int_not_equal(sneck_err_outcome(r), SNECK_OUTCOME_LOST);
		test_proxy_calm(&proxy);
		sneck_close(client);
		if (!test_await_members(server, "door", "RWrwul", 0, 2000))
			fail_msg("%s: the hold stayed", errors[i].line);
		test_redis_ok(server, "FLUSHALL");
	}
	test_proxy_stop(&proxy);
}

/* The time is up before the server has said anything. What it says then ends the wait; a place in the queue
 * is no reason to stay. */
static void a_wait_that_is_over_ends_with_the_answer(void **state) {
	(void)state;
	struct test_proxy proxy;
	test_proxy_start(&proxy, server->socket_path);
	sneck_client *holder = test_open(server->url);
	sneck_client *client = test_open_command_ms(proxy.url, 20000);
	test_release(test_take(client, "connected", SNECK_WRITE, 0));
	sneck_hold *hold = test_take(holder, "door", SNECK_WRITE, 0), *never;
	test_proxy_arm(&proxy, &(struct proxy_rule){ PROXY_HOLD_REPLY, PROXY_SCRIPT, 1, 200, NULL });
	sneck_acquire_options options = test_waiting(10);
	sneck_error error = { 0 };
	int64_t begin_ns = snecki_now_ns();
	assert_result(SNECK_ETIMEDOUT, sneck_acquire(client, "door", SNECK_WRITE, &options, &never, &error),
	        &error);
	assert_in_range((snecki_now_ns() - begin_ns) / NS_PER_MS, 100, 10000);
	assert_true(test_await_members(server, "door", "w", 0, 2000));
	test_release(hold);
	hold = test_take(client, "door", SNECK_WRITE, 2000);
	test_release(hold);
	sneck_close(client);
	sneck_close(holder);
	test_proxy_stop(&proxy);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(forgotten_scripts_are_sent_again),
		TEST(killed_connections_are_replaced),
		TEST(a_short_pause_is_waited_out),
		TEST(a_full_server_takes_no_locks_but_gives_them_back),
		TEST(a_slow_or_dribbling_line_is_only_slow),
		TEST(validity_counts_from_before_the_request),
		TEST(replies_of_others_are_not_believed),
		TEST(an_answer_that_comes_again_is_not_believed),
		TEST(error_replies_have_their_own_meaning),
		TEST(a_wait_that_is_over_ends_with_the_answer),
	};
	return cmocka_run_group_tests(tests, test_server_up, test_server_down);
}
