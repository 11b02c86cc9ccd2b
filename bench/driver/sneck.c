/* SPDX-License-Identifier: MIT */
/* sneck as a peer: what a program with one client does, and the requests that few of the others can answer
 * (many held locks, many readers, many waiters, re-entry).
 *
 * A crowd of readers is written over one connection by the library's own scripts, each reader another
 * session: ten thousand clients would measure the machine's threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sneck/sneck.h>

#include "../raw.h"
#include "../sessions.h"
#include "lib/wait.h"
#include "peer.h"
#include "request.h"
#include "turns.h"

enum {
	FILLERS = 32,
	WAITERS_MAX = 256,
	ASSEMBLE_MS = 30000,
	CROWD_LEASE_MS = 600000,
	OWNER = 1 /* of what is held for long: any thread may give it back */
};

/* Until the session has heard a message of its own. It subscribes with its first request, on a connection of
 * its own, and renews once what it holds when that is confirmed, since a message may have been missed: which
 * pair that would come beside is left to chance. */
static void listen_first(sneck_client *client) {
	sneck_probe_info info = SNECK_PROBE_INFO_INIT;
	sneck_error err;

	info.wanted = SNECK_PROBE_MESSAGE;
	if (sneck_probe(client, &info, &err) < 0)
		bench_fail("probe", &err);
	if (info.message_us < 0) {
		fprintf(stderr, "bench: no message arrives\n");
		exit(1);
	}
}

static void *sneck_peer_open(const char *url) {
	sneck_client *client = bench_open(url);

	/* The first command connects and subscribes; that is no part of any figure. */
	bench_pair(client, "bench/open", SNECK_WRITE);
	listen_first(client);
	return client;
}

static void *sneck_peer_take(void *client, const char *name, char mode) {
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	sneck_hold *hold;
	sneck_error err;

	options.wait_ms = SNECK_WAIT_FOREVER;
	if (sneck_acquire(client, name, mode == 'R' ? SNECK_READ : SNECK_WRITE, &options, &hold, &err) < 0)
		bench_fail("acquire", &err);
	return hold;
}

static void sneck_peer_give(void *client, void *hold) {
	int r = sneck_release(hold);

	(void)client;
	if (r < 0) {
		fprintf(stderr, "bench: release: %s\n", sneck_strerror(r));
		exit(1);
	}
}

/* ---- Many holds ---------------------------------------------------------------------------------*/

static struct {
	sneck_hold **holds;
	long long n;
} stock;

struct filler {
	pthread_t thread;
	sneck_client *client;
	const char *name;
	long long from, to;
};

static void *fill(void *arg) {
	struct filler *filler = arg;
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	char name[128];
	sneck_error err;

	options.owner = OWNER;
	for (long long i = filler->from; i < filler->to; i++) {
		snprintf(name, sizeof name, "%s/%lld", filler->name, i);
		if (sneck_acquire(filler->client, name, SNECK_WRITE, &options, &stock.holds[i], &err) < 0)
			bench_fail("acquire", &err);
	}
	return NULL;
}

static void *empty(void *arg) {
	struct filler *filler = arg;

	for (long long i = filler->from; i < filler->to; i++)
		sneck_peer_give(filler->client, stock.holds[i]);
	return NULL;
}

static void spread(void *(*work)(void *), sneck_client *client, const char *name, long long n) {
	struct filler fillers[FILLERS];

	for (int i = 0; i < FILLERS; i++) {
		fillers[i] = (struct filler){
			.client = client, .name = name, .from = n * i / FILLERS, .to = n * (i + 1) / FILLERS
		};
		if (pthread_create(&fillers[i].thread, NULL, work, &fillers[i]) != 0)
			abort();
	}
	for (int i = 0; i < FILLERS; i++)
		pthread_join(fillers[i].thread, NULL);
}

static void answer_hold(sneck_client *client, const struct request *request) {
	stock.n = request_number(request, "n", 1);
	stock.holds = calloc((size_t)stock.n, sizeof *stock.holds);
	if (!stock.holds)
		abort();
	spread(fill, client, request_text(request, "name", "hold"), stock.n);
	printf("{\"held\":%lld}\n", stock.n);
}

/* ---- Many waiters -------------------------------------------------------------------------------*/

static struct {
	sneck_hold *hold;
	sneck_client *clients[WAITERS_MAX];
	pthread_t threads[WAITERS_MAX];
	char name[128];
	int n;
} line;

static void *wait_in_line(void *client) {
	sneck_peer_give(client, sneck_peer_take(client, line.name, 'W'));
	return NULL;
}

static bool all_wait(sneck_client *client) {
	sneck_lock_info *info;
	sneck_error err;

	if (sneck_inspect(client, line.name, strlen(line.name), 1, &info, &err) < 0)
		bench_fail("inspect", &err);
	bool all = info->waiter_n == (size_t)line.n;
	sneck_lock_info_free(info);
	return all;
}

