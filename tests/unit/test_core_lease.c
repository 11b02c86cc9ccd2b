/* SPDX-License-Identifier: MIT */
/* The lock core: how long a hold lasts, what is told when, and what is sent again. */
#include "bench.h"

#include <stdio.h>

#include "lock/private.h"

/* ---- Renewal, doubt and loss --------------------------------------------------------------------*/

static void renewed_every_third_of_the_lease(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');

	for (int i = 0; i < 10; i++) {
		pass_ms(bench, LEASE_MS / 3);
		struct lock_call *renew = expect(bench, OP_RENEW);
		assert_int_equal(renew->op.lease_ms, LEASE_MS);
		expect_silence(bench);
		confirm(bench, renew);
	}
	assert_true(has(hold));
	assert_int_equal(hold->states, 0);
}

static void valid_from_before_it_was_sent(void **state) {
	struct bench *bench = bench_of(state);
	int64_t began_ns = bench->now_ns;
	struct deed *hold = take(bench, 1, 'W');
	struct lock_call *call = expect(bench, OP_ACQUIRE);

	pass_ms(bench, 2000);
	grant(bench, call);
	assert_int_equal(snecki_hold_valid_until(&hold->hold), began_ns + VALID_MS * NS_PER_MS);
}

static void suspect_at_half_and_lost_at_the_end(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');

	pass_ms(bench, LEASE_MS / 2 - MARGIN_MS - 1);
	struct lock_call *renew = expect(bench, OP_RENEW); /* never answered */
	assert_int_equal(hold->states, 0);
	pass_ms(bench, 1);
	assert_int_equal(hold->told, HOLD_SUSPECT);
	assert_true(has(hold)); /* in doubt, and valid */
	pass_ms(bench, LEASE_MS / 2 - 1);
	assert_int_equal(hold->told, HOLD_SUSPECT);
	pass_ms(bench, 1);
	assert_int_equal(hold->told, HOLD_LOST);
	assert_int_equal(snecki_hold_valid_until(&hold->hold), 0);
	expect(bench, OP_RELEASE); /* the server may have it longer than we believed */
	confirm(bench, renew);     /* too late */
	assert_int_equal(hold->told, HOLD_LOST);
	assert_int_equal(hold->states, 2);
	assert_int_equal(code_of(ask(bench, WISH_RELEASE, hold)), SNECK_ELOST);
}

static void doubt_ends_with_a_renewal(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');

	pass_ms(bench, LEASE_MS / 2);
	assert_int_equal(hold->told, HOLD_SUSPECT);
	confirm(bench, expect(bench, OP_RENEW));
	/* It was sent a third of the lease ago: half of the lease is not over yet. */
	assert_int_equal(hold->told, HOLD_HELD);
}

static void a_failed_renewal_is_tried_again_soon(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');

	pass_ms(bench, LEASE_MS / 3);
	answer(bench, expect(bench, OP_RENEW), LOCK_UNKNOWN);
	pass_ms(bench, 100);
	lose_link(bench, expect(bench, OP_RENEW));
	reconnect(bench);
	pass_ms(bench, 0);
	confirm(bench, expect(bench, OP_RENEW));
	assert_int_equal(hold->states, 0);
}

static void the_server_says_that_it_is_gone(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');

	pass_ms(bench, LEASE_MS / 3);
	answer(bench, expect(bench, OP_RENEW), LOCK_GONE);
	assert_int_equal(hold->told, HOLD_LOST);
	expect_silence(bench);
}

static void the_operator_ended_it(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');
	struct lock_note note = { .kind = LOCK_NOTE_BROKEN, .attempt = 1 };

	snecki_core_note(bench->core, &note, bench->now_ns);
	pass_ms(bench, 0);
	assert_int_equal(hold->states, 0); /* a message alone ends nothing */
	answer(bench, expect(bench, OP_RENEW), LOCK_BROKEN);
	assert_int_equal(hold->told, HOLD_BROKEN);
	assert_int_equal(code_of(ask(bench, WISH_RELEASE, hold)), SNECK_EBROKEN);
}

