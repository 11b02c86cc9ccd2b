/* SPDX-License-Identifier: MIT */
/* Rules that docs/requirements.md takes over from the documents on Redis locks, where no other program
 * shows them: the table of operations for each state of a lock, how long it lasts when one of several
 * readers leaves, what a waiting writer does to readers, and what other owners can do to a hold. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "locks.h"
#include "topology.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

/* ---- The table of operations ------------------------------------------------------------------*/

/* What is held before: 'r' and 'w' by oneself, 'R' and 'W' by another. Then what a read and a write
 * acquire without waiting give (+ or -), and what the server has after each: its holders. */
static const struct {
	const char *held;
	char read, write;
	const char *after_read;  /* "" when refused: nothing changes */
	const char *after_write; /* own holds of one session are one holder */
} table[] = {
	{ "", '+', '+', "R", "W" },
	{ "r", '+', '+', "R", "W" }, /* the sole reader becomes the writer */
	{ "rr", '+', '+', "R", "W" },
	{ "w", '+', '+', "W", "W" },
	{ "ww", '+', '+', "W", "W" },
	{ "wr", '+', '+', "W", "W" },
	{ "rw", '+', '+', "W", "W" },
	{ "R", '+', '-', "RR", "" },
	{ "rR", '+', '-', "RR", "" },
	{ "rrR", '+', '-', "RR", "" },
	{ "W", '-', '-', "", "" },
};
enum { ROWS = sizeof(table) / sizeof(*table), HELD_MAX = 4 };

struct scene {
	sneck_client *own;
	sneck_client *other; /* another session, or the same one */
	sneck_hold *holds[HELD_MAX];
	int holds_n;
};

static sneck_acquire_options owned(uint64_t owner) {
	sneck_acquire_options options = test_waiting(0);
	options.owner = owner;
	return options;
}

static void set_scene(struct scene *scene, const char *held) {
	scene->holds_n = 0;
	for (; *held; held++) {
		bool another = *held == 'R' || *held == 'W';
		sneck_acquire_options options = owned(another ? 2 : 1);
		scene->holds[scene->holds_n++] = test_take_opts(another ? scene->other : scene->own, "door",
		        *held == 'r' || *held == 'R' ? SNECK_READ : SNECK_WRITE, &options);
	}
}

static void clear_scene(struct scene *scene) {
	while (scene->holds_n > 0)
		test_release(scene->holds[--scene->holds_n]);
	assert_true(test_is_idle(server, "door"));
}

static void assert_holders(struct scene *scene, const char *held, const char *holders, const char *what) {
	long reads = 0, writes = 0;
	for (; *holders; holders++)
		*holders == 'W' ? writes++ : reads++;
	if (scene->own == scene->other && reads > 1)
		reads = 1; /* readers of one session are one holder */
	if (test_members(server, "door", "R") != reads || test_members(server, "door", "W") != writes)
		fail_msg("'%s', %s: not R %ld, W %ld", held, what, reads, writes);
}

static void check_row(struct scene *scene, int row, sneck_mode mode) {
	const char *held = table[row].held;
	bool reads = mode == SNECK_READ;
	bool granted = (reads ? table[row].read : table[row].write) == '+';
	const char *after = reads ? table[row].after_read : table[row].after_write;
	set_scene(scene, held);
	long before_r = test_members(server, "door", "R"), before_w = test_members(server, "door", "W");
	sneck_acquire_options options = owned(1);
	sneck_hold *hold = NULL;
	sneck_error error = { 0 };
	int r = sneck_acquire(scene->own, "door", mode, &options, &hold, &error);
	if (r != (granted ? 0 : SNECK_EBUSY))
		fail_msg("'%s', %s: %s", held, reads ? "read" : "write", r ? error.text : "granted");
	if (granted) {
		assert_holders(scene, held, after, reads ? "read" : "write");
		test_release(hold);
	}
	/* Refused, or taken and given back: as before. A write that was taken over reads turns back. */
	assert_int_equal(test_members(server, "door", "R"), before_r);
	assert_int_equal(test_members(server, "door", "W"), before_w);
	clear_scene(scene);
}

static void the_table_of_operations(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	for (int row = 0; row < ROWS; row++)
		for (int local = 0; local < 2; local++) { /* the other: in another session, or beside us */
			struct scene scene = { .own = a, .other = local ? a : b };
			check_row(&scene, row, SNECK_READ);
			check_row(&scene, row, SNECK_WRITE);
		}
	sneck_close(a);
	sneck_close(b);
}

/* ---- How long ---------------------------------------------------------------------------------*/

static double latest_holder(void) {
	char key[160];
	redisReply *reply = test_redis(
	        server, "ZREVRANGEBYSCORE %s (100000000000000 0 WITHSCORES LIMIT 0 1", test_key("door", key));
	assert_non_null(reply);
	double score = reply->elements == 2 ? strtod(reply->element[1]->str, NULL) : 0;
	freeReplyObject(reply);
	return score;
}

