/* SPDX-License-Identifier: MIT */
/* How often a thread looks for its answer before it sleeps: always where that finds it, seldom where it does
 * not, and again once it does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/glance.h"

/* Of `waits`, how many looked, when `found` of every ten looks find something. */
static unsigned looks(struct glance *glance, unsigned waits, unsigned found) {
	unsigned n = 0;

	for (unsigned i = 0; i < waits; i++)
		if (snecki_glance_due(glance))
			snecki_glance_found(glance, n++ % 10 < found);
	return n;
}

static void every_wait_looks_while_that_finds_the_answer(void **state) {
	(void)state;
	struct glance glance = { 0 };
	assert_int_equal(looks(&glance, 1000, 10), 1000);
}

static void one_look_in_vain_costs_a_few_waits(void **state) {
	(void)state;
	struct glance glance = { 0 };
	assert_true(snecki_glance_due(&glance));
	snecki_glance_found(&glance, false);
	assert_in_range(looks(&glance, 1000, 10), 998, 999);
}

static void looks_that_are_always_in_vain_become_rare(void **state) {
	(void)state;
	struct glance glance = { 0 };
	looks(&glance, 1000, 0);
	assert_in_range(looks(&glance, 65000, 0), 900, 1100);
}

/* A busy machine: half of the looks find something, and each of the others has cost its time for nothing. */
static void looks_that_are_often_in_vain_become_rare_too(void **state) {
	(void)state;
	struct glance glance = { 0 };
	looks(&glance, 1000, 5);
	assert_in_range(looks(&glance, 10000, 5), 100, 2000);
}

static void a_server_that_becomes_near_is_noticed(void **state) {
	(void)state;
	struct glance glance = { 0 };
	looks(&glance, 1000, 0);
	looks(&glance, 500, 10);
	assert_int_equal(looks(&glance, 100, 10), 100);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_wait_looks_while_that_finds_the_answer),
		cmocka_unit_test(one_look_in_vain_costs_a_few_waits),
		cmocka_unit_test(looks_that_are_always_in_vain_become_rare),
		cmocka_unit_test(looks_that_are_often_in_vain_become_rare_too),
		cmocka_unit_test(a_server_that_becomes_near_is_noticed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
