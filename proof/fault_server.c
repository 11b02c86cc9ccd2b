/* SPDX-License-Identifier: MIT */
/* Faults of the server: it stops, sleeps, pauses, forgets, fills up, starts again, loses its subscribers,
 * and its clock is set or runs wrong.
 *
 * What makes it forget holds (a flush, an eviction, an empty restart, an old dump, a jump of the clock
 * beyond the margin) is written down as a wipe: there no lock of one server can keep its promise of
 * exclusion, and the tokens must. */
#include "fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sneck/sneck.h>

static const struct test_server *server_of(struct strike *strike) {
	return &strike->rig->site.single;
}

/* A number out of INFO; 0 when it is not there. */
static uint64_t info_number(struct strike *strike, const char *section, const char *field) {
	redisReply *reply = test_redis(server_of(strike), "INFO %s", section);
	const char *at = reply && reply->str ? strstr(reply->str, field) : NULL;
	uint64_t value = at ? strtoull(at + strlen(field), NULL, 10) : 0;
	if (reply)
		freeReplyObject(reply);
	return value;
}

/* The server has lost its state. Who held finds out with the next renewal, and shares and hands over inside
 * its process until then; waiters find out with their next heartbeat, and join again; those who come
 * meanwhile go before them. Only then the fault is healed.
 *
 * Tokens follow the clock, and where they are ahead of it a lost key lets them begin anew: see
 * rig->ahead_until_ns. */
static void wiped(struct strike *strike, int64_t begin_ns, bool tokens) {
	rig_pass_time(SNECK_WAITER_BEAT_MS + 150);
	rig_wiped(strike->rig, begin_ns, tokens || begin_ns < strike->rig->ahead_until_ns);
}

/* Keys are gone, and not only those whose time is over. */
static bool loses_tokens(const struct strike *strike) {
	return strike->rig->shape.layout->counts_tokens;
}

/* ---- Time that the server does not answer --------------------------------------------------------*/

static void stop_server(struct strike *strike) {
	strike->bite = rig_engaged(strike->rig);
	test_server_stopcont(&strike->rig->site.single, true);
	rig_pass_time(strike->kind->number ? rng_between(&strike->rng, 1000, 2500)
	                                   : rng_between(&strike->rng, 30, 280));
	test_server_stopcont(&strike->rig->site.single, false);
}

static void sleep_server(struct strike *strike) {
	char seconds[16];
	snprintf(seconds, sizeof(seconds), "%.2f", (double)rng_between(&strike->rng, 5, 150) / 100);
	strike->bite = rig_engaged(strike->rig);
	test_redis_ok(server_of(strike), "DEBUG SLEEP %s", seconds);
}

static void pause_clients(struct strike *strike) {
	int64_t ms = rng_between(&strike->rng, 50, 1500);
	strike->bite = rig_engaged(strike->rig);
	test_redis_ok(server_of(strike), "CLIENT PAUSE %d %s", (int)ms,
	        rng_below(&strike->rng, 2) ? "ALL" : "WRITE");
	rig_pass_time(ms);
}

/* ---- Forgetting ----------------------------------------------------------------------------------*/

static void flush_scripts(struct strike *strike) {
	uint64_t before = info_number(strike, "errorstats", "errorstat_NOSCRIPT:count=");
	for (int i = 0; i < 3; i++) {
		test_redis_ok(server_of(strike), "SCRIPT FLUSH");
		rig_pass_time(rng_between(&strike->rng, 20, 150));
	}
	strike->bite = info_number(strike, "errorstats", "errorstat_NOSCRIPT:count=") - before;
}

static void flush_all(struct strike *strike) {
	int64_t begin_ns = history_now();
	strike->bite = (uint64_t)test_redis_int(server_of(strike), "DBSIZE");
	test_redis_ok(server_of(strike), "FLUSHALL");
	wiped(strike, begin_ns, loses_tokens(strike));
}

static void fill_memory(struct strike *strike) {
	uint64_t before = info_number(strike, "errorstats", "errorstat_OOM:count=");
	test_redis_ok(server_of(strike), "CONFIG SET maxmemory 1 maxmemory-policy noeviction");
	rig_pass_time(rng_between(&strike->rng, 100, 1200));
	test_redis_ok(server_of(strike), "CONFIG SET maxmemory 0");
	strike->bite = info_number(strike, "errorstats", "errorstat_OOM:count=") - before;
}

static void evict(struct strike *strike) {
	static const char *const policies[] = { "allkeys-lru", "allkeys-random", "volatile-ttl" };
	uint64_t before = info_number(strike, "stats", "evicted_keys:");
	int64_t begin_ns = history_now();
	test_redis_ok(
	        server_of(strike), "CONFIG SET maxmemory-policy %s", policies[rng_below(&strike->rng, 3)]);
	test_redis_ok(server_of(strike), "CONFIG SET maxmemory 1");
	rig_pass_time(rng_between(&strike->rng, 50, 500));
	test_redis_ok(server_of(strike), "CONFIG SET maxmemory 0 maxmemory-policy noeviction");
	strike->bite = info_number(strike, "stats", "evicted_keys:") - before;
	wiped(strike, begin_ns, loses_tokens(strike));
}

