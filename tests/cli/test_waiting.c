/* SPDX-License-Identifier: MIT */
/* When whoever waits is told for whom: after a second, then once a minute where nobody watches. The clock
 * is the test's, so that a minute takes no minute; lock and server are real. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lock_view.h"
#include "server.h"
#include "session.h"

int64_t __wrap_boot_ms(void);

static struct test_server server;
static struct session session;
static int64_t now_ms = 1000000;

int64_t __wrap_boot_ms(void) {
	return now_ms;
}

static int start(void **state) {
	sneck_hold *hold;

	(void)state;
	if (test_server_start(&server, NULL) < 0 || sneck_open(server.url, NULL, &session.client, NULL) < 0)
		return -1;
	return sneck_acquire(session.client, "demo", SNECK_WRITE, NULL, &hold, NULL);
}

static int stop(void **state) {
	(void)state;
	sneck_close(session.client);
	test_server_stop(&server);
	return 0;
}

/* The lines that it says at `ms` after the beginning. */
static int lines_at(struct waiting *waiting, int64_t begun_ms, int64_t ms) {
	char path[128], text[1024] = "";
	int lines = 0;

	snprintf(path, sizeof(path), "%s/said", server.dir);
	int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int err = dup(STDERR_FILENO);
	assert_true(file >= 0 && err >= 0);
	dup2(file, STDERR_FILENO);
	now_ms = begun_ms + ms;
	waiting_show(waiting, &session, "demo", 4);
	dup2(err, STDERR_FILENO);
	close(err);
	ssize_t n = pread(file, text, sizeof(text) - 1, 0);
	close(file);
	assert_true(n >= 0);
	for (const char *at = text; (at = strstr(at, "sneck: waiting for \"demo\", held by ")) != NULL; at++)
		lines++;
	return lines;
}

static void test_after_a_second_then_once_a_minute(void **state) {
	struct waiting waiting;
	int64_t begun_ms = now_ms;
	int lines = 0;

	(void)state;
	waiting_begin(&waiting, false);
	waiting.in_place = false; /* wherever the test runs */
	assert_int_equal(waiting_due_ms(&waiting), 1000);
	assert_int_equal(lines_at(&waiting, begun_ms, 999), 0);
	assert_int_equal(lines_at(&waiting, begun_ms, 1000), 1);
	assert_int_equal(waiting_due_ms(&waiting), 60000);
	for (int second = 2; second <= 300; second++)
		lines += lines_at(&waiting, begun_ms, second * 1000);
	assert_int_equal(lines, 4);
	waiting_end(&waiting);
}

static void test_every_second_in_place(void **state) {
	struct waiting waiting;
	int64_t begun_ms = now_ms;
	int lines = 0;

	(void)state;
	waiting_begin(&waiting, false);
	waiting.in_place = true;
	for (int tenth = 1; tenth <= 100; tenth++)
		lines += lines_at(&waiting, begun_ms, tenth * 100);
	assert_int_equal(lines, 10);
}

static void test_never_when_it_shall_be_quiet(void **state) {
	struct waiting waiting;
	int64_t begun_ms = now_ms;

	(void)state;
	waiting_begin(&waiting, true);
	for (int second = 1; second <= 130; second++)
		assert_int_equal(lines_at(&waiting, begun_ms, second * 1000), 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_after_a_second_then_once_a_minute),
		cmocka_unit_test(test_every_second_in_place),
		cmocka_unit_test(test_never_when_it_shall_be_quiet),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
