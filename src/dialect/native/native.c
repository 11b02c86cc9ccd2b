/* SPDX-License-Identifier: MIT */
/* The native dialect's requests and names: one script per operation, one key per lock.
 *
 * Invariants:
 *   - Two different names never share a key, in any namespace: the name is what stands in the last
 *     pair of braces, and its own braces (and the escape character) are percent-encoded. So the
 *     braces are also the hash tag of a cluster, whatever the name contains.
 *   - Every script's ARGV begins with the attempt (which the reply echoes), the time that an idle
 *     key is kept, and the prefix of the sessions' channels; but for acquire and release, whose
 *     arguments are as few as can be: what only the long way needs is one text. docs/protocol.md
 *     lists the rest; the first line of each .lua file says it again.
 *   - Nothing here allocates but the output buffer, whose failure is checked once at the end. */
#include "dialect/native/native.h"

#include <assert.h>
#include <string.h>

#include <sneck/error.h>
#include <sneck/sneck.h>

#include "dialect/native/scripts.h"
#include "dialect/reply.h"

void snecki_native_counter(uint64_t counter, char ret_text[NATIVE_COUNTER_MAX + 1]) {
	char reversed[NATIVE_COUNTER_MAX];
	size_t len = 0;
	uint64_t rest = counter & ~LOCK_DETACHED;
	do {
		reversed[len++] = "0123456789abcdefghijklmnopqrstuvwxyz"[rest % 36];
		rest /= 36;
	} while (rest);
	for (size_t i = 0; i < len; i++)
		ret_text[i] = reversed[len - 1 - i];
	if (counter & LOCK_DETACHED)
		ret_text[len++] = '~';
	ret_text[len] = '\0';
}

void snecki_native_attempt(const char *session, uint64_t counter, char ret_text[NATIVE_ATTEMPT_MAX + 1]) {
	size_t len = strlen(session);
	assert(len <= NATIVE_SESSION_MAX);
	memcpy(ret_text, session, len);
	ret_text[len] = '.';
	snecki_native_counter(counter, ret_text + len + 1);
}

static int digit_value(char c) {
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 10;
	return 99;
}

bool snecki_native_number(const char *text, size_t len, unsigned base, uint64_t *ret) {
	uint64_t value = 0;
	if (len == 0)
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned digit = (unsigned)digit_value(text[i]);
		if (digit >= base || value > (UINT64_MAX - digit) / base)
			return false;
		value = value * base + digit;
	}
	*ret = value;
	return true;
}

bool snecki_native_read_counter(const char *text, size_t len, uint64_t *ret) {
	uint64_t mark = len > 0 && text[len - 1] == '~' ? LOCK_DETACHED : 0;
	uint64_t counter;

	if (len > NATIVE_COUNTER_MAX || !snecki_native_number(text, mark ? len - 1 : len, 36, &counter) ||
	        counter & LOCK_DETACHED)
		return false;
	*ret = counter | mark;
	return true;
}

static bool is_escaped(char c) {
	return c == '%' || c == '{' || c == '}';
}

static void add_escaped(struct buf *out, const char *name, size_t name_len) {
	size_t from = 0;
	for (size_t i = 0; i < name_len; i++) {
		char c = name[i];
		if (!is_escaped(c))
			continue;
		snecki_buf_add(out, name + from, i - from);
		snecki_buf_add_str(out, c == '%' ? "%25" : c == '{' ? "%7B" : "%7D");
		from = i + 1;
	}
	snecki_buf_add(out, name + from, name_len - from);
}

int snecki_native_key(const char *name_space, const char *name, size_t name_len, struct buf *out) {
	if (name_len == 0 || name_len > SNECK_NAME_MAX)
		return SNECK_EINVAL;
	snecki_buf_add_str(out, name_space);
	snecki_buf_add_str(out, ":{");
	add_escaped(out, name, name_len);
	snecki_buf_add_str(out, "}");
	return out->failed ? SNECK_ENOMEM : 0;
}

/* ---- Requests -------------------------------------------------------------------------------*/

