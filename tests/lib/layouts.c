/* SPDX-License-Identifier: MIT */
/* See layouts.h. All layouts are a hash under the lock's name, with a field `mode` where there are readers;
 * what else is in it and beside it differs. */
#include "layouts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sneck/sneck.h>

#include "topology.h"

const char *test_dialect(void) {
	return getenv("SNECK_TEST_DIALECT");
}

static bool is(const char *dialect) {
	return strcmp(test_dialect(), dialect) == 0;
}

static bool is_counted(void) {
	return is("counted");
}

/* One of Redisson's that is no read-write lock: one field, the owner. */
static bool is_mutex(void) {
	return strncmp(test_dialect(), "redisson:", 9) == 0 && !is("redisson:rwlock");
}

bool test_layout_has_read(void) {
	return !test_dialect() || !is_mutex();
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

/* A read hold of the intent layout, or of Redisson's, that has ended leaves its field for somebody to find.
 */
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

static void write_channel(const char *name, char *out, size_t size) {
	if (is("redisson:rwlock"))
		snprintf(out, size, "redisson_rwlock:{%s}", name);
	else if (is_mutex())
		snprintf(out, size, "redisson_lock__channel:{%s}", name);
	else
		snprintf(out, size, "{%s}:%s", name, is_counted() ? "sneck_hint" : "channel");
}

/* Each server knows its own. */
static long subscribers(const struct test_server *server, const char *channel) {
	long count = 0;

	for (size_t i = 0; i < server->peers_n; i++)
		count += subscribers(&server->peers[i], channel);
	for (int sharded = 0; !server->peers && sharded < 2; sharded++) {
		redisReply *reply = must_be_array(
		        test_redis(server, sharded ? "PUBSUB SHARDNUMSUB %s" : "PUBSUB NUMSUB %s", channel));
		count += (long)reply->element[1]->integer;
		freeReplyObject(reply);
	}
	return count;
}

static long count_listeners(const struct test_server *server, const char *name) {
	char channel[160];

	write_channel(name, channel, sizeof channel);
	return subscribers(server, channel);
}

long test_layout_members(const struct test_server *server, const char *name, const char *kinds) {
	redisReply *fields = fields_of(server, name);
	bool writes = strcmp(value_of(fields, "mode"), "write") == 0;
	long count = 0;

	if (strchr(kinds, 'W'))
		count += is_mutex() ? fields->elements > 0 : writes;
	if (strchr(kinds, 'R') && !is_mutex() && (!writes || is_counted()))
		count += count_reads(server, name, fields);
	if (is("redisson:fair") && strpbrk(kinds, "rwu"))
		count += test_redis_int(server, "LLEN redisson_lock_queue:{%s}", name);
	else if (strcmp(kinds, "w") == 0 || strcmp(kinds, "u") == 0)
		count += count_listeners(server, name);
	else if (strstr(kinds, "rwu") && strncmp(test_dialect(), "redisson:", 9) != 0)
		count += test_redis_int(
		        server, "EXISTS {%s}:%s", name, is_counted() ? "sneck_upgrader" : "wait_write");
	freeReplyObject(fields);
	return count;
}

static long sum_of(const redisReply *fields, const char *mode) {
	long sum = 0;

	for (size_t i = 0; i < fields->elements; i += 2) {
		const redisReply *field = fields->element[i];
		bool writes =
		        is_mutex() || (field->len > 6 && strcmp(field->str + field->len - 6, ":write") == 0);
		if (strcmp(field->str, "mode") != 0 && writes == (mode[0] == 'w'))
			sum += strtol(fields->element[i + 1]->str, NULL, 10);
	}
	return sum;
}

long test_layout_holds(const struct test_server *server, const char *name, sneck_mode mode) {
	redisReply *fields = fields_of(server, name);
	const char *letter = mode == SNECK_WRITE ? "wcount" : "rcount";
	long count = is_counted() ? strtol(value_of(fields, letter), NULL, 10) : sum_of(fields, letter);

	freeReplyObject(fields);
	return count;
}

bool test_layout_is_idle(const struct test_server *server, const char *name) {
	bool idle = test_redis_int(server, "EXISTS %s redisson_lock_queue:{%s} redisson_lock_timeout:{%s}",
	                    name, name, name) == 0;
	/* Of several servers, the one that has the lock has all of it. */
	redisReply *keys =
	        must_be_array(test_redis(server->peers ? test_owner(name) : server, "KEYS {%s}:*", name));

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
