/* SPDX-License-Identifier: MIT */
/* What all dialects share about script calls and their answers. */
#include "dialect/reply.h"

#include <string.h>

#include <hiredis/hiredis.h>

#include "net/server_error.h"

bool snecki_reply_is(const struct redisReply *field, const char *text) {
	size_t len = strlen(text);
	return field->type == REDIS_REPLY_STRING && field->str && (size_t)field->len == len &&
	       memcmp(field->str, text, len) == 0;
}

bool snecki_reply_i64(const struct redisReply *field, int64_t *ret) {
	if (field->type != REDIS_REPLY_INTEGER || field->integer < 0 || field->integer > REPLY_NUMBER_MAX)
		return false;
	*ret = field->integer;
	return true;
}

bool snecki_reply_u64_text(const struct redisReply *field, uint64_t *ret) {
	uint64_t value = 0;

	if (field->type != REDIS_REPLY_STRING || !field->str || field->len == 0 || field->len > 16)
		return false;
	for (size_t i = 0; i < (size_t)field->len; i++) {
		if (field->str[i] < '0' || field->str[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(field->str[i] - '0');
	}
	if (value > (uint64_t)REPLY_NUMBER_MAX)
		return false;
	*ret = value;
	return true;
}

void snecki_reply_error(
        const struct redisReply *reply, struct lock_outcome *ret, struct sneck_error *reterr) {
	size_t len = (size_t)reply->len;
	const struct server_error *error = snecki_server_error_find(reply->str, len);

	ret->code = snecki_server_error_fill(reply->str, len, reterr);
	ret->retry = error->action == ACT_BACKOFF || error->action == ACT_REDISCOVER;
	ret->status = error->action == ACT_UNKNOWN || error->executed_maybe ? LOCK_UNKNOWN : LOCK_FAILED;
}

void snecki_script_words(struct buf *out, const struct script *script, bool reads_only, bool full_text) {
	if (full_text) {
		snecki_buf_resp_str(out, reads_only ? "EVAL_RO" : "EVAL");
		snecki_buf_resp_bulk(out, script->text, script->len);
	} else {
		snecki_buf_resp_str(out, reads_only ? "EVALSHA_RO" : "EVALSHA");
		snecki_buf_resp_str(out, script->sha1);
	}
}
