/* SPDX-License-Identifier: MIT */
/* Histories made by hand (past.h). The arrays stand in for mapped files: the checker does not know the
 * difference. Every check is for one invariant and for silence about the others, so that a history that is
 * meant to break one rule cannot break another unseen. */
#include "past.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

struct past *past_new(void) {
	struct past *past = calloc(1, sizeof *past);

	assert_non_null(past);
	for (int i = 0; i < PAST_PROCESSES; i++)
		past->files[i] = (struct history_file){
			.path = "by hand", .records = past->records[i], .pid = 100 + i
		};
	past->options = (struct check_options){
		.served_ns = 1000, .late_ns = 50, .fair_ns = 10, .handovers = 2, .keep = 20
	};
	return past;
}

void past_free(struct past *past) {
	check_done(&past->report);
	free(past);
}

int past_setup(void **state) {
	*state = past_new();
	return 0;
}

int past_teardown(void **state) {
	past_free(*state);
	return 0;
}

void past_put(struct past *past, int process, struct history_record record) {
	struct history_file *file = &past->files[process];

	assert_true(file->n < PAST_RECORDS);
	if (!record.lock)
		record.lock = 1;
	past->records[process][file->n++] = record;
}

void past_add(struct past *past, struct history_record record) {
	past_put(past, record.op >= HISTORY_FAULT ? 0 : (int)record.actor, record);
}

struct history_record past_call(
        unsigned op, uint32_t actor, uint64_t hold, int64_t invoke, int64_t ret, int result) {
	return (struct history_record){ .op = (uint8_t)op,
		.actor = actor,
		.hold = hold,
		.invoke_ns = invoke,
		.return_ns = ret,
		.result = result };
}

struct history_record past_grant(uint32_t actor, char mode, uint64_t hold, int64_t invoke, int64_t ret,
        uint64_t token, int64_t valid_until) {
	struct history_record record = past_call(HISTORY_ACQUIRE, actor, hold, invoke, ret, 0);

	record.mode = (uint8_t)mode;
	record.token = token;
	record.valid_until_ns = valid_until;
	return record;
}

struct history_record past_valid(uint32_t actor, uint64_t hold, int64_t at, int64_t valid_until) {
	struct history_record record = past_call(HISTORY_VALID, actor, hold, at, at, 0);

	record.valid_until_ns = valid_until;
	return record;
}

struct history_record past_state(uint32_t actor, uint64_t hold, int64_t at, int state) {
	return past_call(HISTORY_STATE, actor, hold, at, at, state);
}

struct history_record past_event(unsigned op, uint32_t actor, int64_t from, int64_t to) {
	return past_call(op, actor, 0, from, to, op == HISTORY_FAULT);
}

struct history_record past_stop(uint32_t actor, int64_t from, int64_t to) {
	struct history_record record = past_event(HISTORY_FAULT, actor, from, to);

	record.flags = HISTORY_STOPPED;
	return record;
}

void past_expect(struct past *past, enum check_invariant invariant, uint64_t checked, uint64_t violations) {
	check_done(&past->report);
	assert_int_equal(check_run(past->files, PAST_PROCESSES, &past->options, &past->report), 0);
	for (int i = 0; i < CHECK_INVARIANTS; i++) {
		uint64_t found = past->report.counts[i].violations;

		if (found == (i == (int)invariant ? violations : 0))
			continue;
		check_print(stderr, &past->report);
		fail_msg("%s: %d violations", check_id((enum check_invariant)i), (int)found);
	}
	assert_int_equal(past->report.counts[invariant].checked, checked);
}

void past_excused(
        const struct past *past, enum check_invariant invariant, enum check_excuse excuse, uint64_t n) {
	assert_int_equal(past->report.counts[invariant].excused[excuse], n);
}
