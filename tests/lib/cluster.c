/* SPDX-License-Identifier: MIT */
/* Starts and disturbs the clusters that tests talk to.
 *
 * Nodes that meet by CLUSTER MEET need seconds to know each other. Here each one finds a nodes.conf that
 * says what a cluster of some age would have saved: all ids, ports and slots. They connect at once, and what
 * is left is the two seconds for which a node that was started refuses to serve.
 *
 * Ports are chosen below the range from which the kernel takes ports for outgoing connections, because the
 * bus needs a second one, 10000 above the first. All six are chosen before the first node starts; when one of
 * them was taken meanwhile all of it is done again. */
#include "cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "wait.h"

enum {
	START_TRIES = 5,
	READY_MS = 20000,
	SETTLE_MS = 30000,
	NODE_TIMEOUT_MS = 2000,
	FAILOVER_MS = 6000,
	FAILOVER_TRIES = 5,
	PORT_LOWEST = 10000,
	PORT_SPAN = 12000,
	BUS_OFFSET = 10000,
	SLOTS = 16384
};

static _Noreturn void give_up(const char *why) {
	fprintf(stderr, "cluster: %s\n", why);
	abort();
}

int test_cluster_partner(int node) {
	return (node + CLUSTER_PRIMARIES) % CLUSTER_NODES;
}

static bool answers(const struct test_server *node) {
	return node->pid > 0 && !node->stopped;
}

/* ---- Start --------------------------------------------------------------------------------------*/

static bool is_taken(const struct test_cluster *cluster, int nodes, int port) {
	for (int i = 0; i < nodes; i++)
		if (cluster->nodes[i].port == port)
			return true;
	return !test_port_is_free(port) || !test_port_is_free(port + BUS_OFFSET);
}

static unsigned chance(void) {
	static unsigned seed;

	if (!seed)
		seed = (unsigned)getpid() * 2654435761u ^ (unsigned)time(NULL);
	return (unsigned)rand_r(&seed);
}

static void choose_port(struct test_cluster *cluster, int node) {
	int port;

	do
		port = PORT_LOWEST + (int)(chance() % PORT_SPAN);
	while (is_taken(cluster, node, port));
	cluster->nodes[node].port = port;
}

/* Another for each cluster: one that is dead may have left its port to a node of this one. */
static void choose_id(char out[CLUSTER_ID_LEN + 1]) {
	for (int i = 0; i < CLUSTER_ID_LEN; i += 8)
		snprintf(out + i, 9, "%08x", chance());
}

static int first_slot(int third) {
	return third * SLOTS / CLUSTER_PRIMARIES;
}

/* One line for each node, as `self` would have written it. */
static int write_nodes(const struct test_cluster *cluster, int self) {
	char path[128];

	snprintf(path, sizeof(path), "%s/nodes.conf", cluster->nodes[self].dir);
	FILE *file = fopen(path, "we");
	if (!file)
		return -1;
	for (int i = 0; i < CLUSTER_NODES; i++) {
		int third = i % CLUSTER_PRIMARIES;
		bool primary = i == third;
		int port = cluster->nodes[i].port;
		fprintf(file, "%s 127.0.0.1:%d@%d %s%s %s 0 0 %d connected", cluster->ids[i], port,
		        port + BUS_OFFSET, i == self ? "myself," : "", primary ? "master" : "slave",
		        primary ? "-" : cluster->ids[third], third + 1);
		if (primary)
			fprintf(file, " %d-%d", first_slot(third), first_slot(third + 1) - 1);
		fputc('\n', file);
	}
	fprintf(file, "vars currentEpoch %d lastVoteEpoch 0\n", CLUSTER_PRIMARIES);
	return fclose(file);
}

static int prepare(struct test_cluster *cluster, const struct test_cluster_options *options) {
	char node_timeout[16];
	const char *args[TEST_SERVER_ARGS_MAX] = { "--cluster-enabled", "yes", "--cluster-config-file",
		"nodes.conf", "--cluster-node-timeout", node_timeout, "--cluster-announce-ip", "127.0.0.1",
		"--cluster-allow-replica-migration", "no", "--cluster-replica-validity-factor", "0",
		"--repl-diskless-sync-delay", "0" };
	size_t n = 14;

	snprintf(node_timeout, sizeof(node_timeout), "%d",
	        options->node_timeout_ms ? options->node_timeout_ms : NODE_TIMEOUT_MS);
	if (options->certs) {
		test_certs_args(options->certs, args + n);
		n += TEST_CERTS_ARGS - 1;
		args[n++] = "--tls-cluster";
		args[n++] = "yes";
		args[n++] = "--tls-replication";
		args[n++] = "yes";
	}
	for (size_t i = 0; options->args && options->args[i] && n < TEST_SERVER_ARGS_MAX - 1; i++)
		args[n++] = options->args[i];
	args[n] = NULL;
	for (int i = 0; i < CLUSTER_NODES; i++) {
		struct test_server *node = &cluster->nodes[i];
		if (test_server_prepare(node, args) < 0)
			return -1;
		node->tls = options->certs != NULL;
		choose_port(cluster, i);
		snprintf(node->url, sizeof(node->url), "redis%s://127.0.0.1:%d", node->tls ? "s" : "",
		        node->port);
		choose_id(cluster->ids[i]);
	}
	return 0;
}

