/* SPDX-License-Identifier: MIT */
/* Sleeping and waking.
 *
 * One wake-up costs more than an answer costs to read, so the answers of one read wake their threads
 * together: the threads sleep at a few shared words, each with a bit of its own, and one futex call wakes all
 * those of a word whose bits it names. Places are given in turn, and answers come in the order of the
 * requests, so those of one read are mostly neighbours. A thread that is woken for the sake of another one
 * with the same bit goes on sleeping at its own word: who waits for long is disturbed once.
 *
 * Nobody is missed. A thread looks at the shared word first, then says that it sleeps (PARKER_TOGETHER), then
 * sleeps if the word is still the same. Whoever sets PARKER_READY or PARKER_LEAD and finds that it sleeps
 * changes the word before waking: the thread sleeps already, and is woken, or it will find the word changed.
 * A parker keeps its place: one who has looked where it sleeps may be held up until its thread has given up
 * and lies down again, and cannot tell.
 *
 * A parker may be gone as soon as PARKER_READY is set: whatever is needed of it is read before. */
#include "net/parker.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/conn_internal.h"

enum { ASLEEP = PARKER_PARKED | PARKER_TOGETHER, CALLED = PARKER_READY | PARKER_LEAD };

void snecki_parker_init(struct parker *parker) {
	atomic_init(&parker->state, 0);
	atomic_init(&parker->conn, NULL);
	atomic_init(&parker->inflight, 0);
	atomic_init(&parker->parking, NULL);
	atomic_init(&parker->place, 0);
	parker->may_glance = false;
}

void snecki_parker_done(struct parker *parker) {
	(void)parker;
}

void snecki_parker_reset(struct parker *parker) {
	atomic_fetch_and(&parker->state, ~(uint32_t)PARKER_READY);
}

bool snecki_parker_ready(struct parker *parker) {
	return atomic_load(&parker->state) & PARKER_READY;
}

/* ---- Waking ---------------------------------------------------------------------------------*/

/* The word may be gone by now: waking an address where nobody sleeps does nothing. */
static void futex_wake(_Atomic uint32_t *word, uint32_t bits) {
	syscall(SYS_futex, word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL, bits);
}

static void wake_word(struct parking *parking, uint32_t word, uint32_t places) {
	atomic_fetch_add(&parking->words[word], 1);
	futex_wake(&parking->words[word], places);
}

void snecki_sleeper_wake(const struct sleeper *sleeper) {
	if (!sleeper->own)
		return;
	if (sleeper->parking)
		wake_word(sleeper->parking, sleeper->place / 32, UINT32_C(1) << sleeper->place % 32);
	else
		futex_wake(sleeper->own, FUTEX_BITSET_MATCH_ANY);
}

/* Where the parker's thread sleeps, if it does and `before`, its state, is still true when it becomes
 * `after`. */
static bool call(struct parker *parker, uint32_t *before, uint32_t after, struct sleeper *ret) {
	*ret = (struct sleeper){ .own = *before & ASLEEP ? &parker->state : NULL };
	if (*before & PARKER_TOGETHER) {
		ret->parking = atomic_load(&parker->parking);
		ret->place = atomic_load(&parker->place);
	}
	return atomic_compare_exchange_weak(&parker->state, before, after);
}

bool snecki_parker_hand_role(struct parker *parker, struct sleeper *ret) {
	uint32_t state = atomic_load(&parker->state);
	do {
		if (!(state & ASLEEP) || (state & PARKER_READY))
			return false;
	} while (!call(parker, &state, state | PARKER_LEAD, ret));
	return true;
}

void snecki_parker_wake_with(struct parker *parker, struct wakes *wakes) {
	struct sleeper sleeper;
	struct conn *conn;
	uint32_t state = atomic_load(&parker->state);

	do {
		conn = atomic_load(&parker->conn);
	} while (!call(parker, &state, state | PARKER_READY, &sleeper));
	if (state & PARKER_POLLING)
		snecki_conn_kick(conn);
	if (!sleeper.own)
		return;
	if (!sleeper.parking || (wakes->parking && wakes->parking != sleeper.parking)) {
		snecki_sleeper_wake(&sleeper);
		return;
	}
	wakes->parking = sleeper.parking;
	wakes->words |= UINT32_C(1) << sleeper.place / 32;
	wakes->places[sleeper.place / 32] |= UINT32_C(1) << sleeper.place % 32;
}

void snecki_wakes_send(struct wakes *wakes) {
	for (uint32_t i = 0; wakes->words >> i; i++) {
		if (wakes->words >> i & 1)
			wake_word(wakes->parking, i, wakes->places[i]);
		wakes->places[i] = 0;
	}
	wakes->words = 0;
}

void snecki_parker_wake(struct parker *parker) {
	struct wakes wakes = { 0 };
	snecki_parker_wake_with(parker, &wakes);
	snecki_wakes_send(&wakes);
}

/* ---- Sleeping -------------------------------------------------------------------------------*/

/* Sleep while the word is `expected`, or until the deadline (BOOTTIME). May return for no reason. True: it
 * did not sleep, as the word is another one. */
static bool futex_wait(_Atomic uint32_t *word, uint32_t expected, uint32_t bits, int64_t deadline_ns) {
	struct timespec until;
	snecki_monotonic_deadline(deadline_ns, &until);
	return syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expected, &until, NULL, bits) < 0;
}

struct sleep snecki_parker_lie_down(struct parker *parker, struct parking *parking) {
	struct sleep sleep = { 0 };
	uint32_t mark = PARKER_PARKED;

	if (parking && !atomic_load(&parker->parking)) {
		atomic_store(&parker->place, atomic_fetch_add(&parking->next, 1) % PARKING_PLACES);
		atomic_store(&parker->parking, parking);
	}
	if (parking) {
		sleep.seen = atomic_load(&parking->words[atomic_load(&parker->place) / 32]);
		mark = PARKER_TOGETHER;
	}
	sleep.state = atomic_fetch_or(&parker->state, mark) | mark;
	return sleep;
}

/* Sleep once at the shared word. Woken, but not meant: from now on at its own word. Returns the state. */
static uint32_t sleep_together(struct parker *parker, uint32_t *seen, int64_t deadline_ns) {
	uint32_t place = atomic_load(&parker->place);
	_Atomic uint32_t *word = &atomic_load(&parker->parking)->words[place / 32];
	bool changed = futex_wait(word, *seen, UINT32_C(1) << place % 32, deadline_ns);

	*seen = atomic_load(word);
	uint32_t state = atomic_load(&parker->state);
	while (!changed && !(state & CALLED)) {
		uint32_t alone = (state & ~(uint32_t)PARKER_TOGETHER) | PARKER_PARKED;
		if (atomic_compare_exchange_weak(&parker->state, &state, alone))
			return alone;
	}
	return state;
}

bool snecki_parker_sleep(struct parker *parker, struct sleep sleep, int64_t deadline_ns) {
	uint32_t state = sleep.state;

	while (!(state & CALLED) && snecki_now_ns() < deadline_ns) {
		if (state & PARKER_TOGETHER) {
			state = sleep_together(parker, &sleep.seen, deadline_ns);
		} else {
			futex_wait(&parker->state, state, FUTEX_BITSET_MATCH_ANY, deadline_ns);
			state = atomic_load(&parker->state);
		}
	}
	return atomic_fetch_and(&parker->state, ~(uint32_t)(ASLEEP | PARKER_LEAD)) & PARKER_LEAD;
}
