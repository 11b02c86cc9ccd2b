/* SPDX-License-Identifier: MIT */
/* What sneck and the real Redisson do to each other wherever locks live: on one server, or in a cluster. The
 * server is test_the_server, or its face; leases are 3 s on both sides. */
#ifndef TESTS_INTEROP_PAIR_H
#define TESTS_INTEROP_PAIR_H

#include "java.h"
#include "locks.h"

enum { LEASE_MS = JAVA_WATCHDOG_MS, WAKE_MS = 100, WAKE_TRIES = 8 };

/* Java's name of the exclusive side, our dialect, and what channels begin with. */
struct object {
	const char *java, *dialect, *channels;
};
enum { OBJECTS = 4 };
extern const struct object objects[OBJECTS];

/* One program serves all tests but those that kill it. */
extern struct java pair_java;

sneck_client *open_as(const char *dialect);
sneck_acquire_options leased(int64_t wait_ms);
sneck_hold *take(sneck_client *client, const char *name, sneck_mode mode);

bool nothing_is_left(void);
/* Java's thread `a` asks for it, and sleeps. */
void java_falls_asleep(const char *object, const char *name, const char *channels);

/* A release of the one wakes the other by a message. */
void each_wakes_the_other(const struct object *object, const char *name);
void each_excludes_the_other(const struct object *object, const char *name);
void readers_of_both_share_it(const char *name);
/* Of the fenced lock. */
void tokens_grow_over_both_sides(const char *name);

#endif
