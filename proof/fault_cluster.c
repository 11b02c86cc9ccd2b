/* SPDX-License-Identifier: MIT */
/* Faults of a cluster: nodes that fail over, die, stop and are cut off, and slots that move.
 *
 * A failover that the primary agrees to loses nothing: it hands over what it has, and nothing is excused.
 * In the others grants that had not reached the replica are lost, of the locks that the node had and of no
 * others (see fault_sentinel.c for when that is over). A move of a slot loses nothing either. Replicas that
 * die or stop nobody may notice.
 *
 * A primary that is cut off from the other nodes is replaced by them, whether clients reach it or not. One
 * that only clients do not reach is well as far as nodes can tell: nobody replaces it unless asked, which
 * loses nothing. */
#include "fault.h"

#include <stdio.h>
#include <sys/time.h>

#include <sneck/sneck.h>

#include "network.h"
#include "wait.h"

enum {
	LEFT_MS = 2000,
	SWITCH_MS = 60000,
	PROBE_MS = 300,
	HIDDEN_LEAST_MS = 2500,
	HIDDEN_MOST_MS = 5000,
	KEY_MAX = 32
};

static struct test_cluster *cluster_of(struct strike *strike) {
	return &strike->rig->site.cluster;
}

static const char *key_of(uint32_t lock, char out[KEY_MAX]) {
	snprintf(out, KEY_MAX, "sneck:{fault-%u}", lock);
	return out;
}

/* A lock that is used all the time: those with short sections come first. */
static uint32_t hot_lock(struct strike *strike) {
	return rng_below(&strike->rng, strike->rig->shape.fast_locks);
}

/* ---- Failovers -----------------------------------------------------------------------------------*/

/* One that is about to be lost: who it is, and which locks it has. */
struct victim {
	char key[KEY_MAX]; /* of one of them */
	int node;
	int64_t begin_ns;
	bool had[BOARD_LOCKS];
};

static void choose(struct strike *strike, struct victim *ret) {
	struct test_cluster *cluster = cluster_of(strike);
	uint32_t locks = rig_locks(strike->rig);
	char key[KEY_MAX];
	(void)key_of(hot_lock(strike), ret->key);
	ret->node = test_cluster_owner(cluster, ret->key);
	for (uint32_t i = 0; i < locks; i++)
		ret->had[i] = test_cluster_owner(cluster, key_of(i, key)) == ret->node;
	strike->bite = rig_engaged(strike->rig);
	ret->begin_ns = history_now();
}

static void await_switch(struct strike *strike, const struct victim *victim) {
	(void)test_cluster_await_other(cluster_of(strike), victim->key, victim->node, SWITCH_MS);
	rig_pass_time(LEFT_MS);
	for (uint32_t i = 0; i < rig_locks(strike->rig); i++)
		if (victim->had[i])
			rig_failed_over(strike->rig, victim->begin_ns, i);
}

static void mended(struct strike *strike) {
	test_cluster_settle(cluster_of(strike));
	site_seen(&strike->rig->site);
}

static void hand_over(struct strike *strike) {
	struct victim victim;
	choose(strike, &victim);
	(void)test_cluster_fail_over(cluster_of(strike), victim.key, "");
	mended(strike);
}

static void take_over(struct strike *strike) {
	struct victim victim;
	choose(strike, &victim);
	(void)test_cluster_fail_over(cluster_of(strike), victim.key, "TAKEOVER");
	await_switch(strike, &victim);
	mended(strike);
}

static void kill_primary(struct strike *strike) {
	struct victim victim;
	choose(strike, &victim);
	test_server_kill9(&cluster_of(strike)->nodes[victim.node]);
	await_switch(strike, &victim);
	(void)test_server_restart(&cluster_of(strike)->nodes[victim.node]);
	mended(strike);
}

static void stop_primary(struct strike *strike) {
	struct victim victim;
	choose(strike, &victim);
	test_server_stopcont(&cluster_of(strike)->nodes[victim.node], true);
	await_switch(strike, &victim);
	test_server_stopcont(&cluster_of(strike)->nodes[victim.node], false);
	mended(strike);
}

/* ---- Cut off -------------------------------------------------------------------------------------*/

/* As one of them would try. */
static bool clients_reach(const struct test_server *node) {
	const struct timeval patience = { .tv_usec = PROBE_MS * 1000 };
	redisContext *context = redisConnectWithTimeout("127.0.0.1", node->port, patience);
	bool reached = context && !context->err;
	if (context)
		redisFree(context);
	return reached;
}

/* False: this machine does not let us, and the fault has not bitten. Nor has it where clients are not found
 * on the side where they shall be; that nodes are cut off shows in what they do about it. */
static bool cut_off(struct strike *strike, struct victim *ret, unsigned sides) {
	choose(strike, ret);
	uint64_t engaged = strike->bite;
	strike->bite = 0;
	if (ret->node < 0 || !site_silence(&strike->rig->site, ret->node, sides))
		return false;
	if (clients_reach(&cluster_of(strike)->nodes[ret->node]) == !(sides & SITE_CLIENTS))
		strike->bite = engaged;
	return true;
}

/* Until the replica has taken over, and everybody has had the time to hear of it. */
static void cut_primary_off(struct strike *strike) {
	struct victim victim;
	if (!cut_off(strike, &victim, (unsigned)strike->kind->number))
		return;
	await_switch(strike, &victim);
	network_heal();
	mended(strike);
}

