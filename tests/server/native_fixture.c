/* SPDX-License-Identifier: MIT */
/* See native_fixture.h. Requests are written as the library writes them: EVALSHA first, and EVAL
 * when the server does not know the script. */
#include "native_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct dialect_session A = { .name_space = "sneck", .id = "A", .keep_ms = KEEP_MS, .bury_ms = BURY_MS };
const struct dialect_session B = { .name_space = "sneck", .id = "B", .keep_ms = KEEP_MS, .bury_ms = BURY_MS };
const struct dialect_session C = { .name_space = "sneck", .id = "C", .keep_ms = KEEP_MS, .bury_ms = BURY_MS };
const struct dialect_session D = { .name_space = "sneck", .id = "D", .keep_ms = KEEP_MS, .bury_ms = BURY_MS };

redisContext *native_redis;
sneck_error native_error;

static struct test_server server;
static redisContext *listener;

int native_up(void **state) {
	(void)state;
	if (test_server_start(&server, NULL) < 0)
		return -1;
	native_redis = test_server_connect(&server);
	return native_redis ? 0 : -1;
}

int native_down(void **state) {
	(void)state;
	if (native_redis)
		redisFree(native_redis);
	native_redis = NULL;
	test_server_stop(&server);
	return 0;
}

int native_clean(void **state) {
	(void)state;
	if (listener)
		redisFree(listener);
	listener = NULL;
	native_do("CONFIG SET maxmemory 0");
	native_do("FLUSHALL");
	return 0;
}

long long native_do(const char *format, ...) {
	va_list args;
	va_start(args, format);
	redisReply *reply = redisvCommand(native_redis, format, args);
	va_end(args);
	assert_non_null(reply);
	if (reply->type == REDIS_REPLY_ERROR)
		fail_msg("%s: %s", format, reply->str);
	long long value = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
	if (reply->type == REDIS_REPLY_STRING)
		value = strtoll(reply->str, NULL, 10);
	freeReplyObject(reply);
	return value;
}

/* ---- Operations -----------------------------------------------------------------------------*/

static redisReply *send_op(const struct dialect_session *session, const struct lock_op *op, const char *name,
        size_t name_len, bool full_text) {
	struct buf request = BUF_INIT;
	void *reply = NULL;
	assert_int_equal(snecki_native.encode(session, op, name, name_len, full_text, &request), 0);
	assert_int_equal(redisAppendFormattedCommand(native_redis, request.data, request.len), REDIS_OK);
	assert_int_equal(redisGetReply(native_redis, &reply), REDIS_OK);
	snecki_buf_done(&request);
	return reply;
}

struct lock_outcome native_run_name(
        const struct dialect_session *session, const struct lock_op *op, const char *name, size_t name_len) {
	struct lock_outcome outcome;
	redisReply *reply = send_op(session, op, name, name_len, false);
	if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOSCRIPT", 8) == 0) {
		freeReplyObject(reply);
		reply = send_op(session, op, name, name_len, true);
	}
	snecki_native.decode(session, op, reply, &outcome, &native_error);
	freeReplyObject(reply);
	return outcome;
}

/* What must hold after every operation: the key outlives every deadline in it and its last token,
 * and members are short enough for the compact encoding. */
static void check_key(void) {
	redisReply *members = redisCommand(native_redis, "ZRANGE " KEY " 0 -1 WITHSCORES");
	assert_non_null(members);
	int64_t ends = members->type == REDIS_REPLY_ARRAY && members->elements ? native_pexpiretime() : 0;
	for (size_t i = 0; ends && i + 1 < members->elements; i += 2) {
		const redisReply *member = members->element[i];
		int64_t score = strtoll(members->element[i + 1]->str, NULL, 10);
		int64_t until = member->str[0] == '#' ? score / 1000 : score % INT64_C(100000000000000);
		if (score > 0 && ends < until + KEEP_MS)
			fail_msg("%s (%" PRId64 ") outlives the key", member->str, score);
		assert_true(member->len <= 64);
	}
	freeReplyObject(members);
}

/* What a grant says is what the server has. */
static void check_grant(
        const struct dialect_session *session, const struct lock_op *op, const struct lock_outcome *outcome) {
	char member[LOCK_ID_MAX];
	char mode = op->kind == OP_RENAME ? op->foreign_id[0] : op->mode;
	snecki_native.hold_id(session, mode, op->attempt, member);
	assert_int_equal(native_score(member), outcome->deadline_ms);
	assert_int_equal(native_score("#1"), outcome->token);
}

