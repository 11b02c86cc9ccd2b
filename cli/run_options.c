/* SPDX-License-Identifier: MIT */
/* The command line of `sneck run`, after flock(1) and timeout(1): options end at the first word that
 * is none, so the command's own options need no "--". Numbers are checked here; what a name or a
 * lease may be is the library's to say. */
#include "run_options.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "command.h"
#include "exit.h"

enum { KILL_AFTER_DEFAULT_MS = 5000 };

enum { GROUP_WAIT = 1, GROUP_MODE };

enum run_id {
	RUN_SHARED = 1,
	RUN_EXCLUSIVE,
	RUN_NONBLOCK,
	RUN_WAIT,
	RUN_CONFLICT_CODE,
	RUN_SKIP,
	RUN_LEASE,
	RUN_MIN_HOLD,
	RUN_MAX_HOLD,
	RUN_KILL_AFTER,
	RUN_SIGNAL,
	RUN_ON_LOST,
	RUN_POLICY,
	RUN_SCRIPT,
	RUN_NOTE,
	RUN_FOREGROUND,
	RUN_REENTRANT,
	RUN_RETRY_CONNECT,
	RUN_EVENTS_FD,
	RUN_ACK,
	RUN_ACK_TIMEOUT
};

const struct option_row run_option_rows[] = {
	{ "nonblock", 'n', NULL, "do not wait", RUN_NONBLOCK, GROUP_WAIT },
	{ "wait", 'w', "TIME", "wait no longer than this (default: for ever); 0 is -n", RUN_WAIT,
	        GROUP_WAIT },
	{ "timeout", 0, "TIME", NULL, RUN_WAIT, GROUP_WAIT },
	{ "shared", 's', NULL, "share the lock with other readers", RUN_SHARED, GROUP_MODE },
	{ "read", 0, NULL, NULL, RUN_SHARED, GROUP_MODE },
	{ "exclusive", 'x', NULL, "hold it alone (the default)", RUN_EXCLUSIVE, GROUP_MODE },
	{ "write", 0, NULL, NULL, RUN_EXCLUSIVE, GROUP_MODE },
	{ "skip", 0, NULL, "for cron: when somebody else has it, end quietly with 0", RUN_SKIP, 0 },
	{ "conflict-exit-code", 'E', "N", "exit with this when somebody else has it (default: 75)",
	        RUN_CONFLICT_CODE, 0 },
	{ "command", 'c', "STRING", "run STRING in /bin/sh instead of a command", RUN_SCRIPT, 0 },
	{ "note", 'm', "TEXT", "shown to everyone who looks at the lock", RUN_NOTE, 0 },
	{ "lease", 0, "TIME", "how long the lock outlives sneck if that dies (default: 30s)", RUN_LEASE, 0 },
	{ "min-hold", 0, "TIME", "keep the lock at least this long, even if the command ends sooner",
	        RUN_MIN_HOLD, 0 },
	{ "max-hold", 0, "TIME", "stop the command after this and exit with 124", RUN_MAX_HOLD, 0 },
	{ "kill-after", 'k', "TIME", "from the signal to SIGKILL (default: 5s; at most 1/4 of the lease)",
	        RUN_KILL_AFTER, 0 },
	{ "signal", 0, "SIG", "what tells the command to stop (default: TERM)", RUN_SIGNAL, 0 },
	{ "on-lost", 0, "kill|warn", "stop the command when the lock is lost (default), or only say so",
	        RUN_ON_LOST, 0 },
	{ "policy", 0, "fair|prefer-writers", "who goes first (default: fair, in order of arrival)",
	        RUN_POLICY, 0 },
	{ "ack", 0, "N", "the lock counts once N replicas have it, else it is not taken (default: 0)",
	        RUN_ACK, 0 },
	{ "ack-timeout", 0, "TIME", "how long they have for it (default: 1s)", RUN_ACK_TIMEOUT, 0 },
	{ "foreground", 0, NULL, "leave the command in sneck's process group", RUN_FOREGROUND, 0 },
	{ "reentrant", 0, NULL, "inside a run of the same lock: join it instead of failing", RUN_REENTRANT,
	        0 },
	{ "retry-connect", 0, "TIME", "keep trying to reach the server for this long (default: 0)",
	        RUN_RETRY_CONNECT, 0 },
	{ "events-fd", 0, "N", "write what happens to descriptor N, one JSON object per line", RUN_EVENTS_FD,
	        0 },
	{ NULL, 0, NULL, NULL, 0, 0 },
};