/* For longer than a node may be silent; nobody but clients finds that it is. */
static bool hide_from_clients(struct strike *strike, struct victim *ret) {
	if (!cut_off(strike, ret, SITE_CLIENTS))
		return false;
	rig_pass_time(rng_between(&strike->rng, HIDDEN_LEAST_MS, HIDDEN_MOST_MS));
	rig_look_at_primary(strike->rig);
	return true;
}

static void hide_primary(struct strike *strike) {
	struct victim victim;
	if (!hide_from_clients(strike, &victim))
		return;
	network_heal();
	mended(strike);
}

/* What an operator would do: the replica, which clients do reach, is told to take over. They have to find it
 * while the old one says nothing. */
static void replace_hidden_primary(struct strike *strike) {
	struct victim victim;
	if (!hide_from_clients(strike, &victim))
		return;
	(void)test_cluster_fail_over(cluster_of(strike), victim.key, "");
	rig_pass_time(LEFT_MS);
	network_heal();
	mended(strike);
}

/* ---- Slots ---------------------------------------------------------------------------------------*/

static int other_primary(struct strike *strike, int node) {
	const struct test_server *primaries[SITE_PRIMARIES_MAX];
	struct test_cluster *cluster = cluster_of(strike);
	size_t n = site_primaries(&strike->rig->site, primaries);
	uint32_t start = rng_below(&strike->rng, (uint32_t)(n ? n : 1));
	for (size_t i = 0; i < n; i++) {
		int other = (int)(primaries[(start + i) % n] - cluster->nodes);
		if (other != node)
			return other;
	}
	return -1;
}

/* Step by step, with time in between: keys that are there, gone, and not there yet are all met. */
static void move_slot(struct strike *strike) {
	struct test_cluster *cluster = cluster_of(strike);
	char key[KEY_MAX];
	(void)key_of(hot_lock(strike), key);
	int slot = test_cluster_slot(cluster, key), from = test_cluster_owner(cluster, key);
	int to = from < 0 ? -1 : other_primary(strike, from);
	if (to < 0)
		return;
	test_cluster_move_begin(cluster, slot, from, to);
	rig_pass_time(rng_between(&strike->rng, 20, 400));
	do
		strike->bite += (uint64_t)test_cluster_move_keys(cluster, slot, from, to, 100);
	while (test_redis_int(&cluster->nodes[from], "CLUSTER COUNTKEYSINSLOT %d", slot) > 0);
	rig_pass_time(rng_between(&strike->rng, 20, 400));
	/* What came to be at the old one meanwhile: nothing may, it sends everybody on. */
	while (test_cluster_move_keys(cluster, slot, from, to, 100) > 0)
		;
	test_cluster_move_end(cluster, slot, from, to);
	rig_pass_time(rng_between(&strike->rng, 100, 500));
	mended(strike);
}

/* ---- What nobody may notice ----------------------------------------------------------------------*/

static struct test_server *some_replica(struct strike *strike) {
	char key[KEY_MAX];
	int owner = test_cluster_owner(cluster_of(strike), key_of(hot_lock(strike), key));
	strike->bite = rig_engaged(strike->rig);
	return &cluster_of(strike)->nodes[test_cluster_partner(owner < 0 ? 0 : owner)];
}

static void kill_replica(struct strike *strike) {
	struct test_server *replica = some_replica(strike);
	test_server_kill9(replica);
	rig_pass_time(rng_between(&strike->rng, 200, 3500));
	(void)test_server_restart(replica);
	mended(strike);
}

static void stop_replica(struct strike *strike) {
	struct test_server *replica = some_replica(strike);
	test_server_stopcont(replica, true);
	rig_pass_time(rng_between(&strike->rng, 200, 3500));
	test_server_stopcont(replica, false);
	mended(strike);
}

const struct fault_kind fault_cluster_kinds[] = {
	{ "failover-agreed", "CLUSTER FAILOVER: the primary hands over to its replica", hand_over, 0, NULL },
	{ "failover-taken", "CLUSTER FAILOVER TAKEOVER: it is not asked", take_over, 0, NULL },
	{ "failover-killed", "kill -9 of a primary", kill_primary, 0, NULL },
	{ "failover-stopped", "SIGSTOP of a primary until its replica is one", stop_primary, 0, NULL },
	{ "failover-cut-off", "a primary is cut off from the other nodes, not from its clients",
	        cut_primary_off, SITE_WITHIN, NULL },
	{ "failover-vanished", "a primary is cut off from the other nodes and from its clients",
	        cut_primary_off, SITE_WITHIN | SITE_CLIENTS, NULL },
	{ "failover-hidden", "a primary is cut off from its clients; its replica is told to take over",
	        replace_hidden_primary, 0, NULL },
	{ "primary-hidden", "a primary is cut off from its clients, not from the other nodes", hide_primary,
	        0, NULL },
	{ "slot-moved", "the slot of a lock moves to another primary", move_slot, 0, NULL },
	{ "replica-killed", "kill -9 of a replica", kill_replica, 0, NULL },
	{ "replica-stopped", "SIGSTOP of a replica", stop_replica, 0, NULL },
	{ NULL, NULL, NULL, 0, NULL },
};
