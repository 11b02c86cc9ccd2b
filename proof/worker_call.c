/* SPDX-License-Identifier: MIT */
/* Calls on locks with their two halves of a record around them. Nothing here decides anything: what is
 * called is what is written, with the result that came back, and what the library says about the hold's
 * validity right behind it.
 *
 * `valid_until` is told as milliseconds that are left, rounded down, so it is measured from a moment
 * before the question: the record never claims more than the library did. */
#include "worker.h"

#include <stdio.h>

#include <sneck/sneck.h>

enum { NS_PER_MS = 1000000, MOVED_NS = 2 * NS_PER_MS, SLOW_NS = 100 * NS_PER_MS };

const char *worker_lock_name(uint32_t lock, char out[WORKER_NAME_MAX]) {
	snprintf(out, WORKER_NAME_MAX, "fault-%u", lock);
	return out;
}

static void phase(struct worker_thread *thread, enum board_phase what, uint32_t lock) {
	atomic_store(&thread->place->lock, lock);
	atomic_store(&thread->place->since_ns, history_now());
	atomic_store(&thread->place->phase, what);
}

static struct history_record *begin(
        struct worker_thread *thread, unsigned op, const struct worker_hold *hold, int64_t limit_ms) {
	struct history_record form = { .op = (uint8_t)op,
		.lock = hold->lock,
		.actor = thread->actor,
		.hold = hold->number,
		.mode = (uint8_t)hold->mode,
		.flags = hold->flags,
		.deadline_ns = history_now() + limit_ms * NS_PER_MS };
	return history_begin(thread->worker->history, &form);
}

static void count(struct worker_thread *thread, const struct history_record *record) {
	struct board_worker *place = thread->worker->place;
	switch (sneck_err_outcome(record->result)) {
	case SNECK_OUTCOME_REFUSED:
		atomic_fetch_add(&place->refused, 1);
		break;
	case SNECK_OUTCOME_FAILED:
		atomic_fetch_add(&place->failed, 1);
		break;
	case SNECK_OUTCOME_UNKNOWN:
		atomic_fetch_add(&place->unknown, 1);
		break;
	case SNECK_OUTCOME_LOST:
		atomic_fetch_add(&place->lost, 1);
		break;
	default:
		break;
	}
	if (record->op != HISTORY_ACQUIRE && record->return_ns - record->invoke_ns > SLOW_NS)
		atomic_fetch_add(&place->slow, 1);
}

static int64_t valid_until(struct worker_thread *thread, const struct worker_hold *hold) {
	int64_t before_ns = history_now();
	int64_t left_ms = thread->worker->config.subject->left_ms(hold->handle);
	return left_ms > 0 ? before_ns + left_ms * NS_PER_MS : 0;
}

/* The call is back: note what the hold is worth, if there is one. */
static int end(struct worker_thread *thread, struct history_record *record, struct worker_hold *hold, int r) {
	if (hold->handle) {
		record->token = thread->worker->config.subject->token(hold->handle);
		record->valid_until_ns = hold->valid_told_ns = valid_until(thread, hold);
	}
	history_end(record, r);
	count(thread, record);
	return r;
}

static int64_t limit_ms(struct worker_thread *thread, int64_t wait_ms) {
	int64_t command_ms = thread->worker->config.command_ms;
	return wait_ms > command_ms ? wait_ms : command_ms;
}

static void granted(struct worker_thread *thread, uint32_t lock) {
	struct board *board = thread->worker->board;
	atomic_fetch_add(&thread->worker->place->grants, 1);
	atomic_fetch_add(&board->locks[lock].grants, 1);
	atomic_store(&board->locks[lock].last_grant_ns, history_now());
	phase(thread, BOARD_HOLDING, lock);
}

int worker_acquire(struct worker_thread *thread, void *session, uint32_t lock, const struct worker_wish *wish,
        bool owner, struct worker_hold *ret_hold) {
	const struct worker_subject *subject = thread->worker->config.subject;
	const struct proof_layout *layout = thread->worker->config.layout;
	char name[WORKER_NAME_MAX];
	struct worker_hold hold = { .lock = lock, .mode = wish->mode, .state_told = 1 };
	hold.number = history_new_hold(thread->worker->history);
	hold.flags = (uint8_t)((wish->fixed ? HISTORY_FIXED : 0) | (wish->wait_ms == 0 ? HISTORY_NOWAIT : 0) |
	                       (wish->prefer_writers || !layout->ordered ? 0 : HISTORY_FAIR) |
	                       (owner ? HISTORY_OWNER : 0));
	if (!owner)
		phase(thread, BOARD_WAITING, lock);
	struct history_record *record =
	        begin(thread, HISTORY_ACQUIRE, &hold, limit_ms(thread, wish->wait_ms) + wish->ack_ms);
	int r = subject->acquire(session, worker_lock_name(lock, name), wish, &hold.handle);
	if (r == SNECK_ECANCELED)
		record->flags |= HISTORY_CANCELLED;
	end(thread, record, &hold, r);
	if (r == 0) {
		if (!owner)
			granted(thread, lock);
		*ret_hold = hold;
	} else if (!owner) {
		phase(thread, BOARD_IDLE, lock);
	}
	return r;
}

