/* SPDX-License-Identifier: MIT */
/* The lock core: re-entry, sharing, passing on, the local queue, and who is asked for on the server. */
#include "bench.h"

/* ---- What it costs ------------------------------------------------------------------------------*/

static void a_lone_pair_is_two_requests(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');

	assert_int_equal(hold->hold.token, bench->token);
	release_done(bench, hold);
	expect_silence(bench);
	assert_int_equal(bench->sent_n, 2);
	assert_true(snecki_core_idle(bench->core));
	assert_int_equal(snecki_core_next_due(bench->core), NS_NEVER);
}

static void re_entry_is_local(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *outer = hold_it(bench, 1, 'W');
	struct deed *again = take(bench, 1, 'W');
	struct deed *read = take(bench, 1, 'R');

	assert_true(has(again) && has(read));
	assert_int_equal(again->hold.token, outer->hold.token);
	assert_int_equal(read->hold.token, outer->hold.token);
	assert_int_equal(code_of(ask(bench, WISH_RELEASE, read)), 0);
	assert_int_equal(code_of(ask(bench, WISH_RELEASE, outer)), 0);
	expect_silence(bench);
	assert_true(has(again)); /* in whatever order they go */
	release_done(bench, again);
	assert_int_equal(bench->sent_n, 2);
}

static void readers_share_one_hold(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *first = hold_it(bench, 1, 'R');
	struct deed *second = take(bench, 2, 'R');

	assert_true(has(second));
	assert_int_equal(second->hold.token, first->hold.token);
	assert_int_equal(code_of(ask(bench, WISH_RELEASE, first)), 0);
	expect_silence(bench);
	release_done(bench, second);
}

static void those_who_wait_for_one_answer_share_it(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *first = take(bench, 1, 'R');
	struct lock_call *call = expect(bench, OP_ACQUIRE);
	struct deed *second = take(bench, 2, 'R');
	struct deed *writer = take(bench, 3, 'W');
	struct deed *behind = take(bench, 4, 'R');

	expect_silence(bench);
	grant(bench, call);
	assert_true(has(first) && has(second));
	assert_false(has(behind)); /* in order: the writer is before it */
	assert_int_equal(expect(bench, OP_ACQUIRE)->op.mode, 'W');
	assert_int_equal(code_of(writer), 1);
}

/* ---- Passing on ---------------------------------------------------------------------------------*/

static void writers_pass_it_on_under_the_next_number(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *first = hold_it(bench, 1, 'W');
	struct deed *second = take(bench, 2, 'W');

	expect_silence(bench); /* it waits for its own session */
	assert_int_equal(code_of(ask(bench, WISH_RELEASE, first)), 0);
	assert_true(has(second));
	assert_int_equal(second->hold.token, first->hold.token + 1);
	ask(bench, WISH_RELEASE, second);
	struct lock_call *release = expect(bench, OP_RELEASE);
	assert_int_equal(release->op.last_token, second->hold.token);
	answer(bench, release, LOCK_DONE);
}

static void a_wanted_lock_is_passed_on_sixteen_times(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');
	struct deed *waiting[17];

	for (int i = 0; i < 17; i++)
		waiting[i] = take(bench, 2 + (uint64_t)i, 'W');
	hear_wanted(bench, 1);
	for (int i = 0; i < 16; i++) {
		ask(bench, WISH_RELEASE, hold);
		assert_true(has(waiting[i]));
		hold = waiting[i];
		expect_silence(bench);
	}
	struct deed *last = ask(bench, WISH_RELEASE, hold);
	assert_false(has(waiting[16]));
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	assert_int_equal(code_of(last), 0);
	queue_up(bench, expect(bench, OP_ACQUIRE));
	assert_int_equal(code_of(waiting[16]), 1);
}

static void a_wanted_lock_is_passed_on_for_five_milliseconds(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *first = hold_it(bench, 1, 'W');
	struct deed *second = take(bench, 2, 'W');
	struct deed *third = take(bench, 3, 'W');

	hear_wanted(bench, 1);
	pass_ms(bench, 4);
	ask(bench, WISH_RELEASE, first);
	assert_true(has(second));
	pass_ms(bench, 1);
	ask(bench, WISH_RELEASE, second);
	assert_false(has(third));
	expect(bench, OP_RELEASE);
}

static void nobody_wants_it_any_more(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *first = hold_it(bench, 1, 'W');
	struct deed *second = take(bench, 2, 'W');

	hear_wanted(bench, 1);
	pass_ms(bench, 9999);
	confirm(bench, expect(bench, OP_RENEW)); /* says that nobody waits */
	ask(bench, WISH_RELEASE, first);
	assert_true(has(second));
	expect_silence(bench);
}

