/* SPDX-License-Identifier: MIT */
/* The lock core: grants that replicas have to acknowledge before they count. */
#include "bench.h"

enum { ACK_MS = 1000 };

static struct deed *new_acked(struct bench *bench, uint64_t owner, char mode, uint32_t replicas) {
	struct deed *deed = new_deed(bench, owner, mode);

	deed->wish.ack_replicas = replicas;
	deed->wish.ack_ms = ACK_MS;
	return deed;
}

static struct deed *take_acked(struct bench *bench, uint64_t owner, char mode, uint32_t replicas) {
	struct deed *deed = new_acked(bench, owner, mode, replicas);

	begin(bench, deed);
	return deed;
}

/* The next request asks so many replicas, by a renewal that certainly writes. */
static struct lock_call *expect_question(struct bench *bench, uint32_t replicas) {
	struct lock_call *call = expect(bench, OP_RENEW);

	assert_int_equal(call->ack_replicas, replicas);
	assert_int_equal(call->ack_ms, ACK_MS);
	assert_true(call->op.must_write);
	return call;
}

static void acknowledge(struct bench *bench, struct lock_call *call, uint32_t replicas) {
	struct lock_outcome outcome = outcome_of(bench, LOCK_GRANTED);

	outcome.acked = replicas;
	outcome.deadline_ms = outcome.server_us / 1000 + LEASE_MS;
	answer_outcome(bench, call, &outcome);
}

/* Attempt 1 is granted, and replicas are asked. */
static struct lock_call *granted_and_asked(struct bench *bench, uint32_t replicas) {
	grant(bench, expect(bench, OP_ACQUIRE));
	return expect_question(bench, replicas);
}

static void given_back(struct bench *bench) {
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	expect_silence(bench);
	assert_int_equal(snecki_core_next_due(bench->core), NS_NEVER);
}

/* ---- Enough -------------------------------------------------------------------------------------*/

static void counts_when_they_have_it(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = take_acked(bench, 1, 'W', 2);
	struct lock_call *call = granted_and_asked(bench, 2);

	assert_int_equal(code_of(deed), 1);
	int64_t sent_ns = bench->now_ns;
	pass_ms(bench, 400);
	acknowledge(bench, call, 2);
	assert_true(has(deed));
	assert_true(deed->hold.token == bench->token);
	/* The time that it took is not counted on. */
	assert_true(snecki_hold_valid_until(&deed->hold) <=
	            sent_ns + (LEASE_MS - snecki_margin_ms(LEASE_MS)) * NS_PER_MS);
	expect_silence(bench);
}

static void nobody_asks_without_being_asked(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = take(bench, 1, 'W');

	grant(bench, expect(bench, OP_ACQUIRE));
	assert_true(has(deed));
	struct deed *again = take_acked(bench, 1, 'W', 2); /* re-entry */
	assert_true(has(again));
	assert_int_equal(code_of(ask(bench, WISH_RELEASE, again)), 0);
	release_done(bench, deed);
	expect_silence(bench);
}

static void refused_without_a_question(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = new_acked(bench, 1, 'W', 1);

	deed->wish.nowait = true;
	begin(bench, deed);
	answer(bench, expect(bench, OP_ACQUIRE), LOCK_BUSY);
	assert_int_equal(code_of(deed), SNECK_EBUSY);
	expect_silence(bench);
}

static void a_fixed_lease_is_not_lengthened(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = new_acked(bench, 1, 'W', 1);

	deed->wish.fixed = true;
	begin(bench, deed);
	int64_t sent_ns = bench->now_ns;
	struct lock_call *call = granted_and_asked(bench, 1);
	assert_int_equal(call->op.lease_ms, 1);
	pass_ms(bench, 400);
	acknowledge(bench, call, 1);
	assert_true(has(deed));
	assert_true(snecki_hold_valid_until(&deed->hold) <=
	            sent_ns + (LEASE_MS - snecki_margin_ms(LEASE_MS)) * NS_PER_MS);
}

static void readers_share_one_answer(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *first = take_acked(bench, 1, 'R', 2), *second = take_acked(bench, 2, 'R', 1);
	struct lock_call *call = granted_and_asked(bench, 2);

	acknowledge(bench, call, 2);
	assert_true(has(first) && has(second));
	struct deed *third = take_acked(bench, 3, 'R', 2);
	assert_true(has(third));
	expect_silence(bench);
	struct deed *more = take_acked(bench, 4, 'R', 3);
	assert_int_equal(code_of(more), 1);
	acknowledge(bench, expect_question(bench, 3), 3);
	assert_true(has(more));
}

static void passed_on_as_far_as_it_was_acknowledged(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *plain = hold_it(bench, 1, 'W');
	struct deed *acked = take_acked(bench, 2, 'W', 1);
	expect_silence(bench);

	ask(bench, WISH_RELEASE, plain);
	assert_int_equal(code_of(acked), 1); /* nobody has asked the replicas yet */
	acknowledge(bench, expect_question(bench, 1), 1);
	assert_true(has(acked));
	struct deed *next = take_acked(bench, 3, 'W', 1);
	ask(bench, WISH_RELEASE, acked);
	assert_true(has(next));
	expect_silence(bench);
}

