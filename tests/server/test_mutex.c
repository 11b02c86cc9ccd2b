/* SPDX-License-Identifier: MIT */
/* The lock in its plainest use: one writer at a time, who may come in again, and nobody else may
 * let go what he holds. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "locks.h"
#include "proxy.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

static void one_holds_the_other_is_told_who(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	assert_int_equal(test_members(server, "door", "RW"), 1);
	assert_int_equal(sneck_hold_state(hold), SNECK_HELD);
	assert_int_equal(sneck_hold_mode(hold), SNECK_WRITE);
	assert_true(sneck_check(hold, 1000));
	size_t name_len;
	assert_memory_equal(sneck_hold_name(hold, &name_len), "door", 4);
	assert_int_equal(name_len, 4);

	sneck_error error = { 0 };
	sneck_hold *none = NULL;
	assert_result(SNECK_EBUSY, sneck_acquire(b, "door", SNECK_WRITE, NULL, &none, &error), NULL);
	assert_null(none);
	assert_int_equal(error.code, SNECK_EBUSY);
	assert_non_null(strstr(error.text, sneck_client_session(a)));
	assert_result(SNECK_EBUSY, test_probe(b, "door", SNECK_READ), NULL);

	test_release(hold);
	assert_true(test_is_idle(server, "door"));
	test_release(test_take(b, "door", SNECK_WRITE, 0));
	sneck_close(a);
	sneck_close(b);
}

/* The shortest of three: a busy machine makes a return late, never early. */
static void check_wait(sneck_client *client, uint64_t owner) {
	int64_t best_ms = INT64_MAX;
	for (int i = 0; i < 3 && best_ms > 330; i++) {
		sneck_acquire_options options = test_waiting(300);
		options.owner = owner;
		sneck_hold *none = NULL;
		sneck_error error = { 0 };
		int64_t start_ms = test_now_ms();
		assert_result(SNECK_ETIMEDOUT,
		        sneck_acquire(client, "door", SNECK_WRITE, &options, &none, &error), &error);
		int64_t took_ms = test_now_ms() - start_ms;
		assert_true(took_ms >= 299);
		if (took_ms < best_ms)
			best_ms = took_ms;
	}
	assert_true(best_ms <= (TEST_SANITIZED ? 600 : 330));
}

static void waiting_ends_on_time(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	check_wait(b, 0);  /* at the server's queue */
	check_wait(a, 77); /* at the queue of the own process */
	test_release(hold);
	sneck_close(a);
	sneck_close(b);
}

static void *release_from_here(void *arg) {
	return (void *)(intptr_t)sneck_release(arg);
}

