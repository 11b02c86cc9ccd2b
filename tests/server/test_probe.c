/* SPDX-License-Identifier: MIT */
/* What sneck_probe() says of a server: the facts, what the user may not do, and what it costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "locks.h"

static struct test_server *const server = &test_the_server;

static sneck_client *open_as(const char *user) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	sneck_client *client = NULL;
	sneck_error error = { 0 };
	options.user = user;
	options.password = "pw";
	assert_result(0, sneck_open(server->url, &options, &client, &error), &error);
	return client;
}

static sneck_probe_info probe(sneck_client *client, uint32_t wanted) {
	sneck_probe_info info = SNECK_PROBE_INFO_INIT;
	sneck_error error = { 0 };
	info.wanted = wanted;
	assert_result(0, sneck_probe(client, &info, &error), &error);
	return info;
}

static bool has_word(const char *list, const char *word) {
	char padded[600], padded_word[64];
	snprintf(padded, sizeof padded, " %s ", list);
	snprintf(padded_word, sizeof padded_word, " %s ", word);
	return strstr(padded, padded_word) != NULL;
}

static void the_facts_are_those_of_the_server(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	redisReply *reply = test_redis(server, "INFO server");
	assert_non_null(reply);
	sneck_probe_info info = probe(client, 0);
	assert_true(info.version[0] != '\0');
	assert_non_null(strstr(reply->str, info.version));
	freeReplyObject(reply);
	assert_true(!strcmp(info.server, "redis") || !strcmp(info.server, "valkey"));
	assert_string_equal(info.role, "primary");
	assert_string_equal(info.maxmemory_policy, "noeviction");
	assert_int_equal(info.maxmemory, 0);
	assert_int_equal(info.persistence, SNECK_PERSISTENCE_NONE);
	assert_string_equal(info.appendfsync, "everysec");
	assert_int_equal(info.replicas, 0);
	assert_int_equal(info.replica_lag_s, -1);
	assert_int_equal(info.min_replicas, 0);
	assert_int_equal(info.min_replicas_lag_s, 10);
	assert_int_equal(info.cluster, 0);
	assert_int_equal(info.nodes, 1);
	assert_string_equal(info.where, "");
	assert_int_equal(info.sentinels_named, -1);
	assert_int_equal(info.cluster_ok, -1);
	assert_in_range(info.rtt_us, 1, 1000000);
	assert_true(info.clock_known);
	assert_true(llabs((long long)info.clock_offset_ms) < 1000);
	assert_in_range(info.message_us, 1, 2000000);
	assert_true(info.rights_known);
	for (int role = 0; role < SNECK_ROLES; role++)
		assert_string_equal(info.missing[role], "");
	sneck_close(client);
}

static void what_the_server_is_told_to_do_is_seen(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	test_redis_ok(server, "CONFIG SET maxmemory-policy allkeys-lru maxmemory 100mb");
	test_redis_ok(server, "CONFIG SET save %s", "60 1");
	sneck_probe_info info = probe(client, SNECK_PROBE_SERVER);
	test_redis_ok(server, "CONFIG SET save %s", "");
	test_redis_ok(server, "CONFIG SET maxmemory-policy noeviction maxmemory 0");
	assert_string_equal(info.maxmemory_policy, "allkeys-lru");
	assert_int_equal(info.maxmemory, 100 << 20);
	assert_int_equal(info.persistence, SNECK_PERSISTENCE_RDB);
	test_redis_ok(server, "CONFIG SET appendonly yes");
	info = probe(client, SNECK_PROBE_SERVER);
	test_redis_ok(server, "CONFIG SET appendonly no");
	assert_int_equal(info.persistence, SNECK_PERSISTENCE_AOF);
	sneck_close(client);
}

/* `sneck run` asks for no more, each time. */
static void the_policy_alone_costs_one_command(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	sneck_counters before = { .size = sizeof before }, after = { .size = sizeof after };
	(void)probe(client, SNECK_PROBE_POLICY);
	sneck_stats(client, &before);
	sneck_probe_info info = probe(client, SNECK_PROBE_POLICY);
	sneck_stats(client, &after);
	assert_int_equal(after.commands - before.commands, 1);
	assert_string_equal(info.maxmemory_policy, "noeviction");
	assert_string_equal(info.version, "");
	assert_int_equal(info.rtt_us, -1);
	assert_int_equal(info.message_us, -1);
	assert_false(info.rights_known);
	sneck_close(client);
}

