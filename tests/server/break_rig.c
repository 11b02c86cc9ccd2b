/* SPDX-License-Identifier: MIT */
/* See break_rig.h. */
#include "break_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wait.h"

static struct test_server *const server = &test_the_server;

sneck_client *rig_open_as(const char *user) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	options.who_user = user;
	options.session_host = "web1";
	sneck_client *client = NULL;
	sneck_error error = { 0 };
	assert_result(0, sneck_open(server->url, &options, &client, &error), &error);
	return client;
}

bool rig_listens(const char *session) {
	return test_channels(server, session) > 0;
}

void rig_await_listener(sneck_client *client) {
	assert_true(WAIT_UNTIL(rig_listens(sneck_client_session(client)), 5000));
}

const char *rig_id_of(sneck_client *client, const char *name, int kind, char out[SNECK_ID_MAX]) {
	sneck_lock_info *info = NULL;
	sneck_error error;
	assert_result(0, sneck_inspect(client, name, strlen(name), 0, &info, &error), &error);
	out[0] = '\0';
	for (size_t i = 0; i < info->party_n && !out[0]; i++)
		if (info->parties[i].kind == kind)
			memcpy(out, info->parties[i].id, SNECK_ID_MAX);
	sneck_lock_info_free(info);
	assert_true(out[0]);
	return out;
}

void rig_break_first(sneck_client *client, const char *name, int kind, int64_t grace_ms) {
	char id[SNECK_ID_MAX];
	sneck_error error;
	assert_result(0,
	        sneck_break(client, name, strlen(name), rig_id_of(client, name, kind, id), RIG_REASON,
	                grace_ms, &error),
	        &error);
}

bool rig_is_broken(const sneck_hold *hold) {
	return sneck_hold_state(hold) == SNECK_BROKEN;
}
