/* SPDX-License-Identifier: MIT */
#ifndef SNECK_CLI_RUN_OPTIONS_H
#define SNECK_CLI_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <sneck/sneck.h>

struct command;

/* The command line of `sneck run`. Strings are argv's or the environment's. */
struct run_options {
	const char *name;
	char **argv; /* the command, ends with NULL */
	sneck_mode mode;
	int64_t wait_ms;
	int64_t lease_ms;
	int64_t kill_after_ms; /* already cut to what the lease allows */
	int conflict_exit_code;
	bool quiet;
	const char *url;
	bool url_named;
	char url_shown[512]; /* without user and password */
	char *url_in_argv;   /* the same, where others can see it; NULL: it came from elsewhere */
};

enum { RUN_OPTIONS_OK = -1 };

/* RUN_OPTIONS_OK, or the exit code with which to end (help was asked for, or the usage is wrong and
 * has been complained about). */
int run_options_parse(const struct command *command, int argc, char **argv, struct run_options *ret);

#endif
