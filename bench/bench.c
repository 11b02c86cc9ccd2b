/* SPDX-License-Identifier: MIT */
/* What a lock costs, against a server that this program starts.
 *
 * Every comparison is taken in interleaved rounds and reported as the median of the rounds' ratios
 * with its spread: the machine may be busy, but both sides of a round were on the same machine. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sneck/sneck.h>

#include "cluster.h"
#include "command.h"
#include "commandstats.h"
#include "dialects.h"
#include "lib/server.h"
#include "raw.h"
#include "sessions.h"
#include "stats.h"
#include "tls.h"

static struct test_server server;
static bool markdown; /* --markdown: tables as the documents have them */

static sneck_client *open_client(void) {
	return bench_open(server.url);
}

static uint64_t commands_of(sneck_client *client) {
	sneck_counters stats = { .size = sizeof stats };
	sneck_stats(client, &stats);
	return stats.commands;
}

/* ---- One thread ---------------------------------------------------------------------------------*/

static double lone_sneck(sneck_client *client, int pairs) {
	double start = now_s();
	for (int i = 0; i < pairs; i++)
		bench_pair(client, "bench/lone", SNECK_WRITE);
	return (now_s() - start) / pairs * 1e6;
}

static double lone_raw(struct raw *raw, int pairs) {
	double start = now_s();
	for (int i = 0; i < pairs; i++) {
		uint64_t attempt = raw_acquire(raw, "bench/lone", 'W');
		raw_release(raw, "bench/lone", 'W', attempt);
	}
	return (now_s() - start) / pairs * 1e6;
}

static void bench_lone(void) {
	sneck_client *client = open_client();
	struct series ours = { .n = 0 }, theirs = { .n = 0 }, ratio;
	struct raw raw;
	char text[128];

	raw_open(&raw, server.socket_path, NULL, 1);
	lone_sneck(client, 200);
	lone_raw(&raw, 200);
	for (int round = 0; round < 21; round++) {
		series_add(&theirs, lone_raw(&raw, 1000));
		series_add(&ours, lone_sneck(client, 1000));
	}
	series_ratio(&ratio, &ours, &theirs);
	uint64_t before = commands_of(client);
	for (int i = 0; i < 100; i++)
		bench_pair(client, "bench/lone", SNECK_WRITE);
	printf("uncontended pair, one thread, Unix socket\n");
	printf("  sneck                   %s\n", series_text(&ours, " us", text, sizeof text));
	printf("  two raw EVALSHA         %s\n", series_text(&theirs, " us", text, sizeof text));
	printf("  ratio                   %s   (wanted: at most 1.15)\n",
	        series_text(&ratio, "", text, sizeof text));
	printf("  commands per pair       %.2f   (wanted: 2)\n",
	        (double)(commands_of(client) - before) / 100);
	raw_close(&raw);
	sneck_close(client);
}

static void bench_reentry(void) {
	sneck_client *client = open_client();
	sneck_hold *outer;
	sneck_error err;
	struct series cost = { .n = 0 };
	char text[128];

	if (sneck_acquire(client, "bench/reentry", SNECK_WRITE, NULL, &outer, &err) < 0)
		bench_fail("acquire", &err);
	uint64_t before = commands_of(client);
	for (int round = 0; round < 11; round++) {
		double start = now_s();
		for (int i = 0; i < 10000; i++)
			bench_pair(client, "bench/reentry", SNECK_WRITE);
		series_add(&cost, (now_s() - start) / 10000 * 1e6);
	}
	printf("re-entrant pair\n  time                    %s\n",
	        series_text(&cost, " us", text, sizeof text));
	printf("  commands for 110,000    %llu   (wanted: 0)\n",
	        (unsigned long long)(commands_of(client) - before));
	sneck_release(outer);
	sneck_close(client);
}

/* ---- Many threads, different locks --------------------------------------------------------------*/

struct worker {
	pthread_t thread;
	pthread_barrier_t *start;
	sneck_client *client; /* NULL: a connection of its own */
	struct raw raw;
	int pairs;
	char name[32];
};

