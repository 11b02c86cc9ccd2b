/* SPDX-License-Identifier: MIT */
/* See redisson_fixture.h. */
#include "redisson_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SESSION(uuid_) \
	{ .uuid = (uuid_), .prefix = "", .bury_ms = BURY_MS }
const struct dialect_session A = SESSION("A"), B = SESSION("B"), C = SESSION("C");

const struct dialect *redisson_dialect;
const char *redisson_name = "t";
sneck_error redisson_error;
char redisson_verdict[32];

static struct test_server server;
static redisContext *redis, *listener;

int redisson_up(const struct dialect *dialect) {
	redisson_dialect = dialect;
	if (test_server_start(&server, NULL) < 0)
		return -1;
	redis = test_server_connect(&server);
	return redis ? 0 : -1;
}

int redisson_down(void **state) {
	(void)state;
	if (listener)
		redisFree(listener);
	listener = NULL;
	if (redis)
		redisFree(redis);
	redis = NULL;
	test_server_stop(&server);
	return 0;
}

int redisson_clean(void **state) {
	(void)state;
	redisson_name = "t";
	redisson_do("FLUSHALL");
	if (listener)
		redisFree(listener);
	listener = test_server_connect(&server);
	assert_non_null(listener);
	freeReplyObject(redisCommand(listener, "PSUBSCRIBE *"));
	return 0;
}

long long redisson_do(const char *format, ...) {
	va_list args;
	va_start(args, format);
	redisReply *reply = redisvCommand(redis, format, args);
	va_end(args);
	assert_non_null(reply);
	if (reply->type == REDIS_REPLY_ERROR)
		fail_msg("%s: %s", format, reply->str);
	long long value = reply->type == REDIS_REPLY_INTEGER  ? reply->integer
	                  : reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10)
	                                                      : 0;
	freeReplyObject(reply);
	return value;
}

/* ---- Operations ---------------------------------------------------------------------------------*/

static redisReply *send_op(const struct dialect_session *session, const struct lock_op *op, bool full_text) {
	struct buf request = BUF_INIT;
	void *reply = NULL;

	assert_int_equal(redisson_dialect->encode(
	                         session, op, redisson_name, strlen(redisson_name), full_text, &request),
	        0);
	assert_int_equal(redisAppendFormattedCommand(redis, request.data, request.len), REDIS_OK);
	assert_int_equal(redisGetReply(redis, &reply), REDIS_OK);
	snecki_buf_done(&request);
	return reply;
}

struct lock_outcome redisson_run(const struct dialect_session *session, const struct lock_op *op) {
	struct lock_outcome outcome;
	redisReply *reply = send_op(session, op, false);

	if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOSCRIPT", 8) == 0) {
		freeReplyObject(reply);
		reply = send_op(session, op, true);
	}
	redisson_dialect->decode(session, op, reply, &outcome, &redisson_error);
	if (reply->type == REDIS_REPLY_ERROR)
		snprintf(redisson_error.text, sizeof redisson_error.text, "%s", reply->str);
	redisson_verdict[0] = '\0';
	if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 7)
		snprintf(redisson_verdict, sizeof redisson_verdict, "%s", reply->element[6]->str);
	freeReplyObject(reply);
	return outcome;
}

struct lock_op redisson_op(enum lock_op_kind kind, char mode, uint64_t attempt) {
	struct lock_op op = { .kind = kind, .mode = mode, .attempt = attempt };
	op.queue = true;
	op.lease_ms = LEASE_MS;
	op.wait_lease_ms = 3000;
	op.reads = mode == 'R';
	op.writes = mode == 'W';
	return op;
}

static struct lock_outcome run_kind(
        const struct dialect_session *session, enum lock_op_kind kind, char mode, uint64_t attempt) {
	struct lock_op op = redisson_op(kind, mode, attempt);
	return redisson_run(session, &op);
}

struct lock_outcome acquire(const struct dialect_session *session, char mode, uint64_t attempt) {
	return run_kind(session, OP_ACQUIRE, mode, attempt);
}

struct lock_outcome try_acquire(const struct dialect_session *session, char mode, uint64_t attempt) {
	struct lock_op op = redisson_op(OP_ACQUIRE, mode, attempt);
	op.queue = false;
	return redisson_run(session, &op);
}

struct lock_outcome beat(const struct dialect_session *session, char mode, uint64_t attempt) {
	struct lock_op op = redisson_op(OP_BEAT, mode, attempt);
	op.queue = false;
	return redisson_run(session, &op);
}

struct lock_outcome release(const struct dialect_session *session, char mode, uint64_t attempt) {
	return run_kind(session, OP_RELEASE, mode, attempt);
}

struct lock_outcome cancel(const struct dialect_session *session, char mode, uint64_t attempt) {
	return run_kind(session, OP_CANCEL, mode, attempt);
}

struct lock_outcome withdraw(const struct dialect_session *session, char mode, uint64_t attempt) {
	struct lock_op op = redisson_op(OP_CANCEL, mode, attempt);
	op.bury_n = 1;
	op.bury[0] = attempt;
	return redisson_run(session, &op);
}

