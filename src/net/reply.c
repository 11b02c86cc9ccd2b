/* SPDX-License-Identifier: MIT */
/* Reading lists of names and values. An answer may come from anybody: every type is looked at before its
 * value is, and a list that ends in the middle of a pair has one pair less. */
#include "net/reply.h"

#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

const struct redisReply *snecki_reply_value(const struct redisReply *reply, const char *key) {
	if (reply->type != REDIS_REPLY_ARRAY)
		return NULL;
	for (size_t i = 0; i + 1 < reply->elements; i += 2) {
		const struct redisReply *name = reply->element[i];
		if (name->type == REDIS_REPLY_STRING && strcmp(name->str, key) == 0)
			return reply->element[i + 1];
	}
	return NULL;
}

const char *snecki_reply_field(const struct redisReply *reply, const char *key) {
	const struct redisReply *value = snecki_reply_value(reply, key);

	return value && value->type == REDIS_REPLY_STRING ? value->str : NULL;
}

int64_t snecki_reply_number(const struct redisReply *reply, const char *key) {
	const struct redisReply *value = snecki_reply_value(reply, key);
	char *end;

	if (!value)
		return -1;
	if (value->type == REDIS_REPLY_INTEGER)
		return value->integer < 0 ? -1 : value->integer;
	if (value->type != REDIS_REPLY_STRING || !value->str[0])
		return -1;
	int64_t number = strtoll(value->str, &end, 10);
	return *end || number < 0 ? -1 : number;
}
