/* SPDX-License-Identifier: MIT */
/* A command of `sneck` as a table row. Everything that speaks about commands and options (the
 * parser, --help, `sneck help`, completion, the test that compares the manual) reads these tables;
 * nothing else lists them.
 *
 * A new command: a file cmd_NAME.c with a `const struct command command_NAME`, a line below, a
 * line in commands.c. */
#ifndef SNECK_CLI_COMMAND_H
#define SNECK_CLI_COMMAND_H

#include <stdbool.h>

struct option_row {
	const char *name; /* long name; NULL ends the table */
	char letter;      /* or 0 */
	/* What its value is called in help texts; NULL: a flag. "a|b|c" allows these words only. */
	const char *value;
	const char *help; /* NULL: another name of the row before it */
	int id;
	int group; /* options of one group that is not 0 contradict each other */
};

/* Which of the common options (options.c) a command has; --help it always has. */
enum {
	COMMON_SERVER = 1u << 0, /* --server, --namespace, --password-file */
	COMMON_TALK = 1u << 1,   /* -q, -v, --color */
	COMMON_JSON = 1u << 2    /* --json: for commands that print data */
};

/* What the first word behind the options is: for completion. */
enum word_kind { WORD_NONE, WORD_LOCK, WORD_LOCK_COMMAND, WORD_CHOICE };

struct command {
	const char *name;
	const char *synopsis;        /* what follows `sneck NAME` */
	const char *summary;         /* one sentence */
	const char *const *examples; /* lines; ends with NULL */
	const char *const *notes;    /* lines behind the options, ends with NULL; or NULL */
	const struct option_row *options;
	unsigned common;
	bool stops_at_word; /* options end at the first word that is none: what follows is a command's */
	enum word_kind word;
	const char *const *choices; /* WORD_CHOICE; ends with NULL */
	/* argv[0] is the command's name. Returns the exit code. */
	int (*main)(const struct command *self, int argc, char **argv);
};

extern const struct command command_run;
extern const struct command command_lock;
extern const struct command command_unlock;
extern const struct command command_renew;
extern const struct command command_try;
extern const struct command command_wait;
extern const struct command command_ls;
extern const struct command command_show;
extern const struct command command_break;
extern const struct command command_doctor;
extern const struct command command_acl;
extern const struct command command_server;
extern const struct command command_completion;
extern const struct command command_help;

/* All of them, in the order of the help text; ends with NULL. */
extern const struct command *const commands[];

/* NULL: there is none. */
const struct command *find_command(const char *name);

#endif
