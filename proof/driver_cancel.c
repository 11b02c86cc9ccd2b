/* SPDX-License-Identifier: MIT */
/* Races of cancel against grant (worker_race.c), many at once; and lost and late messages at every index,
 * which tests/fault plays: here its programs are run and their cases counted. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "wait.h"

enum { WORKERS = 2, THREADS = 6, RACES = 100000 };

static bool all_gone(struct rig *rig) {
	rig_reap(rig);
	for (uint32_t i = 0; i < rig->shape.workers; i++)
		if (rig->workers[i].pid > 0)
			return false;
	return true;
}

static uint64_t sum_races(const struct rig *rig, uint64_t *ret_granted, uint64_t *ret_stuck) {
	uint64_t races = 0;
	*ret_granted = *ret_stuck = 0;
	for (uint32_t i = 0; i < rig->shape.workers; i++) {
		const struct board_worker *place = &rig->board->workers[i];
		races += atomic_load(&place->races);
		*ret_granted += atomic_load(&place->races_granted);
		*ret_stuck += atomic_load(&place->stuck);
	}
	return races;
}

int campaign_cancel(const struct options *options) {
	static struct rig rig;
	struct verdict verdict = { 0 };
	uint32_t count = options->count ? options->count : RACES;
	struct rig_shape shape = { .subject = options->subject,
		.layout = options->layout,
		.linger_ms = options->linger_ms,
		.workers = WORKERS,
		.group = 1,
		.threads = THREADS,
		.command_ms = 2000,
		.plain = true,
		.races = (count + WORKERS * THREADS - 1) / (WORKERS * THREADS) };
	struct result *result = result_open(options);
	uint64_t granted, stuck, races;
	if (rig_start(&rig, &shape, options->seed) != 0) {
		rig_drop(&rig, false);
		return 1;
	}
	while (!all_gone(&rig)) {
		rig_pass_time(2000);
		races = sum_races(&rig, &granted, &stuck);
		driver_say("cancel: %llu of %u races, %llu of them granted", (unsigned long long)races, count,
		        (unsigned long long)granted);
	}
	races = sum_races(&rig, &granted, &stuck);
	rig_finish(&rig);
	driver_judge(&rig, &verdict);
	bool keep = options->keep || verdict.violations + stuck > 0;
	if (keep)
		driver_kept(&rig, options);
	rig_drop(&rig, keep);
	printf("%llu races: %llu granted, %llu cancelled; locks that were not to be had afterwards: %llu\n",
	        (unsigned long long)races, (unsigned long long)granted, (unsigned long long)(races - granted),
	        (unsigned long long)stuck);
	result_number(result, "counted", races);
	result_number(result, "granted", granted);
	result_number(result, "stuck", stuck);
	return result_close(result, &verdict, stuck);
}

/* ---- Every message of every operation -------------------------------------------------------------*/

/* Runs one program; adds what its lines "N cases, N failures" say. Its other lines pass through. */
static int play(const char *program, uint64_t *cases, uint64_t *failures) {
	char line[4096];
	snprintf(line, sizeof(line), "exec '%s' 2>&1", program);
	FILE *pipe = popen(line, "re");
	if (!pipe)
		return -1;
	while (fgets(line, sizeof(line), pipe)) {
		unsigned long long n, failed;
		if (sscanf(line, "%llu cases, %llu failures", &n, &failed) == 2) {
			*cases += n;
			*failures += failed;
		} else if (strstr(line, "FAILED") || strchr(line, ';')) {
			fputs(line, stdout);
		}
	}
	int status = pclose(pipe);
	driver_say("messages: %llu cases after %s", (unsigned long long)*cases, strrchr(program, '/') + 1);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

int campaign_messages(const struct options *options) {
	static const char *const programs[] = { PROOF_ONCE_PROGRAMS };
	struct verdict none = { 0 };
	struct result *result = result_open(options);
	uint64_t cases = 0, failures = 0, broken = 0;
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++)
		broken += play(programs[i], &cases, &failures) != 0;
	printf("%llu cases, %llu failures\n", (unsigned long long)cases, (unsigned long long)failures);
	result_number(result, "counted", cases);
	return result_close(result, &none, failures > broken ? failures : broken);
}
