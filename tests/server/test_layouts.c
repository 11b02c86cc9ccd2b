/* SPDX-License-Identifier: MIT */
/* Layouts of other programs through the public interface: what is true of all of them. What is on the
 * server is told by each layout's own tests. */
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
#include "rule.h"
#include "wait.h"

enum { VISITORS = 4, VISITS = TEST_SANITIZED ? 30 : 120, ROUNDS = 3, ROUNDS_MAX = 15 };
enum { WAKE_MS = 100 };

static struct test_server *const server = &test_the_server;

static const char *url_of(void **state) {
	static char url[TEST_URL_MAX];
	return test_url_with(server, url, "dialect=%s", (const char *)*state);
}

static sneck_client *open_layout(void **state) {
	return test_open(url_of(state));
}

/* Some of Redisson's objects are mutexes. */
static bool has_readers(const char *layout) {
	return strncmp(layout, "redisson:", 9) != 0 || strcmp(layout, "redisson:rwlock") == 0;
}

/* The mode beside WRITE; where there is none, a second WRITE of another name is as good a hold. */
static sneck_mode other_mode(void **state) {
	return has_readers(*state) ? SNECK_READ : SNECK_WRITE;
}

static bool nothing_left(void) {
	return test_redis_int(server, "EXISTS door") == 0;
}

/* ---- Who excludes whom ------------------------------------------------------------------------*/

static void readers_share_and_writers_do_not(void **state) {
	sneck_client *a = open_layout(state), *b = open_layout(state);
	sneck_hold *one = test_take(a, "door", SNECK_READ, 5000),
	           *two = test_take(b, "door", SNECK_READ, 5000);
	sneck_client *c = open_layout(state);
	assert_result(SNECK_EBUSY, test_probe(c, "door", SNECK_WRITE), NULL);
	sneck_close(c);
	test_release(one);
	test_release(two);
	one = test_take(a, "door", SNECK_WRITE, 1000);
	assert_result(SNECK_EBUSY, test_probe(b, "door", SNECK_WRITE), NULL);
	assert_result(SNECK_EBUSY, test_probe(b, "door", SNECK_READ), NULL);
	test_release(one);
	assert_true(nothing_left());
	sneck_close(a);
	sneck_close(b);
}

struct room {
	const char *url;
	sneck_mode other_mode;
	atomic_int readers, writers, violations, most_readers;
	long count; /* guarded by the lock alone */
};

struct visitor {
	struct room *room;
	unsigned seed;
	long writes;
	int failed;
	pthread_t thread;
};

static void visit(struct visitor *visitor, sneck_mode mode) {
	struct room *room = visitor->room;

	if (mode == SNECK_WRITE) {
		if (atomic_fetch_add(&room->writers, 1) != 0 || atomic_load(&room->readers) != 0)
			atomic_fetch_add(&room->violations, 1);
		room->count++;
		visitor->writes++;
		atomic_fetch_sub(&room->writers, 1);
		return;
	}
	int now = atomic_fetch_add(&room->readers, 1) + 1;
	if (atomic_load(&room->writers) != 0)
		atomic_fetch_add(&room->violations, 1);
	if (now > atomic_load(&room->most_readers))
		atomic_store(&room->most_readers, now);
	(void)WAIT_UNTIL(atomic_load(&room->readers) > 1, 1);
	atomic_fetch_sub(&room->readers, 1);
}

static void *run_visitor(void *arg) {
	struct visitor *visitor = arg;
	sneck_client *client = NULL;
	sneck_acquire_options options = test_waiting(60000);

	if (sneck_open(visitor->room->url, NULL, &client, NULL) != 0) {
		visitor->failed = 1;
		return NULL;
	}
	for (int i = 0; i < VISITS && !visitor->failed; i++) {
		sneck_mode mode = rand_r(&visitor->seed) % 2 ? SNECK_WRITE : visitor->room->other_mode;
		sneck_hold *hold = NULL;
		visitor->failed = sneck_acquire(client, "door", mode, &options, &hold, NULL);
		if (visitor->failed)
			break;
		visit(visitor, mode);
		visitor->failed = sneck_release(hold);
	}
	sneck_close(client);
	return NULL;
}

