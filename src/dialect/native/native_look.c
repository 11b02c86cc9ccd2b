/* SPDX-License-Identifier: MIT */
/* Looking at locks: who holds, who waits, and which locks there are.
 *
 * What comes back is for people. It is still read with suspicion, because whatever does not fit must
 * become an error here and not a wrong line on an operator's screen, who may break a lock for it. */
#include "dialect/native/native.h"

#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include <sneck/sneck.h>

#include "base/err.h"
#include "dialect/native/scripts.h"
#include "net/server_error.h"

#define NUMBER_MAX (INT64_C(1) << 53) /* as in native_reply.c */

int snecki_native_encode_inspect(const struct dialect_session *session, const char *name, size_t name_len,
        size_t most, bool full_text, struct buf *out) {
	size_t start = out->len;

	snecki_buf_resp_array(out, 5);
	snecki_native_script(out, &snecki_native_scripts[NATIVE_INSPECT], true, full_text);
	int r = snecki_native_add_key(out, session->name_space, name, name_len);
	snecki_buf_resp_u64(out, most);
	if (r == 0 && out->failed)
		r = SNECK_ENOMEM;
	if (r < 0 && !out->failed)
		out->len = start;
	return r;
}

/* ---- The answer ---------------------------------------------------------------------------------*/

enum { FIELDS = 8 };

static bool read_number(const redisReply *field, int64_t *ret) {
	if (field->type != REDIS_REPLY_INTEGER || field->integer < 0 || field->integer > NUMBER_MAX)
		return false;
	*ret = field->integer;
	return true;
}

/* `<kind letter><session>.<counter>`, and `.<old counter>` behind that of an upgrader, which is no part of
 * its id. */
static bool read_id(const redisReply *field, const char *kinds, sneck_party *ret) {
	if (field->type != REDIS_REPLY_STRING || !field->str || field->len < 1 ||
	        !strchr(kinds, field->str[0]))
		return false;
	const char *from = field->str + 1, *end = field->str + field->len;
	if (end[-1] == '!') /* broken, and in its grace */
		end--;
	const char *dot = memchr(from, '.', (size_t)(end - from));
	if (!dot || dot == from || dot - from > NATIVE_SESSION_MAX)
		return false;
	const char *stop = dot + 1;
	while (stop < end && *stop != '.')
		stop++;
	bool upgrader = field->str[0] == 'u';
	uint64_t counter;
	if (upgrader != (stop < end) ||
	        !snecki_native_read_counter(dot + 1, (size_t)(stop - dot - 1), &counter) ||
	        (size_t)(stop - field->str) >= sizeof ret->id)
		return false;
	memcpy(ret->id, field->str, (size_t)(stop - field->str));
	memcpy(ret->session, from, (size_t)(dot - from));
	ret->detached = counter & LOCK_DETACHED ? 1 : 0;
	return true;
}

/* What a session's id tells when it has no record: `host:pid:…`. */
static void read_session(sneck_party *party) {
	const char *colon = strchr(party->session, ':');
	const char *end = colon ? strchr(colon + 1, ':') : NULL;
	uint64_t pid;

	if (!end || !snecki_native_number(colon + 1, (size_t)(end - colon - 1), 10, &pid) || pid > INT32_MAX)
		return;
	memcpy(party->host, party->session, (size_t)(colon - party->session));
	party->pid = (int32_t)pid;
}

static bool read_holder(redisReply *const *at, const sneck_lock_info *info, sneck_party *ret) {
	int64_t deadline_ms, lingers, since_ms = (int64_t)(info->token / 1000);

	if (!read_id(at[0], "RW", ret) || !read_number(at[1], &deadline_ms) || !read_number(at[2], &lingers))
		return false;
	ret->lingers = lingers != 0;
	ret->kind = SNECK_PARTY_HOLDER;
	ret->mode = ret->id[0] == 'W' ? SNECK_WRITE : SNECK_READ;
	/* A token may run ahead of the clock, and then tells nothing. */
	ret->since_ms = since_ms <= info->server_ms ? since_ms : 0;
	ret->lease_left_ms = deadline_ms - info->server_ms;
	return true;
}

static bool read_waiter(redisReply *const *at, const sneck_lock_info *info, sneck_party *ret) {
	int64_t lease_ms;

	if (!read_id(at[0], "rwu", ret) || !read_number(at[1], &ret->since_ms) ||
	        !read_number(at[2], &lease_ms))
		return false;
	ret->kind = ret->id[0] == 'u' ? SNECK_PARTY_UPGRADER : SNECK_PARTY_WAITER;
	ret->mode = ret->id[0] == 'r' ? SNECK_READ : SNECK_WRITE;
	ret->lease_left_ms = lease_ms - info->server_ms;
	return true;
}

static bool read_parties(const redisReply *holders, const redisReply *waiters, sneck_lock_info *info) {
	for (size_t i = 0; i < holders->elements; i += 3) {
		if (!read_holder(holders->element + i, info, &info->parties[info->party_n]))
			return false;
		read_session(&info->parties[info->party_n++]);
	}
	for (size_t i = 0; i < waiters->elements; i += 3) {
		if (!read_waiter(waiters->element + i, info, &info->parties[info->party_n]))
			return false;
		read_session(&info->parties[info->party_n++]);
	}
	return true;
}

