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
#include "wait.h"

enum { LEASE_MS = JAVA_WATCHDOG_MS, WAKE_MS = 100, WAKE_TRIES = 8, LATE_MS = 2500 };

/* Java's name of the exclusive side, and our dialect. */
static const struct object {
	const char *java, *dialect, *channels;
} objects[] = {
	{ "lock", "redisson:lock", "redisson_lock__channel:*" },
	{ "write", "redisson:rwlock", "redisson_rwlock:*" },
	{ "fenced", "redisson:fenced", "redisson_lock__channel:*" },
	{ "fair", "redisson:fair", "redisson_lock__channel:*" },
};
enum { OBJECTS = sizeof objects / sizeof objects[0] };

static struct test_server *const server = &test_the_server;
static struct java java;

static int up(void **state) {
	(void)state;
	if (test_server_start_tcp(server, NULL) < 0)
		return -1;
	setenv("HOME", server->dir, 1);
	java_start(&java, server);
	return 0;
}

static int down(void **state) {
	java_stop(&java);
	return test_server_down(state);
}

static sneck_client *open_as(const char *dialect) {
	char url[TEST_URL_MAX];
	return test_open(test_url_with(server, url, "dialect=%s", dialect));
}

static sneck_acquire_options leased(int64_t wait_ms) {
	sneck_acquire_options options = test_waiting(wait_ms);
	options.lease_ms = LEASE_MS;
	return options;
}

static sneck_hold *take(sneck_client *client, const char *name, sneck_mode mode) {
	sneck_acquire_options options = leased(0);
	return test_take_opts(client, name, mode, &options);
}

static int subscribers(const char *channels) {
	redisReply *names = test_redis(server, "PUBSUB CHANNELS %s", channels);
	int n = 0;

	for (size_t i = 0; names && i < names->elements; i++) {
		redisReply *count = test_redis(server, "PUBSUB NUMSUB %s", names->element[i]->str);
		n += (int)count->element[1]->integer;
		freeReplyObject(count);
	}
	freeReplyObject(names);
	return n;
}

/* How many scripts the server has run. */
static long scripts_run(void) {
	redisReply *reply = test_redis(server, "INFO commandstats");
	long n = 0;

	for (const char *at = reply->str; (at = strstr(at, "cmdstat_eval")); at++)
		n += strtol(strstr(at, "calls=") + 6, NULL, 10);
	freeReplyObject(reply);
	return n;
}

/* But for the counters of tokens, and Redisson's own marks of an unlock, which last longer than the lock. */
static bool nothing_is_left(void) {
	return test_redis_int(server, "EVAL %s 0",
	               "return #redis.call('KEYS', '*') - #redis.call('KEYS', 'redisson_lock_token:*') - "
	               "#redis.call('KEYS', 'redisson_unlock_latch:*')") == 0;
}

/* ---- Waiting for each other ---------------------------------------------------------------------*/

/* Thread `a` asks, subscribes, and asks once more before it sleeps: only then is it a message that wakes it.
 * The scripts that follow the subscription are that question and a renewal of what it waits for. */
static void java_falls_asleep(const char *object, const char *name, const char *channels) {
	java_say(&java, "a lock %s %s", object, name);
	assert_true(WAIT_UNTIL(subscribers(channels) > 0, 10000));
	long before = scripts_run();
	assert_true(WAIT_UNTIL(scripts_run() >= before + 2, 10000));
}

/* From our release to Java's answer. */
static int64_t java_woken_ms(sneck_client *client, const struct object *object, const char *name) {
	sneck_hold *hold = take(client, name, SNECK_WRITE);

	java_falls_asleep(object->java, name, object->channels);
	test_release(hold);
	int64_t begin_ms = test_now_ms();
	java_expect(&java, "a", "ok");
	int64_t took_ms = test_now_ms() - begin_ms;
	java_does(&java, "a", "ok", "a unlock %s %s", object->java, name);
	return took_ms;
}

/* From our word to Java to our hold: a little more than from its release. */
static int64_t sneck_woken_ms(sneck_client *client, const struct object *object, const char *name) {
	struct test_call call;
	sneck_acquire_options options = leased(10000);

	java_does(&java, "a", "ok", "a lock %s %s", object->java, name);
	uint64_t asked = test_stats(client).beats;
	test_call_start(&call, client, name, SNECK_WRITE, &options);
	/* Once it listens it asks again, and then not for a while. */
	assert_true(WAIT_UNTIL(test_stats(client).beats > asked, 10000));
	int64_t begin_ms = test_now_ms();
	java_does(&java, "a", "ok", "a unlock %s %s", object->java, name);
	assert_result(0, test_call_join(&call), &call.error);
	test_release(call.hold);
	return call.end_ms - begin_ms;
}

