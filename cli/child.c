/* SPDX-License-Identifier: MIT */
/* Starting and stopping the command that runs under the lock.
 *
 *   - It dies with sneck, also when sneck is killed with -9: without anybody to renew the lease it
 *     would go on unprotected. The kernel sees to that for the command itself; what the command
 *     has started in turn is reached through its process group only while sneck lives.
 *   - It gets its own process group. When sneck runs in the foreground of a terminal, that group
 *     becomes the foreground, as a shell does it: it can read the terminal, and Ctrl-C and Ctrl-Z
 *     reach it (and not sneck).
 *   - Signals go to the group while its leader is not yet reaped, so the number cannot have been
 *     given to somebody else.
 *   - Between fork and exec only async-signal-safe calls are made: the library has threads. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Make `group` the terminal's foreground. From the background this raises SIGTTOU: keep it out. */
static void give_terminal(int tty, pid_t group) {
	sigset_t ttou, old;

	sigemptyset(&ttou);
	sigaddset(&ttou, SIGTTOU);
	sigprocmask(SIG_BLOCK, &ttou, &old);
	(void)tcsetpgrp(tty, group);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

/* The controlling terminal, if sneck's group is in its foreground; else -1. */
static int foreground_terminal(void) {
	int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);

	if (tty >= 0 && tcgetpgrp(tty) != getpgrp()) {
		close(tty);
		tty = -1;
	}
	return tty;
}

static _Noreturn void become_command(const struct child_setup *setup, int tty, pid_t parent, int report_fd) {
	int failed = 0;

	(void)setpgid(0, 0);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		failed = errno ? errno : ESRCH;
	if (tty >= 0)
		give_terminal(tty, getpid());
	if (setup->ignore_chld)
		(void)signal(SIGCHLD, SIG_IGN);
	sigprocmask(SIG_SETMASK, &setup->signal_mask, NULL);
	if (!failed) {
		execvpe(setup->argv[0], setup->argv, setup->envp);
		failed = errno;
	}
	ssize_t n = write(report_fd, &failed, sizeof(failed));
	_exit(n == (ssize_t)sizeof(failed) ? 127 : 126);
}

/* What the child could not do, or 0 when it has become the command (which closes the pipe). */
static int read_report(int fd) {
	int failed = 0;
	ssize_t n;

	do {
		n = read(fd, &failed, sizeof(failed));
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(failed) ? failed : 0;
}

int child_start(struct child *child, const struct child_setup *setup) {
	int report[2];

	*child = (struct child){ .tty = foreground_terminal() };
	if (pipe2(report, O_CLOEXEC) < 0)
		return errno;
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0)
		become_command(setup, child->tty, parent, report[1]);
	int failed = pid < 0 ? errno : 0;
	close(report[1]);
	if (!failed) {
		/* The child does the same: whoever comes first, the group is there from here on. */
		(void)setpgid(pid, pid);
		failed = read_report(report[0]);
		if (failed)
			while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
				;
		else
			child->pid = pid;
	}
	close(report[0]);
	if (failed)
		child_done(child);
	return failed;
}

void child_signal(const struct child *child, int signal) {
	if (child->pid > 0)
		(void)kill(-child->pid, signal);
}

bool child_update(struct child *child, bool kill_rest) {
	siginfo_t info = { 0 };

	if (child->pid <= 0)
		return false;
	if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) < 0 ||
	        info.si_pid != child->pid)
		return false;
	if (info.si_code == CLD_STOPPED || info.si_code == CLD_TRAPPED) {
		(void)waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WNOHANG);
		return child->tty >= 0;
	}
	if (kill_rest)
		child_signal(child, SIGKILL);
	while (waitpid(child->pid, &child->status, 0) < 0 && errno == EINTR)
		;
	child->pid = 0;
	child->exited = true;
	return false;
}

void child_suspend_with(struct child *child) {
	give_terminal(child->tty, getpgrp());
	/* Stops this process here, unless its group is orphaned: then nobody could resume it, and the
	 * kernel lets it go on. */
	(void)kill(0, SIGTSTP);
}

void child_resume(struct child *child) {
	/* `fg` has made this group the foreground, `bg` has not. */
	if (child->tty >= 0 && tcgetpgrp(child->tty) == getpgrp())
		give_terminal(child->tty, child->pid);
	child_signal(child, SIGCONT);
}

void child_done(struct child *child) {
	if (child->tty < 0)
		return;
	give_terminal(child->tty, getpgrp());
	close(child->tty);
	child->tty = -1;
}
