/* SPDX-License-Identifier: MIT */
/* Breaking holds and waits: the victim learns who and why, the lock passes on when it should, tokens grow,
 * and nobody else is disturbed. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "break_rig.h"
#include "procs.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

#define BY "bob@web1 (pid "
#define assert_contains(text, part)                                                        \
	do {                                                                               \
		if (!strstr((text), (part)))                                               \
			fail_msg("\"%s\" is not in \"%s\"", (part), (const char *)(text)); \
	} while (0)

static void assert_told(const char *text) {
	assert_contains(text, BY);
	assert_contains(text, ": " RIG_REASON);
}

static void at_once(void **state) {
	(void)state;
	sneck_client *victim = rig_open_as("ann"), *next = test_open(server->url), *bob = rig_open_as("bob");
	sneck_hold *hold = test_take(victim, "door", SNECK_WRITE, 0);
	uint64_t token = sneck_hold_token(hold);
	int fd = sneck_hold_fd(hold);
	assert_string_equal(sneck_hold_reason(hold), "");
	rig_await_listener(victim);
	struct test_call call;
	test_call_start(&call, next, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	int64_t start_ms = test_now_ms();
	rig_break_first(bob, "door", SNECK_PARTY_HOLDER, 0);
	assert_true(test_readable(fd, 2000));
	assert_true(WAIT_UNTIL(rig_is_broken(hold), 1000));
	assert_true(test_now_ms() - start_ms < 1000 + TEST_SLACK_MS); /* not with the next renewal */
	assert_false(sneck_check(hold, 0));
	assert_told(sneck_hold_reason(hold));
	sneck_event event;
	assert_true(test_next_event(victim, &event, 1000));
	assert_int_equal(event.type, SNECK_EVENT_STATE);
	assert_int_equal(event.state, SNECK_BROKEN);
	assert_int_equal(event.code, SNECK_EBROKEN);
	assert_ptr_equal(event.hold, hold);
	assert_contains(event.text, "\"door\": broken by " BY);
	assert_told(event.text);
	sneck_error error = { 0 };
	assert_result(SNECK_EBROKEN, sneck_renew(hold, 0, &error), NULL);
	assert_told(error.text);
	assert_result(SNECK_EBROKEN, sneck_downgrade(hold, &error), NULL);
	assert_told(error.text);

	assert_result(0, test_call_join(&call), &call.error);
	assert_true(sneck_hold_token(call.hold) > token + (uint64_t)SNECK_LEASE_DEFAULT_MS * 1000 / 2);
	assert_int_equal(test_members(server, "door", "bm"), 2);
	assert_result(SNECK_EBROKEN, sneck_release(hold), NULL);
	assert_int_equal(test_members(server, "door", "bm"), 0); /* it has been seen */
	assert_int_equal(test_members(server, "door", "W"), 1);
	test_release(call.hold);
	assert_true(test_is_idle(server, "door"));
	assert_int_equal(test_stats(victim).losses, 1);
	sneck_close(victim);
	sneck_close(next);
	sneck_close(bob);
}

/* Nobody hears the message: the next renewal, or the release, tells. */
static void a_lost_message_is_made_up_for(void **state) {
	(void)state;
	sneck_client *victim = test_open(server->url), *bob = rig_open_as("bob");
	sneck_acquire_options options = test_waiting(0);
	options.lease_ms = 1500;
	sneck_hold *hold = test_take_opts(victim, "door", SNECK_WRITE, &options);
	assert_false(rig_listens(sneck_client_session(victim)));
	rig_break_first(bob, "door", SNECK_PARTY_HOLDER, 0);
	assert_true(WAIT_UNTIL(rig_is_broken(hold), 1500 + TEST_SLACK_MS));
	assert_told(sneck_hold_reason(hold));
	assert_result(SNECK_EBROKEN, sneck_release(hold), NULL);

	hold = test_take(victim, "window", SNECK_WRITE, 0);
	rig_break_first(bob, "window", SNECK_PARTY_HOLDER, 60000);
	assert_result(SNECK_EBROKEN, sneck_release(hold), NULL); /* the first it hears of it */
	assert_true(test_is_idle(server, "window"));

	hold = test_take(victim, "gate", SNECK_READ, 0);
	rig_break_first(bob, "gate", SNECK_PARTY_HOLDER, 0);
	sneck_error error = { 0 };
	assert_result(SNECK_EBROKEN, sneck_upgrade(hold, NULL, &error), NULL);
	assert_told(error.text);
	assert_result(SNECK_EBROKEN, sneck_release(hold), NULL);
	sneck_close(victim);
	sneck_close(bob);
}

