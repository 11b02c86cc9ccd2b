/* SPDX-License-Identifier: MIT */
/* sneck and the real Redisson on one server. Both hold each other off, wake each other, and outlive each
 * other's death, in every object of Redisson's that sneck speaks.
 *
 * One Java program serves all tests but those that kill it. Leases are 3 s on both sides. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli.h"
#include "java.h"
#include "locks.h"
#include "mix.h"
#include "pair.h"
#include "wait.h"

enum { LATE_MS = 2500 };

static struct test_server *const server = &test_the_server;

static int up(void **state) {
	(void)state;
	if (test_server_start_tcp(server, NULL) < 0)
		return -1;
	setenv("HOME", server->dir, 1);
	java_start(&pair_java, server);
	return 0;
}

static int down(void **state) {
	java_stop(&pair_java);
	return test_server_down(state);
}

/* ---- Waiting for each other ---------------------------------------------------------------------*/

static void each_is_woken_at_once(void **state) {
	(void)state;
	for (size_t i = 0; i < OBJECTS; i++)
		each_wakes_the_other(&objects[i], "wake");
}

static void each_keeps_the_other_out(void **state) {
	(void)state;
	static const char *const names[] = { "plain", "{test}:abc:key", "a:b:c", "odd}name", "{tag}" };

	for (size_t i = 0; i < OBJECTS; i++)
		for (size_t j = 0; j < sizeof names / sizeof names[0]; j++)
			each_excludes_the_other(&objects[i], names[j]);
	assert_true(WAIT_UNTIL(nothing_is_left(), 10000));
}

/* Redisson's NameMapper, and our prefix. */
static void a_prefix_is_part_of_the_name(void **state) {
	(void)state;
	char url[TEST_URL_MAX];

	for (size_t i = 0; i < OBJECTS; i++) {
		sneck_client *client =
		        test_open(test_url_with(server, url, "dialect=%s&prefix=app:", objects[i].dialect));
		sneck_hold *hold = take(client, "x", SNECK_WRITE);
		java_does(&pair_java, "a", "false", "a try %s app:x 0", objects[i].java);
		java_does(&pair_java, "a", "true", "a try %s x 0", objects[i].java);
		java_does(&pair_java, "a", "ok", "a unlock %s x", objects[i].java);
		test_release(hold);
		sneck_close(client);
	}
}

static long queued(void) {
	return (long)test_redis_int(server, "LLEN redisson_lock_queue:{line}");
}

static void the_fair_lock_serves_both_in_order(void **state) {
	(void)state;
	sneck_client *client = open_as("redisson:fair"), *other = open_as("redisson:fair");
	sneck_hold *hold = take(client, "line", SNECK_WRITE);
	struct test_call second, fourth;
	char heard[JAVA_LINE_MAX];

	java_say(&pair_java, "first lock fair line");
	assert_true(WAIT_UNTIL(queued() == 1, 10000));
	test_call_start(&second, client, "line", SNECK_WRITE, NULL);
	/* A session has one place for those of its threads who want the same. */
	assert_false(WAIT_UNTIL(queued() == 2, 50));
	test_release(hold);
	java_expect(&pair_java, "first", "ok");
	assert_true(WAIT_UNTIL(queued() == 1, 10000));
	java_say(&pair_java, "third lock fair line");
	assert_true(WAIT_UNTIL(queued() == 2, 10000));
	test_call_start(&fourth, other, "line", SNECK_WRITE, NULL);
	assert_true(WAIT_UNTIL(queued() == 3, 10000));
	java_does(&pair_java, "first", "ok", "first unlock fair line");
	assert_result(0, test_call_join(&second), &second.error);
	assert_false(java_hear(&pair_java, "third", heard, 50));
	test_release(second.hold);
	java_expect(&pair_java, "third", "ok");
	assert_false(atomic_load(&fourth.done));
	java_does(&pair_java, "third", "ok", "third unlock fair line");
	assert_result(0, test_call_join(&fourth), &fourth.error);
	test_release(fourth.hold);
	assert_true(WAIT_UNTIL(nothing_is_left(), 10000));
	sneck_close(client);
	sneck_close(other);
}

/* ---- Re-entry -----------------------------------------------------------------------------------*/

static bool java_counts(const struct object *object, const char *name, const char *who, const char *count) {
	char heard[JAVA_LINE_MAX];

	java_say(&pair_java, "%s count %s %s", who, object->java, name);
	return java_hear(&pair_java, who, heard, 10000) && strcmp(heard, count) == 0;
}

