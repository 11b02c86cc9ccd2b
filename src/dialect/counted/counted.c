/* SPDX-License-Identifier: MIT */
/* The counted layout: one hash per lock, named as the lock, with the fields mode, rcount, r:<owner>, writer
 * and wcount, and one expiry for all of it. docs/dialects.md says what it can and cannot do.
 *
 * Invariants:
 *   - An owner is a UUID, and an attempt of ours is an owner: the session's UUID with the attempt's number
 *     in its last eight bytes. So a request that comes twice finds what it did the first time.
 *   - Nothing is added to the hash. What the layout has no place for lives beside it under the same hash
 *     tag, and ends by itself: the graves of abandoned owners, the mark of a reader that waits to write.
 *   - The document knows no message. Our releases publish a hint all the same; whoever does not hear it
 *     asks again after a pause. */
#include "dialect/counted/counted.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sneck/error.h>
#include <sneck/probe.h>
#include <sneck/sneck.h>

#include "dialect/compat.h"
#include "dialect/counted/scripts.h"
#include "dialect/rights.h"

enum { POLL_FIRST_MS = 5, POLL_MOST_MS = 250 };

/* The last eight bytes of a UUID's text are "vnnn-nnnnnnnnnnnn". Attempts stay below 2^62, so the two bits
 * that say which kind of UUID it is are not touched. */
void snecki_counted_owner(
        const struct dialect_session *session, uint64_t attempt, char ret_owner[COUNTED_OWNER_MAX + 1]) {
	char tail[17];

	assert(attempt < UINT64_C(1) << 62 && strlen(session->uuid) == COUNTED_OWNER_MAX);
	memcpy(tail, session->uuid + 19, 4);
	memcpy(tail + 4, session->uuid + 24, 12);
	tail[16] = '\0';
	uint64_t mixed = strtoull(tail, NULL, 16) ^ attempt;
	snprintf(ret_owner, COUNTED_OWNER_MAX + 1, "%.19s%04" PRIx64 "-%012" PRIx64, session->uuid,
	        mixed >> 48, mixed & UINT64_C(0xffffffffffff));
}

/* ---- Requests -----------------------------------------------------------------------------------*/

static void add_owner(struct compat_call *call, const struct dialect_session *session, uint64_t attempt) {
	char owner[COUNTED_OWNER_MAX + 1];

	snecki_counted_owner(session, attempt, owner);
	snecki_compat_arg(call, owner);
}

static void add_owners(
        struct compat_call *call, const struct dialect_session *session, const uint64_t *list, size_t n) {
	for (size_t i = 0; i < n; i++)
		add_owner(call, session, list[i]);
}

static void add_mode(struct compat_call *call, const struct lock_op *op) {
	snecki_compat_arg(call, op->mode == 'W' ? "W" : "R");
}

/* A beat of one who waits asks again, as one who waits. */
static bool waits(const struct lock_op *op) {
	return op->queue || op->kind == OP_BEAT;
}

static enum counted_script add_acquire(
        struct compat_call *call, const struct dialect_session *session, const struct lock_op *op) {
	uint32_t holds = op->mode == 'W' ? op->writes : op->reads;

	add_mode(call, op);
	snecki_compat_arg_i64(call, op->lease_ms);
	snecki_compat_arg(call, waits(op) ? "1" : "0");
	snecki_compat_arg_i64(call, holds ? holds : 1);
	add_owners(call, session, op->own, op->own_n);
	return COUNTED_ACQUIRE;
}

static enum counted_script add_upgrade(
        struct compat_call *call, const struct dialect_session *session, const struct lock_op *op) {
	snecki_compat_arg_i64(call, op->lease_ms);
	snecki_compat_arg(call, waits(op) ? "1" : "0");
	add_owner(call, session, op->old);
	snecki_compat_arg_i64(call, op->wait_lease_ms);
	add_owners(call, session, op->own, op->own_n);
	return COUNTED_UPGRADE;
}

static enum counted_script add_downgrade(
        struct compat_call *call, const struct dialect_session *session, const struct lock_op *op) {
	snecki_compat_arg_i64(call, op->lease_ms);
	add_owner(call, session, op->old);
	snecki_compat_arg_i64(call, op->reads ? op->reads : 1);
	return COUNTED_DOWNGRADE;
}