struct lock_outcome native_run(const struct dialect_session *session, const struct lock_op *op) {
	struct lock_outcome outcome = native_run_name(session, op, "t", 1);
	if (outcome.status != LOCK_FAILED)
		check_key();
	if (outcome.status == LOCK_GRANTED)
		check_grant(session, op, &outcome);
	return outcome;
}

struct lock_op native_op(enum lock_op_kind kind, char mode, uint64_t attempt) {
	struct lock_op op = { .kind = kind, .mode = mode, .attempt = attempt };
	op.queue = true;
	op.lease_ms = LEASE_MS;
	op.wait_lease_ms = WAIT_LEASE_MS;
	return op;
}

struct lock_outcome acquire(const struct dialect_session *session, char mode, uint64_t attempt) {
	struct lock_op op = native_op(OP_ACQUIRE, mode, attempt);
	return native_run(session, &op);
}

struct lock_outcome try_acquire(const struct dialect_session *session, char mode, uint64_t attempt) {
	struct lock_op op = native_op(OP_ACQUIRE, mode, attempt);
	op.queue = false;
	return native_run(session, &op);
}

struct lock_outcome beat(const struct dialect_session *session, char mode, uint64_t attempt) {
	struct lock_op op = native_op(OP_BEAT, mode, attempt);
	return native_run(session, &op);
}

struct lock_outcome release(const struct dialect_session *session, char mode, uint64_t attempt) {
	struct lock_op op = native_op(OP_RELEASE, mode, attempt);
	return native_run(session, &op);
}

struct lock_outcome renew(const struct dialect_session *session, char mode, uint64_t attempt) {
	struct lock_op op = native_op(OP_RENEW, mode, attempt);
	return native_run(session, &op);
}

struct lock_outcome cancel(const struct dialect_session *session, char mode, uint64_t attempt) {
	struct lock_op op = native_op(OP_CANCEL, mode, attempt);
	return native_run(session, &op);
}

struct lock_outcome withdraw(const struct dialect_session *session, char mode, uint64_t attempt) {
	struct lock_op op = native_op(OP_CANCEL, mode, attempt);
	op.bury_n = 1;
	op.bury[0] = attempt;
	return native_run(session, &op);
}

struct lock_outcome upgrade(const struct dialect_session *session, uint64_t attempt, uint64_t old) {
	struct lock_op op = native_op(OP_UPGRADE, 'W', attempt);
	op.old = old;
	return native_run(session, &op);
}

struct lock_outcome downgrade(const struct dialect_session *session, uint64_t attempt, uint64_t old) {
	struct lock_op op = native_op(OP_DOWNGRADE, 'R', attempt);
	op.old = old;
	return native_run(session, &op);
}

struct lock_outcome upgrade_beat(const struct dialect_session *session, uint64_t attempt, uint64_t old) {
	struct lock_op op = native_op(OP_BEAT, 'W', attempt);
	op.old = old;
	return native_run(session, &op);
}

struct lock_outcome upgrade_cancel(const struct dialect_session *session, uint64_t attempt, uint64_t old) {
	struct lock_op op = native_op(OP_CANCEL, 'W', attempt);
	op.old = old;
	return native_run(session, &op);
}

struct lock_outcome rename_hold(const struct dialect_session *session, const char *id, uint64_t attempt) {
	struct lock_op op = native_op(OP_RENAME, id[0], attempt);
	snprintf(op.foreign_id, sizeof(op.foreign_id), "%s", id);
	return native_run(session, &op);
}

struct lock_outcome advance(const struct dialect_session *session) {
	struct lock_op op = native_op(OP_ADVANCE, 0, 0);
	return native_run(session, &op);
}

struct lock_outcome native_expect(
        enum lock_status status, struct lock_outcome outcome, const char *call, const char *file, int line) {
	static const char *const names[] = { "GRANTED", "WAITING", "BUSY", "DEADLOCK", "GONE", "BROKEN",
		"BURIED", "DONE", "FAILED", "UNKNOWN" };
	if (outcome.status != status) {
		print_error("%s: %s, not %s%s%s\n", call, names[outcome.status], names[status],
		        outcome.code ? ": " : "", outcome.code ? native_error.text : "");
		_fail(file, line);
	}
	return outcome;
}

/* ---- State ----------------------------------------------------------------------------------*/

