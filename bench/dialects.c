/* SPDX-License-Identifier: MIT */
/* What the layouts cost beside each other: the server's time for a pair of acquire and release, alone and
 * among many readers, and the commands by which a lock passes through sessions that wait for it.
 *
 * Every figure is a median of rounds, and how far the rounds lay apart is printed below the table. Commands
 * depend little on what else the machine does. The server's time does: it goes on while the server waits for
 * a processor, and on a busy machine single rounds take many times as long. So times have more rounds.
 *
 *   - Readers are sessions of their own, written over one connection with the dialect's own requests. All
 *     have the same long lease, so that none of them ends while others are measured. The crowds of all
 *     layouts stand at once, and every round visits each: they share the noise.
 *   - Hand-offs are counted from the release that finds all sessions waiting until the last one has the lock.
 *     How they came to wait (the first question, the subscription) lies before it. A pass that is not
 *     counted comes first, so that no script has to be sent and no channel subscribed for the first time.
 *   - Each waiting session is a client with connections of its own, as if it were a process of its own: a
 *     layout that wakes one waiter of every process wakes them all. */
#include "dialects.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commandstats.h"
#include "dialect/dialect.h"
#include "lib/server.h"
#include "lib/wait.h"
#include "raw.h"
#include "sessions.h"
#include "stats.h"

enum {
	TIME_ROUNDS = 25,
	PASS_ROUNDS = 5,
	PAIRS = 200,
	CROWD_LEASE_MS = 600000,
	QUIET_MS = 20,
	ASSEMBLE_MS = 30000,
	WAITING_MOST = 200,
	URL_MAX = 640
};

static const char *const dialects[] = { "native", "redisson:lock", "redisson:fenced", "redisson:fair",
	"redisson:rwlock", "counted", "intent" };
static const unsigned crowds[] = { 1, 100, 1000, 5000 };
static const unsigned queues[] = { 2, 20, WAITING_MOST };
enum {
	DIALECTS = sizeof dialects / sizeof dialects[0],
	CROWDS = sizeof crowds / sizeof crowds[0],
	QUEUES = sizeof queues / sizeof queues[0]
};

struct figures {
	struct series write_us, read_us[CROWDS], handoff[QUEUES]; /* no rounds: the layout cannot do it */
};

/* ---- The server's time --------------------------------------------------------------------------*/

struct stand {
	struct raw raw;
	char free_name[64];
	char names[CROWDS][64];
};

static void stand_up(struct stand *stand, const struct test_server *server, const char *dialect) {
	raw_open(&stand->raw, server->socket_path, dialect, 0);
	stand->raw.lease_ms = CROWD_LEASE_MS;
	snprintf(stand->free_name, sizeof stand->free_name, "bench/%s/free", dialect);
	for (size_t i = 0; i < CROWDS && !stand->raw.dialect->traits.no_read; i++) {
		snprintf(stand->names[i], sizeof stand->names[i], "bench/%s/%u", dialect, crowds[i]);
		for (unsigned reader = 1; reader <= crowds[i]; reader++) {
			raw_become(&stand->raw, reader);
			raw_acquire(&stand->raw, stand->names[i], 'R');
		}
	}
	raw_become(&stand->raw, 0);
}

static void dialect_url(const struct test_server *server, const char *dialect, char *out, size_t size) {
	snprintf(out, size, "%s?dialect=%s", server->url, dialect);
}

/* A figure beside readers that are not there would be worthless. */
static void check_crowds(const struct test_server *server, const struct stand *stand) {
	char url[URL_MAX];

	if (stand->raw.dialect->traits.no_read)
		return;
	dialect_url(server, stand->raw.dialect->name, url, sizeof url);
	sneck_client *client = bench_open(url);
	for (size_t i = 0; i < CROWDS; i++) {
		sneck_lock_info *info;
		sneck_error err;

		if (sneck_inspect(client, stand->names[i], strlen(stand->names[i]), 1, &info, &err) < 0)
			bench_fail("inspect", &err);
		if (info->holder_n != crowds[i]) {
			fprintf(stderr, "bench: %s has %zu readers, not %u\n", stand->names[i],
			        info->holder_n, crowds[i]);
			exit(1);
		}
		sneck_lock_info_free(info);
	}
	sneck_close(client);
}

static void pairs(struct raw *raw, const char *name, char mode, int n) {
	for (int i = 0; i < n; i++) {
		uint64_t attempt = raw_acquire(raw, name, mode);
		raw_release(raw, name, mode, attempt);
	}
}

