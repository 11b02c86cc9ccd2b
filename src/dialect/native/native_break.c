/* SPDX-License-Identifier: MIT */
/* Breaking a hold or a wait: the request and its answer. What it does is told in break.lua. */
#include "dialect/native/native.h"

#include <string.h>

#include <hiredis/hiredis.h>

#include <sneck/error.h>
#include <sneck/sneck.h>

#include "base/err.h"
#include "dialect/native/scripts.h"
#include "net/server_error.h"

enum { FLAG_MORE = 1 };

int snecki_native_encode_break(const struct dialect_session *session, const char *name, size_t name_len,
        const char *id, int64_t grace_ms, const char *reason, bool full_text, struct buf *out) {
	char attempt[NATIVE_ATTEMPT_MAX + 1];
	size_t start = out->len;

	snecki_native_attempt(session->id, 0, attempt); /* no attempt of ours has this counter */
	snecki_buf_resp_array(out, 4 + 7);
	snecki_native_script(out, &snecki_native_scripts[NATIVE_BREAK], false, full_text);
	int r = snecki_native_add_key(out, session->name_space, name, name_len);
	snecki_buf_resp_str(out, attempt);
	snecki_buf_resp_i64(out, session->keep_ms);
	if (r == 0)
		r = snecki_native_add_channel_prefix(out, session);
	snecki_buf_resp_str(out, id);
	snecki_buf_resp_i64(out, grace_ms);
	snecki_buf_resp_i64(out, session->bury_ms);
	snecki_buf_resp_str(out, reason);
	if (r == 0 && out->failed)
		r = SNECK_ENOMEM;
	if (r < 0 && !out->failed)
		out->len = start;
	return r;
}

static bool is_text(const redisReply *field, const char *text) {
	return field->type == REDIS_REPLY_STRING && field->str && (size_t)field->len == strlen(text) &&
	       memcmp(field->str, text, strlen(text)) == 0;
}

int snecki_native_decode_break(const struct dialect_session *session, const struct redisReply *reply,
        bool *ret_more, struct sneck_error *reterr) {
	char attempt[NATIVE_ATTEMPT_MAX + 1];

	if (reply->type == REDIS_REPLY_ERROR && reply->str)
		return snecki_server_error_fill(reply->str, (size_t)reply->len, reterr);
	snecki_native_attempt(session->id, 0, attempt);
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 6 ||
	        !is_text(reply->element[2], attempt) || reply->element[5]->type != REDIS_REPLY_INTEGER)
		return snecki_err(reterr, SNECK_EUNKNOWN, "the server's answer cannot be understood");
	*ret_more = reply->element[5]->integer & FLAG_MORE;
	if (is_text(reply->element[0], "done"))
		return 0;
	return snecki_err(reterr, SNECK_ENOTHELD, "%s", sneck_strerror(SNECK_ENOTHELD));
}
