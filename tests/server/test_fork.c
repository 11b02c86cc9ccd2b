/* SPDX-License-Identifier: MIT */
/* After a fork the child owns nothing, says so, and does its parent no harm: in whatever state the
 * client was, the parent goes on as if nothing had happened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "locks.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

static bool crowded; /* other threads may have been anywhere when the process forked */

/* What a child finds: 0, or the number of the first thing that is not as it should be. */
static int look_around(sneck_client *client, sneck_hold *hold, const char *url) {
	sneck_hold *got = NULL;
	sneck_error error = { 0 };
	if (sneck_acquire(client, "door", SNECK_WRITE, NULL, &got, &error) != SNECK_EFORKED)
		return 1;
	if (error.code != SNECK_EFORKED || error.text[0] == '\0')
		return 2;
	if (sneck_acquire_start(client, "door", 4, SNECK_READ, NULL, NULL) != SNECK_EFORKED)
		return 3;
	if (hold) {
		if (sneck_check(hold, 0) || sneck_hold_left_ms(hold) != 0)
			return 4;
		if (sneck_renew(hold, 0, NULL) != SNECK_EFORKED)
			return 5;
		if (sneck_upgrade(hold, NULL, NULL) != SNECK_EFORKED)
			return 6;
		if (sneck_downgrade(hold, NULL) != SNECK_EFORKED)
			return 7;
		if (sneck_release(hold) != SNECK_EFORKED)
			return 8;
	}
	if (sneck_cancel(client, 1) > 0)
		return 9;
	sneck_close(client);
	/* A client of its own works. (The thread sanitizer allows no threads here. The address sanitizer's
	 * allocator may have been locked by a thread that does not exist here.) */
	if (TEST_THREAD_SANITIZED || (TEST_SANITIZED && crowded))
		return 0;
	sneck_client *own = NULL;
	if (sneck_open(url, NULL, &own, NULL) != 0)
		return 10;
	if (sneck_acquire(own, "child", SNECK_WRITE, NULL, &got, NULL) != 0)
		return 11;
	if (sneck_release(got) != 0)
		return 12;
	sneck_close(own);
	return 0;
}

static void fork_and_look(sneck_client *client, sneck_hold *hold) {
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(10);
		_exit(look_around(client, hold, server->url));
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_client_that_was_only_opened(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	fork_and_look(client, NULL);
	test_release(test_take(client, "door", SNECK_WRITE, 0));
	sneck_close(client);
}

static void a_client_that_has_worked(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	test_release(test_take(client, "door", SNECK_WRITE, 0));
	uint64_t connects = test_stats(client).connects;
	fork_and_look(client, NULL);
	for (int i = 0; i < 20; i++)
		test_release(test_take(client, "door", SNECK_WRITE, 0));
	assert_int_equal(test_stats(client).connects, connects);
	sneck_close(client);
}

static void a_client_that_holds(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	sneck_acquire_options options = test_waiting(0);
	options.lease_ms = 500;
	sneck_hold *writes = test_take_opts(client, "door", SNECK_WRITE, &options);
	sneck_hold *reads = test_take(client, "window", SNECK_READ, 0);
	assert_true(sneck_hold_fd(reads) >= 0);
	fork_and_look(client, writes);
	fork_and_look(client, reads);
	uint64_t renewals = test_stats(client).renewals;
	assert_true(WAIT_UNTIL(test_stats(client).renewals >= renewals + 4, 3000));
	assert_int_equal(sneck_hold_state(writes), SNECK_HELD);
	assert_true(sneck_check(writes, 50));
	assert_int_equal(test_members(server, "door", "W"), 1);
	assert_false(test_readable(sneck_hold_fd(reads), 0));
	test_release(writes);
	test_release(reads);
	assert_int_equal(test_stats(client).disconnects, 0);
	assert_true(test_is_idle(server, "door"));
	assert_true(test_is_idle(server, "window"));
	sneck_close(client);
}

static void a_client_that_waits(void **state) {
	(void)state;
	sneck_client *other = test_open(server->url);
	sneck_client *client = test_open(server->url);
	sneck_hold *hold = test_take(other, "door", SNECK_WRITE, 0);
	struct test_call call;
	test_call_start(&call, client, "door", SNECK_WRITE, NULL);
	assert_true(WAIT_UNTIL(test_stats(client).waiters == 1, 2000));
	sneck_acquire_options options = test_waiting(10000);
	options.tag = 9;
	assert_result(0, sneck_acquire_start(client, "door", 4, SNECK_READ, &options, NULL), NULL);
	assert_true(WAIT_UNTIL(test_stats(client).waiters == 2, 2000));
	assert_true(WAIT_UNTIL(test_members(server, "door", "rw") > 0, 2000));
	fork_and_look(client, NULL);
	assert_false(atomic_load(&call.done));
	int64_t start_ms = test_now_ms();
	test_release(hold);
	assert_result(0, test_call_join(&call), &call.error);
	assert_true(call.end_ms - start_ms <= TEST_SLACK_MS);
	test_release(call.hold);
	sneck_event event;
	assert_true(test_next_event(client, &event, 3000));
	assert_int_equal(event.type, SNECK_EVENT_ACQUIRED);
	test_release(event.hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(client);
	sneck_close(other);
}

/* Many threads are inside the library, whatever they do there, when the process forks. */
struct busy {
	sneck_client *client;
	atomic_bool stop;
	atomic_int failures;
};

static void *be_busy(void *arg) {
	struct busy *busy = arg;
	sneck_acquire_options options = test_waiting(5000);
	while (!atomic_load(&busy->stop)) {
		sneck_hold *hold = NULL;
		if (sneck_acquire(busy->client, "door", SNECK_WRITE, &options, &hold, NULL) != 0 ||
		        sneck_release(hold) != 0)
			atomic_fetch_add(&busy->failures, 1);
	}
	return NULL;
}

static void a_client_in_full_use(void **state) {
	(void)state;
	enum { FORKS = TEST_SANITIZED ? 5 : 30, THREADS = 4 };
	crowded = true;
	struct busy busy = { .client = test_open(server->url) };
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, be_busy, &busy), 0);
	for (int i = 0; i < FORKS; i++)
		fork_and_look(busy.client, NULL);
	atomic_store(&busy.stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&busy.failures), 0);
	assert_true(test_is_idle(server, "door"));
	sneck_close(busy.client);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(a_client_that_was_only_opened),
		TEST(a_client_that_has_worked),
		TEST(a_client_that_holds),
		TEST(a_client_that_waits),
		TEST(a_client_in_full_use),
	};
	return TEST_RUN(tests);
}
