/* SPDX-License-Identifier: MIT */
/* Starting what the locks live on, and cutting a primary off.
 *
 * Sentinels and replicas connect from another address than clients do, and log in as another user. So they
 * can be told from clients on the way and at the door: silence is a rule of the network (network.h), refusal
 * is a rule of the server's. The nodes of a cluster have an address each, because a node is cut off only when
 * what it sends to the others is lost, too. */
#include "site.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "history.h"
#include "network.h"
#include "wait.h"

enum { AGREE_MS = 60000, BUS_OFFSET = 10000 /* from a node's port to that for other nodes */ };

/* From where sentinels and replicas connect, and nodes of a cluster, of which each has an address of its own:
 * all of them are in WITHIN_ALL. Clients connect from 127.0.0.1, where everybody listens. */
#define WITHIN "127.0.0.16"
#define WITHIN_NODE "127.0.0.%d" /* 16 and the node's number */
#define WITHIN_ALL "127.0.0.16/29"
#define FROM_CLIENTS "127.0.0.1"

static const char *const names[SITE_KINDS] = { "single", "sentinel", "cluster" };

const char *site_name(enum site_kind kind) {
	return names[kind];
}

bool site_find(const char *name, enum site_kind *ret_kind) {
	for (int i = 0; i < SITE_KINDS; i++)
		if (strcmp(names[i], name) == 0) {
			*ret_kind = (enum site_kind)i;
			return true;
		}
	return false;
}

static int start_sentinels(struct site *site) {
	static const char *const args[] = { "--masteruser", "within", "--masterauth", "w", "--user", "within",
		"on", ">w", "~*", "&*", "+@all", "--user", "worker", "on", ">w", "~*", "&*", "+@all",
		"--bind-source-addr", WITHIN, "--replica-announce-ip", "127.0.0.1", "--protected-mode", "no",
		NULL };
	static const char config[] = "sentinel auth-user " SENTINELS_SERVICE " within\n"
	                             "sentinel auth-pass " SENTINELS_SERVICE " w\n"
	                             "bind-source-addr " WITHIN "\n"
	                             "sentinel announce-ip 127.0.0.1\n"
	                             "sentinel down-after-milliseconds " SENTINELS_SERVICE " 1000\n"
	                             "sentinel failover-timeout " SENTINELS_SERVICE " 2000\n";
	site->has_network = network_enter();
	if (test_sentinels_start(&site->sentinels, args, config) != 0)
		return -1;
	snprintf(site->url, sizeof(site->url), "redis+sentinel://worker:w@%s",
	        strstr(site->sentinels.url, "://") + 3);
	site_seen(site);
	return 0;
}

static int address_of(int node) {
	return 16 + node;
}

/* For all connections that it makes to others, those that are there made again, and after a restart. */
static int give_address(struct test_cluster *cluster, int node) {
	struct test_server *server = &cluster->nodes[node];
	char address[sizeof(WITHIN)];
	size_t n = 0;
	snprintf(address, sizeof(address), WITHIN_NODE, address_of(node));
	while (server->extra_args[n])
		n++;
	if (n + 2 >= TEST_SERVER_ARGS_MAX)
		return -1;
	server->extra_args[n] = strdup("--bind-source-addr");
	server->extra_args[n + 1] = strdup(address);
	test_redis_ok(server, "CONFIG SET bind-source-addr %s", address);
	for (int i = 0; i < CLUSTER_NODES; i++)
		if (i != node)
			test_redis_ok(server, "DEBUG CLUSTERLINK KILL to %s", cluster->ids[i]);
	return 0;
}

static int start_cluster(struct site *site) {
	static const char *const args[] = { "--protected-mode", "no", NULL };
	static const struct test_cluster_options options = { .args = args };
	site->has_network = network_enter();
	if (test_cluster_start(&site->cluster, &options) != 0)
		return -1;
	for (int i = 0; i < CLUSTER_NODES; i++)
		if (give_address(&site->cluster, i) != 0)
			return -1;
	for (int i = 0; i < CLUSTER_PRIMARIES; i++)
		test_redis_ok(&site->cluster.nodes[i], "CLIENT KILL TYPE replica");
	test_cluster_settle(&site->cluster);
	snprintf(site->url, sizeof(site->url), "%s", site->cluster.url);
	site_seen(site);
	return 0;
}

int site_start(struct site *site, enum site_kind kind) {
	memset(site, 0, sizeof(*site));
	site->kind = kind;
	if (kind == SITE_SENTINEL)
		return start_sentinels(site);
	if (kind == SITE_CLUSTER)
		return start_cluster(site);
	if (test_server_start(&site->single, NULL) != 0)
		return -1;
	snprintf(site->url, sizeof(site->url), "%s", site->single.url);
	return 0;
}

void site_stop(struct site *site) {
	if (site->kind == SITE_SENTINEL)
		test_sentinels_stop(&site->sentinels);
	else if (site->kind == SITE_CLUSTER)
		test_cluster_stop(&site->cluster);
	else
		test_server_stop(&site->single);
}

static bool is_primary(const struct test_server *server) {
	redisReply *reply = server->pid > 0 && !server->stopped ? test_redis(server, "ROLE") : NULL;
	bool so = reply && reply->type == REDIS_REPLY_ARRAY && !strcmp(reply->element[0]->str, "master");
	if (reply)
		freeReplyObject(reply);
	return so;
}

