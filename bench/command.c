/* SPDX-License-Identifier: MIT */
/* What the command costs a script that uses it in place of flock(1): from the fork to the exit status,
 * with the server up. Both start `true`, so what `true` costs is in both. */
#include "command.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/server.h"
#include "stats.h"

enum { ROUNDS = 61, WARM_UP = 5 };

static double run_ms(const char *const *argv) {
	pid_t pid;
	int status;
	double start = now_s();

	if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ) != 0 ||
	        waitpid(pid, &status, 0) != pid || status != 0) {
		fprintf(stderr, "bench: %s failed\n", argv[0]);
		exit(1);
	}
	return (now_s() - start) * 1e3;
}

void bench_command(const struct test_server *server) {
	char path[128], text[128];
	const char *const flock[] = { "flock", "-n", path, "true", NULL };
	const char *const sneck[] = { SNECK_BINARY, "run", "-n", "bench/command", "--", "true", NULL };
	struct series ours = { .n = 0 }, theirs = { .n = 0 }, more = { .n = 0 };

	snprintf(path, sizeof path, "%s/flock", server->dir);
	setenv("SNECK_URL", server->url, 1);
	setenv("HOME", server->dir, 1);
	for (int round = -WARM_UP; round < ROUNDS; round++) {
		double flock_ms = run_ms(flock), sneck_ms = run_ms(sneck);
		if (round < 0)
			continue;
		series_add(&theirs, flock_ms);
		series_add(&ours, sneck_ms);
		series_add(&more, sneck_ms - flock_ms);
	}
	printf("`true` under a lock, from fork to exit status\n");
	printf("  sneck run               %s\n", series_text(&ours, " ms", text, sizeof text));
	printf("  flock                   %s\n", series_text(&theirs, " ms", text, sizeof text));
	printf("  difference              %s   (wanted: at most 5 ms)\n",
	        series_text(&more, " ms", text, sizeof text));
}