static void another_number_means_another_hold(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');

	pass_ms(bench, LEASE_MS / 3);
	grant(bench, expect(bench, OP_RENEW)); /* under a new token */
	assert_int_equal(hold->told, HOLD_LOST);
}

static struct deed *take_briefly(struct bench *bench, uint64_t owner) {
	struct deed *deed = new_deed(bench, owner, 'W');

	deed->wish.lease_ms = BENCH_WAIT_LEASE_MS;
	begin(bench, deed);
	return deed;
}

static void a_number_of_ours_is_reported_by_an_unanswered_renewal(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *first = take_briefly(bench, 1);
	struct deed *second = take_briefly(bench, 2);

	queue_up(bench, expect(bench, OP_ACQUIRE));
	hear_grant(bench, 1);
	struct lock_call *claim = expect(bench, OP_BEAT);
	ask(bench, WISH_RELEASE, first); /* passed on: the server has not heard of the next number */
	pass_ms(bench, BENCH_WAIT_LEASE_MS / 3);
	struct lock_call *renew = expect(bench, OP_RENEW);
	assert_int_equal(renew->op.last_token, second->hold.token);
	answer(bench, claim, LOCK_UNKNOWN);
	pass_ms(bench, 0);
	answer(bench, renew, LOCK_UNKNOWN); /* it ran */
	bench->token = second->hold.token;
	struct lock_call *beat = expect(bench, OP_BEAT);
	assert_int_equal(beat->op.last_token, 0); /* a beat reports nothing */
	confirm(bench, beat);
	assert_true(has(second));
	assert_int_equal(second->states, 0);
}

static void the_servers_clock_runs_ahead(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');
	int64_t before_ns = snecki_hold_valid_until(&hold->hold);

	pass_ms(bench, LEASE_MS / 3);
	struct lock_call *renew = expect(bench, OP_RENEW);
	struct lock_outcome refused = { .status = LOCK_FAILED, .code = SNECK_ESERVER, .retry = true };
	bench->server_ahead_us = 5000000;
	refused.server_us = outcome_of(bench, LOCK_FAILED).server_us;
	answer_outcome(bench, renew, &refused);
	assert_int_equal(hold->told, HOLD_SUSPECT);
	assert_true(snecki_hold_valid_until(&hold->hold) <= before_ns - 5000 * NS_PER_MS);
	pass_ms(bench, 100);
	confirm(bench, expect(bench, OP_RENEW)); /* at once, not at the next third */
	assert_int_equal(hold->told, HOLD_HELD);
}

static void a_lease_that_is_over_is_given_back_and_asked_for_again(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold =
	        take_fixed(bench, 1, 'W', 500); /* a grant that is handed out without another look */
	struct lock_call *call = expect(bench, OP_ACQUIRE);
	pass_ms(bench, 495);
	grant(bench, call); /* the answer took as long as the lease */
	assert_int_equal(code_of(hold), 1);
	assert_int_equal(expect(bench, OP_RELEASE)->op.attempt, 1);
	assert_int_equal(expect(bench, OP_ACQUIRE)->op.attempt, 2);
}

static void at_most_256_renewals_are_under_way(void **state) {
	struct bench *bench = bench_of(state);
	struct lock_call *renewals[RENEW_INFLIGHT_MAX + 44];
	char name[8] = "n000";
	int n = 0;

	for (int i = 0; i < RENEW_INFLIGHT_MAX + 44; i++) {
		struct deed *hold = new_deed(bench, 1, 'W');
		for (int digit = 3, rest = i; digit > 0; digit--, rest /= 10)
			name[digit] = (char)('0' + rest % 10);
		snecki_core_acquire(bench->core, name, 4, &hold->wish, bench->now_ns);
		grant(bench, expect(bench, OP_ACQUIRE));
	}
	pass_ms(bench, LEASE_MS / 3);
	for (; n < RENEW_INFLIGHT_MAX; n++)
		renewals[n] = expect(bench, OP_RENEW);
	expect_silence(bench);
	for (int i = 0; i < 44; i++) { /* each answer makes room for one that waits in line */
		bench->token = renewals[i]->grant->token;
		confirm(bench, renewals[i]);
		renewals[n++] = expect(bench, OP_RENEW);
		expect_silence(bench);
	}
}