static int look_at_cluster(struct site *site) {
	int primaries = 0, n = 0;
	for (int i = 0; i < CLUSTER_NODES; i++)
		if (is_primary(&site->cluster.nodes[i])) {
			primaries |= 1 << i;
			n++;
		}
	/* One that was started again takes itself for a primary until it has heard of its successor. */
	return n == CLUSTER_PRIMARIES && test_cluster_is_well(&site->cluster) ? primaries : -1;
}

int site_look(struct site *site) {
	switch (site->kind) {
	case SITE_SENTINEL:
		return test_sentinels_primary(&site->sentinels);
	case SITE_CLUSTER:
		return look_at_cluster(site);
	default:
		return 0;
	}
}

void site_seen(struct site *site) {
	(void)WAIT_UNTIL((site->primary = site_look(site)) >= 0, AGREE_MS);
	site->seen_ns = history_now();
}

size_t site_primaries(struct site *site, const struct test_server *ret[SITE_PRIMARIES_MAX]) {
	int primary = site_look(site);
	size_t n = 0;
	if (site->kind == SITE_SINGLE)
		ret[n++] = &site->single;
	else if (site->kind == SITE_SENTINEL && primary >= 0)
		ret[n++] = &site->sentinels.servers[primary];
	else if (site->kind == SITE_CLUSTER && primary >= 0)
		for (int i = 0; i < CLUSTER_NODES && n < SITE_PRIMARIES_MAX; i++)
			if (primary & 1 << i)
				ret[n++] = &site->cluster.nodes[i];
	return n;
}

const struct test_server *site_server_of(struct site *site, const char *key) {
	const struct test_server *servers[SITE_PRIMARIES_MAX];
	if (site->kind != SITE_CLUSTER)
		return site_primaries(site, servers) ? servers[0] : NULL;
	int owner = test_cluster_owner(&site->cluster, key);
	return owner < 0 ? NULL : &site->cluster.nodes[owner];
}

/* ---- Not scheduled -------------------------------------------------------------------------------*/

/* Sentinels have time. */
static const struct test_server *servers_of(struct site *site, size_t *ret_n) {
	switch (site->kind) {
	case SITE_SENTINEL:
		*ret_n = SENTINELS_SERVERS;
		return site->sentinels.servers;
	case SITE_CLUSTER:
		*ret_n = CLUSTER_NODES;
		return site->cluster.nodes;
	default:
		*ret_n = 1;
		return &site->single;
	}
}

int64_t site_stalled_ns(struct site *site) {
	size_t n;
	const struct test_server *servers = servers_of(site, &n);
	int64_t longest_ns = 0;
	for (size_t i = 0; i < n; i++) {
		struct stall_watch *watch = &site->stalls[i];
		if (watch->pid != servers[i].pid)
			*watch = (struct stall_watch){ .pid = servers[i].pid };
		int64_t ns = servers[i].pid > 0 ? stall_look(watch, history_now()) : 0;
		longest_ns = ns > longest_ns ? ns : longest_ns;
	}
	return longest_ns;
}

/* ---- Cutting off ---------------------------------------------------------------------------------*/

/* What `peers` send to that port, and what comes back. */
static bool lose_port(const char *peers, int port) {
	return network_lose("from %s to 127.0.0.1 ipproto tcp dport %d", peers, port) &&
	       network_lose("from 127.0.0.1 to %s ipproto tcp sport %d", peers, port);
}

static int port_of(const struct site *site, int server) {
	return site->kind == SITE_CLUSTER ? site->cluster.nodes[server].port : site->sentinels.ports[server];
}

/* Its replica, and the other nodes, whoever of them has made the connection. */
static bool lose_node(const struct site *site, int node) {
	return lose_port(WITHIN_ALL, port_of(site, node) + BUS_OFFSET) &&
	       network_lose("from " WITHIN_NODE " ipproto tcp", address_of(node)) &&
	       network_lose("to " WITHIN_NODE " ipproto tcp", address_of(node));
}

bool site_silence(struct site *site, int server, unsigned sides) {
	int port = port_of(site, server);
	bool done = site->has_network;
	if (done && sides & SITE_WITHIN)
		done = lose_port(WITHIN_ALL, port) && (site->kind != SITE_CLUSTER || lose_node(site, server));
	if (done && sides & SITE_CLIENTS)
		done = lose_port(FROM_CLIENTS, port);
	if (!done)
		network_heal();
	return done;
}

/* What sentinels and replicas do on a primary. */
#define DUTIES(sign) sign "ping " sign "info " sign "publish " sign "subscribe " sign "psync " sign "replconf"

void site_refuse(struct site *site, int server) {
	const struct test_server *cut = &site->sentinels.servers[server];
	test_redis_ok(cut, "ACL SETUSER within off");
	test_redis_ok(cut, "ACL SETUSER default " DUTIES("-"));
	test_redis_ok(cut, "CLIENT KILL USER within");
}

void site_let_in(struct site *site, int server) {
	const struct test_server *cut = &site->sentinels.servers[server];
	test_redis_ok(cut, "ACL SETUSER default " DUTIES("+"));
	test_redis_ok(cut, "ACL SETUSER within on");
}
