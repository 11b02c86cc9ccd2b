/* SPDX-License-Identifier: MIT */
/* What a user of the native dialect must be allowed to do, by role: the one list. A test takes each
 * command away in turn. */
#include "dialect/native/native.h"

#include <sneck/error.h>
#include <sneck/probe.h>

#include "dialect/rights.h"

enum { H = 1u << SNECK_ROLE_HOLDER, V = 1u << SNECK_ROLE_VIEWER, O = 1u << SNECK_ROLE_OPERATOR };

static const struct right rows[] = {
	{ "evalsha", { "x", "1", "$k" }, H | O },
	{ "eval", { "x", "1", "$k" }, H | O },
	{ "evalsha_ro", { "x", "1", "$k" }, H | V | O },
	{ "eval_ro", { "x", "1", "$k" }, H | V | O },
	{ "exists", { "$k" }, H | V | O },
	{ "time", { NULL }, H | V | O },
	{ "zrange", { "$k", "0", "0" }, H | V | O },
	{ "zscore", { "$k", "x" }, H | V | O },
	{ "zcount", { "$k", "0", "0" }, H | V | O },
	{ "hmget", { "$r", "x" }, H | V | O },
	{ "zmscore", { "$k", "x" }, H | O },
	{ "zrank", { "$k", "x" }, H },
	{ "zadd", { "$k", "0", "x" }, H | O },
	{ "zrem", { "$k", "x" }, H | O },
	{ "pexpireat", { "$k", "1" }, H | O },
	{ "publish", { "$c", "x" }, H | O | RIGHT_PLAIN },
	{ "spublish", { "$c", "x" }, H | O | RIGHT_SHARDED },
	{ "hset", { "$r", "x", "x" }, H },
	{ "pexpire", { "$r", "1" }, H },
	{ "del", { "$r" }, H },
	{ "subscribe", { "$c" }, H | RIGHT_PLAIN },
	{ "ssubscribe", { "$c" }, H | RIGHT_SHARDED },
	{ "sunsubscribe", { "$c" }, H | RIGHT_SHARDED },
	{ "ping", { NULL }, H },
	{ "scan", { "0" }, V | O },
	{ "info", { NULL }, O },
	{ "cluster|slots", { NULL }, H | V | O | RIGHT_CLUSTER },
	{ "asking", { NULL }, H | V | O | RIGHT_CLUSTER },
};
static const struct rights rights = { rows, sizeof rows / sizeof rows[0], false };

void snecki_native_needs(const struct dialect_session *session, struct sneck_probe_info *ret) {
	snecki_rights_needs(&rights, session, ret);
}

int snecki_native_encode_rights(const struct dialect_session *session, bool reads_only, struct buf *out) {
	struct buf key = BUF_INIT, record = BUF_INIT, channel = BUF_INIT;
	int r = snecki_native_key(session->name_space, "x", 1, &key);

	snecki_buf_add_str(&record, session->name_space);
	snecki_buf_add_str(&record, ":@");
	snecki_buf_add_str(&record, session->id);
	if (r == 0)
		r = session->sharded ? snecki_native.lock_channel(session, "x", 1, 0, &channel)
		                     : snecki_native.channel(session, &channel);
	if (r == 0)
		r = snecki_rights_encode(&rights, session, &key, &record, &channel, reads_only, out);
	snecki_buf_done(&key);
	snecki_buf_done(&record);
	snecki_buf_done(&channel);
	return r;
}

bool snecki_native_decode_rights(
        const struct dialect_session *session, const struct redisReply *reply, struct sneck_probe_info *ret) {
	return snecki_rights_decode(&rights, session, reply, ret);
}
