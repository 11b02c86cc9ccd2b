/* SPDX-License-Identifier: MIT */
/* The command line's entry: finds the command and hands over. Everything a command does is in its
 * own file and goes through <sneck/sneck.h>. */
#include <stdio.h>
#include <string.h>

#include <sneck/sneck.h>

#include "command.h"
#include "exit.h"
#include "help.h"
#include "options.h"

static int no_such_command(const char *name) {
	const char *names[32];
	size_t count = 0;

	if (name[0] == '-')
		return usage_error(NULL, "no such option: %s; options go behind the command: sneck run %s …",
		        name, name);
	for (const struct command *const *command = commands; *command && count < 31; command++)
		names[count++] = (*command)->name;
	names[count] = NULL;
	const char *near = suggest_word(name, names);
	if (near)
		return usage_error(NULL, "no such command: %s; did you mean %s?", name, near);
	return usage_error(NULL, "no such command: %s", name);
}

int main(int argc, char **argv) {
	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		print_help(stdout);
		return 0;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("sneck %s\n", sneck_version());
		return 0;
	}
	const struct command *command = find_command(argv[1]);
	return command ? command->main(command, argc - 1, argv + 1) : no_such_command(argv[1]);
}
