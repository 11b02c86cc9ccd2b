/* SPDX-License-Identifier: MIT */
/* Clients of the library, as the parts of the benchmark use them. A figure of something that failed would be
 * worse than none, so every failure ends the program. */
#include "sessions.h"

#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE_MS = 60000 };

_Noreturn void bench_fail(const char *what, const sneck_error *err) {
	fprintf(stderr, "bench: %s: %s\n", what, err->text);
	exit(1);
}

sneck_client *bench_open(const char *url) {
	sneck_client *client;
	sneck_error err;

	if (sneck_open(url, NULL, &client, &err) < 0)
		bench_fail("open", &err);
	return client;
}

void bench_pair(sneck_client *client, const char *name, sneck_mode mode) {
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	sneck_hold *hold;
	sneck_error err;

	options.wait_ms = PATIENCE_MS;
	if (sneck_acquire(client, name, mode, &options, &hold, &err) < 0)
		bench_fail("acquire", &err);
	if (sneck_release(hold) < 0) {
		fprintf(stderr, "bench: release failed\n");
		exit(1);
	}
}