int worker_release(struct worker_thread *thread, struct worker_hold *hold) {
	struct history_record *record = begin(thread, HISTORY_RELEASE, hold, limit_ms(thread, 0));
	record->token = thread->worker->config.subject->token(hold->handle);
	if (!(hold->flags & HISTORY_OWNER))
		phase(thread, BOARD_CALLING, hold->lock);
	int r = thread->worker->config.subject->release(hold->handle);
	hold->handle = NULL;
	end(thread, record, hold, r);
	if (!(hold->flags & HISTORY_OWNER))
		phase(thread, BOARD_IDLE, hold->lock);
	return r;
}

int worker_renew(struct worker_thread *thread, struct worker_hold *hold, int64_t lease_ms) {
	struct history_record *record = begin(thread, HISTORY_RENEW, hold, limit_ms(thread, 0));
	worker_watch(thread, hold, false);
	int r = thread->worker->config.subject->renew(hold->handle, lease_ms);
	worker_unwatch(thread);
	return end(thread, record, hold, r);
}

int worker_upgrade(struct worker_thread *thread, struct worker_hold *hold, const struct worker_wish *wish) {
	struct history_record *record =
	        begin(thread, HISTORY_UPGRADE, hold, limit_ms(thread, wish->wait_ms) + wish->ack_ms);
	record->mode = 'W';
	worker_watch(thread, hold, false);
	int r = thread->worker->config.subject->upgrade(hold->handle, wish);
	worker_unwatch(thread);
	if (r == 0)
		hold->mode = 'W';
	return end(thread, record, hold, r);
}

int worker_downgrade(struct worker_thread *thread, struct worker_hold *hold) {
	struct history_record *record = begin(thread, HISTORY_DOWNGRADE, hold, limit_ms(thread, 0));
	record->mode = 'R';
	worker_watch(thread, hold, false);
	int r = thread->worker->config.subject->downgrade(hold->handle);
	worker_unwatch(thread);
	if (r == 0)
		hold->mode = 'R';
	return end(thread, record, hold, r);
}

/* Whoever asks for a lease that is shorter than what is left has no more than that from then on. */
static void shorten(struct worker_thread *thread, struct worker_hold *hold, int64_t lease_ms) {
	struct history_record form = { .op = HISTORY_VALID,
		.lock = hold->lock,
		.actor = thread->actor,
		.hold = hold->number,
		.mode = (uint8_t)hold->mode,
		.flags = hold->flags,
		.invoke_ns = history_now() };
	form.valid_until_ns = form.invoke_ns + lease_ms * NS_PER_MS;
	if (form.valid_until_ns >= hold->valid_told_ns)
		return;
	hold->valid_told_ns = form.valid_until_ns;
	history_mark(thread->worker->history, &form);
}

int worker_detach(struct worker_thread *thread, struct worker_hold *hold, int64_t lease_ms,
        char ret_id[WORKER_ID_MAX]) {
	shorten(thread, hold, lease_ms - 2); /* by the margin, which is at least that */
	struct history_record *record = begin(thread, HISTORY_DETACH, hold, limit_ms(thread, 0));
	record->token = thread->worker->config.subject->token(hold->handle);
	worker_watch(thread, hold, true);
	int r = thread->worker->config.subject->detach(hold->handle, lease_ms, ret_id);
	worker_unwatch(thread);
	if (r == 0)
		hold->handle = NULL;
	end(thread, record, hold, r);
	if (r == 0)
		phase(thread, BOARD_IDLE, hold->lock);
	return r;
}

int worker_adopt(struct worker_thread *thread, uint32_t lock, const char *id, uint64_t number, char mode,
        const struct worker_wish *wish, struct worker_hold *ret_hold) {
	char name[WORKER_NAME_MAX];
	struct worker_hold hold = { .lock = lock, .number = number, .mode = mode, .state_told = 1 };
	hold.flags = wish->fixed ? HISTORY_FIXED : 0;
	phase(thread, BOARD_WAITING, lock);
	struct history_record *record = begin(thread, HISTORY_ADOPT, &hold, limit_ms(thread, 0));
	int r = thread->worker->config.subject->adopt(
	        thread->worker->session, worker_lock_name(lock, name), id, wish, &hold.handle);
	end(thread, record, &hold, r);
	if (r == 0) {
		granted(thread, lock);
		*ret_hold = hold;
	} else {
		phase(thread, BOARD_IDLE, lock);
	}
	return r;
}

bool worker_look(struct worker_thread *thread, struct worker_hold *hold, int64_t need_ms) {
	struct history_record form = { .lock = hold->lock,
		.actor = thread->actor,
		.hold = hold->number,
		.mode = (uint8_t)hold->mode,
		.flags = hold->flags };
	form.invoke_ns = history_now();
	int state = thread->worker->config.subject->state(hold->handle);
	if (state != hold->state_told) {
		form.op = HISTORY_STATE;
		form.result = hold->state_told = state;
		history_mark(thread->worker->history, &form);
		form.result = 0;
	}
	form.invoke_ns = history_now();
	int64_t until_ns = valid_until(thread, hold);
	int64_t moved_ns = until_ns - hold->valid_told_ns;
	/* Of a hold that is lost the state has told, and what it was worth until then stands. */
	if (until_ns > 0 && (moved_ns > MOVED_NS || moved_ns < -MOVED_NS)) {
		form.op = HISTORY_VALID;
		form.valid_until_ns = hold->valid_told_ns = until_ns;
		form.token = thread->worker->config.subject->token(hold->handle);
		history_mark(thread->worker->history, &form);
	}
	return until_ns - history_now() >= need_ms * NS_PER_MS && until_ns > 0;
}
