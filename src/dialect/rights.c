/* SPDX-License-Identifier: MIT */
/* A table of rights, told to people and put to the server. `sneck acl` prints it, `sneck doctor` compares
 * it with what the server allows. The script is the native dialect's: it knows nothing of locks. */
#include "dialect/rights.h"

#include <stdio.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include <sneck/error.h>
#include <sneck/probe.h>

#include "dialect/native/scripts.h"
#include "dialect/reply.h"

static void add_command(char *list, size_t size, const char *command) {
	size_t len = strlen(list);

	snprintf(list + len, size - len, "%s%s", len ? " " : "", command);
}

/* Is it needed where this session is? */
static bool applies(
        const struct right *right, const struct rights *rights, const struct dialect_session *session) {
	bool sharded = session->sharded && !rights->plain_channels;

	if (right->roles & RIGHT_CLUSTER)
		return session->sharded;
	return !(right->roles & (sharded ? RIGHT_PLAIN : RIGHT_SHARDED));
}

void snecki_rights_needs(
        const struct rights *rights, const struct dialect_session *session, struct sneck_probe_info *ret) {
	for (int role = 0; role < SNECK_ROLES; role++) {
		ret->needs[role][0] = '\0';
		for (size_t i = 0; i < rights->n; i++)
			if (rights->rows[i].roles & (1u << role) &&
			        applies(&rights->rows[i], rights, session))
				add_command(
				        ret->needs[role], sizeof ret->needs[role], rights->rows[i].command);
	}
}

/* Of the command itself there are one or two. */
static size_t word_count(const struct right *right) {
	size_t n = 0;
	while (n < RIGHT_WORDS_MAX && right->words[n])
		n++;
	return n + (strchr(right->command, '|') ? 2 : 1);
}

static void add_words(struct buf *out, const struct right *right, const struct buf *key,
        const struct buf *other_key, const struct buf *channel) {
	const char *bar = strchr(right->command, '|');

	snecki_buf_resp_u64(out, word_count(right));
	snecki_buf_resp_bulk(
	        out, right->command, bar ? (size_t)(bar - right->command) : strlen(right->command));
	if (bar)
		snecki_buf_resp_str(out, bar + 1);
	for (size_t i = 0; i < RIGHT_WORDS_MAX && right->words[i]; i++) {
		const char *word = right->words[i];
		const struct buf *name = strcmp(word, "$k") == 0   ? key
		                         : strcmp(word, "$r") == 0 ? other_key
		                         : strcmp(word, "$c") == 0 ? channel
		                                                   : NULL;
		if (name)
			snecki_buf_resp_bulk(out, name->data, name->len);
		else
			snecki_buf_resp_str(out, word);
	}
}

/* What does not apply is asked for as well, so that the numbers in the answer are those of the table. */
int snecki_rights_encode(const struct rights *rights, const struct dialect_session *session,
        const struct buf *key, const struct buf *other_key, const struct buf *channel, bool reads_only,
        struct buf *out) {
	bool with_key = !session->sharded; /* each node of a cluster has users of its own, and may be asked */
	size_t args = with_key ? 1 : 0;

	for (size_t i = 0; i < rights->n; i++)
		args += 1 + word_count(&rights->rows[i]);
	snecki_buf_resp_array(out, 3 + args);
	snecki_script_words(out, &snecki_native_scripts[NATIVE_RIGHTS], reads_only, true);
	snecki_buf_resp_u64(out, with_key ? 1 : 0);
	if (with_key)
		snecki_buf_resp_bulk(out, key->data, key->len);
	for (size_t i = 0; i < rights->n; i++)
		add_words(out, &rights->rows[i], key, other_key, channel);
	return out->failed || key->failed || other_key->failed || channel->failed ? SNECK_ENOMEM : 0;
}

bool snecki_rights_decode(const struct rights *rights, const struct dialect_session *session,
        const struct redisReply *reply, struct sneck_probe_info *ret) {
	if (reply->type != REDIS_REPLY_ARRAY)
		return false;
	for (size_t i = 0; i < reply->elements; i++) {
		const redisReply *number = reply->element[i];
		if (number->type != REDIS_REPLY_INTEGER || number->integer < 1 ||
		        number->integer > (long long)rights->n)
			return false;
		const struct right *right = &rights->rows[number->integer - 1];
		for (int role = 0; role < SNECK_ROLES && applies(right, rights, session); role++)
			if (right->roles & (1u << role))
				add_command(ret->missing[role], sizeof ret->missing[role], right->command);
	}
	return true;
}
