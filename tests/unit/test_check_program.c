/* SPDX-License-Identifier: MIT */
/* sneck-check, the program: which files it reads, what it says, and its exit status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "history.h"

static char dir[64];
static char output[16384];

static int make_dir(void **state) {
	(void)state;
	snprintf(dir, sizeof dir, "/tmp/sneck-check-XXXXXX");
	assert_non_null(mkdtemp(dir));
	return 0;
}

static int remove_dir(void **state) {
	static const char *const names[] = { "one.history", "two.history", "notes" };
	char path[128];

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, names[i]);
		unlink(path);
	}
	return rmdir(dir);
}

/* Its exit status; what it said is in `output`. */
static int check(const char *options) {
	char line[256];
	FILE *pipe;
	size_t len;
	int status;

	snprintf(line, sizeof line, "'%s' %s '%s' 2>&1", SNECK_CHECK, options, dir);
	pipe = popen(line, "r");
	assert_non_null(pipe);
	len = fread(output, 1, sizeof output - 1, pipe);
	output[len] = '\0';
	status = pclose(pipe);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void assert_said(const char *part) {
	if (!strstr(output, part))
		fail_msg("no \"%s\" in:\n%s", part, output);
}

/* A process that holds lock 1 from 100 (or 150) to `release` ms. */
static void write_history(const char *name, uint32_t actor, int64_t grant_ms, int64_t release_ms) {
	struct history_record form = { .op = HISTORY_ACQUIRE,
		.mode = 'W',
		.lock = 1,
		.actor = actor,
		.token = (uint64_t)grant_ms,
		.invoke_ns = (grant_ms - 10) * 1000000,
		.return_ns = grant_ms * 1000000,
		.valid_until_ns = INT64_C(90000000000),
		.deadline_ns = grant_ms * 1000000 };
	struct history *history;
	char path[128];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	history = history_create(path, 10);
	assert_non_null(history);
	form.hold = (uint64_t)actor << 32 | 1;
	history_mark(history, &form);
	form.op = HISTORY_RELEASE;
	form.invoke_ns = release_ms * 1000000;
	form.return_ns = form.deadline_ns = (release_ms + 20) * 1000000;
	form.return_ns += 30000000;
	history_mark(history, &form);
	history_close(history);
}

static void a_good_run(void **state) {
	(void)state;
	write_history("one.history", 1, 100, 150);
	write_history("two.history", 2, 150, 200);
	assert_int_equal(check(""), 0);
	assert_said("2 histories, 0.160 s, 4 records (0 not filled), 2 grants");
	assert_said("I1  exclusion of believed-valid holds      ok             1 checked");
	assert_said("I7  notice before the lease ends           not exercised");
}

static void a_bad_run(void **state) {
	(void)state;
	write_history("one.history", 1, 100, 151);
	write_history("two.history", 2, 150, 200);
	assert_int_equal(check(""), 1);
	assert_said("VIOLATED       1 of 1\n");
	assert_said("  1 0.000000..0.010000 acquire lock 1 by 1 hold 100000001 W: ok, token 100, valid until "
	            "89.910000");
	assert_said("  2 0.050000..0.060000 acquire lock 1 by 2 hold 200000001 W: ok, token 150, valid until "
	            "89.910000");
}

static void bounds_are_options(void **state) {
	(void)state;
	write_history("one.history", 1, 100, 150); /* back 30 ms after its deadline */
	assert_int_equal(check("--late 30"), 0);
	assert_int_equal(check("--late 29"), 1);
	assert_said("I9: a call came back after its deadline");
	assert_int_equal(check("--late 29 --keep 0"), 1);
	assert_null(strstr(output, "I9: "));
}

static void other_files_are_passed_over(void **state) {
	char path[128];
	FILE *file;

	(void)state;
	snprintf(path, sizeof path, "%s/notes", dir);
	file = fopen(path, "we");
	assert_non_null(file);
	fputs("this is no history, and it is longer than the header of one, which has sixty-four bytes\n",
	        file);
	fclose(file);
	/* A directory without any history is not a good run. */
	assert_int_equal(check(""), 2);
	assert_said("there is no history");
	write_history("one.history", 1, 100, 150);
	assert_int_equal(check(""), 0);
	assert_said("1 histories");
}

static void wrong_use(void **state) {
	(void)state;
	assert_int_equal(check("--late"), 2);
	assert_int_equal(check("--late x"), 2);
	assert_int_equal(check("--late -1"), 2);
	assert_int_equal(check("--unknown"), 2);
	assert_int_equal(check("/nowhere"), 2);
	assert_said("usage: sneck-check");
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
	const struct CMUnitTest tests[] = {
		T(a_good_run),
		T(a_bad_run),
		T(bounds_are_options),
		T(other_files_are_passed_over),
		T(wrong_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
