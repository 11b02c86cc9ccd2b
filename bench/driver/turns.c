/* SPDX-License-Identifier: MIT */
/* The workloads that every peer answers, written once over `struct peer`.
 *
 * They measure nothing but times, and judge none: bench/compare has the statistics, the same for all
 * languages. A turn is three times, in nanoseconds after `at`: asked for it, got it, about to give it back.
 * From the turns of all contenders follow waits, hand-offs and fairness alike. A contender that has passed
 * `limit_ms` begins no further turn, so the one that it waits for comes as soon as the others have ended. */
#include "turns.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "peer.h"
#include "request.h"

enum { NAME_MAX_LEN = 128, THREADS_MAX = 1024 };

long long now_ns(void) {
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

void sleep_ns(long long ns) {
	struct timespec ts = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	if (ns > 0)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

static char mode_of(const struct request *request) {
	return request_text(request, "mode", "write")[0] == 'r' ? 'R' : 'W';
}

static void *allocate(size_t n, size_t size) {
	void *memory = calloc(n ? n : 1, size);

	if (!memory)
		abort();
	return memory;
}

static void print_numbers(const long long *numbers, long long n) {
	for (long long i = 0; i < n; i++)
		printf(i ? ",%lld" : "%lld", numbers[i]);
}

/* ---- One caller ---------------------------------------------------------------------------------*/

void turns_pair(const struct peer *peer, void *client, const struct request *request) {
	long long n = request_number(request, "n", 1000), done = 0;
	long long end = now_ns() + request_number(request, "ms", 60000) * 1000000;
	long long pause_ns = request_number(request, "pause_us", 0) * 1000;
	const char *name = request_text(request, "name", "pair");
	char mode = mode_of(request);
	long long *took = allocate((size_t)n, sizeof *took);

	for (; done < n && now_ns() < end; done++) {
		sleep_ns(pause_ns);
		long long start = now_ns();
		void *hold = peer->take(client, name, mode);
		peer->give(client, hold);
		took[done] = now_ns() - start;
	}
	printf("{\"ns\":[");
	print_numbers(took, done);
	printf("]}\n");
	free(took);
}

/* ---- Threads ------------------------------------------------------------------------------------*/

struct worker {
	pthread_t thread;
	const struct peer *peer;
	void *client;
	pthread_barrier_t *start;
	const atomic_bool *stop;
	long long pairs;
	char name[NAME_MAX_LEN];
};

static void *work(void *arg) {
	struct worker *worker = arg;

	/* The first turn of a name is not counted: its script, its connection, its entry in the tables. */
	worker->peer->give(worker->client, worker->peer->take(worker->client, worker->name, 'W'));
	pthread_barrier_wait(worker->start);
	while (!atomic_load_explicit(worker->stop, memory_order_relaxed)) {
		void *hold = worker->peer->take(worker->client, worker->name, 'W');
		worker->peer->give(worker->client, hold);
		worker->pairs++;
	}
	return NULL;
}

void turns_threads(const struct peer *peer, void *client, const char *url, const struct request *request) {
	static void *own_clients[THREADS_MAX]; /* kept from one request to the next */
	int n = (int)request_number(request, "threads", 1);
	struct worker *workers = allocate((size_t)n, sizeof *workers);
	pthread_barrier_t start;
	atomic_bool stop = false;
	long long pairs = 0;

	if (n > THREADS_MAX)
		abort();
	pthread_barrier_init(&start, NULL, (unsigned)n + 1);
	for (int i = 0; i < n; i++) {
		if (peer->client_each && !own_clients[i])
			own_clients[i] = peer->open(url);
		workers[i].peer = peer;
		workers[i].client = peer->client_each ? own_clients[i] : client;
		workers[i].start = &start;
		workers[i].stop = &stop;
		snprintf(workers[i].name, sizeof workers[i].name, "%s/%d",
		        request_text(request, "name", "threads"), i);
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			abort();
	}
	pthread_barrier_wait(&start);
	long long began = now_ns();
	sleep_ns(request_number(request, "ms", 1000) * 1000000);
	atomic_store(&stop, true);
	for (int i = 0; i < n; i++) {
		pthread_join(workers[i].thread, NULL);
		pairs += workers[i].pairs;
	}
	printf("{\"pairs\":%lld,\"ns\":%lld}\n", pairs, now_ns() - began);
	pthread_barrier_destroy(&start);
	free(workers);
}

/* ---- Contenders ---------------------------------------------------------------------------------*/

static void print_contender(const long long *turns, long long n, long long finish) {
	printf("{\"finish\":%lld,\"turns\":[", finish);
	print_numbers(turns, 3 * n);
	printf("]}");
}

void turns_contend(const struct peer *peer, void *client, const struct request *request) {
	long long n = request_number(request, "n", 100), done = 0;
	long long hold_ns = request_number(request, "hold_us", 0) * 1000;
	long long gap_ns = request_number(request, "gap_us", 0) * 1000;
	long long limit_ns = request_number(request, "limit_ms", 10000) * 1000000;
	long long at = request_number(request, "at", now_ns());
	const char *name = request_text(request, "name", "contend");
	char mode = mode_of(request);
	long long *turns = allocate((size_t)n * 3, sizeof *turns);

	sleep_ns(at - now_ns());
	for (; done < n && now_ns() - at < limit_ns; done++) {
		long long *turn = turns + 3 * done;
		turn[0] = now_ns() - at;
		void *hold = peer->take(client, name, mode);
		turn[1] = now_ns() - at;
		sleep_ns(hold_ns);
		turn[2] = now_ns() - at;
		peer->give(client, hold);
		sleep_ns(gap_ns);
	}
	printf("{\"contenders\":[");
	print_contender(turns, done, now_ns() - at);
	printf("]}\n");
	free(turns);
}

/* ---- The control --------------------------------------------------------------------------------*/

/* One process of the ring: reads the token, holds it, passes it on; then writes its line to `result`. */
_Noreturn static void ring_member(int from, int to, FILE *result, const struct request *request) {
	long long n = request_number(request, "n", 100);
	long long hold_ns = request_number(request, "hold_us", 0) * 1000;
	long long at = request_number(request, "at", now_ns());
	long long *turns = allocate((size_t)n * 3, sizeof *turns);
	char token = 't';

	sleep_ns(at - now_ns());
	for (long long i = 0; i < n; i++) {
		turns[3 * i] = now_ns() - at;
		if (read(from, &token, 1) != 1)
			_exit(1);
		turns[3 * i + 1] = now_ns() - at;
		sleep_ns(hold_ns);
		turns[3 * i + 2] = now_ns() - at;
		if (write(to, &token, 1) != 1)
			_exit(1);
	}
	long long finish = now_ns() - at;
	fprintf(result, "{\"finish\":%lld,\"turns\":[", finish);
	for (long long i = 0; i < 3 * n; i++)
		fprintf(result, i ? ",%lld" : "%lld", turns[i]);
	fprintf(result, "]}");
	fflush(result);
	_exit(0);
}

static void copy_out(FILE *file) {
	char bytes[4096];
	size_t got;

	rewind(file);
	while ((got = fread(bytes, 1, sizeof bytes, file)) > 0)
		fwrite(bytes, 1, got, stdout);
	fclose(file);
}

void turns_ring(const struct request *request) {
	int procs = (int)request_number(request, "procs", 8);
	int(*pipes)[2] = allocate((size_t)procs, sizeof *pipes);
	pid_t *pids = allocate((size_t)procs, sizeof *pids);
	FILE **results = allocate((size_t)procs, sizeof *results);
	bool failed = false;

	fflush(stdout);
	for (int i = 0; i < procs; i++)
		if (pipe(pipes[i]) < 0 || !(results[i] = tmpfile()))
			abort();
	for (int i = 0; i < procs; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			abort();
		if (pids[i] == 0)
			ring_member(pipes[i][0], pipes[(i + 1) % procs][1], results[i], request);
	}
	if (write(pipes[0][1], "t", 1) != 1)
		abort();
	for (int i = 0; i < procs; i++) {
		int status;
		waitpid(pids[i], &status, 0);
		failed |= status != 0;
	}
	printf(failed ? "{\"error\":\"the ring broke\",\"contenders\":[" : "{\"contenders\":[");
	for (int i = 0; i < procs; i++) {
		if (i)
			printf(",");
		copy_out(results[i]);
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
	printf("]}\n");
	free(pipes);
	free(pids);
	free(results);
}