static bool read_mode(const redisReply *field, int *ret) {
	if (field->type != REDIS_REPLY_STRING || !field->str || field->len > 1)
		return false;
	*ret = field->len == 0 ? 0 : field->str[0] == 'W' ? SNECK_WRITE : SNECK_READ;
	return field->len == 0 || field->str[0] == 'W' || field->str[0] == 'R';
}

static bool read_head(const redisReply *reply, sneck_lock_info *info) {
	int64_t us, holder_n, waiter_n;

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != FIELDS)
		return false;
	redisReply *const *field = reply->element;
	if (field[2]->type != REDIS_REPLY_STRING || !field[2]->str ||
	        !snecki_native_number(field[2]->str, (size_t)field[2]->len, 10, &info->token) ||
	        info->token > (uint64_t)NUMBER_MAX)
		return false;
	if (!read_number(field[1], &us) || !read_mode(field[3], &info->mode) ||
	        !read_number(field[4], &holder_n) || !read_number(field[5], &waiter_n))
		return false;
	info->server_ms = us / 1000;
	info->holder_n = (size_t)holder_n;
	info->waiter_n = (size_t)waiter_n;
	return field[6]->type == REDIS_REPLY_ARRAY && field[6]->elements % 3 == 0 &&
	       field[7]->type == REDIS_REPLY_ARRAY && field[7]->elements % 3 == 0;
}

int snecki_native_decode_inspect(
        const struct redisReply *reply, struct sneck_lock_info *ret, struct sneck_error *reterr) {
	sneck_lock_info info = { 0 };

	if (reply->type == REDIS_REPLY_ERROR && reply->str)
		return snecki_server_error_fill(reply->str, (size_t)reply->len, reterr);
	if (!read_head(reply, &info))
		goto strange;
	const redisReply *holders = reply->element[6], *waiters = reply->element[7];
	size_t n = holders->elements / 2 + waiters->elements / 3;
	info.parties = calloc(n ? n : 1, sizeof *info.parties);
	if (!info.parties)
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	if (!read_parties(holders, waiters, &info))
		goto strange;
	*ret = info;
	return 0;
strange:
	free(info.parties);
	return snecki_err(reterr, SNECK_ESERVER, "the server's answer about a lock cannot be understood");
}

/* ---- Which locks there are ----------------------------------------------------------------------*/

int snecki_native_encode_scan(const struct dialect_session *session, const char *cursor, struct buf *out) {
	struct buf pattern = BUF_INIT;

	for (const char *at = session->name_space; *at; at++) {
		if (strchr("*?[]\\^-", *at))
			snecki_buf_add_str(&pattern, "\\");
		snecki_buf_add(&pattern, at, 1);
	}
	snecki_buf_add_str(&pattern, ":{*}");
	snecki_buf_resp_array(out, 8);
	snecki_buf_resp_str(out, "SCAN");
	snecki_buf_resp_str(out, cursor);
	snecki_buf_resp_str(out, "MATCH");
	snecki_buf_resp_bulk(out, pattern.data, pattern.len);
	snecki_buf_resp_str(out, "COUNT");
	snecki_buf_resp_str(out, "512");
	snecki_buf_resp_str(out, "TYPE");
	snecki_buf_resp_str(out, "zset");
	int r = out->failed || pattern.failed ? SNECK_ENOMEM : 0;
	snecki_buf_done(&pattern);
	return r;
}

/* The three bytes that are escaped in a key, and nothing else: two keys never have the same name. */
static bool add_unescaped(struct buf *out, const char *text, size_t len) {
	for (size_t i = 0; i < len; i++) {
		char c = text[i];
		if (c == '{' || c == '}')
			return false;
		if (c == '%') {
			if (len - i < 3)
				return false;
			const char *code = text + i + 1;
			c = memcmp(code, "25", 2) == 0   ? '%'
			    : memcmp(code, "7B", 2) == 0 ? '{'
			    : memcmp(code, "7D", 2) == 0 ? '}'
			                                 : '\0';
			if (c == '\0')
				return false;
			i += 2;
		}
		if (!snecki_buf_add(out, &c, 1))
			return false;
	}
	return true;
}

bool snecki_native_key_name(
        const struct dialect_session *session, const char *key, size_t key_len, struct buf *out) {
	size_t space_len = strlen(session->name_space), start = out->len;

	if (key_len < space_len + 4 || memcmp(key, session->name_space, space_len) != 0 ||
	        memcmp(key + space_len, ":{", 2) != 0 || key[key_len - 1] != '}')
		return false;
	if (add_unescaped(out, key + space_len + 2, key_len - space_len - 3) &&
	        out->len - start <= SNECK_NAME_MAX)
		return true;
	if (!out->failed)
		out->len = start;
	return false;
}
