/* SPDX-License-Identifier: MIT */
/* The command line's entry: a table of commands and the way into it. Everything a command does is
 * in its own file and goes through <sneck/sneck.h>; this file knows names and help texts only. */
#include <stdio.h>
#include <string.h>

#include <sneck/sneck.h>

#include "command.h"
#include "exit.h"

static const struct command *const commands[] = { &command_run, NULL };

static void print_help(FILE *out) {
	fputs("sneck: locks that many processes on many machines share\n\n"
	      "  sneck run backup -- tar cf /srv/backup.tar /home      wait for \"backup\", then run\n"
	      "  sneck run -n backup -- true || echo somebody is at it  do not wait\n"
	      "  sneck run -s site -- rsync -a /srv/site host:          shared with other readers\n\n"
	      "Commands:\n",
	        out);
	for (const struct command *const *command = commands; *command; command++)
		fprintf(out, "  sneck %s\n      %s\n", (*command)->help[0], (*command)->summary);
	fputs("  sneck COMMAND --help\n  sneck --version\n"
	      "\nServer: --server URL, or SNECK_URL, or REDIS_URL, else local: (a private server of this\n"
	      "user on this machine). URLs: redis://[user:password@]host[:port][/db], unix:///path, local:\n"
	      "\nExit status: the command's own, 128+N when signal N ended it, or\n",
	        out);
#define EXIT_LINE_(name, number, text) fprintf(out, "  %3d  %s\n", number, text);
	EXIT_MAP(EXIT_LINE_)
#undef EXIT_LINE_
}

int main(int argc, char **argv) {
	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		print_help(stdout);
		return 0;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("sneck %s\n", sneck_version());
		return 0;
	}
	for (const struct command *const *command = commands; *command; command++) {
		if (!strcmp(argv[1], (*command)->name))
			return (*command)->main(*command, argc - 1, argv + 1);
	}
	fprintf(stderr, "sneck: no such command: %s; see sneck --help\n", argv[1]);
	return EXIT_USAGE;
}
