/* SPDX-License-Identifier: MIT */
/* Help and complaints, the same for every command. stdout is for data and for help that was asked
 * for; everything else goes to stderr. */
#include "command.h"

#include <stdarg.h>
#include <stdio.h>

#include "exit.h"

void print_command_help(const struct command *command, FILE *out) {
	fprintf(out, "usage: sneck %s\n\n%s\n\n", command->help[0], command->summary);
	for (const char *const *line = command->help + 1; *line; line++)
		fprintf(out, "%s\n", *line);
}

int usage_error(const struct command *command, const char *format, ...) {
	va_list args;

	fputs("sneck: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\nusage: sneck %s\n", command->help[0]);
	return EXIT_USAGE;
}
