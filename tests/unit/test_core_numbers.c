/* SPDX-License-Identifier: MIT */
/* Numbers and clocks at their limits: which tokens may be used without asking the server, what a lease
 * becomes when its longest hold has gone, and how far the server's clock may be off. */
#include "bench.h"

/* A number that the server could give out itself after this lease must not be used here. */
static void numbers_end_where_the_servers_begin(void **state) {
	struct bench *bench = bench_of(state);
	uint64_t end = (uint64_t)(outcome_of(bench, LOCK_GRANTED).server_us / 1000 + LEASE_MS) * 1000;

	bench->token = end - 3;
	struct deed *first = hold_it(bench, 1, 'W');
	struct deed *second = take(bench, 2, 'W');
	struct deed *third = take(bench, 3, 'W');
	assert_true(first->hold.token == end - 2);
	ask(bench, WISH_RELEASE, first);
	assert_true(has(second));
	assert_true(second->hold.token == end - 1);
	expect_silence(bench);
	pass_ms(bench, 1);
	ask(bench, WISH_RELEASE, second);
	assert_int_equal(code_of(third), 1);
	struct lock_call *renew =
	        expect(bench, OP_RENEW); /* it is told what was used, and the end moves on */
	assert_true(renew->op.last_token == end - 1);
	confirm(bench, renew);
	assert_true(has(third));
	assert_true(third->hold.token == end);
}

static void a_jump_within_the_margin_is_none(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');
	int64_t before_ns = snecki_hold_valid_until(&hold->hold);

	bench->server_ahead_us = (LEASE_MS / 100 - 1) * 1000;
	struct deed *renewal = ask(bench, WISH_RENEW, hold);
	answer(bench, expect(bench, OP_RENEW), LOCK_UNKNOWN);
	assert_int_equal(code_of(renewal), SNECK_EUNKNOWN);
	renewal = ask(bench, WISH_RENEW, hold);
	struct lock_outcome refused = outcome_of(bench, LOCK_FAILED);
	refused.code = SNECK_ESERVER;
	answer_outcome(bench, expect(bench, OP_RENEW), &refused);
	assert_int_equal(hold->states, 0);
	assert_true(snecki_hold_valid_until(&hold->hold) == before_ns);
}

static struct deed *take_leased(struct bench *bench, uint64_t owner, char mode, int64_t lease_ms) {
	struct deed *deed = new_deed(bench, owner, mode);
	deed->wish.lease_ms = lease_ms;
	begin(bench, deed);
	return deed;
}

/* Nested, or passed on: from then on the server is asked for no more than is still wanted. */
static void the_lease_is_the_longest_that_is_asked_for(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *outer = hold_it(bench, 1, 'W');
	struct deed *inner = take_leased(bench, 1, 'W', 10 * LEASE_MS);

	assert_true(has(inner));
	pass_ms(bench, 1);
	struct lock_call *renew = expect(bench, OP_RENEW);
	assert_int_equal(renew->op.lease_ms, 10 * LEASE_MS);
	confirm(bench, renew);
	ask(bench, WISH_RELEASE, inner);
	pass_ms(bench, 10 * LEASE_MS / 3);
	renew = expect(bench, OP_RENEW);
	assert_int_equal(renew->op.lease_ms, LEASE_MS);
	confirm(bench, renew);
	assert_true(has(outer));

	struct deed *next = take_leased(bench, 2, 'W', LEASE_MS / 2);
	ask(bench, WISH_RELEASE, outer);
	assert_true(has(next));
	pass_ms(bench, 10 * LEASE_MS / 3);
	renew = expect(bench, OP_RENEW);
	assert_int_equal(renew->op.lease_ms, LEASE_MS / 2);
	confirm(bench, renew);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(numbers_end_where_the_servers_begin),
		TEST(a_jump_within_the_margin_is_none),
		TEST(the_lease_is_the_longest_that_is_asked_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
