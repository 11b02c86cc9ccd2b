/* SPDX-License-Identifier: MIT */
/* The checker on tokens, as they are given out and as the stores see them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sneck/sneck.h>

#include "past.h"

/* A hold from invoke to invoke + 20, granted after 10. */
static void hold(
        struct past *past, uint32_t actor, char mode, uint64_t number, int64_t invoke, uint64_t token) {
	past_add(past, past_grant(actor, mode, number, invoke, invoke + 10, token, 100000));
	past_add(past, past_call(HISTORY_RELEASE, actor, number, invoke + 20, invoke + 30, 0));
}

static void store(
        struct past *past, uint32_t actor, uint64_t number, int64_t at, uint64_t token, int result) {
	struct history_record record = past_call(HISTORY_STORE, actor, number, at, at + 1, result);

	record.token = token;
	past_add(past, record);
}

static void a_write_token_exceeds_every_earlier_one(void **state) {
	struct past *past = *state;

	hold(past, 1, 'W', 1, 100, 10);
	hold(past, 2, 'R', 2, 200, 20);
	hold(past, 1, 'W', 3, 300, 21);
	past_expect(past, CHECK_TOKENS, 2, 0);
	past->records[1][2].token = 20;
	past_expect(past, CHECK_TOKENS, 2, 1);
	assert_int_equal(past->report.violations[0].first->hold, 2);
	assert_int_equal(past->report.violations[0].second->hold, 3);
}

static void a_read_token_exceeds_every_earlier_write_token(void **state) {
	struct past *past = *state;

	hold(past, 1, 'W', 1, 100, 10);
	hold(past, 2, 'R', 2, 200, 11);
	hold(past, 3, 'R', 3, 300, 11); /* readers share a phase */
	past_expect(past, CHECK_TOKENS, 2, 0);
	past->records[2][0].token = 10;
	past_expect(past, CHECK_TOKENS, 2, 1);
}

/* The greatest of all earlier ones counts, not the last. */
static void an_old_token_is_not_forgotten(void **state) {
	struct past *past = *state;

	hold(past, 1, 'W', 1, 100, 50);
	hold(past, 2, 'W', 2, 200, 40);
	hold(past, 3, 'W', 3, 300, 45);
	past_expect(past, CHECK_TOKENS, 2, 2);
}

static void calls_that_overlap_are_not_compared(void **state) {
	struct past *past = *state;
	struct history_record first = past_grant(1, 'W', 1, 100, 110, 20, 100000);

	past_add(past, first);
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 111, 112, 0));
	past_add(past, past_grant(2, 'W', 2, 110, 130, 10, 100000));
	past_expect(past, CHECK_TOKENS, 0, 0);
	past->records[2][0].invoke_ns = 111;
	past_expect(past, CHECK_TOKENS, 1, 1);
}

static void two_writers_never_have_the_same(void **state) {
	struct past *past = *state;

	past_add(past, past_grant(1, 'W', 1, 100, 110, 20, 100000));
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 111, 112, 0));
	past_add(past, past_grant(2, 'W', 2, 110, 130, 20, 100000));
	past_expect(past, CHECK_TOKENS, 0, 1);
	past->records[2][0].token = 21;
	past_expect(past, CHECK_TOKENS, 0, 0);
	/* Nested, they must. */
	past->records[2][0].token = 20;
	past->records[2][0].flags = HISTORY_OWNER;
	past_expect(past, CHECK_TOKENS, 0, 0);
}

