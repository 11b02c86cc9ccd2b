/* SPDX-License-Identifier: MIT */
/* Acquire with one message lost or late: afterwards there is exactly one hold or none, as the result
 * said, and one release frees it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "once.h"
#include "wait.h"

/* Time to spare, also on a busy machine. */
enum { SPARE_MS = 10000 };

/* ---- A free lock ------------------------------------------------------------------------------*/

static int take_write(struct once_scene *scene) {
	return once_acquire(scene, SNECK_WRITE, SPARE_MS);
}

static int take_read(struct once_scene *scene) {
	return once_acquire(scene, SNECK_READ, SPARE_MS);
}

static int try_write(struct once_scene *scene) {
	return once_acquire(scene, SNECK_WRITE, 0);
}

static void must_hold_write(struct once_scene *scene) {
	if (scene->result != 0)
		once_fail(scene, "with time to spare it must succeed");
	else if (!sneck_check(scene->hold, 0))
		once_fail(scene, "the hold is %s", sneck_state_name(sneck_hold_state(scene->hold)));
	once_expect(scene, 0, 1, 0);
}

/* The act makes the connection, too. A greeting that fails is a definite answer: nothing was asked. */
static void must_hold_write_or_know_why_not(struct once_scene *scene) {
	if (scene->result != SNECK_ECONN) {
		must_hold_write(scene);
		return;
	}
	once_expect(scene, 0, 0, 0);
}

static void must_hold_read(struct once_scene *scene) {
	if (scene->result != 0)
		once_fail(scene, "with time to spare it must succeed");
	once_expect(scene, 1, 0, 0);
}

static void may_hold_write(struct once_scene *scene) {
	int r = scene->result;
	if (r != 0 && r != SNECK_EUNKNOWN && r != SNECK_ECONN)
		once_fail(scene, "nobody else is there, and nothing is wrong but the line");
	once_expect(scene, 0, r == 0, 0);
}

static void let_go(struct once_scene *scene) {
	once_release(scene, &scene->hold, SNECK_EUNKNOWN);
}

/* ---- A lock that another holds ----------------------------------------------------------------*/

static void other_writes(struct once_scene *scene) {
	if (sneck_acquire(scene->other, scene->name, SNECK_WRITE, NULL, &scene->other_hold, NULL) != 0)
		once_fail(scene, "the other cannot take it");
}

static void other_reads(struct once_scene *scene) {
	if (sneck_acquire(scene->other, scene->name, SNECK_READ, NULL, &scene->other_hold, NULL) != 0)
		once_fail(scene, "the other cannot take it");
}

/* The other releases when it sees a waiter, or, should that never come, while it still can. */
static int wait_for_release(struct once_scene *scene) {
	struct test_call call;
	sneck_acquire_options options = test_waiting(SPARE_MS);
	test_call_start(&call, scene->client, scene->name, SNECK_WRITE, &options);
	(void)test_await_members(&test_the_server, scene->name, "w", 1, 2000);
	once_release(scene, &scene->other_hold, 0);
	pthread_join(call.thread, NULL);
	scene->hold = call.hold;
	scene->error = call.error;
	return call.result;
}

static int wait_in_vain(struct once_scene *scene) {
	return once_acquire(scene, SNECK_WRITE, 400);
}

static int wait_to_read_in_vain(struct once_scene *scene) {
	return once_acquire(scene, SNECK_READ, 400);
}

static int try_in_vain(struct once_scene *scene) {
	return once_acquire(scene, SNECK_WRITE, 0);
}

static void check_only_the_other(struct once_scene *scene, long reads, long writes) {
	int r = scene->result;
	if (r != SNECK_ETIMEDOUT && r != SNECK_EBUSY && r != SNECK_EUNKNOWN && r != SNECK_ECONN)
		once_fail(scene, "it cannot have been had");
	if (!sneck_check(scene->other_hold, 0))
		once_fail(scene, "the other's hold is not valid");
	once_expect(scene, reads, writes, 0);
}

static void only_the_other_holds(struct once_scene *scene) {
	check_only_the_other(scene, 0, 1);
}

static void only_the_other_reads(struct once_scene *scene) {
	check_only_the_other(scene, 1, 0);
}

static void the_other_lets_go(struct once_scene *scene) {
	once_release(scene, &scene->other_hold, 0);
}

static void acquire(void **state) {
	(void)state;
	const struct once_script scripts[] = {
		{ "take-write", NULL, take_write, must_hold_write, let_go, false },
		{ "take-write-cold", NULL, take_write, must_hold_write_or_know_why_not, let_go, true },
		{ "take-read", NULL, take_read, must_hold_read, let_go, false },
		{ "try-write", NULL, try_write, may_hold_write, let_go, false },
		{ "try-write-cold", NULL, try_write, may_hold_write, let_go, true },
	};
	assert_true(once_run(scripts, sizeof(scripts) / sizeof(*scripts)));
}

static void acquire_what_another_holds(void **state) {
	(void)state;
	const struct once_script scripts[] = {
		{ "wait", other_writes, wait_for_release, must_hold_write, let_go, false },
		{ "wait-cold", other_writes, wait_for_release, must_hold_write_or_know_why_not, let_go,
		        true },
		{ "wait-in-vain", other_writes, wait_in_vain, only_the_other_holds, the_other_lets_go,
		        false },
		{ "wait-to-read", other_writes, wait_to_read_in_vain, only_the_other_holds, the_other_lets_go,
		        false },
		{ "wait-for-reader", other_reads, wait_in_vain, only_the_other_reads, the_other_lets_go,
		        false },
		{ "try-in-vain", other_writes, try_in_vain, only_the_other_holds, the_other_lets_go, false },
	};
	assert_true(once_run(scripts, sizeof(scripts) / sizeof(*scripts)));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(acquire),
		TEST(acquire_what_another_holds),
	};
	return cmocka_run_group_tests(tests, test_server_up, test_server_down);
}
