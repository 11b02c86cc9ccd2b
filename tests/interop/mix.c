/* SPDX-License-Identifier: MIT */
/* See mix.h. What Driver.java's `mix` does is done here as well: under WRITE the counter is read and written
 * back in two steps, and two numbers on the server tell who is inside. */
#include "mix.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "locks.h"
#include "wait.h"

enum { JAVA_THREADS = 3, THREADS = 4, CLIENTS = 2, WAIT_MS = 2000, PAUSE_US = 4000 };

struct mixer {
	pthread_t thread;
	sneck_client *client;
	redisContext *redis;
	bool readers;
	int64_t until_ms;
	unsigned seed;
	long raised, reads, wrong;
	int failed; /* the first unexpected result */
};

static long long run(struct mixer *mixer, const char *command) {
	redisReply *reply = redisCommand(mixer->redis, command);
	long long value = !reply                               ? -1
	                  : reply->type == REDIS_REPLY_INTEGER ? reply->integer
	                  : reply->type == REDIS_REPLY_STRING  ? strtoll(reply->str, NULL, 10)
	                                                       : 0;
	freeReplyObject(reply);
	return value;
}

static sneck_hold *take(struct mixer *mixer, sneck_mode mode) {
	sneck_acquire_options options = test_waiting(WAIT_MS);
	sneck_hold *hold = NULL;

	options.lease_ms = JAVA_WATCHDOG_MS;
	int r = sneck_acquire(mixer->client, "mix", mode, &options, &hold, NULL);
	if (r != 0 && r != SNECK_ETIMEDOUT && !mixer->failed)
		mixer->failed = r;
	return hold;
}

static void give(struct mixer *mixer, sneck_hold *hold) {
	int r = hold ? sneck_release(hold) : 0;
	if (r != 0 && !mixer->failed)
		mixer->failed = r;
}

static void read_once(struct mixer *mixer, int what) {
	sneck_hold *hold = take(mixer, SNECK_READ);

	if (!hold)
		return;
	run(mixer, "INCR mix:readers");
	if (what == 0)
		give(mixer, take(mixer, SNECK_READ));
	mixer->wrong += run(mixer, "GET mix:writers") != 0;
	run(mixer, "DECR mix:readers");
	give(mixer, hold);
	mixer->reads++;
}

static void write_once(struct mixer *mixer, int what) {
	sneck_hold *hold = take(mixer, SNECK_WRITE);
	char set[64];

	if (!hold)
		return;
	if (what == 9)
		give(mixer, take(mixer, SNECK_WRITE));
	mixer->wrong += run(mixer, "INCR mix:writers") != 1 || run(mixer, "GET mix:readers") != 0;
	snprintf(set, sizeof set, "SET mix:counter %lld", run(mixer, "GET mix:counter") + 1);
	run(mixer, set);
	mixer->raised++;
	bool down = mixer->readers && what == 8;
	if (down)
		run(mixer, "INCR mix:readers");
	run(mixer, "DECR mix:writers");
	if (down) {
		int r = sneck_downgrade(hold, NULL);
		if (r != 0 && !mixer->failed)
			mixer->failed = r;
		mixer->wrong += run(mixer, "GET mix:writers") != 0;
		run(mixer, "DECR mix:readers");
	}
	give(mixer, hold);
}

/* Whoever asks without a pause is faster than a Java client that has just been woken, and keeps it out. */
static void pause_us(int us) {
	const struct timespec time = { 0, us * 1000L };

	nanosleep(&time, NULL);
}

static void *mix(void *arg) {
	struct mixer *mixer = arg;

	while (test_now_ms() < mixer->until_ms) {
		int what = rand_r(&mixer->seed) % 10;
		if (mixer->readers && what < 5)
			read_once(mixer, what);
		else
			write_once(mixer, what);
		pause_us(rand_r(&mixer->seed) % PAUSE_US);
	}
	return NULL;
}

static long finish_java(struct java *java, int for_ms) {
	long raised = 0;

	for (int i = 0; i < JAVA_THREADS; i++) {
		char who[8], heard[JAVA_LINE_MAX], *end;
		snprintf(who, sizeof who, "m%d", i);
		if (!java_hear(java, who, heard, for_ms + 30000))
			fail_msg("Java's %s does not end", who);
		long n = strtol(heard, &end, 10);
		if (strcmp(end, " 0") != 0)
			fail_msg("Java's %s: raised and wrong: %s", who, heard);
		raised += n;
	}
	return raised;
}

void mix_run(struct java *java, const struct test_server *server, const char *object, const char *dialect,
        int for_ms) {
	struct mixer mixers[THREADS];
	sneck_client *clients[CLIENTS];
	char url[TEST_URL_MAX];
	long raised = 0, reads = 0;

	test_redis_ok(server, "DEL mix:counter mix:readers mix:writers");
	test_url_with(server, url, "dialect=%s", dialect);
	for (int i = 0; i < CLIENTS; i++)
		clients[i] = test_open(url);
	for (int i = 0; i < JAVA_THREADS; i++)
		java_say(java, "m%d mix %s mix %d %d", i, object, for_ms, i);
	for (int i = 0; i < THREADS; i++) {
		mixers[i] = (struct mixer){ .client = clients[i % CLIENTS],
			.redis = test_server_connect(server),
			.readers = strcmp(object, "write") == 0,
			.until_ms = test_now_ms() + for_ms,
			.seed = (unsigned)i };
		assert_int_equal(pthread_create(&mixers[i].thread, NULL, mix, &mixers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(mixers[i].thread, NULL);
		redisFree(mixers[i].redis);
		if (mixers[i].failed || mixers[i].wrong)
			fail_msg("sneck's %d: %ld wrong, %s", i, mixers[i].wrong,
			        mixers[i].failed ? sneck_err_name(mixers[i].failed) : "no error");
		raised += mixers[i].raised;
		reads += mixers[i].reads;
	}
	long by_java = finish_java(java, for_ms);
	for (int i = 0; i < CLIENTS; i++)
		sneck_close(clients[i]);
	print_message("%s: raised %ld times by sneck, %ld by Java; %ld reads by sneck\n", dialect, raised,
	        by_java, reads);
	assert_true(raised > 0 && by_java > 0);
	assert_int_equal(test_redis_int(server, "GET mix:counter"), raised + by_java);
	assert_int_equal(test_redis_int(server, "EXISTS mix"), 0);
}
