/* SPDX-License-Identifier: MIT */
/* The cluster that tests of locks stand on (tests/lib/cluster.h), before a lock is in it: it is what it says,
 * and what is done to it happens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster.h"
#include "wait.h"

enum { KEYS = 60 };

static struct test_cluster cluster;
static struct test_certs certs;

static int start(const struct test_certs *with) {
	struct test_cluster_options options = { .node_timeout_ms = 1000, .certs = with };
	int64_t begin_ms = test_now_ms();
	int r = test_cluster_start(&cluster, &options);

	print_message("a cluster in %d ms\n", (int)(test_now_ms() - begin_ms));
	return r;
}

static int start_plain(void **state) {
	(void)state;
	return start(NULL);
}

static int start_tls(void **state) {
	(void)state;
	return test_certs_make(&certs) < 0 ? -1 : start(&certs);
}

static int stop(void **state) {
	(void)state;
	test_cluster_stop(&cluster);
	test_certs_remove(&certs);
	return 0;
}

static const char *error_of(int node, const char *key) {
	static char text[128];
	redisReply *reply = test_redis(&cluster.nodes[node], "GET %s", key);

	assert_non_null(reply);
	snprintf(text, sizeof text, "%s", reply->type == REDIS_REPLY_ERROR ? reply->str : "");
	freeReplyObject(reply);
	return text;
}

static void keys_go_where_they_belong(void **state) {
	struct test_server all = test_cluster_face(&cluster, CLUSTER_PRIMARIES);
	char key[32];
	(void)state;

	for (int i = 0; i < KEYS; i++)
		test_redis_ok(&all, "SET key-%d %d", i, i);
	for (int i = 0; i < KEYS; i++) {
		snprintf(key, sizeof key, "key-%d", i);
		assert_int_equal(test_redis_int(&all, "GET %s", key), i);
		assert_in_range(test_cluster_owner(&cluster, key), 0, CLUSTER_PRIMARIES - 1);
	}
	assert_int_equal(test_redis_int(&all, "DBSIZE"), KEYS);
	for (int i = 0; i < CLUSTER_PRIMARIES; i++) {
		assert_in_range(test_redis_int(&cluster.nodes[i], "DBSIZE"), 1, KEYS - 2);
		assert_true(
		        WAIT_UNTIL(test_redis_int(&cluster.nodes[i], "DBSIZE") ==
		                           test_redis_int(&cluster.nodes[test_cluster_partner(i)], "DBSIZE"),
		                5000));
	}
	test_redis_ok(&all, "FLUSHALL");
	assert_int_equal(test_redis_int(&all, "DBSIZE"), 0);
}

static void a_slot_moves_step_by_step(void **state) {
	struct test_server all = test_cluster_face(&cluster, CLUSTER_PRIMARIES);
	int slot = test_cluster_slot(&cluster, "{s}"), from = test_cluster_owner(&cluster, "{s}");
	int to = (from + 1) % CLUSTER_PRIMARIES;
	char here[32], moved[32];
	(void)state;

	for (int i = 0; i < 10; i++)
		test_redis_ok(&all, "SET {s}%d x", i);
	test_cluster_move_begin(&cluster, slot, from, to);
	assert_int_equal(test_cluster_move_keys(&cluster, slot, from, to, 4), 4);
	int asked = 0;
	for (int i = 0; i < 10; i++) {
		snprintf(here, sizeof here, "{s}%d", i);
		asked += strncmp(error_of(from, here), "ASK ", 4) == 0;
	}
	assert_int_equal(asked, 4);
	assert_int_equal(test_cluster_owner(&cluster, "{s}"), from);
	assert_int_equal(test_cluster_move_keys(&cluster, slot, from, to, 100), 6);
	test_cluster_move_end(&cluster, slot, from, to);
	assert_int_equal(test_cluster_owner(&cluster, "{s}"), to);
	snprintf(moved, sizeof moved, "MOVED %d 127.0.0.1:%d", slot, cluster.nodes[to].port);
	assert_string_equal(error_of(from, "{s}1"), moved);
	assert_int_equal(test_redis_int(&all, "EXISTS {s}0 {s}9"), 2);
	/* And all at once. */
	int third = test_cluster_move(&cluster, "{s}");
	assert_true(third != to);
	assert_int_equal(test_cluster_owner(&cluster, "{s}"), third);
	assert_int_equal(test_redis_int(&all, "EXISTS {s}0 {s}9"), 2);
	test_cluster_settle(&cluster);
}

static void a_replica_takes_over(void **state) {
	static const char *const ways[] = { "", "FORCE", "TAKEOVER" };
	int old = test_cluster_owner(&cluster, "key");
	(void)state;

	test_redis_ok(&cluster.nodes[old], "SET key x");
	test_redis_ok(&cluster.nodes[old], "WAIT 1 5000");
	for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
		int now = test_cluster_fail_over(&cluster, "key", ways[i]);
		assert_int_equal(now, test_cluster_partner(old));
		assert_int_equal(test_redis_int(&cluster.nodes[now], "EXISTS key"), 1);
		old = now;
	}
	test_cluster_fail_over(&cluster, "key", ""); /* those that were primaries are primaries again */
}

static void a_dead_one_is_replaced(void **state) {
	int old = test_cluster_owner(&cluster, "key");
	(void)state;

	test_server_kill9(&cluster.nodes[old]);
	int now = test_cluster_await_other(&cluster, "key", old, 20000);
	assert_int_equal(now, test_cluster_partner(old));
	assert_int_equal(test_server_restart(&cluster.nodes[old]), 0);
	test_cluster_settle(&cluster);
	assert_int_equal(test_cluster_owner(&cluster, "key"), now);
	/* One that is only silent, too. */
	test_server_stopcont(&cluster.nodes[now], true);
	assert_int_equal(test_cluster_await_other(&cluster, "key", now, 20000), old);
	test_server_stopcont(&cluster.nodes[now], false);
	test_cluster_settle(&cluster);
}

static void with_tls_nothing_is_plain(void **state) {
	redisContext *plain = redisConnect("127.0.0.1", cluster.nodes[0].port);
	(void)state;

	assert_non_null(plain);
	redisReply *reply = redisCommand(plain, "PING");
	assert_null(reply);
	redisFree(plain);
	assert_true(strncmp(cluster.url, "rediss://", 9) == 0 && strstr(cluster.url, certs.ca));
}

int main(void) {
	const struct CMUnitTest plain[] = {
		cmocka_unit_test(keys_go_where_they_belong),
		cmocka_unit_test(a_slot_moves_step_by_step),
		cmocka_unit_test(a_replica_takes_over),
		cmocka_unit_test(a_dead_one_is_replaced),
	};
	const struct CMUnitTest tls[] = {
		cmocka_unit_test(with_tls_nothing_is_plain),
		cmocka_unit_test(keys_go_where_they_belong),
		cmocka_unit_test(a_slot_moves_step_by_step),
		cmocka_unit_test(a_replica_takes_over),
	};
	int failed = cmocka_run_group_tests(plain, start_plain, stop);
	return failed + cmocka_run_group_tests(tls, start_tls, stop);
}
