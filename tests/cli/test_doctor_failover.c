/* SPDX-License-Identifier: MIT */
/* sneck doctor, on what stands beside a server for the time when it fails: real sentinels and replicas, and a
 * real node of a cluster, each set up wrong in one way at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster.h"
#include "look.h"
#include "sentinels.h"
#include "wait.h"

static struct test_sentinels all;
static struct test_cluster cluster;

static int start(void **state) {
	(void)state;
	return test_sentinels_start(&all, (const char *const[]){ "--appendonly", "yes", NULL }, NULL);
}

static int stop(void **state) {
	(void)state;
	test_sentinels_stop(&all);
	return 0;
}

/* What the doctor says of `check` at this URL, as "result: text -> remedy"; of several servers the one whose
 * text has `part` in it. */
static const char *finding_with(const char *url, const char *check, const char *lease, const char *part) {
	static char said[1200];
	/* Whose directory is used. */
	struct test_server at = all.servers[0].pid ? all.servers[0] : cluster.nodes[0];
	struct cli cli;
	json_error_t error;
	size_t i;
	json_t *one;

	snprintf(at.url, sizeof(at.url), "%s", url);
	(void)cli_run(&cli, &at, CLI_ARGS("doctor", "--json", "--lease", lease));
	json_t *json = json_load_file(cli.out_path, 0, &error);
	if (!json)
		fail_msg("no JSON: %s %s", cli_out(&cli), cli_err(&cli));
	said[0] = '\0';
	json_array_foreach(look_at(json, "checks"), i, one) {
		const json_t *remedy = look_at(one, "remedy");
		if (strcmp(look_text(one, "check"), check) == 0 && !said[0] &&
		        strstr(look_text(one, "text"), part))
			snprintf(said, sizeof(said), "%s: %s -> %s", look_text(one, "result"),
			        look_text(one, "text"),
			        json_is_null(remedy) ? "" : json_string_value(remedy));
	}
	json_decref(json);
	return said;
}

static const char *finding(const char *url, const char *check, const char *lease) {
	return finding_with(url, check, lease, "");
}

static bool says(const char *url, const char *check, const char *result, const char *part) {
	const char *said = finding(url, check, "30s");

	return !strncmp(said, result, strlen(result)) && strstr(said, part) &&
	       (!strcmp(result, "pass") || strlen(strstr(said, " -> ")) > 14);
}

static void expect(const char *url, const char *check, const char *result, const char *part) {
	if (!says(url, check, result, part))
		fail_msg("%s: expected %s and \"%s\", it is \"%s\"", check, result, part,
		        finding(url, check, "30s"));
}

static void expect_one(const char *url, const char *check, const char *result, const char *part) {
	const char *said = finding_with(url, check, "30s", part);

	if (strncmp(said, result, strlen(result)) != 0)
		fail_msg("%s: nobody has \"%s\": \"%s\"", check, part, said);
}

static struct test_server *primary(void) {
	int i = test_sentinels_primary(&all);

	assert_true(i >= 0);
	return &all.servers[i];
}

/* ---- Sentinels ------------------------------------------------------------------------------*/

static void test_what_is_well_is_said(void **state) {
	(void)state;
	expect(all.url, "role", "pass", "primary");
	expect(all.url, "sentinels", "pass", "3 answer, and name the same primary");
	assert_true(WAIT_UNTIL(says(all.url, "replicas", "pass", "2, all heard from"), 20000));
	expect(all.url, "failover", "pass", "takes about 5.0 s; a lease of 30.0 s outlives it");
	expect(all.url, "lock", "pass", "");
	/* These are on one machine, as nobody should have them. */
	expect(all.url, "quorum", "warn", "all 3 sentinels are on one host");
}

static void test_the_lease_is_held_against_the_failover(void **state) {
	const char *said;
	(void)state;

	/* 7.62 s is the shortest whose two thirds, less a hundredth, are 5 s. */
	said = finding(all.url, "failover", "7500ms");
	if (strncmp(said, "warn: takes about 5.0 s, and a renewed lease of 7.5 s may have only 4.9 s left",
	            78) != 0)
		fail_msg("%s", said);
	assert_non_null(strstr(said, "leases of at least 8s"));
	assert_non_null(strstr(said, "down-after-milliseconds (it is 2000 ms)"));
	assert_int_equal(strncmp(finding(all.url, "failover", "8s"), "pass", 4), 0);
}

