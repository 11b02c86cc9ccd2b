/* SPDX-License-Identifier: MIT */
/* sneck run while the command runs. Invariants:
 *   - The command is stopped, politely first, before the lease can have ended: the signal `kill_after`
 *     before that moment, SIGKILL at it. If the lock was broken, the signal at once, and SIGKILL after
 *     `kill_after` or before the grace is over, whichever is sooner. Once stopping has begun it is not taken
 * back.
 *   - The guardian knows the moment as well, and keeps it when sneck cannot.
 *   - With --on-lost=warn nothing is stopped for the lock's sake.
 *   - A signal is passed on to the command; with --foreground not those that the terminal has sent to
 *     all already.
 *   - The command finds its signal mask, descriptors and environment as the caller left them, plus
 *     the SNECK_ variables. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exit.h"
#include "run.h"
#include "run_env.h"

#define NEVER_MS INT64_MAX

enum { KILLING_TAKES_MS = 100 };

static int64_t earlier(int64_t a, int64_t b) {
	return a < b ? a : b;
}

/* ---- Stopping it ----------------------------------------------------------------------------*/

static void begin_to_stop(struct run *run, enum stop_reason reason, int64_t grace_ms) {
	char max[32];

	run->stopping = reason;
	run->kill_at_ms = boot_ms() + grace_ms;
	if (reason == STOP_LOST && run->state == SNECK_BROKEN)
		talk("%s was broken by %s: stopping the command", run->shown, sneck_hold_reason(run->hold));
	else if (reason == STOP_LOST)
		talk("losing %s (%s): stopping the command", run->shown,
		        sneck_state_name(sneck_hold_state(run->hold)));
	else
		talk("%s was held for %s (--max-hold): stopping the command", run->shown,
		        show_duration(run->options->max_hold_ms, max));
	if (grace_ms <= 0)
		return;
	child_signal(&run->child, run->options->stop_signal);
	child_signal(&run->child, SIGCONT); /* one that is suspended cannot obey */
}

/* Whoever breaks a hold gives time to stop, which the operator may cut short later. Killing takes a moment,
 * too, and the lock must not pass on in it. */
static void note_broken(struct run *run, int64_t left_ms) {
	int64_t now_ms = boot_ms(), spare_ms = earlier(left_ms / 10, KILLING_TAKES_MS);

	if (!run->broken_end_ms)
		run->broken_end_ms = now_ms + earlier(left_ms - spare_ms, run->options->kill_after_ms);
	else
		run->broken_end_ms = earlier(run->broken_end_ms, now_ms + left_ms);
}

/* Tell those who listen; with --on-lost=warn the person, too. */
static void note_state(struct run *run, int64_t left_ms) {
	int state = (int)sneck_hold_state(run->hold);

	if (state == SNECK_HELD && left_ms <= 0)
		state = SNECK_LOST; /* by our clock; the library's word follows */
	if (state != run->state && run->state != SNECK_LOST && run->state != SNECK_BROKEN) {
		run->state = state;
		run_events_state(&run->events, state, left_ms);
	}
	if (state == SNECK_BROKEN)
		note_broken(run, left_ms);
	if (run->options->warn_only && left_ms <= 0 && !run->warned) {
		const char *reason = sneck_hold_reason(run->hold);
		run->warned = true;
		talk("%s is lost (%s%s%s); the command goes on (--on-lost=warn)", run->shown,
		        sneck_state_name((sneck_state)run->state), *reason ? " by " : "", reason);
	}
}

/* Until the lease makes the command stop, or NEVER_MS. */
static int64_t until_lease_ends(const struct run *run, int64_t left_ms) {
	if (run->options->warn_only)
		return NEVER_MS;
	if (run->broken_end_ms)
		return run->broken_end_ms - boot_ms();
	return left_ms;
}

/* When the guardian is to act by itself, for child_orders. */
static int64_t guardian_deadline(int64_t lease_ms) {
	return lease_ms == NEVER_MS ? 0 : boot_ms() + lease_ms;
}

static int64_t until_max_hold(const struct run *run) {
	if (!run->options->max_hold_ms)
		return NEVER_MS;
	return run->acquired_ms + run->options->max_hold_ms - boot_ms();
}

/* Set the next alarm by what is left of the lease and of --max-hold; begin to stop the command when that
 * is little, kill it when that is nothing. */
