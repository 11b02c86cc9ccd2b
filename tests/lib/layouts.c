/* SPDX-License-Identifier: MIT */
/* See layouts.h. Both layouts are a hash under the lock's name with a field `mode`; what else is in it and
 * beside it differs. */
#include "layouts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sneck/sneck.h>

const char *test_dialect(void) {
	return getenv("SNECK_TEST_DIALECT");
}

static bool is_counted(void) {
	return strcmp(test_dialect(), "counted") == 0;
}

static redisReply *must_be_array(redisReply *reply) {
	if (!reply || reply->type != REDIS_REPLY_ARRAY) {
		fprintf(stderr, "%s\n", reply ? reply->str : "no answer");
		abort();
	}
	return reply;
}

static redisReply *fields_of(const struct test_server *server, const char *name) {
	return must_be_array(test_redis(server, "HGETALL %s", name));
}

static const char *value_of(const redisReply *fields, const char *field) {
	for (size_t i = 0; i < fields->elements; i += 2)
		if (strcmp(fields->element[i]->str, field) == 0)
			return fields->element[i + 1]->str;
	return "";
}

/* A read hold of the intent layout that has ended leaves its field for somebody to find. */
static bool lives(const struct test_server *server, const char *name, const char *owner) {
	return test_redis_int(server, "EXISTS {%s}:%s:rwlock_timeout:1", name, owner) == 1;
}

static long count_reads(const struct test_server *server, const char *name, const redisReply *fields) {
	const char *writer = value_of(fields, "writer");
	long count = 0;

	for (size_t i = 0; i < fields->elements; i += 2) {
		const char *field = fields->element[i]->str;
		if (is_counted())
			count += strncmp(field, "r:", 2) == 0 && strcmp(field + 2, writer) != 0;
		else
			count += strcmp(field, "mode") != 0 && lives(server, name, field);
	}
	return count;
}

static long count_listeners(const struct test_server *server, const char *name) {
	redisReply *reply = must_be_array(
	        test_redis(server, "PUBSUB NUMSUB {%s}:%s", name, is_counted() ? "sneck_hint" : "channel"));
	long count = (long)reply->element[1]->integer;

	freeReplyObject(reply);
	return count;
}

long test_layout_members(const struct test_server *server, const char *name, const char *kinds) {
	redisReply *fields = fields_of(server, name);
	bool writes = strcmp(value_of(fields, "mode"), "write") == 0;
	long count = 0;

	if (strchr(kinds, 'W'))
		count += writes;
	if (strchr(kinds, 'R') && (!writes || is_counted()))
		count += count_reads(server, name, fields);
	if (strcmp(kinds, "w") == 0 || strcmp(kinds, "u") == 0)
		count += count_listeners(server, name);
	if (strcmp(kinds, "rwu") == 0)
		count += test_redis_int(
		        server, "EXISTS {%s}:%s", name, is_counted() ? "sneck_upgrader" : "wait_write");
	freeReplyObject(fields);
	return count;
}

bool test_layout_is_idle(const struct test_server *server, const char *name) {
	bool idle = test_redis_int(server, "EXISTS %s", name) == 0;
	redisReply *keys = must_be_array(test_redis(server, "KEYS {%s}:*", name));

	for (size_t i = 0; i < keys->elements; i++) {
		const char *key = keys->element[i]->str;
		long long ttl_ms = test_redis_int(server, "PTTL %s", key);
		if (ttl_ms == -2 || (strstr(key, ":sneck_buried:") && ttl_ms > 0 && ttl_ms <= SNECK_BURY_MS))
			continue;
		fprintf(stderr, "%s is still there, for %lld ms\n", key, ttl_ms);
		idle = false;
	}
	freeReplyObject(keys);
	return idle;
}

void test_layout_describe(const struct test_server *server, const char *name, char *out, size_t size) {
	redisReply *fields = fields_of(server, name);
	size_t len = 0;

	out[0] = '\0';
	for (size_t i = 0; i < fields->elements && len < size; i += 2)
		len += (size_t)snprintf(out + len, size - len, " %s=%s", fields->element[i]->str,
		        fields->element[i + 1]->str);
	freeReplyObject(fields);
}
