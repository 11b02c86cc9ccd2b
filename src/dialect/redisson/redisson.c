/* SPDX-License-Identifier: MIT */
/* Redisson's locks: the names of their keys and channels, and the requests.
 *
 * A name does not tell which of Redisson's objects it is, and a wrong guess would mean no exclusion, so each
 * object is a dialect. They differ in a table: the channel's prefix, the keys behind the first three, and
 * the scripts. Every script has the lock, `{lock}` (the beginning of all keys beside it) and the channel as
 * its first keys, and the same arguments per operation, so that there is one encoder.
 *
 * Invariants:
 *   - Keys, fields, channels and payloads are those of Redisson 4, and no field is added to its hash: its
 *     own scripts count fields. Ours alone is `{lock}:sneck_buried:<owner>`.
 *   - An attempt is an owner `<uuid>:<attempt>`, which to Redisson is a thread that holds the lock once or
 *     more and never comes back. So a request that is sent twice changes nothing twice. */
#include "dialect/redisson/redisson.h"

#include <assert.h>

#include <sneck/error.h>

#include "dialect/compat.h"
#include "dialect/redisson/scripts.h"

enum { EXTRA_MAX = 2 };
#define NO_SCRIPT REDISSON_SCRIPTS

struct object {
	const char *channel;          /* prefix */
	bool own_channels;            /* each waiter has one, with its owner at the end */
	const char *extra[EXTRA_MAX]; /* prefixes of further keys */
	enum redisson_script acquire, release, renew, downgrade, inspect, break_;
};

static const struct object lock = {
	.channel = "redisson_lock__channel",
	.acquire = REDISSON_MUTEX_ACQUIRE,
	.release = REDISSON_MUTEX_RELEASE,
	.renew = REDISSON_MUTEX_RENEW,
	.downgrade = NO_SCRIPT,
	.inspect = REDISSON_MUTEX_INSPECT,
	.break_ = REDISSON_MUTEX_BREAK,
};

static const struct object rwlock = {
	.channel = "redisson_rwlock",
	.acquire = REDISSON_RW_ACQUIRE,
	.release = REDISSON_RW_RELEASE,
	.renew = REDISSON_RW_RENEW,
	.downgrade = REDISSON_RW_DOWNGRADE,
	.inspect = REDISSON_RW_INSPECT,
	.break_ = REDISSON_RW_BREAK,
};

static const struct object fenced = {
	.channel = "redisson_lock__channel",
	.extra = { "redisson_lock_token" },
	.acquire = REDISSON_MUTEX_ACQUIRE,
	.release = REDISSON_MUTEX_RELEASE,
	.renew = REDISSON_MUTEX_RENEW,
	.downgrade = NO_SCRIPT,
	.inspect = REDISSON_MUTEX_INSPECT,
	.break_ = REDISSON_MUTEX_BREAK,
};

static const struct object fair = {
	.channel = "redisson_lock__channel",
	.own_channels = true,
	.extra = { "redisson_lock_queue", "redisson_lock_timeout" },
	.acquire = REDISSON_FAIR_ACQUIRE,
	.release = REDISSON_FAIR_RELEASE,
	.renew = REDISSON_MUTEX_RENEW,
	.downgrade = NO_SCRIPT,
	.inspect = REDISSON_FAIR_INSPECT,
	.break_ = REDISSON_FAIR_BREAK,
};

/* ---- Requests -----------------------------------------------------------------------------------*/

static void add_keys(struct compat_call *call, const struct object *object, const struct buf *name) {
	struct buf key = BUF_INIT;

	snecki_compat_key(call, name);
	snecki_compat_suffixed(&key, name, "");
	snecki_compat_key(call, &key);
	snecki_buf_clear(&key);
	snecki_compat_prefixed(&key, object->channel, name);
	snecki_compat_key(call, &key);
	for (int i = 0; i < EXTRA_MAX && object->extra[i]; i++) {
		snecki_buf_clear(&key);
		snecki_compat_prefixed(&key, object->extra[i], name);
		snecki_compat_key(call, &key);
	}
	call->keys.failed = call->keys.failed || key.failed;
	snecki_buf_done(&key);
}

static int begin(struct compat_call *call, const struct dialect_session *session, const struct object *object,
        const char *name, size_t name_len) {
	struct buf full = BUF_INIT;
	int r = snecki_compat_name(session, name, name_len, &full);

	if (r == 0)
		add_keys(call, object, &full);
	snecki_buf_done(&full);
	return r;
}

static void add_owner(struct compat_call *call, const struct dialect_session *session, uint64_t attempt) {
	char owner[COMPAT_OWNER_MAX + 1];

	snecki_compat_owner(session, attempt, owner);
	snecki_compat_arg(call, owner);
}

