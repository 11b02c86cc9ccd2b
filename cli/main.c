/* SPDX-License-Identifier: MIT */
/* The command line's entry: finds the command and hands over. Everything a command does is in its
 * own file and goes through <sneck/sneck.h>.
 *
 * Whatever a command has printed must have arrived: a full disk behind standard output is a failure of
 * sneck's, not a success with half an answer.
 *
 * A caller may have closed standard descriptors. A connection to the server must not get one of their
 * numbers: what is said to people would go there. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sneck/sneck.h>

#include "command.h"
#include "exit.h"
#include "help.h"
#include "lock_view.h"
#include "options.h"
#include "talk.h"

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

static int print_version(int argc, char **argv) {
	if (argc == 0) {
		printf("sneck %s\n", sneck_version());
		return 0;
	}
	if (argc > 1 || strcmp(argv[0], "--json") != 0)
		return usage_error(NULL, "--version stands alone, or with --json");
	json_t *json = json_object();
	json_object_set_new(json, "schema", json_integer(JSON_SCHEMA));
	json_object_set_new(json, "version", json_string(sneck_version()));
	return print_json(json);
}

static int dispatch(int argc, char **argv) {
	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		print_help(stdout);
		return 0;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))
		return print_version(argc - 2, argv + 2);
	const struct command *command = find_command(argv[1]);
	return command ? command->main(command, argc - 1, argv + 1) : no_such_command(argv[1]);
}

/* Fill the gaps with what fails as a closed one does, and what the command that runs under a lock does
 * not get: it finds them closed. False: there is not even that. */
static bool fill_standard_descriptors(void) {
	static const int modes[] = { O_WRONLY, O_RDONLY, O_RDWR };

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd] | O_CLOEXEC) != fd)
			return false;
	}
	return true;
}

int main(int argc, char **argv) {
	if (!fill_standard_descriptors())
		return EXIT_INTERNAL;
	int code = dispatch(argc, argv);

	/* Whoever has said so already has said it better. */
	if ((fflush(stdout) != 0 || ferror(stdout)) && code != EXIT_INTERNAL) {
		talk("cannot write to standard output");
		code = EXIT_INTERNAL;
	}
	return code;
}
