/* SPDX-License-Identifier: MIT */
/* One `sneck run`: what its parts share. The order of its life: cmd_run.c, run_wait.c (until the lock is
 * held), run_guard.c (while the command runs), cmd_run.c again. */
#ifndef SNECK_CLI_RUN_H
#define SNECK_CLI_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <sneck/sneck.h>

#include "child.h"
#include "run_events.h"
#include "run_options.h"
#include "session.h"
#include "talk.h"

/* Why the command was told to stop. */
enum stop_reason { STOP_NONE, STOP_LOST, STOP_MAX_HOLD };

struct run {
	const struct run_options *options;
	struct session session;
	struct run_events events;
	char shown[SHOWN_MAX]; /* the lock's name for people, in quotes */
	sneck_hold *hold;      /* NULL: not held */
	char id[SNECK_ID_MAX];
	struct child child;
	sigset_t old_mask;
	bool ignored_chld; /* by whoever started sneck */
	int signal_fd;
	int timer_fd;        /* CLOCK_BOOTTIME: it has passed when the machine wakes from suspend */
	int end_signal;      /* while waiting: the signal that ends it; else 0 */
	bool settled;        /* the acquire has ended: `hold`, or `refusal` */
	sneck_event refusal; /* code and text */

	int64_t asked_ms;    /* CLOCK_BOOTTIME */
	int64_t acquired_ms; /* the same */
	int64_t term_at_ms;  /* lease left at which the command is told to stop */
	enum stop_reason stopping;
	bool denied;           /* the server refuses a command that locks need */
	int64_t broken_end_ms; /* the hold was broken: the command must be dead by then; else 0 */
	int64_t kill_at_ms;    /* meaningful while stopping */
	int state;             /* sneck_state that was last spoken about */
	bool warned;           /* --on-lost=warn: it has been said */
};

/* ---- run_loop.c: signals and time -----------------------------------------------------------*/

struct run_signal {
	int number;
	bool from_terminal; /* the kernel sent it: the whole foreground group got it */
};

/* Turn signals into a descriptor before the library starts threads. 0 or an exit code. */
int run_take_signals(struct run *run);
/* The next signal that has come. False: none. */
bool run_next_signal(const struct run *run, struct run_signal *ret);
/* Ring in `ms`, at once for 0 or less. */
void run_set_timer(const struct run *run, int64_t ms);
void run_stop_timer(const struct run *run);
bool run_timer_rang(const struct run *run);
/* Wait until something happens. */
void run_wait_for_news(const struct run *run);
/* Take what the library has to say. */
void run_read_events(struct run *run);

/* ---- The rest -------------------------------------------------------------------------------*/

/* Tries to get the lock: true and `run->hold`, with a lease to work under, or false and the exit
 * code. */
bool run_get_lock(struct run *run, int *ret_code);
/* Start the command and see it to its end. The exit code. */
int run_command(struct run *run);

#endif
