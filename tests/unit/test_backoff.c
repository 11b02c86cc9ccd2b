/* SPDX-License-Identifier: MIT */
/* Pauses between attempts to connect: short at first, never longer than two seconds, and different for
 * clients that lost their server at the same moment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/backoff.h"

static int64_t next_ms(struct backoff *backoff) {
	return snecki_backoff_next_ns(backoff, 1000 * NS_PER_MS) / NS_PER_MS - 1000;
}

static void pauses_grow_within_bounds(void **state) {
	(void)state;
	for (int client = 0; client < 200; client++) {
		struct backoff backoff = { 0 };
		int64_t last_ms = 0, longest_ms = 0;
		for (int i = 0; i < 30; i++) {
			int64_t most_ms = last_ms * 3 > 2 * BACKOFF_MIN_MS ? last_ms * 3 : 2 * BACKOFF_MIN_MS;
			int64_t pause_ms = next_ms(&backoff);
			assert_true(pause_ms >= BACKOFF_MIN_MS && pause_ms <= BACKOFF_MAX_MS);
			assert_true(pause_ms <= most_ms);
			last_ms = pause_ms;
			longest_ms = pause_ms > longest_ms ? pause_ms : longest_ms;
		}
		assert_true(longest_ms >
		            4 * BACKOFF_MIN_MS); /* a long outage is not asked twenty times a second */
		snecki_backoff_reset(&backoff);
		assert_true(next_ms(&backoff) <= 2 * BACKOFF_MIN_MS);
	}
}

/* After ten failures: in no tenth of the two seconds are more than a third of them. */
static void clients_come_back_at_different_times(void **state) {
	(void)state;
	enum { CLIENTS = 1000, SLOTS = 10 };
	int at[SLOTS + 1] = { 0 };
	for (int client = 0; client < CLIENTS; client++) {
		struct backoff backoff = { 0 };
		int64_t when_ms = 0;
		for (int i = 0; i < 10; i++)
			when_ms += next_ms(&backoff);
		at[when_ms % BACKOFF_MAX_MS * SLOTS / BACKOFF_MAX_MS]++;
	}
	for (int slot = 0; slot < SLOTS; slot++)
		assert_true(at[slot] < CLIENTS / 3);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pauses_grow_within_bounds),
		cmocka_unit_test(clients_come_back_at_different_times),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
