/* SPDX-License-Identifier: MIT */
/* The lock core: what lingers, as the server and other sessions know it. The server is told, a moment late,
 * that nobody uses the lock; the answer, and messages, say whether another session wants it. */
#include "lingering.h"

static void the_server_is_told_once(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_lingering(bench, 1, 'W');

	let_linger(bench, hold);
	pass_ms(bench, MARK_MS - 1);
	expect_silence(bench);
	pass_ms(bench, 1);
	struct lock_call *mark = expect(bench, OP_LINGER);
	assert_true(mark->op.lingers);
	confirm(bench, mark);
	pass_ms(bench, LINGER_MS / 2);
	expect_silence(bench);
	hold = take_lingering(bench, 1, 'W'); /* needs no round trip either */
	assert_true(has(hold));
	expect_silence(bench);
	pass_ms(bench, MARK_MS);
	mark = expect(bench, OP_LINGER);
	assert_false(mark->op.lingers);
	confirm(bench, mark);
	let_linger(bench, hold);
	pass_ms(bench, MARK_MS / 2);
	hold = take_lingering(bench, 1, 'W'); /* for a moment only: as it was told */
	pass_ms(bench, LINGER_MS / 2);
	expect_silence(bench);
}

static void taken_again_while_it_is_being_told(void **state) {
	struct bench *bench = bench_of(state);

	begin_lingering(bench, 'W');
	pass_ms(bench, MARK_MS);
	struct lock_call *mark = expect(bench, OP_LINGER);
	struct deed *hold = take_lingering(bench, 1, 'W');
	assert_true(has(hold));
	pass_ms(bench, 2 * MARK_MS);
	expect_silence(bench); /* one at a time */
	confirm(bench, mark);
	assert_true(has(hold));
	pass_ms(bench, MARK_MS);
	assert_false(expect(bench, OP_LINGER)->op.lingers);
}

static void its_answer_says_that_it_is_wanted(void **state) {
	struct bench *bench = bench_of(state);

	begin_lingering(bench, 'W');
	pass_ms(bench, MARK_MS);
	struct lock_call *mark = expect(bench, OP_LINGER);
	struct lock_outcome outcome = outcome_of(bench, LOCK_GRANTED);
	outcome.wanted = true;
	outcome.deadline_ms = outcome.server_us / 1000 + LEASE_MS;
	answer_outcome(bench, mark, &outcome);
	gone(bench);
}

static void its_answer_says_that_it_is_gone(void **state) {
	struct bench *bench = bench_of(state);

	begin_lingering(bench, 'W');
	pass_ms(bench, MARK_MS);
	answer(bench, expect(bench, OP_LINGER), LOCK_GONE);
	expect_silence(bench);
	assert_int_equal(snecki_core_next_due(bench->core), NS_NEVER);
	/* Taken again before the answer came, it is lost to its holder. */
	struct deed *hold = hold_lingering(bench, 1, 'W');
	let_linger(bench, hold);
	pass_ms(bench, MARK_MS);
	struct lock_call *mark = expect(bench, OP_LINGER);
	hold = take_lingering(bench, 1, 'W');
	assert_true(has(hold));
	answer(bench, mark, LOCK_GONE);
	assert_int_equal(hold->told, HOLD_LOST);
}

static void another_number_in_its_answer_is_a_loss(void **state) {
	struct bench *bench = bench_of(state);

	begin_lingering(bench, 'W');
	pass_ms(bench, MARK_MS);
	grant(bench, expect(bench, OP_LINGER));
	struct deed *hold = take_lingering(bench, 1, 'W');
	assert_int_equal(code_of(hold), 1);
	expect(bench, OP_ACQUIRE);
}

static void messages_flow_again(void **state) {
	struct bench *bench = bench_of(state);

	begin_lingering(bench, 'R');
	snecki_core_subscribed(bench->core, bench->now_ns); /* what was said before was not heard */
	pass_ms(bench, 1);
	struct lock_call *mark = expect(bench, OP_LINGER);
	assert_true(mark->op.lingers);
	confirm(bench, mark);
	struct deed *hold = take_lingering(bench, 1, 'R'); /* also about what is to linger again */
	snecki_core_subscribed(bench->core, bench->now_ns);
	pass_ms(bench, 1);
	mark = expect(bench, OP_LINGER);
	assert_false(mark->op.lingers);
	struct lock_outcome outcome = outcome_of(bench, LOCK_GRANTED);
	outcome.wanted = true;
	outcome.deadline_ms = outcome.server_us / 1000 + LEASE_MS;
	answer_outcome(bench, mark, &outcome);
	ask(bench, WISH_RELEASE, hold);
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	begin_lingering(bench, 'R'); /* on a channel of the lock's own */
	snecki_core_maybe_free(bench->core, NULL, "name", 4, bench->now_ns);
	pass_ms(bench, 1);
	confirm(bench, expect(bench, OP_LINGER));
	pass_ms(bench, LINGER_MS);
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	hold_it(bench, 1, 'R'); /* but about nothing else */
	assert_true(has(take(bench, 2, 'R')));
	snecki_core_subscribed(bench->core, bench->now_ns);
	pass_ms(bench, 1);
	expect_silence(bench);
}