static void sessions_exclude_each_other(void **state) {
	struct room room = { .url = url_of(state), .other_mode = other_mode(state) };
	struct visitor visitors[VISITORS];
	long writes = 0;

	for (unsigned i = 0; i < VISITORS; i++) {
		visitors[i] = (struct visitor){ .room = &room, .seed = i + 1 };
		assert_int_equal(pthread_create(&visitors[i].thread, NULL, run_visitor, &visitors[i]), 0);
	}
	for (unsigned i = 0; i < VISITORS; i++) {
		pthread_join(visitors[i].thread, NULL);
		assert_result(0, visitors[i].failed, NULL);
		writes += visitors[i].writes;
	}
	assert_int_equal(atomic_load(&room.violations), 0);
	assert_int_equal(room.count, writes);
	if (room.other_mode == SNECK_READ)
		assert_true(atomic_load(&room.most_readers) > 1);
	assert_true(nothing_left());
}

/* ---- Waiting ----------------------------------------------------------------------------------*/

/* What comes sooner than the next question can only be the message's doing. On a busy machine even that may
 * be late, which says nothing: then there is another round. */
static void a_release_wakes_at_once(void **state) {
	sneck_client *a = open_layout(state), *b = open_layout(state);
	int prompt = 0;

	for (int i = 0; i < ROUNDS_MAX && prompt < ROUNDS; i++) {
		struct test_call call;
		sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 1000);
		test_call_start(&call, b, "door", i % 2 ? other_mode(state) : SNECK_WRITE, NULL);
		int64_t asked_ms = test_await_long_pause(b);
		test_release(hold);
		assert_result(0, test_call_join(&call), &call.error);
		prompt += call.end_ms - asked_ms < WAKE_MS;
		test_release(call.hold);
	}
	assert_int_equal(prompt, ROUNDS);
	sneck_close(a);
	sneck_close(b);
}

/* Somebody whose release nobody hears of: it is found by asking. */
static void without_messages_it_is_found_by_asking(void **state) {
	sneck_client *client = open_layout(state);
	sneck_client *other = open_layout(state);
	struct test_call call;
	sneck_hold *hold = test_take(other, "door", SNECK_WRITE, 1000);

	test_call_start(&call, client, "door", SNECK_WRITE, NULL);
	assert_true(WAIT_UNTIL(test_stats(client).beats > 3, 5000));
	test_redis_ok(server, "DEL door");
	int64_t deleted_ms = test_now_ms();
	assert_result(0, test_call_join(&call), &call.error);
	assert_true(call.end_ms - deleted_ms < 1100 + TEST_SLACK_MS);
	test_release(call.hold);
	(void)sneck_release(hold);
	sneck_close(client);
	sneck_close(other);
}

static void who_gives_up_leaves_nothing(void **state) {
	sneck_client *a = open_layout(state), *b = open_layout(state);
	sneck_hold *hold = test_take(a, "door", SNECK_READ, 5000), *other = NULL;
	sneck_acquire_options options = test_waiting(200);

	assert_result(SNECK_ETIMEDOUT, sneck_acquire(b, "door", SNECK_WRITE, &options, &other, NULL), NULL);
	assert_true(WAIT_UNTIL(test_redis_int(server, "DBSIZE") <= 2, 2000)); /* the hash, and a timeout */
	assert_result(0, test_probe(b, "door", SNECK_READ), NULL);
	test_release(hold);
	assert_true(nothing_left());
	sneck_close(a);
	sneck_close(b);
}

/* ---- What ends a hold -------------------------------------------------------------------------*/

static void a_renewed_hold_outlives_its_lease(void **state) {
	sneck_client *a = open_layout(state), *b = open_layout(state);
	sneck_acquire_options options = test_waiting(0);
	options.lease_ms = 3000; /* a busy machine may stop a program for a second */
	sneck_hold *write = test_take_opts(a, "door", SNECK_WRITE, &options);
	sneck_hold *read = test_take_opts(a, "hall", other_mode(state), &options);
	int64_t until_ms = test_now_ms() + 2 * options.lease_ms + 100;

	assert_true(WAIT_UNTIL(test_now_ms() > until_ms, 10000)); /* beyond two leases */
	assert_true(sneck_check(write, 1) && sneck_check(read, 1));
	assert_result(SNECK_EBUSY, test_probe(b, "door", other_mode(state)), NULL);
	assert_result(SNECK_EBUSY, test_probe(b, "hall", SNECK_WRITE), NULL);
	test_release(write);
	test_release(read);
	sneck_close(a);
	sneck_close(b);
}

