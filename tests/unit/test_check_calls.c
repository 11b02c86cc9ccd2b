/* SPDX-License-Identifier: MIT */
/* The checker on single calls and holds: deadlines, waits after a calm, releases, notices, what is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sneck/sneck.h>

#include "past.h"

/* ---- Deadlines ----------------------------------------------------------------------------------*/

static struct history_record refused(int64_t invoke, int64_t ret, int64_t deadline) {
	struct history_record record = past_call(HISTORY_ACQUIRE, 1, 1, invoke, ret, SNECK_ETIMEDOUT);

	record.deadline_ns = deadline;
	return record;
}

static void a_call_is_back_by_its_deadline(void **state) {
	struct past *past = *state;

	past_add(past, refused(100, 250, 200));
	past_expect(past, CHECK_RETURN, 1, 0);
	past_excused(past, CHECK_RETURN, CHECK_BY_STOP, 0);
	past->records[1][0].return_ns = 251;
	past_expect(past, CHECK_RETURN, 1, 1);
	past->records[1][0].deadline_ns = 0;
	past_expect(past, CHECK_RETURN, 0, 0);
}

/* The time in which it was stopped is taken off, and no more. */
static void a_stopped_process_is_late_by_as_much(void **state) {
	struct past *past = *state;

	past_add(past, refused(100, 350, 200));
	past_add(past, past_stop(1, 150, 250));
	past_add(past, past_call(HISTORY_RENEW, 2, 2, 100, 101, SNECK_ECONN));
	past_expect(past, CHECK_RETURN, 1, 0);
	past_excused(past, CHECK_RETURN, CHECK_BY_STOP, 1);
	past->records[1][0].return_ns = 351;
	past_expect(past, CHECK_RETURN, 1, 1);
	/* Another process's stop, or a fault of another kind, is no excuse. */
	past->records[1][0].return_ns = 300;
	past_expect(past, CHECK_RETURN, 1, 0);
	past->records[0][0].actor = 2;
	past_expect(past, CHECK_RETURN, 1, 1);
	past->records[0][0].actor = 1;
	past->records[0][0].flags = 0;
	past_expect(past, CHECK_RETURN, 1, 1);
	/* All of them were stopped. */
	past->records[0][0].actor = HISTORY_ALL;
	past->records[0][0].flags = HISTORY_STOPPED;
	past_expect(past, CHECK_RETURN, 1, 0);
}

static void a_call_that_never_returned_is_found(void **state) {
	struct past *past = *state;

	past_add(past, refused(100, 0, 200));
	past_add(past, past_event(HISTORY_QUIET, 0, 251, 251));
	past_expect(past, CHECK_RETURN, 1, 1);
	past->records[0][0].invoke_ns = past->records[0][0].return_ns = 249;
	past_expect(past, CHECK_RETURN, 1, 0);
	past_excused(past, CHECK_RETURN, CHECK_BY_END, 1);
	past->records[1][0].deadline_ns = 0;
	past_expect(past, CHECK_RETURN, 1, 1);
	past_add(past, past_event(HISTORY_DEATH, 1, 150, 160));
	past_expect(past, CHECK_RETURN, 1, 0);
	past_excused(past, CHECK_RETURN, CHECK_BY_DEATH, 1);
}

static void the_deadline_of_a_break_is_its_victims(void **state) {
	struct past *past = *state;
	struct history_record record = past_call(HISTORY_BREAK, 1, 5, 100, 900, 0);

	record.deadline_ns = 200;
	past_add(past, record);
	past_expect(past, CHECK_RETURN, 0, 0);
}

/* ---- After the calm -----------------------------------------------------------------------------*/

/* Waits from 100 to `ret`; all is calm from 500 on, and the run ends at 3000. */
static void wait_over_calm(struct past *past, int64_t ret) {
	past_add(past, past_call(HISTORY_ACQUIRE, 1, 1, 100, ret, SNECK_ETIMEDOUT));
	past_add(past, past_event(HISTORY_FAULT, 0, 200, 450));
	past_add(past, past_event(HISTORY_CALM, 0, 500, 500));
	past_add(past, past_event(HISTORY_QUIET, 0, 3000, 3000));
}

static void an_open_wait_ends_when_all_is_calm(void **state) {
	struct past *past = *state;

	wait_over_calm(past, 1500);
	past_expect(past, CHECK_SERVED, 1, 0);
	past->records[1][0].return_ns = 1501;
	past_expect(past, CHECK_SERVED, 1, 1);
	past->records[1][0].op = HISTORY_UPGRADE;
	past_expect(past, CHECK_SERVED, 1, 1);
	past->records[1][0].flags = HISTORY_NOWAIT;
	past_expect(past, CHECK_SERVED, 0, 0);
}

static void a_wait_that_began_later_or_ended_before_is_not_judged(void **state) {
	struct past *past = *state;

	wait_over_calm(past, 499);
	past_expect(past, CHECK_SERVED, 0, 0);
	past->records[1][0].return_ns = 2900;
	past->records[1][0].invoke_ns = 501;
	past_expect(past, CHECK_SERVED, 0, 0);
}

