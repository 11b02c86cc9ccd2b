/* SPDX-License-Identifier: MIT */
/* Wall clocks that are set while locks are held: the server's, forward and back, and the client's.
 * The server runs with a clock that the test steps (false_clock.c). */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "actor.h"
#include "locks.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

/* A file that holds how far a clock is off, in microseconds. */
struct false_clock {
	char path[64];
	int64_t *step_us;
};

static struct false_clock server_clock, client_clock;

static void step_to(struct false_clock *clock, int64_t ms) {
	__atomic_store_n(clock->step_us, ms * 1000, __ATOMIC_SEQ_CST);
}

static void make_clock(struct false_clock *clock) {
	snprintf(clock->path, sizeof(clock->path), "/tmp/sneck-test-clock.XXXXXX");
	int fd = mkostemp(clock->path, O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, sizeof(*clock->step_us)), 0);
	void *page = mmap(NULL, sizeof(*clock->step_us), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(page != MAP_FAILED);
	close(fd);
	clock->step_us = page;
}

static void drop_clock(struct false_clock *clock) {
	munmap(clock->step_us, sizeof(*clock->step_us));
	unlink(clock->path);
}

/* What is started from here on goes by this clock; NULL: by the true one. */
static void set_clock_of_children(const struct false_clock *clock) {
	if (clock) {
		setenv("LD_PRELOAD", FALSE_CLOCK, 1);
		setenv("TEST_CLOCK_FILE", clock->path, 1);
	} else {
		unsetenv("LD_PRELOAD");
		unsetenv("TEST_CLOCK_FILE");
	}
}

static int up(void **state) {
	make_clock(&server_clock);
	make_clock(&client_clock);
	set_clock_of_children(&server_clock);
	int r = test_server_up(state);
	set_clock_of_children(NULL);
	return r;
}

static int down(void **state) {
	int r = test_server_down(state);
	drop_clock(&server_clock);
	drop_clock(&client_clock);
	return r;
}

static int clean(void **state) {
	step_to(&server_clock, 0);
	return test_server_clean(state);
}

static int64_t server_ahead_ms(void) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return test_server_ms(server) - ((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
}

static void the_clock_can_be_set(void **state) {
	(void)state;
	const int64_t steps[] = { 0, 3600000, -3600000, 0 };
	for (int i = 0; i < 4; i++) {
		step_to(&server_clock, steps[i]);
		assert_in_range(server_ahead_ms() - steps[i] + 1000, 0, 2000);
	}
}

/* ---- Forward ----------------------------------------------------------------------------------*/

/* A third of the lease is gone at once: seen with the next answer, renewed, and all is well. */
static void a_step_within_the_lease_is_noticed(void **state) {
	(void)state;
	enum { LEASE = 30000, STEP = 10000 };
	sneck_client *client = test_open(server->url);
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	assert_true(sneck_check(hold, LEASE - 5000));
	step_to(&server_clock, STEP);
	test_release(test_take(client, "window", SNECK_WRITE, 0)); /* any answer tells */
	sneck_event event;
	assert_true(test_next_event(client, &event, 2000));
	assert_int_equal(event.type, SNECK_EVENT_STATE);
	assert_ptr_equal(event.hold, hold);
	/* The renewal follows at once, and its answer may be there already. */
	assert_true(event.state == SNECK_SUSPECT || event.state == SNECK_HELD);
	assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_HELD, 2000));
	assert_true(test_stats(client).renewals >= 1);
	assert_true(WAIT_UNTIL(sneck_check(hold, LEASE - 5000), 1000));
	int64_t left_ms = (int64_t)test_score(server, "door", "W") - test_server_ms(server);
	assert_true(sneck_hold_left_ms(hold) <= left_ms + 50);
	assert_int_equal(test_stats(client).losses, 0);
	test_release(hold);
	sneck_close(client);
}

/* The server's clock has passed every deadline: nothing can prevent that the lock is free; the holder
 * learns it with the next answer, and its token is the smaller one. */
static void a_step_beyond_the_lease_is_a_loss(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	uint64_t token = sneck_hold_token(hold);
	step_to(&server_clock, 3600000);
	sneck_hold *next = test_take(b, "door", SNECK_WRITE, 0);
	assert_true(sneck_hold_token(next) > token);
	test_release(test_take(a, "window", SNECK_WRITE, 0));
	assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_LOST, 2000));
	assert_result(SNECK_ELOST, sneck_release(hold), NULL);
	assert_true(sneck_check(next, 1000));
	assert_int_equal(test_members(server, "door", "W"), 1);
	test_release(next);
	sneck_close(a);
	sneck_close(b);
}

/* ---- Back -------------------------------------------------------------------------------------*/

