/* SPDX-License-Identifier: MIT */
/* Who was inside together: by the clock (believed-valid intervals that overlap) and by the witness (those
 * that met in the critical section).
 *
 * The intervals of a lock come in the order of their beginnings; those that may not have ended yet are kept
 * in two lists. A reader is compared with the writers alone, a writer with all, and what has ended is dropped
 * on the way, so each interval is touched a constant number of times besides the overlaps that are to be
 * found.
 *
 * The witness knows nothing of validity: a program that goes on after the end of its lease meets its
 * successor, as it must. So a meeting counts only if both were valid as long as they were inside. */
#include "check_world.h"

#include <stdlib.h>

#include "witness.h"

struct active {
	const struct check_span **items;
	size_t n, room;
};

static int keep(struct active *list, const struct check_span *span) {
	if (list->n == list->room) {
		size_t room = list->room ? list->room * 2 : 64;
		const struct check_span **grown = realloc(list->items, room * sizeof *grown);

		if (!grown)
			return -1;
		list->items = grown;
		list->room = room;
	}
	list->items[list->n++] = span;
	return 0;
}

/* Holds of one owner inside each other, or parts of one life. */
static bool same_owner(const struct check_life *a, const struct check_life *b) {
	return a == b || (a->grant->actor == b->grant->actor && a->process == b->process &&
	                         ((a->grant->flags | b->grant->flags) & HISTORY_OWNER));
}

/* When the server granted it: for a hold that is nested in another, when it granted that. Lives are in the
 * order of their holds, so the outer one is before it. */
static int64_t asked_ns(const struct check_world *world, const struct check_life *life) {
	const struct check_life *outer = life;

	while (outer->grant->flags & HISTORY_OWNER && outer > world->lives) {
		do
			outer--;
		while (outer > world->lives && (outer->grant->actor != life->grant->actor ||
		                                       outer->grant->lock != life->grant->lock));
	}
	return outer->grant->invoke_ns < life->grant->invoke_ns ? outer->grant->invoke_ns
	                                                        : life->grant->invoke_ns;
}

/* When a failover is over, one of the two must have learnt that what it had is lost, or have left. */
static bool outlasts(const struct history_record *failover, const struct check_life *earlier,
        const struct check_life *later) {
	int64_t end = later && later->end < earlier->end ? later->end : earlier->end;

	return failover->flags & HISTORY_FAILOVER && end > check_returned(failover);
}

/* Could the state in which `earlier` was granted have been gone when `later` was? */
static bool excused(struct check_world *world, enum check_invariant invariant,
        const struct check_life *earlier, const struct check_life *later, int64_t later_ns) {
	uint32_t lock = earlier->grant->lock;
	int64_t from = asked_ns(world, earlier);

	/* Of two, one that re-enters later may have been granted before. */
	if (later && later->grant->flags & HISTORY_OWNER && asked_ns(world, later) < from)
		from = asked_ns(world, later);

	const struct history_record *wipe = check_wipe(world, lock, from, later_ns);
	if (wipe && !outlasts(wipe, earlier, later)) {
		check_excuse(world, invariant, CHECK_BY_WIPE);
		return true;
	}
	if (check_broken(world, lock, from, later_ns)) {
		check_excuse(world, invariant, CHECK_BY_BREAK);
		return true;
	}
	return false;
}

/* What a conflict between the two breaks: exclusion if both were valid; else one of them had ended by all
 * that its program knew, but its release answered that it was still held. */
static enum check_invariant broken_by(const struct check_span *earlier, const struct check_span *span) {
	return earlier->end > span->start && span->end > span->start ? CHECK_EXCLUSION : CHECK_RELEASE;
}

/* 1: reported; 0: excused. */
static int judge(struct check_world *world, const struct check_span *earlier, const struct check_span *span,
        enum check_invariant invariant) {
	bool first = earlier->end <= span->start; /* the earlier one had ended, not the later */
	int r;

	if (excused(world, invariant, earlier->life, span->life, span->since->return_ns))
		return 0;
	if (invariant == CHECK_EXCLUSION)
		r = check_violated(
		        world, invariant, "two holds were valid at once", earlier->since, span->since);
	else
		r = check_violated(world, invariant,
		        "a release took effect though another had been granted the lock",
		        first ? span->since : earlier->since,
		        first ? earlier->life->release : span->life->release);
	return r < 0 ? -1 : 1;
}

/* Drop what has ended; report the first conflict of each kind, and set its bit in *found. */
static int compare(
        struct check_world *world, struct active *list, const struct check_span *span, unsigned *found) {
	size_t kept = 0;

	for (size_t i = 0; i < list->n; i++) {
		const struct check_span *earlier = list->items[i];
		enum check_invariant invariant = broken_by(earlier, span);
		int r;

		if (earlier->held_until <= span->start)
			continue;
		list->items[kept++] = earlier;
		if (*found & 1u << invariant || same_owner(earlier->life, span->life))
			continue;
		r = judge(world, earlier, span, invariant);
		if (r < 0)
			return -1;
		*found |= (unsigned)r << invariant;
	}
	list->n = kept;
	return 0;
}

