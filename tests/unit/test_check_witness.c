/* SPDX-License-Identifier: MIT */
/* The checker on the witness: who met whom inside, and which meetings are no fault. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sneck/sneck.h>

#include "past.h"
#include "witness.h"

/* Two writers whose visits overlap; the first is valid until `first_until`, and gives back at 400. */
static void meeting(struct past *past, int64_t first_until) {
	struct history_record met = past_call(HISTORY_ENTER, 2, 2, 260, 261, -1);

	met.token = 1;
	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, first_until));
	past_add(past, past_call(HISTORY_ENTER, 1, 1, 120, 121, 0));
	past_add(past, past_state(1, 1, 200, SNECK_SUSPECT));
	past_add(past, past_call(HISTORY_LEAVE, 1, 1, 300, 301, 0));
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 400, 410, first_until < 400 ? SNECK_ELOST : 0));
	past_add(past, past_grant(2, 'W', 2, 240, 250, 20, 900));
	past_add(past, met);
	past_add(past, past_call(HISTORY_LEAVE, 2, 2, 290, 291, 0));
	past_add(past, past_call(HISTORY_RELEASE, 2, 2, 350, 360, 0));
}

static void a_meeting_with_one_that_is_past_its_validity_is_expected(void **state) {
	struct past *past = *state;

	meeting(past, 250);
	past_expect(past, CHECK_WITNESS, 4, 0);
	past_excused(past, CHECK_WITNESS, CHECK_BY_VALIDITY, 1);
}

static void a_meeting_of_two_that_are_valid_is_found(void **state) {
	struct past *past = *state;

	meeting(past, 900);
	check_done(&past->report);
	assert_int_equal(check_run(past->files, PAST_PROCESSES, &past->options, &past->report), 0);
	assert_int_equal(past->report.counts[CHECK_WITNESS].violations, 1);
	assert_int_equal(past->report.counts[CHECK_EXCLUSION].violations, 1);
}

/* By the intervals all is well; but somebody was met. So the intervals are not all there is. */
static void a_meeting_that_no_clock_shows_is_found(void **state) {
	struct past *past = *state;
	struct history_record met = past_call(HISTORY_LEAVE, 2, 2, 290, 291, -1);

	met.token = 1;
	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 900));
	past_add(past, past_call(HISTORY_ENTER, 1, 1, 120, 121, 0));
	past_add(past, past_call(HISTORY_LEAVE, 1, 1, 140, 141, 0));
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 150, 160, 0));
	past_add(past, past_grant(2, 'W', 2, 240, 250, 20, 900));
	past_add(past, past_call(HISTORY_ENTER, 2, 2, 260, 261, 0));
	past_add(past, met);
	past_add(past, past_call(HISTORY_RELEASE, 2, 2, 350, 360, 0));
	past_expect(past, CHECK_WITNESS, 4, 1);
	past->records[2][2].token = WITNESS_SOMEBODY;
	past_expect(past, CHECK_WITNESS, 4, 1);
	/* The one that was met stayed inside beyond its validity. */
	past->records[2][2].token = 1;
	past->records[1][0].valid_until_ns = 130;
	past->records[1][3].result = SNECK_ELOST;
	past_add(past, past_state(1, 1, 125, SNECK_SUSPECT));
	past_expect(past, CHECK_WITNESS, 4, 0);
	past_excused(past, CHECK_WITNESS, CHECK_BY_VALIDITY, 1);
}

/* The first was stopped on its way out, and took the second's link with it. */
static void a_meeting_without_a_name_is_with_who_was_there(void **state) {
	struct past *past = *state;
	struct history_record met = past_call(HISTORY_LEAVE, 2, 2, 310, 311, -1);

	met.token = WITNESS_SOMEBODY;
	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 200));
	past_add(past, past_call(HISTORY_ENTER, 1, 1, 120, 121, 0));
	past_add(past, past_state(1, 1, 130, SNECK_SUSPECT));
	past_add(past, past_call(HISTORY_LEAVE, 1, 1, 140, 290, 0));
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 291, 295, SNECK_ELOST));
	past_add(past, past_grant(2, 'W', 2, 240, 250, 20, 900));
	past_add(past, past_call(HISTORY_ENTER, 2, 2, 260, 261, 0));
	past_add(past, met);
	past_add(past, past_call(HISTORY_RELEASE, 2, 2, 350, 360, 0));
	past_expect(past, CHECK_WITNESS, 4, 0);
	past_excused(past, CHECK_WITNESS, CHECK_BY_VALIDITY, 1);
	/* Gone before the second came in, it explains nothing. */
	past->records[1][3].return_ns = 150;
	past_expect(past, CHECK_WITNESS, 4, 1);
	/* Both were valid, because the server had forgotten the first. */
	past->records[1][3].return_ns = 290;
	past->records[1][0].valid_until_ns = 900;
	past_add(past, past_event(HISTORY_WIPE, 0, 220, 230));
	past_expect(past, CHECK_WITNESS, 4, 0);
	past_excused(past, CHECK_WITNESS, CHECK_BY_WIPE, 1);
}

/* Killed inside, it has left its link behind. */
static void what_the_dead_left_is_no_meeting(void **state) {
	struct past *past = *state;
	struct history_record met = past_call(HISTORY_ENTER, 2, 2, 260, 261, -1);

	met.token = 1;
	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 900));
	past_add(past, past_call(HISTORY_ENTER, 1, 1, 120, 121, 0));
	past_add(past, past_event(HISTORY_DEATH, 1, 130, 140));
	past_add(past, past_grant(2, 'W', 2, 240, 250, 20, 900));
	past_add(past, met);
	past_expect(past, CHECK_WITNESS, 2, 0);
	past_excused(past, CHECK_WITNESS, CHECK_BY_VALIDITY, 1);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		PAST_TEST(a_meeting_with_one_that_is_past_its_validity_is_expected),
		PAST_TEST(a_meeting_of_two_that_are_valid_is_found),
		PAST_TEST(a_meeting_that_no_clock_shows_is_found),
		PAST_TEST(a_meeting_without_a_name_is_with_who_was_there),
		PAST_TEST(what_the_dead_left_is_no_meeting),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
