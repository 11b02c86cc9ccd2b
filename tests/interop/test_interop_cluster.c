/* SPDX-License-Identifier: MIT */
/* sneck and the real Redisson in one cluster: three primaries, each with a replica.
 *
 * What is different there is where keys lie and by which kind of channel a release is told. Who chose the
 * wrong one would hear nothing, and be woken by the end of a lease at the earliest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster.h"
#include "pair.h"
#include "wait.h"

static struct test_cluster cluster;
static struct test_server *const face = &test_the_server;

/* One for each primary. */
static const char *const names[] = { "shop:c", "{orders}:7", "x:{tag}:y" };
enum { NAMES = sizeof names / sizeof names[0] };

static int up(void **state) {
	(void)state;
	if (test_cluster_start(&cluster, NULL) < 0)
		return -1;
	*face = test_cluster_face(&cluster, CLUSTER_PRIMARIES);
	setenv("HOME", face->dir, 1);
	java_start(&pair_java, face);
	return 0;
}

static int down(void **state) {
	(void)state;
	java_stop(&pair_java);
	test_cluster_stop(&cluster);
	return 0;
}

static void each_keeps_the_other_out(void **state) {
	unsigned owners = 0;
	(void)state;

	for (size_t i = 0; i < OBJECTS; i++)
		for (size_t j = 0; j < NAMES; j++)
			each_excludes_the_other(&objects[i], names[j]);
	assert_true(WAIT_UNTIL(nothing_is_left(), 10000));
	for (size_t i = 0; i < NAMES; i++)
		owners |= 1u << test_cluster_owner(&cluster, names[i]);
	assert_int_equal(owners, (1u << CLUSTER_PRIMARIES) - 1);
}

static void each_is_woken_at_once(void **state) {
	(void)state;
	for (size_t i = 0; i < OBJECTS; i++)
		each_wakes_the_other(&objects[i], names[i % NAMES]);
}

static void readers_of_both_share(void **state) {
	(void)state;
	for (size_t i = 0; i < NAMES; i++)
		readers_of_both_share_it(names[i]);
}

static void tokens_grow_over_both(void **state) {
	(void)state;
	for (size_t i = 0; i < NAMES; i++)
		tokens_grow_over_both_sides(names[i]);
}

/* The names that we refuse are those that Redisson cannot lock and unlock either. */
static void names_that_neither_can_use(void **state) {
	static const char *const odd[] = { "a{b", "a}b", "{}x", "}{" };
	static const char *const fine[] = { "{tag}}", "a{b}c{", "{a}{}" };
	sneck_client *client = open_as("redisson:rwlock");
	(void)state;

	for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
		java_does(&pair_java, "a", "error RedisException", "a try read %s 0", odd[i]);
		assert_result(SNECK_EINVAL, test_probe(client, odd[i], SNECK_READ), NULL);
	}
	for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
		java_does(&pair_java, "a", "true", "a try read %s 0", fine[i]);
		java_does(&pair_java, "a", "ok", "a unlock read %s", fine[i]);
		assert_result(0, test_probe(client, fine[i], SNECK_READ), NULL);
	}
	sneck_close(client);
}

int main(int argc, char **argv) {
	if (argc > 1 && strcmp(argv[1], "java") == 0)
		return java_exec(argv);
	const struct CMUnitTest tests[] = {
		TEST(each_keeps_the_other_out),
		TEST(each_is_woken_at_once),
		TEST(readers_of_both_share),
		TEST(tokens_grow_over_both),
		TEST(names_that_neither_can_use),
	};
	return cmocka_run_group_tests(tests, up, down);
}
