/* SPDX-License-Identifier: MIT */
/* One thread, one poll loop: the library's events, signals (as a signalfd), the guardian's news and a
 * timer on the boot clock. Signals that were ignored when sneck started stay ignored. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "exit.h"
#include "run.h"

static const int forwarded[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT,
	SIGTSTP };

static int take_signals(struct run *run) {
	const struct sigaction by_default = { .sa_handler = SIG_DFL };
	struct sigaction old;
	sigset_t watched, blocked;

	/* With SIGCHLD ignored the kernel would drop the command's exit status. */
	if (sigaction(SIGCHLD, &by_default, &old) < 0)
		return -1;
	run->ignored_chld = old.sa_handler == SIG_IGN;
	sigemptyset(&watched);
	for (size_t i = 0; i < sizeof(forwarded) / sizeof(*forwarded); i++) {
		/* nohup(1), and shells for what they start with &: what is ignored stays ignored. */
		if (sigaction(forwarded[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaddset(&watched, forwarded[i]);
	}
	sigaddset(&watched, SIGCHLD);
	blocked = watched;
	/* A closed stderr must not end sneck while the command runs. */
	sigaddset(&blocked, SIGPIPE);
	if (sigprocmask(SIG_BLOCK, &blocked, &run->old_mask) < 0)
		return -1;
	run->signal_fd = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
	run->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	return run->signal_fd < 0 || run->timer_fd < 0 ? -1 : 0;
}

int run_take_signals(struct run *run) {
	if (take_signals(run) == 0)
		return 0;
	talk("signals: %s", strerror(errno));
	return EXIT_INTERNAL;
}

bool run_next_signal(const struct run *run, struct run_signal *ret) {
	struct signalfd_siginfo info;

	if (read(run->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return false;
	ret->number = (int)info.ssi_signo;
	ret->from_terminal = info.ssi_code == SI_KERNEL;
	return true;
}

void run_set_timer(const struct run *run, int64_t ms) {
	struct itimerspec when = { { 0, 0 }, { 0, 1 } };

	if (ms > 0) {
		when.it_value.tv_sec = (time_t)(ms / 1000);
		when.it_value.tv_nsec = (long)(ms % 1000) * 1000000;
	}
	timerfd_settime(run->timer_fd, 0, &when, NULL);
}

void run_stop_timer(const struct run *run) {
	const struct itimerspec never = { { 0, 0 }, { 0, 0 } };

	timerfd_settime(run->timer_fd, 0, &never, NULL);
}

bool run_timer_rang(const struct run *run) {
	uint64_t times;

	return read(run->timer_fd, &times, sizeof(times)) > 0;
}

void run_wait_for_news(const struct run *run) {
	struct pollfd pfds[] = {
		{ .fd = run->signal_fd, .events = POLLIN },
		{ .fd = run->timer_fd, .events = POLLIN },
		{ .fd = run->session.client ? sneck_client_fd(run->session.client) : -1, .events = POLLIN },
		{ .fd = run->child.control_fd, .events = POLLIN },
	};

	(void)poll(pfds, sizeof(pfds) / sizeof(*pfds), -1);
}

/* A change of the hold's state needs no note here: the hold is asked on every turn of the loop. */
void run_read_events(struct run *run) {
	sneck_event event = { .size = sizeof(event) };

	while (sneck_client_next_event(run->session.client, &event) > 0) {
		if (event.type == SNECK_EVENT_ACQUIRED) {
			run->hold = event.hold;
			run->settled = true;
		} else if (event.type == SNECK_EVENT_REFUSED) {
			run->refusal = event;
			run->settled = true;
		}
	}
}
