/* SPDX-License-Identifier: MIT */
/* Redisson's locks through the public interface: what a program sees, and what the server has meanwhile. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sneck/inspect.h>

#include "locks.h"
#include "procs.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

static const char *const dialects[] = { "redisson:lock", "redisson:rwlock", "redisson:fenced",
	"redisson:fair", NULL };

static const char *url_of(const char *dialect, char out[TEST_URL_MAX]) {
	return test_url_with(server, out, "dialect=%s", dialect);
}

static sneck_client *open_as(const char *dialect) {
	char url[TEST_URL_MAX];
	return test_open(url_of(dialect, url));
}

/* Field `suffix` behind the only owner of the hash, as a number; 0: there is none. */
static long count_of(const char *name, const char *suffix) {
	redisReply *reply = test_redis(server, "HGETALL %s", name);
	long count = 0;
	size_t tail = strlen(suffix);

	for (size_t i = 0; reply && i + 1 < reply->elements; i += 2) {
		const redisReply *field = reply->element[i];
		bool write = field->len > 6 && strcmp(field->str + field->len - 6, ":write") == 0;
		if (strcmp(field->str, "mode") != 0 && write == (tail > 0))
			count += strtol(reply->element[i + 1]->str, NULL, 10);
	}
	freeReplyObject(reply);
	return count;
}

static bool is_gone(const char *name) {
	return test_redis_int(server, "EXISTS %s", name) == 0;
}

static bool somebody_listens(const char *channel) {
	return test_channels(server, channel) > 0;
}

static long channels_n(void) {
	return test_channels(server, "redisson_"); /* sentinels have one of their own */
}

/* ---- Which object -------------------------------------------------------------------------------*/

static void the_object_must_be_named(void **state) {
	(void)state;
	char url[TEST_URL_MAX];
	sneck_client *client = NULL;
	sneck_error error = { 0 };

	assert_result(SNECK_EINVAL, sneck_open(url_of("redisson", url), NULL, &client, &error), NULL);
	for (const char *const *dialect = dialects; *dialect; dialect++)
		assert_non_null(strstr(error.text, *dialect));
}

static void read_is_for_the_read_write_lock(void **state) {
	(void)state;
	for (const char *const *dialect = dialects; *dialect; dialect++) {
		if (strcmp(*dialect, "redisson:rwlock") == 0)
			continue;
		sneck_client *client = open_as(*dialect);
		sneck_hold *hold = NULL;
		sneck_error error = { 0 };
		assert_result(
		        SNECK_EINVAL, sneck_acquire(client, "t", SNECK_READ, NULL, &hold, &error), NULL);
		assert_non_null(strstr(error.text, "redisson:rwlock"));
		sneck_close(client);
	}
	sneck_client *client = open_as("redisson:rwlock");
	test_release(test_take(client, "t", SNECK_READ, 0));
	sneck_close(client);
}

static void tokens_are_the_fenced_locks(void **state) {
	(void)state;
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	options.need_token = 1;

	for (const char *const *dialect = dialects; *dialect; dialect++) {
		if (strcmp(*dialect, "redisson:fenced") == 0)
			continue;
		sneck_client *client = open_as(*dialect);
		sneck_hold *hold = NULL;
		assert_result(
		        SNECK_ENOTSUP, sneck_acquire(client, "t", SNECK_WRITE, &options, &hold, NULL), NULL);
		hold = test_take(client, "t", SNECK_WRITE, 0);
		assert_int_equal(sneck_hold_token(hold), 0);
		test_release(hold);
		sneck_close(client);
	}
	sneck_client *client = open_as("redisson:fenced");
	for (uint64_t token = 1; token <= 3; token++) {
		sneck_hold *hold = test_take_opts(client, "t", SNECK_WRITE, &options);
		assert_int_equal(sneck_hold_token(hold), token);
		test_release(hold);
	}
	sneck_close(client);
	assert_int_equal(test_redis_int(server, "GET redisson_lock_token:{t}"), 3);
}

static void no_lock_of_another_kind(void **state) {
	(void)state;
	sneck_client *mutex = open_as("redisson:lock"), *rwlock = open_as("redisson:rwlock");
	sneck_hold *hold = test_take(mutex, "t", SNECK_WRITE, 0), *none = NULL;
	sneck_acquire_options options = test_waiting(5000);
	sneck_error error = { 0 };

	assert_result(SNECK_ETYPE, sneck_acquire(rwlock, "t", SNECK_READ, &options, &none, &error), NULL);
	assert_result(SNECK_ETYPE, sneck_acquire(rwlock, "t", SNECK_WRITE, &options, &none, &error), NULL);
	assert_int_equal(test_redis_int(server, "HLEN t"), 1);
	test_release(hold);
	hold = test_take(rwlock, "t", SNECK_READ, 0);
	assert_result(SNECK_ETYPE, sneck_acquire(mutex, "t", SNECK_WRITE, &options, &none, &error), NULL);
	assert_int_equal(test_redis_int(server, "HLEN t"), 2);
	test_release(hold);
	sneck_close(mutex);
	sneck_close(rwlock);
}

