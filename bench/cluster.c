/* SPDX-License-Identifier: MIT */
/* Renewing many locks that lie on three primaries, against one primary's share of them.
 *
 * Every primary is 5 ms away, by a line that it announces as its address. All connections are cut at once;
 * whoever holds then asks for everything anew, and the time until all is confirmed is what counts. If one
 * server had to wait for another, three shares would take three times as long as one. Replicas are stopped:
 * they would have machines of their own, and here they would take processor time from those that are
 * measured. */
#include "cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "delay.h"
#include "lib/cluster.h"
#include "lib/wait.h"
#include "sessions.h"
#include "stats.h"
#include "topology/command_slot.h"

enum { ROUNDS = 7, ALL = 10000, SHARE = ALL / CLUSTER_PRIMARIES, DELAY_MS = 5, LEASE_MS = 3600000 };

struct place {
	struct test_cluster cluster;
	struct delay_line *lines[CLUSTER_PRIMARIES];
	int ports[CLUSTER_PRIMARIES];
	char url[128];
};

static bool announced(struct place *place) {
	for (int i = 0; i < CLUSTER_PRIMARIES; i++) {
		char port[16];
		redisReply *reply = test_redis(&place->cluster.nodes[i], "CLUSTER NODES");
		bool all = reply && reply->str;
		for (int j = 0; all && j < CLUSTER_PRIMARIES; j++) {
			snprintf(port, sizeof port, ":%d@", place->ports[j]);
			all = strstr(reply->str, port) != NULL;
		}
		if (reply)
			freeReplyObject(reply);
		if (!all)
			return false;
	}
	return true;
}

static void start(struct place *place) {
	const sneck_error none = { 0 };

	if (test_cluster_start(&place->cluster, NULL) < 0)
		bench_fail("no cluster", &none);
	for (int i = CLUSTER_PRIMARIES; i < CLUSTER_NODES; i++)
		test_server_stop(&place->cluster.nodes[i]);
	for (int i = 0; i < CLUSTER_PRIMARIES; i++) {
		struct test_server *node = &place->cluster.nodes[i];
		place->lines[i] = delay_line_start(node->socket_path, &place->ports[i]);
		test_redis_ok(node, "CONFIG SET cluster-announce-bus-port %d", node->port + 10000);
		test_redis_ok(node, "CONFIG SET cluster-announce-port %d", place->ports[i]);
	}
	if (!WAIT_UNTIL(announced(place), 20000))
		bench_fail("the nodes do not tell each other of the lines", &none);
	snprintf(place->url, sizeof place->url, "redis+cluster://127.0.0.1:%d", place->ports[0]);
}

static void stop(struct place *place) {
	for (int i = 0; i < CLUSTER_PRIMARIES; i++)
		delay_line_stop(place->lines[i]);
	test_cluster_stop(&place->cluster);
}

static uint64_t renewals(sneck_client *client) {
	sneck_counters stats = { .size = sizeof stats };
	sneck_stats(client, &stats);
	return stats.renewals;
}

/* Does the name lie on the first primary? It has the first third of the slots. */
static bool on_the_first(const char *name) {
	return snecki_key_slot(name, strlen(name)) < SLOTS_N / CLUSTER_PRIMARIES;
}

/* Names that no round had before: what the last one had may not be given back yet. */
static void take(sneck_client *client, int round, int n, bool one_primary) {
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	sneck_error err;

	options.lease_ms = LEASE_MS;
	for (int i = 0, taken = 0; taken < n; i++) {
		char name[32];
		sneck_hold *hold;
		snprintf(name, sizeof name, "lock-%d-%d", round, i);
		if (one_primary && !on_the_first(name))
			continue;
		if (sneck_acquire(client, name, SNECK_WRITE, &options, &hold, &err) < 0)
			bench_fail("acquire", &err);
		taken++;
	}
}

static bool reached(sneck_client *client, sneck_hold **ret) {
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	sneck_error err;

	options.wait_ms = 1000;
	return sneck_acquire(client, "first", SNECK_WRITE, &options, ret, &err) == 0;
}

