/* SPDX-License-Identifier: MIT */
/* Looking at Redisson's locks, and breaking them.
 *
 * Owners are whatever other programs have written there. An owner that cannot be printed, or is too long to
 * be an id, is shown as far as it goes, but has no id by which it could be broken: a cut one might name
 * somebody else. Which of a database's hashes are locks is not written anywhere; those that do not look
 * like one are passed over by the caller (SNECK_ETYPE). */
#include "dialect/redisson/redisson.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include <sneck/probe.h>
#include <sneck/sneck.h>

#include "base/err.h"
#include "dialect/compat.h"
#include "dialect/reply.h"
#include "dialect/rights.h"
#include "net/server_error.h"

enum {
	FIELD_WORD,
	FIELD_TIME,
	FIELD_TOKEN,
	FIELD_MODE,
	FIELD_HOLDER_N,
	FIELD_WAITER_N,
	FIELD_HOLDERS,
	FIELD_WAITERS,
	FIELDS
};
enum { PARTY_ID, PARTY_HOLDS, PARTY_LEFT, PARTY_FIELDS };

/* ---- A lock -------------------------------------------------------------------------------------*/

static void copy_printable(char *out, size_t size, const char *text, size_t len) {
	if (len >= size)
		len = size - 1;
	for (size_t i = 0; i < len; i++)
		out[i] = text[i] <= ' ' || text[i] > '~' ? '?' : text[i];
	out[len] = '\0';
}

static bool read_party(redisReply *const *at, sneck_party *ret) {
	const redisReply *id = at[PARTY_ID], *holds = at[PARTY_HOLDS];

	if (id->type != REDIS_REPLY_STRING || !id->str || id->len < 2 || !strchr("RW", id->str[0]) ||
	        holds->type != REDIS_REPLY_STRING || !snecki_reply_i64(at[PARTY_LEFT], &ret->lease_left_ms))
		return false;
	size_t len = (size_t)id->len;
	ret->mode = id->str[0] == 'W' ? SNECK_WRITE : SNECK_READ;
	copy_printable(ret->session, sizeof ret->session, id->str + 1, len - 1);
	if (len < sizeof ret->id && strlen(id->str) == len && snecki_compat_check_id(id->str))
		memcpy(ret->id, id->str, len + 1);
	if (strcmp(holds->str, "1") != 0)
		snprintf(ret->note, sizeof ret->note, "held %.20s times", holds->str);
	return true;
}

static bool read_parties(const redisReply *list, enum sneck_party_kind kind, sneck_lock_info *info) {
	for (size_t i = 0; i < list->elements; i += PARTY_FIELDS) {
		sneck_party *party = &info->parties[info->party_n];
		party->kind = (int)kind;
		if (!read_party(list->element + i, party))
			return false;
		if (kind != SNECK_PARTY_HOLDER)
			party->note[0] = '\0';
		info->party_n++;
	}
	return true;
}

static bool is_list(const redisReply *field) {
	return field->type == REDIS_REPLY_ARRAY && field->elements % PARTY_FIELDS == 0;
}

static bool read_head(const redisReply *reply, sneck_lock_info *info) {
	int64_t us, holder_n, waiter_n;

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != FIELDS)
		return false;
	redisReply *const *field = reply->element;
	if (!snecki_reply_is(field[FIELD_WORD], "lock") || !snecki_reply_i64(field[FIELD_TIME], &us) ||
	        !snecki_reply_u64_text(field[FIELD_TOKEN], &info->token) ||
	        !snecki_reply_i64(field[FIELD_HOLDER_N], &holder_n) ||
	        !snecki_reply_i64(field[FIELD_WAITER_N], &waiter_n) || !is_list(field[FIELD_HOLDERS]) ||
	        !is_list(field[FIELD_WAITERS]))
		return false;
	info->mode = snecki_reply_is(field[FIELD_MODE], "W")   ? SNECK_WRITE
	             : snecki_reply_is(field[FIELD_MODE], "R") ? SNECK_READ
	                                                       : 0;
	info->server_ms = us / 1000;
	info->holder_n = (size_t)holder_n;
	info->waiter_n = (size_t)waiter_n;
	return true;
}

int snecki_redisson_decode_inspect(
        const struct redisReply *reply, struct sneck_lock_info *ret, struct sneck_error *reterr) {
	sneck_lock_info info = { 0 };

	if (reply->type == REDIS_REPLY_ERROR && reply->str)
		return snecki_server_error_fill(reply->str, (size_t)reply->len, reterr);
	if (!read_head(reply, &info))
		goto strange;
	const redisReply *holders = reply->element[FIELD_HOLDERS], *waiters = reply->element[FIELD_WAITERS];
	size_t n = (holders->elements + waiters->elements) / PARTY_FIELDS;
	info.parties = calloc(n ? n : 1, sizeof *info.parties);
	if (!info.parties)
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	if (!read_parties(holders, SNECK_PARTY_HOLDER, &info) ||
	        !read_parties(waiters, SNECK_PARTY_WAITER, &info))
		goto strange;
	*ret = info;
	return 0;
strange:
	free(info.parties);
	return snecki_err(reterr, SNECK_ESERVER, "the server's answer about a lock cannot be understood");
}

