/* SPDX-License-Identifier: MIT */
/* ACL rules as text. Which allowed a role needs is the library's to say. */
#include "rights.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "server_url.h"
#include "session.h"

static const char *const names[SNECK_ROLES] = { "holder", "viewer", "operator" };

sneck_role role_of(const char *word) {
	for (int role = 0; role < SNECK_ROLES; role++) {
		if (!strcmp(names[role], word))
			return (sneck_role)role;
	}
	return SNECK_ROLE_HOLDER;
}

const char *role_name(sneck_role role) {
	return names[role];
}

/* Patterns of the server's: what means something in them is escaped. */
static void add_pattern(struct text *text, const char *name_space) {
	for (; *name_space; name_space++)
		text_add(text, "%s%c", strchr("*?[]\\^-", *name_space) ? "\\" : "", *name_space);
}

/* Other programs' layouts have keys before and behind the names, which may be any. */
static bool has_namespaces(const struct session *session) {
	const char *dialect = session->settings.dialect;

	return !dialect || !strcmp(dialect, "native");
}

void add_places(struct text *text, const struct session *session, sneck_role role) {
	const char *name_space = session->settings.name_space ? session->settings.name_space : "sneck";

	text_add(text, role == SNECK_ROLE_VIEWER ? "%%R~" : "~");
	if (!has_namespaces(session)) {
		text_add(text, role == SNECK_ROLE_VIEWER ? "*" : "* &*");
		return;
	}
	add_pattern(text, name_space);
	text_add(text, ":*");
	if (role == SNECK_ROLE_VIEWER)
		return; /* hears no messages */
	text_add(text, " &");
	add_pattern(text, name_space);
	/* A session's own channel; in a cluster one for each lock that it waits for, in the lock's slot. */
	text_add(text, server_url_is_cluster(session->settings.url) ? ":{*" : ":!*");
}

void add_commands(struct text *text, const char *allowed) {
	for (const char *word = allowed; *word;) {
		size_t len = strcspn(word, " ");
		text_add(text, "%s+%.*s", text->len ? " " : "", (int)len, word);
		word += len + (word[len] == ' ');
	}
}

bool selects_database(const struct session *session) {
	const char *database = server_url_database(session->settings.url_shown);

	return database && atoi(database) != 0;
}

void add_sentinel_rule(struct text *text, const char *user) {
	text_add(text, "ACL SETUSER ");
	text_add_safe(text, user, strlen(user));
	text_add(text, " reset on >PASSWORD &+switch-master +sentinel|master "
	               "+sentinel|get-master-addr-by-name +subscribe +unsubscribe");
}
