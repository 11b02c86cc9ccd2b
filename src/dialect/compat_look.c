/* SPDX-License-Identifier: MIT */
/* Looking at locks of other programs' layouts, and breaking them.
 *
 * The owners are texts of other programs: whatever cannot be printed is shown as `?`, and one that is too
 * long is cut. Such an owner has no id by which it could be broken, because that might name another. These
 * layouts keep no records of who a session is, and nothing tells since when it holds. */
#include "dialect/compat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include <sneck/sneck.h>

#include "base/err.h"
#include "dialect/reply.h"
#include "net/server_error.h"

enum { LOOK_WORD, LOOK_TIME, LOOK_MODE, LOOK_HOLDERS, LOOK_WAITERS, LOOK_HELD, LOOK_WAITING, LOOK_FIELDS };

static void copy_printable(char *out, size_t size, const char *text, size_t len) {
	size_t n = 0;

	for (; n < len && n + 1 < size; n++)
		out[n] = text[n] <= ' ' || text[n] > '~' ? '?' : text[n];
	out[n] = '\0';
}

static bool read_party(redisReply *const *at, bool waits, sneck_party *ret) {
	const redisReply *owner = at[0];
	int64_t holds;

	if (owner->type != REDIS_REPLY_STRING || !owner->str || owner->len < 1 ||
	        (owner->str[0] != 'R' && owner->str[0] != 'W') || !snecki_reply_i64(at[1], &holds) ||
	        !snecki_reply_i64(at[2], &ret->lease_left_ms))
		return false;
	if ((size_t)owner->len < sizeof ret->id && strlen(owner->str) == (size_t)owner->len &&
	        snecki_compat_check_id(owner->str))
		memcpy(ret->id, owner->str, (size_t)owner->len + 1);
	copy_printable(ret->session, sizeof ret->session, owner->str + 1, (size_t)owner->len - 1);
	ret->kind = waits ? SNECK_PARTY_WAITER : SNECK_PARTY_HOLDER;
	ret->mode = owner->str[0] == 'W' ? SNECK_WRITE : SNECK_READ;
	if (holds > 1)
		snprintf(ret->note, sizeof ret->note, "%lld holds", (long long)holds);
	return true;
}

static bool read_parties(const redisReply *list, bool waits, sneck_lock_info *info) {
	for (size_t i = 0; i < list->elements; i += 3)
		if (!read_party(list->element + i, waits, &info->parties[info->party_n++]))
			return false;
	return true;
}

static bool read_head(const redisReply *reply, sneck_lock_info *info) {
	int64_t us, holders, waiters;

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != LOOK_FIELDS)
		return false;
	redisReply *const *field = reply->element;
	if (!snecki_reply_is(field[LOOK_WORD], "lock") || !snecki_reply_i64(field[LOOK_TIME], &us) ||
	        !snecki_reply_i64(field[LOOK_HOLDERS], &holders) ||
	        !snecki_reply_i64(field[LOOK_WAITERS], &waiters))
		return false;
	info->mode = snecki_reply_is(field[LOOK_MODE], "W")   ? SNECK_WRITE
	             : snecki_reply_is(field[LOOK_MODE], "R") ? SNECK_READ
	                                                      : 0;
	info->server_ms = us / 1000;
	info->holder_n = (size_t)holders;
	info->waiter_n = (size_t)waiters;
	const redisReply *held = field[LOOK_HELD], *waiting = field[LOOK_WAITING];
	return held->type == REDIS_REPLY_ARRAY && held->elements % 3 == 0 &&
	       waiting->type == REDIS_REPLY_ARRAY && waiting->elements % 3 == 0;
}

int snecki_compat_decode_inspect(
        const struct redisReply *reply, struct sneck_lock_info *ret, struct sneck_error *reterr) {
	sneck_lock_info info = { 0 };

	if (reply->type == REDIS_REPLY_ERROR && reply->str)
		return snecki_server_error_fill(reply->str, (size_t)reply->len, reterr);
	if (!read_head(reply, &info))
		goto strange;
	const redisReply *held = reply->element[LOOK_HELD], *waiting = reply->element[LOOK_WAITING];
	info.parties = calloc((held->elements + waiting->elements) / 3 + 1, sizeof *info.parties);
	if (!info.parties)
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	if (!read_parties(held, false, &info) || !read_parties(waiting, true, &info))
		goto strange;
	*ret = info;
	return 0;
strange:
	free(info.parties);
	return snecki_err(reterr, SNECK_ESERVER, "the server's answer about a lock cannot be understood");
}

int snecki_compat_decode_break(const struct dialect_session *session, const struct redisReply *reply,
        bool *ret_more, struct sneck_error *reterr) {
	(void)session;
	if (reply->type == REDIS_REPLY_ERROR && reply->str)
		return snecki_server_error_fill(reply->str, (size_t)reply->len, reterr);
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
		return snecki_err(reterr, SNECK_EUNKNOWN, "the server's answer cannot be understood");
	*ret_more = false;
	if (snecki_reply_is(reply->element[0], "done"))
		return 0;
	return snecki_err(reterr, SNECK_ENOTHELD, "%s", sneck_strerror(SNECK_ENOTHELD));
}

int snecki_compat_encode_scan(const struct dialect_session *session, const char *cursor, struct buf *out) {
	struct buf pattern = BUF_INIT;

	for (const char *at = session->prefix; *at; at++) {
		if (strchr("*?[]\\^-", *at))
			snecki_buf_add_str(&pattern, "\\");
		snecki_buf_add(&pattern, at, 1);
	}
	snecki_buf_add_str(&pattern, "*");
	snecki_buf_resp_array(out, 8);
	snecki_buf_resp_str(out, "SCAN");
	snecki_buf_resp_str(out, cursor);
	snecki_buf_resp_str(out, "MATCH");
	snecki_buf_resp_bulk(out, pattern.data, pattern.len);
	snecki_buf_resp_str(out, "COUNT");
	snecki_buf_resp_str(out, "512");
	snecki_buf_resp_str(out, "TYPE");
	snecki_buf_resp_str(out, "hash");
	int r = out->failed || pattern.failed ? SNECK_ENOMEM : 0;
	snecki_buf_done(&pattern);
	return r;
}

bool snecki_compat_key_name(
        const struct dialect_session *session, const char *key, size_t key_len, struct buf *out) {
	size_t prefix_len = strlen(session->prefix);

	if (key_len <= prefix_len || key_len - prefix_len > SNECK_NAME_MAX ||
	        memcmp(key, session->prefix, prefix_len) != 0)
		return false;
	return snecki_buf_add(out, key + prefix_len, key_len - prefix_len);
}
