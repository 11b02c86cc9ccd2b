/* SPDX-License-Identifier: MIT */
/* The command that runs under the lock: a process group of its own, so that all of it can be
 * stopped when the lock is lost, in the terminal's foreground if sneck was there; behind a guardian
 * that ends it when sneck is no more. */
#ifndef SNECK_CLI_CHILD_H
#define SNECK_CLI_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "guardian.h"

struct child {
	pid_t pid;        /* also its process group, unless `foreground`; 0: not running */
	pid_t guardian;   /* 0: gone */
	int control_fd;   /* to the guardian; readable when it has news; -1: gone */
	int tty;          /* the controlling terminal while the child has its foreground; else -1 */
	bool foreground;  /* the child is in sneck's own group */
	bool job_control; /* a child that is stopped stops sneck as well */
	bool adopts;      /* sneck has no children of its own: whatever comes to it is the command's */
	struct guardian_order order;
	bool expired;       /* the guardian has ended it at the deadline */
	bool guardian_lost; /* somebody has killed the guardian */
	bool exited;        /* it has ended; `status` is that of wait(2) */
	int status;
};

/* What the child shall find as it was before sneck touched it. */
struct child_setup {
	char *const *argv;
	char *const *envp;
	sigset_t signal_mask;
	bool ignore_chld;
	bool foreground; /* leave it in sneck's process group */
	bool adopts;     /* see struct child */
	/* As in child_orders: it must be known before the command runs, lest a sneck that is stopped between
	 * the two leave it running without an end. */
	int64_t deadline_ms;
};

/* Start it. 0, or the errno of what failed (of exec, as a rule). */
int child_start(struct child *child, const struct child_setup *setup);

/* Signal the whole group; with `foreground` the command alone. */
void child_signal(const struct child *child, int signal);
/* SIGKILL to all that it has started. */
void child_kill(struct child *child);
/* Kill all of it at `deadline_ms` (CLOCK_BOOTTIME; 0: never), also if sneck cannot; and, with
 * `kill_rest`, what is left when it has ended. */
void child_orders(struct child *child, int64_t deadline_ms, bool kill_rest);

/* After SIGCHLD or news. Sets `exited` when it has ended, and returns true when it has been stopped by
 * job control and sneck should stop, too. Buries every other child, too: sneck may be a system's
 * first process. */
bool child_update(struct child *child);

/* The child was suspended from the terminal: suspend sneck's own job as well, and return when that
 * is resumed. The child stays stopped until child_resume. */
void child_suspend_with(struct child *child);
void child_resume(struct child *child);

/* Give the terminal back. */
void child_done(struct child *child);

/* Make `group` the terminal's foreground. */
void give_terminal(int tty, pid_t group);

#endif
