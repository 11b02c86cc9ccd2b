/* SPDX-License-Identifier: MIT */
/* sneck acl: the rule that makes a user who may do what a role needs and nothing else. */
#include <stdio.h>
#include <string.h>

#include "lock_view.h"
#include "looking.h"
#include "rights.h"
#include "server_url.h"
#include "talk.h"

enum { ID_ROLE = 1, ID_USER, ID_ACK };

struct acl_options {
	sneck_role role;
	const char *user; /* NULL: sneck-ROLE */
	bool ack;
};

static const struct option_row options[] = {
	{ "role", 0, ROLE_VALUES, "who takes locks, looks at them, or breaks them (default: holder)", ID_ROLE,
	        0 },
	{ "user", 0, "NAME", "what the user is called (default: sneck-ROLE)", ID_USER, 0 },
	{ "ack", 0, NULL, "a holder who asks replicas (run --ack)", ID_ACK, 0 },
	{ NULL, 0, NULL, NULL, 0, 0 },
};

static int take(void *ctx, const struct option_row *row, char *value) {
	struct acl_options *acl = ctx;

	if (row->id == ID_ROLE)
		acl->role = role_of(value);
	else if (row->id == ID_ACK)
		acl->ack = true;
	else
		acl->user = value;
	return OPTIONS_OK;
}

static void add_rule(struct text *rule, const struct session *session, const struct acl_options *acl,
        const sneck_probe_info *info) {
	struct text allowed = { 0 };

	text_add(rule, "ACL SETUSER ");
	if (acl->user)
		text_add_safe(rule, acl->user, strlen(acl->user));
	else
		text_add(rule, "sneck-%s", role_name(acl->role));
	/* `reset` first: what the user could do before, and what new users can do on this server, goes. */
	text_add(rule, " reset on >PASSWORD ");
	add_places(rule, session, acl->role);
	add_commands(&allowed, info->needs[acl->role]);
	/* Locks do not need it, but without it nobody is warned of a server that drops them. */
	if (acl->role == SNECK_ROLE_HOLDER)
		add_commands(&allowed, "info");
	if (acl->ack && acl->role == SNECK_ROLE_HOLDER)
		add_commands(&allowed, "wait");
	text_add(rule, " %s%s", text_of(&allowed), selects_database(session) ? " +select" : "");
	text_free(&allowed);
}

static int print_rule(
        const struct looking *looking, const struct acl_options *acl, const sneck_probe_info *info) {
	bool sentinels = server_url_is_sentinel(looking->session.settings.url);
	struct text rule = { 0 }, sentinel_rule = { 0 };
	int code = 0;

	add_rule(&rule, &looking->session, acl, info);
	if (sentinels)
		add_sentinel_rule(&sentinel_rule, acl->user ? acl->user : "sneck");
	if (looking->parsed.common.json) {
		json_t *json = json_head(&looking->session);
		json_object_set_new(json, "role", json_string(role_name(acl->role)));
		json_object_set_new(
		        json, "version", info->version[0] ? json_text(info->version) : json_null());
		json_object_set_new(json, "rule", json_text(text_of(&rule)));
		if (sentinels)
			json_object_set_new(json, "sentinel_rule", json_text(text_of(&sentinel_rule)));
		code = print_json(json);
	} else {
		puts(text_of(&rule));
		if (sentinels)
			puts(text_of(&sentinel_rule));
		if (sentinels && !looking->parsed.common.quiet)
			talk("the first is for every server of the service, replicas too, the second for "
			     "every "
			     "sentinel: neither tells another");
		if (server_url_is_cluster(looking->session.settings.url) && !looking->parsed.common.quiet)
			talk("it is for every node of the cluster, replicas too: none tells another");
		if (!looking->parsed.common.quiet)
			talk("type this into redis-cli, with a password of your own instead of PASSWORD; "
			     "ACL SAVE keeps it");
	}
	text_free(&rule);
	text_free(&sentinel_rule);
	return code;
}

static int acl_main(const struct command *self, int argc, char **argv) {
	struct acl_options acl = { SNECK_ROLE_HOLDER, NULL, false };
	struct looking looking;
	sneck_probe_info info = SNECK_PROBE_INFO_INIT;
	sneck_error error = { 0, 0, "", "" };

	int code = looking_begin(&looking, self, argc, argv, take, &acl, 0, false);
	if (code == OPTIONS_OK) {
		info.wanted = SNECK_PROBE_SERVER;
		int r = sneck_probe(looking.session.client, &info, &error);
		code = r == 0 ? print_rule(&looking, &acl, &info) : looking_failed(&looking, r, &error);
	}
	session_close(&looking.session);
	return code;
}

static const char *const examples[] = {
	"sneck acl                       for programs that take locks",
	"sneck acl --role viewer         for those who may only look",
	"sneck acl --role operator       for those who may break them",
	NULL,
};

static const char *const notes[] = {
	"The rule allows what this version of sneck calls on this version of the server, on the keys and",
	"channels of --namespace, and nothing else. `sneck doctor --role ROLE` says what a user lacks. "
	"Holders",
	"work without +info, but are not warned of a server that may drop locks.",
	NULL,
};

const struct command command_acl = {
	.name = "acl",
	.synopsis = "[--role " ROLE_VALUES "] [--user NAME] [--ack]",
	.summary = "Print the ACL rule with the least rights that a role needs.",
	.examples = examples,
	.notes = notes,
	.options = options,
	.common = COMMON_SERVER | COMMON_TALK | COMMON_JSON,
	.main = acl_main,
};
