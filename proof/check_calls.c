/* SPDX-License-Identifier: MIT */
/* Calls and holds one by one: whether a call came back, a wait was served, a release took effect once, a loss
 * was announced, and nothing was left.
 *
 * A process that does not run cannot be on time, so the time in which it was stopped is taken off; a process
 * that was killed owes no return. Nothing else is an excuse for being late: deadlines and notices are
 * promises for the very case that the network or the server fails. */
#include "check_world.h"

#include <sneck/sneck.h>

static bool is_call(const struct history_record *record) {
	return record->op >= HISTORY_ACQUIRE && record->op <= HISTORY_CLOSE;
}

/* ---- I9: back by the deadline -------------------------------------------------------------------*/

static int judge_open(struct check_world *world, const struct check_entry *entry) {
	const struct history_record *call = entry->record;

	check_count(world, CHECK_RETURN);
	if (world->processes[entry->process].death_ns != CHECK_NEVER) {
		check_excuse(world, CHECK_RETURN, CHECK_BY_DEATH);
		return 0;
	}
	if (call->deadline_ns && call->op != HISTORY_BREAK &&
	        call->deadline_ns + world->options.late_ns > world->last_ns) {
		check_excuse(world, CHECK_RETURN, CHECK_BY_END);
		return 0;
	}
	return check_violated(world, CHECK_RETURN, "a call never returned", call, NULL);
}

static int judge_return(struct check_world *world, const struct check_entry *entry) {
	const struct history_record *call = entry->record;
	int64_t late = call->return_ns - call->deadline_ns - world->options.late_ns;

	/* A break's deadline is its victim's. */
	if (call->deadline_ns == 0 || call->op == HISTORY_BREAK)
		return 0;
	check_count(world, CHECK_RETURN);
	if (late <= 0)
		return 0;
	if (check_stopped_ns(world, entry->process, call->invoke_ns, call->return_ns) >= late) {
		check_excuse(world, CHECK_RETURN, CHECK_BY_STOP);
		return 0;
	}
	return check_violated(world, CHECK_RETURN, "a call came back after its deadline", call, NULL);
}

int check_return(struct check_world *world) {
	for (size_t i = 0; i < world->n_by_lock; i++) {
		const struct check_entry *entry = &world->by_lock[i];
		int r = 0;

		if (is_call(entry->record))
			r = entry->record->return_ns ? judge_return(world, entry) : judge_open(world, entry);
		if (r < 0)
			return -1;
	}
	return 0;
}

/* ---- I4: served when all is calm ----------------------------------------------------------------*/

