/* SPDX-License-Identifier: MIT */
/* The yardstick: the same scripts over a plain blocking hiredis connection, with nothing around them. */
#ifndef SNECK_BENCH_RAW_H
#define SNECK_BENCH_RAW_H

#include <stdint.h>

#include <hiredis/hiredis.h>

#include "lock/op.h"

struct raw {
	redisContext *redis;
	char session[41];
	uint64_t counter;
};

void raw_open(struct raw *raw, const char *socket_path, unsigned number);
void raw_close(struct raw *raw);
/* One acquire of `name`; returns the attempt. Ends the program when it is not granted. */
uint64_t raw_acquire(struct raw *raw, const char *name, char mode);
void raw_release(struct raw *raw, const char *name, char mode, uint64_t attempt);

#endif