/* ---- Every mutex --------------------------------------------------------------------------------*/

static void exclude_each_other(const char *dialect) {
	sneck_client *a = open_as(dialect), *b = open_as(dialect);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0), *none = NULL;
	sneck_error error = { 0 };

	assert_result(SNECK_EBUSY, sneck_acquire(b, "door", SNECK_WRITE, NULL, &none, &error), NULL);
	sneck_acquire_options options = test_waiting(200);
	assert_result(SNECK_ETIMEDOUT, sneck_acquire(b, "door", SNECK_WRITE, &options, &none, &error), NULL);
	assert_int_equal(sneck_hold_state(hold), SNECK_HELD);
	test_release(hold);
	assert_true(is_gone("door"));
	test_release(test_take(b, "door", SNECK_WRITE, 0));
	sneck_close(a);
	sneck_close(b);
	assert_true(is_gone("door"));
}

static void only_one_holds(void **state) {
	(void)state;
	for (const char *const *dialect = dialects; *dialect; dialect++)
		exclude_each_other(*dialect);
}

/* The shortest of a few: a busy machine makes it late, and a question in between (after 750 ms at the
 * least) could not make it early. */
static int64_t hand_over_ms(sneck_client *a, sneck_client *b, const char *channel) {
	struct test_call call;
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	uint64_t asked = test_stats(b).beats;

	test_call_start(&call, b, "door", SNECK_WRITE, NULL);
	assert_true(WAIT_UNTIL(somebody_listens(channel), 5000));
	/* Once it listens it asks again, and then not for a while. */
	assert_true(WAIT_UNTIL(test_stats(b).beats > asked, 5000));
	int64_t begin_ms = test_now_ms();
	test_release(hold);
	assert_result(0, test_call_join(&call), &call.error);
	int64_t took_ms = call.end_ms - begin_ms;
	test_release(call.hold);
	return took_ms;
}

static void check_wake_up(const char *dialect, const char *channel) {
	sneck_client *a = open_as(dialect), *b = open_as(dialect);
	int64_t best_ms = INT64_MAX;

	for (int i = 0; i < 20 && best_ms > 100; i++) {
		int64_t took_ms = hand_over_ms(a, b, channel);
		best_ms = took_ms < best_ms ? took_ms : best_ms;
	}
	assert_in_range(best_ms, 0, 100);
	sneck_close(a);
	sneck_close(b);
}

static void a_release_wakes_at_once(void **state) {
	(void)state;
	check_wake_up("redisson:lock", "redisson_lock__channel:{door}");
	check_wake_up("redisson:rwlock", "redisson_rwlock:{door}");
	check_wake_up("redisson:fenced", "redisson_lock__channel:{door}");
	check_wake_up("redisson:fair", "redisson_lock__channel:{door}:");
}

/* Whoever stops waiting stops listening, but for the last few channels of each connection, which is to each
 * server of a cluster; with the client all of them go. */
static void nobody_listens_in_vain(void **state) {
	(void)state;
	enum { LOCKS = 40, KEPT = 32 };
	sneck_client *a = open_as("redisson:lock"), *b = open_as("redisson:lock");
	int servers = server->peers ? (int)server->peers_n : 1;
	char name[16], channel[64];

	for (int i = 0; i < LOCKS * servers; i++) {
		struct test_call call;
		snprintf(name, sizeof name, "t%d", i);
		snprintf(channel, sizeof channel, "redisson_lock__channel:{t%d}", i);
		sneck_hold *hold = test_take(a, name, SNECK_WRITE, 0);
		test_call_start(&call, b, name, SNECK_WRITE, NULL);
		assert_true(WAIT_UNTIL(somebody_listens(channel), 5000));
		test_release(hold);
		assert_result(0, test_call_join(&call), &call.error);
		test_release(call.hold);
	}
	assert_true(WAIT_UNTIL(channels_n() <= KEPT * servers, 5000));
	sneck_close(b);
	assert_true(WAIT_UNTIL(channels_n() == 0, 5000));
	sneck_close(a);
}

