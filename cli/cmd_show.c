/* SPDX-License-Identifier: MIT */
/* sneck show: everything about one lock, and who waits for whom.
 *
 * A waiter waits for whoever is before it in the queue, and the first for those who hold. With --chain the
 * holders' own waits are followed through the other locks, which finds the circles in which nobody can go on:
 * that walks all locks of the server, and is asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock_view.h"
#include "looking.h"
#include "table.h"
#include "talk.h"

enum { ID_CHAIN = 1, PARTIES_MAX = 1000, CHAIN_MAX = 16 };

static const struct option_row options[] = {
	{ "chain", 0, NULL, "also say what the holders themselves wait for; walks all locks", ID_CHAIN, 0 },
	{ NULL, 0, NULL, NULL, 0, 0 },
};

static int take(void *ctx, const struct option_row *row, char *value) {
	bool *chain = ctx;

	(void)value;
	*chain = row->id == ID_CHAIN;
	return OPTIONS_OK;
}

/* ---- One lock -------------------------------------------------------------------------------*/

/* For whom the party at `index` waits. */
static void add_waits_for(struct text *text, const sneck_lock_info *info, size_t index) {
	const sneck_party *party = &info->parties[index], *before = index > 0 ? party - 1 : NULL;

	if (party->kind == SNECK_PARTY_HOLDER)
		text_add(text, "-");
	else if (before && before->kind != SNECK_PARTY_HOLDER)
		add_party(text, before);
	else if (info->holder_n > 1)
		text_add(text, "the %zu holders", info->holder_n);
	else if (first_holder(info))
		add_party(text, first_holder(info));
	else
		text_add(text, "-");
}

static void add_cell(struct table *table, const char *value) {
	struct text text = { 0 };

	text_add_safe(&text, value, strlen(value));
	table_add(table, text.len ? text_of(&text) : "-");
	text_free(&text);
}

static void add_row(struct table *table, const sneck_lock_info *info, size_t index, size_t place) {
	const sneck_party *party = &info->parties[index];
	struct text what = { 0 }, who = { 0 }, waits_for = { 0 };
	char duration[32];

	if (party->kind == SNECK_PARTY_HOLDER)
		text_add(&what, party->lingers ? "lingers" : "holds");
	else
		text_add(&what, "%s %zu", party->kind == SNECK_PARTY_UPGRADER ? "upgrade" : "wait", place);
	table_add(table, text_of(&what));
	table_add(table, mode_name(party->mode));
	add_party(&who, party);
	table_add(table, text_of(&who));
	int64_t age_ms = party_age_ms(info, party);
	table_add(table, age_ms >= 0 ? show_duration(age_ms, duration) : "-");
	table_add(table, show_duration(party->lease_left_ms, duration));
	add_waits_for(&waits_for, info, index);
	table_add(table, text_of(&waits_for));
	add_cell(table, party->id);
	add_cell(table, party->command);
	add_cell(table, party->note);
	text_free(&what);
	text_free(&who);
	text_free(&waits_for);
}

static void print_lock(const sneck_lock_info *info, bool color) {
	static const char *const headings[] = { "WHAT", "MODE", "WHO", "FOR", "LEASE", "WAITS FOR", "ID",
		"COMMAND", "NOTE" };
	struct table table = { .columns = 9, .headings = headings };
	char name[SHOWN_MAX], time[40];
	size_t place = 0;

	printf("%s: %s, %zu holding, %zu waiting", quote_name(info->name, info->name_len, name),
	        info->mode ? mode_name(info->mode) : "free", info->holder_n, info->waiter_n);
	if (info->token)
		printf(", last token %llu", (unsigned long long)info->token);
	printf(" (at %s)\n", show_time(info->server_ms, time));
	for (size_t i = 0; i < info->party_n; i++) {
		place += info->parties[i].kind != SNECK_PARTY_HOLDER;
		add_row(&table, info, i, place);
	}
	if (info->party_n > 0)
		table_print(&table, stdout, color);
	if (info->party_n < info->holder_n + info->waiter_n)
		printf("… and %zu more\n", info->holder_n + info->waiter_n - info->party_n);
	table_free(&table);
}

/* ---- Through other locks ---------------------------------------------------------------------*/

