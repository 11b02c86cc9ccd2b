/* SPDX-License-Identifier: MIT */
/* The checker on overtaking (two hand-overs inside a process are allowed, and a waiter is in the queue 10
 * after its call), and its report in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sneck/sneck.h>

#include "past.h"

/* A fair hold from its call to its release. */
static void turn(
        struct past *past, uint32_t actor, uint64_t number, int64_t invoke, int64_t ret, int64_t release) {
	struct history_record grant = past_grant(actor, 'W', number, invoke, ret, (uint64_t)ret, 100000);

	grant.flags = HISTORY_FAIR;
	past_add(past, grant);
	past_add(past, past_call(HISTORY_RELEASE, actor, number, release, release + 1, 0));
}

/* Actor 1 waits from 100 to 500; actor 2 has `n` turns inside that time, the first of them called at `from`.
 */
static void overtake(struct past *past, int n, int64_t from) {
	turn(past, 1, 1, 100, 500, 600);
	for (int i = 0; i < n; i++)
		turn(past, 2, (uint64_t)(20 + i), from + i * 10, from + i * 10 + 5, from + i * 10 + 8);
}

static void as_many_as_may_be_handed_over_may_overtake(void **state) {
	struct past *past = *state;

	overtake(past, 2, 111);
	past_expect(past, CHECK_FAIR, 1, 0);
	past_free(past);
	*state = past = past_new();
	overtake(past, 3, 111);
	past_expect(past, CHECK_FAIR, 1, 1);
	assert_int_equal(past->report.violations[0].first->hold, 1);
	assert_int_equal(past->report.violations[0].second->hold, 22);
}

/* Called when the waiter may not have been in the queue yet. */
static void the_first_moments_do_not_count(void **state) {
	struct past *past = *state;

	overtake(past, 3, 110);
	past_expect(past, CHECK_FAIR, 1, 0);
}

/* Called in the meantime, but served afterwards. */
static void who_waits_behind_overtakes_nobody(void **state) {
	struct past *past = *state;

	turn(past, 1, 1, 100, 500, 600);
	for (int i = 0; i < 5; i++)
		turn(past, 2, (uint64_t)(20 + i), 120 + i, 600 + i * 10, 605 + i * 10);
	past_expect(past, CHECK_FAIR, 1, 0);
	past->records[2][4].return_ns = 499;
	past->records[2][4].token = 499;
	past->records[2][5].invoke_ns = 499;
	past_expect(past, CHECK_FAIR, 1, 0);
}

/* Three were before it, but none of the two processes three times; the third call of one waits behind. */
static void only_turns_that_came_first_are_counted(void **state) {
	struct past *past = *state;

	overtake(past, 2, 120);
	turn(past, 3, 30, 200, 205, 208);
	turn(past, 2, 29, 210, 700, 705);
	past_expect(past, CHECK_FAIR, 1, 0);
	past->records[2][4].return_ns = 300;
	past->records[2][4].token = 300;
	past->records[2][5].invoke_ns = 305;
	past_expect(past, CHECK_FAIR, 1, 1);
}

static void one_process_does_not_overtake_itself(void **state) {
	struct past *past = *state;

	overtake(past, 5, 120);
	for (uint64_t i = 0; i < past->files[2].n; i++)
		past_put(past, 1, past->records[2][i]);
	past->files[2].n = 0;
	past_expect(past, CHECK_FAIR, 1, 0);
}

/* Each of several processes may have been before it in the queue. */
static void processes_are_counted_apart(void **state) {
	struct past *past = *state;

	overtake(past, 2, 120);
	for (uint32_t actor = 3; actor < 6; actor++)
		for (int i = 0; i < 2; i++) {
			int64_t at = 100 + actor * 50 + i * 10;

			turn(past, actor, actor * 10 + (uint64_t)i, at, at + 5, at + 8);
		}
	past_expect(past, CHECK_FAIR, 1, 0);
	/* And for each waiter anew. */
	turn(past, 6, 6, 101, 700, 800);
	past_expect(past, CHECK_FAIR, 2, 0);
}

static void other_classes_may_overtake(void **state) {
	struct past *past = *state;

	overtake(past, 3, 120);
	past->records[2][0].flags = 0;
	past_expect(past, CHECK_FAIR, 1, 0);
	past->records[2][0].flags = HISTORY_FAIR;
	past->records[1][0].flags = 0;
	past_expect(past, CHECK_FAIR, 0, 0);
}