static void a_step_back_is_safe(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_acquire_options options = test_waiting(0);
	options.lease_ms = 1000;
	sneck_hold *hold = test_take_opts(a, "door", SNECK_WRITE, &options);
	step_to(&server_clock, -3600000);
	/* Held and renewed as before, for the time that it asks for, and handed over when it is released. */
	uint64_t renewals = test_stats(a).renewals;
	assert_true(WAIT_UNTIL(test_stats(a).renewals >= renewals + 4, 4000));
	assert_true(sneck_hold_state(hold) <= SNECK_SUSPECT);
	assert_true(sneck_hold_left_ms(hold) <= 1000);
	assert_result(SNECK_EBUSY, test_probe(b, "door", SNECK_READ), NULL);
	struct test_call call;
	test_call_start(&call, b, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	uint64_t token = sneck_hold_token(hold);
	test_release(hold);
	assert_result(0, test_call_join(&call), &call.error);
	assert_true(sneck_hold_token(call.hold) > token);
	test_release(call.hold);
	assert_int_equal(test_stats(a).losses, 0);
	sneck_close(a);
	sneck_close(b);
}

static void tokens_grow_over_every_step(void **state) {
	(void)state;
	const int64_t steps[] = { 0, 5000, -5000, 3600000, 3599000, -3600000, 0, 60000, -60000 };
	sneck_client *clients[2] = { test_open(server->url), test_open(server->url) };
	/* Holding on to it keeps the key, which is what tokens depend on when the clock goes back. */
	sneck_acquire_options options = test_waiting(5000);
	options.lease_ms = 604800000;
	uint64_t last = 0;
	for (int round = 0; round < 27; round++) {
		sneck_hold *hold = test_take_opts(
		        clients[round % 2], "door", round % 3 ? SNECK_WRITE : SNECK_READ, &options);
		if (sneck_hold_token(hold) <= last)
			fail_msg("round %d: %llu after %llu", round,
			        (unsigned long long)sneck_hold_token(hold), (unsigned long long)last);
		last = sneck_hold_token(hold);
		step_to(&server_clock, steps[round % 9]);
		(void)sneck_release(hold);
	}
	sneck_close(clients[0]);
	sneck_close(clients[1]);
}

/* ---- The client's clock -----------------------------------------------------------------------*/

static void start_with_false_clock(struct test_proc *proc) {
	/* The address sanitizer wants to be loaded before everything else. */
	const char *before = getenv("ASAN_OPTIONS");
	char options[256];
	snprintf(options, sizeof(options), "%s%sverify_asan_link_order=0", before ? before : "",
	        before ? ":" : "");
	setenv("ASAN_OPTIONS", options, 1);
	set_clock_of_children(&client_clock);
	test_actor_start(proc, server->url);
	set_clock_of_children(NULL);
}

static void the_clients_wall_clock_does_not_matter(void **state) {
	(void)state;
	enum { LEASE = 1500 };
	const int64_t steps[] = { 3600000, -3600000, 0 };
	struct test_proc proc;
	sneck_client *client = test_open(server->url);
	sneck_hold *taken = test_take(client, "taken", SNECK_WRITE, 0);
	start_with_false_clock(&proc);
	test_actor_expect(&proc, "ok", "take door w 0 %d", LEASE);
	for (int i = 0; i < 3; i++) {
		char line[128], held[16];
		long long left_ms = 0;
		step_to(&client_clock, steps[i]);
		/* Renewed at its pace, believed for as long as it lasts, waiting as long as was said. */
		double deadline = test_score(server, "door", "W");
		assert_true(WAIT_UNTIL(test_score(server, "door", "W") > deadline, LEASE));
		assert_true(test_score(server, "door", "W") <= (double)test_server_ms(server) + LEASE);
		assert_true(test_proc_ask(&proc, line, sizeof(line), 5000, "look"));
		assert_int_equal(sscanf(line, "%15s %lld", held, &left_ms), 2);
		if (strcmp(held, "held") != 0 || left_ms < LEASE / 3 || left_ms > LEASE)
			fail_msg("after a step to %lld ms: %s", (long long)steps[i], line);
		int64_t start_ms = test_now_ms();
		test_actor_expect(&proc, "SNECK_ETIMEDOUT", "take taken w 200 1500");
		int64_t took_ms = test_now_ms() - start_ms;
		assert_true(took_ms >= 199 && took_ms <= 200 + TEST_SLACK_MS);
	}
	test_actor_expect(&proc, "ok", "drop");
	assert_int_equal(test_proc_finish(&proc, 5000), 0);
	test_release(taken);
	sneck_close(client);
}

#define CLOCK_TEST(function) cmocka_unit_test_setup(function, clean)

int main(int argc, char **argv) {
	if (argc > 1)
		return test_actor_main(argc, argv);
	const struct CMUnitTest tests[] = {
		CLOCK_TEST(the_clock_can_be_set),
		CLOCK_TEST(a_step_within_the_lease_is_noticed),
		CLOCK_TEST(a_step_beyond_the_lease_is_a_loss),
		CLOCK_TEST(a_step_back_is_safe),
		CLOCK_TEST(tokens_grow_over_every_step),
		CLOCK_TEST(the_clients_wall_clock_does_not_matter),
	};
	return cmocka_run_group_tests(tests, up, down);
}
