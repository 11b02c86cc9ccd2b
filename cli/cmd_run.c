/* SPDX-License-Identifier: MIT */
/* sneck run: hold a lock while a command runs.
 *
 * One thread, one poll loop: the library's events, signals (as a signalfd) and a timer on the boot
 * clock. Invariants:
 *   - The command starts only when the lock is held, and the lock is given back only when the
 *     command has ended.
 *   - The command is stopped, politely first, before the lease can have ended: SIGTERM `kill_after`
 *     before that moment, SIGKILL at it. Once stopping has begun it is not taken back.
 *   - A signal while waiting leaves the queue before sneck ends; a signal while the command runs is
 *     passed on to it. Signals that were ignored when sneck started stay ignored.
 *   - The command finds its signal mask, descriptors and environment as the caller left them, plus
 *     the SNECK_ variables. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sneck/sneck.h>

#include "child.h"
#include "command.h"
#include "exit.h"
#include "options.h"
#include "run_env.h"
#include "run_options.h"
#include "session.h"

enum {
	ACQUIRE_TAG = 1,
	CONFIRM_STEP_MS = 1,
	STILL_WAITING_MS = 1000 /* after this a person at a terminal is told */
};

static const int forwarded[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };

struct run {
	const struct run_options *options;
	struct session session;
	sneck_client *client;
	sneck_hold *hold;
	struct child child;
	sigset_t old_mask;
	bool ignored_chld; /* by whoever started sneck */
	int signal_fd;
	int timer_fd;        /* CLOCK_BOOTTIME: it has passed when the machine wakes from suspend */
	int end_signal;      /* while waiting: the signal that ends it; else 0 */
	bool stopping;       /* the command was told to stop because the lease is running out */
	int64_t kill_at_ms;  /* when it is killed; meaningful while stopping */
	int64_t term_at_ms;  /* lease left at which it is told */
	bool ready;          /* held, with a lease to work under */
	bool settled;        /* the acquire has ended: `hold`, or `refusal` */
	sneck_event refusal; /* code and text */
};

static int64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Signals and time -----------------------------------------------------------------------*/

/* Turn the signals into a descriptor before the library starts threads, which inherit the mask. */
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

/* Ring in `ms`; at once for 0 or less. */
static void set_timer(const struct run *run, int64_t ms) {
	struct itimerspec when = { { 0, 0 }, { 0, 1 } };

	if (ms > 0) {
		when.it_value.tv_sec = ms / 1000;
		when.it_value.tv_nsec = (long)(ms % 1000) * 1000000;
	}
	timerfd_settime(run->timer_fd, 0, &when, NULL);
}

static void stop_timer(const struct run *run) {
	const struct itimerspec never = { { 0, 0 }, { 0, 0 } };

	timerfd_settime(run->timer_fd, 0, &never, NULL);
}

static bool timer_rang(const struct run *run) {
	uint64_t times;

	return read(run->timer_fd, &times, sizeof(times)) > 0;
}

/* Wait until something happens. */
static void wait_for_news(const struct run *run) {
	struct pollfd pfds[] = {
		{ .fd = run->signal_fd, .events = POLLIN },
		{ .fd = run->timer_fd, .events = POLLIN },
		{ .fd = sneck_client_fd(run->client), .events = POLLIN },
	};

	(void)poll(pfds, sizeof(pfds) / sizeof(*pfds), -1);
}

/* The next signal that has come, or 0. */
static int next_signal(const struct run *run) {
	struct signalfd_siginfo info;

	return read(run->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info) ? (int)info.ssi_signo : 0;
}

/* ---- Getting the lock -----------------------------------------------------------------------*/

static int open_client(struct run *run) {
	const struct session_request request = {
		.takes_locks = true,
		.command = run->options->argv,
		.note = run->options->note,
		.retry_ms = run->options->retry_connect_ms,
	};
	int code = session_open(&run->session, &request);

	run->client = run->session.client;
	return code;
}

static int refusal_exit_code(const struct run *run, int code) {
	if (code == SNECK_EBUSY || code == SNECK_ETIMEDOUT)
		return run->options->conflict_exit_code;
	return exit_code_of(code, EXIT_USAGE);
}

/* `text` names the lock if the library had a lock to speak of. */
static void complain(const struct run *run, int code, const char *text) {
	if (text[0])
		fprintf(stderr, "sneck: %s\n", text);
	else
		fprintf(stderr, "sneck: \"%s\": %s\n", run->options->name, sneck_strerror(code));
}

static int start_acquire(struct run *run) {
	const struct run_options *options = run->options;
	sneck_acquire_options acquire_options = SNECK_ACQUIRE_OPTIONS_INIT;
	sneck_error error = { 0, 0, "", "" };

	acquire_options.wait_ms = options->wait_ms;
	acquire_options.lease_ms = options->lease_ms;
	acquire_options.policy = options->policy;
	acquire_options.tag = ACQUIRE_TAG;
	int r = sneck_acquire_start(
	        run->client, options->name, strlen(options->name), options->mode, &acquire_options, &error);
	if (r == 0)
		return 0;
	complain(run, r, error.text);
	return refusal_exit_code(run, r);
}

