/* SPDX-License-Identifier: MIT */
/* The yardstick: the same scripts over a plain blocking hiredis connection, with nothing around them. */
#ifndef SNECK_BENCH_RAW_H
#define SNECK_BENCH_RAW_H

#include <stdint.h>

#include <hiredis/hiredis.h>

#include "lock/op.h"

struct dialect;

struct raw {
	redisContext *redis;
	const struct dialect *dialect;
	char session[41], uuid[37]; /* its two names: a layout uses one or the other */
	uint64_t counter;
	int64_t lease_ms; /* of what is acquired from now on; the default at first */
};

/* `dialect` NULL: native. `number` tells sessions apart. */
void raw_open(struct raw *raw, const char *socket_path, const char *dialect, unsigned number);
/* From now on another session, on the same connection: a crowd of them is cheap that way. */
void raw_become(struct raw *raw, unsigned number);
void raw_close(struct raw *raw);
/* One acquire of `name`; returns the attempt. Ends the program when it is not granted. */
uint64_t raw_acquire(struct raw *raw, const char *name, char mode);
void raw_release(struct raw *raw, const char *name, char mode, uint64_t attempt);

#endif
