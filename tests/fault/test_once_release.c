/* SPDX-License-Identifier: MIT */
/* Release and renew with one message lost or late: a release frees its own hold and never a later
 * one, a renewal lengthens what is there and never brings back what is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "once.h"
#include "wait.h"

static void holds_write(struct once_scene *scene) {
	if (once_acquire(scene, SNECK_WRITE, 5000) != 0)
		once_fail(scene, "cannot take it");
}

static void holds_read(struct once_scene *scene) {
	if (once_acquire(scene, SNECK_READ, 5000) != 0)
		once_fail(scene, "cannot take it");
}

static int release(struct once_scene *scene) {
	sneck_hold *hold = scene->hold;
	scene->hold = NULL;
	return sneck_release(hold);
}

static void check_release(struct once_scene *scene) {
	/* It was ours to the end: nobody may say that it was lost. */
	if (scene->result != 0 && scene->result != SNECK_EUNKNOWN)
		once_fail(scene, "the release must succeed, or be unknown");
}

static void nobody_holds(struct once_scene *scene) {
	check_release(scene);
	once_expect(scene, 0, 0, 0);
}

static void nothing(struct once_scene *scene) {
	(void)scene;
}

/* ---- Somebody takes it after the release: a late copy must not free his hold -------------------*/

static int release_and_other_takes(struct once_scene *scene) {
	int r = release(scene);
	sneck_acquire_options options = test_waiting(4000);
	if (sneck_acquire(scene->other, scene->name, SNECK_WRITE, &options, &scene->other_hold, NULL) != 0)
		once_fail(scene, "the next one cannot take it");
	return r;
}

static int release_and_take_again(struct once_scene *scene) {
	int r = release(scene);
	sneck_error error = { 0 };
	sneck_acquire_options options = test_waiting(4000);
	options.owner = 2;
	int again = sneck_acquire(scene->client, scene->name, SNECK_WRITE, &options, &scene->hold, &error);
	if (again != 0)
		once_fail(scene, "cannot take it again: %s", error.text);
	return r;
}

static void the_next_one_holds(struct once_scene *scene) {
	check_release(scene);
	sneck_hold *hold = scene->other_hold ? scene->other_hold : scene->hold;
	if (hold && !sneck_check(hold, 0))
		once_fail(scene, "the next hold is %s, valid for %lld ms",
		        sneck_state_name(sneck_hold_state(hold)), (long long)sneck_hold_left_ms(hold));
	once_expect(scene, 0, 1, 0);
}

static void the_next_one_lets_go(struct once_scene *scene) {
	once_release(scene, &scene->other_hold, 0);
	once_release(scene, &scene->hold, SNECK_EUNKNOWN);
}

/* ---- Somebody waits for the release -----------------------------------------------------------*/

static int release_to_a_waiter(struct once_scene *scene) {
	struct test_call call;
	sneck_acquire_options options = test_waiting(6000);
	test_call_start(&call, scene->other, scene->name, SNECK_WRITE, &options);
	if (!test_await_members(&test_the_server, scene->name, "w", 1, 3000))
		once_fail(scene, "the waiter does not join");
	int r = release(scene);
	(void)WAIT_UNTIL(atomic_load(&call.done), 10000);
	pthread_join(call.thread, NULL);
	scene->other_hold = call.hold;
	if (call.result != 0)
		once_fail(scene, "the waiter got %s", sneck_err_name(call.result));
	return r;
}

/* ---- Renewal ----------------------------------------------------------------------------------*/

static int renew(struct once_scene *scene) {
	return sneck_renew(scene->hold, 60000, &scene->error);
}

static void still_held(struct once_scene *scene) {
	int r = scene->result;
	if (r != 0 && r != SNECK_EUNKNOWN && r != SNECK_ECONN)
		once_fail(scene, "a renewal of what is held");
	if (sneck_hold_state(scene->hold) == SNECK_LOST)
		once_fail(scene, "nothing was lost");
	if (r == 0 && !sneck_check(scene->hold, 40000))
		once_fail(scene, "confirmed, but not longer");
	once_expect(scene, 0, 1, 0);
}

static void let_go(struct once_scene *scene) {
	once_release(scene, &scene->hold, SNECK_EUNKNOWN);
}

/* A hold of the watchdog: its renewals are the messages that are struck. */
static void holds_briefly_leased(struct once_scene *scene) {
	sneck_acquire_options options = test_waiting(5000);
	options.owner = 1;
	options.lease_ms = 2400;
	if (sneck_acquire(scene->client, scene->name, SNECK_WRITE, &options, &scene->hold, NULL) != 0)
		once_fail(scene, "cannot take it");
}

static uint64_t renewals(const struct once_scene *scene) {
	sneck_counters stats = { .size = sizeof(stats) };
	(void)sneck_stats(scene->client, &stats);
	return stats.renewals;
}

static int watchdog_renews(struct once_scene *scene) {
	uint64_t before = renewals(scene);
	return WAIT_UNTIL(renewals(scene) > before + 1, 5000) ? 0 : SNECK_ETIMEDOUT;
}

static void kept_by_the_watchdog(struct once_scene *scene) {
	if (scene->result != 0)
		once_fail(scene, "the watchdog did not go on");
	if (sneck_hold_state(scene->hold) != SNECK_HELD)
		once_fail(scene, "the hold is %s", sneck_state_name(sneck_hold_state(scene->hold)));
	once_expect(scene, 0, 1, 0);
}

static void release_frees_its_own_hold(void **state) {
	(void)state;
	const struct once_script scripts[] = {
		{ "release-write", holds_write, release, nobody_holds, nothing, false },
		{ "release-read", holds_read, release, nobody_holds, nothing, false },
		{ "release-next", holds_write, release_and_other_takes, the_next_one_holds,
		        the_next_one_lets_go, false },
		{ "release-again", holds_write, release_and_take_again, the_next_one_holds,
		        the_next_one_lets_go, false },
		{ "release-waiter", holds_write, release_to_a_waiter, the_next_one_holds,
		        the_next_one_lets_go, false },
	};
	assert_true(once_run(scripts, sizeof(scripts) / sizeof(*scripts)));
}

static void renewal_lengthens_what_is_there(void **state) {
	(void)state;
	const struct once_script scripts[] = {
		{ "renew", holds_write, renew, still_held, let_go, false },
		{ "watchdog", holds_briefly_leased, watchdog_renews, kept_by_the_watchdog, let_go, false },
	};
	assert_true(once_run(scripts, sizeof(scripts) / sizeof(*scripts)));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(release_frees_its_own_hold),
		TEST(renewal_lengthens_what_is_there),
	};
	return cmocka_run_group_tests(tests, test_server_up, test_server_down);
}
