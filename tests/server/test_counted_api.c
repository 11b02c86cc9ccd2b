/* SPDX-License-Identifier: MIT */
/* The counted layout through the public interface: what the lock table of the process makes of it on the
 * server. Counts are told to the server without being waited for, so they are waited for here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "locks.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

static sneck_client *open_counted(void) {
	char url[TEST_URL_MAX];
	return test_open(test_url_with(server, url, "dialect=counted"));
}

static bool has(const char *field, const char *value) {
	redisReply *reply = test_redis(server, "HGET door %s", field);
	bool same = value ? reply->type == REDIS_REPLY_STRING && strcmp(reply->str, value) == 0
	                  : reply->type == REDIS_REPLY_NIL;
	freeReplyObject(reply);
	return same;
}

/* `mode`, `rcount` and `wcount` come to be these; NULL: no such field. */
static void assert_comes_to(const char *mode, const char *rcount, const char *wcount) {
	assert_true(WAIT_UNTIL(has("mode", mode), 2000));
	assert_true(WAIT_UNTIL(has("rcount", rcount), 2000));
	assert_true(WAIT_UNTIL(has("wcount", wcount), 2000));
}

static sneck_hold *take_as(sneck_client *client, uint64_t owner, sneck_mode mode) {
	sneck_acquire_options options = test_waiting(1000);
	options.owner = owner;
	return test_take_opts(client, "door", mode, &options);
}

static void re_entry_is_counted_on_the_server(void **state) {
	(void)state;
	sneck_client *client = open_counted();
	sneck_hold *one = take_as(client, 1, SNECK_WRITE);
	assert_comes_to("write", NULL, "1");
	sneck_hold *two = take_as(client, 1, SNECK_WRITE);
	sneck_hold *read = take_as(client, 1, SNECK_READ);
	assert_comes_to("write", "1", "2");
	test_release(one);
	assert_comes_to("write", "1", "1");
	sneck_hold *read_again = take_as(client, 1, SNECK_READ);
	assert_comes_to("write", "2", "1");
	test_release(two); /* the last write: back to read mode, with the reads that are left */
	assert_comes_to("read", "2", NULL);
	assert_int_equal(test_redis_int(server, "HLEN door"), 3);
	test_release(read);
	assert_comes_to("read", "1", NULL);
	test_release(read_again);
	assert_int_equal(test_redis_int(server, "EXISTS door"), 0);
	sneck_close(client);
}

static void the_last_read_under_a_write_removes_rcount(void **state) {
	(void)state;
	sneck_client *client = open_counted();
	sneck_hold *write = take_as(client, 1, SNECK_WRITE);
	sneck_hold *read = take_as(client, 1, SNECK_READ);
	assert_comes_to("write", "1", "1");
	test_release(read);
	assert_comes_to("write", NULL, "1");
	assert_int_equal(test_redis_int(server, "HLEN door"), 3);
	test_release(write);
	assert_int_equal(test_redis_int(server, "EXISTS door"), 0);
	sneck_close(client);
}

static void every_reader_is_counted(void **state) {
	(void)state;
	sneck_client *a = open_counted(), *b = open_counted();
	sneck_hold *holds[3];
	for (uint64_t i = 0; i < 3; i++)
		holds[i] = take_as(i < 2 ? a : b, i + 1, SNECK_READ);
	assert_comes_to("read", "3", NULL);
	for (uint64_t i = 0; i < 3; i++)
		test_release(holds[i]);
	assert_int_equal(test_redis_int(server, "EXISTS door"), 0);
	sneck_close(a);
	sneck_close(b);
}

static void a_sole_reader_becomes_the_writer(void **state) {
	(void)state;
	sneck_client *a = open_counted(), *b = open_counted();
	sneck_acquire_options now = test_waiting(0);
	sneck_hold *read = take_as(a, 1, SNECK_READ), *other = take_as(b, 1, SNECK_READ);
	assert_result(SNECK_EBUSY, sneck_upgrade(read, &now, NULL), NULL);
	assert_comes_to("read", "2", NULL);
	test_release(other);
	assert_result(0, sneck_upgrade(read, &now, NULL), NULL);
	assert_comes_to("write", NULL, "1");
	assert_result(SNECK_EBUSY, test_probe(b, "door", SNECK_READ), NULL);
	assert_result(0, sneck_downgrade(read, NULL), NULL);
	assert_comes_to("read", "1", NULL);
	assert_result(0, test_probe(b, "door", SNECK_READ), NULL);
	sneck_hold *write = take_as(a, 1, SNECK_WRITE); /* WRITE over READ */
	assert_comes_to("write", "1", "1");
	test_release(read);
	test_release(write);
	assert_int_equal(test_redis_int(server, "EXISTS door"), 0);
	sneck_close(a);
	sneck_close(b);
}

