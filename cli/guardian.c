/* SPDX-License-Identifier: MIT */
/* The guardian's life. Why there is one: a lock that nobody renews protects nobody, so the command must
 * not outlive sneck, not even one that was killed with -9. The kernel's parent-death signal reaches the
 * command but not what the command has started, and a process group can be left. The guardian is the
 * subreaper of all of it: orphans become its children, so it finds every one.
 *
 *   - It notices sneck's death by the closed socket, whatever thread of sneck does what.
 *   - It knows, from its birth, until when the lease is valid and kills everything at that moment, unless
 *     sneck has told it of a renewal: a sneck that is stopped or does not get to run cannot let the command
 *     run on.
 *   - Signals do not concern it: all are blocked. It has a process group of its own, so that a kill of
 *     sneck's group leaves it alive to do its work, and the command's group cannot take it along.
 *   - Only system calls: sneck has threads, so after fork nothing else is safe. */
#include "guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "process_tree.h"

enum {
	KILL_ROUNDS = 500, /* a process that is stuck in the kernel must not keep us for ever */
	KILL_STEP_MS = 10
};

struct guardian {
	pid_t command;
	int control_fd;
	int signal_fd;
	int timer_fd;
	struct guardian_order order;
};

static void tell(const struct guardian *guardian, enum guardian_news_kind kind, pid_t pid) {
	const struct guardian_news news = { .kind = (int)kind, .pid = pid };

	(void)send(guardian->control_fd, &news, sizeof(news), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- The command's process ------------------------------------------------------------------*/

static _Noreturn void become_command(const struct guardian_setup *setup, pid_t guardian) {
	const struct child_setup *child = setup->child;
	int failed = 0;

	(void)setpgid(0, child->foreground ? setup->group : 0);
	/* The guardian may have been killed before this took effect. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != guardian)
		failed = ESRCH;
	if (setup->tty >= 0)
		give_terminal(setup->tty, getpid());
	if (child->ignore_chld)
		(void)signal(SIGCHLD, SIG_IGN);
	sigprocmask(SIG_SETMASK, &child->signal_mask, NULL);
	if (!failed) {
		execvpe(child->argv[0], child->argv, child->envp);
		failed = errno;
	}
	ssize_t n = write(setup->report_fd, &failed, sizeof(failed));
	_exit(n == (ssize_t)sizeof(failed) ? 127 : 126);
}

static pid_t start_command(const struct guardian_setup *setup) {
	pid_t self = getpid();
	pid_t pid = fork();

	if (pid == 0)
		become_command(setup, self);
	/* The command does the same: whoever comes first, the group is there from here on. */
	if (pid > 0)
		(void)setpgid(pid, setup->child->foreground ? setup->group : pid);
	return pid;
}

/* ---- Watching -------------------------------------------------------------------------------*/

static void set_deadline(const struct guardian *guardian) {
	struct itimerspec when = { { 0, 0 }, { 0, 0 } };

	when.it_value.tv_sec = (time_t)(guardian->order.deadline_ms / 1000);
	when.it_value.tv_nsec = (long)(guardian->order.deadline_ms % 1000) * 1000000;
	timerfd_settime(guardian->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* Repeated, because what is being killed may have started more. */
static void kill_everything(const struct guardian *guardian) {
	struct pollfd nothing = { .fd = -1 };

	if (guardian->command > 0)
		(void)kill(-guardian->command, SIGKILL);
	for (int round = 0; round < KILL_ROUNDS && kill_descendants(getpid()) > 0; round++)
		(void)poll(&nothing, 1, round < 10 ? 1 : KILL_STEP_MS);
}

static _Noreturn void finish(const struct guardian *guardian, bool kill_all) {
	if (kill_all)
		kill_everything(guardian);
	_exit(0);
}

/* Bury what others have left to us; the command itself is left for sneck. True: it has ended. */
static bool reap(const struct guardian *guardian) {
	siginfo_t info;

	for (;;) {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
			break;
		if (info.si_pid == guardian->command)
			return true;
		(void)waitpid(info.si_pid, NULL, WNOHANG);
	}
	info.si_pid = 0;
	if (waitid(P_PID, (id_t)guardian->command, &info, WSTOPPED | WNOHANG) == 0 &&
	        info.si_pid == guardian->command)
		tell(guardian, GUARDIAN_STOPPED, guardian->command);
	return false;
}

static void read_orders(struct guardian *guardian) {
	ssize_t n;

	while ((n = recv(guardian->control_fd, &guardian->order, sizeof(guardian->order), MSG_DONTWAIT)) > 0)
		;
	if (n == 0 || (errno != EAGAIN && errno != EINTR))
		finish(guardian, true); /* sneck is no more */
	if (guardian->order.kill_now)
		kill_everything(guardian);
	set_deadline(guardian);
}

static _Noreturn void watch(struct guardian *guardian) {
	struct pollfd pfds[] = {
		{ .fd = guardian->control_fd, .events = POLLIN },
		{ .fd = guardian->signal_fd, .events = POLLIN },
		{ .fd = guardian->timer_fd, .events = POLLIN },
	};
	struct signalfd_siginfo info;
	uint64_t times;

	for (;;) {
		if (poll(pfds, sizeof(pfds) / sizeof(*pfds), -1) < 0)
			continue;
		if (pfds[0].revents)
			read_orders(guardian);
		while (read(guardian->signal_fd, &info, sizeof(info)) > 0)
			;
		if (reap(guardian))
			finish(guardian, guardian->order.kill_rest || guardian->order.kill_now);
		if (read(guardian->timer_fd, &times, sizeof(times)) > 0) {
			tell(guardian, GUARDIAN_EXPIRED, guardian->command);
			guardian->order.kill_now = true;
			kill_everything(guardian);
		}
	}
}

/* Nothing of sneck's may stay open here: a connection would outlive it, a pipe would not end. */
static void close_others(int kept_fd) {
	if (kept_fd > 3)
		(void)close_range(3, (unsigned)kept_fd - 1, 0);
	(void)close_range((unsigned)kept_fd + 1, ~0u, 0);
}

_Noreturn void guardian_main(const struct guardian_setup *setup) {
	struct guardian guardian = {
		.control_fd = setup->control_fd,
		.order = { .deadline_ms = setup->child->deadline_ms },
	};
	sigset_t all, chld;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_NAME, "sneck-guardian");
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	guardian.command = start_command(setup);
	if (guardian.command < 0) {
		tell(&guardian, GUARDIAN_FAILED, errno);
		_exit(1);
	}
	tell(&guardian, GUARDIAN_STARTED, guardian.command);
	close_others(setup->control_fd);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	guardian.signal_fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
	guardian.timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (guardian.signal_fd < 0 || guardian.timer_fd < 0)
		finish(&guardian, true);
	set_deadline(&guardian);
	watch(&guardian);
}
