/* SPDX-License-Identifier: MIT */
/* The checker from the outside: load, build, and one pass for each invariant. The passes do not depend on
 * each other; each says itself what it has looked at, so that one that found nothing to look at cannot pass
 * for one that found nothing wrong. */
#include "check.h"

#include <errno.h>
#include <stdlib.h>

#include "check_world.h"

const struct check_options check_defaults = {
	.served_ns = INT64_C(35000000000),
	.late_ns = INT64_C(50000000),
	.fair_ns = INT64_C(50000000),
	.handovers = 16,
	.keep = 20,
};

static int run(struct check_world *world) {
	static int (*const passes[])(struct check_world *) = {
		check_world_load,
		check_lives_build,
		check_exclusion,
		check_tokens,
		check_stores,
		check_served,
		check_fair,
		check_release,
		check_notice,
		check_left,
		check_return,
		check_witness,
		check_failovers,
	};

	for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++)
		if (passes[i](world) < 0)
			return -1;
	return 0;
}

int check_run(const struct history_file *files, size_t n_files, const struct check_options *options,
        struct check_report *ret_report) {
	struct check_report report = { 0 };
	struct check_world *world = calloc(1, sizeof *world);

	if (!world)
		return -1;
	world->files = files;
	world->n_files = n_files;
	world->options = options ? *options : check_defaults;
	world->report = &report;
	report.world = world;
	if (run(world) < 0) {
		check_done(&report);
		errno = ENOMEM;
		return -1;
	}
	*ret_report = report;
	world->report = ret_report;
	return 0;
}

void check_done(struct check_report *report) {
	if (report->world)
		check_world_done(report->world);
	free(report->world);
	free(report->violations);
	*report = (struct check_report){ 0 };
}

uint64_t check_violations(const struct check_report *report) {
	uint64_t sum = 0;

	for (int i = 0; i < CHECK_INVARIANTS; i++)
		sum += report->counts[i].violations;
	return sum;
}
