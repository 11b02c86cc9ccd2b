/* SPDX-License-Identifier: MIT */
/* Where a request goes, and where it goes next.
 *
 * A request that a cluster did not execute (MOVED, ASK, TRYAGAIN, CLUSTERDOWN, or it could not be sent) is
 * sent again by itself: at once where the answer says so, else a little later. That ends after HOPS_MAX
 * redirections, or when it has taken as long as a command may, and with it the request. Sending again puts it
 * behind whatever was sent meanwhile, perhaps behind its own withdrawal, so its owner is asked, and
 * sends it (req.resend). Nothing is ever sent again that may have been executed.
 *
 * Only nodes that the map names are sent to. A redirection to another place makes the map be fetched anew; if
 * that does not have it either, the request fails: whoever can forge an answer must not be able to name
 * a host that is given our password. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/err.h"
#include "topology/servers_internal.h"

enum { HOPS_MAX = 16, PAUSE_MS = 50 };

static void fail(struct req *req, int code, const char *word, const char *text) {
	struct sneck_error why;

	snecki_err_server(&why, code, word, strlen(word), "%s", text);
	req->sent_ns = 0;
	req->done(req, REQ_NOT_SENT, NULL, &why);
}

/* ---- Later --------------------------------------------------------------------------------------*/

/* Until when it is tried: the caller's own limit is later. */
static int64_t limit_ns(const struct servers *servers, int64_t now_ns) {
	return snecki_after_ms(now_ns, servers->config.command_ms / 8 * 7);
}

/* Locked. Its thread waits at another connection, and is woken by the result. */
static void line_up(struct servers *servers, struct req *req, int64_t again_ns) {
	int64_t due_ns = again_ns < req->until_ns ? again_ns : req->until_ns;

	req->parker = NULL;
	req->asking = false;
	req->again_ns = again_ns;
	snecki_list_append(&servers->later, &req->node);
	if (due_ns < servers->later_ns)
		servers->later_ns = due_ns;
}

/* False: it has been tried for long enough. */
static bool put_later(struct servers *servers, struct req *req, int64_t again_ns) {
	int64_t now_ns = snecki_now_ns();

	if (!req->until_ns)
		req->until_ns = limit_ns(servers, now_ns);
	if (now_ns >= req->until_ns)
		return false;
	pthread_mutex_lock(&servers->mutex);
	bool open = !servers->closing;
	if (open)
		line_up(servers, req, again_ns);
	pthread_mutex_unlock(&servers->mutex);
	if (open)
		servers->config.wake_background(servers->config.ctx);
	return open;
}

static bool pause_then_again(struct servers *servers, struct req *req) {
	return put_later(servers, req, snecki_after_ms(snecki_now_ns(), PAUSE_MS));
}

static bool await_map(struct servers *servers, struct req *req) {
	bool waits = put_later(servers, req, NS_NEVER);

	snecki_slots_want(servers->slots);
	return waits;
}

/* ---- The first time -----------------------------------------------------------------------------*/

static void submit_to(struct node *node, struct req *req) {
	struct conn *conn = req->acked ? snecki_acks_choose(node) : node->conn;
	struct parker *parker = req->parker;

	if (!conn) {
		fail(req, SNECK_ENOMEM, "", "out of memory for a connection");
		return;
	}
	if (parker) { /* a thread waits at one connection; what goes to another is read by the background */
		struct conn *at = NULL;
		if (!atomic_compare_exchange_strong(&parker->conn, &at, conn) && at != conn)
			req->parker = NULL;
	}
	snecki_conn_submit(conn, req);
}

static void send_to(struct req *req, void *node) {
	submit_to(node, req);
}

static void resend(struct req *req, void (*send)(struct req *req, void *to), void *to) {
	if (!req->resend)
		send(req, to);
	else if (!req->resend(req, send, to))
		fail(req, SNECK_ECONN, "", "nobody waits for it any more");
}

/* NULL: nobody, or not known. */
static struct node *owner_of(struct servers *servers, int slot) {
	if (slot == SLOT_ANY) {
		for (unsigned i = 0; i < atomic_load(&servers->node_n); i++)
			if (atomic_load(&snecki_node_at(servers, i)->has_slots))
				return snecki_node_at(servers, i);
		return NULL;
	}
	unsigned owner = atomic_load(&servers->owner[slot]);
	return owner == NODE_NONE ? NULL : snecki_node_at(servers, owner);
}

