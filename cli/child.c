/* SPDX-License-Identifier: MIT */
/* Starting and stopping the command that runs under the lock, as sneck sees it; guardian.c has the
 * process in between.
 *
 *   - It gets its own process group. When sneck runs in the foreground of a terminal, that group
 *     becomes the foreground, as a shell does it: it can read the terminal, and Ctrl-C and Ctrl-Z
 *     reach it (and not sneck). With --foreground it stays in sneck's group, and the terminal's
 *     signals reach both.
 *   - Signals go to the group while its leader is not yet reaped, so the number cannot have been
 *     given to somebody else. The guardian does not reap it; sneck inherits it from the guardian,
 *     because sneck is a subreaper, too.
 *   - Between fork and exec only async-signal-safe calls are made: the library has threads. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process_tree.h"

/* From the background this raises SIGTTOU: keep it out. */
void give_terminal(int tty, pid_t group) {
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

static void prepare_terminal(struct child *child) {
	child->tty = foreground_terminal();
	child->job_control = child->tty >= 0;
	if (child->foreground && child->tty >= 0) {
		close(child->tty);
		child->tty = -1;
	}
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

/* The guardian's first word. 0 and `child->pid`, or an errno. */
static int read_start(struct child *child) {
	struct guardian_news news = { 0, 0 };
	ssize_t n;

	do {
		n = recv(child->control_fd, &news, sizeof(news), 0);
	} while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(news))
		return ECHILD;
	if (news.kind != GUARDIAN_STARTED)
		return (int)news.pid;
	child->pid = news.pid;
	return 0;
}

static void forget_guardian(struct child *child) {
	child->guardian = 0;
	if (child->control_fd >= 0)
		close(child->control_fd);
	child->control_fd = -1;
}

/* The guardian and what it has begun are over: bury them. */
static void clean_up(struct child *child) {
	forget_guardian(child);
	while (child->pid > 0 && waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
		;
	child->pid = 0;
	child_done(child);
}

static int start_guardian(
        struct child *child, const struct child_setup *setup, const int control[2], const int report[2]) {
	const struct guardian_setup guardian = {
		.child = setup,
		.tty = child->tty,
		.control_fd = control[1],
		.report_fd = report[1],
		.group = getpgrp(),
	};

	/* Orphans of a guardian that was killed, and the command that it leaves behind. */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid_t pid = fork();
	if (pid == 0)
		guardian_main(&guardian);
	int failed = pid < 0 ? errno : 0;
	child->guardian = pid;
	close(control[1]);
	close(report[1]);
	if (!failed)
		failed = read_start(child);
	if (!failed)
		failed = read_report(report[0]);
	close(report[0]);
	return failed;
}

int child_start(struct child *child, const struct child_setup *setup) {
	int report[2], control[2];

	*child = (struct child){
		.tty = -1,
		.control_fd = -1,
		.foreground = setup->foreground,
		.adopts = setup->adopts,
		.order = { .deadline_ms = setup->deadline_ms },
	};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0)
		return errno;
	child->control_fd = control[0];
	if (pipe2(report, O_CLOEXEC) < 0) {
		int failed = errno;
		close(control[0]);
		close(control[1]);
		return failed;
	}
	prepare_terminal(child);
	int failed = start_guardian(child, setup, control, report);
	if (failed) {
		if (child->guardian > 0)
			while (waitpid(child->guardian, NULL, 0) < 0 && errno == EINTR)
				;
		clean_up(child);
	}
	return failed;
}

void child_signal(const struct child *child, int signal) {
	if (child->pid > 0)
		(void)kill(child->foreground ? child->pid : -child->pid, signal);
}

static void send_order(const struct child *child) {
	if (child->control_fd >= 0)
		(void)send(
		        child->control_fd, &child->order, sizeof(child->order), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void child_kill(struct child *child) {
	child_signal(child, SIGKILL);
	child->order.kill_now = true;
	child->order.deadline_ms = 0;
	send_order(child);
}

void child_orders(struct child *child, int64_t deadline_ms, bool kill_rest) {
	if (child->order.deadline_ms == deadline_ms && child->order.kill_rest == kill_rest)
		return;
	child->order.deadline_ms = deadline_ms;
	child->order.kill_rest = kill_rest;
	send_order(child);
}

/* ---- News -----------------------------------------------------------------------------------*/

/* True: the command was stopped. */
static bool read_news(struct child *child) {
	struct guardian_news news;
	bool stopped = false;

	while (child->control_fd >= 0 &&
	        recv(child->control_fd, &news, sizeof(news), MSG_DONTWAIT) == (ssize_t)sizeof(news)) {
		stopped = stopped || news.kind == GUARDIAN_STOPPED;
		child->expired = child->expired || news.kind == GUARDIAN_EXPIRED;
	}
	return stopped;
}

/* Somebody has killed the guardian, and the kernel has killed the command for it. Nobody stands
 * behind what is left any more: end it. */
static void without_guardian(struct child *child) {
	child->guardian_lost = true;
	child_signal(child, SIGKILL);
	if (child->adopts)
		(void)kill_descendants(getpid());
}

static void bury(struct child *child, pid_t pid) {
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return;
	}
	if (pid == child->guardian) {
		(void)read_news(child);
		forget_guardian(child);
		if (WIFSIGNALED(status))
			without_guardian(child);
	} else if (pid == child->pid) {
		child->status = status;
		child->pid = 0;
		child->exited = true;
	}
}

bool child_update(struct child *child) {
	siginfo_t info;
	bool stopped = read_news(child);

	for (;;) {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
			break;
		bury(child, info.si_pid);
	}
	return stopped && child->job_control && !child->exited;
}

/* ---- Job control ----------------------------------------------------------------------------*/

void child_suspend_with(struct child *child) {
	sigset_t tstp, old;

	if (child->tty >= 0)
		give_terminal(child->tty, getpgrp());
	/* Stops this process here, unless its group is orphaned: then nobody could resume it, and the
	 * kernel lets it go on. With the command in this group the others have been told already. */
	sigemptyset(&tstp);
	sigaddset(&tstp, SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &tstp, &old);
	(void)kill(child->foreground ? getpid() : 0, SIGTSTP);
	sigprocmask(SIG_SETMASK, &old, NULL);
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
