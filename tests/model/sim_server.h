/* SPDX-License-Identifier: MIT */
/* A reference server for one lock: what each lock_op means, as plain lists and loops.
 *
 * It is written to be read and believed, not to be fast: holders, waiters in order, tombstones and
 * the last token. The scripts of the native dialect say the same about a sorted set. */
#ifndef TESTS_MODEL_SIM_SERVER_H
#define TESTS_MODEL_SIM_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lock/op.h"

enum { SIM_HOLDERS = 64, SIM_WAITERS = 64, SIM_GRAVES = 512, SIM_NOTES = 64 };
enum { SIM_BURY_MS = 60000 };

struct sim_holder {
	int session;
	uint64_t attempt;
	char mode;
	bool lingers; /* as the session says */
	int64_t deadline_ms;
};

struct sim_waiter {
	int session;
	uint64_t attempt;
	uint64_t old; /* an upgrader's READ attempt; else 0 */
	char mode;
	int rank; /* 0: upgrader, 1: preferred, 2: the others */
	int64_t until_ms;
};

/* An attempt that may not come to life, or one that an operator has ended. */
struct sim_grave {
	int session;
	uint64_t attempt;
	int64_t until_ms;
	bool broken;
};

struct sim_lock {
	size_t holders_n, waiters_n, graves_n;
	struct sim_holder holders[SIM_HOLDERS];
	struct sim_waiter waiters[SIM_WAITERS]; /* in order */
	struct sim_grave graves[SIM_GRAVES];
	uint64_t token;
};

struct sim_note {
	int to;
	struct lock_note note;
};

struct sim_notes {
	size_t n;
	struct sim_note items[SIM_NOTES];
};

/* Runs `op` of `session`. `budget`: entries that one run may grant or remove. Notes are appended. */
void sim_server_run(struct sim_lock *lock, int session, const struct lock_op *op, int budget, int64_t now_us,
        struct lock_outcome *ret, struct sim_notes *notes);
/* An operator ends a hold, or a wait. */
void sim_server_break(struct sim_lock *lock, size_t holder, int64_t now_us, struct sim_notes *notes);
void sim_server_break_wait(struct sim_lock *lock, size_t waiter, int64_t now_us, struct sim_notes *notes);

bool sim_is_broken(const struct sim_lock *lock, int session, uint64_t attempt);
const struct sim_holder *sim_find_holder(const struct sim_lock *lock, int session, uint64_t attempt);
/* "W3.17": mode, session, attempt. */
void sim_format_id(char mode, int session, uint64_t attempt, char ret_id[LOCK_ID_MAX]);
bool sim_parse_id(const char *id, char *ret_mode, int *ret_session, uint64_t *ret_attempt);

#endif
