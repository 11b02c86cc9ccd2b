/* SPDX-License-Identifier: MIT */
/* Upgrade, downgrade, and handing on, with one message lost or late: the hold is READ or WRITE as the
 * handle says, never both, never twice, never nobody's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "once.h"
#include "wait.h"

static void holds_read(struct once_scene *scene) {
	if (once_acquire(scene, SNECK_READ, 5000) != 0)
		once_fail(scene, "cannot take it");
}

static void holds_write(struct once_scene *scene) {
	if (once_acquire(scene, SNECK_WRITE, 5000) != 0)
		once_fail(scene, "cannot take it");
}

static void both_read(struct once_scene *scene) {
	holds_read(scene);
	if (sneck_acquire(scene->other, scene->name, SNECK_READ, NULL, &scene->other_hold, NULL) != 0)
		once_fail(scene, "the other cannot take it");
}

static int upgrade_for(struct once_scene *scene, int64_t wait_ms) {
	sneck_acquire_options options = test_waiting(wait_ms);
	return sneck_upgrade(scene->hold, &options, &scene->error);
}

static int upgrade(struct once_scene *scene) {
	return upgrade_for(scene, 3000);
}

static int try_upgrade(struct once_scene *scene) {
	return upgrade_for(scene, 0);
}

static int upgrade_in_vain(struct once_scene *scene) {
	return upgrade_for(scene, 400);
}

/* The other reader leaves when it sees the upgrader wait. */
static int upgrade_after_the_other(struct once_scene *scene) {
	struct test_call call;
	sneck_acquire_options options = test_waiting(6000);
	test_call_start_upgrade(&call, scene->hold, &options);
	(void)test_await_members(&test_the_server, scene->name, "u", 1, 2000);
	once_release(scene, &scene->other_hold, 0);
	(void)WAIT_UNTIL(atomic_load(&call.done), 10000);
	pthread_join(call.thread, NULL);
	scene->error = call.error;
	return call.result;
}

static int downgrade(struct once_scene *scene) {
	return sneck_downgrade(scene->hold, &scene->error);
}

/* One hold of ours, in the mode that the handle shows, and the other's beside it. */
static void as_the_handle_says(struct once_scene *scene) {
	if (sneck_hold_state(scene->hold) == SNECK_LOST)
		once_fail(scene, "nothing was lost");
	bool writes = sneck_hold_mode(scene->hold) == SNECK_WRITE;
	once_expect(scene, !writes + (scene->other_hold != NULL), writes, 0);
}

static void must_write(struct once_scene *scene) {
	if (scene->result != 0)
		once_fail(scene, "with time to spare it must succeed");
	if (sneck_hold_mode(scene->hold) != SNECK_WRITE)
		once_fail(scene, "the handle does not say WRITE");
	as_the_handle_says(scene);
}

static void may_write(struct once_scene *scene) {
	int r = scene->result;
	if (r != 0 && r != SNECK_EUNKNOWN && r != SNECK_ECONN && r != SNECK_ETIMEDOUT)
		once_fail(scene, "nobody else is there");
	if ((r == 0) != (sneck_hold_mode(scene->hold) == SNECK_WRITE))
		once_fail(scene, "the handle shows another mode than the result");
	as_the_handle_says(scene);
}

static void must_read(struct once_scene *scene) {
	int r = scene->result;
	if (r != SNECK_ETIMEDOUT && r != SNECK_EUNKNOWN && r != SNECK_ECONN && r != SNECK_EBUSY)
		once_fail(scene, "it cannot have been had");
	if (sneck_hold_mode(scene->hold) != SNECK_READ)
		once_fail(scene, "a failed upgrade leaves READ");
	as_the_handle_says(scene);
}

static void downgraded(struct once_scene *scene) {
	int r = scene->result;
	if (r != 0 && r != SNECK_EUNKNOWN && r != SNECK_ECONN)
		once_fail(scene, "a downgrade of what is held");
	if (r == 0 && sneck_hold_mode(scene->hold) != SNECK_READ)
		once_fail(scene, "the handle does not say READ");
	as_the_handle_says(scene);
}

static void all_let_go(struct once_scene *scene) {
	once_release(scene, &scene->hold, SNECK_EUNKNOWN);
	once_release(scene, &scene->other_hold, 0);
}

static void upgrades(void **state) {
	(void)state;
	const struct once_script scripts[] = {
		{ "upgrade", holds_read, upgrade, must_write, all_let_go, false },
		{ "try-upgrade", holds_read, try_upgrade, may_write, all_let_go, false },
		{ "upgrade-after", both_read, upgrade_after_the_other, must_write, all_let_go, false },
		{ "upgrade-in-vain", both_read, upgrade_in_vain, must_read, all_let_go, false },
		{ "try-in-vain", both_read, try_upgrade, must_read, all_let_go, false },
	};
	assert_true(once_run(scripts, sizeof(scripts) / sizeof(*scripts)));
}

/* ---- Detach and adopt -------------------------------------------------------------------------*/

static int detach_and_adopt(struct once_scene *scene) {
	char id[SNECK_ID_MAX];
	int r = sneck_detach(scene->hold, 20000, id, &scene->error);
	if (r != 0)
		return r;
	scene->hold = NULL;
	sneck_error error = { 0 };
	int adopted = sneck_adopt(
	        scene->other, scene->name, strlen(scene->name), id, NULL, &scene->other_hold, &error);
	if (adopted != 0)
		once_fail(scene, "cannot be adopted: %s", error.text);
	return r;
}

static void gives_away(struct once_scene *scene) {
	if (sneck_acquire(scene->other, scene->name, SNECK_WRITE, NULL, &scene->other_hold, NULL) != 0)
		once_fail(scene, "the other cannot take it");
}

static int adopt(struct once_scene *scene) {
	char id[SNECK_ID_MAX];
	sneck_error error = { 0 };
	if (sneck_detach(scene->other_hold, 1500, id, &error) != 0) {
		once_fail(scene, "cannot be detached: %s", error.text);
		return 0;
	}
	scene->other_hold = NULL;
	return sneck_adopt(
	        scene->client, scene->name, strlen(scene->name), id, NULL, &scene->hold, &scene->error);
}

static void one_of_them_writes(struct once_scene *scene) {
	int r = scene->result;
	if (r != 0 && r != SNECK_EUNKNOWN && r != SNECK_ECONN)
		once_fail(scene, "nothing is wrong but the line");
	sneck_hold *hold = scene->hold ? scene->hold : scene->other_hold;
	if (hold) {
		if (!sneck_check(hold, 0))
			once_fail(scene, "the hold is not valid");
		once_expect(scene, 0, 1, 0);
	}
}

static void downgrades(void **state) {
	(void)state;
	const struct once_script scripts[] = {
		{ "downgrade", holds_write, downgrade, downgraded, all_let_go, false },
	};
	assert_true(once_run(scripts, 1));
}

static void handing_on(void **state) {
	(void)state;
	const struct once_script scripts[] = {
		{ "detach", holds_write, detach_and_adopt, one_of_them_writes, all_let_go, false },
	};
	assert_true(once_run(scripts, 1));
	const struct once_script adoption[] = {
		{ "adopt", gives_away, adopt, one_of_them_writes, all_let_go, false },
	};
	assert_true(once_run(adoption, 1));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(upgrades),
		TEST(downgrades),
		TEST(handing_on),
	};
	return cmocka_run_group_tests(tests, test_server_up, test_server_down);
}
