/* SPDX-License-Identifier: MIT */
/* sneck and a second client, written from the documents in another language, on one lock: each waits for the
 * other, nobody's hold is freed by another, counts and results are as the documents say. What the second
 * client is asked to do stands in second.py.
 *
 * SNECK_SECOND_SECONDS is how long the dance of both lasts. */
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
#include <unistd.h>

#include <cmocka.h>

#include "actor.h"
#include "locks.h"
#include "wait.h"

enum { ANSWER_MS = 20000, DANCERS = 2, WAKE_MS = 100, ROUNDS_MAX = 15 };

static struct test_server *const server = &test_the_server;

static bool is_counted(void **state) {
	return strcmp(*state, "counted") == 0;
}

static const char *url_of(void **state) {
	static char url[TEST_URL_MAX];
	return test_url_with(server, url, "dialect=%s", (const char *)*state);
}

static void start_second(void **state, struct test_proc *proc) {
	const char *args[] = { "second", *state, server->socket_path, NULL };
	test_proc_start(proc, args);
}

static void say(struct test_proc *proc, char *answer, size_t size, const char *format, va_list args) {
	char line[512];
	vsnprintf(line, sizeof line, format, args);
	if (!test_proc_ask(proc, answer, size, ANSWER_MS, "%s", line))
		fail_msg("%s: no answer", line);
}

/* The second client's result, exactly. */
static void second(struct test_proc *proc, const char *expected, const char *format, ...) {
	char answer[256];
	va_list args;
	va_start(args, format);
	say(proc, answer, sizeof answer, format, args);
	va_end(args);
	if (strcmp(answer, expected) != 0)
		fail_msg("%s: \"%s\", not \"%s\"", format, answer, expected);
}

/* The second client's result is a word (or none) and a time that is left. */
static void second_left(
        struct test_proc *proc, const char *word, long least, long most, const char *format, ...) {
	char answer[256];
	va_list args;
	va_start(args, format);
	say(proc, answer, sizeof answer, format, args);
	va_end(args);
	size_t len = strlen(word);
	long left = strncmp(answer, word, len) == 0 ? strtol(answer + len, NULL, 10) : -99;
	if (left < least || left > most)
		fail_msg("%s: \"%s\", not \"%s%ld..%ld\"", format, answer, word, least, most);
}

/* It takes the lock for `lease_ms`, or fails the test. */
static void second_takes(void **state, struct test_proc *proc, char mode, const char *owner, int lease_ms) {
	char done[32];
	snprintf(done, sizeof done, is_counted(state) ? "1 %d" : "OK", lease_ms);
	second(proc, done, "%clock door %s %d", mode, owner, lease_ms);
}

static void second_is_refused(void **state, struct test_proc *proc, char mode, const char *owner) {
	if (is_counted(state))
		second_left(proc, "0 ", 1, 60000, "%clock door %s 5000", mode, owner);
	else if (mode == 'r')
		second_left(proc, "", 1, 60000, "rlock door %s 5000", owner);
	else
		second(proc, "2", "wlock door %s 5000", owner);
}

/* The last of the holds: the lock is free then. */
static void second_leaves(void **state, struct test_proc *proc, char mode, const char *owner) {
	second(proc, is_counted(state) ? "1 -2" : "1", "%cunlock door %s", mode, owner);
}

static bool nothing_left(void) {
	return test_redis_int(server, "EXISTS door") == 0;
}

/* ---- Waiting for each other -------------------------------------------------------------------*/