static void restart(struct strike *strike) {
	char dump[128];
	snprintf(dump, sizeof(dump), "%s/dump.rdb", strike->rig->site.single.dir);
	if (strike->kind->number) {
		test_redis_ok(server_of(strike), "SAVE");
		rig_pass_time(rng_between(&strike->rng, 50, 600));
	}
	int64_t begin_ns = history_now();
	strike->bite = rig_engaged(strike->rig);
	test_server_kill9(&strike->rig->site.single);
	if (!strike->kind->number)
		(void)unlink(dump);
	rig_pass_time(rng_between(&strike->rng, 0, 400));
	if (rig_restart_server(strike->rig) != 0)
		abort();
	/* Readers that join readers of the old state get the number that was theirs. */
	wiped(strike, begin_ns, strike->kind->number || loses_tokens(strike));
	if (strike->kind->number) /* an old queue is one of waiters that have gone */
		rig_clear_queues(strike->rig, 0, rig_locks(strike->rig));
}

/* ---- Connections ---------------------------------------------------------------------------------*/

static void kill_clients(struct strike *strike) {
	for (int i = 0; i < 3; i++) {
		strike->bite += (uint64_t)test_redis_int(
		        server_of(strike), "CLIENT KILL TYPE %s", strike->kind->text);
		rig_pass_time(rng_between(&strike->rng, 20, 200));
	}
}

/* Subscribers that do not keep up: a message larger than what the server keeps for one of them. */
static void overrun_subscribers(struct strike *strike) {
	static const size_t size = 64 * 1024;
	char *text = calloc(1, size);
	redisReply *channels = test_redis(server_of(strike), "PUBSUB CHANNELS");
	test_redis_ok(server_of(strike), "CONFIG SET client-output-buffer-limit %s", "pubsub 1kb 1kb 1");
	for (size_t i = 0; text && channels && i < channels->elements; i++) {
		memset(text, 'x', size);
		strike->bite += (uint64_t)test_redis_int(
		        server_of(strike), "PUBLISH %s %b", channels->element[i]->str, text, size);
	}
	rig_pass_time(rng_between(&strike->rng, 50, 300));
	test_redis_ok(server_of(strike), "CONFIG SET client-output-buffer-limit %s", "pubsub 32mb 8mb 60");
	if (channels)
		freeReplyObject(channels);
	free(text);
}

/* ---- The clock -----------------------------------------------------------------------------------*/

static int64_t wall_us(void) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* It stays where it was set: setting it back would be another jump. */
static void jump_ahead(struct strike *strike) {
	int64_t begin_ns = history_now();
	strike->bite = rig_engaged(strike->rig);
	strike->rig->clock->step_us += rng_between(&strike->rng, 50, 5000) * 1000;
	rig_pass_time(20);
	wiped(strike, begin_ns, false);
}

static void jump_back(struct strike *strike) {
	strike->bite = rig_engaged(strike->rig);
	int64_t ms = rng_between(&strike->rng, 5, 1500);
	strike->rig->clock->step_us -= ms * 1000;
	rig_tokens_ahead(strike->rig, ms + SNECK_WAITER_LEASE_MS);
	rig_pass_time(rng_between(&strike->rng, 100, 500));
}

/* Within the margin, which is one per cent: nothing may be seen of it. What has been gained when it ends
 * is kept, so that the end is no jump. */
static void drift(struct strike *strike) {
	struct false_clock_page *clock = strike->rig->clock;
	strike->bite = rig_engaged(strike->rig);
	clock->drift_since_us = wall_us();
	clock->drift_ppm = strike->kind->number;
	rig_pass_time(rng_between(&strike->rng, 1000, 2500));
	int64_t gained_us = (wall_us() - clock->drift_since_us) * clock->drift_ppm / 1000000;
	clock->drift_ppm = 0;
	clock->step_us += gained_us;
}

const struct fault_kind fault_server_kinds[] = {
	{ "server-stop", "SIGSTOP of the server for less than a lease", stop_server, 0, NULL },
	{ "server-stop-long", "SIGSTOP of the server beyond the leases", stop_server, 1, NULL },
	{ "server-sleep", "DEBUG SLEEP", sleep_server, 0, NULL },
	{ "server-pause", "CLIENT PAUSE", pause_clients, 0, NULL },
	{ "script-flush", "SCRIPT FLUSH", flush_scripts, 0, NULL },
	{ "flush", "FLUSHALL", flush_all, 0, NULL },
	{ "memory-full", "no memory left, nothing evicted", fill_memory, 0, NULL },
	{ "eviction", "no memory left, locks evicted", evict, 0, NULL },
	{ "restart-empty", "kill -9 of the server, and a start without data", restart, 0, NULL },
	{ "restart-old", "kill -9 of the server, and a start with an old dump", restart, 1, NULL },
	{ "clients-killed", "CLIENT KILL of every command connection", kill_clients, 0, "normal" },
	{ "subscribers-killed", "CLIENT KILL of every subscriber", kill_clients, 0, "pubsub" },
	{ "subscribers-slow", "subscribers dropped for what they have not read", overrun_subscribers, 0,
	        NULL },
	{ "clock-ahead", "the server's clock jumps ahead", jump_ahead, 0, NULL },
	{ "clock-back", "the server's clock jumps back", jump_back, 0, NULL },
	{ "clock-fast", "the server's clock runs 0.8 % fast", drift, 8000, NULL },
	{ "clock-slow", "the server's clock runs 0.8 % slow", drift, -8000, NULL },
	{ NULL, NULL, NULL, 0, NULL },
};
