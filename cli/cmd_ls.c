/* SPDX-License-Identifier: MIT */
/* sneck ls: the locks that somebody holds or waits for. */
#include <stdio.h>
#include <string.h>

#include "lock_view.h"
#include "looking.h"
#include "table.h"
#include "talk.h"

enum { ID_NAMES = 1 };

static const struct option_row options[] = {
	{ "names", 0, NULL, "print the names alone, one per line", ID_NAMES, 0 },
	{ NULL, 0, NULL, NULL, 0, 0 },
};

static int take(void *ctx, const struct option_row *row, char *value) {
	bool *names = ctx;

	(void)value;
	*names = row->id == ID_NAMES;
	return OPTIONS_OK;
}

/* For programs that complete words: what can be typed stays as it is. */
static void print_names(const sneck_lock_list *list) {
	for (size_t i = 0; i < list->n; i++) {
		struct text text = { 0 };
		const sneck_lock_info *info = list->locks[i];
		text_add_safe(&text, info->name, info->name_len);
		if (strstr(text_of(&text), "\\x"))
			puts(text_of(&text));
		else
			printf("%.*s\n", (int)info->name_len, info->name);
		text_free(&text);
	}
}

static void add_text(struct table *table, struct text *text) {
	table_add(table, text_of(text));
	text_free(text);
}

static void add_lock(struct table *table, const sneck_lock_info *info) {
	const sneck_party *holder = first_holder(info);
	struct text name = { 0 }, who = { 0 }, wait = { 0 }, note = { 0 };
	char duration[32];

	text_add_safe(&name, info->name, info->name_len);
	add_text(table, &name);
	table_add(table, mode_name(info->mode));
	if (holder)
		add_party(&who, holder);
	else
		text_add(&who, "-");
	if (info->holder_n > 1)
		text_add(&who, " +%zu", info->holder_n - 1);
	add_text(table, &who);
	int64_t age_ms = holder ? party_age_ms(info, holder) : -1;
	table_add(table, holder && holder->lingers ? "lingers"
	                 : age_ms >= 0             ? show_duration(age_ms, duration)
	                                           : "-");
	table_add(table, holder ? show_duration(holder->lease_left_ms, duration) : "-");
	text_add(&wait, "%zu", info->waiter_n);
	add_text(table, &wait);
	/* What it is for; failing that, what runs. */
	const char *about = !holder ? "" : holder->note[0] ? holder->note : holder->command;
	text_add_safe(&note, about, strlen(about));
	add_text(table, &note);
}

static void print_table(const sneck_lock_list *list, bool color) {
	static const char *const headings[] = { "NAME", "MODE", "HOLDER", "HELD", "LEASE", "WAIT", "NOTE" };
	struct table table = { .columns = 7, .headings = headings };

	for (size_t i = 0; i < list->n; i++)
		add_lock(&table, list->locks[i]);
	table_print(&table, stdout, color);
	table_free(&table);
}

static int print_list(const struct looking *looking, const sneck_lock_list *list, bool names) {
	const struct common_options *common = &looking->parsed.common;

	if (common->json) {
		json_t *json = json_head(&looking->session), *locks = json_array();
		for (size_t i = 0; i < list->n; i++)
			json_array_append_new(locks, json_lock(list->locks[i]));
		json_object_set_new(json, "locks", locks);
		return print_json(json);
	}
	if (names)
		print_names(list);
	else if (list->n > 0)
		print_table(list, use_color(common->color, stdout));
	else if (!common->quiet)
		talk("nobody holds a lock%s on %s", looking->name ? " of that name" : "",
		        looking->session.settings.url_shown);
	return 0;
}

static int ls_main(const struct command *self, int argc, char **argv) {
	struct looking looking;
	bool names = false;
	sneck_lock_list *list = NULL;
	sneck_error error = { 0, 0, "", "" };

	int code = looking_begin(&looking, self, argc, argv, take, &names, 0, true);
	if (code == OPTIONS_OK) {
		int r = sneck_list(looking.session.client, looking.name, &list, &error);
		code = r == 0 ? print_list(&looking, list, names) : looking_failed(&looking, r, &error);
	}
	sneck_lock_list_free(list);
	session_close(&looking.session);
	return code;
}

static const char *const examples[] = {
	"sneck ls                 all of them",
	"sneck ls 'deploy/*'      those whose names match (*, ?, [a-z])",
	"sneck ls --json          for programs",
	NULL,
};

static const char *const notes[] = {
	"NAME, MODE (read, write), HOLDER (user@host:pid; +N: others beside it), HELD (since when; lingers: "
	"it",
	"is not in use, and given back when somebody asks), LEASE (until the server gives up on it unless it",
	"is heard of), WAIT (how many wait), NOTE (or the command).",
	"The server's keys are walked; locks that come and go meanwhile may be missing.",
	NULL,
};

const struct command command_ls = {
	.name = "ls",
	.synopsis = "[PATTERN]",
	.summary = "List the locks that somebody holds or waits for.",
	.examples = examples,
	.notes = notes,
	.options = options,
	.common = COMMON_SERVER | COMMON_TALK | COMMON_JSON,
	.word = WORD_LOCK,
	.main = ls_main,
};