struct taking {
	const struct command *command;
	struct run_options *options;
};

/* "TERM", "SIGTERM" or "15"; 0: none of them. */
static int parse_signal(const char *text) {
	size_t len = strlen(text);

	if (len && len < 3 && strspn(text, "0123456789") == len) {
		int number = atoi(text);
		return number > 0 && number < NSIG && sigabbrev_np(number) ? number : 0;
	}
	if (!strncasecmp(text, "SIG", 3))
		text += 3;
	for (int number = 1; number < NSIG; number++) {
		const char *name = sigabbrev_np(number);
		if (name && !strcasecmp(name, text))
			return number;
	}
	return 0;
}

static int take_signal(const struct command *command, const char *value, int *ret) {
	*ret = parse_signal(value);
	if (*ret && *ret != SIGKILL && *ret != SIGSTOP && *ret != SIGCONT)
		return OPTIONS_OK;
	return usage_error(command, "--signal %s: must be a signal that ends programs, as TERM, INT or 15%s",
	        value, *ret == SIGKILL ? "; for KILL use -k 0" : "");
}

static int take_events_fd(
        const struct command *command, const struct option_row *row, const char *value, int *ret) {
	int code = option_number(command, row, value, 0, 65535, ret);

	if (code == OPTIONS_OK && fcntl(*ret, F_GETFD) < 0)
		return usage_error(command, "--events-fd %s: not open; write %s>FILE behind the command line",
		        value, value);
	return code;
}

/* The flags and texts. */
static int take_plain(struct run_options *ret, const struct option_row *row, char *value) {
	switch ((enum run_id)row->id) {
	case RUN_NONBLOCK:
		ret->wait_ms = 0;
		break;
	case RUN_SHARED:
		ret->mode = SNECK_READ;
		break;
	case RUN_EXCLUSIVE:
		ret->mode = SNECK_WRITE;
		break;
	case RUN_SKIP:
		ret->skip = true;
		break;
	case RUN_FOREGROUND:
		ret->foreground = true;
		break;
	case RUN_REENTRANT:
		ret->reentrant = true;
		break;
	case RUN_SCRIPT:
		ret->script = value;
		break;
	case RUN_NOTE:
		ret->note = value;
		break;
	case RUN_ON_LOST:
		ret->warn_only = !strcmp(value, "warn");
		break;
	case RUN_POLICY:
		ret->policy = !strcmp(value, "fair") ? SNECK_POLICY_FAIR : SNECK_POLICY_PREFER_WRITERS;
		break;
	default:
		break;
	}
	return OPTIONS_OK;
}

static int take(void *ctx, const struct option_row *row, char *value) {
	const struct taking *taking = ctx;
	const struct command *command = taking->command;
	struct run_options *ret = taking->options;
	int64_t *time = NULL;

	switch ((enum run_id)row->id) {
	case RUN_WAIT:
		time = &ret->wait_ms;
		break;
	case RUN_LEASE:
		time = &ret->lease_ms;
		break;
	case RUN_MIN_HOLD:
		time = &ret->min_hold_ms;
		break;
	case RUN_MAX_HOLD:
		time = &ret->max_hold_ms;
		break;
	case RUN_KILL_AFTER:
		time = &ret->kill_after_ms;
		break;
	case RUN_RETRY_CONNECT:
		time = &ret->retry_connect_ms;
		break;
	case RUN_ACK_TIMEOUT:
		time = &ret->ack_ms;
		break;
	case RUN_ACK:
		return option_number(command, row, value, 0, ACK_REPLICAS_MAX, &ret->ack);
	case RUN_CONFLICT_CODE:
		ret->conflict_code_given = true;
		return option_number(command, row, value, 0, 255, &ret->conflict_exit_code);
	case RUN_EVENTS_FD:
		return take_events_fd(command, row, value, &ret->events_fd);
	case RUN_SIGNAL:
		return take_signal(command, value, &ret->stop_signal);
	default:
		return take_plain(ret, row, value);
	}
	int code = option_duration(command, row, value, time);
	if (code == OPTIONS_OK && *time == 0 &&
	        (row->id == RUN_LEASE || row->id == RUN_MAX_HOLD || row->id == RUN_ACK_TIMEOUT))
		return usage_error(command, "--%s must be longer than nothing", row->name);
	return code;
}

