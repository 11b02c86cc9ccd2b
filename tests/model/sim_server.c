/* SPDX-License-Identifier: MIT */
/* See sim_server.h. One run is: look the attempt up, let the queue move on, decide, answer. A dead
 * holder or waiter is removed before anything is decided; a number belongs to a phase, so a write
 * grant, a conversion and the first reader of a free lock take a new one. */
#include "sim_lists.h"
#include "sim_server.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct run {
	struct sim_lock *lock;
	int session;
	const struct lock_op *op;
	int64_t us, now;
	int budget;
	struct lock_outcome *out;
	struct sim_notes *notes;
};

static int64_t later(int64_t a, int64_t b) {
	return a > b ? a : b;
}

/* ---- The queue moves on -------------------------------------------------------------------------*/

static bool is_own(const struct run *run, const struct sim_holder *holder) {
	for (size_t i = 0; i < run->op->own_n; i++)
		if (holder->session == run->session && holder->attempt == run->op->own[i])
			return true;
	return false;
}

static bool upgrade_is_alone(const struct run *run, int session, uint64_t attempt, uint64_t old) {
	bool asks = session == run->session && attempt == run->op->attempt;

	for (size_t i = 0; i < run->lock->holders_n; i++) {
		const struct sim_holder *holder = &run->lock->holders[i];
		bool itself = holder->session == session && holder->attempt == old && holder->mode == 'R';
		if (!itself && !(asks && is_own(run, holder)))
			return false;
	}
	return true;
}

static void grant_waiter(struct run *run, const struct sim_waiter *waiter, int64_t deadline_ms) {
	sim_add_holder(run->lock, waiter->session, waiter->attempt, waiter->mode, deadline_ms);
	if (waiter->session == run->session && waiter->attempt == run->op->attempt)
		return; /* the answer says it */
	struct lock_note note = { .kind = LOCK_NOTE_GRANT,
		.attempt = waiter->attempt,
		.token = run->lock->token,
		.deadline_ms = deadline_ms,
		.server_us = run->us };
	sim_add_note(run->notes, waiter->session, &note);
}

static bool serve_upgrader(struct run *run, const struct sim_waiter *waiter) {
	int reader = sim_holder_at(run->lock, waiter->session, waiter->old);

	if (reader >= 0 && !upgrade_is_alone(run, waiter->session, waiter->attempt, waiter->old))
		return false;
	sim_remove_waiter(run->lock, 0);
	run->budget--;
	if (reader < 0)
		return true; /* hopeless: what it would convert is gone */
	int64_t deadline = later(run->lock->holders[reader].deadline_ms, waiter->until_ms);
	sim_remove_holder(run->lock, (size_t)reader, run->us);
	sim_take_token(run->lock, run->us);
	grant_waiter(run, waiter, deadline);
	return true;
}

/* True when the head of the queue left it. */
static bool serve_head(struct run *run) {
	struct sim_waiter waiter = run->lock->waiters[0];

	if (waiter.until_ms <= run->now) {
		sim_remove_waiter(run->lock, 0);
		run->budget--;
		return true;
	}
	if (waiter.rank == 0)
		return serve_upgrader(run, &waiter);
	if (waiter.mode == 'W' ? run->lock->holders_n > 0 : sim_any_writer(run->lock))
		return false;
	if (run->lock->holders_n == 0)
		sim_take_token(run->lock, run->us);
	sim_remove_waiter(run->lock, 0);
	run->budget--;
	grant_waiter(run, &waiter, waiter.until_ms);
	return true;
}

static void advance(struct run *run) {
	struct sim_lock *lock = run->lock;

	for (size_t i = 0; i < lock->holders_n && run->budget > 0;) {
		if (lock->holders[i].deadline_ms > run->now) {
			i++;
			continue;
		}
		sim_remove_holder(lock, i, run->us);
		run->budget--;
	}
	run->out->more = run->budget <= 0;
	while (!run->out->more && lock->waiters_n > 0 && serve_head(run))
		run->out->more = run->budget <= 0 && lock->waiters_n > 0;
	run->out->wanted = lock->waiters_n > 0 && lock->waiters[0].session != run->session;
}

/* ---- Answers ------------------------------------------------------------------------------------*/

static void answer(struct run *run, enum lock_status status, int64_t deadline_ms) {
	run->out->status = status;
	run->out->deadline_ms = deadline_ms;
}