static int start_once(struct test_cluster *cluster, const struct test_cluster_options *options) {
	memset(cluster, 0, sizeof(*cluster));
	if (prepare(cluster, options) < 0)
		return -1;
	for (int i = 0; i < CLUSTER_NODES; i++)
		if (write_nodes(cluster, i) != 0 || test_server_spawn(&cluster->nodes[i]) < 0)
			return -1;
	for (int i = 0; i < CLUSTER_NODES; i++)
		if (test_server_await(&cluster->nodes[i]) < 0)
			return -1;
	return 0;
}

static bool follows(const struct test_server *node) {
	redisReply *reply = test_redis(node, "ROLE");
	bool so = reply && reply->elements && reply->element[0]->str &&
	          (strcmp(reply->element[0]->str, "slave") ||
	                  (reply->elements == 5 && !strcmp(reply->element[3]->str, "connected")));

	if (reply)
		freeReplyObject(reply);
	return so;
}

static bool all_follow(const struct test_cluster *cluster) {
	for (int i = 0; i < CLUSTER_NODES; i++)
		if (answers(&cluster->nodes[i]) && !follows(&cluster->nodes[i]))
			return false;
	return true;
}

static void write_url(struct test_cluster *cluster, const struct test_certs *certs) {
	const struct test_server *node = cluster->nodes;

	snprintf(cluster->url, sizeof(cluster->url), "redis%s://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d%s%s",
	        certs ? "s" : "", node[0].port, node[1].port, node[2].port, certs ? "?ca=" : "",
	        certs ? certs->ca : "");
}

int test_cluster_start(struct test_cluster *cluster, const struct test_cluster_options *options) {
	static const struct test_cluster_options none;
	int r = -1;

	options = options ? options : &none;
	for (int i = 0; i < START_TRIES && r < 0; i++) {
		r = start_once(cluster, options);
		if (r < 0)
			test_cluster_stop(cluster);
	}
	if (r == 0 && WAIT_UNTIL(test_cluster_is_well(cluster) && all_follow(cluster), READY_MS)) {
		write_url(cluster, options->certs);
		return 0;
	}
	fprintf(stderr, "the cluster did not start\n");
	test_cluster_stop(cluster);
	return -1;
}

void test_cluster_stop(struct test_cluster *cluster) {
	for (int i = 0; i < CLUSTER_NODES; i++)
		test_server_stop(&cluster->nodes[i]);
}

struct test_server test_cluster_face(struct test_cluster *cluster, int nodes) {
	struct test_server face = { .peers = cluster->nodes, .peers_n = (size_t)nodes };

	snprintf(face.url, sizeof face.url, "%s", cluster->url);
	snprintf(face.dir, sizeof face.dir, "%s", cluster->nodes[0].dir);
	return face;
}

/* ---- What it says -------------------------------------------------------------------------------*/

static bool says_ok(const struct test_server *node) {
	redisReply *reply = test_redis(node, "CLUSTER INFO");
	bool so = reply && reply->str && strstr(reply->str, "cluster_state:ok");

	if (reply)
		freeReplyObject(reply);
	return so;
}

/* Who has which slots, according to a node: start and end of each range, ports of its primary and replica. */
static void slots_seen_by(const struct test_server *node, char *out, size_t size) {
	redisReply *reply = test_redis(node, "CLUSTER SLOTS");
	size_t len = 0;

	out[0] = '\0';
	for (size_t i = 0; reply && i < reply->elements; i++) {
		const redisReply *range = reply->element[i];
		for (size_t j = 0; j < range->elements && len < size; j++) {
			const redisReply *part = range->element[j];
			len += (size_t)snprintf(out + len, size - len, "%lld ",
			        j < 2 ? part->integer : part->element[1]->integer);
		}
	}
	if (reply)
		freeReplyObject(reply);
}

bool test_cluster_is_well(struct test_cluster *cluster) {
	char first[1024] = "", seen[1024];

	for (int i = 0; i < CLUSTER_NODES; i++) {
		if (!answers(&cluster->nodes[i]))
			continue;
		if (!says_ok(&cluster->nodes[i]))
			return false;
		slots_seen_by(&cluster->nodes[i], seen, sizeof(seen));
		if (!first[0])
			memcpy(first, seen, sizeof(first));
		if (!seen[0] || strcmp(first, seen) != 0)
			return false;
	}
	return true;
}

void test_cluster_settle(struct test_cluster *cluster) {
	if (!WAIT_UNTIL(test_cluster_is_well(cluster) && all_follow(cluster), SETTLE_MS))
		give_up("the nodes do not agree");
}

int test_cluster_slot(struct test_cluster *cluster, const char *key) {
	for (int i = 0; i < CLUSTER_NODES; i++)
		if (answers(&cluster->nodes[i]))
			return (int)test_redis_int(&cluster->nodes[i], "CLUSTER KEYSLOT %s", key);
	give_up("nobody answers");
}

