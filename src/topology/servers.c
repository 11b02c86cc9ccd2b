/* SPDX-License-Identifier: MIT */
/* All nodes of a client: watching them, and the slots that each of them has.
 *
 * One node (nodes.c) with a place of its own, or with one that the sentinel names; or as many as the cluster
 * has primaries, made as the map names them. A node that has lost its slots stays, without anything being
 * sent to it, until the client ends: requests and threads may still refer to it.
 *
 * The map is written by the background thread alone, and read by everybody without a lock: a request that
 * goes to the wrong node comes back. */
#include "topology/servers.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "topology/sentinel.h"
#include "topology/servers_internal.h"

/* ---- The map ------------------------------------------------------------------------------------*/

struct change {
	struct servers *servers;
	struct node *to;
	bool moved;
};

static bool lies_at(void *ctx, const char *channel, size_t len) {
	const struct change *change = ctx;
	int slot = snecki_key_slot(channel, len);
	return atomic_load(&change->servers->owner[slot]) == change->to->index;
}

/* Channels follow their slots. */
static void move_topics(struct servers *servers) {
	unsigned n = atomic_load(&servers->node_n);

	pthread_mutex_lock(&servers->topics_mutex);
	for (unsigned i = 0; i < n; i++)
		for (unsigned j = 0; j < n; j++) {
			struct change change = { servers, snecki_node_at(servers, j), false };
			if (i != j)
				snecki_sub_move(
				        snecki_node_at(servers, i)->sub, change.to->sub, lies_at, &change);
		}
	if (servers->resubscribe)
		for (unsigned i = 0; i < n; i++)
			snecki_sub_again(snecki_node_at(servers, i)->sub);
	servers->resubscribe = false;
	pthread_mutex_unlock(&servers->topics_mutex);
}

/* True: a slot that somebody had is somebody else's now. */
static bool write_owners(struct servers *servers, const struct slot_range *ranges, size_t n) {
	uint16_t owner[SLOTS_N];
	bool has[NODES_MAX] = { false }, moved = false;

	memset(owner, 0xff, sizeof owner);
	for (size_t i = 0; i < n; i++) {
		struct node *node = snecki_node_find(servers, &ranges[i].at);
		if (!node)
			node = snecki_node_make(servers, &ranges[i].at);
		if (!node)
			continue;
		has[node->index] = true;
		for (unsigned slot = ranges[i].first; slot <= ranges[i].last; slot++)
			owner[slot] = (uint16_t)node->index;
	}
	for (unsigned i = 0; i < atomic_load(&servers->node_n); i++)
		atomic_store(&snecki_node_at(servers, i)->has_slots, has[i]);
	for (unsigned slot = 0; slot < SLOTS_N; slot++) {
		uint16_t before = atomic_exchange(&servers->owner[slot], owner[slot]);
		moved = moved || (before != owner[slot] && before != NODE_NONE);
	}
	return moved;
}

/* What waits for a node that cannot be reached goes where the map says now. */
static void recall(struct servers *servers) {
	struct list queued;

	for (unsigned i = 0; i < atomic_load(&servers->node_n); i++) {
		struct node *node = snecki_node_at(servers, i);
		if (!node->down)
			continue;
		snecki_conn_recall(node->conn, &queued);
		snecki_route_again(servers, &queued);
		snecki_acks_recall(node);
	}
}

static void connect_all(struct servers *servers) {
	pthread_mutex_lock(&servers->mutex);
	bool wanted = servers->wanted;
	servers->wanted = false;
	pthread_mutex_unlock(&servers->mutex);
	for (unsigned i = 0; wanted && i < atomic_load(&servers->node_n); i++)
		if (atomic_load(&snecki_node_at(servers, i)->has_slots))
			snecki_conn_want(snecki_node_at(servers, i)->conn);
}

static void on_map(void *ctx, const struct slot_range *ranges, size_t n) {
	struct servers *servers = ctx;
	bool moved = write_owners(servers, ranges, n);

	snecki_log(servers->config.log, LOG_DEBUG_, "cluster: %zu ranges of slots%s", n,
	        moved ? ", some have moved" : "");
	atomic_store(&servers->mapped, true);
	move_topics(servers);
	if (moved)
		recall(servers);
	if (atomic_load(&servers->known))
		snecki_route_run(servers, true, snecki_now_ns());
	else
		snecki_route_open(servers);
	connect_all(servers);
	if (moved)
		servers->config.on_up(servers->config.ctx, -1, snecki_now_ns());
}

