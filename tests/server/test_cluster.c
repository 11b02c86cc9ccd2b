/* SPDX-License-Identifier: MIT */
/* Locks in a cluster: on all of its primaries, while slots move and replicas take over. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster.h"
#include "locks.h"
#include "wait.h"

enum { NAMES = 60 };

static struct test_cluster cluster;

static int up(void **state) {
	(void)state;
	return test_cluster_start(&cluster, NULL);
}

static int down(void **state) {
	(void)state;
	test_cluster_stop(&cluster);
	return 0;
}

static const char *name_of(int i) {
	static char name[32];
	snprintf(name, sizeof name, "door-%d", i);
	return name;
}

/* Sixty names lie on all three primaries; one client holds them all and another is refused each. */
static void locks_lie_on_all_primaries(void **state) {
	sneck_client *client = test_open(cluster.url), *other = test_open(cluster.url);
	sneck_hold *holds[NAMES];
	int seen[CLUSTER_NODES] = { 0 };
	(void)state;

	for (int i = 0; i < NAMES; i++) {
		char key[64];
		holds[i] = test_take(client, name_of(i), SNECK_WRITE, 0);
		snprintf(key, sizeof key, "sneck:{%s}", name_of(i));
		seen[test_cluster_owner(&cluster, key)]++;
		assert_result(SNECK_EBUSY, test_probe(other, name_of(i), SNECK_WRITE), NULL);
	}
	for (int i = 0; i < CLUSTER_PRIMARIES; i++)
		assert_true(seen[i] > 0);
	for (int i = 0; i < NAMES; i++)
		test_release(holds[i]);
	sneck_close(other);
	sneck_close(client);
}

/* Nothing but the two scripts, once all is connected: no redirection, no question. */
static void a_pair_costs_two_commands(void **state) {
	sneck_client *client = test_open(cluster.url);
	(void)state;

	for (int i = 0; i < NAMES; i++)
		test_release(test_take(client, name_of(i), SNECK_WRITE, 0));
	uint64_t before = test_stats(client).commands;
	for (int i = 0; i < NAMES; i++)
		test_release(test_take(client, name_of(i), SNECK_WRITE, 0));
	assert_int_equal(test_stats(client).commands - before, 2 * NAMES);
	sneck_close(client);
}

static void the_list_has_the_locks_of_all(void **state) {
	sneck_client *client = test_open(cluster.url);
	sneck_hold *holds[NAMES];
	sneck_lock_list *list = NULL;
	sneck_error error;
	(void)state;

	for (int i = 0; i < NAMES; i++)
		holds[i] = test_take(client, name_of(i), SNECK_WRITE, 0);
	assert_result(0, sneck_list(client, NULL, &list, &error), &error);
	assert_int_equal(list->n, NAMES);
	sneck_lock_list_free(list);
	for (int i = 0; i < NAMES; i++)
		test_release(holds[i]);
	sneck_close(client);
}

/* One is told of its grant by a message, not by its heartbeat: at each of the primaries. */
static void who_waits_is_told(void **state) {
	sneck_client *client = test_open(cluster.url), *other = test_open(cluster.url);
	struct test_call call;
	sneck_acquire_options patient = test_waiting(20000);
	(void)state;

	for (int i = 0; i < 12; i++) {
		sneck_hold *hold = test_take(client, name_of(i), SNECK_WRITE, 0);
		uint64_t beats = test_stats(other).beats;
		test_call_start(&call, other, name_of(i), SNECK_WRITE, &patient);
		/* The beat that follows the subscription. */
		assert_true(WAIT_UNTIL(test_stats(other).beats > beats, 5000));
		test_release(hold);
		assert_int_equal(test_call_join(&call), 0);
		test_release(call.hold);
	}
	assert_true(test_stats(other).grants_by_message >= 10);
	sneck_close(other);
	sneck_close(client);
}

/* Two threads of one process share a lock; another session that wants to write is heard of. */
static void a_writer_elsewhere_is_heard_of(void **state) {
	sneck_client *client = test_open(cluster.url), *other = test_open(cluster.url);
	struct test_call call;
	sneck_acquire_options first = test_waiting(0), second = test_waiting(0),
	                      patient = test_waiting(20000);
	sneck_hold *one = NULL, *two = NULL;
	sneck_error error;
	(void)state;

	first.owner = 1;
	second.owner = 2;
	assert_result(0, sneck_acquire(client, "shared", SNECK_READ, &first, &one, &error), &error);
	assert_result(0, sneck_acquire(client, "shared", SNECK_READ, &second, &two, &error), &error);
	test_call_start(&call, other, "shared", SNECK_WRITE, &patient);
	second.owner = 3;
	/* From the hint on, no new reader: it is repeated with each heartbeat of the writer. */
	sneck_hold *three = NULL;
	bool refused = WAIT_UNTIL(
	        sneck_acquire(client, "shared", SNECK_READ, &second, &three, &error) == SNECK_EBUSY ||
	                (sneck_release(three), false),
	        10000);
	assert_true(refused);
	test_release(one);
	test_release(two);
	assert_int_equal(test_call_join(&call), 0);
	test_release(call.hold);
	sneck_close(other);
	sneck_close(client);
}

