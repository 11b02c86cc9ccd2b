/* SPDX-License-Identifier: MIT */
/* The checker on exclusion: each rule once right on the edge, and once broken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sneck/sneck.h>

#include "past.h"

/* A writer that is granted at 110, and gives back at `release`. */
static void writer(struct past *past, uint32_t actor, uint64_t hold, int64_t invoke, int64_t release) {
	past_add(past, past_grant(actor, 'W', hold, invoke, invoke + 10, hold * 10, 100000));
	past_add(past, past_call(HISTORY_RELEASE, actor, hold, release, release + 10, 0));
}

static void a_release_ends_the_interval_when_it_is_invoked(void **state) {
	struct past *past = *state;

	writer(past, 1, 1, 100, 200);
	writer(past, 2, 2, 190, 300); /* returns at 200 */
	past_expect(past, CHECK_EXCLUSION, 1, 0);
}

static void two_writers_at_once_are_found(void **state) {
	struct past *past = *state;

	writer(past, 1, 1, 100, 201);
	writer(past, 2, 2, 190, 300);
	past_expect(past, CHECK_EXCLUSION, 1, 1);
	assert_int_equal(past->report.n_violations, 1);
	assert_int_equal(past->report.violations[0].first->hold, 1);
	assert_int_equal(past->report.violations[0].second->hold, 2);
}

static void other_locks_do_not_count(void **state) {
	struct past *past = *state;
	struct history_record other = past_grant(2, 'W', 2, 100, 110, 20, 1000);

	other.lock = 2;
	writer(past, 1, 1, 100, 500);
	past_add(past, other);
	past_expect(past, CHECK_EXCLUSION, 0, 0);
}

/* Not released at all: the program knew that it was valid until 300 only. */
static void validity_ends_the_interval(void **state) {
	struct past *past = *state;

	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 300));
	past_add(past, past_state(1, 1, 250, SNECK_SUSPECT));
	writer(past, 2, 2, 290, 400);
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	past_free(past);

	*state = past = past_new();
	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 301));
	past_add(past, past_state(1, 1, 250, SNECK_SUSPECT));
	writer(past, 2, 2, 290, 400);
	past_expect(past, CHECK_EXCLUSION, 1, 1);
}

static void what_was_told_later_counts(void **state) {
	struct past *past = *state;
	struct history_record renewed = past_call(HISTORY_RENEW, 1, 1, 240, 250, 0);

	renewed.valid_until_ns = 600;
	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 300));
	past_add(past, past_valid(1, 1, 200, 400));
	past_add(past, past_state(1, 1, 220, SNECK_SUSPECT));
	writer(past, 2, 2, 390, 500);
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	past_add(past, renewed);
	past_expect(past, CHECK_EXCLUSION, 1, 1);
}

static void a_loss_that_was_seen_ends_the_interval(void **state) {
	struct past *past = *state;

	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 900));
	past_add(past, past_state(1, 1, 200, SNECK_LOST));
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 500, 510, SNECK_ELOST));
	writer(past, 2, 2, 190, 400);
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	past->records[1][1].invoke_ns = past->records[1][1].return_ns = 201;
	past_expect(past, CHECK_EXCLUSION, 1, 1);
	past->records[1][1].result = SNECK_BROKEN;
	past->records[1][1].invoke_ns = past->records[1][1].return_ns = 200;
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	/* SUSPECT is not the end. */
	past->records[1][1].result = SNECK_SUSPECT;
	past_expect(past, CHECK_EXCLUSION, 1, 1);
}

static void a_renewal_that_says_lost_ends_it_too(void **state) {
	struct past *past = *state;

	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 900));
	past_add(past, past_call(HISTORY_RENEW, 1, 1, 150, 200, SNECK_ELOST));
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 500, 510, SNECK_ELOST));
	writer(past, 2, 2, 190, 400);
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	past->records[1][1].return_ns = 201;
	past_expect(past, CHECK_EXCLUSION, 1, 1);
}

static void death_ends_the_interval(void **state) {
	struct past *past = *state;

	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 900));
	writer(past, 2, 2, 190, 400);
	past_add(past, past_event(HISTORY_DEATH, 1, 200, 220));
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	past->records[0][0].invoke_ns = 201;
	past_expect(past, CHECK_EXCLUSION, 1, 1);
	/* By pid, and of another process. */
	past->records[0][0].invoke_ns = 200;
	past->records[0][0].token = 101;
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	past->records[0][0].token = 103;
	past_expect(past, CHECK_EXCLUSION, 1, 1);
}

