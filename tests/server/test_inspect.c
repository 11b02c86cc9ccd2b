/* SPDX-License-Identifier: MIT */
/* Looking at one lock: who holds it, who waits, since when; what is no lock, and who may look. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "dialect/dialect.h"
#include "locks.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

static sneck_client *open_with(const char *user, const char *command, const char *note) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	options.who_user = user;
	options.who_command = command;
	options.note = note;
	options.session_host = "web1.example.org";
	sneck_client *client = NULL;
	sneck_error error = { 0 };
	assert_result(0, sneck_open(server->url, &options, &client, &error), &error);
	return client;
}

static sneck_lock_info *inspect_n(sneck_client *client, const void *name, size_t len, size_t most) {
	sneck_lock_info *info = NULL;
	sneck_error error = { 0 };
	assert_result(0, sneck_inspect(client, name, len, most, &info, &error), &error);
	assert_non_null(info);
	assert_int_equal(info->name_len, len);
	assert_memory_equal(info->name, name, len);
	assert_int_equal(info->name[len], 0);
	assert_true(llabs((long long)(info->server_ms - test_server_ms(server))) < 5000);
	return info;
}

static sneck_lock_info *inspect(sneck_client *client, const char *name) {
	return inspect_n(client, name, strlen(name), 0);
}

/* A party that was put there by hand. */
static void plant(const char *name, const char *member, long long score) {
	char key[160];
	test_redis_ok(server, "ZADD %s %lld %s", test_key(name, key), score, member);
}

static void a_free_lock_is_free(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	sneck_lock_info *info = inspect(client, "door");
	assert_int_equal(info->mode, 0);
	assert_int_equal(info->token, 0);
	assert_int_equal(info->holder_n + info->waiter_n + info->party_n, 0);
	sneck_lock_info_free(info);
	assert_int_equal(test_redis_int(server, "DBSIZE"), 0); /* looking leaves nothing */
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	uint64_t token = sneck_hold_token(hold);
	test_release(hold);
	info = inspect(client, "door");
	assert_int_equal(info->mode, 0);
	assert_int_equal(info->token, token); /* still remembered */
	assert_int_equal(info->holder_n + info->waiter_n + info->party_n, 0);
	sneck_lock_info_free(info);
	sneck_lock_info_free(NULL);
	sneck_close(client);
}

static void a_holder_is_named(void **state) {
	(void)state;
	sneck_client *a = open_with("ann", "make all", "nightly\n\x1b[31m"), *b = test_open(server->url);
	int64_t before_ms = test_server_ms(server);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	int64_t after_ms = test_server_ms(server);
	char record[96];
	snprintf(record, sizeof record, "EXISTS sneck:@%s", sneck_client_session(a));
	assert_true(WAIT_UNTIL(test_redis_int(server, record) == 1, 2000));
	sneck_lock_info *info = inspect(b, "door");
	assert_int_equal(info->mode, SNECK_WRITE);
	assert_int_equal(info->token, sneck_hold_token(hold));
	assert_int_equal(info->holder_n, 1);
	assert_int_equal(info->waiter_n, 0);
	assert_int_equal(info->party_n, 1);
	const sneck_party *party = info->parties;
	assert_int_equal(party->kind, SNECK_PARTY_HOLDER);
	assert_int_equal(party->mode, SNECK_WRITE);
	assert_string_equal(party->session, sneck_client_session(a));
	char id[128];
	snprintf(id, sizeof id, "W%s.1", sneck_client_session(a));
	assert_string_equal(party->id, id);
	assert_in_range((uint64_t)party->since_ms, (uint64_t)before_ms, (uint64_t)after_ms);
	assert_in_range((uint64_t)party->lease_left_ms, SNECK_LEASE_DEFAULT_MS / 2, SNECK_LEASE_DEFAULT_MS);
	assert_string_equal(party->user, "ann");
	assert_string_equal(party->command, "make all");
	assert_string_equal(party->note, "nightly\n\x1b[31m");
	assert_string_equal(party->host, "web1.example.org");
	assert_int_equal(party->pid, getpid());
	sneck_lock_info_free(info);
	test_release(hold);
	sneck_close(a);
	sneck_close(b);
}

