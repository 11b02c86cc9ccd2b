/* SPDX-License-Identifier: MIT */
/* The lock core: upgrade and downgrade. */
#include "bench.h"

#include "lock/private.h"

/* ---- Upgrade ------------------------------------------------------------------------------------*/

static void a_lone_reader_upgrades(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'R');
	uint64_t read_token = hold->hold.token;
	struct deed *upgrade = ask(bench, WISH_UPGRADE, hold);
	struct lock_call *call = expect(bench, OP_UPGRADE);

	assert_int_equal(call->op.old, 1);
	assert_int_equal(call->op.attempt, 2); /* a fresh name: a late copy finds the old one gone */
	grant(bench, call);
	assert_int_equal(code_of(upgrade), 0);
	assert_int_equal(hold->hold.mode, 'W');
	assert_true(hold->hold.token > read_token);
	ask(bench, WISH_RELEASE, hold);
	assert_int_equal(expect(bench, OP_RELEASE)->op.attempt, 2);
}

static void acquiring_write_while_reading_is_an_upgrade(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *reader = hold_it(bench, 1, 'R');
	struct deed *writer = take(bench, 1, 'W');

	grant(bench, expect(bench, OP_UPGRADE));
	assert_true(has(writer) && has(reader));
	assert_int_equal(reader->hold.token, writer->hold.token); /* one owner, one number */
	ask(bench, WISH_RELEASE, writer);
	grant(bench, expect(bench, OP_DOWNGRADE)); /* releasing WRITE while READ is held */
	assert_true(has(reader));
	assert_true(reader->hold.token == bench->token);
	release_done(bench, reader);
}

static void an_upgrade_goes_out_at_once_and_waits_for_local_readers(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *one = hold_it(bench, 1, 'R');
	struct deed *two = take(bench, 2, 'R');
	struct deed *upgrade = ask(bench, WISH_UPGRADE, one);

	grant(bench, expect(bench, OP_UPGRADE));
	assert_int_equal(code_of(upgrade), 1); /* WRITE is ours, but the other still reads */
	assert_true(has(two));
	struct deed *again = take(bench, 2, 'R'); /* and may re-enter */
	assert_true(has(again));
	assert_true(again->hold.token < bench->token);
	struct deed *stranger = take(bench, 3, 'R');
	assert_int_equal(code_of(stranger), 1);
	ask(bench, WISH_RELEASE, two);
	assert_int_equal(code_of(upgrade), 1);
	ask(bench, WISH_RELEASE, again);
	assert_int_equal(code_of(upgrade), 0);
	assert_int_equal(one->hold.mode, 'W');
}

static void of_two_upgraders_the_second_is_told(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *one = hold_it(bench, 1, 'R');
	struct deed *two = take(bench, 2, 'R');
	struct deed *first = ask(bench, WISH_UPGRADE, one);
	struct deed *second = ask(bench, WISH_UPGRADE, two);

	assert_int_equal(code_of(second), SNECK_EDEADLK);
	assert_true(second->wish.local_block);
	assert_int_equal(code_of(first), 1);
	assert_int_equal(code_of(take(bench, 2, 'W')), SNECK_EDEADLK);
	assert_true(has(two));
}

static void the_server_knows_of_another_upgrader(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'R');
	struct deed *upgrade = ask(bench, WISH_UPGRADE, hold);

	answer(bench, expect(bench, OP_UPGRADE), LOCK_DEADLOCK);
	assert_int_equal(code_of(upgrade), SNECK_EDEADLK);
	assert_string_equal(upgrade->wish.holder, "other");
	assert_true(has(hold));
	assert_int_equal(hold->hold.mode, 'R');
	release_done(bench, hold);
}

