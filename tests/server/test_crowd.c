/* SPDX-License-Identifier: MIT */
/* Many threads with one client: what one of them has to send is submitted by another, who is at it already
 * (src/client/send.c). Nobody is forgotten in the line, nothing in it outlives the call that it is for, and
 * the order stays that of the core. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "client/carry.h"
#include "locks.h"
#include "wait.h"

enum { CROWD = 64, PAIRS = TEST_SANITIZED ? 20 : 100 };

static struct test_server *const server = &test_the_server;

struct member {
	pthread_t thread;
	sneck_client *client;
	char name[32];
	int64_t wait_ms;
	atomic_long *counter; /* NULL: its lock is its own */
	sem_t *tagged;        /* it is about to ask for what may be cancelled */
	int granted, refused; /* … as is expected of it */
	int result;           /* the last that was not */
};

static void gather(struct member crowd[CROWD], sneck_client *client, const char *format, int64_t wait_ms) {
	for (int i = 0; i < CROWD; i++) {
		crowd[i] = (struct member){ .client = client, .wait_ms = wait_ms };
		snprintf(crowd[i].name, sizeof crowd[i].name, format, i);
	}
}

static void set_out(struct member crowd[CROWD], void *(*run)(void *member)) {
	for (int i = 0; i < CROWD; i++)
		assert_int_equal(pthread_create(&crowd[i].thread, NULL, run, &crowd[i]), 0);
}

static void come_back(struct member crowd[CROWD]) {
	for (int i = 0; i < CROWD; i++)
		pthread_join(crowd[i].thread, NULL);
	for (int i = 0; i < CROWD; i++)
		assert_result(0, crowd[i].result, NULL);
}

static void *take_and_release(void *arg) {
	struct member *member = arg;
	sneck_acquire_options options = test_waiting(member->wait_ms);

	for (int i = 0; i < PAIRS; i++) {
		sneck_hold *hold = NULL;
		int r = sneck_acquire(member->client, member->name, SNECK_WRITE, &options, &hold, NULL);
		if (r == 0 && member->counter) {
			long seen = atomic_load_explicit(member->counter, memory_order_relaxed);
			atomic_store_explicit(member->counter, seen + 1, memory_order_relaxed);
		}
		if (r == 0)
			r = sneck_release(hold);
		if (r == 0)
			member->granted++;
		else
			member->result = r;
	}
	return NULL;
}

static void everybody_is_served(void **state) {
	(void)state;
	struct member crowd[CROWD];
	sneck_client *client = test_open(server->url);
	gather(crowd, client, "own-%d", 0);
	set_out(crowd, take_and_release);
	come_back(crowd);
	for (int i = 0; i < CROWD; i++) {
		assert_int_equal(crowd[i].granted, PAIRS);
		assert_true(test_is_idle(server, crowd[i].name));
	}
	sneck_close(client);
}

static void *forget_scripts(void *stop) {
	while (!atomic_load((atomic_bool *)stop))
		test_redis_ok(server, "SCRIPT FLUSH");
	return NULL;
}

/* What is sent once more, with its text, takes its turn with what the others send. The counter is the
 * witness: read and written in two steps, it loses counts when two hold at once. */
static void what_is_sent_again_keeps_its_turn(void **state) {
	(void)state;
	struct member crowd[CROWD];
	atomic_long counters[4] = { 0 };
	atomic_bool stop = false;
	pthread_t forgetful;
	sneck_client *client = test_open(server->url);
	gather(crowd, client, "own-%d", 20000);
	for (int i = 0; i < CROWD / 2; i++) { /* the others share */
		crowd[i].counter = &counters[i % 4];
		snprintf(crowd[i].name, sizeof crowd[i].name, "door-%d", i % 4);
	}
	assert_int_equal(pthread_create(&forgetful, NULL, forget_scripts, &stop), 0);
	set_out(crowd, take_and_release);
	come_back(crowd);
	atomic_store(&stop, true);
	pthread_join(forgetful, NULL);
	for (int i = 0; i < 4; i++)
		assert_int_equal(atomic_load(&counters[i]), CROWD / 8 * PAIRS);
	for (int i = 0; i < CROWD; i++)
		assert_true(test_is_idle(server, crowd[i].name));
	sneck_close(client);
}

enum { IN_VAIN = 4, TAG = 7 };

