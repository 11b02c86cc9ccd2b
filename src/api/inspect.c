/* SPDX-License-Identifier: MIT */
/* Looking at locks, and breaking them. These calls take nothing and wait for nobody. */
#include "api/api.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "client/break.h"
#include "client/look.h"

enum { PARTIES_DEFAULT = 1000, PARTIES_MAX = 10000 };

static int enter(sneck_client *client, sneck_error *reterr) {
	return snecki_client_enter(client, snecki_after_ms(snecki_now_ns(), client->command_ms), reterr);
}

int sneck_inspect(sneck_client *client, const void *name, size_t name_len, size_t max_parties,
        sneck_lock_info **ret_info, sneck_error *reterr) {
	if (!client || !ret_info)
		return snecki_err(reterr, SNECK_EINVAL, "%s is NULL", client ? "ret_info" : "client");
	int r = snecki_check_name(client, name, name_len, reterr);
	if (r < 0 || (r = enter(client, reterr)) < 0)
		return r;
	if (max_parties == 0)
		max_parties = PARTIES_DEFAULT;
	if (max_parties > PARTIES_MAX)
		max_parties = PARTIES_MAX;
	r = snecki_look(client, name, name_len, max_parties, ret_info, reterr);
	snecki_client_leave(client);
	return r;
}

void sneck_lock_info_free(sneck_lock_info *info) {
	snecki_lock_info_free(info);
}

int sneck_list(sneck_client *client, const char *pattern, sneck_lock_list **ret_list, sneck_error *reterr) {
	if (!client || !ret_list)
		return snecki_err(reterr, SNECK_EINVAL, "%s is NULL", client ? "ret_list" : "client");
	int r = enter(client, reterr);
	if (r < 0)
		return r;
	r = snecki_look_list(client, pattern, ret_list, reterr);
	snecki_client_leave(client);
	return r;
}

void sneck_lock_list_free(sneck_lock_list *list) {
	snecki_lock_list_free(list);
}

static int check_break(sneck_client *client, const char *id, int64_t grace_ms, sneck_error *reterr) {
	if (strnlen(id, LOCK_ID_MAX) >= LOCK_ID_MAX || !client->dialect->check_party_id(id))
		return snecki_err(reterr, SNECK_EINVAL,
		        "this is not an id of a hold or a wait; sneck_inspect tells them");
	if (grace_ms < 0 || grace_ms > SNECK_LEASE_MAX_MS)
		return snecki_err(reterr, SNECK_EINVAL, "grace_ms is %lld; use 0 (at once) to %d",
		        (long long)grace_ms, SNECK_LEASE_MAX_MS);
	if (grace_ms > 0 && client->dialect->traits.polls)
		return snecki_err(reterr, SNECK_ENOTSUP,
		        "%s has no place for a grace: grace_ms 0 (sneck break --now) ends it at once",
		        client->dialect->name);
	return 0;
}

int sneck_break(sneck_client *client, const void *name, size_t name_len, const char *id, const char *reason,
        int64_t grace_ms, sneck_error *reterr) {
	if (!client || !id)
		return snecki_err(reterr, SNECK_EINVAL, "%s is NULL", client ? "id" : "client");
	int r = snecki_check_name(client, name, name_len, reterr);
	if (r < 0 || (r = check_break(client, id, grace_ms, reterr)) < 0 || (r = enter(client, reterr)) < 0)
		return r;
	r = snecki_break(client, name, name_len, id, reason, grace_ms, reterr);
	snecki_client_leave(client);
	return r;
}
