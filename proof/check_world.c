/* SPDX-License-Identifier: MIT */
/* The histories of a run as the checker needs them: every record of a lock or a hold in two sorted indexes,
 * what the driver did in lists by kind, and for each process when it was stopped and when it died.
 *
 * Records are never copied: entries point into the mapped files, which is what lets ten million of them fit.
 * A record whose process is not known (a server, a process without a history) excuses nobody. */
#include "check_world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ACTORS_MAX = 1 << 26 };

int64_t check_returned(const struct history_record *record) {
	return record->return_ns ? record->return_ns : CHECK_NEVER;
}

/* ---- Counting -----------------------------------------------------------------------------------*/

void check_count(struct check_world *world, enum check_invariant invariant) {
	world->report->counts[invariant].checked++;
}

void check_excuse(struct check_world *world, enum check_invariant invariant, enum check_excuse excuse) {
	world->report->counts[invariant].excused[excuse]++;
}

int check_violated(struct check_world *world, enum check_invariant invariant, const char *what,
        const struct history_record *first, const struct history_record *second) {
	struct check_report *report = world->report;
	struct check_violation *grown;

	if (report->counts[invariant].violations++ >= world->options.keep)
		return 0;
	grown = realloc(report->violations, (report->n_violations + 1) * sizeof *grown);
	if (!grown)
		return -1;
	report->violations = grown;
	grown[report->n_violations++] = (struct check_violation){
		.invariant = invariant, .what = what, .first = first, .second = second
	};
	return 0;
}

bool check_list_add(struct check_list *list, const struct history_record *record) {
	if (list->n == list->room) {
		size_t room = list->room ? list->room * 2 : 64;
		const struct history_record **grown = realloc(list->items, room * sizeof *grown);

		if (!grown)
			return false;
		list->items = grown;
		list->room = room;
	}
	list->items[list->n++] = record;
	return true;
}

/* ---- Sorting records into their places ----------------------------------------------------------*/

static bool is_call_or_look(const struct history_record *record) {
	return record->op >= HISTORY_ACQUIRE && record->op <= HISTORY_STORE;
}

static struct check_list *list_of(struct check_world *world, unsigned op) {
	switch (op) {
	case HISTORY_FAULT:
		return &world->faults;
	case HISTORY_WIPE:
		return &world->wipes;
	case HISTORY_CALM:
		return &world->calms;
	case HISTORY_DEATH:
		return &world->deaths;
	case HISTORY_LEFT:
		return &world->lefts;
	case HISTORY_BREAK:
		return &world->breaks;
	default:
		return NULL;
	}
}

static void note_times(struct check_world *world, uint32_t process, const struct history_record *record) {
	struct check_process *own = &world->processes[process];
	int64_t last = record->return_ns > record->invoke_ns ? record->return_ns : record->invoke_ns;

	if (last > own->last_ns)
		own->last_ns = last;
	if (last > world->last_ns)
		world->last_ns = last;
	if (record->invoke_ns < world->first_ns)
		world->first_ns = record->invoke_ns;
	if (record->op == HISTORY_CLOSE &&
	        (own->close_ns == CHECK_NEVER || record->invoke_ns > own->close_ns))
		own->close_ns = record->invoke_ns;
}

static int note_actor(struct check_world *world, uint32_t process, const struct history_record *record) {
	if (record->op == HISTORY_CANCEL || record->op == HISTORY_BREAK || record->actor >= ACTORS_MAX)
		return 0;
	if (record->actor >= world->n_actors) {
		size_t n = world->n_actors ? world->n_actors : 1024;
		uint32_t *grown;

		while (n <= record->actor)
			n *= 2;
		grown = realloc(world->process_of_actor, n * sizeof *grown);
		if (!grown)
			return -1;
		for (size_t i = world->n_actors; i < n; i++)
			grown[i] = CHECK_NOBODY;
		world->process_of_actor = grown;
		world->n_actors = n;
	}
	world->process_of_actor[record->actor] = process;
	return 0;
}

