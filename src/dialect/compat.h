/* SPDX-License-Identifier: MIT */
/* What the dialects have in common that speak another program's layout: names, the form of a script call,
 * and the answer.
 *
 * An attempt of ours is an owner of theirs, `<uuid>:<attempt>`, and never used again. So a request that is
 * sent twice finds what it did the first time: the owner is there, or buried. Re-entry does not make another
 * attempt; it changes the count of one (lock_op.reads, .writes).
 *
 * The scripts' answer, whatever the layout:
 *   { word, server us, owner, token, left ms, holder, verdict }
 * word     granted, waiting, busy, deadlock, gone, buried, done
 * token    decimal; "0" where the layout has none
 * left     granted: what the lease has left. waiting, busy: what the last holder has left; 0: unknown (look
 *          again in a while). done (of a cancel): 1, it had been granted. Else 0
 * holder   waiting, busy: mode letter and owner of one that stands in the way, or ""
 * verdict  what the layout's own document returns here, as text */
#ifndef SNECK_DIALECT_COMPAT_H
#define SNECK_DIALECT_COMPAT_H

#include "dialect/dialect.h"
#include "dialect/script.h"

enum { COMPAT_OWNER_MAX = 36 + 1 + 20 };

/* The name with the session's prefix before it. The results are 0 or SNECK_ENOMEM, as everywhere below. */
int snecki_compat_name(
        const struct dialect_session *session, const char *name, size_t name_len, struct buf *out);
/* prefix:{name}, or prefix:name when the name has a brace of its own. `name` is complete. */
void snecki_compat_prefixed(struct buf *out, const char *prefix, const struct buf *name);
/* {name}:suffix, or name:suffix. An empty suffix leaves {name} or name alone. */
void snecki_compat_suffixed(struct buf *out, const struct buf *name, const char *suffix);

/* struct dialect's check_name: in a cluster all keys of a lock must lie in one slot. */
int snecki_compat_check_name(
        const struct dialect_session *session, const char *name, size_t name_len, struct sneck_error *reterr);

void snecki_compat_owner(
        const struct dialect_session *session, uint64_t attempt, char ret_owner[COMPAT_OWNER_MAX + 1]);

/* Keys and arguments of one script call: collected first, because their number comes before them. */
struct compat_call {
	struct buf keys, args; /* RESP bulk strings */
	size_t keys_n, args_n;
};
#define COMPAT_CALL_INIT \
	{ BUF_INIT, BUF_INIT, 0, 0 }
void snecki_compat_key(struct compat_call *call, const struct buf *key);
void snecki_compat_arg(struct compat_call *call, const char *text);
void snecki_compat_arg_i64(struct compat_call *call, int64_t number);
/* Each of the owners that are to be buried, and the time, at the end of the arguments. */
void snecki_compat_bury(
        struct compat_call *call, const struct dialect_session *session, const struct lock_op *op);
/* Writes the call to `out` and frees it. */
int snecki_compat_send(struct compat_call *call, const struct script *script, bool reads_only, bool full_text,
        struct buf *out);

/* struct dialect's decode, hold_id, check_id and check_party_id. An id is mode letter + owner. */
void snecki_compat_decode(const struct dialect_session *session, const struct lock_op *op,
        const struct redisReply *reply, struct lock_outcome *ret, struct sneck_error *reterr);
void snecki_compat_hold_id(
        const struct dialect_session *session, char mode, uint64_t attempt, char ret_id[LOCK_ID_MAX]);
bool snecki_compat_check_id(const char *id);
/* The same decode for a layout whose owners have other names: `owner` is what the answer must echo. */
void snecki_compat_decode_as(const char *owner, const struct lock_op *op, const struct redisReply *reply,
        struct lock_outcome *ret, struct sneck_error *reterr);

/* ---- compat_look.c: looking at locks, and breaking them. ------------------------------------------
 *
 * What inspect scripts answer:
 *   { "lock", server us, mode ("", R, W), holders, waiters, { owner, holds, left ms, … }, { the same, … } }
 * Owners have their mode letter before them. All holders and waiters are counted, not all need be listed;
 * left 0: the layout does not tell. What break scripts answer: { "done" or "gone", server us }. */
int snecki_compat_decode_inspect(
        const struct redisReply *reply, struct sneck_lock_info *ret, struct sneck_error *reterr);
int snecki_compat_decode_break(const struct dialect_session *session, const struct redisReply *reply,
        bool *ret_more, struct sneck_error *reterr);
/* Every hash whose name begins with the session's prefix may be a lock. */
int snecki_compat_encode_scan(const struct dialect_session *session, const char *cursor, struct buf *out);
bool snecki_compat_key_name(
        const struct dialect_session *session, const char *key, size_t key_len, struct buf *out);

#endif