/* Many holds, taken at one time: their renewals are spread over two seconds. */
static void hold_many(struct bench *bench, int n, const struct lock_grant **ret) {
	for (int i = 0; i < n; i++) {
		struct deed *hold = new_deed(bench, 1, 'W');
		char name[16];
		snprintf(name, sizeof name, "n%03d", i);
		snecki_core_acquire(bench->core, name, 4, &hold->wish, bench->now_ns);
		grant(bench, expect(bench, OP_ACQUIRE));
		ret[i] = hold->hold.grant;
	}
}

static int64_t to_first_timer_ms(const struct bench *bench) {
	return (snecki_core_next_due(bench->core) - bench->now_ns + NS_PER_MS - 1) / NS_PER_MS;
}

enum { EARLY_NS = LEASE_MS / 3 * NS_PER_MS / 64 };

/* The first that is due takes those along that are due within a 64th of the interval, and no others; and they
 * keep their pace. */
static void what_is_due_soon_goes_along(void **state) {
	enum { N = 200 };
	struct bench *bench = bench_of(state);
	const struct lock_grant *grants[N];
	int64_t due_ns[N];
	int sent = 0;

	hold_many(bench, N, grants);
	for (int i = 0; i < N; i++)
		due_ns[i] = grants[i]->renew_at_ns;
	int64_t first_ns = snecki_core_next_due(bench->core);
	pass_ms(bench, to_first_timer_ms(bench));
	for (; !snecki_list_empty(&bench->sent); sent++) {
		struct lock_call *renew = expect(bench, OP_RENEW);
		bench->token = renew->grant->token;
		confirm(bench, renew);
	}
	assert_true(sent > 5);
	for (int i = 0; i < N; i++) {
		bool went = due_ns[i] <= first_ns + EARLY_NS;
		assert_int_equal(grants[i]->renew_at_ns, due_ns[i] + (went ? LEASE_MS / 3 * NS_PER_MS : 0));
		sent -= went;
	}
	assert_int_equal(sent, 0);
}

static void not_more_than_so_many_go_along(void **state) {
	enum { N = 999 };
	struct bench *bench = bench_of(state);
	const struct lock_grant *grants[N];

	hold_many(bench, N, grants);
	size_t sent = bench->sent_n;
	pass_ms(bench, to_first_timer_ms(bench));
	int64_t next_ns = snecki_core_next_due(bench->core);
	assert_int_equal(bench->sent_n - sent, RENEW_ALONG_MAX);
	assert_true(next_ns > bench->now_ns && next_ns <= bench->now_ns + EARLY_NS);
}

/* Where each lock has a channel of its own: what is held for long wants to hear who waits. What is renewed
 * because the connection broke is not asked for more than that. */
static void a_channel_is_for_what_is_held_for_long(void **state) {
	struct bench *bench = bench_of(state);

	bench->core->config.lock_channels = true;
	hold_it(bench, 1, 'W');
	pass_ms(bench, LEASE_MS / 8);
	snecki_core_connected(bench->core, -1, bench->now_ns, bench->now_ns);
	pass_ms(bench, 0);
	confirm(bench, expect(bench, OP_RENEW));
	assert_int_equal(bench->listening, 0);
	pass_ms(bench, LEASE_MS / 3);
	confirm(bench, expect(bench, OP_RENEW));
	assert_int_equal(bench->listening, 1);
}

