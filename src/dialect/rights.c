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

void snecki_rights_needs(const struct rights *rights, struct sneck_probe_info *ret) {
	for (int role = 0; role < SNECK_ROLES; role++) {
		ret->needs[role][0] = '\0';
		for (size_t i = 0; i < rights->n; i++)
			if (rights->rows[i].roles & (1u << role))
				add_command(
				        ret->needs[role], sizeof ret->needs[role], rights->rows[i].command);
	}
}

static size_t word_count(const struct right *right) {
	size_t n = 0;
	while (n < RIGHT_WORDS_MAX && right->words[n])
		n++;
	return n;
}

int snecki_rights_encode(const struct rights *rights, const struct buf *key, const struct buf *other_key,
        const struct buf *channel, bool reads_only, struct buf *out) {
	size_t args = 0;

	for (size_t i = 0; i < rights->n; i++)
		args += 2 + word_count(&rights->rows[i]);
	snecki_buf_resp_array(out, 4 + args);
	snecki_script_words(out, &snecki_native_scripts[NATIVE_RIGHTS], reads_only, true);
	snecki_buf_resp_str(out, "1");
	snecki_buf_resp_bulk(out, key->data, key->len);
	for (size_t i = 0; i < rights->n; i++) {
		const struct right *right = &rights->rows[i];
		snecki_buf_resp_u64(out, 1 + word_count(right));
		snecki_buf_resp_str(out, right->command);
		for (size_t j = 0; j < word_count(right); j++) {
			const char *word = right->words[j];
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
	return out->failed || key->failed || other_key->failed || channel->failed ? SNECK_ENOMEM : 0;
}

bool snecki_rights_decode(
        const struct rights *rights, const struct redisReply *reply, struct sneck_probe_info *ret) {
	if (reply->type != REDIS_REPLY_ARRAY)
		return false;
	for (size_t i = 0; i < reply->elements; i++) {
		const redisReply *number = reply->element[i];
		if (number->type != REDIS_REPLY_INTEGER || number->integer < 1 ||
		        number->integer > (long long)rights->n)
			return false;
		const struct right *right = &rights->rows[number->integer - 1];
		for (int role = 0; role < SNECK_ROLES; role++)
			if (right->roles & (1u << role))
				add_command(ret->missing[role], sizeof ret->missing[role], right->command);
	}
	return true;
}
