/* SPDX-License-Identifier: MIT */
/* Reading command lines by the tables in command.h.
 *
 * Not getopt: its long options and its letters are two lists that must be kept equal, it cannot say
 * which option was misspelled and what was meant, and it knows no contradictions. What it accepts is
 * accepted here in the same way: --name VALUE, --name=VALUE, -x VALUE, -xVALUE, -abc, and "--" as the
 * end. Words and options may be mixed, except where a foreign command follows: there options end
 * at the first word.
 *
 * Every complaint is one line on stderr that names the option and says what to do. */
#include "options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "duration.h"
#include "exit.h"
#include "help.h"

enum common_id {
	ID_SERVER = 1,
	ID_NAMESPACE,
	ID_DIALECT,
	ID_PASSWORD_FILE,
	ID_JSON,
	ID_COLOR,
	ID_QUIET,
	ID_VERBOSE,
	ID_HELP
};
enum { GROUP_TALK = 1, GROUPS_MAX = 8, WORD_MAX = 64 };

static const struct option_row server_rows[] = {
	{ "server", 0, "URL",
	        "redis[s]:// (+sentinel, +cluster), unix://, local: (default: SNECK_URL, REDIS_URL, config)",
	        ID_SERVER, 0 },
	{ "namespace", 0, "NAME", "which family of locks on the server (default: sneck)", ID_NAMESPACE, 0 },
	{ "dialect", 0, "native|redisson:lock|redisson:rwlock|redisson:fair|redisson:fenced|counted|intent",
	        "the layout on the server, for locks that others share (default: native)", ID_DIALECT, 0 },
	{ "password-file", 0, "FILE", "the server's password is the first line of FILE", ID_PASSWORD_FILE,
	        0 },
	{ NULL, 0, NULL, NULL, 0, 0 },
};
static const struct option_row json_rows[] = {
	{ "json", 0, NULL, "print JSON", ID_JSON, 0 },
	{ NULL, 0, NULL, NULL, 0, 0 },
};
static const struct option_row talk_rows[] = {
	{ "quiet", 'q', NULL, "say nothing that is no error", ID_QUIET, GROUP_TALK },
	{ "verbose", 'v', NULL, "say more", ID_VERBOSE, GROUP_TALK },
	{ "color", 0, "auto|always|never", "colour on a terminal, always or never", ID_COLOR, 0 },
	{ NULL, 0, NULL, NULL, 0, 0 },
};
static const struct option_row help_rows[] = {
	{ "help", 'h', NULL, "this text", ID_HELP, 0 },
	{ NULL, 0, NULL, NULL, 0, 0 },
};

const struct option_row *common_options_next(unsigned common, int *step) {
	static const struct {
		unsigned bit;
		const struct option_row *rows;
	} tables[] = {
		{ COMMON_SERVER, server_rows },
		{ COMMON_JSON, json_rows },
		{ COMMON_TALK, talk_rows },
		{ 0, help_rows },
	};

	while (*step < (int)(sizeof(tables) / sizeof(*tables))) {
		int i = (*step)++;
		if (!tables[i].bit || (common & tables[i].bit))
			return tables[i].rows;
	}
	return NULL;
}

int usage_error(const struct command *command, const char *format, ...) {
	va_list args;

	fprintf(stderr, "sneck%s%s: ", command ? " " : "", command ? command->name : "");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, " (see sneck%s%s --help)\n", command ? " " : "", command ? command->name : "");
	return EXIT_USAGE;
}

/* ---- What was meant -------------------------------------------------------------------------*/