static void without_a_record_the_session_tells_host_and_pid(void **state) {
	(void)state;
	sneck_client *client = open_with(NULL, NULL, NULL);
	sneck_hold *hold = test_take(client, "door", SNECK_READ, 0);
	plant("door", "Rnobody.1", test_server_ms(server) + 60000);
	sneck_lock_info *info = inspect(client, "door");
	assert_int_equal(info->mode, SNECK_READ);
	assert_int_equal(info->party_n, 2);
	assert_string_equal(info->parties[0].id, "Rnobody.1"); /* the longest lease first */
	assert_string_equal(info->parties[0].host, "");
	assert_int_equal(info->parties[0].pid, 0);
	assert_string_equal(info->parties[1].host, "web1");
	assert_int_equal(info->parties[1].pid, getpid());
	assert_string_equal(info->parties[1].user, "");
	sneck_lock_info_free(info);
	test_release(hold);
	sneck_close(client);
}

/* Readers, an upgrader before the queue, waiters in their order; each says since when. */
static void the_queue_is_shown_in_order(void **state) {
	(void)state;
	sneck_client *clients[5];
	for (int i = 0; i < 5; i++)
		clients[i] = test_open(server->url);
	sneck_acquire_options own = test_waiting(0);
	own.owner = 7;
	sneck_hold *first = test_take_opts(clients[0], "door", SNECK_READ, &own);
	sneck_hold *second = test_take_opts(clients[1], "door", SNECK_READ, &own);
	struct test_call writer, reader, prefers, upgrader;
	int64_t start_ms = test_server_ms(server);
	test_call_start(&writer, clients[2], "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	test_call_start(&reader, clients[3], "door", SNECK_READ, NULL);
	assert_true(test_await_members(server, "door", "rw", 2, 2000));
	sneck_acquire_options prefer = test_waiting(10000);
	prefer.policy = SNECK_POLICY_PREFER_WRITERS;
	test_call_start(&prefers, clients[4], "door", SNECK_WRITE, &prefer);
	assert_true(test_await_members(server, "door", "rw", 3, 2000));
	sneck_acquire_options up = test_waiting(10000);
	test_call_start_upgrade(&upgrader, first, &up);
	assert_true(test_await_members(server, "door", "u", 1, 2000));
	int64_t end_ms = test_server_ms(server);

	sneck_lock_info *info = inspect(clients[0], "door");
	assert_int_equal(info->mode, SNECK_READ);
	assert_int_equal(info->holder_n, 2);
	assert_int_equal(info->waiter_n, 4);
	assert_int_equal(info->party_n, 6);
	static const struct {
		int kind, mode, client;
		char letter;
	} expected[] = { { SNECK_PARTY_UPGRADER, SNECK_WRITE, 0, 'u' },
		{ SNECK_PARTY_WAITER, SNECK_WRITE, 4, 'w' }, { SNECK_PARTY_WAITER, SNECK_WRITE, 2, 'w' },
		{ SNECK_PARTY_WAITER, SNECK_READ, 3, 'r' } };
	for (int i = 0; i < 4; i++) {
		const sneck_party *party = &info->parties[2 + i];
		assert_int_equal(party->kind, expected[i].kind);
		assert_int_equal(party->mode, expected[i].mode);
		assert_string_equal(party->session, sneck_client_session(clients[expected[i].client]));
		assert_int_equal(party->id[0], expected[i].letter);
		assert_true(strchr(party->id, '.') && strchr(party->id, '.') == strrchr(party->id, '.'));
		assert_in_range((uint64_t)party->since_ms, (uint64_t)start_ms, (uint64_t)end_ms);
		assert_in_range((uint64_t)party->lease_left_ms, 1, SNECK_WAITER_LEASE_MS);
	}
	assert_true(info->parties[0].lease_left_ms >= info->parties[1].lease_left_ms);
	sneck_lock_info_free(info);

	test_release(second);
	assert_result(0, test_call_join(&upgrader), &upgrader.error);
	info = inspect(clients[0], "door");
	assert_int_equal(info->mode, SNECK_WRITE);
	assert_int_equal(info->holder_n, 1);
	assert_int_equal(info->waiter_n, 3);
	sneck_lock_info_free(info);
	test_release(first);
	assert_result(0, test_call_join(&prefers), &prefers.error);
	test_release(prefers.hold);
	assert_result(0, test_call_join(&writer), &writer.error);
	test_release(writer.hold);
	assert_result(0, test_call_join(&reader), &reader.error);
	test_release(reader.hold);
	for (int i = 0; i < 5; i++)
		sneck_close(clients[i]);
}

static void the_dead_are_not_shown(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	int64_t now_ms = test_server_ms(server);
	plant("door", "#1", now_ms * 1000);
	plant("door", "Wx:1:a.1", now_ms - 1);
	plant("door", "wx:1:a.2", -4000000000000000LL + now_ms);
	plant("door", "lx:1:a.2", 100000000000000LL + now_ms - 1);
	plant("door", "xx:1:a.3", 200000000000000LL + now_ms + 60000);
	plant("door", "bx:1:a.4", 300000000000000LL + now_ms + 60000);
	sneck_lock_info *info = inspect(client, "door");
	assert_int_equal(info->mode, 0);
	assert_int_equal(info->holder_n, 0);
	assert_int_equal(info->waiter_n, 0);
	assert_int_equal(info->party_n, 0);
	assert_int_equal(info->token, now_ms * 1000);
	sneck_lock_info_free(info);
	assert_int_equal(test_redis_int(server, "ZCARD sneck:{door}"), 6); /* nor removed */
	/* A token ahead of the clock says nothing about the time. */
	plant("door", "#1", (now_ms + 60000) * 1000);
	plant("door", "Wx:1:a.9", now_ms + 30000);
	info = inspect(client, "door");
	assert_int_equal(info->holder_n, 1);
	assert_int_equal(info->parties[0].since_ms, 0);
	sneck_lock_info_free(info);
	sneck_close(client);
}

static void only_so_many_are_listed_but_all_are_counted(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	int64_t now_ms = test_server_ms(server);
	char member[64];
	plant("door", "#1", now_ms * 1000);
	for (int i = 0; i < 20; i++) {
		snprintf(member, sizeof member, "Rx:1:a.%d", i);
		plant("door", member, now_ms + 60000 + i);
		snprintf(member, sizeof member, "wx:1:b.%d", i);
		plant("door", member, -4000000000000000LL + now_ms + i);
		member[0] = 'l';
		plant("door", member, 100000000000000LL + now_ms + 60000);
	}
	static const struct {
		size_t most, holders, waiters;
	} rows[] = { { 1, 1, 0 }, { 20, 20, 0 }, { 25, 20, 5 }, { 0, 20, 20 }, { SIZE_MAX, 20, 20 } };
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		sneck_lock_info *info = inspect_n(client, "door", 4, rows[i].most);
		assert_int_equal(info->holder_n, 20);
		assert_int_equal(info->waiter_n, 20);
		assert_int_equal(info->mode, SNECK_READ);
		assert_int_equal(info->party_n, rows[i].holders + rows[i].waiters);
		assert_string_equal(info->parties[0].id, "Rx:1:a.19");
		if (rows[i].waiters)
			assert_string_equal(info->parties[20].id, "wx:1:b.0");
		sneck_lock_info_free(info);
	}
	sneck_close(client);
}