/* NAME [--] COMMAND…, or NAME and -c, which may stand behind the name as in flock(1). */
static int take_words(const struct command *command, struct run_options *ret) {
	char **words = ret->parsed.words;
	int count = ret->parsed.word_count;

	if (count < 1)
		return usage_error(command, "no lock was named: sneck run NAME -- COMMAND");
	ret->name = *words++;
	count--;
	if (!*ret->name || strlen(ret->name) > SNECK_NAME_MAX)
		return usage_error(command, "a lock's name must have 1 to %d bytes", SNECK_NAME_MAX);
	if (!ret->script && count > 0 && (!strcmp(*words, "-c") || !strcmp(*words, "--command"))) {
		if (count < 2)
			return usage_error(command, "-c lacks its value: -c STRING");
		ret->script = words[1];
		words += 2;
		count -= 2;
	}
	if (count > 0 && !strcmp(*words, "--")) {
		words++;
		count--;
	}
	if (ret->script && count > 0)
		return usage_error(
		        command, "-c and the command %s contradict each other: give one of them", *words);
	if (!ret->script && count < 1)
		return usage_error(
		        command, "no command to run under \"%s\": sneck run NAME -- COMMAND", ret->name);
	ret->argv = words;
	return OPTIONS_OK;
}

static int check_contradictions(const struct command *command, const struct run_options *options) {
	if (options->skip && options->wait_ms > 0)
		return usage_error(command, "--skip and --wait contradict each other: give one of them");
	if (options->skip && options->conflict_code_given)
		return usage_error(
		        command, "--skip and --conflict-exit-code contradict each other: give one of them");
	if (options->min_hold_ms > SNECK_LEASE_MAX_MS)
		return usage_error(command, "--min-hold must not be longer than 7d");
	if (options->max_hold_ms && options->min_hold_ms > options->max_hold_ms)
		return usage_error(command, "--min-hold is longer than --max-hold");
	return OPTIONS_OK;
}

int run_options_ack(const struct command *command, struct run_options *options) {
	const char *text = getenv("SNECK_ACK");

	if (options->ack_ms > SNECK_LEASE_MAX_MS)
		return usage_error(command, "--ack-timeout must not be longer than 7d");
	if (options->ack >= 0 || !text || !*text)
		return OPTIONS_OK;
	if (strlen(text) > 4 || strspn(text, "0123456789") != strlen(text) || atoi(text) > ACK_REPLICAS_MAX)
		return usage_error(command, "SNECK_ACK=%s: must be a number of replicas, 0 to %d", text,
		        ACK_REPLICAS_MAX);
	options->ack = atoi(text);
	return OPTIONS_OK;
}

int run_options_parse(const struct command *command, int argc, char **argv, struct run_options *ret) {
	static char shell[] = "/bin/sh", shell_option[] = "-c";
	struct taking taking = { command, ret };

	*ret = (struct run_options){
		.mode = SNECK_WRITE,
		.wait_ms = SNECK_WAIT_FOREVER,
		.kill_after_ms = KILL_AFTER_DEFAULT_MS,
		.conflict_exit_code = EXIT_BUSY,
		.stop_signal = SIGTERM,
		.events_fd = -1,
		.ack = -1,
	};
	int code = options_parse(command, argc, argv, take, &taking, &ret->parsed);
	if (code == OPTIONS_OK)
		code = take_words(command, ret);
	if (code == OPTIONS_OK)
		code = check_contradictions(command, ret);
	if (code == OPTIONS_OK)
		code = run_options_ack(command, ret);
	if (code != OPTIONS_OK)
		return code;
	if (ret->script) {
		ret->shell[0] = shell;
		ret->shell[1] = shell_option;
		ret->shell[2] = ret->script;
		ret->argv = ret->shell;
	}
	if (ret->skip) {
		ret->wait_ms = 0;
		ret->conflict_exit_code = 0;
	}
	ret->quiet = ret->parsed.common.quiet;
	return OPTIONS_OK;
}

void run_options_settle(struct run_options *options, int64_t configured_lease_ms) {
	if (!options->lease_ms)
		options->lease_ms = configured_lease_ms ? configured_lease_ms : SNECK_LEASE_DEFAULT_MS;
}
