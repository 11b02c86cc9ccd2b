/* SPDX-License-Identifier: MIT */
/* Waiting in line: the order, what it costs, who leaves it, and what the dead leave behind. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "locks.h"
#include "procs.h"
#include "proxy.h"
#include "topology.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

enum { WAITERS = 20 };

/* Scripts that the lock's server has run. */
static long long scripts_run(void) {
	redisReply *reply = test_redis(test_owner("door"), "INFO commandstats");
	assert_non_null(reply);
	long long calls = 0;
	const char *at = reply->str;
	while ((at = strstr(at, "cmdstat_eval"))) {
		at = strstr(at, "calls=") + strlen("calls=");
		calls += strtoll(at, NULL, 10);
	}
	freeReplyObject(reply);
	return calls;
}

/* One behind the other, each in the queue before the next one comes. */
static void line_up(
        sneck_client **clients, struct test_call *calls, int n, const char *name, const char *url) {
	for (int i = 0; i < n; i++) {
		clients[i] = test_open(url);
		test_call_start(&calls[i], clients[i], name, SNECK_WRITE, NULL);
		assert_true(test_await_members(server, name, "w", i + 1, 3000));
	}
}

static void first_come_first_served_by_direct_hand_off(void **state) {
	(void)state;
	sneck_client *clients[WAITERS];
	struct test_call calls[WAITERS];
	sneck_client *holder = test_open(server->url);
	sneck_hold *hold = test_take(holder, "door", SNECK_WRITE, 0);
	line_up(clients, calls, WAITERS, "door", server->url);

	uint64_t beats = 0, token = sneck_hold_token(hold);
	for (int i = 0; i < WAITERS; i++)
		beats += test_stats(clients[i]).beats;
	long long before = scripts_run();
	int64_t start_ms = test_now_ms();
	for (int i = 0; i < WAITERS; i++) {
		test_release(hold);
		assert_result(0, test_call_join(&calls[i]), &calls[i].error);
		hold = calls[i].hold;
		assert_true(sneck_hold_token(hold) > token);
		token = sneck_hold_token(hold);
		if (i + 1 < WAITERS)
			assert_false(atomic_load(&calls[i + 1].done));
	}
	test_release(hold);
	assert_true(test_now_ms() - start_ms <= WAITERS * 20 + TEST_SLACK_MS);
	uint64_t beats_after = 0;
	for (int i = 0; i < WAITERS; i++)
		beats_after += test_stats(clients[i]).beats;
	/* A release and a claim each, the look of a new head, and what the clock brought. */
	long long ran = scripts_run() - before;
	assert_true(ran >= WAITERS + 1);
	assert_true(ran <= 3 * (WAITERS + 1) + (long long)(beats_after - beats));
	assert_true(test_is_idle(server, "door"));
	for (int i = 0; i < WAITERS; i++) {
		assert_int_equal(test_stats(clients[i]).grants_by_message, 1);
		sneck_close(clients[i]);
	}
	sneck_close(holder);
}