static void test_a_primary_that_is_cut_off(void **state) {
	struct test_server *server = primary();
	(void)state;

	expect(all.url, "isolation", "warn", "goes on granting locks, and its successor does so too");
	test_redis_ok(server, "CONFIG SET min-replicas-to-write 1 min-replicas-max-lag 10");
	expect(all.url, "isolation", "warn",
	        "goes on granting locks for 10 s, its successor comes after 2.0 s");
	expect(all.url, "isolation", "warn", "min-replicas-max-lag 2,");
	test_redis_ok(server, "CONFIG SET min-replicas-max-lag 2");
	expect(all.url, "isolation", "pass", "stops granting after 2 s");
	test_redis_ok(server, "CONFIG SET min-replicas-to-write 2");
	expect(all.url, "isolation", "warn", "with 2 of the 2 replicas");
	test_redis_ok(server, "CONFIG SET min-replicas-to-write 0 min-replicas-max-lag 10");
}

static void test_a_replica_that_is_behind(void **state) {
	struct test_server *server = primary();
	struct test_server *replica = &all.servers[server == &all.servers[1] ? 2 : 1];
	(void)state;

	test_server_stopcont(replica, true);
	assert_true(
	        WAIT_UNTIL(says(all.url, "replicas", "warn", "2, of which one was last heard from"), 20000));
	test_server_stopcont(replica, false);
	assert_true(WAIT_UNTIL(says(all.url, "replicas", "pass", "2, all heard from"), 20000));
}

static void test_sentinels_that_are_missing(void **state) {
	char url[128];
	(void)state;

	snprintf(url, sizeof(url), "redis+sentinel://127.0.0.1:%d/locks", all.sentinels[1].port);
	expect(url, "sentinels", "warn", "the URL names 1 of 3");
	test_server_kill9(&all.sentinels[2]);
	expect(all.url, "sentinels", "warn", "2 of the 3 in the URL answer");
	assert_int_equal(test_server_restart(&all.sentinels[2]), 0);
	expect(all.url, "sentinels", "pass", "3 answer");
}

static void test_a_quorum_of_all(void **state) {
	(void)state;
	for (int i = 0; i < SENTINELS_N; i++)
		test_redis_ok(&all.sentinels[i], "SENTINEL SET locks quorum 3");
	expect(all.url, "quorum", "warn", "all 3 sentinels must agree");
	for (int i = 0; i < SENTINELS_N; i++)
		test_redis_ok(&all.sentinels[i], "SENTINEL SET locks quorum 2");
}

/* Where they are is asked by a command that nobody else needs. */
static void test_sentinels_that_do_not_tell(void **state) {
	(void)state;
	for (int i = 0; i < SENTINELS_N; i++)
		test_redis_ok(&all.sentinels[i], "ACL SETUSER default -sentinel|sentinels");
	expect(all.url, "quorum", "pass",
	        "2 of 3 sentinels; on how many hosts: this user is not allowed to see");
	for (int i = 0; i < SENTINELS_N; i++)
		test_redis_ok(&all.sentinels[i], "ACL SETUSER default +sentinel|sentinels");
}

/* Another sentinel, which watches `port` under this name; its URL. */
static const char *start_sentinel(struct test_server *sentinel, const char *service, int port) {
	static char url[128];
	char config[160];

	snprintf(config, sizeof(config), "sentinel monitor %s 127.0.0.1 %d 1", service, port);
	assert_int_equal(test_server_start_sentinel(sentinel, config), 0);
	snprintf(url, sizeof(url), "redis+sentinel://127.0.0.1:%d/%s", sentinel->port, service);
	return url;
}

