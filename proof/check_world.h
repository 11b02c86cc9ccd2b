/* SPDX-License-Identifier: MIT */
/* Inside the checker: the histories of a run, sorted and resolved, and what the parts of the checker share.
 */
#ifndef PROOF_CHECK_WORLD_H
#define PROOF_CHECK_WORLD_H

#include "check.h"

#define CHECK_NEVER INT64_MAX
#define CHECK_EVERYBODY UINT32_MAX
#define CHECK_NOBODY (UINT32_MAX - 1)

struct check_entry {
	uint64_t key; /* the lock, or the hold */
	int64_t at;   /* invoke_ns */
	const struct history_record *record;
	uint32_t process; /* index of its file */
};

struct check_stop {
	uint32_t process;
	int64_t from, to;
};

struct check_process {
	int32_t pid;
	int64_t death_ns; /* when it was killed at the earliest; CHECK_NEVER */
	int64_t close_ns; /* its last HISTORY_CLOSE; CHECK_NEVER */
	int64_t last_ns;  /* the last moment of which it tells */
};

/* From one grant of a hold to its end. Adopting a detached hold begins another life of the same number. */
struct check_life {
	const struct history_record *grant;
	const struct history_record *release; /* or detach; NULL: none */
	const struct check_entry *entries;    /* its records from the grant on */
	size_t n_entries;
	int64_t start, end;  /* believed valid */
	int64_t valid_until; /* as it was told last */
	int64_t held_until;  /* `end`, or later: a release answered that it was still held then */
	uint32_t process;
	bool broken;
};

/* A part of a life in one mode. */
struct check_span {
	int64_t start, end, held_until;
	const struct check_life *life;
	const struct history_record *since; /* what gave it: the grant or the conversion */
	uint32_t lock;
	char mode;
};

struct check_list {
	const struct history_record **items;
	size_t n, room;
};

struct check_world {
	const struct history_file *files;
	size_t n_files;
	struct check_options options;
	struct check_report *report;
	struct check_process *processes;
	uint32_t *process_of_actor;
	size_t n_actors;
	struct check_entry *by_lock, *by_hold; /* calls and looks; each sorted by key and time */
	size_t n_by_lock, n_by_hold;
	struct check_life *lives; /* in the order of their holds */
	size_t n_lives;
	struct check_span *spans; /* sorted by lock and start */
	size_t n_spans, spans_room;
	struct check_list faults, wipes, calms, breaks, lefts, deaths; /* sorted by time; breaks by hold */
	uint32_t *fault_victims; /* of each of `faults`: a process, CHECK_EVERYBODY, or CHECK_NOBODY of whom
	                          * there is a history */
	struct check_stop *stops;
	size_t n_stops;
	int64_t first_ns, last_ns;
};

/* ---- check_world.c ------------------------------------------------------------------------------*/
int check_world_load(struct check_world *world);
void check_world_done(struct check_world *world);
/* How long the process was stopped between the two moments. */
int64_t check_stopped_ns(const struct check_world *world, uint32_t process, int64_t from, int64_t to);
/* Did the server lose the state of the lock after `from` and before `to`? The record of it that ends last;
 * NULL: no. */
const struct history_record *check_wipe(
        const struct check_world *world, uint32_t lock, int64_t from, int64_t to);
bool check_wiped(const struct check_world *world, uint32_t lock, int64_t from, int64_t to);
/* Did an operator break a hold of the lock in that time, and the history does not say whose? */
bool check_broken(const struct check_world *world, uint32_t lock, int64_t from, int64_t to);
/* Calls fn for each run of by_lock that has one lock. */
int check_each_lock(struct check_world *world,
        int (*fn)(struct check_world *world, const struct check_entry *entries, size_t n));
bool check_list_add(struct check_list *list, const struct history_record *record);
int64_t check_returned(const struct history_record *record); /* CHECK_NEVER: not */

void check_count(struct check_world *world, enum check_invariant invariant);
void check_excuse(struct check_world *world, enum check_invariant invariant, enum check_excuse excuse);
/* -1: no memory to keep it. */
int check_violated(struct check_world *world, enum check_invariant invariant, const char *what,
        const struct history_record *first, const struct history_record *second);

/* ---- check_life.c -------------------------------------------------------------------------------*/
int check_lives_build(struct check_world *world);
/* The life of that hold which had begun by `at`; NULL: none. */
const struct check_life *check_life_at(const struct check_world *world, uint64_t hold, int64_t at);

/* ---- The invariants. -1: no memory. -------------------------------------------------------------*/
int check_exclusion(struct check_world *world); /* also: released though another had held it */
int check_witness(struct check_world *world);
int check_tokens(struct check_world *world);
int check_stores(struct check_world *world);
int check_served(struct check_world *world);
int check_fair(struct check_world *world);
int check_release(struct check_world *world);
int check_notice(struct check_world *world);
int check_left(struct check_world *world);
int check_return(struct check_world *world);
/* No invariants: how many were lost in failovers, and the longest time without a grant. */
int check_failovers(struct check_world *world);

#endif
