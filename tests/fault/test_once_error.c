/* SPDX-License-Identifier: MIT */
/* Every operation with each of its requests answered by each error that a server may give, or by the reply
 * to another request: what the call says is true on the server, and nothing is left behind.
 *
 * Holds that are to be released have a short lease: what a server refuses to release is free when that has
 * ended. Those that are to be taken have a long one, so that one that nobody knows of is seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "once.h"
#include "wait.h"

enum { LEASE_MS = 800 };

static int take(struct once_scene *scene, sneck_mode mode, int64_t wait_ms, int64_t lease_ms) {
	sneck_acquire_options options = test_waiting(wait_ms);
	options.owner = 1;
	options.lease_ms = lease_ms;
	return sneck_acquire(scene->client, scene->name, mode, &options, &scene->hold, &scene->error);
}

static int take_write(struct once_scene *scene) {
	return take(scene, SNECK_WRITE, 1000, 0);
}

static int take_read(struct once_scene *scene) {
	return take(scene, SNECK_READ, 1000, 0);
}

static int try_write(struct once_scene *scene) {
	return take(scene, SNECK_WRITE, 0, 0);
}

static void holds_write(struct once_scene *scene) {
	if (take(scene, SNECK_WRITE, 5000, LEASE_MS) != 0)
		once_fail(scene, "cannot take it");
}

static void holds_read(struct once_scene *scene) {
	if (take(scene, SNECK_READ, 5000, LEASE_MS) != 0)
		once_fail(scene, "cannot take it");
}

/* What is held is there once, and what is not held is not there. */
static void as_it_says(struct once_scene *scene) {
	bool valid = scene->hold && sneck_check(scene->hold, 0);
	bool reads = valid && sneck_hold_mode(scene->hold) == SNECK_READ;
	if (scene->result == 0 && scene->hold && sneck_hold_state(scene->hold) == SNECK_HELD && !valid)
		once_fail(scene, "held and not valid");
	if (valid)
		once_expect(scene, reads, !reads, 0);
}

static void let_go(struct once_scene *scene) {
	if (scene->hold && sneck_hold_state(scene->hold) != SNECK_HELD)
		once_release(scene, &scene->hold, SNECK_ELOST);
	else
		once_release(scene, &scene->hold, SNECK_EUNKNOWN);
}

static int release(struct once_scene *scene) {
	sneck_hold *hold = scene->hold;
	scene->hold = NULL;
	return sneck_release(hold);
}

static int renew(struct once_scene *scene) {
	return sneck_renew(scene->hold, LEASE_MS, &scene->error);
}

static int upgrade(struct once_scene *scene) {
	sneck_acquire_options options = test_waiting(500);
	return sneck_upgrade(scene->hold, &options, &scene->error);
}

static int downgrade(struct once_scene *scene) {
	return sneck_downgrade(scene->hold, &scene->error);
}

static void other_writes(struct once_scene *scene) {
	if (sneck_acquire(scene->other, scene->name, SNECK_WRITE, NULL, &scene->other_hold, NULL) != 0)
		once_fail(scene, "the other cannot take it");
}

static int wait_in_vain(struct once_scene *scene) {
	return take(scene, SNECK_WRITE, 300, 0);
}

static void only_the_other_holds(struct once_scene *scene) {
	if (scene->result == 0)
		once_fail(scene, "it cannot have been had");
	once_expect(scene, 0, 1, 0);
}

static void the_other_lets_go(struct once_scene *scene) {
	once_release(scene, &scene->other_hold, 0);
}

static void errors(void **state) {
	(void)state;
	const struct once_script scripts[] = {
		{ "take-write", NULL, take_write, as_it_says, let_go, false },
		{ "take-read", NULL, take_read, as_it_says, let_go, false },
		{ "try-write", NULL, try_write, as_it_says, let_go, false },
		{ "wait-in-vain", other_writes, wait_in_vain, only_the_other_holds, the_other_lets_go,
		        false },
		{ "release", holds_write, release, as_it_says, let_go, false },
		{ "release-read", holds_read, release, as_it_says, let_go, false },
		{ "renew", holds_write, renew, as_it_says, let_go, false },
		{ "upgrade", holds_read, upgrade, as_it_says, let_go, false },
		{ "downgrade", holds_write, downgrade, as_it_says, let_go, false },
	};
	assert_true(once_run_errors(scripts, sizeof(scripts) / sizeof(*scripts)));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(errors),
	};
	return cmocka_run_group_tests(tests, test_server_up, test_server_down);
}
