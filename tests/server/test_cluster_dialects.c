/* SPDX-License-Identifier: MIT */
/* Layouts of other programs in a real cluster: each by the kind of channel that those programs use, with
 * names whose keys have one slot, and through a slot that is being moved. The servers count what they were
 * asked, and are the witnesses. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster.h"
#include "locks.h"
#include "rule.h"
#include "wait.h"

enum { PATIENT_MS = 10000 };

static struct test_cluster cluster;
static struct test_server *const face = &test_the_server;

static const struct layout {
	const char *dialect, *channel; /* what the names of its channels have in them */
	bool sharded;
} layouts[] = {
	{ "redisson:lock", "redisson_lock__channel:", true },
	{ "redisson:rwlock", "redisson_rwlock:", true },
	{ "redisson:fenced", "redisson_lock__channel:", true },
	{ "redisson:fair", "redisson_lock__channel:", true },
	{ "counted", ":sneck_hint", false },
	{ "intent", ":channel", false },
};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

static int up(void **state) {
	(void)state;
	if (test_cluster_start(&cluster, NULL) < 0)
		return -1;
	*face = test_cluster_face(&cluster, CLUSTER_PRIMARIES);
	return 0;
}

static int down(void **state) {
	(void)state;
	test_cluster_stop(&cluster);
	return 0;
}

static sneck_client *open_as(const char *dialect) {
	char url[TEST_URL_MAX];
	return test_open_command_ms(test_url_with(face, url, "dialect=%s", dialect), PATIENT_MS);
}

/* Channels of a kind ("CHANNELS", "SHARDCHANNELS") that somebody hears, on all primaries. */
static size_t heard_channels(const char *kind, const char *part) {
	size_t n = 0;

	for (int i = 0; i < CLUSTER_PRIMARIES; i++) {
		redisReply *reply = test_redis(&cluster.nodes[i], "PUBSUB %s *%s*", kind, part);
		assert_non_null(reply);
		n += reply->elements;
		freeReplyObject(reply);
	}
	return n;
}

/* ---- Messages -----------------------------------------------------------------------------------*/

static void by_the_kind_of_channel_that_the_layout_has(void **state) {
	(void)state;
	for (size_t i = 0; i < LAYOUTS; i++) {
		const struct layout *layout = &layouts[i];
		const char *ours = layout->sharded ? "SHARDCHANNELS" : "CHANNELS";
		const char *others = layout->sharded ? "CHANNELS" : "SHARDCHANNELS";
		const char *word = layout->sharded ? "cmdstat_spublish:calls=" : "cmdstat_publish:calls=";
		const char *other = layout->sharded ? "cmdstat_publish:calls=" : "cmdstat_spublish:calls=";
		sneck_client *holder = open_as(layout->dialect), *waiter = open_as(layout->dialect);
		struct test_call call;

		test_redis_ok(face, "CONFIG RESETSTAT");
		sneck_hold *hold = test_take(holder, "door", SNECK_WRITE, 0);
		test_call_start(&call, waiter, "door", SNECK_WRITE, NULL);
		assert_true(WAIT_UNTIL(heard_channels(ours, layout->channel) == 1, 10000));
		assert_int_equal(heard_channels(others, layout->channel), 0);
		test_release(hold);
		assert_result(0, test_call_join(&call), &call.error);
		assert_true(test_info_sum(cluster.nodes, CLUSTER_PRIMARIES, "commandstats", word) > 0);
		assert_int_equal(test_info_sum(cluster.nodes, CLUSTER_PRIMARIES, "commandstats", other), 0);
		test_release(call.hold);
		sneck_close(holder);
		sneck_close(waiter);
		assert_true(WAIT_UNTIL(heard_channels(ours, layout->channel) == 0, 10000));
	}
}

/* What comes sooner than the next question is the doing of a message. A busy machine may be late once. */
static void a_release_wakes_at_once(void **state) {
	static const char *const names[] = { "shop:c", "{orders}:7", "x:{tag}:y" }; /* one for each primary */
	(void)state;

	for (size_t i = 0; i < LAYOUTS * 3; i++) {
		sneck_client *holder = open_as(layouts[i / 3].dialect),
		             *waiter = open_as(layouts[i / 3].dialect);
		const char *name = names[i % 3];
		int64_t best_ms = INT64_MAX;

		for (int round = 0; round < 8 && best_ms > 100; round++) {
			struct test_call call;
			sneck_hold *hold = test_take(holder, name, SNECK_WRITE, 10000);
			test_call_start(&call, waiter, name, SNECK_WRITE, NULL);
			int64_t asked_ms = test_await_long_pause(waiter);
			test_release(hold);
			assert_result(0, test_call_join(&call), &call.error);
			best_ms = call.end_ms - asked_ms < best_ms ? call.end_ms - asked_ms : best_ms;
			test_release(call.hold);
		}
		if (best_ms > 100)
			fail_msg("%s %s: %d ms", layouts[i / 3].dialect, name, (int)best_ms);
		sneck_close(holder);
		sneck_close(waiter);
	}
}