/* The one writer among readers of its own session decides what the lock is held as. */
static void a_writer_beside_readers_is_not_overlooked(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	int64_t now_ms = test_server_ms(server);
	plant("door", "#1", now_ms * 1000);
	plant("door", "Wx:1:a.1", now_ms + 10000);
	for (int i = 0; i < 16; i++) {
		char member[64];
		snprintf(member, sizeof member, "Rx:1:a.%d", 10 + i);
		plant("door", member, now_ms + 60000);
	}
	sneck_lock_info *info = inspect_n(client, "door", 4, 1);
	assert_int_equal(info->parties[0].mode, SNECK_READ);
	assert_int_equal(info->mode, SNECK_WRITE);
	sneck_lock_info_free(info);
	sneck_close(client);
}

static void what_is_no_lock_is_said_to_be_none(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	sneck_lock_info *info = NULL;
	sneck_error error;
	test_redis_ok(server, "SET sneck:{text} x");
	test_redis_ok(server, "ZADD sneck:{scores} 5 somebody");
	assert_result(SNECK_ETYPE, sneck_inspect(client, "text", 4, 0, &info, &error), &error);
	assert_string_equal(error.server, "WRONGTYPE");
	assert_result(SNECK_ETYPE, sneck_inspect(client, "scores", 6, 0, &info, &error), &error);
	assert_string_equal(error.server, "SNECKTYPE");
	/* Members that this protocol does not have. */
	static const char *const strange[] = { "R", "Rx", "R.1", "Rx.", "Rx.-", "Rx.1.2", "Qx.1",
		"R01234567890123456789012345678901234567890.1" };
	for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++) {
		test_redis_ok(server, "DEL sneck:{door}");
		plant("door", "#1", 1);
		plant("door", strange[i], test_server_ms(server) + 60000);
		assert_result(SNECK_ESERVER, sneck_inspect(client, "door", 4, 0, &info, &error), &error);
	}
	assert_null(info);
	sneck_close(client);
}