static void a_stale_id_breaks_nobody(void **state) {
	(void)state;
	sneck_client *a = rig_open_as("ann"), *b = test_open(server->url), *bob = rig_open_as("bob");
	char id[SNECK_ID_MAX], now[SNECK_ID_MAX];
	sneck_error error = { 0 };
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	rig_id_of(bob, "door", SNECK_PARTY_HOLDER, id);
	test_release(hold);
	assert_result(SNECK_ENOTHELD, sneck_break(bob, "door", 4, id, "late", 0, &error), NULL);
	assert_contains(error.text, "nobody holds it now");
	hold = test_take(b, "door", SNECK_READ, 0);
	assert_result(SNECK_ENOTHELD, sneck_break(bob, "door", 4, id, "late", 0, &error), NULL);
	assert_contains(error.text, sneck_client_session(b));
	assert_contains(error.text, rig_id_of(bob, "door", SNECK_PARTY_HOLDER, now));
	assert_contains(error.text, id);
	assert_int_equal(test_members(server, "door", "bm"), 0);
	assert_result(0, sneck_renew(hold, 0, &error), &error);
	test_release(hold);
	assert_result(SNECK_ENOTHELD, sneck_break(bob, "never", 5, id, NULL, 0, &error), NULL);
	assert_int_equal(test_redis_int(server, "EXISTS sneck:{never}"), 0);
	sneck_close(a);
	sneck_close(b);
	sneck_close(bob);
}

static void a_wait_is_ended(void **state) {
	(void)state;
	sneck_client *holder = test_open(server->url), *victim = test_open(server->url);
	sneck_client *next = test_open(server->url), *bob = rig_open_as("bob");
	sneck_hold *hold = test_take(holder, "door", SNECK_WRITE, 0);
	struct test_call call, behind;
	test_call_start(&call, victim, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	test_call_start(&behind, next, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 2, 2000));
	rig_await_listener(victim);
	int64_t start_ms = test_now_ms();
	rig_break_first(bob, "door", SNECK_PARTY_WAITER, 60000);
	assert_result(SNECK_EBROKEN, test_call_join(&call), NULL);
	assert_told(call.error.text);
	assert_true(call.end_ms - start_ms < 500 + TEST_SLACK_MS);
	assert_false(atomic_load(&behind.done)); /* still in line */
	assert_int_equal(sneck_hold_state(hold), SNECK_HELD);

	/* The same without blocking. */
	sneck_acquire_options options = test_waiting(10000);
	options.tag = 5;
	sneck_error error;
	assert_result(0, sneck_acquire_start(victim, "door", 4, SNECK_READ, &options, &error), &error);
	assert_true(test_await_members(server, "door", "r", 1, 2000));
	sneck_lock_info *info = NULL;
	assert_result(0, sneck_inspect(bob, "door", 4, 0, &info, &error), &error);
	assert_result(0,
	        sneck_break(bob, "door", 4, info->parties[info->party_n - 1].id, "it hangs", 0, &error),
	        &error);
	sneck_lock_info_free(info);
	sneck_event event;
	assert_true(test_next_event(victim, &event, 3000));
	assert_int_equal(event.type, SNECK_EVENT_REFUSED);
	assert_int_equal(event.code, SNECK_EBROKEN);
	assert_int_equal(event.tag, 5);
	assert_told(event.text);

	test_release(hold);
	assert_result(0, test_call_join(&behind), &behind.error);
	test_release(behind.hold);
	/* It may ask again. */
	test_release(test_take(victim, "door", SNECK_WRITE, 0));
	sneck_close(holder);
	sneck_close(victim);
	sneck_close(next);
	sneck_close(bob);
}

