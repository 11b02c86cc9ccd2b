/* SPDX-License-Identifier: MIT */
#include "raw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sneck/sneck.h>

#include "dialect/dialect.h"

static redisContext *connected(redisContext *redis, const char *where) {
	if (!redis || redis->err) {
		fprintf(stderr, "bench: cannot connect to %s\n", where);
		exit(1);
	}
	return redis;
}

redisContext *raw_connect(const char *url) {
	char host[64];
	int port;

	if (sscanf(url, "redis://%63[^:/]:%d", host, &port) != 2) {
		fprintf(stderr, "bench: %s is not redis://HOST:PORT\n", url);
		exit(1);
	}
	return connected(redisConnect(host, port), url);
}

void raw_open(struct raw *raw, const char *socket_path, const char *dialect, unsigned number) {
	raw_start(raw, connected(redisConnectUnix(socket_path), socket_path), dialect, number);
}

void raw_start(struct raw *raw, redisContext *redis, const char *dialect, unsigned number) {
	memset(raw, 0, sizeof *raw);
	raw->redis = redis;
	raw->dialect = snecki_dialect_find(dialect, NULL);
	if (!raw->dialect) {
		fprintf(stderr, "bench: there is no dialect %s\n", dialect);
		exit(1);
	}
	raw->lease_ms = SNECK_LEASE_DEFAULT_MS;
	raw_become(raw, number);
}

void raw_become(struct raw *raw, unsigned number) {
	snprintf(raw->session, sizeof raw->session, "bench:%u:raw000000000", number);
	snprintf(raw->uuid, sizeof raw->uuid, "%08x-0000-4000-8000-000000000000", number);
}

void raw_close(struct raw *raw) {
	if (raw->redis)
		redisFree(raw->redis);
}

static struct dialect_session session_of(const struct raw *raw) {
	return (struct dialect_session){
		.name_space = "sneck",
		.id = raw->session,
		.keep_ms = SNECK_KEEP_MS,
		.bury_ms = SNECK_BURY_MS,
		.uuid = raw->uuid,
		.prefix = "",
	};
}

static void encode(const struct raw *raw, const struct lock_op *op, const char *name, bool full_text,
        struct buf *bytes) {
	const struct dialect_session session = session_of(raw);

	if (raw->dialect->encode(&session, op, name, strlen(name), full_text, bytes) < 0)
		abort();
}

void raw_encode(const struct raw *raw, const struct lock_op *op, const char *name, struct buf *bytes) {
	encode(raw, op, name, false, bytes);
}

static void run(struct raw *raw, const struct lock_op *op, const char *name, enum lock_status expected) {
	const struct dialect_session session = session_of(raw);
	struct lock_outcome outcome;
	redisReply *reply = NULL;

	for (int full_text = 0; full_text < 2; full_text++) {
		struct buf bytes = BUF_INIT;
		encode(raw, op, name, full_text, &bytes);
		if (raw->exchange)
			reply = raw->exchange(raw->ctx, bytes.data, bytes.len);
		else if (redisAppendFormattedCommand(raw->redis, bytes.data, bytes.len) != REDIS_OK ||
		         redisGetReply(raw->redis, (void **)&reply) != REDIS_OK)
			abort();
		snecki_buf_done(&bytes);
		if (reply->type != REDIS_REPLY_ERROR || strncmp(reply->str, "NOSCRIPT", 8) != 0)
			break;
		freeReplyObject(reply);
	}
	raw->dialect->decode(&session, op, reply, &outcome, NULL);
	if (outcome.status != expected) {
		fprintf(stderr, "bench: operation %d on %s ended with status %d\n", (int)op->kind, name,
		        (int)outcome.status);
		exit(1);
	}
	freeReplyObject(reply);
}

uint64_t raw_acquire(struct raw *raw, const char *name, char mode) {
	struct lock_op op = {
		.kind = OP_ACQUIRE, .mode = mode, .attempt = ++raw->counter, .lease_ms = raw->lease_ms
	};

	run(raw, &op, name, LOCK_GRANTED);
	return raw->counter;
}

void raw_release(struct raw *raw, const char *name, char mode, uint64_t attempt) {
	struct lock_op op = {
		.kind = OP_RELEASE, .mode = mode, .attempt = attempt, .lease_ms = raw->lease_ms
	};

	run(raw, &op, name, LOCK_DONE);
}
