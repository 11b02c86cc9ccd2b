/* SPDX-License-Identifier: MIT */
/* One node of a client: its connections, and what they tell.
 *
 * Where a node lies is its own matter in a cluster, and the sentinel's elsewhere: the connections ask for it
 * each time. Only the command connection says whether the node can be reached; the others come and go beside
 * it. A node that is made is never taken away before the client ends, so whoever reads an index or a pointer
 * without a lock may go on using it. */
#include <stdlib.h>

#include "base/clock.h"
#include "topology/sentinel.h"
#include "topology/servers_internal.h"

enum { WAKE_PFDS = 1, CONN_PFDS = 2, NODE_PFDS = (2 + ACK_CONNS_MAX) * CONN_PFDS, EXTRA_PFDS = 1 };

struct node *snecki_node_at(struct servers *servers, unsigned index) {
	return atomic_load(&servers->nodes[index]);
}

struct node *snecki_node_find(struct servers *servers, const struct endpoint *at) {
	for (unsigned i = 0; i < atomic_load(&servers->node_n); i++)
		if (snecki_endpoint_same(&snecki_node_at(servers, i)->at, at))
			return snecki_node_at(servers, i);
	return NULL;
}

/* ---- What the connections of a node tell --------------------------------------------------------*/

static void wake_background(void *ctx) {
	const struct servers_config *config = &((struct node *)ctx)->servers->config;
	config->wake_background(config->ctx);
}

static void after_read(void *ctx) {
	const struct servers_config *config = &((struct node *)ctx)->servers->config;
	config->after_read(config->ctx);
}

static void on_up(void *ctx, int64_t since_ns) {
	struct node *node = ctx;
	const struct servers_config *config = &node->servers->config;

	node->down = false;
	config->on_up(config->ctx, (int)node->index, since_ns);
}

/* Can none of those be reached that have something? */
static bool all_down(struct servers *servers) {
	for (unsigned i = 0; i < atomic_load(&servers->node_n); i++) {
		const struct node *node = snecki_node_at(servers, i);
		if (atomic_load(&node->has_slots) && !node->down)
			return false;
	}
	return true;
}

static void on_down(void *ctx, const struct sneck_error *why) {
	struct node *node = ctx;
	struct servers *servers = node->servers;

	node->down = true;
	if (servers->sentinel) /* it has gone, or is a replica by now */
		snecki_sentinel_doubt(servers->sentinel, snecki_now_ns());
	if (servers->slots)
		snecki_slots_want(servers->slots);
	servers->config.on_down(servers->config.ctx, why, all_down(servers));
}

static int where(void *ctx, struct endpoint *ret, struct sneck_error *reterr) {
	const struct node *node = ctx;

	if (node->servers->sentinel)
		return snecki_sentinel_where(node->servers->sentinel, ret, reterr);
	if (ret)
		*ret = node->at;
	return 1;
}

static bool elsewhere(void *ctx, const struct sneck_error *why) {
	const struct node *node = ctx;
	return snecki_sentinel_elsewhere(node->servers->sentinel, why, snecki_now_ns());
}

static void on_sub_ready(void *ctx) {
	const struct servers_config *config = &((struct node *)ctx)->servers->config;
	config->on_heard(config->ctx);
}

static void on_sub_down(void *ctx, const struct sneck_error *why) {
	const struct servers_config *config = &((struct node *)ctx)->servers->config;
	config->on_deaf(config->ctx, why);
}

static void on_sub_message(void *ctx, const char *payload, size_t len) {
	const struct servers_config *config = &((struct node *)ctx)->servers->config;
	config->on_message(config->ctx, payload, len);
}

static void on_topic_ready(void *ctx, const char *subject, size_t len) {
	const struct servers_config *config = &((struct node *)ctx)->servers->config;
	config->on_topic_ready(config->ctx, subject, len);
}