static void re_entry_is_counted_there(void **state) {
	(void)state;
	sneck_client *client = open_as("redisson:lock");
	sneck_hold *holds[3];

	for (int i = 0; i < 3; i++)
		holds[i] = test_take(client, "t", SNECK_WRITE, 0);
	assert_true(WAIT_UNTIL(count_of("t", "") == 3, 5000));
	assert_int_equal(test_redis_int(server, "HLEN t"), 1);
	test_release(holds[2]);
	assert_true(WAIT_UNTIL(count_of("t", "") == 2, 5000));
	test_release(holds[1]);
	test_release(holds[0]);
	assert_true(WAIT_UNTIL(is_gone("t"), 5000));
	sneck_close(client);
}

static void the_watchdog_keeps_it(void **state) {
	(void)state;
	sneck_client *client = open_as("redisson:lock");
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	options.lease_ms = 1500;
	sneck_hold *hold = test_take_opts(client, "t", SNECK_WRITE, &options);
	int64_t until_ms = test_now_ms() + 3200;

	while (test_now_ms() < until_ms) /* what is watched is that nothing happens */
		assert_true(WAIT_UNTIL(!is_gone("t"), 0));
	assert_int_equal(sneck_hold_state(hold), SNECK_HELD);
	test_release(hold);
	sneck_close(client);
}

static void a_fixed_lease_ends_on_time(void **state) {
	(void)state;
	sneck_client *a = open_as("redisson:lock"), *b = open_as("redisson:lock");
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	options.lease_ms = 400;
	options.fixed = 1;
	int64_t begin_ms = test_now_ms();
	sneck_hold *hold = test_take_opts(a, "t", SNECK_WRITE, &options);
	sneck_hold *next = test_take(b, "t", SNECK_WRITE, 10000);

	/* The holder leaves a margin before its end, but no more; a busy machine makes it late. */
	assert_in_range(test_now_ms() - begin_ms, 395 - SNECK_SKEW_MS, 5000);
	assert_result(SNECK_ELOST, sneck_release(hold), NULL);
	assert_true(sneck_check(next, 0));
	test_release(next);
	sneck_close(a);
	sneck_close(b);
}

static void what_is_flushed_is_lost(void **state) {
	(void)state;
	for (const char *const *dialect = dialects; *dialect; dialect++) {
		sneck_client *client = open_as(*dialect);
		sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
		options.lease_ms = 1500;
		sneck_hold *hold = test_take_opts(client, "t", SNECK_WRITE, &options);
		test_redis_ok(server, "FLUSHALL");
		assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_LOST, 5000));
		assert_result(SNECK_ELOST, sneck_release(hold), NULL);
		assert_true(is_gone("t"));
		sneck_close(client);
	}
}

/* How long it takes to have the lock of a process that is killed while it holds it for a second. */
static int64_t outlive_ms(const char *dialect) {
	char url[TEST_URL_MAX], line[64];
	struct test_proc proc;
	const char *args[] = { "hold", url_of(dialect, url), NULL };

	test_proc_start(&proc, args);
	assert_true(test_proc_line(&proc, line, sizeof line, 30000));
	assert_string_equal(line, "held");
	test_proc_signal(&proc, SIGKILL);
	sneck_client *client = open_as(dialect);
	int64_t begin_ms = test_now_ms();
	sneck_hold *hold = test_take(client, "t", SNECK_WRITE, 10000);
	int64_t took_ms = test_now_ms() - begin_ms;
	test_release(hold);
	sneck_close(client);
	return took_ms;
}

/* The shortest of some: a busy machine makes it late. */
static void a_killed_process_is_over_after_its_lease(void **state) {
	(void)state;
	for (const char *const *dialect = dialects; *dialect; dialect++) {
		int64_t best_ms = INT64_MAX;
		for (int i = 0; i < 5 && best_ms > 1000 + TEST_SLACK_MS; i++) {
			int64_t took_ms = outlive_ms(*dialect);
			best_ms = took_ms < best_ms ? took_ms : best_ms;
		}
		assert_in_range(best_ms, 0, 1000 + TEST_SLACK_MS);
	}
}