static void *try_in_vain(void *arg) {
	struct member *member = arg;
	sneck_acquire_options options = test_waiting(member->wait_ms);

	for (int i = 0; i < IN_VAIN; i++) {
		sneck_hold *hold = NULL;
		options.tag = i % 2 ? TAG : 0;
		if (options.tag)
			sem_post(member->tagged);
		int r = sneck_acquire(member->client, member->name, SNECK_WRITE, &options, &hold, NULL);
		if (r == SNECK_ETIMEDOUT || r == SNECK_ECANCELED)
			member->refused++;
		else
			member->result = r ? r : SNECK_EINVAL;
	}
	return NULL;
}

struct cancelling {
	sneck_client *client;
	sem_t tagged;
	int result;
};

static void *cancel_them(void *arg) {
	struct cancelling *cancelling = arg;

	for (int i = 0; i < CROWD * IN_VAIN / 2; i++) {
		sem_wait(&cancelling->tagged);
		int r = sneck_cancel(cancelling->client, TAG);
		if (r < 0)
			cancelling->result = r;
	}
	return NULL;
}

/* Calls end by their time or because they are cancelled, wherever their requests are by then. */
static void whoever_gives_up_leaves_nothing(void **state) {
	(void)state;
	struct member crowd[CROWD];
	sneck_hold *holds[CROWD];
	pthread_t canceller;
	sneck_client *keeper = test_open(server->url), *client = test_open(server->url);
	struct cancelling cancelling = { .client = client };
	gather(crowd, client, "kept-%d", 1);
	for (int i = 0; i < CROWD; i++)
		holds[i] = test_take(keeper, crowd[i].name, SNECK_WRITE, 0);
	assert_int_equal(sem_init(&cancelling.tagged, 0, 0), 0);
	for (int i = 0; i < CROWD; i++)
		crowd[i].tagged = &cancelling.tagged;
	assert_int_equal(pthread_create(&canceller, NULL, cancel_them, &cancelling), 0);
	set_out(crowd, try_in_vain);
	come_back(crowd);
	pthread_join(canceller, NULL);
	sem_destroy(&cancelling.tagged);
	assert_result(0, cancelling.result, NULL);
	for (int i = 0; i < CROWD; i++) {
		assert_int_equal(crowd[i].refused, IN_VAIN);
		assert_true(test_await_members(server, crowd[i].name, "rwul", 0, 5000));
		test_release(holds[i]);
		assert_true(test_is_idle(server, crowd[i].name));
	}
	sneck_close(client);
	sneck_close(keeper);
}

static void *wait_to_be_closed(void *arg) {
	struct member *member = arg;
	sneck_acquire_options options = test_waiting(SNECK_WAIT_FOREVER);
	options.owner = 1; /* what is kept of a thread that outlives the client is never freed */
	sneck_hold *hold = NULL;
	int r = sneck_acquire(member->client, member->name, SNECK_WRITE, &options, &hold, NULL);

	member->result = r == SNECK_ECLOSED ? 0 : r ? r : SNECK_EINVAL;
	return NULL;
}

/* All calls end at once, and the withdrawals of all are sent by one, while the client goes. */
static void closing_ends_the_calls_of_all(void **state) {
	(void)state;
	enum { TRIES = TEST_SANITIZED ? 4 : 20 };
	struct member crowd[CROWD];
	sneck_hold *holds[CROWD];
	sneck_client *keeper = test_open(server->url);
	gather(crowd, NULL, "kept-%d", 0);
	for (int i = 0; i < CROWD; i++)
		holds[i] = test_take(keeper, crowd[i].name, SNECK_WRITE, 0);
	for (int try = 0; try < TRIES; try++) {
		sneck_client *client = test_open(server->url);
		for (int i = 0; i < CROWD; i++)
			crowd[i].client = client;
		set_out(crowd, wait_to_be_closed);
		for (int i = 0; i < CROWD; i++)
			assert_true(test_await_members(server, crowd[i].name, "w", 1, 5000));
		sneck_close(client);
		come_back(crowd);
		for (int i = 0; i < CROWD; i++)
			assert_true(test_await_members(server, crowd[i].name, "w", 0, 5000));
	}
	for (int i = 0; i < CROWD; i++)
		test_release(holds[i]);
	sneck_close(keeper);
}

/* ---- With one who is at it for as long as the test likes ------------------------------------------*/

enum { MOMENT_MS = 100 /* in which a thread that is free to go on has gone on */ };

/* From here on this thread is the one who submits. */
static void take_over(sneck_client *client) {
	snecki_client_lock(client);
	snecki_turn_begin(client);
}

/* Connected, and this thread is the one who submits. */
static sneck_client *begin_sending(void) {
	sneck_client *client = test_open(server->url);
	test_release(test_take(client, "warm", SNECK_WRITE, 0));
	take_over(client);
	return client;
}