static double pair_us(const struct test_server *server, struct raw *raw, const char *name, char mode) {
	pairs(raw, name, mode, 1); /* the script may not be there yet */
	test_redis_ok(server, "CONFIG RESETSTAT");
	pairs(raw, name, mode, PAIRS);
	return 2 * bench_script_us(server);
}

static void measure_times(const struct test_server *server, struct figures *figures) {
	struct stand *stands = calloc(DIALECTS, sizeof *stands);

	if (!stands)
		abort();
	fprintf(stderr, "bench: dialects: the readers take their places\n");
	for (size_t d = 0; d < DIALECTS; d++)
		stand_up(&stands[d], server, dialects[d]);
	for (int round = 0; round < TIME_ROUNDS; round++) {
		if (round % 5 == 0)
			fprintf(stderr, "bench: dialects: server time, round %d of %d\n", round + 1,
			        TIME_ROUNDS);
		for (size_t d = 0; d < DIALECTS; d++) {
			struct raw *raw = &stands[d].raw;
			series_add(&figures[d].write_us, pair_us(server, raw, stands[d].free_name, 'W'));
			for (size_t i = 0; i < CROWDS && !raw->dialect->traits.no_read; i++)
				series_add(&figures[d].read_us[i],
				        pair_us(server, raw, stands[d].names[i], 'R'));
		}
	}
	for (size_t d = 0; d < DIALECTS; d++) {
		check_crowds(server, &stands[d]);
		raw_close(&stands[d].raw);
	}
	free(stands);
	test_redis_ok(server, "FLUSHALL");
}

/* ---- Hand-off -----------------------------------------------------------------------------------*/

static const char handoff_name[] = "bench/handoff";

struct waiter {
	pthread_t thread;
	sneck_client *client;
	uint64_t commands_before;
};

static void *wait_and_pass(void *arg) {
	struct waiter *waiter = arg;

	bench_pair(waiter->client, handoff_name, SNECK_WRITE);
	return NULL;
}

static sneck_counters counters_of(sneck_client *client) {
	sneck_counters stats = { .size = sizeof stats };

	sneck_stats(client, &stats);
	return stats;
}

static bool all_wait(const struct waiter *waiters, unsigned n) {
	for (unsigned i = 0; i < n; i++) {
		sneck_counters stats = counters_of(waiters[i].client);
		if (stats.waiters != 1 || stats.commands == waiters[i].commands_before)
			return false;
	}
	return true;
}

/* Everybody has asked, and no subscription has come for a while. Questions that are asked again do not
 * count here: some layouts never cease to ask. */
static void assemble(const struct test_server *server, const struct waiter *waiters, unsigned n) {
	int64_t since_ms = 0;
	uint64_t last = 0;

	if (!WAIT_UNTIL(all_wait(waiters, n), ASSEMBLE_MS)) {
		fprintf(stderr, "bench: not all of %u sessions have come to wait\n", n);
		exit(1);
	}
	do {
		uint64_t subscriptions = bench_subscriptions(server);
		if (!since_ms || subscriptions != last)
			since_ms = test_now_ms();
		last = subscriptions;
	} while (test_wait_step(since_ms + QUIET_MS));
}

/* Commands for each time that the lock passes on, when it passes once through all. */
static double pass(
        const struct test_server *server, sneck_client *first, struct waiter *waiters, unsigned n) {
	sneck_hold *hold;
	sneck_error err;

	if (sneck_acquire(first, handoff_name, SNECK_WRITE, NULL, &hold, &err) < 0)
		bench_fail("acquire", &err);
	for (unsigned i = 0; i < n; i++) {
		waiters[i].commands_before = counters_of(waiters[i].client).commands;
		if (pthread_create(&waiters[i].thread, NULL, wait_and_pass, &waiters[i]) != 0)
			abort();
	}
	assemble(server, waiters, n);
	test_redis_ok(server, "CONFIG RESETSTAT");
	if (sneck_release(hold) < 0) {
		fprintf(stderr, "bench: release failed\n");
		exit(1);
	}
	for (unsigned i = 0; i < n; i++)
		pthread_join(waiters[i].thread, NULL);
	return (double)(bench_requests(server) - 1) / n; /* the last release passes it on to nobody */
}

