/* SPDX-License-Identifier: MIT */
/* The one clock of the library.
 *
 * Leases end by the server's clock while this machine sleeps, so every deadline is on
 * CLOCK_BOOTTIME, which counts suspend. Waiting primitives run on CLOCK_MONOTONIC, which does not:
 * deadlines are converted through the time that remains, waits are cut to an hour, and whoever
 * waited compares with snecki_now_ns() afterwards instead of trusting the primitive. */
#include "base/clock.h"

#include <time.h>

#define NS_PER_S INT64_C(1000000000)
#define WAIT_MAX_NS (INT64_C(3600) * NS_PER_S)

int64_t snecki_now_ns(void) {
	struct timespec ts;
	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t snecki_after_ms(int64_t now_ns, int64_t ms) {
	if (ms > (NS_NEVER - now_ns) / NS_PER_MS)
		return NS_NEVER;
	return now_ns + ms * NS_PER_MS;
}

static int64_t left_ns(int64_t deadline_ns) {
	int64_t now_ns = snecki_now_ns();
	if (deadline_ns <= now_ns)
		return 0;
	int64_t left = deadline_ns - now_ns;
	return left < WAIT_MAX_NS ? left : WAIT_MAX_NS;
}

void snecki_time_left(int64_t deadline_ns, struct timespec *ret) {
	int64_t left = left_ns(deadline_ns);
	ret->tv_sec = (time_t)(left / NS_PER_S);
	ret->tv_nsec = (long)(left % NS_PER_S);
}

void snecki_monotonic_deadline(int64_t deadline_ns, struct timespec *ret) {
	int64_t left = left_ns(deadline_ns);
	clock_gettime(CLOCK_MONOTONIC, ret);
	int64_t ns = ret->tv_nsec + left % NS_PER_S;
	ret->tv_sec += (time_t)(left / NS_PER_S + ns / NS_PER_S);
	ret->tv_nsec = (long)(ns % NS_PER_S);
}
