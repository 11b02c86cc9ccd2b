/* SPDX-License-Identifier: MIT */
/* Processes that share nothing but the server: exclusion seen by witnesses outside of the library,
 * and what is left when one of them is killed. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "actor.h"
#include "locks.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

enum {
	PROCESSES = 8,
	INCREMENTS = TEST_SANITIZED ? 125 : 2500, /* each */
	VISITS = TEST_SANITIZED ? 40 : 200
};

/* ---- A counter in a file, read and written in two steps ----------------------------------------*/

static int play_counter(const char *url, const char *path, int rounds) {
	sneck_client *client = NULL;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || sneck_open(url, NULL, &client, NULL) != 0)
		return 3;
	sneck_acquire_options options = test_waiting(30000);
	uint64_t last_token = 0;
	for (int i = 0; i < rounds; i++) {
		sneck_hold *hold = NULL;
		if (sneck_acquire(client, "counter", SNECK_WRITE, &options, &hold, NULL) != 0)
			return 4;
		int64_t cell[2]; /* the count, and the token of who wrote it */
		if (pread(fd, cell, sizeof(cell), 0) != sizeof(cell))
			return 5;
		if ((uint64_t)cell[1] >= sneck_hold_token(hold) || sneck_hold_token(hold) <= last_token)
			return 6;
		last_token = sneck_hold_token(hold);
		cell[0]++;
		cell[1] = (int64_t)last_token;
		if (pwrite(fd, cell, sizeof(cell), 0) != sizeof(cell))
			return 5;
		if (sneck_release(hold) != 0)
			return 7;
	}
	sneck_close(client);
	close(fd);
	return 0;
}

static void a_counter_in_a_file_is_exact(void **state) {
	(void)state;
	char path[128], rounds[16];
	snprintf(path, sizeof(path), "%s/counter", server->dir);
	snprintf(rounds, sizeof(rounds), "%d", INCREMENTS);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int64_t cell[2] = { 0, 0 };
	assert_int_equal(pwrite(fd, cell, sizeof(cell), 0), sizeof(cell));
	struct test_proc procs[PROCESSES];
	const char *args[] = { "counter", server->url, path, rounds, NULL };
	for (int i = 0; i < PROCESSES; i++)
		test_proc_start(&procs[i], args);
	for (int i = 0; i < PROCESSES; i++)
		assert_int_equal(test_proc_finish(&procs[i], 60000), 0);
	assert_int_equal(pread(fd, cell, sizeof(cell), 0), sizeof(cell));
	assert_int_equal(cell[0], PROCESSES * INCREMENTS);
	close(fd);
	assert_true(test_is_idle(server, "counter"));
}

/* ---- Readers and writers seen in shared memory -------------------------------------------------*/

struct witness {
	atomic_int readers;
	atomic_int writers;
	atomic_int most_readers;
	atomic_int violations;
	atomic_int reads;
	atomic_int writes;
};

static void visit(struct witness *witness, sneck_mode mode) {
	if (mode == SNECK_WRITE) {
		if (atomic_fetch_add(&witness->writers, 1) != 0 || atomic_load(&witness->readers) != 0)
			atomic_fetch_add(&witness->violations, 1);
		atomic_fetch_add(&witness->writes, 1);
		atomic_fetch_sub(&witness->writers, 1);
		return;
	}
	int now = atomic_fetch_add(&witness->readers, 1) + 1;
	if (atomic_load(&witness->writers) != 0)
		atomic_fetch_add(&witness->violations, 1);
	if (now > atomic_load(&witness->most_readers))
		atomic_store(&witness->most_readers, now);
	atomic_fetch_add(&witness->reads, 1);
	(void)WAIT_UNTIL(atomic_load(&witness->readers) > 1, 1); /* give another the time to join */
	if (atomic_load(&witness->writers) != 0)
		atomic_fetch_add(&witness->violations, 1);
	atomic_fetch_sub(&witness->readers, 1);
}

static struct witness *map_witness(const char *path) {
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(struct witness)) != 0)
		return NULL;
	void *memory = mmap(NULL, sizeof(struct witness), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return memory == MAP_FAILED ? NULL : memory;
}

static int play_visitor(const char *url, const char *path, unsigned seed) {
	sneck_client *client = NULL;
	struct witness *witness = map_witness(path);
	if (!witness || sneck_open(url, NULL, &client, NULL) != 0)
		return 3;
	sneck_acquire_options options = test_waiting(30000);
	for (int i = 0; i < VISITS; i++) {
		sneck_mode mode = rand_r(&seed) % 4 == 0 ? SNECK_WRITE : SNECK_READ;
		options.policy = rand_r(&seed) % 2 ? SNECK_POLICY_FAIR : SNECK_POLICY_PREFER_WRITERS;
		sneck_hold *hold = NULL;
		if (sneck_acquire(client, "room", mode, &options, &hold, NULL) != 0)
			return 4;
		visit(witness, mode);
		if (sneck_release(hold) != 0)
			return 7;
	}
	sneck_close(client);
	return 0;
}

