/* SPDX-License-Identifier: MIT */
/* What replicas have acknowledged outlives the primary: under sentinels, and in a cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cluster.h"
#include "locks.h"
#include "sentinels.h"
#include "wait.h"

static sneck_hold *take_acked(sneck_client *client, const char *name, uint32_t replicas) {
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;

	options.ack_replicas = replicas;
	options.ack_ms = 10000;
	return test_take_opts(client, name, SNECK_WRITE, &options);
}

static void still_held(sneck_client *client, sneck_client *other, sneck_hold *hold) {
	sneck_error error = { 0 };

	assert_true(WAIT_UNTIL(sneck_renew(hold, 0, &error) == 0, 10000));
	assert_int_equal(sneck_hold_state(hold), SNECK_HELD);
	assert_true(WAIT_UNTIL(test_probe(other, "door", SNECK_WRITE) == SNECK_EBUSY, 10000));
	test_release(hold);
	/* And the connections for it have found the new primary. */
	test_release(take_acked(client, "door", 1));
}

static void under_sentinels(void **state) {
	static struct test_sentinels all;
	(void)state;

	assert_int_equal(test_sentinels_start(&all, NULL, NULL), 0);
	sneck_client *client = test_open(all.url), *other = test_open(all.url);
	int primary = test_sentinels_primary(&all);
	test_release(test_take(client, "warm", SNECK_WRITE, 0));
	sneck_hold *hold = take_acked(client, "door", 2);
	test_server_kill9(&all.servers[primary]); /* at once: nothing but the answer says that it is there */
	test_sentinels_wait_switch(&all, primary);
	still_held(client, other, hold);
	sneck_close(client);
	sneck_close(other);
	test_sentinels_stop(&all);
}

static void in_a_cluster(void **state) {
	static struct test_cluster cluster;
	(void)state;

	assert_int_equal(test_cluster_start(&cluster, NULL), 0);
	sneck_client *client = test_open(cluster.url), *other = test_open(cluster.url);
	int owner = test_cluster_owner(&cluster, "sneck:{door}");
	sneck_hold *hold = take_acked(client, "door", 1);
	test_server_kill9(&cluster.nodes[owner]);
	test_cluster_await_other(&cluster, "sneck:{door}", owner, 30000);
	assert_int_equal(test_server_restart(&cluster.nodes[owner]), 0); /* as a replica */
	test_cluster_settle(&cluster);
	still_held(client, other, hold);
	sneck_close(client);
	sneck_close(other);
	test_cluster_stop(&cluster);
}

/* A slot that is elsewhere by now: the request and its WAIT go there together. */
static void in_a_slot_that_moves(void **state) {
	static struct test_cluster cluster;
	(void)state;

	assert_int_equal(test_cluster_start(&cluster, NULL), 0);
	sneck_client *client = test_open(cluster.url);
	test_release(take_acked(client, "door", 1));
	for (int i = 0; i < 3; i++) {
		int to = test_cluster_move(&cluster, "sneck:{door}");
		sneck_hold *hold = take_acked(client, "door", 1);
		assert_int_equal(test_members(&cluster.nodes[to], "door", "W"), 1);
		test_release(hold);
	}
	sneck_close(client);
	test_cluster_stop(&cluster);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(under_sentinels),
		cmocka_unit_test(in_a_cluster),
		cmocka_unit_test(in_a_slot_that_moves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
