/* SPDX-License-Identifier: MIT */
/* Waiting for an event in a test: look every millisecond until it has come or the time is over.
 * A test never sleeps for a fixed time in the hope that something has happened meanwhile. */
#ifndef SNECK_TESTS_WAIT_H
#define SNECK_TESTS_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline int64_t test_now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* One step of WAIT_UNTIL: false when the deadline has passed, else a millisecond later. */
static inline bool test_wait_step(int64_t deadline_ms) {
	const struct timespec step = { 0, 1000000 };

	if (test_now_ms() >= deadline_ms)
		return false;
	nanosleep(&step, NULL);
	return true;
}

/* True as soon as `cond` is; false when it still is not after `ms` milliseconds. `cond` is
 * evaluated at least once, and once more after the deadline, so a test that was not scheduled for
 * a while does not fail for it. */
#define WAIT_UNTIL(cond, ms)                                                 \
	__extension__({                                                      \
		const int64_t wait_deadline_ms_ = test_now_ms() + (ms);      \
		bool wait_true_ = (cond);                                    \
		while (!wait_true_) {                                        \
			bool wait_more_ = test_wait_step(wait_deadline_ms_); \
			wait_true_ = (cond);                                 \
			if (!wait_more_)                                     \
				break;                                       \
		}                                                            \
		wait_true_;                                                  \
	})

#endif
