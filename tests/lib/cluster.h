/* SPDX-License-Identifier: MIT */
/* A real cluster on ports of 127.0.0.1: three primaries, each with a replica.
 *
 *   struct test_cluster cluster;
 *   assert_int_equal(test_cluster_start(&cluster, NULL), 0);
 *   int owner = test_cluster_owner(&cluster, "sneck:{door}");
 *   test_server_kill9(&cluster.nodes[owner]);
 *   int now = test_cluster_await_other(&cluster, "sneck:{door}", owner, 30000);
 *   test_cluster_stop(&cluster);
 *
 * Node i and node i + 3 share a third of the slots, whichever of them is the primary right now: at first
 * nodes 0 to 2 are. Nodes are killed, stopped and restarted by the functions of server.h; what is said here
 * with "ends the program" prints why and aborts. */
#ifndef TESTS_LIB_CLUSTER_H
#define TESTS_LIB_CLUSTER_H

#include "certs.h"
#include "server.h"

enum { CLUSTER_PRIMARIES = 3, CLUSTER_NODES = 2 * CLUSTER_PRIMARIES, CLUSTER_ID_LEN = 40 };

struct test_cluster_options {
	int node_timeout_ms;            /* after which a silent node is taken for dead; 0: 2000 */
	const struct test_certs *certs; /* NULL: no TLS; else nothing but TLS, between the nodes as well */
	const char *const *args;        /* NULL, or more for each server, NULL at the end */
};

struct test_cluster {
	struct test_server nodes[CLUSTER_NODES];
	char ids[CLUSTER_NODES][CLUSTER_ID_LEN + 1];
	char url[256]; /* redis[s]://… with all primaries as seeds, ca=… behind it with TLS */
};

/* Start all of them, and wait until every node serves and every replica has what its primary has. Takes about
 * two seconds: so long does a node refuse to serve after its start. 0 or -1; `options` may be NULL. */
int test_cluster_start(struct test_cluster *cluster, const struct test_cluster_options *options);
void test_cluster_stop(struct test_cluster *cluster);
/* As tests see it that know of one server: commands go to the primaries (server.h), or to all nodes. */
struct test_server test_cluster_face(struct test_cluster *cluster, int nodes);

/* Does every node that runs say that all is well, and that the same nodes have the slots? */
bool test_cluster_is_well(struct test_cluster *cluster);
/* Wait for that, and for every replica to follow. Ends the program after 30 s. */
void test_cluster_settle(struct test_cluster *cluster);

int test_cluster_slot(struct test_cluster *cluster, const char *key);
/* The node that serves this key; -1: none right now, or two that do not know of each other yet. Nodes that
 * are dead or stopped are not asked. */
int test_cluster_owner(struct test_cluster *cluster, const char *key);
/* Wait until another node than `old` serves it: which one. Ends the program after that time. */
int test_cluster_await_other(struct test_cluster *cluster, const char *key, int old, int timeout_ms);
/* The other node of the same slots. */
int test_cluster_partner(int node);

/* Let the replica of the key's owner take over, and wait until all know. `how`: "" (the primary agrees),
 * "FORCE" or "TAKEOVER" (it is not asked). Returns the new owner. */
int test_cluster_fail_over(struct test_cluster *cluster, const char *key, const char *how);

/* Move a slot, step by step: begin (both nodes know: ASK from now on for keys that are not at the old one),
 * up to `most` keys with each call of keys (how many were moved), end (all nodes know: MOVED). */
void test_cluster_move_begin(struct test_cluster *cluster, int slot, int from, int to);
int test_cluster_move_keys(struct test_cluster *cluster, int slot, int from, int to, int most);
void test_cluster_move_end(struct test_cluster *cluster, int slot, int from, int to);
/* All of it, for the slot of a key, to another primary; which one. */
int test_cluster_move(struct test_cluster *cluster, const char *key);

#endif
