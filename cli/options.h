/* SPDX-License-Identifier: MIT */
/* The one parser of command lines. It knows the common options itself and hands a command's own to
 * the command.
 *
 *   struct parsed parsed;
 *   int code = options_parse(self, argc, argv, take, &my_options, &parsed);
 *   if (code != OPTIONS_OK)
 *           return code;            // help was asked for, or the complaint is out
 *   if ((code = options_words(self, &parsed, 1, 1, "NAME")) != OPTIONS_OK)
 *           return code;
 */
#ifndef SNECK_CLI_OPTIONS_H
#define SNECK_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct command;
struct option_row;

enum { OPTIONS_OK = -1 };

enum color_when { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

struct common_options {
	char *server;              /* in argv, where others can see it; NULL: not given */
	const char *name_space;    /* NULL: not given */
	const char *dialect;       /* NULL: not given */
	const char *password_file; /* NULL: not given */
	enum color_when color;
	bool json;
	bool quiet;
	bool verbose;
};

struct parsed {
	struct common_options common;
	char **words; /* what is no option, in argv's memory; ends with NULL */
	int word_count;
};

/* One option of the command's own table. OPTIONS_OK, or an exit code. */
typedef int (*take_option_fn)(void *ctx, const struct option_row *row, char *value);

/* OPTIONS_OK, or the exit code with which to end. `take` may be NULL for a command without options
 * of its own. */
int options_parse(const struct command *command, int argc, char **argv, take_option_fn take, void *ctx,
        struct parsed *ret);

/* Are there `min` to `max` words? `names` says what they are, for the complaint. */
int options_words(
        const struct command *command, const struct parsed *parsed, int min, int max, const char *names);

/* Values. OPTIONS_OK, or EXIT_USAGE after a complaint that names the option. */
int option_duration(
        const struct command *command, const struct option_row *row, const char *value, int64_t *ret_ms);
int option_number(const struct command *command, const struct option_row *row, const char *value, int min,
        int max, int *ret);

/* Complain on stderr, in one line, about the usage of `command` (NULL: of sneck); EXIT_USAGE. */
int usage_error(const struct command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The tables of the common options that `common` (COMMON_…) names, one after the other: start with
 * *ret_step = 0; NULL at the end. For those who print them. */
const struct option_row *common_options_next(unsigned common, int *step);

/* The word of `words` (ends with NULL) that `word` is most likely a misspelling of; NULL: none. */
const char *suggest_word(const char *word, const char *const *words);

#endif
