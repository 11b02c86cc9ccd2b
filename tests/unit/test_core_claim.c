/* SPDX-License-Identifier: MIT */
/* The lock core: a grant that a message brought, and when the server is asked about it. A lock that passes
 * quickly from hand to hand is not claimed at all; what is held for longer, or in doubt, is. */
#include "bench.h"

#include "lock/private.h"

enum { LOCAL_WAITERS = 64 };

static struct deed *granted_by_message(struct bench *bench, bool wanted) {
	struct deed *hold = take(bench, 1, 'W');

	queue_up(bench, expect(bench, OP_ACQUIRE));
	hear_full_grant(bench, 1, wanted);
	assert_true(has(hold));
	return hold;
}

static void what_is_given_back_soon_is_not_claimed(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = granted_by_message(bench, true);

	expect_silence(bench);
	pass_ms(bench, CLAIM_LATER_MS - 1);
	expect_silence(bench);
	ask(bench, WISH_RELEASE, hold);
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	pass_ms(bench, 10 * BENCH_BEAT_MS);
	expect_silence(bench);
}

static void what_is_held_on_is_claimed(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = granted_by_message(bench, false);
	int64_t waiters_ns = snecki_hold_valid_until(&hold->hold);

	pass_ms(bench, CLAIM_LATER_MS);
	int64_t sent_ns = bench->now_ns;
	confirm(bench, expect(bench, OP_BEAT));
	assert_true(snecki_hold_valid_until(&hold->hold) > waiters_ns);
	assert_true(snecki_hold_valid_until(&hold->hold) > sent_ns);
	assert_int_equal(hold->states, 0); /* nobody had reason to worry */
	expect_silence(bench);
}

/* Little against the lease that it asked for, much against the waiter's, which is all that it has. */
static void the_servers_clock_runs_ahead_before_the_claim(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = granted_by_message(bench, false);
	int64_t before_ns = snecki_hold_valid_until(&hold->hold);
	int64_t ahead_ms = (snecki_margin_ms(BENCH_WAIT_LEASE_MS) + snecki_margin_ms(LEASE_MS)) / 2;

	pass_ms(bench, CLAIM_LATER_MS);
	struct lock_call *beat = expect(bench, OP_BEAT);
	struct lock_outcome refused = { .status = LOCK_FAILED, .code = SNECK_ESERVER, .retry = true };
	bench->server_ahead_us = ahead_ms * 1000;
	refused.server_us = outcome_of(bench, LOCK_FAILED).server_us;
	answer_outcome(bench, beat, &refused);
	assert_true(snecki_hold_valid_until(&hold->hold) <= before_ns - ahead_ms * NS_PER_MS);
}

/* Nothing renews it: its lease must begin now. */
static void a_fixed_lease_is_claimed_at_once(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take_fixed(bench, 1, 'W', 30000);

	queue_up(bench, expect(bench, OP_ACQUIRE));
	hear_full_grant(bench, 1, false);
	assert_true(has(hold));
	expect(bench, OP_BEAT);
}

/* Too little is left of the waiter's lease to put anything off. */
static void what_ends_soon_is_claimed_at_once(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take(bench, 1, 'W');

	queue_up(bench, expect(bench, OP_ACQUIRE));
	pass_ms(bench, BENCH_BEAT_MS - 1);
	bench->now_ns +=
	        (BENCH_WAIT_LEASE_MS / 2 - BENCH_BEAT_MS) * NS_PER_MS; /* nobody ran timers meanwhile */
	hear_full_grant(bench, 1, false);
	assert_true(has(hold));
	expect(bench, OP_BEAT);
}

/* The bound to passing on in the process holds from the grant on, claimed or not. */
static void a_grant_that_is_wanted_is_passed_on_only_so_often(void **state) {
	struct bench *bench = bench_of(state);
	unsigned most = bench->core->config.handover_max;
	struct deed *waiting[LOCAL_WAITERS];

	assert_true(most + 2 <= LOCAL_WAITERS);
	for (unsigned i = 0; i <= most + 1; i++)
		waiting[i] = take(bench, 1 + i, 'W');
	queue_up(bench, expect(bench, OP_ACQUIRE));
	hear_full_grant(bench, 1, true);
	confirm(bench, expect(bench, OP_BEAT)); /* at once: it is to be passed on */
	for (unsigned i = 0; i < most; i++) {
		ask(bench, WISH_RELEASE, waiting[i]);
		assert_true(has(waiting[i + 1]));
	}
	ask(bench, WISH_RELEASE, waiting[most]);
	assert_false(has(waiting[most + 1]));
	expect(bench, OP_RELEASE);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(what_is_given_back_soon_is_not_claimed),
		TEST(what_is_held_on_is_claimed),
		TEST(the_servers_clock_runs_ahead_before_the_claim),
		TEST(a_fixed_lease_is_claimed_at_once),
		TEST(what_ends_soon_is_claimed_at_once),
		TEST(a_grant_that_is_wanted_is_passed_on_only_so_often),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
