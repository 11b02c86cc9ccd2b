/* SPDX-License-Identifier: MIT */
/* sneck run until the lock is held: reach the server, ask, wait in the queue. A signal here leaves
 * the queue before sneck ends; a second one does not wait for anything. Whoever waits is told after
 * a second, in place on a terminal, once a minute elsewhere. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "exit.h"
#include "lock_view.h"
#include "run.h"

enum {
	ACQUIRE_TAG = 1,
	CONFIRM_STEP_MS = 1,
	NOTICE_MS = 100 /* a wait this long is an event for --events-fd */
};

/* ---- Signals --------------------------------------------------------------------------------*/

static void stop_here(void) {
	sigset_t tstp, old;

	sigemptyset(&tstp);
	sigaddset(&tstp, SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &tstp, &old);
	(void)kill(getpid(), SIGTSTP);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

/* Leave the queue on a signal that would end a program. */
static void heed_signals(struct run *run) {
	struct run_signal signal;

	while (run_next_signal(run, &signal)) {
		switch (signal.number) {
		case SIGCHLD:
		case SIGCONT:
		case SIGWINCH:
			continue;
		case SIGTSTP:
			stop_here();
			continue;
		default:
			break;
		}
		if (run->end_signal)
			_exit(EXIT_SIGNAL_BASE + signal.number);
		run->end_signal = signal.number;
		if (run->session.client)
			(void)sneck_cancel(run->session.client, ACQUIRE_TAG);
	}
}

/* Between two tries to reach the server. */
static bool interrupted(void *ctx, int64_t wait_ms) {
	struct run *run = ctx;

	run_set_timer(run, wait_ms);
	while (!run->end_signal && !run_timer_rang(run)) {
		run_wait_for_news(run);
		heed_signals(run);
	}
	return run->end_signal != 0;
}

/* ---- Asking ---------------------------------------------------------------------------------*/

static int open_client(struct run *run) {
	const struct session_request request = {
		.takes_locks = true,
		.command = run->options->argv,
		.note = run->options->note,
		.retry_ms = run->options->retry_connect_ms,
		.interrupted = interrupted,
		.ctx = run,
	};

	return session_open(&run->session, &request);
}

/* `text` names the lock if the library had a lock to speak of. */
static int refuse(struct run *run, int code, const char *text) {
	bool busy = code == SNECK_EBUSY || code == SNECK_ETIMEDOUT;
	sneck_error error = { code, 0, "", "" };

	run_events_refused(&run->events, code);
	if (!busy) {
		snprintf(error.text, sizeof(error.text), "%s", text[0] ? text : sneck_strerror(code));
		return session_complain(&run->session, &error, EXIT_USAGE);
	}
	if (!run->options->quiet && !run->options->skip)
		tell_busy(&run->session, run->options->name, strlen(run->options->name), code, text);
	return run->options->conflict_exit_code;
}

static int start_acquire(struct run *run) {
	const struct run_options *options = run->options;
	sneck_acquire_options acquire = SNECK_ACQUIRE_OPTIONS_INIT;
	sneck_error error = { 0, 0, "", "" };

	acquire.wait_ms = options->wait_ms;
	acquire.lease_ms = options->lease_ms;
	acquire.policy = options->policy;
	acquire.fixed = options->fixed;
	acquire.tag = ACQUIRE_TAG;
	acquire.ack_replicas = options->ack > 0 ? (uint32_t)options->ack : SNECK_ACK_OFF;
	acquire.ack_ms = (uint32_t)options->ack_ms;
	run->asked_ms = boot_ms();
	int r = sneck_acquire_start(
	        run->session.client, options->name, strlen(options->name), options->mode, &acquire, &error);
	return r == 0 ? 0 : refuse(run, r, error.text);
}

/* ---- Waiting --------------------------------------------------------------------------------*/

/* The lock is free and we do not get it: a command inside the scripts is refused, which the library
 * cannot tell from an answer that was lost, and goes on trying. */
static bool is_denied(const struct run *run) {
	sneck_lock_info *info = NULL;
	const char *name = run->options->name;

	if (sneck_inspect(run->session.client, name, strlen(name), 1, &info, NULL) < 0)
		return false;
	bool nobody = info->holder_n == 0 && info->waiter_n == 0;
	sneck_lock_info_free(info);
	return nobody && session_lacks_rights(&run->session);
}

/* Until the acquire has ended. */
static void wait_for_lock(struct run *run) {
	struct waiting waiting;
	bool noticed = false;

	waiting_begin(&waiting, run->options->quiet);
	run_set_timer(run, NOTICE_MS);
	while (!run->settled) {
		run_wait_for_news(run);
		bool rang = run_timer_rang(run);
		if (rang && !noticed) {
			noticed = true;
			run_events_waiting(&run->events);
			run_set_timer(run, waiting_due_ms(&waiting));
		} else if (rang) {
			waiting_show(&waiting, &run->session, run->options->name, strlen(run->options->name));
			run_set_timer(run, waiting_due_ms(&waiting));
			run->denied = run->denied || is_denied(run);
			if (run->denied)
				(void)sneck_cancel(run->session.client, ACQUIRE_TAG);
		}
		heed_signals(run);
		run_read_events(run);
	}
	waiting_end(&waiting);
	run_stop_timer(run);
}

/* A lock that was handed over has a short lease until the server has heard from us again, too short
 * to begin with. That takes a round trip, as a rule. True: confirmed. */
static bool wait_for_lease(struct run *run) {
	int64_t left_ms;

	while ((left_ms = sneck_hold_left_ms(run->hold)) <= run->term_at_ms) {
		if (left_ms <= 0 || run->end_signal)
			return false;
		run_set_timer(run, CONFIRM_STEP_MS);
		run_wait_for_news(run);
		(void)run_timer_rang(run);
		heed_signals(run);
		run_read_events(run);
	}
	run_stop_timer(run);
	return true;
}

static void say_acquired(struct run *run) {
	char waited[32];

	run->acquired_ms = boot_ms();
	run->state = SNECK_HELD;
	(void)sneck_hold_id(run->hold, run->id);
	run_events_acquired(&run->events, run->id, sneck_hold_token(run->hold),
	        run->acquired_ms - run->asked_ms, run->options->lease_ms);
	if (run->session.common->verbose)
		talk("got %s after %s, id %s", run->shown,
		        show_duration(run->acquired_ms - run->asked_ms, waited), run->id);
}

bool run_get_lock(struct run *run, int *ret_code) {
	int code = open_client(run);

	if (code == 0)
		code = start_acquire(run);
	if (code == 0)
		wait_for_lock(run);
	bool ready = run->hold && wait_for_lease(run);
	if (run->end_signal)
		code = EXIT_SIGNAL_BASE + run->end_signal;
	else if (code == 0 && !run->hold && run->denied) {
		code = refuse(run, SNECK_EACCES, "the server refuses a command that locks need");
	} else if (code == 0 && !run->hold) {
		/* -E 0 and --skip: refused, and yet 0 */
		*ret_code = refuse(run, run->refusal.code, run->refusal.text);
		return false;
	} else if (code == 0 && !ready) {
		talk("%s: the server did not confirm the lease", run->shown);
		code = EXIT_UNREACHABLE;
	}
	*ret_code = code;
	if (code != 0 || !run->hold)
		return false;
	say_acquired(run);
	return true;
}
