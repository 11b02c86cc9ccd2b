/* SPDX-License-Identifier: MIT */
/* The lock core: what lingers, how it is taken again, and what makes it go. What the server is told of it,
 * and hears: test_core_mark.c. */
#include "lingering.h"

/* ---- Taking it again ----------------------------------------------------------------------------*/

static void taken_again_without_a_request(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_lingering(bench, 1, 'W');

	for (int i = 1; i <= 1000; i++) {
		uint64_t before = hold->hold.token;
		let_linger(bench, hold);
		hold = take_lingering(bench, 1 + (uint64_t)i % 3, 'W'); /* any owner's */
		assert_true(has(hold));
		assert_true(hold->hold.token == before + 1); /* a write of its own */
	}
	expect_silence(bench);
	struct lock_core_counters counters;
	snecki_core_counters(bench->core, &counters);
	assert_int_equal(counters.retakes, 1000);
	assert_int_equal(counters.handovers, 0);
	let_linger(bench, hold);
	hear_wanted(bench, 1);
	pass_ms(bench, LEAST_MS);
	struct lock_call *release = expect(bench, OP_RELEASE);
	assert_true(release->op.last_token == hold->hold.token); /* what was used is reported */
	answer(bench, release, LOCK_DONE);
}

static void readers_take_it_again_under_the_same_number(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *first = hold_lingering(bench, 1, 'R');

	let_linger(bench, first);
	struct deed *second = take_lingering(bench, 2, 'R');
	struct deed *third = take_lingering(bench, 3, 'R');
	assert_true(has(second) && has(third));
	assert_true(second->hold.token == first->hold.token);
	let_linger(bench, second);
	let_linger(bench, third);
	pass_ms(bench, MARK_MS);
	assert_true(expect(bench, OP_LINGER)->op.last_token == 0); /* readers take no numbers */
}

static void without_the_wish_nothing_lingers(void **state) {
	struct bench *bench = bench_of(state);

	release_done(bench, hold_it(bench, 1, 'W'));
	/* Whoever goes last decides. */
	struct deed *outer = hold_it(bench, 1, 'W');
	struct deed *inner = take_lingering(bench, 1, 'W');
	assert_true(has(inner));
	assert_int_equal(code_of(ask(bench, WISH_RELEASE, inner)), 0);
	release_done(bench, outer);
	outer = hold_it(bench, 1, 'W');
	inner = take_lingering(bench, 1, 'W');
	assert_int_equal(code_of(ask(bench, WISH_RELEASE, outer)), 0);
	let_linger(bench, inner);
}

static void fixed_and_detached_holds_never_linger(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *fixed = new_lingering(bench, 1, 'W', LINGER_MS);

	fixed->wish.fixed = true;
	begin(bench, fixed);
	grant(bench, expect(bench, OP_ACQUIRE));
	release_done(bench, fixed);
	struct deed *adopted = new_lingering(bench, 1, 'W', LINGER_MS);
	adopted->wish.kind = WISH_ADOPT;
	strcpy(adopted->wish.id, "Wother.1~");
	snecki_core_adopt(bench->core, "name", 4, &adopted->wish, bench->now_ns);
	confirm(bench, expect(bench, OP_RENAME));
	release_done(bench, adopted);
	/* Nested in one that would, and the last to go. */
	struct deed *outer = hold_lingering(bench, 1, 'W');
	fixed = new_lingering(bench, 1, 'W', LINGER_MS);
	fixed->wish.fixed = true;
	fixed->wish.lease_ms = 100;
	begin(bench, fixed);
	assert_true(has(fixed));
	assert_int_equal(code_of(ask(bench, WISH_RELEASE, outer)), 0);
	expect_silence(bench);
	pass_ms(bench, 100);
	expect(bench, OP_RELEASE);
}

/* ---- What makes it go ---------------------------------------------------------------------------*/

static void its_time_is_over(void **state) {
	struct bench *bench = bench_of(state);

	begin_lingering(bench, 'W');
	pass_ms(bench, MARK_MS);
	confirm(bench, expect(bench, OP_LINGER));
	pass_ms(bench, LINGER_MS - MARK_MS - 1);
	expect_silence(bench);
	pass_ms(bench, 1);
	gone(bench);
}

static void each_release_begins_the_time_anew(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_lingering(bench, 1, 'R');

	for (int i = 0; i < 5; i++) {
		let_linger(bench, hold);
		pass_ms(bench, MARK_MS - 1);
		hold = take_lingering(bench, 1, 'R');
		assert_true(has(hold));
		pass_ms(bench, LINGER_MS / 3);
	}
	assert_int_equal(bench->sent_n, 1); /* it was never told, for it never lasted */
}

