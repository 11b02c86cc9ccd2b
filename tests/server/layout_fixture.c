/* SPDX-License-Identifier: MIT */
/* See layout_fixture.h. Requests are written as the library writes them: EVALSHA first, and EVAL when the
 * server does not know the script. */
#include "layout_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define SESSION(name, digit)                                                                 \
	const struct dialect_session name = { .name_space = "sneck",                         \
		.id = #name,                                                                 \
		.keep_ms = 10000,                                                            \
		.bury_ms = BURY_MS,                                                          \
		.uuid = digit digit digit digit digit digit digit digit "-0000-4000-8000-00" \
		                                                        "0000000000",        \
		.prefix = "" }
SESSION(A, "a");
SESSION(B, "b");
SESSION(C, "c");

enum { ATTEMPTS = 9, TEXT_MAX = 8192 };

const struct dialect *layout_dialect;
const char *layout_name;
sneck_error layout_error;
char layout_verdict[64];

static struct test_server server;
static redisContext *redis, *listener;

int layout_up(void **state) {
	(void)state;
	if (test_server_start(&server, NULL) < 0)
		return -1;
	redis = test_server_connect(&server);
	return redis ? 0 : -1;
}

int layout_down(void **state) {
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

int layout_clean(void **state) {
	(void)state;
	if (listener)
		redisFree(listener);
	listener = NULL;
	layout_name = "t";
	layout_do("CONFIG SET maxmemory 0");
	layout_do("FLUSHALL");
	return 0;
}

int layout_clean_and_listen(void **state) {
	(void)layout_clean(state);
	layout_listen();
	return 0;
}

/* ---- Owners -----------------------------------------------------------------------------------*/

static void replace_all(char text[TEXT_MAX], const char *from, const char *to) {
	char out[TEXT_MAX];
	size_t used = 0;

	for (const char *at = text; *at;) {
		bool hit = strncmp(at, from, strlen(from)) == 0;
		const char *piece = hit ? to : at;
		size_t len = hit ? strlen(to) : 1;
		assert_true(used + len < sizeof out);
		memcpy(out + used, piece, len);
		used += len;
		at += hit ? strlen(from) : 1;
	}
	out[used] = '\0';
	memcpy(text, out, used + 1);
}

/* `A.1` for the owner of that attempt, or the other way round. */
static void translate(char text[TEXT_MAX], bool write_out) {
	const struct dialect_session *const sessions[] = { &A, &B, &C };

	for (size_t s = 0; s < 3; s++)
		for (uint64_t attempt = ATTEMPTS; attempt > 0; attempt--) {
			char id[LOCK_ID_MAX], brief[8];
			layout_dialect->hold_id(sessions[s], 'R', attempt, id);
			snprintf(brief, sizeof brief, "%s.%" PRIu64, sessions[s]->id, attempt);
			replace_all(text, write_out ? brief : id + 1, write_out ? id + 1 : brief);
		}
}

long long layout_do(const char *format, ...) {
	char text[TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	translate(text, true);
	redisReply *reply = redisCommand(redis, text);
	assert_non_null(reply);
	if (reply->type == REDIS_REPLY_ERROR)
		fail_msg("%s: %s", text, reply->str);
	long long value = reply->type == REDIS_REPLY_INTEGER  ? reply->integer
	                  : reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10)
	                                                      : 0;
	freeReplyObject(reply);
	return value;
}

/* ---- Operations -------------------------------------------------------------------------------*/

static redisReply *send_bytes(struct buf *request) {
	void *reply = NULL;

	assert_int_equal(redisAppendFormattedCommand(redis, request->data, request->len), REDIS_OK);
	assert_int_equal(redisGetReply(redis, &reply), REDIS_OK);
	snecki_buf_done(request);
	return reply;
}

static bool is_noscript(redisReply *reply) {
	if (reply->type != REDIS_REPLY_ERROR || strncmp(reply->str, "NOSCRIPT", 8) != 0)
		return false;
	freeReplyObject(reply);
	return true;
}

struct lock_outcome layout_run_name(
        const struct dialect_session *session, const struct lock_op *op, const char *name) {
	struct lock_outcome outcome;
	redisReply *reply = NULL;

	for (int full = 0; full < 2; full++) {
		struct buf request = BUF_INIT;
		assert_int_equal(
		        layout_dialect->encode(session, op, name, strlen(name), full > 0, &request), 0);
		reply = send_bytes(&request);
		if (!is_noscript(reply))
			break;
	}
	layout_dialect->decode(session, op, reply, &outcome, &layout_error);
	layout_verdict[0] = '\0';
	if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 7)
		snprintf(layout_verdict, sizeof layout_verdict, "%s", reply->element[6]->str);
	freeReplyObject(reply);
	return outcome;
}