static void what_cannot_be_done_is_said(void **state) {
	(void)state;
	sneck_client *client = open_as("redisson:rwlock");
	sneck_acquire_options options = test_waiting(1000);
	sneck_error error = { 0 };
	char id[SNECK_ID_MAX];
	sneck_hold *read = test_take(client, "t", SNECK_READ, 0), *none = NULL;

	assert_result(SNECK_ENOTSUP, sneck_upgrade(read, &options, &error), NULL);
	assert_non_null(strstr(error.text, "release READ first"));
	assert_result(SNECK_EDEADLK, sneck_acquire(client, "t", SNECK_WRITE, &options, &none, &error), NULL);
	assert_result(SNECK_ENOTSUP, sneck_detach(read, 0, id, &error), NULL);
	assert_non_null(strstr(error.text, "redisson:rwlock"));
	assert_int_equal(sneck_hold_state(read), SNECK_HELD);
	test_release(read);
	sneck_close(client);
	assert_true(is_gone("t"));

	client = open_as("redisson:lock");
	sneck_hold *hold = test_take(client, "t", SNECK_WRITE, 0);
	assert_result(SNECK_ENOTSUP, sneck_downgrade(hold, &error), NULL);
	test_release(hold);
	sneck_close(client);
}

/* ---- Looking ------------------------------------------------------------------------------------*/

static void it_can_be_looked_at(void **state) {
	(void)state;
	sneck_client *client = open_as("redisson:rwlock"), *other = open_as("redisson:rwlock");
	sneck_hold *a = test_take(client, "t", SNECK_READ, 0), *b = test_take(other, "t", SNECK_READ, 0);
	sneck_lock_info *info = NULL;
	sneck_lock_list *list = NULL;

	test_redis_ok(server, "HSET something else 1 and more");
	test_redis_ok(server, "SET string x");
	assert_result(0, sneck_inspect(client, "t", 1, 10, &info, NULL), NULL);
	assert_int_equal(info->mode, SNECK_READ);
	assert_int_equal(info->holder_n, 2);
	assert_int_equal(info->party_n, 2);
	assert_int_equal(info->parties[0].kind, SNECK_PARTY_HOLDER);
	assert_int_equal(info->parties[0].id[0], 'R');
	assert_in_range(info->parties[0].lease_left_ms, 20000, 30000);
	sneck_lock_info_free(info);
	assert_result(0, sneck_list(client, NULL, &list, NULL), NULL);
	assert_int_equal(list->n, 1);
	assert_string_equal(list->locks[0]->name, "t");
	sneck_lock_list_free(list);
	test_release(a);
	test_release(b);
	sneck_close(client);
	sneck_close(other);
}

static void it_can_be_broken(void **state) {
	(void)state;
	for (const char *const *dialect = dialects; *dialect; dialect++) {
		sneck_client *victim = open_as(*dialect), *other = open_as(*dialect);
		sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
		options.lease_ms = 1500;
		sneck_hold *hold = test_take_opts(victim, "t", SNECK_WRITE, &options);
		sneck_lock_info *info = NULL;
		sneck_error error = { 0 };
		assert_result(0, sneck_inspect(other, "t", 1, 10, &info, NULL), NULL);
		assert_int_equal(info->party_n, 1);
		const char *id = info->parties[0].id;
		assert_result(SNECK_ENOTSUP, sneck_break(other, "t", 1, id, "x", 1000, &error), NULL);
		assert_non_null(strstr(error.text, "--now"));
		assert_result(SNECK_ENOTHELD, sneck_break(other, "t", 1, "Wnobody:1", "x", 0, &error), NULL);
		assert_result(0, sneck_break(other, "t", 1, id, "x", 0, &error), &error);
		sneck_lock_info_free(info);
		test_release(test_take(other, "t", SNECK_WRITE, 0));
		assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_LOST, 5000));
		assert_result(SNECK_ELOST, sneck_release(hold), NULL);
		sneck_close(victim);
		sneck_close(other);
	}
}

/* ---- The read-write lock ------------------------------------------------------------------------*/

static void readers_share_and_writers_do_not(void **state) {
	(void)state;
	sneck_client *a = open_as("redisson:rwlock"), *b = open_as("redisson:rwlock");
	sneck_hold *x = test_take(a, "t", SNECK_READ, 0), *y = test_take(b, "t", SNECK_READ, 0);

	sneck_client *c = open_as("redisson:rwlock");
	assert_result(SNECK_EBUSY, test_probe(c, "t", SNECK_WRITE), NULL);
	test_release(x);
	assert_result(SNECK_EBUSY, test_probe(c, "t", SNECK_WRITE), NULL);
	assert_int_equal(count_of("t", ""), 1);
	test_release(y);
	sneck_hold *w = test_take(c, "t", SNECK_WRITE, 0);
	assert_result(SNECK_EBUSY, test_probe(a, "t", SNECK_READ), NULL);
	assert_result(SNECK_EBUSY, test_probe(a, "t", SNECK_WRITE), NULL);
	test_release(w);
	sneck_close(a);
	sneck_close(b);
	sneck_close(c);
}

