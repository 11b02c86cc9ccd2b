/* SPDX-License-Identifier: MIT */
/* Looking for an answer before sleeping: who may, and when it is left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include <sneck/sneck.h>

#include "base/clock.h"
#include "client/client.h"
#include "conn_rig.h"
#include "net/glance.h"
#include "server.h"
#include "wait.h"

static uint64_t glances(struct rig *rig) {
	struct conn_counters counters;
	snecki_conn_counters(rig->conn, &counters);
	return counters.glances;
}

static void count_up(struct rig *rig, bool may_glance) {
	struct call call;
	call_init(&call, "INCR counted");
	call.parker.may_glance = may_glance;
	assert_true(call_run(rig, &call, 10000));
	assert_int_equal(call.status, REQ_REPLY);
	call_done(&call);
}

static void a_caller_in_a_row_looks_and_one_that_may_not_sleeps(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	rig_start(&rig, server->url, NULL);
	for (int i = 0; i < 200; i++)
		count_up(&rig, false);
	assert_int_equal(glances(&rig), 0);
	for (int i = 0; i < 2000 && glances(&rig) == 0; i++) /* one of two in a row is within a millisecond */
		count_up(&rig, true);
	assert_true(glances(&rig) > 0);
	rig_stop(&rig);
}

static void a_server_that_rests_is_not_looked_for(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	rig_start(&rig, server->url, NULL);
	count_up(&rig, false);
	for (int i = 0; i < 30; i++) {
		usleep(GLANCE_AFTER_NS / 1000 + 500); /* is what is looked at, not waited for */
		count_up(&rig, true);
	}
	assert_int_equal(glances(&rig), 0);
	rig_stop(&rig);
}

/* Another's request is in flight: its thread could read as well. */
static void who_is_not_alone_does_not_look(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	struct call other;
	rig_start(&rig, server->url, NULL);
	/* Each takes a tenth of a second: so often the server looks for timeouts. */
	for (int i = 0; i < 10; i++) {
		call_init(&other, "BLPOP nothing 0.002");
		count_up(&rig, false);
		snecki_conn_submit(rig.conn, &other.req);
		count_up(&rig, true);
		assert_true(WAIT_UNTIL(atomic_load(&other.finished), 5000));
		call_done(&other);
	}
	assert_int_equal(glances(&rig), 0);
	rig_stop(&rig);
}

static uint64_t client_glances(sneck_client *client) {
	struct conn_counters counters;
	snecki_servers_counters(client->servers, &counters);
	return counters.glances;
}

static int64_t heard_ns(sneck_client *client) {
	snecki_client_lock(client);
	int64_t message_ns = client->message_ns;
	snecki_client_unlock(client);
	return message_ns;
}

static void pair(sneck_client *client, const char *name) {
	sneck_hold *hold;
	sneck_error err;
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	options.wait_ms = 10000;
	if (sneck_acquire(client, name, SNECK_WRITE, &options, &hold, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(sneck_release(hold), 0);
}

static void *take_shared(void *client) {
	pair(client, "shared");
	return NULL;
}

static bool waits(sneck_client *client) {
	sneck_counters counters = { .size = sizeof counters };
	assert_int_equal(sneck_stats(client, &counters), 0);
	return counters.waiters > 0;
}

/* `holder` has the lock, and passes it on to `waiter`. */
static void pass_on(sneck_client *holder, sneck_client *waiter) {
	sneck_hold *hold;
	sneck_error err;
	pthread_t thread;

	assert_int_equal(sneck_acquire(holder, "shared", SNECK_WRITE, NULL, &hold, &err), 0);
	pthread_create(&thread, NULL, take_shared, waiter);
	assert_true(WAIT_UNTIL(waits(waiter), 5000));
	assert_int_equal(sneck_release(hold), 0);
	pthread_join(thread, NULL);
}

/* A message says that another session has to do with the lock, whose threads need the core. */
static void who_shares_locks_with_others_sleeps(void **state) {
	struct test_server *server = *state;
	sneck_client *one, *other;
	sneck_error err;

	assert_int_equal(sneck_open(server->url, NULL, &one, &err), 0);
	assert_int_equal(sneck_open(server->url, NULL, &other, &err), 0);
	pair(one, "lone");
	for (int i = 0; i < 2000 && client_glances(one) == 0; i++)
		pair(one, "lone");
	assert_true(client_glances(one) > 0);
	assert_int_equal(heard_ns(one), 0);
	for (int i = 0; i < 50 && heard_ns(one) == 0; i++) /* the first grant may be found without one */
		pass_on(other, one);
	assert_true(heard_ns(one) != 0);

	int64_t until_ns = heard_ns(one) + 100 * NS_PER_MS;
	uint64_t before = client_glances(one);
	unsigned n = 0;
	while (snecki_now_ns() < until_ns - 30 * NS_PER_MS) {
		pair(one, "lone");
		uint64_t now = client_glances(one);
		if (snecki_now_ns() < until_ns) /* else this thread was held up */
			assert_int_equal(now, before);
		n++;
	}
	if (n > 0)
		for (int i = 0; i < 2000 && client_glances(one) == before; i++)
			pair(one, "lone");
	assert_true(n == 0 || client_glances(one) > before);
	sneck_close(one);
	sneck_close(other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_server_up_tcp, rig_server_down)

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(a_caller_in_a_row_looks_and_one_that_may_not_sleeps),
		TEST(a_server_that_rests_is_not_looked_for),
		TEST(who_is_not_alone_does_not_look),
		TEST(who_shares_locks_with_others_sleeps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