static void measure_handoff(
        const struct test_server *server, const char *dialect, unsigned n, struct series *series) {
	struct waiter waiters[WAITING_MOST];
	char url[URL_MAX];

	fprintf(stderr, "bench: dialects: hand-off, %u waiting, %s\n", n, dialect);
	dialect_url(server, dialect, url, sizeof url);
	sneck_client *first = bench_open(url);
	for (unsigned i = 0; i < n; i++)
		waiters[i].client = bench_open(url);
	pass(server, first, waiters, n);
	for (int round = 0; round < PASS_ROUNDS; round++)
		series_add(series, pass(server, first, waiters, n));
	for (unsigned i = 0; i < n; i++)
		sneck_close(waiters[i].client);
	sneck_close(first);
	test_redis_ok(server, "FLUSHALL");
}

/* ---- The table ----------------------------------------------------------------------------------*/

static void print_cell(const struct series *series, bool markdown) {
	char text[32] = "-";

	if (series->n)
		snprintf(text, sizeof text, "%.1f", series_median(series));
	printf(markdown ? " %s |" : " %8s", text);
}

static void print_row(const char *dialect, const struct figures *figures, bool markdown) {
	printf(markdown ? "| `%s` |" : "  %-16s", dialect);
	print_cell(&figures->write_us, markdown);
	for (size_t i = 0; i < CROWDS; i++)
		print_cell(&figures->read_us[i], markdown);
	for (size_t i = 0; i < QUEUES; i++)
		print_cell(&figures->handoff[i], markdown);
	printf("\n");
}

static void print_head(bool markdown) {
	if (markdown) {
		printf("| dialect | WRITE, µs |");
		for (size_t i = 0; i < CROWDS; i++)
			printf(" READ beside %u, µs |", crowds[i]);
		for (size_t i = 0; i < QUEUES; i++)
			printf(" commands, %u waiting |", queues[i]);
		printf("\n|---|");
		for (size_t i = 0; i < 1 + CROWDS + QUEUES; i++)
			printf("---:|");
		printf("\n");
		return;
	}
	printf("dialects: server microseconds of acquire + release (WRITE on a free lock; READ beside n "
	       "readers),\nand commands per hand-off with n sessions waiting\n  %-16s %8s",
	        "", "WRITE");
	for (size_t i = 0; i < CROWDS; i++)
		printf("   R %4u", crowds[i]);
	for (size_t i = 0; i < QUEUES; i++)
		printf("    w %3u", queues[i]);
	printf("\n");
}

/* How far rounds lay from their medians, as parts of it: the furthest of all figures. */
struct spread {
	double half_low, half_high; /* the middle half of the rounds */
	double low, high;
};
#define SPREAD_INIT \
	{ 1, 1, 1, 1 }

static void widen(struct spread *spread, const struct series *series) {
	double median = series_median(series);

	if (series->n == 0)
		return;
	spread->half_low = fmin(spread->half_low, series_quantile(series, 0.25) / median);
	spread->half_high = fmax(spread->half_high, series_quantile(series, 0.75) / median);
	spread->low = fmin(spread->low, series_quantile(series, 0) / median);
	spread->high = fmax(spread->high, series_quantile(series, 1) / median);
}

static void print_spread_of(const char *what, int rounds, const struct spread *spread) {
	printf("%s: medians of %d rounds; the middle half of them lay within %.2f to %.2f times the median, "
	       "all "
	       "within %.2f to %.2f.\n",
	        what, rounds, spread->half_low, spread->half_high, spread->low, spread->high);
}

static void print_spread(const struct figures *figures) {
	struct spread times = SPREAD_INIT, commands = SPREAD_INIT;

	for (size_t d = 0; d < DIALECTS; d++) {
		widen(&times, &figures[d].write_us);
		for (size_t i = 0; i < CROWDS; i++)
			widen(&times, &figures[d].read_us[i]);
		for (size_t i = 0; i < QUEUES; i++)
			widen(&commands, &figures[d].handoff[i]);
	}
	printf("\n");
	print_spread_of("Times", TIME_ROUNDS, &times);
	print_spread_of("Commands", PASS_ROUNDS, &commands);
}

void bench_dialects(const struct test_server *server, bool markdown) {
	struct figures *figures = calloc(DIALECTS, sizeof *figures);

	if (!figures)
		abort();
	measure_times(server, figures);
	for (size_t i = 0; i < QUEUES; i++)
		for (size_t d = 0; d < DIALECTS; d++)
			measure_handoff(server, dialects[d], queues[i], &figures[d].handoff[i]);
	print_head(markdown);
	for (size_t d = 0; d < DIALECTS; d++)
		print_row(dialects[d], &figures[d], markdown);
	print_spread(figures);
	free(figures);
}
