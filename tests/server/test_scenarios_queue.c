/* SPDX-License-Identifier: MIT */
/* Scenarios of waiting that have gone wrong in other lock libraries: holders who never release, long
 * queues, waiters who leave in every way, a server that pauses, channels that pile up, messages that
 * nobody meant, and tokens over every way to take a lock. */
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

#include <cmocka.h>

#include "actor.h"
#include "locks.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

/* After the death or the silence of those before: their time, and the beat that finds out. */
enum { DEAD_MS = SNECK_WAITER_LEASE_MS + SNECK_WAITER_BEAT_MS + TEST_SLACK_MS };

/* ---- Order ------------------------------------------------------------------------------------*/

/* Nobody in the line ever releases: each one's turn comes when the time of the one before is over. After
 * a wait a short lease may last as long as the waiter's own, which is what the bound is. */
static void in_order_when_nobody_releases(void **state) {
	(void)state;
	enum { WAITERS = 3 };
	sneck_client *holder = test_open(server->url);
	sneck_client *clients[WAITERS];
	struct test_call calls[WAITERS];
	sneck_acquire_options options = test_waiting(20000);
	options.lease_ms = 300;
	options.fixed = 1;
	sneck_hold *hold = test_take(holder, "door", SNECK_WRITE, 0);
	uint64_t token = sneck_hold_token(hold);
	for (int i = 0; i < WAITERS; i++) {
		clients[i] = test_open(server->url);
		test_call_start(&calls[i], clients[i], "door", SNECK_WRITE, &options);
		assert_true(test_await_members(server, "door", "w", i + 1, 2000));
	}
	int64_t before_ms = test_now_ms();
	test_release(hold);
	for (int i = 0; i < WAITERS; i++) {
		assert_result(0, test_call_join(&calls[i]), &calls[i].error);
		assert_true(sneck_hold_token(calls[i].hold) > token);
		token = sneck_hold_token(calls[i].hold);
		assert_true(calls[i].end_ms - before_ms <= DEAD_MS);
		before_ms = calls[i].end_ms;
		if (i + 1 < WAITERS)
			assert_false(atomic_load(&calls[i + 1].done));
	}
	test_release(calls[WAITERS - 1].hold);
	for (int i = 0; i < WAITERS - 1; i++)
		assert_result(SNECK_ELOST, sneck_release(calls[i].hold), NULL);
	assert_true(test_is_idle(server, "door"));
	for (int i = 0; i < WAITERS; i++)
		sneck_close(clients[i]);
	sneck_close(holder);
}

/* Fixed leases are never shared, so each of these is a place in the server's queue. */
static void hundreds_of_waiters_are_all_served(void **state) {
	(void)state;
	enum { CLIENTS = 5, EACH = TEST_SANITIZED ? 30 : 100, ALL = CLIENTS * EACH };
	sneck_client *holder = test_open(server->url);
	sneck_hold *hold = test_take(holder, "door", SNECK_WRITE, 0);
	sneck_client *clients[CLIENTS];
	uint64_t served[CLIENTS] = { 0 };
	for (int i = 0; i < CLIENTS; i++)
		clients[i] = test_open(server->url);
	for (int i = 0; i < ALL; i++) {
		sneck_acquire_options options = test_waiting(SNECK_WAIT_FOREVER);
		options.lease_ms = 10000;
		options.fixed = 1;
		options.tag = (uint64_t)(i / CLIENTS) + 1;
		assert_result(0,
		        sneck_acquire_start(clients[i % CLIENTS], "door", 4, SNECK_WRITE, &options, NULL),
		        NULL);
	}
	assert_true(test_await_members(server, "door", "w", ALL, 10000));
	uint64_t token = sneck_hold_token(hold);
	int64_t start_ms = test_now_ms();
	test_release(hold);
	for (int n = 0; n < ALL;) {
		assert_true(test_now_ms() - start_ms < 10000);
		for (int i = 0; i < CLIENTS; i++) {
			sneck_event event = { .size = sizeof(event) };
			if (sneck_client_next_event(clients[i], &event) != 1)
				continue;
			assert_int_equal(event.type, SNECK_EVENT_ACQUIRED);
			assert_int_equal(event.tag, served[i] + 1); /* in the order in which it asked */
			assert_true(event.token > token);
			served[i]++;
			token = event.token;
			test_release(event.hold);
			n++;
		}
	}
	print_message("%d waiters in %lld ms\n", ALL, (long long)(test_now_ms() - start_ms));
	assert_true(test_is_idle(server, "door"));
	for (int i = 0; i < CLIENTS; i++)
		sneck_close(clients[i]);
	sneck_close(holder);
}