/* The lock that this session waits for; NULL: none. */
static const sneck_lock_info *waits_for(const sneck_lock_list *list, const char *session) {
	for (size_t i = 0; i < list->n; i++) {
		const sneck_lock_info *info = list->locks[i];
		for (size_t j = 0; j < info->party_n; j++) {
			if (info->parties[j].kind != SNECK_PARTY_HOLDER &&
			        !strcmp(info->parties[j].session, session))
				return info;
		}
	}
	return NULL;
}

/* One link after the other, the longest-lived holder of each lock, until someone waits for nothing or
 * a lock comes again. Returns the text's lines as an array of [who, lock]. */
static json_t *find_chain(const sneck_lock_list *list, const sneck_lock_info *from, bool *ret_circle) {
	const sneck_lock_info *seen[CHAIN_MAX] = { from };
	json_t *chain = json_array();

	*ret_circle = false;
	for (size_t n = 1; n < CHAIN_MAX; n++) {
		const sneck_party *holder = first_holder(seen[n - 1]);
		const sneck_lock_info *next = holder ? waits_for(list, holder->session) : NULL;
		if (!next)
			break;
		struct text who = { 0 };
		add_party(&who, holder);
		json_t *link = json_object();
		json_object_set_new(link, "holder", json_text(text_of(&who)));
		json_object_set_new(link, "id", json_text(holder->id));
		json_set_name(link, next->name, next->name_len);
		json_array_append_new(chain, link);
		text_free(&who);
		for (size_t i = 0; i < n; i++)
			*ret_circle |= seen[i]->name_len == next->name_len &&
			               !memcmp(seen[i]->name, next->name, next->name_len);
		if (*ret_circle)
			break;
		seen[n] = next;
	}
	return chain;
}

static void print_chain(const json_t *chain, bool circle) {
	size_t i;
	json_t *link;

	json_array_foreach(chain, i, link) {
		struct text name = { 0 };
		const json_t *lock = json_object_get(link, "name");
		text_add_safe(&name, json_string_value(lock), json_string_length(lock));
		printf("%s waits for \"%s\"\n", json_string_value(json_object_get(link, "holder")),
		        text_of(&name));
		text_free(&name);
	}
	if (circle)
		puts("a circle: none of them can go on; break one of these holds");
	else if (json_array_size(chain) == 0)
		puts("its holder waits for no other lock");
}

/* ---- The command ----------------------------------------------------------------------------*/

static int show(const struct looking *looking, const sneck_lock_info *info, const sneck_lock_list *list) {
	bool circle = false;
	json_t *chain = list ? find_chain(list, info, &circle) : NULL;

	if (looking->parsed.common.json) {
		json_t *json = json_head(&looking->session);
		json_object_set_new(json, "lock", json_lock(info));
		if (chain) {
			json_object_set_new(json, "chain", chain);
			json_object_set_new(json, "circle", json_boolean(circle));
		}
		return print_json(json);
	}
	print_lock(info, use_color(looking->parsed.common.color, stdout));
	if (chain)
		print_chain(chain, circle);
	json_decref(chain);
	return 0;
}

static int show_main(const struct command *self, int argc, char **argv) {
	struct looking looking;
	bool chain = false;
	sneck_lock_info *info = NULL;
	sneck_lock_list *list = NULL;
	sneck_error error = { 0, 0, "", "" };

	int code = looking_begin(&looking, self, argc, argv, take, &chain, 1, false);
	if (code == OPTIONS_OK)
		info = looking_inspect(&looking, PARTIES_MAX, &code);
	int r = info && chain ? sneck_list(looking.session.client, NULL, &list, &error) : 0;
	if (r < 0)
		code = looking_failed(&looking, r, &error);
	else if (info)
		code = show(&looking, info, list);
	sneck_lock_info_free(info);
	sneck_lock_list_free(list);
	session_close(&looking.session);
	return code;
}

static const char *const examples[] = {
	"sneck show deploy           who holds it, who waits and in which order",
	"sneck show --chain deploy   … and what its holder waits for itself",
	NULL,
};

static const char *const notes[] = {
	"A name that nobody has used is free. WAITS FOR names whoever must end first: the one before in the",
	"queue, or the holder. ID is what `sneck break` needs.",
	NULL,
};

const struct command command_show = {
	.name = "show",
	.synopsis = "[--chain] NAME",
	.summary = "Show a lock's holders and queue: order, age, token, lease, who waits for whom.",
	.examples = examples,
	.notes = notes,
	.options = options,
	.common = COMMON_SERVER | COMMON_TALK | COMMON_JSON,
	.word = WORD_LOCK,
	.main = show_main,
};