static int place(struct check_world *world, uint32_t process, const struct history_record *record) {
	struct check_entry entry = { .at = record->invoke_ns, .record = record, .process = process };
	struct check_list *list = list_of(world, record->op);

	note_times(world, process, record);
	if (list && !check_list_add(list, record))
		return -1;
	if (!is_call_or_look(record))
		return 0;
	entry.key = record->lock;
	world->by_lock[world->n_by_lock++] = entry;
	if (record->hold && record->op != HISTORY_BREAK) {
		entry.key = record->hold;
		world->by_hold[world->n_by_hold++] = entry;
	}
	return note_actor(world, process, record);
}

static int place_file(struct check_world *world, uint32_t process) {
	const struct history_file *file = &world->files[process];

	world->processes[process] =
	        (struct check_process){ .pid = file->pid, .death_ns = CHECK_NEVER, .close_ns = CHECK_NEVER };
	check_count(world, CHECK_WHOLE);
	if (file->cut &&
	        check_violated(world, CHECK_WHOLE, "the history was full, and what came later is missing",
	                &file->records[file->n - 1], NULL) < 0)
		return -1;
	for (uint64_t i = 0; i < file->n; i++) {
		if (file->records[i].op == HISTORY_NONE || file->records[i].op >= HISTORY_OPS)
			world->report->unfilled++;
		else if (place(world, process, &file->records[i]) < 0)
			return -1;
	}
	world->report->records += file->n;
	return 0;
}

static int by_key_and_time(const void *a, const void *b) {
	const struct check_entry *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->record < y->record ? -1 : x->record > y->record;
}

static int by_time(const void *a, const void *b) {
	const struct history_record *x = *(const struct history_record *const *)a;
	const struct history_record *y = *(const struct history_record *const *)b;

	return x->invoke_ns < y->invoke_ns ? -1 : x->invoke_ns > y->invoke_ns;
}

static int by_hold(const void *a, const void *b) {
	const struct history_record *x = *(const struct history_record *const *)a;
	const struct history_record *y = *(const struct history_record *const *)b;

	return x->hold < y->hold ? -1 : x->hold > y->hold;
}

static void sort_list(struct check_list *list, int (*order)(const void *, const void *)) {
	if (list->n)
		qsort(list->items, list->n, sizeof list->items[0], order);
}

/* ---- Who was stopped, who died ------------------------------------------------------------------*/

/* Numbers of processes come again in a long run: the one that began last before that moment. */
static uint32_t process_with_pid(const struct check_world *world, uint64_t pid, int64_t at) {
	uint32_t found = CHECK_NOBODY;
	int64_t began = INT64_MIN;

	for (uint32_t i = 0; i < world->n_files; i++) {
		const struct history_file *file = &world->files[i];

		if ((uint64_t)file->pid == pid && file->n > 0 && file->records[0].invoke_ns <= at &&
		        file->records[0].invoke_ns > began) {
			found = i;
			began = file->records[0].invoke_ns;
		}
	}
	return found;
}

static uint32_t victim_of(const struct check_world *world, const struct history_record *record) {
	if (record->token)
		return process_with_pid(world, record->token, check_returned(record));
	if (record->actor == 0 || record->actor == HISTORY_ALL)
		return CHECK_EVERYBODY;
	return record->actor < world->n_actors ? world->process_of_actor[record->actor] : CHECK_NOBODY;
}

static int note_stops(struct check_world *world) {
	world->fault_victims = malloc((world->faults.n + 1) * sizeof *world->fault_victims);
	if (!world->fault_victims)
		return -1;
	for (size_t i = 0; i < world->faults.n; i++) {
		const struct history_record *fault = world->faults.items[i];
		uint32_t victim = victim_of(world, fault);
		struct check_stop *grown;

		world->fault_victims[i] = victim;
		world->report->faults++;
		world->report->faults_bit += fault->result > 0;
		if (!(fault->flags & HISTORY_STOPPED) || victim == CHECK_NOBODY)
			continue;
		grown = realloc(world->stops, (world->n_stops + 1) * sizeof *grown);
		if (!grown)
			return -1;
		world->stops = grown;
		grown[world->n_stops++] = (struct check_stop){
			.process = victim, .from = fault->invoke_ns, .to = check_returned(fault)
		};
	}
	return 0;
}

