/* SPDX-License-Identifier: MIT */
/* What a worker's thread does in one turn: take a lock in one of the ways that programs do, be inside,
 * perhaps convert, renew, nest or hand on, and leave. Everything is drawn from the thread's own numbers.
 *
 * Every fourth lock is used with the policy prefer-writers, by everybody: the order of a lock whose
 * waiters follow different policies says nothing. */
#include "worker.h"

#include <string.h>

#include <sneck/sneck.h>

enum { PARCEL_EMPTY, PARCEL_BUSY, PARCEL_THERE, NS_PER_MS = 1000000 };

enum turn_kind { TURN_PLAIN, TURN_UPGRADE, TURN_DOWNGRADE, TURN_NEST, TURN_RENEW, TURN_CANCEL, TURN_DETACH };

struct turn {
	uint32_t lock;
	bool slow;
	enum turn_kind kind;
	int64_t inside_ms;
	struct worker_wish wish;
};

static enum turn_kind choose_kind(struct rng *rng) {
	static const struct {
		enum turn_kind kind;
		uint32_t percent;
	} shares[] = { { TURN_UPGRADE, 10 }, { TURN_DOWNGRADE, 8 }, { TURN_NEST, 8 }, { TURN_RENEW, 6 },
		{ TURN_CANCEL, 10 }, { TURN_DETACH, 3 } };
	uint32_t at = rng_below(rng, 100);
	for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++) {
		if (at < shares[i].percent)
			return shares[i].kind;
		at -= shares[i].percent;
	}
	return TURN_PLAIN;
}

static bool can(const struct proof_layout *layout, enum turn_kind kind) {
	switch (kind) {
	case TURN_UPGRADE:
		return layout->upgrades;
	case TURN_DOWNGRADE:
		return layout->downgrades;
	case TURN_DETACH:
		return layout->detaches;
	default:
		return true;
	}
}

static int64_t choose_wait_ms(struct rng *rng, bool slow) {
	uint32_t at = rng_below(rng, 10);
	if (at == 0)
		return 0;
	if (at < 4)
		return rng_between(rng, 1, 60);
	return slow ? rng_between(rng, 500, 6000) : rng_between(rng, 200, 2500);
}

static struct turn choose(struct worker_thread *thread) {
	const struct worker_config *config = &thread->worker->config;
	struct rng *rng = &thread->rng;
	struct turn turn = { .kind = choose_kind(rng) };
	/* Odd threads work on the slow locks, even ones on the fast. */
	turn.slow = config->slow_locks > 0 && (thread->index % 2 == 1 || config->fast_locks == 0);
	turn.lock = config->first_lock + (turn.slow ? config->fast_locks + rng_below(rng, config->slow_locks)
	                                            : rng_below(rng, config->fast_locks));
	bool write = rng_below(rng, 100) < 55;
	turn.wish.fixed = rng_below(rng, 8) == 0;
	turn.wish.lease_ms = turn.wish.fixed ? rng_between(rng, 150, 700) : rng_between(rng, 500, 900);
	turn.wish.wait_ms = choose_wait_ms(rng, turn.slow);
	turn.wish.prefer_writers = config->layout->classes && turn.lock % 4 == 3;
	turn.inside_ms = turn.slow ? rng_between(rng, 20, config->holding_ms) : 0;
	if (config->plain) {
		turn.kind = TURN_PLAIN;
		write = true;
		turn.wish.fixed = false;
		turn.wish.lease_ms = 500;
		turn.wish.wait_ms = 8000;
	}
	turn.wish.ack_replicas = config->ack_replicas;
	turn.wish.ack_ms = config->ack_replicas ? config->command_ms : 0;
	if (config->lease_scale)
		turn.wish.lease_ms *= config->lease_scale;
	if (!can(config->layout, turn.kind))
		turn.kind = TURN_PLAIN;
	if (turn.kind == TURN_UPGRADE)
		write = false;
	if (turn.kind == TURN_DOWNGRADE)
		write = true;
	turn.wish.mode = write || !config->layout->reads ? 'W' : 'R';
	return turn;
}

/* The canceller (worker.c) does it when the time has come, if the wait still lasts. */
static void arm_cancel(struct worker_thread *thread, struct turn *turn) {
	turn->wish.tag = (uint64_t)thread->actor << 32 | ++thread->turns;
	turn->wish.wait_ms = 3000;
	atomic_store(&thread->place->cancel_tag, turn->wish.tag);
	atomic_store(&thread->place->cancel_at_ns,
	        (uint64_t)(history_now() + rng_between(&thread->rng, 0, turn->slow ? 300 : 8) * NS_PER_MS));
}

