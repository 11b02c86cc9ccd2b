/* SPDX-License-Identifier: MIT */
/* The native dialect's replies.
 *
 * A reply decides whether the program believes that it holds a lock, so nothing in it is taken on
 * trust: type and number of elements, the range of each number, the echo of the attempt, and
 * whether the operation can have this result at all. What does not fit is LOCK_UNKNOWN: the request
 * may have been executed, and the caller settles it as it does when no answer came.
 *
 * An error reply is LOCK_FAILED only where it is sure that nothing was executed. The scripts read and
 * check before they write, so a key of a wrong type is always seen before the first write. */
#include "dialect/native/native.h"

#include <string.h>

#include <hiredis/hiredis.h>
#include <sneck/error.h>

#include "base/err.h"
#include "dialect/reply.h"

enum { FIELDS = 6 };
enum { FLAG_MORE = 1, FLAG_WANTED = 2, FLAG_RELEASED = 4, FLAGS_ALL = 7 };

#define OP(kind) (1u << (kind))

/* What follows the six fields that every reply has. */
enum tail {
	TAIL_NONE = 0,
	TAIL_REASON,  /* who broke it and why, and how long it is kept */
	TAIL_BLOCKED, /* how many are ahead, and who stands in the way */
};
enum { TAIL_FIELDS = 2 };

/* Which operations can answer with which word. */
static const struct status_row {
	const char *word;
	enum lock_status status;
	enum tail tail;
	unsigned ops;
} status_rows[] = {
	{ "granted", LOCK_GRANTED, TAIL_NONE,
	        OP(OP_ACQUIRE) | OP(OP_BEAT) | OP(OP_RENEW) | OP(OP_UPGRADE) | OP(OP_DOWNGRADE) |
	                OP(OP_RENAME) | OP(OP_LINGER) },
	{ "waiting", LOCK_WAITING, TAIL_BLOCKED, OP(OP_ACQUIRE) | OP(OP_BEAT) | OP(OP_UPGRADE) },
	{ "busy", LOCK_BUSY, TAIL_BLOCKED, OP(OP_ACQUIRE) | OP(OP_UPGRADE) | OP(OP_RENAME) },
	{ "deadlock", LOCK_DEADLOCK, TAIL_BLOCKED, OP(OP_UPGRADE) },
	{ "gone", LOCK_GONE, TAIL_NONE,
	        OP(OP_ACQUIRE) | OP(OP_BEAT) | OP(OP_RELEASE) | OP(OP_RENEW) | OP(OP_UPGRADE) |
	                OP(OP_DOWNGRADE) | OP(OP_CANCEL) | OP(OP_RENAME) | OP(OP_LINGER) },
	{ "broken", LOCK_BROKEN, TAIL_REASON,
	        OP(OP_ACQUIRE) | OP(OP_BEAT) | OP(OP_RELEASE) | OP(OP_RENEW) | OP(OP_UPGRADE) |
	                OP(OP_DOWNGRADE) | OP(OP_RENAME) | OP(OP_LINGER) },
	{ "buried", LOCK_BURIED, TAIL_NONE,
	        OP(OP_ACQUIRE) | OP(OP_UPGRADE) | OP(OP_DOWNGRADE) | OP(OP_RENAME) },
	{ "done", LOCK_DONE, TAIL_NONE, OP(OP_RELEASE) | OP(OP_CANCEL) | OP(OP_ADVANCE) },
};

static bool read_integer(const redisReply *field, int64_t max, int64_t *ret) {
	if (field->type != REDIS_REPLY_INTEGER || field->integer < 0 || field->integer > max)
		return false;
	*ret = field->integer;
	return true;
}

static const struct status_row *find_status(const redisReply *field, enum lock_op_kind kind) {
	for (size_t i = 0; i < sizeof(status_rows) / sizeof(status_rows[0]); i++) {
		if (snecki_reply_is(field, status_rows[i].word))
			return status_rows[i].ops & OP(kind) ? &status_rows[i] : NULL;
	}
	return NULL;
}

/* Empty, or the mode letter and the session. */
static bool read_holder(const redisReply *field, struct lock_outcome *ret) {
	if (field->type != REDIS_REPLY_STRING || !field->str)
		return false;
	size_t len = (size_t)field->len;
	if (len == 0)
		return true;
	if ((field->str[0] != 'R' && field->str[0] != 'W') || len - 1 >= sizeof(ret->holder))
		return false;
	for (size_t i = 1; i < len; i++) {
		if (field->str[i] <= ' ' || field->str[i] > '~')
			return false;
	}
	ret->holder_mode = field->str[0];
	memcpy(ret->holder, field->str + 1, len - 1);
	ret->holder[len - 1] = '\0';
	return true;
}