static void both_re_enter(void **state) {
	(void)state;
	for (size_t i = 0; i < OBJECTS; i++) {
		const struct object *object = &objects[i];
		sneck_client *client = open_as(object->dialect);
		sneck_hold *one = take(client, "again", SNECK_WRITE);
		sneck_hold *two = take(client, "again", SNECK_WRITE);
		java_does(&pair_java, "a", "false", "a try %s again 0", object->java);
		test_release(two);
		java_does(&pair_java, "a", "false", "a try %s again 0", object->java);
		test_release(one);
		java_does(&pair_java, "a", "ok", "a lock %s again", object->java);
		java_does(&pair_java, "a", "ok", "a lock %s again", object->java);
		assert_true(java_counts(object, "again", "a", "2"));
		java_does(&pair_java, "a", "ok", "a unlock %s again", object->java);
		assert_result(SNECK_EBUSY, test_probe(client, "again", SNECK_WRITE), NULL);
		java_does(&pair_java, "a", "ok", "a unlock %s again", object->java);
		assert_result(0, test_probe(client, "again", SNECK_WRITE), NULL);
		sneck_close(client);
	}
}

/* ---- Readers and writers ------------------------------------------------------------------------*/

static void readers_of_both_share(void **state) {
	(void)state;
	readers_of_both_share_it("rw");
}

static void a_writer_excludes_all(void **state) {
	(void)state;
	sneck_client *client = open_as("redisson:rwlock");
	sneck_hold *hold = take(client, "rw", SNECK_WRITE);

	java_does(&pair_java, "a", "false", "a try read rw 0");
	java_does(&pair_java, "a", "false", "a try write rw 0");
	test_release(hold);
	java_does(&pair_java, "a", "true", "a try write rw 0");
	assert_result(SNECK_EBUSY, test_probe(client, "rw", SNECK_READ), NULL);
	assert_result(SNECK_EBUSY, test_probe(client, "rw", SNECK_WRITE), NULL);
	java_does(&pair_java, "a", "ok", "a unlock write rw");
	sneck_close(client);
}

static void each_writes_reads_and_comes_down(void **state) {
	(void)state;
	sneck_client *client = open_as("redisson:rwlock");
	sneck_hold *write = take(client, "rw", SNECK_WRITE), *read = take(client, "rw", SNECK_READ);
	int64_t best_ms = INT64_MAX;

	for (int i = 0; i < WAKE_TRIES && best_ms > WAKE_MS; i++) {
		java_falls_asleep("read", "rw", "redisson_rwlock:");
		int64_t begin_ms = test_now_ms();
		test_release(write); /* comes down to read, and wakes Java's reader */
		java_expect(&pair_java, "a", "ok");
		int64_t took_ms = test_now_ms() - begin_ms;
		best_ms = took_ms < best_ms ? took_ms : best_ms;
		java_does(&pair_java, "b", "false", "b try write rw 0");
		test_release(read);
		java_does(&pair_java, "b", "false", "b try write rw 0");
		java_does(&pair_java, "a", "ok", "a unlock read rw");
		write = take(client, "rw", SNECK_WRITE);
		read = take(client, "rw", SNECK_READ);
	}
	print_message("Java's reader woken by a downgrade after %d ms\n", (int)best_ms);
	assert_true(best_ms <= WAKE_MS);
	test_release(read); /* in the other order: WRITE stays */
	java_does(&pair_java, "b", "false", "b try read rw 0");
	test_release(write);

	java_does(&pair_java, "a", "ok", "a lock write rw");
	java_does(&pair_java, "a", "ok", "a lock read rw");
	assert_result(SNECK_EBUSY, test_probe(client, "rw", SNECK_READ), NULL);
	java_does(&pair_java, "a", "ok", "a unlock write rw");
	assert_result(SNECK_EBUSY, test_probe(client, "rw", SNECK_WRITE), NULL);
	test_release(take(client, "rw", SNECK_READ));
	java_does(&pair_java, "a", "1", "a count read rw");
	java_does(&pair_java, "a", "ok", "a unlock read rw");
	assert_result(0, test_probe(client, "rw", SNECK_WRITE), NULL);
	sneck_close(client);
}

/* ---- Leases -------------------------------------------------------------------------------------*/