static void readers_share_and_writers_do_not(void **state) {
	struct past *past = *state;

	past_add(past, past_grant(1, 'R', 1, 100, 110, 10, 100000));
	past_add(past, past_grant(2, 'R', 2, 120, 130, 10, 100000));
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 200, 210, 0));
	past_add(past, past_call(HISTORY_RELEASE, 2, 2, 300, 310, 0));
	past_expect(past, CHECK_EXCLUSION, 0, 0);
	writer(past, 3, 3, 290, 400); /* returns when the second reader gives back */
	past_add(past, past_grant(4, 'R', 4, 390, 400, 40, 100000));
	past_expect(past, CHECK_EXCLUSION, 2, 0);
	past->records[2][1].invoke_ns = 301;
	past_expect(past, CHECK_EXCLUSION, 2, 1);
	past->records[2][1].invoke_ns = 300;
	past->records[4][0].return_ns = 399;
	past_expect(past, CHECK_EXCLUSION, 2, 1);
}

/* The reader that ends last is not the one that began last. */
static void a_long_reader_is_not_forgotten(void **state) {
	struct past *past = *state;

	past_add(past, past_grant(1, 'R', 1, 100, 110, 10, 100000));
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 1000, 1010, 0));
	for (uint64_t i = 0; i < 5; i++) {
		int64_t at = 120 + (int64_t)i * 20;

		past_add(past, past_grant(2, 'R', 20 + i, at, at + 2, 10, 100000));
		past_add(past, past_call(HISTORY_RELEASE, 2, 20 + i, at + 4, at + 6, 0));
	}
	writer(past, 3, 3, 500, 600);
	past_expect(past, CHECK_EXCLUSION, 1, 1);
}

static void an_upgrade_changes_the_mode_in_the_middle(void **state) {
	struct past *past = *state;
	struct history_record upgrade = past_call(HISTORY_UPGRADE, 1, 1, 150, 200, 0);

	upgrade.mode = 'W';
	upgrade.token = 20;
	upgrade.valid_until_ns = 100000;
	past_add(past, past_grant(1, 'R', 1, 100, 110, 10, 100000));
	past_add(past, upgrade);
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 400, 410, 0));
	past_add(past, past_grant(2, 'R', 2, 100, 120, 10, 100000));
	past_add(past, past_call(HISTORY_RELEASE, 2, 2, 200, 210, 0));
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	past->records[2][1].invoke_ns = 201;
	past_expect(past, CHECK_EXCLUSION, 1, 1);
	/* One that was refused changes nothing. */
	past->records[1][1].result = SNECK_EDEADLK;
	past_expect(past, CHECK_EXCLUSION, 0, 0);
}

static void a_downgrade_lets_readers_in_from_its_call_on(void **state) {
	struct past *past = *state;
	struct history_record downgrade = past_call(HISTORY_DOWNGRADE, 1, 1, 200, 220, 0);

	downgrade.mode = 'R';
	downgrade.token = 20;
	downgrade.valid_until_ns = 100000;
	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 100000));
	past_add(past, downgrade);
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 400, 410, 0));
	past_add(past, past_grant(2, 'R', 2, 100, 200, 20, 100000));
	past_add(past, past_call(HISTORY_RELEASE, 2, 2, 300, 310, 0));
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	past->records[2][0].return_ns = 199;
	past_expect(past, CHECK_EXCLUSION, 1, 1);
	/* And the other must be a reader. */
	past->records[2][0].return_ns = 200;
	past->records[2][0].mode = 'W';
	past->records[2][0].token = 30;
	past_expect(past, CHECK_EXCLUSION, 2, 1);
}

static void nested_holds_of_one_owner_do_not_exclude_each_other(void **state) {
	struct past *past = *state;
	struct history_record inner = past_grant(1, 'W', 2, 150, 151, 10, 100000);

	inner.flags = HISTORY_OWNER;
	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 100000));
	past_add(past, inner);
	past_add(past, past_call(HISTORY_RELEASE, 1, 2, 180, 181, 0));
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 200, 210, 0));
	past_expect(past, CHECK_EXCLUSION, 0, 0);
	/* Nor does the flag excuse another actor. */
	past->records[1][1].actor = past->records[1][2].actor = 2;
	past_expect(past, CHECK_EXCLUSION, 1, 1);
	/* And the same actor without it has two. */
	past->records[1][1].actor = past->records[1][2].actor = 1;
	past->records[1][1].flags = 0;
	past->records[1][1].token = 11;
	past_expect(past, CHECK_EXCLUSION, 1, 1);
}

