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
		assert_true(WAIT_UNTIL(test_redis_int(server, "CLIENT KILL TYPE pubsub") > 0, 5000));
		uint64_t beats = test_stats(waiter).beats;
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
		TEST(an_answer_that_does_not_fit_ends_the_connection),
	};
	return cmocka_run_group_tests(tests, test_server_up, test_server_down);
}