/* ---- Leaving ----------------------------------------------------------------------------------*/

/* No waiter is kept longer than its lease from now, whatever happened before, and the key no longer
 * than what it is kept for. */
static void assert_no_drift(int64_t holder_lease_ms) {
	char key[160];
	int64_t now_ms = test_server_ms(server);
	redisReply *reply = test_redis(server,
	        "ZREVRANGEBYSCORE %s (200000000000000 100000000000000 WITHSCORES", test_key("door", key));
	assert_non_null(reply);
	for (size_t i = 1; i < reply->elements; i += 2)
		if (strtod(reply->element[i]->str, NULL) - 1e14 >
		        (double)(now_ms + SNECK_WAITER_LEASE_MS + 50))
			fail_msg("%s is kept until %s", reply->element[i - 1]->str, reply->element[i]->str);
	freeReplyObject(reply);
	assert_true(test_redis_int(server, "PTTL %s", key) <= holder_lease_ms + SNECK_KEEP_MS);
}

/* Is the session in the queue? */
static bool in_line(const char *session) {
	char key[160];
	redisReply *reply = test_redis(server, "ZRANGE %s 0 -1", test_key("door", key));
	assert_non_null(reply);
	bool found = false;
	for (size_t i = 0; i < reply->elements; i++) {
		const char *member = reply->element[i]->str;
		found = found || (strchr("rwu", member[0]) && strstr(member, session));
	}
	freeReplyObject(reply);
	return found;
}

static void waiting_times_do_not_drift(void **state) {
	(void)state;
	enum { ROUNDS = 15 };
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_client *c = test_open(server->url);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct test_call late, cancelled;
		sneck_acquire_options brief = test_waiting(20), tagged = test_waiting(10000);
		tagged.tag = 1;
		test_call_start(&cancelled, c, "door", i % 2 ? SNECK_READ : SNECK_WRITE, &tagged);
		assert_true(WAIT_UNTIL(in_line(sneck_client_session(c)), 2000));
		test_call_start(&late, b, "door", SNECK_WRITE, &brief);
		assert_result(SNECK_ETIMEDOUT, test_call_join(&late), &late.error);
		assert_int_equal(sneck_cancel(c, 1), 1);
		assert_result(SNECK_ECANCELED, test_call_join(&cancelled), &cancelled.error);
		if (i % 5 == 4) { /* and one that dies without a word */
			struct test_proc victim;
			char line[128];
			test_actor_start(&victim, server->url);
			assert_true(test_proc_ask(&victim, line, sizeof(line), 5000, "session"));
			test_actor_expect(&victim, "waiting", "wait door w 10000 1000");
			assert_true(WAIT_UNTIL(in_line(line + strlen("ok ")), 2000));
			test_proc_signal(&victim, SIGKILL);
		}
		assert_no_drift(SNECK_LEASE_DEFAULT_MS);
		assert_true(WAIT_UNTIL(
		        !in_line(sneck_client_session(b)) && !in_line(sneck_client_session(c)), 1000));
	}
	struct test_call last;
	test_call_start(&last, b, "door", SNECK_WRITE, NULL);
	assert_true(WAIT_UNTIL(in_line(sneck_client_session(b)), 2000));
	int64_t start_ms = test_now_ms();
	test_release(hold);
	assert_result(0, test_call_join(&last), &last.error);
	assert_true(last.end_ms - start_ms <= DEAD_MS);
	assert_no_drift(SNECK_LEASE_DEFAULT_MS);
	test_release(last.hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
	sneck_close(c);
}