static void cancel_ends_a_wait_at_once(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	struct test_call remote, local;
	sneck_acquire_options options = test_waiting(SNECK_WAIT_FOREVER);
	options.tag = 7;
	test_call_start(&remote, b, "door", SNECK_WRITE, &options);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	test_call_start(&local, a, "door", SNECK_WRITE, &options);
	assert_true(WAIT_UNTIL(test_stats(a).waiters == 1, 2000));
	assert_int_equal(sneck_cancel(b, 8), 0);
	assert_false(atomic_load(&remote.done));
	int64_t start_ms = test_now_ms();
	assert_int_equal(sneck_cancel(b, 7), 1);
	assert_int_equal(sneck_cancel(a, 7), 1);
	assert_result(SNECK_ECANCELED, test_call_join(&remote), &remote.error);
	assert_result(SNECK_ECANCELED, test_call_join(&local), &local.error);
	assert_true(test_now_ms() - start_ms <= TEST_SLACK_MS);
	assert_null(remote.hold);
	assert_true(test_await_members(server, "door", "rwul", 0, 1000));
	assert_int_equal(sneck_cancel(b, 7), 0);
	test_release(hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
}

static void *waits_then_closes(void *arg) {
	sneck_client *client = arg;
	sneck_acquire_options options = test_waiting(SNECK_WAIT_FOREVER);
	sneck_hold *hold = NULL;

	options.tag = 1;
	int r = sneck_acquire(client, "door", SNECK_WRITE, &options, &hold, NULL);
	sneck_close(client);
	return r == SNECK_ECANCELED ? arg : NULL;
}

/* It learns that it was cancelled while the other thread is still on its way out of sneck_cancel. */
static void whoever_is_cancelled_may_close(void **state) {
	(void)state;
	enum { TRIES = TEST_SANITIZED ? 40 : 100 };
	sneck_client *a = test_open(server->url);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	for (int i = 0; i < TRIES; i++) {
		sneck_client *b = test_open(server->url);
		pthread_t waiter;
		void *cancelled;
		assert_int_equal(pthread_create(&waiter, NULL, waits_then_closes, b), 0);
		assert_true(test_await_members(server, "door", "w", 1, 2000));
		assert_int_equal(sneck_cancel(b, 1), 1);
		assert_int_equal(pthread_join(waiter, &cancelled), 0);
		assert_non_null(cancelled);
	}
	test_release(hold);
	sneck_close(a);
}

static void those_who_give_up_leave_nothing(void **state) {
	(void)state;
	enum { IMPATIENT = 5 };
	sneck_client *a = test_open(server->url);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	sneck_client *clients[IMPATIENT];
	struct test_call calls[IMPATIENT];
	for (int i = 0; i < IMPATIENT; i++) {
		sneck_acquire_options options = test_waiting(100 + 30 * i);
		clients[i] = test_open(server->url);
		test_call_start(&calls[i], clients[i], "door", i % 2 ? SNECK_READ : SNECK_WRITE, &options);
	}
	for (int i = 0; i < IMPATIENT; i++)
		assert_result(SNECK_ETIMEDOUT, test_call_join(&calls[i]), &calls[i].error);
	assert_true(test_await_members(server, "door", "rwul", 0, 1000));
	assert_int_equal(test_members(server, "door", "RW"), 1);
	test_release(hold);
	assert_true(test_is_idle(server, "door"));
	for (int i = 0; i < IMPATIENT; i++)
		sneck_close(clients[i]);
	sneck_close(a);
}

/* A wait that ends in the very moment of the grant: whatever the call says, the server agrees. */
static void giving_up_at_the_moment_of_the_grant(void **state) {
	(void)state;
	enum { TRIES = TEST_SANITIZED ? 60 : 300 };
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	int granted = 0;
	for (int i = 0; i < TRIES; i++) {
		sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 1000);
		struct test_call call;
		sneck_acquire_options options = test_waiting(10000);
		options.tag = 1;
		test_call_start(&call, b, "door", SNECK_WRITE, &options);
		assert_true(test_await_members(server, "door", "w", 1, 2000));
		if (i % 2) {
			test_release(hold);
			sneck_cancel(b, 1);
		} else {
			sneck_cancel(b, 1);
			test_release(hold);
		}
		int r = test_call_join(&call);
		if (r == 0) {
			granted++;
			assert_int_equal(test_members(server, "door", "W"), 1);
			test_release(call.hold);
		} else {
			assert_result(SNECK_ECANCELED, r, &call.error);
			assert_true(test_await_members(server, "door", "RWrwul", 0, 1000));
		}
	}
	print_message("granted %d of %d\n", granted, TRIES);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
}

/* Fixed leases are never shared, so one process can fill the queue. It waits to be killed. */
static int play_crowd(const char *url, int n) {
	sneck_client *client = NULL;
	if (sneck_open(url, NULL, &client, NULL) != 0)
		return 3;
	for (int i = 0; i < n; i++) {
		sneck_acquire_options options = test_waiting(SNECK_WAIT_FOREVER);
		options.lease_ms = 5000;
		options.fixed = 1;
		options.owner = (uint64_t)i + 1;
		options.tag = (uint64_t)i + 1;
		if (sneck_acquire_start(client, "door", 4, SNECK_WRITE, &options, NULL) != 0)
			return 4;
	}
	for (;;)
		pause();
}

