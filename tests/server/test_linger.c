/* SPDX-License-Identifier: MIT */
/* Locks that linger: taken again for nothing, given back when another session asks, and never longer there
 * than they may be, whatever gets lost. And how long the threads of one client keep others waiting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "locks.h"
#include "wait.h"

enum { LONG_MS = 60000, BEAT_MS = SNECK_WAITER_BEAT_MS };

static struct test_server *const server = &test_the_server;

static sneck_client *open_with(const sneck_client_options *options) {
	sneck_client *client = NULL;
	sneck_error error = { 0 };

	assert_result(0, sneck_open(server->url, options, &client, &error), &error);
	return client;
}

static sneck_client *open_lingering(int64_t linger_ms) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;

	options.linger_ms = linger_ms;
	return open_with(&options);
}

/* One that never hears a message: every request to give something back gets lost. */
static sneck_client *open_deaf(int64_t linger_ms) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;

	test_redis_ok(server, "ACL SETUSER deaf on >pw ~* &* +@all -subscribe -ssubscribe");
	options.linger_ms = linger_ms;
	options.user = "deaf";
	options.password = "pw";
	return open_with(&options);
}

static bool hears_messages(sneck_client *client) {
	char channel[128];

	snprintf(channel, sizeof channel, "sneck:!%s", sneck_client_session(client));
	redisReply *reply = test_redis(server, "PUBSUB NUMSUB %s", channel);
	bool heard = reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
	             reply->element[1]->integer == 1;
	freeReplyObject(reply);
	return heard;
}

/* Whoever is ready to wait listens. Nothing lingers after it, of which the server would be told later. */
static void let_listen(sneck_client *client) {
	sneck_acquire_options options = test_waiting(1000);

	options.linger_ms = SNECK_LINGER_OFF;
	test_release(test_take_opts(client, "another", SNECK_READ, &options));
	assert_true(WAIT_UNTIL(hears_messages(client), 5000));
}

/* Taken and released; the client listens, and the server has not heard of the release. */
static uint64_t let_linger(sneck_client *client, const char *name, sneck_mode mode) {
	let_listen(client);
	sneck_hold *hold = test_take(client, name, mode, 0);
	uint64_t token = sneck_hold_token(hold);
	test_release(hold);
	assert_int_equal(test_members(server, name, "RW"), 1);
	return token;
}

static int lingers(sneck_client *looker, const char *name) {
	sneck_lock_info *info = NULL;
	sneck_error error = { 0 };

	assert_result(0, sneck_inspect(looker, name, strlen(name), 0, &info, &error), &error);
	int marked = info->holder_n == 1 ? info->parties[0].lingers : -1;
	sneck_lock_info_free(info);
	return marked;
}

/* ---- Taking it again ----------------------------------------------------------------------------*/

static void check_taken_again(sneck_mode mode) {
	enum { PAIRS = 5000 };
	sneck_client *client = open_lingering(LONG_MS);
	uint64_t token = let_linger(client, "door", mode);
	sneck_counters before = test_stats(client);

	for (int i = 0; i < PAIRS; i++) {
		sneck_hold *hold = test_take(client, "door", mode, 0);
		uint64_t next = sneck_hold_token(hold);
		assert_true(mode == SNECK_WRITE ? next > token : next == token);
		assert_true(sneck_check(hold, SNECK_LEASE_DEFAULT_MS / 2));
		token = next;
		test_release(hold);
	}
	sneck_counters after = test_stats(client);
	assert_int_equal(after.retakes - before.retakes, PAIRS);
	assert_int_equal(after.acquires - before.acquires, PAIRS);
	/* None; but the loop may have had to stand still for a moment, which is told the server. */
	assert_true(after.commands - before.commands < PAIRS / 50);
	sneck_close(client);
	assert_true(test_is_idle(server, "door")); /* and the close has given it back */
}

static void taken_again_for_nothing(void **state) {
	(void)state;
	check_taken_again(SNECK_WRITE);
	check_taken_again(SNECK_READ);
}

