/* SPDX-License-Identifier: MIT */
/* Where a thread waits for what others read: a word of bits and a futex rather than a mutex and a condition,
 * so that whoever is woken runs into no lock. Threads that wait sleep together, so that those whose answers
 * came in one read are woken in one go. */
#ifndef SNECK_NET_PARKER_H
#define SNECK_NET_PARKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct conn;

enum { PARKING_WORDS = 16, PARKING_PLACES = PARKING_WORDS * 32 };

/* The words that threads sleep at, 32 to each; they share places when there are more. Zero it; it must
 * outlive every parker that may be woken. */
struct parking {
	_Atomic uint32_t words[PARKING_WORDS]; /* change with every wake-up */
	_Atomic uint32_t next;                 /* the place that is given next */
};

/* One per thread and wait; lives on the caller's stack or in its request. */
struct parker {
	_Atomic uint32_t state;      /* PARKER_… */
	_Atomic(struct conn *) conn; /* the connection it waits at */
	_Atomic unsigned
	        inflight; /* its requests that are unanswered; changes under the connection's mutex */
	_Atomic(struct parking *) parking; /* PARKER_TOGETHER: where it sleeps, always the same, … */
	_Atomic uint32_t place;            /* … and at which place, once it is given one */
	bool may_glance; /* its thread's: it may look for a moment before it sleeps, as nobody else has work
	                  */
};
enum {
	PARKER_READY = 1,    /* what it waited for has come */
	PARKER_LEAD = 2,     /* it has been handed the leader's role */
	PARKER_PARKED = 4,   /* its thread sleeps at `state`, not leading */
	PARKER_POLLING = 8,  /* its thread leads and may be in poll() */
	PARKER_TOGETHER = 16 /* its thread sleeps at its place in `parking`, not leading */
};
void snecki_parker_init(struct parker *parker);
void snecki_parker_done(struct parker *parker);
void snecki_parker_reset(struct parker *parker); /* not ready, to wait again */
bool snecki_parker_ready(struct parker *parker);

/* Those who are to be woken. Zero it. */
struct wakes {
	struct parking *parking;
	uint32_t words; /* a bit for each word that somebody sleeps at */
	uint32_t places[PARKING_WORDS];
};
/* Thread: any. What the parker waited for has come; also ends its poll when it leads. The parker may
 * go away as soon as its thread can see that. It may sleep on until snecki_wakes_send. */
void snecki_parker_wake_with(struct parker *parker, struct wakes *wakes);
void snecki_wakes_send(struct wakes *wakes);
/* Both at once. */
void snecki_parker_wake(struct parker *parker);

/* Give the leader's role to a thread that sleeps. True: the caller wakes it, once no mutex is held. */
struct sleeper {
	struct parking *parking; /* NULL: it sleeps at its own word */
	uint32_t place;
	_Atomic uint32_t *own; /* NULL: nobody sleeps */
};
bool snecki_parker_hand_role(struct parker *parker, struct sleeper *ret);
void snecki_sleeper_wake(const struct sleeper *sleeper);

/* Thread: the parker's. From now on it is found asleep: with `parking` at a place there, else at its own
 * word. snecki_parker_sleep must follow. */
struct sleep {
	uint32_t state, seen;
};
struct sleep snecki_parker_lie_down(struct parker *parker, struct parking *parking);
/* Until it is ready, has the role, or `deadline_ns` (BOOTTIME) has passed. True: it has the role. */
bool snecki_parker_sleep(struct parker *parker, struct sleep sleep, int64_t deadline_ns);

#endif