/* Take what the library has to say. A change of the hold's state needs no note here: the hold is
 * asked on every turn of the loop. */
static void read_events(struct run *run) {
	sneck_event event = { .size = sizeof(event) };

	while (sneck_client_next_event(run->client, &event) > 0) {
		if (event.tag != ACQUIRE_TAG)
			continue;
		if (event.type == SNECK_EVENT_ACQUIRED) {
			run->hold = event.hold;
			run->settled = true;
		} else if (event.type == SNECK_EVENT_REFUSED) {
			run->refusal = event;
			run->settled = true;
		}
	}
}

/* Leave the queue on a signal; on the second one do not wait for anything. */
static void heed_signals(struct run *run) {
	int signal;

	while ((signal = next_signal(run)) != 0) {
		if (signal == SIGCHLD)
			continue;
		if (run->end_signal)
			_exit(EXIT_SIGNAL_BASE + signal);
		run->end_signal = signal;
		(void)sneck_cancel(run->client, ACQUIRE_TAG);
	}
}

/* Until the acquire has ended. */
static void wait_for_lock(struct run *run) {
	set_timer(run, STILL_WAITING_MS);
	while (!run->settled) {
		wait_for_news(run);
		if (timer_rang(run) && !run->options->quiet && isatty(STDERR_FILENO))
			fprintf(stderr, "sneck: waiting for \"%s\"\n", run->options->name);
		heed_signals(run);
		read_events(run);
	}
	stop_timer(run);
}

/* A lock that was handed over has a short lease until the server has heard from us again, too short
 * to begin with. That takes a round trip, as a rule. True: confirmed. */
static bool wait_for_lease(struct run *run) {
	int64_t left_ms;

	while ((left_ms = sneck_hold_left_ms(run->hold)) <= run->term_at_ms) {
		if (left_ms <= 0 || run->end_signal)
			return false;
		set_timer(run, CONFIRM_STEP_MS);
		wait_for_news(run);
		(void)timer_rang(run);
		heed_signals(run);
		read_events(run);
	}
	stop_timer(run);
	return true;
}

/* Tries to get the lock: `run->hold`, or an exit code (which may be 0: -E says so). */
static int get_lock(struct run *run) {
	int code = open_client(run);

	if (code == 0)
		code = start_acquire(run);
	if (code != 0)
		return code;
	wait_for_lock(run);
	bool ready = run->hold && wait_for_lease(run);
	if (run->end_signal)
		return EXIT_SIGNAL_BASE + run->end_signal;
	run->ready = ready;
	if (run->hold) {
		if (!ready)
			fprintf(stderr, "sneck: \"%s\": the server did not confirm the lease\n",
			        run->options->name);
		return ready ? 0 : EXIT_UNREACHABLE;
	}
	bool busy = run->refusal.code == SNECK_EBUSY || run->refusal.code == SNECK_ETIMEDOUT;
	if (!busy || !run->options->quiet)
		complain(run, run->refusal.code, run->refusal.text);
	return refusal_exit_code(run, run->refusal.code);
}

/* ---- Running the command --------------------------------------------------------------------*/

/* Set the next alarm by what is left of the lease; begin to stop the command when that is little,
 * kill it when that is nothing. */
static void guard_lease(struct run *run) {
	int64_t left_ms = sneck_hold_left_ms(run->hold);

	if (!run->stopping && left_ms > run->term_at_ms) {
		set_timer(run, left_ms - run->term_at_ms);
		return;
	}
	if (!run->stopping) {
		run->stopping = true;
		run->kill_at_ms = now_ms() + left_ms;
		fprintf(stderr, "sneck: losing \"%s\" (%s): stopping the command\n", run->options->name,
		        sneck_state_name(sneck_hold_state(run->hold)));
		if (left_ms > 0) {
			child_signal(&run->child, SIGTERM);
			child_signal(&run->child, SIGCONT); /* one that is suspended cannot obey */
		}
	}
	int64_t until_kill_ms = run->kill_at_ms - now_ms();
	if (left_ms < until_kill_ms)
		until_kill_ms = left_ms; /* the server has said meanwhile that it is gone */
	if (until_kill_ms > 0) {
		set_timer(run, until_kill_ms);
		return;
	}
	child_signal(&run->child, SIGKILL);
	stop_timer(run);
}

/* The whole job stops, and nothing renews the lease meanwhile: look at it before the command may
 * go on. */
static void suspend(struct run *run) {
	if (!run->options->quiet)
		fprintf(stderr, "sneck: suspended; \"%s\" is lost in %lld s\n", run->options->name,
		        (long long)(sneck_hold_left_ms(run->hold) / 1000));
	child_suspend_with(&run->child);
	guard_lease(run);
	if (!run->stopping)
		child_resume(&run->child);
}