/* All at once, for it takes more than two leases: we hold and Java waits in vain, and the reverse. */
static void the_watchdog_keeps_each_sides_hold(void **state) {
	(void)state;
	static const char *const theirs[] = { "theirs0", "theirs1", "theirs2", "theirs3" };
	sneck_client *clients[OBJECTS], *readers = open_as("redisson:rwlock");
	sneck_hold *holds[OBJECTS], *read = take(readers, "read", SNECK_READ);
	struct test_call calls[OBJECTS], write;
	sneck_acquire_options options = leased(2 * LEASE_MS + 500);
	char who[8];

	for (size_t i = 0; i < OBJECTS; i++) {
		clients[i] = open_as(objects[i].dialect);
		char ours[16];
		snprintf(ours, sizeof ours, "ours%zu", i);
		holds[i] = take(clients[i], ours, SNECK_WRITE);
		java_say(&pair_java, "w%zu try %s %s %d", i, objects[i].java, ours, 2 * LEASE_MS + 500);
		snprintf(who, sizeof who, "h%zu", i);
		java_does(&pair_java, who, "ok", "h%zu lock %s %s", i, objects[i].java, theirs[i]);
		test_call_start(&calls[i], clients[i], theirs[i], SNECK_WRITE, &options);
	}
	java_does(&pair_java, "r", "ok", "r lock read read2");
	java_say(&pair_java, "wr try write read %d", 2 * LEASE_MS + 500);
	test_call_start(&write, readers, "read2", SNECK_WRITE, &options);
	for (size_t i = 0; i < OBJECTS; i++) {
		snprintf(who, sizeof who, "w%zu", i);
		java_expect(&pair_java, who, "false");
		assert_result(SNECK_ETIMEDOUT, test_call_join(&calls[i]), NULL);
		assert_int_equal(sneck_hold_state(holds[i]), SNECK_HELD);
		test_release(holds[i]);
		snprintf(who, sizeof who, "h%zu", i);
		java_does(&pair_java, who, "ok", "h%zu unlock %s theirs%zu", i, objects[i].java, i);
		sneck_close(clients[i]);
	}
	java_expect(&pair_java, "wr", "false");
	assert_result(SNECK_ETIMEDOUT, test_call_join(&write), NULL);
	assert_int_equal(sneck_hold_state(read), SNECK_HELD);
	test_release(read);
	java_does(&pair_java, "r", "ok", "r unlock read read2");
	sneck_close(readers);
}

/* What the other side wants when its holder has been killed: every object's exclusive side, and that of a
 * read-write lock that was read. */
static const char *const dead_names[] = { "dead0", "dead1", "dead2", "dead3", "deadr" };
enum { DEAD = OBJECTS + 1 };

static const struct object *dead_object(size_t i) {
	return i < OBJECTS ? &objects[i] : &objects[1];
}

static int hold_and_wait(char **argv) {
	sneck_client *client = NULL;
	sneck_hold *hold = NULL;
	sneck_acquire_options options = leased(0);

	for (size_t i = 0; i < DEAD; i++) {
		char url[256];
		sneck_mode mode = i < OBJECTS ? SNECK_WRITE : SNECK_READ;
		snprintf(url, sizeof url, "%s?dialect=%s", argv[2], dead_object(i)->dialect);
		if (sneck_open(url, NULL, &client, NULL) != 0 ||
		        sneck_acquire(client, dead_names[i], mode, &options, &hold, NULL) != 0)
			return 1;
	}
	puts("held");
	fflush(stdout);
	return getchar();
}

static void a_killed_sneck_is_over_after_its_lease(void **state) {
	(void)state;
	struct test_proc proc;
	char line[64], who[8];
	const char *args[] = { "hold", server->url, NULL };

	test_proc_start(&proc, args);
	assert_true(test_proc_line(&proc, line, sizeof line, 10000));
	assert_string_equal(line, "held");
	for (size_t i = 0; i < DEAD; i++)
		java_say(&pair_java, "w%zu lock %s %s", i, dead_object(i)->java, dead_names[i]);
	int64_t begin_ms = test_now_ms();
	test_proc_signal(&proc, SIGKILL);
	for (size_t i = 0; i < DEAD; i++) {
		snprintf(who, sizeof who, "w%zu", i);
		java_expect(&pair_java, who, "ok");
		assert_in_range(test_now_ms() - begin_ms, 0, LEASE_MS + LATE_MS);
		java_does(&pair_java, who, "ok", "%s unlock %s %s", who, dead_object(i)->java, dead_names[i]);
	}
}