static void uncovered(struct req *req, int slot) {
	char text[200];

	snprintf(text, sizeof text,
	        "no node of the cluster serves slot %d, where this lock lies; see CLUSTER INFO, mend it with "
	        "redis-cli --cluster fix",
	        slot);
	fail(req, SNECK_ESERVER, "CLUSTERDOWN", text);
}

static void route(struct servers *servers, struct req *req) {
	if (!servers->cluster) {
		submit_to(snecki_node_at(servers, 0), req);
		return;
	}
	if (req->only_node) {
		submit_to(snecki_node_at(servers, req->only_node - 1), req);
		return;
	}
	int slot = snecki_command_slot(req->bytes.data, req->bytes.len);
	if (slot == SLOT_SEVERAL) {
		fail(req, SNECK_EINVAL, "CROSSSLOT",
		        "this name gives keys in different slots of the cluster; choose one without unpaired "
		        "or "
		        "empty braces");
		return;
	}
	struct node *node = owner_of(servers, slot);
	if (node) {
		submit_to(node, req);
	} else if (atomic_load(&servers->mapped) && req->hops > 0) {
		uncovered(req, slot);
	} else {
		req->hops += atomic_load(&servers->mapped) ? 1 : 0; /* perhaps it is served by now */
		if (!await_map(servers, req))
			fail(req, SNECK_ECONN, "", "the nodes of the cluster could not be found in time");
	}
}

static void send_anywhere(struct req *req, void *servers) {
	route(servers, req);
}

/* Until the first map has come all wait for it, in one line: who asks first shall be first in the queue.
 * False: it has come. */
static bool joins_the_line(struct servers *servers, struct req *req) {
	if (atomic_load(&servers->known))
		return false;
	pthread_mutex_lock(&servers->mutex);
	bool waits = !atomic_load(&servers->known) && !servers->closing;
	if (waits) {
		req->until_ns = limit_ns(servers, snecki_now_ns());
		line_up(servers, req, NS_NEVER);
	}
	pthread_mutex_unlock(&servers->mutex);
	if (waits) {
		servers->config.wake_background(servers->config.ctx);
		snecki_slots_want(servers->slots);
	}
	return waits;
}

void snecki_servers_submit(struct servers *servers, struct req *req) {
	req->hops = 0;
	req->until_ns = 0;
	req->asking = false;
	req->strange = false;
	if (!servers->cluster || req->only_node || !joins_the_line(servers, req))
		route(servers, req);
}

/* ---- Sent elsewhere -----------------------------------------------------------------------------*/

/* "MOVED 3999 127.0.0.1:6381"; without a host it is that of the node that says so. */
static bool read_place(const struct node *from, const char *text, size_t *ret_slot, struct endpoint *ret) {
	char *end;
	unsigned long slot = strtoul(strchr(text, ' ') + 1, &end, 10);

	if (*end != ' ' || slot >= SLOTS_N)
		return false;
	const char *host = end + 1, *colon = strrchr(host, ':');
	unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
	if (port == 0 || port > UINT16_MAX || (size_t)(colon - host) > ENDPOINT_HOST_MAX)
		return false;
	*ret_slot = slot;
	*ret = from->at;
	ret->port = (uint16_t)port;
	if (colon > host)
		snprintf(ret->host, sizeof ret->host, "%.*s", (int)(colon - host), host);
	return true;
}

/* Again, there. False: it cannot be. */
static bool go_to(struct node *from, struct req *req, const char *text, bool ask) {
	struct servers *servers = from->servers;
	struct endpoint at;
	size_t slot;

	if (!read_place(from, text, &slot, &at))
		return false;
	struct node *node = snecki_node_find(servers, &at);
	if (!ask) /* the whole map is likely to be old */
		snecki_slots_want(servers->slots);
	if (!node && req->strange)
		return false;
	req->strange = !node;
	if (!node)
		return await_map(servers, req);
	if (node == from)
		return pause_then_again(servers, req);
	if (!ask)
		atomic_store(&servers->owner[slot], (uint16_t)node->index);
	req->parker = NULL;
	req->asking = ask;
	resend(req, send_to, node);
	return true;
}

static bool begins(const redisReply *reply, const char *word) {
	return strncmp(reply->str, word, strlen(word)) == 0;
}

