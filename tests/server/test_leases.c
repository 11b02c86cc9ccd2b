/* SPDX-License-Identifier: MIT */
/* How long a hold lasts: fixed leases end on time, renewed ones do not end, and nobody's call makes
 * a lease shorter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "locks.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

/* Where it does not matter when a thing happens, but that it does. */
enum { SOON_MS = 10000 };

static sneck_acquire_options lease(int64_t lease_ms, bool fixed) {
	sneck_acquire_options options = test_waiting(0);
	options.lease_ms = lease_ms;
	options.fixed = fixed;
	return options;
}

static void a_fixed_lease_ends_on_time(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_acquire_options options = lease(800, true);
	int64_t start_ms = test_now_ms();
	sneck_hold *hold = test_take_opts(a, "door", SNECK_WRITE, &options);
	int fd = sneck_hold_fd(hold);
	assert_true(fd >= 0);
	assert_false(test_readable(fd, 0));
	assert_true(sneck_check(hold, 200));
	assert_false(sneck_check(hold, 801));
	int64_t valid_ms = test_now_ms() + sneck_hold_left_ms(hold); /* until then, or a little longer */
	struct test_call call;
	test_call_start(&call, b, "door", SNECK_WRITE, NULL);

	assert_true(test_readable(fd, SOON_MS));
	int64_t told_ms = test_now_ms();
	assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_LOST, SOON_MS));
	assert_false(sneck_check(hold, 0));
	assert_int_equal(sneck_hold_left_ms(hold), 0);
	assert_result(0, test_call_join(&call), &call.error);
	/* Not before the holder has given it up, which is its margin before the end; when this thread was
	 * woken for that says nothing, as another may run first. */
	assert_true(call.end_ms - start_ms >= 800 - 8 - 1 - SNECK_SKEW_MS);
	assert_true(call.end_ms >= valid_ms - 1);
	assert_true(call.end_ms - start_ms <= 800 + TEST_SLACK_MS);
	assert_true(told_ms - start_ms <= 800 + TEST_SLACK_MS);

	assert_result(SNECK_ELOST, sneck_release(hold), NULL);
	assert_int_equal(test_members(server, "door", "W"), 1);
	test_release(call.hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
}

static void a_renewed_lease_goes_on(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_acquire_options options = lease(1500, false);
	sneck_hold *hold = test_take_opts(a, "door", SNECK_WRITE, &options);
	double deadline = test_score(server, "door", "W");
	/* A renewal every third of the lease: six of them are two leases. One that comes late because the
	 * machine is busy makes the hold suspect for a while, but nobody loses it. */
	for (int i = 1; i <= 6; i++) {
		assert_true(WAIT_UNTIL(test_score(server, "door", "W") > deadline, 1500));
		deadline = test_score(server, "door", "W");
		assert_int_not_equal(sneck_hold_state(hold), SNECK_LOST);
		assert_true(sneck_check(hold, 100));
		assert_true(deadline - (double)test_server_ms(server) <= 1500);
		assert_result(SNECK_EBUSY, test_probe(b, "door", SNECK_READ), NULL);
	}
	assert_true(test_stats(a).renewals >= 5);
	test_release(hold);
	assert_true(test_is_idle(server, "door"));
	uint64_t renewals = test_stats(a).renewals;
	assert_int_equal(test_stats(a).losses, 0);
	/* After the release nothing renews it: the next holder's time passes undisturbed. */
	hold = test_take_opts(b, "door", SNECK_WRITE, &options);
	assert_true(WAIT_UNTIL(test_stats(b).renewals >= 3, SOON_MS));
	assert_int_equal(test_stats(a).renewals, renewals);
	test_release(hold);
	sneck_close(a);
	sneck_close(b);
}

/* After a wait the lease begins with the grant, whole, although a grant by message is first good for
 * what is left of the waiter's own lease. A lease shorter than that one may last as long. */
static void a_fixed_lease_after_a_wait_is_whole(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	const int64_t leases[] = { 20000, 2000 };
	for (int i = 0; i < 2; i++) {
		sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
		sneck_acquire_options options = lease(leases[i], true);
		options.wait_ms = 5000;
		struct test_call call;
		test_call_start(&call, b, "door", SNECK_WRITE, &options);
		assert_true(test_await_members(server, "door", "w", 1, 2000));
		test_release(hold);
		assert_result(0, test_call_join(&call), &call.error);
		/* Once the claim is answered, program and server agree. */
		int64_t most = leases[i] > SNECK_WAITER_LEASE_MS ? leases[i] : SNECK_WAITER_LEASE_MS;
		int64_t least = leases[i] / 2;
		assert_true(WAIT_UNTIL(sneck_hold_left_ms(call.hold) > least, SOON_MS));
		assert_true(sneck_hold_left_ms(call.hold) <= most);
		int64_t left_ms = (int64_t)test_score(server, "door", "W") - test_server_ms(server);
		assert_true(left_ms > least);
		if (left_ms > most)
			fail_msg("the server keeps it for %lld ms, not %lld", (long long)left_ms,
			        (long long)most);
		test_release(call.hold);
	}
	sneck_close(a);
	sneck_close(b);
}