/* A fixed lease is not renewed, but after a break it is asked about: another server may not have it. */
static void a_fixed_hold_is_looked_for_after_a_break(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *held = take_fixed(bench, 1, 'W', LEASE_MS);

	grant(bench, expect(bench, OP_ACQUIRE));
	int64_t until_ns = snecki_hold_valid_until(&held->hold);
	reconnect(bench);
	struct lock_call *call = expect(bench, OP_RENEW);
	assert_int_equal(call->op.lease_ms, 1);
	confirm(bench, call);
	assert_true(has(held));
	assert_int_equal(snecki_hold_valid_until(&held->hold), until_ns);
	reconnect(bench);
	answer(bench, expect(bench, OP_RENEW), LOCK_GONE);
	assert_int_equal(held->told, HOLD_LOST);
}

/* Who asked first waited for the connection, and was answered before anybody was told that there is one. */
static void what_a_new_connection_has_brought_is_there(void **state) {
	struct bench *bench = bench_of(state);
	int64_t since_ns = bench->now_ns;
	struct deed *fixed = take_fixed(bench, 1, 'R', LEASE_MS);

	grant(bench, expect(bench, OP_ACQUIRE));
	struct deed *renewed = take(bench, 2, 'R');
	grant(bench, expect(bench, OP_ACQUIRE));
	snecki_core_connected(bench->core, -1, since_ns, bench->now_ns);
	pass_ms(bench, 0);
	expect_silence(bench);
	assert_true(has(fixed) && has(renewed));
}

/* Where another server may take over, less of a lease is counted on; a short one keeps three quarters. */
static void clocks_of_servers_may_differ(void **state) {
	struct bench *bench = bench_of(state);

	bench->core->config.skew_ms = 50;
	int64_t sent_ns = bench->now_ns;
	struct deed *held = hold_it(bench, 1, 'W');
	assert_int_equal(snecki_hold_valid_until(&held->hold),
	        sent_ns + (LEASE_MS - snecki_margin_ms(LEASE_MS) - 50) * NS_PER_MS);
	assert_int_equal(snecki_core_margin_ms(bench->core, 100), 2 + 25);
}

/* ---- Sent again, and buried ---------------------------------------------------------------------*/

static void an_unanswered_request_is_sent_again_and_buried_at_the_end(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = take(bench, 1, 'W');

	answer(bench, expect(bench, OP_ACQUIRE), LOCK_UNKNOWN);
	struct lock_call *again = expect(bench, OP_ACQUIRE);
	assert_int_equal(again->op.attempt, 1); /* the same one: it cannot be granted twice */
	grant(bench, again);
	assert_true(has(hold));
	ask(bench, WISH_RELEASE, hold);
	struct lock_call *release = expect(bench, OP_RELEASE);
	assert_int_equal(release->op.bury_n, 1);
	assert_int_equal(release->op.bury[0], 1);
}

static void an_answered_request_needs_no_burial(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');

	ask(bench, WISH_RELEASE, hold);
	assert_int_equal(expect(bench, OP_RELEASE)->op.bury_n, 0);
}

static void a_refusal_buries_too(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = new_deed(bench, 1, 'W');

	deed->wish.nowait = true;
	begin(bench, deed);
	answer(bench, expect(bench, OP_ACQUIRE), LOCK_UNKNOWN);
	answer(bench, expect(bench, OP_ACQUIRE), LOCK_BUSY);
	assert_int_equal(code_of(deed), SNECK_EBUSY);
	assert_int_equal(expect(bench, OP_CANCEL)->op.bury_n, 1);
}

static void a_release_that_was_sent_twice(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');
	struct deed *release = ask(bench, WISH_RELEASE, hold);

	answer(bench, expect(bench, OP_RELEASE), LOCK_UNKNOWN);
	answer(bench, expect(bench, OP_RELEASE), LOCK_GONE); /* by the first copy */
	assert_int_equal(code_of(release), 0);
}

static void a_release_that_comes_too_late(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');
	struct deed *release = ask(bench, WISH_RELEASE, hold);

	answer(bench, expect(bench, OP_RELEASE), LOCK_GONE);
	assert_int_equal(code_of(release), SNECK_ELOST);
}

