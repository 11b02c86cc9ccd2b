/* SPDX-License-Identifier: MIT */
/* Does a run keep what locks promise? The histories of all its processes go in; out come, for each invariant,
 * how many things were looked at, how many of them broke it, and how many were excused and why. All times are
 * on one clock and every hold has a number, so nothing has to be guessed: sorting and sweeping is enough.
 *
 * An invariant of which nothing was looked at has not been kept: it was not exercised.
 *
 * A hold is *believed valid* from the return of its grant to the first of: the call that gives it back, the
 * latest `valid_until` that its program was told, the look that saw it lost, the end of its grace after a
 * break, the death of its process. */
#ifndef PROOF_CHECK_H
#define PROOF_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "history.h"

enum check_invariant {
	CHECK_EXCLUSION, /* I1: a writer's believed-valid interval overlaps with nobody's */
	CHECK_TOKENS, /* I2: a WRITE token is larger than every earlier token, a READ token than every earlier
	               * WRITE token; no two WRITE holds have the same. Earlier: had returned before the other
	               * was asked for */
	CHECK_STORE,  /* I3: the store that checks takes nothing stale, and refuses nobody who is valid */
	CHECK_SERVED, /* I4: a wait that is open when all is calm ends within the bound */
	CHECK_FAIR,   /* I5: no process overtakes a fair waiter more often than it may hand over inside */
	CHECK_RELEASE, /* I6: one effective release per hold; nothing succeeds after the loss, after the
	                * release, by a non-owner, or when another has held the lock in between */
	CHECK_NOTICE,  /* I7: whoever holds beyond the validity was told before its end */
	CHECK_LEFT,    /* I8: nothing is left behind */
	CHECK_RETURN,  /* I9: every call is back by its deadline */
	CHECK_WITNESS, /* two that were valid did not meet in the critical section */
	CHECK_WHOLE,   /* no history was cut */
	CHECK_INVARIANTS
};

/* Why something that looks like a violation is none. */
enum check_excuse {
	CHECK_BY_WIPE,     /* the server lost its state between the two */
	CHECK_BY_ROLLBACK, /* a failover brought back a phase of readers that had ended, with its number */
	CHECK_BY_BREAK,    /* an operator broke a hold, and the history does not say which */
	CHECK_BY_STOP,     /* the process was not scheduled */
	CHECK_BY_DEATH,    /* the process was killed */
	CHECK_BY_FAULT,    /* a fault was at work */
	CHECK_BY_VALIDITY, /* a program went on after its hold's validity: no lock can prevent that */
	CHECK_BY_END,      /* the run ended before the bound */
	CHECK_EXCUSES
};

struct check_options {
	int64_t served_ns;  /* CHECK_SERVED: lease + waiter lease + 2 s */
	int64_t late_ns;    /* CHECK_RETURN: how much after its deadline a call may be back */
	int64_t fair_ns;    /* CHECK_FAIR: how long after its call a waiter is certainly in the queue */
	int64_t settle_ns;  /* CHECK_FAIR: how long after a fault a client may still be connecting */
	uint32_t handovers; /* CHECK_FAIR: how often one process may overtake one waiter */
	uint32_t keep;      /* how many violations of each invariant are kept with their records */
};

/* Leases of 30 s, a slack of 50 ms, the library's 16 hand-overs, 20 kept. */
extern const struct check_options check_defaults;

struct check_count {
	uint64_t checked;
	uint64_t violations;
	uint64_t excused[CHECK_EXCUSES];
};

struct check_violation {
	enum check_invariant invariant;
	const char *what;
	const struct history_record *first;
	const struct history_record *second; /* NULL: the first says it all */
};

struct check_world;

struct check_report {
	struct check_count counts[CHECK_INVARIANTS];
	struct check_violation *violations;
	size_t n_violations;
	uint64_t records, unfilled, grants, faults, faults_bit, wipes, deaths;
	uint64_t lost_in_failover; /* holds that were lost in one, and whose programs were told so */
	uint64_t lost;             /* holds that were lost, for whatever reason; fixed leases just end */
	uint64_t unrenewed;        /* renewals that failed, and holds of which one was in doubt */
	uint64_t held_up;          /* what would be one of these two, but nobody was scheduled */
	int64_t longest_sleep_ns;  /* in which somebody who was scheduled waited for a lock that nobody had */
	int64_t longest_gap_ns;    /* in which nothing was granted, between the first grant and the last */
	uint64_t stores_refused;   /* by the store that checks */
	uint64_t stores_stale;     /* taken by the store that does not */
	struct check_world *world;
};

/* 0, or -1 with errno. The files must stay mapped until check_done. */
int check_run(const struct history_file *files, size_t n_files, const struct check_options *options,
        struct check_report *ret_report);
void check_done(struct check_report *report);

/* The sum over all invariants. */
uint64_t check_violations(const struct check_report *report);
/* "I1", "exclusion of believed-valid holds" */
const char *check_id(enum check_invariant invariant);
const char *check_title(enum check_invariant invariant);
/* The table, and each kept violation with what lay between its records. */
void check_print(FILE *out, const struct check_report *report);

#endif