static void each_waits_for_the_other(void **state) {
	struct test_proc proc;
	struct test_call call;
	sneck_client *client = test_open(url_of(state));
	/* By a message, or by asking, every 500 ms at most: not when the lease of 30 s is over. */
	int64_t most_ms = 500 + 2 * TEST_SLACK_MS;

	start_second(state, &proc);
	for (int i = 0; i < 2; i++) {
		second_takes(state, &proc, 'w', "one", 30000);
		test_call_start(&call, client, "door", i ? SNECK_READ : SNECK_WRITE, NULL);
		assert_true(WAIT_UNTIL(test_stats(client).waiters == 1, 5000));
		assert_false(atomic_load(&call.done));
		second_leaves(state, &proc, 'w', "one");
		int64_t released_ms = test_now_ms();
		assert_result(0, test_call_join(&call), &call.error);
		assert_true(call.end_ms - released_ms < most_ms);
		if (i == 0)
			second_is_refused(state, &proc, 'r', "one");
		else if (is_counted(state))
			second_is_refused(state, &proc, 'w', "one");
		else
			second(&proc, "1", "wlock door one 1000"); /* it waits, and says so */
		test_release(call.hold);
		second_takes(state, &proc, 'w', "one", 30000);
		second_leaves(state, &proc, 'w', "one");
	}
	assert_true(nothing_left());
	sneck_close(client);
	assert_int_equal(test_proc_finish(&proc, ANSWER_MS), 0);
}

static void the_messages_of_intent_go_both_ways(void **state) {
	struct test_proc proc;
	char heard[256];
	sneck_client *client = test_open(url_of(state));

	start_second(state, &proc);
	second(&proc, "ok", "listen {door}:channel");
	test_release(test_take(client, "door", SNECK_WRITE, 5000));
	assert_true(test_proc_ask(&proc, heard, sizeof heard, ANSWER_MS, "heard 2000"));
	assert_non_null(strstr(heard, "_del_write"));
	test_release(test_take(client, "door", SNECK_READ, 5000));
	assert_true(test_proc_ask(&proc, heard, sizeof heard, ANSWER_MS, "heard 2000"));
	assert_non_null(strstr(heard, "_del_read"));
	/* Sooner than its next question; on a busy machine perhaps not in the first round. */
	bool prompt = false;
	for (int i = 0; i < ROUNDS_MAX && !prompt; i++) {
		struct test_call call;
		second_takes(state, &proc, 'w', "one", 30000);
		test_call_start(&call, client, "door", SNECK_WRITE, NULL);
		int64_t asked_ms = test_await_long_pause(client);
		second_leaves(state, &proc, 'w', "one");
		assert_result(0, test_call_join(&call), &call.error);
		prompt = call.end_ms - asked_ms < WAKE_MS;
		test_release(call.hold);
	}
	assert_true(prompt);
	sneck_close(client);
	assert_int_equal(test_proc_finish(&proc, ANSWER_MS), 0);
}

/* ---- Sharing ----------------------------------------------------------------------------------*/

static void readers_of_both_share(void **state) {
	struct test_proc proc;
	sneck_client *client = test_open(url_of(state)), *other = test_open(url_of(state));

	start_second(state, &proc);
	second_takes(state, &proc, 'r', "one", 30000);
	sneck_hold *hold = test_take(client, "door", SNECK_READ, 5000);
	second_takes(state, &proc, 'r', "two", 30000);
	assert_result(SNECK_EBUSY, test_probe(other, "door", SNECK_WRITE), NULL);
	/* The release of one frees nobody else's hold. */
	test_release(hold);
	assert_result(SNECK_EBUSY, test_probe(other, "door", SNECK_WRITE), NULL);
	hold = test_take(client, "door", SNECK_READ, 5000);
	if (is_counted(state)) {
		second_left(&proc, "1 ", 1, 30000, "runlock door one");
		second_left(&proc, "1 ", 1, 30000, "runlock door two");
		second_left(&proc, "0 ", 1, 30000, "wlock door one 1000");
	} else {
		second(&proc, "0", "runlock door one");
		second(&proc, "0", "runlock door two");
		second(&proc, "1", "wlock door one 1000"); /* it waits, and says so */
		assert_result(SNECK_EBUSY, test_probe(other, "door", SNECK_READ), NULL);
	}
	assert_true(sneck_check(hold, 1000));
	test_release(hold);
	second_takes(state, &proc, 'w', "one", 1000);
	assert_result(SNECK_EBUSY, test_probe(other, "door", SNECK_READ), NULL);
	second_leaves(state, &proc, 'w', "one");
	assert_true(nothing_left());
	sneck_close(client);
	sneck_close(other);
	assert_int_equal(test_proc_finish(&proc, ANSWER_MS), 0);
}

