/* SPDX-License-Identifier: MIT */
/* The lock core: what it must stop believing, and what it must not begin to believe, whatever a server
 * says that has forgotten, or has just been told by a late copy. */
#include "bench.h"

#include "lock/private.h"

/* The server has come back with an old state, in which this session still waits: nobody knows who has
 * held the lock since. */
static void a_claim_finds_itself_waiting(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take(bench, 1, 'W');

	queue_up(bench, expect(bench, OP_ACQUIRE));
	hear_grant(bench, 1);
	assert_true(has(hold));
	answer(bench, expect(bench, OP_BEAT), LOCK_WAITING);
	assert_int_equal(hold->told, HOLD_LOST);
	/* The place in the queue must not be granted to nobody: it is given up, and buried. */
	struct lock_call *release = expect(bench, OP_RELEASE);
	assert_int_equal(release->op.bury_n, 1);
	assert_int_equal(release->op.bury[0], 1);
	answer(bench, release, LOCK_GONE);
	expect_silence(bench);
}

/* While a hold is being renamed a renewal goes out under the name that it is about to lose. A copy of the
 * request that once made that name may arrive late, make it again, and let the renewal succeed. */
static void a_renewal_under_a_lost_name_lengthens_nothing(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'R');
	struct deed *upgrade = ask(bench, WISH_UPGRADE, hold);
	struct lock_call *convert = expect(bench, OP_UPGRADE);

	pass_ms(bench, 1000);
	ask(bench, WISH_RENEW, hold);
	struct lock_call *renew = expect(bench, OP_RENEW);
	assert_int_equal(renew->op.attempt, 1);
	grant(bench, convert);
	assert_int_equal(code_of(upgrade), 0);
	int64_t valid_ns = snecki_hold_valid_until(&hold->hold);
	confirm(bench, renew);
	assert_int_equal(snecki_hold_valid_until(&hold->hold), valid_ns);
	assert_true(has(hold));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(a_claim_finds_itself_waiting),
		TEST(a_renewal_under_a_lost_name_lengthens_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