static void an_upgrade_is_ended_and_the_read_hold_stays(void **state) {
	(void)state;
	sneck_client *victim = test_open(server->url), *other = test_open(server->url);
	sneck_client *bob = rig_open_as("bob");
	sneck_acquire_options own = test_waiting(0);
	own.owner = 7;
	sneck_hold *hold = test_take_opts(victim, "door", SNECK_READ, &own);
	sneck_hold *reader = test_take(other, "door", SNECK_READ, 0);
	struct test_call call;
	sneck_acquire_options wait = test_waiting(10000);
	test_call_start_upgrade(&call, hold, &wait);
	assert_true(test_await_members(server, "door", "u", 1, 2000));
	rig_break_first(bob, "door", SNECK_PARTY_UPGRADER, 0);
	assert_result(SNECK_EBROKEN, test_call_join(&call), NULL);
	assert_told(call.error.text);
	assert_int_equal(sneck_hold_state(hold), SNECK_HELD);
	assert_int_equal(sneck_hold_mode(hold), SNECK_READ);
	sneck_error error;
	assert_result(0, sneck_renew(hold, 0, &error), &error);
	/* And may be upgraded once the way is free. */
	test_release(reader);
	assert_result(0, sneck_upgrade(hold, &wait, &error), &error);
	test_release(hold);
	sneck_close(victim);
	sneck_close(other);
	sneck_close(bob);
}

/* One reader is broken; the others go on through renewal after renewal, under the same number. */
static void other_readers_go_on(void **state) {
	(void)state;
	sneck_client *victim = rig_open_as("ann"), *others[2], *bob = rig_open_as("bob");
	sneck_acquire_options options = test_waiting(0);
	options.lease_ms = 1200;
	sneck_hold *holds[2];
	for (int i = 0; i < 2; i++) {
		others[i] = test_open(server->url);
		holds[i] = test_take_opts(others[i], "door", SNECK_READ, &options);
	}
	sneck_hold *hold = test_take(victim, "door", SNECK_READ, 0);
	uint64_t token = sneck_hold_token(hold);
	assert_int_equal(token, sneck_hold_token(holds[0]));
	rig_await_listener(victim);
	rig_break_first(bob, "door", SNECK_PARTY_HOLDER, 0); /* the longest lease stands first */
	assert_true(WAIT_UNTIL(rig_is_broken(hold), 1000));
	for (int i = 0; i < 2; i++) {
		uint64_t renewals = test_stats(others[i]).renewals;
		assert_true(WAIT_UNTIL(test_stats(others[i]).renewals >= renewals + 3, 4000));
		assert_int_equal(sneck_hold_state(holds[i]), SNECK_HELD);
		assert_int_equal(sneck_hold_token(holds[i]), token);
		assert_int_equal(test_stats(others[i]).losses, 0);
	}
	assert_result(SNECK_EBROKEN, sneck_release(hold), NULL);
	for (int i = 0; i < 2; i++) {
		test_release(holds[i]);
		sneck_close(others[i]);
	}
	assert_true(test_is_idle(server, "door"));
	sneck_close(victim);
	sneck_close(bob);
}

