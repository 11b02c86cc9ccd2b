/* SPDX-License-Identifier: MIT */
/* The servers of one client: a single one, the primary that sentinels name, or the primaries of a cluster.
 *
 * Each is a *node*: a command connection and a subscribe connection. A request goes to the node that has its
 * keys, and is sent on, by itself, when it turns out to be elsewhere (MOVED, ASK), not ready yet (TRYAGAIN,
 * CLUSTERDOWN) or unreachable, for as long as a command may take. A channel is heard at the node that has its
 * slot, and follows it. Nodes stay until the end, so a pointer to one never dangles.
 *
 * With one server all of this is a call through to its connection. */
#ifndef SNECK_TOPOLOGY_SERVERS_H
#define SNECK_TOPOLOGY_SERVERS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "net/conn.h"
#include "net/endpoint.h"
#include "net/url.h"

struct servers;
struct sneck_error;
struct tls_context;

struct servers_config {
	const struct url *url;    /* as given: the seeds. Borrowed, as all of these */
	const struct url *server; /* where a single server is; as whom to greet any */
	struct tls_context *tls;  /* NULL: plain */
	struct parking *parking;  /* as conn_config.parking */
	const char *client_name;
	const char *channel; /* that stays; not of a cluster */
	size_t channel_len;
	uint32_t connect_ms, command_ms;
	const struct log *log;
	/* Thread: background. A node can be reached (again). `lane` is its number; -1: locks may have moved
	 * to another node as well. What was sent to it since then was sent at `since_ns` or later. */
	void (*on_up)(void *ctx, int lane, int64_t since_ns);
	/* Thread: background. A node cannot be reached (any more). `all`: none can. */
	void (*on_down)(void *ctx, const struct sneck_error *why, bool all);
	void (*on_heard)(void *ctx); /* the channel that stays is subscribed */
	void (*on_deaf)(void *ctx, const struct sneck_error *why);
	void (*on_message)(void *ctx, const char *payload, size_t len);
	void (*on_topic_ready)(void *ctx, const char *subject, size_t subject_len);
	void (*on_topic_message)(
	        void *ctx, const char *subject, size_t subject_len, const char *payload, size_t len);
	/* Thread: any. */
	void (*wake_background)(void *ctx);
	void (*after_read)(void *ctx);
	void *ctx;
};

int snecki_servers_new(const struct servers_config *config, struct servers **ret);
/* Completes everything that is in line; from now on everything is refused. No other thread may be inside. */
void snecki_servers_close(struct servers *servers);
void snecki_servers_free(struct servers *servers);    /* closes, if need be */
void snecki_servers_abandon(struct servers *servers); /* in a forked child */

/* Thread: any. Takes the request until done() has been called. */
void snecki_servers_submit(struct servers *servers, struct req *req);
/* Thread: the parker's. As snecki_conn_park, at the connection of its first request. */
bool snecki_servers_park(struct servers *servers, struct parker *parker, int64_t deadline_ns);
void snecki_servers_orphan_all(struct servers *servers, struct parker *parker);
/* The number of the node that the request was last sent to. */
unsigned snecki_servers_lane(const struct servers *servers, const struct req *req);

/* Thread: any. Connect, although nothing is to be sent; then `up`: something can be. */
void snecki_servers_want(struct servers *servers);
bool snecki_servers_up(struct servers *servers);
void snecki_servers_counters(struct servers *servers, struct conn_counters *ret);
/* Thread: any. The nodes that have something: their numbers from 1 on, as in req.only_node. Returns how many
 * there are (none: not known yet). */
size_t snecki_servers_list(struct servers *servers, unsigned *ret, size_t most);
/* Thread: any. Where the node of a cluster is that has this number. */
struct endpoint snecki_servers_where(struct servers *servers, unsigned node);

/* Thread: any. The channel that stays is wanted; is it heard? */
void snecki_servers_hear(struct servers *servers);
bool snecki_servers_heard(struct servers *servers);
/* Thread: any. As snecki_sub_listen. */
int snecki_servers_listen(struct servers *servers, const char *channel, size_t channel_len, bool sharded,
        const char *subject, size_t subject_len);
void snecki_servers_unlisten(struct servers *servers, const char *channel, size_t channel_len);

/* Thread: background. What to poll for, `wake_fd` (for input) first; valid until bg_run. Lowers
 * `*deadline_ns`. */
size_t snecki_servers_bg_prepare(
        struct servers *servers, int wake_fd, struct pollfd **ret, int64_t *deadline_ns);
void snecki_servers_bg_run(struct servers *servers, int64_t now_ns);

#endif
