/* SPDX-License-Identifier: MIT */
/* Holds that no program keeps: renewed, released and adopted by their id, and by nobody who has the id of a
 * hold that is kept; who left them stays to be read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "locks.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

static sneck_client *open_as(const char *user, const char *note) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	options.who_user = user;
	options.note = note;
	sneck_client *client = NULL;
	sneck_error error = { 0 };
	assert_result(0, sneck_open(server->url, &options, &client, &error), &error);
	return client;
}

struct left {
	char id[SNECK_ID_MAX];
	uint64_t token;
};

static struct left take_and_leave(sneck_client *client, const char *name, sneck_mode mode, int64_t lease_ms) {
	struct left left;
	sneck_error error;
	sneck_hold *hold = test_take(client, name, mode, 0);
	left.token = sneck_hold_token(hold);
	assert_result(0, sneck_detach(hold, lease_ms, left.id, &error), &error);
	return left;
}

static int renew(sneck_client *client, const char *id, int64_t lease_ms, sneck_error *error) {
	return sneck_renew_id(client, "door", 4, id, lease_ms, NULL, NULL, error);
}

static int release(sneck_client *client, const char *id, sneck_error *error) {
	return sneck_release_id(client, "door", 4, id, error);
}

static sneck_lock_info *inspect(sneck_client *client) {
	sneck_lock_info *info = NULL;
	sneck_error error;
	assert_result(0, sneck_inspect(client, "door", 4, 0, &info, &error), &error);
	return info;
}

static long long record_ttl(const struct left *left) {
	return test_redis_int(server, "PTTL sneck:@%s", left->id + 1);
}

static void renewed_it_keeps_id_and_token(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url), *b = test_open(server->url);
	const sneck_mode modes[] = { SNECK_READ, SNECK_WRITE };
	for (int i = 0; i < 2; i++) {
		struct left left = take_and_leave(a, "door", modes[i], 5000);
		uint64_t token = 0;
		int64_t left_ms = 0;
		sneck_error error;
		assert_result(
		        0, sneck_renew_id(b, "door", 4, left.id, 600000, &token, &left_ms, &error), &error);
		assert_true(token == left.token);
		assert_in_range(left_ms, 590000, 600000);
		sneck_lock_info *info = inspect(b);
		assert_int_equal(info->holder_n, 1);
		assert_string_equal(info->parties[0].id, left.id);
		assert_true(info->parties[0].lease_left_ms > 590000);
		sneck_lock_info_free(info);
		/* It is never made shorter. */
		assert_result(0, sneck_renew_id(b, "door", 4, left.id, 1000, NULL, &left_ms, &error), &error);
		assert_in_range(left_ms, 590000, 600000);
		assert_result(0, release(b, left.id, &error), &error);
		assert_true(test_is_idle(server, "door"));
	}
	sneck_close(a);
	sneck_close(b);
}

static void released_it_is_gone_and_tokens_go_on(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url), *b = test_open(server->url);
	struct left left = take_and_leave(a, "door", SNECK_WRITE, 3600000);
	sneck_error error;
	assert_result(0, release(b, left.id, &error), &error);
	/* The key of an idle lock does not outlive the tokens that it must remember. */
	assert_in_range(test_redis_int(server, "PTTL sneck:{door}"), 1, SNECK_KEEP_MS + 1000);
	assert_result(SNECK_ELOST, release(b, left.id, &error), NULL);
	assert_non_null(strstr(error.text, "nobody holds it"));
	assert_result(SNECK_ELOST, renew(b, left.id, 1000, &error), NULL);
	sneck_hold *hold = test_take(b, "door", SNECK_WRITE, 0);
	assert_true(sneck_hold_token(hold) > left.token);
	assert_result(SNECK_ELOST, release(a, left.id, &error), NULL);
	assert_non_null(strstr(error.text, sneck_client_session(b)));
	test_release(hold);
	sneck_close(a);
	sneck_close(b);
}