static void arguments_are_checked(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	sneck_lock_info *info = NULL;
	sneck_lock_list *list = NULL;
	static char name[SNECK_NAME_MAX + 1];
	sneck_error error;
	assert_result(SNECK_EINVAL, sneck_inspect(NULL, "a", 1, 0, &info, &error), NULL);
	assert_result(SNECK_EINVAL, sneck_inspect(client, "a", 1, 0, NULL, &error), NULL);
	assert_result(SNECK_EINVAL, sneck_inspect(client, NULL, 1, 0, &info, &error), NULL);
	assert_result(SNECK_EINVAL, sneck_inspect(client, "", 0, 0, &info, &error), NULL);
	assert_result(SNECK_EINVAL, sneck_inspect(client, name, sizeof name, 0, &info, &error), NULL);
	assert_result(SNECK_EINVAL, sneck_list(NULL, NULL, &list, &error), NULL);
	assert_result(SNECK_EINVAL, sneck_list(client, NULL, NULL, NULL), NULL);
	sneck_lock_info_free(inspect_n(client, name, SNECK_NAME_MAX, 0));
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(sneck_inspect(client, "a", 1, 0, &info, NULL) == SNECK_EFORKED &&
		                        sneck_list(client, NULL, &list, NULL) == SNECK_EFORKED
		                ? 0
		                : 1);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(!info && !list);
	sneck_close(client);
}

/* Whoever may write to the server may have put anything into a record. */
static void a_forged_record_is_cut_to_fit(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	static char big[5000];
	memset(big, 'x', sizeof big);
	test_redis_ok(server, "HSET sneck:@%s user %b host %b command %b note %b pid %s",
	        sneck_client_session(client), big, sizeof big, "a\0b", (size_t)3, big, sizeof big, big,
	        sizeof big, "99999999999");
	sneck_lock_info *info = inspect(client, "door");
	assert_int_equal(strlen(info->parties[0].user), sizeof info->parties[0].user - 1);
	assert_int_equal(strlen(info->parties[0].command), sizeof info->parties[0].command - 1);
	assert_int_equal(strlen(info->parties[0].note), sizeof info->parties[0].note - 1);
	assert_string_equal(info->parties[0].host, "a");
	assert_int_equal(info->parties[0].pid, getpid()); /* that of the session's id */
	sneck_lock_info_free(info);
	test_redis_ok(server, "DEL sneck:@%s", sneck_client_session(client));
	test_redis_ok(server, "SET sneck:@%s x", sneck_client_session(client));
	sneck_lock_info_free(inspect(client, "door"));
	test_release(hold);
	sneck_close(client);
}