static sneck_hold *take_again(sneck_client *client, sneck_mode mode) {
	sneck_acquire_options options = test_waiting(0);
	options.owner = 1;
	return test_take_opts(client, "door", mode, &options);
}

static void re_entry_on_both_sides(void **state) {
	struct test_proc proc;
	sneck_client *client = test_open(url_of(state));
	sneck_hold *one = take_again(client, SNECK_WRITE), *two = take_again(client, SNECK_WRITE);
	sneck_hold *read = take_again(client, SNECK_READ);

	start_second(state, &proc);
	second_is_refused(state, &proc, 'r', "one");
	test_release(one);
	second_is_refused(state, &proc, 'r', "one");
	test_release(two);
	test_release(read);
	second_takes(state, &proc, 'r', "one", 30000);
	second_takes(state, &proc, 'r', "one", 30000);
	assert_result(SNECK_EBUSY, test_probe(client, "door", SNECK_WRITE), NULL);
	if (is_counted(state))
		second_left(&proc, "1 ", 1, 30000, "runlock door one");
	else
		second(&proc, "0", "runlock door one");
	assert_result(SNECK_EBUSY, test_probe(client, "door", SNECK_WRITE), NULL);
	second_leaves(state, &proc, 'r', "one");
	assert_result(0, test_probe(client, "door", SNECK_WRITE), NULL);
	sneck_close(client);
	assert_int_equal(test_proc_finish(&proc, ANSWER_MS), 0);
}

static void names_with_braces_and_colons(void **state) {
	static const char *const names[] = { "a:b", "{tag}:rest", "x{y}z", "}" };
	struct test_proc proc;
	sneck_client *client = test_open(url_of(state));

	start_second(state, &proc);
	for (size_t i = 0; i < 4; i++) {
		sneck_hold *hold = test_take(client, names[i], SNECK_READ, 5000);
		if (is_counted(state))
			second_left(&proc, "0 ", 1, 30000, "wlock %s one 1000", names[i]);
		else
			second(&proc, "1", "wlock %s one 1000", names[i]);
		test_release(hold);
		second(&proc, is_counted(state) ? "1 1000" : "OK", "wlock %s one 1000", names[i]);
		assert_result(SNECK_EBUSY, test_probe(client, names[i], SNECK_READ), NULL);
		second(&proc, is_counted(state) ? "1 -2" : "1", "wunlock %s one", names[i]);
	}
	sneck_close(client);
	assert_int_equal(test_proc_finish(&proc, ANSWER_MS), 0);
}

/* ---- Leases -----------------------------------------------------------------------------------*/

static void the_watchdog_holds_the_other_off(void **state) {
	struct test_proc proc;
	sneck_client *client = test_open(url_of(state));
	sneck_acquire_options options = test_waiting(0);
	options.lease_ms = 3000;
	sneck_hold *hold = test_take_opts(client, "door", SNECK_WRITE, &options);
	int64_t until_ms = test_now_ms() + 2 * options.lease_ms + 200;

	start_second(state, &proc);
	while (test_now_ms() < until_ms) {
		second_is_refused(state, &proc, 'w', "one");
		second_is_refused(state, &proc, 'r', "one");
	}
	assert_true(sneck_check(hold, 1));
	test_release(hold);
	second_takes(state, &proc, 'w', "one", 1000);
	second_leaves(state, &proc, 'w', "one");
	sneck_close(client);
	assert_int_equal(test_proc_finish(&proc, ANSWER_MS), 0);
}

static void a_killed_one_is_free_within_its_lease(void **state) {
	struct test_proc proc, actor;
	sneck_client *client = test_open(url_of(state));
	const char *done = is_counted(state) ? "1 30000" : "OK";
	char answer[256];

	start_second(state, &proc);
	second_takes(state, &proc, 'w', "one", 700);
	test_proc_signal(&proc, SIGKILL);
	int64_t killed_ms = test_now_ms();
	test_release(test_take(client, "door", SNECK_WRITE, 5000));
	assert_true(test_now_ms() - killed_ms < 700 + 2 * TEST_SLACK_MS);

	start_second(state, &proc);
	second(&proc, is_counted(state) ? "0 -2" : "-1", "wunlock door two"); /* it is up */
	test_actor_start(&actor, url_of(state));
	test_actor_expect(&actor, "ok", "take door w 1000 700");
	test_proc_signal(&actor, SIGKILL);
	killed_ms = test_now_ms();
	do
		assert_true(test_proc_ask(&proc, answer, sizeof answer, ANSWER_MS, "wlock door two 30000"));
	while (strcmp(answer, done) != 0 && test_now_ms() - killed_ms < 5000);
	assert_true(test_now_ms() - killed_ms < 700 + 2 * TEST_SLACK_MS);
	second_leaves(state, &proc, 'w', "two");
	sneck_close(client);
	assert_int_equal(test_proc_finish(&proc, ANSWER_MS), 0);
}