static void a_thousand_dead_cost_one_waiter_lease(void **state) {
	(void)state;
	enum { CROWD = TEST_SANITIZED ? 200 : 1000 };
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	char n[16];
	snprintf(n, sizeof(n), "%d", CROWD);
	const char *args[] = { "crowd", server->url, n, NULL };
	struct test_proc crowd;
	test_proc_start(&crowd, args);
	assert_true(test_await_members(server, "door", "w", CROWD, 10000));
	struct test_call alive;
	test_call_start(&alive, b, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", CROWD + 1, 2000));
	test_proc_signal(&crowd, SIGKILL);
	int64_t killed_ms = test_now_ms();
	test_release(hold);
	assert_result(0, test_call_join(&alive), &alive.error);
	assert_true(alive.end_ms - killed_ms <= SNECK_WAITER_LEASE_MS + SNECK_WAITER_BEAT_MS + TEST_SLACK_MS);
	test_release(alive.hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
}

/* Release to three in line, `disturb` goes on meanwhile; each is served within a beat. */
static void check_beats_serve(const char *url, void (*disturb)(void)) {
	enum { ROUNDS = 3 };
	sneck_client *clients[ROUNDS];
	struct test_call calls[ROUNDS];
	sneck_client *a = test_open(server->url);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	line_up(clients, calls, ROUNDS, "door", url);
	for (int i = 0; i < ROUNDS; i++) {
		disturb();
		int64_t start_ms = test_now_ms();
		test_release(hold);
		while (!atomic_load(&calls[i].done) && test_wait_step(start_ms + 5000))
			disturb();
		assert_result(0, test_call_join(&calls[i]), &calls[i].error);
		/* The first beat may be three quarters late: a session's beats leave together. */
		if (calls[i].end_ms - start_ms > SNECK_WAITER_BEAT_MS * 7 / 4 + TEST_SLACK_MS)
			fail_msg("served after %lld ms", (long long)(calls[i].end_ms - start_ms));
		hold = calls[i].hold;
	}
	test_release(hold);
	assert_true(test_is_idle(server, "door"));
	for (int i = 0; i < ROUNDS; i++)
		sneck_close(clients[i]);
	sneck_close(a);
}

static void kill_subscribers(void) {
	test_redis_ok(server, "CLIENT KILL TYPE pubsub");
}

static void while_subscriptions_are_killed_a_beat_serves(void **state) {
	(void)state;
	check_beats_serve(server->url, kill_subscribers);
}

static struct test_proxy proxy;

static void watch_messages_being_lost(void) {
	struct proxy_counts counts;
	test_proxy_counts(&proxy, &counts);
	assert_int_equal(counts.fired, counts.replies[PROXY_MESSAGE]);
}

static void without_messages_a_beat_serves(void **state) {
	(void)state;
	test_proxy_start(&proxy, server->socket_path);
	struct proxy_rule lose_all = { .action = PROXY_DROP, .class = PROXY_MESSAGE };
	test_proxy_arm(&proxy, &lose_all);
	check_beats_serve(proxy.url, watch_messages_being_lost);
	struct proxy_counts counts;
	test_proxy_counts(&proxy, &counts);
	assert_true(counts.fired >= 3);
	test_proxy_stop(&proxy);
}

int main(int argc, char **argv) {
	if (argc == 4 && strcmp(argv[1], "crowd") == 0)
		return play_crowd(argv[2], atoi(argv[3]));
	const struct CMUnitTest tests[] = {
		TEST(first_come_first_served_by_direct_hand_off),
		TEST(cancel_ends_a_wait_at_once),
		TEST(whoever_is_cancelled_may_close),
		TEST(those_who_give_up_leave_nothing),
		TEST(giving_up_at_the_moment_of_the_grant),
		TEST(a_thousand_dead_cost_one_waiter_lease),
		TEST(while_subscriptions_are_killed_a_beat_serves),
		TEST_PLAIN(without_messages_a_beat_serves),
	};
	return TEST_RUN(tests);
}