static void wanted_again_counts_anew(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');
	struct deed *waiting[20];

	for (int i = 0; i < 20; i++)
		waiting[i] = take(bench, 2 + (uint64_t)i, 'W');
	for (int i = 0; i < 20; i++) {
		if (i == 0 || i == 10)
			hear_wanted(bench, 1);
		if (i == 9) {
			pass_ms(bench, LEASE_MS / 3);
			confirm(bench, expect(bench, OP_RENEW)); /* says that nobody waits */
		}
		ask(bench, WISH_RELEASE, hold);
		assert_true(has(waiting[i]));
		hold = waiting[i];
	}
}

static void a_short_lease_is_renewed_before_it_is_passed_on(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *first = new_deed(bench, 1, 'W');
	first->wish.lease_ms = 10000;
	begin(bench, first);
	grant(bench, expect(bench, OP_ACQUIRE));
	struct deed *second = take(bench, 2, 'W'); /* wants 30 s */
	struct deed *release = ask(bench, WISH_RELEASE, first);

	assert_int_equal(code_of(release), 0);
	assert_int_equal(code_of(second), 1);
	struct lock_call *renew = expect(bench, OP_RENEW);
	assert_int_equal(renew->op.lease_ms, LEASE_MS);
	confirm(bench, renew);
	assert_true(has(second));
	assert_int_equal(second->hold.token, first->hold.token + 1);
	expect_silence(bench);
}

static void a_renewal_that_is_refused_is_not_repeated_at_once(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *first = new_deed(bench, 1, 'W');
	first->wish.lease_ms = 10000;
	begin(bench, first);
	grant(bench, expect(bench, OP_ACQUIRE));
	struct deed *second = take(bench, 2, 'W'); /* wants 30 s */
	ask(bench, WISH_RELEASE, first);
	struct lock_outcome error = outcome_of(bench, LOCK_FAILED);

	error.code = SNECK_ESERVER;
	for (int i = 0; i < 3; i++) {
		error.status = i == 1 ? LOCK_UNKNOWN : LOCK_FAILED;
		answer_outcome(bench, expect(bench, OP_RENEW), &error);
		expect_silence(bench);
		pass_ms(bench, 99);
		expect_silence(bench);
		pass_ms(bench, 1);
	}
	confirm(bench, expect(bench, OP_RENEW));
	assert_true(has(second));
}

static void a_renewal_that_does_not_help_is_not_repeated(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *first = take(bench, 1, 'W');
	struct lock_call *call = expect(bench, OP_ACQUIRE);

	/* The last number is far ahead of the server's clock: no lease brings the next one into reach. */
	bench->token = UINT64_C(1700000000000000) + 9000000000;
	grant(bench, call);
	struct deed *second = take(bench, 2, 'W');
	ask(bench, WISH_RELEASE, first);
	confirm(bench, expect(bench, OP_RENEW));
	expect(bench, OP_RELEASE);
	expect(bench, OP_ACQUIRE);
	expect_silence(bench);
	assert_int_equal(code_of(second), 1);
}

static void the_last_waiter_is_gone_before_the_renewal(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *first = new_deed(bench, 1, 'W');
	first->wish.lease_ms = 10000;
	begin(bench, first);
	grant(bench, expect(bench, OP_ACQUIRE));
	struct deed *second = take(bench, 2, 'W');
	ask(bench, WISH_RELEASE, first);
	expect(bench, OP_RENEW);
	give_up(bench, second, SNECK_ECANCELED);
	expect(bench, OP_RELEASE);
}

/* ---- Wanted, and the door -----------------------------------------------------------------------*/

static void wanted_closes_the_door_to_new_readers(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *first = hold_it(bench, 1, 'R');

	hear_wanted(bench, 1);
	struct deed *again = take(bench, 1, 'R'); /* re-entry stays open */
	assert_true(has(again));
	expect_silence(bench);
	struct deed *other = take(bench, 2, 'R');
	queue_up(bench, expect(bench, OP_ACQUIRE));
	assert_int_equal(code_of(other), 1);
	assert_true(has(first));
}