static void a_writer_reads_and_comes_down(void **state) {
	(void)state;
	sneck_client *a = open_as("redisson:rwlock"), *b = open_as("redisson:rwlock");
	sneck_hold *write = test_take(a, "t", SNECK_WRITE, 0), *read = test_take(a, "t", SNECK_READ, 0);

	assert_true(WAIT_UNTIL(count_of("t", "") == 1 && count_of("t", ":write") == 1, 5000));
	struct test_call call;
	test_call_start(&call, b, "t", SNECK_READ, NULL);
	assert_true(WAIT_UNTIL(somebody_listens("redisson_rwlock:{t}"), 5000));
	int64_t begin_ms = test_now_ms();
	test_release(write); /* it reads on: whoever waits to read is woken */
	assert_result(0, test_call_join(&call), &call.error);
	assert_in_range(call.end_ms - begin_ms, 0, 5000); /* the lease has 30 s */
	assert_int_equal(count_of("t", ""), 2);
	assert_int_equal(count_of("t", ":write"), 0);
	assert_int_equal(sneck_hold_state(read), SNECK_HELD);
	assert_result(SNECK_EBUSY, test_probe(b, "t", SNECK_WRITE), NULL);
	test_release(read);
	assert_int_equal(count_of("t", ""), 1);
	test_release(call.hold);
	assert_true(is_gone("t"));

	write = test_take(a, "t", SNECK_WRITE, 0);
	assert_result(0, sneck_downgrade(write, NULL), NULL);
	assert_int_equal(sneck_hold_mode(write), SNECK_READ);
	test_release(test_take(b, "t", SNECK_READ, 0));
	test_release(write);
	assert_true(is_gone("t"));
	sneck_close(a);
	sneck_close(b);
}

/* A reader that died keeps nobody out for longer than its own lease, although others renew theirs. */
static void a_dead_reader_is_passed_over(void **state) {
	(void)state;
	char url[TEST_URL_MAX], line[64];
	struct test_proc proc;
	const char *args[] = { "hold-read", url_of("redisson:rwlock", url), NULL };
	sneck_client *a = open_as("redisson:rwlock"), *b = open_as("redisson:rwlock");
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;

	options.lease_ms = 60000;
	sneck_hold *read = test_take_opts(a, "t", SNECK_READ, &options);
	test_proc_start(&proc, args);
	assert_true(test_proc_line(&proc, line, sizeof line, 10000));
	test_proc_signal(&proc, SIGKILL);
	assert_int_equal(count_of("t", ""), 2);
	test_release(read); /* the hash still has a minute, the dead one less than a second */
	int64_t begin_ms = test_now_ms();
	test_release(test_take(b, "t", SNECK_WRITE, 10000));
	assert_in_range(test_now_ms() - begin_ms, 0, 8000); /* the hash has a minute */
	sneck_close(a);
	sneck_close(b);
}

/* ---- The other process --------------------------------------------------------------------------*/

static int hold_and_wait(const char *url, sneck_mode mode) {
	sneck_client *client = NULL;
	sneck_hold *hold = NULL;
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;

	options.lease_ms = 1000;
	if (sneck_open(url, NULL, &client, NULL) != 0 ||
	        sneck_acquire(client, "t", mode, &options, &hold, NULL) != 0)
		return 1;
	puts("held");
	fflush(stdout);
	return getchar();
}

int main(int argc, char **argv) {
	if (argc == 3)
		return hold_and_wait(argv[2], strcmp(argv[1], "hold") == 0 ? SNECK_WRITE : SNECK_READ);
	const struct CMUnitTest tests[] = {
		TEST(the_object_must_be_named),
		TEST(read_is_for_the_read_write_lock),
		TEST(tokens_are_the_fenced_locks),
		TEST(no_lock_of_another_kind),
		TEST(only_one_holds),
		TEST(a_release_wakes_at_once),
		TEST(nobody_listens_in_vain),
		TEST(re_entry_is_counted_there),
		TEST(the_watchdog_keeps_it),
		TEST(a_fixed_lease_ends_on_time),
		TEST(what_is_flushed_is_lost),
		TEST(a_killed_process_is_over_after_its_lease),
		TEST(what_cannot_be_done_is_said),
		TEST(it_can_be_looked_at),
		TEST(it_can_be_broken),
		TEST(readers_share_and_writers_do_not),
		TEST(a_writer_reads_and_comes_down),
		TEST(a_dead_reader_is_passed_over),
	};
	return TEST_RUN(tests);
}