static void an_acquire_may_differ_from_its_client(void **state) {
	(void)state;
	sneck_client *client = open_lingering(LONG_MS);
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	options.linger_ms = SNECK_LINGER_OFF;
	test_release(test_take_opts(client, "door", SNECK_WRITE, &options));
	assert_true(test_is_idle(server, "door"));
	options.linger_ms = 0;
	options.fixed = 1;
	test_release(test_take_opts(client, "door", SNECK_WRITE, &options));
	assert_true(test_is_idle(server, "door"));
	sneck_close(client);
	client = test_open(server->url);
	options.fixed = 0;
	options.linger_ms = LONG_MS;
	test_release(test_take_opts(client, "door", SNECK_WRITE, &options));
	assert_int_equal(test_members(server, "door", "W"), 1);
	options.linger_ms = -2;
	sneck_hold *hold = NULL;
	assert_int_equal(sneck_acquire(client, "door", SNECK_WRITE, &options, &hold, NULL), SNECK_EINVAL);
	sneck_close(client);
}

/* ---- Giving it back -----------------------------------------------------------------------------*/

static void given_back_when_another_session_asks(void **state) {
	(void)state;
	static const sneck_mode modes[][2] = { { SNECK_WRITE, SNECK_WRITE }, { SNECK_WRITE, SNECK_READ },
		{ SNECK_READ, SNECK_WRITE } };

	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
		sneck_client *a = open_lingering(LONG_MS);
		sneck_client *b = test_open(server->url);
		let_listen(b);
		uint64_t token = let_linger(a, "door", modes[i][0]);
		sneck_hold *hold = test_take(a, "door", modes[i][0], 0);
		assert_true(sneck_hold_token(hold) >= token);
		token = sneck_hold_token(hold);
		test_release(hold);
		int64_t began_ms = test_now_ms();
		hold = test_take(b, "door", modes[i][1], 10000);
		assert_true(test_now_ms() - began_ms < BEAT_MS); /* not because it had to ask again */
		assert_true(sneck_hold_token(hold) > token);
		assert_int_equal(test_stats(a).recalls, 1);
		/* By the message; one that overtakes the answer "waiting" makes b ask at once. */
		sneck_counters counters = test_stats(b);
		assert_int_equal(counters.grants_by_message + counters.grants_by_beat, 1);
		assert_int_equal(test_members(server, "door", "RW"), 1);
		test_release(hold);
		sneck_close(a);
		sneck_close(b);
	}
}

static void readers_of_two_sessions_linger_side_by_side(void **state) {
	(void)state;
	sneck_client *a = open_lingering(LONG_MS);
	sneck_client *b = open_lingering(LONG_MS);
	let_linger(a, "door", SNECK_READ);
	let_linger(b, "other", SNECK_READ);
	test_release(test_take(b, "door", SNECK_READ, 0));
	assert_int_equal(test_members(server, "door", "R"), 2);
	sneck_client *c = test_open(server->url);
	int64_t began_ms = test_now_ms();
	test_release(test_take(c, "door", SNECK_WRITE, 10000));
	assert_true(test_now_ms() - began_ms < BEAT_MS);
	sneck_close(a);
	sneck_close(b);
	sneck_close(c);
}

/* Nobody hears that it is wanted: then the time ends it. */
static void a_lost_recall_is_made_good(void **state) {
	(void)state;
	enum { LINGER_MS = 1500 };
	sneck_client *a = open_deaf(LINGER_MS);
	sneck_client *b = test_open(server->url);
	test_release(test_take(a, "door", SNECK_WRITE, 1000));
	int64_t began_ms = test_now_ms();
	assert_true(WAIT_UNTIL(lingers(b, "door") == 1, 5000)); /* its answer is the last chance to hear */
	test_release(test_take(b, "door", SNECK_WRITE, 10000));
	assert_true(test_now_ms() - began_ms < LINGER_MS + TEST_SLACK_MS);
	assert_int_equal(test_stats(a).recalls, 0);
	sneck_close(a);
	sneck_close(b);
}