/* A user who may only read sees everything, and can take nothing. */
static void a_viewer_may_look(void **state) {
	(void)state;
	sneck_client *client = open_with("ann", NULL, NULL);
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	char record[96];
	snprintf(record, sizeof record, "EXISTS sneck:@%s", sneck_client_session(client));
	assert_true(WAIT_UNTIL(test_redis_int(server, record) == 1, 2000));
	test_redis_ok(server,
	        "ACL SETUSER viewer on >secret resetkeys %%R~sneck:* resetchannels -@all +hello +auth "
	        "+evalsha_ro +eval_ro +time +exists +zscore +zcount +zrange +hmget +scan +cluster|slots");
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	options.user = "viewer";
	options.password = "secret";
	sneck_client *viewer = NULL;
	sneck_error error;
	assert_result(0, sneck_open(server->url, &options, &viewer, &error), &error);
	test_redis_ok(server, "SCRIPT FLUSH");
	sneck_lock_info *info = inspect(viewer, "door");
	assert_int_equal(info->holder_n, 1);
	assert_string_equal(info->parties[0].user, "ann");
	sneck_lock_info_free(info);
	sneck_lock_list *list = NULL;
	assert_result(0, sneck_list(viewer, NULL, &list, &error), &error);
	assert_int_equal(list->n, 1);
	sneck_lock_list_free(list);
	sneck_hold *none = NULL;
	assert_result(SNECK_EACCES, sneck_acquire(viewer, "x", SNECK_WRITE, NULL, &none, &error), &error);
	/* Who may not read records sees the rest. */
	test_redis_ok(server, "ACL SETUSER viewer -hmget");
	info = inspect(viewer, "door");
	assert_string_equal(info->parties[0].user, "");
	sneck_lock_info_free(info);
	test_redis_ok(server, "ACL SETUSER viewer -zcount");
	assert_result(SNECK_EACCES, sneck_inspect(viewer, "door", 4, 0, &info, &error), &error);
	sneck_close(viewer);
	test_release(hold);
	sneck_close(client);
	test_redis_ok(server, "ACL DELUSER viewer");
}

/* The script itself needs no primary. */
static void a_replica_can_be_asked(void **state) {
	(void)state;
	struct test_server replica;
	const char *const args[] = { "--replicaof", "127.0.0.1 1", NULL }; /* nobody is there */
	assert_int_equal(test_server_start(&replica, args), 0);
	redisContext *redis = test_server_connect(&replica);
	const struct dialect_session session = {
		.name_space = "sneck", .id = "A", .keep_ms = 10000, .bury_ms = 60000
	};
	struct buf request = BUF_INIT;
	redisReply *reply = NULL;
	sneck_lock_info info = { 0 };
	sneck_error error;
	assert_int_equal(snecki_native.encode_inspect(&session, "door", 4, 10, true, &request), 0);
	assert_int_equal(redisAppendFormattedCommand(redis, request.data, request.len), REDIS_OK);
	assert_int_equal(redisGetReply(redis, (void **)&reply), REDIS_OK);
	assert_result(0, snecki_native.decode_inspect(reply, &info, &error), &error);
	free(info.parties);
	freeReplyObject(reply);
	snecki_buf_done(&request);
	redisFree(redis);
	test_server_stop(&replica);
}

