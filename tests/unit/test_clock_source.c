/* SPDX-License-Identifier: MIT */
/* Which clock the library lives by. Machines that run tests do not sleep, so the kernel's clocks are
 * replaced (the linker puts __wrap_clock_gettime in front of the real one) by four that differ as
 * they do on a laptop: the wall clock can be set, CLOCK_MONOTONIC stands still in suspend,
 * CLOCK_BOOTTIME does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"

#define NS_PER_S INT64_C(1000000000)

static int64_t awake_ns = 1000 * NS_PER_S; /* spent awake since the start */
static int64_t asleep_ns;                  /* spent in suspend */
static int64_t set_ns;                     /* by how much somebody has set the wall clock */

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret) {
	int64_t now_ns = awake_ns;

	if (clock == CLOCK_BOOTTIME)
		now_ns += asleep_ns;
	else if (clock == CLOCK_REALTIME)
		now_ns += asleep_ns + set_ns;
	else if (clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, ret);
	ret->tv_sec = (time_t)(now_ns / NS_PER_S);
	ret->tv_nsec = (long)(now_ns % NS_PER_S);
	return 0;
}

static int wake_up(void **state) {
	(void)state;
	asleep_ns = set_ns = 0;
	return 0;
}

static void time_goes_on_while_the_machine_sleeps(void **state) {
	(void)state;
	int64_t before_ns = snecki_now_ns();
	int64_t deadline_ns = snecki_after_ms(before_ns, 30000);
	struct timespec left;
	asleep_ns = 20 * NS_PER_S;
	assert_int_equal(snecki_now_ns() - before_ns, 20 * NS_PER_S);
	snecki_time_left(deadline_ns, &left);
	assert_int_equal(left.tv_sec, 10);
	asleep_ns = 31 * NS_PER_S;
	snecki_time_left(deadline_ns, &left);
	assert_int_equal(left.tv_sec, 0);
	assert_int_equal(left.tv_nsec, 0);
}

/* A wait runs on CLOCK_MONOTONIC: what is left of the time is what counts, not the reading. */
static void waits_are_as_long_as_what_is_left(void **state) {
	(void)state;
	struct timespec until;
	asleep_ns = 500 * NS_PER_S;
	snecki_monotonic_deadline(snecki_after_ms(snecki_now_ns(), 7000), &until);
	assert_int_equal((int64_t)until.tv_sec * NS_PER_S + until.tv_nsec, awake_ns + 7 * NS_PER_S);
}

static void setting_the_wall_clock_changes_nothing(void **state) {
	(void)state;
	int64_t before_ns = snecki_now_ns();
	set_ns = 3600 * NS_PER_S;
	assert_int_equal(snecki_now_ns(), before_ns);
	set_ns = -3600 * NS_PER_S;
	assert_int_equal(snecki_now_ns(), before_ns);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(time_goes_on_while_the_machine_sleeps, wake_up),
		cmocka_unit_test_setup(waits_are_as_long_as_what_is_left, wake_up),
		cmocka_unit_test_setup(setting_the_wall_clock_changes_nothing, wake_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
