/* SPDX-License-Identifier: MIT */
/* Tokens, as they were given out and as a store sees them.
 *
 * Only calls that do not overlap in time are compared: of two that were under way together, either may have
 * come first. So there are two orders, by invocation for the later of a pair and by return for the earlier,
 * and one sweep over both with the greatest token so far.
 *
 * A number belongs to a phase: whoever re-enters or adopts has the number that is there already, so such
 * grants count as earlier ones only. Without tokens (number 0) there is nothing to check. */
#include "check_world.h"

#include <stdlib.h>

struct numbered {
	const struct history_record *record;
	int64_t at;
	uint32_t process;
	bool old; /* its number need not be new */
	bool write;
};

struct numbered_list {
	struct numbered *items;
	size_t n;
	const struct check_entry *entries; /* of the lock; what they were made of */
	size_t entries_n;
};

static int by_return(const void *a, const void *b) {
	const struct numbered *x = a, *y = b;

	return x->record->return_ns < y->record->return_ns ? -1 : x->record->return_ns > y->record->return_ns;
}

static int by_token(const void *a, const void *b) {
	const struct numbered *x = a, *y = b;

	if (x->record->token != y->record->token)
		return x->record->token < y->record->token ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* The greatest number of those that had returned before a moment, which only grows. */
struct sweep {
	const struct numbered *by_return;
	size_t n, next;
	const struct history_record *greatest, *greatest_write;
};

static void sweep_to(struct sweep *sweep, int64_t before_ns) {
	for (; sweep->next < sweep->n; sweep->next++) {
		const struct numbered *one = &sweep->by_return[sweep->next];

		if (one->record->return_ns >= before_ns)
			return;
		if (!sweep->greatest || one->record->token > sweep->greatest->token)
			sweep->greatest = one->record;
		if (one->write &&
		        (!sweep->greatest_write || one->record->token > sweep->greatest_write->token))
			sweep->greatest_write = one->record;
	}
}

static struct numbered *sorted_copy(
        const struct numbered_list *list, int (*order)(const void *, const void *)) {
	struct numbered *copy = malloc((list->n + 1) * sizeof *copy);

	if (!copy)
		return NULL;
	for (size_t i = 0; i < list->n; i++)
		copy[i] = list->items[i];
	qsort(copy, list->n, sizeof *copy, order);
	return copy;
}

/* ---- As they are given out ----------------------------------------------------------------------*/

static bool number(const struct check_entry *entry, struct numbered *ret) {
	const struct history_record *record = entry->record;
	bool acquired = record->op == HISTORY_ACQUIRE, adopted = record->op == HISTORY_ADOPT;

	if (!record->return_ns || record->result != 0 || record->token == 0 ||
	        (!acquired && !adopted && record->op != HISTORY_UPGRADE && record->op != HISTORY_DOWNGRADE))
		return false;
	*ret = (struct numbered){ .record = record,
		.at = entry->at,
		.process = entry->process,
		.old = adopted || (acquired && record->flags & HISTORY_OWNER),
		.write = record->op == HISTORY_UPGRADE || ((acquired || adopted) && record->mode == 'W') };
	return true;
}

/* The excuses: the server lost the lock *and* its clock showed less than the last number (1); or it lost the
 * lock, and a session that held it and has not found out yet passes on the numbers that it had (2). */
static bool numbers_began_anew(const struct check_world *world, const struct history_record *earlier,
        const struct history_record *later) {
	for (size_t i = 0; i < world->wipes.n; i++) {
		const struct history_record *wipe = world->wipes.items[i];

		if (!wipe->detail || (wipe->lock != later->lock && wipe->lock != HISTORY_ALL))
			continue;
		if (check_returned(wipe) > earlier->invoke_ns && wipe->invoke_ns < later->return_ns &&
		        (wipe->detail == 1 || later->invoke_ns < check_returned(wipe)))
			return true;
	}
	return false;
}

/* A failover goes back to what had reached the replica. If that was a phase of readers which has ended since,
 * its dead are holders again until their leases end, and readers who join them share their number, which
 * is smaller than those that were given out in between and are lost. `given`: has that number been given
 * out before the failover was over? A writer's number is never an old one. */
static bool brought_back(const struct check_world *world, const struct history_record *earlier,
        const struct history_record *later, const struct history_record *given) {
	const struct history_record *wipe =
	        check_wipe(world, later->lock, earlier->invoke_ns, later->return_ns);

	return wipe && wipe->flags & HISTORY_FAILOVER && later->mode == 'R' &&
	       later->op != HISTORY_DOWNGRADE && given && given->return_ns < check_returned(wipe);
}

/* The first that was given this number; NULL: nobody. */
static const struct history_record *first_given(const struct check_entry *entries, size_t n, uint64_t token) {
	struct numbered one;
	const struct history_record *first = NULL;

	for (size_t i = 0; i < n; i++)
		if (number(&entries[i], &one) && one.record->token == token &&
		        (!first || one.record->return_ns < first->return_ns))
			first = one.record;
	return first;
}

static int complain(struct check_world *world, const struct numbered_list *list, const char *what,
        const struct history_record *earlier, const struct history_record *later) {
	if (brought_back(world, earlier, later, first_given(list->entries, list->entries_n, later->token))) {
		check_excuse(world, CHECK_TOKENS, CHECK_BY_ROLLBACK);
		return 0;
	}
	if (numbers_began_anew(world, earlier, later)) {
		check_excuse(world, CHECK_TOKENS, CHECK_BY_WIPE);
		return 0;
	}
	return check_violated(world, CHECK_TOKENS, what, earlier, later);
}

static int check_growth(struct check_world *world, const struct numbered_list *list) {
	struct numbered *sorted = sorted_copy(list, by_return);
	struct sweep sweep = { .by_return = sorted, .n = list->n };
	int r = sorted ? 0 : -1;

	for (size_t i = 0; i < list->n && r == 0; i++) {
		const struct numbered *one = &list->items[i];
		const struct history_record *earlier;

		if (one->old)
			continue;
		sweep_to(&sweep, one->at);
		earlier = one->write ? sweep.greatest : sweep.greatest_write;
		if (!earlier)
			continue;
		check_count(world, CHECK_TOKENS);
		if (earlier->token >= one->record->token)
			r = complain(world, list,
			        one->write ? "a WRITE token is not larger than an earlier token"
			                   : "a READ token is not larger than an earlier WRITE token",
			        earlier, one->record);
	}
	free(sorted);
	return r;
}

static int check_unique(struct check_world *world, const struct numbered_list *list) {
	struct numbered *sorted = sorted_copy(list, by_token);
	const struct numbered *last = NULL;
	int r = sorted ? 0 : -1;

	for (size_t i = 0; i < list->n && r == 0; i++) {
		if (sorted[i].old || !sorted[i].write)
			continue;
		/* One that had returned before is reported by check_growth. */
		if (last && last->record->token == sorted[i].record->token &&
		        last->record->return_ns >= sorted[i].record->invoke_ns)
			r = complain(world, list, "two WRITE holds have the same token", last->record,
			        sorted[i].record);
		last = &sorted[i];
	}
	free(sorted);
	return r;
}

static int tokens_of_lock(struct check_world *world, const struct check_entry *entries, size_t n) {
	struct numbered_list list = {
		.items = malloc(n * sizeof *list.items), .entries = entries, .entries_n = n
	};
	int r = -1;

	if (!list.items)
		return -1;
	for (size_t i = 0; i < n; i++)
		list.n += number(&entries[i], &list.items[list.n]);
	if (check_growth(world, &list) == 0)
		r = check_unique(world, &list);
	free(list.items);
	return r;
}

int check_tokens(struct check_world *world) {
	return check_each_lock(world, tokens_of_lock);
}

/* ---- As the stores see them ---------------------------------------------------------------------*/

static int judge_store(struct check_world *world, const struct numbered_list *list,
        const struct history_record *store, const struct history_record *greatest) {
	const struct check_life *life;

	check_count(world, CHECK_STORE);
	world->report->stores_stale += store->detail == 1;
	if (store->result == 1) {
		if (!greatest || greatest->token <= store->token)
			return 0;
		return check_violated(
		        world, CHECK_STORE, "the store that checks took a stale token", greatest, store);
	}
	world->report->stores_refused++;
	life = check_life_at(world, store->hold, store->invoke_ns);
	if (!life || life->end < store->return_ns)
		return 0;
	if (greatest && brought_back(world, greatest, store,
	                        first_given(list->entries, list->entries_n, store->token))) {
		check_excuse(world, CHECK_STORE, CHECK_BY_ROLLBACK);
		return 0;
	}
	/* A store remembers what the server has forgotten: where numbers begin anew, it refuses those who are
	 * valid until they have grown past what it has seen. */
	if (check_wiped(world, store->lock, life->grant->invoke_ns, store->return_ns) ||
	        (greatest && numbers_began_anew(world, greatest, store))) {
		check_excuse(world, CHECK_STORE, CHECK_BY_WIPE);
		return 0;
	}
	if (check_broken(world, store->lock, life->grant->invoke_ns, store->return_ns)) {
		check_excuse(world, CHECK_STORE, CHECK_BY_BREAK);
		return 0;
	}
	return check_violated(
	        world, CHECK_STORE, "the store refused a hold that was valid", life->grant, store);
}

static int stores_of_lock(struct check_world *world, const struct check_entry *entries, size_t n) {
	struct numbered_list taken = {
		.items = malloc(n * sizeof *taken.items), .entries = entries, .entries_n = n
	};
	struct numbered *sorted = NULL;
	struct sweep sweep = { 0 };
	int r = taken.items ? 0 : -1;

	for (size_t i = 0; i < n && r == 0; i++) {
		const struct history_record *record = entries[i].record;

		if (record->op == HISTORY_STORE && record->return_ns && record->result == 1)
			taken.items[taken.n++] = (struct numbered){ .record = record, .at = entries[i].at };
	}
	if (r == 0 && !(sorted = sorted_copy(&taken, by_return)))
		r = -1;
	sweep = (struct sweep){ .by_return = sorted, .n = taken.n };
	for (size_t i = 0; i < n && r == 0; i++) {
		const struct history_record *record = entries[i].record;

		if (record->op != HISTORY_STORE || !record->return_ns || record->token == 0)
			continue;
		sweep_to(&sweep, entries[i].at);
		r = judge_store(world, &taken, record, sweep.greatest);
	}
	free(sorted);
	free(taken.items);
	return r;
}

int check_stores(struct check_world *world) {
	return check_each_lock(world, stores_of_lock);
}
