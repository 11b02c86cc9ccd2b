/* SPDX-License-Identifier: MIT */
/* Faults of a primary with replicas under sentinels. Five of them end in a failover: the sentinels are asked
 * for one, or the primary is killed, stopped, or cut off from all but its clients, in silence or by refusal.
 * There a grant that had not reached the promoted replica is lost, which is written down as a wipe; what is
 * not excused is told by its flag (history.h). The others take a replica or some of the sentinels away:
 * nobody may notice.
 *
 * The wipe ends soon after the last sentinel names the new primary, not when the old one is mended: by then
 * every client must have left the old primary, whatever it goes on granting. */
#include "fault.h"

#include <stdio.h>
#include <string.h>

#include <sneck/sneck.h>

#include "network.h"
#include "wait.h"

enum { LEFT_MS = 2000 /* from the last sentinel's word until nobody holds anything of the old primary's */ };

static struct test_sentinels *sentinels_of(struct strike *strike) {
	return &strike->rig->site.sentinels;
}

/* ---- Failovers -----------------------------------------------------------------------------------*/

/* The new primary, when everybody has had the time to hear of it. */
static int await_switch(struct strike *strike, int old, int64_t begin_ns) {
	int primary = test_sentinels_wait_switch(sentinels_of(strike), old);
	rig_pass_time(LEFT_MS);
	rig_failed_over(strike->rig, begin_ns, HISTORY_ALL);
	return primary;
}

static void mended(struct strike *strike) {
	test_sentinels_settle(sentinels_of(strike));
	site_seen(&strike->rig->site);
}

static bool ask(struct strike *strike) {
	struct test_sentinels *all = sentinels_of(strike);
	redisReply *reply = test_redis(&all->sentinels[rng_below(&strike->rng, SENTINELS_N)],
	        "SENTINEL FAILOVER " SENTINELS_SERVICE);
	bool accepted = reply && reply->type == REDIS_REPLY_STATUS;
	if (reply)
		freeReplyObject(reply);
	return accepted;
}

static void ask_for_it(struct strike *strike) {
	int64_t begin_ns = history_now();
	int old = strike->rig->site.primary;
	strike->bite = rig_engaged(strike->rig);
	if (!WAIT_UNTIL(ask(strike), 30000))
		return;
	(void)await_switch(strike, old, begin_ns);
	mended(strike);
}

static void kill_primary(struct strike *strike) {
	int64_t begin_ns = history_now();
	int old = strike->rig->site.primary;
	strike->bite = rig_engaged(strike->rig);
	test_server_kill9(&sentinels_of(strike)->servers[old]);
	int now = await_switch(strike, old, begin_ns);
	test_sentinels_bring_back(sentinels_of(strike), old, now);
	mended(strike);
}

static void stop_primary(struct strike *strike) {
	int64_t begin_ns = history_now();
	int old = strike->rig->site.primary;
	strike->bite = rig_engaged(strike->rig);
	test_server_stopcont(&sentinels_of(strike)->servers[old], true);
	(void)await_switch(strike, old, begin_ns);
	/* It goes on as a primary until the sentinels tell it otherwise. */
	test_server_stopcont(&sentinels_of(strike)->servers[old], false);
	mended(strike);
}

static void cut_primary_off(struct strike *strike) {
	int64_t begin_ns = history_now();
	int old = strike->rig->site.primary;
	uint64_t engaged = rig_engaged(strike->rig);
	if (!site_silence(&strike->rig->site, old, SITE_WITHIN))
		return; /* has not bitten */
	strike->bite = engaged;
	(void)await_switch(strike, old, begin_ns);
	network_heal();
	mended(strike);
}

static void refuse_all_but_clients(struct strike *strike) {
	int64_t begin_ns = history_now();
	int old = strike->rig->site.primary;
	strike->bite = rig_engaged(strike->rig);
	site_refuse(&strike->rig->site, old);
	(void)await_switch(strike, old, begin_ns);
	site_let_in(&strike->rig->site, old);
	mended(strike);
}

/* ---- What nobody may notice ----------------------------------------------------------------------*/

