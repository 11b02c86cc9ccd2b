/* SPDX-License-Identifier: MIT */
/* Overtaking in the fair class. B has overtaken A if A had been asking for so long that it certainly was in
 * the queue when B was called, and B was granted while A still waited.
 *
 * A process may hand the lock over among its own threads a bounded number of times before it lets another in,
 * so what is counted is how often one process overtakes one waiter. To count is to ask how many calls both
 * began and were granted inside a wait: a Fenwick tree over the times of the grants, filled from the latest
 * call to the earliest, answers it in O(log n). Only waits with a suspicious count are looked at one by one.
 *
 * A waiter whose own process or whose server had a fault may have lost its place by the rules. */
#include "check_world.h"

#include <stdlib.h>
#include <string.h>

struct fair {
	struct check_world *world;
	const struct check_entry **all;     /* fair acquires by invocation */
	const struct check_entry **granted; /* of these, by invocation */
	int64_t *grant_times;               /* sorted */
	uint32_t *tree;                     /* 1-based, over grant_times */
	uint32_t *by_process;               /* scratch: zeros between uses */
	size_t n_all, n_granted;
};

static int by_number(const void *a, const void *b) {
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* How many grants were before `when`. */
static size_t rank(const struct fair *fair, int64_t when) {
	size_t low = 0, high = fair->n_granted;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (fair->grant_times[middle] < when)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void tree_add(struct fair *fair, size_t index) {
	for (size_t i = index + 1; i <= fair->n_granted; i += i & -i)
		fair->tree[i]++;
}

static uint64_t tree_sum(const struct fair *fair, size_t n) {
	uint64_t sum = 0;

	for (size_t i = n; i > 0; i -= i & -i)
		sum += fair->tree[i];
	return sum;
}

static int64_t waited_until(const struct check_world *world, const struct check_entry *entry) {
	int64_t death = world->processes[entry->process].death_ns;
	int64_t until = entry->record->return_ns ? entry->record->return_ns : world->last_ns;

	return death < until ? death : until;
}

/* Did something happen to the waiter, or to everybody, for which it may have lost its place, or be connecting
 * yet? */
static bool disturbed(const struct check_world *world, const struct check_entry *waiter, int64_t until) {
	int64_t from = waiter->record->invoke_ns;

	for (size_t i = 0; i < world->faults.n; i++) {
		const struct history_record *fault = world->faults.items[i];
		uint32_t victim = world->fault_victims[i];

		if (fault->invoke_ns > until)
			break;
		if (check_returned(fault) < from - world->options.settle_ns)
			continue;
		if (victim == waiter->process || victim >= CHECK_NOBODY)
			return true;
	}
	return check_wiped(world, waiter->record->lock, from, until);
}

/* The first call after the waiter's by which a process overtakes it once too often; NULL: none does. */
static const struct check_entry *overtaken_by(
        struct fair *fair, const struct check_entry *waiter, size_t first, int64_t until) {
	const struct check_entry *found = NULL;
	size_t i;

	for (i = first; i < fair->n_granted && fair->granted[i]->at < until; i++) {
		const struct check_entry *other = fair->granted[i];

		if (other->process == waiter->process || other->record->return_ns >= until)
			continue;
		if (++fair->by_process[other->process] > fair->world->options.handovers) {
			found = other;
			i++;
			break;
		}
	}
	while (i-- > first)
		fair->by_process[fair->granted[i]->process] = 0;
	return found;
}

/* `first`: the first granted call that came after the waiter was in the queue. */
static int judge(struct fair *fair, const struct check_entry *waiter, size_t first) {
	struct check_world *world = fair->world;
	int64_t until = waited_until(world, waiter);
	const struct check_entry *other;

	if (first == fair->n_granted || fair->granted[first]->at >= until)
		return 0;
	check_count(world, CHECK_FAIR);
	if (tree_sum(fair, rank(fair, until)) <= world->options.handovers)
		return 0;
	other = overtaken_by(fair, waiter, first, until);
	if (!other)
		return 0;
	if (disturbed(world, waiter, other->record->return_ns)) {
		check_excuse(world, CHECK_FAIR, CHECK_BY_FAULT);
		return 0;
	}
	return check_violated(world, CHECK_FAIR, "a process overtook a fair waiter too often", waiter->record,
	        other->record);
}

static int sweep(struct fair *fair) {
	size_t first = fair->n_granted;

	for (size_t i = fair->n_all; i-- > 0;) {
		const struct check_entry *waiter = fair->all[i];
		int64_t queued = waiter->at + fair->world->options.fair_ns;

		while (first > 0 && fair->granted[first - 1]->at > queued) {
			first--;
			tree_add(fair, rank(fair, fair->granted[first]->record->return_ns));
		}
		if (!(waiter->record->flags & HISTORY_NOWAIT) && judge(fair, waiter, first) < 0)
			return -1;
	}
	return 0;
}

static int collect(struct fair *fair, const struct check_entry *entries, size_t n) {
	fair->all = malloc(n * sizeof *fair->all);
	fair->granted = malloc(n * sizeof *fair->granted);
	fair->grant_times = malloc(n * sizeof *fair->grant_times);
	fair->tree = calloc(n + 1, sizeof *fair->tree);
	if (!fair->all || !fair->granted || !fair->grant_times || !fair->tree)
		return -1;
	for (size_t i = 0; i < n; i++) {
		const struct history_record *record = entries[i].record;

		if (record->op != HISTORY_ACQUIRE || !(record->flags & HISTORY_FAIR) ||
		        record->flags & HISTORY_OWNER)
			continue;
		fair->all[fair->n_all++] = &entries[i];
		if (record->return_ns && record->result == 0) {
			fair->grant_times[fair->n_granted] = record->return_ns;
			fair->granted[fair->n_granted++] = &entries[i];
		}
	}
	qsort(fair->grant_times, fair->n_granted, sizeof *fair->grant_times, by_number);
	return 0;
}

static int fair_of_lock(struct check_world *world, const struct check_entry *entries, size_t n) {
	struct fair fair = { .world = world };
	int r = -1;

	fair.by_process = calloc(world->n_files + 1, sizeof *fair.by_process);
	if (fair.by_process && collect(&fair, entries, n) == 0)
		r = sweep(&fair);
	free(fair.all);
	free(fair.granted);
	free(fair.grant_times);
	free(fair.tree);
	free(fair.by_process);
	return r;
}

int check_fair(struct check_world *world) {
	return check_each_lock(world, fair_of_lock);
}