/* What to publish with comes first. Redisson's choice by itself (sharded subscription mode AUTO) is the
 * same: sharded channels in a cluster, plain ones elsewhere. */
static int begin_publishing(struct compat_call *call, const struct dialect_session *session,
        const struct object *object, const char *name, size_t name_len) {
	snecki_compat_arg(call, session->sharded ? "SPUBLISH" : "PUBLISH");
	return begin(call, session, object, name, name_len);
}

static void add_head(
        struct compat_call *call, const struct dialect_session *session, const struct lock_op *op) {
	add_owner(call, session, op->attempt);
	snecki_compat_arg(call, op->mode == 'W' ? "W" : "R");
}

static void add_acquire(
        struct compat_call *call, const struct dialect_session *session, const struct lock_op *op) {
	add_head(call, session, op);
	snecki_compat_arg_i64(call, op->lease_ms);
	/* A beat is the question of one who waits already. */
	snecki_compat_arg(call, op->queue || op->kind == OP_BEAT ? "1" : "0");
}

static void add_release(
        struct compat_call *call, const struct dialect_session *session, const struct lock_op *op) {
	add_head(call, session, op);
	snecki_compat_arg(call, op->kind == OP_CANCEL ? "cancel" : "release");
	snecki_compat_bury(call, session, op);
}

static void add_renew(
        struct compat_call *call, const struct dialect_session *session, const struct lock_op *op) {
	add_head(call, session, op);
	snecki_compat_arg_i64(call, op->lease_ms);
	snecki_compat_arg_i64(call, op->reads);
	snecki_compat_arg_i64(call, op->writes);
}

static void add_downgrade(
        struct compat_call *call, const struct dialect_session *session, const struct lock_op *op) {
	add_owner(call, session, op->attempt);
	add_owner(call, session, op->old);
	snecki_compat_arg_i64(call, op->lease_ms);
	snecki_compat_arg_i64(call, op->reads);
}

/* The script of an operation, and its arguments. */
static enum redisson_script add_op(struct compat_call *call, const struct object *object,
        const struct dialect_session *session, const struct lock_op *op) {
	switch (op->kind) {
	case OP_ACQUIRE:
	case OP_BEAT:
		add_acquire(call, session, op);
		return op->old ? NO_SCRIPT : object->acquire;
	case OP_RELEASE:
	case OP_CANCEL:
		add_release(call, session, op);
		return op->old ? NO_SCRIPT : object->release;
	case OP_RENEW:
		add_renew(call, session, op);
		return object->renew;
	case OP_DOWNGRADE:
		add_downgrade(call, session, op);
		return object->downgrade;
	case OP_UPGRADE: /* would wait for itself for ever, as in Redisson */
	case OP_ADVANCE:
	case OP_RENAME:
	case OP_LINGER:
	case OP_KINDS:
		break;
	}
	return NO_SCRIPT;
}

static int send_or_drop(struct compat_call *call, enum redisson_script script, bool reads_only,
        bool full_text, struct buf *out) {
	if (script != NO_SCRIPT)
		return snecki_compat_send(call, &snecki_redisson_scripts[script], reads_only, full_text, out);
	snecki_buf_done(&call->keys);
	snecki_buf_done(&call->args);
	return SNECK_ENOTSUP;
}

static int encode(const struct object *object, const struct dialect_session *session,
        const struct lock_op *op, const char *name, size_t name_len, bool full_text, struct buf *out) {
	struct compat_call call = COMPAT_CALL_INIT;
	int r = begin_publishing(&call, session, object, name, name_len);

	assert(op->bury_n <= LOCK_BURY_MAX);
	enum redisson_script script = add_op(&call, object, session, op);
	int sent = send_or_drop(&call, script, false, full_text, out);
	return r < 0 ? r : sent;
}

static int encode_inspect(const struct object *object, const struct dialect_session *session,
        const char *name, size_t name_len, size_t most, bool full_text, struct buf *out) {
	struct compat_call call = COMPAT_CALL_INIT;
	int r = begin(&call, session, object, name, name_len);

	snecki_compat_arg_i64(&call, (int64_t)most);
	int sent = send_or_drop(&call, object->inspect, true, full_text, out);
	return r < 0 ? r : sent;
}

/* An id is mode letter and owner; the layout has no place for a grace or a reason. */
static int encode_break(const struct object *object, const struct dialect_session *session, const char *name,
        size_t name_len, const char *id, bool full_text, struct buf *out) {
	struct compat_call call = COMPAT_CALL_INIT;
	int r = begin_publishing(&call, session, object, name, name_len);

	snecki_compat_arg(&call, id + 1);
	int sent = send_or_drop(&call, object->break_, false, full_text, out);
	return r < 0 ? r : sent;
}

