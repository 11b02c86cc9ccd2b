/* SPDX-License-Identifier: MIT */
/* The lock core: how waiters learn that it is their turn. By messages, which may be old, forged, early or
 * lost; and by asking, when none has come. */
#include "bench.h"

static void a_message_grants_and_is_claimed(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take(bench, 1, 'W');
	int64_t sent_ns = bench->now_ns;

	pass_ms(bench, 10);
	queue_up(bench, expect(bench, OP_ACQUIRE));
	pass_ms(bench, 200);
	hear_grant(bench, 1);
	assert_true(has(hold));
	assert_int_equal(hold->hold.token, bench->token);
	/* Until the claim is answered only the waiter's own lease is certain. */
	int64_t certain_ns = (BENCH_WAIT_LEASE_MS - 30) * NS_PER_MS;
	assert_int_equal(snecki_hold_valid_until(&hold->hold), sent_ns + certain_ns);
	struct lock_call *claim = expect(bench, OP_BEAT);
	pass_ms(bench, 10);
	assert_int_equal(hold->states, 0); /* no doubt as long as the claim has time */
	confirm(bench, claim);
	assert_int_equal(snecki_hold_valid_until(&hold->hold), sent_ns + (210 + VALID_MS) * NS_PER_MS);
	expect_silence(bench);
}

static void a_claim_finds_it_gone(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take(bench, 1, 'W');

	queue_up(bench, expect(bench, OP_ACQUIRE));
	hear_grant(bench, 1);
	assert_true(has(hold));
	answer(bench, expect(bench, OP_BEAT), LOCK_GONE);
	assert_int_equal(hold->told, HOLD_LOST);
}

static void a_message_may_be_forged(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take(bench, 1, 'W');

	queue_up(bench, expect(bench, OP_ACQUIRE));
	hear_grant(bench, 1);
	struct lock_call *claim = expect(bench, OP_BEAT);
	answer(bench, claim, LOCK_WAITING); /* the server knows nothing of a grant */
	assert_int_equal(hold->told, HOLD_LOST);
	struct lock_call *release = expect(bench, OP_RELEASE);
	assert_int_equal(release->op.bury_n, 1); /* or it would be granted to nobody */
}

static void a_message_before_the_answer_that_says_waiting(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take(bench, 1, 'W');
	struct lock_call *call = expect(bench, OP_ACQUIRE);

	hear_grant(bench, 1);
	assert_int_equal(code_of(hold), 1);
	bench->token--; /* what the answer says was true before */
	queue_up(bench, call);
	bench->token++;
	pass_ms(bench, 0);
	confirm(bench, expect(bench, OP_BEAT)); /* looked at once */
	assert_true(has(hold));
}

static void a_message_overtakes_a_heartbeats_answer(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take(bench, 1, 'W');

	queue_up(bench, expect(bench, OP_ACQUIRE));
	pass_ms(bench, BENCH_BEAT_MS);
	struct lock_call *beat = expect(bench, OP_BEAT);
	hear_grant(bench, 1);
	assert_true(has(hold));
	queue_up(bench, beat); /* was true when it was written */
	assert_true(has(hold));
	pass_ms(bench, 0);
	confirm(bench, expect(bench, OP_BEAT));
	assert_int_equal(hold->states, 0);
}

static void an_old_message_is_not_believed(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take(bench, 1, 'W');
	struct lock_note old = { .kind = LOCK_NOTE_GRANT, .attempt = 1, .token = bench->token };

	queue_up(bench, expect(bench, OP_ACQUIRE));
	snecki_core_note(
	        bench->core, &old, bench->now_ns); /* no later than what we were told while waiting */
	assert_int_equal(code_of(hold), 1);
	queue_up(bench, expect(bench, OP_BEAT)); /* asked, and not so */
	assert_int_equal(code_of(hold), 1);
}

static void a_late_message_is_not_believed(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take_fixed(bench, 1, 'W', LEASE_MS);

	queue_up(bench, expect(bench, OP_ACQUIRE));
	pass_ms(bench, BENCH_WAIT_LEASE_MS); /* no heartbeat was answered since */
	expect(bench, OP_BEAT);
	hear_grant(bench, 1);
	assert_int_equal(code_of(hold), 1);
}

/* The server has forgotten who waits, and then there is no link for a moment: it goes on waiting. */
static void who_has_waited_joins_again_behind_a_broken_link(void **state) {
	struct bench *bench = bench_of(state);

	struct deed *writer = take(bench, 1, 'W');
	queue_up(bench, expect(bench, OP_ACQUIRE));
	pass_ms(bench, 1500);
	answer(bench, expect(bench, OP_BEAT), LOCK_GONE);
	lose_link(bench, expect(bench, OP_ACQUIRE));
	assert_int_equal(code_of(writer), 1);
	pass_ms(bench, 200);
	grant(bench, expect(bench, OP_ACQUIRE));
	assert_true(has(writer));
}