static const enum native_script script_of[OP_KINDS] = {
	[OP_ACQUIRE] = NATIVE_ACQUIRE,
	[OP_BEAT] = NATIVE_BEAT,
	[OP_RELEASE] = NATIVE_RELEASE,
	[OP_RENEW] = NATIVE_RENEW,
	[OP_UPGRADE] = NATIVE_UPGRADE,
	[OP_DOWNGRADE] = NATIVE_DOWNGRADE,
	[OP_CANCEL] = NATIVE_CANCEL,
	[OP_ADVANCE] = NATIVE_ADVANCE,
	[OP_RENAME] = NATIVE_RENAME,
	[OP_LINGER] = NATIVE_RENEW, /* one that lengthens nothing */
};

/* A release that asks for nothing else. */
static bool is_plain(const struct lock_op *op) {
	return op->last_token == 0 && !op->shrink_expiry && op->bury_n == 0;
}

/* How many ARGV an operation has. */
static size_t count_args(const struct lock_op *op) {
	switch (op->kind) {
	case OP_ACQUIRE:
		return 4 + op->own_n;
	case OP_RELEASE:
		return is_plain(op) ? 2 : 4 + op->bury_n;
	case OP_BEAT:
	case OP_UPGRADE:
		return 7 + op->own_n;
	case OP_CANCEL:
		return 6 + op->bury_n;
	case OP_DOWNGRADE:
		return 6;
	case OP_RENEW:
	case OP_LINGER:
	case OP_RENAME:
		return 8;
	case OP_ADVANCE:
	case OP_KINDS:
		break;
	}
	return 3;
}

static void add_mode(struct buf *out, const struct lock_op *op) {
	snecki_buf_resp_bulk(out, &op->mode, 1);
}

static void add_flag(struct buf *out, bool flag) {
	snecki_buf_resp_str(out, flag ? "1" : "0");
}

static void add_counter(struct buf *out, uint64_t counter) {
	char text[NATIVE_COUNTER_MAX + 1];
	snecki_native_counter(counter, text);
	snecki_buf_resp_str(out, text);
}

static void add_counters(struct buf *out, const uint64_t *counters, size_t n) {
	for (size_t i = 0; i < n; i++)
		add_counter(out, counters[i]);
}

/* Of an operation that may be an upgrade's or a plain one's. */
static void add_old_if_any(struct buf *out, const struct lock_op *op) {
	if (op->old)
		add_counter(out, op->old);
	else
		snecki_buf_resp_str(out, "");
}

/* "<first> <second> <channel prefix>" as one argument; the prefix is last because it may contain blanks. */
static void add_packed(
        struct buf *out, const char *first, const char *second, const struct dialect_session *session) {
	const char *const parts[] = { first, " ", second, " ", session->sharded ? "" : session->name_space,
		session->sharded ? "" : ":!" };
	enum { PARTS = sizeof parts / sizeof parts[0] };
	size_t len = 0;

	for (size_t i = 0; i < PARTS; i++)
		len += strlen(parts[i]);
	snecki_buf_resp_bulk_begin(out, len);
	for (size_t i = 0; i < PARTS; i++)
		snecki_buf_add_str(out, parts[i]);
	snecki_buf_resp_bulk_end(out);
}

static void add_hold_id(struct buf *out, const struct dialect_session *session, const struct lock_op *op) {
	char id[LOCK_ID_MAX];

	id[0] = op->mode;
	snecki_native_attempt(session->id, op->attempt, id + 1);
	snecki_buf_resp_str(out, id);
}

static void add_acquire(struct buf *out, const struct dialect_session *session, const struct lock_op *op) {
	char wait_lease_ms[DIGITS_MAX + 1] = "";

	add_hold_id(out, session, op);
	snecki_buf_resp_i64(out, op->lease_ms);
	snecki_buf_resp_i64(out, session->keep_ms);
	add_packed(out, snecki_digits(wait_lease_ms + DIGITS_MAX, (uint64_t)op->wait_lease_ms),
	        !op->queue   ? "-"
	        : op->prefer ? "p"
	                     : "n",
	        session);
	add_counters(out, op->own, op->own_n);
}

