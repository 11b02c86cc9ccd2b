/* SPDX-License-Identifier: MIT */
/* Channels that come and go: what the server is told, and that no message falls between two who listen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/topics.h"

static struct topics topics;
static struct buf told = BUF_INIT;

static int setup(void **state) {
	(void)state;
	return snecki_topics_init(&topics);
}

static int teardown(void **state) {
	(void)state;
	snecki_topics_done(&topics);
	snecki_buf_done(&told);
	return 0;
}

static bool listen(const char *channel) {
	bool changed;
	assert_int_equal(snecki_topics_add(&topics, channel, strlen(channel), false, "lock", 4, &changed), 0);
	return changed;
}

static bool heard(const char *channel) {
	struct topic_subject subject;
	bool found = snecki_topics_find(&topics, channel, strlen(channel), &subject);
	snecki_buf_done(&subject.bytes);
	return found;
}

/* How many commands the server gets. */
static int changes(void) {
	int n = 0;
	snecki_buf_clear(&told);
	snecki_topics_write_changes(&topics, &told);
	for (size_t i = 0; i < told.len; i++)
		n += told.data[i] == '*';
	return n;
}

static void a_channel_is_kept_for_the_next(void **state) {
	(void)state;
	assert_true(listen("a"));
	assert_int_equal(changes(), 1);
	assert_true(heard("a"));
	snecki_topics_remove(&topics, "a", 1);
	assert_false(listen("a"));
	assert_int_equal(changes(), 0);
}

/* The message was for one who was about to listen: it is told by a second confirmation. */
static void what_nobody_heard_is_made_up_for(void **state) {
	(void)state;
	assert_true(listen("a"));
	assert_int_equal(changes(), 1);
	snecki_topics_remove(&topics, "a", 1);
	assert_false(heard("a"));
	assert_true(listen("a"));
	assert_int_equal(changes(), 1);
	snecki_topics_remove(&topics, "a", 1);
	assert_false(listen("a"));
	assert_int_equal(changes(), 0);
}

static void the_oldest_goes(void **state) {
	(void)state;
	char name[8];
	for (int i = 0; i <= TOPICS_IDLE_MAX; i++) {
		snprintf(name, sizeof name, "%d", i);
		assert_true(listen(name));
		assert_int_equal(changes(), 1);
		snecki_topics_remove(&topics, name, strlen(name));
	}
	assert_int_equal(changes(), 1);
	assert_memory_equal(told.data, "*2\r\n$11\r\nUNSUBSCRIBE", 20);
	assert_true(listen("0"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_channel_is_kept_for_the_next, setup, teardown),
		cmocka_unit_test_setup_teardown(what_nobody_heard_is_made_up_for, setup, teardown),
		cmocka_unit_test_setup_teardown(the_oldest_goes, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