/* ---- Every result of the documents ------------------------------------------------------------*/

static void the_results_of_counted(void **state) {
	struct test_proc proc;
	sneck_client *client = test_open(url_of(state));
	sneck_error error = { 0 };
	sneck_acquire_options now = test_waiting(0);

	start_second(state, &proc);
	second(&proc, "0 -2", "runlock door one"); /* no lock at all */
	second(&proc, "0 -2", "wunlock door one");
	second(&proc, "0 -2", "rrenew door one 1000");
	second(&proc, "0 -2", "wrenew door one 1000");
	sneck_hold *hold = take_again(client, SNECK_WRITE);
	second_left(&proc, "0 ", 1, 30000, "rlock door one 1000"); /* sneck writes */
	second_left(&proc, "0 ", 1, 30000, "wlock door one 1000");
	second_left(&proc, "0 ", 1, 30000, "wunlock door one");
	second_left(&proc, "0 ", 1, 30000, "wrenew door one 1000");
	assert_result(0, sneck_downgrade(hold, &error), &error);
	second_left(&proc, "1 ", 29000, 30000, "rlock door one 1000"); /* sneck reads: both do */
	second_left(&proc, "1 ", 29000, 30000, "rrenew door one 1000");
	second_left(&proc, "0 ", 1, 30000, "wlock door one 1000");
	assert_result(SNECK_EBUSY, sneck_upgrade(hold, &now, &error), NULL);
	second_left(&proc, "1 ", 1, 30000, "runlock door one");
	second_left(&proc, "0 ", 1, 30000, "runlock door one");
	second_left(&proc, "0 ", 1, 30000, "rrenew door one 1000");
	assert_result(0, sneck_upgrade(hold, &now, &error), &error);
	second_left(&proc, "0 ", 1, 30000, "rlock door one 1000");
	test_release(hold);
	second(&proc, "1 5000", "rlock door one 5000"); /* alone: it may come to write, and go back */
	second(&proc, "1 6000", "wlock door one 6000");
	second(&proc, "1 7000", "wlock door one 7000");
	second(&proc, "1 8000", "wrenew door one 8000");
	assert_result(SNECK_EBUSY, test_probe(client, "door", SNECK_READ), NULL);
	second_left(&proc, "1 ", 1, 8000, "wunlock door one");
	assert_result(SNECK_EBUSY, test_probe(client, "door", SNECK_READ), NULL);
	second_left(&proc, "1 ", 1, 8000, "wunlock door one");
	assert_result(0, test_probe(client, "door", SNECK_READ), NULL); /* read mode again */
	second(&proc, "1 -2", "runlock door one");
	assert_true(nothing_left());
	sneck_close(client);
	assert_int_equal(test_proc_finish(&proc, ANSWER_MS), 0);
}

