/* SPDX-License-Identifier: MIT */
/* Use without blocking, from other threads, and by more than one process: events, close, threads
 * that end, and holds that are handed on. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "actor.h"
#include "client/client.h"
#include "locks.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

static void start(sneck_client *client, uint64_t tag, int64_t wait_ms) {
	sneck_acquire_options options = test_waiting(wait_ms);
	options.tag = tag;
	sneck_error error = { 0 };
	assert_result(0, sneck_acquire_start(client, "door", 4, SNECK_WRITE, &options, &error), &error);
}

static sneck_event expect_event(sneck_client *client, int type, uint64_t tag, int code) {
	sneck_event event;
	assert_true(test_next_event(client, &event, 3000));
	if (event.type != type || event.tag != tag)
		fail_msg("event %d tag %llu code %s '%s'", event.type, (unsigned long long)event.tag,
		        sneck_err_name(event.code), event.text);
	assert_result(code, event.code, NULL);
	return event;
}

static void assert_no_event(sneck_client *client) {
	sneck_event event = { .size = sizeof(event) };
	assert_int_equal(sneck_client_next_event(client, &event), 0);
	assert_false(test_readable(sneck_client_fd(client), 0));
}

static void a_started_acquire_ends_in_one_event(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	start(a, 1, 0);
	sneck_event won = expect_event(a, SNECK_EVENT_ACQUIRED, 1, 0);
	assert_non_null(won.hold);
	assert_true(won.token == sneck_hold_token(won.hold));
	assert_true(sneck_check(won.hold, 1000));
	assert_no_event(a);
	/* Nobody re-enters a hold without an owner, not even who started it. */
	start(a, 2, 0);
	expect_event(a, SNECK_EVENT_REFUSED, 2, SNECK_EBUSY);
	start(b, 3, 0);
	sneck_event busy = expect_event(b, SNECK_EVENT_REFUSED, 3, SNECK_EBUSY);
	assert_non_null(strstr(busy.text, sneck_client_session(a)));
	start(b, 4, 150);
	expect_event(b, SNECK_EVENT_REFUSED, 4, SNECK_ETIMEDOUT);
	assert_true(test_await_members(server, "door", "rwul", 0, 1000));

	start(b, 5, 10000);
	start(b, 6, 10000);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	assert_int_equal(sneck_cancel(b, 6), 1);
	expect_event(b, SNECK_EVENT_REFUSED, 6, SNECK_ECANCELED);
	assert_no_event(b);
	test_release(won.hold);
	won = expect_event(b, SNECK_EVENT_ACQUIRED, 5, 0);
	test_release(won.hold);
	assert_no_event(a);
	assert_no_event(b);
	assert_true(test_is_idle(server, "door"));
	/* An error return means that no event follows. */
	sneck_error error = { 0 };
	assert_result(SNECK_EINVAL, sneck_acquire_start(b, "", 0, SNECK_WRITE, NULL, &error), NULL);
	assert_no_event(b);
	sneck_close(a);
	sneck_close(b);
}

static void cancel_one_of_many_and_the_rest_go_on(void **state) {
	(void)state;
	enum { MANY = 50 };
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	for (uint64_t i = 1; i <= MANY; i++)
		start(b, i, 10000);
	assert_true(WAIT_UNTIL(test_stats(b).waiters == MANY, 2000));
	for (uint64_t i = 2; i <= MANY; i += 2)
		assert_int_equal(sneck_cancel(b, i), 1);
	for (uint64_t i = 2; i <= MANY; i += 2)
		expect_event(b, SNECK_EVENT_REFUSED, i, SNECK_ECANCELED);
	test_release(hold);
	uint64_t token = 0;
	for (uint64_t i = 1; i <= MANY; i += 2) {
		sneck_event won = expect_event(b, SNECK_EVENT_ACQUIRED, i, 0);
		assert_true(won.token > token);
		token = won.token;
		test_release(won.hold);
	}
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
}

