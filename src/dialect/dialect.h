/* SPDX-License-Identifier: MIT */
/* A dialect: how lock operations are written to the server and how its answers are read. It names
 * keys and channels, encodes a `lock_op` as one script call and decodes the reply. It keeps no
 * state and does no I/O; NOSCRIPT is the caller's to handle by asking for the call again with
 * `full_text`. */
#ifndef SNECK_DIALECT_DIALECT_H
#define SNECK_DIALECT_DIALECT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "lock/op.h"

struct redisReply;
struct sneck_error;
struct sneck_lock_info;
struct sneck_party;
struct sneck_probe_info;

/* What a dialect needs to know of the session. Borrowed; constant for the client's life. */
struct dialect_session {
	const char *name_space;
	const char *id; /* host:pid:random, at most 40 bytes, no '.', printable. For the record functions it
	                 * may be the attempt of a detached hold, which has a record of its own */
	int64_t keep_ms;
	int64_t bury_ms;
	const char *uuid;   /* the session's other name, for layouts that want one: 36 characters */
	const char *prefix; /* before every name, in layouts without namespaces; "" by default */
	bool sharded;       /* a cluster: messages go by channels that lie in the lock's slot, but for
	                     * dialects with plain_channels */
};

/* Who a session is, for people who look at locks. Texts are NUL-terminated and may be empty. */
struct session_record {
	const char *user, *host, *command, *note;
	int32_t pid;
	int64_t since_ms; /* Unix time by the session's own clock */
};

/* One of several renewals that go in one request. */
enum { RENEWALS_MAX = 32 };
struct renewal {
	const struct lock_op *op;
	const char *name;
	size_t name_len;
};

struct dialect {
	const char *name;
	struct lock_traits traits;
	/* In a cluster too messages go to all nodes, because the layout's other programs know nothing else.
	 */
	bool plain_channels;
	/* Append the RESP bytes of `op` on lock `name` to `out`: EVALSHA, or EVAL with `full_text`.
	 * 0, SNECK_ENOMEM or SNECK_ENOTSUP. */
	int (*encode)(const struct dialect_session *session, const struct lock_op *op, const char *name,
	        size_t name_len, bool full_text, struct buf *out);
	/* Read the reply to `op`. Always fills `ret`; what does not fit (wrong type, an echo of another
	 * attempt) is LOCK_UNKNOWN. For LOCK_FAILED `reterr` (may be NULL) gets the server's word and text,
	 * for LOCK_BROKEN who did it and why. */
	void (*decode)(const struct dialect_session *session, const struct lock_op *op,
	        const struct redisReply *reply, struct lock_outcome *ret, struct sneck_error *reterr);
	/* Up to RENEWALS_MAX renewals, plain ones (`token` known, none to report, not must_write) of one
	 * lease length, on one server and, in a cluster, in one slot, as one script call. NULL: each goes by
	 * itself. */
	int (*encode_renewals)(const struct dialect_session *session, const struct renewal *renewals,
	        size_t n, bool full_text, struct buf *out);
	/* Read the reply, which is no error, into `ret`: LOCK_GRANTED, or LOCK_UNKNOWN for one of which
	 * nothing was changed, so that it is to go by itself. False: it does not fit this request at all. */
	bool (*decode_renewals)(const struct dialect_session *session, const struct renewal *renewals,
	        size_t n, const struct redisReply *reply, struct lock_outcome *ret);
	/* May this be the name of a lock? NULL: any may. 0 or SNECK_EINVAL, with the reason. */
	int (*check_name)(const struct dialect_session *session, const char *name, size_t name_len,
	        struct sneck_error *reterr);
	/* The channel on which this session hears of grants. Appends to `out`; 0 or SNECK_ENOMEM. NULL:
	 * traits.polls. */
	int (*channel)(const struct dialect_session *session, struct buf *out);
	/* Read one message of that channel; false: not understood, ignore it. */
	bool (*read_note)(const struct dialect_session *session, const char *payload, size_t len,
	        struct lock_note *ret);
	/* traits.polls: the channel on which `attempt` hears that the lock may be free, and whether this is
	 * what a message of it says. `sharded`: the channel of this lock for this session, whose messages are
	 * read by read_note. */
	int (*lock_channel)(const struct dialect_session *session, const char *name, size_t name_len,
	        uint64_t attempt, struct buf *out);
	bool (*says_free)(const char *payload, size_t len);
	/* The public id of an attempt of this session, for detach (NUL-terminated, LOCK_ID_MAX). */
	void (*hold_id)(
	        const struct dialect_session *session, char mode, uint64_t attempt, char ret_id[LOCK_ID_MAX]);
	/* Is `id` one that hold_id could have made? */
	bool (*check_id)(const char *id);
	/* The session that made such an id, and its counter, which has LOCK_DETACHED in it if no session
	 * keeps the hold. NULL: nothing can be detached. */
	void (*read_id)(const char *id, char ret_session[LOCK_HOLDER_MAX], uint64_t *ret_attempt);
	/* Write (or write again) the session's record, which lasts `ttl_ms`. One script call, as encode.
	 * NULL: there are no records, and the other functions about them are NULL as well. */
	int (*encode_record)(const struct dialect_session *session, const struct session_record *record,
	        int64_t ttl_ms, bool full_text, struct buf *out);
	/* Remove it. One plain command. */
	int (*encode_record_end)(const struct dialect_session *session, struct buf *out);
	/* Let it last at least `ttl_ms` from now, if it is there. One plain command. */
	int (*encode_record_longer)(const struct dialect_session *session, int64_t ttl_ms, struct buf *out);
	/* The record of session `whose`: ask for it, and read the answer into the texts of a party (what is
	 * not there leaves the field as it is). One plain command. */
	int (*encode_record_ask)(const struct dialect_session *session, const char *whose, struct buf *out);
	void (*decode_record)(const struct redisReply *reply, struct sneck_party *party);

