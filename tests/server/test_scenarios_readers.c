/* SPDX-License-Identifier: MIT */
/* Scenarios of many readers that have gone wrong in other lock libraries: leases of several lengths side
 * by side, readers who stay for longer than their lease, and readers who die in numbers. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "locks.h"
#include "procs.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

static sneck_acquire_options lease(int64_t lease_ms, bool fixed) {
	sneck_acquire_options options = test_waiting(0);
	options.lease_ms = lease_ms;
	options.fixed = fixed;
	return options;
}

static void a_writer_waits_for_the_longest_reader(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_client *c = test_open(server->url);
	sneck_acquire_options longer = lease(1000, true), shorter = lease(300, true);
	int64_t start_ms = test_now_ms();
	sneck_hold *long_hold = test_take_opts(a, "door", SNECK_READ, &longer);
	sneck_hold *short_hold = test_take_opts(b, "door", SNECK_READ, &shorter);
	int64_t taken_ms = test_now_ms();
	struct test_call writer;
	test_call_start(&writer, c, "door", SNECK_WRITE, NULL);
	assert_result(0, test_call_join(&writer), &writer.error);
	assert_true(writer.end_ms - start_ms >=
	            985 - SNECK_SKEW_MS); /* the holder leaves a margin before its end */
	assert_true(writer.end_ms - taken_ms <= 1000 + TEST_SLACK_MS);
	assert_result(SNECK_ELOST, sneck_release(long_hold), NULL);
	assert_result(SNECK_ELOST, sneck_release(short_hold), NULL);
	assert_true(sneck_check(writer.hold, 1000));
	test_release(writer.hold);
	sneck_close(a);
	sneck_close(b);
	sneck_close(c);
}

static void fifty_readers_outlive_their_lease(void **state) {
	(void)state;
	enum { CLIENTS = 10, EACH = 5 };
	sneck_client *clients[CLIENTS];
	sneck_hold *holds[CLIENTS * EACH];
	for (int i = 0; i < CLIENTS * EACH; i++) {
		if (i % EACH == 0)
			clients[i / EACH] = test_open(server->url);
		sneck_acquire_options options = lease(1000, false);
		options.owner = (uint64_t)i + 1;
		holds[i] = test_take_opts(clients[i / EACH], "door", SNECK_READ, &options);
	}
	for (int i = 0; i < CLIENTS; i++) /* two leases and more */
		assert_true(WAIT_UNTIL(test_stats(clients[i]).renewals >= 7, 5000));
	sneck_client *writer = test_open(server->url);
	assert_result(SNECK_EBUSY, test_probe(writer, "door", SNECK_WRITE), NULL);
	for (int i = 0; i < CLIENTS * EACH; i++) {
		assert_true(sneck_hold_state(holds[i]) <= SNECK_SUSPECT);
		test_release(holds[i]);
	}
	assert_result(0, test_probe(writer, "door", SNECK_WRITE), NULL);
	for (int i = 0; i < CLIENTS; i++)
		sneck_close(clients[i]);
	sneck_close(writer);
}

/* Sessions that read "door" and "window", until the process is killed. */
enum { ZOMBIES = 60, ZOMBIE_LEASE = 1500 };

static int play_zombies(const char *url) {
	for (int i = 0; i < ZOMBIES; i++) {
		sneck_client *client = NULL;
		sneck_hold *hold = NULL;
		sneck_acquire_options options = lease(ZOMBIE_LEASE, false);
		if (sneck_open(url, NULL, &client, NULL) != 0 ||
		        sneck_acquire(client, "door", SNECK_READ, &options, &hold, NULL) != 0 ||
		        sneck_acquire(client, "window", SNECK_READ, &options, &hold, NULL) != 0)
			return 3;
	}
	for (;;)
		pause();
}

static void sixty_dead_readers(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	const char *args[] = { "zombies", server->url, NULL };
	struct test_proc crowd;
	test_proc_start(&crowd, args);
	assert_true(test_await_members(server, "window", "R", ZOMBIES, 30000)); /* so many handshakes */
	sneck_acquire_options options = lease(1000, false);
	sneck_hold *alive = test_take_opts(a, "window", SNECK_READ, &options);
	struct test_call door, window;
	test_call_start(&door, b, "door", SNECK_WRITE, NULL);
	test_call_start(&window, b, "window", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	assert_true(test_await_members(server, "window", "w", 1, 2000));
	test_proc_signal(&crowd, SIGKILL);
	int64_t killed_ms = test_now_ms();
	assert_result(0, test_call_join(&door), &door.error);
	assert_true(door.end_ms - killed_ms <= ZOMBIE_LEASE + TEST_SLACK_MS);
	/* One who lives and renews does not keep the dead alive. */
	assert_true(test_await_members(server, "window", "R", 1, TEST_SLACK_MS));
	assert_false(atomic_load(&window.done));
	assert_true(sneck_hold_state(alive) <= SNECK_SUSPECT);
	int64_t released_ms = test_now_ms();
	test_release(alive);
	assert_result(0, test_call_join(&window), &window.error);
	assert_true(window.end_ms - released_ms <= TEST_SLACK_MS);
	test_release(door.hold);
	test_release(window.hold);
	assert_true(test_is_idle(server, "door"));
	assert_true(test_is_idle(server, "window"));
	sneck_close(a);
	sneck_close(b);
}

int main(int argc, char **argv) {
	if (argc == 3 && strcmp(argv[1], "zombies") == 0)
		return play_zombies(argv[2]);
	const struct CMUnitTest tests[] = {
		TEST(a_writer_waits_for_the_longest_reader),
		TEST(fifty_readers_outlive_their_lease),
		TEST(sixty_dead_readers),
	};
	return TEST_RUN(tests);
}