static void the_calm_must_last(void **state) {
	struct past *past = *state;

	wait_over_calm(past, 2000);
	past_add(past, past_event(HISTORY_FAULT, 2, 1499, 1600));
	past_expect(past, CHECK_SERVED, 1, 0);
	past_excused(past, CHECK_SERVED, CHECK_BY_FAULT, 1);
	past->records[0][3].invoke_ns = 1501;
	past_expect(past, CHECK_SERVED, 1, 1);
}

static void the_dead_wait_no_longer(void **state) {
	struct past *past = *state;

	wait_over_calm(past, 0);
	past_add(past, past_event(HISTORY_DEATH, 1, 1400, 1410));
	past_expect(past, CHECK_SERVED, 1, 0);
	past_excused(past, CHECK_SERVED, CHECK_BY_DEATH, 1);
	past->records[0][3].invoke_ns = 1600;
	past_expect(past, CHECK_SERVED, 1, 1);
}

/* ---- Releases -----------------------------------------------------------------------------------*/

static void one_release_takes_effect(void **state) {
	struct past *past = *state;

	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 900));
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 200, 210, 0));
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 220, 230, SNECK_ENOTHELD));
	past_expect(past, CHECK_RELEASE, 1, 0);
	past->records[1][2].result = 0;
	past_expect(past, CHECK_RELEASE, 2, 1);
	/* Both under way at once. */
	past->records[1][2].invoke_ns = 205;
	past_expect(past, CHECK_RELEASE, 2, 1);
	past->records[1][2].op = HISTORY_RENEW;
	past->records[1][2].invoke_ns = 211;
	past_expect(past, CHECK_RELEASE, 2, 1);
	past->records[1][2].invoke_ns = 210;
	past_expect(past, CHECK_RELEASE, 2, 0);
}

static void nothing_takes_effect_after_the_loss(void **state) {
	struct past *past = *state;

	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 900));
	past_add(past, past_state(1, 1, 200, SNECK_LOST));
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 201, 210, SNECK_ELOST));
	past_expect(past, CHECK_RELEASE, 0, 0);
	past->records[1][2].result = 0;
	past_expect(past, CHECK_RELEASE, 1, 1);
	past->records[1][2].invoke_ns = 200; /* it was under way */
	past_expect(past, CHECK_RELEASE, 1, 0);
	/* Said by a call instead of a look. */
	past->records[1][1] = past_call(HISTORY_RENEW, 1, 1, 150, 160, SNECK_EBROKEN);
	past->records[1][1].lock = 1;
	past_expect(past, CHECK_RELEASE, 1, 1);
}

static void nothing_by_a_non_owner_takes_effect(void **state) {
	struct past *past = *state;

	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 900));
	past_put(past, 1, past_call(HISTORY_RELEASE, 5, 1, 200, 210, SNECK_ENOTOWNER));
	past_expect(past, CHECK_RELEASE, 0, 0);
	past->records[1][1].result = 0;
	past_expect(past, CHECK_RELEASE, 1, 1);
	/* Another thread may renew, another process may not. */
	past->records[1][1].op = HISTORY_RENEW;
	past_expect(past, CHECK_RELEASE, 1, 0);
	past->files[1].n = 1;
	past_put(past, 2, past_call(HISTORY_RENEW, 2, 1, 200, 210, 0));
	past_expect(past, CHECK_RELEASE, 1, 1);
}

static void an_adopted_hold_has_a_new_owner(void **state) {
	struct past *past = *state;
	struct history_record adopted = past_grant(2, 'W', 1, 300, 310, 10, 900);

	adopted.op = HISTORY_ADOPT;
	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 900));
	past_add(past, past_call(HISTORY_DETACH, 1, 1, 200, 210, 0));
	past_add(past, adopted);
	past_add(past, past_call(HISTORY_RELEASE, 2, 1, 400, 410, 0));
	past_expect(past, CHECK_RELEASE, 2, 0);
	past_add(past, past_call(HISTORY_RENEW, 1, 1, 350, 360, 0));
	past_expect(past, CHECK_RELEASE, 3, 1);
}

/* ---- Notices ------------------------------------------------------------------------------------*/

/* Valid until 500, given back at 700, when it was lost. */
static void outlived(struct past *past) {
	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 500));
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 700, 710, SNECK_ELOST));
}

static void the_notice_comes_before_the_end(void **state) {
	struct past *past = *state;

	outlived(past);
	past_add(past, past_state(1, 1, 500, SNECK_SUSPECT));
	past_expect(past, CHECK_NOTICE, 1, 0);
	past->records[1][2].result = SNECK_LOST;
	past_expect(past, CHECK_NOTICE, 1, 0);
	past->records[1][2].invoke_ns = past->records[1][2].return_ns = 501;
	past_expect(past, CHECK_NOTICE, 1, 1);
	past->files[1].n = 2;
	past_expect(past, CHECK_NOTICE, 1, 1);
}