static void on_map_fail(void *ctx, const struct sneck_error *why) {
	struct servers *servers = ctx;

	snecki_route_fail(servers, why, false);
	if (!atomic_load(&servers->known))
		servers->config.on_down(servers->config.ctx, why, true);
}

static void wake_for_map(void *ctx) {
	const struct servers_config *config = &((struct servers *)ctx)->config;
	config->wake_background(config->ctx);
}

static bool known_node(void *ctx, size_t i, struct endpoint *ret) {
	struct servers *servers = ctx;

	if (i >= atomic_load(&servers->node_n))
		return false;
	*ret = snecki_node_at(servers, (unsigned)i)->at;
	return true;
}

/* ---- Life ---------------------------------------------------------------------------------------*/

static void on_primary_change(void *ctx) {
	struct servers *servers = ctx;

	snecki_conn_look_again(snecki_node_at(servers, 0)->conn);
	snecki_acks_look_again(snecki_node_at(servers, 0));
	snecki_sub_look_again(snecki_node_at(servers, 0)->sub, snecki_now_ns());
}

static int make_sentinel(struct servers *servers) {
	const struct sentinel_config config = {
		.url = servers->config.url,
		.tls = servers->config.tls,
		.client_name = servers->config.client_name,
		.connect_ms =
		        servers->config.connect_ms / 2, /* there is another to ask, and the server to reach */
		.command_ms = servers->config.command_ms,
		.log = servers->config.log,
		.on_change = on_primary_change,
		.ctx = servers,
	};
	return snecki_sentinel_new(&config, &servers->sentinel);
}

static int make_slots(struct servers *servers) {
	const struct slots_config config = {
		.url = servers->config.url,
		.tls = servers->config.tls,
		.client_name = servers->config.client_name,
		.connect_ms = servers->config.connect_ms / 2,
		.command_ms = servers->config.command_ms / 2,
		.log = servers->config.log,
		.known = known_node,
		.on_map = on_map,
		.on_fail = on_map_fail,
		.wake_background = wake_for_map,
		.ctx = servers,
	};
	int r = snecki_slots_new(&config, &servers->slots);
	if (r < 0)
		return r;
	return snecki_node_make(servers, &config.url->seeds[0]) ? 0 : SNECK_ENOMEM;
}

int snecki_servers_new(const struct servers_config *config, struct servers **ret) {
	struct servers *servers = calloc(1, sizeof *servers);
	int r = 0;

	if (!servers)
		return SNECK_ENOMEM;
	servers->config = *config;
	servers->cluster = config->url->kind == URL_CLUSTER;
	servers->later_ns = NS_NEVER;
	snecki_list_init(&servers->later);
	pthread_mutex_init(&servers->mutex, NULL);
	pthread_mutex_init(&servers->topics_mutex, NULL);
	for (unsigned slot = 0; slot < SLOTS_N; slot++)
		atomic_init(&servers->owner[slot], NODE_NONE);
	if (servers->cluster)
		r = make_slots(servers);
	else if (config->url->kind == URL_SENTINEL)
		r = make_sentinel(servers);
	if (r == 0 && !servers->cluster && !snecki_node_make(servers, NULL))
		r = SNECK_ENOMEM;
	if (r < 0)
		snecki_servers_free(servers);
	else
		*ret = servers;
	return r;
}

void snecki_servers_close(struct servers *servers) {
	struct sneck_error why;

	snecki_err(&why, SNECK_ECLOSED, "the connection is being closed");
	snecki_route_fail(servers, &why, true);
	/* What is answered here may make something else be sent, to another node. */
	for (unsigned i = 0; i < atomic_load(&servers->node_n); i++) {
		snecki_acks_close(snecki_node_at(servers, i));
		snecki_conn_close(snecki_node_at(servers, i)->conn);
	}
}