/* ---- Names --------------------------------------------------------------------------------------*/

static void names_have_one_slot_or_are_refused(void **state) {
	static const char *const odd[] = { "a{b", "a}b", "{}x", "{", "}{" };
	static const char *const fine[] = { "a", "a:b:c", "{tag}:x", "x{tag}", "{tag}}", "{a}{" };
	sneck_error error = { 0 };
	sneck_hold *hold;
	(void)state;

	for (size_t i = 0; i < LAYOUTS; i++) {
		sneck_client *client = open_as(layouts[i].dialect);
		for (size_t j = 0; j < sizeof fine / sizeof fine[0]; j++)
			assert_result(0, test_probe(client, fine[j], SNECK_WRITE), NULL);
		test_redis_ok(face, "CONFIG RESETSTAT");
		for (size_t j = 0; j < sizeof odd / sizeof odd[0]; j++) {
			assert_result(SNECK_EINVAL,
			        sneck_acquire(client, odd[j], SNECK_WRITE, NULL, &hold, &error), &error);
			assert_non_null(strstr(error.text, "different slots"));
		}
		assert_int_equal(test_info_sum(cluster.nodes, CLUSTER_PRIMARIES, "commandstats",
		                         "cmdstat_evalsha:calls="),
		        0);
		sneck_close(client);
	}
	sneck_client *native = open_as("native");
	for (size_t j = 0; j < sizeof odd / sizeof odd[0]; j++)
		assert_result(0, test_probe(native, odd[j], SNECK_WRITE), NULL);
	sneck_close(native);
}

/* ---- A slot that is moved -----------------------------------------------------------------------*/

struct other_call {
	sneck_hold *hold;
	int (*run)(sneck_hold *hold);
	atomic_bool done;
	int result;
	pthread_t thread;
};

static int run_renew(sneck_hold *hold) {
	return sneck_renew(hold, 0, NULL);
}

static void *run_other(void *arg) {
	struct other_call *call = arg;

	call->result = call->run(call->hold);
	atomic_store(&call->done, true);
	return NULL;
}

static void start_other(struct other_call *call, int (*run)(sneck_hold *hold), sneck_hold *hold) {
	*call = (struct other_call){ .hold = hold, .run = run };
	assert_int_equal(pthread_create(&call->thread, NULL, run_other, call), 0);
}

static int join_other(struct other_call *call) {
	assert_int_equal(pthread_join(call->thread, NULL), 0);
	return call->result;
}

static void move_with(const char *dialect) {
	sneck_client *client = open_as(dialect), *other = open_as(dialect);
	sneck_acquire_options options = test_waiting(10000);
	int slot = test_cluster_slot(&cluster, "{move}"), from = test_cluster_owner(&cluster, "{move}");
	int to = (from + 1) % CLUSTER_PRIMARIES;
	struct other_call renewal, release;
	struct test_call acquire;

	options.owner = 1; /* another thread is to release it */
	sneck_hold *kept = test_take_opts(client, "{move}:kept", SNECK_WRITE, &options);
	sneck_hold *freed = test_take_opts(client, "{move}:freed", SNECK_WRITE, &options);
	test_redis_ok(face, "CONFIG RESETSTAT");
	test_cluster_move_begin(&cluster, slot, from, to);
	start_other(&renewal, run_renew, kept);
	start_other(&release, sneck_release, freed);
	test_call_start(&acquire, other, "{move}:new", SNECK_WRITE, NULL);
	/* Three at the least have been refused, for each is asked again. */
	assert_true(WAIT_UNTIL(test_info_sum(cluster.nodes, CLUSTER_PRIMARIES, "errorstats",
	                               "errorstat_TRYAGAIN:count=") >= 6,
	        10000));
	assert_false(atomic_load(&renewal.done) || atomic_load(&release.done) || atomic_load(&acquire.done));
	while (test_cluster_move_keys(&cluster, slot, from, to, 100) > 0)
		;
	test_cluster_move_end(&cluster, slot, from, to);
	assert_result(0, join_other(&renewal), NULL);
	assert_result(0, join_other(&release), NULL);
	assert_result(0, test_call_join(&acquire), &acquire.error);
	assert_int_equal(sneck_hold_state(kept), SNECK_HELD);
	assert_result(SNECK_EBUSY, test_probe(other, "{move}:kept", SNECK_WRITE), NULL);
	assert_result(0, test_probe(other, "{move}:freed", SNECK_WRITE), NULL);
	test_release(kept);
	test_release(acquire.hold);
	sneck_close(client);
	sneck_close(other);
}

static void a_slot_that_is_moved_is_waited_for(void **state) {
	(void)state;
	for (size_t i = 0; i < LAYOUTS; i++) {
		test_cluster_settle(&cluster);
		move_with(layouts[i].dialect);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(by_the_kind_of_channel_that_the_layout_has),
		TEST(a_release_wakes_at_once),
		TEST(names_have_one_slot_or_are_refused),
		TEST(a_slot_that_is_moved_is_waited_for),
	};
	return cmocka_run_group_tests(tests, up, down);
}