static void answer_blocked(struct run *run, enum lock_status status, uint32_t ahead) {
	const struct sim_holder *longest = NULL;

	answer(run, status, 0);
	run->out->ahead = ahead;
	for (size_t i = 0; i < run->lock->holders_n; i++)
		if (!longest || run->lock->holders[i].deadline_ms > longest->deadline_ms)
			longest = &run->lock->holders[i];
	if (!longest)
		return;
	run->out->holder_deadline_ms = longest->deadline_ms;
	run->out->holder_mode = longest->mode;
	snprintf(run->out->holder, sizeof run->out->holder, "%d", longest->session);
}

static void answer_absent(struct run *run, uint64_t a, uint64_t b) {
	const struct sim_grave *first = sim_find_grave(run->lock, run->session, a);
	const struct sim_grave *second = sim_find_grave(run->lock, run->session, b);
	bool broken = (first && first->broken) || (second && second->broken);

	answer(run, broken ? LOCK_BROKEN : LOCK_GONE, 0);
}

/* An upgrade was ended while it waited; the read hold goes on. */
static bool answer_broken_wait(struct run *run) {
	int reader = run->op->old ? sim_holder_at(run->lock, run->session, run->op->old) : -1;

	if (!sim_is_broken(run->lock, run->session, run->op->attempt) || reader < 0 ||
	        run->lock->holders[reader].deadline_ms <= run->now)
		return false;
	answer(run, LOCK_BROKEN, run->lock->holders[reader].deadline_ms);
	return true;
}

/* The attempt holds already: its lease begins anew, unless it is over. */
static void claim(struct run *run, size_t at) {
	struct sim_holder *holder = &run->lock->holders[at];

	if (holder->deadline_ms <= run->now) {
		sim_remove_holder(run->lock, at, run->us);
		advance(run);
		answer(run, LOCK_GONE, 0);
		return;
	}
	holder->deadline_ms = later(holder->deadline_ms, run->now + run->op->lease_ms);
	int64_t deadline_ms = holder->deadline_ms;
	advance(run);
	answer(run, LOCK_GRANTED, deadline_ms);
}

static void tell_wanted(struct run *run) {
	for (size_t i = 0; i < run->lock->holders_n; i++) {
		const struct sim_holder *holder = &run->lock->holders[i];
		struct lock_note note = { .kind = LOCK_NOTE_WANTED, .attempt = holder->attempt };
		if (holder->session != run->session)
			sim_add_note(run->notes, holder->session, &note);
	}
}

static void join(struct run *run, int rank, uint64_t old) {
	struct sim_lock *lock = run->lock;
	size_t at = 0;

	assert(lock->waiters_n < SIM_WAITERS);
	while (at < lock->waiters_n && lock->waiters[at].rank <= rank)
		at++;
	memmove(lock->waiters + at + 1, lock->waiters + at, (lock->waiters_n - at) * sizeof lock->waiters[0]);
	lock->waiters[at] = (struct sim_waiter){ run->session, run->op->attempt, old, run->op->mode, rank,
		run->now + run->op->wait_lease_ms };
	lock->waiters_n++;
	tell_wanted(run);
	answer_blocked(run, LOCK_WAITING, (uint32_t)at);
}

/* The waiter is heard of. */
static void refresh(struct run *run, size_t at) {
	run->lock->waiters[at].until_ms = run->now + run->op->wait_lease_ms;
	advance(run);
	int held = sim_holder_at(run->lock, run->session, run->op->attempt);
	if (held >= 0) {
		struct sim_holder *holder = &run->lock->holders[held];
		holder->deadline_ms = later(holder->deadline_ms, run->now + run->op->lease_ms);
		answer(run, LOCK_GRANTED, holder->deadline_ms);
		return;
	}
	int ahead = sim_waiter_at(run->lock, run->session, run->op->attempt);
	if (ahead < 0) {
		answer(run, LOCK_GONE, 0);
		return;
	}
	if (ahead == 0)
		tell_wanted(run);
	answer_blocked(run, LOCK_WAITING, (uint32_t)ahead);
}

/* ---- Operations ---------------------------------------------------------------------------------*/