static void the_results_of_intent(void **state) {
	struct test_proc proc;
	struct test_call call;
	sneck_client *client = test_open(url_of(state)), *other = test_open(url_of(state));

	start_second(state, &proc);
	second(&proc, "3", "runlock door one"); /* no lock at all */
	second(&proc, "-1", "wunlock door one");
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 5000);
	second(&proc, "-1", "runlock door one"); /* sneck writes */
	second(&proc, "-1", "wunlock door one");
	second(&proc, "2", "wlock door one 1000");
	second_left(&proc, "", 29000, 30000, "rlock door one 1000");
	test_release(hold);
	hold = test_take(client, "door", SNECK_READ, 5000);
	second(&proc, "2", "runlock door one"); /* sneck reads */
	second(&proc, "OK", "rlock door one 30000");
	second(&proc, "0", "runlock door one");
	second(&proc, "1", "wlock door one 30000"); /* marked … */
	second(&proc, "2", "wlock door one 30000"); /* … and refreshed */
	second(&proc, "2", "wlock door two 30000"); /* another's mark */
	second_left(&proc, "", 1, 30000, "rlock door three 1000");
	assert_result(SNECK_EBUSY, test_probe(other, "door", SNECK_READ), NULL);
	test_release(hold);
	second(&proc, "-1", "wlock door two 30000"); /* free, but another waits */
	second(&proc, "-2", "rlock door three 1000");
	assert_result(SNECK_EBUSY, test_probe(other, "door", SNECK_WRITE), NULL);
	second(&proc, "OK", "wlock door one 30000");
	second(&proc, "1", "wunlock door one");

	second(&proc, "OK", "rlock door one 30000"); /* now sneck waits, with its mark */
	test_call_start(&call, client, "door", SNECK_WRITE, NULL);
	assert_true(WAIT_UNTIL(test_redis_int(server, "EXISTS {door}:wait_write") == 1, 5000));
	second_left(&proc, "", 1, 30000, "rlock door two 1000");
	second(&proc, "2", "wlock door two 1000");
	second(&proc, "1", "runlock door one");
	assert_result(0, test_call_join(&call), &call.error);
	second(&proc, "2", "wlock door two 1000");
	test_release(call.hold);
	second(&proc, "OK", "wlock door two 1000");
	second(&proc, "1", "wunlock door two");
	assert_int_equal(test_redis_int(server, "DBSIZE"), 0);
	sneck_close(client);
	sneck_close(other);
	assert_int_equal(test_proc_finish(&proc, ANSWER_MS), 0);
}

/* ---- The dance --------------------------------------------------------------------------------*/

struct dancer {
	const char *url;
	unsigned seed;
	int64_t until_ms;
	long writes, reads, overlaps;
	int failed;
	pthread_t thread;
};

static void dance_write(struct dancer *dancer, redisContext *redis) {
	long long writers = 0, readers = 0, tally = 0;
	const char *const asks[] = { "INCR dance:writers", "GET dance:readers", "GET dance:tally" };
	long long *const answers[] = { &writers, &readers, &tally };

	for (int i = 0; i < 3; i++) {
		redisReply *reply = redisCommand(redis, asks[i]);
		*answers[i] = reply->type == REDIS_REPLY_INTEGER  ? reply->integer
		              : reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10)
		                                                  : 0;
		freeReplyObject(reply);
	}
	dancer->overlaps += writers != 1 || readers != 0;
	freeReplyObject(redisCommand(redis, "SET dance:tally %lld", tally + 1));
	freeReplyObject(redisCommand(redis, "DECR dance:writers"));
	dancer->writes++;
}

static void dance_read(struct dancer *dancer, redisContext *redis) {
	freeReplyObject(redisCommand(redis, "INCR dance:readers"));
	redisReply *reply = redisCommand(redis, "GET dance:writers");
	dancer->overlaps += reply->type == REDIS_REPLY_STRING && strtoll(reply->str, NULL, 10) != 0;
	freeReplyObject(reply);
	freeReplyObject(redisCommand(redis, "DECR dance:readers"));
	dancer->reads++;
}

/* Half of the turns write; of those some hold again, or read as well. */
static int take_turn(struct dancer *dancer, sneck_client *client, redisContext *redis) {
	sneck_acquire_options options = test_waiting(60000);
	sneck_mode mode = rand_r(&dancer->seed) % 2 ? SNECK_WRITE : SNECK_READ;
	sneck_hold *hold = NULL, *again = NULL;
	int r = sneck_acquire(client, "door", mode, &options, &hold, NULL);

	if (r != 0)
		return r;
	if (rand_r(&dancer->seed) % 3 == 0)
		r = sneck_acquire(client, "door", mode, &options, &again, NULL);
	if (mode == SNECK_WRITE)
		dance_write(dancer, redis);
	else
		dance_read(dancer, redis);
	if (again && r == 0)
		r = sneck_release(again);
	int released = sneck_release(hold);
	return r ? r : released;
}

