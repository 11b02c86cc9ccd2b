/* SPDX-License-Identifier: MIT */
/* Re-entry on a layout whose server counts holds, with one message lost or late: counts are told as they are,
 * so the server comes to have exactly as many as the program, never one more for a message that came
 * twice, and one release of each frees the lock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "layouts.h"
#include "once.h"
#include "wait.h"

enum { LEASE_MS = 1500, SETTLE_MS = 6000 }; /* what was lost is told again with the next renewal */

static int take_again(struct once_scene *scene, sneck_mode mode, sneck_hold **ret_hold) {
	sneck_acquire_options options = test_waiting(3000);

	options.owner = 1;
	options.lease_ms = LEASE_MS;
	return sneck_acquire(scene->client, scene->name, mode, &options, ret_hold, &scene->error);
}

static void holds_write(struct once_scene *scene) {
	if (take_again(scene, SNECK_WRITE, &scene->hold) != 0)
		once_fail(scene, "cannot take it");
}

static void holds_read(struct once_scene *scene) {
	if (take_again(scene, SNECK_READ, &scene->hold) != 0)
		once_fail(scene, "cannot take it");
}

/* The second hold is kept where another client's would be: it is the same client's. */
static int write_again(struct once_scene *scene) {
	return take_again(scene, SNECK_WRITE, &scene->other_hold);
}

static int read_again(struct once_scene *scene) {
	return take_again(scene, SNECK_READ, &scene->other_hold);
}

/* Twice more, and one of them given back at once. */
static int come_and_go(struct once_scene *scene) {
	sneck_hold *third = NULL;
	int r = read_again(scene);

	if (r == 0)
		r = take_again(scene, SNECK_READ, &third);
	once_release(scene, &third, 0);
	return r;
}

static bool server_counts(const struct once_scene *scene, long reads, long writes) {
	return test_layout_holds(&test_the_server, scene->name, SNECK_READ) == reads &&
	       test_layout_holds(&test_the_server, scene->name, SNECK_WRITE) == writes;
}

static void expect_counts(struct once_scene *scene, long reads, long writes) {
	if (scene->result != 0)
		once_fail(scene, "what is held can be held again");
	if (!WAIT_UNTIL(server_counts(scene, reads, writes), SETTLE_MS))
		once_fail(scene, "expected %ld reads, %ld writes", reads, writes);
	if (!sneck_check(scene->hold, 0))
		once_fail(scene, "the hold is %s", sneck_state_name(sneck_hold_state(scene->hold)));
}

static void two_writes(struct once_scene *scene) {
	expect_counts(scene, 0, 2);
}

static void two_reads(struct once_scene *scene) {
	expect_counts(scene, 2, 0);
}

static void one_read_under_one_write(struct once_scene *scene) {
	expect_counts(scene, 1, 1);
}

static void both_let_go(struct once_scene *scene) {
	once_release(scene, &scene->other_hold, SNECK_EUNKNOWN);
	once_release(scene, &scene->hold, SNECK_EUNKNOWN);
}

static void re_entry_is_counted_once(void **state) {
	(void)state;
	const struct once_script scripts[] = {
		{ "write-again", holds_write, write_again, two_writes, both_let_go, false },
		{ "read-again", holds_read, read_again, two_reads, both_let_go, false },
		{ "read-under-write", holds_write, read_again, one_read_under_one_write, both_let_go, false },
		{ "come-and-go", holds_read, come_and_go, two_reads, both_let_go, false },
	};
	assert_true(once_run(scripts, sizeof(scripts) / sizeof(*scripts)));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(re_entry_is_counted_once),
	};
	setenv("SNECK_TEST_DIALECT", "counted", 0);
	return cmocka_run_group_tests(tests, test_server_up, test_server_down);
}