struct lock_outcome layout_run(const struct dialect_session *session, const struct lock_op *op) {
	return layout_run_name(session, op, layout_name);
}

struct lock_op layout_op(enum lock_op_kind kind, char mode, uint64_t attempt) {
	struct lock_op op = { .kind = kind, .mode = mode, .attempt = attempt };

	op.queue = true;
	op.lease_ms = LEASE_MS;
	op.wait_lease_ms = WAIT_LEASE_MS;
	*(mode == 'W' ? &op.writes : &op.reads) = 1;
	return op;
}

static struct lock_outcome plain(
        const struct dialect_session *session, enum lock_op_kind kind, char mode, uint64_t attempt) {
	struct lock_op op = layout_op(kind, mode, attempt);
	return layout_run(session, &op);
}

struct lock_outcome acquire(const struct dialect_session *session, char mode, uint64_t attempt) {
	return plain(session, OP_ACQUIRE, mode, attempt);
}

struct lock_outcome try_acquire(const struct dialect_session *session, char mode, uint64_t attempt) {
	struct lock_op op = layout_op(OP_ACQUIRE, mode, attempt);
	op.queue = false;
	return layout_run(session, &op);
}

struct lock_outcome beat(const struct dialect_session *session, char mode, uint64_t attempt) {
	struct lock_op op = layout_op(OP_BEAT, mode, attempt);
	op.queue = false;
	return layout_run(session, &op);
}

struct lock_outcome release(const struct dialect_session *session, char mode, uint64_t attempt) {
	return plain(session, OP_RELEASE, mode, attempt);
}

struct lock_outcome cancel(const struct dialect_session *session, char mode, uint64_t attempt) {
	return plain(session, OP_CANCEL, mode, attempt);
}

struct lock_outcome withdraw(const struct dialect_session *session, char mode, uint64_t attempt) {
	struct lock_op op = layout_op(OP_CANCEL, mode, attempt);
	op.bury_n = 1;
	op.bury[0] = attempt;
	return layout_run(session, &op);
}

struct lock_outcome renew(
        const struct dialect_session *session, char mode, uint64_t attempt, uint32_t reads, uint32_t writes) {
	struct lock_op op = layout_op(OP_RENEW, mode, attempt);
	op.reads = reads;
	op.writes = writes;
	return layout_run(session, &op);
}

static struct lock_outcome conversion(const struct dialect_session *session, enum lock_op_kind kind,
        char mode, uint64_t attempt, uint64_t old) {
	struct lock_op op = layout_op(kind, mode, attempt);
	op.old = old;
	return layout_run(session, &op);
}

struct lock_outcome upgrade(const struct dialect_session *session, uint64_t attempt, uint64_t old) {
	return conversion(session, OP_UPGRADE, 'W', attempt, old);
}

struct lock_outcome upgrade_cancel(const struct dialect_session *session, uint64_t attempt, uint64_t old) {
	return conversion(session, OP_CANCEL, 'W', attempt, old);
}

