/* SPDX-License-Identifier: MIT */
/* Renewing and releasing a hold by its id alone, when no program keeps it. */
#include "api/api.h"

#include "base/clock.h"
#include "base/err.h"
#include "client/detached.h"

static int enter(
        sneck_client *client, const void *name, size_t name_len, const char *id, sneck_error *reterr) {
	int r;

	if (!client || !id)
		return snecki_err(reterr, SNECK_EINVAL, "%s is NULL", client ? "id" : "client");
	if ((r = snecki_check_name(client, name, name_len, reterr)) < 0 ||
	        (r = snecki_check_detached(client->dialect, id, reterr)) < 0)
		return r;
	return snecki_client_enter(client, snecki_after_ms(snecki_now_ns(), client->command_ms), reterr);
}

int sneck_renew_id(sneck_client *client, const void *name, size_t name_len, const char *id, int64_t lease_ms,
        uint64_t *ret_token, int64_t *ret_left_ms, sneck_error *reterr) {
	if (client && lease_ms == 0)
		lease_ms = client->lease_ms;
	int r = snecki_check_lease(lease_ms, true, reterr);
	if (r < 0 || (r = enter(client, name, name_len, id, reterr)) < 0)
		return r;
	r = snecki_renew_id(client, name, name_len, id, lease_ms, ret_token, ret_left_ms, reterr);
	snecki_client_leave(client);
	return r;
}

int sneck_release_id(
        sneck_client *client, const void *name, size_t name_len, const char *id, sneck_error *reterr) {
	int r = enter(client, name, name_len, id, reterr);

	if (r < 0)
		return r;
	r = snecki_release_id(client, name, name_len, id, reterr);
	snecki_client_leave(client);
	return r;
}