/* An old notice that was taken back does not count for a later end. */
static void a_notice_that_was_taken_back_is_none(void **state) {
	struct past *past = *state;

	outlived(past);
	past_add(past, past_state(1, 1, 300, SNECK_SUSPECT));
	past_add(past, past_state(1, 1, 350, SNECK_HELD));
	past_expect(past, CHECK_NOTICE, 1, 1);
	past_add(past, past_state(1, 1, 450, SNECK_SUSPECT));
	past_expect(past, CHECK_NOTICE, 1, 0);
}

static void who_gave_back_in_time_needs_no_notice(void **state) {
	struct past *past = *state;

	outlived(past);
	past->records[1][1].invoke_ns = 500;
	past_expect(past, CHECK_NOTICE, 0, 0);
	past->records[1][1].invoke_ns = 700;
	past->records[1][1].result = 0; /* it was renewed, and nobody had looked */
	past_expect(past, CHECK_NOTICE, 0, 0);
	past->records[1][1].result = SNECK_ELOST;
	past_add(past, past_valid(1, 1, 400, 700));
	past_expect(past, CHECK_NOTICE, 0, 0);
	past->files[1].n = 2;
	past->records[1][0].flags = HISTORY_FIXED;
	past_expect(past, CHECK_NOTICE, 0, 0);
}

static void who_never_gave_back_needs_it_too(void **state) {
	struct past *past = *state;

	outlived(past);
	past->files[1].n = 1;
	past_put(past, 1, past_call(HISTORY_CLOSE, 5, 0, 501, 510, 0));
	past_expect(past, CHECK_NOTICE, 1, 1);
	past->records[1][1].invoke_ns = 500;
	past_expect(past, CHECK_NOTICE, 0, 0);
	past->records[1][1].op = HISTORY_RENEW; /* of something else: it goes on */
	past_expect(past, CHECK_NOTICE, 1, 1);
	past_add(past, past_event(HISTORY_DEATH, 1, 500, 520));
	past_expect(past, CHECK_NOTICE, 0, 0);
}

static void a_stopped_process_cannot_be_told(void **state) {
	struct past *past = *state;

	outlived(past);
	past_add(past, past_stop(1, 300, 600));
	past_expect(past, CHECK_NOTICE, 1, 0);
	past_excused(past, CHECK_NOTICE, CHECK_BY_STOP, 1);
	past->records[0][0].return_ns = 450; /* it ran again, in time */
	past_expect(past, CHECK_NOTICE, 1, 1);
	past->records[0][0].return_ns = 600;
	past->records[0][0].flags = 0;
	past_expect(past, CHECK_NOTICE, 1, 1);
}

/* ---- What is left -------------------------------------------------------------------------------*/

static void nothing_is_left(void **state) {
	struct past *past = *state;

	past_expect(past, CHECK_LEFT, 0, 0);
	past_add(past, past_event(HISTORY_LEFT, 0, 900, 900));
	past_add(past, past_event(HISTORY_LEFT, 0, 900, 900));
	past_expect(past, CHECK_LEFT, 2, 0);
	past->records[0][1].token = 1;
	past_expect(past, CHECK_LEFT, 2, 1);
}

static void a_history_that_was_cut_is_reported(void **state) {
	struct past *past = *state;

	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 500));
	past_expect(past, CHECK_WHOLE, PAST_PROCESSES, 0);
	past->files[1].cut = 1;
	past_expect(past, CHECK_WHOLE, PAST_PROCESSES, 1);
}

static void slots_that_were_not_filled_are_counted(void **state) {
	struct past *past = *state;

	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 500));
	past_add(past, past_call(HISTORY_NONE, 1, 0, 0, 0, 0));
	past_expect(past, CHECK_RETURN, 0, 0);
	assert_int_equal(past->report.unfilled, 1);
	assert_int_equal(past->report.grants, 1);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		PAST_TEST(a_call_is_back_by_its_deadline),
		PAST_TEST(a_stopped_process_is_late_by_as_much),
		PAST_TEST(a_call_that_never_returned_is_found),
		PAST_TEST(the_deadline_of_a_break_is_its_victims),
		PAST_TEST(an_open_wait_ends_when_all_is_calm),
		PAST_TEST(a_wait_that_began_later_or_ended_before_is_not_judged),
		PAST_TEST(the_calm_must_last),
		PAST_TEST(the_dead_wait_no_longer),
		PAST_TEST(one_release_takes_effect),
		PAST_TEST(nothing_takes_effect_after_the_loss),
		PAST_TEST(nothing_by_a_non_owner_takes_effect),
		PAST_TEST(an_adopted_hold_has_a_new_owner),
		PAST_TEST(the_notice_comes_before_the_end),
		PAST_TEST(a_notice_that_was_taken_back_is_none),
		PAST_TEST(who_gave_back_in_time_needs_no_notice),
		PAST_TEST(who_never_gave_back_needs_it_too),
		PAST_TEST(a_stopped_process_cannot_be_told),
		PAST_TEST(nothing_is_left),
		PAST_TEST(a_history_that_was_cut_is_reported),
		PAST_TEST(slots_that_were_not_filled_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
