/* SPDX-License-Identifier: MIT */
/* See pair.h. */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wait.h"

static struct test_server *const server = &test_the_server;
struct java pair_java;

const struct object objects[OBJECTS] = {
	{ "lock", "redisson:lock", "redisson_lock__channel:" },
	{ "write", "redisson:rwlock", "redisson_rwlock:" },
	{ "fenced", "redisson:fenced", "redisson_lock__channel:" },
	{ "fair", "redisson:fair", "redisson_lock__channel:" },
};

sneck_client *open_as(const char *dialect) {
	char url[TEST_URL_MAX];
	return test_open(test_url_with(server, url, "dialect=%s", dialect));
}

sneck_acquire_options leased(int64_t wait_ms) {
	sneck_acquire_options options = test_waiting(wait_ms);
	options.lease_ms = LEASE_MS;
	return options;
}

sneck_hold *take(sneck_client *client, const char *name, sneck_mode mode) {
	sneck_acquire_options options = leased(0);
	return test_take_opts(client, name, mode, &options);
}

/* How many scripts the servers have run. */
static long scripts_run(const struct test_server *on) {
	long n = 0;

	for (size_t i = 0; i < on->peers_n; i++)
		n += scripts_run(&on->peers[i]);
	if (on->peers)
		return n;
	redisReply *reply = test_redis(on, "INFO commandstats");
	for (const char *at = reply->str; (at = strstr(at, "cmdstat_eval")); at++)
		n += strtol(strstr(at, "calls=") + 6, NULL, 10);
	freeReplyObject(reply);
	return n;
}

/* But for the counters of tokens, and Redisson's own marks of an unlock, which last longer than the lock. */
bool nothing_is_left(void) {
	return test_count_keys(server, "*") == test_count_keys(server, "redisson_lock_token:*") +
	                                               test_count_keys(server, "redisson_unlock_latch:*");
}

/* Thread `a` asks, subscribes, and asks once more before it sleeps: only then is it a message that wakes it.
 * The scripts that follow the subscription are that question and a renewal of what it waits for. */
void java_falls_asleep(const char *object, const char *name, const char *channels) {
	java_say(&pair_java, "a lock %s %s", object, name);
	assert_true(WAIT_UNTIL(test_channels(server, channels) > 0, 10000));
	long before = scripts_run(server);
	assert_true(WAIT_UNTIL(scripts_run(server) >= before + 2, 10000));
}

/* From our release to Java's answer. */
static int64_t java_woken_ms(sneck_client *client, const struct object *object, const char *name) {
	sneck_hold *hold = take(client, name, SNECK_WRITE);

	java_falls_asleep(object->java, name, object->channels);
	test_release(hold);
	int64_t begin_ms = test_now_ms();
	java_expect(&pair_java, "a", "ok");
	int64_t took_ms = test_now_ms() - begin_ms;
	java_does(&pair_java, "a", "ok", "a unlock %s %s", object->java, name);
	return took_ms;
}

/* From our word to Java to our hold: a little more than from its release. */
static int64_t sneck_woken_ms(sneck_client *client, const struct object *object, const char *name) {
	struct test_call call;
	sneck_acquire_options options = leased(10000);

	java_does(&pair_java, "a", "ok", "a lock %s %s", object->java, name);
	uint64_t asked = test_stats(client).beats;
	test_call_start(&call, client, name, SNECK_WRITE, &options);
	/* Once it listens it asks again, and then not for a while. */
	assert_true(WAIT_UNTIL(test_stats(client).beats > asked, 10000));
	int64_t begin_ms = test_now_ms();
	java_does(&pair_java, "a", "ok", "a unlock %s %s", object->java, name);
	assert_result(0, test_call_join(&call), &call.error);
	test_release(call.hold);
	return call.end_ms - begin_ms;
}

/* The best of some: a busy machine makes it late. Without messages it would be 750 ms at the least. */
void each_wakes_the_other(const struct object *object, const char *name) {
	sneck_client *client = open_as(object->dialect);
	int64_t java_ms = INT64_MAX, sneck_ms = INT64_MAX;

	for (int i = 0; i < WAKE_TRIES && (java_ms > WAKE_MS || sneck_ms > WAKE_MS); i++) {
		int64_t one_ms = java_woken_ms(client, object, name);
		int64_t other_ms = sneck_woken_ms(client, object, name);
		java_ms = one_ms < java_ms ? one_ms : java_ms;
		sneck_ms = other_ms < sneck_ms ? other_ms : sneck_ms;
	}
	print_message("%s: Java woken after %d ms, sneck after %d ms\n", object->dialect, (int)java_ms,
	        (int)sneck_ms);
	assert_true(java_ms <= WAKE_MS && sneck_ms <= WAKE_MS);
	sneck_close(client);
}

void each_excludes_the_other(const struct object *object, const char *name) {
	sneck_client *client = open_as(object->dialect);
	sneck_hold *hold = take(client, name, SNECK_WRITE);

	java_does(&pair_java, "a", "false", "a try %s %s 0", object->java, name);
	java_does(&pair_java, "a", "true", "a locked %s %s", object->java, name);
	test_release(hold);
	java_does(&pair_java, "a", "false", "a locked %s %s", object->java, name);
	java_does(&pair_java, "a", "true", "a try %s %s 0", object->java, name);
	assert_result(SNECK_EBUSY, test_probe(client, name, SNECK_WRITE), NULL);
	java_does(
	        &pair_java, "b", "error IllegalMonitorStateException", "b unlock %s %s", object->java, name);
	java_does(&pair_java, "a", "ok", "a unlock %s %s", object->java, name);
	assert_result(0, test_probe(client, name, SNECK_WRITE), NULL);
	sneck_close(client);
}

void readers_of_both_share_it(const char *name) {
	sneck_client *client = open_as("redisson:rwlock");
	sneck_hold *hold = take(client, name, SNECK_READ);

	java_does(&pair_java, "a", "true", "a try read %s 0", name);
	java_does(&pair_java, "b", "false", "b try write %s 0", name);
	java_does(&pair_java, "a", "ok", "a unlock read %s", name); /* which must not free what we hold */
	java_does(&pair_java, "b", "false", "b try write %s 0", name);
	assert_true(sneck_check(hold, 0));
	assert_result(0, sneck_renew(hold, LEASE_MS, NULL), NULL);
	java_does(&pair_java, "a", "ok", "a lock read %s", name);
	test_release(hold); /* nor we what Java holds */
	assert_result(SNECK_EBUSY, test_probe(client, name, SNECK_WRITE), NULL);
	java_does(&pair_java, "a", "1", "a count read %s", name);
	java_does(&pair_java, "a", "ok", "a unlock read %s", name);
	assert_result(0, test_probe(client, name, SNECK_WRITE), NULL);
	assert_true(WAIT_UNTIL(nothing_is_left(), 10000));
	sneck_close(client);
}

void tokens_grow_over_both_sides(const char *name) {
	sneck_client *client = open_as("redisson:fenced");
	uint64_t last = 0;

	for (int i = 0; i < 3; i++) {
		char heard[JAVA_LINE_MAX];
		sneck_hold *hold = take(client, name, SNECK_WRITE);
		assert_true(sneck_hold_token(hold) > last);
		last = sneck_hold_token(hold);
		test_release(hold);
		java_say(&pair_java, "a token fenced %s", name);
		assert_true(java_hear(&pair_java, "a", heard, 10000));
		assert_true(strtoull(heard, NULL, 10) > last);
		last = strtoull(heard, NULL, 10);
		java_does(&pair_java, "a", "ok", "a unlock fenced %s", name);
	}
	sneck_close(client);
}
