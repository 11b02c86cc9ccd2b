/* SPDX-License-Identifier: MIT */
/* The life of a worker process: one session, threads that take their turns, and one beside them
 * (worker_attend.c). It ends when the board says so, after every thread has given back what it
 * held; a worker that is killed leaves its history as it is. */
#include "worker.h"

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	HISTORY_CAPACITY = 4000000,
	HISTORY_CAPACITY_PLAIN = 1000000,
	COMMAND_SHARE = 24,
	/* The C library keeps what threads and streams have used: once, not for each. */
	LEFT_BYTES_ALLOWED = 65536
};

void worker_sleep_us(int64_t us) {
	struct timespec pause = { (time_t)(us / 1000000), (long)(us % 1000000) * 1000 };
	while (nanosleep(&pause, &pause) != 0 && errno == EINTR)
		;
}

static bool must_stop(const struct worker *worker) {
	return atomic_load(&worker->board->stop) || atomic_load(&worker->place->stop);
}

static void *take_turns(void *arg) {
	struct worker_thread *thread = arg;
	const struct worker_config *config = &thread->worker->config;
	if (config->races > 0) {
		worker_race(thread, config->races);
		return NULL;
	}
	while (!must_stop(thread->worker)) {
		if (config->commands && thread->index == 0 && rng_below(&thread->rng, COMMAND_SHARE) == 0)
			worker_command(
			        thread, config->first_lock + rng_below(&thread->rng, config->fast_locks));
		else
			worker_turn(thread);
	}
	atomic_store(&thread->place->phase, BOARD_AWAY);
	return NULL;
}

/* ---- What is left when the session is closed ------------------------------------------------------*/

struct leftovers {
	uint64_t descriptors, threads, bytes;
};

static uint64_t count_entries(const char *path) {
	DIR *dir = opendir(path);
	uint64_t n = 0;
	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

static void *end_at_once(void *arg) {
	return arg;
}

/* ThreadSanitizer starts a thread of its own with the first of a process, and keeps it: it is there before
 * anything is counted. */
static void have_had_a_thread(void) {
	pthread_t thread;
	if (pthread_create(&thread, NULL, end_at_once, NULL) != 0)
		abort();
	pthread_join(thread, NULL);
}

static struct leftovers count_leftovers(void) {
	return (struct leftovers){ count_entries("/proc/self/fd"), count_entries("/proc/self/task"),
		(uint64_t)mallinfo2().uordblks };
}

static uint64_t grown(uint64_t before, uint64_t after, uint64_t allowed) {
	return after > before + allowed ? after - before : 0;
}

static void note_left(struct worker *worker, const struct leftovers *before) {
	struct leftovers after = count_leftovers();
	/* Threads that were joined may still be on their way out for the kernel. */
	for (int i = 0; i < 100 && after.threads > before->threads; i++) {
		worker_sleep_us(1000);
		after = count_leftovers();
	}
	const struct {
		enum board_left what;
		uint64_t how_many;
	} left[] = { { BOARD_LEFT_DESCRIPTORS, grown(before->descriptors, after.descriptors, 0) },
		{ BOARD_LEFT_THREADS, grown(before->threads, after.threads, 0) },
		{ BOARD_LEFT_BYTES, grown(before->bytes, after.bytes, LEFT_BYTES_ALLOWED) } };
	for (size_t i = 0; i < sizeof(left) / sizeof(*left); i++) {
		struct history_record form = { .op = HISTORY_LEFT,
			.lock = HISTORY_ALL,
			.detail = (uint8_t)left[i].what,
			.token = left[i].how_many };
		history_mark(worker->history, &form);
	}
}

/* ---- The whole ------------------------------------------------------------------------------------*/

static int prepare(struct worker *worker, struct leftovers *ret_before) {
	const struct worker_config *config = &worker->config;
	char path[256];
	worker->board = board_open(config->dir);
	if (!worker->board || config->slot >= BOARD_WORKERS || config->threads > BOARD_THREADS) {
		fprintf(stderr, "sneck-worker: no place on the board in %s: %s\n", config->dir,
		        strerror(errno));
		return -1;
	}
	worker->place = &worker->board->workers[config->slot];
	snprintf(path, sizeof(path), "%s/%u.history", config->dir,
	        atomic_fetch_add(&worker->board->next_file, 1));
	worker->history = history_create(path, config->plain ? HISTORY_CAPACITY_PLAIN : HISTORY_CAPACITY);
	worker->witness = witness_open(config->dir);
	if (!worker->history || !worker->witness) {
		fprintf(stderr, "sneck-worker: %s: %s\n", path, strerror(errno));
		return -1;
	}
	have_had_a_thread();
	*ret_before = count_leftovers();
	int r = config->subject->open(config->url, config->command_ms, config->linger_ms, &worker->session);
	if (r != 0)
		fprintf(stderr, "sneck-worker: cannot open %s: %d\n", config->url, r);
	return r;
}

static void close_session(struct worker *worker) {
	struct history_record form = { .op = HISTORY_CLOSE,
		.lock = HISTORY_ALL,
		.deadline_ns = history_now() + (int64_t)worker->config.command_ms * 1000000 };
	struct history_record *record = history_begin(worker->history, &form);
	worker->config.subject->close(worker->session);
	history_end(record, 0);
}

int worker_run(const struct worker_config *config) {
	struct worker worker = { .config = *config };
	struct worker_thread threads[BOARD_THREADS] = { 0 };
	pthread_t ids[BOARD_THREADS];
	struct leftovers before;
	if (prepare(&worker, &before) != 0)
		return 1;
	worker_attend(&worker);
	for (uint32_t i = 0; i < config->threads; i++) {
		struct board_thread *place = &worker.place->threads[i];
		threads[i] = (struct worker_thread){ .worker = &worker,
			.place = place,
			.index = i,
			.actor = atomic_fetch_add(&worker.board->next_actor, 1) + 1,
			.rng = rng_of(config->seed, (uint64_t)config->slot << 8 | i) };
		atomic_store(&place->phase, BOARD_IDLE);
		if (pthread_create(&ids[i], NULL, take_turns, &threads[i]) != 0)
			abort();
	}
	atomic_store(&worker.place->pid, (int32_t)getpid());
	atomic_store(&worker.place->ready, 1);
	for (uint32_t i = 0; i < config->threads; i++)
		pthread_join(ids[i], NULL);
	worker_dismiss(&worker);
	close_session(&worker);
	note_left(&worker, &before);
	atomic_store(&worker.place->ready, 0);
	witness_close(worker.witness);
	history_close(worker.history);
	board_close(worker.board);
	return 0;
}
