/* SPDX-License-Identifier: MIT */
/* Help texts, made from the tables of commands, options and exit codes; and the topics that belong
 * to no command. */
#include "help.h"

#include <string.h>

#include "command.h"
#include "exit.h"
#include "options.h"

enum { OPTION_COLUMN = 32 };

/* "  -s, --shared, --read" and the like, padded, then the help. Returns the last row it covers. */
static const struct option_row *print_option(const struct option_row *row, FILE *out) {
	int width = row->letter ? fprintf(out, "  -%c, --%s", row->letter, row->name)
	                        : fprintf(out, "      --%s", row->name);
	const char *help = row->help, *value = row->value;

	while (row[1].name && !row[1].help)
		width += fprintf(out, ", --%s", (++row)->name);
	if (value)
		width += fprintf(out, " %s", value);
	if (width >= OPTION_COLUMN)
		width = fprintf(out, "\n") - 1;
	fprintf(out, "%*s%s\n", OPTION_COLUMN - width, "", help);
	return row;
}

static void print_options(const struct option_row *rows, FILE *out) {
	for (const struct option_row *row = rows; row && row->name; row++)
		row = print_option(row, out);
}

static void print_lines(const char *const *lines, FILE *out) {
	for (; lines && *lines; lines++)
		fprintf(out, "%s\n", *lines);
}

void print_command_help(const struct command *command, FILE *out) {
	const struct option_row *rows;
	int step = 0;

	fprintf(out, "usage: sneck %s %s\n\n%s\n\n", command->name, command->synopsis, command->summary);
	for (const char *const *line = command->examples; line && *line; line++)
		fprintf(out, "  %s\n", *line);
	if (command->options && command->options->name) {
		fputs("\nOptions:\n", out);
		print_options(command->options, out);
	}
	fputs("\nCommon options:\n", out);
	while ((rows = common_options_next(command->common, &step)) != NULL)
		print_options(rows, out);
	if (command->notes)
		fputs("\n", out);
	print_lines(command->notes, out);
}

static void print_exit_codes(FILE *out) {
	fputs("Exit status: that of the command that was run, 128+N when signal N ended it, or\n", out);
#define EXIT_LINE_(name, number, text) fprintf(out, "  %3d  %s\n", number, text);
	EXIT_MAP(EXIT_LINE_)
#undef EXIT_LINE_
}

void print_help(FILE *out) {
	fputs("sneck: locks that many processes on many machines share\n\n"
	      "  sneck run backup -- tar cf /srv/backup.tar /home       wait for \"backup\", then run\n"
	      "  sneck run -n backup -- true || echo somebody is at it  do not wait\n"
	      "  sneck run -s site -- rsync -a /srv/site host:          shared with other readers\n\n"
	      "Commands:\n",
	        out);
	for (const struct command *const *command = commands; *command; command++)
		fprintf(out, "  %-11s %s\n", (*command)->name, (*command)->summary);
	fputs("\n  sneck COMMAND --help, sneck help TOPIC (exit-codes, cron, environment), sneck "
	      "--version\n\n",
	        out);
	print_exit_codes(out);
}

/* ---- Topics ---------------------------------------------------------------------------------*/

static const char *const cron_lines[] = {
	"A job that runs on several machines, or longer than its interval:",
	"",
	"  SNECK_URL=redis://cache-1",
	"  */5 * * * * sneck run --skip --min-hold 30s report -- /usr/local/bin/report",
	"",
	"--skip: when another one is at it, end quietly with 0, so cron sends no mail.",
	"--min-hold: a job that takes less time than the machines' clocks differ would run twice; keep the",
	"lock for 30 s at least.",
	"--max-hold: stop a job that hangs, and exit with 124.",
	"Passwords: put `url = …` into ~/.config/sneck/config with mode 0600, not into the crontab.",
	NULL,
};

