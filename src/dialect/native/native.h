/* SPDX-License-Identifier: MIT */
/* What the files of the native dialect share, and what tools that look at locks need. */
#ifndef SNECK_DIALECT_NATIVE_H
#define SNECK_DIALECT_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dialect/dialect.h"
#include "dialect/script.h"

enum {
	NATIVE_SESSION_MAX = 40,
	NATIVE_COUNTER_MAX = 14, /* digits of a 63-bit number in base 36, and the mark of a detached hold */
	NATIVE_ATTEMPT_MAX = NATIVE_SESSION_MAX + 1 + NATIVE_COUNTER_MAX
};

/* Append the key of lock `name`. 0, SNECK_EINVAL (no name, or too long) or SNECK_ENOMEM. */
int snecki_native_key(const char *name_space, const char *name, size_t name_len, struct buf *out);

/* Write `counter` in base 36, NUL-terminated, with a `~` behind it if it is LOCK_DETACHED. */
void snecki_native_counter(uint64_t counter, char ret_text[NATIVE_COUNTER_MAX + 1]);
/* Read all of `text` as such a counter; false: it is none. */
bool snecki_native_read_counter(const char *text, size_t len, uint64_t *ret);
/* Write `<session>.<counter>`, NUL-terminated. */
void snecki_native_attempt(const char *session, uint64_t counter, char ret_text[NATIVE_ATTEMPT_MAX + 1]);
/* Read all of `text` as a number of the given base (10 or 36, lower case); false: it is none, or
 * does not fit. */
bool snecki_native_number(const char *text, size_t len, unsigned base, uint64_t *ret);

/* What a script call has before its key: the command, the script, and how many keys (one). */
void snecki_native_script(struct buf *out, const struct script *script, bool reads_only, bool full_text);
/* Append the key of lock `name` as a bulk string; the results are those of snecki_native_key. */
int snecki_native_add_key(struct buf *out, const char *name_space, const char *name, size_t name_len);

/* 0 or SNECK_ENOMEM */
int snecki_native_add_channel_prefix(struct buf *out, const struct dialect_session *session);

/* native_renewals.c */
int snecki_native_encode_renewals(const struct dialect_session *session, const struct renewal *renewals,
        size_t n, bool full_text, struct buf *out);
bool snecki_native_decode_renewals(const struct dialect_session *session, const struct renewal *renewals,
        size_t n, const struct redisReply *reply, struct lock_outcome *ret);

/* native_record.c */
int snecki_native_encode_record(const struct dialect_session *session, const struct session_record *record,
        int64_t ttl_ms, bool full_text, struct buf *out);
int snecki_native_encode_record_end(const struct dialect_session *session, struct buf *out);
int snecki_native_encode_record_longer(
        const struct dialect_session *session, int64_t ttl_ms, struct buf *out);
int snecki_native_encode_record_ask(
        const struct dialect_session *session, const char *whose, struct buf *out);
void snecki_native_decode_record(const struct redisReply *reply, struct sneck_party *party);

/* native_break.c */
int snecki_native_encode_break(const struct dialect_session *session, const char *name, size_t name_len,
        const char *id, int64_t grace_ms, const char *reason, bool full_text, struct buf *out);
int snecki_native_decode_break(const struct dialect_session *session, const struct redisReply *reply,
        bool *ret_more, struct sneck_error *reterr);

/* native_look.c */
int snecki_native_encode_inspect(const struct dialect_session *session, const char *name, size_t name_len,
        size_t most, bool full_text, struct buf *out);
int snecki_native_decode_inspect(
        const struct redisReply *reply, struct sneck_lock_info *ret, struct sneck_error *reterr);
int snecki_native_encode_scan(const struct dialect_session *session, const char *cursor, struct buf *out);
bool snecki_native_key_name(
        const struct dialect_session *session, const char *key, size_t key_len, struct buf *out);

/* native_rights.c */
void snecki_native_needs(const struct dialect_session *session, struct sneck_probe_info *ret);
int snecki_native_encode_rights(const struct dialect_session *session, bool reads_only, struct buf *out);
bool snecki_native_decode_rights(
        const struct dialect_session *session, const struct redisReply *reply, struct sneck_probe_info *ret);

void snecki_native_decode(const struct dialect_session *session, const struct lock_op *op,
        const struct redisReply *reply, struct lock_outcome *ret, struct sneck_error *reterr);

#endif
