/* SPDX-License-Identifier: MIT */
/* What the dialects of other programs' layouts share. As in the native dialect nothing in an answer is taken
 * on trust: what does not fit is LOCK_UNKNOWN, and the caller settles it as if no answer had come.
 *
 * These layouts do not tell whether somebody waits. So every grant says that it is wanted: a lock is passed
 * on within the session only briefly, and new readers ask the server, which may know better. */
#include "dialect/compat.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <hiredis/hiredis.h>
#include <sneck/error.h>

#include "base/err.h"
#include "dialect/reply.h"
#include "topology/command_slot.h"

/* ---- Names --------------------------------------------------------------------------------------*/

int snecki_compat_name(
        const struct dialect_session *session, const char *name, size_t name_len, struct buf *out) {
	snecki_buf_add_str(out, session->prefix);
	snecki_buf_add(out, name, name_len);
	return out->failed ? SNECK_ENOMEM : 0;
}

static void add_tagged(struct buf *out, const struct buf *name) {
	bool has_tag = memchr(name->data, '{', name->len) != NULL;

	if (!has_tag)
		snecki_buf_add_str(out, "{");
	snecki_buf_add(out, name->data, name->len);
	if (!has_tag)
		snecki_buf_add_str(out, "}");
}

void snecki_compat_prefixed(struct buf *out, const char *prefix, const struct buf *name) {
	snecki_buf_add_str(out, prefix);
	snecki_buf_add_str(out, ":");
	add_tagged(out, name);
}

void snecki_compat_suffixed(struct buf *out, const struct buf *name, const char *suffix) {
	add_tagged(out, name);
	if (suffix[0])
		snecki_buf_add_str(out, ":");
	snecki_buf_add_str(out, suffix);
}

/* With a name as `a{b`, `{}x` or `a}b` the server takes the whole of each key for its tag, or a part of the
 * name that is not the whole of the other keys' tag: what the layout's other programs ask for fails as well.
 */
static bool in_one_slot(const struct buf *name) {
	struct buf before = BUF_INIT, behind = BUF_INIT;

	snecki_compat_prefixed(&before, "x", name);
	snecki_compat_suffixed(&behind, name, "x");
	bool failed = before.failed || behind.failed;
	int slot = snecki_key_slot(name->data, name->len);
	bool one = !failed && snecki_key_slot(before.data, before.len) == slot &&
	           snecki_key_slot(behind.data, behind.len) == slot;
	snecki_buf_done(&before);
	snecki_buf_done(&behind);
	return one || failed; /* without memory the request itself will say so */
}

int snecki_compat_check_name(const struct dialect_session *session, const char *name, size_t name_len,
        struct sneck_error *reterr) {
	struct buf full = BUF_INIT;

	if (!session->sharded)
		return 0;
	int r = snecki_compat_name(session, name, name_len, &full);
	if (r < 0)
		snecki_err(reterr, r, "out of memory");
	else if (!in_one_slot(&full))
		r = snecki_err(reterr, SNECK_EINVAL,
		        "in a cluster the keys of this lock would lie in different slots: its braces are "
		        "unpaired or empty; use a name without braces, or with a tag as in {orders}:7");
	snecki_buf_done(&full);
	return r;
}

void snecki_compat_owner(
        const struct dialect_session *session, uint64_t attempt, char ret_owner[COMPAT_OWNER_MAX + 1]) {
	snprintf(ret_owner, COMPAT_OWNER_MAX + 1, "%.36s:%" PRIu64, session->uuid, attempt);
}

/* ---- Calls --------------------------------------------------------------------------------------*/

void snecki_compat_key(struct compat_call *call, const struct buf *key) {
	snecki_buf_resp_bulk(&call->keys, key->data, key->len);
	call->keys.failed = call->keys.failed || key->failed;
	call->keys_n++;
}

void snecki_compat_arg(struct compat_call *call, const char *text) {
	snecki_buf_resp_str(&call->args, text);
	call->args_n++;
}

void snecki_compat_arg_i64(struct compat_call *call, int64_t number) {
	snecki_buf_resp_i64(&call->args, number);
	call->args_n++;
}

void snecki_compat_bury(
        struct compat_call *call, const struct dialect_session *session, const struct lock_op *op) {
	char owner[COMPAT_OWNER_MAX + 1];

	snecki_compat_arg_i64(call, session->bury_ms);
	for (size_t i = 0; i < op->bury_n; i++) {
		snecki_compat_owner(session, op->bury[i], owner);
		snecki_compat_arg(call, owner);
	}
}

int snecki_compat_send(struct compat_call *call, const struct script *script, bool reads_only, bool full_text,
        struct buf *out) {
	snecki_buf_resp_array(out, 3 + call->keys_n + call->args_n);
	snecki_script_words(out, script, reads_only, full_text);
	snecki_buf_resp_u64(out, call->keys_n);
	snecki_buf_add(out, call->keys.data, call->keys.len);
	snecki_buf_add(out, call->args.data, call->args.len);
	bool failed = out->failed || call->keys.failed || call->args.failed;
	snecki_buf_done(&call->keys);
	snecki_buf_done(&call->args);
	return failed ? SNECK_ENOMEM : 0;
}

/* ---- Answers ------------------------------------------------------------------------------------*/