static void a_forgotten_script_is_sent_again(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	for (int i = 0; i < 3; i++) {
		test_redis_ok(server, "SCRIPT FLUSH");
		sneck_lock_info_free(inspect(client, "door"));
		uint64_t commands = test_stats(client).commands;
		sneck_lock_info_free(inspect(client, "door"));
		assert_int_equal(test_stats(client).commands - commands, 1);
	}
	sneck_close(client);
}

/* A server that does not answer, and one that answers when nobody waits any more. */
static void no_answer_is_told_in_time(void **state) {
	(void)state;
	sneck_client *client = test_open_command_ms(server->url, 300);
	sneck_lock_info *info = NULL;
	sneck_lock_list *list = NULL;
	sneck_error error;
	test_await_link(client, "door");
	test_server_stopcont(server, true);
	int64_t start_ms = test_now_ms();
	int r = sneck_inspect(client, "door", 4, 0, &info, &error);
	int64_t took_ms = test_now_ms() - start_ms;
	int r2 = sneck_list(client, NULL, &list, NULL);
	test_server_stopcont(server, false);
	assert_result(SNECK_ECONN, r, &error);
	assert_result(SNECK_ECONN, r2, NULL);
	assert_true(took_ms >= 290 && took_ms <= 300 + 2 * TEST_SLACK_MS);
	assert_null(info);
	assert_true(WAIT_UNTIL(sneck_inspect(client, "door", 4, 0, &info, NULL) == 0, 5000));
	sneck_lock_info_free(info);
	test_server_kill9(server);
	info = NULL;
	assert_result(SNECK_ECONN, sneck_inspect(client, "door", 4, 0, &info, &error), NULL);
	assert_int_equal(test_server_restart(server), 0);
	assert_true(WAIT_UNTIL(sneck_inspect(client, "door", 4, 0, &info, NULL) == 0, 5000));
	sneck_lock_info_free(info);
	sneck_close(client);
}

static void *look_often(void *arg) {
	for (int i = 0; i < 200; i++) {
		sneck_lock_info *info = NULL;
		if (sneck_inspect(arg, "door", 4, 0, &info, NULL) < 0 || info->holder_n > 1)
			return arg;
		sneck_lock_info_free(info);
	}
	return NULL;
}

/* Looking and taking share one connection. */
static void looking_disturbs_nobody(void **state) {
	(void)state;
	sneck_client *client = open_with("ann", NULL, NULL);
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look_often, client), 0);
	for (int i = 0; i < 200; i++)
		test_release(test_take(client, "door", SNECK_WRITE, 0));
	for (int i = 0; i < 3; i++) {
		void *failed;
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	sneck_close(client);
}

/* The id of a detached hold is that by which it can be adopted. */
static void a_detached_hold_is_found_again(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url), *b = test_open(server->url);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	char id[SNECK_ID_MAX];
	sneck_error error;
	assert_result(0, sneck_detach(hold, 60000, id, &error), &error);
	sneck_lock_info *info = inspect(b, "door");
	assert_string_equal(info->parties[0].id, id);
	assert_result(0, sneck_adopt(b, "door", 4, info->parties[0].id, NULL, &hold, &error), &error);
	sneck_lock_info_free(info);
	test_release(hold);
	sneck_close(a);
	sneck_close(b);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(a_free_lock_is_free),
		TEST(a_holder_is_named),
		TEST(without_a_record_the_session_tells_host_and_pid),
		TEST(the_queue_is_shown_in_order),
		TEST(the_dead_are_not_shown),
		TEST(only_so_many_are_listed_but_all_are_counted),
		TEST(a_writer_beside_readers_is_not_overlooked),
		TEST(what_is_no_lock_is_said_to_be_none),
		TEST(arguments_are_checked),
		TEST(a_forged_record_is_cut_to_fit),
		TEST(a_viewer_may_look),
		TEST_PLAIN(a_replica_can_be_asked),
		TEST(a_forgotten_script_is_sent_again),
		TEST(looking_disturbs_nobody),
		TEST(a_detached_hold_is_found_again),
		TEST(no_answer_is_told_in_time),
	};
	return TEST_RUN(tests);
}