/* Two holds of one session are one on the server: both are broken, and the last release is the answer. */
static void holds_that_share_are_broken_together(void **state) {
	(void)state;
	sneck_client *victim = rig_open_as("ann"), *bob = rig_open_as("bob");
	sneck_acquire_options own = test_waiting(0);
	own.owner = 1;
	sneck_hold *first = test_take_opts(victim, "door", SNECK_READ, &own);
	own.owner = 2;
	sneck_hold *second = test_take_opts(victim, "door", SNECK_READ, &own);
	sneck_hold *elsewhere = test_take(victim, "window", SNECK_READ, 0);
	rig_await_listener(victim);
	rig_break_first(bob, "door", SNECK_PARTY_HOLDER, 20000);
	assert_true(WAIT_UNTIL(rig_is_broken(first) && rig_is_broken(second), 1000));
	assert_told(sneck_hold_reason(first));
	assert_told(sneck_hold_reason(second));
	assert_int_equal(sneck_hold_state(elsewhere), SNECK_HELD);
	assert_result(SNECK_EBUSY, test_probe(bob, "door", SNECK_WRITE), NULL);
	assert_result(SNECK_EBROKEN, sneck_release(first), NULL);
	assert_result(SNECK_EBUSY, test_probe(bob, "door", SNECK_WRITE), NULL);
	assert_result(SNECK_EBROKEN, sneck_release(second), NULL);
	assert_result(0, test_probe(bob, "door", SNECK_WRITE), NULL);
	test_release(elsewhere);
	sneck_close(victim);
	sneck_close(bob);
}

/* A fixed lease has no renewals: the message makes it ask. And a session may break what is its own. */
static void a_fixed_lease_is_told_too(void **state) {
	(void)state;
	sneck_client *client = rig_open_as("bob");
	sneck_acquire_options options = test_waiting(0);
	options.fixed = 1;
	options.lease_ms = 60000;
	sneck_hold *hold = test_take_opts(client, "door", SNECK_WRITE, &options);
	rig_await_listener(client);
	rig_break_first(client, "door", SNECK_PARTY_HOLDER, 0);
	assert_true(WAIT_UNTIL(rig_is_broken(hold), 1000));
	assert_told(sneck_hold_reason(hold));
	assert_result(SNECK_EBROKEN, sneck_release(hold), NULL);
	assert_true(test_is_idle(server, "door"));
	sneck_close(client);
}

static int be_victim(const char *url) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	sneck_client *client;
	sneck_hold *hold;
	options.who_user = "eve";
	if (sneck_open(url, &options, &client, NULL) < 0 ||
	        sneck_acquire(client, "door", SNECK_WRITE, NULL, &hold, NULL) < 0)
		return 1;
	printf("%s\n", sneck_client_session(client));
	fflush(stdout);
	if (!test_readable(sneck_hold_fd(hold), 20000))
		return 2;
	printf("%s\n", sneck_hold_reason(hold));
	fflush(stdout);
	int r = sneck_release(hold);
	sneck_close(client);
	return r == SNECK_EBROKEN ? 0 : 3;
}