struct lock_outcome renew(
        const struct dialect_session *session, char mode, uint64_t attempt, uint32_t reads, uint32_t writes) {
	struct lock_op op = redisson_op(OP_RENEW, mode, attempt);
	op.reads = reads;
	op.writes = writes;
	return redisson_run(session, &op);
}

struct lock_outcome downgrade(
        const struct dialect_session *session, uint64_t attempt, uint64_t old, uint32_t reads) {
	struct lock_op op = redisson_op(OP_DOWNGRADE, 'R', attempt);
	op.old = old;
	op.reads = reads;
	op.writes = 0;
	return redisson_run(session, &op);
}

struct lock_outcome redisson_expect(
        enum lock_status status, struct lock_outcome outcome, const char *call, const char *file, int line) {
	static const char *const names[] = { "GRANTED", "WAITING", "BUSY", "DEADLOCK", "GONE", "BROKEN",
		"BURIED", "DONE", "FAILED", "UNKNOWN" };

	if (outcome.status != status) {
		print_error("%s: %s, not %s%s%s\n", call, names[outcome.status], names[status],
		        outcome.code ? ": " : "", outcome.code ? redisson_error.text : "");
		_fail(file, line);
	}
	return outcome;
}

/* ---- Keys ---------------------------------------------------------------------------------------*/

static int compare_texts(const void *a, const void *b) {
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The elements of an array reply, or pairs of it joined by '=', in order if `sorted`. */
static void add_items(char *out, size_t size, const redisReply *list, bool pairs, bool sorted) {
	char *items[64];
	size_t n = 0, used = strlen(out);

	assert_true(list->elements <= 64);
	for (size_t i = 0; i < list->elements; i += pairs ? 2 : 1) {
		int r = asprintf(&items[n], "%s%s%s", list->element[i]->str, pairs ? "=" : "",
		        pairs ? list->element[i + 1]->str : "");
		assert_true(r > 0);
		n++;
	}
	if (sorted)
		qsort(items, n, sizeof items[0], compare_texts);
	for (size_t i = 0; i < n; i++) {
		used += (size_t)snprintf(out + used, size - used, "%s%s", i ? " " : "", items[i]);
		free(items[i]);
	}
}

static redisReply *ask(const char *command, const char *key) {
	char text[512];

	snprintf(text, sizeof text, command, key);
	redisReply *reply = redisCommand(redis, text);
	assert_non_null(reply);
	return reply;
}

static void describe_key(const char *key, char *out, size_t size) {
	static const struct {
		const char *type, *command, *open, *close;
		bool pairs, sorted;
	} kinds[] = {
		{ "hash", "HGETALL %s", "{", "}", true, true },
		{ "string", "MGET %s", "=", "", false, false },
		{ "list", "LRANGE %s 0 -1", "[", "]", false, false },
		{ "zset", "ZRANGE %s 0 -1", "<", ">", false, false },
	};
	redisReply *type = ask("TYPE %s", key);

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (strcmp(type->str, kinds[i].type) != 0)
			continue;
		redisReply *items = ask(kinds[i].command, key);
		snprintf(out, size, "%s%s", key, kinds[i].open);
		add_items(out, size, items, kinds[i].pairs, kinds[i].sorted);
		snprintf(out + strlen(out), size - strlen(out), "%s", kinds[i].close);
		freeReplyObject(items);
	}
	freeReplyObject(type);
}

void redisson_assert_keys(const char *expected, const char *file, int line) {
	char text[4096] = "";
	char *keys[64];
	redisReply *found = redisCommand(redis, "KEYS *");

	assert_true(found && found->elements <= 64);
	for (size_t i = 0; i < found->elements; i++)
		keys[i] = found->element[i]->str;
	qsort(keys, found->elements, sizeof keys[0], compare_texts);
	for (size_t i = 0; i < found->elements; i++) {
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s", i ? " " : "");
		describe_key(keys[i], text + strlen(text), sizeof text - strlen(text));
	}
	freeReplyObject(found);
	if (strcmp(text, expected) != 0) {
		print_error("keys:     %s\nexpected: %s\n", text, expected);
		_fail(file, line);
	}
}

void redisson_assert_ttl(const char *key, long long ms, const char *file, int line) {
	long long left = redisson_do("PTTL %s", key);

	if (left > ms || left < ms - 5000) {
		print_error("%s lasts %lld ms, not %lld\n", key, left, ms);
		_fail(file, line);
	}
}

/* Everything that was published before the PONG has arrived with it. */
void redisson_assert_heard(const char *expected, const char *file, int line) {
	char text[1024] = "";

	assert_int_equal(redisAppendCommand(listener, "PING"), REDIS_OK);
	for (;;) {
		redisReply *reply = NULL;
		assert_int_equal(redisGetReply(listener, (void **)&reply), REDIS_OK);
		bool message = reply->elements == 4 && strcmp(reply->element[0]->str, "pmessage") == 0;
		if (message)
			snprintf(text + strlen(text), sizeof text - strlen(text), "%s %s\n",
			        reply->element[2]->str, reply->element[3]->str);
		freeReplyObject(reply);
		if (!message)
			break;
	}
	if (strcmp(text, expected) != 0) {
		print_error("heard:    %s\nexpected: %s\n", text, expected);
		_fail(file, line);
	}
}