bool snecki_route_redirect(void *ctx, struct req *req, const struct redisReply *reply) {
	struct node *from = ctx;
	struct servers *servers = from->servers;
	bool moved = begins(reply, "MOVED "), ask = begins(reply, "ASK ");
	bool down = begins(reply, "CLUSTERDOWN "), again = begins(reply, "TRYAGAIN ");

	if ((!moved && !ask && !down && !again) || req->only_node)
		return false;
	if (moved || ask) {
		if (++req->hops <= HOPS_MAX && go_to(from, req, reply->str, ask))
			return true;
		fail(req, SNECK_ESERVER, moved ? "MOVED" : "ASK",
		        "the nodes of the cluster send this request round, or to a place that none of them "
		        "knows as theirs; see CLUSTER SLOTS on each");
		return true;
	}
	if (down)
		snecki_slots_want(servers->slots);
	/* A slot that is being moved sends a request with several keys on (ASK), and back (TRYAGAIN), as long
	 * as that takes: time is its limit. */
	if (again)
		req->hops = 0;
	return pause_then_again(servers, req);
}

/* The node cannot be reached: another may have taken its slots. */
bool snecki_route_unsent(void *ctx, struct req *req, const struct sneck_error *why) {
	struct node *from = ctx;

	if (why->code != SNECK_ECONN || req->only_node)
		return false;
	snecki_slots_want(from->servers->slots);
	return pause_then_again(from->servers, req);
}

/* ---- When the time has come ---------------------------------------------------------------------*/

void snecki_route_run(struct servers *servers, bool map_came, int64_t now_ns) {
	struct list due;

	snecki_list_init(&due);
	pthread_mutex_lock(&servers->mutex);
	bool any = map_came || now_ns >= servers->later_ns;
	if (any)
		servers->later_ns = NS_NEVER;
	LIST_EACH (at, &servers->later) {
		struct req *req = LIST_ITEM(at, struct req, node);
		int64_t again_ns = req->again_ns < req->until_ns ? req->again_ns : req->until_ns;
		if (any && (map_came || now_ns >= again_ns)) {
			snecki_list_remove(at);
			snecki_list_append(&due, at);
		} else if (any && again_ns < servers->later_ns) {
			servers->later_ns = again_ns;
		}
	}
	pthread_mutex_unlock(&servers->mutex);
	snecki_route_again(servers, &due);
}

static bool any_waits_for_a_map(const struct servers *servers) {
	LIST_EACH (at, &servers->later)
		if (LIST_ITEM(at, struct req, node)->again_ns == NS_NEVER)
			return true;
	return false;
}

void snecki_route_open(struct servers *servers) {
	for (;;) {
		pthread_mutex_lock(&servers->mutex);
		bool more = any_waits_for_a_map(servers);
		if (!more)
			atomic_store(&servers->known, true);
		pthread_mutex_unlock(&servers->mutex);
		if (!more)
			return;
		snecki_route_run(servers, true, snecki_now_ns());
	}
}

void snecki_route_again(struct servers *servers, struct list *reqs) {
	LIST_EACH (at, reqs) {
		struct req *req = LIST_ITEM(at, struct req, node);
		snecki_list_remove(at);
		if (req->until_ns && snecki_now_ns() >= req->until_ns)
			fail(req, SNECK_ECONN, "CLUSTERDOWN",
			        "the cluster does not serve this lock's slot now: its primary cannot be "
			        "reached, or "
			        "the slot is being moved; see CLUSTER INFO");
		else
			resend(req, send_anywhere, servers);
	}
}

void snecki_route_fail(struct servers *servers, const struct sneck_error *why, bool closing) {
	struct list failed;

	snecki_list_init(&failed);
	pthread_mutex_lock(&servers->mutex);
	servers->closing = servers->closing || closing;
	LIST_EACH (at, &servers->later) {
		if (closing || LIST_ITEM(at, struct req, node)->again_ns == NS_NEVER) {
			snecki_list_remove(at);
			snecki_list_append(&failed, at);
		}
	}
	pthread_mutex_unlock(&servers->mutex);
	LIST_EACH (at, &failed) {
		struct req *req = LIST_ITEM(at, struct req, node);
		snecki_list_remove(at);
		req->sent_ns = 0;
		req->done(req, REQ_NOT_SENT, NULL, why);
	}
}
