/* SPDX-License-Identifier: MIT */
/* sneck run: hold a lock while a command runs. Invariants:
 *   - The command starts only when the lock is held, and the lock is given back only when the
 *     command has ended.
 *   - A run inside a run of the same lock would wait for itself: it is refused at once, or joins.
 *
 * run.h says which file does what. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sneck/sneck.h>

#include "command.h"
#include "exit.h"
#include "first_use.h"
#include "run.h"
#include "run_env.h"

/* ---- Inside another run ---------------------------------------------------------------------*/

/* Become the command, under the hold of the run around this one. Returns only with an exit code. */
static int join(const struct run *run, const struct outer_lock *outer) {
	const struct run_options *options = run->options;

	setenv("SNECK_NAME", options->name, 1);
	setenv("SNECK_ID", outer->id, 1);
	if (strcmp(outer->token, "0") != 0)
		setenv("SNECK_TOKEN", outer->token, 1);
	else
		unsetenv("SNECK_TOKEN");
	setenv("SNECK_MODE", outer->mode, 1);
	setenv("SNECK_SERVER", run->session.settings.url_shown, 1);
	execvp(options->argv[0], options->argv);
	int failed = errno;
	talk("%s: %s", options->argv[0], strerror(failed));
	return failed == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

/* 0: this lock is not held around us; else the exit code. `*ret_inside` tells them apart. */
static int look_outside(const struct run *run, bool *ret_inside) {
	const struct run_options *options = run->options;
	const struct held_lock wanted = {
		.name = options->name,
		.server = run->session.settings.url_shown,
		.family = settings_family(&run->session.settings),
	};
	struct outer_lock outer = { NULL, NULL, NULL, 0 };
	int code = options->conflict_exit_code;

	*ret_inside = find_outer_lock(&wanted, &outer);
	if (!*ret_inside)
		return 0;
	bool enough = options->mode == SNECK_READ || !strcmp(outer.mode, "write");
	if (options->reentrant && enough)
		code = join(run, &outer);
	else if (options->reentrant)
		talk("%s: you hold it already, but shared (sneck run, pid %d); take it with -x there",
		        run->shown, outer.pid);
	else if (!options->quiet && !options->skip)
		talk("%s: you hold it already (sneck run, pid %d, id %s): this one would wait for itself; "
		     "--reentrant joins it",
		        run->shown, outer.pid, outer.id);
	outer_lock_done(&outer);
	return code;
}

/* ---- Giving it back -------------------------------------------------------------------------*/

/* Let the lock stay for what is left of --min-hold, without us. 1: it does. */
static int leave_for_min_hold(struct run *run) {
	int64_t left_ms = run->acquired_ms + run->options->min_hold_ms - boot_ms();
	char id[SNECK_ID_MAX], left[32];
	sneck_error error = { 0, 0, "", "" };

	if (!run->child.exited || left_ms <= 0)
		return 0;
	if (left_ms < SNECK_LEASE_MIN_MS)
		left_ms = SNECK_LEASE_MIN_MS;
	int r = sneck_detach(run->hold, left_ms, id, &error);
	if (r == 0) {
		if (run->session.common->verbose)
			talk("%s stays held for %s (--min-hold)", run->shown, show_duration(left_ms, left));
		return 1;
	}
	if (sneck_err_outcome(r) != SNECK_OUTCOME_LOST && !run->options->quiet)
		talk("%s: --min-hold failed: %s", run->shown, error.text);
	return 0;
}

/* The exit code: `code`, unless the lock turns out to have been lost. */
static int give_back(struct run *run, int code) {
	int r = leave_for_min_hold(run) ? 0 : sneck_release(run->hold);

	run->hold = NULL;
	switch (sneck_err_outcome(r)) {
	case SNECK_OUTCOME_OK:
		break;
	case SNECK_OUTCOME_LOST:
		if (code != EXIT_LOST && !run->warned)
			talk("%s was lost before the command ended: %s", run->shown, sneck_strerror(r));
		if (run->child.exited && !run->options->warn_only)
			code = EXIT_LOST;
		break;
	default:
		if (code != EXIT_LOST && !run->options->quiet)
			talk("%s was not given back (%s); it ends with its lease", run->shown,
			        sneck_strerror(r));
		break;
	}
	run_events_released(&run->events, boot_ms() - run->acquired_ms, code, r);
	return code;
}

/* ---- The command ----------------------------------------------------------------------------*/

static int hold_and_run(struct run *run) {
	int code = run_take_signals(run);

	if (code != 0)
		return code;
	if (run_get_lock(run, &code)) {
		warn_on_first_use(&run->session);
		code = run_command(run);
	}
	return run->hold ? give_back(run, code) : code;
}

static int run_main(const struct command *self, int argc, char **argv) {
	struct run_options options;
	struct run run = { .options = &options, .signal_fd = -1, .timer_fd = -1 };
	bool inside;

	run.child.tty = run.child.control_fd = -1;
	int code = run_options_parse(self, argc, argv, &options);
	if (code != OPTIONS_OK)
		return code;
	code = session_load(&run.session, &options.parsed.common);
	if (code != 0)
		return code;
	run_options_settle(&options, run.session.settings.lease_ms);
	run.term_at_ms = options.kill_after_ms;
	if (run.term_at_ms > options.lease_ms / KILL_AFTER_LEASE_PART)
		run.term_at_ms = options.lease_ms / KILL_AFTER_LEASE_PART;
	quote_name(options.name, strlen(options.name), run.shown);
	run_events_init(&run.events, options.events_fd, options.name,
	        options.mode == SNECK_READ ? "read" : "write", run.session.settings.url_shown);
	code = look_outside(&run, &inside);
	if (!inside)
		code = hold_and_run(&run);
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
