/* SPDX-License-Identifier: MIT */
/* Who a session is, for people who look at locks.
 *
 * The record is a hash `<namespace>:@<session>` beside the locks; a detached hold, which no session keeps,
 * has one of its own, `<namespace>:@<attempt>`: to this file that is just another id. No script that decides
 * about a lock reads it: it may be missing, old or forged, and nothing but a text on a screen is wrong then.
 */
#include "dialect/native/native.h"

#include <string.h>

#include <hiredis/hiredis.h>

#include <sneck/error.h>
#include <sneck/inspect.h>
#include <sneck/version.h>

#include "dialect/native/scripts.h"

/* As a bulk string. */
static void add_record_key(struct buf *out, const char *name_space, const char *session, size_t session_len) {
	struct buf key = BUF_INIT;

	snecki_buf_add_str(&key, name_space);
	snecki_buf_add_str(&key, ":@");
	snecki_buf_add(&key, session, session_len);
	if (key.failed || !snecki_buf_resp_bulk(out, key.data, key.len))
		out->failed = true;
	snecki_buf_done(&key);
}

static void add_field(struct buf *out, const char *field, const char *value) {
	snecki_buf_resp_str(out, field);
	snecki_buf_resp_str(out, value);
}

int snecki_native_encode_record(const struct dialect_session *session, const struct session_record *record,
        int64_t ttl_ms, bool full_text, struct buf *out) {
	snecki_buf_resp_array(out, 4 + 1 + 2 * 7);
	snecki_native_script(out, &snecki_native_scripts[NATIVE_RECORD], false, full_text);
	add_record_key(out, session->name_space, session->id, strlen(session->id));
	snecki_buf_resp_i64(out, ttl_ms);
	add_field(out, "user", record->user);
	add_field(out, "host", record->host);
	snecki_buf_resp_str(out, "pid");
	snecki_buf_resp_i64(out, record->pid);
	add_field(out, "command", record->command);
	add_field(out, "note", record->note);
	add_field(out, "version", SNECK_VERSION);
	snecki_buf_resp_str(out, "since");
	snecki_buf_resp_i64(out, record->since_ms);
	return out->failed ? SNECK_ENOMEM : 0;
}

int snecki_native_encode_record_end(const struct dialect_session *session, struct buf *out) {
	snecki_buf_resp_array(out, 2);
	snecki_buf_resp_str(out, "DEL");
	add_record_key(out, session->name_space, session->id, strlen(session->id));
	return out->failed ? SNECK_ENOMEM : 0;
}

int snecki_native_encode_record_longer(
        const struct dialect_session *session, int64_t ttl_ms, struct buf *out) {
	snecki_buf_resp_array(out, 4);
	snecki_buf_resp_str(out, "PEXPIRE");
	add_record_key(out, session->name_space, session->id, strlen(session->id));
	snecki_buf_resp_i64(out, ttl_ms);
	snecki_buf_resp_str(out, "GT");
	return out->failed ? SNECK_ENOMEM : 0;
}

int snecki_native_encode_record_ask(
        const struct dialect_session *session, const char *whose, struct buf *out) {
	snecki_buf_resp_array(out, 7);
	snecki_buf_resp_str(out, "HMGET");
	add_record_key(out, session->name_space, whose, strlen(whose));
	snecki_buf_resp_str(out, "user");
	snecki_buf_resp_str(out, "host");
	snecki_buf_resp_str(out, "pid");
	snecki_buf_resp_str(out, "command");
	snecki_buf_resp_str(out, "note");
	return out->failed ? SNECK_ENOMEM : 0;
}

/* Whoever may write to the server may have written this: it is cut to fit, and ends at a NUL. */
static void read_text(const redisReply *field, char *out, size_t size) {
	if (field->type != REDIS_REPLY_STRING || !field->str)
		return;
	size_t len = strnlen(field->str, (size_t)field->len);
	if (len >= size)
		len = size - 1;
	memcpy(out, field->str, len);
	out[len] = '\0';
}

void snecki_native_decode_record(const struct redisReply *reply, struct sneck_party *party) {
	uint64_t pid;

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 5)
		return;
	read_text(reply->element[0], party->user, sizeof party->user);
	read_text(reply->element[1], party->host, sizeof party->host);
	read_text(reply->element[3], party->command, sizeof party->command);
	read_text(reply->element[4], party->note, sizeof party->note);
	const redisReply *field = reply->element[2];
	if (field->type == REDIS_REPLY_STRING && field->str &&
	        snecki_native_number(field->str, (size_t)field->len, 10, &pid) && pid <= INT32_MAX)
		party->pid = (int32_t)pid;
}