/* The outer one is given back; the inner one still excludes others. */
static void what_is_nested_lives_on(void **state) {
	struct past *past = *state;
	struct history_record inner = past_grant(1, 'W', 2, 150, 151, 10, 100000);

	inner.flags = HISTORY_OWNER;
	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 100000));
	past_add(past, inner);
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 180, 181, 0));
	past_add(past, past_call(HISTORY_RELEASE, 1, 2, 300, 310, 0));
	writer(past, 2, 3, 290, 400);
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	past->records[1][3].invoke_ns = 301;
	past_expect(past, CHECK_EXCLUSION, 1, 1);
}

static void a_wipe_between_the_two_is_an_excuse(void **state) {
	struct past *past = *state;
	struct history_record wipe = past_event(HISTORY_WIPE, 0, 150, 160);

	writer(past, 1, 1, 100, 300);
	writer(past, 2, 2, 200, 280);
	past_expect(past, CHECK_EXCLUSION, 1, 1);
	past_add(past, wipe);
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	past_excused(past, CHECK_EXCLUSION, CHECK_BY_WIPE, 1);
	past->records[0][0].lock = HISTORY_ALL;
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	past->records[0][0].lock = 2;
	past_expect(past, CHECK_EXCLUSION, 1, 1);
	/* Before both were granted, or after. */
	past->records[0][0] = past_event(HISTORY_WIPE, 0, 90, 100);
	past->records[0][0].lock = 1;
	past_expect(past, CHECK_EXCLUSION, 1, 1);
	past->records[0][0] = past_event(HISTORY_WIPE, 0, 210, 220);
	past->records[0][0].lock = 1;
	past_expect(past, CHECK_EXCLUSION, 1, 1);
}

/* A failover may drop a grant, but when it is over whoever had it must have been told. */
static void an_overlap_must_not_outlast_its_failover(void **state) {
	struct past *past = *state;

	writer(past, 1, 1, 100, 300);
	writer(past, 2, 2, 200, 280);
	past_add(past, past_event(HISTORY_WIPE, 0, 150, 280));
	past->records[0][0].flags = HISTORY_FAILOVER;
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	past_excused(past, CHECK_EXCLUSION, CHECK_BY_WIPE, 1);
	past->records[0][0].return_ns = 279;
	past_expect(past, CHECK_EXCLUSION, 1, 1);
	past->records[0][0].flags = 0;
	past_expect(past, CHECK_EXCLUSION, 1, 0);
}

/* What was lost in one is counted when it was told. */
static void losses_in_a_failover_are_counted(void **state) {
	struct past *past = *state;

	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 100000));
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 200, 210, SNECK_ELOST));
	writer(past, 2, 2, 300, 400);
	past_add(past, past_event(HISTORY_WIPE, 0, 150, 160));
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	assert_int_equal(past->report.lost_in_failover, 0);
	past->records[0][0].flags = HISTORY_FAILOVER;
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	assert_int_equal(past->report.lost_in_failover, 1);
	assert_int_equal(past->report.longest_gap_ns, past->records[2][0].return_ns - 110);
	past->records[0][0].invoke_ns = past->records[0][0].return_ns = 220;
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	assert_int_equal(past->report.lost_in_failover, 0);
}

/* How long somebody waited for a lock that nobody had. */
static void sleep_is_measured_from_the_last_hold(void **state) {
	struct past *past = *state;

	writer(past, 1, 1, 100, 300);
	writer(past, 2, 2, 500, 600);
	past->records[2][0].invoke_ns = 200; /* it came while the other was inside */
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	assert_int_equal(past->report.longest_sleep_ns, past->records[2][0].return_ns - 300);
	past->records[2][0].invoke_ns = 400;
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	assert_int_equal(past->report.longest_sleep_ns, past->records[2][0].return_ns - 400);
}