static void recalled_at_once(void **state) {
	struct bench *bench = bench_of(state);

	for (int round = 0; round < 2; round++) {
		uint64_t attempt = 1 + (uint64_t)round;
		begin_lingering(bench, round ? 'R' : 'W');
		if (!round)
			pass_ms(bench, LEAST_MS);
		hear_wanted(bench, attempt);
		gone(bench);
		struct lock_core_counters counters;
		snecki_core_counters(bench->core, &counters);
		assert_int_equal(counters.recalls, round + 1);
	}
}

static void a_writer_keeps_it_for_a_least_time(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_lingering(bench, 1, 'W');

	let_linger(bench, hold);
	hear_wanted(bench, 1);
	expect_silence(bench);
	hold = take_lingering(bench, 1, 'W');
	assert_true(has(hold));
	let_linger(bench, hold);
	bench->now_ns += LEAST_MS * NS_PER_MS - 1;
	assert_true(snecki_core_next_due(bench->core) == bench->now_ns + 1);
	snecki_core_run(bench->core, bench->now_ns);
	expect_silence(bench);
	bench->now_ns++;
	struct deed *late = take_lingering(bench, 2, 'W'); /* and not a moment longer */
	assert_false(has(late));
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	queue_up(bench, expect(bench, OP_ACQUIRE));
}

static void the_least_time_counts_from_the_grant(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_lingering(bench, 1, 'W');

	pass_ms(bench, LEAST_MS);
	hear_wanted(bench, 1);
	ask(bench, WISH_RELEASE, hold);
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
}

static void a_wanted_lock_is_taken_again_sixteen_times(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_lingering(bench, 1, 'W');

	hear_wanted(bench, 1);
	for (int i = 0; i < 16; i++) {
		let_linger(bench, hold);
		hold = take_lingering(bench, 1, 'W');
		assert_true(has(hold));
	}
	ask(bench, WISH_RELEASE, hold);
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
}

static void wanted_while_it_was_taken_again(void **state) {
	struct bench *bench = bench_of(state);

	begin_lingering(bench, 'R');
	struct deed *hold = take_lingering(bench, 1, 'R');
	hear_wanted(bench, 1);
	assert_true(has(hold)); /* it is not taken away from anybody */
	expect_silence(bench);
	struct deed *other = take_lingering(bench, 2, 'R'); /* but nobody comes to it */
	assert_false(has(other));
	struct lock_call *ask_other = expect(bench, OP_ACQUIRE);
	struct deed *release = ask(bench, WISH_RELEASE, hold);
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	assert_int_equal(code_of(release), 0);
	queue_up(bench, ask_other);
}

static void the_lease_is_not_renewed_and_ends_it(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = new_lingering(bench, 1, 'W', 10 * LEASE_MS);

	begin(bench, hold);
	grant(bench, expect(bench, OP_ACQUIRE));
	int64_t until_ns = snecki_hold_valid_until(&hold->hold);
	let_linger(bench, hold);
	pass_ms(bench, MARK_MS);
	confirm(bench, expect(bench, OP_LINGER)); /* which lengthens nothing */
	pass_ms(bench, (until_ns - bench->now_ns) / NS_PER_MS - 1);
	expect_silence(bench);
	pass_ms(bench, 1);
	gone(bench); /* the server may keep it for a margin more */
}

static void too_little_of_the_lease_is_renewed_first(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = new_lingering(bench, 1, 'W', LEASE_MS);

	begin(bench, hold);
	grant(bench, expect(bench, OP_ACQUIRE));
	let_linger(bench, hold);
	pass_ms(bench, MARK_MS);
	confirm(bench, expect(bench, OP_LINGER));
	pass_ms(bench, LEASE_MS / 2);
	struct deed *again = new_lingering(bench, 2, 'W', LEASE_MS);
	begin(bench, again);
	assert_int_equal(code_of(again), 1);
	struct lock_call *renew = expect(bench, OP_RENEW);
	expect_silence(bench); /* nothing else is asked for meanwhile */
	confirm(bench, renew);
	assert_true(has(again));
	assert_true(snecki_hold_valid_until(&again->hold) - bench->now_ns > LEASE_MS / 2 * NS_PER_MS);
	let_linger(bench, again); /* the renewal has taken the mark back */
	pass_ms(bench, LEASE_MS / 2);
	confirm(bench, expect(bench, OP_LINGER));
	/* This time the answer says that another session waits. */
	struct deed *third = take_lingering(bench, 3, 'W');
	renew = expect(bench, OP_RENEW);
	struct lock_outcome outcome = outcome_of(bench, LOCK_GRANTED);
	outcome.wanted = true;
	outcome.token = renew->op.last_token ? renew->op.last_token : bench->token;
	outcome.deadline_ms = outcome.server_us / 1000 + LEASE_MS;
	answer_outcome(bench, renew, &outcome);
	assert_int_equal(code_of(third), 1);
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	queue_up(bench, expect(bench, OP_ACQUIRE));
}