static void pass_signals_on(struct run *run) {
	int signal;

	while ((signal = next_signal(run)) != 0) {
		if (signal != SIGCHLD)
			child_signal(&run->child, signal);
		else if (child_update(&run->child, run->stopping))
			suspend(run);
	}
}

static int start_command(struct run *run, char **envp) {
	const struct child_setup setup = {
		.argv = run->options->argv,
		.envp = envp,
		.signal_mask = run->old_mask,
		.ignore_chld = run->ignored_chld,
	};
	int failed = child_start(&run->child, &setup);

	if (!failed)
		return 0;
	fprintf(stderr, "sneck: %s: %s\n", run->options->argv[0], strerror(failed));
	return failed == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

/* Start the command and see it to its end. The exit code. */
static int run_command(struct run *run) {
	char **envp = run_env_new(run->options, run->session.settings.url_shown, run->hold);

	if (!envp) {
		fputs("sneck: out of memory\n", stderr);
		return EXIT_INTERNAL;
	}
	int code = start_command(run, envp);
	run_env_free(envp);
	if (code != 0)
		return code;
	while (!run->child.exited) {
		guard_lease(run);
		wait_for_news(run);
		(void)timer_rang(run);
		read_events(run);
		pass_signals_on(run);
	}
	bool had_terminal = run->child.tty >= 0;
	child_done(&run->child);
	if (run->stopping)
		return EXIT_LOST;
	if (!WIFSIGNALED(run->child.status))
		return WEXITSTATUS(run->child.status);
	int signal = WTERMSIG(run->child.status);
	/* Ctrl-C went to the command's group alone; a script around sneck expects its share. */
	if (had_terminal && (signal == SIGINT || signal == SIGQUIT))
		(void)kill(0, signal);
	return EXIT_SIGNAL_BASE + signal;
}

/* Give the lock back. The exit code: `code`, unless the lock turns out to have been lost. */
static int give_back(struct run *run, int code) {
	int r = sneck_release(run->hold);

	run->hold = NULL;
	switch (sneck_err_outcome(r)) {
	case SNECK_OUTCOME_OK:
		return code;
	case SNECK_OUTCOME_LOST:
		if (code != EXIT_LOST)
			fprintf(stderr, "sneck: \"%s\" was lost before the command ended: %s\n",
			        run->options->name, sneck_strerror(r));
		return run->child.exited ? EXIT_LOST : code;
	default:
		if (code != EXIT_LOST && !run->options->quiet)
			fprintf(stderr, "sneck: \"%s\" was not given back (%s); it ends with its lease\n",
			        run->options->name, sneck_strerror(r));
		return code;
	}
}

static int run_main(const struct command *self, int argc, char **argv) {
	struct run_options options;
	struct run run = { .options = &options, .signal_fd = -1, .timer_fd = -1, .child.tty = -1 };

	int code = run_options_parse(self, argc, argv, &options);
	if (code != OPTIONS_OK)
		return code;
	code = session_load(&run.session, &options.parsed.common);
	if (code != 0)
		return code;
	run_options_settle(&options, run.session.settings.lease_ms);
	run.term_at_ms = options.kill_after_ms;
	if (take_signals(&run) < 0) {
		fprintf(stderr, "sneck: signals: %s\n", strerror(errno));
		return EXIT_INTERNAL;
	}
	code = get_lock(&run);
	if (run.ready)
		code = run_command(&run);
	if (run.hold)
		code = give_back(&run, code);
	session_close(&run.session);
	return code;
}

static const char *const examples[] = {
	"sneck run backup -- /usr/local/bin/backup          wait for \"backup\", then run",
	"sneck run -w 10m -s site -- rsync -a /srv/site …   shared, wait ten minutes at most",
	"sneck run --skip --min-hold 30s report -- report   a crontab line: not twice at a time",
	"sneck run build -c 'make && make install'          through the shell",
	NULL,
};

static const char *const notes[] = {
	"TIME is a number of seconds, or 500ms, 1.5s, 2m, 3h, 1d. Options end at NAME.",
	"The command finds SNECK_NAME, SNECK_ID, SNECK_TOKEN, SNECK_MODE and SNECK_SERVER in its "
	"environment;",
	"see sneck help environment, and sneck help exit-codes.",
	NULL,
};

const struct command command_run = {
	.name = "run",
	.synopsis = "[OPTION…] NAME [--] COMMAND [ARG…]",
	.summary = "Run COMMAND while holding the lock NAME; stop it if the lock is lost.",
	.examples = examples,
	.notes = notes,
	.options = run_option_rows,
	.common = COMMON_SERVER | COMMON_TALK,
	.stops_at_word = true,
	.word = WORD_LOCK_COMMAND,
	.main = run_main,
};