static void waiters_beat_and_join_again(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take(bench, 1, 'W');

	queue_up(bench, expect(bench, OP_ACQUIRE));
	for (int i = 0; i < 5; i++) {
		pass_ms(bench, 2 * BENCH_BEAT_MS);
		queue_up(bench, expect(bench, OP_BEAT));
		expect_silence(bench);
	}
	pass_ms(bench, 2 * BENCH_BEAT_MS);
	answer(bench, expect(bench, OP_BEAT), LOCK_GONE);
	assert_int_equal(expect(bench, OP_ACQUIRE)->op.attempt, 2);
	assert_int_equal(code_of(hold), 1);
}

static void the_head_looks_when_the_holders_time_is_over(void **state) {
	struct bench *bench = bench_of(state);
	take(bench, 1, 'W');
	struct lock_outcome waiting = outcome_of(bench, LOCK_WAITING);

	waiting.holder_deadline_ms = waiting.server_us / 1000 + 300;
	answer_outcome(bench, expect(bench, OP_ACQUIRE), &waiting);
	pass_ms(bench, 300);
	expect_silence(bench);
	pass_ms(bench, 1);
	expect(bench, OP_BEAT);
}

static void messages_may_have_been_missed(void **state) {
	struct bench *bench = bench_of(state);
	take(bench, 1, 'W');
	queue_up(bench, expect(bench, OP_ACQUIRE));
	snecki_core_subscribed(bench->core, bench->now_ns);
	pass_ms(bench, 0);
	expect(bench, OP_BEAT);
}

/* The grant was announced when the request had been carried out and nobody listened yet; the answer that says
 * "waiting" is read after both. */
static void messages_may_have_been_missed_by_who_asks(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take(bench, 1, 'W');
	struct lock_call *call = expect(bench, OP_ACQUIRE);

	snecki_core_subscribed(bench->core, bench->now_ns);
	expect_silence(bench);
	queue_up(bench, call);
	pass_ms(bench, 0);
	call = expect(bench, OP_BEAT);
	snecki_core_subscribed(
	        bench->core, bench->now_ns); /* again, and this question may be too old as well */
	expect_silence(bench);
	queue_up(bench, call);
	pass_ms(bench, 0);
	confirm(bench, expect(bench, OP_BEAT));
	assert_true(has(hold));
}

static void messages_may_have_been_missed_by_an_upgrader(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'R');
	struct deed *upgrade = ask(bench, WISH_UPGRADE, hold);
	struct lock_call *call = expect(bench, OP_UPGRADE);

	snecki_core_subscribed(bench->core, bench->now_ns);
	queue_up(bench, call);
	pass_ms(bench, 0);
	grant(bench, expect(bench, OP_BEAT));
	assert_int_equal(code_of(upgrade), 0);
}

/* A message that is not believed makes its waiter ask, also when it has just asked. */
static void a_message_that_must_be_verified_overtakes_a_heartbeats_answer(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take(bench, 1, 'W');

	queue_up(bench, expect(bench, OP_ACQUIRE));
	pass_ms(bench, BENCH_WAIT_LEASE_MS); /* no heartbeat was answered since */
	struct lock_call *beat = expect(bench, OP_BEAT);
	hear_grant(bench, 1);
	expect_silence(bench);
	bench->token--;
	queue_up(bench, beat);
	bench->token++;
	pass_ms(bench, 0);
	confirm(bench, expect(bench, OP_BEAT));
	assert_true(has(hold));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(a_message_grants_and_is_claimed),
		TEST(a_claim_finds_it_gone),
		TEST(a_message_may_be_forged),
		TEST(a_message_before_the_answer_that_says_waiting),
		TEST(a_message_overtakes_a_heartbeats_answer),
		TEST(an_old_message_is_not_believed),
		TEST(a_late_message_is_not_believed),
		TEST(waiters_beat_and_join_again),
		TEST(who_has_waited_joins_again_behind_a_broken_link),
		TEST(the_head_looks_when_the_holders_time_is_over),
		TEST(messages_may_have_been_missed),
		TEST(messages_may_have_been_missed_by_who_asks),
		TEST(messages_may_have_been_missed_by_an_upgrader),
		TEST(a_message_that_must_be_verified_overtakes_a_heartbeats_answer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
