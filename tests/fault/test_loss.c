/* SPDX-License-Identifier: MIT */
/* A hold that is lost, or may be: the program is told before the server can give it to another, and
 * told again by every call that depends on it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "actor.h"
#include "locks.h"
#include "proxy.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

static int64_t wall_ms(void) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static sneck_hold *take_leased(sneck_client *client, int64_t lease_ms) {
	sneck_acquire_options options = test_waiting(0);
	options.lease_ms = lease_ms;
	return test_take_opts(client, "door", SNECK_WRITE, &options);
}

/* The state after `before`, seen on the descriptor and then in memory, or the test fails. */
static void await_state(sneck_hold *hold, sneck_state wanted, int timeout_ms) {
	if (!WAIT_UNTIL(sneck_hold_state(hold) == wanted, timeout_ms))
		fail_msg("still %s, not %s", sneck_state_name(sneck_hold_state(hold)),
		        sneck_state_name(wanted));
}

static void expect_state_event(sneck_client *client, sneck_hold *hold, sneck_state wanted) {
	sneck_event event;
	assert_true(test_next_event(client, &event, 1000));
	assert_int_equal(event.type, SNECK_EVENT_STATE);
	assert_int_equal(event.state, wanted);
	assert_ptr_equal(event.hold, hold);
}

static void assert_lost(sneck_client *client, sneck_hold *hold) {
	assert_int_equal(sneck_hold_state(hold), SNECK_LOST);
	assert_false(sneck_check(hold, 0));
	assert_int_equal(sneck_hold_left_ms(hold), 0);
	assert_true(test_readable(sneck_hold_fd(hold), 100));
	assert_result(SNECK_ELOST, sneck_renew(hold, 0, NULL), NULL);
	assert_int_equal(sneck_hold_state(hold), SNECK_LOST);
	int64_t start_ms = test_now_ms();
	assert_result(SNECK_ELOST, sneck_release(hold), NULL);
	assert_true(test_now_ms() - start_ms <= TEST_SLACK_MS);
	assert_true(test_stats(client).losses >= 1);
}

/* A server that is stopped in the middle of a lease: nothing refuses, nothing answers. */
static void silence_is_told_before_the_lease_ends(void **state) {
	(void)state;
	enum { LEASE = 1500 };
	sneck_client *client = test_open_command_ms(server->url, 300);
	sneck_hold *hold = take_leased(client, LEASE);
	int fd = sneck_hold_fd(hold);
	/* Right after a renewal, so that no other comes before the server stops. */
	uint64_t renewals = test_stats(client).renewals;
	assert_true(WAIT_UNTIL(test_stats(client).renewals > renewals, LEASE));
	int64_t deadline_ms = (int64_t)test_score(server, "door", "W");
	test_server_stopcont(server, true);
	assert_int_equal(sneck_hold_state(hold), SNECK_HELD);

	assert_true(test_readable(fd, LEASE));
	int64_t suspect_ms = wall_ms();
	assert_int_equal(sneck_hold_state(hold), SNECK_SUSPECT);
	assert_true(sneck_check(hold, 0)); /* it is still ours, for now */
	int64_t half_ms = deadline_ms - LEASE / 2;
	assert_true(suspect_ms >= half_ms - 50);
	assert_true(suspect_ms <= half_ms + TEST_SLACK_MS);
	expect_state_event(client, hold, SNECK_SUSPECT);
	await_state(hold, SNECK_LOST, LEASE);
	int64_t lost_ms = wall_ms();
	assert_true(lost_ms >= half_ms);
	assert_true(lost_ms <= deadline_ms + (TEST_SANITIZED ? 100 : 0));
	print_message("suspect %lld ms, lost %lld ms before the server's deadline\n",
	        (long long)(deadline_ms - suspect_ms), (long long)(deadline_ms - lost_ms));
	assert_false(sneck_check(hold, 0));
	expect_state_event(client, hold, SNECK_LOST);
	test_server_stopcont(server, false);
	assert_lost(client, hold);
	/* The client itself is well again. */
	hold = test_take(client, "door", SNECK_WRITE, 5000);
	test_release(hold);
	assert_true(test_await_members(server, "door", "RWrwul", 0, 2000));
	sneck_close(client);
}