/* Re-entry passes the queue. Returns whether it may; *ret_phase: it begins a new phase. */
static bool may_reenter(const struct run *run, bool *ret_phase) {
	bool holds_own = false, stranger = false, strange_writer = false;

	for (size_t i = 0; i < run->lock->holders_n; i++) {
		const struct sim_holder *holder = &run->lock->holders[i];
		bool own = is_own(run, holder);
		holds_own = holds_own || own;
		stranger = stranger || !own;
		strange_writer = strange_writer || (!own && holder->mode == 'W');
	}
	*ret_phase = run->op->mode == 'W' && !sim_any_writer(run->lock);
	return holds_own && (run->op->mode == 'R' ? !strange_writer : !stranger);
}

static bool may_take(const struct run *run, bool *ret_phase) {
	const struct sim_lock *lock = run->lock;
	bool writer = sim_any_writer(lock);

	*ret_phase = lock->holders_n == 0;
	if (run->out->more)
		return false;
	if (lock->waiters_n == 0 && (lock->holders_n == 0 || (run->op->mode == 'R' && !writer)))
		return true;
	return may_reenter(run, ret_phase);
}

static void run_acquire(struct run *run) {
	const struct sim_grave *grave = sim_find_grave(run->lock, run->session, run->op->attempt);
	int at;
	bool phase;

	if (grave) {
		answer(run, grave->broken ? LOCK_BROKEN : LOCK_BURIED, 0);
	} else if ((at = sim_holder_at(run->lock, run->session, run->op->attempt)) >= 0) {
		claim(run, (size_t)at);
	} else if ((at = sim_waiter_at(run->lock, run->session, run->op->attempt)) >= 0) {
		refresh(run, (size_t)at);
	} else {
		advance(run);
		if (may_take(run, &phase)) {
			sim_add_holder(run->lock, run->session, run->op->attempt, run->op->mode,
			        run->now + run->op->lease_ms);
			if (phase)
				sim_take_token(run->lock, run->us);
			answer(run, LOCK_GRANTED, run->now + run->op->lease_ms);
		} else if (run->op->queue) {
			join(run, run->op->prefer ? 1 : 2, 0);
		} else {
			answer_blocked(run, LOCK_BUSY, 0);
		}
	}
}

static void run_beat(struct run *run) {
	int at = sim_holder_at(run->lock, run->session, run->op->attempt);

	if (at >= 0) {
		claim(run, (size_t)at);
	} else if ((at = sim_waiter_at(run->lock, run->session, run->op->attempt)) >= 0) {
		refresh(run, (size_t)at);
	} else {
		advance(run);
		if (!answer_broken_wait(run))
			answer_absent(run, run->op->attempt, run->op->old);
	}
}

static void raise_token(struct run *run) {
	if (run->op->last_token > run->lock->token)
		run->lock->token = run->op->last_token;
}

static void bury(struct run *run, uint64_t spare) {
	struct sim_lock *lock = run->lock;

	for (size_t i = 0; i < run->op->bury_n; i++) {
		uint64_t attempt = run->op->bury[i];
		int at;
		if (attempt == spare)
			continue;
		if ((at = sim_holder_at(lock, run->session, attempt)) >= 0)
			sim_remove_holder(lock, (size_t)at, run->us);
		if ((at = sim_waiter_at(lock, run->session, attempt)) >= 0)
			sim_remove_waiter(lock, (size_t)at);
		assert(lock->graves_n < SIM_GRAVES);
		if (!sim_find_grave(lock, run->session, attempt))
			lock->graves[lock->graves_n++] =
			        (struct sim_grave){ run->session, attempt, run->now + SIM_BURY_MS, false };
	}
}

static void run_release(struct run *run) {
	int at = sim_holder_at(run->lock, run->session, run->op->attempt);

	if (at >= 0 && run->lock->holders[at].mode == run->op->mode) {
		raise_token(run);
		sim_remove_holder(run->lock, (size_t)at, run->us);
		answer(run, LOCK_DONE, 0);
	} else {
		answer_absent(run, run->op->attempt, 0);
		raise_token(run);
	}
	bury(run, 0);
	advance(run);
}

static void run_renew(struct run *run) {
	int at = sim_holder_at(run->lock, run->session, run->op->attempt);

	if (at < 0 || run->lock->holders[at].mode != run->op->mode) {
		answer_absent(run, run->op->attempt, 0);
		return;
	}
	struct sim_holder *holder = &run->lock->holders[at];
	if (holder->deadline_ms <= run->now) {
		sim_remove_holder(run->lock, (size_t)at, run->us);
		advance(run);
		answer(run, LOCK_GONE, 0);
		return;
	}
	raise_token(run);
	if (run->op->kind == OP_RENEW)
		holder->deadline_ms = later(holder->deadline_ms, run->now + run->op->lease_ms);
	holder->lingers = false;
	run->out->wanted = run->lock->waiters_n > 0 && run->lock->waiters[0].session != run->session;
	answer(run, LOCK_GRANTED, holder->deadline_ms);
}

