/* SPDX-License-Identifier: MIT */
/* Scenarios that have gone wrong in other lock libraries: leases of several lengths in one another,
 * answers that come after the caller has left, and renewal across releases, restarts and conversions.
 * Times are short; nothing here depends on their length. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "actor.h"
#include "locks.h"
#include "proxy.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

static sneck_acquire_options lease(int64_t lease_ms, bool fixed) {
	sneck_acquire_options options = test_waiting(0);
	options.lease_ms = lease_ms;
	options.fixed = fixed;
	return options;
}

static int64_t left_on_server(const char *name, const char *kinds) {
	return (int64_t)test_score(server, name, kinds) - test_server_ms(server);
}

/* The watchdog moves the deadline on `times` times, by no more than the lease, and nothing is lost. */
static void assert_goes_on(
        sneck_hold *hold, const char *name, const char *kind, int64_t lease_ms, int times) {
	for (int i = 0; i < times; i++) {
		double deadline = test_score(server, name, kind);
		if (!WAIT_UNTIL(test_score(server, name, kind) > deadline, (int)lease_ms))
			fail_msg("%s: not renewed for the %d. time; %s", name, i + 1,
			        sneck_state_name(sneck_hold_state(hold)));
		assert_true(sneck_hold_state(hold) <= SNECK_SUSPECT);
		assert_true(left_on_server(name, kind) <= lease_ms);
	}
}

/* ---- Leases -----------------------------------------------------------------------------------*/

static void re_entry_adds_no_lease(void **state) {
	(void)state;
	enum { LEASE = 2000, DEPTH = 3 };
	char key[160];
	sneck_client *client = test_open(server->url);
	sneck_acquire_options options = lease(LEASE, true);
	sneck_hold *holds[DEPTH];
	for (int i = 0; i < DEPTH; i++)
		holds[i] = test_take_opts(client, "door", SNECK_WRITE, &options);
	test_release(holds[2]);
	test_release(holds[1]);
	assert_int_equal(test_members(server, "door", "W"), 1);
	assert_true(left_on_server("door", "W") <= LEASE);
	assert_true(left_on_server("door", "W") > LEASE / 2);
	assert_true(test_redis_int(server, "PTTL %s", test_key("door", key)) <= LEASE + SNECK_KEEP_MS);
	assert_true(sneck_hold_left_ms(holds[0]) <= LEASE);
	test_release(holds[0]);
	assert_true(test_is_idle(server, "door"));

	/* Five deep and killed: what is left is over after one lease, not after five. */
	struct test_proc proc;
	test_actor_start(&proc, server->url);
	for (int i = 0; i < 5; i++)
		test_actor_expect(&proc, "ok", "take door w 0 700 fixed");
	test_proc_signal(&proc, SIGKILL);
	int64_t killed_ms = test_now_ms();
	test_release(test_take(client, "door", SNECK_WRITE, 5000));
	assert_true(test_now_ms() - killed_ms <= 700 + TEST_SLACK_MS);
	sneck_close(client);
}

static void a_long_lease_leaves_no_trace(void **state) {
	(void)state;
	char key[160];
	sneck_client *client = test_open(server->url);
	for (int fixed = 0; fixed < 2; fixed++) {
		sneck_acquire_options hour = lease(3600000, fixed);
		test_release(test_take_opts(client, "door", SNECK_WRITE, &hour));
		/* A long one that is gone keeps nothing, not even the key. */
		assert_true(test_redis_int(server, "PTTL %s", test_key("door", key)) <= 2 * SNECK_KEEP_MS);
		sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
		int64_t left_ms = left_on_server("door", "W");
		assert_true(left_ms <= SNECK_LEASE_DEFAULT_MS);
		assert_true(left_ms > SNECK_LEASE_DEFAULT_MS - 5000);
		assert_true(sneck_hold_left_ms(hold) <= SNECK_LEASE_DEFAULT_MS);
		test_release(hold);
	}
	sneck_close(client);
}

/* An inner hold may lengthen the lease of the outer one; it must not do so for good. */
static void a_long_inner_lease_ends_with_it(void **state) {
	(void)state;
	enum { SHORT = 500, LONG = 2500 };
	sneck_client *client = test_open(server->url);
	sneck_acquire_options outer_options = lease(SHORT, false), inner_options = lease(LONG, false);
	sneck_hold *outer = test_take_opts(client, "door", SNECK_WRITE, &outer_options);
	sneck_hold *inner = test_take_opts(client, "door", SNECK_WRITE, &inner_options);
	assert_true(WAIT_UNTIL(left_on_server("door", "W") > LONG / 2, 1000));
	test_release(inner);
	/* What the server was told last runs out; what it is told from now on is short. */
	assert_true(WAIT_UNTIL(left_on_server("door", "W") <= SHORT, LONG + TEST_SLACK_MS));
	assert_goes_on(outer, "door", "W", SHORT, 3);
	assert_true(sneck_check(outer, 50));
	test_release(outer);
	sneck_close(client);
}

