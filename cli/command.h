/* SPDX-License-Identifier: MIT */
/* What the commands share. A command is a row in the table in main.c and a function in its own
 * file; it gets its arguments with its own name at argv[0] and returns the exit code. */
#ifndef SNECK_CLI_COMMAND_H
#define SNECK_CLI_COMMAND_H

struct command {
	const char *name;
	const char *synopsis;
	const char *summary; /* one line for --help */
	int (*main)(int argc, char **argv);
};

int cmd_run(int argc, char **argv);

#endif