static void conversions_take_new_ones(void **state) {
	struct past *past = *state;
	struct history_record upgrade = past_call(HISTORY_UPGRADE, 1, 1, 120, 130, 0);
	struct history_record downgrade = past_call(HISTORY_DOWNGRADE, 1, 1, 140, 150, 0);

	upgrade.token = 11;
	downgrade.token = 12;
	upgrade.valid_until_ns = downgrade.valid_until_ns = 100000;
	past_add(past, past_grant(1, 'R', 1, 100, 110, 10, 100000));
	past_add(past, upgrade);
	past_add(past, downgrade);
	past_add(past, past_call(HISTORY_RELEASE, 1, 1, 160, 170, 0));
	past_expect(past, CHECK_TOKENS, 2, 0);
	past->records[1][2].token = 11;
	past_expect(past, CHECK_TOKENS, 2, 1);
	past->records[1][2].token = 12;
	past->records[1][1].token = 10;
	past_expect(past, CHECK_TOKENS, 2, 1);
	past->records[1][1].result = SNECK_EDEADLK;
	past_expect(past, CHECK_TOKENS, 0, 0);
}

static void who_adopts_keeps_the_token(void **state) {
	struct past *past = *state;
	struct history_record adopted = past_grant(2, 'W', 1, 200, 210, 10, 100000);

	adopted.op = HISTORY_ADOPT;
	past_add(past, past_grant(1, 'W', 1, 100, 110, 10, 100000));
	past_add(past, past_call(HISTORY_DETACH, 1, 1, 120, 130, 0));
	past_add(past, adopted);
	past_add(past, past_call(HISTORY_RELEASE, 2, 1, 220, 230, 0));
	past_expect(past, CHECK_TOKENS, 0, 0);
	hold(past, 3, 'W', 3, 300, 10);
	past_expect(past, CHECK_TOKENS, 1, 1);
}

/* Losing the key alone does not make tokens go back: they follow the time. */
static void only_a_wipe_with_the_clock_set_back_is_an_excuse(void **state) {
	struct past *past = *state;

	hold(past, 1, 'W', 1, 100, 20);
	past_add(past, past_event(HISTORY_WIPE, 0, 150, 160));
	hold(past, 2, 'W', 2, 200, 10);
	past_expect(past, CHECK_TOKENS, 1, 1);
	past->records[0][0].detail = 1;
	past_expect(past, CHECK_TOKENS, 1, 0);
	past_excused(past, CHECK_TOKENS, CHECK_BY_WIPE, 1);
	past->records[0][0].lock = 2;
	past_expect(past, CHECK_TOKENS, 1, 1);
	/* Who held passes on what it had until it has found out, and not later. */
	past->records[0][0] = past_event(HISTORY_WIPE, 0, 150, 200);
	past->records[0][0].lock = 1;
	past->records[0][0].detail = 2;
	past_expect(past, CHECK_TOKENS, 1, 1);
	past->records[0][0].return_ns = 201;
	past_expect(past, CHECK_TOKENS, 1, 0);
}

/* A failover goes back to a phase of readers: who joins them has their number, though a writer had a later
 * one. A writer never has an old number, and a reader none that nobody had before. */
static void readers_may_join_a_phase_that_came_back(void **state) {
	struct past *past = *state;

	hold(past, 1, 'R', 1, 100, 10);
	hold(past, 2, 'W', 2, 200, 20);
	past_add(past, past_event(HISTORY_WIPE, 0, 230, 240));
	past->records[0][0].flags = HISTORY_FAILOVER;
	hold(past, 3, 'R', 3, 300, 10);
	past_expect(past, CHECK_TOKENS, 2, 0);
	past_excused(past, CHECK_TOKENS, CHECK_BY_ROLLBACK, 1);
	past->records[3][0].token = 11;
	past_expect(past, CHECK_TOKENS, 2, 1);
	past->records[3][0].token = 10;
	past->records[3][0].mode = 'W';
	past_expect(past, CHECK_TOKENS, 2, 1);
	past->records[3][0].mode = 'R';
	past->records[0][0].flags = 0;
	past_expect(past, CHECK_TOKENS, 2, 1);
}

static void without_tokens_nothing_is_exercised(void **state) {
	struct past *past = *state;

	hold(past, 1, 'W', 1, 100, 0);
	hold(past, 2, 'W', 2, 200, 0);
	store(past, 1, 1, 115, 0, 1);
	past_expect(past, CHECK_TOKENS, 0, 0);
	past_expect(past, CHECK_STORE, 0, 0);
}

