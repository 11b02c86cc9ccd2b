/* SPDX-License-Identifier: MIT */
/* The record of a session: written behind its first lock, kept while it lives, gone with it, and never
 * in the way of a lock. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/client.h"
#include "locks.h"
#include "procs.h"
#include "topology.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

static sneck_client *open_as(const char *user, const char *command, const char *note) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	options.who_user = user;
	options.who_command = command;
	options.note = note;
	sneck_client *client = NULL;
	sneck_error error = { 0 };
	assert_result(0, sneck_open(server->url, &options, &client, &error), &error);
	return client;
}

static long long record_exists(const sneck_client *client) {
	return test_redis_int(server, "EXISTS sneck:@%s", sneck_client_session(client));
}

static void assert_field(const char *session, const char *field, const char *expected) {
	redisReply *reply = test_redis(server, "HGET sneck:@%s %s", session, field);
	assert_non_null(reply);
	assert_int_equal(reply->type, REDIS_REPLY_STRING);
	assert_string_equal(reply->str, expected);
	freeReplyObject(reply);
}

static void a_record_says_who_and_ends_with_the_client(void **state) {
	(void)state;
	sneck_client *client = open_as("ann", "make \"all\"\n\x01", "nightly");
	char session[64], number[32];
	snprintf(session, sizeof session, "%s", sneck_client_session(client));
	assert_int_equal(record_exists(client), 0); /* nothing was asked for yet */
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	assert_true(WAIT_UNTIL(record_exists(client) == 1, 2000));
	assert_field(session, "user", "ann");
	assert_field(session, "command", "make \"all\"\n\x01"); /* as it is: whoever shows it escapes it */
	assert_field(session, "note", "nightly");
	assert_field(session, "version", SNECK_VERSION);
	snprintf(number, sizeof number, "%d", (int)getpid());
	assert_field(session, "pid", number);
	char host[256] = "";
	gethostname(host, sizeof host - 1);
	host[63] = '\0';
	assert_field(session, "host", host);
	long long since = test_redis_int(server, "HGET sneck:@%s since", session);
	assert_in_range((uint64_t)llabs(since - (long long)test_server_ms(server)), 0, 10000);
	long long ttl = test_redis_int(server, "PTTL sneck:@%s", session);
	assert_in_range((uint64_t)ttl, 80000, 90000);
	test_release(hold);
	assert_int_equal(record_exists(client), 1); /* the session lives */
	sneck_close(client);
	assert_int_equal(test_redis_int(server, "EXISTS sneck:@%s", session), 0);
}

/* "Two commands for a pair" holds with and without; the record is one more, once. */
static void it_costs_one_command_and_none_without(void **state) {
	(void)state;
	sneck_client *clients[2] = { test_open(server->url), open_as("ann", NULL, NULL) };
	uint64_t commands[2];
	/* Each script is sent as text once: what counts is the second client of each kind. */
	for (int warm = 0; warm < 2; warm++) {
		for (int i = 0; i < 2; i++) {
			for (int j = 0; j < 10; j++)
				test_release(test_take(clients[i], "door", SNECK_WRITE, 0));
			if (i == 1)
				assert_true(WAIT_UNTIL(record_exists(clients[i]) == 1, 2000));
			commands[i] = test_stats(clients[i]).commands;
			sneck_close(clients[i]);
			if (warm == 0)
				clients[i] = i ? open_as("ann", NULL, NULL) : test_open(server->url);
		}
	}
	assert_int_equal(commands[0], 20);
	/* Its slot may be that of a server to which no other has sent the script. */
	assert_in_range(commands[1], 21, test_topology_is_cluster() ? 22 : 21);
	assert_int_equal(test_count_keys(server, "sneck:@*"), 0);
}

/* However early the close comes, also while the record is being written. */
static void an_early_close_leaves_none(void **state) {
	(void)state;
	for (int i = 0; i < 100; i++) {
		sneck_client *client = open_as("ann", NULL, NULL);
		test_redis_ok(server, "SCRIPT FLUSH"); /* so that it takes longer */
		test_take(client, "door", SNECK_WRITE, 0);
		sneck_close(client);
	}
	assert_int_equal(test_count_keys(server, "sneck:@*"), 0);
}

static void a_waiter_has_one_too(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url), *b = open_as(NULL, NULL, "waits");
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	struct test_call call;
	test_call_start(&call, b, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	assert_true(WAIT_UNTIL(record_exists(b) == 1, 2000));
	assert_field(sneck_client_session(b), "note", "waits");
	assert_field(sneck_client_session(b), "user", "");
	test_release(hold);
	assert_result(0, test_call_join(&call), &call.error);
	test_release(call.hold);
	sneck_close(a);
	sneck_close(b);
}