static void whoever_waits_comes_next(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url), *b = test_open(server->url);
	struct left left = take_and_leave(a, "door", SNECK_WRITE, 60000);
	struct test_call writer, readers[2];
	test_call_start(&writer, b, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 5000));
	sneck_error error;
	int64_t begin_ms = test_now_ms();
	assert_result(0, release(a, left.id, &error), &error);
	assert_int_equal(test_call_join(&writer), 0);
	assert_true(writer.end_ms - begin_ms < 1000 + TEST_SLACK_MS); /* by a message, or a beat at most */
	assert_true(sneck_hold_token(writer.hold) > left.token);
	test_release(writer.hold);
	for (int i = 0; i < 2; i++) {
		test_call_start(&readers[i], i ? a : b, "door", SNECK_READ, NULL);
		assert_int_equal(test_call_join(&readers[i]), 0);
		test_release(readers[i].hold);
	}
	sneck_close(a);
	sneck_close(b);
}

/* A hold that a program keeps is not to be had by its id, whoever knows it. */
static void a_hold_that_is_kept_is_left_alone(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url), *b = test_open(server->url);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0), *stolen = NULL;
	char id[SNECK_ID_MAX];
	sneck_error error;
	assert_int_equal(sneck_hold_id(hold, id), 0);
	double deadline = test_score(server, "door", "W");
	assert_result(SNECK_ENOTOWNER, renew(b, id, 600000, &error), NULL);
	assert_non_null(strstr(error.text, "sneck_break"));
	assert_result(SNECK_ENOTOWNER, release(b, id, &error), NULL);
	assert_result(SNECK_ENOTOWNER, sneck_adopt(b, "door", 4, id, NULL, &stolen, &error), NULL);
	assert_result(SNECK_ENOTOWNER, release(a, id, &error), NULL);
	assert_true(test_score(server, "door", "W") == deadline);
	/* With the mark it is another name, which nobody has. */
	char marked[SNECK_ID_MAX + 1];
	snprintf(marked, sizeof marked, "%s~", id);
	assert_result(SNECK_ELOST, release(b, marked, &error), NULL);
	assert_non_null(strstr(error.text, id));
	sneck_lock_info *info = inspect(b);
	assert_int_equal(info->parties[0].detached, 0);
	sneck_lock_info_free(info);
	assert_int_equal(sneck_hold_state(hold), SNECK_HELD);
	test_release(hold);
	sneck_close(a);
	sneck_close(b);
}

static void adopted_it_is_kept_again(void **state) {
	(void)state;
	sneck_client *a = open_as("ann", "left"), *b = test_open(server->url);
	struct left left = take_and_leave(a, "door", SNECK_WRITE, 60000);
	sneck_hold *hold = NULL;
	char id[SNECK_ID_MAX];
	sneck_error error;
	assert_true(record_ttl(&left) > 0);
	assert_result(0, sneck_adopt(b, "door", 4, left.id, NULL, &hold, &error), &error);
	assert_true(sneck_hold_token(hold) == left.token);
	assert_true(WAIT_UNTIL(record_ttl(&left) == -2, 2000));
	assert_result(SNECK_ELOST, release(a, left.id, &error), NULL);
	assert_int_equal(sneck_hold_id(hold, id), 0);
	assert_result(SNECK_ENOTOWNER, release(a, id, &error), NULL);
	test_release(hold);
	sneck_close(a);
	sneck_close(b);
}

/* Who left it, and the note, can be read as long as it is there, also when the session has gone. */
static void its_record_lasts_as_long_as_it(void **state) {
	(void)state;
	sneck_client *a = open_as("ann", "deploying 1.2"), *b = test_open(server->url);
	struct left left = take_and_leave(a, "door", SNECK_WRITE, 5000);
	sneck_error error;
	sneck_close(a);
	assert_in_range(record_ttl(&left), 1, 6000);
	assert_result(0, renew(b, left.id, 600000, &error), &error);
	assert_in_range(record_ttl(&left), 590000, 601000);
	assert_result(0, renew(b, left.id, 1000, &error), &error);
	assert_in_range(record_ttl(&left), 590000, 601000);
	sneck_lock_info *info = inspect(b);
	assert_string_equal(info->parties[0].user, "ann");
	assert_string_equal(info->parties[0].note, "deploying 1.2");
	assert_int_equal(info->parties[0].detached, 1);
	sneck_lock_info_free(info);
	assert_result(0, release(b, left.id, &error), &error);
	assert_int_equal(record_ttl(&left), -2);
	sneck_close(b);
}