static void whoever_wanted_it_renewed_has_gone(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = new_lingering(bench, 1, 'W', LEASE_MS);

	begin(bench, hold);
	grant(bench, expect(bench, OP_ACQUIRE));
	let_linger(bench, hold);
	pass_ms(bench, LEASE_MS / 2 + 10);
	confirm(bench, expect(bench, OP_LINGER));
	struct deed *again = take_lingering(bench, 2, 'W');
	struct lock_call *renew = expect(bench, OP_RENEW);
	give_up(bench, again, SNECK_ECANCELED);
	expect_silence(bench); /* it lingers on, as before */
	confirm(bench, renew);
	expect_silence(bench);
	pass_ms(bench, LEASE_MS / 2);
	confirm(bench, expect(bench, OP_LINGER)); /* for the renewal had taken the mark back */
	gone(bench);
}

static void numbers_end_where_the_servers_begin(void **state) {
	struct bench *bench = bench_of(state);
	uint64_t end = (uint64_t)(outcome_of(bench, LOCK_GRANTED).server_us / 1000 + LEASE_MS) * 1000;

	bench->token = end - 3;
	struct deed *hold = hold_lingering(bench, 1, 'W');
	let_linger(bench, hold);
	hold = take_lingering(bench, 1, 'W');
	assert_true(has(hold) && hold->hold.token == end - 1);
	let_linger(bench, hold);
	pass_ms(bench, 1);
	struct deed *next = take_lingering(bench, 1, 'W');
	assert_int_equal(code_of(next), 1);
	struct lock_call *renew = expect(bench, OP_RENEW);
	assert_true(renew->op.last_token == end - 1);
	confirm(bench, renew);
	assert_true(has(next) && next->hold.token == end);
}

static void closing_gives_it_back(void **state) {
	struct bench *bench = bench_of(state);

	begin_lingering(bench, 'W');
	snecki_core_close(bench->core, bench->now_ns);
	assert_false(snecki_core_idle(bench->core));
	gone(bench);
	assert_true(snecki_core_idle(bench->core));
}

static void released_by_the_close_it_does_not_linger(void **state) {
	struct bench *bench = bench_of(state);

	hold_lingering(bench, 1, 'W');
	snecki_core_close(bench->core, bench->now_ns);
	gone(bench);
}

/* The server's clock ran ahead: how much of the lease is left cannot be said. */
static void a_lease_in_doubt_gives_it_back(void **state) {
	struct bench *bench = bench_of(state);

	begin_lingering(bench, 'W');
	bench->server_ahead_us = LEASE_MS * 1000 / 10;
	pass_ms(bench, MARK_MS);
	confirm(bench, expect(bench, OP_LINGER));
	pass_ms(bench, 1);
	gone(bench);
}

static void a_new_connection_gives_it_back(void **state) {
	struct bench *bench = bench_of(state);

	begin_lingering(bench, 'R');
	reconnect(bench);
	pass_ms(bench, 1);
	gone(bench);
}

static void what_a_new_connection_has_brought_lingers(void **state) {
	struct bench *bench = bench_of(state);
	int64_t since_ns = bench->now_ns;

	begin_lingering(bench, 'W');
	snecki_core_connected(bench->core, -1, since_ns, bench->now_ns);
	pass_ms(bench, 1);
	expect_silence(bench);
	assert_true(has(take_lingering(bench, 1, 'W')));
}

static void broken_while_it_lingers(void **state) {
	struct bench *bench = bench_of(state);

	begin_lingering(bench, 'W');
	struct lock_note note = { .kind = LOCK_NOTE_BROKEN, .attempt = 1 };
	snecki_core_note(bench->core, &note, bench->now_ns);
	struct deed *next = take_lingering(bench, 1, 'W');
	assert_int_equal(code_of(next), 1);
	answer(bench, expect(bench, OP_RELEASE), LOCK_BROKEN);
	grant(bench, expect(bench, OP_ACQUIRE));
	assert_true(has(next));
}

/* ---- Others of this session ---------------------------------------------------------------------*/

static void another_mode_is_asked_for_behind_the_release(void **state) {
	struct bench *bench = bench_of(state);

	for (int round = 0; round < 2; round++) {
		begin_lingering(bench, round ? 'R' : 'W');
		struct deed *other = take_lingering(bench, 2, round ? 'W' : 'R');
		assert_int_equal(code_of(other), 1);
		answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
		grant(bench, expect(bench, OP_ACQUIRE));
		assert_true(has(other));
		let_linger(bench, other);
		pass_ms(bench, LINGER_MS);
		confirm(bench, expect(bench, OP_LINGER));
		gone(bench);
	}
}