/* ---- The stores ---------------------------------------------------------------------------------*/

static void a_stale_token_that_was_taken_is_found(void **state) {
	struct past *past = *state;

	hold(past, 1, 'W', 1, 100, 10);
	hold(past, 2, 'W', 2, 200, 20);
	store(past, 2, 2, 215, 20, 1);
	store(past, 1, 1, 250, 10, 0);
	past_expect(past, CHECK_STORE, 2, 0);
	assert_int_equal(past->report.stores_refused, 1);
	past->records[1][2].result = 1;
	past_expect(past, CHECK_STORE, 2, 1);
	/* At the same moment, either may have been first. */
	past->records[1][2].invoke_ns = 216;
	past_expect(past, CHECK_STORE, 2, 0);
}

static void what_the_other_store_took_is_counted(void **state) {
	struct past *past = *state;

	hold(past, 1, 'W', 1, 100, 10);
	store(past, 1, 1, 250, 10, 0);
	past->records[1][2].detail = 1;
	past_expect(past, CHECK_STORE, 1, 0);
	assert_int_equal(past->report.stores_stale, 1);
}

static void whoever_is_valid_is_not_refused(void **state) {
	struct past *past = *state;

	hold(past, 1, 'W', 1, 100, 10);
	store(past, 1, 1, 119, 10, 0); /* back at 120, when the release is called */
	past_expect(past, CHECK_STORE, 1, 1);
	past->records[1][2].return_ns = 121;
	past_expect(past, CHECK_STORE, 1, 0);
	past->records[1][2].return_ns = 120;
	past_add(past, past_event(HISTORY_WIPE, 0, 105, 106));
	past_expect(past, CHECK_STORE, 1, 0);
	past_excused(past, CHECK_STORE, CHECK_BY_WIPE, 1);
	/* Broken, and not told yet. */
	past->records[0][0] = past_event(HISTORY_BREAK, 0, 115, 116);
	past->records[0][0].lock = 1;
	past_expect(past, CHECK_STORE, 1, 0);
	past_excused(past, CHECK_STORE, CHECK_BY_BREAK, 1);
	past->records[0][0].lock = 2;
	past_expect(past, CHECK_STORE, 1, 1);
}

/* A store remembers what the server has forgotten. */
static void a_store_may_refuse_where_tokens_begin_anew(void **state) {
	struct past *past = *state;

	hold(past, 1, 'W', 1, 100, 20);
	store(past, 1, 1, 112, 20, 1);
	past_add(past, past_event(HISTORY_WIPE, 0, 150, 160));
	past->records[0][0].detail = 1;
	hold(past, 2, 'W', 2, 200, 10);
	store(past, 2, 2, 212, 10, 0);
	past_expect(past, CHECK_STORE, 2, 0);
	past_excused(past, CHECK_STORE, CHECK_BY_WIPE, 1);
	/* Without an earlier write that was greater it had no reason. */
	past->records[1][2].result = 0;
	past->records[1][2].return_ns = 130;
	past_expect(past, CHECK_STORE, 2, 1);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		PAST_TEST(a_write_token_exceeds_every_earlier_one),
		PAST_TEST(a_read_token_exceeds_every_earlier_write_token),
		PAST_TEST(an_old_token_is_not_forgotten),
		PAST_TEST(calls_that_overlap_are_not_compared),
		PAST_TEST(two_writers_never_have_the_same),
		PAST_TEST(conversions_take_new_ones),
		PAST_TEST(who_adopts_keeps_the_token),
		PAST_TEST(only_a_wipe_with_the_clock_set_back_is_an_excuse),
		PAST_TEST(readers_may_join_a_phase_that_came_back),
		PAST_TEST(without_tokens_nothing_is_exercised),
		PAST_TEST(a_stale_token_that_was_taken_is_found),
		PAST_TEST(what_the_other_store_took_is_counted),
		PAST_TEST(whoever_is_valid_is_not_refused),
		PAST_TEST(a_store_may_refuse_where_tokens_begin_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