struct lock_outcome downgrade(const struct dialect_session *session, uint64_t attempt, uint64_t old) {
	return conversion(session, OP_DOWNGRADE, 'R', attempt, old);
}

struct lock_outcome layout_expect(
        enum lock_status status, struct lock_outcome outcome, const char *call, const char *file, int line) {
	static const char *const names[] = { "GRANTED", "WAITING", "BUSY", "DEADLOCK", "GONE", "BROKEN",
		"BURIED", "DONE", "FAILED", "UNKNOWN" };

	if (outcome.status != status) {
		print_error("%s: %s, not %s%s%s\n", call, names[outcome.status], names[status],
		        outcome.code ? ": " : "", outcome.code ? layout_error.text : "");
		_fail(file, line);
	}
	return outcome;
}

/* ---- For people -------------------------------------------------------------------------------*/

sneck_lock_info layout_inspect(const char *name) {
	sneck_lock_info info = { 0 };
	struct buf request = BUF_INIT;

	assert_int_equal(layout_dialect->encode_inspect(&A, name, strlen(name), 10, true, &request), 0);
	redisReply *reply = send_bytes(&request);
	int r = layout_dialect->decode_inspect(reply, &info, &layout_error);
	freeReplyObject(reply);
	if (r != 0)
		fail_msg("inspect: %s", layout_error.text);
	return info;
}

int layout_break(const char *id) {
	char text[TEXT_MAX];
	bool more = false;
	struct buf request = BUF_INIT;

	snprintf(text, sizeof text, "%s", id);
	translate(text, true);
	assert_int_equal(layout_dialect->encode_break(&A, "t", 1, text, 0, "because", true, &request), 0);
	redisReply *reply = send_bytes(&request);
	int r = layout_dialect->decode_break(&A, reply, &more, &layout_error);
	freeReplyObject(reply);
	assert_false(more);
	return r;
}

/* ---- State ------------------------------------------------------------------------------------*/

