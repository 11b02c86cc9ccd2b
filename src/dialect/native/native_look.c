/* SPDX-License-Identifier: MIT */
/* The native dialect for people who look at locks: who a session is.
 *
 * A session's record is a hash `<namespace>:@<session>` beside the locks. No script that decides about
 * a lock reads it: it may be missing, old or forged, and nothing but a text on a screen is wrong then. */
#include "dialect/native/native.h"

#include <string.h>

#include <sneck/error.h>
#include <sneck/version.h>

#include "dialect/native/scripts.h"

static void add_script(struct buf *out, enum native_script id, bool full_text) {
	const struct script *script = &snecki_native_scripts[id];

	snecki_buf_resp_str(out, full_text ? "EVAL" : "EVALSHA");
	if (full_text)
		snecki_buf_resp_bulk(out, script->text, script->len);
	else
		snecki_buf_resp_str(out, script->sha1);
	snecki_buf_resp_str(out, "1");
}

/* ---- Session records ----------------------------------------------------------------------------*/

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
	add_script(out, NATIVE_RECORD, full_text);
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
