/* SPDX-License-Identifier: MIT */
/* The lock core: grants of one session side by side. A fixed lease has an attempt of its own; what its owner
 * holds beside it does not stand in its way, and the session says so to the server. */
#include "bench.h"

/* ---- Fixed leases -------------------------------------------------------------------------------*/

static void a_fixed_lease_is_nobody_elses(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *fixed = take_fixed(bench, 1, 'R', 5000);
	grant(bench, expect(bench, OP_ACQUIRE));
	struct deed *other = take(bench, 2, 'R');

	assert_int_equal(code_of(other), 1); /* an attempt of its own */
	confirm(bench, expect(bench, OP_ACQUIRE));
	pass_ms(bench, 4949);
	expect_silence(bench);
	assert_true(has(fixed));
	pass_ms(bench, 1);
	assert_int_equal(fixed->told, HOLD_LOST);
	assert_int_equal(expect(bench, OP_RELEASE)->op.attempt, 1);
	assert_true(has(other));
}

static void fixed_inside_renewed(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *outer = hold_it(bench, 1, 'W');
	struct deed *shorter = take_fixed(bench, 1, 'W', 5000);

	assert_true(has(shorter)); /* covered: no request */
	expect_silence(bench);
	struct deed *longer = take_fixed(bench, 1, 'W', 600000);
	struct lock_call *call = expect(bench, OP_ACQUIRE);
	assert_int_equal(call->op.own_n, 1); /* past the queue, beside its own */
	assert_int_equal(call->op.own[0], 1);
	confirm(bench, call);
	assert_true(has(longer));
	assert_int_equal(longer->hold.token, outer->hold.token);
	pass_ms(bench, 4950);
	assert_int_equal(shorter->told, HOLD_LOST);
	assert_int_equal(outer->states + longer->states, 0);
	release_done(bench, outer);
	assert_true(has(longer));
}

static void renewed_inside_fixed(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *fixed = take_fixed(bench, 1, 'W', LEASE_MS);
	grant(bench, expect(bench, OP_ACQUIRE));
	struct deed *inner = take(bench, 1, 'R');

	assert_true(has(inner));
	expect_silence(bench);
	for (int i = 0; i < 3; i++) {
		pass_ms(bench, LEASE_MS / 3);
		confirm(bench, expect(bench, OP_RENEW)); /* for the sake of the inner one */
	}
	assert_int_equal(fixed->told, HOLD_LOST); /* at its own end all the same */
	grant(bench, expect(bench, OP_DOWNGRADE));
	assert_true(has(inner));
	assert_int_equal(inner->states, 0);
}

static void a_fixed_writer_inside_a_shorter_reader_lasts_to_its_own_end(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *reader = hold_it(bench, 1, 'R');
	struct deed *fixed = take_fixed(bench, 1, 'W', 3 * LEASE_MS);
	grant(bench, expect(bench, OP_UPGRADE));
	assert_true(has(fixed));
	ask(bench, WISH_RELEASE, reader);
	for (int i = 0; i < 8; i++) {
		pass_ms(bench, LEASE_MS / 3);
		if (!snecki_list_empty(&bench->sent)) /* until the grant lasts long enough */
			confirm(bench, expect(bench, OP_RENEW));
	}
	pass_ms(bench, LEASE_MS / 3 - 900 - 1);
	assert_true(has(fixed));
	expect_silence(bench);
	pass_ms(bench, 1);
	assert_int_equal(fixed->told, HOLD_LOST);
}

static void renew_lengthens_a_fixed_lease(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *fixed = take_fixed(bench, 1, 'W', 5000);
	grant(bench, expect(bench, OP_ACQUIRE));
	pass_ms(bench, 4000);
	struct deed *renew = ask(bench, WISH_RENEW, fixed);
	confirm(bench, expect(bench, OP_RENEW));
	assert_int_equal(code_of(renew), 0);
	assert_int_equal(snecki_hold_valid_until(&fixed->hold), bench->now_ns + 4950 * NS_PER_MS);
	pass_ms(bench, 4949);
	assert_true(has(fixed));
}

/* ---- Readers inside an upgrade ------------------------------------------------------------------*/

static void a_reader_inside_what_waits_for_it(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *one = hold_it(bench, 1, 'R');
	struct deed *two = take(bench, 2, 'R');
	struct deed *upgrade = ask(bench, WISH_UPGRADE, one);
	grant(bench, expect(bench, OP_UPGRADE));
	struct deed *longer = take_fixed(bench, 2, 'R', 10 * LEASE_MS);
	struct lock_call *call = expect(bench, OP_ACQUIRE);

	/* WRITE is the session's, and its owner waits for this reader: it must be let in beside it. */
	assert_int_equal(call->op.own_n, 1);
	assert_int_equal(call->op.own[0], 2);
	confirm(bench, call);
	assert_true(has(longer));
	assert_true(longer->hold.token < bench->token);
	ask(bench, WISH_RELEASE, two);
	assert_int_equal(code_of(upgrade), 1);
	release_done(bench, longer);
	assert_int_equal(code_of(upgrade), 0);
}