static int compare_texts(const void *a, const void *b) {
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Waiters in the order of the queue; the others by name, for the order of deadlines within one
 * millisecond says nothing. */
static void describe_state(const redisReply *members, char *text, size_t size) {
	const char *names[256];
	size_t waiters = 0, used = 0, n = 0;
	assert_true(members->elements <= 256);
	for (size_t i = 0; i < members->elements; i++) {
		const char *member = members->element[i]->str;
		if (strcmp(member, "#1") == 0)
			continue;
		names[n++] = member;
		if (strchr("rwu", member[0]))
			waiters = n;
	}
	qsort(names + waiters, n - waiters, sizeof(names[0]), compare_texts);
	text[0] = '\0';
	for (size_t i = 0; i < n && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : "", names[i]);
}

void native_assert_state(const char *expected, const char *file, int line) {
	char text[4096] = "-";
	redisReply *members = redisCommand(native_redis, "ZRANGE " KEY " 0 -1");
	assert_non_null(members);
	if (members->elements > 0)
		describe_state(members, text, sizeof(text));
	freeReplyObject(members);
	if (strcmp(text, expected) != 0) {
		print_error("state \"%s\", not \"%s\"\n", text, expected);
		_fail(file, line);
	}
}

int64_t native_score(const char *member) {
	redisReply *reply = redisCommand(native_redis, "ZSCORE " KEY " %s", member);
	assert_non_null(reply);
	if (reply->type != REDIS_REPLY_STRING)
		fail_msg("no member %s", member);
	int64_t score = strtoll(reply->str, NULL, 10);
	freeReplyObject(reply);
	return score;
}

int64_t native_pexpiretime(void) {
	return native_do("PEXPIRETIME " KEY);
}

int64_t native_now_ms(void) {
	redisReply *reply = redisCommand(native_redis, "TIME");
	assert_non_null(reply);
	int64_t ms = strtoll(reply->element[0]->str, NULL, 10) * 1000 +
	             strtoll(reply->element[1]->str, NULL, 10) / 1000;
	freeReplyObject(reply);
	return ms;
}

void native_end_lease(const char *member) {
	const char *score = member[0] == 'l' ? "100000000000001" : "1";
	(void)native_score(member); /* it is there */
	native_do("ZADD " KEY " XX %s %s", score, member);
}

/* ---- Messages -------------------------------------------------------------------------------*/

void native_listen(void) {
	listener = test_server_connect(&server);
	assert_non_null(listener);
	redisReply *reply = redisCommand(listener, "PSUBSCRIBE sneck:!*");
	assert_non_null(reply);
	freeReplyObject(reply);
}

static void add_heard(const redisReply *message, char *text, size_t size) {
	const char *to = message->element[2]->str + strlen("sneck:!");
	const redisReply *payload = message->element[3];
	struct lock_note note;
	size_t used = strlen(text);
	assert_true(snecki_native.read_note(&A, payload->str, (size_t)payload->len, &note));
	if (note.kind == LOCK_NOTE_GRANT) {
		char member[64];
		assert_int_equal(note.token, native_score("#1"));
		snprintf(member, sizeof(member), "W%s.%" PRIu64, to, note.attempt);
		if (native_do("EXISTS " KEY) && native_do("ZSCORE " KEY " %s", member) == 0)
			member[0] = 'R';
		assert_int_equal(note.deadline_ms, native_score(member));
		assert_true(note.server_us / 1000 < note.deadline_ms);
	}
	snprintf(text + used, size - used, "%s%s %c %" PRIu64 "%s", used ? "\n" : "", to, payload->str[0],
	        note.attempt, note.wanted ? " wanted" : "");
}

const char *native_heard(void) {
	static char text[4096];
	text[0] = '\0';
	/* The messages of earlier commands were written to the listener's socket before the answer to
	 * this PING is: what came before the pong is all there is. */
	assert_int_equal(redisAppendCommand(listener, "PING end"), REDIS_OK);
	for (;;) {
		redisReply *reply = NULL;
		assert_int_equal(redisGetReply(listener, (void **)&reply), REDIS_OK);
		bool end = reply->elements == 2 && strcmp(reply->element[0]->str, "pong") == 0;
		if (!end) {
			assert_int_equal(reply->elements, 4);
			add_heard(reply, text, sizeof(text));
		}
		freeReplyObject(reply);
		if (end)
			return text;
	}
}
