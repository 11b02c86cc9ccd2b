/* SPDX-License-Identifier: MIT */
/* What failovers cost: the holds that were lost in them, as their programs were told, and the longest time in
 * which nothing was granted. These are figures, not judgements: a hold that was lost and not told shows as an
 * overlap that outlasts its failover (check_exclusion.c). */
#include "check_world.h"

#include <stdlib.h>

#include <sneck/sneck.h>

/* When its program was told that it is lost; CHECK_NEVER: it was not. */
static int64_t told_at(const struct check_life *life) {
	for (size_t i = 0; i < life->n_entries; i++) {
		const struct history_record *record = life->entries[i].record;
		bool lost = record->op == HISTORY_STATE ? record->result == SNECK_LOST
		                                        : record->result == SNECK_ELOST;

		if (record->return_ns && lost)
			return record->return_ns;
	}
	return CHECK_NEVER;
}

static bool lost_in_failover(const struct check_world *world, const struct check_life *life) {
	int64_t told = told_at(life);

	if (told == CHECK_NEVER)
		return false;
	for (size_t i = 0; i < world->wipes.n; i++) {
		const struct history_record *wipe = world->wipes.items[i];

		if (wipe->flags & HISTORY_FAILOVER && life->grant->invoke_ns < check_returned(wipe) &&
		        told > wipe->invoke_ns)
			return true;
	}
	return false;
}

static int by_number(const void *a, const void *b) {
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

int check_failovers(struct check_world *world) {
	int64_t *starts = malloc((world->n_lives + 1) * sizeof *starts);

	if (!starts)
		return -1;
	for (size_t i = 0; i < world->n_lives; i++) {
		starts[i] = world->lives[i].start;
		world->report->lost_in_failover += lost_in_failover(world, &world->lives[i]);
	}
	qsort(starts, world->n_lives, sizeof *starts, by_number);
	for (size_t i = 1; i < world->n_lives; i++)
		if (starts[i] - starts[i - 1] > world->report->longest_gap_ns)
			world->report->longest_gap_ns = starts[i] - starts[i - 1];
	free(starts);
	return 0;
}
