/* SPDX-License-Identifier: MIT */
/* The subscribe connection against a real server: messages, breaks, silence, refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include "conn_rig.h"
#include "server.h"
#include "wait.h"

static void subscribe(
        struct rig *rig, const struct test_server *server, uint32_t command_ms, uint32_t ping_ms) {
	rig_start(rig, server->url,
	        &(struct rig_options){
	                .channel = "sneck:chan", .command_ms = command_ms, .ping_ms = ping_ms });
	snecki_sub_want(rig->sub);
	assert_true(WAIT_UNTIL(atomic_load(&rig->readies) == 1, 5000));
	assert_true(snecki_sub_is_ready(rig->sub));
}

static bool last_message_is(struct rig *rig, const char *text) {
	pthread_mutex_lock(&rig->mutex);
	bool same = strcmp(rig->last_message, text) == 0;
	pthread_mutex_unlock(&rig->mutex);
	return same;
}

static void test_messages(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	subscribe(&rig, server, 0, 0);
	redisContext *redis = test_server_connect(server);
	for (int i = 0; i < 1000; i++) {
		redisReply *reply = redisCommand(redis, "PUBLISH sneck:chan %d", i);
		assert_int_equal(reply->integer, 1);
		freeReplyObject(reply);
	}
	redisFree(redis);
	assert_true(WAIT_UNTIL(atomic_load(&rig.messages) == 1000, 5000));
	assert_true(last_message_is(&rig, "999"));
	assert_int_equal(test_redis_int(server, "PUBLISH sneck:chan2 x"), 0);
	rig_stop(&rig);
}

/* Nobody wants a subscription: there is none. */
static void test_not_wanted(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	rig_start(&rig, server->url, &(struct rig_options){ .channel = "sneck:chan" });
	rig_integer(&rig, "INCR not-wanted");
	assert_int_equal(test_redis_int(server, "PUBLISH sneck:chan x"), 0);
	assert_false(snecki_sub_is_ready(rig.sub));
	rig_stop(&rig);
}

static void test_subscribes_again(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	subscribe(&rig, server, 0, 0);
	for (int i = 1; i <= 5; i++) {
		int64_t before_ms = test_now_ms();
		assert_int_equal(test_redis_int(server, "CLIENT KILL TYPE pubsub"), 1);
		assert_true(WAIT_UNTIL(atomic_load(&rig.readies) == 1 + i, 5000));
		assert_true(test_now_ms() - before_ms < 1000);
		assert_int_equal(atomic_load(&rig.sub_downs), i);
		char text[16];
		snprintf(text, sizeof(text), "m%d", i);
		assert_int_equal(test_redis_int(server, "PUBLISH sneck:chan %s", text), 1);
		assert_true(WAIT_UNTIL(last_message_is(&rig, text), 5000));
	}
	rig_stop(&rig);
}

static void test_outlives_a_restart(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	subscribe(&rig, server, 0, 0);
	test_server_kill9(server);
	/* Broken, then at least one attempt that fails. */
	assert_true(WAIT_UNTIL(atomic_load(&rig.sub_downs) >= 2, 5000));
	assert_false(snecki_sub_is_ready(rig.sub));
	assert_int_equal(test_server_restart(server), 0);
	assert_true(WAIT_UNTIL(atomic_load(&rig.readies) == 2, 10000));
	assert_int_equal(test_redis_int(server, "PUBLISH sneck:chan x"), 1);
	rig_stop(&rig);
}

/* A server that hangs is found out by PING; one that only has nothing to say is left alone. */
static void test_silence(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	subscribe(&rig, server, 200, 50);
	int rounds = atomic_load(&rig.rounds);
	assert_true(WAIT_UNTIL(atomic_load(&rig.rounds) >= rounds + 10, 5000)); /* some probes */
	assert_int_equal(atomic_load(&rig.sub_downs), 0);
	assert_true(atomic_load(&rig.rounds) < rounds + 100);
	test_server_stopcont(server, true);
	int64_t before_ms = test_now_ms();
	assert_true(WAIT_UNTIL(atomic_load(&rig.sub_downs) >= 1, 5000));
	assert_in_range(test_now_ms() - before_ms, 190, 2500);
	pthread_mutex_lock(&rig.mutex);
	int code = rig.sub_why.code;
	pthread_mutex_unlock(&rig.mutex);
	assert_int_equal(code, SNECK_ECONN);
	test_server_stopcont(server, false);
	assert_true(WAIT_UNTIL(atomic_load(&rig.readies) >= 2, 10000));
	rig_stop(&rig);
}

/* May connect, may not subscribe: told so, with pauses between the attempts. */
static void test_no_permission(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	char url[TEST_URL_MAX];
	test_redis_ok(server, "ACL SETUSER walled on >pw -@all +hello +ping");
	rig_start(&rig, test_url_with(server, url, "user=walled&password=pw"),
	        &(struct rig_options){ .channel = "sneck:chan" });
	snecki_sub_want(rig.sub);
	int64_t before_ms = test_now_ms();
	assert_true(WAIT_UNTIL(atomic_load(&rig.sub_downs) >= 3, 10000));
	/* Two pauses of 50 ms at least. */
	assert_true(test_now_ms() - before_ms >= 95);
	pthread_mutex_lock(&rig.mutex);
	assert_int_equal(rig.sub_why.code, SNECK_EACCES);
	assert_string_equal(rig.sub_why.server, "NOPERM");
	pthread_mutex_unlock(&rig.mutex);
	assert_int_equal(atomic_load(&rig.readies), 0);
	rig_stop(&rig);
}