static void a_paused_server_leaves_no_waiters(void **state) {
	(void)state;
	enum { PAUSE = 1200, COMMAND = 300 };
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open_command_ms(server->url, COMMAND);
	sneck_client *c = test_open_command_ms(server->url, COMMAND);
	test_await_link(b, "door");
	test_await_link(c, "warm");
	test_release(test_take(c, "warm", SNECK_WRITE, 0));
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	struct test_call queued, fresh;
	sneck_acquire_options options = test_waiting(500);
	test_call_start(&queued, b, "door", SNECK_WRITE, &options);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	test_redis_ok(server, "CLIENT PAUSE %d ALL", PAUSE);
	int64_t start_ms = test_now_ms();
	test_call_start(&fresh, c, "door", SNECK_READ, &options);
	assert_result(SNECK_ETIMEDOUT, test_call_join(&queued), &queued.error);
	assert_true(queued.end_ms - start_ms <= 500 + TEST_SLACK_MS);
	int r = test_call_join(&fresh); /* the server never said a word to it */
	assert_int_equal(sneck_err_outcome(r) == SNECK_OUTCOME_UNKNOWN || r == SNECK_ECONN, true);
	assert_true(fresh.end_ms - start_ms <= 500 + COMMAND + TEST_SLACK_MS);
	/* The pause is over when this is answered; what was withdrawn meanwhile goes, and stays gone. */
	assert_true(test_await_members(server, "door", "rwul", 0, PAUSE + 2000));
	assert_int_equal(test_members(server, "door", "W"), 1);
	test_release(hold);
	sneck_close(b);
	sneck_close(c);
	assert_true(test_is_idle(server, "door"));
	test_release(test_take(a, "door", SNECK_WRITE, 0));
	sneck_close(a);
}

/* ---- Channels and messages --------------------------------------------------------------------*/

static long channels(void) {
	return test_channels(server, "sneck:"); /* sentinels have one of their own */
}

struct strolling {
	sneck_client *client;
	int first;
	int failures;
};

enum { LOCKS = 5, STROLL_CLIENTS = 4, STROLL_THREADS = 8, STROLL_ROUNDS = TEST_SANITIZED ? 75 : 625 };

static void *stroll(void *arg) {
	struct strolling *strolling = arg;
	sneck_acquire_options options = test_waiting(20000);
	for (int i = 0; i < STROLL_ROUNDS; i++) {
		char name[16];
		sneck_hold *hold = NULL;
		snprintf(name, sizeof(name), "lock-%d", (strolling->first + i) % LOCKS);
		if (sneck_acquire(strolling->client, name, SNECK_WRITE, &options, &hold, NULL) != 0 ||
		        sneck_release(hold) != 0)
			strolling->failures++;
	}
	return NULL;
}

static void many_locks_one_channel_per_session(void **state) {
	(void)state;
	sneck_client *clients[STROLL_CLIENTS];
	struct strolling strollings[STROLL_THREADS];
	pthread_t threads[STROLL_THREADS];
	for (int i = 0; i < STROLL_CLIENTS; i++)
		clients[i] = test_open(server->url);
	for (int i = 0; i < STROLL_THREADS; i++) {
		strollings[i] = (struct strolling){ .client = clients[i % STROLL_CLIENTS], .first = i };
		assert_int_equal(pthread_create(&threads[i], NULL, stroll, &strollings[i]), 0);
	}
	for (int i = 0; i < STROLL_THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(strollings[i].failures, 0);
	}
	assert_int_equal(channels(), STROLL_CLIENTS);
	for (int i = 0; i < STROLL_CLIENTS; i++)
		sneck_close(clients[i]);
	assert_true(WAIT_UNTIL(channels() == 0, 2000));
	for (int i = 0; i < LOCKS; i++) {
		char name[16];
		snprintf(name, sizeof(name), "lock-%d", i);
		assert_true(test_is_idle(server, name));
	}
}

static bool listens(const sneck_client *client) {
	return test_channels(server, sneck_client_session(client)) > 0;
}

static void publish(const sneck_client *client, const char *text) {
	assert_true(test_say(server, sneck_client_session(client), text, strlen(text)) > 0);
}