static void failed_renewals_are_counted(void **state) {
	struct past *past = *state;
	struct history_record renewal = past_call(HISTORY_RENEW, 1, 1, 200, 210, SNECK_ECONN);

	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 100000));
	past_add(past, renewal);
	past_add(past, past_call(HISTORY_STATE, 1, 1, 220, 221, SNECK_SUSPECT));
	past_expect(past, CHECK_EXCLUSION, 0, 0);
	assert_int_equal(past->report.unrenewed, 2);
	assert_int_equal(past->report.lost, 0);
	past->records[1][2].detail = HISTORY_NOT_HELD;
	past->records[1][1].result = SNECK_ELOST;
	past_expect(past, CHECK_EXCLUSION, 0, 0);
	assert_int_equal(past->report.unrenewed, 1);
	assert_int_equal(past->report.lost, 1);
	/* A fixed lease just ends. */
	for (int i = 0; i < 3; i++)
		past->records[1][i].flags |= HISTORY_FIXED;
	past_expect(past, CHECK_EXCLUSION, 0, 0);
	assert_int_equal(past->report.unrenewed, 0);
	assert_int_equal(past->report.lost, 0);
}

/* On a machine that is busy with other things it says nothing. */
static void a_renewal_that_was_held_up_is_counted_apart(void **state) {
	struct past *past = *state;

	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 1000000000));
	past_add(past, past_call(HISTORY_RENEW, 1, 1, 500000200, 500000210, SNECK_ECONN));
	past_add(past, past_event(HISTORY_FAULT, 0, 100000000, 400000000));
	past->records[0][0].flags = HISTORY_STOPPED;
	past_expect(past, CHECK_EXCLUSION, 0, 0);
	assert_int_equal(past->report.unrenewed, 0);
	assert_int_equal(past->report.held_up, 1);
	past->records[0][0].return_ns = 399999999;
	past_expect(past, CHECK_EXCLUSION, 0, 0);
	assert_int_equal(past->report.unrenewed, 1);
	assert_int_equal(past->report.held_up, 0);
}

/* Whoever re-enters goes on with what was granted before the wipe. */
static void a_nested_hold_is_as_old_as_the_outer_one(void **state) {
	struct past *past = *state;

	writer(past, 1, 1, 100, 500);
	past_add(past, past_event(HISTORY_WIPE, 0, 150, 160));
	writer(past, 2, 2, 200, 400);
	writer(past, 1, 3, 300, 350);
	past->records[1][2].flags = HISTORY_OWNER;
	past_expect(past, CHECK_EXCLUSION, 2, 0);
	past_excused(past, CHECK_EXCLUSION, CHECK_BY_WIPE, 2);
	/* Had the outer one been granted after the wipe, the nested one would be no older. */
	past->records[0][0] = past_event(HISTORY_WIPE, 0, 80, 90);
	past->records[0][0].lock = 1;
	past_expect(past, CHECK_EXCLUSION, 2, 2);
}

/* What a wipe excuses with one must not hide what it does not excuse with another. */
static void an_excuse_hides_nobody_else(void **state) {
	struct past *past = *state;

	writer(past, 1, 1, 100, 500);
	past_add(past, past_event(HISTORY_WIPE, 0, 150, 160));
	writer(past, 2, 2, 200, 400);
	writer(past, 3, 3, 300, 350);
	past_expect(past, CHECK_EXCLUSION, 2, 1);
	past_excused(past, CHECK_EXCLUSION, CHECK_BY_WIPE, 2);
	assert_int_equal(past->report.violations[0].first->hold, 2);
}

static void a_broken_hold_ends_with_its_grace(void **state) {
	struct past *past = *state;
	struct history_record record = past_call(HISTORY_BREAK, 3, 1, 150, 160, 0);

	record.deadline_ns = 250;
	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 900));
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 500, 510, SNECK_EBROKEN));
	past_add(past, record);
	writer(past, 2, 2, 240, 400);
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	past->records[3][0].deadline_ns = 251;
	past_expect(past, CHECK_EXCLUSION, 1, 1);
	/* Refused, it has not happened. */
	past->records[3][0].deadline_ns = 250;
	past->records[3][0].result = SNECK_ENOTHELD;
	past_expect(past, CHECK_EXCLUSION, 1, 1);
	/* A victim that is not known is an excuse, and counted. */
	past->records[3][0].result = 0;
	past->records[3][0].hold = 0;
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	past_excused(past, CHECK_EXCLUSION, CHECK_BY_BREAK, 1);
}