static void answer_queue(sneck_client *client, const char *url, const struct request *request) {
	line.n = (int)request_number(request, "n", 64);
	if (line.n > WAITERS_MAX)
		line.n = WAITERS_MAX;
	snprintf(line.name, sizeof line.name, "%s", request_text(request, "name", "queue"));
	line.hold = sneck_peer_take(client, line.name, 'W');
	for (int i = 0; i < line.n; i++) {
		line.clients[i] = sneck_peer_open(url);
		if (pthread_create(&line.threads[i], NULL, wait_in_line, line.clients[i]) != 0)
			abort();
	}
	if (!WAIT_UNTIL(all_wait(client), ASSEMBLE_MS)) {
		fprintf(stderr, "bench: not all of %d sessions have come to wait\n", line.n);
		exit(1);
	}
	printf("{\"waiting\":%d}\n", line.n);
}

static void answer_drop(sneck_client *client) {
	if (stock.n)
		spread(empty, client, NULL, stock.n);
	free(stock.holds);
	stock.holds = NULL;
	stock.n = 0;
	if (line.hold)
		sneck_peer_give(client, line.hold);
	for (int i = 0; i < line.n; i++) {
		pthread_join(line.threads[i], NULL);
		sneck_close(line.clients[i]);
	}
	line.hold = NULL;
	line.n = 0;
	printf("{}\n");
}

/* ---- Readers, re-entry --------------------------------------------------------------------------*/

static void answer_crowd(const char *url, const struct request *request) {
	long long n = request_number(request, "n", 1);
	const char *name = request_text(request, "name", "crowd");
	struct raw raw;

	raw_start(&raw, raw_connect(url), NULL, 0);
	raw.lease_ms = CROWD_LEASE_MS;
	for (long long i = 0; i < n; i++) {
		raw_become(&raw, (unsigned)i + 1);
		raw_acquire(&raw, name, 'R');
	}
	raw_close(&raw);
	printf("{\"held\":%lld}\n", n);
}

static void answer_reenter(sneck_client *client, const struct request *request) {
	long long n = request_number(request, "n", 1000);
	const char *name = request_text(request, "name", "reenter");
	void *outer = sneck_peer_take(client, name, 'W');
	long long start = now_ns();

	for (long long i = 0; i < n; i++)
		sneck_peer_give(client, sneck_peer_take(client, name, 'W'));
	printf("{\"n\":%lld,\"ns\":%lld}\n", n, now_ns() - start);
	sneck_peer_give(client, outer);
}

/* ---- Linger -------------------------------------------------------------------------------------*/

enum { LINGER_MS = 10000, SETTLE_NS = 5000000 };

static void linger_pair(sneck_client *client, const char *name) {
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	sneck_hold *hold;
	sneck_error err;

	options.wait_ms = SNECK_WAIT_FOREVER;
	options.linger_ms = LINGER_MS;
	if (sneck_acquire(client, name, SNECK_WRITE, &options, &hold, &err) < 0)
		bench_fail("acquire", &err);
	sneck_peer_give(client, hold);
}

/* linger n= name=: pairs on what lingers. */
static void answer_linger(const char *url, const struct request *request) {
	long long n = request_number(request, "n", 1000);
	const char *name = request_text(request, "name", "linger");
	sneck_client *client = sneck_peer_open(url);

	linger_pair(client, name);
	long long start = now_ns();
	for (long long i = 0; i < n; i++)
		linger_pair(client, name);
	long long took = now_ns() - start;
	sneck_close(client);
	printf("{\"n\":%lld,\"ns\":%lld}\n", n, took);
}

/* recall n= name=: how long another session waits for what lingers here, undisturbed for a while. */
static void answer_recall(sneck_client *client, const char *url, const struct request *request) {
	long long n = request_number(request, "n", 100);
	const char *name = request_text(request, "name", "recall");
	sneck_client *other = sneck_peer_open(url);

	printf("{\"ns\":[");
	for (long long i = 0; i < n; i++) {
		linger_pair(client, name);
		sleep_ns(SETTLE_NS);
		long long start = now_ns();
		void *hold = sneck_peer_take(other, name, 'W');
		printf(i ? ",%lld" : "%lld", now_ns() - start);
		sneck_peer_give(other, hold);
	}
	printf("]}\n");
	sneck_close(other);
}

static bool sneck_peer_answer(void *client, const char *url, const struct request *request) {
	if (strcmp(request->word, "hold") == 0)
		answer_hold(client, request);
	else if (strcmp(request->word, "queue") == 0)
		answer_queue(client, url, request);
	else if (strcmp(request->word, "drop") == 0)
		answer_drop(client);
	else if (strcmp(request->word, "crowd") == 0)
		answer_crowd(url, request);
	else if (strcmp(request->word, "reenter") == 0)
		answer_reenter(client, request);
	else if (strcmp(request->word, "linger") == 0)
		answer_linger(url, request);
	else if (strcmp(request->word, "recall") == 0)
		answer_recall(client, url, request);
	else
		return false;
	return true;
}

const struct peer peer_sneck = {
	.name = "sneck",
	.version = SNECK_VERSION,
	.open = sneck_peer_open,
	.take = sneck_peer_take,
	.give = sneck_peer_give,
	.answer = sneck_peer_answer,
};