static void test_a_single_sentinel(void **state) {
	struct test_server sentinel, lonely;
	(void)state;

	assert_int_equal(test_server_start_tcp(&lonely, NULL), 0);
	const char *url = start_sentinel(&sentinel, "solo", lonely.port);
	expect(url, "quorum", "warn", "a single sentinel: if it stops");
	expect(url, "replicas", "warn", "none: there is nobody who could take over");
	/* The sentinels' own default is 30 s. */
	expect(url, "failover", "warn", "takes about 33.0 s, and a renewed lease of 30.0 s");
	expect(url, "failover", "warn", "leases of at least 51s");
	expect(url, "sentinels", "pass", "1 answer");
	test_server_stop(&sentinel);
	test_server_stop(&lonely);
}

static void test_sentinels_that_disagree(void **state) {
	struct test_server sentinel, other;
	char url[128];
	(void)state;

	assert_int_equal(test_server_start_tcp(&other, NULL), 0);
	(void)start_sentinel(&sentinel, "locks", other.port);
	snprintf(url, sizeof(url), "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/locks",
	        all.sentinels[0].port, sentinel.port, all.sentinels[1].port);
	expect(url, "sentinels", "warn", "1 of 3 name another primary");
	test_server_stop(&sentinel);
	test_server_stop(&other);
}

/* ---- With few rights ------------------------------------------------------------------------*/

static void test_what_the_least_rights_cannot_see(void **state) {
	struct test_server *server = primary();
	char url[128];
	(void)state;

	test_redis_ok(server, "ACL SETUSER few on >pw ~sneck:* &sneck:!* +@all -config");
	snprintf(url, sizeof(url), "redis://few:pw@127.0.0.1:%d", server->port);
	expect(url, "persistence", "pass",
	        "append-only file; how often it reaches the disk: this user is not");
	/* INFO tells whether there is a limit, and not which. */
	assert_string_equal(finding(url, "isolation", "30s"), "");
	test_redis_ok(server, "CONFIG SET min-replicas-to-write 1");
	expect(url, "isolation", "pass", "after which time this user is not allowed to see");
	test_redis_ok(server, "CONFIG SET min-replicas-to-write 0");
	test_redis_ok(server, "ACL SETUSER few -info");
	expect(url, "eviction", "warn", "not allowed to see");
	expect(url, "replicas", "warn", "not allowed to see");
	expect(url, "persistence", "warn", "not allowed to see");
}

static void test_appendfsync_is_looked_at(void **state) {
	struct test_server *server = primary();
	(void)state;

	expect(server->url, "persistence", "pass", "every second: a power failure forgets");
	test_redis_ok(server, "CONFIG SET appendfsync no");
	expect(server->url, "persistence", "warn", "whenever the kernel likes");
	test_redis_ok(server, "CONFIG SET appendfsync always");
	expect(server->url, "persistence", "pass", "before the answer");
	test_redis_ok(server, "CONFIG SET appendfsync everysec");
}

/* ---- A cluster ------------------------------------------------------------------------------*/

static int start_cluster(void **state) {
	static const char *const args[] = { "--appendonly", "yes", NULL };
	const struct test_cluster_options options = { .args = args };
	(void)state;
	return test_cluster_start(&cluster, &options);
}

static int stop_cluster(void **state) {
	(void)state;
	test_cluster_stop(&cluster);
	return 0;
}

static void test_a_cluster_that_is_well(void **state) {
	(void)state;
	expect(cluster.url, "role", "pass", "a primary of a cluster");
	expect(cluster.url, "slots", "pass", "all 16384 have a server");
	/* A replica counts from its first word to its primary on. */
	assert_true(WAIT_UNTIL(says(cluster.url, "standby", "pass", "each of the 3 primaries has"), 30000));
	/* One and a half times its 2 s, and 2 s. */
	expect(cluster.url, "failover", "pass", "takes about 5.0 s; a lease of 30.0 s outlives it");
	assert_non_null(
	        strstr(finding(cluster.url, "failover", "7s"), "cluster-node-timeout (it is 2000 ms)"));
	expect(cluster.url, "lock", "pass", "");
}