static enum counted_script add_renew(struct compat_call *call, const struct lock_op *op) {
	add_mode(call, op);
	snecki_compat_arg_i64(call, op->lease_ms);
	snecki_compat_arg_i64(call, op->reads);
	snecki_compat_arg_i64(call, op->writes);
	return COUNTED_RENEW;
}

static enum counted_script add_release(
        struct compat_call *call, const struct dialect_session *session, const struct lock_op *op) {
	snecki_compat_arg_i64(call, session->bury_ms);
	add_owners(call, session, op->bury, op->bury_n);
	return COUNTED_RELEASE;
}

static enum counted_script add_cancel(
        struct compat_call *call, const struct dialect_session *session, const struct lock_op *op) {
	snecki_compat_arg_i64(call, session->bury_ms);
	if (op->old)
		add_owner(call, session, op->old);
	else
		snecki_compat_arg(call, "");
	add_owners(call, session, op->bury, op->bury_n);
	return COUNTED_CANCEL;
}

/* Everything behind the owner; COUNTED_SCRIPTS: the layout has no place for this. */
static enum counted_script add_args(
        struct compat_call *call, const struct dialect_session *session, const struct lock_op *op) {
	switch (op->kind) {
	case OP_ACQUIRE:
		return add_acquire(call, session, op);
	case OP_BEAT:
		return op->old ? add_upgrade(call, session, op) : add_acquire(call, session, op);
	case OP_UPGRADE:
		return add_upgrade(call, session, op);
	case OP_DOWNGRADE:
		return add_downgrade(call, session, op);
	case OP_RENEW:
		return add_renew(call, op);
	case OP_RELEASE:
		return add_release(call, session, op);
	case OP_CANCEL:
		return add_cancel(call, session, op);
	case OP_ADVANCE:
	case OP_RENAME:
	case OP_LINGER:
	case OP_KINDS:
		break;
	}
	return COUNTED_SCRIPTS;
}

enum { KEY_LOCK, KEY_GRAVES, KEY_CHANNEL, KEY_UPGRADER, KEYS };

/* The lock and what lies beside it. The channel is among them for the sake of its hash tag. */
static void make_keys(
        const struct dialect_session *session, const char *name, size_t name_len, struct buf keys[KEYS]) {
	snecki_compat_name(session, name, name_len, &keys[KEY_LOCK]);
	if (keys[KEY_LOCK].failed)
		return;
	snecki_compat_suffixed(&keys[KEY_GRAVES], &keys[KEY_LOCK], "sneck_buried");
	snecki_compat_suffixed(&keys[KEY_CHANNEL], &keys[KEY_LOCK], "sneck_hint");
	snecki_compat_suffixed(&keys[KEY_UPGRADER], &keys[KEY_LOCK], "sneck_upgrader");
}

static void add_keys(struct compat_call *call, const struct dialect_session *session, const char *name,
        size_t name_len, size_t n) {
	struct buf keys[KEYS] = { BUF_INIT, BUF_INIT, BUF_INIT, BUF_INIT };

	make_keys(session, name, name_len, keys);
	for (size_t i = 0; i < KEYS; i++) {
		if (i < n)
			snecki_compat_key(call, &keys[i]);
		snecki_buf_done(&keys[i]);
	}
}

static int encode(const struct dialect_session *session, const struct lock_op *op, const char *name,
        size_t name_len, bool full_text, struct buf *out) {
	struct compat_call call = COMPAT_CALL_INIT;

	if (op->kind == OP_RENAME || op->kind == OP_ADVANCE || op->kind == OP_LINGER)
		return SNECK_ENOTSUP;
	add_owner(&call, session, op->attempt);
	enum counted_script id = add_args(&call, session, op);
	assert(id < COUNTED_SCRIPTS);
	add_keys(&call, session, name, name_len, KEYS);
	return snecki_compat_send(&call, &snecki_counted_scripts[id], false, full_text, out);
}