static void *work(void *arg) {
	struct worker *worker = arg;

	pthread_barrier_wait(worker->start);
	for (int i = 0; i < worker->pairs; i++) {
		if (worker->client) {
			bench_pair(worker->client, worker->name, SNECK_WRITE);
			continue;
		}
		uint64_t attempt = raw_acquire(&worker->raw, worker->name, 'W');
		raw_release(&worker->raw, worker->name, 'W', attempt);
	}
	return NULL;
}

static double run_workers(struct worker *workers, int n, sneck_client *client, int pairs) {
	pthread_barrier_t barrier;

	pthread_barrier_init(&barrier, NULL, (unsigned)n + 1);
	for (int i = 0; i < n; i++) {
		workers[i].client = client;
		workers[i].start = &barrier;
		workers[i].pairs = pairs / n;
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	pthread_barrier_wait(&barrier);
	double start = now_s();
	for (int i = 0; i < n; i++)
		pthread_join(workers[i].thread, NULL);
	double took = now_s() - start;
	pthread_barrier_destroy(&barrier);
	return (double)(pairs / n * n) / took;
}

static void bench_threads_n(int n) {
	struct worker *workers = calloc((size_t)n, sizeof *workers);
	struct series ours = { .n = 0 }, theirs = { .n = 0 }, ratio;
	sneck_client *client = open_client();
	char a[128], b[128], c[128];

	for (int i = 0; i < n; i++) {
		raw_open(&workers[i].raw, server.socket_path, NULL, (unsigned)i);
		snprintf(workers[i].name, sizeof workers[i].name, "bench/threads/%d", i);
	}
	int pairs = 6000;
	run_workers(workers, n, client, n);
	run_workers(workers, n, NULL, n);
	for (int round = 0; round < 9; round++) {
		series_add(&theirs, run_workers(workers, n, NULL, pairs) / 1000);
		series_add(&ours, run_workers(workers, n, client, pairs) / 1000);
	}
	series_ratio(&ratio, &ours, &theirs);
	printf("  %3d threads   sneck %-28s hiredis each %-28s ratio %s\n", n,
	        series_text(&ours, " k/s", a, sizeof a), series_text(&theirs, " k/s", b, sizeof b),
	        series_text(&ratio, "", c, sizeof c));
	fflush(stdout);
	for (int i = 0; i < n; i++)
		raw_close(&workers[i].raw);
	sneck_close(client);
	free(workers);
}

static void bench_threads(void) {
	printf("pairs per second on different locks: one client against a hiredis connection per thread, "
	       "same scripts\n");
	printf("  (wanted: 1.4 at 64 threads, never below 1.0 from 2 to 256)\n");
	for (int n = 1; n <= 256; n *= n < 16 ? 2 : 2)
		bench_threads_n(n);
}

/* ---- Readers ------------------------------------------------------------------------------------*/

static double reader_pair_us(struct raw *raw, const char *name) {
	test_redis_ok(&server, "CONFIG RESETSTAT");
	for (int i = 0; i < 2000; i++) {
		uint64_t attempt = raw_acquire(raw, name, 'R');
		raw_release(raw, name, 'R', attempt);
	}
	return 2 * bench_script_us(&server);
}

static void bench_readers(void) {
	struct series few = { .n = 0 }, many = { .n = 0 }, ratio;
	struct raw crowd, raw;
	char text[128];

	raw_open(&crowd, server.socket_path, NULL, 1);
	raw_open(&raw, server.socket_path, NULL, 2);
	raw_acquire(&crowd, "bench/few", 'R');
	for (int i = 0; i < 5000; i++)
		raw_acquire(&crowd, "bench/many", 'R');
	for (int round = 0; round < 9; round++) {
		series_add(&few, reader_pair_us(&raw, "bench/few"));
		series_add(&many, reader_pair_us(&raw, "bench/many"));
	}
	series_ratio(&ratio, &many, &few);
	printf("server time of a read acquire + release\n");
	printf("  1 other reader          %s\n", series_text(&few, " us", text, sizeof text));
	printf("  5,000 other readers     %s\n", series_text(&many, " us", text, sizeof text));
	printf("  ratio                   %s   (wanted: at most 1.5)\n",
	        series_text(&ratio, "", text, sizeof text));
	raw_close(&crowd);
	raw_close(&raw);
	test_redis_ok(&server, "FLUSHALL");
}

/* ---- Hand-off -----------------------------------------------------------------------------------*/

struct contender {
	pthread_t thread;
	sneck_client *client;
	int rounds;
};

static void *contend(void *arg) {
	struct contender *contender = arg;
	for (int i = 0; i < contender->rounds; i++)
		bench_pair(contender->client, "bench/handoff", SNECK_WRITE);
	return NULL;
}

static void bench_handoff_n(int n, int total) {
	struct contender *contenders = calloc((size_t)n, sizeof *contenders);
	uint64_t commands = 0, beats = 0, acquires = 0;

	for (int i = 0; i < n; i++) {
		contenders[i].client = open_client();
		contenders[i].rounds = total / n;
		bench_pair(contenders[i].client, "bench/handoff-warm", SNECK_WRITE);
	}
	double start = now_s();
	for (int i = 0; i < n; i++)
		pthread_create(&contenders[i].thread, NULL, contend, &contenders[i]);
	for (int i = 0; i < n; i++)
		pthread_join(contenders[i].thread, NULL);
	double took = now_s() - start;
	for (int i = 0; i < n; i++) {
		sneck_counters stats = { .size = sizeof stats };
		sneck_stats(contenders[i].client, &stats);
		commands += stats.commands;
		beats += stats.beats;
		acquires += stats.acquires;
		sneck_close(contenders[i].client);
	}
	printf("  %3d sessions  %6.0f hand-offs/s, %.2f commands per acquisition (%.2f of them claims and "
	       "heartbeats)\n",
	        n, (double)acquires / took, (double)commands / (double)acquires,
	        (double)beats / (double)acquires);
	fflush(stdout);
	free(contenders);
}

static void bench_handoff(void) {
	printf("one lock, contended by separate sessions (wanted: at most 3 commands, whatever their "
	       "number)\n");
	bench_handoff_n(2, 4000);
	bench_handoff_n(20, 4000);
	bench_handoff_n(200, 4000);
}

static void bench_memory(void) {
	sneck_client *client = open_client();
	sneck_hold *hold;
	sneck_error err;

	if (sneck_acquire(client, "0123456789abcdef", SNECK_WRITE, NULL, &hold, &err) < 0)
		bench_fail("acquire", &err);
	printf("memory on the server\n  held, 16-byte name      %lld bytes   (wanted: at most 200)\n",
	        test_redis_int(&server, "MEMORY USAGE sneck:{0123456789abcdef}"));
	sneck_release(hold);
	sneck_close(client);
}

static void bench_run(void) {
	bench_command(&server);
}

static void bench_dialects_part(void) {
	bench_dialects(&server, markdown);
}

/* ---- Main ---------------------------------------------------------------------------------------*/

static const struct {
	const char *name;
	void (*run)(void);
} parts[] = {
	{ "lone", bench_lone },
	{ "reentry", bench_reentry },
	{ "threads", bench_threads },
	{ "readers", bench_readers },
	{ "handoff", bench_handoff },
	{ "memory", bench_memory },
	{ "run", bench_run },
	{ "dialects", bench_dialects_part },
	{ "tls", bench_tls },
	{ "cluster", bench_cluster },
};

static int usage(void) {
	fprintf(stderr, "bench: usage: bench/run [PART [--markdown]]; parts are:");
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		fprintf(stderr, " %s", parts[i].name);
	fprintf(stderr, "\n");
	return 64;
}

static bool is_part(const char *name) {
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		if (strcmp(name, parts[i].name) == 0)
			return true;
	return false;
}

int main(int argc, char **argv) {
	markdown = argc == 3 && strcmp(argv[2], "--markdown") == 0;
	if (argc > (markdown ? 3 : 2) || (argc >= 2 && !is_part(argv[1])))
		return usage();
	if (test_server_start(&server, NULL) < 0)
		return 1;
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		if (argc < 2 || strcmp(argv[1], parts[i].name) == 0)
			parts[i].run();
	test_server_stop(&server);
	return 0;
}