/* The best of some: a busy machine makes it late. Without messages it would be 750 ms at the least. */
static void each_is_woken_at_once(void **state) {
	(void)state;
	for (size_t i = 0; i < OBJECTS; i++) {
		sneck_client *client = open_as(objects[i].dialect);
		int64_t java_ms = INT64_MAX, sneck_ms = INT64_MAX;
		for (int j = 0; j < WAKE_TRIES && (java_ms > WAKE_MS || sneck_ms > WAKE_MS); j++) {
			int64_t one_ms = java_woken_ms(client, &objects[i], "wake");
			int64_t other_ms = sneck_woken_ms(client, &objects[i], "wake");
			java_ms = one_ms < java_ms ? one_ms : java_ms;
			sneck_ms = other_ms < sneck_ms ? other_ms : sneck_ms;
		}
		print_message("%s: Java woken after %d ms, sneck after %d ms\n", objects[i].dialect,
		        (int)java_ms, (int)sneck_ms);
		assert_true(java_ms <= WAKE_MS && sneck_ms <= WAKE_MS);
		sneck_close(client);
	}
}

static void exclude(const struct object *object, const char *name) {
	sneck_client *client = open_as(object->dialect);
	sneck_hold *hold = take(client, name, SNECK_WRITE);

	java_does(&java, "a", "false", "a try %s %s 0", object->java, name);
	java_does(&java, "a", "true", "a locked %s %s", object->java, name);
	test_release(hold);
	java_does(&java, "a", "false", "a locked %s %s", object->java, name);
	java_does(&java, "a", "true", "a try %s %s 0", object->java, name);
	assert_result(SNECK_EBUSY, test_probe(client, name, SNECK_WRITE), NULL);
	java_does(&java, "b", "error IllegalMonitorStateException", "b unlock %s %s", object->java, name);
	java_does(&java, "a", "ok", "a unlock %s %s", object->java, name);
	assert_result(0, test_probe(client, name, SNECK_WRITE), NULL);
	sneck_close(client);
}

static void each_keeps_the_other_out(void **state) {
	(void)state;
	static const char *const names[] = { "plain", "{test}:abc:key", "a:b:c", "odd}name", "{tag}" };

	for (size_t i = 0; i < OBJECTS; i++)
		for (size_t j = 0; j < sizeof names / sizeof names[0]; j++)
			exclude(&objects[i], names[j]);
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
		java_does(&java, "a", "false", "a try %s app:x 0", objects[i].java);
		java_does(&java, "a", "true", "a try %s x 0", objects[i].java);
		java_does(&java, "a", "ok", "a unlock %s x", objects[i].java);
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

	java_say(&java, "first lock fair line");
	assert_true(WAIT_UNTIL(queued() == 1, 10000));
	test_call_start(&second, client, "line", SNECK_WRITE, NULL);
	/* A session has one place for those of its threads who want the same. */
	assert_false(WAIT_UNTIL(queued() == 2, 50));
	test_release(hold);
	java_expect(&java, "first", "ok");
	assert_true(WAIT_UNTIL(queued() == 1, 10000));
	java_say(&java, "third lock fair line");
	assert_true(WAIT_UNTIL(queued() == 2, 10000));
	test_call_start(&fourth, other, "line", SNECK_WRITE, NULL);
	assert_true(WAIT_UNTIL(queued() == 3, 10000));
	java_does(&java, "first", "ok", "first unlock fair line");
	assert_result(0, test_call_join(&second), &second.error);
	assert_false(java_hear(&java, "third", heard, 50));
	test_release(second.hold);
	java_expect(&java, "third", "ok");
	assert_false(atomic_load(&fourth.done));
	java_does(&java, "third", "ok", "third unlock fair line");
	assert_result(0, test_call_join(&fourth), &fourth.error);
	test_release(fourth.hold);
	assert_true(WAIT_UNTIL(nothing_is_left(), 10000));
	sneck_close(client);
	sneck_close(other);
}

/* ---- Re-entry -----------------------------------------------------------------------------------*/

static bool java_counts(const struct object *object, const char *name, const char *who, const char *count) {
	char heard[JAVA_LINE_MAX];

	java_say(&java, "%s count %s %s", who, object->java, name);
	return java_hear(&java, who, heard, 10000) && strcmp(heard, count) == 0;
}