static void an_upgrader_waits_and_hears_of_it(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'R');
	struct deed *upgrade = ask(bench, WISH_UPGRADE, hold);

	queue_up(bench, expect(bench, OP_UPGRADE));
	pass_ms(bench, 2 * BENCH_BEAT_MS);
	struct lock_call *beat = expect(bench, OP_BEAT);
	assert_int_equal(beat->op.old, 1);
	assert_int_equal(beat->op.mode, 'W');
	queue_up(bench, beat);
	hear_grant(bench, 2);
	assert_int_equal(code_of(upgrade), 0);
	assert_int_equal(hold->hold.token, bench->token);
}

static void an_upgrade_is_withdrawn(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'R');
	struct deed *upgrade = ask(bench, WISH_UPGRADE, hold);

	queue_up(bench, expect(bench, OP_UPGRADE));
	give_up(bench, upgrade, SNECK_ETIMEDOUT);
	assert_int_equal(code_of(upgrade), SNECK_ETIMEDOUT);
	struct lock_call *cancel = expect(bench, OP_CANCEL);
	assert_int_equal(cancel->op.old, 1);
	assert_int_equal(cancel->op.attempt, 2);
	answer(bench, cancel, LOCK_DONE);
	assert_true(has(hold));
	assert_int_equal(hold->hold.mode, 'R');
	release_done(bench, hold);
}

static void an_upgrade_is_withdrawn_after_it_was_granted(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'R');
	struct deed *upgrade = ask(bench, WISH_UPGRADE, hold);

	queue_up(bench, expect(bench, OP_UPGRADE));
	give_up(bench, upgrade, SNECK_ECANCELED);
	struct lock_outcome kept = outcome_of(bench, LOCK_DONE);
	kept.released_grant = true; /* WRITE stays; READ is no more */
	kept.token = ++bench->token;
	answer_outcome(bench, expect(bench, OP_CANCEL), &kept);
	assert_true(has(hold));
	struct lock_call *downgrade = expect(bench, OP_DOWNGRADE);
	assert_int_equal(downgrade->op.old, 2);
	grant(bench, downgrade);
	assert_true(has(hold));
	assert_int_equal(hold->hold.token, bench->token);
}

static void an_upgrade_refused_after_a_resend_is_withdrawn(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'R');
	struct deed *upgrade = ask(bench, WISH_UPGRADE, hold);

	answer(bench, expect(bench, OP_UPGRADE), LOCK_UNKNOWN);
	struct lock_call *again = expect(bench, OP_UPGRADE);
	assert_int_equal(again->op.attempt, 2);
	answer(bench, again, LOCK_BUSY);
	assert_int_equal(code_of(upgrade), SNECK_EBUSY);
	struct lock_call *cancel = expect(bench, OP_CANCEL); /* the first copy could still convert the hold */
	assert_int_equal(cancel->op.old, 1);
	assert_int_equal(cancel->op.bury_n, 1);
	assert_int_equal(cancel->op.bury[0], 2);
	answer(bench, cancel, LOCK_DONE);
	assert_true(has(hold));
}

static void an_upgrade_waits_for_the_end_of_another_conversion(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *one = hold_it(bench, 1, 'R');
	struct deed *two = take(bench, 2, 'R');
	struct deed *first = ask(bench, WISH_UPGRADE, one);

	queue_up(bench, expect(bench, OP_UPGRADE));
	give_up(bench, first, SNECK_ETIMEDOUT);
	struct deed *second = ask(bench, WISH_UPGRADE, two);
	struct lock_call *cancel = expect(bench, OP_CANCEL);
	expect_silence(bench);
	assert_int_equal(code_of(second), 1);
	answer(bench, cancel, LOCK_DONE);
	queue_up(bench, expect(bench, OP_UPGRADE)); /* now it is its turn */
	give_up(bench, second, SNECK_ETIMEDOUT);
	assert_int_equal(code_of(second), SNECK_ETIMEDOUT);
}