/* Whoever may write to the server may have written this: it is cut to fit, and ends at a NUL. */
static bool read_reason(const redisReply *field, struct sneck_error *reterr) {
	if (field->type != REDIS_REPLY_STRING || !field->str)
		return false;
	snecki_err(reterr, SNECK_EBROKEN, "%.*s", (int)strnlen(field->str, (size_t)field->len), field->str);
	return true;
}

static bool read_fields(const struct dialect_session *session, const struct lock_op *op,
        const redisReply *reply, struct lock_outcome *ret, struct sneck_error *reterr) {
	char attempt[NATIVE_ATTEMPT_MAX + 1];
	int64_t deadline_ms, flags, ahead = 0;

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements < FIELDS)
		return false;
	redisReply *const *field = reply->element;
	const struct status_row *row = find_status(field[0], op->kind);
	if (!row || reply->elements != FIELDS + (row->tail == TAIL_NONE ? 0 : TAIL_FIELDS))
		return false;
	snecki_native_attempt(session->id, op->attempt, attempt);
	if (!read_integer(field[1], REPLY_NUMBER_MAX, &ret->server_us) ||
	        !snecki_reply_is(field[2], attempt) ||
	        !read_integer(field[4], REPLY_NUMBER_MAX, &deadline_ms) ||
	        !read_integer(field[5], FLAGS_ALL, &flags))
		return false;
	if (field[3]->type != REDIS_REPLY_STRING || !field[3]->str ||
	        !snecki_native_number(field[3]->str, (size_t)field[3]->len, 10, &ret->token) ||
	        ret->token > (uint64_t)REPLY_NUMBER_MAX)
		return false;
	if (row->tail == TAIL_BLOCKED &&
	        (!read_integer(field[6], UINT32_MAX, &ahead) || !read_holder(field[7], ret)))
		return false;
	if (row->tail == TAIL_REASON &&
	        (!read_integer(field[7], REPLY_NUMBER_MAX, &ret->kept_ms) || !read_reason(field[6], reterr)))
		return false;
	if (row->status == LOCK_GRANTED && (deadline_ms == 0 || ret->token == 0))
		return false;

	ret->status = row->status;
	ret->more = flags & FLAG_MORE;
	ret->wanted = flags & FLAG_WANTED;
	ret->released_grant = flags & FLAG_RELEASED;
	ret->ahead = (uint32_t)ahead;
	if (row->tail == TAIL_BLOCKED)
		ret->holder_deadline_ms = deadline_ms;
	else
		ret->deadline_ms = deadline_ms;
	return true;
}

/* The two answers that are given most: nobody else was there. A free lock was taken: the hold id, and the
 * server's time, which is the token too. It was given back: the hold id alone. */
static bool read_short(const struct dialect_session *session, const struct lock_op *op,
        const redisReply *reply, struct lock_outcome *ret) {
	char id[LOCK_ID_MAX];
	size_t len = (size_t)reply->len;

	snecki_native.hold_id(session, op->mode, op->attempt, id);
	size_t id_len = strlen(id);
	if (!reply->str || len < id_len || memcmp(reply->str, id, id_len) != 0)
		return false;
	if (op->kind == OP_RELEASE && len == id_len) {
		ret->status = LOCK_DONE;
		return true;
	}
	if (op->kind != OP_ACQUIRE || len <= id_len + 1 || reply->str[id_len] != ' ' ||
	        !snecki_native_number(reply->str + id_len + 1, len - id_len - 1, 10, &ret->token) ||
	        ret->token == 0 || ret->token > (uint64_t)REPLY_NUMBER_MAX)
		return false;
	ret->status = LOCK_GRANTED;
	ret->server_us = (int64_t)ret->token;
	ret->deadline_ms = ret->server_us / 1000 + op->lease_ms;
	return true;
}

static bool read_answer(const struct dialect_session *session, const struct lock_op *op,
        const redisReply *reply, struct lock_outcome *ret, struct sneck_error *reterr) {
	if (reply->type == REDIS_REPLY_STRING)
		return read_short(session, op, reply, ret);
	return read_fields(session, op, reply, ret, reterr);
}

void snecki_native_decode(const struct dialect_session *session, const struct lock_op *op,
        const struct redisReply *reply, struct lock_outcome *ret, struct sneck_error *reterr) {
	memset(ret, 0, sizeof(*ret));
	ret->status = LOCK_UNKNOWN;
	if (!reply)
		return;
	if (reply->type == REDIS_REPLY_ERROR && reply->str) {
		snecki_reply_error(reply, ret, reterr);
	} else if (!read_answer(session, op, reply, ret, reterr)) {
		memset(ret, 0, sizeof(*ret));
		ret->status = LOCK_UNKNOWN;
	}
}
