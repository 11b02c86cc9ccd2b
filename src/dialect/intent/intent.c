/* SPDX-License-Identifier: MIT */
/* The intent layout: one hash per lock with the field mode and a count per owner, a key with an expiry for
 * every read hold, and a mark by which a writer that waits keeps new readers out. docs/dialects.md says what
 * it can and cannot do.
 *
 * Invariants:
 *   - An attempt of ours is an owner, `<uuid>:<attempt>`, never used again. So a request that comes twice
 *     finds what it did the first time; a read hold whose keys have ended is gone, never granted again.
 *   - The layout knows no re-entry of a writer and no read under a write: the lock table counts those over
 *     one hold on the server. Holds of a reader are counted on the server as well.
 *   - Nobody but the waiting writer itself refreshes or removes its mark, and one that does not wait
 *     leaves none. */
#include "dialect/intent/intent.h"

#include <string.h>

#include <sneck/error.h>
#include <sneck/probe.h>
#include <sneck/sneck.h>

#include "dialect/compat.h"
#include "dialect/intent/scripts.h"
#include "dialect/rights.h"

/* The most is a part of how long a mark lasts (SNECK_WAITER_LEASE_MS). */
enum { POLL_FIRST_MS = 10, POLL_MOST_MS = 500 };

/* ---- Requests -----------------------------------------------------------------------------------*/

static void add_owner(struct compat_call *call, const struct dialect_session *session, uint64_t attempt) {
	char owner[COMPAT_OWNER_MAX + 1];

	snecki_compat_owner(session, attempt, owner);
	snecki_compat_arg(call, owner);
}

static void add_mode(struct compat_call *call, const struct lock_op *op) {
	snecki_compat_arg(call, op->mode == 'W' ? "W" : "R");
}

static enum intent_script add_acquire(struct compat_call *call, const struct lock_op *op) {
	bool waits = op->queue || op->kind == OP_BEAT; /* a beat of one who waits asks again */

	add_mode(call, op);
	snecki_compat_arg_i64(call, op->lease_ms);
	snecki_compat_arg_i64(call, waits ? op->wait_lease_ms : 0);
	snecki_compat_arg_i64(call, op->reads ? op->reads : 1);
	return INTENT_ACQUIRE;
}

/* Everything behind the owner. */
static enum intent_script add_args(
        struct compat_call *call, const struct dialect_session *session, const struct lock_op *op) {
	switch (op->kind) {
	case OP_RENEW:
		add_mode(call, op);
		snecki_compat_arg_i64(call, op->lease_ms);
		snecki_compat_arg_i64(call, op->reads);
		return INTENT_RENEW;
	case OP_RELEASE:
		add_mode(call, op);
		snecki_compat_bury(call, session, op);
		return INTENT_RELEASE;
	case OP_CANCEL:
		snecki_compat_bury(call, session, op);
		return INTENT_CANCEL;
	default:
		return add_acquire(call, op);
	}
}

/* The lock, what the names of everything beside it begin with, and the channel. That makes two different keys
 * at the least, of which one never exists: in a cluster no script begins while the slot is being moved, where
 * it would fail in the middle, at the first key that is not there any more. */
static void add_keys(
        struct compat_call *call, const struct dialect_session *session, const char *name, size_t name_len) {
	static const char *const suffixes[] = { "", "channel" };
	struct buf key = BUF_INIT, beside = BUF_INIT;

	snecki_compat_name(session, name, name_len, &key);
	snecki_compat_key(call, &key);
	for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
		snecki_buf_clear(&beside);
		if (!key.failed)
			snecki_compat_suffixed(&beside, &key, suffixes[i]);
		snecki_compat_key(call, &beside);
	}
	snecki_buf_done(&key);
	snecki_buf_done(&beside);
}

static bool can(const struct lock_op *op) {
	switch (op->kind) {
	case OP_ACQUIRE:
	case OP_BEAT:
	case OP_CANCEL:
		return op->old == 0;
	case OP_RENEW:
	case OP_RELEASE:
		return true;
	default:
		return false;
	}
}

static int encode(const struct dialect_session *session, const struct lock_op *op, const char *name,
        size_t name_len, bool full_text, struct buf *out) {
	struct compat_call call = COMPAT_CALL_INIT;

	if (!can(op))
		return SNECK_ENOTSUP;
	add_owner(&call, session, op->attempt);
	enum intent_script id = add_args(&call, session, op);
	add_keys(&call, session, name, name_len);
	return snecki_compat_send(&call, &snecki_intent_scripts[id], false, full_text, out);
}

/* ---- Messages -----------------------------------------------------------------------------------*/

static void name_beside(const struct dialect_session *session, const char *name, size_t name_len,
        const char *suffix, struct buf *out) {
	struct buf key = BUF_INIT;

	snecki_compat_name(session, name, name_len, &key);
	if (key.failed)
		out->failed = true;
	else
		snecki_compat_suffixed(out, &key, suffix);
	snecki_buf_done(&key);
}

static int lock_channel(const struct dialect_session *session, const char *name, size_t name_len,
        uint64_t attempt, struct buf *out) {
	(void)attempt;
	name_beside(session, name, name_len, "channel", out);
	return out->failed ? SNECK_ENOMEM : 0;
}

