/* SPDX-License-Identifier: MIT */
/* The client's side of the public interface: open, close, events, counters. */
#include "client/client.h"

#include <string.h>

#include "base/err.h"
#include "base/options.h"
#include "topology/local.h"

int sneck_open(const char *url, const sneck_client_options *options, sneck_client **ret_client,
        sneck_error *reterr) {
	sneck_client_options loaded;

	if (!url || !ret_client)
		return snecki_err(reterr, SNECK_EINVAL, "%s is NULL", url ? "ret_client" : "url");
	if (snecki_options_load(&loaded, sizeof loaded, options) < 0)
		return snecki_err(reterr, SNECK_EINVAL,
		        "sneck_client_options: start from SNECK_CLIENT_OPTIONS_INIT; fields unknown to this "
		        "version (%s) must be zero",
		        SNECK_VERSION);
	return snecki_client_open(url, &loaded, ret_client, reterr);
}

void sneck_close(sneck_client *client) {
	if (!client)
		return;
	if (snecki_client_forked(client))
		snecki_client_abandon(client);
	else
		snecki_client_close(client);
}

int sneck_local_socket(char *ret_path, size_t size, sneck_error *reterr) {
	if (!ret_path)
		return snecki_err(reterr, SNECK_EINVAL, "ret_path is NULL");
	return snecki_local_socket(ret_path, size, reterr);
}

const char *sneck_client_session(const sneck_client *client) {
	return client ? client->session_id : NULL;
}

int sneck_client_fd(sneck_client *client) {
	if (!client)
		return SNECK_EINVAL;
	return snecki_client_forked(client) ? SNECK_EFORKED : client->event_fd;
}

int sneck_client_next_event(sneck_client *client, sneck_event *ret_event) {
	if (!client || !ret_event || ret_event->size < sizeof(size_t) + 2 * sizeof(int))
		return SNECK_EINVAL;
	if (snecki_client_forked(client))
		return SNECK_EFORKED;
	pthread_mutex_lock(&client->mutex);
	bool got = snecki_event_take(client, ret_event);
	pthread_mutex_unlock(&client->mutex);
	return got ? 1 : 0;
}

int sneck_stats(sneck_client *client, sneck_counters *ret_stats) {
	if (!client || !ret_stats || ret_stats->size < sizeof(size_t))
		return SNECK_EINVAL;
	if (snecki_client_forked(client))
		return SNECK_EFORKED;
	struct lock_core_counters core;
	struct conn_counters conn = { 0 };
	pthread_mutex_lock(&client->mutex);
	snecki_core_counters(client->core, &core);
	if (client->servers)
		snecki_servers_counters(client->servers, &conn);
	pthread_mutex_unlock(&client->mutex);
	size_t size = ret_stats->size < sizeof *ret_stats ? ret_stats->size : sizeof *ret_stats;
	sneck_counters stats = {
		.size = size,
		.commands = conn.commands,
		.acquires = core.acquires,
		.local_acquires = core.local_acquires,
		.handovers = core.handovers,
		.releases = core.releases,
		.refusals = core.refusals,
		.renewals = core.renewals,
		.renewal_failures = core.renewal_failures,
		.beats = core.beats,
		.grants_by_message = core.grants_by_message,
		.grants_by_beat = core.grants_by_beat,
		.losses = core.losses,
		.resends = core.resends,
		.connects = conn.connects,
		.disconnects = conn.disconnects,
		.holds = core.holds,
		.waiters = core.waiters,
		.retakes = core.retakes,
		.recalls = core.recalls,
	};
	memcpy(ret_stats, &stats, size);
	return 0;
}