/* Anybody who may publish can say anything. It may cost a question; it must not cost a lock. */
static void forged_messages_are_harmless(void **state) {
	(void)state;
	static const char *const nonsense[] = { "g", "g 1", "x", "g  ", "g 1 1 1", "g 1 1 1 1 1", "w", "w -1",
		"g -1 -1 -1 -1", "g zzzzzzzzzzzzzzzz 9 9 9", "b", "b 1", "b 1 1 1",
		"g 1 18446744073709551616 1 1" };
	sneck_client_options careful = SNECK_CLIENT_OPTIONS_INIT;
	careful.flags = SNECK_OPEN_VERIFY_GRANTS;
	sneck_client_options named = SNECK_CLIENT_OPTIONS_INIT;
	named.who_user = "ann"; /* who says who it is listens also while it only holds */
	sneck_client *a = NULL, *b = NULL, *c = test_open(server->url);
	assert_result(0, sneck_open(server->url, &named, &a, NULL), NULL);
	assert_result(0, sneck_open(server->url, &careful, &b, NULL), NULL);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	struct test_call verifies, believes;
	test_call_start(&verifies, b, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	test_call_start(&believes, c, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 2, 2000));
	assert_true(WAIT_UNTIL(listens(a) && listens(b) && listens(c), 5000));
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(*nonsense); i++) {
		publish(a, nonsense[i]);
		publish(b, nonsense[i]);
		publish(c, nonsense[i]);
	}
	/* A grant for each attempt it may have: one who verifies asks, and one who does not believes no
	 * number that is not larger than the last it was told. */
	uint64_t b_beats = test_stats(b).beats, c_beats = test_stats(c).beats;
	for (int attempt = 1; attempt <= 9; attempt++) {
		char text[96];
		snprintf(text, sizeof(text), "g %d 8999999999999999 1999999999999 1", attempt);
		publish(b, text);
		snprintf(text, sizeof(text), "g %d %llu 1999999999999 1", attempt,
		        (unsigned long long)sneck_hold_token(hold));
		publish(c, text);
	}
	assert_true(WAIT_UNTIL(test_stats(b).beats > b_beats && test_stats(c).beats > c_beats, 2000));
	/* The holder is told that it is broken and wanted: it asks, and goes on. */
	uint64_t renewals = test_stats(a).renewals;
	for (int attempt = 1; attempt <= 9; attempt++) {
		char text[32];
		snprintf(text, sizeof(text), "b %d 0", attempt);
		publish(a, text);
		snprintf(text, sizeof(text), "w %d", attempt);
		publish(a, text);
	}
	assert_true(WAIT_UNTIL(test_stats(a).renewals > renewals, 2000));
	assert_int_equal(sneck_hold_state(hold), SNECK_HELD);
	assert_false(atomic_load(&verifies.done));
	assert_false(atomic_load(&believes.done));
	assert_int_equal(test_members(server, "door", "W"), 1);
	assert_int_equal(test_members(server, "door", "w"), 2);
	test_release(hold);
	assert_result(0, test_call_join(&verifies), &verifies.error);
	test_release(verifies.hold);
	assert_result(0, test_call_join(&believes), &believes.error);
	test_release(believes.hold);
	assert_int_equal(test_stats(b).grants_by_message, 0);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
	sneck_close(c);
}

/* Who does not read is cut off by the server with what was sent to it; it listens again, and is served. */
static void a_slow_subscriber_is_cut_off_and_served(void **state) {
	(void)state;
	enum { FLOOD = 64 * 1024 };
	struct test_proc slow;
	char line[128];
	char *flood = malloc(FLOOD);
	assert_non_null(flood);
	memset(flood, 'x', FLOOD);
	sneck_client *a = test_open(server->url);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	test_actor_start(&slow, server->url);
	assert_true(test_proc_ask(&slow, line, sizeof(line), 5000, "session"));
	const char *session = line + strlen("ok ");
	test_actor_expect(&slow, "waiting", "wait door w 20000 5000");
	assert_true(WAIT_UNTIL(in_line(session) && test_channels(server, session) > 0, 3000));
	test_redis_ok(server, "CONFIG SET client-output-buffer-limit %s", "pubsub 1048576 1048576 1");
	test_proc_signal(&slow, SIGSTOP);
	for (int i = 0; i < 200 && test_channels(server, session) > 0; i++)
		(void)test_say(server, session, flood, FLOOD);
	assert_int_equal(test_channels(server, session), 0);
	test_proc_signal(&slow, SIGCONT);
	test_release(hold);
	test_actor_hear(&slow, "ok", DEAD_MS);
	assert_true(WAIT_UNTIL(test_channels(server, session) > 0, 5000));
	test_actor_expect(&slow, "ok", "drop");
	assert_int_equal(test_proc_finish(&slow, 5000), 0);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	free(flood);
}

