/* SPDX-License-Identifier: MIT */
/* Races of cancel against grant. Two sessions and one lock: the first holds, the second waits with a tag;
 * then the release and the cancel set off at the same moment, one of them delayed by a random time of the
 * order of a round trip, so that the cancel arrives before, with and behind the grant. Whatever the waiter
 * is told must be true: told "granted" it holds and gives back; told "cancelled" nobody may hold, or the
 * first session would not get the lock again. */
#include "worker.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include <sneck/sneck.h>

/* A hold that nobody knows of lasts as long as the waiter's lease; in other layouts, where the grant is for
 * the lease that was asked for, that must be longer than what counts as stuck. */
#define STUCK_NS (INT64_C(1000000) * SNECK_WAITER_LEASE_MS * 5 / 6)

enum { WAIT_MS = 5000, LEASE_MS = 2000, POLLED_LEASE_MS = 4000 };

static int64_t lease_ms(const struct worker_thread *thread) {
	return thread->worker->config.layout == &proof_native ? LEASE_MS : POLLED_LEASE_MS;
}

struct race {
	struct worker_thread *thread; /* of the canceller and holder */
	struct worker_thread waiter;
	void *other; /* the waiter's session */
	uint32_t lock;
	pthread_barrier_t start; /* a race begins */
	pthread_barrier_t end;   /* both are through */
	atomic_bool stop;
	uint64_t tag;
	int result;
};

static void *wait_for_it(void *arg) {
	struct race *race = arg;
	struct worker_wish wish = { .mode = 'W', .wait_ms = WAIT_MS, .lease_ms = lease_ms(race->thread) };
	for (;;) {
		pthread_barrier_wait(&race->start);
		if (atomic_load(&race->stop))
			return NULL;
		struct worker_hold hold;
		wish.tag = race->tag;
		race->result = worker_acquire(&race->waiter, race->other, race->lock, &wish, false, &hold);
		if (race->result == 0) {
			(void)worker_section(&race->waiter, &hold, 0);
			(void)worker_release(&race->waiter, &hold);
		}
		pthread_barrier_wait(&race->end);
	}
}

static void spin_us(int64_t us) {
	int64_t until_ns = history_now() + us * 1000;
	while (history_now() < until_ns)
		;
}

/* Cancel the wait; again until it is there to be cancelled, or over. */
static void cancel(struct race *race) {
	struct history_record form = {
		.op = HISTORY_CANCEL, .lock = race->lock, .actor = race->waiter.actor
	};
	struct history_record *record = history_begin(race->thread->worker->history, &form);
	history_end(record, race->thread->worker->config.subject->cancel(race->other, race->tag));
}

/* The first session wants the lock back. Whether it was away for too long is seen when this process has told
 * how long it did not run meanwhile. False: it was not to be had at all. */
static bool take_again(struct race *race, struct worker_hold *hold) {
	struct worker *worker = race->thread->worker;
	struct worker_wish wish = { .mode = 'W', .wait_ms = WAIT_MS, .lease_ms = lease_ms(race->thread) };
	uint64_t stalled_ns = atomic_load(&worker->place->stalled_ns);
	int64_t before_ns = history_now();
	int r = worker_acquire(race->thread, worker->session, race->lock, &wish, false, hold);
	int64_t took_ns = history_now() - before_ns;
	if (r == 0 && took_ns < STUCK_NS)
		return true;
	worker_sleep_us(200000);
	stalled_ns = atomic_load(&worker->place->stalled_ns) - stalled_ns;
	if (r == 0 && took_ns < STUCK_NS + (int64_t)stalled_ns)
		return true;
	atomic_fetch_add(&worker->place->stuck, 1);
	fprintf(stderr,
	        "sneck-worker: lock %u after a race that gave %d: %s after %lld ms, of which %lld stalled\n",
	        race->lock, race->result, r == 0 ? "taken" : "not taken", (long long)took_ns / 1000000,
	        (long long)stalled_ns / 1000000);
	return r == 0;
}

/* The first session has the lock; the second waits. Returns whether the lock was to be had again. */
static bool play(struct race *race, struct worker_hold *hold) {
	struct worker_thread *thread = race->thread;
	struct worker *worker = thread->worker;
	race->tag++;
	pthread_barrier_wait(&race->start);
	/* Mostly when it stands in the queue, sometimes before it has arrived there. */
	spin_us(rng_between(&thread->rng, 0, 400));
	bool cancel_first = rng_below(&thread->rng, 2);
	if (cancel_first) {
		cancel(race);
		spin_us(rng_between(&thread->rng, 0, 60));
	}
	(void)worker_release(thread, hold);
	if (!cancel_first) {
		spin_us(rng_between(&thread->rng, 0, 60));
		cancel(race);
	}
	pthread_barrier_wait(&race->end);
	atomic_fetch_add(&worker->place->races, 1);
	if (race->result == 0)
		atomic_fetch_add(&worker->place->races_granted, 1);
	return take_again(race, hold);
}

void worker_race(struct worker_thread *thread, uint32_t rounds) {
	struct worker *worker = thread->worker;
	struct race race = { .thread = thread, .waiter = *thread };
	struct worker_wish wish = { .mode = 'W', .wait_ms = WAIT_MS, .lease_ms = lease_ms(thread) };
	struct worker_hold hold;
	pthread_t id;
	race.waiter.actor = atomic_fetch_add(&worker->board->next_actor, 1) + 1;
	race.lock = worker->config.first_lock + thread->index;
	race.tag = (uint64_t)race.waiter.actor << 32;
	if (worker->config.subject->open(worker->config.url, worker->config.command_ms,
	            worker->config.linger_ms, &race.other) != 0 ||
	        worker_acquire(thread, worker->session, race.lock, &wish, false, &hold) != 0) {
		atomic_fetch_add(&worker->place->stuck, 1);
		return;
	}
	pthread_barrier_init(&race.start, NULL, 2);
	pthread_barrier_init(&race.end, NULL, 2);
	if (pthread_create(&id, NULL, wait_for_it, &race) != 0)
		return;
	bool holding = true;
	for (uint32_t i = 0; i < rounds && holding && !atomic_load(&worker->board->stop); i++)
		holding = play(&race, &hold);
	if (holding)
		(void)worker_release(thread, &hold);
	atomic_store(&race.stop, true);
	pthread_barrier_wait(&race.start);
	pthread_join(id, NULL);
	worker->config.subject->close(race.other);
	pthread_barrier_destroy(&race.start);
	pthread_barrier_destroy(&race.end);
}