static void a_reader_inside_an_upgrade_that_is_unanswered(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *one = hold_it(bench, 1, 'R');
	take(bench, 2, 'R');
	ask(bench, WISH_UPGRADE, one);
	expect(bench, OP_UPGRADE);
	take_fixed(bench, 2, 'R', 10 * LEASE_MS);
	struct lock_call *call = expect(bench, OP_ACQUIRE);

	assert_int_equal(call->op.own_n, 2); /* by either name */
	assert_int_equal(call->op.own[0], 1);
	assert_int_equal(call->op.own[1], 2);
}

static void a_reader_beside_what_waits_for_it(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *two = take_fixed(bench, 2, 'R', LEASE_MS);
	grant(bench, expect(bench, OP_ACQUIRE));
	struct deed *one = take(bench, 1, 'R');
	confirm(bench, expect(bench, OP_ACQUIRE));
	struct deed *upgrade = ask(bench, WISH_UPGRADE, one);
	grant(bench, expect(bench, OP_UPGRADE));
	assert_int_equal(code_of(upgrade), 1);
	assert_true(has(two));

	/* The grant of the upgrade is not one in which the second owner holds. It waits for it all the same.
	 */
	take_fixed(bench, 2, 'R', 10 * LEASE_MS);
	struct lock_call *call = expect(bench, OP_ACQUIRE);
	assert_int_equal(call->op.own_n, 2);
	assert_int_equal(call->op.own[0], 1);
	assert_int_equal(call->op.own[1], 3);
}

static void a_waiting_upgrade_vouches_in_every_heartbeat(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *longer = take_fixed(bench, 1, 'R', 2 * LEASE_MS);
	grant(bench, expect(bench, OP_ACQUIRE));
	struct deed *two = take(bench, 2, 'R');
	confirm(bench, expect(bench, OP_ACQUIRE));
	ask(bench, WISH_UPGRADE, two);
	queue_up(bench, expect(bench, OP_UPGRADE));
	pass_ms(bench, 2 * BENCH_BEAT_MS);
	struct lock_call *beat = expect(bench, OP_BEAT);
	assert_int_equal(beat->op.own_n, 1);
	assert_int_equal(beat->op.own[0], 1);
	assert_true(has(longer));
}

static void a_writer_vouches_only_for_its_own(void **state) {
	struct bench *bench = bench_of(state);
	take_fixed(bench, 1, 'W', 5000);
	struct lock_call *early = expect(bench, OP_ACQUIRE);
	hold_it(bench, 1, 'R');
	assert_true(has(take(bench, 2, 'R')));
	answer(bench, early, LOCK_UNKNOWN); /* now its owner holds something, but not alone */
	assert_int_equal(expect(bench, OP_ACQUIRE)->op.own_n, 0);
}

static void let_in_beside_a_hold_that_has_gone(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *outer = hold_it(bench, 1, 'W');
	struct deed *inner = take_fixed(bench, 1, 'R', 2 * LEASE_MS);
	struct lock_call *call = expect(bench, OP_ACQUIRE);
	ask(bench, WISH_RELEASE, outer);
	expect(bench, OP_RELEASE);
	confirm(bench, call); /* beside the writer, under the writer's number */
	assert_int_equal(code_of(inner), 1);
	assert_int_equal(expect(bench, OP_RELEASE)->op.attempt, 2);
	assert_int_equal(expect(bench, OP_ACQUIRE)->op.own_n, 0); /* in its turn */
}

static void after_it_has_waited_it_is_like_any_other(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *outer = hold_it(bench, 1, 'R');
	struct deed *inner = take_fixed(bench, 1, 'R', 2 * LEASE_MS);
	queue_up(bench, expect(bench, OP_ACQUIRE));
	ask(bench, WISH_RELEASE, outer);
	expect(bench, OP_RELEASE);
	pass_ms(bench, 2 * BENCH_BEAT_MS);
	grant(bench, expect(bench, OP_BEAT));
	assert_true(has(inner));
	expect_silence(bench);
}

/* ---- Conversions beside each other --------------------------------------------------------------*/

static void an_upgrade_waits_for_a_conversion_beside_it(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *two = take_fixed(bench, 2, 'R', LEASE_MS);
	grant(bench, expect(bench, OP_ACQUIRE));
	struct deed *one = take(bench, 1, 'R');
	confirm(bench, expect(bench, OP_ACQUIRE));
	struct deed *first = ask(bench, WISH_UPGRADE, one);
	queue_up(bench, expect(bench, OP_UPGRADE));
	give_up(bench, first, SNECK_ETIMEDOUT);
	struct lock_call *cancel = expect(bench, OP_CANCEL);
	struct deed *second = ask(bench, WISH_UPGRADE, two);
	struct deed *nested = take(bench, 2, 'W');
	expect_silence(bench);
	answer(bench, cancel, LOCK_DONE);
	expect(bench, OP_UPGRADE);
	assert_int_equal(code_of(second), 1);
	assert_int_equal(code_of(nested), SNECK_EDEADLK); /* by its own owner's other thread */
}