/* What one server does wrong is found, and named, whichever it is. */
static void test_every_primary_is_asked(void **state) {
	char where[32];
	(void)state;

	for (int i = 0; i < CLUSTER_PRIMARIES; i++) {
		snprintf(where, sizeof(where), "127.0.0.1:%d: volatile-ttl", cluster.nodes[i].port);
		test_redis_ok(&cluster.nodes[i], "CONFIG SET maxmemory-policy volatile-ttl");
		expect_one(cluster.url, "eviction", "warn", where);
		test_redis_ok(&cluster.nodes[i], "CONFIG SET maxmemory-policy noeviction");
	}
}

static void test_a_primary_without_a_replica(void **state) {
	(void)state;
	test_server_kill9(&cluster.nodes[test_cluster_partner(1)]);
	assert_true(
	        WAIT_UNTIL(says(cluster.url, "standby", "warn", "1 of 3 primaries have no replica"), 30000));
	expect(cluster.url, "standby", "warn", "if one stops, so do all locks");
	for (int i = 0; i < CLUSTER_PRIMARIES; i++)
		test_redis_ok(&cluster.nodes[i], "CONFIG SET cluster-require-full-coverage no");
	expect(cluster.url, "standby", "warn", "if one stops, so do its locks");
	assert_int_equal(test_server_restart(&cluster.nodes[test_cluster_partner(1)]), 0);
	assert_true(WAIT_UNTIL(says(cluster.url, "standby", "pass", "each of the 3"), 30000));
}

static void test_what_a_cluster_does_not_tell(void **state) {
	(void)state;
	for (int i = 0; i < CLUSTER_PRIMARIES; i++)
		test_redis_ok(&cluster.nodes[i], "ACL SETUSER default -cluster|info -cluster|shards -config");
	expect(cluster.url, "slots", "warn", "not allowed to see");
	expect(cluster.url, "standby", "warn", "not allowed to see");
	expect(cluster.url, "failover", "warn", "cluster-node-timeout: this user is not allowed to see");
	for (int i = 0; i < CLUSTER_PRIMARIES; i++)
		test_redis_ok(&cluster.nodes[i], "ACL SETUSER default +@all");
}

/* The last: nobody has the slots of a dead pair. */
static void test_slots_without_a_server(void **state) {
	char where[64];
	(void)state;

	for (int i = 0; i < CLUSTER_PRIMARIES; i++)
		test_redis_ok(&cluster.nodes[i], "CONFIG SET cluster-require-full-coverage no");
	test_server_kill9(&cluster.nodes[2]);
	test_server_kill9(&cluster.nodes[test_cluster_partner(2)]);
	/* The others still answer. */
	if (!WAIT_UNTIL(says(cluster.url, "slots", "fail", "have a server; locks in the others cannot be"),
	            30000))
		fail_msg("%s", finding(cluster.url, "slots", "30s"));
	snprintf(where, sizeof(where), "127.0.0.1:%d: ", cluster.nodes[2].port);
	expect_one(cluster.url, "reach", "fail", where);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_well_is_said),
		cmocka_unit_test(test_the_lease_is_held_against_the_failover),
		cmocka_unit_test(test_a_primary_that_is_cut_off),
		cmocka_unit_test(test_a_replica_that_is_behind),
		cmocka_unit_test(test_sentinels_that_are_missing),
		cmocka_unit_test(test_a_quorum_of_all),
		cmocka_unit_test(test_sentinels_that_do_not_tell),
		cmocka_unit_test(test_a_single_sentinel),
		cmocka_unit_test(test_sentinels_that_disagree),
		cmocka_unit_test(test_what_the_least_rights_cannot_see),
		cmocka_unit_test(test_appendfsync_is_looked_at),
	};
	const struct CMUnitTest in_cluster[] = {
		cmocka_unit_test(test_a_cluster_that_is_well),
		cmocka_unit_test(test_every_primary_is_asked),
		cmocka_unit_test(test_a_primary_without_a_replica),
		cmocka_unit_test(test_what_a_cluster_does_not_tell),
		cmocka_unit_test(test_slots_without_a_server),
	};
	int failed = cmocka_run_group_tests(tests, start, stop);
	return cmocka_run_group_tests(in_cluster, start_cluster, stop_cluster) || failed;
}