static void both_re_enter(void **state) {
	(void)state;
	for (size_t i = 0; i < OBJECTS; i++) {
		const struct object *object = &objects[i];
		sneck_client *client = open_as(object->dialect);
		sneck_hold *one = take(client, "again", SNECK_WRITE);
		sneck_hold *two = take(client, "again", SNECK_WRITE);
		java_does(&java, "a", "false", "a try %s again 0", object->java);
		test_release(two);
		java_does(&java, "a", "false", "a try %s again 0", object->java);
		test_release(one);
		java_does(&java, "a", "ok", "a lock %s again", object->java);
		java_does(&java, "a", "ok", "a lock %s again", object->java);
		assert_true(java_counts(object, "again", "a", "2"));
		java_does(&java, "a", "ok", "a unlock %s again", object->java);
		assert_result(SNECK_EBUSY, test_probe(client, "again", SNECK_WRITE), NULL);
		java_does(&java, "a", "ok", "a unlock %s again", object->java);
		assert_result(0, test_probe(client, "again", SNECK_WRITE), NULL);
		sneck_close(client);
	}
}

/* ---- Readers and writers ------------------------------------------------------------------------*/

static void readers_of_both_share(void **state) {
	(void)state;
	sneck_client *client = open_as("redisson:rwlock");
	sneck_hold *hold = take(client, "rw", SNECK_READ);

	java_does(&java, "a", "true", "a try read rw 0");
	java_does(&java, "b", "false", "b try write rw 0");
	java_does(&java, "a", "ok", "a unlock read rw"); /* which must not free what we hold */
	java_does(&java, "b", "false", "b try write rw 0");
	assert_true(sneck_check(hold, 0));
	assert_result(0, sneck_renew(hold, LEASE_MS, NULL), NULL);
	java_does(&java, "a", "ok", "a lock read rw");
	test_release(hold); /* nor we what Java holds */
	assert_result(SNECK_EBUSY, test_probe(client, "rw", SNECK_WRITE), NULL);
	java_does(&java, "a", "1", "a count read rw");
	java_does(&java, "a", "ok", "a unlock read rw");
	assert_result(0, test_probe(client, "rw", SNECK_WRITE), NULL);
	assert_true(WAIT_UNTIL(nothing_is_left(), 10000));
	sneck_close(client);
}

static void a_writer_excludes_all(void **state) {
	(void)state;
	sneck_client *client = open_as("redisson:rwlock");
	sneck_hold *hold = take(client, "rw", SNECK_WRITE);

	java_does(&java, "a", "false", "a try read rw 0");
	java_does(&java, "a", "false", "a try write rw 0");
	test_release(hold);
	java_does(&java, "a", "true", "a try write rw 0");
	assert_result(SNECK_EBUSY, test_probe(client, "rw", SNECK_READ), NULL);
	assert_result(SNECK_EBUSY, test_probe(client, "rw", SNECK_WRITE), NULL);
	java_does(&java, "a", "ok", "a unlock write rw");
	sneck_close(client);
}