static void add_release(struct buf *out, const struct dialect_session *session, const struct lock_op *op) {
	char keep_ms[DIGITS_MAX + 1] = "", bury_ms[DIGITS_MAX + 1] = "";

	add_hold_id(out, session, op);
	add_packed(out, snecki_digits(keep_ms + DIGITS_MAX, (uint64_t)session->keep_ms),
	        snecki_digits(bury_ms + DIGITS_MAX, (uint64_t)session->bury_ms), session);
	if (is_plain(op))
		return;
	snecki_buf_resp_u64(out, op->last_token);
	add_flag(out, op->shrink_expiry);
	add_counters(out, op->bury, op->bury_n);
}

static void add_beat(struct buf *out, const struct lock_op *op) {
	add_mode(out, op);
	snecki_buf_resp_i64(out, op->lease_ms);
	snecki_buf_resp_i64(out, op->wait_lease_ms);
	add_old_if_any(out, op);
	add_counters(out, op->own, op->own_n);
}

static void add_renew(struct buf *out, const struct lock_op *op) {
	add_mode(out, op);
	snecki_buf_resp_i64(out, op->kind == OP_LINGER ? 0 : op->lease_ms);
	snecki_buf_resp_u64(out, op->last_token);
	add_flag(out, op->lingers);
	add_flag(out, op->must_write);
}

static void add_upgrade(struct buf *out, const struct lock_op *op) {
	add_counter(out, op->old);
	snecki_buf_resp_i64(out, op->lease_ms);
	snecki_buf_resp_i64(out, op->wait_lease_ms);
	add_flag(out, op->queue);
	add_counters(out, op->own, op->own_n);
}

static void add_downgrade(struct buf *out, const struct lock_op *op) {
	add_counter(out, op->old);
	snecki_buf_resp_i64(out, op->lease_ms);
	snecki_buf_resp_u64(out, op->last_token);
}

static void add_cancel(struct buf *out, const struct lock_op *op, int64_t bury_ms) {
	add_mode(out, op);
	add_old_if_any(out, op);
	snecki_buf_resp_i64(out, bury_ms);
	add_counters(out, op->bury, op->bury_n);
}

static void add_rename(struct buf *out, const struct lock_op *op) {
	snecki_buf_resp_str(out, op->foreign_id);
	snecki_buf_resp_i64(out, op->lease_ms);
	add_flag(out, op->keep_old);
	add_flag(out, op->shrink_expiry);
	snecki_buf_resp_u64(out, op->last_token);
}

static int add_args(struct buf *out, const struct dialect_session *session, const struct lock_op *op) {
	char attempt[NATIVE_ATTEMPT_MAX + 1];

	snecki_native_attempt(session->id, op->attempt, attempt);
	snecki_buf_resp_str(out, attempt);
	snecki_buf_resp_i64(out, session->keep_ms);
	int r = snecki_native_add_channel_prefix(out, session);
	switch (op->kind) {
	case OP_BEAT:
		add_beat(out, op);
		break;
	case OP_RENEW:
	case OP_LINGER:
		add_renew(out, op);
		break;
	case OP_UPGRADE:
		add_upgrade(out, op);
		break;
	case OP_DOWNGRADE:
		add_downgrade(out, op);
		break;
	case OP_CANCEL:
		add_cancel(out, op, session->bury_ms);
		break;
	case OP_RENAME:
		add_rename(out, op);
		break;
	case OP_ACQUIRE: /* written apart */
	case OP_RELEASE:
	case OP_ADVANCE:
	case OP_KINDS:
		break;
	}
	return r;
}

void snecki_native_script(struct buf *out, const struct script *script, bool reads_only, bool full_text) {
	snecki_script_words(out, script, reads_only, full_text);
	snecki_buf_resp_str(out, "1");
}

int snecki_native_add_key(struct buf *out, const char *name_space, const char *name, size_t name_len) {
	size_t start = out->len, escapes = 0;
	for (size_t i = 0; i < name_len; i++)
		escapes += is_escaped(name[i]);
	snecki_buf_resp_bulk_begin(out, strlen(name_space) + strlen(":{}") + name_len + 2 * escapes);
	int r = snecki_native_key(name_space, name, name_len, out);
	if (!snecki_buf_resp_bulk_end(out))
		return SNECK_ENOMEM;
	if (r < 0)
		out->len = start;
	return r;
}

