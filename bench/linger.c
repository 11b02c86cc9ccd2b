/* SPDX-License-Identifier: MIT */
/* What a lock costs that need not be asked for: re-entry, taking again what lingers, asking for it back;
 * and what it costs others that one client passes a lock on among its threads. A program of its own, because
 * the crowds are processes: they are forked before anything else has a thread.
 *
 *   sneck_bench_linger [reuse|recall|crowd|pingpong]… */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sneck/sneck.h>

#include "commandstats.h"
#include "lib/server.h"
#include "sessions.h"
#include "stats.h"

enum { LINGER_MS = 60000, PROCS_MAX = 4, THREADS_MAX = 16, WAITS_MAX = 1 << 17 };

static struct test_server server;

static sneck_client *open_with(int64_t linger_ms, uint32_t handover_max, uint32_t handover_ms) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	sneck_client *client = NULL;
	sneck_error error = { 0 };

	options.linger_ms = linger_ms;
	options.handover_max = handover_max;
	options.handover_ms = handover_ms;
	options.flags = SNECK_OPEN_CONNECT;
	if (sneck_open(server.url, &options, &client, &error) < 0)
		bench_fail("open", &error);
	bench_pair(client, "bench/warm", SNECK_READ); /* it listens from now on */
	return client;
}

static uint64_t commands_of(sneck_client *client) {
	sneck_counters stats = { .size = sizeof stats };

	sneck_stats(client, &stats);
	return stats.commands;
}

/* ---- Without the server -------------------------------------------------------------------------*/

static double pairs_ns(sneck_client *client, const char *name, sneck_mode mode, int pairs) {
	double start = now_s();

	for (int i = 0; i < pairs; i++)
		bench_pair(client, name, mode);
	return (now_s() - start) / pairs * 1e9;
}

static void report_reuse(
        sneck_client *client, const char *what, const char *name, sneck_mode mode, const char *wanted) {
	enum { PAIRS = 20000 };
	struct series times = { .n = 0 };
	char text[128];

	pairs_ns(client, name, mode, PAIRS);
	uint64_t before = commands_of(client);
	for (int round = 0; round < 21; round++)
		series_add(&times, pairs_ns(client, name, mode, PAIRS));
	printf("  %-24s%s, %.4f commands   (wanted: at most %s, 0)\n", what,
	        series_text(&times, " ns", text, sizeof text),
	        (double)(commands_of(client) - before) / (21.0 * PAIRS), wanted);
}

static void bench_reuse(void) {
	sneck_client *client = open_with(LINGER_MS, 0, 0);
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	sneck_hold *hold;
	sneck_error error = { 0 };

	printf("a pair that needs no server, one thread\n");
	if (sneck_acquire(client, "bench/held", SNECK_WRITE, &options, &hold, &error) < 0)
		bench_fail("acquire", &error);
	report_reuse(client, "re-entry", "bench/held", SNECK_WRITE, "200 ns");
	sneck_release(hold);
	report_reuse(client, "taken again, WRITE", "bench/write", SNECK_WRITE, "1000 ns");
	report_reuse(client, "taken again, READ", "bench/read", SNECK_READ, "1000 ns");
	sneck_close(client);
}

/* ---- Asking for it back -------------------------------------------------------------------------*/

static double round_trip_us(redisContext *redis) {
	double start = now_s();

	freeReplyObject(redisCommand(redis, "PING"));
	return (now_s() - start) * 1e6;
}

static double recall_us(sneck_client *keeper, sneck_client *asker) {
	struct timespec past_least = { 0, 2000000 };

	bench_pair(keeper, "bench/recall", SNECK_WRITE);
	nanosleep(&past_least, NULL);
	double start = now_s();
	bench_pair(asker, "bench/recall", SNECK_WRITE);
	return (now_s() - start) * 1e6;
}

static void bench_recall(void) {
	sneck_client *keeper = open_with(LINGER_MS, 0, 0), *asker = open_with(0, 0, 0);
	redisContext *redis = test_server_connect(&server);
	struct series trips = { .n = 0 }, free_pairs = { .n = 0 }, recalls = { .n = 0 };
	char text[128];

	for (int round = 0; round < ROUNDS_MAX; round++) {
		double start = now_s();
		series_add(&trips, round_trip_us(redis));
		start = now_s();
		bench_pair(asker, "bench/free", SNECK_WRITE);
		series_add(&free_pairs, (now_s() - start) * 1e6);
		series_add(&recalls, recall_us(keeper, asker));
	}
	printf("a pair on what lingers in another client\n");
	printf("  PING                    %s\n", series_text(&trips, " us", text, sizeof text));
	printf("  pair, free              %s\n", series_text(&free_pairs, " us", text, sizeof text));
	printf("  pair, asked for back    %s\n", series_text(&recalls, " us", text, sizeof text));
	printf("  the asking, in trips    %.1f   (wanted: at most 2, and two threads to wake)\n",
	        (series_median(&recalls) - series_median(&free_pairs)) / series_median(&trips));
	redisFree(redis);
	sneck_close(keeper);
	sneck_close(asker);
}

/* ---- Crowds -------------------------------------------------------------------------------------*/

/* Shared with the processes. */
struct place {
	pthread_barrier_t start;
	uint64_t acquired[PROCS_MAX];
	uint64_t waits_n;
	float waits_us[WAITS_MAX]; /* of the one that is alone */
};

/* The first process has one thread: what the others' passing on costs is what it waits. */
struct crowd {
	int procs, threads;
	long hold_us;
	int64_t linger_ms;
	uint32_t handover_max, handover_ms;
	double seconds;
};

struct member {
	const struct crowd *crowd;
	sneck_client *client;
	double until;
	uint64_t acquired;
	float *waits_us; /* NULL: not taken down */
	uint64_t waits_n;
};

