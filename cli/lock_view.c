/* SPDX-License-Identifier: MIT */
/* What people are told about a lock that somebody has: who, where, what they do with it, since when,
 * for how long yet, who else waits, and what to type next. */
#include "lock_view.h"

#include <string.h>
#include <unistd.h>

#include "session.h"
#include "talk.h"

const char *mode_name(int mode) {
	return mode == SNECK_WRITE ? "write" : mode == SNECK_READ ? "read" : "free";
}

void add_party(struct text *text, const sneck_party *party) {
	if (!party->host[0] && !party->user[0]) {
		text_add_safe(text, party->session, strlen(party->session));
		return;
	}
	if (party->user[0]) {
		text_add_safe(text, party->user, strlen(party->user));
		text_add(text, "@");
	}
	text_add_safe(text, party->host, strlen(party->host));
	if (party->pid > 0)
		text_add(text, ":%d", (int)party->pid);
}

int64_t party_age_ms(const sneck_lock_info *info, const sneck_party *party) {
	if (party->since_ms <= 0)
		return -1;
	return info->server_ms > party->since_ms ? info->server_ms - party->since_ms : 0;
}

const sneck_party *first_holder(const sneck_lock_info *info) {
	return info->party_n > 0 && info->parties[0].kind == SNECK_PARTY_HOLDER ? &info->parties[0] : NULL;
}

static const sneck_party *first_waiter(const sneck_lock_info *info) {
	for (size_t i = 0; i < info->party_n; i++) {
		if (info->parties[i].kind != SNECK_PARTY_HOLDER)
			return &info->parties[i];
	}
	return NULL;
}

/* ---- Refused --------------------------------------------------------------------------------*/

static void add_line(struct text *text, const char *label, const char *value) {
	text_add(text, "  %-9s", label);
	text_add_safe(text, value, strlen(value));
	text_add(text, "\n");
}

static void add_holder(struct text *text, const sneck_lock_info *info, const sneck_party *holder) {
	char time[40], duration[32];
	int64_t age_ms = party_age_ms(info, holder);

	text_add(text, "  %-9s", "who:");
	if (holder->user[0]) {
		text_add_safe(text, holder->user, strlen(holder->user));
		text_add(text, " on ");
	}
	text_add_safe(text, holder->host[0] ? holder->host : holder->session,
	        strlen(holder->host[0] ? holder->host : holder->session));
	if (holder->pid > 0)
		text_add(text, ", pid %d", (int)holder->pid);
	if (info->holder_n > 1)
		text_add(text, " and %zu more", info->holder_n - 1);
	text_add(text, "\n");
	if (holder->command[0])
		add_line(text, "command:", holder->command);
	if (holder->note[0])
		add_line(text, "note:", holder->note);
	if (age_ms >= 0)
		text_add(text, "  %-9s%s (%s)\n", "since:", show_time(holder->since_ms, time),
		        show_duration(age_ms, duration));
	text_add(text, "  %-9s%s left, unless it is %s\n",
	        "lease:", show_duration(holder->lease_left_ms, duration),
	        holder->lingers ? "taken again; it is not in use, and being asked for" : "renewed");
	add_line(text, "id:", holder->id);
}

static void add_waiters(struct text *text, const sneck_lock_info *info) {
	const sneck_party *first = first_waiter(info);
	char duration[32];

	text_add(text, "  %-9s%zu", "waiting:", info->waiter_n);
	if (first && party_age_ms(info, first) >= 0)
		text_add(text, " (the first for %s)", show_duration(party_age_ms(info, first), duration));
	text_add(text, "\n");
}

static void add_hints(struct text *text, const sneck_lock_info *info, const sneck_party *holder) {
	struct text name = { 0 };

	text_add_shell(&name, info->name, info->name_len);
	text_add(text, "  %-9ssneck run -w 10m %s …   wait for it\n", "next:", text_of(&name));
	text_add(text, "  %-9ssneck show %s           everyone who holds it or waits\n", "", text_of(&name));
	if (holder)
		text_add(text, "  %-9ssneck break %s --id %s -m 'why'\n", "", text_of(&name), holder->id);
	text_free(&name);
}

void print_busy(const sneck_lock_info *info, FILE *out, bool color) {
	const sneck_party *holder = first_holder(info);
	struct text text = { 0 };
	char name[SHOWN_MAX];

	text_add(&text, "%ssneck: %s is held%s%s\n", color ? "\033[1m" : "",
	        quote_name(info->name, info->name_len, name), info->mode == SNECK_READ ? " by readers" : "",
	        color ? "\033[0m" : "");
	if (holder)
		add_holder(&text, info, holder);
	else
		text_add(&text, "  %-9snobody; it is passing to the first who waits\n", "who:");
	add_waiters(&text, info);
	add_hints(&text, info, holder);
	fputs(text_of(&text), out);
	fflush(out);
	text_free(&text);
}

void tell_busy(const struct session *session, const void *name, size_t name_len, int code, const char *text) {
	sneck_lock_info *info = NULL;
	char shown[SHOWN_MAX];

	if (sneck_inspect(session->client, name, name_len, 16, &info, NULL) == 0 &&
	        (info->holder_n > 0 || info->waiter_n > 0))
		print_busy(info, stderr, use_color(session->common->color, stderr));
	else if (text[0])
		talk("%s", text);
	else
		talk("%s: %s", quote_name(name, name_len, shown), sneck_strerror(code));
	sneck_lock_info_free(info);
}
