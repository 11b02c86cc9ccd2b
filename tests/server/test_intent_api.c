/* SPDX-License-Identifier: MIT */
/* The intent layout through the public interface: what its scripts do not know is counted in the process,
 * and a writer that waits keeps new readers out. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "actor.h"
#include "locks.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

static const char *intent_url(void) {
	static char url[TEST_URL_MAX];
	return test_url_with(server, url, "dialect=intent");
}

static sneck_hold *take_as(sneck_client *client, uint64_t owner, sneck_mode mode) {
	sneck_acquire_options options = test_waiting(1000);
	options.owner = owner;
	return test_take_opts(client, "door", mode, &options);
}

static bool mode_is(const char *mode) {
	redisReply *reply = test_redis(server, "HGET door mode");
	bool same = reply->type == REDIS_REPLY_STRING && strcmp(reply->str, mode) == 0;
	freeReplyObject(reply);
	return same;
}

static long long timeout_keys(void) {
	return test_count_keys(server, "{door}:*:rwlock_timeout:*");
}

static bool is_marked(void) {
	return test_redis_int(server, "EXISTS {door}:wait_write") == 1;
}

static void a_writer_holds_again_over_one_hold(void **state) {
	(void)state;
	sneck_client *client = test_open(intent_url());
	sneck_hold *one = take_as(client, 1, SNECK_WRITE);
	sneck_hold *two = take_as(client, 1, SNECK_WRITE), *read = take_as(client, 1, SNECK_READ);
	assert_true(mode_is("write"));
	test_release(one);
	test_release(two);
	/* Its read hold stays covered by the write on the server: the layout has no way back. */
	assert_true(mode_is("write"));
	assert_true(sneck_check(read, 1000));
	assert_int_equal(test_redis_int(server, "HLEN door"), 2);
	test_release(read);
	assert_int_equal(test_redis_int(server, "DBSIZE"), 0);
	sneck_close(client);
}

static void a_reader_holds_again_and_is_counted(void **state) {
	(void)state;
	sneck_client *client = test_open(intent_url());
	sneck_hold *one = take_as(client, 1, SNECK_READ), *two = take_as(client, 1, SNECK_READ);
	assert_true(WAIT_UNTIL(timeout_keys() == 2, 2000));
	assert_int_equal(test_redis_int(server, "HLEN door"), 2);
	test_release(one);
	assert_true(WAIT_UNTIL(timeout_keys() == 1, 2000));
	test_release(two);
	assert_int_equal(test_redis_int(server, "DBSIZE"), 0);
	sneck_close(client);
}

/* The document's script would refuse it, and the writer would wait for it: for ever. */
static void a_reader_holds_again_while_the_mark_stands(void **state) {
	(void)state;
	sneck_client *a = test_open(intent_url()), *b = test_open(intent_url());
	struct test_call call;
	sneck_hold *one = take_as(a, 1, SNECK_READ);
	test_call_start(&call, b, "door", SNECK_WRITE, NULL);
	assert_true(WAIT_UNTIL(is_marked(), 2000));
	sneck_hold *two = take_as(a, 1, SNECK_READ);
	sneck_client *c = test_open(intent_url());
	assert_result(SNECK_EBUSY, test_probe(c, "door", SNECK_READ), NULL);
	test_release(one);
	assert_false(atomic_load(&call.done));
	test_release(two);
	assert_result(0, test_call_join(&call), &call.error);
	assert_false(is_marked());
	test_release(call.hold);
	sneck_close(a);
	sneck_close(b);
	sneck_close(c);
}

static void readers_do_not_starve_a_writer(void **state) {
	(void)state;
	sneck_client *a = test_open(intent_url()), *b = test_open(intent_url()), *c = test_open(intent_url());
	struct test_call writer, reader;
	sneck_hold *read = take_as(a, 1, SNECK_READ);
	test_call_start(&writer, b, "door", SNECK_WRITE, NULL);
	assert_true(WAIT_UNTIL(is_marked(), 2000));
	test_call_start(&reader, c, "door", SNECK_READ, NULL);
	assert_true(WAIT_UNTIL(test_stats(c).beats > 2, 5000)); /* it has been refused more than once */
	test_release(read);
	assert_result(0, test_call_join(&writer), &writer.error);
	assert_false(atomic_load(&reader.done));
	test_release(writer.hold);
	assert_result(0, test_call_join(&reader), &reader.error);
	test_release(reader.hold);
	sneck_close(a);
	sneck_close(b);
	sneck_close(c);
}