static void a_strange_thread_releases_nothing(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	double deadline = test_score(server, "door", "W");
	for (int i = 0; i < 2; i++) {
		pthread_t stranger;
		void *result;
		assert_int_equal(pthread_create(&stranger, NULL, release_from_here, hold), 0);
		pthread_join(stranger, &result);
		assert_result(SNECK_ENOTOWNER, (int)(intptr_t)result, NULL);
		assert_true(sneck_check(hold, 1000));
		assert_true(test_score(server, "door", "W") >= deadline);
		assert_result(SNECK_EBUSY, test_probe(b, "door", SNECK_WRITE), NULL);
	}
	test_release(hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
}

static void re_entry_costs_nothing_on_the_wire(void **state) {
	(void)state;
	enum { DEPTH = 100 };
	struct test_proxy proxy;
	test_proxy_start(&proxy, server->socket_path);
	sneck_client *client = test_open(proxy.url);
	test_release(test_take(client, "warm", SNECK_WRITE, 0));

	struct proxy_counts before, after;
	test_proxy_counts(&proxy, &before);
	sneck_hold *holds[DEPTH];
	holds[0] = test_take(client, "door", SNECK_WRITE, 0);
	test_proxy_counts(&proxy, &after);
	assert_int_equal(after.requests[PROXY_ANY] - before.requests[PROXY_ANY], 1);
	for (int i = 1; i < DEPTH; i++) {
		holds[i] = test_take(client, "door", i % 2 ? SNECK_WRITE : SNECK_READ, 0);
		assert_true(sneck_hold_token(holds[i]) == sneck_hold_token(holds[0]));
	}
	/* In another order than last in, first out. */
	for (int i = 1; i < DEPTH; i++)
		test_release(holds[i]);
	test_proxy_counts(&proxy, &after);
	assert_int_equal(after.requests[PROXY_ANY] - before.requests[PROXY_ANY], 1);
	assert_int_equal(test_members(server, "door", "RW"), 1);
	test_release(holds[0]);
	test_proxy_counts(&proxy, &after);
	assert_int_equal(after.requests[PROXY_ANY] - before.requests[PROXY_ANY], 2);
	assert_true(test_is_idle(server, "door"));
	sneck_counters stats = test_stats(client);
	assert_int_equal(stats.acquires, DEPTH + 1);
	assert_int_equal(stats.local_acquires, DEPTH - 1);
	assert_int_equal(stats.holds, 0);
	sneck_close(client);
	test_proxy_stop(&proxy);
}

static void two_commands_for_acquire_and_release(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	test_release(test_take(client, "door", SNECK_WRITE, 0));
	uint64_t before = test_stats(client).commands;
	for (int i = 0; i < 50; i++)
		test_release(test_take(client, "door", i % 2 ? SNECK_WRITE : SNECK_READ, 0));
	assert_int_equal(test_stats(client).commands - before, 100);
	sneck_close(client);
}

static void tokens_grow(void **state) {
	(void)state;
	sneck_client *clients[2] = { test_open(server->url), test_open(server->url) };
	uint64_t last = 0;
	for (int i = 0; i < 200; i++) {
		sneck_hold *hold = test_take(clients[i % 2], "door", SNECK_WRITE, 0);
		assert_true(sneck_hold_token(hold) > last);
		last = sneck_hold_token(hold);
		test_release(hold);
		if (i % 50 == 49)
			test_redis_ok(server, "FLUSHALL"); /* the clock of the server carries them on */
	}
	sneck_close(clients[0]);
	sneck_close(clients[1]);
}

static void explicit_owners_are_who_they_say(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	sneck_acquire_options one = test_waiting(0), two = test_waiting(0);
	one.owner = 1;
	two.owner = 2;
	sneck_hold *first = test_take_opts(client, "door", SNECK_WRITE, &one);
	sneck_hold *none = NULL;
	sneck_error error = { 0 };
	assert_result(SNECK_EBUSY, sneck_acquire(client, "door", SNECK_WRITE, &two, &none, &error), &error);
	assert_non_null(strstr(error.text, sneck_client_session(client)));
	assert_result(SNECK_EBUSY, test_probe(client, "door", SNECK_WRITE), NULL);
	sneck_hold *again = test_take_opts(client, "door", SNECK_WRITE, &one);

	/* Such a hold has no thread: any may release it. */
	pthread_t other;
	void *result;
	assert_int_equal(pthread_create(&other, NULL, release_from_here, first), 0);
	pthread_join(other, &result);
	assert_result(0, (int)(intptr_t)result, NULL);
	assert_result(SNECK_EBUSY, sneck_acquire(client, "door", SNECK_WRITE, &two, &none, NULL), NULL);
	test_release(again);
	test_release(test_take_opts(client, "door", SNECK_WRITE, &two));
	sneck_close(client);
}

static void a_short_inner_lease_does_not_cut_the_outer(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	sneck_acquire_options outer_options = test_waiting(0);
	outer_options.lease_ms = 20000;
	for (int fixed = 0; fixed < 2; fixed++) {
		sneck_hold *outer = test_take_opts(client, "door", SNECK_WRITE, &outer_options);
		double deadline = test_score(server, "door", "W");
		sneck_acquire_options inner_options = test_waiting(0);
		inner_options.lease_ms = 500;
		inner_options.fixed = fixed;
		sneck_hold *inner = test_take_opts(client, "door", SNECK_WRITE, &inner_options);
		assert_true(sneck_check(outer, 18000));
		assert_true(sneck_check(inner, 300));
		test_release(inner);
		assert_true(sneck_check(outer, 18000));
		assert_int_equal(test_members(server, "door", "RW"), 1);
		assert_true(test_score(server, "door", "W") >= deadline);
		test_release(outer);
		assert_true(test_is_idle(server, "door"));
	}
	sneck_close(client);
}

enum { THREADS = 8, ROUNDS = TEST_SANITIZED ? 200 : 1000 };
struct counting {
	sneck_client *client;
	int failed;
	atomic_long *counter;
};

static void *count(void *arg) {
	struct counting *counting = arg;
	sneck_acquire_options options = test_waiting(20000);
	for (int i = 0; i < ROUNDS; i++) {
		sneck_hold *hold = NULL;
		if (sneck_acquire(counting->client, "door", SNECK_WRITE, &options, &hold, NULL) != 0) {
			counting->failed++;
			continue;
		}
		long seen = atomic_load_explicit(counting->counter, memory_order_relaxed);
		atomic_store_explicit(counting->counter, seen + 1, memory_order_relaxed);
		counting->failed += sneck_release(hold) != 0;
	}
	return NULL;
}

/* The counter is the witness: read and written in two steps, it loses counts when two hold at once. */
static void threads_exclude_each_other(void **state) {
	(void)state;
	sneck_client *clients[2] = { test_open(server->url), test_open(server->url) };
	atomic_long counter = 0;
	struct counting countings[THREADS];
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++) {
		countings[i] = (struct counting){ .client = clients[i % 2], .counter = &counter };
		assert_int_equal(pthread_create(&threads[i], NULL, count, &countings[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(countings[i].failed, 0);
	}
	assert_int_equal(atomic_load(&counter), THREADS * ROUNDS);
	assert_true(test_is_idle(server, "door"));
	sneck_close(clients[0]);
	sneck_close(clients[1]);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(one_holds_the_other_is_told_who),
		TEST(waiting_ends_on_time),
		TEST(a_strange_thread_releases_nothing),
		TEST_PLAIN(re_entry_costs_nothing_on_the_wire),
		TEST(two_commands_for_acquire_and_release),
		TEST(tokens_grow),
		TEST(explicit_owners_are_who_they_say),
		TEST(a_short_inner_lease_does_not_cut_the_outer),
		TEST(threads_exclude_each_other),
	};
	return TEST_RUN(tests);
}