static void of_two_upgraders_one_is_told(void **state) {
	(void)state;
	sneck_client *a = open_counted(), *b = open_counted();
	sneck_acquire_options wait = test_waiting(10000);
	sneck_hold *one = take_as(a, 1, SNECK_READ), *two = take_as(b, 1, SNECK_READ);
	struct test_call call;
	test_call_start_upgrade(&call, one, &wait);
	assert_true(WAIT_UNTIL(test_redis_int(server, "EXISTS {door}:sneck_upgrader") == 1, 2000));
	assert_result(SNECK_EDEADLK, sneck_upgrade(two, &wait, NULL), NULL);
	assert_false(atomic_load(&call.done));
	int64_t released_ms = test_now_ms();
	test_release(two);
	assert_result(0, test_call_join(&call), &call.error);
	assert_true(call.end_ms - released_ms < 100 + TEST_SLACK_MS);
	assert_comes_to("write", NULL, "1");
	assert_int_equal(test_redis_int(server, "EXISTS {door}:sneck_upgrader"), 0);
	test_release(one);
	sneck_close(a);
	sneck_close(b);
}

static void an_upgrade_given_up_leaves_the_read_hold(void **state) {
	(void)state;
	sneck_client *a = open_counted(), *b = open_counted();
	sneck_acquire_options wait = test_waiting(150);
	sneck_hold *one = take_as(a, 1, SNECK_READ), *two = take_as(b, 1, SNECK_READ);
	assert_result(SNECK_ETIMEDOUT, sneck_upgrade(one, &wait, NULL), NULL);
	assert_true(WAIT_UNTIL(test_redis_int(server, "EXISTS {door}:sneck_upgrader") == 0, 2000));
	assert_true(sneck_check(one, 1000));
	assert_comes_to("read", "2", NULL);
	test_release(one);
	test_release(two);
	sneck_close(a);
	sneck_close(b);
}

/* A fixed hold is an owner of its own, and its end is its own; the lock's expiry is everybody's. */
static void a_fixed_reader_ends_beside_others(void **state) {
	(void)state;
	sneck_client *client = open_counted();
	sneck_acquire_options fixed = test_waiting(0);
	fixed.owner = 2;
	fixed.fixed = 1;
	fixed.lease_ms = 300;
	sneck_hold *one = take_as(client, 1, SNECK_READ);
	sneck_hold *two = test_take_opts(client, "door", SNECK_READ, &fixed);
	assert_comes_to("read", "2", NULL);
	assert_int_equal(test_redis_int(server, "HLEN door"), 4);
	assert_true(WAIT_UNTIL(sneck_hold_state(two) == SNECK_LOST, 1000));
	assert_comes_to("read", "1", NULL); /* its owner goes, because this program sees to it */
	assert_true(sneck_check(one, 1000));
	test_release(one);
	(void)sneck_release(two);
	sneck_close(client);
}

static void the_prefix_goes_before_the_name(void **state) {
	(void)state;
	char url[TEST_URL_MAX];
	sneck_client *client = test_open(test_url_with(server, url, "dialect=counted&prefix=app:"));
	sneck_lock_list *list = NULL;
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 5000);
	test_redis_ok(server, "HSET door mode write writer x wcount 1");
	assert_int_equal(test_redis_int(server, "HEXISTS app:door writer"), 1);
	assert_result(0, sneck_list(client, NULL, &list, NULL), NULL);
	assert_int_equal(list->n, 1);
	assert_string_equal(list->locks[0]->name, "door");
	sneck_lock_list_free(list);
	test_release(hold);
	assert_int_equal(test_redis_int(server, "EXISTS app:door"), 0);
	sneck_close(client);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(re_entry_is_counted_on_the_server),
		TEST(the_last_read_under_a_write_removes_rcount),
		TEST(every_reader_is_counted),
		TEST(a_sole_reader_becomes_the_writer),
		TEST(of_two_upgraders_one_is_told),
		TEST(an_upgrade_given_up_leaves_the_read_hold),
		TEST(a_fixed_reader_ends_beside_others),
		TEST(the_prefix_goes_before_the_name),
	};
	return TEST_RUN(tests);
}