/* Or its lease does, which nobody renews. */
static void the_lease_ends_what_lingers(void **state) {
	(void)state;
	enum { LEASE_MS = 1000 };
	sneck_client *a = open_deaf(LONG_MS);
	sneck_client *b = test_open(server->url);
	sneck_acquire_options options = test_waiting(1000);
	options.lease_ms = LEASE_MS;
	int64_t began_ms = test_now_ms();
	test_release(test_take_opts(a, "door", SNECK_WRITE, &options));
	test_release(test_take(b, "door", SNECK_WRITE, 10000));
	assert_true(test_now_ms() - began_ms < LEASE_MS + TEST_SLACK_MS);
	assert_int_equal(test_stats(a).renewals, 0);
	sneck_close(a);
	sneck_close(b);
}

static void one_who_does_not_wait_has_it_asked_for(void **state) {
	(void)state;
	sneck_client *a = open_lingering(LONG_MS);
	sneck_client *b = test_open(server->url);
	let_linger(a, "door", SNECK_WRITE);
	assert_true(WAIT_UNTIL(lingers(b, "door") == 1, 5000));
	assert_int_equal(test_probe(b, "door", SNECK_WRITE), SNECK_EBUSY);
	assert_true(WAIT_UNTIL(test_probe(b, "door", SNECK_WRITE) == 0, 5000));
	/* One that uses it is not disturbed. */
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	assert_int_equal(test_probe(b, "door", SNECK_WRITE), SNECK_EBUSY);
	test_release(hold);
	assert_int_equal(test_members(server, "door", "W"), 1); /* it lingers: nobody waits */
	sneck_close(a);
	sneck_close(b);
}