static bool ends_with(const char *payload, size_t len, const char *end) {
	size_t end_len = strlen(end);
	return len >= end_len && memcmp(payload + len - end_len, end, end_len) == 0;
}

/* `<owner>_del_read`, `<owner>_del_write`. */
static bool says_free(const char *payload, size_t len) {
	return ends_with(payload, len, "_del_read") || ends_with(payload, len, "_del_write");
}

/* ---- For people ---------------------------------------------------------------------------------*/

static int encode_inspect(const struct dialect_session *session, const char *name, size_t name_len,
        size_t most, bool full_text, struct buf *out) {
	struct compat_call call = COMPAT_CALL_INIT;

	snecki_compat_arg_i64(&call, (int64_t)most);
	add_keys(&call, session, name, name_len);
	return snecki_compat_send(&call, &snecki_intent_scripts[INTENT_INSPECT], true, full_text, out);
}

static int encode_break(const struct dialect_session *session, const char *name, size_t name_len,
        const char *id, int64_t grace_ms, const char *reason, bool full_text, struct buf *out) {
	struct compat_call call = COMPAT_CALL_INIT;

	(void)reason; /* there is no place for it */
	if (grace_ms > 0)
		return SNECK_ENOTSUP;
	snecki_compat_arg(&call, id);
	snecki_compat_arg_i64(&call, session->bury_ms);
	add_keys(&call, session, name, name_len);
	return snecki_compat_send(&call, &snecki_intent_scripts[INTENT_BREAK], false, full_text, out);
}

enum { H = 1u << SNECK_ROLE_HOLDER, V = 1u << SNECK_ROLE_VIEWER, O = 1u << SNECK_ROLE_OPERATOR };

static const struct right rows[] = {
	{ "evalsha", { "x", "1", "$k" }, H | O },
	{ "eval", { "x", "1", "$k" }, H | O },
	{ "evalsha_ro", { "x", "1", "$k" }, H | V | O },
	{ "eval_ro", { "x", "1", "$k" }, H | V | O },
	{ "time", { NULL }, H | V | O },
	{ "hlen", { "$k" }, H | V | O },
	{ "hget", { "$k", "x" }, H | V | O },
	{ "hmget", { "$k", "x" }, H | V | O },
	{ "hgetall", { "$k" }, H | V | O },
	{ "pttl", { "$r" }, H | V | O },
	{ "get", { "$r" }, H | V | O },
	{ "hkeys", { "$k" }, H | O },
	{ "hrandfield", { "$k" }, H | O },
	{ "exists", { "$r" }, H },
	{ "hset", { "$k", "x", "x" }, H },
	{ "hdel", { "$k", "x" }, H | O },
	{ "del", { "$r" }, H | O },
	{ "pexpire", { "$r", "1" }, H | O },
	{ "set", { "$r", "x" }, H | O },
	{ "publish", { "$c", "x" }, H | O },
	{ "subscribe", { "$c" }, H },
	{ "unsubscribe", { NULL }, H },
	{ "ping", { NULL }, H },
	{ "scan", { "0" }, V | O },
	{ "info", { NULL }, O },
	{ "cluster|slots", { NULL }, H | V | O | RIGHT_CLUSTER },
	{ "asking", { NULL }, H | V | O | RIGHT_CLUSTER },
};
static const struct rights rights = { rows, sizeof rows / sizeof rows[0], true };

static void needs(const struct dialect_session *session, struct sneck_probe_info *ret) {
	snecki_rights_needs(&rights, session, ret);
}

static int encode_rights(const struct dialect_session *session, bool reads_only, struct buf *out) {
	struct buf key = BUF_INIT, mark = BUF_INIT, channel = BUF_INIT;

	snecki_compat_name(session, "x", 1, &key);
	name_beside(session, "x", 1, "wait_write", &mark);
	name_beside(session, "x", 1, "channel", &channel);
	int r = snecki_rights_encode(&rights, session, &key, &mark, &channel, reads_only, out);
	snecki_buf_done(&key);
	snecki_buf_done(&mark);
	snecki_buf_done(&channel);
	return r;
}

static bool decode_rights(
        const struct dialect_session *session, const struct redisReply *reply, struct sneck_probe_info *ret) {
	return snecki_rights_decode(&rights, session, reply, ret);
}

const struct dialect snecki_intent = {
	.name = "intent",
	.traits = { .polls = true,
	        .counts = true,
	        .no_upgrade = true,
	        .no_downgrade = true,
	        .no_tokens = true,
	        .poll_first_ms = POLL_FIRST_MS,
	        .poll_most_ms = POLL_MOST_MS },
	.plain_channels = true,
	.encode = encode,
	.decode = snecki_compat_decode,
	.check_name = snecki_compat_check_name,
	.lock_channel = lock_channel,
	.says_free = says_free,
	.hold_id = snecki_compat_hold_id,
	.check_id = snecki_compat_check_id,
	.encode_inspect = encode_inspect,
	.decode_inspect = snecki_compat_decode_inspect,
	.encode_break = encode_break,
	.decode_break = snecki_compat_decode_break,
	.check_party_id = snecki_compat_check_id,
	.encode_scan = snecki_compat_encode_scan,
	.key_name = snecki_compat_key_name,
	.needs = needs,
	.encode_rights = encode_rights,
	.decode_rights = decode_rights,
};