static void a_release_goes_on_without_its_caller(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');
	struct deed *release = ask(bench, WISH_RELEASE, hold);

	lose_link(bench, expect(bench, OP_RELEASE));
	assert_int_equal(code_of(release), SNECK_EUNKNOWN);
	reconnect(bench);
	pass_ms(bench, 0);
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	assert_int_equal(snecki_core_next_due(bench->core), NS_NEVER);
}

static void without_a_link_nothing_happened(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = take(bench, 1, 'W');

	lose_link(bench, expect(bench, OP_ACQUIRE));
	assert_int_equal(code_of(deed), SNECK_ECONN);
	expect_silence(bench);
}

static void without_a_link_it_is_settled_later(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = take(bench, 1, 'W');

	answer(bench, expect(bench, OP_ACQUIRE), LOCK_UNKNOWN); /* it may have run */
	lose_link(bench, expect(bench, OP_ACQUIRE));
	assert_int_equal(code_of(deed), 1);
	reconnect(bench);
	pass_ms(bench, 0);
	grant(bench, expect(bench, OP_ACQUIRE));
	assert_true(has(deed));
}

static void the_server_says_not_now(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *deed = take(bench, 1, 'W');
	struct lock_outcome loading = { .status = LOCK_FAILED, .code = SNECK_ESERVER, .retry = true };

	answer_outcome(bench, expect(bench, OP_ACQUIRE), &loading);
	assert_int_equal(code_of(deed), 1);
	pass_ms(bench, 100);
	struct lock_call *again = expect(bench, OP_ACQUIRE);
	loading.retry = false;
	answer_outcome(bench, again, &loading);
	assert_int_equal(code_of(deed), SNECK_ESERVER);
}

static void more_to_do_is_done(void **state) {
	struct bench *bench = bench_of(state);
	struct deed *hold = hold_it(bench, 1, 'W');
	struct lock_outcome done = outcome_of(bench, LOCK_DONE);

	done.more = true;
	ask(bench, WISH_RELEASE, hold);
	answer_outcome(bench, expect(bench, OP_RELEASE), &done);
	answer_outcome(bench, expect(bench, OP_ADVANCE), &done);
	done.more = false;
	answer_outcome(bench, expect(bench, OP_ADVANCE), &done);
	expect_silence(bench);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(renewed_every_third_of_the_lease),
		TEST(valid_from_before_it_was_sent),
		TEST(suspect_at_half_and_lost_at_the_end),
		TEST(doubt_ends_with_a_renewal),
		TEST(a_failed_renewal_is_tried_again_soon),
		TEST(the_server_says_that_it_is_gone),
		TEST(the_operator_ended_it),
		TEST(another_number_means_another_hold),
		TEST(a_number_of_ours_is_reported_by_an_unanswered_renewal),
		TEST(the_servers_clock_runs_ahead),
		TEST(a_lease_that_is_over_is_given_back_and_asked_for_again),
		TEST(at_most_256_renewals_are_under_way),
		TEST(what_is_due_soon_goes_along),
		TEST(not_more_than_so_many_go_along),
		TEST(a_channel_is_for_what_is_held_for_long),
		TEST(clocks_of_servers_may_differ),
		TEST(a_fixed_hold_is_looked_for_after_a_break),
		TEST(what_a_new_connection_has_brought_is_there),
		TEST(an_unanswered_request_is_sent_again_and_buried_at_the_end),
		TEST(an_answered_request_needs_no_burial),
		TEST(a_refusal_buries_too),
		TEST(a_release_that_was_sent_twice),
		TEST(a_release_that_comes_too_late),
		TEST(a_release_goes_on_without_its_caller),
		TEST(without_a_link_nothing_happened),
		TEST(without_a_link_it_is_settled_later),
		TEST(the_server_says_not_now),
		TEST(more_to_do_is_done),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