static const char *const environment_lines[] = {
	"sneck reads:",
	"  SNECK_URL, REDIS_URL   the server, when --server does not name it",
	"  SNECK_ACK              how many replicas must have a lock before it counts, when --ack is not "
	"given",
	"  SNECK_DIALECT          the layout on the server, when neither --dialect nor the URL names it",
	"  SNECK_PASSWORD_FILE    the server's password is the first line of this file",
	"  SNECK_SENTINEL_PASSWORD_FILE",
	"                         the sentinels' own password is the first line of this file",
	"  REDISCLI_AUTH          the server's password, when the URL has none",
	"  SNECK_LOCAL_DIR        the directory of the private server behind local:",
	"  NO_COLOR               no colours, unless --color=always",
	"  HOME                   where .config/sneck/config is: url, namespace, dialect, lease as `key "
	"= value` lines",
	"  XDG_CACHE_HOME         where sneck notes which servers it has looked at, instead of ~/.cache",
	"",
	"The command under `sneck run` finds:",
	"  SNECK_NAME             the lock",
	"  SNECK_ID               the hold's id, for sneck break and the server's records",
	"  SNECK_TOKEN            the fencing token: larger than that of every earlier holder; not set "
	"where there is none",
	"  SNECK_MODE             write or read",
	"  SNECK_SERVER           the server's URL without user and password",
	"  SNECK_HELD             all locks that this command and those around it run under; see --reentrant",
	NULL,
};

/* For programs: command, letter, name, value, separated by tabs. */
static void print_option_table(FILE *out) {
	for (const struct command *const *one = commands; *one; one++) {
		const struct option_row *rows = (*one)->options;
		int step = 0;
		do {
			for (; rows && rows->name; rows++)
				fprintf(out, "%s\t%c\t%s\t%s\n", (*one)->name,
				        rows->letter ? rows->letter : '-', rows->name,
				        rows->value ? rows->value : "-");
		} while ((rows = common_options_next((*one)->common, &step)) != NULL);
	}
}

static const char *const topics[] = { "exit-codes", "cron", "environment", "options", NULL };

static int print_topic(const struct command *self, const char *topic) {
	const char *words[64];
	size_t count = 0;
	const struct command *command = find_command(topic);

	if (command) {
		print_command_help(command, stdout);
	} else if (!strcmp(topic, "exit-codes")) {
		print_exit_codes(stdout);
	} else if (!strcmp(topic, "cron")) {
		print_lines(cron_lines, stdout);
	} else if (!strcmp(topic, "environment")) {
		print_lines(environment_lines, stdout);
	} else if (!strcmp(topic, "options")) {
		print_option_table(stdout);
	} else {
		for (const char *const *one = topics; *one; one++)
			words[count++] = *one;
		for (const struct command *const *one = commands; *one && count < 63; one++)
			words[count++] = (*one)->name;
		words[count] = NULL;
		const char *near = suggest_word(topic, words);
		if (near)
			return usage_error(self, "no such topic: %s; did you mean %s?", topic, near);
		return usage_error(self, "no such topic: %s", topic);
	}
	return 0;
}

static int help_main(const struct command *self, int argc, char **argv) {
	struct parsed parsed;
	int code = options_parse(self, argc, argv, NULL, NULL, &parsed);

	if (code == OPTIONS_OK)
		code = options_words(self, &parsed, 0, 1, "TOPIC");
	if (code != OPTIONS_OK)
		return code;
	if (parsed.word_count == 1)
		return print_topic(self, parsed.words[0]);
	print_help(stdout);
	return 0;
}

static const char *const examples[] = {
	"sneck help cron          how to write a crontab line",
	"sneck help exit-codes    what the numbers mean",
	"sneck help run           the same as sneck run --help",
	NULL,
};

static const char *const notes[] = {
	"Topics: exit-codes, cron, environment, options (the table of all options, for programs), and each",
	"command.",
	NULL,
};

const struct command command_help = {
	.name = "help",
	.synopsis = "[TOPIC]",
	.summary = "Explain a command or a topic.",
	.examples = examples,
	.notes = notes,
	.word = WORD_CHOICE,
	.choices = topics,
	.main = help_main,
};
