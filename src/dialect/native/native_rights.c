/* SPDX-License-Identifier: MIT */
/* What a user must be allowed to do, by role: the one list. `sneck acl` prints it, `sneck doctor`
 * compares it with what the server allows, and a test takes each command away in turn.
 *
 * The server is asked by a script, for it then checks keys and channels with the command, under the
 * rights of whoever asks, and none of the commands is called. HELLO and AUTH are not in the list:
 * the server lets everybody call them. */
#include "dialect/native/native.h"

#include <stdio.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include <sneck/error.h>
#include <sneck/probe.h>

#include "dialect/native/scripts.h"

enum { H = 1u << SNECK_ROLE_HOLDER, V = 1u << SNECK_ROLE_VIEWER, O = 1u << SNECK_ROLE_OPERATOR };
enum { WORDS_MAX = 4 };

/* In the words `$k` is a lock's key, `$r` a record's, `$c` a channel. */
struct right {
	const char *command;
	const char *words[WORDS_MAX]; /* behind the command; NULL ends them */
	unsigned roles;
};

static const struct right rights[] = {
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
	{ "publish", { "$c", "x" }, H | O },
	{ "hset", { "$r", "x", "x" }, H },
	{ "pexpire", { "$r", "1" }, H },
	{ "del", { "$r" }, H },
	{ "subscribe", { "$c" }, H },
	{ "ping", { NULL }, H },
	{ "scan", { "0" }, V | O },
	{ "info", { NULL }, O },
};
enum { RIGHTS = sizeof rights / sizeof rights[0] };

static void add_command(char *list, size_t size, const char *command) {
	size_t len = strlen(list);

	snprintf(list + len, size - len, "%s%s", len ? " " : "", command);
}

void snecki_native_needs(struct sneck_probe_info *ret) {
	for (int role = 0; role < SNECK_ROLES; role++) {
		ret->needs[role][0] = '\0';
		for (size_t i = 0; i < RIGHTS; i++)
			if (rights[i].roles & (1u << role))
				add_command(ret->needs[role], sizeof ret->needs[role], rights[i].command);
	}
}

static size_t word_count(const struct right *right) {
	size_t n = 0;
	while (n < WORDS_MAX && right->words[n])
		n++;
	return n;
}

static void add_record_key(struct buf *out, const struct dialect_session *session) {
	struct buf key = BUF_INIT;

	snecki_buf_add_str(&key, session->name_space);
	snecki_buf_add_str(&key, ":@");
	snecki_buf_add_str(&key, session->id);
	if (key.failed || !snecki_buf_resp_bulk(out, key.data, key.len))
		out->failed = true;
	snecki_buf_done(&key);
}

static int add_word(
        struct buf *out, const struct dialect_session *session, const struct buf *channel, const char *word) {
	if (strcmp(word, "$k") == 0)
		return snecki_native_add_key(out, session->name_space, "x", 1);
	if (strcmp(word, "$r") == 0)
		add_record_key(out, session);
	else if (strcmp(word, "$c") == 0)
		snecki_buf_resp_bulk(out, channel->data, channel->len);
	else
		snecki_buf_resp_str(out, word);
	return out->failed ? SNECK_ENOMEM : 0;
}

int snecki_native_encode_rights(const struct dialect_session *session, bool reads_only, struct buf *out) {
	struct buf channel = BUF_INIT;
	size_t args = 0;
	int r = snecki_native.channel(session, &channel);

	for (size_t i = 0; i < RIGHTS; i++)
		args += 2 + word_count(&rights[i]);
	snecki_buf_resp_array(out, 4 + args);
	snecki_native_script(out, &snecki_native_scripts[NATIVE_RIGHTS], reads_only, true);
	if (r == 0)
		r = snecki_native_add_key(out, session->name_space, "x", 1);
	for (size_t i = 0; r == 0 && i < RIGHTS; i++) {
		snecki_buf_resp_u64(out, 1 + word_count(&rights[i]));
		snecki_buf_resp_str(out, rights[i].command);
		for (size_t j = 0; r == 0 && j < word_count(&rights[i]); j++)
			r = add_word(out, session, &channel, rights[i].words[j]);
	}
	snecki_buf_done(&channel);
	return r < 0 ? r : out->failed ? SNECK_ENOMEM : 0;
}

bool snecki_native_decode_rights(const struct redisReply *reply, struct sneck_probe_info *ret) {
	if (reply->type != REDIS_REPLY_ARRAY)
		return false;
	for (size_t i = 0; i < reply->elements; i++) {
		const redisReply *number = reply->element[i];
		if (number->type != REDIS_REPLY_INTEGER || number->integer < 1 || number->integer > RIGHTS)
			return false;
		const struct right *right = &rights[number->integer - 1];
		for (int role = 0; role < SNECK_ROLES; role++)
			if (right->roles & (1u << role))
				add_command(ret->missing[role], sizeof ret->missing[role], right->command);
	}
	return true;
}
