/* SPDX-License-Identifier: MIT */
/* Readers and writers: who shares, who waits for whom, and in which order they go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "locks.h"
#include "topology.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

static sneck_acquire_options by(uint64_t owner, int64_t wait_ms) {
	sneck_acquire_options options = test_waiting(wait_ms);
	options.owner = owner;
	return options;
}

static bool has_returned(struct test_call *call) {
	return atomic_load(&call->done);
}

static void readers_of_one_process_are_one_holder(void **state) {
	(void)state;
	enum { READERS = 10 };
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	test_release(test_take(a, "door", SNECK_READ, 0)); /* its server knows the scripts */
	uint64_t before = test_stats(a).commands;
	sneck_hold *holds[READERS];
	for (uint64_t i = 0; i < READERS; i++) {
		sneck_acquire_options options = by(i + 1, 0);
		holds[i] = test_take_opts(a, "door", SNECK_READ, &options);
		assert_true(sneck_hold_token(holds[i]) == sneck_hold_token(holds[0]));
	}
	assert_int_equal(test_members(server, "door", "R"), 1);
	sneck_hold *other = test_take(b, "door", SNECK_READ, 0);
	assert_int_equal(test_members(server, "door", "R"), 2);
	assert_true(sneck_hold_token(other) == sneck_hold_token(holds[0]));
	for (int i = 0; i < READERS; i++) {
		assert_int_equal(test_members(server, "door", "R"), 2);
		test_release(holds[i]);
	}
	assert_int_equal(test_members(server, "door", "R"), 1);
	assert_int_equal(test_stats(a).commands - before, 2);
	test_release(other);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
}

/* `listens`: the holder hears messages from the start, because it might have had to wait once. In a cluster
 * it does not: a channel is there for one lock. */