/* A node that has the key's slot answers; others send us there. */
static bool serves(const struct test_server *node, const char *key) {
	redisReply *reply = test_redis(node, "EXISTS %s", key);
	bool so = reply && (reply->type == REDIS_REPLY_INTEGER ||
	                           (reply->type == REDIS_REPLY_ERROR && !strncmp(reply->str, "ASK ", 4)));

	if (reply)
		freeReplyObject(reply);
	return so;
}

int test_cluster_owner(struct test_cluster *cluster, const char *key) {
	int owner = -1;

	for (int i = 0; i < CLUSTER_NODES; i++) {
		if (!answers(&cluster->nodes[i]) || !serves(&cluster->nodes[i], key))
			continue;
		if (owner >= 0)
			return -1;
		owner = i;
	}
	return owner;
}

int test_cluster_await_other(struct test_cluster *cluster, const char *key, int old, int timeout_ms) {
	int now = -1;

	if (!WAIT_UNTIL((now = test_cluster_owner(cluster, key)) >= 0 && now != old, timeout_ms))
		give_up("no other node serves the key");
	return now;
}

static bool serves_alone(struct test_cluster *cluster, const char *key, int node) {
	return test_cluster_owner(cluster, key) == node;
}

int test_cluster_fail_over(struct test_cluster *cluster, const char *key, const char *how) {
	int old = test_cluster_owner(cluster, key), now = test_cluster_partner(old);
	bool done = false;

	if (old < 0)
		give_up("nobody serves the key");
	/* A request is accepted also when it comes to nothing, and then forgotten. */
	for (int i = 0; i < FAILOVER_TRIES && !done; i++) {
		test_redis_ok(&cluster->nodes[now], how[0] ? "CLUSTER FAILOVER %s" : "CLUSTER FAILOVER", how);
		done = WAIT_UNTIL(serves_alone(cluster, key, now), FAILOVER_MS);
	}
	if (!done)
		give_up("the replica did not take over");
	test_cluster_settle(cluster);
	return now;
}

/* ---- Slots that move ----------------------------------------------------------------------------*/

void test_cluster_move_begin(struct test_cluster *cluster, int slot, int from, int to) {
	/* The new one first: a client that is sent there must be let in. */
	test_redis_ok(&cluster->nodes[to], "CLUSTER SETSLOT %d IMPORTING %s", slot, cluster->ids[from]);
	test_redis_ok(&cluster->nodes[from], "CLUSTER SETSLOT %d MIGRATING %s", slot, cluster->ids[to]);
}

int test_cluster_move_keys(struct test_cluster *cluster, int slot, int from, int to, int most) {
	redisReply *keys = test_redis(&cluster->nodes[from], "CLUSTER GETKEYSINSLOT %d %d", slot, most);
	int moved = 0;

	for (size_t i = 0; keys && i < keys->elements; i++) {
		redisReply *reply = test_redis(&cluster->nodes[from], "MIGRATE 127.0.0.1 %d %b 0 5000",
		        cluster->nodes[to].port, keys->element[i]->str, keys->element[i]->len);
		if (!reply || reply->type == REDIS_REPLY_ERROR)
			give_up(reply ? reply->str : "no answer to MIGRATE");
		moved += !strcmp(reply->str, "OK"); /* NOKEY: it went meanwhile */
		freeReplyObject(reply);
	}
	if (keys)
		freeReplyObject(keys);
	return moved;
}

void test_cluster_move_end(struct test_cluster *cluster, int slot, int from, int to) {
	const int order[] = { to, from };

	for (int i = 0; i < 2; i++)
		test_redis_ok(
		        &cluster->nodes[order[i]], "CLUSTER SETSLOT %d NODE %s", slot, cluster->ids[to]);
	for (int i = 0; i < CLUSTER_NODES; i++) {
		if (i == to || i == from || !answers(&cluster->nodes[i]))
			continue;
		/* A replica hears it from the others. */
		redisReply *reply =
		        test_redis(&cluster->nodes[i], "CLUSTER SETSLOT %d NODE %s", slot, cluster->ids[to]);
		if (reply)
			freeReplyObject(reply);
	}
}

int test_cluster_move(struct test_cluster *cluster, const char *key) {
	int slot = test_cluster_slot(cluster, key), from = test_cluster_owner(cluster, key), to = -1;

	for (int i = 1; i < CLUSTER_NODES && to < 0; i++) {
		int other = (from + i) % CLUSTER_NODES;
		redisReply *reply =
		        answers(&cluster->nodes[other]) ? test_redis(&cluster->nodes[other], "ROLE") : NULL;
		if (reply && reply->elements && !strcmp(reply->element[0]->str, "master"))
			to = other;
		if (reply)
			freeReplyObject(reply);
	}
	if (from < 0 || to < 0)
		give_up("there is no other primary to move a slot to");
	test_cluster_move_begin(cluster, slot, from, to);
	while (test_cluster_move_keys(cluster, slot, from, to, 100) > 0)
		;
	test_cluster_move_end(cluster, slot, from, to);
	return to;
}
