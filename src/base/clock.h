/* SPDX-License-Identifier: MIT */
#ifndef SNECK_BASE_CLOCK_H
#define SNECK_BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_NEVER INT64_MAX

/* CLOCK_BOOTTIME: time in suspend counts, steps of the wall clock do not. */
int64_t snecki_now_ns(void);

/* now + ms, saturating at NS_NEVER. */
int64_t snecki_after_ms(int64_t now_ns, int64_t ms);

#endif
