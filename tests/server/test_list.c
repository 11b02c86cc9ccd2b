/* SPDX-License-Identifier: MIT */
/* Which locks there are: all of a namespace that somebody holds or waits for, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "locks.h"
#include "topology.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

static sneck_client *open_in(const char *name_space, const char *user) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	options.name_space = name_space;
	if (name_space)
		test_topology_allow(name_space);
	options.who_user = user;
	sneck_client *client = NULL;
	sneck_error error = { 0 };
	assert_result(0, sneck_open(server->url, &options, &client, &error), &error);
	return client;
}

static sneck_lock_list *list_of(sneck_client *client, const char *pattern) {
	sneck_lock_list *list = NULL;
	sneck_error error = { 0 };
	assert_result(0, sneck_list(client, pattern, &list, &error), &error);
	assert_non_null(list);
	return list;
}

static void assert_names(sneck_client *client, const char *pattern, const char *expected) {
	sneck_lock_list *list = list_of(client, pattern);
	char text[1024] = "";
	for (size_t i = 0; i < list->n; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "",
		        list->locks[i]->name);
	assert_string_equal(text, expected);
	sneck_lock_list_free(list);
}

static void nothing_is_an_empty_list(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	sneck_lock_list *list = list_of(client, NULL);
	assert_int_equal(list->n, 0);
	sneck_lock_list_free(list);
	sneck_lock_list_free(NULL);
	sneck_close(client);
}

/* Held ones and wanted ones, by name, by pattern; idle ones, strange keys and other namespaces not. */
static void locks_are_listed_and_nothing_else(void **state) {
	(void)state;
	sneck_client *client = open_in(NULL, NULL), *other = open_in("sneck2", NULL);
	sneck_hold *holds[] = { test_take(client, "orders/7", SNECK_WRITE, 0),
		test_take(client, "orders/42", SNECK_READ, 0), test_take(client, "mail", SNECK_WRITE, 0),
		test_take(other, "elsewhere", SNECK_WRITE, 0) };
	test_release(test_take(client, "idle", SNECK_WRITE, 0));
	test_redis_ok(server, "ZADD sneck:{scores} 5 somebody");
	test_redis_ok(server, "SET sneck:{text} x");
	test_redis_ok(server, "SET unrelated x");
	static const char *const strange[] = { "sneck:{bad%zz}", "sneck:{bad%7}", "sneck:{a}{b}", "sneck:{}",
		"snecky:{x}", "sneck:{a}x" };
	for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++)
		test_redis_ok(server, "ZADD %s 1 #1 %lld Wx:1:a.1", strange[i],
		        (long long)test_server_ms(server) + 60000);
	assert_names(client, NULL, "mail orders/42 orders/7");
	assert_names(client, "*", "mail orders/42 orders/7");
	assert_names(client, "orders/*", "orders/42 orders/7");
	assert_names(client, "orders/?", "orders/7");
	assert_names(client, "[m]ail", "mail");
	assert_names(client, "none", "");
	assert_names(other, NULL, "elsewhere");
	for (int i = 0; i < 4; i++)
		test_release(holds[i]);
	assert_names(client, NULL, "");
	sneck_close(client);
	sneck_close(other);
}

/* A name may hold any bytes, and a namespace those that mean something in a pattern. */
static void strange_names_come_back_as_they_were(void **state) {
	(void)state;
	static const struct {
		const char *bytes;
		size_t len;
	} names[] = { { "\0", 1 }, { "\n", 1 }, { "%", 1 }, { "%7B", 3 }, { "a\0b", 3 }, { "a{b}c", 5 },
		{ "{", 1 }, { "}", 1 }, { "\xff\xfe", 2 } }; /* in order */
	static const size_t n = sizeof names / sizeof names[0];
	sneck_client *client = open_in("a*[b]?\\", NULL), *plain = open_in("axb", NULL);
	sneck_hold *holds[16], *hold = test_take(plain, "x", SNECK_WRITE, 0);
	sneck_error error;
	for (size_t i = 0; i < n; i++)
		assert_result(0,
		        sneck_acquire_n(
		                client, names[i].bytes, names[i].len, SNECK_WRITE, NULL, &holds[i], &error),
		        &error);
	sneck_lock_list *list = list_of(client, NULL);
	assert_int_equal(list->n, n);
	for (size_t i = 0; i < n; i++) {
		sneck_lock_info *found = NULL;
		for (size_t j = 0; j < list->n; j++)
			if (list->locks[j]->name_len == names[i].len &&
			        memcmp(list->locks[j]->name, names[i].bytes, names[i].len) == 0)
				found = list->locks[j];
		assert_non_null(found);
		assert_int_equal(found->holder_n, 1);
		assert_int_equal(found->token, sneck_hold_token(holds[i]));
		sneck_lock_info *info = NULL;
		assert_result(
		        0, sneck_inspect(client, names[i].bytes, names[i].len, 0, &info, &error), &error);
		assert_int_equal(info->holder_n, 1);
		sneck_lock_info_free(info);
	}
	sneck_lock_list_free(list);
	list = list_of(client, "a?b");
	assert_int_equal(list->n, 1);
	assert_int_equal(list->locks[0]->name_len, 3);
	sneck_lock_list_free(list);
	for (size_t i = 0; i < n; i++)
		test_release(holds[i]);
	test_release(hold);
	sneck_close(client);
	sneck_close(plain);
}