static void what_is_gone_from_the_server_is_lost(void **state) {
	sneck_client *client = open_layout(state);
	sneck_acquire_options options = test_waiting(0);
	options.lease_ms = 900;
	sneck_hold *write = test_take_opts(client, "door", SNECK_WRITE, &options);
	sneck_hold *read = test_take_opts(client, "hall", other_mode(state), &options);

	test_redis_ok(server, "FLUSHALL");
	assert_true(WAIT_UNTIL(sneck_hold_state(write) == SNECK_LOST, 2000));
	assert_true(WAIT_UNTIL(sneck_hold_state(read) == SNECK_LOST, 2000));
	assert_false(sneck_check(write, 0));
	assert_result(SNECK_ELOST, sneck_release(write), NULL);
	assert_result(SNECK_ELOST, sneck_release(read), NULL);
	sneck_close(client);
}

static void a_fixed_lease_ends_on_time(void **state) {
	sneck_client *a = open_layout(state), *b = open_layout(state);
	sneck_acquire_options options = test_waiting(0);
	options.lease_ms = 400;
	options.fixed = 1;
	int64_t asked_ms = test_now_ms();
	sneck_hold *hold = test_take_opts(a, "door", SNECK_WRITE, &options);
	int64_t taken_ms = test_now_ms();
	sneck_hold *next = test_take(b, "door", SNECK_WRITE, 5000);

	/* It is given back a margin before its end, which may be for clocks that differ. */
	assert_true(test_now_ms() - asked_ms >= 390 - SNECK_SKEW_MS);
	assert_true(test_now_ms() - taken_ms <= 400 + TEST_SLACK_MS);
	assert_int_equal(sneck_hold_state(hold), SNECK_LOST);
	assert_result(SNECK_ELOST, sneck_release(hold), NULL);
	assert_true(sneck_check(next, 1000));
	test_release(next);
	sneck_close(a);
	sneck_close(b);
}

static void a_killed_holder_is_free_within_its_lease(void **state) {
	const char *const modes = "wr";
	for (int i = 0; i < (has_readers(*state) ? 2 : 1); i++) {
		sneck_client *client = open_layout(state);
		struct test_proc proc;
		test_actor_start(&proc, url_of(state));
		test_actor_expect(&proc, "ok", "take door %c 1000 700", modes[i]);
		test_proc_signal(&proc, SIGKILL);
		int64_t killed_ms = test_now_ms();
		sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 5000);
		assert_true(test_now_ms() - killed_ms < 700 + 2 * TEST_SLACK_MS);
		test_release(hold);
		sneck_close(client);
	}
}

/* ---- What the layouts have no place for -------------------------------------------------------*/

static void what_is_not_supported_says_so(void **state) {
	sneck_client *client = open_layout(state);
	sneck_acquire_options options = test_waiting(0);
	sneck_error error = { 0 };
	sneck_hold *hold = NULL;
	char id[64];

	options.need_token = 1;
	assert_result(
	        SNECK_ENOTSUP, sneck_acquire(client, "door", SNECK_WRITE, &options, &hold, &error), NULL);
	assert_non_null(strstr(error.text, (const char *)*state));
	hold = test_take(client, "door", SNECK_WRITE, 5000);
	assert_int_equal(sneck_hold_token(hold), 0);
	/* Nothing changes: the hold does not count on the lease that it was not given. */
	assert_result(SNECK_ENOTSUP, sneck_detach(hold, 1000, id, &error), NULL);
	assert_true(sneck_check(hold, 2000));
	assert_non_null(strstr(error.text, (const char *)*state));
	assert_result(0, sneck_hold_id(hold, id), NULL);
	sneck_hold *adopted = NULL;
	assert_result(SNECK_ENOTSUP, sneck_adopt(client, "door", 4, id, NULL, &adopted, &error), NULL);
	assert_result(SNECK_ENOTSUP, sneck_renew_id(client, "door", 4, id, 1000, NULL, NULL, &error), NULL);
	assert_result(SNECK_ENOTSUP, sneck_release_id(client, "door", 4, id, &error), NULL);
	assert_true(sneck_check(hold, 1000));
	test_release(hold);
	sneck_close(client);
}