static void what_is_not_allowed_is_unknown_and_named(void **state) {
	(void)state;
	test_redis_ok(server, "ACL SETUSER weak on >pw ~sneck:* &sneck:!* +@all -info -config -zadd -del");
	sneck_client *client = open_as("weak");
	sneck_probe_info info = probe(client, 0);
	sneck_close(client);
	assert_string_equal(info.version, "");
	assert_string_equal(info.maxmemory_policy, "");
	assert_int_equal(info.persistence, -1);
	assert_int_equal(info.replicas, -1);
	assert_int_equal(info.min_replicas, -1);
	assert_string_equal(info.appendfsync, "");
	assert_true(info.rights_known);
	assert_string_equal(info.missing[SNECK_ROLE_HOLDER], "zadd del");
	assert_string_equal(info.missing[SNECK_ROLE_VIEWER], "");
	assert_true(has_word(info.missing[SNECK_ROLE_OPERATOR], "info"));
	assert_in_range(info.message_us, 1, 2000000);
}

/* The same commands on other keys and channels are no use. */
static void keys_and_channels_count(void **state) {
	(void)state;
	test_redis_ok(server, "ACL SETUSER stranger on >pw ~other:* &other:* +@all");
	sneck_client *client = open_as("stranger");
	sneck_probe_info info = probe(client, SNECK_PROBE_RIGHTS | SNECK_PROBE_MESSAGE);
	sneck_close(client);
	assert_int_equal(info.rights_known, 0);
	assert_int_equal(info.message_us, -2);
	test_redis_ok(server, "ACL SETUSER reader on >pw %%R~sneck:* resetchannels +@all");
	client = open_as("reader");
	info = probe(client, SNECK_PROBE_RIGHTS);
	sneck_close(client);
	assert_true(info.rights_known);
	assert_string_equal(info.missing[SNECK_ROLE_VIEWER], "");
	assert_true(has_word(info.missing[SNECK_ROLE_HOLDER], "zadd"));
	assert_true(has_word(info.missing[SNECK_ROLE_HOLDER], "publish"));
	assert_true(has_word(info.missing[SNECK_ROLE_HOLDER], "subscribe"));
	assert_false(has_word(info.missing[SNECK_ROLE_HOLDER], "zrange"));
}

static void a_dead_server_is_an_error(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	sneck_probe_info info = SNECK_PROBE_INFO_INIT;
	sneck_error error = { 0 };
	test_server_kill9(server);
	assert_result(SNECK_ECONN, sneck_probe(client, &info, &error), &error);
	assert_string_equal(info.version, "");
	sneck_close(client);
	assert_int_equal(test_server_restart(server), 0);
}

static void bad_arguments_are_refused(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	sneck_probe_info info = { .size = 8 };
	assert_int_equal(sneck_probe(client, &info, NULL), SNECK_EINVAL);
	info = (sneck_probe_info)SNECK_PROBE_INFO_INIT;
	info.node = 1; /* there is one server */
	assert_int_equal(sneck_probe(client, &info, NULL), SNECK_EINVAL);
	info.node = -1;
	assert_int_equal(sneck_probe(client, &info, NULL), SNECK_EINVAL);
	assert_int_equal(sneck_probe(client, NULL, NULL), SNECK_EINVAL);
	assert_int_equal(sneck_probe(NULL, &info, NULL), SNECK_EINVAL);
	sneck_close(client);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(the_facts_are_those_of_the_server),
		TEST(what_the_server_is_told_to_do_is_seen),
		TEST(the_policy_alone_costs_one_command),
		TEST(what_is_not_allowed_is_unknown_and_named),
		TEST(keys_and_channels_count),
		TEST(a_dead_server_is_an_error),
		TEST(bad_arguments_are_refused),
	};
	return cmocka_run_group_tests(tests, test_server_up, test_server_down);
}