/* One reads twice, another once: each release takes one away, and the lock lasts as long as the longest
 * of those who are left. */
static void the_lock_lasts_as_long_as_its_longest_reader(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_acquire_options options = test_waiting(0);
	options.fixed = 1;
	options.lease_ms = 20000;
	sneck_hold *first = test_take_opts(a, "door", SNECK_READ, &options);
	double first_end = latest_holder();
	options.lease_ms = 40000;
	sneck_hold *again = test_take_opts(a, "door", SNECK_READ, &options);
	double again_end = latest_holder();
	assert_true(again_end >= first_end + 15000);
	options.lease_ms = 10000;
	sneck_hold *other = test_take_opts(b, "door", SNECK_READ, &options);
	assert_true(latest_holder() == again_end);
	test_release(again);
	assert_true(latest_holder() == first_end);
	test_release(first);
	assert_true(latest_holder() < first_end);
	assert_true(sneck_check(other, 5000));
	assert_result(SNECK_EBUSY, test_probe(a, "door", SNECK_WRITE), NULL);
	test_release(other);
	assert_true(latest_holder() == 0);
	assert_result(0, test_probe(a, "door", SNECK_WRITE), NULL);
	sneck_close(a);
	sneck_close(b);
}

/* ---- Write intent -----------------------------------------------------------------------------*/

