/* SPDX-License-Identifier: MIT */
/* Why a lock hands out tokens. A lease is a promise about time, and no program can promise that it
 * is not paused between looking at the clock and writing. So the store itself keeps the largest
 * token it has seen, and refuses a write that comes with a smaller one.
 *
 * Two sessions play it through:
 *   1. The first takes the lock and is then "paused" for longer than its lease.
 *   2. The second gets the lock, with a larger token, and writes.
 *   3. The first wakes up and writes, as if nothing had happened. The store refuses it.
 *
 *   fenced_store URL FILE */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include <sneck/sneck.h>

enum { LEASE_MS = 200, PAUSE_MS = 400 };

#define LOCK_NAME "example/fenced-store"

/* ---- The store: one line, "token value" -----------------------------------------------------*/

static uint64_t stored_token(const char *path) {
	uint64_t token = 0;
	FILE *file = fopen(path, "r");

	if (file) {
		if (fscanf(file, "%" SCNu64, &token) != 1)
			token = 0;
		fclose(file);
	}
	return token;
}

/* A real store does the comparison and the write in one step: a transaction, a compare-and-set, an
 * UPDATE … WHERE token <= ?. This one has a single user. */
static int store(const char *path, uint64_t token, const char *value) {
	if (token < stored_token(path))
		return -1;
	FILE *file = fopen(path, "w");
	if (!file)
		return -1;
	fprintf(file, "%" PRIu64 " %s\n", token, value);
	return fclose(file);
}

/* ---- The play -------------------------------------------------------------------------------*/

static int take(sneck_client *client, sneck_hold **ret_hold) {
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	sneck_error error;

	options.wait_ms = 5000;
	options.lease_ms = LEASE_MS;
	options.fixed = 1; /* nobody renews it: a paused process does not either */
	int r = sneck_acquire(client, LOCK_NAME, SNECK_WRITE, &options, ret_hold, &error);
	if (r < 0)
		fprintf(stderr, "fenced_store: %s\n", error.text);
	return r;
}

static void pause_for(long ms) {
	struct timespec time = { ms / 1000, (ms % 1000) * 1000000 };

	nanosleep(&time, NULL);
}

static int play(sneck_client *first, sneck_client *second, const char *path) {
	sneck_hold *early, *late;

	if (take(first, &early) < 0)
		return 1;
	uint64_t early_token = sneck_hold_token(early);
	printf("first:  holds the lock with token %" PRIu64 ", and pauses\n", early_token);
	pause_for(PAUSE_MS);

	if (take(second, &late) < 0)
		return 1;
	uint64_t late_token = sneck_hold_token(late);
	int late_stored = store(path, late_token, "second");
	printf("second: holds the lock with token %" PRIu64 "; its write is %s\n", late_token,
	        late_stored == 0 ? "stored" : "refused");
	(void)sneck_release(late);

	printf("first:  wakes up; sneck_check says %s\n", sneck_check(early, 0) ? "held" : "lost");
	int early_stored = store(path, early_token, "first");
	printf("first:  writes all the same; its write is %s\n", early_stored == 0 ? "stored" : "refused");
	(void)sneck_release(early);
	return late_stored == 0 && early_stored != 0 && late_token > early_token ? 0 : 1;
}

int main(int argc, char **argv) {
	sneck_client *first = NULL, *second = NULL;
	sneck_error error;
	int result = 1;

	if (argc != 3) {
		fprintf(stderr, "usage: fenced_store URL FILE\n");
		return 64;
	}
	if (sneck_open(argv[1], NULL, &first, &error) < 0 || sneck_open(argv[1], NULL, &second, &error) < 0)
		fprintf(stderr, "fenced_store: %s\n", error.text);
	else
		result = play(first, second, argv[2]);
	sneck_close(second);
	sneck_close(first);
	return result;
}
