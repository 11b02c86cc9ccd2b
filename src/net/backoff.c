/* SPDX-License-Identifier: MIT */
/* Pauses between attempts to connect. The first failure is followed by a short pause (most breaks are
 * restarts), a long outage by pauses that spread over two seconds. */
#include "net/backoff.h"

#include "base/clock.h"
#include "base/random.h"

int64_t snecki_backoff_next_ns(struct backoff *backoff, int64_t now_ns) {
	int64_t top = backoff->last_ms * 3;
	if (top < 2 * BACKOFF_MIN_MS)
		top = 2 * BACKOFF_MIN_MS;
	int64_t span = top - BACKOFF_MIN_MS + 1;
	int64_t pause = BACKOFF_MIN_MS + (int64_t)(snecki_random_u64() % (uint64_t)span);
	if (pause > BACKOFF_MAX_MS)
		pause = BACKOFF_MAX_MS;
	backoff->last_ms = pause;
	return snecki_after_ms(now_ns, pause);
}

void snecki_backoff_reset(struct backoff *backoff) {
	backoff->last_ms = 0;
}