static void a_local_writer_queues_beside_the_reader(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *reader = hold_it(bench, 1, 'R');
	struct deed *writer = take(bench, 2, 'W');
	struct lock_call *call = expect(bench, OP_ACQUIRE);

	assert_int_equal(call->op.mode, 'W');
	assert_int_equal(call->op.own_n, 0);
	queue_up(bench, call);
	struct deed *late = take(bench, 3, 'R');
	struct deed *again = take(bench, 1, 'R');
	assert_true(has(again));
	assert_int_equal(code_of(late), 1);
	ask(bench, WISH_RELEASE, again);
	release_done(bench, reader);
	expect_silence(bench);
	hear_grant(bench, 2);
	assert_true(has(writer));
}

/* ---- Giving up ----------------------------------------------------------------------------------*/

static void the_place_in_the_queue_is_kept_while_somebody_needs_it(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *first = take(bench, 1, 'W');
	struct deed *second = take(bench, 2, 'W');

	queue_up(bench, expect(bench, OP_ACQUIRE));
	give_up(bench, first, SNECK_ETIMEDOUT);
	assert_int_equal(code_of(first), SNECK_ETIMEDOUT);
	assert_string_equal(first->wish.holder, "other");
	expect_silence(bench);
	give_up(bench, second, SNECK_ECANCELED);
	answer(bench, expect(bench, OP_CANCEL), LOCK_DONE);
	assert_true(snecki_core_idle(bench->core));
}

static void a_wait_ends_in_time_and_by_its_tag(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *timed = new_deed(bench, 1, 'W');
	timed->wish.timed = true;
	timed->wish.deadline_ns = bench->now_ns + 200 * NS_PER_MS;
	begin(bench, timed);
	struct deed *tagged = take(bench, 7, 'W');
	queue_up(bench, expect(bench, OP_ACQUIRE));
	pass_ms(bench, 199);
	assert_int_equal(code_of(timed), 1);
	pass_ms(bench, 1);
	assert_int_equal(code_of(timed), SNECK_ETIMEDOUT);
	assert_int_equal(snecki_core_cancel_tag(bench->core, 7, bench->now_ns), 1);
	assert_int_equal(code_of(tagged), SNECK_ECANCELED);
	assert_int_equal(snecki_core_cancel_tag(bench->core, 7, bench->now_ns), 0);
	expect(bench, OP_CANCEL);
}

static void granted_while_it_was_given_up(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take(bench, 1, 'W');
	struct lock_call *call = expect(bench, OP_ACQUIRE);

	assert_true(snecki_wish_unanswered(&hold->wish));
	give_up(bench, hold, SNECK_ETIMEDOUT);
	assert_int_equal(code_of(hold), SNECK_EUNKNOWN); /* nobody knows what the server did */
	struct lock_call *cancel = expect(bench, OP_CANCEL);
	grant(bench, call);
	assert_int_equal(snecki_hold_valid_until(&hold->hold), 0);
	answer(bench, cancel, LOCK_DONE);
	expect_silence(bench);
}

static void a_preferred_writer_goes_before_others(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');
	struct deed *reader = take(bench, 2, 'R');
	struct deed *plain = take(bench, 3, 'W');
	struct deed *preferred[2];

	for (int i = 0; i < 2; i++) {
		preferred[i] = new_deed(bench, 4 + (uint64_t)i, 'W');
		preferred[i]->wish.prefer = true;
		begin(bench, preferred[i]);
	}
	ask(bench, WISH_RELEASE, hold);
	assert_true(has(preferred[0])); /* among themselves in order */
	ask(bench, WISH_RELEASE, preferred[0]);
	assert_true(has(preferred[1]));
	ask(bench, WISH_RELEASE, preferred[1]);
	expect(bench, OP_RELEASE); /* then comes a reader: WRITE is given back */
	assert_int_equal(expect(bench, OP_ACQUIRE)->op.mode, 'R');
	assert_int_equal(code_of(reader), 1);
	assert_int_equal(code_of(plain), 1);
}

static void preference_reaches_the_server(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = new_deed(bench, 1, 'W');

	deed->wish.prefer = true;
	begin(bench, deed);
	struct lock_call *call = expect(bench, OP_ACQUIRE);
	assert_true(call->op.prefer && call->op.queue);
}

/* ---- Refusals -----------------------------------------------------------------------------------*/

static struct deed *try_it(struct bench *bench, uint64_t owner, char mode) {
	struct deed *deed = new_deed(bench, owner, mode);

	deed->wish.nowait = true;
	begin(bench, deed);
	return deed;
}

static void refused_by_this_session_without_a_request(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');
	struct deed *refused = try_it(bench, 2, 'R');

	assert_int_equal(code_of(refused), SNECK_EBUSY);
	assert_true(refused->wish.local_block);
	assert_string_equal(refused->wish.holder, "me");
	assert_int_equal(refused->wish.holder_mode, 'W');
	expect_silence(bench);
	assert_true(has(hold));
}

