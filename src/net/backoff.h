/* SPDX-License-Identifier: MIT */
/* When to try to connect again: decorrelated jitter, so that clients which lost their server at the
 * same moment do not come back at the same moment. */
#ifndef SNECK_NET_BACKOFF_H
#define SNECK_NET_BACKOFF_H

#include <stdint.h>

struct backoff {
	int64_t last_ms; /* the last pause; 0: the last attempt succeeded */
};

enum { BACKOFF_MIN_MS = 50, BACKOFF_MAX_MS = 2000 };

/* After a failure: the time of the next attempt. Each pause lies between the minimum and three times
 * the last one. */
int64_t snecki_backoff_next_ns(struct backoff *backoff, int64_t now_ns);
void snecki_backoff_reset(struct backoff *backoff);

#endif