/* ---- Tokens -----------------------------------------------------------------------------------*/

static uint64_t above(sneck_hold *hold, uint64_t last, const char *how) {
	if (sneck_hold_token(hold) <= last)
		fail_msg("%s: %llu is not above %llu", how, (unsigned long long)sneck_hold_token(hold),
		        (unsigned long long)last);
	return sneck_hold_token(hold);
}

static uint64_t take_after_wait(
        sneck_client *client, sneck_hold *held, uint64_t last, bool local, sneck_hold **ret_hold) {
	struct test_call call;
	test_call_start(&call, client, "door", SNECK_WRITE, NULL);
	if (local)
		assert_true(WAIT_UNTIL(test_stats(client).waiters == 1, 2000));
	else
		assert_true(test_await_members(server, "door", "w", 1, 2000));
	test_release(held);
	assert_result(0, test_call_join(&call), &call.error);
	*ret_hold = call.hold;
	return above(call.hold, last, local ? "passed on in the process" : "handed over");
}

static void every_form_takes_a_larger_token(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_acquire_options brief = test_waiting(0), now = test_waiting(0), started = test_waiting(1000);
	brief.lease_ms = 60;
	brief.fixed = 1;
	started.tag = 1;
	uint64_t last = 0;
	for (int round = 0; round < 3; round++) {
		sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
		last = above(hold, last, "taken without waiting");
		sneck_hold *inner = test_take(a, "door", SNECK_WRITE, 1000);
		assert_true(sneck_hold_token(inner) == last);
		test_release(inner);
		last = take_after_wait(a, hold, last, true, &hold);
		last = take_after_wait(b, hold, last, false, &hold);
		assert_result(0, sneck_downgrade(hold, NULL), NULL);
		last = above(hold, last, "downgraded");
		sneck_hold *joins = test_take(a, "door", SNECK_READ, 0);
		assert_true(sneck_hold_token(joins) == last);
		test_release(joins);
		assert_result(0, sneck_upgrade(hold, &now, NULL), NULL);
		last = above(hold, last, "upgraded");
		char id[SNECK_ID_MAX];
		assert_result(0, sneck_detach(hold, 5000, id, NULL), NULL);
		assert_result(0, sneck_adopt(a, "door", 4, id, NULL, &hold, NULL), NULL);
		assert_true(sneck_hold_token(hold) == last); /* the same hold in other hands */
		test_release(hold);
		hold = test_take(b, "door", SNECK_READ, 0);
		last = above(hold, last, "the first reader of a free lock");
		test_release(hold);
		assert_result(0, sneck_acquire_start(a, "door", 4, SNECK_WRITE, &started, NULL), NULL);
		sneck_event event;
		assert_true(test_next_event(a, &event, 2000));
		last = above(event.hold, last, "started");
		test_release(event.hold);
		hold = test_take_opts(a, "door", SNECK_WRITE, &brief);
		last = above(hold, last, "fixed");
		sneck_hold *next = test_take(b, "door", SNECK_WRITE, 2000);
		last = above(next, last, "after a lease that ran out");
		assert_result(SNECK_ELOST, sneck_release(hold), NULL);
		test_release(next);
	}
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
}

int main(int argc, char **argv) {
	if (argc > 1)
		return test_actor_main(argc, argv);
	const struct CMUnitTest tests[] = {
		TEST(in_order_when_nobody_releases),
		TEST(hundreds_of_waiters_are_all_served),
		TEST(waiting_times_do_not_drift),
		TEST(a_paused_server_leaves_no_waiters),
		TEST_PLAIN(many_locks_one_channel_per_session),
		TEST(forged_messages_are_harmless),
		TEST(a_slow_subscriber_is_cut_off_and_served),
		TEST(every_form_takes_a_larger_token),
	};
	return TEST_RUN(tests);
}