	/* Look at a lock: at most `most` parties. A script call, as encode, that only reads. */
	int (*encode_inspect)(const struct dialect_session *session, const char *name, size_t name_len,
	        size_t most, bool full_text, struct buf *out);
	/* Fills everything but the name, and the parties' texts; `ret->parties` is from malloc. 0, or an
	 * error: nothing is filled then. */
	int (*decode_inspect)(
	        const struct redisReply *reply, struct sneck_lock_info *ret, struct sneck_error *reterr);
	/* End the hold or wait `id` (of a sneck_party), leaving it `grace_ms`; `reason` is for the victim. A
	 * script call, as encode. */
	int (*encode_break)(const struct dialect_session *session, const char *name, size_t name_len,
	        const char *id, int64_t grace_ms, const char *reason, bool full_text, struct buf *out);
	/* 0, SNECK_ENOTHELD (it is not there), or another error; `*ret_more`: send OP_ADVANCE. */
	int (*decode_break)(const struct dialect_session *session, const struct redisReply *reply,
	        bool *ret_more, struct sneck_error *reterr);
	bool (*check_party_id)(const char *id); /* as check_id, waiters included */
	/* One step of a walk over the keys that may be locks, from `cursor` on. One plain command, SCAN or
	 * what answers like it. */
	int (*encode_scan)(const struct dialect_session *session, const char *cursor, struct buf *out);
	/* Append the name of the lock whose key this is. False: it is none of this namespace, or no memory
	 * (then `out` has failed). */
	bool (*key_name)(
	        const struct dialect_session *session, const char *key, size_t key_len, struct buf *out);

	/* Which commands each role needs: fills `needs`. */
	void (*needs)(const struct dialect_session *session, struct sneck_probe_info *ret);
	/* Which of them may this user not call? A script with its text, that only reads; `reads_only`: by
	 * the command for such scripts. */
	int (*encode_rights)(const struct dialect_session *session, bool reads_only, struct buf *out);
	/* Fills `missing`. False: the server did not answer this. */
	bool (*decode_rights)(const struct dialect_session *session, const struct redisReply *reply,
	        struct sneck_probe_info *ret);
};

/* The core knows a dialect by what its layout can do. */
static inline const struct dialect *snecki_dialect_of(const struct lock_traits *layout) {
	return (const struct dialect *)(const void *)((const char *)layout -
	                                              offsetof(struct dialect, traits));
}

extern const struct dialect snecki_native;
extern const struct dialect snecki_redisson_lock, snecki_redisson_rwlock, snecki_redisson_fenced,
        snecki_redisson_fair;

/* The dialect of that name (NULL: native). NULL and SNECK_EINVAL: there is none; the text lists those
 * there are. */
const struct dialect *snecki_dialect_find(const char *name, struct sneck_error *reterr);

#endif