void snecki_servers_free(struct servers *servers) {
	if (!servers)
		return;
	snecki_servers_close(servers);
	for (unsigned i = 0; i < atomic_load(&servers->node_n); i++)
		snecki_node_free(snecki_node_at(servers, i));
	snecki_sentinel_free(servers->sentinel);
	snecki_slots_free(servers->slots);
	pthread_mutex_destroy(&servers->mutex);
	pthread_mutex_destroy(&servers->topics_mutex);
	free(servers->pfds);
	free(servers);
}

void snecki_servers_abandon(struct servers *servers) {
	if (!servers)
		return;
	for (unsigned i = 0; i < atomic_load(&servers->node_n); i++) {
		struct node *node = snecki_node_at(servers, i);
		snecki_sub_abandon(node->sub);
		snecki_acks_abandon(node);
		snecki_conn_abandon(node->conn);
		free(node);
	}
	if (servers->sentinel)
		snecki_sentinel_abandon(servers->sentinel);
	if (servers->slots)
		snecki_slots_abandon(servers->slots);
	free(servers->pfds);
	free(servers);
}

/* ---- For callers --------------------------------------------------------------------------------*/

/* Another thread may be submitting the parker's request at this moment, and chooses as well. */
static struct conn *conn_of(struct servers *servers, struct parker *parker) {
	struct conn *first = snecki_node_at(servers, 0)->conn, *at = NULL;
	return atomic_compare_exchange_strong(&parker->conn, &at, first) ? first : at;
}

bool snecki_servers_park(struct servers *servers, struct parker *parker, int64_t deadline_ns) {
	return snecki_conn_park(conn_of(servers, parker), parker, deadline_ns);
}

void snecki_servers_orphan_all(struct servers *servers, struct parker *parker) {
	snecki_conn_orphan_all(conn_of(servers, parker), parker);
}

unsigned snecki_servers_lane(const struct servers *servers, const struct req *req) {
	unsigned n = atomic_load(&servers->node_n);

	for (unsigned i = 0; i < n; i++) {
		const struct node *node = atomic_load(&servers->nodes[i]);
		if (node->conn == req->conn || snecki_acks_have(node, req->conn))
			return i;
	}
	return 0;
}

void snecki_servers_want(struct servers *servers) {
	if (!servers->cluster) {
		snecki_conn_want(snecki_node_at(servers, 0)->conn);
		return;
	}
	pthread_mutex_lock(&servers->mutex);
	servers->wanted = true;
	pthread_mutex_unlock(&servers->mutex);
	snecki_slots_want(servers->slots);
}

bool snecki_servers_up(struct servers *servers) {
	for (unsigned i = 0; i < atomic_load(&servers->node_n); i++)
		if (snecki_conn_is_up(snecki_node_at(servers, i)->conn))
			return true;
	return false;
}

void snecki_servers_counters(struct servers *servers, struct conn_counters *ret) {
	*ret = (struct conn_counters){ 0 };
	for (unsigned i = 0; i < atomic_load(&servers->node_n); i++) {
		struct conn_counters one;
		snecki_conn_counters(snecki_node_at(servers, i)->conn, &one);
		ret->commands += one.commands;
		ret->connects += one.connects;
		ret->disconnects += one.disconnects;
		ret->glances += one.glances;
		snecki_acks_count(snecki_node_at(servers, i), ret);
	}
}

size_t snecki_servers_list(struct servers *servers, unsigned *ret, size_t most) {
	size_t n = 0;

	for (unsigned i = 0; i < atomic_load(&servers->node_n); i++)
		if (atomic_load(&snecki_node_at(servers, i)->has_slots) && n++ < most)
			ret[n - 1] = i + 1;
	return n;
}

struct endpoint snecki_servers_where(struct servers *servers, unsigned node) {
	return snecki_node_at(servers, node - 1)->at;
}

/* ---- Channels -----------------------------------------------------------------------------------*/

void snecki_servers_hear(struct servers *servers) {
	if (!servers->cluster)
		snecki_sub_want(snecki_node_at(servers, 0)->sub);
}

bool snecki_servers_heard(struct servers *servers) {
	return !servers->cluster && snecki_sub_is_ready(snecki_node_at(servers, 0)->sub);
}