static void check_door(bool listens) {
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	if (listens)
		test_release(test_take(a, "warm", SNECK_READ, 1000));
	sneck_hold *first = test_take(a, "door", SNECK_READ, 0);
	struct test_call writer, reader;
	test_call_start(&writer, b, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	/* The hint needs a moment, or comes with the next beat; then a newcomer is sent to the queue while
	 * the holder re-enters. */
	int64_t patience_ms = (listens && !test_topology_is_cluster() ? 0 : SNECK_WAITER_BEAT_MS * 7 / 4) +
	                      2 * TEST_SLACK_MS;
	sneck_acquire_options newcomer = by(5, 0);
	sneck_hold *got = NULL;
	bool stopped = false;
	for (int64_t until_ms = test_now_ms() + patience_ms; !stopped && test_now_ms() < until_ms;) {
		int r = sneck_acquire(a, "door", SNECK_READ, &newcomer, &got, NULL);
		stopped = r == SNECK_EBUSY;
		if (r == 0)
			test_release(got);
	}
	assert_true(stopped);
	sneck_hold *again = test_take(a, "door", SNECK_READ, 0);
	test_call_start(&reader, a, "door", SNECK_READ, NULL);
	assert_true(test_await_members(server, "door", "r", 1, 2000));
	test_release(again);
	assert_false(has_returned(&writer));
	test_release(first);
	assert_result(0, test_call_join(&writer), &writer.error);
	assert_false(has_returned(&reader));
	assert_int_equal(test_members(server, "door", "R"), 0);
	test_release(writer.hold);
	assert_result(0, test_call_join(&reader), &reader.error);
	assert_true(sneck_hold_token(reader.hold) > 0);
	test_release(reader.hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
}

static void a_waiting_writer_stops_new_readers_of_the_holder(void **state) {
	(void)state;
	check_door(true);
	check_door(false);
}

static void a_leaving_writer_lets_all_readers_in(void **state) {
	(void)state;
	enum { READERS = 6 };
	sneck_client *writer = test_open(server->url);
	sneck_client *clients[READERS];
	struct test_call calls[READERS];
	sneck_hold *hold = test_take(writer, "door", SNECK_WRITE, 0);
	for (int i = 0; i < READERS; i++) {
		clients[i] = test_open(server->url);
		test_call_start(&calls[i], clients[i], "door", SNECK_READ, NULL);
	}
	assert_true(test_await_members(server, "door", "r", READERS, 3000));
	int64_t start_ms = test_now_ms();
	test_release(hold);
	assert_int_equal(test_members(server, "door", "R"), READERS);
	for (int i = 0; i < READERS; i++) {
		assert_result(0, test_call_join(&calls[i]), &calls[i].error);
		assert_true(calls[i].end_ms - start_ms <= TEST_SLACK_MS);
		assert_true(sneck_hold_token(calls[i].hold) == sneck_hold_token(calls[0].hold));
	}
	for (int i = 0; i < READERS; i++) {
		test_release(calls[i].hold);
		sneck_close(clients[i]);
	}
	assert_true(test_is_idle(server, "door"));
	sneck_close(writer);
}

/* A reader waits, then a writer: who is first is the writer's policy. */
static void check_policy(sneck_policy policy) {
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_client *c = test_open(server->url);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	struct test_call reader, writer;
	test_call_start(&reader, b, "door", SNECK_READ, NULL);
	assert_true(test_await_members(server, "door", "r", 1, 2000));
	sneck_acquire_options options = test_waiting(10000);
	options.policy = policy;
	test_call_start(&writer, c, "door", SNECK_WRITE, &options);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	test_release(hold);
	struct test_call *first = policy == SNECK_POLICY_FAIR ? &reader : &writer;
	struct test_call *second = policy == SNECK_POLICY_FAIR ? &writer : &reader;
	assert_result(0, test_call_join(first), &first->error);
	assert_false(has_returned(second));
	test_release(first->hold);
	assert_result(0, test_call_join(second), &second->error);
	assert_true(sneck_hold_token(second->hold) > 0);
	test_release(second->hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
	sneck_close(c);
}

static void the_order_is_the_waiters_policy(void **state) {
	(void)state;
	check_policy(SNECK_POLICY_FAIR);
	check_policy(SNECK_POLICY_PREFER_WRITERS);
}

/* The same among the owners of one process. */
static void local_owners_follow_the_rules_too(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	sneck_acquire_options one = by(1, 0), two = by(2, 0);
	sneck_hold *hold = test_take_opts(client, "door", SNECK_READ, &one);
	sneck_hold *none = NULL;
	assert_result(SNECK_EBUSY, sneck_acquire(client, "door", SNECK_WRITE, &two, &none, NULL), NULL);
	struct test_call writer, reader;
	sneck_acquire_options waits = by(3, 10000);
	test_call_start(&writer, client, "door", SNECK_WRITE, &waits);
	assert_true(WAIT_UNTIL(test_stats(client).waiters == 1, 2000));
	/* The door is closed to new readers, open to the one inside. */
	assert_result(SNECK_EBUSY, sneck_acquire(client, "door", SNECK_READ, &two, &none, NULL), NULL);
	sneck_hold *again = test_take_opts(client, "door", SNECK_READ, &one);
	test_call_start(&reader, client, "door", SNECK_READ, NULL);
	assert_true(WAIT_UNTIL(test_stats(client).waiters == 2, 2000));
	test_release(again);
	assert_false(has_returned(&writer));
	test_release(hold);
	assert_result(0, test_call_join(&writer), &writer.error);
	assert_int_equal(test_members(server, "door", "W"), 1);
	assert_int_equal(test_members(server, "door", "R"), 0);
	assert_false(has_returned(&reader));
	test_release(writer.hold);
	assert_result(0, test_call_join(&reader), &reader.error);
	test_release(reader.hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(client);
}

static void a_downgrade_lets_readers_in_at_once(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	uint64_t write_token = sneck_hold_token(hold);
	struct test_call reader;
	test_call_start(&reader, b, "door", SNECK_READ, NULL);
	assert_true(test_await_members(server, "door", "r", 1, 2000));
	sneck_error error = { 0 };
	int64_t start_ms = test_now_ms();
	assert_result(0, sneck_downgrade(hold, &error), &error);
	assert_result(0, test_call_join(&reader), &reader.error);
	assert_true(reader.end_ms - start_ms <= TEST_SLACK_MS);
	assert_int_equal(sneck_hold_mode(hold), SNECK_READ);
	assert_true(sneck_check(hold, 1000));
	assert_true(sneck_hold_token(hold) > write_token);
	assert_true(sneck_hold_token(hold) == sneck_hold_token(reader.hold));
	assert_int_equal(test_members(server, "door", "R"), 2);
	assert_int_equal(test_members(server, "door", "W"), 0);
	/* What is READ already stays as it is. */
	uint64_t read_token = sneck_hold_token(hold);
	assert_result(0, sneck_downgrade(hold, &error), &error);
	assert_true(sneck_hold_token(hold) == read_token);
	assert_int_equal(test_members(server, "door", "R"), 2);
	test_release(hold);
	test_release(reader.hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
}

/* One owner takes and releases in any order; the server must always show the strongest mode held,
 * and another session must be let in exactly when that allows it. */
static void nested_holds_show_the_strongest_mode(void **state) {
	(void)state;
	enum { STEPS = TEST_SANITIZED ? 150 : 600, DEPTH = 6 };
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_hold *holds[DEPTH];
	int depth = 0;
	unsigned seed = 1;
	for (int step = 0; step < STEPS; step++) {
		if (depth < DEPTH && (depth == 0 || rand_r(&seed) % 2)) {
			sneck_mode mode = rand_r(&seed) % 3 ? SNECK_READ : SNECK_WRITE;
			holds[depth++] = test_take(a, "door", mode, 0);
		} else {
			int at = rand_r(&seed) % depth;
			test_release(holds[at]);
			holds[at] = holds[--depth];
		}
		int writes = 0;
		for (int i = 0; i < depth; i++) {
			writes += sneck_hold_mode(holds[i]) == SNECK_WRITE;
			assert_true(sneck_check(holds[i], 1000));
			assert_true(sneck_hold_token(holds[i]) > 0);
		}
		assert_int_equal(test_members(server, "door", "W"), writes > 0);
		assert_int_equal(test_members(server, "door", "R"), depth > 0 && writes == 0);
		assert_result(writes ? SNECK_EBUSY : 0, test_probe(b, "door", SNECK_READ), NULL);
		assert_result(depth ? SNECK_EBUSY : 0, test_probe(b, "door", SNECK_WRITE), NULL);
	}
	while (depth > 0)
		test_release(holds[--depth]);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(readers_of_one_process_are_one_holder),
		TEST(a_waiting_writer_stops_new_readers_of_the_holder),
		TEST(a_leaving_writer_lets_all_readers_in),
		TEST(the_order_is_the_waiters_policy),
		TEST(local_owners_follow_the_rules_too),
		TEST(a_downgrade_lets_readers_in_at_once),
		TEST(nested_holds_show_the_strongest_mode),
	};
	return TEST_RUN(tests);
}