enum { FIELD_WORD, FIELD_TIME, FIELD_OWNER, FIELD_TOKEN, FIELD_LEFT, FIELD_HOLDER, FIELD_VERDICT, FIELDS };

#define OP(kind) (1u << (kind))

static const struct word_row {
	const char *word;
	enum lock_status status;
	unsigned ops;
} words[] = {
	{ "granted", LOCK_GRANTED,
	        OP(OP_ACQUIRE) | OP(OP_BEAT) | OP(OP_RENEW) | OP(OP_UPGRADE) | OP(OP_DOWNGRADE) },
	{ "waiting", LOCK_WAITING, OP(OP_ACQUIRE) | OP(OP_BEAT) | OP(OP_UPGRADE) },
	{ "busy", LOCK_BUSY, OP(OP_ACQUIRE) | OP(OP_UPGRADE) },
	{ "deadlock", LOCK_DEADLOCK, OP(OP_UPGRADE) | OP(OP_BEAT) },
	{ "gone", LOCK_GONE,
	        OP(OP_ACQUIRE) | OP(OP_BEAT) | OP(OP_RELEASE) | OP(OP_RENEW) | OP(OP_UPGRADE) |
	                OP(OP_DOWNGRADE) | OP(OP_CANCEL) },
	{ "buried", LOCK_BURIED, OP(OP_ACQUIRE) | OP(OP_BEAT) | OP(OP_UPGRADE) | OP(OP_DOWNGRADE) },
	{ "done", LOCK_DONE, OP(OP_RELEASE) | OP(OP_CANCEL) },
};

static const struct word_row *find_word(const redisReply *field, enum lock_op_kind kind) {
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (snecki_reply_is(field, words[i].word))
			return words[i].ops & OP(kind) ? &words[i] : NULL;
	return NULL;
}

/* Owners are other programs' to choose: shown as far as they fit and can be printed. */
static bool read_holder(const redisReply *field, struct lock_outcome *ret) {
	if (field->type != REDIS_REPLY_STRING || !field->str)
		return false;
	size_t len = (size_t)field->len;
	if (len == 0)
		return true;
	if (field->str[0] != 'R' && field->str[0] != 'W')
		return false;
	ret->holder_mode = field->str[0];
	if (len - 1 >= sizeof ret->holder)
		len = sizeof ret->holder;
	for (size_t i = 1; i < len; i++)
		ret->holder[i - 1] = field->str[i] <= ' ' || field->str[i] > '~' ? '?' : field->str[i];
	ret->holder[len - 1] = '\0';
	return true;
}

static bool read_fields(
        const char *owner, const struct lock_op *op, const redisReply *reply, struct lock_outcome *ret) {
	int64_t left_ms;

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != FIELDS)
		return false;
	redisReply *const *field = reply->element;
	const struct word_row *row = find_word(field[FIELD_WORD], op->kind);
	if (!row || !snecki_reply_is(field[FIELD_OWNER], owner) ||
	        !snecki_reply_i64(field[FIELD_TIME], &ret->server_us) ||
	        !snecki_reply_u64_text(field[FIELD_TOKEN], &ret->token) ||
	        !snecki_reply_i64(field[FIELD_LEFT], &left_ms) || !read_holder(field[FIELD_HOLDER], ret))
		return false;
	if (row->status == LOCK_GRANTED && left_ms == 0)
		return false;
	int64_t now_ms = ret->server_us / 1000;
	ret->status = row->status;
	switch (row->status) {
	case LOCK_GRANTED:
		ret->wanted = true;
		ret->deadline_ms = now_ms + left_ms;
		break;
	case LOCK_WAITING:
	case LOCK_BUSY:
		ret->holder_deadline_ms = left_ms ? now_ms + left_ms : 0;
		break;
	default:
		ret->released_grant = left_ms != 0;
	}
	return true;
}

void snecki_compat_decode_as(const char *owner, const struct lock_op *op, const struct redisReply *reply,
        struct lock_outcome *ret, struct sneck_error *reterr) {
	memset(ret, 0, sizeof *ret);
	ret->status = LOCK_UNKNOWN;
	if (!reply)
		return;
	if (reply->type == REDIS_REPLY_ERROR && reply->str) {
		snecki_reply_error(reply, ret, reterr);
	} else if (!read_fields(owner, op, reply, ret)) {
		memset(ret, 0, sizeof *ret);
		ret->status = LOCK_UNKNOWN;
	}
}

void snecki_compat_decode(const struct dialect_session *session, const struct lock_op *op,
        const struct redisReply *reply, struct lock_outcome *ret, struct sneck_error *reterr) {
	char owner[COMPAT_OWNER_MAX + 1];

	snecki_compat_owner(session, op->attempt, owner);
	snecki_compat_decode_as(owner, op, reply, ret, reterr);
}

void snecki_compat_hold_id(
        const struct dialect_session *session, char mode, uint64_t attempt, char ret_id[LOCK_ID_MAX]) {
	char owner[COMPAT_OWNER_MAX + 1];

	snecki_compat_owner(session, attempt, owner);
	snprintf(ret_id, LOCK_ID_MAX, "%c%s", mode, owner);
}

bool snecki_compat_check_id(const char *id) {
	if (id[0] != 'R' && id[0] != 'W')
		return false;
	for (const char *at = id + 1; *at; at++)
		if (*at <= ' ' || *at > '~')
			return false;
	return id[1] != '\0';
}