static void after_a_fork_it_is_the_parents(void **state) {
	(void)state;
	sneck_client *client = open_lingering(LONG_MS);
	let_linger(client, "door", SNECK_WRITE);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		sneck_hold *hold = NULL;
		alarm(10);
		int r = sneck_acquire(client, "door", SNECK_WRITE, NULL, &hold, NULL);
		sneck_close(client);
		_exit(r == SNECK_EFORKED && !hold ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(test_members(server, "door", "W"), 1);
	uint64_t retakes = test_stats(client).retakes;
	test_release(test_take(client, "door", SNECK_WRITE, 0));
	assert_int_equal(test_stats(client).retakes, retakes + 1);
	sneck_close(client);
}

static void converted_while_it_is_used(void **state) {
	(void)state;
	sneck_client *a = open_lingering(LONG_MS);
	sneck_client *b = test_open(server->url);
	let_linger(a, "door", SNECK_READ);
	sneck_hold *hold = test_take(a, "door", SNECK_READ, 0);
	sneck_error error = { 0 };
	assert_result(0, sneck_upgrade(hold, NULL, &error), &error);
	uint64_t token = sneck_hold_token(hold);
	test_release(hold);
	assert_int_equal(test_members(server, "door", "W"), 1);
	hold = test_take(a, "door", SNECK_WRITE, 0);
	assert_true(sneck_hold_token(hold) == token + 1);
	assert_result(0, sneck_downgrade(hold, &error), &error);
	test_release(hold);
	assert_int_equal(test_members(server, "door", "R"), 1);
	hold = test_take(b, "door", SNECK_READ, 0);
	assert_true(sneck_hold_token(hold) > token + 1);
	test_release(hold);
	sneck_close(a);
	sneck_close(b);
}

/* What lingers and is gone from the server is noticed when the server is told that it lingers. */
static void the_server_has_lost_it(void **state) {
	(void)state;
	char key[160];
	sneck_client *client = open_lingering(LONG_MS);
	let_listen(client);
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	uint64_t token = sneck_hold_token(hold);
	test_redis_ok(server, "DEL %s", test_key("door", key));
	uint64_t commands = test_stats(client).commands;
	int r = sneck_release(hold);
	/* Or it has been asked about meanwhile, because messages have just begun to flow. */
	assert_true(r == SNECK_ELOST || WAIT_UNTIL(test_stats(client).commands > commands, 5000));
	assert_true(WAIT_UNTIL((sneck_release(test_take(client, "door", SNECK_WRITE, 0)),
	                               test_members(server, "door", "W") == 1),
	        5000));
	hold = test_take(client, "door", SNECK_WRITE, 0);
	assert_true(sneck_hold_token(hold) > token);
	test_release(hold);
	sneck_close(client);
}

/* ---- What people see ----------------------------------------------------------------------------*/

static void it_is_shown_and_taken_again_all_the_same(void **state) {
	(void)state;
	sneck_client *a = open_lingering(LONG_MS);
	sneck_client *looker = test_open(server->url);
	let_linger(a, "door", SNECK_WRITE);
	assert_true(WAIT_UNTIL(lingers(looker, "door") == 1, 5000));
	double deadline = test_score(server, "door", "W");
	uint64_t commands = test_stats(a).commands;
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	assert_int_equal(test_stats(a).commands, commands);          /* nothing was waited for … */
	assert_true(WAIT_UNTIL(lingers(looker, "door") == 0, 5000)); /* … but it was told */
	assert_true(test_score(server, "door", "W") == deadline - 0.5);
	assert_int_equal(test_stats(a).renewals, 0);
	test_release(hold);
	sneck_close(a);
	sneck_close(looker);
}

/* ---- Other dialects -----------------------------------------------------------------------------*/

static void refused_where_it_cannot_be_asked_for(void **state) {
	(void)state;
	static const char *const dialects[] = { "counted", "intent", "redisson:lock", "redisson:rwlock",
		"redisson:fair", "redisson:fenced" };

	for (size_t i = 0; i < sizeof dialects / sizeof dialects[0]; i++) {
		sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
		sneck_client *client = NULL;
		sneck_error error = { 0 };
		options.dialect = dialects[i];
		options.linger_ms = 1000;
		assert_result(SNECK_ENOTSUP, sneck_open(server->url, &options, &client, &error), &error);
		assert_non_null(strstr(error.text, "linger"));
		options.dialect = NULL;
		client = open_with(&options);
		sneck_acquire_options acquire = SNECK_ACQUIRE_OPTIONS_INIT;
		sneck_hold *hold = NULL;
		acquire.dialect = dialects[i];
		assert_result(SNECK_ENOTSUP,
		        sneck_acquire(client, "door", SNECK_WRITE, &acquire, &hold, &error), &error);
		acquire.linger_ms = SNECK_LINGER_OFF;
		assert_result(0, sneck_acquire(client, "door", SNECK_WRITE, &acquire, &hold, &error), &error);
		test_release(hold);
		sneck_close(client);
	}
}

/* ---- Everybody at once --------------------------------------------------------------------------*/

struct crowd {
	sneck_client *client;
	atomic_int *inside;
	long *counter; /* guarded by the lock, and by nothing else */
	_Atomic uint64_t *last_token;
	int rounds;
	atomic_int failures;
};

static void *take_turns(void *arg) {
	struct crowd *crowd = arg;
	sneck_acquire_options options = test_waiting(20000);

	for (int i = 0; i < crowd->rounds; i++) {
		sneck_hold *hold = NULL;
		if (sneck_acquire(crowd->client, "door", SNECK_WRITE, &options, &hold, NULL) != 0) {
			atomic_fetch_add(&crowd->failures, 1);
			continue;
		}
		uint64_t token = sneck_hold_token(hold);
		if (atomic_fetch_add(crowd->inside, 1) != 0 ||
		        atomic_exchange(crowd->last_token, token) >= token)
			atomic_fetch_add(&crowd->failures, 1);
		++*crowd->counter;
		atomic_fetch_sub(crowd->inside, 1);
		if (sneck_release(hold) != 0)
			atomic_fetch_add(&crowd->failures, 1);
	}
	return NULL;
}

static void crowds_of_two_sessions_take_turns(void **state) {
	(void)state;
	enum { CLIENTS = 3, THREADS = 3, ROUNDS = TEST_SANITIZED ? 100 : 400 };
	atomic_int inside = 0;
	_Atomic uint64_t last_token = 0;
	long counter = 0;
	struct crowd crowds[CLIENTS];
	pthread_t threads[CLIENTS][THREADS];

	for (int c = 0; c < CLIENTS; c++) {
		crowds[c] = (struct crowd){ .client = c ? open_lingering(LONG_MS) : test_open(server->url),
			.inside = &inside,
			.counter = &counter,
			.last_token = &last_token,
			.rounds = ROUNDS };
		for (int t = 0; t < THREADS; t++)
			assert_int_equal(pthread_create(&threads[c][t], NULL, take_turns, &crowds[c]), 0);
	}
	for (int c = 0; c < CLIENTS; c++)
		for (int t = 0; t < THREADS; t++)
			pthread_join(threads[c][t], NULL);
	for (int c = 0; c < CLIENTS; c++) {
		assert_int_equal(atomic_load(&crowds[c].failures), 0);
		sneck_close(crowds[c].client);
	}
	assert_int_equal(counter, CLIENTS * THREADS * ROUNDS);
	assert_true(test_is_idle(server, "door"));
}

struct looping {
	sneck_client *client;
	atomic_bool stop;
	atomic_long rounds;
};

static void *take_on_and_on(void *arg) {
	struct looping *looping = arg;
	sneck_acquire_options options = test_waiting(20000);

	while (!atomic_load(&looping->stop)) {
		sneck_hold *hold = NULL;
		if (sneck_acquire(looping->client, "door", SNECK_WRITE, &options, &hold, NULL) != 0 ||
		        sneck_release(hold) != 0)
			return NULL;
		atomic_fetch_add(&looping->rounds, 1);
	}
	return looping;
}

/* A thread that is in the client all the time leaves room for the message that asks for the lock. */
static void a_loop_without_a_pause_lets_others_in(void **state) {
	(void)state;
	struct looping looping = { .client = open_lingering(LONG_MS) };
	sneck_client *other = test_open(server->url);
	pthread_t thread;
	void *end;

	let_linger(looping.client, "door", SNECK_WRITE);
	let_listen(other);
	assert_int_equal(pthread_create(&thread, NULL, take_on_and_on, &looping), 0);
	for (int i = 0; i < 20; i++) {
		long rounds = atomic_load(&looping.rounds);
		assert_true(WAIT_UNTIL(atomic_load(&looping.rounds) > rounds + 1000, 10000));
		int64_t began_ms = test_now_ms();
		test_release(test_take(other, "door", SNECK_WRITE, 10000));
		assert_true(test_now_ms() - began_ms < TEST_SLACK_MS);
	}
	atomic_store(&looping.stop, true);
	pthread_join(thread, &end);
	assert_non_null(end);
	sneck_close(looping.client);
	sneck_close(other);
}

/* ---- How long others wait -----------------------------------------------------------------------*/

enum { OWN = 6 };

/* One of the client's own threads that has it; -1: none. */
static int who_has_it(struct test_call own[OWN], const bool had[OWN]) {
	for (int i = 0; i < OWN; i++)
		if (!had[i] && atomic_load(&own[i].done))
			return i;
	return -1;
}

static void give_it_on(struct test_call *call) {
	assert_int_equal(test_call_join(call), 0);
	test_release(call->hold);
}

/* How many of the client's own threads come before another session that waits. */
static int come_before_the_other(uint32_t handover_max, uint32_t handover_ms) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	options.handover_max = handover_max;
	options.handover_ms = handover_ms;
	sneck_client *a = open_with(&options);
	sneck_client *b = test_open(server->url);
	struct test_call other, own[OWN];
	bool had[OWN] = { false };
	int before = 0;
	sneck_error error = { 0 };

	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	for (int i = 0; i < OWN; i++)
		test_call_start(&own[i], a, "door", SNECK_WRITE, NULL);
	assert_true(WAIT_UNTIL(test_stats(a).waiters == OWN, 5000));
	test_call_start(&other, b, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 5000));
	assert_result(0, sneck_renew(hold, 0, &error), &error); /* its answer says that somebody waits */
	test_release(hold);
	for (int n = 0, other_had = 0; n < OWN + 1; n++) {
		int i = -1;
		assert_true(WAIT_UNTIL(
		        (!other_had && atomic_load(&other.done)) || (i = who_has_it(own, had)) >= 0, 10000));
		before += i >= 0 && !other_had;
		give_it_on(i < 0 ? &other : &own[i]);
		if (i < 0)
			other_had = 1;
		else
			had[i] = true;
	}
	sneck_close(a);
	sneck_close(b);
	return before;
}

