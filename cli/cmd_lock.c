/* SPDX-License-Identifier: MIT */
/* sneck lock, unlock, renew: a hold that outlives the process, for scripts that cannot be wrapped in
 * `sneck run`. Nobody renews it and nobody stops the work when it is lost: it ends at its lease, unless
 * the script renews it in time. So `lock` prints the id that names exactly this hold, and the token to
 * give to whatever the lock protects.
 *
 * `unlock` and `renew` act on the hold by that id, which stays the same. The id of a hold that a program
 * keeps is of another form, and the library refuses it: breaking is another command's job. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <sneck/sneck.h>

#include "command.h"
#include "exit.h"
#include "first_use.h"
#include "lock_view.h"
#include "run.h"

enum { GROUP_WAIT = 1, GROUP_MODE };
enum lock_id {
	LOCK_NONBLOCK = 1,
	LOCK_WAIT,
	LOCK_SHARED,
	LOCK_EXCLUSIVE,
	LOCK_LEASE,
	LOCK_NOTE,
	LOCK_CODE,
	LOCK_POLICY,
	LOCK_ACK,
	LOCK_ACK_TIMEOUT
};

static const struct option_row lock_rows[] = {
	{ "nonblock", 'n', NULL, "do not wait", LOCK_NONBLOCK, GROUP_WAIT },
	{ "wait", 'w', "TIME", "wait no longer than this (default: for ever); 0 is -n", LOCK_WAIT,
	        GROUP_WAIT },
	{ "shared", 's', NULL, "share the lock with other readers", LOCK_SHARED, GROUP_MODE },
	{ "read", 0, NULL, NULL, LOCK_SHARED, GROUP_MODE },
	{ "exclusive", 'x', NULL, "hold it alone (the default)", LOCK_EXCLUSIVE, GROUP_MODE },
	{ "write", 0, NULL, NULL, LOCK_EXCLUSIVE, GROUP_MODE },
	{ "lease", 0, "TIME", "how long it is held unless it is renewed (default: 30s)", LOCK_LEASE, 0 },
	{ "note", 'm', "TEXT", "shown to those who look at the lock", LOCK_NOTE, 0 },
	{ "conflict-exit-code", 'E', "N", "exit with this when somebody else has it (default: 75)", LOCK_CODE,
	        0 },
	{ "policy", 0, "fair|prefer-writers", "who goes first (default: fair, in order of arrival)",
	        LOCK_POLICY, 0 },
	{ "ack", 0, "N", "the lock counts once N replicas have it, else it is not taken (default: 0)",
	        LOCK_ACK, 0 },
	{ "ack-timeout", 0, "TIME", "how long they have for it (default: 1s)", LOCK_ACK_TIMEOUT, 0 },
	{ NULL, 0, NULL, NULL, 0, 0 },
};

static const struct option_row renew_rows[] = {
	{ "lease", 0, "TIME", "from now (default: 30s)", LOCK_LEASE, 0 },
	{ NULL, 0, NULL, NULL, 0, 0 },
};

static int take_lock_option(void *ctx, const struct option_row *row, char *value) {
	struct run_options *ret = ctx;

	switch ((enum lock_id)row->id) {
	case LOCK_NONBLOCK:
		ret->wait_ms = 0;
		break;
	case LOCK_WAIT:
		return option_duration(&command_lock, row, value, &ret->wait_ms);
	case LOCK_SHARED:
		ret->mode = SNECK_READ;
		break;
	case LOCK_EXCLUSIVE:
		ret->mode = SNECK_WRITE;
		break;
	case LOCK_LEASE:
		return option_duration(&command_lock, row, value, &ret->lease_ms);
	case LOCK_NOTE:
		ret->note = value;
		break;
	case LOCK_CODE:
		return option_number(&command_lock, row, value, 0, 255, &ret->conflict_exit_code);
	case LOCK_ACK:
		return option_number(&command_lock, row, value, 0, ACK_REPLICAS_MAX, &ret->ack);
	case LOCK_ACK_TIMEOUT:
		return option_duration(&command_lock, row, value, &ret->ack_ms);
	case LOCK_POLICY:
		ret->policy = !strcmp(value, "fair") ? SNECK_POLICY_FAIR : SNECK_POLICY_PREFER_WRITERS;
		break;
	}
	return OPTIONS_OK;
}

static int check_name(const struct command *command, const char *name) {
	if (*name && strlen(name) <= SNECK_NAME_MAX)
		return OPTIONS_OK;
	return usage_error(command, "a lock's name must have 1 to %d bytes", SNECK_NAME_MAX);
}

/* `ID TOKEN`, or an object. */
static void print_hold(
        const struct session *session, const char *name, const char *id, uint64_t token, int64_t left_ms) {
	if (!session->common->json) {
		printf("%s %" PRIu64 "\n", id, token);
		return;
	}
	json_t *object = json_head(session);
	json_set_name(object, name, strlen(name));
	json_object_set_new(object, "id", json_string(id));
	json_object_set_new(object, "token", json_integer((json_int_t)token));
	json_object_set_new(object, "lease_left_ms", json_integer((json_int_t)left_ms));
	json_dumpf(object, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(object);
}

/* ---- lock -----------------------------------------------------------------------------------*/

static int let_go(struct run *run) {
	const struct run_options *options = run->options;
	uint64_t token = sneck_hold_token(run->hold);
	sneck_error error = { 0, 0, "", "" };
	char id[SNECK_ID_MAX];

	int r = sneck_detach(run->hold, options->lease_ms, id, &error);
	if (r < 0) {
		error.code = r;
		(void)sneck_release(run->hold);
		return session_complain(&run->session, &error, EXIT_USAGE);
	}
	print_hold(&run->session, options->name, id, token, options->lease_ms);
	/* An id that nobody has read names a lock that nobody can give back. */
	if (fflush(stdout) == 0)
		return 0;
	talk("cannot write the id; %s stays held for its lease", run->shown);
	return EXIT_INTERNAL;
}

static int lock_main(const struct command *self, int argc, char **argv) {
	struct run_options options = { .mode = SNECK_WRITE,
		.wait_ms = SNECK_WAIT_FOREVER,
		.conflict_exit_code = EXIT_BUSY,
		.events_fd = -1,
		.ack = -1 };
	struct run run = { .options = &options, .signal_fd = -1, .timer_fd = -1 };
	char *no_command[] = { NULL };

	run.child.control_fd = run.child.tty = run.events.fd = -1;
	int code = options_parse(self, argc, argv, take_lock_option, &options, &options.parsed);
	if (code == OPTIONS_OK)
		code = options_words(self, &options.parsed, 1, 1, "NAME");
	if (code == OPTIONS_OK)
		code = check_name(self, options.parsed.words[0]);
	if (code == OPTIONS_OK)
		code = run_options_ack(self, &options);
	if (code != OPTIONS_OK)
		return code;
	options.name = options.parsed.words[0];
	options.argv = no_command;
	options.fixed = true;
	options.quiet = options.parsed.common.quiet;
	code = session_load(&run.session, &options.parsed.common);
	if (code != 0)
		return code;
	run_options_settle(&options, run.session.settings.lease_ms);
	quote_name(options.name, strlen(options.name), run.shown);
	code = run_take_signals(&run);
	if (code == 0 && run_get_lock(&run, &code)) {
		warn_on_first_use(&run.session);
		code = let_go(&run);
	} else if (run.hold) {
		(void)sneck_release(run.hold);
	}
	session_close(&run.session);
	return code;
}

/* ---- unlock and renew -----------------------------------------------------------------------*/

static int not_yours(const char *name, const sneck_party *party) {
	char shown[SHOWN_MAX], who[SHOWN_MAX], command[SHOWN_MAX];

	quote_name(party->command, strlen(party->command), command);
	quote_name(party->user, strlen(party->user), who);
	talk("%s: %s belongs to a program that is running (host %s, pid %d%s%s%s%s); nothing was changed; to "
	     "end it by force: sneck break",
	        quote_name(name, strlen(name), shown), party->id, party->host, (int)party->pid,
	        party->user[0] ? ", user " : "", party->user[0] ? who : "", party->command[0] ? ": " : "",
	        party->command[0] ? command : "");
	return EXIT_BUSY;
}

/* The id is of the form that running programs have. */
static int kept_by_a_program(struct session *session, const char *name, const char *id) {
	sneck_lock_info *info = NULL;
	sneck_error error = { 0, 0, "", "" };
	char shown[SHOWN_MAX];
	int code = EXIT_LOST;

	int r = sneck_inspect(session->client, name, strlen(name), 0, &info, &error);
	if (r < 0) {
		error.code = r;
		return session_complain(session, &error, EXIT_USAGE);
	}
	for (size_t i = 0; i < info->party_n; i++) {
		if (info->parties[i].kind == SNECK_PARTY_HOLDER && !strcmp(info->parties[i].id, id))
			code = not_yours(name, &info->parties[i]);
	}
	if (code == EXIT_LOST)
		talk("%s: %s does not, or no longer, hold it; nothing was changed",
		        quote_name(name, strlen(name), shown), id);
	sneck_lock_info_free(info);
	return code;
}

/* Why it could not be done. The exit code. */
static int complain(struct session *session, const char *name, const char *id, sneck_error *error, int r) {
	if (r == SNECK_ENOTOWNER)
		return kept_by_a_program(session, name, id);
	if (r == SNECK_EINVAL) {
		char shown[SHOWN_MAX];
		talk("%s is not the id of a hold; sneck lock prints it, sneck show NAME tells it",
		        quote_name(id, strlen(id), shown));
		return EXIT_USAGE;
	}
	if (sneck_err_outcome(r) == SNECK_OUTCOME_LOST) {
		talk("%s; nothing was changed", error->text);
		return EXIT_LOST;
	}
	error->code = r;
	return session_complain(session, error, EXIT_USAGE);
}

static int release_hold(struct session *session, const char *name, const char *id) {
	sneck_error error = { 0, 0, "", "" };
	int r = sneck_release_id(session->client, name, strlen(name), id, &error);

	return r == 0 ? 0 : complain(session, name, id, &error, r);
}

static int renew_hold(struct session *session, const char *name, const char *id, int64_t lease_ms) {
	sneck_error error = { 0, 0, "", "" };
	char shown[SHOWN_MAX], left[32];
	uint64_t token;
	int64_t left_ms;

	int r = sneck_renew_id(session->client, name, strlen(name), id, lease_ms, &token, &left_ms, &error);
	if (r < 0)
		return complain(session, name, id, &error, r);
	if (session->common->verbose)
		talk("%s is held for another %s", quote_name(name, strlen(name), shown),
		        show_duration(left_ms, left));
	print_hold(session, name, id, token, left_ms);
	return 0;
}

static int take_renew_option(void *ctx, const struct option_row *row, char *value) {
	return option_duration(&command_renew, row, value, ctx);
}

static int with_hold(const struct command *self, int argc, char **argv, take_option_fn take) {
	struct session session;
	struct parsed parsed;
	const struct session_request request = { .takes_locks = false };
	int64_t lease_ms = 0;

	int code = options_parse(self, argc, argv, take, &lease_ms, &parsed);
	if (code == OPTIONS_OK)
		code = options_words(self, &parsed, 2, 2, "NAME or ID");
	if (code == OPTIONS_OK)
		code = check_name(self, parsed.words[0]);
	if (code != OPTIONS_OK)
		return code;
	code = session_load(&session, &parsed.common);
	if (code != 0)
		return code;
	if (!lease_ms)
		lease_ms = session.settings.lease_ms ? session.settings.lease_ms : SNECK_LEASE_DEFAULT_MS;
	code = session_open(&session, &request);
	if (code == 0)
		code = take ? renew_hold(&session, parsed.words[0], parsed.words[1], lease_ms)
		            : release_hold(&session, parsed.words[0], parsed.words[1]);
	session_close(&session);
	return code;
}

static int unlock_main(const struct command *self, int argc, char **argv) {
	return with_hold(self, argc, argv, NULL);
}

static int renew_main(const struct command *self, int argc, char **argv) {
	return with_hold(self, argc, argv, take_renew_option);
}

/* ---- Tables ---------------------------------------------------------------------------------*/

static const char *const lock_examples[] = {
	"hold=$(sneck lock --lease 10m deploy)      hold it for ten minutes",
	"sneck unlock deploy \"${hold%% *}\"         give it back; ${hold#* } is the token",
	NULL,
};
static const char *const lock_notes[] = {
	"Prints one line, `ID TOKEN`. The lock is held for its lease, whatever becomes of the script;",
	"where the work can be wrapped, sneck run is the better way: it renews, and stops the work in time.",
	NULL,
};

const struct command command_lock = {
	.name = "lock",
	.synopsis = "[OPTION…] NAME",
	.summary = "Take a lock that outlives this command, for a fixed time; print its id and token.",
	.examples = lock_examples,
	.notes = lock_notes,
	.options = lock_rows,
	.common = COMMON_SERVER | COMMON_TALK | COMMON_JSON,
	.word = WORD_LOCK,
	.main = lock_main,
};

static const char *const unlock_examples[] = { "sneck unlock deploy \"$id\"", NULL };
static const char *const unlock_notes[] = {
	"Exits with 79, and changes nothing, when that hold is over; with 75 when a running program has it.",
	NULL,
};

const struct command command_unlock = {
	.name = "unlock",
	.synopsis = "[OPTION…] NAME ID",
	.summary = "Give back what `sneck lock` has taken.",
	.examples = unlock_examples,
	.notes = unlock_notes,
	.common = COMMON_SERVER | COMMON_TALK,
	.word = WORD_LOCK,
	.main = unlock_main,
};

static const char *const renew_examples[] = {
	"sneck renew --lease 10m deploy \"$id\"",
	NULL,
};
static const char *const renew_notes[] = {
	"Prints `ID TOKEN`, which stay what they were. A lease is never made shorter.",
	"Exits with 79, and changes nothing, when that hold is over; with 75 when a running program has it.",
	NULL,
};

const struct command command_renew = {
	.name = "renew",
	.synopsis = "[OPTION…] NAME ID",
	.summary = "Hold on to what `sneck lock` has taken, for another lease.",
	.examples = renew_examples,
	.notes = renew_notes,
	.options = renew_rows,
	.common = COMMON_SERVER | COMMON_TALK | COMMON_JSON,
	.word = WORD_LOCK,
	.main = renew_main,
};