static void released_while_the_upgrade_is_unanswered(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'R');
	struct deed *upgrade = ask(bench, WISH_UPGRADE, hold);
	struct lock_call *call = expect(bench, OP_UPGRADE);
	struct deed *release = ask(bench, WISH_RELEASE, hold);

	assert_int_equal(code_of(upgrade), SNECK_ECANCELED);
	assert_int_equal(code_of(release), 1);
	struct lock_call *cancel = expect(bench, OP_CANCEL);
	grant(bench, call);
	struct lock_outcome kept = outcome_of(bench, LOCK_DONE);
	kept.released_grant = true;
	answer_outcome(bench, cancel, &kept);
	struct lock_call *give_back = expect(bench, OP_RELEASE);
	assert_int_equal(give_back->op.attempt, 2);
	assert_int_equal(give_back->op.mode, 'W');
	answer(bench, give_back, LOCK_DONE);
	assert_int_equal(code_of(release), 0);
	expect_silence(bench);
}

static void lost_while_the_upgrade_is_unanswered(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'R');
	struct deed *upgrade = ask(bench, WISH_UPGRADE, hold);

	expect(bench, OP_UPGRADE);
	pass_ms(bench, LEASE_MS);
	assert_int_equal(code_of(upgrade), SNECK_ELOST);
	assert_int_equal(hold->told, HOLD_LOST);
	expect(bench, OP_RENEW);
	struct lock_call *release = expect(bench, OP_RELEASE);
	assert_int_equal(release->op.bury_n, 1); /* it must not take WRITE for nobody */
	assert_int_equal(release->op.bury[0], 2);
}

static void a_withdrawn_upgrade_that_was_granted_is_not_there(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'R');
	struct deed *upgrade = ask(bench, WISH_UPGRADE, hold);
	struct lock_call *call = expect(bench, OP_UPGRADE);

	give_up(bench, upgrade, SNECK_ETIMEDOUT);
	grant(bench, call);                                 /* READ has become WRITE */
	answer(bench, expect(bench, OP_CANCEL), LOCK_DONE); /* and WRITE has ended */
	assert_int_equal(hold->told, HOLD_LOST);
}

static void an_upgrade_before_the_claim_is_answered(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take(bench, 1, 'R');
	queue_up(bench, expect(bench, OP_ACQUIRE));
	hear_grant(bench, 1);
	struct lock_call *claim = expect(bench, OP_BEAT);
	ask(bench, WISH_UPGRADE, hold);
	queue_up(bench, expect(bench, OP_UPGRADE));
	answer(bench, claim, LOCK_UNKNOWN);
	pass_ms(bench, 0);
	confirm(bench, expect(bench, OP_RENEW)); /* else the read hold would end with the waiter's lease */
	pass_ms(bench, BENCH_WAIT_LEASE_MS);
	assert_true(has(hold));
}

/* ---- Downgrade ----------------------------------------------------------------------------------*/

static void a_downgrade_keeps_the_hold(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');
	uint64_t write_token = hold->hold.token;
	struct deed *downgrade = ask(bench, WISH_DOWNGRADE, hold);
	struct lock_call *call = expect(bench, OP_DOWNGRADE);

	assert_int_equal(call->op.old, 1);
	answer(bench, call, LOCK_UNKNOWN);
	grant(bench, expect(bench, OP_DOWNGRADE));
	assert_int_equal(code_of(downgrade), 0);
	assert_int_equal(hold->hold.mode, 'R');
	assert_true(hold->hold.token > write_token);
	struct deed *other = take(bench, 2, 'R'); /* the door is open again */
	assert_true(has(other));
}

static void a_downgrade_that_took_too_long(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');
	struct deed *downgrade = ask(bench, WISH_DOWNGRADE, hold);
	struct lock_call *call = expect(bench, OP_DOWNGRADE);

	bench->now_ns += LEASE_MS * NS_PER_MS; /* and no timer has run */
	grant(bench, call);
	assert_int_equal(code_of(downgrade), SNECK_ELOST);
	assert_int_equal(hold->told, HOLD_LOST);
}

static void a_nested_downgrade_is_local(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *outer = hold_it(bench, 1, 'W');
	struct deed *inner = take(bench, 1, 'W');

	assert_int_equal(code_of(ask(bench, WISH_DOWNGRADE, inner)), 0);
	expect_silence(bench);
	ask(bench, WISH_RELEASE, outer);
	expect(bench, OP_DOWNGRADE); /* now nobody writes */
}

