/* SPDX-License-Identifier: MIT */
/* The lock core on a layout that has no queue, counts holds on the server and knows no tokens: who waits
 * asks again, and the server hears how many holds there are. */
#include "bench.h"

static const struct lock_traits counting = {
	.polls = true, .counts = true, .no_tokens = true, .poll_first_ms = 10, .poll_most_ms = 1000
};
static const struct lock_traits one_way = { .polls = true,
	.no_upgrade = true,
	.no_downgrade = true,
	.no_tokens = true,
	.poll_first_ms = 10,
	.poll_most_ms = 1000 };

static int setup_counting(void **state) {
	return bench_setup_layout(state, &counting);
}

static int setup_one_way(void **state) {
	return bench_setup_layout(state, &one_way);
}

/* Such a layout cannot tell whether others wait, so its dialect says that they do. */
static void grant_polled(struct bench *bench, struct lock_call *call) {
	struct lock_outcome outcome = outcome_of(bench, LOCK_GRANTED);

	outcome.token = 0;
	outcome.wanted = true;
	outcome.deadline_ms = outcome.server_us / 1000 + call->op.lease_ms;
	answer_outcome(bench, call, &outcome);
}

/* Held by another for `left_ms`; 0: nobody knows how long. */
static void wait_polled(struct bench *bench, struct lock_call *call, int64_t left_ms) {
	struct lock_outcome outcome = outcome_of(bench, LOCK_WAITING);

	outcome.token = 0;
	outcome.holder_deadline_ms = left_ms ? outcome.server_us / 1000 + left_ms : 0;
	answer_outcome(bench, call, &outcome);
}

static struct deed *hold_polled(struct bench *bench, uint64_t owner, char mode) {
	struct deed *deed = take(bench, owner, mode);

	grant_polled(bench, expect(bench, OP_ACQUIRE));
	assert_true(has(deed));
	assert_int_equal(deed->hold.token, 0);
	return deed;
}

/* How long the core waits before it asks again. */
static int64_t pause_ms(const struct bench *bench) {
	return (snecki_core_next_due(bench->core) - bench->now_ns) / NS_PER_MS;
}

static void it_is_asked_for_again_with_growing_pauses(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = take(bench, 1, 'W');
	int64_t last = 0;

	wait_polled(bench, expect(bench, OP_ACQUIRE), 0);
	assert_int_equal(pause_ms(bench) <= 10 && pause_ms(bench) >= 7, 1);
	for (int i = 0; i < 20; i++) {
		last = pause_ms(bench);
		pass_ms(bench, last + 1);
		wait_polled(bench, expect(bench, OP_BEAT), 0);
		expect_silence(bench);
	}
	assert_in_range(last, 740, 1000);
	pass_ms(bench, 1001);
	grant_polled(bench, expect(bench, OP_BEAT));
	assert_true(has(deed));
}

static void the_end_of_the_holders_time_is_not_slept_through(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = take(bench, 1, 'W');

	wait_polled(bench, expect(bench, OP_ACQUIRE), 0);
	for (int i = 0; i < 20; i++) { /* the pauses are long by now */
		pass_ms(bench, pause_ms(bench) + 1);
		wait_polled(bench, expect(bench, OP_BEAT), i == 19 ? 50 : 0);
	}
	assert_in_range(pause_ms(bench), 50, 60);
	pass_ms(bench, 60);
	grant_polled(bench, expect(bench, OP_BEAT));
	assert_true(has(deed));
}

static void a_message_makes_it_look_at_once(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = take(bench, 1, 'W');

	assert_int_equal(bench->listening, 0);
	wait_polled(bench, expect(bench, OP_ACQUIRE), 30000);
	assert_int_equal(bench->listening, 1);
	snecki_core_maybe_free(bench->core, NULL, "another", 7, bench->now_ns);
	expect_silence(bench);
	snecki_core_maybe_free(bench->core, NULL, "name", 4, bench->now_ns);
	grant_polled(bench, expect(bench, OP_BEAT));
	assert_true(has(deed));
	assert_int_equal(bench->listening, 0);
}

/* The server answered "held", then it was released and said so; the message was faster than the answer. */
static void a_message_that_overtakes_the_answer_counts(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = take(bench, 1, 'W');
	struct lock_call *call = expect(bench, OP_ACQUIRE);

	snecki_core_maybe_free(bench->core, NULL, "name", 4, bench->now_ns);
	wait_polled(bench, call, 30000);
	pass_ms(bench, 1);
	call = expect(bench, OP_BEAT);
	snecki_core_maybe_free(bench->core, NULL, "name", 4, bench->now_ns);
	expect_silence(bench);
	wait_polled(bench, call, 30000);
	pass_ms(bench, 1);
	grant_polled(bench, expect(bench, OP_BEAT));
	assert_true(has(deed));
}

static void who_gives_up_stops_listening(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = take(bench, 1, 'W');

	wait_polled(bench, expect(bench, OP_ACQUIRE), 30000);
	give_up(bench, deed, SNECK_ETIMEDOUT);
	assert_int_equal(code_of(deed), SNECK_ETIMEDOUT);
	assert_int_equal(bench->listening, 0);
	answer(bench, expect(bench, OP_CANCEL), LOCK_DONE);
	expect_silence(bench);
}