/* ---- Messages -----------------------------------------------------------------------------------*/

static int lock_channel(const struct object *object, const struct dialect_session *session, const char *name,
        size_t name_len, uint64_t attempt, struct buf *out) {
	struct buf full = BUF_INIT;
	char owner[COMPAT_OWNER_MAX + 1];
	int r = snecki_compat_name(session, name, name_len, &full);

	if (r == 0)
		snecki_compat_prefixed(out, object->channel, &full);
	if (r == 0 && object->own_channels) {
		snecki_compat_owner(session, attempt, owner);
		snecki_buf_printf(out, ":%s", owner);
	}
	snecki_buf_done(&full);
	return r < 0 || out->failed ? SNECK_ENOMEM : 0;
}

/* 0: one may come (a read release, a mutex); 1: all may. Other numbers are not for us, as for Redisson. */
static bool says_free(const char *payload, size_t len) {
	return len == 1 && (payload[0] == '0' || payload[0] == '1');
}

/* ---- The dialects -------------------------------------------------------------------------------*/

/* The functions of a dialect do not know which one they are of: each object has its own. */
#define OBJECT_FUNCTIONS(object)                                                                       \
	static int object##_encode(const struct dialect_session *session, const struct lock_op *op,    \
	        const char *name, size_t name_len, bool full_text, struct buf *out) {                  \
		return encode(&(object), session, op, name, name_len, full_text, out);                 \
	}                                                                                              \
	static int object##_encode_inspect(const struct dialect_session *session, const char *name,    \
	        size_t name_len, size_t most, bool full_text, struct buf *out) {                       \
		return encode_inspect(&(object), session, name, name_len, most, full_text, out);       \
	}                                                                                              \
	static int object##_encode_break(const struct dialect_session *session, const char *name,      \
	        size_t name_len, const char *id, int64_t grace_ms, const char *reason, bool full_text, \
	        struct buf *out) {                                                                     \
		(void)reason;                                                                          \
		if (grace_ms > 0)                                                                      \
			return SNECK_ENOTSUP;                                                          \
		return encode_break(&(object), session, name, name_len, id, full_text, out);           \
	}                                                                                              \
	static int object##_lock_channel(const struct dialect_session *session, const char *name,      \
	        size_t name_len, uint64_t attempt, struct buf *out) {                                  \
		return lock_channel(&(object), session, name, name_len, attempt, out);                 \
	}

#define OBJECT_MEMBERS(object)                                                                            \
	.encode = object##_encode, .decode = snecki_compat_decode, .lock_channel = object##_lock_channel, \
	.check_name = snecki_compat_check_name, .says_free = says_free, .hold_id = snecki_compat_hold_id, \
	.check_id = snecki_compat_check_id, .check_party_id = snecki_compat_check_id,                     \
	.encode_inspect = object##_encode_inspect, .decode_inspect = snecki_redisson_decode_inspect,      \
	.encode_break = object##_encode_break, .decode_break = snecki_redisson_decode_break,              \
	.encode_scan = snecki_compat_encode_scan, .key_name = snecki_compat_key_name,                     \
	.needs = snecki_redisson_needs, .encode_rights = snecki_redisson_encode_rights,                   \
	.decode_rights = snecki_redisson_decode_rights

/* Messages wake who waits; the questions in between are for those that were lost, and for keys without an
 * end. */
#define POLLS .polls = true, .counts = true, .no_upgrade = true, .poll_first_ms = 1000, .poll_most_ms = 1000
#define MUTEX POLLS, .no_read = true, .no_downgrade = true

OBJECT_FUNCTIONS(lock)
OBJECT_FUNCTIONS(rwlock)
OBJECT_FUNCTIONS(fenced)
OBJECT_FUNCTIONS(fair)

const struct dialect snecki_redisson_lock = {
	.name = "redisson:lock",
	.traits = { MUTEX, .no_tokens = true },
	OBJECT_MEMBERS(lock),
};

const struct dialect snecki_redisson_rwlock = {
	.name = "redisson:rwlock",
	.traits = { POLLS, .no_tokens = true },
	OBJECT_MEMBERS(rwlock),
};

const struct dialect snecki_redisson_fenced = {
	.name = "redisson:fenced",
	.traits = { MUTEX, .server_tokens = true },
	OBJECT_MEMBERS(fenced),
};

const struct dialect snecki_redisson_fair = {
	.name = "redisson:fair",
	.traits = { MUTEX, .no_tokens = true },
	OBJECT_MEMBERS(fair),
};
