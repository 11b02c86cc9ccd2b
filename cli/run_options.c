/* SPDX-License-Identifier: MIT */
/* The command line of `sneck run`, after flock(1): options end at the first word that is none, so
 * the command's own options need no "--". Numbers are checked here; what a name or a lease may be
 * is the library's to say. */
#include "run_options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "duration.h"
#include "exit.h"
#include "server_url.h"

enum {
	OPTION_LEASE = 256,
	OPTION_SERVER,
	KILL_AFTER_DEFAULT_MS = 5000,
	/* The lease is renewed at a third and suspect at a half: in the last quarter it is in danger. */
	KILL_AFTER_LEASE_PART = 4
};

static const struct option long_options[] = {
	{ "nonblock", no_argument, NULL, 'n' },
	{ "wait", required_argument, NULL, 'w' },
	{ "timeout", required_argument, NULL, 'w' },
	{ "shared", no_argument, NULL, 's' },
	{ "exclusive", no_argument, NULL, 'x' },
	{ "lease", required_argument, NULL, OPTION_LEASE },
	{ "kill-after", required_argument, NULL, 'k' },
	{ "conflict-exit-code", required_argument, NULL, 'E' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "server", required_argument, NULL, OPTION_SERVER },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static bool parse_exit_code(const char *text, int *ret) {
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end || value < 0 || value > 255 || strspn(text, "0123456789") != strlen(text))
		return false;
	*ret = (int)value;
	return true;
}

/* One option. RUN_OPTIONS_OK or an exit code. */
static int take_option(const struct command *command, int option, char *value, struct run_options *ret) {
	bool fine = true;

	switch (option) {
	case 'n':
		ret->wait_ms = 0;
		break;
	case 'w':
		fine = parse_duration(value, &ret->wait_ms);
		break;
	case 's':
		ret->mode = SNECK_READ;
		break;
	case 'x':
		ret->mode = SNECK_WRITE;
		break;
	case OPTION_LEASE:
		fine = parse_duration(value, &ret->lease_ms) && ret->lease_ms > 0;
		break;
	case 'k':
		fine = parse_duration(value, &ret->kill_after_ms);
		break;
	case 'E':
		if (!parse_exit_code(value, &ret->conflict_exit_code))
			return usage_error(command, "-E %s: not a number from 0 to 255", value);
		break;
	case 'q':
		ret->quiet = true;
		break;
	case OPTION_SERVER:
		ret->url_in_argv = value;
		break;
	case 'h':
		print_command_help(command, stdout);
		return 0;
	case ':':
		return usage_error(command, "an option lacks its value");
	default:
		return usage_error(command, "there is no such option");
	}
	if (!fine)
		return usage_error(command, "\"%s\" is not a time: 10, 1.5s, 500ms, 2m, 3h, 1d", value);
	return RUN_OPTIONS_OK;
}

int run_options_parse(const struct command *command, int argc, char **argv, struct run_options *ret) {
	int option;

	*ret = (struct run_options){
		.mode = SNECK_WRITE,
		.wait_ms = SNECK_WAIT_FOREVER,
		.lease_ms = SNECK_LEASE_DEFAULT_MS,
		.kill_after_ms = KILL_AFTER_DEFAULT_MS,
		.conflict_exit_code = EXIT_BUSY,
	};
	opterr = 0;
	optind = 1;
	while ((option = getopt_long(argc, argv, "+:nw:sxk:E:qh", long_options, NULL)) != -1) {
		int code = take_option(command, option, optarg, ret);
		if (code != RUN_OPTIONS_OK)
			return code;
	}
	if (optind >= argc)
		return usage_error(command, "no lock was named");
	ret->name = argv[optind++];
	if (optind < argc && !strcmp(argv[optind], "--"))
		optind++;
	if (optind >= argc)
		return usage_error(command, "no command to run under \"%s\"", ret->name);
	ret->argv = argv + optind;
	if (ret->kill_after_ms > ret->lease_ms / KILL_AFTER_LEASE_PART)
		ret->kill_after_ms = ret->lease_ms / KILL_AFTER_LEASE_PART;
	ret->url = find_server_url(ret->url_in_argv, &ret->url_named);
	show_server_url(ret->url, ret->url_shown, sizeof(ret->url_shown));
	return RUN_OPTIONS_OK;
}