static void each_writes_reads_and_comes_down(void **state) {
	(void)state;
	sneck_client *client = open_as("redisson:rwlock");
	sneck_hold *write = take(client, "rw", SNECK_WRITE), *read = take(client, "rw", SNECK_READ);
	int64_t best_ms = INT64_MAX;

	for (int i = 0; i < WAKE_TRIES && best_ms > WAKE_MS; i++) {
		java_falls_asleep("read", "rw", "redisson_rwlock:*");
		int64_t begin_ms = test_now_ms();
		test_release(write); /* comes down to read, and wakes Java's reader */
		java_expect(&java, "a", "ok");
		int64_t took_ms = test_now_ms() - begin_ms;
		best_ms = took_ms < best_ms ? took_ms : best_ms;
		java_does(&java, "b", "false", "b try write rw 0");
		test_release(read);
		java_does(&java, "b", "false", "b try write rw 0");
		java_does(&java, "a", "ok", "a unlock read rw");
		write = take(client, "rw", SNECK_WRITE);
		read = take(client, "rw", SNECK_READ);
	}
	print_message("Java's reader woken by a downgrade after %d ms\n", (int)best_ms);
	assert_true(best_ms <= WAKE_MS);
	test_release(read); /* in the other order: WRITE stays */
	java_does(&java, "b", "false", "b try read rw 0");
	test_release(write);

	java_does(&java, "a", "ok", "a lock write rw");
	java_does(&java, "a", "ok", "a lock read rw");
	assert_result(SNECK_EBUSY, test_probe(client, "rw", SNECK_READ), NULL);
	java_does(&java, "a", "ok", "a unlock write rw");
	assert_result(SNECK_EBUSY, test_probe(client, "rw", SNECK_WRITE), NULL);
	test_release(take(client, "rw", SNECK_READ));
	java_does(&java, "a", "1", "a count read rw");
	java_does(&java, "a", "ok", "a unlock read rw");
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
		java_say(&java, "w%zu try %s %s %d", i, objects[i].java, ours, 2 * LEASE_MS + 500);
		snprintf(who, sizeof who, "h%zu", i);
		java_does(&java, who, "ok", "h%zu lock %s %s", i, objects[i].java, theirs[i]);
		test_call_start(&calls[i], clients[i], theirs[i], SNECK_WRITE, &options);
	}
	java_does(&java, "r", "ok", "r lock read read2");
	java_say(&java, "wr try write read %d", 2 * LEASE_MS + 500);
	test_call_start(&write, readers, "read2", SNECK_WRITE, &options);
	for (size_t i = 0; i < OBJECTS; i++) {
		snprintf(who, sizeof who, "w%zu", i);
		java_expect(&java, who, "false");
		assert_result(SNECK_ETIMEDOUT, test_call_join(&calls[i]), NULL);
		assert_int_equal(sneck_hold_state(holds[i]), SNECK_HELD);
		test_release(holds[i]);
		snprintf(who, sizeof who, "h%zu", i);
		java_does(&java, who, "ok", "h%zu unlock %s theirs%zu", i, objects[i].java, i);
		sneck_close(clients[i]);
	}
	java_expect(&java, "wr", "false");
	assert_result(SNECK_ETIMEDOUT, test_call_join(&write), NULL);
	assert_int_equal(sneck_hold_state(read), SNECK_HELD);
	test_release(read);
	java_does(&java, "r", "ok", "r unlock read read2");
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
		java_say(&java, "w%zu lock %s %s", i, dead_object(i)->java, dead_names[i]);
	int64_t begin_ms = test_now_ms();
	test_proc_signal(&proc, SIGKILL);
	for (size_t i = 0; i < DEAD; i++) {
		snprintf(who, sizeof who, "w%zu", i);
		java_expect(&java, who, "ok");
		assert_in_range(test_now_ms() - begin_ms, 0, LEASE_MS + LATE_MS);
		java_does(&java, who, "ok", "%s unlock %s %s", who, dead_object(i)->java, dead_names[i]);
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
		java_does(&java, "a", "true", "a force %s forced", objects[i].java);
		assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_LOST, LEASE_MS + LATE_MS));
		assert_result(SNECK_ELOST, sneck_release(hold), NULL);
		sneck_close(client);
	}
}

static void tokens_grow_over_both(void **state) {
	(void)state;
	sneck_client *client = open_as("redisson:fenced");
	uint64_t last = 0;

	for (int i = 0; i < 3; i++) {
		char heard[JAVA_LINE_MAX];
		sneck_hold *hold = take(client, "tokens", SNECK_WRITE);
		assert_true(sneck_hold_token(hold) > last);
		last = sneck_hold_token(hold);
		test_release(hold);
		java_say(&java, "a token fenced tokens");
		assert_true(java_hear(&java, "a", heard, 10000));
		assert_true(strtoull(heard, NULL, 10) > last);
		last = strtoull(heard, NULL, 10);
		java_does(&java, "a", "ok", "a unlock fenced tokens");
	}
	sneck_close(client);
}

/* ---- The command --------------------------------------------------------------------------------*/

static void the_command_shares_as_well(void **state) {
	(void)state;
	for (size_t i = 0; i < OBJECTS; i++) {
		const struct object *object = &objects[i];
		struct cli cli;
		java_does(&java, "a", "ok", "a lock %s command", object->java);
		assert_int_equal(
		        cli_run(&cli, server,
		                CLI_ARGS("run", "-n", "--dialect", object->dialect, "command", "true")),
		        75);
		cli_start(&cli, server,
		        CLI_ARGS("run", "--dialect", object->dialect, "command", "sh", "-c",
		                "echo in; read line; exit 7"));
		assert_true(WAIT_UNTIL(subscribers(object->channels) > 0, 10000));
		java_does(&java, "a", "ok", "a unlock %s command", object->java);
		assert_true(cli_wait_out(&cli, "in", 10000));
		java_does(&java, "a", "false", "a try %s command 0", object->java);
		java_say(&java, "a lock %s command", object->java);
		assert_int_equal(cli_wait(&cli, 10000), 7);
		java_expect(&java, "a", "ok");
		java_does(&java, "a", "ok", "a unlock %s command", object->java);
	}
}

/* ---- All of it at random ------------------------------------------------------------------------*/

static void at_random_with_readers(void **state) {
	(void)state;
	mix_run(&java, server, "write", "redisson:rwlock", 30000);
}

static void at_random_without_readers(void **state) {
	(void)state;
	mix_run(&java, server, "lock", "redisson:lock", 4000);
	mix_run(&java, server, "fair", "redisson:fair", 4000);
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