/* Two that one session has left have a record each, and the session's own is a third. */
static void records_are_told_apart(void **state) {
	(void)state;
	sneck_client *a = open_as("ann", "first"), *b = open_as("bob", "second"), *c = test_open(server->url);
	struct left one = take_and_leave(a, "door", SNECK_READ, 60000);
	struct left two = take_and_leave(b, "door", SNECK_READ, 60000);
	sneck_hold *hold = test_take(b, "door", SNECK_READ, 0);
	sneck_error error;
	assert_result(0, release(c, one.id, &error), &error);
	assert_true(record_ttl(&two) > 0);
	sneck_lock_info *info = inspect(c);
	assert_int_equal(info->party_n, 2);
	for (int i = 0; i < 2; i++)
		assert_string_equal(info->parties[i].user, "bob");
	assert_int_equal(info->parties[0].detached + info->parties[1].detached, 1);
	sneck_lock_info_free(info);
	test_release(hold);
	sneck_close(b); /* which removes the session's record, and no more */
	assert_true(record_ttl(&two) > 0);
	sneck_close(a);
	sneck_close(c);
}

static void it_can_be_broken(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url), *bob = open_as("bob", NULL);
	struct left left = take_and_leave(a, "door", SNECK_WRITE, 3600000);
	sneck_hold *adopted = NULL;
	sneck_error error;
	assert_result(0, sneck_break(bob, "door", 4, left.id, "left behind", 60000, &error), &error);
	assert_result(SNECK_EBUSY, test_probe(a, "door", SNECK_WRITE), NULL);
	assert_result(SNECK_EBROKEN, sneck_adopt(a, "door", 4, left.id, NULL, &adopted, &error), NULL);
	assert_result(SNECK_EBROKEN, renew(a, left.id, 1000, &error), NULL);
	assert_non_null(strstr(error.text, "left behind"));
	/* Released it has seen that, and the rest of the grace is nobody's. */
	assert_result(SNECK_EBROKEN, release(a, left.id, &error), NULL);
	assert_non_null(strstr(error.text, "bob@"));
	assert_result(SNECK_ELOST, release(a, left.id, &error), NULL);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	assert_true(sneck_hold_token(hold) > left.token);
	test_release(hold);
	sneck_close(a);
	sneck_close(bob);
}

static void a_break_uses_up_its_numbers(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url), *bob = open_as("bob", NULL);
	struct left left = take_and_leave(a, "door", SNECK_WRITE, 3600000);
	uint64_t token = left.token;
	sneck_error error = { 0 };
	assert_result(0, sneck_break(bob, "door", 4, left.id, "it hangs", 0, &error), &error);
	sneck_hold *hold = test_take(bob, "door", SNECK_WRITE, 0);
	assert_true(sneck_hold_token(hold) > token + UINT64_C(3590000000)); /* an hour of numbers */
	/* Far ahead of the clock tokens go on growing. */
	for (int i = 0; i < 5; i++) {
		token = sneck_hold_token(hold);
		test_release(hold);
		hold = test_take(i % 2 ? a : bob, "door", SNECK_WRITE, 0);
		assert_true(sneck_hold_token(hold) > token);
	}
	test_release(hold);
	sneck_close(a);
	sneck_close(bob);
}

/* No answer: nobody knows, and that is what is said. Asked again the answer is definite. */
static void no_answer_is_unknown(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url), *b = test_open_command_ms(server->url, 300);
	struct left left = take_and_leave(a, "door", SNECK_WRITE, 60000);
	sneck_error error;
	test_await_link(b, "door");
	assert_result(0, renew(b, left.id, 1000, &error), &error); /* the server knows the script */
	test_server_stopcont(server, true);
	int64_t begin_ms = test_now_ms();
	int renewed = renew(b, left.id, 600000, &error);
	int released = release(b, left.id, &error);
	int64_t took_ms = test_now_ms() - begin_ms;
	test_server_stopcont(server, false);
	assert_result(SNECK_EUNKNOWN, renewed, NULL);
	assert_true(
	        released == SNECK_EUNKNOWN || released == SNECK_ECONN); /* the link may have been given up */
	assert_true(took_ms < 2 * 300 + TEST_SLACK_MS);
	int r = 0;
	assert_true(WAIT_UNTIL((r = release(b, left.id, &error)) == 0 || r == SNECK_ELOST, 5000));
	assert_result(SNECK_ELOST, release(b, left.id, &error), NULL);
	assert_true(WAIT_UNTIL(test_is_idle(server, "door"), 5000));
	sneck_close(a);
	sneck_close(b);
}