static void run_linger(struct run *run) {
	int at = sim_holder_at(run->lock, run->session, run->op->attempt);

	run_renew(run); /* which lengthens nothing */
	if (run->out->status == LOCK_GRANTED)
		run->lock->holders[at].lingers = run->op->lingers;
}

static bool is_buried(const struct run *run) {
	const struct sim_grave *grave = sim_find_grave(run->lock, run->session, run->op->attempt);
	return grave && !grave->broken;
}

static void run_upgrade(struct run *run) {
	struct sim_lock *lock = run->lock;
	int at;

	if (is_buried(run)) {
		answer(run, LOCK_BURIED, 0);
	} else if ((at = sim_holder_at(lock, run->session, run->op->attempt)) >= 0) {
		claim(run, (size_t)at);
	} else if ((at = sim_holder_at(lock, run->session, run->op->old)) < 0 ||
	           lock->holders[at].mode != 'R' || lock->holders[at].deadline_ms <= run->now) {
		advance(run);
		answer_absent(run, run->op->attempt, run->op->old);
	} else if (answer_broken_wait(run)) {
		return;
	} else if ((at = sim_waiter_at(lock, run->session, run->op->attempt)) >= 0) {
		refresh(run, (size_t)at);
	} else {
		advance(run);
		at = sim_holder_at(lock, run->session, run->op->old);
		if (lock->waiters_n > 0 && lock->waiters[0].rank == 0) {
			answer_blocked(run, LOCK_DEADLOCK, 1);
		} else if (!run->out->more &&
		           upgrade_is_alone(run, run->session, run->op->attempt, run->op->old)) {
			int64_t deadline = later(lock->holders[at].deadline_ms, run->now + run->op->lease_ms);
			sim_remove_holder(lock, (size_t)at, run->us);
			sim_add_holder(lock, run->session, run->op->attempt, 'W', deadline);
			sim_take_token(lock, run->us);
			answer(run, LOCK_GRANTED, deadline);
		} else if (run->op->queue) {
			join(run, 0, run->op->old);
		} else {
			answer_blocked(run, LOCK_BUSY, 0);
		}
	}
}

static void run_downgrade(struct run *run) {
	struct sim_lock *lock = run->lock;
	int at;

	if (is_buried(run)) {
		answer(run, LOCK_BURIED, 0);
	} else if ((at = sim_holder_at(lock, run->session, run->op->attempt)) >= 0) {
		claim(run, (size_t)at);
	} else if ((at = sim_holder_at(lock, run->session, run->op->old)) < 0 ||
	           lock->holders[at].mode != 'W') {
		answer_absent(run, run->op->attempt, run->op->old);
	} else if (lock->holders[at].deadline_ms <= run->now) {
		sim_remove_holder(lock, (size_t)at, run->us);
		advance(run);
		answer(run, LOCK_GONE, 0);
	} else {
		struct sim_holder *holder = &lock->holders[at];
		holder->deadline_ms = later(holder->deadline_ms, run->now + run->op->lease_ms);
		holder->attempt = run->op->attempt;
		holder->mode = 'R';
		int64_t deadline_ms = holder->deadline_ms;
		raise_token(run);
		sim_take_token(lock, run->us);
		advance(run);
		answer(run, LOCK_GRANTED, deadline_ms);
	}
}

static void run_cancel(struct run *run) {
	struct sim_lock *lock = run->lock;
	int at = sim_waiter_at(lock, run->session, run->op->attempt);
	uint64_t kept = 0;

	if (at >= 0)
		sim_remove_waiter(lock, (size_t)at);
	answer(run, LOCK_DONE, 0);
	at = sim_holder_at(lock, run->session, run->op->attempt);
	if (at >= 0 && run->op->old && lock->holders[at].deadline_ms > run->now) {
		kept = run->op->attempt; /* granted already: WRITE stays, READ is no more */
		run->out->released_grant = true;
		answer(run, LOCK_DONE, lock->holders[at].deadline_ms);
	} else if (at >= 0) {
		run->out->released_grant = run->op->old == 0;
		if (run->op->old)
			answer(run, LOCK_GONE, 0);
		sim_remove_holder(lock, (size_t)at, run->us);
	}
	bury(run, kept);
	advance(run);
}