static void a_writer_that_gives_up_lets_readers_in_again(void **state) {
	(void)state;
	sneck_client *reader = test_open(server->url);
	sneck_client *writer = test_open(server->url);
	sneck_client *newcomer = test_open(server->url);
	sneck_hold *hold = test_take(reader, "door", SNECK_READ, 0);
	struct test_call writes, reads;
	sneck_acquire_options tagged = test_waiting(10000);
	tagged.tag = 1;
	test_call_start(&writes, writer, "door", SNECK_WRITE, &tagged);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	assert_result(SNECK_EBUSY, test_probe(newcomer, "door", SNECK_READ), NULL);
	test_release(test_take(reader, "door", SNECK_READ, 0)); /* who is in comes in again */
	test_call_start(&reads, newcomer, "door", SNECK_READ, NULL);
	/* Who does not listen yet hears of nothing, and asks once it does: that takes as long as a
	 * connection. */
	assert_true(WAIT_UNTIL(test_members(server, "door", "r") == 1 &&
	                               test_channels(server, sneck_client_session(newcomer)) > 0,
	        5000));
	assert_int_equal(sneck_cancel(writer, 1), 1);
	int64_t start_ms = test_now_ms();
	assert_result(SNECK_ECANCELED, test_call_join(&writes), &writes.error);
	assert_result(0, test_call_join(&reads), &reads.error); /* at once: nobody is in its way */
	/* A message is late where the machine is busy. An answer that comes late is a heartbeat's, and would
	 * mean that the grant was missed. */
	sneck_counters counters = test_stats(newcomer);
	int64_t most_ms = counters.grants_by_message > 0 ? SNECK_WAITER_BEAT_MS : TEST_SLACK_MS;
	if (reads.end_ms - start_ms > most_ms)
		fail_msg("after %d ms; by message %d, by beat %d, %d beats", (int)(reads.end_ms - start_ms),
		        (int)counters.grants_by_message, (int)counters.grants_by_beat, (int)counters.beats);
	assert_int_equal(test_members(server, "door", "R"), 2);
	test_release(reads.hold);
	test_release(hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(reader);
	sneck_close(writer);
	sneck_close(newcomer);
}

static void a_name_with_braces_and_colons(void **state) {
	(void)state;
	static const char name[] = "{test}:abc:key", key[] = "sneck:{%7Btest%7D:abc:key}";
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_hold *hold = test_take(a, name, SNECK_WRITE, 0);
	struct test_call reader;
	/* A message that overtakes the answer "waiting", or comes while b asks because it has just begun to
	 * listen, leaves the grant to an answer. Not five times; and without messages it always is one. */
	for (int i = 0; i < 5; i++) {
		test_call_start(&reader, b, name, SNECK_READ, NULL);
		assert_true(WAIT_UNTIL(test_redis_int(server, "ZCOUNT %s -inf (0", key) == 1 &&
		                               test_channels(server, sneck_client_session(b)) > 0,
		        2000));
		int64_t start_ms = test_now_ms();
		test_release(hold);
		assert_result(0, test_call_join(&reader), &reader.error);
		assert_true(reader.end_ms - start_ms <= TEST_SLACK_MS);
		if (i == 4 || test_stats(b).grants_by_message > 0)
			break;
		test_release(reader.hold);
		hold = test_take(a, name, SNECK_WRITE, 2000);
	}
	assert_int_equal(test_stats(b).grants_by_message, 1);
	sneck_acquire_options now = test_waiting(0);
	now.owner = reader.options.owner;
	assert_result(0, sneck_upgrade(reader.hold, &now, NULL), NULL);
	assert_result(SNECK_EBUSY, test_probe(a, name, SNECK_READ), NULL);
	test_release(reader.hold);
	assert_result(0, test_probe(a, name, SNECK_WRITE), NULL);
	assert_int_equal(test_redis_int(server, "DBSIZE"), 1);
	sneck_close(a);
	sneck_close(b);
}

/* ---- Strangers --------------------------------------------------------------------------------*/

struct meddling {
	sneck_hold *hold;
	int renew, upgrade, downgrade, detach, release;
};

static void *meddle(void *arg) {
	struct meddling *meddling = arg;
	sneck_acquire_options options = test_waiting(0);
	char id[SNECK_ID_MAX];
	meddling->renew = sneck_renew(meddling->hold, 60000, NULL);
	meddling->upgrade = sneck_upgrade(meddling->hold, &options, NULL);
	meddling->downgrade = sneck_downgrade(meddling->hold, NULL);
	meddling->detach = sneck_detach(meddling->hold, 1000, id, NULL);
	meddling->release = sneck_release(meddling->hold);
	return NULL;
}

static void strangers_change_nothing(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	for (int mode = SNECK_READ; mode <= SNECK_WRITE; mode++) {
		struct meddling meddling = { .hold = test_take(client, "door", (sneck_mode)mode, 0) };
		double deadline = latest_holder();
		uint64_t token = sneck_hold_token(meddling.hold);
		uint64_t commands = test_stats(client).commands;
		pthread_t stranger;
		assert_int_equal(pthread_create(&stranger, NULL, meddle, &meddling), 0);
		pthread_join(stranger, NULL);
		assert_result(SNECK_ENOTOWNER, meddling.renew, NULL);
		assert_result(SNECK_ENOTOWNER, meddling.upgrade, NULL);
		assert_result(SNECK_ENOTOWNER, meddling.downgrade, NULL);
		assert_result(SNECK_ENOTOWNER, meddling.detach, NULL);
		assert_result(SNECK_ENOTOWNER, meddling.release, NULL);
		assert_int_equal(test_stats(client).commands, commands);
		assert_true(latest_holder() == deadline);
		assert_true(sneck_hold_token(meddling.hold) == token);
		assert_int_equal(sneck_hold_mode(meddling.hold), mode);
		assert_true(sneck_check(meddling.hold, 1000));
		test_release(meddling.hold);
	}
	assert_true(test_is_idle(server, "door"));
	sneck_close(client);
}

/* ---- Cost -------------------------------------------------------------------------------------*/

static double script_us(void) {
	redisReply *reply = test_redis(test_owner("door"), "INFO commandstats");
	assert_non_null(reply);
	const char *at = strstr(reply->str, "cmdstat_evalsha:calls=");
	assert_non_null(at);
	double calls = strtod(at + strlen("cmdstat_evalsha:calls="), NULL);
	at = strstr(at, "usec=");
	double us = strtod(at + strlen("usec="), NULL) / calls;
	freeReplyObject(reply);
	return us;
}

/* What the server spends on one script of a reader who comes, renews and goes; the quietest of five. */
static double reader_cost_us(sneck_client *client) {
	double best_us = 1e9;
	for (int i = 0; i < 5; i++) {
		test_redis_ok(server, "CONFIG RESETSTAT");
		for (int k = 0; k < 60; k++) {
			sneck_hold *hold = test_take(client, "door", SNECK_READ, 0);
			assert_result(0, sneck_renew(hold, 0, NULL), NULL);
			test_release(hold);
		}
		if (script_us() < best_us)
			best_us = script_us();
	}
	return best_us;
}

static void add_readers(int from, int to) {
	char key[160];
	redisContext *redis = test_server_connect(server);
	assert_non_null(redis);
	long long deadline = test_server_ms(server) + 60000;
	for (int i = from; i < to; i++)
		redisAppendCommand(redis, "ZADD %s %lld Rsome:%d:one.1", test_key("door", key), deadline, i);
	for (int i = from; i < to; i++) {
		void *reply = NULL;
		assert_int_equal(redisGetReply(redis, &reply), REDIS_OK);
		freeReplyObject(reply);
	}
	redisFree(redis);
}

static void a_reader_costs_the_same_among_thousands(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	test_release(test_take(client, "door", SNECK_READ, 0)); /* makes the key a lock's */
	add_readers(0, 10);
	double few_us = reader_cost_us(client);
	add_readers(10, 5000);
	double many_us = reader_cost_us(client);
	print_message("%.1f us among 10 readers, %.1f us among 5000\n", few_us, many_us);
	assert_true(many_us <= 3 * few_us + 5);
	sneck_close(client);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(the_table_of_operations),
		TEST(the_lock_lasts_as_long_as_its_longest_reader),
		TEST(a_writer_that_gives_up_lets_readers_in_again),
		TEST(a_name_with_braces_and_colons),
		TEST(strangers_change_nothing),
		TEST(a_reader_costs_the_same_among_thousands),
	};
	return TEST_RUN(tests);
}