/* The mark lasts as long as the writer waits, not longer and not less. */
static void the_mark_is_refreshed_and_removed(void **state) {
	(void)state;
	sneck_client *a = test_open(intent_url()), *b = test_open(intent_url());
	struct test_call call;
	sneck_acquire_options wait = test_waiting(5000);
	sneck_hold *read = take_as(a, 1, SNECK_READ);
	wait.tag = 7;
	test_call_start(&call, b, "door", SNECK_WRITE, &wait);
	assert_true(WAIT_UNTIL(is_marked(), 2000));
	test_redis_ok(server, "PEXPIRE {door}:wait_write 2000");
	assert_true(WAIT_UNTIL(test_redis_int(server, "PTTL {door}:wait_write") > 2500, 2000));
	assert_int_equal(sneck_cancel(b, 7), 1);
	assert_result(SNECK_ECANCELED, test_call_join(&call), NULL);
	assert_true(WAIT_UNTIL(!is_marked(), 1000));
	assert_result(0, test_probe(b, "door", SNECK_READ), NULL);
	test_release(read);
	sneck_close(a);
	sneck_close(b);
}

static void the_mark_of_a_killed_writer_goes_by_itself(void **state) {
	(void)state;
	sneck_client *client = test_open(intent_url());
	struct test_proc proc;
	sneck_hold *read = take_as(client, 1, SNECK_READ);
	test_actor_start(&proc, intent_url());
	test_actor_expect(&proc, "waiting", "wait door w 20000 1000");
	assert_true(WAIT_UNTIL(is_marked(), 2000));
	test_proc_signal(&proc, SIGKILL);
	int64_t killed_ms = test_now_ms();
	sneck_hold *next = take_as(client, 1, SNECK_READ); /* re-entry at once */
	sneck_client *other = test_open(intent_url());
	sneck_hold *new = test_take(other, "door", SNECK_READ, 10000);
	assert_true(test_now_ms() - killed_ms < SNECK_WAITER_LEASE_MS + 500 + TEST_SLACK_MS);
	test_release(read);
	test_release(next);
	test_release(new);
	sneck_close(client);
	sneck_close(other);
}

static void a_reader_cannot_come_to_write(void **state) {
	(void)state;
	sneck_client *client = test_open(intent_url());
	sneck_acquire_options wait = test_waiting(5000);
	sneck_error error = { 0 };
	sneck_hold *read = take_as(client, 1, SNECK_READ), *write = NULL;
	wait.owner = 1;
	int64_t asked_ms = test_now_ms();
	assert_result(SNECK_EDEADLK, sneck_acquire(client, "door", SNECK_WRITE, &wait, &write, &error), NULL);
	assert_true(test_now_ms() - asked_ms < 1000);
	assert_result(SNECK_ENOTSUP, sneck_upgrade(read, &wait, &error), NULL);
	assert_true(sneck_check(read, 1000));
	test_release(read);
	write = take_as(client, 1, SNECK_WRITE);
	assert_result(SNECK_ENOTSUP, sneck_downgrade(write, &error), NULL);
	assert_true(mode_is("write"));
	test_release(write);
	sneck_close(client);
}

/* One reader of several dies; the others' lease does not keep it, and the writer does not wait for it. */
static void a_dead_reader_dies_although_others_live(void **state) {
	(void)state;
	sneck_client *a = test_open(intent_url()), *b = test_open(intent_url());
	struct test_proc proc;
	test_actor_start(&proc, intent_url());
	test_actor_expect(&proc, "ok", "take door r 1000 700");
	sneck_hold *read = take_as(a, 1, SNECK_READ);
	test_proc_signal(&proc, SIGKILL);
	assert_true(WAIT_UNTIL(timeout_keys() == 1, 2000));
	test_release(read);
	assert_result(0, test_probe(b, "door", SNECK_WRITE), NULL);
	sneck_close(a);
	sneck_close(b);
}

int main(int argc, char **argv) {
	if (argc > 1)
		return test_actor_main(argc, argv);
	const struct CMUnitTest tests[] = {
		TEST(a_writer_holds_again_over_one_hold),
		TEST(a_reader_holds_again_and_is_counted),
		TEST(a_reader_holds_again_while_the_mark_stands),
		TEST(readers_do_not_starve_a_writer),
		TEST(the_mark_is_refreshed_and_removed),
		TEST(the_mark_of_a_killed_writer_goes_by_itself),
		TEST(a_reader_cannot_come_to_write),
		TEST(a_dead_reader_dies_although_others_live),
	};
	return TEST_RUN(tests);
}