/* ---- Slots that move ----------------------------------------------------------------------------*/

/* The slot goes round the primaries while a lock in it is held, waited for and taken anew. */
static void a_hold_follows_its_slot(void **state) {
	sneck_client *client = test_open(cluster.url), *other = test_open(cluster.url);
	struct test_call call;
	sneck_acquire_options patient = test_waiting(60000);
	(void)state;

	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	uint64_t token = sneck_hold_token(hold);
	test_call_start(&call, other, "door", SNECK_WRITE, &patient);
	assert_true(WAIT_UNTIL(test_stats(other).waiters == 1, 5000));
	for (int i = 0; i < 3; i++) {
		int at = test_cluster_move(&cluster, "sneck:{door}");
		assert_int_equal(sneck_renew(hold, 0, NULL), 0);
		assert_int_equal(sneck_hold_state(hold), SNECK_HELD);
		assert_int_equal(test_redis_int(&cluster.nodes[at], "EXISTS sneck:{door}"), 1);
	}
	int64_t before = test_now_ms();
	test_release(hold);
	assert_int_equal(test_call_join(&call), 0);
	assert_true(test_now_ms() - before < 1000);
	assert_true(sneck_hold_token(call.hold) > token);
	test_release(call.hold);
	assert_int_equal(test_stats(client).losses + test_stats(other).losses, 0);
	assert_int_equal(test_stats(client).renewal_failures, 0);
	sneck_close(other);
	sneck_close(client);
}

/* Halfway: keys that were there are where they were, or have gone; new ones are made at the new place. */
static void a_slot_half_moved_serves(void **state) {
	sneck_client *client = test_open(cluster.url), *other = test_open(cluster.url);
	struct test_call call;
	sneck_acquire_options patient = test_waiting(60000);
	int slot = test_cluster_slot(&cluster, "sneck:{door}");
	int from = test_cluster_owner(&cluster, "sneck:{door}");
	int to = from == 0 ? 1 : 0;
	(void)state;

	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	test_cluster_move_begin(&cluster, slot, from, to);
	assert_int_equal(sneck_renew(hold, 0, NULL), 0);
	test_release(hold); /* at the old place: the key is gone now, or idle there */
	while (test_cluster_move_keys(&cluster, slot, from, to, 10) > 0)
		;
	hold = test_take(client, "door", SNECK_WRITE, 0); /* ASK */
	assert_int_equal(test_redis_int(&cluster.nodes[from], "CLUSTER COUNTKEYSINSLOT %d", slot), 0);
	assert_int_equal(test_redis_int(&cluster.nodes[to], "CLUSTER COUNTKEYSINSLOT %d", slot), 1);
	test_call_start(&call, other, "door", SNECK_WRITE, &patient);
	assert_true(WAIT_UNTIL(test_stats(other).waiters == 1, 5000));
	int64_t before = test_now_ms();
	test_release(hold); /* the message goes out at the new place */
	assert_int_equal(test_call_join(&call), 0);
	assert_true(test_now_ms() - before < 1000);
	test_cluster_move_end(&cluster, slot, from, to);
	assert_int_equal(sneck_renew(call.hold, 0, NULL), 0);
	test_release(call.hold);
	sneck_close(other);
	sneck_close(client);
}

/* ---- Replicas that take over --------------------------------------------------------------------*/