static void note_deaths(struct check_world *world) {
	for (size_t i = 0; i < world->deaths.n; i++) {
		const struct history_record *death = world->deaths.items[i];
		uint32_t victim = victim_of(world, death);

		if (victim < world->n_files && death->invoke_ns < world->processes[victim].death_ns)
			world->processes[victim].death_ns = death->invoke_ns;
	}
	world->report->deaths = world->deaths.n;
}

int64_t check_stopped_ns(const struct check_world *world, uint32_t process, int64_t from, int64_t to) {
	int64_t sum = 0;

	for (size_t i = 0; i < world->n_stops; i++) {
		const struct check_stop *stop = &world->stops[i];
		int64_t begin = stop->from > from ? stop->from : from, end = stop->to < to ? stop->to : to;

		if ((stop->process == process || stop->process == CHECK_EVERYBODY) && begin < end)
			sum += end - begin;
	}
	return sum;
}

const struct history_record *check_wipe(
        const struct check_world *world, uint32_t lock, int64_t from, int64_t to) {
	const struct history_record *last = NULL;

	for (size_t i = 0; i < world->wipes.n; i++) {
		const struct history_record *wipe = world->wipes.items[i];

		if ((wipe->lock == lock || wipe->lock == HISTORY_ALL) && check_returned(wipe) > from &&
		        wipe->invoke_ns < to && (!last || check_returned(wipe) > check_returned(last)))
			last = wipe;
	}
	return last;
}

bool check_wiped(const struct check_world *world, uint32_t lock, int64_t from, int64_t to) {
	return check_wipe(world, lock, from, to) != NULL;
}

bool check_broken(const struct check_world *world, uint32_t lock, int64_t from, int64_t to) {
	for (size_t i = 0; i < world->breaks.n && world->breaks.items[i]->hold == 0; i++) {
		const struct history_record *record = world->breaks.items[i];

		if (record->lock == lock && check_returned(record) > from && record->invoke_ns < to)
			return true;
	}
	return false;
}

/* ---- The whole ----------------------------------------------------------------------------------*/

int check_world_load(struct check_world *world) {
	uint64_t total = 0;

	for (size_t i = 0; i < world->n_files; i++)
		total += world->files[i].n;
	world->first_ns = CHECK_NEVER;
	world->processes = calloc(world->n_files + 1, sizeof *world->processes);
	world->by_lock = malloc((total + 1) * sizeof *world->by_lock);
	world->by_hold = malloc((total + 1) * sizeof *world->by_hold);
	if (!world->processes || !world->by_lock || !world->by_hold)
		return -1;
	for (uint32_t i = 0; i < world->n_files; i++)
		if (place_file(world, i) < 0)
			return -1;
	qsort(world->by_lock, world->n_by_lock, sizeof *world->by_lock, by_key_and_time);
	qsort(world->by_hold, world->n_by_hold, sizeof *world->by_hold, by_key_and_time);
	sort_list(&world->faults, by_time);
	sort_list(&world->wipes, by_time);
	sort_list(&world->calms, by_time);
	sort_list(&world->deaths, by_time);
	sort_list(&world->breaks, by_hold);
	world->report->wipes = world->wipes.n;
	if (note_stops(world) < 0)
		return -1;
	note_deaths(world);
	return 0;
}

void check_world_done(struct check_world *world) {
	free(world->processes);
	free(world->process_of_actor);
	free(world->by_lock);
	free(world->by_hold);
	free(world->lives);
	free(world->spans);
	free(world->stops);
	free(world->fault_victims);
	free(world->faults.items);
	free(world->wipes.items);
	free(world->calms.items);
	free(world->breaks.items);
	free(world->lefts.items);
	free(world->deaths.items);
}

int check_each_lock(struct check_world *world,
        int (*fn)(struct check_world *world, const struct check_entry *entries, size_t n)) {
	size_t end;

	for (size_t begin = 0; begin < world->n_by_lock; begin = end) {
		for (end = begin + 1; end < world->n_by_lock; end++)
			if (world->by_lock[end].key != world->by_lock[begin].key)
				break;
		if (fn(world, &world->by_lock[begin], end - begin) < 0)
			return -1;
	}
	return 0;
}
