/* SPDX-License-Identifier: MIT */
/* Reading the scripts' answers, and writing what a script call begins with: what all dialects share. */
#ifndef SNECK_DIALECT_REPLY_H
#define SNECK_DIALECT_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "dialect/script.h"
#include "lock/op.h"

struct redisReply;
struct sneck_error;

#define REPLY_NUMBER_MAX (INT64_C(1) << 53) /* scripts count in doubles: beyond this they are not exact */

bool snecki_reply_is(const struct redisReply *field, const char *text);
/* An integer from 0 to REPLY_NUMBER_MAX. */
bool snecki_reply_i64(const struct redisReply *field, int64_t *ret);
/* The same as decimal text: scripts cut a large number that they return as such. */
bool snecki_reply_u64_text(const struct redisReply *field, uint64_t *ret);
/* An error reply: LOCK_FAILED where it is sure that nothing was executed, else LOCK_UNKNOWN; `code` says
 * what was wrong in both cases. */
void snecki_reply_error(const struct redisReply *reply, struct lock_outcome *ret, struct sneck_error *reterr);

/* The command, and the script or its digest. */
void snecki_script_words(struct buf *out, const struct script *script, bool reads_only, bool full_text);

#endif