static void refused_by_the_server_with_the_holder(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *refused = try_it(bench, 1, 'W');
	struct lock_call *call = expect(bench, OP_ACQUIRE);

	assert_false(call->op.queue);
	answer(bench, call, LOCK_BUSY);
	assert_int_equal(code_of(refused), SNECK_EBUSY);
	assert_false(refused->wish.local_block);
	assert_string_equal(refused->wish.holder, "other");
	assert_int_equal(refused->wish.holder_mode, 'W');
}

static void a_private_wait_refuses_nobody_else(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *waits = take_fixed(bench, 1, 'W', 5000);
	struct lock_call *private_call = expect(bench, OP_ACQUIRE);
	struct deed *tries = try_it(bench, 2, 'R');
	struct lock_call *shared_call = expect(bench, OP_ACQUIRE);

	queue_up(bench, private_call);
	assert_int_equal(code_of(tries), 1); /* its own answer is still to come */
	grant(bench, shared_call);
	assert_true(has(tries));
	assert_int_equal(code_of(waits), 1);
}

/* ---- The end ------------------------------------------------------------------------------------*/

static void a_thread_that_ends_is_renewed_no_longer(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');

	assert_int_equal(snecki_core_owner_gone(bench->core, 2, bench->now_ns), 0);
	assert_int_equal(snecki_core_owner_gone(bench->core, 1, bench->now_ns), 1);
	pass_ms(bench, LEASE_MS - 301);
	expect_silence(bench);
	assert_int_equal(hold->states, 0);
	pass_ms(bench, 1);
	assert_int_equal(hold->told, HOLD_LOST);
}

static void closing_gives_everything_back(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'R');
	struct deed *waits = take(bench, 2, 'W');

	queue_up(bench, expect(bench, OP_ACQUIRE));
	snecki_core_close(bench->core, bench->now_ns);
	assert_int_equal(code_of(waits), SNECK_ECLOSED);
	assert_int_equal(snecki_hold_valid_until(&hold->hold), 0);
	answer(bench, expect(bench, OP_CANCEL), LOCK_DONE);
	assert_false(snecki_core_idle(bench->core));
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	assert_true(snecki_core_idle(bench->core));
	assert_int_equal(code_of(take(bench, 3, 'R')), SNECK_ECLOSED);
	expect_silence(bench);
}

/* No other answer comes that would let the entry make progress: the release goes out with the close. */
static void closing_gives_a_lone_hold_back_at_once(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');

	snecki_core_close(bench->core, bench->now_ns);
	assert_int_equal(snecki_hold_valid_until(&hold->hold), 0);
	struct lock_call *release = expect(bench, OP_RELEASE);
	assert_false(snecki_core_idle(bench->core));
	answer(bench, release, LOCK_DONE);
	assert_true(snecki_core_idle(bench->core));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(a_lone_pair_is_two_requests),
		TEST(re_entry_is_local),
		TEST(readers_share_one_hold),
		TEST(those_who_wait_for_one_answer_share_it),
		TEST(writers_pass_it_on_under_the_next_number),
		TEST(a_wanted_lock_is_passed_on_sixteen_times),
		TEST(a_wanted_lock_is_passed_on_for_five_milliseconds),
		TEST(nobody_wants_it_any_more),
		TEST(wanted_again_counts_anew),
		TEST(a_short_lease_is_renewed_before_it_is_passed_on),
		TEST(a_renewal_that_is_refused_is_not_repeated_at_once),
		TEST(a_renewal_that_does_not_help_is_not_repeated),
		TEST(the_last_waiter_is_gone_before_the_renewal),
		TEST(wanted_closes_the_door_to_new_readers),
		TEST(a_local_writer_queues_beside_the_reader),
		TEST(the_place_in_the_queue_is_kept_while_somebody_needs_it),
		TEST(a_wait_ends_in_time_and_by_its_tag),
		TEST(granted_while_it_was_given_up),
		TEST(a_preferred_writer_goes_before_others),
		TEST(preference_reaches_the_server),
		TEST(refused_by_this_session_without_a_request),
		TEST(refused_by_the_server_with_the_holder),
		TEST(a_private_wait_refuses_nobody_else),
		TEST(a_thread_that_ends_is_renewed_no_longer),
		TEST(closing_gives_everything_back),
		TEST(closing_gives_a_lone_hold_back_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