static void *take_turns(void *arg) {
	struct member *member = arg;

	for (double before = now_s(); before < member->until;) {
		sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
		sneck_hold *hold;
		sneck_error error = { 0 };
		options.wait_ms = SNECK_WAIT_FOREVER;
		if (sneck_acquire(member->client, "bench/crowd", SNECK_WRITE, &options, &hold, &error) < 0)
			bench_fail("acquire", &error);
		double after = now_s();
		if (member->crowd->hold_us)
			nanosleep(&(struct timespec){ 0, member->crowd->hold_us * 1000 }, NULL);
		sneck_release(hold);
		member->acquired++;
		if (member->waits_us && member->waits_n < WAITS_MAX)
			member->waits_us[member->waits_n++] = (float)((after - before) * 1e6);
		before = now_s();
	}
	return NULL;
}

static void be_a_process(const struct crowd *crowd, struct place *place, int number) {
	struct member members[THREADS_MAX];
	pthread_t threads[THREADS_MAX];
	int n = number == 0 ? 1 : crowd->threads;
	sneck_client *client = open_with(crowd->linger_ms, crowd->handover_max, crowd->handover_ms);

	pthread_barrier_wait(&place->start);
	for (int i = 0; i < n; i++) {
		members[i] = (struct member){ .crowd = crowd,
			.client = client,
			.until = now_s() + crowd->seconds,
			.waits_us = number == 0 ? place->waits_us : NULL };
		pthread_create(&threads[i], NULL, take_turns, &members[i]);
	}
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		place->acquired[number] += members[i].acquired;
	}
	if (number == 0)
		place->waits_n = members[0].waits_n;
	sneck_close(client);
}

static int by_size(const void *a, const void *b) {
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

static void print_row(const struct crowd *crowd, struct place *place, uint64_t requests) {
	uint64_t acquired = 0, n = place->waits_n;
	float *waits = place->waits_us;
	char max[16];

	for (int i = 0; i < crowd->procs; i++)
		acquired += place->acquired[i];
	qsort(waits, n, sizeof *waits, by_size);
	snprintf(max, sizeof max, crowd->handover_max == SNECK_HANDOVER_OFF ? "off" : "%u",
	        crowd->handover_max);
	printf("  %7ld %8s %5u %8s  %9.0f %10.2f %8.0f %8.0f %8.0f\n", crowd->hold_us, max,
	        crowd->handover_ms, crowd->linger_ms ? "yes" : "no", (double)acquired / crowd->seconds,
	        (double)requests / (double)acquired, n ? (double)waits[n / 2] : 0.0,
	        n ? (double)waits[n * 99 / 100] : 0.0, n ? (double)waits[n - 1] : 0.0);
	fflush(stdout);
}

static void run_crowd(const struct crowd *crowd) {
	pthread_barrierattr_t attr;
	struct place *place =
	        mmap(NULL, sizeof *place, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (place == MAP_FAILED)
		exit(1);
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&place->start, &attr, (unsigned)crowd->procs + 1);
	for (int i = 0; i < crowd->procs; i++) {
		if (fork() == 0) {
			be_a_process(crowd, place, i);
			_exit(0);
		}
	}
	test_redis_ok(&server, "CONFIG RESETSTAT");
	pthread_barrier_wait(&place->start);
	for (int i = 0; i < crowd->procs; i++) {
		int status;
		if (wait(&status) < 0 || status != 0)
			exit(1);
	}
	print_row(crowd, place, bench_requests(&server));
	munmap(place, sizeof *place);
}

static void print_head(const char *what) {
	printf("%s\n", what);
	printf("  hold us handover    ms  lingers    pairs/s  commands   p50 us   p99 us worst us\n");
}

/* Two processes of four threads and one of a single thread, all of whom want one lock. */
static void bench_crowd(void) {
	static const uint32_t max[] = { SNECK_HANDOVER_OFF, 1, 4, 16, 64, 256 };
	static const uint32_t ms[] = { 1, 5, 20 };
	static const long hold_us[] = { 0, 100, 1000 };

	print_head("2 x 4 threads and a lone one: commands per pair, and what the lone one waits");
	for (size_t h = 0; h < sizeof hold_us / sizeof hold_us[0]; h++)
		for (size_t i = 0; i < sizeof max / sizeof max[0]; i++)
			run_crowd(&(struct crowd){ 3, 4, hold_us[h], 0, max[i], SNECK_HANDOVER_MS, 1.5 });
	for (size_t m = 0; m < sizeof ms / sizeof ms[0]; m++)
		run_crowd(&(struct crowd){ 3, 4, 1000, 0, SNECK_HANDOVER_MAX, ms[m], 1.5 });
}

/* One thread each, that takes and releases without a pause. */
static void bench_pingpong(void) {
	print_head("two processes that take and release one lock in a loop");
	for (int round = 0; round < 3; round++)
		for (int lingers = 0; lingers < 2; lingers++)
			run_crowd(&(struct crowd){
			        2, 1, 0, lingers * LINGER_MS, SNECK_HANDOVER_MAX, SNECK_HANDOVER_MS, 1.5 });
}

int main(int argc, char **argv) {
	static const struct {
		const char *name;
		void (*run)(void);
	} parts[] = { { "crowd", bench_crowd }, { "pingpong", bench_pingpong }, { "reuse", bench_reuse },
		{ "recall", bench_recall } };

	if (test_server_start(&server, NULL) < 0)
		return 1;
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
		bool wanted = argc == 1;
		for (int a = 1; a < argc; a++)
			wanted = wanted || strcmp(argv[a], parts[i].name) == 0;
		if (wanted)
			parts[i].run();
	}
	test_server_stop(&server);
	return 0;
}