/* The hint was for an attempt whose answer is still under way. */
static void messages_flow_before_the_answer_comes(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take_lingering(bench, 1, 'W');
	struct lock_call *call = expect(bench, OP_ACQUIRE);

	snecki_core_subscribed(bench->core, bench->now_ns);
	pass_ms(bench, 1);
	expect_silence(bench);
	grant(bench, call);
	assert_true(has(hold));
	pass_ms(bench, 1);
	call = expect(bench, OP_LINGER);
	assert_false(call->op.lingers);
	confirm(bench, call);
	let_linger(bench, hold);
	assert_true(has(take_lingering(bench, 1, 'W')));
	expect_silence(bench); /* once is enough */
}

/* The message that asks for it back is on another line than the answers, and may be faster. */
static void a_message_may_be_newer_than_an_answer(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take_lingering(bench, 1, 'R');
	struct lock_call *call = expect(bench, OP_ACQUIRE);

	pass_ms(bench, 1);
	hear_wanted(bench, 1); /* granted meanwhile, and wanted already */
	pass_ms(bench, 1);
	grant(bench, call);
	assert_true(has(hold));
	ask(bench, WISH_RELEASE, hold);
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	/* In the queue, granted by a message; the claim was answered before the other one joined. */
	hold = take_lingering(bench, 1, 'R');
	queue_up(bench, expect(bench, OP_ACQUIRE));
	pass_ms(bench, 1);
	hear_grant(bench, 2);
	call = expect(bench, OP_BEAT);
	pass_ms(bench, 1);
	hear_wanted(bench, 2);
	confirm(bench, call);
	ask(bench, WISH_RELEASE, hold);
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	/* One that was sent later knows better. */
	hold = hold_lingering(bench, 1, 'R');
	hear_wanted(bench, 3);
	pass_ms(bench, 1);
	ask(bench, WISH_RENEW, hold);
	confirm(bench, expect(bench, OP_RENEW));
	let_linger(bench, hold);
}

static void wanted_as_a_reader_wanted_as_a_writer(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_lingering(bench, 1, 'R');

	pass_ms(bench, LEAST_MS);
	hear_wanted(bench, 1);
	ask(bench, WISH_UPGRADE, hold);
	queue_up(bench, expect(bench, OP_UPGRADE));
	hear_grant(bench, 2); /* ahead of those who wait, and they wait on */
	assert_int_equal(hold->hold.mode, 'W');
	ask(bench, WISH_RELEASE, hold);
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
}

static void unanswered_marks_harm_nobody(void **state) {
	struct bench *bench = bench_of(state);

	begin_lingering(bench, 'W');
	pass_ms(bench, MARK_MS);
	lose_link(bench, expect(bench, OP_LINGER));
	struct deed *hold = take_lingering(bench, 1, 'W');
	assert_true(has(hold));
	let_linger(bench, hold);
	pass_ms(bench, MARK_MS);
	answer(bench, expect(bench, OP_LINGER), LOCK_UNKNOWN);
	hold = take_lingering(bench, 1, 'W');
	pass_ms(bench, MARK_MS);
	assert_false(expect(bench, OP_LINGER)->op.lingers); /* it may have been told */
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(the_server_is_told_once),
		TEST(taken_again_while_it_is_being_told),
		TEST(its_answer_says_that_it_is_wanted),
		TEST(its_answer_says_that_it_is_gone),
		TEST(another_number_in_its_answer_is_a_loss),
		TEST(messages_flow_again),
		TEST(messages_flow_before_the_answer_comes),
		TEST(a_message_may_be_newer_than_an_answer),
		TEST(wanted_as_a_reader_wanted_as_a_writer),
		TEST(unanswered_marks_harm_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