static void nest(struct worker_thread *thread, struct worker_hold *outer, const struct turn *turn) {
	struct worker_wish wish = turn->wish;
	struct worker_hold inner;
	bool read = outer->mode == 'W' && rng_below(&thread->rng, 2) && thread->worker->config.layout->reads;
	wish.mode = read ? 'R' : outer->mode;
	wish.wait_ms = 200;
	wish.tag = 0;
	if (worker_acquire(thread, thread->worker->session, outer->lock, &wish, true, &inner) != 0)
		return;
	(void)worker_section(thread, &inner, turn->inside_ms / 4);
	(void)worker_release(thread, &inner);
}

static bool upgrade(struct worker_thread *thread, struct worker_hold *hold, const struct turn *turn) {
	struct worker_wish wish = turn->wish;
	wish.wait_ms = rng_between(&thread->rng, 0, turn->slow ? 1500 : 300);
	wish.tag = 0;
	(void)worker_upgrade(thread, hold, &wish);
	return worker_section(thread, hold, turn->inside_ms / 2);
}

/* Leave the hold to whoever of the other processes adopts it first. True: it is no longer ours. */
static bool hand_on(struct worker_thread *thread, struct worker_hold *hold) {
	struct board_lock *place = &thread->worker->board->locks[hold->lock];
	uint32_t empty = PARCEL_EMPTY;
	char id[WORKER_ID_MAX];
	if (!thread->worker->config.subject->detach ||
	        !atomic_compare_exchange_strong(&place->parcel_state, &empty, PARCEL_BUSY))
		return false;
	int64_t lease_ms = rng_between(&thread->rng, 100, 600);
	int64_t until_ns = history_now() + lease_ms * NS_PER_MS;
	bool gone = worker_detach(thread, hold, lease_ms, id) == 0;
	if (gone) {
		memcpy(place->parcel_id, id, sizeof(id));
		place->parcel_mode = hold->mode;
		place->parcel_hold = hold->number;
		place->parcel_until_ns = until_ns;
	}
	atomic_store(&place->parcel_state, gone ? PARCEL_THERE : PARCEL_EMPTY);
	return gone;
}

/* A hold that another process has left behind on this lock, if there is one. */
static bool adopt(struct worker_thread *thread, const struct turn *turn, struct worker_hold *ret_hold) {
	struct board_lock *place = &thread->worker->board->locks[turn->lock];
	uint32_t there = PARCEL_THERE;
	if (!thread->worker->config.subject->adopt ||
	        !atomic_compare_exchange_strong(&place->parcel_state, &there, PARCEL_BUSY))
		return false;
	char id[WORKER_ID_MAX];
	memcpy(id, place->parcel_id, sizeof(id));
	char mode = place->parcel_mode;
	uint64_t number = place->parcel_hold;
	bool late = place->parcel_until_ns < history_now();
	atomic_store(&place->parcel_state, PARCEL_EMPTY);
	/* Late ones are tried as well, now and then: they must be refused. */
	if (late && rng_below(&thread->rng, 4) != 0)
		return false;
	return worker_adopt(thread, turn->lock, id, number, mode, &turn->wish, ret_hold) == 0;
}

/* False: the hold is only to be released. */
static bool be_inside(struct worker_thread *thread, struct worker_hold *hold, const struct turn *turn) {
	const struct worker_subject *subject = thread->worker->config.subject;
	atomic_store(&thread->place->until_ns, history_now() + turn->inside_ms * NS_PER_MS);
	if (!worker_section(thread, hold, turn->inside_ms))
		return false;
	switch (turn->kind) {
	case TURN_UPGRADE:
		return subject->upgrade ? upgrade(thread, hold, turn) : true;
	case TURN_DOWNGRADE:
		if (subject->downgrade && worker_downgrade(thread, hold) == 0)
			return worker_section(thread, hold, turn->inside_ms / 2);
		return true;
	case TURN_RENEW:
		if (subject->renew)
			(void)worker_renew(thread, hold, turn->wish.lease_ms);
		return worker_section(thread, hold, turn->inside_ms / 2);
	case TURN_NEST:
		nest(thread, hold, turn);
		return true;
	default:
		return true;
	}
}

void worker_turn(struct worker_thread *thread) {
	struct turn turn = choose(thread);
	struct worker_hold hold;
	if (adopt(thread, &turn, &hold)) {
		(void)worker_section(thread, &hold, turn.inside_ms);
		(void)worker_release(thread, &hold);
		return;
	}
	if (turn.kind == TURN_CANCEL && thread->worker->config.subject->cancel)
		arm_cancel(thread, &turn);
	int r = worker_acquire(thread, thread->worker->session, turn.lock, &turn.wish, false, &hold);
	atomic_store(&thread->place->cancel_at_ns, 0);
	if (r != 0) {
		/* Against a server that is away a loop would only count failures. */
		if (sneck_err_outcome(r) == SNECK_OUTCOME_FAILED)
			worker_sleep_us(5000);
		return;
	}
	if (be_inside(thread, &hold, &turn) && turn.kind == TURN_DETACH && hand_on(thread, &hold))
		return;
	(void)worker_release(thread, &hold);
}