static void a_thousand_locks(void **state) {
	(void)state;
	enum { LOCKS = 1000, STRANGERS = 3000 };
	sneck_client *a = open_in(NULL, "ann"), *b = open_in(NULL, "bob");
	static sneck_hold *holds[LOCKS];
	char name[32];
	redisContext *redis = test_server_connect(server);
	for (int i = 0; i < STRANGERS; i++)
		redisAppendCommand(redis, "SET stranger:%d x", i);
	for (int i = 0; i < STRANGERS; i++) {
		redisReply *reply = NULL;
		assert_int_equal(redisGetReply(redis, (void **)&reply), REDIS_OK);
		freeReplyObject(reply);
	}
	redisFree(redis);
	for (int i = 0; i < LOCKS; i++) {
		snprintf(name, sizeof name, "lock-%04d", i);
		holds[i] = test_take(i % 3 ? a : b, name, i % 2 ? SNECK_WRITE : SNECK_READ, 0);
	}
	char record[96];
	snprintf(record, sizeof record, "EXISTS sneck:@%s", sneck_client_session(b));
	assert_true(WAIT_UNTIL(test_redis_int(server, record) == 1, 2000));
	test_redis_ok(server, "SCRIPT FLUSH");
	int64_t start_ms = test_now_ms();
	uint64_t commands = test_stats(b).commands;
	sneck_lock_list *list = list_of(b, NULL);
	commands = test_stats(b).commands - commands;
	print_message("%d locks listed in %d ms\n", LOCKS, (int)(test_now_ms() - start_ms));
	/* Each lock once, each session once for each batch of scripts or less, a few for the walk. */
	assert_in_range(commands, LOCKS, LOCKS + 128 + 2 * (LOCKS + STRANGERS) / 512 + 40);
	assert_int_equal(list->n, LOCKS);
	for (int i = 0; i < LOCKS; i++) {
		const sneck_lock_info *info = list->locks[i];
		snprintf(name, sizeof name, "lock-%04d", i);
		assert_string_equal(info->name, name); /* by name, none missing, none twice */
		assert_int_equal(info->mode, i % 2 ? SNECK_WRITE : SNECK_READ);
		assert_int_equal(info->party_n, 1);
		assert_string_equal(info->parties[0].user, i % 3 ? "ann" : "bob");
		assert_string_equal(info->parties[0].session, sneck_client_session(i % 3 ? a : b));
	}
	sneck_lock_list_free(list);
	for (int i = 0; i < LOCKS; i++)
		test_release(holds[i]);
	sneck_close(a);
	sneck_close(b);
}

static void waiters_alone_are_listed_too(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	int64_t now_ms = test_server_ms(server);
	test_redis_ok(server, "ZADD sneck:{door} %lld #1 %lld wx:1:a.1 %lld lx:1:a.1",
	        (long long)now_ms * 1000, -4000000000000000LL + now_ms, 100000000000000LL + now_ms + 60000);
	sneck_lock_list *list = list_of(client, NULL);
	assert_int_equal(list->n, 1);
	assert_int_equal(list->locks[0]->mode, 0);
	assert_int_equal(list->locks[0]->waiter_n, 1);
	assert_int_equal(list->locks[0]->parties[0].since_ms, now_ms);
	sneck_lock_list_free(list);
	sneck_close(client);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_an_empty_list),
		TEST(locks_are_listed_and_nothing_else),
		TEST(strange_names_come_back_as_they_were),
		TEST(a_thousand_locks),
		TEST(waiters_alone_are_listed_too),
	};
	return TEST_RUN(tests);
}