/* Written again while the session lives: one that got lost comes back, and none ends too early. */
static void it_is_kept_alive(void **state) {
	(void)state;
	sneck_client *client = open_as("ann", NULL, NULL);
	client->record.refresh_ms = 100;
	test_release(test_take(client, "door", SNECK_WRITE, 0));
	assert_true(WAIT_UNTIL(record_exists(client) == 1, 2000));
	for (int i = 0; i < 3; i++) {
		test_redis_ok(server, i == 1 ? "SCRIPT FLUSH" : "FLUSHALL");
		test_redis_ok(server, "DEL sneck:@%s", sneck_client_session(client));
		assert_true(WAIT_UNTIL(record_exists(client) == 1, 2000));
		assert_true(test_redis_int(server, "PTTL sneck:@%s", sneck_client_session(client)) > 80000);
	}
	char session[64];
	snprintf(session, sizeof session, "%s", sneck_client_session(client));
	sneck_close(client);
	assert_int_equal(test_redis_int(server, "EXISTS sneck:@%s", session), 0);
}

static void long_texts_are_cut_between_characters(void **state) {
	(void)state;
	char text[400], expected[400];
	memset(text, 'a', sizeof text);
	memcpy(text + 126, "\xc3\xa4\xc3\xa4", 4); /* the cut would fall into the first */
	text[399] = '\0';
	sneck_client *client = open_as(text, text, text);
	test_release(test_take(client, "door", SNECK_WRITE, 0));
	assert_true(WAIT_UNTIL(record_exists(client) == 1, 2000));
	snprintf(expected, sizeof expected, "%.63s", text);
	assert_field(sneck_client_session(client), "user", expected);
	snprintf(expected, sizeof expected, "%.126s", text);
	assert_field(sneck_client_session(client), "note", expected);
	snprintf(expected, sizeof expected, "%.255s", text);
	assert_field(sneck_client_session(client), "command", expected);
	sneck_close(client);
}

/* A user who may take locks but write no hashes: the record fails, the locks do not. */
static void a_refused_record_refuses_no_lock(void **state) {
	(void)state;
	test_redis_ok(server, "ACL SETUSER bob on nopass ~* &* +@all -hset");
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	options.user = "bob";
	options.password = "x";
	options.note = "none";
	sneck_client *client = NULL;
	assert_result(0, sneck_open(server->url, &options, &client, NULL), NULL);
	for (int i = 0; i < 3; i++)
		test_release(test_take(client, "door", SNECK_WRITE, 0));
	assert_int_equal(record_exists(client), 0);
	sneck_close(client);
	test_redis_ok(server, "ACL DELUSER bob");
}

/* Nobody is there to answer: close comes back in its time. */
static void a_dead_server_holds_up_no_close(void **state) {
	(void)state;
	sneck_client *client = open_as("ann", NULL, NULL);
	test_release(test_take(client, "door", SNECK_WRITE, 0));
	assert_true(WAIT_UNTIL(record_exists(client) == 1, 2000));
	test_server_kill9(server);
	int64_t start_ms = test_now_ms();
	sneck_close(client);
	assert_true(test_now_ms() - start_ms <= SNECK_COMMAND_DEFAULT_MS + TEST_SLACK_MS);
	assert_int_equal(test_server_restart(server), 0);
}

static int be_holder(const char *url) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	sneck_client *client;
	sneck_hold *hold;
	options.who_user = "eve";
	if (sneck_open(url, &options, &client, NULL) < 0 ||
	        sneck_acquire(client, "door", SNECK_WRITE, NULL, &hold, NULL) < 0)
		return 1;
	printf("%s\n", sneck_client_session(client));
	fflush(stdout);
	pause();
	return 0;
}

static void the_record_of_a_killed_process_ends_by_itself(void **state) {
	(void)state;
	struct test_proc proc;
	char session[128];
	test_proc_start(&proc, (const char *const[]){ "holder", server->url, NULL });
	assert_true(test_proc_line(&proc, session, sizeof session, 5000));
	assert_true(WAIT_UNTIL(test_redis_int(server, "EXISTS sneck:@%s", session) == 1, 2000));
	test_proc_signal(&proc, SIGKILL);
	assert_field(session, "user", "eve");
	long long ttl = test_redis_int(server, "PTTL sneck:@%s", session);
	assert_in_range((uint64_t)ttl, 1, 90000);
	test_proc_finish(&proc, 1000);
}

int main(int argc, char **argv) {
	if (argc == 3 && strcmp(argv[1], "holder") == 0)
		return be_holder(argv[2]);
	const struct CMUnitTest tests[] = {
		TEST(a_record_says_who_and_ends_with_the_client),
		TEST(it_costs_one_command_and_none_without),
		TEST(an_early_close_leaves_none),
		TEST(a_waiter_has_one_too),
		TEST(it_is_kept_alive),
		TEST(long_texts_are_cut_between_characters),
		TEST(a_refused_record_refuses_no_lock),
		TEST(the_record_of_a_killed_process_ends_by_itself),
		TEST(a_dead_server_holds_up_no_close),
	};
	return TEST_RUN(tests);
}