static void after_a_restart_the_watchdog_works_again(void **state) {
	(void)state;
	sneck_client *client = test_open_command_ms(server->url, 500);
	sneck_acquire_options options = lease(1000, false);
	sneck_hold *hold = test_take_opts(client, "door", SNECK_WRITE, &options);
	uint64_t token = sneck_hold_token(hold);
	assert_int_equal(test_server_restart(server), 0);
	assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_LOST, 1000 + TEST_SLACK_MS));
	assert_result(SNECK_ELOST, sneck_release(hold), NULL);
	options.wait_ms = 2000;
	hold = test_take_opts(client, "door", SNECK_WRITE, &options);
	assert_true(sneck_hold_token(hold) > token);
	assert_goes_on(hold, "door", "W", 1000, 7); /* two leases and more */
	test_release(hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(client);
}

/* A server that restarts with what it had saved: what was released since is back, until the lease it had
 * then is over; what is still held goes on. */
static void a_restart_with_an_old_state(void **state) {
	(void)state;
	enum { LEASE = 1500 };
	struct test_server saving;
	assert_int_equal(test_server_start(&saving, NULL), 0);
	sneck_client *a = test_open_command_ms(saving.url, 500);
	sneck_acquire_options options = lease(LEASE, false);
	sneck_hold *released = test_take_opts(a, "door", SNECK_WRITE, &options);
	sneck_hold *kept = test_take(a, "window", SNECK_WRITE, 0);
	uint64_t token = sneck_hold_token(released);
	test_redis_ok(&saving, "SAVE");
	int64_t saved_ms = test_now_ms();
	test_release(released);
	assert_int_equal(test_server_restart(&saving), 0);
	sneck_client *b = test_open(saving.url);
	sneck_hold *next = test_take(b, "door", SNECK_WRITE, 5000);
	assert_true(test_now_ms() - saved_ms <= LEASE + TEST_SLACK_MS);
	assert_true(sneck_hold_token(next) > token);
	test_release(next);
	assert_result(SNECK_EBUSY, test_probe(b, "window", SNECK_WRITE), NULL);
	assert_result(0, sneck_renew(kept, 0, NULL), NULL);
	assert_int_equal(sneck_hold_state(kept), SNECK_HELD);
	test_release(kept);
	assert_true(test_is_idle(&saving, "window"));
	sneck_close(a);
	sneck_close(b);
	test_server_stop(&saving);
}

/* ---- Answers that come late -------------------------------------------------------------------*/

static void cancelled_while_the_answer_is_late(void **state) {
	(void)state;
	const enum proxy_action ways[] = { PROXY_HOLD_REPLY, PROXY_HOLD };
	struct test_proxy proxy;
	test_proxy_start(&proxy, server->socket_path);
	sneck_client *client = test_open(proxy.url);
	sneck_client *other = test_open(server->url);
	/* The server learns the scripts: an answer that it does not know one would be late as well. */
	sneck_hold *warm = test_take(other, "warm", SNECK_WRITE, 0), *none = NULL;
	sneck_acquire_options brief = test_waiting(20);
	assert_result(SNECK_ETIMEDOUT, sneck_acquire(client, "warm", SNECK_WRITE, &brief, &none, NULL), NULL);
	test_release(warm);
	assert_true(test_await_members(server, "warm", "RWrwul", 0, 1000));
	for (int i = 0; i < 2; i++) {
		struct proxy_rule late = { .action = ways[i], .class = PROXY_SCRIPT, .nth = 1 };
		struct proxy_counts counts;
		test_proxy_counts(&proxy, &counts);
		test_proxy_arm(&proxy, &late);
		struct test_call call;
		sneck_acquire_options options = test_waiting(10000);
		options.tag = 3;
		test_call_start(&call, client, "door", SNECK_WRITE, &options);
		assert_true(test_proxy_wait_fired(&proxy, counts.fired + 1, 2000));
		int64_t start_ms = test_now_ms();
		assert_int_equal(sneck_cancel(client, 3), 1);
		assert_result(SNECK_ECANCELED, test_call_join(&call), &call.error);
		assert_true(call.end_ms - start_ms <= TEST_SLACK_MS);
		if (ways[i] == PROXY_HOLD_REPLY) /* the server has it, and the withdrawal behind it */
			test_release(test_take(other, "door", SNECK_WRITE, 1000));
		test_proxy_deliver(&proxy);
		assert_true(test_proxy_wait_delivered(&proxy, counts.delivered + 1, 2000));
		test_release(test_take(client, "warm", SNECK_WRITE, 1000)); /* behind what was held */
		assert_true(test_await_members(server, "door", "RWrwul", 0, 1000));
		assert_int_equal(test_stats(client).renewals, 0);
		assert_int_equal(test_stats(client).holds, 0);
	}
	sneck_close(client);
	sneck_close(other);
	assert_true(test_is_idle(server, "door"));
	test_proxy_stop(&proxy);
}