static void a_detached_hold_belongs_to_nobody_until_adopted(void **state) {
	struct past *past = *state;
	struct history_record adopted = past_grant(2, 'W', 1, 390, 400, 10, 900);

	adopted.op = HISTORY_ADOPT;
	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 900));
	past_add(past, past_call(HISTORY_DETACH, 1, 1, 200, 210, 0));
	past_add(past, adopted);
	past_add(past, past_call(HISTORY_RELEASE, 2, 1, 500, 510, 0));
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	writer(past, 3, 3, 490, 600);
	past_expect(past, CHECK_EXCLUSION, 2, 0);
	past->records[2][1].invoke_ns = 501;
	past_expect(past, CHECK_EXCLUSION, 2, 1);
}

/* A refused release of another's hold leaves it valid. */
static void a_non_owner_ends_nothing(void **state) {
	struct past *past = *state;

	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 900));
	past_put(past, 1, past_call(HISTORY_RELEASE, 5, 1, 150, 160, SNECK_ENOTOWNER));
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 300, 310, 0));
	writer(past, 2, 2, 290, 400);
	past_expect(past, CHECK_EXCLUSION, 1, 0);
	past->records[1][2].invoke_ns = 301;
	past_expect(past, CHECK_EXCLUSION, 1, 1);
}

/* The release of a hold that was not valid any more answers that it was: then it was held until then, and
 * nobody else may have been granted it. */
static void a_late_release_that_took_effect_is_found(void **state) {
	struct past *past = *state;

	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 300));
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 400, 410, 0));
	writer(past, 2, 2, 390, 500);
	past_expect(past, CHECK_RELEASE, 2, 0);
	past->records[1][1].invoke_ns = 401;
	past_expect(past, CHECK_RELEASE, 2, 1);
	assert_ptr_equal(past->report.violations[0].second, &past->records[1][1]);
	past->records[1][1].result = SNECK_ELOST;
	past_add(past, past_state(1, 1, 200, SNECK_SUSPECT));
	past_expect(past, CHECK_RELEASE, 1, 0);
}

/* What is found of one kind must not hide what is found of another. */
static void a_late_release_does_not_hide_two_that_were_valid(void **state) {
	struct past *past = *state;

	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 300));
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 1000, 1010, 0));
	writer(past, 2, 2, 390, 600);
	writer(past, 3, 3, 500, 700);
	check_done(&past->report);
	assert_int_equal(check_run(past->files, PAST_PROCESSES, &past->options, &past->report), 0);
	assert_int_equal(past->report.counts[CHECK_RELEASE].violations, 2);
	assert_int_equal(past->report.counts[CHECK_EXCLUSION].violations, 1);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		PAST_TEST(a_release_ends_the_interval_when_it_is_invoked),
		PAST_TEST(two_writers_at_once_are_found),
		PAST_TEST(other_locks_do_not_count),
		PAST_TEST(validity_ends_the_interval),
		PAST_TEST(what_was_told_later_counts),
		PAST_TEST(a_loss_that_was_seen_ends_the_interval),
		PAST_TEST(a_renewal_that_says_lost_ends_it_too),
		PAST_TEST(death_ends_the_interval),
		PAST_TEST(readers_share_and_writers_do_not),
		PAST_TEST(a_long_reader_is_not_forgotten),
		PAST_TEST(an_upgrade_changes_the_mode_in_the_middle),
		PAST_TEST(a_downgrade_lets_readers_in_from_its_call_on),
		PAST_TEST(nested_holds_of_one_owner_do_not_exclude_each_other),
		PAST_TEST(what_is_nested_lives_on),
		PAST_TEST(a_wipe_between_the_two_is_an_excuse),
		PAST_TEST(an_overlap_must_not_outlast_its_failover),
		PAST_TEST(losses_in_a_failover_are_counted),
		PAST_TEST(sleep_is_measured_from_the_last_hold),
		PAST_TEST(failed_renewals_are_counted),
		PAST_TEST(a_renewal_that_was_held_up_is_counted_apart),
		PAST_TEST(a_nested_hold_is_as_old_as_the_outer_one),
		PAST_TEST(an_excuse_hides_nobody_else),
		PAST_TEST(a_broken_hold_ends_with_its_grace),
		PAST_TEST(a_detached_hold_belongs_to_nobody_until_adopted),
		PAST_TEST(a_non_owner_ends_nothing),
		PAST_TEST(a_late_release_that_took_effect_is_found),
		PAST_TEST(a_late_release_does_not_hide_two_that_were_valid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
