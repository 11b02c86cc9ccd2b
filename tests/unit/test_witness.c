/* SPDX-License-Identifier: MIT */
/* The witness: those who are inside one after the other do not meet, those who are inside at once do, and the
 * record names the one that was met. */
#include <dirent.h>
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

#include "history.h"
#include "witness.h"

struct rig {
	char dir[64];
	struct witness *witness;
	struct history *history;
};

static int start(void **state) {
	struct rig *rig = calloc(1, sizeof *rig);
	char path[96];

	assert_non_null(rig);
	snprintf(rig->dir, sizeof rig->dir, "/tmp/sneck-witness-XXXXXX");
	assert_non_null(mkdtemp(rig->dir));
	snprintf(path, sizeof path, "%s/history", rig->dir);
	rig->history = history_create(path, 64);
	rig->witness = witness_open(rig->dir);
	assert_non_null(rig->history);
	assert_non_null(rig->witness);
	*state = rig;
	return 0;
}

static int stop(void **state) {
	struct rig *rig = *state;
	int dir_fd = open(rig->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fdopendir(dir_fd);
	struct dirent *entry;

	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			unlinkat(dir_fd, entry->d_name, 0);
	closedir(dir);
	witness_close(rig->witness);
	history_close(rig->history);
	assert_int_equal(rmdir(rig->dir), 0);
	free(rig);
	return 0;
}

static struct history_record hold(uint64_t number, char mode, uint64_t token) {
	return (struct history_record){
		.hold = number, .lock = 7, .actor = (uint32_t)number, .mode = (uint8_t)mode, .token = token
	};
}

static bool enter(struct rig *rig, uint64_t number, char mode, struct witness_visit *visit) {
	struct history_record form = hold(number, mode, 99);

	return witness_enter(rig->witness, rig->history, &form, visit);
}

static bool leave(struct rig *rig, const struct witness_visit *visit) {
	return witness_leave(rig->witness, rig->history, visit);
}

/* The last record in the history is that. */
static void assert_last(struct rig *rig, unsigned op, uint64_t number, int32_t result, uint64_t met) {
	struct history_file file;
	const struct history_record *last;
	char path[96];

	snprintf(path, sizeof path, "%s/history", rig->dir);
	assert_int_equal(history_open(path, &file), 0);
	assert_true(file.n > 0);
	last = &file.records[file.n - 1];
	assert_int_equal(last->op, op);
	assert_int_equal(last->hold, number);
	assert_int_equal(last->lock, 7);
	assert_int_equal(last->result, result);
	assert_int_equal(last->token, met);
	assert_true(last->return_ns >= last->invoke_ns && last->invoke_ns > 0);
	history_unmap(&file);
}

static void one_after_the_other_meets_nobody(void **state) {
	struct rig *rig = *state;
	struct witness_visit visit, second;

	for (uint64_t i = 1; i < 4; i++) {
		assert_true(enter(rig, i, 'W', &visit));
		assert_last(rig, HISTORY_ENTER, i, 0, 0);
		assert_int_equal(visit.counter, i - 1);
		assert_true(leave(rig, &visit));
		assert_last(rig, HISTORY_LEAVE, i, 0, 0);
	}
	assert_true(enter(rig, 8, 'R', &visit));
	assert_true(enter(rig, 9, 'R', &second));
	assert_true(leave(rig, &visit));
	assert_true(leave(rig, &second));
}

static void two_writers_meet(void **state) {
	struct rig *rig = *state;
	struct witness_visit first, second, third;

	assert_true(enter(rig, 1, 'W', &first));
	assert_false(enter(rig, 2, 'W', &second));
	assert_last(rig, HISTORY_ENTER, 2, -1, 1);
	assert_true(leave(rig, &second));
	assert_false(leave(rig, &first));
	assert_last(rig, HISTORY_LEAVE, 1, -1, 2);
	/* And nothing of it is left for those who come later. */
	assert_true(enter(rig, 3, 'W', &third));
	assert_true(leave(rig, &third));
}

/* The first leaves while the second is inside: its link is not its own any more. */
static void a_writer_that_leaves_first_meets_too(void **state) {
	struct rig *rig = *state;
	struct witness_visit first, second;

	assert_true(enter(rig, 1, 'W', &first));
	assert_false(enter(rig, 2, 'W', &second));
	assert_false(leave(rig, &first));
	assert_last(rig, HISTORY_LEAVE, 1, -1, 2);
	assert_false(leave(rig, &second));
	assert_last(rig, HISTORY_LEAVE, 2, -1, 1);
}

static void readers_meet_writers(void **state) {
	struct rig *rig = *state;
	struct witness_visit reader, writer, late;

	assert_true(enter(rig, 1, 'R', &reader));
	assert_true(enter(rig, 2, 'W', &writer));
	assert_false(enter(rig, 3, 'R', &late));
	assert_last(rig, HISTORY_ENTER, 3, -1, 2);
	assert_false(leave(rig, &reader));
	assert_last(rig, HISTORY_LEAVE, 1, -1, 2);
	assert_true(leave(rig, &writer));
	assert_false(leave(rig, &late));
	assert_last(rig, HISTORY_LEAVE, 3, -1, 2);
}

static bool store(struct rig *rig, uint64_t number, uint64_t token, int detail) {
	struct history_record form = hold(number, 'W', token);
	bool taken = witness_store(rig->witness, rig->history, &form);
	struct history_file file;
	char path[96];

	assert_last(rig, HISTORY_STORE, number, taken, token);
	snprintf(path, sizeof path, "%s/history", rig->dir);
	assert_int_equal(history_open(path, &file), 0);
	assert_int_equal(file.records[file.n - 1].detail, detail);
	history_unmap(&file);
	return taken;
}

static void the_store_that_checks_refuses_what_is_old(void **state) {
	struct rig *rig = *state;

	assert_true(store(rig, 1, 10, 0));
	assert_true(store(rig, 1, 10, 0));
	assert_true(store(rig, 2, 12, 0));
	assert_false(store(rig, 1, 10, 1)); /* the other one takes it: 10 is what it has now */
	assert_false(store(rig, 1, 11, 0));
	assert_true(store(rig, 2, 12, 0));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_after_the_other_meets_nobody, start, stop),
		cmocka_unit_test_setup_teardown(two_writers_meet, start, stop),
		cmocka_unit_test_setup_teardown(a_writer_that_leaves_first_meets_too, start, stop),
		cmocka_unit_test_setup_teardown(readers_meet_writers, start, stop),
		cmocka_unit_test_setup_teardown(the_store_that_checks_refuses_what_is_old, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