static void the_server_hears_how_many_there_are(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *outer = take(bench, 1, 'W');
	struct lock_call *call = expect(bench, OP_ACQUIRE);

	assert_int_equal(call->op.writes, 1);
	assert_int_equal(call->op.reads, 0);
	grant_polled(bench, call);
	expect_silence(bench);
	struct deed *again = take(bench, 1, 'W');
	struct deed *read = take(bench, 1, 'R');
	assert_true(has(again) && has(read));
	call = expect(bench, OP_RENEW);
	assert_int_equal(call->op.writes, 2);
	assert_int_equal(call->op.reads, 0);
	assert_int_equal(call->op.lease_ms, 1); /* it lengthens nothing */
	grant_polled(bench, call);
	call = expect(bench, OP_RENEW);
	assert_int_equal(call->op.writes, 2);
	assert_int_equal(call->op.reads, 1);
	grant_polled(bench, call);
	assert_int_equal(code_of(ask(bench, WISH_RELEASE, outer)), 0);
	call = expect(bench, OP_RENEW);
	assert_int_equal(call->op.writes, 1);
	answer(bench, call, LOCK_UNKNOWN);
	expect_silence(bench);
	assert_true(has(again) && has(read));
}

static void a_hold_that_the_server_forgot_is_lost_when_it_is_counted(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *outer = hold_polled(bench, 1, 'W');

	take(bench, 1, 'W');
	answer(bench, expect(bench, OP_RENEW), LOCK_GONE);
	assert_false(has(outer));
	assert_int_equal(outer->told, HOLD_LOST);
}

static void passed_on_without_a_number(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *first = hold_polled(bench, 1, 'W');
	struct deed *second = take(bench, 2, 'W');

	ask(bench, WISH_RELEASE, first);
	assert_true(has(second));
	assert_int_equal(second->hold.token, 0);
	pass_ms(bench, 5); /* others may wait: not for long */
	struct deed *third = take(bench, 3, 'W');
	ask(bench, WISH_RELEASE, second);
	assert_false(has(third));
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
}

/* Re-entry that outlives what is held: one hold on the server, renewed to the end of the longer. */
static void a_longer_fixed_lease_is_seen_to_its_end(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *outer = hold_polled(bench, 1, 'W');
	struct deed *fixed = take_fixed(bench, 1, 'W', 2 * LEASE_MS);

	assert_true(has(fixed));
	grant_polled(bench, expect(bench, OP_RENEW)); /* the count */
	ask(bench, WISH_RELEASE, outer);
	grant_polled(bench, expect(bench, OP_RENEW));
	for (int i = 0; i < 5; i++) {
		pass_ms(bench, LEASE_MS / 3);
		if (i < 3) /* by then the server's lease reaches beyond its own */
			grant_polled(bench, expect(bench, OP_RENEW));
		assert_true(has(fixed));
	}
	pass_ms(bench, LEASE_MS / 3);
	assert_false(has(fixed));
}

static void a_reader_is_not_turned_into_a_writer(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *read = hold_polled(bench, 1, 'R');

	assert_int_equal(code_of(take(bench, 1, 'W')), SNECK_EDEADLK);
	assert_int_equal(code_of(ask(bench, WISH_UPGRADE, read)), SNECK_ENOTSUP);
	expect_silence(bench);
	assert_true(has(read));
}

static void a_writer_covers_its_readers_to_their_end(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *write = hold_polled(bench, 1, 'W');
	struct deed *read = take(bench, 1, 'R');

	assert_int_equal(code_of(ask(bench, WISH_DOWNGRADE, write)), SNECK_ENOTSUP);
	assert_int_equal(code_of(ask(bench, WISH_RELEASE, write)), 0);
	expect_silence(bench);
	assert_true(has(read));
	struct deed *write_again = take(bench, 1, 'W'); /* WRITE is still ours on the server */
	assert_true(has(write_again));
	ask(bench, WISH_RELEASE, write_again);
	release_done(bench, read);
}

int main(void) {
#define COUNTING(name) cmocka_unit_test_setup_teardown(name, setup_counting, bench_teardown)
#define ONE_WAY(name) cmocka_unit_test_setup_teardown(name, setup_one_way, bench_teardown)
	const struct CMUnitTest tests[] = {
		COUNTING(it_is_asked_for_again_with_growing_pauses),
		COUNTING(the_end_of_the_holders_time_is_not_slept_through),
		COUNTING(a_message_makes_it_look_at_once),
		COUNTING(a_message_that_overtakes_the_answer_counts),
		COUNTING(who_gives_up_stops_listening),
		COUNTING(the_server_hears_how_many_there_are),
		COUNTING(a_hold_that_the_server_forgot_is_lost_when_it_is_counted),
		COUNTING(passed_on_without_a_number),
		COUNTING(a_longer_fixed_lease_is_seen_to_its_end),
		ONE_WAY(a_reader_is_not_turned_into_a_writer),
		ONE_WAY(a_writer_covers_its_readers_to_their_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
