/* SPDX-License-Identifier: MIT */
/* The two lines to the server: what a client does the moment one of them is there again, or says what
 * it cannot mean. The results alone do not show it (a heartbeat, or the next trouble, would make up for
 * it later), so these look at how soon and how often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "locks.h"
#include "proxy.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

/* Who waits and had nobody listening for a moment asks whether it was granted meanwhile. Left to the
 * heartbeats, as many looks would take three quarters of a beat each at the very least. */
static void whoever_hears_again_looks_at_once(void **state) {
	(void)state;
	enum { TIMES = 10, SOON_MS = TIMES * SNECK_WAITER_BEAT_MS * 3 / 4 };
	sneck_client *holder = test_open(server->url);
	sneck_client *waiter = test_open(server->url);
	sneck_hold *hold = test_take(holder, "door", SNECK_WRITE, 0);
	struct test_call call;
	test_call_start(&call, waiter, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 3000));
	int64_t begin_ms = test_now_ms();
	for (int i = 0; i < TIMES; i++) {
		uint64_t beats = test_stats(waiter).beats; /* before: it may be heard again very soon */
		assert_true(WAIT_UNTIL(test_redis_int(server, "CLIENT KILL TYPE pubsub") > 0, 5000));
		assert_true(WAIT_UNTIL(test_stats(waiter).beats > beats, 5000));
	}
	if (test_now_ms() - begin_ms > SOON_MS / 2)
		fail_msg("%d looks took %lld ms", TIMES, (long long)(test_now_ms() - begin_ms));
	test_release(hold);
	assert_result(0, test_call_join(&call), &call.error);
	test_release(call.hold);
	sneck_close(waiter);
	sneck_close(holder);
}

/* The server may have forgotten everything while nobody was connected. Left to the watchdog, a holder would
 * learn it a third of its lease later. */
static void whoever_is_connected_again_looks_at_once(void **state) {
	(void)state;
	struct test_proxy proxy;
	test_proxy_start(&proxy, server->socket_path);
	sneck_client *client = test_open(proxy.url);
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	test_redis_ok(server, "FLUSHALL");
	int64_t begin_ms = test_now_ms();
	test_proxy_cut_all(&proxy);
	test_release(test_take(client, "other", SNECK_WRITE, 5000)); /* it connects when it has a reason to */
	assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_LOST, 20000));
	if (test_now_ms() - begin_ms > SNECK_LEASE_DEFAULT_MS / 6)
		fail_msg("told after %lld ms", (long long)(test_now_ms() - begin_ms));
	assert_result(SNECK_ELOST, sneck_release(hold), NULL);
	sneck_close(client);
	test_proxy_stop(&proxy);
}

/* What will not pass is told at once, however long the caller would wait. */
static void an_error_that_lasts_is_not_waited_for(void **state) {
	(void)state;
	char key[160];
	sneck_client *client = test_open(server->url);
	sneck_acquire_options options = test_waiting(8000);
	sneck_hold *hold = NULL;
	sneck_error error = { 0 };
	test_redis_ok(server, "SET %s value", test_key("door", key));
	int64_t begin_ms = test_now_ms();
	assert_result(
	        SNECK_ETYPE, sneck_acquire(client, "door", SNECK_WRITE, &options, &hold, &error), &error);
	if (test_now_ms() - begin_ms > 4000)
		fail_msg("told after %lld ms", (long long)(test_now_ms() - begin_ms));
	sneck_close(client);
}

/* A release has a time of its own, whether the server answers or not; it goes on in the background. */
static void a_release_returns_though_nobody_answers(void **state) {
	(void)state;
	struct test_proxy proxy;
	test_proxy_start(&proxy, server->socket_path);
	sneck_client *client = test_open_command_ms(proxy.url, 300);
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	test_proxy_silence(&proxy, true, true);
	int64_t begin_ms = test_now_ms();
	assert_result(SNECK_EUNKNOWN, sneck_release(hold), NULL);
	if (test_now_ms() - begin_ms > 300 + TEST_SLACK_MS)
		fail_msg("back after %lld ms", (long long)(test_now_ms() - begin_ms));
	test_proxy_calm(&proxy);
	assert_true(test_await_members(server, "door", "W", 0, 5000));
	sneck_close(client);
	test_proxy_stop(&proxy);
}

/* Whoever read one answer that is not its own may be out of step with all that follow. */
static void an_answer_that_does_not_fit_ends_the_connection(void **state) {
	(void)state;
	struct test_proxy proxy;
	test_proxy_start(&proxy, server->socket_path);
	sneck_client *client = test_open(proxy.url);
	test_release(test_take(client, "other", SNECK_WRITE, 0));
	uint64_t before = test_stats(client).disconnects;
	const struct proxy_rule strange = {
		.action = PROXY_REPLACE, .class = PROXY_SCRIPT, .nth = 1, .line = "+OK"
	};
	test_proxy_arm(&proxy, &strange);
	/* It was executed: asked again, on another connection, the same hold is found. */
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 3000);
	assert_int_equal(test_stats(client).disconnects, before + 1);
	assert_int_equal(test_members(server, "door", "W"), 1);
	test_release(hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(client);
	test_proxy_stop(&proxy);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(whoever_hears_again_looks_at_once),
		TEST(whoever_is_connected_again_looks_at_once),
		TEST(an_error_that_lasts_is_not_waited_for),
		TEST(a_release_returns_though_nobody_answers),
		TEST(an_answer_that_does_not_fit_ends_the_connection),
	};
	return cmocka_run_group_tests(tests, test_server_up, test_server_down);
}