/* A waiter that gives up later was overtaken all the same; one that is dead was not. */
static void whoever_waits_counts_however_it_ends(void **state) {
	struct past *past = *state;

	overtake(past, 3, 120);
	past->records[1][0].result = SNECK_ETIMEDOUT;
	past->files[1].n = 1;
	past_expect(past, CHECK_FAIR, 1, 1);
	past_add(past, past_event(HISTORY_DEATH, 1, 140, 150));
	past_expect(past, CHECK_FAIR, 1, 0);
}

static void a_waiter_with_a_fault_may_have_lost_its_place(void **state) {
	struct past *past = *state;

	overtake(past, 3, 120);
	past_add(past, past_event(HISTORY_FAULT, 1, 105, 115));
	past_expect(past, CHECK_FAIR, 1, 0);
	past_excused(past, CHECK_FAIR, CHECK_BY_FAULT, 1);
	past->records[0][0].actor = 0; /* everybody's */
	past_expect(past, CHECK_FAIR, 1, 0);
	past->records[0][0].actor = 2; /* the other's is no excuse */
	past_expect(past, CHECK_FAIR, 1, 1);
	past->records[0][0] = past_event(HISTORY_FAULT, 1, 50, 99);
	past_expect(past, CHECK_FAIR, 1, 1);
	past->options.settle_ns = 1; /* it may have been connecting yet */
	past_expect(past, CHECK_FAIR, 1, 0);
}

/* ---- In words -----------------------------------------------------------------------------------*/

static char *printed(struct past *past) {
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	check_print(out, &past->report);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void assert_has(const char *text, const char *part) {
	if (!strstr(text, part))
		fail_msg("no \"%s\" in:\n%s", part, text);
}

static void the_report_shows_the_two_and_what_lay_between(void **state) {
	struct past *past = *state;
	char *text;

	past_add(past, past_grant(1, 'W', 0xa1, 100, 110, 10, 100000));
	past_add(past, past_call(HISTORY_RENEW, 1, 0xa1, 130, 140, SNECK_ECONN));
	past_add(past, past_stop(1, 120, 160));
	past_add(past, past_grant(2, 'W', 0xb2, 170, 180, 20, 100000));
	past_expect(past, CHECK_EXCLUSION, 1, 1);
	text = printed(past);
	assert_has(text, "I1  exclusion of believed-valid holds      VIOLATED       1 of 1\n");
	assert_has(text, "I2  tokens grow                            ok             1 checked\n");
	assert_has(text, "I8  nothing left behind                    not exercised\n");
	assert_has(text, "I1: two holds were valid at once\n"
	                 "  1 0.000000..0.000000 acquire lock 1 by 1 hold a1 W: ok, token 10");
	assert_has(text, "  ! 0.000000..0.000000 fault kind 0 (stopped), struck 1 of actor 1");
	assert_has(text, "renew lock 1 by 1 hold a1: SNECK_ECONN");
	assert_has(text, "[process 101, record 1]\n  2 ");
	assert_true(strstr(text, "renew") < strstr(text, "hold b2"));
	free(text);
}

static void the_report_never_says_ok_of_what_was_not_exercised(void **state) {
	struct past *past = *state;
	char *text;

	past->options.keep = 0;
	past_expect(past, CHECK_EXCLUSION, 0, 0);
	text = printed(past);
	for (int i = 0; i < CHECK_INVARIANTS; i++) {
		char line[80];

		if (i == CHECK_WHOLE)
			continue;
		snprintf(line, sizeof line, "%-3s %-38s not exercised\n", check_id((enum check_invariant)i),
		        check_title((enum check_invariant)i));
		assert_has(text, line);
	}
	free(text);
}

static void as_many_are_kept_as_asked_for(void **state) {
	struct past *past = *state;

	past->options.keep = 2;
	for (uint64_t i = 0; i < 5; i++)
		past_add(past,
		        past_grant(1, 'W', i + 1, 100 + (int64_t)i * 20, 110 + (int64_t)i * 20, i + 1, 1000));
	past_expect(past, CHECK_EXCLUSION, 4, 4);
	assert_int_equal(past->report.n_violations, 2);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		PAST_TEST(as_many_as_may_be_handed_over_may_overtake),
		PAST_TEST(the_first_moments_do_not_count),
		PAST_TEST(who_waits_behind_overtakes_nobody),
		PAST_TEST(only_turns_that_came_first_are_counted),
		PAST_TEST(one_process_does_not_overtake_itself),
		PAST_TEST(processes_are_counted_apart),
		PAST_TEST(other_classes_may_overtake),
		PAST_TEST(whoever_waits_counts_however_it_ends),
		PAST_TEST(a_waiter_with_a_fault_may_have_lost_its_place),
		PAST_TEST(the_report_shows_the_two_and_what_lay_between),
		PAST_TEST(the_report_never_says_ok_of_what_was_not_exercised),
		PAST_TEST(as_many_are_kept_as_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