/* ---- Old names ----------------------------------------------------------------------------------*/

static struct deed *hold_by_message(struct bench *bench, char mode, struct lock_call **ret_claim) {
	struct deed *hold = take(bench, 1, mode);

	queue_up(bench, expect(bench, OP_ACQUIRE));
	hear_grant(bench, 1);
	*ret_claim = expect(bench, OP_BEAT);
	assert_true(has(hold));
	return hold;
}

static void a_claim_finds_the_old_name_gone(void **state) {
	struct bench *bench = bench_of(state);
	struct lock_call *claim;
	struct deed *hold = hold_by_message(bench, 'W', &claim);

	ask(bench, WISH_DOWNGRADE, hold);
	struct lock_call *downgrade = expect(bench, OP_DOWNGRADE);
	answer(bench, claim, LOCK_GONE); /* the downgrade was faster */
	assert_true(has(hold));
	grant(bench, downgrade);
	assert_true(has(hold));
	assert_int_equal(hold->states, 0);
}

static void a_claim_carries_the_number_of_the_upgrade(void **state) {
	struct bench *bench = bench_of(state);
	struct lock_call *claim;
	struct deed *hold = hold_by_message(bench, 'R', &claim);
	struct deed *upgrade = ask(bench, WISH_UPGRADE, hold);
	struct lock_call *call = expect(bench, OP_UPGRADE);

	grant(bench, claim); /* under another token: in the same run the queue moved on */
	assert_true(has(hold));
	confirm(bench, call);
	assert_int_equal(code_of(upgrade), 0);
}

static void a_renewal_under_an_old_name_confirms_nothing(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'R');
	struct deed *detach = ask(bench, WISH_DETACH, hold);
	struct lock_call *rename = expect(bench, OP_RENAME);

	pass_ms(bench, 1000);
	ask(bench, WISH_RENEW, hold);
	struct lock_call *renew = expect(bench, OP_RENEW);
	give_up(bench, detach, SNECK_ETIMEDOUT);
	confirm(bench, rename);                   /* the hold stays ours, and is called 2~ … */
	confirm(bench, expect(bench, OP_RENAME)); /* … and then 3 */
	int64_t valid_ns = snecki_hold_valid_until(&hold->hold);
	pass_ms(bench, 1000);
	assert_int_equal(renew->op.attempt, 1);
	confirm(bench, renew); /* there is a 1 again: a late copy of the acquire */
	assert_int_equal(snecki_hold_valid_until(&hold->hold), valid_ns);
	assert_true(has(hold));
}

static void what_was_renewed_since_the_upgrade_does_not_count(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'R');
	struct deed *upgrade = ask(bench, WISH_UPGRADE, hold);
	struct lock_call *call = expect(bench, OP_UPGRADE);
	struct lock_outcome ran_early = outcome_of(bench, LOCK_GRANTED);
	int64_t certain_ns = snecki_hold_valid_until(&hold->hold);

	ran_early.deadline_ms = ran_early.server_us / 1000 + LEASE_MS;
	ran_early.token = bench->token + 1;
	pass_ms(bench, LEASE_MS / 3);
	confirm(bench, expect(bench, OP_RENEW)); /* of the old name, which a late copy has taken */
	assert_true(snecki_hold_valid_until(&hold->hold) > certain_ns);
	answer_outcome(bench, call, &ran_early);
	assert_int_equal(code_of(upgrade), 0);
	assert_int_equal(snecki_hold_valid_until(&hold->hold), certain_ns);
}

