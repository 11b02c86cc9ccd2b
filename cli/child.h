/* SPDX-License-Identifier: MIT */
/* The command that runs under the lock: a process group of its own, so that all of it can be
 * stopped when the lock is lost, in the terminal's foreground if sneck was there. */
#ifndef SNECK_CLI_CHILD_H
#define SNECK_CLI_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct child {
	pid_t pid;   /* also its process group; 0: not running */
	int tty;     /* the controlling terminal while the child has its foreground; else -1 */
	bool exited; /* it has ended; `status` is that of wait(2) */
	int status;
};

/* What the child shall find as it was before sneck touched it. */
struct child_setup {
	char *const *argv;
	char *const *envp;
	sigset_t signal_mask;
	bool ignore_chld;
};

/* Start it. Thread: main, which must live as long as the child: the kernel kills the child when the
 * thread that started it ends. 0, or the errno of what failed (of exec, as a rule). */
int child_start(struct child *child, const struct child_setup *setup);

/* Signal the whole group. */
void child_signal(const struct child *child, int signal);

/* After SIGCHLD. Sets `exited` when it has ended (what is left of its group is killed first if
 * `kill_rest`), and returns true when it has been stopped by job control. */
bool child_update(struct child *child, bool kill_rest);

/* The child was suspended from the terminal: suspend sneck's own job as well, and return when that
 * is resumed. The child stays stopped until child_resume. */
void child_suspend_with(struct child *child);
void child_resume(struct child *child);

/* Give the terminal back. */
void child_done(struct child *child);

#endif