/* Silence that ends in time: the doubt ends too, and nothing is lost. */
static void a_short_silence_is_survived(void **state) {
	(void)state;
	enum { LEASE = 2000 };
	struct test_proxy proxy;
	test_proxy_start(&proxy, server->socket_path);
	sneck_client *client = test_open_command_ms(proxy.url, 300);
	sneck_hold *hold = take_leased(client, LEASE);
	uint64_t token = sneck_hold_token(hold);
	test_proxy_silence(&proxy, true, true);
	await_state(hold, SNECK_SUSPECT, LEASE);
	expect_state_event(client, hold, SNECK_SUSPECT);
	test_proxy_calm(&proxy);
	await_state(hold, SNECK_HELD, LEASE / 2);
	expect_state_event(client, hold, SNECK_HELD);
	assert_false(test_readable(sneck_hold_fd(hold), 0));
	assert_true(sneck_hold_token(hold) == token);
	test_release(hold);
	assert_true(test_await_members(server, "door", "RWrwul", 0, 2000));
	assert_int_equal(test_stats(client).losses, 0);
	sneck_close(client);
	test_proxy_stop(&proxy);
}

static void what_is_gone_from_the_server_is_lost(void **state) {
	(void)state;
	const char *ways[] = { "FLUSHALL", "DEL sneck:{door}" };
	for (int i = 0; i < 2; i++) {
		sneck_client *client = test_open(server->url);
		sneck_hold *hold = take_leased(client, 900);
		int fd = sneck_hold_fd(hold);
		test_redis_ok(server, ways[i]);
		int64_t start_ms = test_now_ms();
		assert_true(test_readable(fd, 900)); /* the next renewal finds out */
		assert_true(test_now_ms() - start_ms <= 300 + TEST_SLACK_MS);
		await_state(hold, SNECK_LOST, 100);
		expect_state_event(client, hold, SNECK_LOST);
		assert_lost(client, hold);
		/* Renewal never makes it again. */
		assert_int_equal(test_members(server, "door", "RW"), 0);

		/* And if no renewal was due meanwhile, release and renew find out. */
		hold = test_take(client, "door", SNECK_WRITE, 0);
		test_redis_ok(server, ways[i]);
		assert_result(SNECK_ELOST, sneck_renew(hold, 0, NULL), NULL);
		assert_lost(client, hold);
		hold = test_take(client, "door", SNECK_READ, 0);
		test_redis_ok(server, ways[i]);
		assert_result(SNECK_ELOST, sneck_release(hold), NULL);
		hold = test_take(client, "door", SNECK_READ, 0);
		test_redis_ok(server, ways[i]);
		sneck_acquire_options options = test_waiting(0);
		assert_result(SNECK_ELOST, sneck_upgrade(hold, &options, NULL), NULL);
		assert_lost(client, hold);
		sneck_close(client);
	}
}

static void a_lost_hold_takes_its_nested_ones_along(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_hold *outer = take_leased(a, 600);
	sneck_acquire_options options = test_waiting(0);
	options.lease_ms = 600;
	sneck_hold *inner = test_take_opts(a, "door", SNECK_READ, &options);
	test_redis_ok(server, "FLUSHALL");
	sneck_hold *next = test_take(b, "door", SNECK_WRITE, 0);
	await_state(outer, SNECK_LOST, 1000);
	await_state(inner, SNECK_LOST, 100);
	/* Lost is lost: re-entry does not bring it back. */
	sneck_hold *again = NULL;
	int r = sneck_acquire(a, "door", SNECK_WRITE, NULL, &again, NULL);
	assert_true(r == SNECK_EBUSY || r == SNECK_ELOST);
	assert_result(SNECK_ELOST, sneck_release(inner), NULL);
	assert_result(SNECK_ELOST, sneck_release(outer), NULL);
	assert_true(sneck_check(next, 1000));
	test_release(next);
	test_release(test_take(a, "door", SNECK_WRITE, 0));
	sneck_close(a);
	sneck_close(b);
}