/* In a cluster the scripts know it: it is the lock's key and a colon. */
int snecki_native_add_channel_prefix(struct buf *out, const struct dialect_session *session) {
	if (session->sharded)
		return snecki_buf_resp_str(out, "") ? 0 : SNECK_ENOMEM;
	snecki_buf_resp_bulk_begin(out, strlen(session->name_space) + strlen(":!"));
	snecki_buf_add_str(out, session->name_space);
	snecki_buf_add_str(out, ":!");
	return snecki_buf_resp_bulk_end(out) ? 0 : SNECK_ENOMEM;
}

static int encode(const struct dialect_session *session, const struct lock_op *op, const char *name,
        size_t name_len, bool full_text, struct buf *out) {
	assert(op->kind < OP_KINDS && op->own_n <= LOCK_OWN_MAX && op->bury_n <= LOCK_BURY_MAX);
	const struct script *script = &snecki_native_scripts[script_of[op->kind]];
	size_t start = out->len;

	snecki_buf_resp_array(out, 4 + count_args(op));
	snecki_native_script(out, script, false, full_text);
	int r = snecki_native_add_key(out, session->name_space, name, name_len);
	if (r == 0 && op->kind == OP_ACQUIRE)
		add_acquire(out, session, op);
	else if (r == 0 && op->kind == OP_RELEASE)
		add_release(out, session, op);
	else if (r == 0)
		r = add_args(out, session, op);
	if (r == 0 && out->failed)
		r = SNECK_ENOMEM;
	if (r < 0 && !out->failed)
		out->len = start; /* a half-written request would shift every later one */
	return r;
}

/* ---- Channel and messages -------------------------------------------------------------------*/

static int channel(const struct dialect_session *session, struct buf *out) {
	snecki_buf_add_str(out, session->name_space);
	snecki_buf_add_str(out, ":!");
	snecki_buf_add_str(out, session->id);
	return out->failed ? SNECK_ENOMEM : 0;
}

/* In a cluster: in the lock's own slot, because no script may publish in another. */
static int lock_channel(const struct dialect_session *session, const char *name, size_t name_len,
        uint64_t attempt, struct buf *out) {
	(void)attempt;
	int r = snecki_native_key(session->name_space, name, name_len, out);
	snecki_buf_add_str(out, ":");
	snecki_buf_add_str(out, session->id);
	return r == 0 && out->failed ? SNECK_ENOMEM : r;
}

/* A number and the blank after it; false: not there. */
static bool take_number(const char **text, size_t *len, unsigned base, uint64_t *ret) {
	const char *blank = memchr(*text, ' ', *len);
	if (!blank || !snecki_native_number(*text, (size_t)(blank - *text), base, ret))
		return false;
	*len -= (size_t)(blank + 1 - *text);
	*text = blank + 1;
	return true;
}

static bool read_grant(const char *text, size_t len, struct lock_note *note) {
	uint64_t deadline_ms, server_us, wanted = 0;
	if (!take_number(&text, &len, 36, &note->attempt) || !take_number(&text, &len, 10, &note->token) ||
	        !take_number(&text, &len, 10, &deadline_ms))
		return false;
	note->tells_wanted = take_number(&text, &len, 10, &server_us);
	if (!snecki_native_number(text, len, 10, note->tells_wanted ? &wanted : &server_us))
		return false;
	if (deadline_ms > INT64_MAX || server_us > INT64_MAX || wanted > 1)
		return false;
	note->wanted = wanted;
	note->kind = LOCK_NOTE_GRANT;
	note->deadline_ms = (int64_t)deadline_ms;
	note->server_us = (int64_t)server_us;
	return true;
}