/* It ends at its time limit, and what may come of it later is nobody's and given back. */
static void an_adoption_without_an_answer_is_withdrawn(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url), *b = test_open_command_ms(server->url, 300);
	struct left left = take_and_leave(a, "door", SNECK_WRITE, 60000);
	sneck_acquire_options options = test_waiting(SNECK_WAIT_FOREVER); /* which does not count here */
	sneck_hold *adopted = NULL;
	sneck_error error;
	test_await_link(b, "door");
	assert_result(0, renew(b, left.id, 1000, &error), &error); /* the server knows the script */
	test_server_stopcont(server, true);
	int64_t begin_ms = test_now_ms();
	int r = sneck_adopt(b, "door", 4, left.id, &options, &adopted, &error);
	int64_t took_ms = test_now_ms() - begin_ms;
	test_server_stopcont(server, false);
	assert_result(SNECK_EUNKNOWN, r, &error);
	assert_null(adopted);
	assert_in_range(took_ms, 290, 300 + TEST_SLACK_MS);
	assert_true(WAIT_UNTIL(test_is_idle(server, "door"), 5000));
	assert_result(SNECK_ELOST, release(a, left.id, &error), NULL);
	sneck_close(a);
	sneck_close(b);
}

static void a_forgotten_script_is_sent_again(void **state) {
	(void)state;
	sneck_client *a = open_as("ann", "x");
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	struct left left = { .token = 0 };
	sneck_error error;
	freeReplyObject(test_redis(server, "SCRIPT FLUSH"));
	assert_result(0, sneck_detach(hold, 60000, left.id, &error), &error);
	assert_true(record_ttl(&left) > 0);
	freeReplyObject(test_redis(server, "SCRIPT FLUSH"));
	assert_result(0, renew(a, left.id, 600000, &error), &error);
	freeReplyObject(test_redis(server, "SCRIPT FLUSH"));
	assert_result(0, release(a, left.id, &error), &error);
	sneck_close(a);
}

static void arguments_are_checked(void **state) {
	(void)state;
	static const char *const ids[] = { "", "W", "Wa:1:b.~", "wa:1:b.1~", "Wa:1:b.1~~", "Wa:1:b.1~!",
		"#1" };
	sneck_client *client = test_open(server->url);
	sneck_error error;
	for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
		assert_result(SNECK_EINVAL, renew(client, ids[i], 1000, &error), NULL);
		assert_result(SNECK_EINVAL, release(client, ids[i], &error), NULL);
	}
	assert_result(SNECK_EINVAL, release(client, NULL, &error), NULL);
	assert_result(SNECK_EINVAL, release(NULL, "Wa:1:b.1~", &error), NULL);
	assert_result(SNECK_EINVAL, sneck_release_id(client, "", 0, "Wa:1:b.1~", &error), NULL);
	assert_result(SNECK_EINVAL, renew(client, "Wa:1:b.1~", SNECK_LEASE_MIN_MS - 1, &error), NULL);
	assert_result(SNECK_EINVAL, renew(client, "Wa:1:b.1~", SNECK_LEASE_MAX_MS + 1, &error), NULL);
	assert_result(SNECK_ELOST, release(client, "Wa:1:b.1~", &error), NULL);
	freeReplyObject(test_redis(server, "SET sneck:{door} x"));
	assert_result(SNECK_ETYPE, renew(client, "Wa:1:b.1~", 1000, &error), NULL);
	assert_result(SNECK_ETYPE, release(client, "Wa:1:b.1~", &error), NULL);
	sneck_close(client);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(renewed_it_keeps_id_and_token),
		TEST(released_it_is_gone_and_tokens_go_on),
		TEST(whoever_waits_comes_next),
		TEST(a_hold_that_is_kept_is_left_alone),
		TEST(adopted_it_is_kept_again),
		TEST(its_record_lasts_as_long_as_it),
		TEST(records_are_told_apart),
		TEST(it_can_be_broken),
		TEST(a_break_uses_up_its_numbers),
		TEST(no_answer_is_unknown),
		TEST(an_adoption_without_an_answer_is_withdrawn),
		TEST(a_forgotten_script_is_sent_again),
		TEST(arguments_are_checked),
	};
	return TEST_RUN(tests);
}