static void a_victim_in_another_process(void **state) {
	(void)state;
	sneck_client *bob = rig_open_as("bob"), *next = test_open(server->url);
	struct test_proc proc;
	char line[512];
	test_proc_start(&proc, (const char *const[]){ "victim", server->url, NULL });
	assert_true(test_proc_line(&proc, line, sizeof line, 5000));
	assert_true(WAIT_UNTIL(rig_listens(line), 5000));
	struct test_call call;
	test_call_start(&call, next, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	rig_break_first(bob, "door", SNECK_PARTY_HOLDER, 20000);
	assert_true(test_proc_line(&proc, line, sizeof line, 5000));
	assert_told(line);
	assert_result(0, test_call_join(&call), &call.error); /* long before the grace is over */
	assert_int_equal(test_proc_finish(&proc, 5000), 0);
	test_release(call.hold);
	sneck_close(bob);
	sneck_close(next);
}

/* A victim that is stopped cannot answer: the lock passes on, and what it still sends is refused. */
static void a_stopped_victim(void **state) {
	(void)state;
	sneck_client *bob = rig_open_as("bob");
	struct test_proc proc;
	char line[512];
	test_proc_start(&proc, (const char *const[]){ "victim", server->url, NULL });
	assert_true(test_proc_line(&proc, line, sizeof line, 5000));
	assert_true(WAIT_UNTIL(rig_listens(line), 5000));
	test_proc_signal(&proc, SIGSTOP);
	rig_break_first(bob, "door", SNECK_PARTY_HOLDER, 0);
	sneck_hold *hold = test_take(bob, "door", SNECK_WRITE, 0);
	test_proc_signal(&proc, SIGCONT);
	assert_true(test_proc_line(&proc, line, sizeof line, 15000));
	assert_told(line);
	assert_int_equal(test_proc_finish(&proc, 5000), 0);
	assert_int_equal(sneck_hold_state(hold), SNECK_HELD);
	test_release(hold);
	sneck_close(bob);
}

static void reasons_are_cut_and_kept_as_they_are(void **state) {
	(void)state;
	sneck_client *victim = test_open(server->url), *bob = test_open(server->url);
	char id[SNECK_ID_MAX], why[600];
	memset(why, 'x', sizeof why);
	memcpy(why, "\x1b[31m\n", 6);
	why[599] = '\0';
	sneck_error error = { 0 };
	sneck_hold *hold = test_take(victim, "door", SNECK_READ, 0);
	rig_id_of(bob, "door", SNECK_PARTY_HOLDER, id);
	assert_result(0, sneck_break(bob, "door", 4, id, why, 0, &error), &error);
	assert_result(SNECK_EBROKEN, sneck_renew(hold, 0, &error), NULL);
	assert_null(strpbrk(error.text, "\x1b\n"));                /* what we show is safe to show */
	assert_contains(error.text, sneck_client_session(bob));    /* it did not say who it is */
	assert_contains(sneck_hold_reason(hold), "\x1b[31m\nxxx"); /* what we hand on is as it was */
	assert_true(strlen(sneck_hold_reason(hold)) == 200);
	assert_result(SNECK_EBROKEN, sneck_release(hold), NULL);

	hold = test_take(victim, "door", SNECK_READ, 0);
	rig_id_of(bob, "door", SNECK_PARTY_HOLDER, id);
	assert_result(0, sneck_break(bob, "door", 4, id, NULL, 0, &error), &error);
	assert_result(SNECK_EBROKEN, sneck_renew(hold, 0, &error), NULL);
	assert_string_equal(sneck_hold_reason(hold), sneck_client_session(bob));
	assert_result(SNECK_EBROKEN, sneck_release(hold), NULL);
	sneck_close(victim);
	sneck_close(bob);
}

static void arguments_are_checked(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	static const char *const bad[] = { "", "W", "Wx", "Wx.", "W.1", "Xx.1", "#1", "Wx.1.2", "Wx.Z",
		"bx.1", "W01234567890123456789012345678901234567890.1",
		"Wx.123456789012345678901234567890123456789012345678901234567890" };
	sneck_error error = { 0 };
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_result(SNECK_EINVAL, sneck_break(client, "door", 4, bad[i], NULL, 0, &error), NULL);
	assert_result(SNECK_EINVAL, sneck_break(NULL, "door", 4, "Wx.1", NULL, 0, &error), NULL);
	assert_result(SNECK_EINVAL, sneck_break(client, "door", 4, NULL, NULL, 0, &error), NULL);
	assert_result(SNECK_EINVAL, sneck_break(client, "", 0, "Wx.1", NULL, 0, &error), NULL);
	assert_result(SNECK_EINVAL, sneck_break(client, "door", 4, "Wx.1", NULL, -1, &error), NULL);
	assert_result(
	        SNECK_EINVAL, sneck_break(client, "door", 4, "Wx.1", NULL, INT64_C(1) << 40, &error), NULL);
	assert_result(SNECK_ENOTHELD, sneck_break(client, "door", 4, "Wx.1", NULL, 0, &error), NULL);
	assert_string_equal(sneck_hold_reason(NULL), "");
	test_redis_ok(server, "SET sneck:{text} x");
	assert_result(SNECK_ETYPE, sneck_break(client, "text", 4, "Wx.1", NULL, 0, &error), NULL);
	pid_t pid = fork();
	if (pid == 0)
		_exit(sneck_break(client, "door", 4, "Wx.1", NULL, 0, NULL) == SNECK_EFORKED ? 0 : 1);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	sneck_close(client);
}

/* A queue of the dead behind the victim: the breaker clears the way to the living. */
static void the_queue_moves_on(void **state) {
	(void)state;
	enum { DEAD = 300 };
	sneck_client *victim = test_open(server->url), *next = test_open(server->url),
	             *bob = rig_open_as("bob");
	sneck_hold *hold = test_take(victim, "door", SNECK_WRITE, 0);
	struct test_call call;
	test_call_start(&call, next, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	/* In one go, so that no heartbeat finds the first of them before the break does. */
	test_redis_ok(server, "EVAL %s 1 sneck:{door} %d",
	        "local now = redis.call('TIME')[1] * 1000 "
	        "for i = 1, ARGV[1] do "
	        "redis.call('ZADD', KEYS[1], string.format('%d', -4e15 + now - 100000 + i), 'wx:1:a.' .. i) "
	        "redis.call('ZADD', KEYS[1], string.format('%d', 1e14 + now - 5000), 'lx:1:a.' .. i) end",
	        DEAD);
	char id[SNECK_ID_MAX];
	snprintf(id, sizeof id, "W%s.1", sneck_client_session(victim));
	sneck_error error;
	assert_result(0, sneck_break(bob, "door", 4, id, "it hangs", 0, &error), &error);
	assert_int_equal(test_members(server, "door", "w"), 0);
	assert_result(0, test_call_join(&call), &call.error);
	assert_result(SNECK_EBROKEN, sneck_release(hold), NULL);
	test_release(call.hold);
	sneck_close(victim);
	sneck_close(next);
	sneck_close(bob);
}

/* No answer: nobody knows whether it was broken, and that is what the result says. */
static void no_answer_is_unknown(void **state) {
	(void)state;
	sneck_client *victim = test_open(server->url), *bob = test_open_command_ms(server->url, 300);
	sneck_hold *hold = test_take(victim, "door", SNECK_WRITE, 0);
	char id[SNECK_ID_MAX];
	test_await_link(bob, "door");
	rig_id_of(bob, "door", SNECK_PARTY_HOLDER, id);
	test_server_stopcont(server, true);
	sneck_error error = { 0 };
	int r = sneck_break(bob, "door", 4, id, NULL, 0, &error);
	test_server_stopcont(server, false);
	assert_result(SNECK_EUNKNOWN, r, &error);
	/* Asked again it is broken, or was. */
	assert_true(WAIT_UNTIL(
	        (r = sneck_break(bob, "door", 4, id, NULL, 0, &error)) == 0 || r == SNECK_ENOTHELD, 5000));
	assert_result(SNECK_EBROKEN, sneck_release(hold), NULL);
	sneck_close(victim);
	sneck_close(bob);
}

int main(int argc, char **argv) {
	if (argc == 3 && strcmp(argv[1], "victim") == 0)
		return be_victim(argv[2]);
	const struct CMUnitTest tests[] = {
		TEST(at_once),
		TEST(a_lost_message_is_made_up_for),
		TEST(a_stale_id_breaks_nobody),
		TEST(a_wait_is_ended),
		TEST(an_upgrade_is_ended_and_the_read_hold_stays),
		TEST(other_readers_go_on),
		TEST(holds_that_share_are_broken_together),
		TEST(a_fixed_lease_is_told_too),
		TEST(a_victim_in_another_process),
		TEST(a_stopped_victim),
		TEST(reasons_are_cut_and_kept_as_they_are),
		TEST(arguments_are_checked),
		TEST(the_queue_moves_on),
		TEST(no_answer_is_unknown),
	};
	return TEST_RUN(tests);
}