/* Edits (insert, delete, replace, swap of neighbours) that make `b` of `a`. */
static size_t edit_distance(const char *a, const char *b) {
	size_t rows[3][WORD_MAX + 1];
	size_t *before = rows[0], *last = rows[1], *now = rows[2];
	size_t a_len = strlen(a), b_len = strlen(b);

	if (a_len > WORD_MAX || b_len > WORD_MAX)
		return WORD_MAX;
	for (size_t j = 0; j <= b_len; j++)
		last[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		now[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
			if (last[j] + 1 < best)
				best = last[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			        before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			now[j] = best;
		}
		size_t *free_row = before;
		before = last;
		last = now;
		now = free_row;
	}
	return last[b_len];
}

/* Small is near; so is a beginning of the word. */
static size_t badness(const char *word, const char *candidate) {
	size_t len = strlen(word);

	if (len >= 2 && !strncmp(word, candidate, len))
		return 1;
	size_t distance = edit_distance(word, candidate);
	return distance <= 1 + len / 4 ? distance : WORD_MAX;
}

const char *suggest_word(const char *word, const char *const *words) {
	const char *best = NULL;
	size_t best_badness = WORD_MAX;

	for (; *words; words++) {
		size_t one = badness(word, *words);
		if (one < best_badness) {
			best_badness = one;
			best = *words;
		}
	}
	return best;
}

/* ---- One command line -----------------------------------------------------------------------*/

struct reading {
	const struct command *command;
	take_option_fn take;
	void *ctx;
	struct parsed *parsed;
	int argc;
	char **argv;
	int next; /* the argument to read next */
	bool grouped;
	const struct option_row *seen[GROUPS_MAX];
	const struct option_row *seen_talk;
};

/* Every row that the command knows, its own first. */
static const struct option_row *next_row(
        const struct command *command, const struct option_row *row, int *step) {
	static const struct option_row none = { NULL, 0, NULL, NULL, 0, 0 };

	if (!row)
		row = command->options ? command->options : &none;
	else
		row++;
	while (row && !row->name)
		row = common_options_next(command->common, step);
	return row;
}

static const struct option_row *find_long(const struct command *command, const char *name, size_t len) {
	int step = 0;

	for (const struct option_row *row = NULL; (row = next_row(command, row, &step)) != NULL;) {
		if (strlen(row->name) == len && !memcmp(row->name, name, len))
			return row;
	}
	return NULL;
}

static const struct option_row *find_letter(const struct command *command, char letter) {
	int step = 0;

	for (const struct option_row *row = NULL; (row = next_row(command, row, &step)) != NULL;) {
		if (row->letter == letter)
			return row;
	}
	return NULL;
}

static bool is_common(const struct command *command, const struct option_row *row) {
	const struct option_row *own = command->options;

	for (; own && own->name; own++) {
		if (own == row)
			return false;
	}
	return true;
}

static int unknown_long(const struct command *command, const char *name) {
	const char *names[WORD_MAX + 1];
	size_t count = 0;
	int step = 0;

	for (const struct option_row *row = NULL; (row = next_row(command, row, &step)) != NULL;) {
		if (count < WORD_MAX)
			names[count++] = row->name;
	}
	names[count] = NULL;
	const char *near = suggest_word(name, names);
	if (near)
		return usage_error(command, "no such option: --%s; did you mean --%s?", name, near);
	return usage_error(command, "no such option: --%s", name);
}

/* Is `value` one of the words in "a|b|c"? */
static bool is_allowed(const char *allowed, const char *value) {
	size_t len = strlen(value);

	for (const char *one = allowed; one; one = strchr(one, '|') ? strchr(one, '|') + 1 : NULL) {
		if (strcspn(one, "|") == len && !memcmp(one, value, len))
			return true;
	}
	return false;
}

static int take_common(struct reading *reading, const struct option_row *row, char *value) {
	struct common_options *common = &reading->parsed->common;

	switch ((enum common_id)row->id) {
	case ID_SERVER:
		common->server = value;
		break;
	case ID_NAMESPACE:
		common->name_space = value;
		break;
	case ID_DIALECT:
		common->dialect = value;
		break;
	case ID_PASSWORD_FILE:
		common->password_file = value;
		break;
	case ID_JSON:
		common->json = true;
		break;
	case ID_COLOR:
		common->color = !strcmp(value, "always")  ? COLOR_ALWAYS
		                : !strcmp(value, "never") ? COLOR_NEVER
		                                          : COLOR_AUTO;
		break;
	case ID_QUIET:
		common->quiet = true;
		break;
	case ID_VERBOSE:
		common->verbose = true;
		break;
	case ID_HELP:
		print_command_help(reading->command, stdout);
		return 0;
	}
	return OPTIONS_OK;
}

static int take_row(struct reading *reading, const struct option_row *row, char *value) {
	bool common = is_common(reading->command, row);

	if (row->value && strchr(row->value, '|') && !is_allowed(row->value, value))
		return usage_error(
		        reading->command, "--%s %s: must be one of %s", row->name, value, row->value);
	if (row->group > 0 && row->group < GROUPS_MAX) {
		const struct option_row **seen = common ? &reading->seen_talk : &reading->seen[row->group];
		if (*seen && (*seen)->id != row->id)
			return usage_error(reading->command,
			        "--%s and --%s contradict each other: give one of them", (*seen)->name,
			        row->name);
		*seen = row;
	}
	if (common)
		return take_common(reading, row, value);
	return reading->take(reading->ctx, row, value);
}

/* The value of an option that stands alone: the next argument. */
static int take_with_next(struct reading *reading, const struct option_row *row, const char *shown) {
	if (reading->next >= reading->argc)
		return usage_error(reading->command, "%s lacks its value: %s %s", shown, shown, row->value);
	return take_row(reading, row, reading->argv[reading->next++]);
}

static int read_long(struct reading *reading, char *argument) {
	char *name = argument + 2;
	char *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const struct option_row *row = find_long(reading->command, name, len);

	if (!row) {
		if (equals)
			*equals = '\0';
		return unknown_long(reading->command, name);
	}
	if (!row->value) {
		if (equals)
			return usage_error(reading->command, "--%s takes no value", row->name);
		return take_row(reading, row, NULL);
	}
	return equals ? take_row(reading, row, equals + 1) : take_with_next(reading, row, argument);
}

static int read_letters(struct reading *reading, char *argument) {
	for (char *letter = argument + 1; *letter; letter++) {
		const struct option_row *row = find_letter(reading->command, *letter);
		const char shown[] = { '-', *letter, '\0' };
		int code;

		if (!row)
			return usage_error(reading->command, "no such option: -%c", *letter);
		if (row->value)
			return letter[1] ? take_row(reading, row, letter + 1)
			                 : take_with_next(reading, row, shown);
		code = take_row(reading, row, NULL);
		if (code != OPTIONS_OK)
			return code;
	}
	return OPTIONS_OK;
}

int options_parse(const struct command *command, int argc, char **argv, take_option_fn take, void *ctx,
        struct parsed *ret) {
	struct reading reading = { .command = command,
		.take = take,
		.ctx = ctx,
		.parsed = ret,
		.argc = argc,
		.argv = argv,
		.next = 1 };
	int count = 0;

	memset(ret, 0, sizeof(*ret));
	while (reading.next < argc) {
		char *argument = argv[reading.next++];
		bool is_option = argument[0] == '-' && argument[1];
		int code = OPTIONS_OK;

		if (!strcmp(argument, "--") || (!is_option && command->stops_at_word)) {
			/* The rest are words, as they are. */
			reading.next -= is_option ? 0 : 1;
			while (reading.next < argc)
				argv[1 + count++] = argv[reading.next++];
			break;
		}
		/* Words move to the front, to places that have been read. */
		if (!is_option)
			argv[1 + count++] = argument;
		else if (argument[1] == '-')
			code = read_long(&reading, argument);
		else
			code = read_letters(&reading, argument);
		if (code != OPTIONS_OK)
			return code;
	}
	if (1 + count < argc)
		argv[1 + count] = NULL;
	ret->words = argv + 1;
	ret->word_count = count;
	return OPTIONS_OK;
}

int options_words(
        const struct command *command, const struct parsed *parsed, int min, int max, const char *names) {
	if (parsed->word_count < min)
		return usage_error(
		        command, "%s is missing: sneck %s %s", names, command->name, command->synopsis);
	if (parsed->word_count > max)
		return usage_error(command, "\"%s\" is too much: sneck %s %s", parsed->words[max],
		        command->name, command->synopsis);
	return OPTIONS_OK;
}

/* ---- Values ---------------------------------------------------------------------------------*/

int option_duration(
        const struct command *command, const struct option_row *row, const char *value, int64_t *ret_ms) {
	if (parse_duration(value, ret_ms))
		return OPTIONS_OK;
	return usage_error(
	        command, "--%s \"%s\": not a time; write 500ms, 1.5, 10s, 2m, 1h or 1d", row->name, value);
}

int option_number(const struct command *command, const struct option_row *row, const char *value, int min,
        int max, int *ret) {
	size_t len = strlen(value);
	long number = strtol(value, NULL, 10);

	if (len == 0 || len > 9 || strspn(value, "0123456789") != len || number < min || number > max)
		return usage_error(
		        command, "--%s \"%s\": must be a number from %d to %d", row->name, value, min, max);
	*ret = (int)number;
	return OPTIONS_OK;
}