static void *run_dancer(void *arg) {
	struct dancer *dancer = arg;
	sneck_client *client = NULL;
	redisContext *redis = test_server_connect(server);

	dancer->failed = redis ? sneck_open(dancer->url, NULL, &client, NULL) : -1;
	while (!dancer->failed && test_now_ms() < dancer->until_ms)
		dancer->failed = take_turn(dancer, client, redis);
	sneck_close(client);
	if (redis)
		redisFree(redis);
	return NULL;
}

static void a_dance_of_both(void **state) {
	const char *wished = getenv("SNECK_SECOND_SECONDS");
	int seconds = wished ? atoi(wished) : 4;
	struct test_proc procs[DANCERS];
	struct dancer dancers[DANCERS];
	const char *url = url_of(state);
	long ours = 0, theirs = 0;

	for (unsigned i = 0; i < DANCERS; i++) {
		start_second(state, &procs[i]);
		test_proc_say(&procs[i], "dance door %u %d", i, seconds);
		dancers[i] = (struct dancer){
			.url = url, .seed = i + 1, .until_ms = test_now_ms() + seconds * INT64_C(1000)
		};
		assert_int_equal(pthread_create(&dancers[i].thread, NULL, run_dancer, &dancers[i]), 0);
	}
	for (unsigned i = 0; i < DANCERS; i++) {
		char answer[256] = "";
		long writes = 0, reads = 0, overlaps = -1;
		pthread_join(dancers[i].thread, NULL);
		assert_result(0, dancers[i].failed, NULL);
		assert_int_equal(dancers[i].overlaps, 0);
		assert_true(dancers[i].reads > 0 && dancers[i].writes > 0);
		ours += dancers[i].writes;
		assert_true(test_proc_line(&procs[i], answer, sizeof answer, seconds * 1000 + 60000));
		assert_int_equal(sscanf(answer, "%ld %ld %ld", &writes, &reads, &overlaps), 3);
		assert_int_equal(overlaps, 0);
		assert_true(writes > 0 && reads > 0);
		theirs += writes;
		assert_int_equal(test_proc_finish(&procs[i], ANSWER_MS), 0);
	}
	print_message(
	        "%s: %ld writes of sneck, %ld of the second client\n", (const char *)*state, ours, theirs);
	assert_int_equal(test_redis_int(server, "GET dance:tally"), ours + theirs);
	assert_true(nothing_left());
}

int main(int argc, char **argv) {
	static char counted[] = "counted", intent[] = "intent";

	if (argc > 3 && strcmp(argv[1], "second") == 0)
		return execlp("python3", "python3", "-B", SECOND_DIR "/second.py", argv[2], argv[3],
		        SECOND_DIR, (char *)NULL);
	if (argc > 1)
		return test_actor_main(argc, argv);
#define COUNTED(name) cmocka_unit_test_prestate_setup_teardown(name, test_server_clean, NULL, counted)
#define INTENT(name) cmocka_unit_test_prestate_setup_teardown(name, test_server_clean, NULL, intent)
	const struct CMUnitTest tests[] = {
		COUNTED(the_results_of_counted),
		COUNTED(each_waits_for_the_other),
		COUNTED(readers_of_both_share),
		COUNTED(re_entry_on_both_sides),
		COUNTED(names_with_braces_and_colons),
		COUNTED(the_watchdog_holds_the_other_off),
		COUNTED(a_killed_one_is_free_within_its_lease),
		COUNTED(a_dance_of_both),
		INTENT(the_results_of_intent),
		INTENT(each_waits_for_the_other),
		INTENT(the_messages_of_intent_go_both_ways),
		INTENT(readers_of_both_share),
		INTENT(re_entry_on_both_sides),
		INTENT(names_with_braces_and_colons),
		INTENT(the_watchdog_holds_the_other_off),
		INTENT(a_killed_one_is_free_within_its_lease),
		INTENT(a_dance_of_both),
	};
	return cmocka_run_group_tests(tests, test_server_up, test_server_down);
}