/* ---- Waiting ------------------------------------------------------------------------------------*/

static void a_message_is_not_enough(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = take_acked(bench, 1, 'W', 1);

	queue_up(bench, expect(bench, OP_ACQUIRE));
	hear_grant(bench, 1);
	assert_int_equal(code_of(deed), 1);
	confirm(bench, expect(bench, OP_BEAT)); /* the claim */
	assert_int_equal(code_of(deed), 1);
	acknowledge(bench, expect_question(bench, 1), 1);
	assert_true(has(deed));
}

static void the_claim_comes_first(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *plain = take(bench, 1, 'R');

	queue_up(bench, expect(bench, OP_ACQUIRE));
	hear_grant(bench, 1);
	assert_true(has(plain)); /* by the message alone */
	struct lock_call *claim = expect(bench, OP_BEAT);
	struct deed *acked = take_acked(bench, 2, 'R', 1);
	pass_ms(bench, 1);
	struct lock_call *renewal = bench->sent_n ? expect(bench, OP_RENEW) : NULL; /* of so short a lease */
	if (renewal)
		assert_int_equal(renewal->ack_replicas, 0);
	assert_int_equal(code_of(acked), 1);
	confirm(bench, claim);
	if (renewal)
		confirm(bench, renewal);
	acknowledge(bench, expect_question(bench, 1), 1);
	assert_true(has(acked));
}

/* ---- Too few ------------------------------------------------------------------------------------*/

static void too_few_undo_it(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = take_acked(bench, 1, 'W', 2);

	acknowledge(bench, granted_and_asked(bench, 2), 1);
	assert_int_equal(code_of(deed), SNECK_EREPLICAS);
	given_back(bench);
}

static void too_few_undo_a_fixed_one(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = new_acked(bench, 1, 'R', 2);

	deed->wish.fixed = true;
	begin(bench, deed);
	acknowledge(bench, granted_and_asked(bench, 2), 1);
	assert_int_equal(code_of(deed), SNECK_EREPLICAS);
	given_back(bench);
}

static void no_answer_is_too_few(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = take_acked(bench, 1, 'W', 1);

	answer(bench, granted_and_asked(bench, 1), LOCK_UNKNOWN);
	assert_int_equal(code_of(deed), SNECK_EREPLICAS);
	given_back(bench);
}

static void a_refusal_is_told(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = take_acked(bench, 1, 'W', 1);
	struct lock_outcome refused = { .status = LOCK_FAILED, .code = SNECK_EACCES };

	answer_outcome(bench, granted_and_asked(bench, 1), &refused);
	assert_int_equal(code_of(deed), SNECK_EACCES);
	given_back(bench);
}

static void who_asks_for_less_goes_on(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *strict = take_acked(bench, 1, 'W', 2), *one = take_acked(bench, 2, 'W', 1);
	struct deed *plain = take(bench, 3, 'W');
	uint64_t token = bench->token + 1;

	acknowledge(bench, granted_and_asked(bench, 2), 1);
	assert_int_equal(code_of(strict), SNECK_EREPLICAS);
	assert_true(has(one)); /* one has it, as was said */
	assert_true(one->hold.token == token);
	expect_silence(bench);
	ask(bench, WISH_RELEASE, one);
	assert_true(has(plain));
}

static void readers_are_refused_together(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *first = take_acked(bench, 1, 'R', 2), *second = take_acked(bench, 2, 'R', 2);
	struct deed *plain = take(bench, 3, 'R');

	acknowledge(bench, granted_and_asked(bench, 2), 0);
	assert_int_equal(code_of(first), SNECK_EREPLICAS);
	assert_int_equal(code_of(second), SNECK_EREPLICAS);
	assert_true(has(plain));
	expect_silence(bench);
}

static void gone_before_they_had_it(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = take_acked(bench, 1, 'W', 1);

	answer(bench, granted_and_asked(bench, 1), LOCK_GONE); /* a failover, perhaps */
	assert_int_equal(code_of(deed), 1);
	acknowledge(bench, granted_and_asked(bench, 1), 1); /* asked for anew */
	assert_true(has(deed));
}

static void given_up_meanwhile(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = take_acked(bench, 1, 'W', 1);
	struct lock_call *call = granted_and_asked(bench, 1);

	assert_true(snecki_wish_unanswered(&deed->wish));
	give_up(bench, deed, SNECK_ECANCELED);
	assert_int_equal(code_of(deed), SNECK_ECANCELED);
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE); /* it does not wait for the replicas */
	acknowledge(bench, call, 1);
	expect_silence(bench);
}

