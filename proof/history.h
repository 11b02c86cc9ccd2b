/* SPDX-License-Identifier: MIT */
/* What happened, as each process under test saw it: fixed-size records in a memory-mapped file of the
 * process's own. A record is there for every reader from the moment of the call on, and stays when the
 * process is killed in the middle of it; the checker (check.h) reads the files of a run together.
 *
 * All times are nanoseconds of CLOCK_BOOTTIME, the clock by which a hold's validity is told, so the
 * records of all processes of one machine are on one line.
 *
 * A call is written in two halves: history_begin before it (invoke), history_end behind it (return).
 * What has `return_ns` 0 never came back: the process died, or was still in it when the run ended.
 * Any thread may append; nothing is ever moved or rewritten but the second half of one's own record.
 *
 * The file, for writers in other languages (integers in the machine's order): a header of 64 bytes (magic
 * u64, record size u32, pid i32, capacity u64, slots handed out u64, holds numbered u64, cut u32, zeros),
 * then `capacity` records as laid out below. */
#ifndef PROOF_HISTORY_H
#define PROOF_HISTORY_H

#include <stddef.h>
#include <stdint.h>

enum history_op {
	HISTORY_NONE, /* the slot was reserved and never filled: the process died between */
	/* Calls on locks. `result` is 0 or a negative SNECK_E… code. */
	HISTORY_ACQUIRE,
	HISTORY_RELEASE,
	HISTORY_RENEW,
	HISTORY_UPGRADE,
	HISTORY_DOWNGRADE,
	HISTORY_DETACH,
	HISTORY_ADOPT,
	HISTORY_BREAK,  /* `hold` is the victim's, where it is known; else 0. `deadline_ns` is when the
	                 * victim's  grace ends (0: it had none) */
	HISTORY_CANCEL, /* sneck_cancel; `actor` is the one whose wait is cancelled */
	HISTORY_CLOSE,
	/* What a holder sees. invoke_ns and return_ns enclose the look. */
	HISTORY_VALID, /* the library says that the hold is valid until valid_until_ns (written when that
	                  moved) */
	HISTORY_STATE, /* the hold's state has changed: `result` is the sneck_state. `detail`
	                * HISTORY_NOT_HELD: all that was seen is that it is not SNECK_HELD; it may be on its
	                * way back */
	/* The witness (witness.h writes these two). `token` is the hold that was met, 0 if none. */
	HISTORY_ENTER, /* counter read and the exclusive file made. `result` 0, or -1: it was there */
	HISTORY_LEAVE, /* counter written, file gone. `result` 0, or -1: another had been here */
	HISTORY_STORE, /* a write of `token` to the store. `result` 1: taken by the store that checks, 0:
	                * refused; `detail` 1: the store that does not check took a stale one */
	/* What the driver does. A process is named by `token`, its pid, or if that is 0 by `actor`, one of
	 * its threads; with actor 0 or HISTORY_ALL as well, everybody is meant. */
	HISTORY_FAULT, /* from invoke_ns to return_ns (the moment it was healed; 0: never); `detail` is the
	                * fault_kind, `token` and `actor` its victim, `result` how many operations it struck
	                * (0: it did not bite). HISTORY_STOPPED in `flags`: the victim was not scheduled */
	HISTORY_WIPE,  /* between the two times the server lost the state of `lock` (HISTORY_ALL: of all), and
	                * those who held have not found out. `detail` 1: its clock shows less than the last
	                * tokens, so that they may begin anew; 2: only those who hold pass on what they had */
	HISTORY_CALM,  /* from here on no fault is at work: waiters must be served */
	HISTORY_DEATH, /* the process was killed, and reaped by return_ns */
	HISTORY_QUIET, /* everybody has left: from here on nothing may be held */
	HISTORY_LEFT,  /* what was found then: `detail` says what (keys, descriptors, threads, bytes), `token`
	                * how many */
	HISTORY_OPS
};

enum { HISTORY_NOT_HELD = 1 };
#define HISTORY_ALL UINT32_C(0xffffffff)

#define HISTORY_MAGIC UINT64_C(0x31747369486b6e53) /* "SnkHist1" */
enum { HISTORY_HEADER_SIZE = 64 };

/* `flags` */
enum {
	HISTORY_FIXED = 1,      /* the lease is not renewed */
	HISTORY_NOWAIT = 2,     /* wait 0 */
	HISTORY_FAIR = 4,       /* in the fair class: its place in the queue counts */
	HISTORY_OWNER = 8,      /* the acquirer held this lock already when it asked (re-entry) */
	HISTORY_CANCELLED = 16, /* sneck_cancel was called for this wait before it returned */
	HISTORY_FAILOVER = 64,  /* of a wipe: what was lost was lost in a failover. When it is over nobody may
	                         * believe in it any more */
	HISTORY_STOPPED = 32 /* of a fault: the victim did not run meanwhile (SIGSTOP), so it is not to blame
	                      * for being late */
};

struct history_record {
	int64_t invoke_ns;
	int64_t return_ns;
	int64_t valid_until_ns; /* what the library said right behind the call; 0: nothing is held */
	int64_t deadline_ns;    /* by when the call had to be back; 0: it had no limit */
	uint64_t token;
	uint64_t hold;  /* one acquisition: pid << 32 | counter of the process, never 0, never used again. Its
	                 * conversions, release and looks carry the same number */
	uint32_t lock;  /* number of the lock in this run */
	uint32_t actor; /* who calls: one thread of one process; never used again in the run */
	int32_t result;
	uint8_t op;
	uint8_t mode; /* 'R' or 'W': what is asked for, or held */
	uint8_t flags;
	uint8_t detail;
};

_Static_assert(sizeof(struct history_record) == 64, "records are one cache line");

struct history; /* one file, open for writing */

/* Make `path`, which must not exist, with room for `capacity` records (sparse: what is not used costs
 * nothing). NULL and errno. */
struct history *history_create(const char *path, uint64_t capacity);
void history_close(struct history *history);

/* Reserve a record, fill it from `form` with invoke_ns = now, and return it. Full: the last slot is handed
 * out again and the file is marked, which the checker reports: a run that was cut counts for nothing. */
struct history_record *history_begin(struct history *history, const struct history_record *form);
/* return_ns = now, and the result; set the other fields of *record before. */
void history_end(struct history_record *record, int32_t result);
/* Both at once, for what is no call. Times that *form has are kept; those that are 0 become now. */
void history_mark(struct history *history, const struct history_record *form);
int64_t history_now(void);
uint64_t history_new_hold(struct history *history);

/* ---- Reading ------------------------------------------------------------------------------------*/
struct history_file {
	const char *path; /* as given to history_open; borrowed */
	const struct history_record *records;
	uint64_t n;
	int32_t pid;
	int cut; /* the file was full */
	void *map;
	size_t map_len;
};
/* 0, or -1 with errno (EPROTO: it is no history). */
int history_open(const char *path, struct history_file *ret);
void history_unmap(struct history_file *file);

const char *history_op_name(unsigned op);

#endif
