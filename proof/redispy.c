/* SPDX-License-Identifier: MIT */
/* redis-py's Lock as a subject: the worker is a Python program (redispy.py), which writes the same histories
 * and visits the same witness.
 *
 * What Python cannot do is done here, before the program is replaced: numbers on the board are taken with an
 * atomic addition, and the places on it are told as offsets, so the layout of the board is known to C alone.
 */
#include "worker.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct places {
	struct worker_config config;
	uint32_t actor;
	uint32_t file;
};

/* What redispy.py reads as a line of numbers, in this order. */
static void describe(const struct places *places, char *out, size_t size) {
	size_t own = offsetof(struct board, workers) + places->config.slot * sizeof(struct board_worker);
	size_t thread = own + offsetof(struct board_worker, threads);

	snprintf(out, size, "%zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu", offsetof(struct board, stop),
	        own + offsetof(struct board_worker, stop), own + offsetof(struct board_worker, pid),
	        own + offsetof(struct board_worker, ready), own + offsetof(struct board_worker, grants),
	        thread + offsetof(struct board_thread, phase), thread + offsetof(struct board_thread, lock),
	        thread + offsetof(struct board_thread, since_ns),
	        thread + offsetof(struct board_thread, until_ns),
	        offsetof(struct board, locks) + offsetof(struct board_lock, last_grant_ns),
	        sizeof(struct board_lock));
}

static int run(const struct worker_config *config) {
	struct board *board = board_open(config->dir);
	char board_line[256], numbers[5][24];
	char history[256];

	if (!board) {
		fprintf(stderr, "sneck-worker: no board in %s: %s\n", config->dir, strerror(errno));
		return 1;
	}
	struct places places = { .config = *config,
		.actor = atomic_fetch_add(&board->next_actor, 1) + 1,
		.file = atomic_fetch_add(&board->next_file, 1) };
	board_close(board);
	describe(&places, board_line, sizeof board_line);
	snprintf(history, sizeof history, "%s/%u.history", config->dir, places.file);
	snprintf(numbers[0], sizeof numbers[0], "%u", places.actor);
	snprintf(numbers[1], sizeof numbers[1], "%u", config->first_lock);
	snprintf(numbers[2], sizeof numbers[2], "%u", config->fast_locks + config->slow_locks);
	snprintf(numbers[3], sizeof numbers[3], "%u", config->holding_ms);
	snprintf(numbers[4], sizeof numbers[4], "%llu", (unsigned long long)(config->seed + config->slot));
	execl(PROOF_PYTHON, PROOF_PYTHON, PROOF_REDISPY, config->url, config->dir, history, board_line,
	        numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], (char *)NULL);
	fprintf(stderr, "sneck-worker: %s: %s\n", PROOF_PYTHON, strerror(errno));
	return 1;
}

const struct worker_subject worker_redispy = { .name = "redispy", .run = run };