static void a_server_that_comes_back_empty(void **state) {
	(void)state;
	sneck_client *client = test_open_command_ms(server->url, 500);
	sneck_client *waiter = test_open_command_ms(server->url, 500);
	sneck_hold *hold = take_leased(client, 1500);
	uint64_t token = sneck_hold_token(hold);
	struct test_call call;
	test_call_start(&call, waiter, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	assert_int_equal(test_server_restart(server), 0);
	/* Who waited joins again and gets it; who held is told, before or by his next call. */
	assert_result(0, test_call_join(&call), &call.error);
	assert_true(sneck_hold_token(call.hold) > token);
	await_state(hold, SNECK_LOST, 1500);
	assert_lost(client, hold);
	test_release(call.hold);
	test_release(test_take(client, "door", SNECK_WRITE, 1000));
	assert_true(test_is_idle(server, "door"));
	sneck_close(client);
	sneck_close(waiter);
}

static void a_stopped_holder_is_told_when_it_goes_on(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	struct test_proc sleeper;
	test_actor_start(&sleeper, server->url);
	unsigned long long token = test_actor_number(&sleeper, "take door w 0 700");
	test_actor_expect(&sleeper, "held", "look");
	test_proc_signal(&sleeper, SIGSTOP);
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 3000);
	assert_true(sneck_hold_token(hold) > token);
	test_proc_signal(&sleeper, SIGCONT);
	test_actor_expect(&sleeper, "lost 0", "look");
	test_actor_expect(&sleeper, "SNECK_ELOST", "drop");
	assert_true(sneck_check(hold, 1000));
	assert_int_equal(test_members(server, "door", "W"), 1);
	test_release(hold);
	assert_int_equal(test_proc_finish(&sleeper, 5000), 0);
	assert_true(test_is_idle(server, "door"));
	sneck_close(client);
}

/* A waiter that was stopped for longer than the queue keeps it: it joins again, and is served. */
static void a_stopped_waiter_joins_again(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	struct test_proc sleeper;
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	test_actor_start(&sleeper, server->url);
	test_actor_expect(&sleeper, "waiting", "wait door w 20000 5000");
	assert_true(test_await_members(server, "door", "w", 1, 3000));
	test_proc_signal(&sleeper, SIGSTOP);
	sneck_client *other = test_open(server->url);
	struct test_call behind; /* whose beats move the queue */
	test_call_start(&behind, other, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 2, 2000));
	assert_true(test_await_members(server, "door", "w", 1, 6000));
	test_proc_signal(&sleeper, SIGCONT);
	assert_true(test_await_members(server, "door", "w", 2, 3000));
	test_release(hold);
	assert_result(0, test_call_join(&behind), &behind.error);
	test_release(behind.hold);
	test_actor_hear(&sleeper, "ok", 3000);
	test_actor_expect(&sleeper, "ok", "drop");
	assert_int_equal(test_proc_finish(&sleeper, 5000), 0);
	assert_true(test_is_idle(server, "door"));
	sneck_close(client);
	sneck_close(other);
}

int main(int argc, char **argv) {
	if (argc > 1)
		return test_actor_main(argc, argv);
	const struct CMUnitTest tests[] = {
		TEST(silence_is_told_before_the_lease_ends),
		TEST(a_short_silence_is_survived),
		TEST(what_is_gone_from_the_server_is_lost),
		TEST(a_lost_hold_takes_its_nested_ones_along),
		TEST(a_server_that_comes_back_empty),
		TEST(a_stopped_holder_is_told_when_it_goes_on),
		TEST(a_stopped_waiter_joins_again),
	};
	return cmocka_run_group_tests(tests, test_server_up, test_server_down);
}
