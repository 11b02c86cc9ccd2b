/* SPDX-License-Identifier: MIT */
/* From records to what a program believed: for each hold, from when to when it was valid in its program's
 * eyes, and in which mode.
 *
 * Wherever a moment is not known exactly, the choice makes the interval shorter: it begins when the call that
 * gave it has returned, and ends before the call that gives it back. So an overlap is never an artefact of
 * the measurement. A conversion counts as READ for as long as it is under way.
 *
 * Two answers are also kept that are not about validity: when a release says that the hold was still there,
 * then it was held until then, whatever the program had been told before (`held_until`); and what was told
 * last
 * (`valid_until`), against which the notices are judged. */
#include "check_world.h"

#include <stdlib.h>

#include <sneck/sneck.h>

struct builder {
	struct check_world *world;
	struct check_life *life; /* NULL: between two lives */
	size_t first_span;       /* of this life */
	bool ended;
};

static bool told_lost(const struct history_record *record) {
	return record->return_ns && (record->result == SNECK_ELOST || record->result == SNECK_EBROKEN);
}

static int add_span(struct builder *b, int64_t start, char mode, const struct history_record *since) {
	struct check_world *world = b->world;

	if (world->n_spans == world->spans_room) {
		size_t room = world->spans_room ? world->spans_room * 2 : 1024;
		struct check_span *grown = realloc(world->spans, room * sizeof *grown);

		if (!grown)
			return -1;
		world->spans = grown;
		world->spans_room = room;
	}
	world->spans[world->n_spans++] = (struct check_span){ .start = start,
		.end = CHECK_NEVER,
		.life = b->life,
		.since = since,
		.lock = b->life->grant->lock,
		.mode = mode };
	return 0;
}

static int turn_into(struct builder *b, int64_t when, char mode, const struct history_record *since) {
	struct check_span *current = &b->world->spans[b->world->n_spans - 1];

	if (current->mode == mode)
		return 0;
	current->end = when;
	return add_span(b, when, mode, since);
}

static void end_at(struct builder *b, int64_t when) {
	if (when < b->life->end)
		b->life->end = when;
}

/* ---- The end of a life --------------------------------------------------------------------------*/

/* When the victim's grace is over; CHECK_NEVER: nobody broke it. */
static int64_t broken_at(const struct check_world *world, uint64_t hold) {
	size_t low = 0, high = world->breaks.n;
	int64_t when = CHECK_NEVER;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (world->breaks.items[middle]->hold < hold)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < world->breaks.n && world->breaks.items[low]->hold == hold; low++) {
		const struct history_record *record = world->breaks.items[low];
		int64_t end = record->deadline_ns ? record->deadline_ns : record->invoke_ns;
		/* What did not come back may have happened. */
		bool happened = !record->return_ns || record->result == 0 || record->result == SNECK_EUNKNOWN;

		if (happened && end < when)
			when = end;
	}
	return when;
}

static void finish(struct builder *b, size_t next_entry) {
	struct check_world *world = b->world;
	struct check_life *life = b->life;
	size_t kept = b->first_span;
	int64_t broken;

	if (!life)
		return;
	broken = broken_at(world, life->grant->hold);
	life->broken = broken != CHECK_NEVER;
	end_at(b, broken);
	end_at(b, life->valid_until);
	end_at(b, world->processes[life->process].death_ns);
	if (life->end < life->start)
		life->end = life->start;
	life->held_until = life->end;
	if (life->release && life->release->op == HISTORY_RELEASE && life->release->return_ns &&
	        life->release->result == 0 && !life->broken && life->release->invoke_ns > life->end)
		life->held_until = life->release->invoke_ns;
	life->n_entries = (size_t)(&world->by_hold[next_entry] - life->entries);
	for (size_t i = b->first_span; i < world->n_spans; i++) {
		struct check_span span = world->spans[i];

		span.held_until = span.end < life->held_until ? span.end : life->held_until;
		span.end = span.end < life->end ? span.end : life->end;
		if (span.held_until > span.start)
			world->spans[kept++] = span;
	}
	world->n_spans = kept;
	b->life = NULL;
}

/* ---- What each record does to it ----------------------------------------------------------------*/

