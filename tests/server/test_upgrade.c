/* SPDX-License-Identifier: MIT */
/* From READ to WRITE without letting go: alone at once, else ahead of the queue, and never two who
 * wait for each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "locks.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

static sneck_hold *read_as(sneck_client *client, uint64_t owner) {
	sneck_acquire_options options = test_waiting(0);
	options.owner = owner;
	return test_take_opts(client, "door", SNECK_READ, &options);
}

static int upgrade_now(sneck_hold *hold) {
	sneck_acquire_options options = test_waiting(0);
	return sneck_upgrade(hold, &options, NULL);
}

static void assert_reads(sneck_hold *hold) {
	assert_int_equal(sneck_hold_mode(hold), SNECK_READ);
	assert_int_equal(sneck_hold_state(hold), SNECK_HELD);
	assert_true(sneck_check(hold, 1000));
}

static void assert_on_server(long reads, long writes, long upgraders) {
	assert_int_equal(test_members(server, "door", "R"), reads);
	assert_int_equal(test_members(server, "door", "W"), writes);
	assert_int_equal(test_members(server, "door", "u"), upgraders);
}

static void a_sole_reader_becomes_the_writer(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	test_release(read_as(a, 1));
	sneck_hold *hold = read_as(a, 1);
	assert_result(0, upgrade_now(hold), NULL);
	test_release(hold);
	hold = read_as(a, 1); /* the scripts are known now: what follows is one command */
	uint64_t token = sneck_hold_token(hold);
	uint64_t commands = test_stats(a).commands;
	assert_result(0, upgrade_now(hold), NULL);
	assert_int_equal(test_stats(a).commands - commands, 1);
	assert_int_equal(sneck_hold_mode(hold), SNECK_WRITE);
	assert_true(sneck_hold_token(hold) > token);
	assert_true(sneck_check(hold, 1000));
	assert_on_server(0, 1, 0);
	assert_result(SNECK_EBUSY, test_probe(b, "door", SNECK_READ), NULL);
	test_release(hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
}