static bool read_broken(const char *text, size_t len, struct lock_note *note) {
	const char *blank = memchr(text, ' ', len);
	uint64_t kept_ms;
	if (!blank || !snecki_native_read_counter(text, (size_t)(blank - text), &note->attempt) ||
	        !snecki_native_number(blank + 1, len - (size_t)(blank + 1 - text), 10, &kept_ms) ||
	        kept_ms > INT64_MAX / 1000000)
		return false;
	note->kind = LOCK_NOTE_BROKEN;
	note->kept_ms = (int64_t)kept_ms;
	return true;
}

static bool read_note(
        const struct dialect_session *session, const char *payload, size_t len, struct lock_note *ret) {
	struct lock_note note = { 0 };
	(void)session; /* the channel is the session's own */
	if (len < 3 || payload[1] != ' ')
		return false;
	if (payload[0] == 'g') {
		if (!read_grant(payload + 2, len - 2, &note))
			return false;
	} else if (payload[0] == 'b') {
		if (!read_broken(payload + 2, len - 2, &note))
			return false;
	} else if (payload[0] == 'w') {
		note.kind = LOCK_NOTE_WANTED;
		if (!snecki_native_read_counter(payload + 2, len - 2, &note.attempt))
			return false;
	} else {
		return false;
	}
	*ret = note;
	return true;
}

/* ---- Ids ------------------------------------------------------------------------------------*/

static void hold_id(
        const struct dialect_session *session, char mode, uint64_t attempt, char ret_id[LOCK_ID_MAX]) {
	_Static_assert(1 + NATIVE_ATTEMPT_MAX + 1 <= LOCK_ID_MAX, "an id fits");
	ret_id[0] = mode;
	snecki_native_attempt(session->id, attempt, ret_id + 1);
}

/* A letter of `kinds` and an attempt. */
static bool is_id(const char *id, const char *kinds, uint64_t *ret_counter) {
	if (!id[0] || !strchr(kinds, id[0]))
		return false;
	const char *dot = strchr(id + 1, '.');
	if (!dot || dot == id + 1 || dot - (id + 1) > NATIVE_SESSION_MAX)
		return false;
	for (const char *c = id + 1; c < dot; c++) {
		if (*c <= ' ' || *c > '~')
			return false;
	}
	return snecki_native_read_counter(dot + 1, strlen(dot + 1), ret_counter);
}

static bool check_id(const char *id) {
	uint64_t counter;
	return is_id(id, "RW", &counter);
}

static bool check_party_id(const char *id) {
	uint64_t counter;
	return is_id(id, "RWrwu", &counter);
}

static void read_id(const char *id, char ret_session[LOCK_HOLDER_MAX], uint64_t *ret_attempt) {
	_Static_assert((int)NATIVE_SESSION_MAX < (int)LOCK_HOLDER_MAX, "a session fits");
	bool ok = is_id(id, "RW", ret_attempt);
	assert(ok);
	(void)ok;
	size_t len = (size_t)(strchr(id, '.') - (id + 1));
	memcpy(ret_session, id + 1, len);
	ret_session[len] = '\0';
}

const struct dialect snecki_native = {
	.name = "native",
	.encode = encode,
	.decode = snecki_native_decode,
	.encode_renewals = snecki_native_encode_renewals,
	.decode_renewals = snecki_native_decode_renewals,
	.channel = channel,
	.read_note = read_note,
	.lock_channel = lock_channel,
	.hold_id = hold_id,
	.check_id = check_id,
	.read_id = read_id,
	.encode_record = snecki_native_encode_record,
	.encode_record_end = snecki_native_encode_record_end,
	.encode_record_longer = snecki_native_encode_record_longer,
	.encode_record_ask = snecki_native_encode_record_ask,
	.decode_record = snecki_native_decode_record,
	.encode_inspect = snecki_native_encode_inspect,
	.decode_inspect = snecki_native_decode_inspect,
	.encode_break = snecki_native_encode_break,
	.decode_break = snecki_native_decode_break,
	.check_party_id = check_party_id,
	.encode_scan = snecki_native_encode_scan,
	.key_name = snecki_native_key_name,
	.needs = snecki_native_needs,
	.encode_rights = snecki_native_encode_rights,
	.decode_rights = snecki_native_decode_rights,
};