/* The first of a sorted list that is later than `after`. */
static size_t first_after(const struct check_list *list, int64_t after) {
	size_t low = 0, high = list->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (list->items[middle]->invoke_ns <= after)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int judge_wait(
        struct check_world *world, const struct check_entry *entry, const struct history_record *calm) {
	int64_t limit = calm->invoke_ns + world->options.served_ns;
	size_t fault = first_after(&world->faults, calm->invoke_ns);

	check_count(world, CHECK_SERVED);
	if (check_returned(entry->record) <= limit)
		return 0;
	if (fault < world->faults.n && world->faults.items[fault]->invoke_ns < limit)
		check_excuse(world, CHECK_SERVED, CHECK_BY_FAULT);
	else if (world->processes[entry->process].death_ns < limit)
		check_excuse(world, CHECK_SERVED, CHECK_BY_DEATH);
	else if (world->last_ns < limit)
		check_excuse(world, CHECK_SERVED, CHECK_BY_END);
	else
		return check_violated(
		        world, CHECK_SERVED, "a wait went on after all was calm", calm, entry->record);
	return 0;
}

int check_served(struct check_world *world) {
	for (size_t i = 0; i < world->n_by_lock; i++) {
		const struct check_entry *entry = &world->by_lock[i];
		const struct history_record *wait = entry->record;

		if ((wait->op != HISTORY_ACQUIRE && wait->op != HISTORY_UPGRADE) ||
		        wait->flags & HISTORY_NOWAIT)
			continue;
		for (size_t j = first_after(&world->calms, wait->invoke_ns); j < world->calms.n; j++) {
			const struct history_record *calm = world->calms.items[j];

			if (calm->invoke_ns >= check_returned(wait) ||
			        calm->invoke_ns >= world->processes[entry->process].death_ns)
				break;
			if (judge_wait(world, entry, calm) < 0)
				return -1;
		}
	}
	return 0;
}

/* ---- I6: one effective release ------------------------------------------------------------------*/

static bool changes_hold(const struct history_record *record) {
	switch (record->op) {
	case HISTORY_RELEASE:
	case HISTORY_RENEW:
	case HISTORY_UPGRADE:
	case HISTORY_DOWNGRADE:
	case HISTORY_DETACH:
		return true;
	default:
		return false;
	}
}

static bool says_lost(const struct history_record *record) {
	if (!record->return_ns)
		return false;
	if (record->op == HISTORY_STATE)
		return record->result == SNECK_LOST || record->result == SNECK_BROKEN;
	return changes_hold(record) && (record->result == SNECK_ELOST || record->result == SNECK_EBROKEN);
}

/* Threads may renew each other's holds, but only their own thread gives them back or converts them. */
static bool is_owner(const struct check_life *life, const struct check_entry *entry) {
	const struct history_record *record = entry->record;

	if (entry->process != life->process)
		return false;
	return record->op == HISTORY_RENEW || record->op == HISTORY_DETACH ||
	       record->actor == life->grant->actor;
}

static int release_of_life(struct check_world *world, const struct check_life *life) {
	const struct history_record *lost = NULL, *gone = NULL;
	int r = 0;

	for (size_t i = 0; i < life->n_entries && r == 0; i++) {
		const struct check_entry *entry = &life->entries[i];
		const struct history_record *record = entry->record;
		bool effective = changes_hold(record) && record->return_ns && record->result == 0;

		if (effective) {
			check_count(world, CHECK_RELEASE);
			if (!is_owner(life, entry))
				r = check_violated(world, CHECK_RELEASE, "a call by a non-owner took effect",
				        life->grant, record);
			else if (gone && record->invoke_ns > gone->return_ns)
				r = check_violated(world, CHECK_RELEASE,
				        "a call took effect on a hold that had been given back", gone,
				        record);
			else if (lost && record->invoke_ns > lost->return_ns)
				r = check_violated(world, CHECK_RELEASE,
				        "a call took effect on a hold that was known to be lost", lost,
				        record);
			if (!gone && (record->op == HISTORY_RELEASE || record->op == HISTORY_DETACH))
				gone = record;
			else if (gone && record->op == HISTORY_RELEASE &&
			         record->invoke_ns <= gone->return_ns)
				r = check_violated(
				        world, CHECK_RELEASE, "two releases took effect", gone, record);
		} else if (!lost && says_lost(record)) {
			lost = record;
		}
	}
	return r;
}

int check_release(struct check_world *world) {
	for (size_t i = 0; i < world->n_lives; i++)
		if (release_of_life(world, &world->lives[i]) < 0)
			return -1;
	return 0;
}

/* ---- I7: told before the end --------------------------------------------------------------------*/

/* How long the program held it, whether it was valid or not. */
static int64_t held_by_program(const struct check_world *world, const struct check_life *life) {
	const struct check_process *process = &world->processes[life->process];
	int64_t until = process->last_ns;

	if (life->release)
		until = life->release->invoke_ns;
	if (process->close_ns > life->start && process->close_ns < until)
		until = process->close_ns;
	return process->death_ns < until ? process->death_ns : until;
}

/* What the program knew about the hold's state when its validity ended; NULL: nothing was ever told. */
static const struct history_record *known_at(const struct check_life *life, int64_t when) {
	const struct history_record *last = NULL;

	for (size_t i = 0; i < life->n_entries; i++) {
		const struct history_record *record = life->entries[i].record;

		if (!record->return_ns || record->return_ns > when)
			continue;
		if (record->op == HISTORY_STATE || says_lost(record))
			last = record;
	}
	return last;
}

static int notice_of_life(struct check_world *world, const struct check_life *life) {
	const struct history_record *known;
	int64_t until = life->valid_until;

	/* A fixed lease ends when its program knew that it would. A release that was in time needs no notice.
	 */
	if (life->grant->flags & HISTORY_FIXED || until == 0 || held_by_program(world, life) <= until)
		return 0;
	if (life->release && life->release->return_ns && life->release->result == 0)
		return 0;
	check_count(world, CHECK_NOTICE);
	known = known_at(life, until);
	if (known && !(known->op == HISTORY_STATE && known->result == SNECK_HELD))
		return 0;
	if (check_stopped_ns(world, life->process, until - world->options.late_ns, until) > 0) {
		check_excuse(world, CHECK_NOTICE, CHECK_BY_STOP);
		return 0;
	}
	return check_violated(world, CHECK_NOTICE, "a lease ended and its holder was not told before",
	        life->grant, life->release);
}

int check_notice(struct check_world *world) {
	for (size_t i = 0; i < world->n_lives; i++)
		if (notice_of_life(world, &world->lives[i]) < 0)
			return -1;
	return 0;
}

/* ---- I8: nothing left ---------------------------------------------------------------------------*/

int check_left(struct check_world *world) {
	for (size_t i = 0; i < world->lefts.n; i++) {
		check_count(world, CHECK_LEFT);
		if (world->lefts.items[i]->token != 0 &&
		        check_violated(world, CHECK_LEFT, "something was left behind", world->lefts.items[i],
		                NULL) < 0)
			return -1;
	}
	return 0;
}