static void holders_are_shown_listed_and_broken(void **state) {
	sneck_client *client = open_layout(state);
	sneck_lock_info *info = NULL;
	sneck_lock_list *list = NULL;
	sneck_acquire_options options = test_waiting(0);
	sneck_error error = { 0 };
	char id[64];

	options.lease_ms = 900;
	sneck_hold *hold = test_take_opts(client, "door", SNECK_WRITE, &options);
	test_redis_ok(server, "HSET other field value");
	assert_result(0, sneck_inspect(client, "door", 4, 10, &info, &error), &error);
	assert_int_equal(info->holder_n, 1);
	assert_int_equal(info->parties[0].mode, SNECK_WRITE);
	snprintf(id, sizeof id, "%s", info->parties[0].id);
	sneck_lock_info_free(info);
	assert_result(0, sneck_list(client, NULL, &list, &error), &error);
	assert_int_equal(list->n, 1);
	assert_string_equal(list->locks[0]->name, "door");
	sneck_lock_list_free(list);
	assert_result(SNECK_ENOTSUP, sneck_break(client, "door", 4, id, "why", 1000, &error), NULL);
	assert_result(0, sneck_break(client, "door", 4, id, "why", 0, &error), &error);
	assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_LOST, 2000));
	assert_result(SNECK_ENOTHELD, sneck_break(client, "door", 4, id, "why", 0, &error), NULL);
	(void)sneck_release(hold);
	sneck_close(client);
}

static sneck_client *open_as(void **state, const char *user) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	sneck_client *client = NULL;
	sneck_error error = { 0 };

	options.user = user;
	options.password = "secret";
	assert_result(0, sneck_open(url_of(state), &options, &client, &error), &error);
	return client;
}

/* Takes, waits, gives up, counts, renews, is passed on by a message, looks: what a holder does. */
static void do_everything(sneck_client *a, sneck_client *b, bool upgrades) {
	sneck_acquire_options options = test_waiting(5000), briefly = test_waiting(50);
	sneck_hold *other = NULL;
	sneck_lock_info *info = NULL;
	struct test_call call;

	options.owner = 1;
	for (int i = 0; i < 2; i++) {
		sneck_mode mode = i ? SNECK_WRITE : SNECK_READ;
		sneck_hold *hold = test_take_opts(a, "door", mode, &options);
		sneck_hold *again = test_take_opts(a, "door", mode, &options);
		assert_result(
		        SNECK_ETIMEDOUT, sneck_acquire(b, "door", SNECK_WRITE, &briefly, &other, NULL), NULL);
		assert_result(0, sneck_renew(hold, 40000, NULL), NULL);
		assert_result(0, sneck_inspect(a, "door", 4, 10, &info, NULL), NULL);
		sneck_lock_info_free(info);
		test_release(again);
		test_call_start(&call, b, "door", SNECK_WRITE, NULL);
		assert_true(WAIT_UNTIL(test_stats(b).waiters == 1, 5000));
		if (upgrades && mode == SNECK_READ) {
			assert_result(0, sneck_upgrade(hold, &options, NULL), NULL);
			assert_result(0, sneck_downgrade(hold, NULL), NULL);
		}
		test_release(hold);
		assert_result(0, test_call_join(&call), &call.error);
		test_release(call.hold);
	}
}

static long long denials(void) {
	redisReply *reply = test_redis(server, "ACL LOG");
	long long n = (long long)reply->elements;

	for (size_t i = 0; i < reply->elements; i++)
		print_message("denied: %s\n", reply->element[i]->element[7]->str);
	freeReplyObject(reply);
	return n;
}

static void the_rights_that_are_named_are_enough(void **state) {
	sneck_client *client = open_layout(state);
	sneck_probe_info probe = SNECK_PROBE_INFO_INIT;
	sneck_lock_info *info = NULL;
	sneck_lock_list *list = NULL;
	sneck_error error = { 0 };

	assert_result(0, sneck_probe(client, &probe, &error), &error);
	assert_true(probe.rights_known && !probe.missing[SNECK_ROLE_HOLDER][0]);
	test_allow(server, "holder", ">secret ~* &*", probe.needs[SNECK_ROLE_HOLDER], NULL);
	test_allow(server, "operator", ">secret ~* &*", probe.needs[SNECK_ROLE_OPERATOR], NULL);
	test_allow(server, "viewer", ">secret ~* &*", probe.needs[SNECK_ROLE_VIEWER], NULL);
	test_redis_ok(server, "SCRIPT FLUSH");
	test_redis_ok(server, "ACL LOG RESET");
	sneck_client *a = open_as(state, "holder"), *b = open_as(state, "holder");
	do_everything(a, b, strcmp(*state, "counted") == 0);
	sneck_hold *hold = test_take(a, "door", SNECK_READ, 5000),
	           *other = test_take(b, "door", SNECK_READ, 5000);
	sneck_client *viewer = open_as(state, "viewer");
	assert_result(0, sneck_list(viewer, NULL, &list, &error), &error);
	assert_int_equal(list->n, 1);
	sneck_lock_list_free(list);
	sneck_client *breaker = open_as(state, "operator");
	assert_result(0, sneck_inspect(breaker, "door", 4, 10, &info, &error), &error);
	assert_int_equal(info->party_n, 2);
	for (size_t i = 0; i < info->party_n; i++)
		assert_result(
		        0, sneck_break(breaker, "door", 4, info->parties[i].id, NULL, 0, &error), &error);
	sneck_lock_info_free(info);
	assert_int_equal(denials(), 0);
	(void)sneck_release(hold);
	(void)sneck_release(other);
	sneck_close(a);
	sneck_close(b);
	sneck_close(viewer);
	sneck_close(breaker);
	sneck_close(client);
}