static void decode(const struct dialect_session *session, const struct lock_op *op,
        const struct redisReply *reply, struct lock_outcome *ret, struct sneck_error *reterr) {
	char owner[COUNTED_OWNER_MAX + 1];

	snecki_counted_owner(session, op->attempt, owner);
	snecki_compat_decode_as(owner, op, reply, ret, reterr);
}

static void hold_id(
        const struct dialect_session *session, char mode, uint64_t attempt, char ret_id[LOCK_ID_MAX]) {
	ret_id[0] = mode;
	snecki_counted_owner(session, attempt, ret_id + 1);
}

/* ---- Messages -----------------------------------------------------------------------------------*/

static int lock_channel(const struct dialect_session *session, const char *name, size_t name_len,
        uint64_t attempt, struct buf *out) {
	struct buf keys[KEYS] = { BUF_INIT, BUF_INIT, BUF_INIT, BUF_INIT };
	bool failed = false;

	(void)attempt;
	make_keys(session, name, name_len, keys);
	snecki_buf_add(out, keys[KEY_CHANNEL].data, keys[KEY_CHANNEL].len);
	for (size_t i = 0; i < KEYS; i++) {
		failed = failed || keys[i].failed;
		snecki_buf_done(&keys[i]);
	}
	return failed || out->failed ? SNECK_ENOMEM : 0;
}

static bool says_free(const char *payload, size_t len) {
	return len == 4 && memcmp(payload, "free", 4) == 0;
}

/* ---- For people ---------------------------------------------------------------------------------*/

static int encode_inspect(const struct dialect_session *session, const char *name, size_t name_len,
        size_t most, bool full_text, struct buf *out) {
	struct compat_call call = COMPAT_CALL_INIT;

	snecki_compat_arg_i64(&call, (int64_t)most);
	add_keys(&call, session, name, name_len, 1);
	return snecki_compat_send(&call, &snecki_counted_scripts[COUNTED_INSPECT], true, full_text, out);
}

static int encode_break(const struct dialect_session *session, const char *name, size_t name_len,
        const char *id, int64_t grace_ms, const char *reason, bool full_text, struct buf *out) {
	struct compat_call call = COMPAT_CALL_INIT;

	(void)reason; /* there is no place for it */
	if (grace_ms > 0)
		return SNECK_ENOTSUP;
	snecki_compat_arg(&call, id);
	snecki_compat_arg_i64(&call, session->bury_ms);
	add_keys(&call, session, name, name_len, KEY_CHANNEL + 1);
	return snecki_compat_send(&call, &snecki_counted_scripts[COUNTED_BREAK], false, full_text, out);
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
	{ "pttl", { "$k" }, H | V | O },
	{ "hset", { "$k", "x", "x" }, H | O },
	{ "hdel", { "$k", "x" }, H | O },
	{ "del", { "$k" }, H | O },
	{ "pexpire", { "$k", "1" }, H },
	{ "exists", { "$r" }, H },
	{ "get", { "$r" }, H },
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
	struct buf keys[KEYS] = { BUF_INIT, BUF_INIT, BUF_INIT, BUF_INIT };

	make_keys(session, "x", 1, keys);
	int r = snecki_rights_encode(
	        &rights, session, &keys[KEY_LOCK], &keys[KEY_GRAVES], &keys[KEY_CHANNEL], reads_only, out);
	for (size_t i = 0; i < KEYS; i++)
		snecki_buf_done(&keys[i]);
	return r;
}

static bool decode_rights(
        const struct dialect_session *session, const struct redisReply *reply, struct sneck_probe_info *ret) {
	return snecki_rights_decode(&rights, session, reply, ret);
}

const struct dialect snecki_counted = {
	.name = "counted",
	.traits = { .polls = true,
	        .counts = true,
	        .no_tokens = true,
	        .poll_first_ms = POLL_FIRST_MS,
	        .poll_most_ms = POLL_MOST_MS },
	.plain_channels = true,
	.encode = encode,
	.decode = decode,
	.check_name = snecki_compat_check_name,
	.lock_channel = lock_channel,
	.says_free = says_free,
	.hold_id = hold_id,
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