static void leases_of_two_lengths_live_side_by_side(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	sneck_acquire_options brief = lease(1000, true), lasting = lease(1500, false);
	brief.owner = 1;
	lasting.owner = 2;
	sneck_hold *ends = test_take_opts(client, "door", SNECK_READ, &brief);
	sneck_hold *stays = test_take_opts(client, "door", SNECK_READ, &lasting);
	assert_int_equal(test_members(server, "door", "R"), 2);
	assert_true(WAIT_UNTIL(sneck_hold_state(ends) == SNECK_LOST, SOON_MS));
	assert_true(WAIT_UNTIL(test_stats(client).renewals >= 3, SOON_MS));
	assert_int_not_equal(sneck_hold_state(stays), SNECK_LOST);
	assert_true(sneck_check(stays, 100));
	assert_result(SNECK_ELOST, sneck_release(ends), NULL);
	assert_int_equal(test_members(server, "door", "R"), 1);
	test_release(stays);

	/* Two names, two lengths: each is renewed at its own pace. */
	sneck_acquire_options slow = lease(30000, false);
	lasting.owner = 0;
	sneck_hold *quick_hold = test_take_opts(client, "quick", SNECK_WRITE, &lasting);
	sneck_hold *slow_hold = test_take_opts(client, "slow", SNECK_WRITE, &slow);
	double slow_deadline = test_score(server, "slow", "W");
	uint64_t before = test_stats(client).renewals;
	assert_true(WAIT_UNTIL(test_stats(client).renewals >= before + 3, SOON_MS));
	assert_true(test_score(server, "slow", "W") == slow_deadline);
	assert_true(sneck_check(quick_hold, 100));
	assert_true(sneck_check(slow_hold, 20000));
	test_release(quick_hold);
	test_release(slow_hold);
	sneck_close(client);
}

static void renew_lengthens_and_never_shortens(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	sneck_acquire_options options = lease(10000, true);
	sneck_hold *hold = test_take_opts(client, "door", SNECK_WRITE, &options);
	double deadline = test_score(server, "door", "W");
	sneck_error error = { 0 };
	assert_result(0, sneck_renew(hold, 100, &error), &error);
	assert_true(test_score(server, "door", "W") >= deadline);
	assert_true(sneck_hold_left_ms(hold) > 9000);
	assert_result(0, sneck_renew(hold, 20000, &error), &error);
	assert_true(test_score(server, "door", "W") >= deadline + 9000);
	assert_true(sneck_hold_left_ms(hold) > 19000);
	assert_true(sneck_hold_left_ms(hold) <= 20000);
	assert_result(0, sneck_renew(hold, 0, &error), &error);
	assert_true(sneck_hold_left_ms(hold) > 18000);
	/* The key lives at least as long as what it says. */
	char key[160];
	assert_true(test_redis_int(server, "PTTL %s", test_key("door", key)) >= 19000);
	test_release(hold);

	options = lease(500, true);
	hold = test_take_opts(client, "door", SNECK_WRITE, &options);
	assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_LOST, SOON_MS));
	assert_result(SNECK_ELOST, sneck_renew(hold, 1000, &error), NULL);
	assert_result(SNECK_ELOST, sneck_release(hold), NULL);
	sneck_close(client);
}

static void a_short_reader_does_not_cut_a_long_one(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	char key[160];
	test_key("door", key);
	sneck_acquire_options longer = lease(20000, true), shorter = lease(1000, true);
	sneck_hold *long_hold = test_take_opts(a, "door", SNECK_READ, &longer);
	double deadline = test_score(server, "door", "R");
	sneck_hold *short_hold = test_take_opts(b, "door", SNECK_READ, &shorter);
	assert_true(test_redis_int(server, "PTTL %s", key) > 18000);
	assert_result(SNECK_EBUSY, test_probe(b, "door", SNECK_WRITE), NULL);
	assert_true(WAIT_UNTIL(sneck_hold_state(short_hold) == SNECK_LOST, SOON_MS));
	assert_result(SNECK_ELOST, sneck_release(short_hold), NULL);
	short_hold = test_take_opts(b, "door", SNECK_READ, &shorter);
	test_release(short_hold);
	/* The one that was lost is a few milliseconds, its margin, from its end. */
	assert_true(test_await_members(server, "door", "R", 1, 2000));
	assert_true(test_score(server, "door", "R") == deadline);
	assert_true(test_redis_int(server, "PTTL %s", key) > 15000);
	assert_true(sneck_check(long_hold, 15000));
	test_release(long_hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
}

static void the_watchdog_keeps_many(void **state) {
	(void)state;
	enum { MANY = TEST_SANITIZED ? 200 : 1000 };
	sneck_client *client = test_open(server->url);
	sneck_hold **holds = calloc(MANY, sizeof(*holds));
	assert_non_null(holds);
	sneck_acquire_options options = lease(3000, false);
	for (int i = 0; i < MANY; i++) {
		char name[32];
		snprintf(name, sizeof(name), "door-%d", i);
		holds[i] = test_take_opts(client, name, SNECK_WRITE, &options);
	}
	/* More than a lease for every one of them. */
	assert_true(WAIT_UNTIL(test_stats(client).renewals >= 4 * MANY, 2 * SOON_MS));
	for (int i = 0; i < MANY; i++) {
		assert_int_not_equal(sneck_hold_state(holds[i]), SNECK_LOST);
		test_release(holds[i]);
	}
	sneck_counters stats = test_stats(client);
	assert_int_equal(stats.losses, 0);
	assert_int_equal(stats.holds, 0);
	assert_true(test_is_idle(server, "door-0"));
	free(holds);
	sneck_close(client);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(a_fixed_lease_ends_on_time),
		TEST(a_renewed_lease_goes_on),
		TEST(a_fixed_lease_after_a_wait_is_whole),
		TEST(leases_of_two_lengths_live_side_by_side),
		TEST(renew_lengthens_and_never_shortens),
		TEST(a_short_reader_does_not_cut_a_long_one),
		TEST(the_watchdog_keeps_many),
	};
	return TEST_RUN(tests);
}
