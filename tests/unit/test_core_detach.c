/* SPDX-License-Identifier: MIT */
/* The lock core: holds that leave their program (detach), and holds that come to one (adopt). */
#include "bench.h"

#define DETACHED(counter) (LOCK_DETACHED | (counter))

/* The mark says that no program keeps the hold, so a program must not go on under it. */
static void a_detach_that_came_too_late_is_taken_back(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');
	struct deed *detach = ask(bench, WISH_DETACH, hold);
	struct lock_call *call = expect(bench, OP_RENAME);

	give_up(bench, detach, SNECK_ETIMEDOUT);
	confirm(bench, call);
	struct lock_call *back = expect(bench, OP_RENAME);
	assert_string_equal(back->op.foreign_id, "Wme.2~");
	assert_int_equal(back->op.attempt, 3);
	assert_false(back->op.shrink_expiry);
	lose_link(bench, back); /* however often it takes */
	pass_ms(bench, 1000);
	confirm(bench, expect(bench, OP_RENAME));
	assert_true(has(hold));
	ask(bench, WISH_RELEASE, hold);
	assert_int_equal(expect(bench, OP_RELEASE)->op.attempt, 3);
}

static void a_writer_is_detached_under_a_new_name(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');
	struct deed *detach = ask(bench, WISH_DETACH, hold);
	struct lock_call *call = expect(bench, OP_RENAME);

	assert_string_equal(call->op.foreign_id, "Wme.1");
	assert_true(call->op.attempt == DETACHED(2));
	assert_false(call->op.keep_old);
	confirm(bench, call);
	assert_int_equal(code_of(detach), 0);
	assert_string_equal(detach->wish.id, "Wme.2~");
	assert_null(hold->hold.grant);
	expect_silence(bench); /* it is nobody's here any more: neither renewed nor released */
	assert_int_equal(snecki_core_next_due(bench->core), NS_NEVER);
}

static void a_detach_that_is_answered_with_nonsense_is_not_repeated_at_once(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');
	struct deed *detach = ask(bench, WISH_DETACH, hold);
	struct lock_outcome error = outcome_of(bench, LOCK_UNKNOWN);

	error.code = SNECK_ESERVER;
	answer_outcome(bench, expect(bench, OP_RENAME), &error);
	expect_silence(bench);
	pass_ms(bench, 99);
	expect_silence(bench);
	pass_ms(bench, 1);
	confirm(bench, expect(bench, OP_RENAME));
	assert_int_equal(code_of(detach), 0);
}

static void what_was_detached_is_not_buried(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take(bench, 1, 'W');
	answer(bench, expect(bench, OP_ACQUIRE), LOCK_UNKNOWN);
	grant(bench, expect(bench, OP_ACQUIRE));
	struct deed *detach = ask(bench, WISH_DETACH, hold);
	answer(bench, expect(bench, OP_RENAME), LOCK_UNKNOWN);
	struct lock_call *again = expect(bench, OP_RENAME);
	assert_true(again->op.attempt == DETACHED(2));
	confirm(bench, again);
	assert_string_equal(detach->wish.id, "Wme.2~");
	struct lock_call *bury = expect(bench, OP_RELEASE); /* the acquire that may be late, and no more */
	assert_int_equal(bury->op.bury_n, 1);
	assert_int_equal(bury->op.bury[0], 1);
}

static void a_reader_among_others_is_split_off(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *one = hold_it(bench, 1, 'R');
	struct deed *two = take(bench, 2, 'R');
	struct deed *detach = ask(bench, WISH_DETACH, one);
	struct lock_call *call = expect(bench, OP_RENAME);

	assert_true(call->op.keep_old);
	confirm(bench, call);
	assert_int_equal(code_of(detach), 0);
	assert_true(has(two));
	ask(bench, WISH_RELEASE, two);
	struct lock_call *release = expect(bench, OP_RELEASE);
	assert_int_equal(release->op.attempt, 1);
	assert_int_equal(release->op.bury_n, 0); /* what was detached lives on */
}

static void an_unanswered_split_is_buried_and_done_under_another_name(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *one = hold_it(bench, 1, 'R');
	take(bench, 2, 'R');
	struct deed *detach = ask(bench, WISH_DETACH, one);

	answer(bench, expect(bench, OP_RENAME), LOCK_UNKNOWN);
	struct lock_call *bury = expect(bench, OP_CANCEL); /* a second copy would split off a second hold */
	assert_true(bury->op.attempt == DETACHED(2));
	assert_true(bury->op.bury[0] == DETACHED(2));
	struct lock_call *again = expect(bench, OP_RENAME);
	assert_true(again->op.attempt == DETACHED(3));
	answer(bench, bury, LOCK_DONE);
	confirm(bench, again);
	assert_string_equal(detach->wish.id, "Rme.3~");
}

static void one_is_adopted(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = adopt(bench, 1, "Wthem.7");
	struct lock_call *call = expect(bench, OP_RENAME);

	assert_string_equal(call->op.foreign_id, "Wthem.7");
	assert_int_equal(call->op.attempt, 1);
	confirm(bench, call);
	assert_true(has(hold));
	assert_int_equal(hold->hold.mode, 'W');
	struct deed *refused = new_deed(bench, 2, 'R');
	refused->wish.nowait = true;
	begin(bench, refused);
	assert_int_equal(code_of(refused), SNECK_EBUSY);
	release_done(bench, hold);
}

static void there_is_nothing_to_adopt(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = adopt(bench, 1, "Wthem.7");

	answer(bench, expect(bench, OP_RENAME), LOCK_GONE);
	assert_int_equal(code_of(hold), SNECK_ELOST);
	expect_silence(bench);
}

static void an_adoption_that_took_too_long_is_no_acquisition(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = adopt(bench, 1, "Wthem.7");
	struct lock_call *call = expect(bench, OP_RENAME);

	pass_ms(bench, LEASE_MS);
	confirm(bench, call);
	assert_int_equal(code_of(hold), SNECK_ELOST);
	expect(bench, OP_RELEASE);
	expect_silence(bench);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(a_writer_is_detached_under_a_new_name),
		TEST(a_detach_that_is_answered_with_nonsense_is_not_repeated_at_once),
		TEST(what_was_detached_is_not_buried),
		TEST(a_detach_that_came_too_late_is_taken_back),
		TEST(a_reader_among_others_is_split_off),
		TEST(an_unanswered_split_is_buried_and_done_under_another_name),
		TEST(one_is_adopted),
		TEST(there_is_nothing_to_adopt),
		TEST(an_adoption_that_took_too_long_is_no_acquisition),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
