/* SPDX-License-Identifier: MIT */
/* A counter in a file that many processes, on many machines if the file is shared, add to: read,
 * add one, write, each time under the lock. Without the lock additions get lost.
 *
 *   counter URL FILE TIMES */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <sneck/sneck.h>

static int add_one(const char *path) {
	unsigned long long value = 0;
	FILE *file = fopen(path, "r");

	if (file) {
		if (fscanf(file, "%llu", &value) != 1)
			value = 0;
		fclose(file);
	}
	file = fopen(path, "w");
	if (!file)
		return -1;
	fprintf(file, "%llu\n", value + 1);
	return fclose(file);
}

int main(int argc, char **argv) {
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	sneck_client *client;
	sneck_error error;

	if (argc != 4) {
		fprintf(stderr, "usage: counter URL FILE TIMES\n");
		return 64;
	}
	if (sneck_open(argv[1], NULL, &client, &error) < 0) {
		fprintf(stderr, "counter: %s\n", error.text);
		return 1;
	}
	options.wait_ms = 10000;
	for (long left = atol(argv[3]); left > 0; left--) {
		sneck_hold *hold;

		if (sneck_acquire(client, "example/counter", SNECK_WRITE, &options, &hold, &error) < 0) {
			fprintf(stderr, "counter: %s\n", error.text);
			sneck_close(client);
			return 1;
		}
		/* The habit to have: is the lock certainly ours for as long as the write takes? */
		int failed = !sneck_check(hold, 1000) || add_one(argv[2]) != 0;
		if (sneck_release(hold) < 0 || failed) {
			fprintf(stderr, "counter: the lock was lost, or %s cannot be written\n", argv[2]);
			sneck_close(client);
			return 1;
		}
	}
	sneck_close(client);
	return 0;
}