static int add(struct check_world *world, struct active *writers, struct active *readers,
        const struct check_span *span) {
	unsigned found = 0;

	if (compare(world, writers, span, &found) < 0 ||
	        (span->mode == 'W' && compare(world, readers, span, &found) < 0))
		return -1;
	return keep(span->mode == 'W' ? writers : readers, span);
}

int check_exclusion(struct check_world *world) {
	struct active writers = { 0 }, readers = { 0 };
	int r = 0;

	for (size_t i = 0; i < world->n_spans && r == 0; i++) {
		const struct check_span *span = &world->spans[i];

		if (i == 0 || span->lock != span[-1].lock)
			writers.n = readers.n = 0;
		else if (!same_owner(span->life, span[-1].life) &&
		         (span->mode == 'W' || span[-1].mode == 'W'))
			check_count(world, CHECK_EXCLUSION);
		r = add(world, &writers, &readers, span);
	}
	free(writers.items);
	free(readers.items);
	return r;
}

/* ---- The witness --------------------------------------------------------------------------------*/

/* Was `life` valid for as long as it was inside, the last time that it entered before `at`? */
static bool valid_inside(const struct check_life *life, int64_t at) {
	const struct history_record *enter = NULL, *leave = NULL;

	for (size_t i = 0; i < life->n_entries; i++) {
		const struct history_record *record = life->entries[i].record;

		if (record->op == HISTORY_ENTER && record->invoke_ns <= at) {
			enter = record;
			leave = NULL;
		} else if (record->op == HISTORY_LEAVE && enter && !leave) {
			leave = record;
		}
	}
	return life->end >= (leave && leave->return_ns ? leave->return_ns : at);
}

static bool passes(const struct history_record *record, int64_t from, int64_t to) {
	return (record->op == HISTORY_ENTER || record->op == HISTORY_LEAVE) && record->invoke_ns <= to &&
	       check_returned(record) >= from;
}

/* A meeting without a name (what was found gone says not whose it was): who went in or out while `life` was
 * inside? One that was valid, before all others; NULL: nobody. */
static const struct check_life *who_else(
        const struct check_world *world, const struct check_life *life, const struct history_record *record) {
	const struct check_life *found = NULL;
	int64_t since = life->start;

	for (size_t i = 0; i < life->n_entries; i++)
		if (life->entries[i].record->op == HISTORY_ENTER && life->entries[i].at <= record->invoke_ns)
			since = life->entries[i].at;
	for (size_t i = 0; i < world->n_lives; i++) {
		const struct check_life *other = &world->lives[i];

		if (other->grant->lock != record->lock || same_owner(life, other))
			continue;
		for (size_t j = 0; j < other->n_entries; j++) {
			if (!passes(other->entries[j].record, since, record->return_ns))
				continue;
			if (valid_inside(other, record->return_ns))
				return other;
			found = other;
		}
	}
	return found;
}

static int judge_meeting(
        struct check_world *world, const struct check_life *life, const struct history_record *record) {
	const struct check_life *other = record->token == WITNESS_SOMEBODY
	                                         ? who_else(world, life, record)
	                                         : check_life_at(world, record->token, record->return_ns);
	const struct check_life *earlier = other && other->start < life->start ? other : life;
	const struct check_life *later = earlier == life ? other : life;
	bool other_valid = true;

	if (other && same_owner(life, other))
		return 0;
	if (other && record->op == HISTORY_ENTER)
		other_valid = other->end >= record->return_ns;
	else if (other)
		other_valid = valid_inside(other, record->return_ns);
	if (life->end < record->return_ns || !other_valid) {
		check_excuse(world, CHECK_WITNESS, CHECK_BY_VALIDITY);
		return 0;
	}
	if (later && excused(world, CHECK_WITNESS, earlier, later, later->grant->return_ns))
		return 0;
	return check_violated(
	        world, CHECK_WITNESS, "two were inside at once", other ? other->grant : life->grant, record);
}

int check_witness(struct check_world *world) {
	for (size_t i = 0; i < world->n_lives; i++) {
		const struct check_life *life = &world->lives[i];

		for (size_t j = 0; j < life->n_entries; j++) {
			const struct history_record *record = life->entries[j].record;

			if ((record->op != HISTORY_ENTER && record->op != HISTORY_LEAVE) ||
			        !record->return_ns)
				continue;
			check_count(world, CHECK_WITNESS);
			if (record->result < 0 && judge_meeting(world, life, record) < 0)
				return -1;
		}
	}
	return 0;
}