/* Of a slot that nobody is known to have: the first one, from which it moves when the map has come. What lies
 * in no slot is heard at every primary (the first node may be a replica that the URL names). */
static struct sub *sub_of(struct servers *servers, const char *channel, size_t channel_len, bool sharded) {
	unsigned owner = NODE_NONE, primary = 0;

	if (servers->cluster && sharded)
		owner = atomic_load(&servers->owner[snecki_key_slot(channel, channel_len)]);
	else if (servers->cluster && snecki_servers_list(servers, &primary, 1) > 0)
		owner = primary - 1;
	return snecki_node_at(servers, owner == NODE_NONE ? 0 : owner)->sub;
}

int snecki_servers_listen(struct servers *servers, const char *channel, size_t channel_len, bool sharded,
        const char *subject, size_t subject_len) {
	pthread_mutex_lock(&servers->topics_mutex);
	int r = snecki_sub_listen(sub_of(servers, channel, channel_len, sharded), channel, channel_len,
	        sharded, subject, subject_len);
	pthread_mutex_unlock(&servers->topics_mutex);
	return r;
}

void snecki_servers_unlisten(struct servers *servers, const char *channel, size_t channel_len) {
	pthread_mutex_lock(&servers->topics_mutex);
	bool found = snecki_sub_unlisten(sub_of(servers, channel, channel_len, true), channel, channel_len);
	/* A redirection has told where the slot is now, and the channel has not followed yet. */
	for (unsigned i = 0; !found && i < atomic_load(&servers->node_n); i++)
		found = snecki_sub_unlisten(snecki_node_at(servers, i)->sub, channel, channel_len);
	pthread_mutex_unlock(&servers->topics_mutex);
}

/* ---- The poll loop ------------------------------------------------------------------------------*/

size_t snecki_servers_bg_prepare(
        struct servers *servers, int wake_fd, struct pollfd **ret, int64_t *deadline_ns) {
	struct pollfd *pfds = servers->pfds;
	size_t n = 1;

	pfds[0] = (struct pollfd){ .fd = wake_fd, .events = POLLIN };
	for (unsigned i = 0; i < atomic_load(&servers->node_n); i++) {
		struct node *node = snecki_node_at(servers, i);
		node->pfds = pfds + n;
		node->conn_n = snecki_conn_bg_prepare(node->conn, pfds + n, deadline_ns);
		n += (size_t)node->conn_n;
		node->sub_n = snecki_sub_bg_prepare(node->sub, pfds + n, deadline_ns);
		n += (size_t)node->sub_n;
		n += snecki_acks_prepare(node, pfds + n, deadline_ns);
	}
	servers->extra = pfds + n;
	servers->extra_n = 0;
	if (servers->sentinel)
		servers->extra_n = snecki_sentinel_bg_prepare(servers->sentinel, pfds + n, deadline_ns);
	if (servers->slots)
		servers->extra_n = snecki_slots_bg_prepare(servers->slots, pfds + n, deadline_ns);
	pthread_mutex_lock(&servers->mutex);
	if (servers->later_ns < *deadline_ns)
		*deadline_ns = servers->later_ns;
	pthread_mutex_unlock(&servers->mutex);
	*ret = pfds;
	return n + (size_t)servers->extra_n;
}

void snecki_servers_bg_run(struct servers *servers, int64_t now_ns) {
	const struct pollfd *extra = servers->extra;
	unsigned n = atomic_load(&servers->node_n); /* those made meanwhile have not been prepared */

	for (unsigned i = 0; i < n; i++) {
		struct node *node = snecki_node_at(servers, i);
		snecki_conn_bg_run(node->conn, node->pfds, node->conn_n, now_ns);
		snecki_sub_bg_run(node->sub, node->pfds + node->conn_n, node->sub_n, now_ns);
		snecki_acks_run(node, node->pfds + node->conn_n + node->sub_n, now_ns);
	}
	if (servers->sentinel)
		snecki_sentinel_bg_run(servers->sentinel, extra, servers->extra_n, now_ns);
	if (servers->slots) {
		snecki_slots_bg_run(servers->slots, extra, servers->extra_n, now_ns);
		snecki_route_run(servers, false, now_ns);
	}
}