static void who_will_not_wait_is_not_refused(void **state) {
	struct bench *bench = bench_of(state);

	begin_lingering(bench, 'R');
	struct deed *writer = new_lingering(bench, 2, 'W', 0);
	writer->wish.nowait = true;
	begin(bench, writer);
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	grant(bench, expect(bench, OP_ACQUIRE));
	assert_true(has(writer));
}

static void a_fixed_lease_is_asked_for_behind_the_release(void **state) {
	struct bench *bench = bench_of(state);

	begin_lingering(bench, 'W');
	struct deed *fixed = take_fixed(bench, 2, 'R', LEASE_MS);
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	grant(bench, expect(bench, OP_ACQUIRE));
	assert_true(has(fixed));
	release_done(bench, fixed);
	/* Readers do not stand in each other's way. */
	begin_lingering(bench, 'R');
	fixed = take_fixed(bench, 2, 'R', LEASE_MS);
	confirm(bench, expect(bench, OP_ACQUIRE));
	assert_true(has(fixed));
	expect_silence(bench);
	/* An upgrade beside what lingers: that goes, and nobody comes to it before. */
	struct deed *upgrade = ask(bench, WISH_UPGRADE, fixed);
	struct lock_call *call = expect(bench, OP_UPGRADE);
	assert_int_equal(call->op.own_n, 1);
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	grant(bench, call);
	assert_int_equal(code_of(upgrade), 0);
}

static void converted_it_lingers_as_what_it_has_become(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_lingering(bench, 1, 'R');

	let_linger(bench, hold);
	hold = take_lingering(bench, 1, 'R');
	struct deed *upgrade = ask(bench, WISH_UPGRADE, hold);
	grant(bench, expect(bench, OP_UPGRADE));
	assert_int_equal(code_of(upgrade), 0);
	uint64_t token = hold->hold.token;
	let_linger(bench, hold);
	hold = take_lingering(bench, 2, 'W');
	assert_true(has(hold) && hold->hold.token == token + 1);
	struct deed *downgrade = ask(bench, WISH_DOWNGRADE, hold);
	struct lock_call *call = expect(bench, OP_DOWNGRADE);
	assert_true(call->op.last_token == token + 1);
	bench->token = token + 1;
	grant(bench, call);
	assert_int_equal(code_of(downgrade), 0);
	token = hold->hold.token;
	let_linger(bench, hold);
	hold = take_lingering(bench, 3, 'R');
	assert_true(has(hold) && hold->hold.token == token);
}

static void released_while_it_is_being_converted(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_lingering(bench, 1, 'W');

	ask(bench, WISH_DOWNGRADE, hold);
	struct lock_call *call = expect(bench, OP_DOWNGRADE);
	ask(bench, WISH_RELEASE, hold);
	expect_silence(bench);
	grant(bench, call);
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
}

/* ---- Layouts ------------------------------------------------------------------------------------*/

static int setup_polls(void **state) {
	static const struct lock_traits polls = { .polls = true, .poll_first_ms = 1, .poll_most_ms = 10 };
	return bench_setup_layout(state, &polls);
}

static void nothing_lingers_where_nobody_can_ask_for_it(void **state) {
	struct bench *bench = bench_of(state);

	release_done(bench, hold_lingering(bench, 1, 'W'));
}

#define POLLS(name) cmocka_unit_test_setup_teardown(name, setup_polls, bench_teardown)

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(taken_again_without_a_request),
		TEST(readers_take_it_again_under_the_same_number),
		TEST(without_the_wish_nothing_lingers),
		TEST(fixed_and_detached_holds_never_linger),
		TEST(its_time_is_over),
		TEST(each_release_begins_the_time_anew),
		TEST(recalled_at_once),
		TEST(a_writer_keeps_it_for_a_least_time),
		TEST(the_least_time_counts_from_the_grant),
		TEST(a_wanted_lock_is_taken_again_sixteen_times),
		TEST(wanted_while_it_was_taken_again),
		TEST(the_lease_is_not_renewed_and_ends_it),
		TEST(too_little_of_the_lease_is_renewed_first),
		TEST(whoever_wanted_it_renewed_has_gone),
		TEST(numbers_end_where_the_servers_begin),
		TEST(closing_gives_it_back),
		TEST(released_by_the_close_it_does_not_linger),
		TEST(a_lease_in_doubt_gives_it_back),
		TEST(a_new_connection_gives_it_back),
		TEST(what_a_new_connection_has_brought_lingers),
		TEST(broken_while_it_lingers),
		TEST(another_mode_is_asked_for_behind_the_release),
		TEST(who_will_not_wait_is_not_refused),
		TEST(a_fixed_lease_is_asked_for_behind_the_release),
		TEST(converted_it_lingers_as_what_it_has_become),
		TEST(released_while_it_is_being_converted),
		POLLS(nothing_lingers_where_nobody_can_ask_for_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