static void an_upgrade_that_waits_is_told_that_its_hold_has_gone(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *one = hold_it(bench, 1, 'R');
	struct deed *two = take(bench, 2, 'R');
	give_up(bench, ask(bench, WISH_UPGRADE, one), SNECK_ETIMEDOUT);
	struct deed *waits = ask(bench, WISH_UPGRADE, two);
	assert_int_equal(code_of(waits), 1);
	ask(bench, WISH_RELEASE, two);
	assert_int_equal(code_of(waits), SNECK_ECANCELED);
}

static void the_number_of_a_reader_moves_with_its_writer(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *writer = hold_it(bench, 1, 'W');
	struct deed *reader = take_fixed(bench, 1, 'R', 2 * LEASE_MS);
	confirm(bench, expect(bench, OP_ACQUIRE));
	ask(bench, WISH_RELEASE, writer);
	bench->token++; /* the readers whom a writer leaves behind begin a phase */
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	assert_int_equal(reader->hold.token, bench->token);
	struct deed *renew = ask(bench, WISH_RENEW, reader);
	confirm(bench, expect(bench, OP_RENEW));
	assert_int_equal(code_of(renew), 0); /* no other hold: its own session moved the number */
}

/* ---- Detaching beside others --------------------------------------------------------------------*/

static void nothing_is_detached_beside_a_writer(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *writer = hold_it(bench, 1, 'W');
	struct deed *nested = take(bench, 1, 'R');

	assert_int_equal(code_of(ask(bench, WISH_DETACH, writer)), SNECK_EBUSY);
	ask(bench, WISH_RELEASE, nested);
	struct deed *beside = take_fixed(bench, 1, 'R', 2 * LEASE_MS);
	confirm(bench, expect(bench, OP_ACQUIRE));
	assert_true(has(beside));
	assert_int_equal(code_of(ask(bench, WISH_DETACH, beside)), SNECK_EBUSY);
	assert_int_equal(code_of(ask(bench, WISH_DETACH, writer)), SNECK_EBUSY);
	expect_silence(bench);
}

static void nothing_is_detached_beside_an_upgrade(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *other = take_fixed(bench, 2, 'R', LEASE_MS);
	grant(bench, expect(bench, OP_ACQUIRE));
	struct deed *reader = take(bench, 1, 'R');
	confirm(bench, expect(bench, OP_ACQUIRE));
	ask(bench, WISH_UPGRADE, reader);

	assert_int_equal(expect(bench, OP_UPGRADE)->op.own_n, 1); /* the session vouches for the other */
	assert_int_equal(code_of(ask(bench, WISH_DETACH, other)), SNECK_EBUSY);
}

static void an_upgrade_does_not_vouch_for_what_is_being_detached(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *other = take_fixed(bench, 2, 'R', LEASE_MS);
	grant(bench, expect(bench, OP_ACQUIRE));
	struct deed *reader = take(bench, 1, 'R');
	confirm(bench, expect(bench, OP_ACQUIRE));
	ask(bench, WISH_DETACH, other);
	expect(bench, OP_RENAME);
	ask(bench, WISH_UPGRADE, reader);

	assert_int_equal(expect(bench, OP_UPGRADE)->op.own_n, 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(a_fixed_lease_is_nobody_elses),
		TEST(fixed_inside_renewed),
		TEST(renewed_inside_fixed),
		TEST(a_fixed_writer_inside_a_shorter_reader_lasts_to_its_own_end),
		TEST(renew_lengthens_a_fixed_lease),
		TEST(a_reader_inside_what_waits_for_it),
		TEST(a_reader_inside_an_upgrade_that_is_unanswered),
		TEST(a_reader_beside_what_waits_for_it),
		TEST(a_waiting_upgrade_vouches_in_every_heartbeat),
		TEST(a_writer_vouches_only_for_its_own),
		TEST(let_in_beside_a_hold_that_has_gone),
		TEST(after_it_has_waited_it_is_like_any_other),
		TEST(an_upgrade_waits_for_a_conversion_beside_it),
		TEST(an_upgrade_that_waits_is_told_that_its_hold_has_gone),
		TEST(the_number_of_a_reader_moves_with_its_writer),
		TEST(nothing_is_detached_beside_a_writer),
		TEST(nothing_is_detached_beside_an_upgrade),
		TEST(an_upgrade_does_not_vouch_for_what_is_being_detached),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