static bool lined_up(sneck_client *client, uint64_t n) {
	pthread_mutex_lock(&client->send_mutex);
	bool all = client->lined_up - atomic_load(&client->submitted) == n;
	pthread_mutex_unlock(&client->send_mutex);
	return all;
}

/* They stand in nobody's way while they wait, and nobody has to come by to have them sent. */
static void others_leave_it_to_the_one_who_sends(void **state) {
	(void)state;
	struct test_call calls[2];
	sneck_client *client = begin_sending();
	test_call_start(&calls[0], client, "one", SNECK_WRITE, NULL);
	assert_true(WAIT_UNTIL(lined_up(client, 1), 5000));
	test_call_start(&calls[1], client, "two", SNECK_WRITE, NULL);
	assert_true(WAIT_UNTIL(lined_up(client, 2), 5000));
	assert_int_equal(test_members(server, "one", "W"), 0);
	snecki_turn_end(client);
	assert_true(lined_up(client, 0));
	for (int i = 0; i < 2; i++) {
		assert_result(0, test_call_join(&calls[i]), &calls[i].error);
		test_release(calls[i].hold);
	}
	sneck_close(client);
}

/* The request in line refers to its thread. */
static void a_call_stays_until_its_request_has_left(void **state) {
	(void)state;
	struct test_call call;
	sneck_acquire_options options = test_waiting(SNECK_WAIT_FOREVER);
	options.tag = TAG;
	sneck_client *client = begin_sending();
	test_call_start(&call, client, "one", SNECK_WRITE, &options);
	assert_true(WAIT_UNTIL(lined_up(client, 1), 5000));
	assert_int_equal(sneck_cancel(client, TAG), 1);
	assert_false(WAIT_UNTIL(atomic_load(&call.done), MOMENT_MS));
	snecki_turn_end(client);
	assert_result(SNECK_ECANCELED, test_call_join(&call), &call.error);
	assert_true(test_await_members(server, "one", "RWrwul", 0, 5000));
	sneck_close(client);
}

struct turn {
	sneck_client *client;
	atomic_bool begun;
};

static void *take_turn(void *arg) {
	struct turn *turn = arg;

	snecki_client_lock(turn->client);
	snecki_turn_begin(turn->client);
	atomic_store(&turn->begun, true);
	snecki_turn_end(turn->client);
	return NULL;
}

static void two_do_not_send_at_once(void **state) {
	(void)state;
	struct turn turn = { .client = begin_sending() };
	pthread_t second;
	assert_int_equal(pthread_create(&second, NULL, take_turn, &turn), 0);
	assert_false(WAIT_UNTIL(atomic_load(&turn.begun), MOMENT_MS));
	snecki_turn_end(turn.client);
	pthread_join(second, NULL);
	assert_true(atomic_load(&turn.begun));
	sneck_close(turn.client);
}

static void *close_it(void *client) {
	sneck_close(client);
	return NULL;
}

/* The record goes after the releases, whoever sends them: who holds is known to the end. */
static void a_session_is_known_until_its_releases_are_sent(void **state) {
	(void)state;
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	sneck_client *client = NULL;
	pthread_t closer;
	options.who_user = "ann";
	assert_result(0, sneck_open(server->url, &options, &client, NULL), NULL);
	test_take(client, "one", SNECK_WRITE, 0);
	assert_true(WAIT_UNTIL(test_count_keys(server, "sneck:@*") == 1, 5000));
	take_over(client);
	snecki_client_count_in(client); /* this thread is in a call, as all who submit */
	assert_int_equal(pthread_create(&closer, NULL, close_it, client), 0);
	assert_true(WAIT_UNTIL(lined_up(client, 1), 5000));
	assert_false(WAIT_UNTIL(test_count_keys(server, "sneck:@*") == 0, MOMENT_MS));
	assert_int_equal(test_members(server, "one", "W"), 1);
	snecki_turn_end(client);
	snecki_client_leave(client);
	pthread_join(closer, NULL);
	assert_true(test_is_idle(server, "one"));
	assert_int_equal(test_count_keys(server, "sneck:@*"), 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(everybody_is_served),
		TEST(what_is_sent_again_keeps_its_turn),
		TEST(whoever_gives_up_leaves_nothing),
		TEST(closing_ends_the_calls_of_all),
		TEST_PLAIN(others_leave_it_to_the_one_who_sends),
		TEST_PLAIN(a_call_stays_until_its_request_has_left),
		TEST_PLAIN(two_do_not_send_at_once),
		TEST_PLAIN(a_session_is_known_until_its_releases_are_sent),
	};
	return TEST_RUN(tests);
}
