/* SPDX-License-Identifier: MIT */
/* Histories made by hand, for tests of the checker: processes 0 to 7, of which 0 is the driver; a record of
 * actor n goes to process n unless it is put elsewhere. Times are small numbers, and so are the bounds
 * (past_options). Everything is on lock 1 unless changed. */
#ifndef TESTS_UNIT_PAST_H
#define TESTS_UNIT_PAST_H

#include <stdbool.h>

#include "check.h"
#include "history.h"

enum { PAST_PROCESSES = 8, PAST_RECORDS = 256 };

struct past {
	struct history_record records[PAST_PROCESSES][PAST_RECORDS];
	struct history_file files[PAST_PROCESSES];
	struct check_options options;
	struct check_report report;
};

/* Served within 1000, late by 50, in the queue after 10, 2 hand-overs. */
struct past *past_new(void);
void past_free(struct past *past);
/* For cmocka: each test has a past of its own, as its state. */
int past_setup(void **state);
int past_teardown(void **state);
#define PAST_TEST(function) cmocka_unit_test_setup_teardown(function, past_setup, past_teardown)

void past_put(struct past *past, int process, struct history_record record);
/* To the process with the number of its actor. */
void past_add(struct past *past, struct history_record record);

struct history_record past_call(
        unsigned op, uint32_t actor, uint64_t hold, int64_t invoke, int64_t ret, int result);
/* A grant: result 0. */
struct history_record past_grant(uint32_t actor, char mode, uint64_t hold, int64_t invoke, int64_t ret,
        uint64_t token, int64_t valid_until);
/* A look that told that. */
struct history_record past_valid(uint32_t actor, uint64_t hold, int64_t at, int64_t valid_until);
struct history_record past_state(uint32_t actor, uint64_t hold, int64_t at, int state);
/* By the driver; `actor` 0: everybody. */
struct history_record past_event(unsigned op, uint32_t actor, int64_t from, int64_t to);
struct history_record past_stop(uint32_t actor, int64_t from, int64_t to);

/* Check, and compare: so many violations of the invariant, and none of any other. */
void past_expect(struct past *past, enum check_invariant invariant, uint64_t checked, uint64_t violations);
/* After it: that many were excused so. */
void past_excused(
        const struct past *past, enum check_invariant invariant, enum check_excuse excuse, uint64_t n);

#endif
