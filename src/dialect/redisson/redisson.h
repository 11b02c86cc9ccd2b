/* SPDX-License-Identifier: MIT */
/* What the files of the Redisson dialects share. */
#ifndef SNECK_DIALECT_REDISSON_H
#define SNECK_DIALECT_REDISSON_H

#include "dialect/dialect.h"

/* redisson_look.c: what does not depend on the object. See struct dialect. */
int snecki_redisson_decode_inspect(
        const struct redisReply *reply, struct sneck_lock_info *ret, struct sneck_error *reterr);
int snecki_redisson_decode_break(const struct dialect_session *session, const struct redisReply *reply,
        bool *ret_more, struct sneck_error *reterr);
void snecki_redisson_needs(const struct dialect_session *session, struct sneck_probe_info *ret);
int snecki_redisson_encode_rights(const struct dialect_session *session, bool reads_only, struct buf *out);
bool snecki_redisson_decode_rights(
        const struct dialect_session *session, const struct redisReply *reply, struct sneck_probe_info *ret);

#endif