static int compare_texts(const void *a, const void *b) {
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Joined in order, with blanks between; frees the parts. */
static void join_sorted(char **parts, size_t n, char out[TEXT_MAX]) {
	size_t used = 0;

	qsort(parts, n, sizeof *parts, compare_texts);
	out[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		used += (size_t)snprintf(out + used, TEXT_MAX - used, "%s%s", i ? " " : "", parts[i]);
		assert_true(used < TEXT_MAX);
		free(parts[i]);
	}
}

static void describe_hash(const char *key, char out[TEXT_MAX]) {
	char *parts[256], text[TEXT_MAX], part[512];
	redisReply *all = redisCommand(redis, "HGETALL %s", key);

	assert_true(all && all->elements / 2 <= 256);
	for (size_t i = 0; i < all->elements; i += 2) {
		snprintf(part, sizeof part, "%s=%s", all->element[i]->str, all->element[i + 1]->str);
		parts[i / 2] = strdup(part);
	}
	join_sorted(parts, all->elements / 2, text);
	freeReplyObject(all);
	int n = snprintf(out, TEXT_MAX, "%s{%s}", key, text);
	assert_true(n < TEXT_MAX);
}

static void describe_items(const char *key, bool list, char out[TEXT_MAX]) {
	redisReply *all = redisCommand(redis, list ? "LRANGE %s 0 -1" : "ZRANGE %s 0 -1", key);
	size_t used = (size_t)snprintf(out, TEXT_MAX, "%s%s", key, list ? "[" : "<");

	assert_true(all && all->type == REDIS_REPLY_ARRAY);
	for (size_t i = 0; i < all->elements && used < TEXT_MAX; i++)
		used += (size_t)snprintf(
		        out + used, TEXT_MAX - used, "%s%s", i ? " " : "", all->element[i]->str);
	assert_true(used + 1 < TEXT_MAX);
	strcpy(out + used, list ? "]" : ">");
	freeReplyObject(all);
}

static void describe_key(const char *key, char out[TEXT_MAX]) {
	redisReply *type = redisCommand(redis, "TYPE %s", key);

	if (strcmp(type->str, "hash") == 0) {
		describe_hash(key, out);
	} else if (strcmp(type->str, "string") == 0) {
		redisReply *value = redisCommand(redis, "GET %s", key);
		snprintf(out, TEXT_MAX, "%s=%s", key, value->str);
		freeReplyObject(value);
	} else {
		describe_items(key, strcmp(type->str, "list") == 0, out);
	}
	freeReplyObject(type);
}

void layout_assert_keys(const char *expected, const char *file, int line) {
	char *parts[64], text[TEXT_MAX];
	redisReply *keys = redisCommand(redis, "KEYS *");

	assert_true(keys && keys->elements <= 64);
	for (size_t i = 0; i < keys->elements; i++) {
		describe_key(keys->element[i]->str, text);
		translate(text, false);
		parts[i] = strdup(text);
	}
	join_sorted(parts, keys->elements, text);
	freeReplyObject(keys);
	if (strcmp(text, expected) != 0) {
		print_error("on the server: \"%s\", not \"%s\"\n", text, expected);
		_fail(file, line);
	}
}

int64_t layout_pttl(const char *key) {
	return layout_do("PTTL %s", key);
}

void layout_assert_ttl(const char *key, int64_t ms, const char *file, int line) {
	int64_t left_ms = layout_pttl(key);

	if (left_ms > ms || left_ms < ms - 5000) {
		print_error("%s lasts %" PRId64 " ms, not %" PRId64 "\n", key, left_ms, ms);
		_fail(file, line);
	}
}

long layout_calls(const char *command) {
	char word[64];
	redisReply *stats = redisCommand(redis, "INFO commandstats");

	assert_non_null(stats);
	snprintf(word, sizeof word, "cmdstat_%s:calls=", command);
	const char *at = strstr(stats->str, word);
	long calls = at ? strtol(at + strlen(word), NULL, 10) : 0;
	freeReplyObject(stats);
	return calls;
}

int64_t layout_now_ms(void) {
	redisReply *time = redisCommand(redis, "TIME");

	assert_true(time && time->elements == 2);
	int64_t now_ms = strtoll(time->element[0]->str, NULL, 10) * 1000 +
	                 strtoll(time->element[1]->str, NULL, 10) / 1000;
	freeReplyObject(time);
	return now_ms;
}

void layout_assert_holder(const struct lock_outcome *outcome, char mode,
        const struct dialect_session *session, uint64_t attempt) {
	char id[LOCK_ID_MAX];

	layout_dialect->hold_id(session, mode, attempt, id);
	assert_int_equal(outcome->holder_mode, mode);
	assert_string_equal(outcome->holder, id + 1);
}

/* ---- Messages ---------------------------------------------------------------------------------*/

void layout_listen(void) {
	listener = test_server_connect(&server);
	assert_non_null(listener);
	redisReply *reply = redisCommand(listener, "PSUBSCRIBE *");
	assert_non_null(reply);
	freeReplyObject(reply);
}

const char *layout_heard(void) {
	static char text[TEXT_MAX];
	size_t used = 0;

	text[0] = '\0';
	/* What was published before the answer to this PING was written is all there is. */
	assert_int_equal(redisAppendCommand(listener, "PING end"), REDIS_OK);
	for (;;) {
		redisReply *reply = NULL;
		assert_int_equal(redisGetReply(listener, (void **)&reply), REDIS_OK);
		bool end = reply->elements == 2 && strcmp(reply->element[0]->str, "pong") == 0;
		if (!end)
			used += (size_t)snprintf(text + used, sizeof text - used, "%s %s\n",
			        reply->element[2]->str, reply->element[3]->str);
		freeReplyObject(reply);
		assert_true(used < sizeof text);
		if (end)
			break;
	}
	translate(text, false);
	return text;
}