/* ---- Break --------------------------------------------------------------------------------------*/

int snecki_redisson_decode_break(const struct dialect_session *session, const struct redisReply *reply,
        bool *ret_more, struct sneck_error *reterr) {
	(void)session;
	*ret_more = false;
	if (reply->type == REDIS_REPLY_ERROR && reply->str)
		return snecki_server_error_fill(reply->str, (size_t)reply->len, reterr);
	if (snecki_reply_is(reply, "done"))
		return 0;
	if (snecki_reply_is(reply, "gone"))
		return snecki_err(reterr, SNECK_ENOTHELD, "%s", sneck_strerror(SNECK_ENOTHELD));
	return snecki_err(reterr, SNECK_EUNKNOWN, "the server's answer cannot be understood");
}

/* ---- Rights -------------------------------------------------------------------------------------*/

enum { H = 1u << SNECK_ROLE_HOLDER, V = 1u << SNECK_ROLE_VIEWER, O = 1u << SNECK_ROLE_OPERATOR };

/* Of all four objects: a user who has these can use any of them. `$r` is a key that a script makes beside
 * the lock. */
static const struct right rows[] = {
	{ "evalsha", { "x", "1", "$k" }, H | O },
	{ "eval", { "x", "1", "$k" }, H | O },
	{ "evalsha_ro", { "x", "1", "$k" }, H | V | O },
	{ "eval_ro", { "x", "1", "$k" }, H | V | O },
	{ "time", { NULL }, H | V | O },
	{ "exists", { "$k" }, H | V | O },
	{ "pttl", { "$r" }, H | V | O },
	{ "get", { "$r" }, H | V | O },
	{ "hlen", { "$k" }, H | V | O },
	{ "hget", { "$k", "x" }, H | V | O },
	{ "hgetall", { "$k" }, H | V | O },
	{ "hscan", { "$k", "0" }, H },
	{ "hexists", { "$k", "x" }, H },
	{ "hrandfield", { "$k", "1" }, H | O },
	{ "hset", { "$k", "x", "x" }, H | O },
	{ "hdel", { "$k", "x" }, H | O },
	{ "pexpire", { "$k", "1" }, H | O },
	{ "set", { "$r", "x" }, H },
	{ "del", { "$r" }, H | O },
	{ "incr", { "$r" }, H },
	{ "llen", { "$r" }, H },
	{ "lindex", { "$r", "0" }, H | O },
	{ "lpos", { "$r", "x" }, H | O },
	{ "lrange", { "$r", "0", "0" }, H | V | O },
	{ "lpop", { "$r" }, H | O },
	{ "lrem", { "$r", "0", "x" }, H | O },
	{ "rpush", { "$r", "x" }, H },
	{ "zcard", { "$r" }, H },
	{ "zscore", { "$r", "x" }, H | V | O },
	{ "zrange", { "$r", "0", "0" }, H },
	{ "zadd", { "$r", "0", "x" }, H },
	{ "zincrby", { "$r", "0", "x" }, H | O },
	{ "zrem", { "$r", "x" }, H | O },
	{ "publish", { "$c", "x" }, H | O | RIGHT_PLAIN },
	{ "spublish", { "$c", "x" }, H | O | RIGHT_SHARDED },
	{ "subscribe", { "$c" }, H | RIGHT_PLAIN },
	{ "ssubscribe", { "$c" }, H | RIGHT_SHARDED },
	{ "sunsubscribe", { "$c" }, H | RIGHT_SHARDED },
	{ "unsubscribe", { "$c" }, H | RIGHT_PLAIN },
	{ "ping", { NULL }, H },
	{ "scan", { "0" }, V | O },
	{ "info", { NULL }, O },
	{ "cluster|slots", { NULL }, H | V | O | RIGHT_CLUSTER },
	{ "asking", { NULL }, H | V | O | RIGHT_CLUSTER },
};
static const struct rights rights = { rows, sizeof rows / sizeof rows[0], false };

void snecki_redisson_needs(const struct dialect_session *session, struct sneck_probe_info *ret) {
	snecki_rights_needs(&rights, session, ret);
}

int snecki_redisson_encode_rights(const struct dialect_session *session, bool reads_only, struct buf *out) {
	struct buf key = BUF_INIT, beside = BUF_INIT, channel = BUF_INIT;
	int r = snecki_compat_name(session, "x", 1, &key);

	if (r == 0) {
		snecki_compat_suffixed(&beside, &key, "x");
		snecki_compat_prefixed(&channel, "redisson_lock__channel", &key);
		r = snecki_rights_encode(&rights, session, &key, &beside, &channel, reads_only, out);
	}
	snecki_buf_done(&key);
	snecki_buf_done(&beside);
	snecki_buf_done(&channel);
	return r;
}

bool snecki_redisson_decode_rights(
        const struct dialect_session *session, const struct redisReply *reply, struct sneck_probe_info *ret) {
	return snecki_rights_decode(&rights, session, reply, ret);
}
