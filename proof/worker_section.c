/* SPDX-License-Identifier: MIT */
/* What a holder does while it holds. It looks at the hold before it goes in and before it leaves, as a
 * careful program does, and goes in only with some time to spare; to the stores it writes without looking,
 * as every program does in the end: between the look and the write it may be stopped for any time, and then
 * only the store can tell.
 *
 * A holder that has been told of a loss goes away without touching what the lock protects. */
#include "worker.h"

#include <poll.h>

enum { ENTER_SPARE_MS = 40, LEAVE_SPARE_MS = 10, STEP_MS = 10, NS_PER_MS = 1000000, PAUSE_US_MAX = 30 };

static void write_to_stores(struct worker_thread *thread, struct history_record *form, void *handle) {
	form->token = thread->worker->config.subject->token(handle);
	if (form->token != 0) /* 0: a layout without tokens, and no store could tell */
		(void)witness_store(thread->worker->witness, thread->worker->history, form);
}

/* Until the hold changes its state, or the step is over. */
static void wait_inside(struct worker_thread *thread, struct worker_hold *hold, int64_t ms) {
	const struct worker_subject *subject = thread->worker->config.subject;
	struct pollfd pfd = { .fd = subject->fd ? subject->fd(hold->handle) : -1, .events = POLLIN };
	/* Once it has been told, the descriptor stays readable and says nothing new. */
	if (hold->state_told != 1)
		pfd.fd = -1;
	(void)poll(&pfd, 1, (int)ms);
}

static void stay(
        struct worker_thread *thread, struct worker_hold *hold, struct history_record *form, int64_t ms) {
	int64_t until_ns = history_now() + ms * NS_PER_MS;
	bool plain = thread->worker->config.plain;
	for (;;) {
		int64_t left_ms = (until_ns - history_now()) / NS_PER_MS;
		if (left_ms <= 0)
			return;
		wait_inside(thread, hold, left_ms < STEP_MS ? left_ms : STEP_MS);
		if (form->mode == 'W' || !plain)
			write_to_stores(thread, form, hold->handle);
		if (!worker_look(thread, hold, LEAVE_SPARE_MS))
			return;
	}
}

static void pause_briefly(struct worker_thread *thread) {
	int64_t until_ns = history_now() + rng_between(&thread->rng, 0, PAUSE_US_MAX) * 1000;
	while (history_now() < until_ns)
		;
}

/* A hold that is held on to until its end is known: the notice must come before it. */
static void watch_the_end(struct worker_thread *thread, struct worker_hold *hold) {
	int64_t give_up_ns = history_now() + INT64_C(3000) * NS_PER_MS;
	while (hold->state_told < 3 && hold->valid_told_ns > 0 && history_now() < give_up_ns &&
	        thread->worker->config.subject->left_ms(hold->handle) < STEP_MS) {
		wait_inside(thread, hold, 1);
		(void)worker_look(thread, hold, 0);
	}
}

bool worker_section(struct worker_thread *thread, struct worker_hold *hold, int64_t ms) {
	struct worker *worker = thread->worker;
	struct history_record form = { .lock = hold->lock,
		.actor = thread->actor,
		.hold = hold->number,
		.mode = (uint8_t)hold->mode,
		.flags = hold->flags };
	bool visits = !(hold->flags & HISTORY_OWNER);
	struct witness_visit visit;
	if (!worker_look(thread, hold, ENTER_SPARE_MS))
		return false;
	if (visits)
		(void)witness_enter(worker->witness, worker->history, &form, &visit);
	if (ms > 0)
		stay(thread, hold, &form, ms);
	else
		pause_briefly(thread);
	write_to_stores(thread, &form, hold->handle);
	if (!worker_look(thread, hold, LEAVE_SPARE_MS)) {
		watch_the_end(thread, hold);
		return false;
	}
	if (visits)
		(void)witness_leave(worker->witness, worker->history, &visit);
	return true;
}