static void run_rename(struct run *run) {
	struct sim_lock *lock = run->lock;
	char mode;
	int session, at;
	uint64_t attempt;

	if (!sim_parse_id(run->op->foreign_id, &mode, &session, &attempt)) {
		answer(run, LOCK_GONE, 0);
	} else if (is_buried(run)) {
		answer(run, LOCK_BURIED, 0);
	} else if ((at = sim_holder_at(lock, run->session, run->op->attempt)) >= 0) {
		claim(run, (size_t)at);
	} else if ((at = sim_holder_at(lock, session, attempt)) < 0 || lock->holders[at].mode != mode) {
		const struct sim_grave *grave = sim_find_grave(lock, session, attempt);
		answer(run, grave && grave->broken ? LOCK_BROKEN : LOCK_GONE, 0);
	} else if (lock->holders[at].deadline_ms <= run->now) {
		sim_remove_holder(lock, (size_t)at, run->us);
		advance(run);
		answer(run, LOCK_GONE, 0);
	} else if (run->op->keep_old) {
		sim_add_holder(lock, run->session, run->op->attempt, mode, run->now + run->op->lease_ms);
		raise_token(run);
		answer(run, LOCK_GRANTED, run->now + run->op->lease_ms);
	} else {
		struct sim_holder *holder = &lock->holders[at];
		holder->session = run->session;
		holder->attempt = run->op->attempt;
		int64_t wanted_ms = run->now + run->op->lease_ms;
		holder->deadline_ms =
		        run->op->shrink_expiry ? wanted_ms : later(holder->deadline_ms, wanted_ms);
		raise_token(run);
		answer(run, LOCK_GRANTED, holder->deadline_ms);
	}
}

static void end_old_graves(struct sim_lock *lock, int64_t now) {
	size_t n = 0;

	for (size_t i = 0; i < lock->graves_n; i++)
		if (lock->graves[i].until_ms > now)
			lock->graves[n++] = lock->graves[i];
	lock->graves_n = n;
}

void sim_server_run(struct sim_lock *lock, int session, const struct lock_op *op, int budget, int64_t now_us,
        struct lock_outcome *ret, struct sim_notes *notes) {
	struct run run = { lock, session, op, now_us, now_us / 1000, budget, ret, notes };
	static void (*const operations[OP_KINDS])(struct run *) = {
		[OP_ACQUIRE] = run_acquire,
		[OP_BEAT] = run_beat,
		[OP_RELEASE] = run_release,
		[OP_RENEW] = run_renew,
		[OP_UPGRADE] = run_upgrade,
		[OP_DOWNGRADE] = run_downgrade,
		[OP_CANCEL] = run_cancel,
		[OP_RENAME] = run_rename,
		[OP_LINGER] = run_linger,
	};

	memset(ret, 0, sizeof *ret);
	end_old_graves(lock, run.now);
	if (op->kind == OP_ADVANCE) {
		advance(&run);
		answer(&run, LOCK_DONE, 0);
	} else {
		operations[op->kind](&run);
	}
	ret->token = lock->token;
	ret->server_us = now_us;
}

static void leave_notice(
        struct sim_lock *lock, int session, uint64_t attempt, int64_t now_us, struct sim_notes *notes) {
	struct lock_note note = { .kind = LOCK_NOTE_BROKEN, .attempt = attempt };

	assert(lock->graves_n < SIM_GRAVES);
	lock->graves[lock->graves_n++] =
	        (struct sim_grave){ session, attempt, now_us / 1000 + SIM_BURY_MS, true };
	sim_add_note(notes, session, &note);
}

void sim_server_break_wait(struct sim_lock *lock, size_t at, int64_t now_us, struct sim_notes *notes) {
	struct sim_waiter waiter = lock->waiters[at];

	sim_remove_waiter(lock, at);
	leave_notice(lock, waiter.session, waiter.attempt, now_us, notes);
}

void sim_server_break(struct sim_lock *lock, size_t at, int64_t now_us, struct sim_notes *notes) {
	struct sim_holder holder = lock->holders[at];
	uint64_t floor = (uint64_t)holder.deadline_ms * 1000;

	sim_remove_holder(lock, at, now_us);
	if (holder.mode == 'W' && lock->token < floor) /* a writer may have used numbers up to here */
		lock->token = floor;
	leave_notice(lock, holder.session, holder.attempt, now_us, notes);
}