/* Processor time so far, in seconds: of this process without the lines, of the lines, and of the servers. */
struct cpu {
	double client, lines, servers;
};

static double server_cpu_s(const struct test_server *server) {
	static const char *const fields[] = { "used_cpu_sys:", "used_cpu_user:" };
	redisReply *reply = test_redis(server, "INFO cpu");
	double sum = 0;

	for (size_t i = 0; i < 2; i++)
		sum += strtod(strstr(reply->str, fields[i]) + strlen(fields[i]), NULL);
	freeReplyObject(reply);
	return sum;
}

static struct cpu cpu_of(const struct place *place) {
	struct timespec own;
	struct cpu cpu = { 0 };

	for (int i = 0; i < CLUSTER_PRIMARIES; i++) {
		cpu.servers += server_cpu_s(&place->cluster.nodes[i]);
		cpu.lines += delay_line_cpu_s(place->lines[i]);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
	cpu.client = (double)own.tv_sec + (double)own.tv_nsec / 1e9 - cpu.lines;
	return cpu;
}

struct costs {
	struct series client, lines, servers; /* us per renewal */
};

static void add_costs(struct costs *costs, const struct cpu *from, const struct cpu *to, int n) {
	series_add(&costs->client, 1e6 * (to->client - from->client) / n);
	series_add(&costs->lines, 1e6 * (to->lines - from->lines) / n);
	series_add(&costs->servers, 1e6 * (to->servers - from->servers) / n);
}

/* Seconds until all is confirmed. */
static double round_of(struct place *place, int round, int n, bool one_primary, struct costs *costs) {
	sneck_client *client = bench_open(place->url);
	const sneck_error none = { 0 };

	/* The servers may still be busy with the farewell of the last round. */
	sneck_hold *hold = NULL;
	if (!WAIT_UNTIL(reached(client, &hold), 20000))
		bench_fail("the cluster cannot be reached", &none);
	sneck_release(hold);
	take(client, round, n, one_primary);
	uint64_t before = renewals(client);
	for (int i = 0; i < CLUSTER_PRIMARIES; i++)
		delay_line_set(place->lines[i], DELAY_MS);
	struct cpu cpu = cpu_of(place);
	double began = now_s();
	for (int i = 0; i < CLUSTER_PRIMARIES; i++)
		delay_line_cut(place->lines[i]);
	if (!WAIT_UNTIL(renewals(client) - before >= (uint64_t)n, 60000))
		bench_fail("the renewals do not end", &none);
	double took = now_s() - began;
	struct cpu cpu_after = cpu_of(place);
	add_costs(costs, &cpu, &cpu_after, n);
	for (int i = 0; i < CLUSTER_PRIMARIES; i++)
		delay_line_set(place->lines[i], 0);
	sneck_close(client);
	return took;
}

void bench_cluster(void) {
	static struct place place;
	struct series all = { 0 }, share = { 0 }, ratio;
	struct costs costs = { 0 };
	char text[96];

	start(&place);
	for (int i = 0; i < ROUNDS; i++) {
		series_add(&share, 1000 * round_of(&place, 2 * i, SHARE, true, &costs));
		series_add(&all, 1000 * round_of(&place, 2 * i + 1, ALL, false, &costs));
	}
	stop(&place);
	series_ratio(&ratio, &all, &share);
	printf("renewing, each primary %d ms away\n", DELAY_MS);
	printf("  %d locks on one primary      %s\n", SHARE, series_text(&share, "ms", text, sizeof text));
	printf("  %d locks on three primaries %s\n", ALL, series_text(&all, "ms", text, sizeof text));
	printf("  ratio (at most 1.2)            %s\n", series_text(&ratio, "", text, sizeof text));
	printf("processor time for one renewal\n");
	printf("  client                         %s\n", series_text(&costs.client, "us", text, sizeof text));
	printf("  servers                        %s\n", series_text(&costs.servers, "us", text, sizeof text));
	printf("  delay lines                    %s\n", series_text(&costs.lines, "us", text, sizeof text));
}