static void on_topic_message(
        void *ctx, const char *subject, size_t subject_len, const char *payload, size_t len) {
	const struct servers_config *config = &((struct node *)ctx)->servers->config;
	config->on_topic_message(config->ctx, subject, subject_len, payload, len);
}

static void on_topic_gone(void *ctx) {
	struct servers *servers = ((struct node *)ctx)->servers;

	servers->resubscribe = true;
	snecki_slots_want(servers->slots);
}

/* ---- Nodes --------------------------------------------------------------------------------------*/

int snecki_node_connection(struct node *node, bool main, struct conn **ret) {
	const struct servers *servers = node->servers;
	const struct servers_config *config = &servers->config;
	const struct conn_config conn = {
		.url = config->server,
		.tls = config->tls,
		.parking = config->parking,
		.where = servers->sentinel || servers->cluster ? where : NULL,
		.elsewhere = servers->sentinel ? elsewhere : NULL,
		.client_name = config->client_name,
		.peer = servers->cluster ? PEER_CLUSTER_PRIMARY : PEER_PRIMARY,
		.connect_ms = config->connect_ms,
		.command_ms = config->command_ms,
		.log = config->log,
		.on_up = main ? on_up : NULL,
		.on_down = main ? on_down : NULL,
		.redirect = servers->cluster ? snecki_route_redirect : NULL,
		.unsent = servers->cluster ? snecki_route_unsent : NULL,
		.wake_background = wake_background,
		.after_read = after_read,
		.ctx = node,
	};
	return snecki_conn_new(&conn, ret);
}

static int make_links(struct node *node) {
	const struct servers *servers = node->servers;
	const struct servers_config *config = &servers->config;
	const struct sub_config sub = {
		.url = config->server,
		.tls = config->tls,
		.where = servers->sentinel || servers->cluster ? where : NULL,
		.client_name = config->client_name,
		.peer = servers->cluster ? PEER_CLUSTER_PRIMARY : PEER_PRIMARY,
		.channel = config->channel,
		.channel_len = servers->cluster ? 0 : config->channel_len,
		.connect_ms = config->connect_ms,
		.command_ms = config->command_ms,
		.log = config->log,
		.on_ready = on_sub_ready,
		.on_down = on_sub_down,
		.on_message = on_sub_message,
		.on_topic_ready = on_topic_ready,
		.on_topic_message = on_topic_message,
		.on_topic_gone = servers->cluster ? on_topic_gone : NULL,
		.wake_background = wake_background,
		.ctx = node,
	};
	int r = snecki_node_connection(node, true, &node->conn);
	return r < 0 ? r : snecki_sub_new(&sub, &node->sub);
}

void snecki_node_free(struct node *node) {
	if (!node)
		return;
	snecki_sub_free(node->sub);
	snecki_acks_free(node);
	snecki_conn_free(node->conn);
	free(node);
}

/* Room in the poll loop for one node more. */
static bool reserve_pfds(struct servers *servers) {
	size_t nodes = (size_t)atomic_load(&servers->node_n) + 1;
	struct pollfd *more =
	        realloc(servers->pfds, (WAKE_PFDS + nodes * NODE_PFDS + EXTRA_PFDS) * sizeof *more);

	if (more)
		servers->pfds = more;
	return more != NULL;
}

struct node *snecki_node_make(struct servers *servers, const struct endpoint *at) {
	unsigned index = atomic_load(&servers->node_n);
	struct node *node = index < NODES_MAX && reserve_pfds(servers) ? calloc(1, sizeof *node) : NULL;

	if (!node)
		return NULL;
	node->servers = servers;
	node->index = index;
	if (at)
		node->at = *at;
	atomic_init(&node->has_slots, !servers->cluster);
	if (make_links(node) < 0) {
		snecki_node_free(node);
		return NULL;
	}
	atomic_store(&servers->nodes[index], node);
	atomic_store(&servers->node_n, index + 1);
	return node;
}