static void close_ends_waits_and_releases_holds(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	(void)test_take(b, "window", SNECK_READ, 0);
	(void)test_take(b, "window", SNECK_READ, 0);
	struct test_call calls[3];
	for (int i = 0; i < 3; i++) {
		sneck_acquire_options options = test_waiting(SNECK_WAIT_FOREVER);
		test_call_start(&calls[i], b, "door", i ? SNECK_WRITE : SNECK_READ, &options);
	}
	assert_true(WAIT_UNTIL(test_stats(b).waiters == 3, 2000));
	assert_true(WAIT_UNTIL(test_members(server, "door", "rw") > 0, 2000));
	int64_t start_ms = test_now_ms();
	sneck_close(b);
	assert_true(test_now_ms() - start_ms <= TEST_SLACK_MS);
	for (int i = 0; i < 3; i++)
		assert_result(SNECK_ECLOSED, test_call_join(&calls[i]), NULL);
	assert_int_equal(test_members(server, "door", "rwul"), 0);
	assert_true(test_is_idle(server, "window"));
	test_release(hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(NULL);
}

/* Calls that were served without a request leave by a short way. Close counts those who are inside. */
static void *come_and_go(void *client) {
	sneck_acquire_options options = test_waiting(3000);
	sneck_hold *outer, *inner;
	int r = sneck_acquire(client, "stairs", SNECK_READ, &options, &outer, NULL);

	if (r < 0)
		return client;
	for (int i = 0; r == 0 && i < 1000; i++)
		if ((r = sneck_acquire(client, "stairs", SNECK_READ, NULL, &inner, NULL)) == 0)
			r = sneck_release(inner);
	return sneck_release(outer) == 0 && r == 0 ? NULL : client;
}

static void close_does_not_wait_for_those_who_have_left(void **state) {
	(void)state;
	enum { THREADS = 4 };
	pthread_t threads[THREADS];
	sneck_client *client = test_open(server->url);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, client), 0);
	for (int i = 0; i < THREADS; i++) {
		void *failed;
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	assert_true(client->left > 0);
	assert_true(atomic_load(&client->inside) == client->left);
	int64_t start_ms = test_now_ms();
	sneck_close(client);
	assert_true(test_now_ms() - start_ms <= TEST_SLACK_MS);
}

/* The short way is for those who leave nothing behind. */
static void who_leaves_something_to_do_does_not_leave_yet(void **state) {
	(void)state;
	struct list something;
	sneck_client *client = test_open(server->url);
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);

	snecki_client_count_in(client);
	pthread_mutex_lock(&client->mutex);
	int64_t due_ns = client->background_due_ns;
	client->background_due_ns = snecki_core_next_due(client->core);
	snecki_list_append(&client->outbox, &something);
	assert_false(snecki_client_unlock_and_leave(client)); /* a request */
	snecki_list_remove(&something);
	snecki_list_append(&client->done, &something);
	assert_false(snecki_client_unlock_and_leave(client)); /* somebody who sleeps */
	snecki_list_remove(&something);
	client->background_due_ns++;
	assert_false(snecki_client_unlock_and_leave(client)); /* a timer that nobody knows of */
	client->background_due_ns--;
	atomic_store(&client->closing, true);
	assert_false(snecki_client_unlock_and_leave(client)); /* somebody who waits for us to leave */
	atomic_store(&client->closing, false);
	uint64_t left = client->left;
	assert_true(snecki_client_unlock_and_leave(client));
	assert_int_equal(pthread_mutex_trylock(&client->mutex), 0);
	assert_int_equal(client->left, left + 1);
	client->background_due_ns = due_ns;
	pthread_mutex_unlock(&client->mutex);
	test_release(hold);
	sneck_close(client);
}

struct mortal {
	sneck_client *client;
	sneck_hold *hold;
	int result;
};

static void *take_and_end(void *arg) {
	struct mortal *mortal = arg;
	sneck_acquire_options options = test_waiting(0);
	options.lease_ms = 600;
	mortal->result = sneck_acquire(mortal->client, "door", SNECK_WRITE, &options, &mortal->hold, NULL);
	return NULL;
}