static void a_key_that_is_no_lock_is_refused(void **state) {
	sneck_client *client = open_layout(state);

	test_redis_ok(server, "SET door x");
	assert_result(SNECK_ETYPE, test_probe(client, "door", SNECK_WRITE), NULL);
	assert_result(SNECK_ETYPE, test_probe(client, "door", other_mode(state)), NULL);
	test_redis_ok(server, "DEL door");
	test_redis_ok(server, "HSET door field value");
	assert_result(SNECK_ETYPE, test_probe(client, "door", SNECK_WRITE), NULL);
	assert_int_equal(test_redis_int(server, "HLEN door"), 1);
	sneck_close(client);
}

/* What a layout needs for a test to mean something. */
enum { READERS = 1, NO_TOKENS = 2, NOT_REDISSON = 4 };

static const struct layout_test {
	struct CMUnitTest test;
	int needs;
} layout_tests[] = {
#define ANY(function) \
	{ TEST(function), 0 }
#define READING(function) \
	{ TEST(function), READERS }
#define TOKENLESS(function) \
	{ TEST(function), NO_TOKENS }
#define RULE(function) \
	{ TEST_PLAIN(function), NOT_REDISSON }
	READING(readers_share_and_writers_do_not),
	ANY(sessions_exclude_each_other),
	ANY(a_release_wakes_at_once),
	ANY(without_messages_it_is_found_by_asking),
	READING(who_gives_up_leaves_nothing),
	ANY(a_renewed_hold_outlives_its_lease),
	ANY(what_is_gone_from_the_server_is_lost),
	ANY(a_fixed_lease_ends_on_time),
	ANY(a_killed_holder_is_free_within_its_lease),
	TOKENLESS(what_is_not_supported_says_so),
	ANY(holders_are_shown_listed_and_broken),
	RULE(the_rights_that_are_named_are_enough),
	ANY(a_key_that_is_no_lock_is_refused),
};
enum { LAYOUT_TESTS = sizeof layout_tests / sizeof layout_tests[0] };

static bool has_place_for(const char *layout, const struct layout_test *test) {
	return !(test->needs & READERS && !has_readers(layout)) &&
	       !(test->needs & NO_TOKENS && strcmp(layout, "redisson:fenced") == 0) &&
	       !(test->needs & NOT_REDISSON && strncmp(layout, "redisson:", 9) == 0);
}

/* SNECK_TEST_DIALECT: on that layout alone, which may be any. */
int main(int argc, char **argv) {
	if (argc > 1)
		return test_actor_main(argc, argv);
	static char counted[] = "counted", intent[] = "intent", rwlock[] = "redisson:rwlock";
	char *const usual[] = { counted, intent, rwlock };
	char *one[] = { getenv("SNECK_TEST_DIALECT") };
	struct CMUnitTest tests[sizeof usual / sizeof usual[0] * LAYOUT_TESTS];
	char *const *layouts = one[0] ? one : usual;
	size_t layouts_n = one[0] ? 1 : sizeof usual / sizeof usual[0], n = 0;

	for (size_t i = 0; i < layouts_n; i++)
		for (size_t j = 0; j < LAYOUT_TESTS; j++)
			if (has_place_for(layouts[i], &layout_tests[j])) {
				tests[n] = layout_tests[j].test;
				tests[n++].initial_state = layouts[i];
			}
	return test_run("layouts", tests, n);
}