static void guard(struct run *run) {
	int64_t left_ms = sneck_hold_left_ms(run->hold);

	note_state(run, left_ms);
	int64_t lease_ms = until_lease_ends(run, left_ms), max_ms = until_max_hold(run);
	if (!run->stopping && (lease_ms <= run->term_at_ms || (run->broken_end_ms && lease_ms != NEVER_MS)))
		begin_to_stop(run, STOP_LOST, lease_ms);
	else if (!run->stopping && max_ms <= 0)
		begin_to_stop(run, STOP_MAX_HOLD, run->options->kill_after_ms);
	child_orders(&run->child, guardian_deadline(lease_ms), run->stopping != STOP_NONE);
	if (!run->stopping) {
		int64_t next_ms =
		        earlier(lease_ms == NEVER_MS ? NEVER_MS : lease_ms - run->term_at_ms, max_ms);
		/* A state that changes in between is an event of the library's. */
		if (next_ms == NEVER_MS)
			run_stop_timer(run);
		else
			run_set_timer(run, next_ms);
		return;
	}
	/* The server may have said meanwhile that it is gone. */
	int64_t until_kill_ms = earlier(run->kill_at_ms - boot_ms(), lease_ms);
	if (until_kill_ms > 0) {
		run_set_timer(run, until_kill_ms);
		return;
	}
	child_kill(&run->child);
	run_stop_timer(run);
}

/* ---- Signals --------------------------------------------------------------------------------*/

/* The whole job stops, and nothing renews the lease meanwhile: look at it before the command may
 * go on. */
static void suspend(struct run *run) {
	char left[32];

	if (!run->options->quiet)
		talk("suspended; %s is lost in %s", run->shown,
		        show_duration(sneck_hold_left_ms(run->hold), left));
	child_suspend_with(&run->child);
	guard(run);
	if (!run->stopping)
		child_resume(&run->child);
}

static void pass_signals_on(struct run *run) {
	struct run_signal signal;

	while (run_next_signal(run, &signal)) {
		if (signal.number == SIGCHLD || (run->options->foreground && signal.from_terminal))
			continue;
		child_signal(&run->child, signal.number);
	}
	if (child_update(&run->child))
		suspend(run);
}

/* ---- All of it ------------------------------------------------------------------------------*/

static int start_command(struct run *run) {
	struct child_setup setup = {
		.argv = run->options->argv,
		.signal_mask = run->old_mask,
		.ignore_chld = run->ignored_chld,
		.foreground = run->options->foreground,
		.adopts = strcmp(run->session.settings.url, "local:") != 0,
	};
	const struct held_lock lock = {
		.name = run->options->name,
		.mode = run->options->mode == SNECK_READ ? "read" : "write",
		.id = run->id,
		.token = sneck_hold_token(run->hold),
		.server = run->session.settings.url_shown,
		.family = settings_family(&run->session.settings),
	};
	char **envp = run_env_new(&lock);

	if (!envp) {
		talk("out of memory");
		return EXIT_INTERNAL;
	}
	setup.envp = envp;
	setup.deadline_ms = guardian_deadline(until_lease_ends(run, sneck_hold_left_ms(run->hold)));
	int failed = child_start(&run->child, &setup);
	run_env_free(envp);
	if (!failed)
		return 0;
	talk("%s: %s", run->options->argv[0], strerror(failed));
	return failed == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

static int exit_code(const struct run *run, bool had_terminal) {
	if (run->child.expired || run->stopping == STOP_LOST)
		return EXIT_LOST;
	if (run->stopping == STOP_MAX_HOLD)
		return EXIT_MAX_HOLD;
	if (run->child.guardian_lost) {
		talk("the guardian process was killed, and the command with it");
		return EXIT_INTERNAL;
	}
	if (!WIFSIGNALED(run->child.status))
		return WEXITSTATUS(run->child.status);
	int signal = WTERMSIG(run->child.status);
	/* Ctrl-C went to the command's group alone; a script around sneck expects its share. */
	if (had_terminal && (signal == SIGINT || signal == SIGQUIT))
		(void)kill(0, signal);
	return EXIT_SIGNAL_BASE + signal;
}

int run_command(struct run *run) {
	int code = start_command(run);

	if (code != 0)
		return code;
	while (!run->child.exited) {
		guard(run);
		run_wait_for_news(run);
		(void)run_timer_rang(run);
		run_read_events(run);
		pass_signals_on(run);
	}
	bool had_terminal = run->child.tty >= 0;
	child_done(&run->child);
	return exit_code(run, had_terminal);
}
