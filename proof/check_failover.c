/* SPDX-License-Identifier: MIT */
/* What failovers and moves cost: holds that were lost, as their programs were told, renewals that failed, and
 * the longest times in which nothing was granted, or a lock not although it was free. These are figures, not
 * judgements; a campaign may judge by them. A hold that was lost and not told shows as an
 * overlap that outlasts its failover (check_exclusion.c). */
#include "check_world.h"

#include <stdlib.h>

#include <sneck/sneck.h>

enum { HELD_UP_NS = 300000000 };
static const int64_t HELD_UP_WITHIN_NS = INT64_C(3000000000);

/* When its program was told that it is lost; CHECK_NEVER: it was not. */
static int64_t told_at(const struct check_life *life) {
	for (size_t i = 0; i < life->n_entries; i++) {
		const struct history_record *record = life->entries[i].record;
		bool lost = record->op == HISTORY_STATE ? record->result == SNECK_LOST
		                                        : record->result == SNECK_ELOST;

		/* Whoever adopts too late is told so of a hold that was left in time. */
		if (record->return_ns && lost && record->op != HISTORY_ADOPT)
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

/* A fixed lease is not renewed, and ends when it said. A renewal of a hold that a conversion of another
 * thread has renamed meanwhile is not known to have worked, and says so at once. */
static bool failed_to_renew(const struct history_record *record) {
	if (record->flags & HISTORY_FIXED || !record->return_ns)
		return false;
	if (record->op == HISTORY_STATE)
		return record->result == SNECK_SUSPECT && record->detail != HISTORY_NOT_HELD;
	if (record->op != HISTORY_RENEW || record->result == 0)
		return false;
	return record->result != SNECK_EUNKNOWN || record->return_ns >= record->deadline_ns;
}

/* Where nobody ran for long enough, a lease may end, or a renewal come late, for that reason alone. */
static bool was_held_up(const struct check_world *world, const struct check_life *life, int64_t when) {
	return check_stopped_ns(world, life->process, when - HELD_UP_WITHIN_NS, when) >= HELD_UP_NS;
}

static void count_one(
        struct check_world *world, const struct check_life *life, int64_t when, uint64_t *count) {
	if (was_held_up(world, life, when))
		world->report->held_up++;
	else
		++*count;
}

static void count_lives(struct check_world *world) {
	for (size_t i = 0; i < world->n_lives; i++) {
		const struct check_life *life = &world->lives[i];
		int64_t told = told_at(life);

		if (told != CHECK_NEVER && !(life->grant->flags & HISTORY_FIXED))
			count_one(world, life, told, &world->report->lost);
		world->report->lost_in_failover += lost_in_failover(world, life);
		for (size_t j = 0; j < life->n_entries; j++)
			if (failed_to_renew(life->entries[j].record))
				count_one(world, life, life->entries[j].record->return_ns,
				        &world->report->unrenewed);
	}
}

/* ---- Sleep --------------------------------------------------------------------------------------*/

static size_t first_span_of(const struct check_world *world, uint32_t lock, int64_t after) {
	size_t low = 0, high = world->n_spans;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct check_span *span = &world->spans[middle];

		if (span->lock < lock || (span->lock == lock && span->start < after))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Until when somebody had the lock, of those who had it before `when`. `ends`: the latest end of the spans of
 * a lock up to each. */
static int64_t had_until(const struct check_world *world, const int64_t *ends, uint32_t lock, int64_t when) {
	size_t next = first_span_of(world, lock, when);

	if (next == 0 || world->spans[next - 1].lock != lock)
		return INT64_MIN;
	return ends[next - 1] < when ? ends[next - 1] : when;
}

static void look_for_sleep(struct check_world *world, const int64_t *ends) {
	for (size_t i = 0; i < world->n_by_lock; i++) {
		const struct check_entry *entry = &world->by_lock[i];
		const struct history_record *wait = entry->record;
		int64_t since = had_until(world, ends, wait->lock, wait->return_ns);
		bool waited = wait->result == 0 || wait->result == SNECK_ETIMEDOUT;

		if (wait->op != HISTORY_ACQUIRE || !wait->return_ns || !waited || since == INT64_MIN)
			continue;
		if (wait->invoke_ns > since)
			since = wait->invoke_ns;
		int64_t slept = wait->return_ns - since -
		                check_stopped_ns(world, entry->process, since, wait->return_ns);
		if (slept > world->report->longest_sleep_ns)
			world->report->longest_sleep_ns = slept;
	}
}

/* ---- All of it ----------------------------------------------------------------------------------*/

static int by_number(const void *a, const void *b) {
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Sorts `starts`. */
static void look_for_gaps(struct check_world *world, int64_t *starts) {
	for (size_t i = 0; i < world->n_lives; i++)
		starts[i] = world->lives[i].start;
	qsort(starts, world->n_lives, sizeof *starts, by_number);
	for (size_t i = 1; i < world->n_lives; i++)
		if (starts[i] - starts[i - 1] > world->report->longest_gap_ns)
			world->report->longest_gap_ns = starts[i] - starts[i - 1];
}

int check_failovers(struct check_world *world) {
	int64_t *starts = malloc((world->n_lives + 1) * sizeof *starts);
	int64_t *ends = malloc((world->n_spans + 1) * sizeof *ends);
	int r = starts && ends ? 0 : -1;

	if (r == 0) {
		count_lives(world);
		look_for_gaps(world, starts);
		for (size_t i = 0; i < world->n_spans; i++) {
			const struct check_span *span = &world->spans[i];
			bool first = i == 0 || span->lock != span[-1].lock;

			ends[i] = first || span->held_until > ends[i - 1] ? span->held_until : ends[i - 1];
		}
		look_for_sleep(world, ends);
	}
	free(starts);
	free(ends);
	return r;
}