static int begin_life(struct builder *b, size_t index) {
	struct check_world *world = b->world;
	const struct check_entry *entry = &world->by_hold[index];
	const struct history_record *record = entry->record;

	finish(b, index);
	b->ended = false;
	b->first_span = world->n_spans;
	b->life = &world->lives[world->n_lives++];
	*b->life = (struct check_life){ .grant = record,
		.entries = entry,
		.start = record->return_ns,
		.end = CHECK_NEVER,
		.valid_until = record->valid_until_ns,
		.process = entry->process };
	world->report->grants++;
	return add_span(b, record->return_ns, (char)record->mode, record);
}

static void tell(struct builder *b, const struct history_record *record) {
	struct check_life *life = b->life;
	int64_t until = record->valid_until_ns;

	if (!record->return_ns)
		return;
	if (until == 0) {
		if (record->op == HISTORY_VALID)
			end_at(b, record->invoke_ns);
	} else if (until >= life->valid_until) {
		life->valid_until = until;
	} else {
		/* It moved back: what was believed until the look stays believed. */
		int64_t before =
		        life->valid_until < record->invoke_ns ? life->valid_until : record->invoke_ns;

		life->valid_until = until > before ? until : before;
	}
}

static void give_back(struct builder *b, const struct history_record *record) {
	b->life->release = record;
	end_at(b, record->invoke_ns);
	b->ended = true;
}

static int convert(struct builder *b, const struct history_record *record) {
	tell(b, record);
	if (record->op == HISTORY_DOWNGRADE)
		return turn_into(b, record->invoke_ns, 'R', record);
	if (record->return_ns && record->result == 0)
		return turn_into(b, record->return_ns, 'W', record);
	return 0;
}

static int live(struct builder *b, const struct history_record *record) {
	if (record->return_ns && record->result == SNECK_ENOTOWNER)
		return 0;
	switch (record->op) {
	case HISTORY_RELEASE:
		give_back(b, record);
		return 0;
	case HISTORY_DETACH:
		if (!record->return_ns || record->result == 0 || record->result == SNECK_EUNKNOWN) {
			give_back(b, record);
			return 0;
		}
		break;
	case HISTORY_VALID:
	case HISTORY_RENEW:
		tell(b, record);
		break;
	case HISTORY_UPGRADE:
	case HISTORY_DOWNGRADE:
		if (convert(b, record) < 0)
			return -1;
		break;
	case HISTORY_STATE:
		if (record->result == SNECK_LOST || record->result == SNECK_BROKEN)
			end_at(b, record->invoke_ns);
		return 0;
	default:
		return 0;
	}
	if (told_lost(record))
		end_at(b, record->return_ns);
	return 0;
}

/* ---- All of them --------------------------------------------------------------------------------*/

static bool is_grant(const struct history_record *record) {
	return (record->op == HISTORY_ACQUIRE || record->op == HISTORY_ADOPT) && record->return_ns &&
	       record->result == 0;
}

static int by_lock_and_start(const void *a, const void *b) {
	const struct check_span *x = a, *y = b;

	if (x->lock != y->lock)
		return x->lock < y->lock ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

int check_lives_build(struct check_world *world) {
	struct builder b = { .world = world };
	size_t n = 0;

	for (size_t i = 0; i < world->n_by_hold; i++)
		n += is_grant(world->by_hold[i].record);
	world->lives = malloc((n + 1) * sizeof *world->lives);
	if (!world->lives)
		return -1;
	for (size_t i = 0; i < world->n_by_hold; i++) {
		const struct history_record *record = world->by_hold[i].record;

		if (i > 0 && world->by_hold[i].key != world->by_hold[i - 1].key)
			finish(&b, i);
		if (is_grant(record)) {
			if (begin_life(&b, i) < 0)
				return -1;
		} else if (b.life && !b.ended && live(&b, record) < 0) {
			return -1;
		}
	}
	finish(&b, world->n_by_hold);
	if (world->n_spans)
		qsort(world->spans, world->n_spans, sizeof *world->spans, by_lock_and_start);
	return 0;
}

const struct check_life *check_life_at(const struct check_world *world, uint64_t hold, int64_t at) {
	size_t low = 0, high = world->n_lives;

	/* The first life of a later hold, or of this one that begins after `at`. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct check_life *life = &world->lives[middle];

		if (life->grant->hold < hold || (life->grant->hold == hold && life->start <= at))
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || world->lives[low - 1].grant->hold != hold)
		return NULL;
	return &world->lives[low - 1];
}