static void a_hold_outlives_a_failover(void **state) {
	sneck_client *client = test_open(cluster.url), *other = test_open(cluster.url);
	struct test_call call;
	sneck_acquire_options patient = test_waiting(60000);
	(void)state;

	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	uint64_t token = sneck_hold_token(hold);
	int old = test_cluster_owner(&cluster, "sneck:{door}");
	test_call_start(&call, other, "door", SNECK_WRITE, &patient);
	/* Who stands in the queue goes on waiting; who has only asked is told that nobody answers. */
	assert_true(test_await_members(&cluster.nodes[old], "door", "w", 1, 5000));
	test_cluster_settle(&cluster);
	test_server_kill9(&cluster.nodes[old]);
	test_cluster_await_other(&cluster, "sneck:{door}", old, 30000);
	assert_true(WAIT_UNTIL(sneck_renew(hold, 0, NULL) == 0, 10000));
	assert_int_equal(sneck_hold_state(hold), SNECK_HELD);
	assert_int_equal(sneck_hold_token(hold), token);
	test_release(hold);
	assert_int_equal(test_call_join(&call), 0);
	assert_true(sneck_hold_token(call.hold) > token);
	test_release(call.hold);
	sneck_close(other);
	sneck_close(client);
	assert_int_equal(test_server_restart(&cluster.nodes[old]), 0);
	test_cluster_settle(&cluster);
}

static void a_planned_failover_goes_unnoticed(void **state) {
	sneck_client *client = test_open(cluster.url);
	(void)state;

	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	test_cluster_settle(&cluster);
	test_cluster_fail_over(&cluster, "sneck:{door}", "");
	assert_int_equal(sneck_renew(hold, 0, NULL), 0);
	test_release(hold);
	hold = test_take(client, "door", SNECK_WRITE, 5000);
	test_release(hold);
	sneck_close(client);
}

/* ---- Bad input ----------------------------------------------------------------------------------*/

static void wrong_addresses_are_explained(void **state) {
	sneck_error error;
	char url[128];
	struct test_server single;
	(void)state;

	snprintf(url, sizeof url, "redis://127.0.0.1:%d", cluster.nodes[0].port);
	assert_result(SNECK_ENOTSUP, test_connect(url, &error), &error);
	assert_non_null(strstr(error.text, "redis+cluster://"));
	assert_result(SNECK_ECONN, test_connect("redis://127.0.0.1:1,127.0.0.1:2", &error), &error);
	assert_int_equal(test_server_start_tcp(&single, NULL), 0);
	snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", single.port);
	assert_result(SNECK_ENOTSUP, test_connect(url, &error), &error);
	assert_non_null(strstr(error.text, "no node of a cluster"));
	test_server_stop(&single);
	const char *const lone[] = { "--cluster-enabled", "yes", NULL };
	assert_int_equal(test_server_start_tcp(&single, lone), 0);
	snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", single.port);
	assert_result(SNECK_ESERVER, test_connect(url, &error), &error);
	assert_non_null(strstr(error.text, "knows no slots"));
	/* Half of the slots: a lock in the other half is refused with the reason. */
	test_redis_ok(&single, "CLUSTER ADDSLOTSRANGE 0 8191");
	test_redis_ok(&single, "CONFIG SET cluster-require-full-coverage no");
	sneck_client *client = test_open(url);
	sneck_hold *hold = NULL;
	sneck_acquire_options options = test_waiting(0);
	assert_true(
	        WAIT_UNTIL((sneck_acquire(client, "bar", SNECK_WRITE, &options, &hold, &error) == 0), 5000));
	test_release(hold);
	int64_t before = test_now_ms();
	assert_result(
	        SNECK_ESERVER, sneck_acquire(client, "foo", SNECK_WRITE, &options, &hold, &error), &error);
	assert_non_null(strstr(error.text, "no node of the cluster serves slot 12182"));
	assert_true(test_now_ms() - before < 3000);
	sneck_close(client);
	test_server_stop(&single);
}

/* A replica is as good a seed as any. */
static void one_seed_is_enough(void **state) {
	char url[128];
	(void)state;

	for (int i = 0; i < CLUSTER_NODES; i++) {
		snprintf(url, sizeof url, "redis://127.0.0.1:1,127.0.0.1:%d", cluster.nodes[i].port);
		sneck_client *client = test_open(url);
		for (int j = 0; j < 6; j++)
			test_release(test_take(client, name_of(j), SNECK_WRITE, 0));
		sneck_close(client);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(locks_lie_on_all_primaries),
		cmocka_unit_test(a_pair_costs_two_commands),
		cmocka_unit_test(the_list_has_the_locks_of_all),
		cmocka_unit_test(who_waits_is_told),
		cmocka_unit_test(a_writer_elsewhere_is_heard_of),
		cmocka_unit_test(one_seed_is_enough),
		cmocka_unit_test(a_hold_follows_its_slot),
		cmocka_unit_test(a_slot_half_moved_serves),
		cmocka_unit_test(a_hold_outlives_a_failover),
		cmocka_unit_test(a_planned_failover_goes_unnoticed),
		cmocka_unit_test(wrong_addresses_are_explained),
	};
	return cmocka_run_group_tests(tests, up, down);
}