static void how_often_it_is_passed_on_is_an_option(void **state) {
	(void)state;
	assert_int_equal(come_before_the_other(SNECK_HANDOVER_OFF, 0), 0);
	assert_int_equal(come_before_the_other(2, 60000), 2);
	assert_int_equal(come_before_the_other(100, 60000), 6);
}

struct reading {
	sneck_client *client;
	atomic_bool stop;
	atomic_long rounds;
};

static void *read_on_and_on(void *arg) {
	struct reading *reading = arg;
	const struct timespec a_while = { 0, 20000000 };
	sneck_acquire_options options = test_waiting(20000);

	while (!atomic_load(&reading->stop)) {
		sneck_hold *hold = NULL;
		if (sneck_acquire(reading->client, "door", SNECK_READ, &options, &hold, NULL) != 0)
			return NULL;
		nanosleep(&a_while, NULL); /* the work */
		atomic_fetch_add(&reading->rounds, 1);
		sneck_release(hold);
	}
	return NULL;
}

/* Readers of one client overlap, so that one of them holds at any moment; whoever asks to write waits for
 * those who read already, and for nobody who comes later. */
static void a_stream_of_local_readers_lets_a_writer_in(void **state) {
	(void)state;
	enum { READERS = 5, HOLD_MS = 20 };
	struct reading reading = { .client = open_lingering(LONG_MS) };
	sneck_client *writer = test_open(server->url);
	pthread_t threads[READERS];

	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_on_and_on, &reading), 0);
	assert_true(WAIT_UNTIL(atomic_load(&reading.rounds) > 2 * READERS, 10000));
	for (int i = 0; i < 10; i++) {
		int64_t began_ms = test_now_ms();
		sneck_hold *hold = test_take(writer, "door", SNECK_WRITE, 10000);
		assert_true(test_now_ms() - began_ms < HOLD_MS + TEST_SLACK_MS);
		long rounds = atomic_load(&reading.rounds);
		test_release(hold);
		assert_true(WAIT_UNTIL(atomic_load(&reading.rounds) > rounds + READERS, 10000));
	}
	atomic_store(&reading.stop, true);
	for (int i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	sneck_close(reading.client);
	sneck_close(writer);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(taken_again_for_nothing),
		TEST(an_acquire_may_differ_from_its_client),
		TEST(given_back_when_another_session_asks),
		TEST(readers_of_two_sessions_linger_side_by_side),
		TEST(a_lost_recall_is_made_good),
		TEST(the_lease_ends_what_lingers),
		TEST(one_who_does_not_wait_has_it_asked_for),
		TEST(after_a_fork_it_is_the_parents),
		TEST(converted_while_it_is_used),
		TEST(the_server_has_lost_it),
		TEST(it_is_shown_and_taken_again_all_the_same),
		TEST(refused_where_it_cannot_be_asked_for),
		TEST(crowds_of_two_sessions_take_turns),
		TEST(a_loop_without_a_pause_lets_others_in),
		TEST(how_often_it_is_passed_on_is_an_option),
		TEST(a_stream_of_local_readers_lets_a_writer_in),
	};
	return cmocka_run_group_tests(tests, test_server_up, test_server_down);
}
