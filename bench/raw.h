/* SPDX-License-Identifier: MIT */
/* The yardstick: the same scripts over a plain blocking hiredis connection, with nothing around them. */
#ifndef SNECK_BENCH_RAW_H
#define SNECK_BENCH_RAW_H

#include <stdint.h>

#include <hiredis/hiredis.h>

#include "lock/op.h"

struct buf;
struct dialect;

struct raw {
	redisContext *redis; /* NULL: … */
	/* … send these bytes and wait for the answer, on whatever connection `ctx` is. */
	redisReply *(*exchange)(void *ctx, const char *data, size_t len);
	void *ctx;
	const struct dialect *dialect;
	char session[41], uuid[37]; /* its two names: a layout uses one or the other */
	uint64_t counter;
	int64_t lease_ms; /* of what is acquired from now on; the default at first */
};

/* `dialect` NULL: native. `number` tells sessions apart. */
void raw_open(struct raw *raw, const char *socket_path, const char *dialect, unsigned number);
/* The same on a connection that is there already; raw_close() ends it. `redis` NULL: the caller sets
 * `exchange`. */
void raw_start(struct raw *raw, redisContext *redis, const char *dialect, unsigned number);
/* A connection to redis://HOST:PORT. Ends the program when there is none. */
redisContext *raw_connect(const char *url);
/* From now on another session, on the same connection: a crowd of them is cheap that way. */
void raw_become(struct raw *raw, unsigned number);
void raw_close(struct raw *raw);
/* One acquire of `name`; returns the attempt. Ends the program when it is not granted. */
uint64_t raw_acquire(struct raw *raw, const char *name, char mode);
/* The request itself, as it goes to the server. */
void raw_encode(const struct raw *raw, const struct lock_op *op, const char *name, struct buf *bytes);
void raw_release(struct raw *raw, const char *name, char mode, uint64_t attempt);

#endif