static void an_upgrade_begins_anew_when_the_old_one_is_buried(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'R');
	struct deed *upgrade = ask(bench, WISH_UPGRADE, hold);

	answer(bench, expect(bench, OP_UPGRADE), LOCK_UNKNOWN);
	queue_up(bench, expect(bench, OP_UPGRADE));
	pass_ms(bench, 2 * BENCH_BEAT_MS);
	answer(bench, expect(bench, OP_BEAT), LOCK_GONE); /* taken for dead */
	struct lock_call *cancel = expect(bench, OP_CANCEL);
	assert_int_equal(cancel->op.old, 1);
	assert_int_equal(cancel->op.bury[0], 2);
	expect_silence(bench);
	answer(bench, cancel, LOCK_DONE);
	struct lock_call *again = expect(bench, OP_UPGRADE);
	assert_int_equal(again->op.attempt, 3);
	grant(bench, again);
	assert_int_equal(code_of(upgrade), 0);
}

static void an_upgrade_that_was_to_begin_anew_was_granted(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'R');
	struct deed *upgrade = ask(bench, WISH_UPGRADE, hold);

	answer(bench, expect(bench, OP_UPGRADE), LOCK_UNKNOWN);
	queue_up(bench, expect(bench, OP_UPGRADE));
	pass_ms(bench, 2 * BENCH_BEAT_MS);
	answer(bench, expect(bench, OP_BEAT), LOCK_GONE);
	struct lock_outcome kept = outcome_of(bench, LOCK_DONE);
	kept.released_grant = true; /* by the late copy */
	kept.token = ++bench->token;
	answer_outcome(bench, expect(bench, OP_CANCEL), &kept);
	assert_int_equal(code_of(upgrade), 0);
	assert_int_equal(hold->hold.token, bench->token);
	expect_silence(bench);
}

/* A right that is missing is told at once, and neither the upgrade nor its withdrawal is asked for again and
 * again. */
static void an_upgrade_that_is_denied(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *held = hold_it(bench, 1, 'R');
	struct lock_outcome denied = outcome_of(bench, LOCK_UNKNOWN);

	denied.code = SNECK_EACCES;
	struct deed *up = ask(bench, WISH_UPGRADE, held);
	answer_outcome(bench, expect(bench, OP_UPGRADE), &denied);
	assert_int_equal(code_of(up), SNECK_EACCES);
	answer_outcome(bench, expect(bench, OP_CANCEL), &denied);
	pass_ms(bench, LEASE_MS / 15 - 1);
	expect_silence(bench);
	pass_ms(bench, 2);
	answer(bench, expect(bench, OP_CANCEL), LOCK_DONE);
	assert_true(has(held));
	expect_silence(bench);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(a_lone_reader_upgrades),
		TEST(acquiring_write_while_reading_is_an_upgrade),
		TEST(an_upgrade_goes_out_at_once_and_waits_for_local_readers),
		TEST(of_two_upgraders_the_second_is_told),
		TEST(the_server_knows_of_another_upgrader),
		TEST(an_upgrader_waits_and_hears_of_it),
		TEST(an_upgrade_is_withdrawn),
		TEST(an_upgrade_is_withdrawn_after_it_was_granted),
		TEST(an_upgrade_refused_after_a_resend_is_withdrawn),
		TEST(an_upgrade_waits_for_the_end_of_another_conversion),
		TEST(released_while_the_upgrade_is_unanswered),
		TEST(lost_while_the_upgrade_is_unanswered),
		TEST(a_withdrawn_upgrade_that_was_granted_is_not_there),
		TEST(an_upgrade_before_the_claim_is_answered),
		TEST(a_downgrade_keeps_the_hold),
		TEST(a_downgrade_that_took_too_long),
		TEST(a_nested_downgrade_is_local),
		TEST(a_claim_finds_the_old_name_gone),
		TEST(a_claim_carries_the_number_of_the_upgrade),
		TEST(a_renewal_under_an_old_name_confirms_nothing),
		TEST(what_was_renewed_since_the_upgrade_does_not_count),
		TEST(an_upgrade_begins_anew_when_the_old_one_is_buried),
		TEST(an_upgrade_that_was_to_begin_anew_was_granted),
		TEST(an_upgrade_that_is_denied),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