static void a_killed_java_is_over_after_its_lease(void **state) {
	(void)state;
	struct java other;
	struct test_call calls[DEAD];
	sneck_client *clients[DEAD];
	sneck_acquire_options options = leased(10000);

	java_start(&other, server);
	for (size_t i = 0; i < DEAD; i++) {
		java_does(&other, "a", "ok", "a lock %s %s", i < OBJECTS ? objects[i].java : "read",
		        dead_names[i]);
		clients[i] = open_as(dead_object(i)->dialect);
		test_call_start(&calls[i], clients[i], dead_names[i], SNECK_WRITE, &options);
	}
	int64_t begin_ms = test_now_ms();
	java_kill(&other);
	for (size_t i = 0; i < DEAD; i++) {
		assert_result(0, test_call_join(&calls[i]), &calls[i].error);
		assert_in_range(calls[i].end_ms - begin_ms, 0, LEASE_MS + LATE_MS);
		test_release(calls[i].hold);
		sneck_close(clients[i]);
	}
}

static void a_forced_unlock_is_a_loss(void **state) {
	(void)state;
	for (size_t i = 0; i < OBJECTS; i++) {
		sneck_client *client = open_as(objects[i].dialect);
		sneck_hold *hold = take(client, "forced", SNECK_WRITE);
		java_does(&pair_java, "a", "true", "a force %s forced", objects[i].java);
		assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_LOST, LEASE_MS + LATE_MS));
		assert_result(SNECK_ELOST, sneck_release(hold), NULL);
		sneck_close(client);
	}
}

static void tokens_grow_over_both(void **state) {
	(void)state;
	tokens_grow_over_both_sides("tokens");
}

/* ---- The command --------------------------------------------------------------------------------*/

static void the_command_shares_as_well(void **state) {
	(void)state;
	for (size_t i = 0; i < OBJECTS; i++) {
		const struct object *object = &objects[i];
		struct cli cli;
		java_does(&pair_java, "a", "ok", "a lock %s command", object->java);
		assert_int_equal(
		        cli_run(&cli, server,
		                CLI_ARGS("run", "-n", "--dialect", object->dialect, "command", "true")),
		        75);
		cli_start(&cli, server,
		        CLI_ARGS("run", "--dialect", object->dialect, "command", "sh", "-c",
		                "echo in; read line; exit 7"));
		assert_true(WAIT_UNTIL(test_channels(server, object->channels) > 0, 10000));
		java_does(&pair_java, "a", "ok", "a unlock %s command", object->java);
		assert_true(cli_wait_out(&cli, "in", 10000));
		java_does(&pair_java, "a", "false", "a try %s command 0", object->java);
		java_say(&pair_java, "a lock %s command", object->java);
		assert_int_equal(cli_wait(&cli, 10000), 7);
		java_expect(&pair_java, "a", "ok");
		java_does(&pair_java, "a", "ok", "a unlock %s command", object->java);
	}
}

/* ---- All of it at random ------------------------------------------------------------------------*/

static void at_random_with_readers(void **state) {
	(void)state;
	mix_run(&pair_java, server, "write", "redisson:rwlock", 30000);
}

static void at_random_without_readers(void **state) {
	(void)state;
	mix_run(&pair_java, server, "lock", "redisson:lock", 4000);
	mix_run(&pair_java, server, "fair", "redisson:fair", 4000);
}

int main(int argc, char **argv) {
	if (argc > 1 && strcmp(argv[1], "java") == 0)
		return java_exec(argv);
	if (argc > 1 && strcmp(argv[1], "hold") == 0)
		return hold_and_wait(argv);
	const struct CMUnitTest tests[] = {
		TEST(each_keeps_the_other_out),
		TEST(each_is_woken_at_once),
		TEST(a_prefix_is_part_of_the_name),
		TEST(the_fair_lock_serves_both_in_order),
		TEST(both_re_enter),
		TEST(readers_of_both_share),
		TEST(a_writer_excludes_all),
		TEST(each_writes_reads_and_comes_down),
		TEST(the_watchdog_keeps_each_sides_hold),
		TEST(a_killed_sneck_is_over_after_its_lease),
		TEST(a_killed_java_is_over_after_its_lease),
		TEST(a_forced_unlock_is_a_loss),
		TEST(tokens_grow_over_both),
		TEST(the_command_shares_as_well),
		TEST(at_random_with_readers),
		TEST(at_random_without_readers),
	};
	return cmocka_run_group_tests(tests, up, down);
}