static void out_of_time_for_lack_of_replicas(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = take_acked(bench, 1, 'W', 1);

	granted_and_asked(bench, 1);
	give_up(bench, deed, SNECK_ETIMEDOUT);
	assert_int_equal(code_of(deed), SNECK_EREPLICAS);
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
}

static void no_wait_behind_one_that_asks(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = take_acked(bench, 1, 'W', 1);
	struct lock_call *call = granted_and_asked(bench, 1);
	struct deed *hasty = new_deed(bench, 2, 'W');

	hasty->wish.nowait = true;
	begin(bench, hasty);
	assert_int_equal(code_of(hasty), SNECK_EBUSY);
	acknowledge(bench, call, 1);
	assert_true(has(deed));
}

/* ---- Upgrades -----------------------------------------------------------------------------------*/

static struct deed *upgrade(struct bench *bench, struct deed *held, uint32_t replicas) {
	struct deed *deed = new_acked(bench, held->hold.owner, 'W', replicas);

	deed->wish.kind = WISH_UPGRADE;
	deed->wish.hold = &held->hold;
	snecki_core_upgrade(bench->core, &deed->wish, bench->now_ns);
	return deed;
}

static void an_upgrade_is_acknowledged(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *held = take_acked(bench, 1, 'R', 1);

	acknowledge(bench, granted_and_asked(bench, 1), 2);
	struct deed *up = upgrade(bench, held, 1); /* what they have is READ */
	grant(bench, expect(bench, OP_UPGRADE));
	assert_int_equal(code_of(up), 1);
	acknowledge(bench, expect_question(bench, 1), 1);
	assert_int_equal(code_of(up), 0);
	assert_int_equal(held->hold.mode, 'W');
	expect_silence(bench);
}

static void an_upgrade_is_claimed_before_it_is_acknowledged(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *held = hold_it(bench, 1, 'R');
	struct deed *up = upgrade(bench, held, 1);

	queue_up(bench, expect(bench, OP_UPGRADE));
	hear_grant(bench, 2);
	confirm(bench, expect(bench, OP_BEAT));
	acknowledge(bench, expect_question(bench, 1), 1);
	assert_int_equal(code_of(up), 0);
}

static void an_upgrade_too_few_have_is_read_again(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *held = hold_it(bench, 1, 'R');
	struct deed *up = upgrade(bench, held, 2);

	grant(bench, expect(bench, OP_UPGRADE));
	acknowledge(bench, expect_question(bench, 2), 1);
	assert_int_equal(code_of(up), SNECK_EREPLICAS);
	assert_int_equal(held->hold.mode, 'R');
	grant(bench, expect(bench, OP_DOWNGRADE));
	assert_true(has(held));
	struct deed *next = take_acked(bench, 2, 'R', 1); /* what they had was WRITE */
	assert_int_equal(code_of(next), 1);
	acknowledge(bench, expect_question(bench, 1), 1);
	assert_true(has(next));
}

static void released_before_its_upgrade_was_acknowledged(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *held = hold_it(bench, 1, 'R');
	struct deed *up = take_acked(bench, 1, 'W', 1); /* an upgrade as well */
	struct lock_call *call = expect(bench, OP_UPGRADE);

	struct deed *release = ask(bench, WISH_RELEASE, held);
	grant(bench, call);
	acknowledge(bench, expect_question(bench, 1), 0);
	assert_int_equal(code_of(up), SNECK_EREPLICAS);
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	assert_int_equal(code_of(release), 0);
	expect_silence(bench);
}

static void adopting_asks_nobody(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = new_acked(bench, 1, 'W', 1);

	deed->wish.kind = WISH_ADOPT;
	strcpy(deed->wish.id, "Wother.5~");
	snecki_core_adopt(bench->core, "name", 4, &deed->wish, bench->now_ns);
	grant(bench, expect(bench, OP_RENAME));
	assert_true(has(deed));
	expect_silence(bench);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(counts_when_they_have_it),
		TEST(nobody_asks_without_being_asked),
		TEST(refused_without_a_question),
		TEST(a_fixed_lease_is_not_lengthened),
		TEST(readers_share_one_answer),
		TEST(passed_on_as_far_as_it_was_acknowledged),
		TEST(a_message_is_not_enough),
		TEST(the_claim_comes_first),
		TEST(too_few_undo_it),
		TEST(too_few_undo_a_fixed_one),
		TEST(no_answer_is_too_few),
		TEST(a_refusal_is_told),
		TEST(who_asks_for_less_goes_on),
		TEST(readers_are_refused_together),
		TEST(gone_before_they_had_it),
		TEST(given_up_meanwhile),
		TEST(out_of_time_for_lack_of_replicas),
		TEST(no_wait_behind_one_that_asks),
		TEST(an_upgrade_is_acknowledged),
		TEST(an_upgrade_is_claimed_before_it_is_acknowledged),
		TEST(an_upgrade_too_few_have_is_read_again),
		TEST(released_before_its_upgrade_was_acknowledged),
		TEST(adopting_asks_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