static void readers_meet_and_writers_are_alone(void **state) {
	(void)state;
	char path[128];
	snprintf(path, sizeof(path), "%s/witness", server->dir);
	struct witness *witness = map_witness(path);
	assert_non_null(witness);
	struct test_proc procs[PROCESSES];
	for (int i = 0; i < PROCESSES; i++) {
		char seed[16];
		snprintf(seed, sizeof(seed), "%d", i + 1);
		const char *args[] = { "visitor", server->url, path, seed, NULL };
		test_proc_start(&procs[i], args);
	}
	for (int i = 0; i < PROCESSES; i++)
		assert_int_equal(test_proc_finish(&procs[i], 60000), 0);
	assert_int_equal(atomic_load(&witness->violations), 0);
	assert_int_equal(atomic_load(&witness->reads) + atomic_load(&witness->writes), PROCESSES * VISITS);
	assert_true(atomic_load(&witness->most_readers) >= 2);
	assert_true(test_is_idle(server, "room"));
	munmap(witness, sizeof(*witness));
}

/* ---- Death ------------------------------------------------------------------------------------*/

static void a_killed_holder_is_free_within_its_lease(void **state) {
	(void)state;
	struct test_proc holder;
	test_actor_start(&holder, server->url);
	test_actor_expect(&holder, "ok", "take door w 0 1000");
	sneck_client *client = test_open(server->url);
	struct test_call call;
	test_call_start(&call, client, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	test_proc_signal(&holder, SIGKILL);
	int64_t killed_ms = test_now_ms();
	assert_result(0, test_call_join(&call), &call.error);
	assert_true(call.end_ms - killed_ms <= 1000 + TEST_SLACK_MS);
	test_release(call.hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(client);
}

/* Three scenes at once, each on a lock of its own; what they cost is one waiter lease, not three. */
static void killed_waiters_cost_one_waiter_lease(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	sneck_client *behind = test_open(server->url);
	/* "tail": the waiter that dies is the second. "head": it is the first. "reader": it is a writer
	 * who waits for a reader, and a reader is behind it. */
	sneck_hold *tail_hold = test_take(client, "tail", SNECK_WRITE, 0);
	sneck_hold *head_hold = test_take(client, "head", SNECK_WRITE, 0);
	sneck_hold *reader_hold = test_take(client, "reader", SNECK_READ, 0);

	struct test_call tail, head, reader;
	struct test_proc victims[3];
	const char *names[3] = { "tail", "head", "reader" };
	test_call_start(&tail, behind, "tail", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "tail", "w", 1, 2000));
	for (int i = 0; i < 3; i++) {
		test_actor_start(&victims[i], server->url);
		test_actor_expect(&victims[i], "waiting", "wait %s w 10000 1000", names[i]);
		assert_true(test_await_members(server, names[i], "w", i == 0 ? 2 : 1, 5000));
	}
	test_call_start(&head, behind, "head", SNECK_WRITE, NULL);
	test_call_start(&reader, behind, "reader", SNECK_READ, NULL);
	assert_true(test_await_members(server, "head", "w", 2, 2000));
	assert_true(test_await_members(server, "reader", "r", 1, 2000));
	for (int i = 0; i < 3; i++)
		test_proc_signal(&victims[i], SIGKILL);
	int64_t killed_ms = test_now_ms();
	test_release(tail_hold);
	test_release(head_hold); /* is granted to the dead one, for what is left of its waiter lease */

	assert_result(0, test_call_join(&tail), &tail.error);
	assert_true(tail.end_ms - killed_ms <= TEST_SLACK_MS);
	test_release(tail.hold);
	assert_result(0, test_call_join(&head), &head.error);
	assert_true(head.end_ms - killed_ms <= SNECK_WAITER_LEASE_MS + TEST_SLACK_MS);
	assert_result(0, test_call_join(&reader), &reader.error); /* the first reader is still there */
	assert_true(
	        reader.end_ms - killed_ms <= SNECK_WAITER_LEASE_MS + SNECK_WAITER_BEAT_MS + TEST_SLACK_MS);
	test_release(head.hold);
	test_release(reader.hold);
	test_release(reader_hold);
	/* The dead tail was granted in its turn; that too is over with its waiter lease. */
	assert_result(
	        0, sneck_renew(head_hold = test_take(behind, "tail", SNECK_WRITE, 4000), 0, NULL), NULL);
	test_release(head_hold);
	for (int i = 0; i < 3; i++)
		assert_true(test_is_idle(server, names[i]));
	sneck_close(client);
	sneck_close(behind);
}

int main(int argc, char **argv) {
	if (argc == 5 && strcmp(argv[1], "counter") == 0)
		return play_counter(argv[2], argv[3], atoi(argv[4]));
	if (argc == 5 && strcmp(argv[1], "visitor") == 0)
		return play_visitor(argv[2], argv[3], (unsigned)atoi(argv[4]));
	if (argc > 1)
		return test_actor_main(argc, argv);
	const struct CMUnitTest tests[] = {
		TEST(a_counter_in_a_file_is_exact),
		TEST(readers_meet_and_writers_are_alone),
		TEST(a_killed_holder_is_free_within_its_lease),
		TEST(killed_waiters_cost_one_waiter_lease),
	};
	return TEST_RUN(tests);
}
