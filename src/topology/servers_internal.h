/* SPDX-License-Identifier: MIT */
/* What servers.c (the map, life, the poll loop), nodes.c and acks.c (the connections) and route.c (where a
 * request goes) share. */
#ifndef SNECK_TOPOLOGY_SERVERS_INTERNAL_H
#define SNECK_TOPOLOGY_SERVERS_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include <sneck/error.h>

#include "base/list.h"
#include "net/endpoint.h"
#include "net/sub.h"
#include "topology/command_slot.h"
#include "topology/servers.h"
#include "topology/slots.h"

enum {
	NODES_MAX = 1000,
	NODE_NONE = UINT16_MAX,
	ACK_CONNS_MAX = 8 /* of one node: so many wait for its replicas at a time, the others in line */
};

struct node {
	struct servers *servers;
	unsigned index;
	struct endpoint at; /* of a cluster's node */
	struct conn *conn;
	struct sub *sub;
	_Atomic(struct conn *) acks[ACK_CONNS_MAX]; /* for what ends in WAIT; made when they are needed */
	atomic_bool has_slots;
	/* Background thread. */
	bool down; /* the last attempt to connect failed, or the connection broke */
	struct pollfd *pfds;
	int conn_n, sub_n; /* of these, how many are whose … */
	int ack_n[ACK_CONNS_MAX];
	unsigned acks_polled; /* … and of `acks`, how many have any */
};

struct servers {
	struct servers_config config;
	bool cluster;
	struct sentinel *sentinel; /* NULL: none */
	struct slots *slots;       /* NULL: no cluster */

	/* Written by the background thread, read by all. */
	_Atomic(struct node *) nodes[NODES_MAX];
	atomic_uint node_n;
	_Atomic uint16_t owner[SLOTS_N]; /* index of the node, or NODE_NONE */
	atomic_bool mapped;              /* a map has come … */
	atomic_bool known; /* … and what waited for the first one has been sent, in its order */

	pthread_mutex_t mutex; /* guards what follows */
	bool closing;
	bool wanted;       /* snecki_servers_want: connect as soon as a map has come */
	struct list later; /* requests to be sent again at again_ns; NS_NEVER: when a map has come */
	int64_t later_ns;  /* the earliest of them */
	pthread_mutex_t topics_mutex; /* where channels are heard does not change meanwhile */

	/* Background thread. */
	bool resubscribe; /* a subscription was refused, or ended: once a map has come, all are made again */
	struct pollfd *pfds, *extra; /* `extra`: of the sentinel or the slots, behind the nodes' */
	int extra_n;
};

/* acks.c: a node's connections for requests that end in WAIT, which blocks all that is behind it. */
/* Thread: any. The one with the least to do; NULL: out of memory. */
struct conn *snecki_acks_choose(struct node *node);
bool snecki_acks_have(const struct node *node, const struct conn *conn);
void snecki_acks_count(struct node *node, struct conn_counters *add_to);
void snecki_acks_look_again(struct node *node);
void snecki_acks_recall(struct node *node);
size_t snecki_acks_prepare(struct node *node, struct pollfd *pfds, int64_t *deadline_ns);
void snecki_acks_run(struct node *node, const struct pollfd *pfds, int64_t now_ns);
void snecki_acks_close(struct node *node);
void snecki_acks_free(struct node *node);
void snecki_acks_abandon(struct node *node);

/* nodes.c */
struct node *snecki_node_at(struct servers *servers, unsigned index);
struct node *snecki_node_find(struct servers *servers, const struct endpoint *at);
/* Thread: background. One more, in the poll loop as well; `at` NULL: where the URL or the sentinel says.
 * NULL: no memory for another, or far too many. */
struct node *snecki_node_make(struct servers *servers, const struct endpoint *at);
void snecki_node_free(struct node *node);
/* `main`: it is the one that tells whether the node can be reached. */
int snecki_node_connection(struct node *node, bool main, struct conn **ret);

/* route.c. Thread: as conn_config says; ctx is the node. */
bool snecki_route_redirect(void *node, struct req *req, const struct redisReply *reply);
bool snecki_route_unsent(void *node, struct req *req, const struct sneck_error *why);
/* Thread: background. Send what is due, now that the time or the map has come. */
void snecki_route_run(struct servers *servers, bool map_came, int64_t now_ns);
/* Thread: background. The first map has come: send what waits for it, before anything else goes its own way.
 */
void snecki_route_open(struct servers *servers);
/* Nobody could tell the slots: what waits for that has failed. `closing`: everything has. */
void snecki_route_fail(struct servers *servers, const struct sneck_error *why, bool closing);
void snecki_route_again(struct servers *servers, struct list *reqs);

#endif