/* ---- Renewal while others come and go ---------------------------------------------------------*/

enum { BUSY_THREADS = 4, BUSY_LEASE = 1500 };
struct busy {
	sneck_client *client;
	atomic_bool stop;
	atomic_int failures;
	atomic_int renewed;
};

static void *read_on_and_on(void *arg) {
	struct busy *busy = arg;
	sneck_acquire_options options = lease(BUSY_LEASE, false);
	while (!atomic_load(&busy->stop)) {
		sneck_hold *hold = NULL;
		if (sneck_acquire(busy->client, "door", SNECK_READ, &options, &hold, NULL) != 0 ||
		        !sneck_check(hold, 1) || sneck_release(hold) != 0)
			atomic_fetch_add(&busy->failures, 1);
	}
	return NULL;
}

/* Each thread keeps the lock once until it has been renewed; the others try in vain meanwhile. */
static void *write_and_keep_once(void *arg) {
	struct busy *busy = arg;
	bool kept = false;
	sneck_acquire_options options = lease(BUSY_LEASE, false);
	options.wait_ms = 5;
	while (!atomic_load(&busy->stop)) {
		sneck_hold *hold = NULL;
		int r = sneck_acquire(busy->client, "window", SNECK_WRITE, &options, &hold, NULL);
		if (r != 0) {
			atomic_fetch_add(&busy->failures, r != SNECK_ETIMEDOUT);
			continue;
		}
		if (!kept) {
			double deadline = test_score(server, "window", "W");
			kept = WAIT_UNTIL(test_score(server, "window", "W") > deadline, BUSY_LEASE);
			atomic_fetch_add(kept ? &busy->renewed : &busy->failures, 1);
		}
		if (sneck_release(hold) != 0)
			atomic_fetch_add(&busy->failures, 1);
	}
	return NULL;
}

static void coming_and_going_never_stops_the_renewal(void **state) {
	(void)state;
	struct busy busy = { .client = test_open(server->url) };
	sneck_acquire_options options = lease(BUSY_LEASE, false);
	sneck_hold *keeper = test_take_opts(busy.client, "door", SNECK_READ, &options);
	pthread_t threads[2 * BUSY_THREADS];
	for (int i = 0; i < BUSY_THREADS; i++) {
		assert_int_equal(pthread_create(&threads[2 * i], NULL, read_on_and_on, &busy), 0);
		assert_int_equal(pthread_create(&threads[2 * i + 1], NULL, write_and_keep_once, &busy), 0);
	}
	assert_goes_on(keeper, "door", "R", BUSY_LEASE, 4);
	assert_true(WAIT_UNTIL(atomic_load(&busy.renewed) == BUSY_THREADS, 10000));
	atomic_store(&busy.stop, true);
	for (int i = 0; i < 2 * BUSY_THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&busy.failures), 0);
	assert_int_equal(test_stats(busy.client).losses, 0);
	test_release(keeper);
	assert_true(test_is_idle(server, "door"));
	assert_true(test_is_idle(server, "window"));
	sneck_close(busy.client);
}

/* ---- Conversion ----------------------------------------------------------------------------------*/

static void a_downgraded_hold_is_renewed(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_acquire_options options = lease(1000, false), now = test_waiting(0);
	sneck_error error = { 0 };
	sneck_hold *hold = test_take_opts(a, "door", SNECK_WRITE, &options);
	assert_result(0, sneck_downgrade(hold, &error), &error);
	assert_goes_on(hold, "door", "R", 1000, 3);
	assert_result(SNECK_EBUSY, test_probe(b, "door", SNECK_WRITE), NULL);
	assert_result(0, test_probe(b, "door", SNECK_READ), NULL);
	assert_result(0, sneck_upgrade(hold, &now, &error), &error);
	assert_goes_on(hold, "door", "W", 1000, 3);
	assert_result(SNECK_EBUSY, test_probe(b, "door", SNECK_READ), NULL);
	test_release(hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
}

int main(int argc, char **argv) {
	if (argc > 1)
		return test_actor_main(argc, argv);
	const struct CMUnitTest tests[] = {
		TEST(re_entry_adds_no_lease),
		TEST(a_long_lease_leaves_no_trace),
		TEST(a_long_inner_lease_ends_with_it),
		TEST(after_a_restart_the_watchdog_works_again),
		TEST_PLAIN(a_restart_with_an_old_state),
		TEST_PLAIN(cancelled_while_the_answer_is_late),
		TEST(coming_and_going_never_stops_the_renewal),
		TEST(a_downgraded_hold_is_renewed),
	};
	return TEST_RUN(tests);
}
