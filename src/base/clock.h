/* SPDX-License-Identifier: MIT */
#ifndef SNECK_BASE_CLOCK_H
#define SNECK_BASE_CLOCK_H

#include <stdint.h>

struct timespec;

#define NS_PER_MS INT64_C(1000000)
#define NS_NEVER INT64_MAX

/* CLOCK_BOOTTIME: time in suspend counts, steps of the wall clock do not. */
int64_t snecki_now_ns(void);

/* now + ms, saturating at NS_NEVER. */
int64_t snecki_after_ms(int64_t now_ns, int64_t ms);

/* How long until `deadline_ns`, for ppoll(): zero when it has passed, an hour at most. The caller
 * looks at the clock again when the wait has ended. */
void snecki_time_left(int64_t deadline_ns, struct timespec *ret);

/* `deadline_ns` as an absolute CLOCK_MONOTONIC time for pthread_cond_timedwait() (which knows no
 * CLOCK_BOOTTIME), an hour ahead at most. The caller looks at the clock again. */
void snecki_monotonic_deadline(int64_t deadline_ns, struct timespec *ret);

#endif
