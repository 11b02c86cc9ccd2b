/* SPDX-License-Identifier: MIT */
/* What the commands share. A command is a row in the table in main.c and a function in its own
 * file; it gets its arguments with its own name at argv[0] and returns the exit code. */
#ifndef SNECK_CLI_COMMAND_H
#define SNECK_CLI_COMMAND_H

#include <stdio.h>

struct command {
	const char *name;
	const char *summary; /* one line for --help */
	const char *const
	        *help; /* lines for `sneck NAME --help`; the first is the synopsis. Ends with NULL */
	int (*main)(const struct command *self, int argc, char **argv);
};

extern const struct command command_run;

void print_command_help(const struct command *command, FILE *out);
/* Complain on stderr about the usage of `command`; returns EXIT_USAGE. */
int usage_error(const struct command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
