/* SPDX-License-Identifier: MIT */
/* A node's connections for requests that end in WAIT.
 *
 * WAIT blocks its connection until the replicas have answered or its time is over, and with it whatever was
 * sent behind it. So what ends in WAIT has connections of its own, and a replica that has stopped delays
 * nobody who does not ask for it. A request takes one with nothing in line; another is made while there is
 * none, up to ACK_CONNS_MAX, and from there on it waits behind the shortest line.
 *
 * They are made from the first on and stay. Whether the node can be reached is told by its main connection
 * alone: these say nothing, and find the primary as that one does. */
#include "topology/servers_internal.h"

static struct conn *ack_at(const struct node *node, unsigned index) {
	return index < ACK_CONNS_MAX ? atomic_load(&node->acks[index]) : NULL;
}

/* Another thread may make one as well: they take turns. */
static struct conn *make_one(struct node *node) {
	struct conn *conn = NULL;
	unsigned i = 0;

	pthread_mutex_lock(&node->servers->mutex);
	while (ack_at(node, i))
		i++;
	if (i < ACK_CONNS_MAX && !node->servers->closing && snecki_node_connection(node, false, &conn) == 0)
		atomic_store(&node->acks[i], conn);
	pthread_mutex_unlock(&node->servers->mutex);
	return conn;
}

struct conn *snecki_acks_choose(struct node *node) {
	struct conn *best = NULL, *conn;
	size_t best_n = 0;

	for (unsigned i = 0; (conn = ack_at(node, i)); i++) {
		size_t n = snecki_conn_in_line(conn);
		if (!best || n < best_n) {
			best = conn;
			best_n = n;
		}
	}
	if (best && best_n == 0)
		return best;
	conn = make_one(node);
	return conn ? conn : best;
}

bool snecki_acks_have(const struct node *node, const struct conn *conn) {
	const struct conn *at;

	for (unsigned i = 0; (at = ack_at(node, i)); i++)
		if (at == conn)
			return true;
	return false;
}

void snecki_acks_count(struct node *node, struct conn_counters *add_to) {
	struct conn *conn;

	for (unsigned i = 0; (conn = ack_at(node, i)); i++) {
		struct conn_counters one;
		snecki_conn_counters(conn, &one);
		add_to->commands += one.commands;
		add_to->connects += one.connects;
		add_to->disconnects += one.disconnects;
		add_to->glances += one.glances;
	}
}

void snecki_acks_look_again(struct node *node) {
	struct conn *conn;

	for (unsigned i = 0; (conn = ack_at(node, i)); i++)
		snecki_conn_look_again(conn);
}

void snecki_acks_recall(struct node *node) {
	struct conn *conn;
	struct list queued;

	for (unsigned i = 0; (conn = ack_at(node, i)); i++) {
		snecki_conn_recall(conn, &queued);
		snecki_route_again(node->servers, &queued);
	}
}

size_t snecki_acks_prepare(struct node *node, struct pollfd *pfds, int64_t *deadline_ns) {
	struct conn *conn;
	size_t n = 0;
	unsigned i = 0;

	for (; (conn = ack_at(node, i)); i++) {
		node->ack_n[i] = snecki_conn_bg_prepare(conn, pfds + n, deadline_ns);
		n += (size_t)node->ack_n[i];
	}
	node->acks_polled = i;
	return n;
}

void snecki_acks_run(struct node *node, const struct pollfd *pfds, int64_t now_ns) {
	for (unsigned i = 0; i < node->acks_polled; i++) {
		snecki_conn_bg_run(ack_at(node, i), pfds, node->ack_n[i], now_ns);
		pfds += node->ack_n[i];
	}
}

void snecki_acks_close(struct node *node) {
	struct conn *conn;

	for (unsigned i = 0; (conn = ack_at(node, i)); i++)
		snecki_conn_close(conn);
}

void snecki_acks_free(struct node *node) {
	struct conn *conn;

	for (unsigned i = 0; (conn = ack_at(node, i)); i++)
		snecki_conn_free(conn);
}

void snecki_acks_abandon(struct node *node) {
	struct conn *conn;

	for (unsigned i = 0; (conn = ack_at(node, i)); i++)
		snecki_conn_abandon(conn);
}