/* ---- Channels that come and go -------------------------------------------------------------------*/

static void listen_to(struct rig *rig, const char *channel) {
	assert_int_equal(snecki_sub_listen(rig->sub, channel, strlen(channel), false, "lock", 4), 0);
}

static bool heard_by(struct test_server *server, const char *channel, int listeners) {
	redisReply *reply = test_redis(server, "PUBSUB NUMSUB %s", channel);
	bool so = reply->elements == 2 && reply->element[1]->integer == listeners;
	freeReplyObject(reply);
	return so;
}

static void test_topics_come_and_go(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	char name[16];
	rig_start(&rig, server->url, &(struct rig_options){ .channel = "sneck:chan" });
	listen_to(&rig, "t0");
	listen_to(&rig, "t0"); /* twice: one subscription */
	assert_true(WAIT_UNTIL(atomic_load(&rig.topic_readies) == 1, 5000));
	assert_int_equal(test_redis_int(server, "PUBLISH t0 free"), 1);
	assert_true(WAIT_UNTIL(last_message_is(&rig, "lock=free"), 5000));
	snecki_sub_unlisten(rig.sub, "t0", 2);
	assert_int_equal(test_redis_int(server, "PUBLISH t0 again"), 1);
	assert_true(WAIT_UNTIL(last_message_is(&rig, "lock=again"), 5000));
	snecki_sub_unlisten(rig.sub, "t0", 2);
	/* It stays for a while, unheard, until enough others have been waited for. */
	assert_true(heard_by(server, "t0", 1));
	for (int i = 1; i <= 33; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		listen_to(&rig, name);
		assert_true(WAIT_UNTIL(atomic_load(&rig.topic_readies) == 1 + i, 5000));
		snecki_sub_unlisten(rig.sub, name, strlen(name));
	}
	listen_to(&rig, "last");
	assert_true(WAIT_UNTIL(heard_by(server, "t0", 0), 5000));
	assert_true(heard_by(server, "t33", 1));
	assert_int_equal(atomic_load(&rig.topic_messages), 2);
	rig_stop(&rig);
}

static void listen_to_second(struct rig *rig) {
	listen_to(rig, "second");
}

/* Whoever is told something on the background thread wants to hear more: nobody wakes that thread. */
static void test_topics_wanted_by_the_background(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	rig_start(&rig, server->url,
	        &(struct rig_options){ .channel = "sneck:chan", .heard = listen_to_second });
	listen_to(&rig, "first");
	assert_true(WAIT_UNTIL(atomic_load(&rig.topic_readies) == 1, 5000));
	assert_int_equal(test_redis_int(server, "PUBLISH first x"), 1);
	assert_true(WAIT_UNTIL(heard_by(server, "second", 1), 2000));
	rig_stop(&rig);
}

static void want_stay(struct rig *rig) {
	snecki_sub_want(rig->sub);
}

static void test_subscribed_by_the_background(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	rig_start(&rig, server->url, &(struct rig_options){ .channel = "sneck:chan", .heard = want_stay });
	listen_to(&rig, "first");
	assert_true(WAIT_UNTIL(atomic_load(&rig.topic_readies) == 1, 5000));
	assert_int_equal(test_redis_int(server, "PUBLISH first x"), 1);
	assert_true(WAIT_UNTIL(atomic_load(&rig.readies) == 1, 2000));
	rig_stop(&rig);
}

static void test_topics_outlive_a_break(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	subscribe(&rig, server, 0, 0);
	listen_to(&rig, "t0");
	assert_true(WAIT_UNTIL(atomic_load(&rig.topic_readies) == 1, 5000));
	assert_int_equal(test_redis_int(server, "CLIENT KILL TYPE pubsub"), 1);
	assert_true(WAIT_UNTIL(atomic_load(&rig.topic_readies) == 2 && atomic_load(&rig.readies) == 2, 5000));
	assert_int_equal(test_redis_int(server, "PUBLISH t0 free"), 1);
	assert_true(WAIT_UNTIL(last_message_is(&rig, "lock=free"), 5000));
	rig_stop(&rig);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_topics_come_and_go),
		cmocka_unit_test(test_topics_wanted_by_the_background),
		cmocka_unit_test(test_subscribed_by_the_background),
		cmocka_unit_test(test_topics_outlive_a_break),
		cmocka_unit_test(test_not_wanted),
		cmocka_unit_test(test_subscribes_again),
		cmocka_unit_test(test_outlives_a_restart),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_no_permission),
	};
	return cmocka_run_group_tests(tests, rig_server_up, rig_server_down);
}