static int some_replica(struct strike *strike) {
	int step = 1 + (int)rng_below(&strike->rng, SENTINELS_SERVERS - 1);
	return (strike->rig->site.primary + step) % SENTINELS_SERVERS;
}

static void kill_replica(struct strike *strike) {
	int replica = some_replica(strike);
	strike->bite = rig_engaged(strike->rig);
	test_server_kill9(&sentinels_of(strike)->servers[replica]);
	rig_pass_time(rng_between(&strike->rng, 200, 2500));
	test_sentinels_bring_back(sentinels_of(strike), replica, strike->rig->site.primary);
	mended(strike);
}

static void stop_replica(struct strike *strike) {
	int replica = some_replica(strike);
	strike->bite = rig_engaged(strike->rig);
	test_server_stopcont(&sentinels_of(strike)->servers[replica], true);
	rig_pass_time(rng_between(&strike->rng, 200, 2500));
	test_server_stopcont(&sentinels_of(strike)->servers[replica], false);
	mended(strike);
}

/* Clients that listen to it. */
static uint64_t listeners(const struct test_server *sentinel) {
	redisReply *reply = test_redis(sentinel, "CLIENT LIST");
	uint64_t n = 0;
	for (const char *at = reply && reply->type == REDIS_REPLY_STRING ? reply->str : NULL;
	        at && (at = strstr(at, " sub=1")); at++)
		n++;
	if (reply)
		freeReplyObject(reply);
	return n;
}

static uint32_t most_listened_to(struct test_sentinels *all) {
	uint32_t best = 0;
	for (uint32_t i = 1; i < SENTINELS_N; i++)
		if (listeners(&all->sentinels[i]) > listeners(&all->sentinels[best]))
			best = i;
	return best;
}

/* One or two of them, so that one is left. */
static void kill_sentinels(struct strike *strike) {
	struct test_sentinels *all = sentinels_of(strike);
	uint32_t first = most_listened_to(all), n = 1 + rng_below(&strike->rng, 2);
	for (uint32_t i = 0; i < n; i++) {
		strike->bite += listeners(&all->sentinels[(first + i) % SENTINELS_N]);
		test_server_kill9(&all->sentinels[(first + i) % SENTINELS_N]);
	}
	rig_pass_time(rng_between(&strike->rng, 200, 2500));
	for (uint32_t i = 0; i < n; i++)
		(void)test_server_restart(&all->sentinels[(first + i) % SENTINELS_N]);
	mended(strike);
}

/* Not for longer than two seconds: a sentinel that finds its own clock to have jumped so far does nothing
 * for half a minute. */
static void stop_sentinel(struct strike *strike) {
	struct test_sentinels *all = sentinels_of(strike);
	struct test_server *one = &all->sentinels[most_listened_to(all)];
	strike->bite = listeners(one);
	test_server_stopcont(one, true);
	rig_pass_time(rng_between(&strike->rng, 200, 1500));
	test_server_stopcont(one, false);
	mended(strike);
}

const struct fault_kind fault_sentinel_kinds[] = {
	{ "failover-asked", "the sentinels are asked for a failover", ask_for_it, 0, NULL },
	{ "failover-killed", "kill -9 of the primary", kill_primary, 0, NULL },
	{ "failover-stopped", "SIGSTOP of the primary until another is one", stop_primary, 0, NULL },
	{ "failover-cut-off", "the primary is cut off from sentinels and replicas, not from its clients",
	        cut_primary_off, 0, NULL },
	{ "failover-refused", "the primary refuses sentinels and replicas, not its clients",
	        refuse_all_but_clients, 0, NULL },
	{ "replica-killed", "kill -9 of a replica", kill_replica, 0, NULL },
	{ "replica-stopped", "SIGSTOP of a replica", stop_replica, 0, NULL },
	{ "sentinels-killed", "kill -9 of one or two sentinels", kill_sentinels, 0, NULL },
	{ "sentinel-stopped", "SIGSTOP of a sentinel", stop_sentinel, 0, NULL },
	{ NULL, NULL, NULL, 0, NULL },
};