static void a_thread_that_ends_gives_up_its_lease(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	struct mortal mortal = { .client = a };
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, take_and_end, &mortal), 0);
	pthread_join(thread, NULL);
	assert_result(0, mortal.result, NULL);
	int64_t ended_ms = test_now_ms();
	sneck_event event;
	assert_true(test_next_event(a, &event, 2000));
	assert_int_equal(event.type, SNECK_EVENT_THREAD_GONE);
	assert_non_null(strstr(event.text, "door"));
	/* No more renewals: it is free when the lease has ended, and not before. */
	assert_result(SNECK_EBUSY, test_probe(b, "door", SNECK_WRITE), NULL);
	sneck_hold *hold = test_take(b, "door", SNECK_WRITE, 3000);
	assert_true(test_now_ms() - ended_ms <= 600 + TEST_SLACK_MS);
	/* The next thread is another owner, even if the system gives it the number of the first. */
	mortal.hold = NULL;
	assert_int_equal(pthread_create(&thread, NULL, take_and_end, &mortal), 0);
	pthread_join(thread, NULL);
	assert_result(SNECK_EBUSY, mortal.result, NULL);
	test_release(hold);
	sneck_close(a);
	sneck_close(b);
}

static void a_detached_hold_goes_to_one_adopter(void **state) {
	(void)state;
	struct test_proc giver, taker, rival;
	test_actor_start(&giver, server->url);
	test_actor_start(&taker, server->url);
	test_actor_start(&rival, server->url);
	sneck_client *watcher = test_open(server->url);
	const char *modes[] = { "w", "r" };
	for (int i = 0; i < 2; i++) {
		unsigned long long token = test_actor_number(&giver, "take door %s 0 5000", modes[i]);
		char line[256], id[SNECK_ID_MAX];
		assert_true(test_proc_ask(&giver, line, sizeof(line), 5000, "detach 5000"));
		assert_int_equal(sscanf(line, "ok %63s", id), 1);
		test_actor_expect(&giver, "nothing taken", "drop");
		assert_int_equal(test_members(server, "door", "RW"), 1);
		assert_result(SNECK_EBUSY, test_probe(watcher, "door", SNECK_WRITE), NULL);
		/* Both at once; one wins. */
		test_proc_say(&taker, "adopt door %s 2000", id);
		test_proc_say(&rival, "adopt door %s 2000", id);
		char first[256], second[256];
		assert_true(test_proc_line(&taker, first, sizeof(first), 5000));
		assert_true(test_proc_line(&rival, second, sizeof(second), 5000));
		bool taker_won = strncmp(first, "ok", 2) == 0;
		assert_string_equal(taker_won ? second : first, "SNECK_ELOST");
		unsigned long long kept = 0;
		assert_int_equal(sscanf(taker_won ? first : second, "ok %llu", &kept), 1);
		assert_true(kept == token);
		assert_int_equal(test_members(server, "door", "RW"), 1);
		assert_result(SNECK_EBUSY, test_probe(watcher, "door", SNECK_WRITE), NULL);
		test_actor_expect(taker_won ? &taker : &rival, "ok", "drop");
		assert_true(test_is_idle(server, "door"));
	}
	/* Unadopted, it ends with its lease. */
	test_actor_expect(&giver, "ok", "take door w 0 5000");
	test_actor_expect(&giver, "ok", "detach 400");
	assert_int_equal(test_proc_finish(&giver, 5000), 0);
	assert_result(SNECK_EBUSY, test_probe(watcher, "door", SNECK_WRITE), NULL);
	test_release(test_take(watcher, "door", SNECK_WRITE, 3000));
	assert_int_equal(test_proc_finish(&taker, 5000), 0);
	assert_int_equal(test_proc_finish(&rival, 5000), 0);
	sneck_close(watcher);
}

int main(int argc, char **argv) {
	if (argc > 1)
		return test_actor_main(argc, argv);
	const struct CMUnitTest tests[] = {
		TEST(a_started_acquire_ends_in_one_event),
		TEST(cancel_one_of_many_and_the_rest_go_on),
		TEST(close_ends_waits_and_releases_holds),
		TEST(close_does_not_wait_for_those_who_have_left),
		TEST(who_leaves_something_to_do_does_not_leave_yet),
		TEST(a_thread_that_ends_gives_up_its_lease),
		TEST(a_detached_hold_goes_to_one_adopter),
	};
	return TEST_RUN(tests);
}