static void an_upgrader_goes_before_the_queue(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_client *c = test_open(server->url);
	sneck_hold *reader = read_as(a, 1);
	sneck_hold *other = read_as(b, 1);
	struct test_call writer, upgrade;
	test_call_start(&writer, c, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	test_call_start_upgrade(&upgrade, reader, NULL);
	assert_true(test_await_members(server, "door", "u", 1, 2000));
	assert_false(atomic_load(&upgrade.done));
	int64_t start_ms = test_now_ms();
	test_release(other);
	assert_result(0, test_call_join(&upgrade), &upgrade.error);
	assert_true(upgrade.end_ms - start_ms <= TEST_SLACK_MS);
	assert_false(atomic_load(&writer.done));
	assert_int_equal(sneck_hold_mode(reader), SNECK_WRITE);
	assert_on_server(0, 1, 0);
	uint64_t token = sneck_hold_token(reader);
	test_release(reader);
	assert_result(0, test_call_join(&writer), &writer.error);
	assert_true(sneck_hold_token(writer.hold) > token);
	test_release(writer.hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
	sneck_close(c);
}

/* `readers` read, the first upgrades and waits; each other one that tries is told at once. */
static void check_deadlock(int readers, bool one_process) {
	enum { MOST = 8 };
	sneck_client *clients[MOST];
	sneck_hold *holds[MOST];
	for (int i = 0; i < readers; i++) {
		clients[i] = one_process && i > 0 ? clients[0] : test_open(server->url);
		holds[i] = read_as(clients[i], (uint64_t)i + 1);
	}
	struct test_call first;
	test_call_start_upgrade(&first, holds[0], NULL);
	if (one_process)
		assert_true(WAIT_UNTIL(test_stats(clients[0]).waiters == 1, 2000));
	else
		assert_true(test_await_members(server, "door", "u", 1, 2000));
	for (int i = 1; i < readers; i++) {
		sneck_acquire_options patient = test_waiting(10000);
		sneck_error error = { 0 };
		int64_t start_ms = test_now_ms();
		assert_result(SNECK_EDEADLK, sneck_upgrade(holds[i], &patient, &error), &error);
		assert_true(test_now_ms() - start_ms <= TEST_SLACK_MS);
		assert_reads(holds[i]);
	}
	assert_false(atomic_load(&first.done));
	for (int i = 1; i < readers; i++)
		test_release(holds[i]);
	assert_result(0, test_call_join(&first), &first.error);
	assert_on_server(0, 1, 0);
	test_release(holds[0]);
	assert_true(test_is_idle(server, "door"));
	for (int i = 0; i < (one_process ? 1 : readers); i++)
		sneck_close(clients[i]);
}

static void the_second_upgrader_is_told_at_once(void **state) {
	(void)state;
	for (int readers = 2; readers <= 8; readers += 3)
		check_deadlock(readers, false);
	for (int readers = 2; readers <= 8; readers += 3)
		check_deadlock(readers, true);
}

static void a_failed_upgrade_leaves_the_read_hold(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_hold *hold = read_as(a, 1);
	sneck_hold *other = read_as(b, 1);
	uint64_t token = sneck_hold_token(hold);

	assert_result(SNECK_EBUSY, upgrade_now(hold), NULL);
	assert_reads(hold);
	assert_on_server(2, 0, 0);

	sneck_acquire_options brief = test_waiting(100);
	sneck_error error = { 0 };
	int64_t start_ms = test_now_ms();
	assert_result(SNECK_ETIMEDOUT, sneck_upgrade(hold, &brief, &error), &error);
	assert_true(test_now_ms() - start_ms >= 99);
	assert_true(test_now_ms() - start_ms <= 100 + TEST_SLACK_MS);
	assert_reads(hold);
	assert_true(test_await_members(server, "door", "ul", 0, 1000));
	assert_on_server(2, 0, 0);

	struct test_call upgrade;
	sneck_acquire_options tagged = test_waiting(10000);
	tagged.tag = 42;
	test_call_start_upgrade(&upgrade, hold, &tagged);
	assert_true(test_await_members(server, "door", "u", 1, 2000));
	assert_int_equal(sneck_cancel(a, 42), 1);
	assert_result(SNECK_ECANCELED, test_call_join(&upgrade), &upgrade.error);
	assert_reads(hold);
	assert_true(test_await_members(server, "door", "ul", 0, 1000));
	assert_on_server(2, 0, 0);
	assert_true(sneck_hold_token(hold) == token);

	/* The way is free for the other one now, and then for this one. */
	test_call_start_upgrade(&upgrade, other, NULL);
	assert_true(test_await_members(server, "door", "u", 1, 2000));
	test_release(hold);
	assert_result(0, test_call_join(&upgrade), &upgrade.error);
	test_release(other);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
}

static void taking_write_over_read_upgrades_and_back(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_hold *outer = test_take(a, "door", SNECK_READ, 0);
	sneck_hold *inner = test_take(a, "door", SNECK_WRITE, 0);
	assert_on_server(0, 1, 0);
	assert_int_equal(sneck_hold_mode(outer), SNECK_READ);
	assert_int_equal(sneck_hold_mode(inner), SNECK_WRITE);
	struct test_call reader;
	test_call_start(&reader, b, "door", SNECK_READ, NULL);
	assert_true(test_await_members(server, "door", "r", 1, 2000));
	test_release(inner); /* READ is still held: a downgrade */
	assert_result(0, test_call_join(&reader), &reader.error);
	assert_on_server(2, 0, 0);
	assert_reads(outer);
	/* With another reader there it must wait, and be told when it does not want to. */
	assert_result(SNECK_EBUSY, test_probe(a, "door", SNECK_WRITE), NULL);
	assert_reads(outer);
	test_release(reader.hold);
	test_release(outer);
	assert_true(test_is_idle(server, "door"));

	/* The other way round: WRITE outside, READ inside, the outer one leaves first. */
	outer = test_take(a, "door", SNECK_WRITE, 0);
	inner = test_take(a, "door", SNECK_READ, 0);
	assert_on_server(0, 1, 0);
	test_release(outer);
	assert_on_server(1, 0, 0);
	assert_reads(inner);
	test_release(test_take(b, "door", SNECK_READ, 0));
	test_release(inner);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
}

static void an_upgrader_waits_for_readers_of_its_own_process(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_hold *hold = read_as(a, 1);
	sneck_hold *other = read_as(a, 2);
	assert_result(SNECK_EBUSY, upgrade_now(hold), NULL);
	assert_reads(hold);
	assert_reads(other);
	struct test_call upgrade;
	test_call_start_upgrade(&upgrade, hold, NULL);
	assert_true(WAIT_UNTIL(test_stats(a).waiters == 1, 2000));
	/* The one inside goes on, and may come in again; nobody new may. */
	assert_true(sneck_check(other, 1000));
	sneck_acquire_options two = test_waiting(0), three = test_waiting(0);
	two.owner = 2;
	three.owner = 3;
	sneck_hold *again = test_take_opts(a, "door", SNECK_READ, &two);
	sneck_hold *none = NULL;
	assert_result(SNECK_EBUSY, sneck_acquire(a, "door", SNECK_READ, &three, &none, NULL), NULL);
	test_release(again);
	assert_false(atomic_load(&upgrade.done));
	test_release(other);
	assert_result(0, test_call_join(&upgrade), &upgrade.error);
	assert_on_server(0, 1, 0);
	assert_result(SNECK_EBUSY, test_probe(b, "door", SNECK_READ), NULL);
	test_release(hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(a);
	sneck_close(b);
}

/* No answer is no refusal: nobody knows, and the read hold is what is left when that is settled. */
static void no_answer_is_unknown(void **state) {
	(void)state;
	const int64_t waits_ms[] = { 0, 100 };
	sneck_client *client = test_open_command_ms(server->url, 300);
	test_await_link(client, "door");
	for (int i = 0; i < 2; i++) {
		sneck_hold *hold = test_take(client, "door", SNECK_READ, 0);
		sneck_acquire_options options = test_waiting(waits_ms[i]);
		sneck_error error = { 0 };
		test_server_stopcont(server, true);
		int64_t begin_ms = test_now_ms();
		int r = sneck_upgrade(hold, &options, &error);
		int64_t took_ms = test_now_ms() - begin_ms;
		test_server_stopcont(server, false);
		assert_result(SNECK_EUNKNOWN, r, &error);
		assert_in_range(took_ms, 290, 300 + TEST_SLACK_MS);
		assert_int_equal(sneck_hold_mode(hold), SNECK_READ);
		/* Withdrawn, also if the server has granted it meanwhile. */
		assert_true(test_await_members(server, "door", "R", 1, 5000));
		assert_true(test_await_members(server, "door", "W", 0, 5000));
		assert_true(WAIT_UNTIL(sneck_upgrade(hold, NULL, &error) == 0, 5000));
		test_release(hold);
	}
	sneck_close(client);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(a_sole_reader_becomes_the_writer),
		TEST(an_upgrader_goes_before_the_queue),
		TEST(the_second_upgrader_is_told_at_once),
		TEST(a_failed_upgrade_leaves_the_read_hold),
		TEST(taking_write_over_read_upgrades_and_back),
		TEST(an_upgrader_waits_for_readers_of_its_own_process),
		TEST(no_answer_is_unknown),
	};
	return TEST_RUN(tests);
}
