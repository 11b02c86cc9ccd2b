/* SPDX-License-Identifier: MIT */
/* Locks as JSON. Times are RFC 3339 in UTC by the server's clock, durations are whole milliseconds and
 * end in _ms, what is unknown is null. */
#include <string.h>

#include "exit.h"
#include "lock_view.h"
#include "session.h"
#include "talk.h"

static json_t *set(json_t *object, const char *key, json_t *value) {
	json_object_set_new(object, key, value);
	return object;
}

json_t *json_text(const char *text) {
	struct text safe = { 0 };

	if (is_utf8(text, strlen(text)))
		return json_string(text);
	text_add_safe(&safe, text, strlen(text));
	json_t *json = json_string(text_of(&safe));
	text_free(&safe);
	return json;
}

/* Nothing, not an empty text. */
static json_t *known_text(const char *text) {
	return *text ? json_text(text) : json_null();
}

static json_t *known_time(int64_t unix_ms) {
	char text[40];

	return unix_ms > 0 ? json_string(show_time(unix_ms, text)) : json_null();
}

static json_t *known_number(int64_t number) {
	return number >= 0 ? json_integer(number) : json_null();
}

static void add_base64(struct text *text, const unsigned char *at, size_t len) {
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < len; i += 3) {
		unsigned long bits = (unsigned long)at[i] << 16 |
		                     (unsigned long)(i + 1 < len ? at[i + 1] : 0) << 8 |
		                     (unsigned long)(i + 2 < len ? at[i + 2] : 0);
		text_add(text, "%c%c%c%c", digits[bits >> 18], digits[bits >> 12 & 63],
		        i + 1 < len ? digits[bits >> 6 & 63] : '=', i + 2 < len ? digits[bits & 63] : '=');
	}
}

void json_set_name(json_t *object, const void *name, size_t name_len) {
	struct text safe = { 0 }, base64 = { 0 };

	if (is_utf8(name, name_len)) {
		set(object, "name", json_stringn(name, name_len));
		return;
	}
	text_add_safe(&safe, name, name_len);
	add_base64(&base64, name, name_len);
	set(object, "name", json_string(text_of(&safe)));
	set(object, "name_base64", json_string(text_of(&base64)));
	text_free(&safe);
	text_free(&base64);
}

json_t *json_head(const struct session *session) {
	const char *name_space = session->settings.name_space;
	json_t *head = set(json_object(), "schema", json_integer(JSON_SCHEMA));

	set(head, "server", json_text(session->settings.url_shown));
	return set(head, "namespace", json_text(name_space ? name_space : "sneck"));
}

json_t *json_party(const sneck_lock_info *info, const sneck_party *party) {
	bool holds = party->kind == SNECK_PARTY_HOLDER;
	json_t *json = set(json_object(), "id", json_text(party->id));

	set(json, "kind",
	        json_string(holds                                 ? "holder"
	                    : party->kind == SNECK_PARTY_UPGRADER ? "upgrader"
	                                                          : "waiter"));
	set(json, "mode", json_string(mode_name(party->mode)));
	set(json, "since", known_time(party->since_ms));
	set(json, holds ? "held_ms" : "waiting_ms", known_number(party_age_ms(info, party)));
	set(json, "lease_left_ms", json_integer(party->lease_left_ms));
	if (holds)
		set(json, "lingering", json_boolean(party->lingers));
	set(json, "user", known_text(party->user));
	set(json, "host", known_text(party->host));
	set(json, "pid", party->pid > 0 ? json_integer(party->pid) : json_null());
	set(json, "command", known_text(party->command));
	set(json, "note", known_text(party->note));
	return set(json, "session", json_text(party->session));
}

json_t *json_lock(const sneck_lock_info *info) {
	json_t *json = json_object(), *holders = json_array(), *waiters = json_array();

	json_set_name(json, info->name, info->name_len);
	set(json, "mode", json_string(mode_name(info->mode)));
	set(json, "token", info->token ? json_integer((json_int_t)info->token) : json_null());
	set(json, "time", known_time(info->server_ms));
	set(json, "holder_count", json_integer((json_int_t)info->holder_n));
	set(json, "waiter_count", json_integer((json_int_t)info->waiter_n));
	for (size_t i = 0; i < info->party_n; i++) {
		const sneck_party *party = &info->parties[i];
		json_array_append_new(
		        party->kind == SNECK_PARTY_HOLDER ? holders : waiters, json_party(info, party));
	}
	set(json, "holders", holders);
	return set(json, "waiters", waiters);
}

int print_json(json_t *json) {
	int r = json_dumpf(json, stdout, JSON_INDENT(2));

	json_decref(json);
	if (r == 0 && fputc('\n', stdout) != EOF && fflush(stdout) == 0)
		return 0;
	talk("cannot write the answer");
	return EXIT_INTERNAL;
}
