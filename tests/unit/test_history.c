/* SPDX-License-Identifier: MIT */
/* Histories: what threads append is all there, and a process that is killed in the middle of a call leaves
 * the call behind. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
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
#include "wait.h"

enum { THREADS = 4, PER_THREAD = 20000 };

static char dir[64];
static char path[96];

static int make_dir(void **state) {
	(void)state;
	snprintf(dir, sizeof dir, "/tmp/sneck-history-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/one", dir);
	return 0;
}

static int remove_dir(void **state) {
	(void)state;
	unlink(path);
	return rmdir(dir);
}

struct writer {
	struct history *history;
	uint32_t actor;
	pthread_t thread;
};

static void *append(void *arg) {
	struct writer *writer = arg;

	for (uint32_t i = 0; i < PER_THREAD; i++) {
		struct history_record form = {
			.op = HISTORY_RENEW, .mode = 'W', .actor = writer->actor, .lock = i
		};
		struct history_record *record;

		form.hold = history_new_hold(writer->history);
		record = history_begin(writer->history, &form);
		record->token = i;
		record->valid_until_ns = 7;
		history_end(record, -(int32_t)(i % 5));
	}
	return NULL;
}

static int by_number(const void *a, const void *b) {
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void threads_lose_nothing(void **state) {
	(void)state;
	static uint64_t holds[THREADS * PER_THREAD];
	struct history *history = history_create(path, THREADS * PER_THREAD);
	struct writer writers[THREADS];
	uint32_t seen[THREADS] = { 0 };
	struct history_file file;
	int64_t before = history_now(), after;

	assert_non_null(history);
	for (uint32_t i = 0; i < THREADS; i++) {
		writers[i] = (struct writer){ .history = history, .actor = i };
		assert_int_equal(pthread_create(&writers[i].thread, NULL, append, &writers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(writers[i].thread, NULL);
	after = history_now();
	history_close(history);

	assert_int_equal(history_open(path, &file), 0);
	assert_int_equal(file.n, THREADS * PER_THREAD);
	assert_int_equal(file.pid, getpid());
	assert_false(file.cut);
	for (uint64_t i = 0; i < file.n; i++) {
		const struct history_record *record = &file.records[i];

		assert_true(record->actor < THREADS);
		assert_int_equal(record->op, HISTORY_RENEW);
		/* Each thread's records are in the order in which it wrote them. */
		assert_int_equal(record->lock, seen[record->actor]++);
		assert_int_equal(record->token, record->lock);
		assert_int_equal(record->result, -(int32_t)(record->lock % 5));
		assert_true(before <= record->invoke_ns && record->invoke_ns <= record->return_ns);
		assert_true(record->return_ns <= after);
		assert_int_equal(record->hold >> 32, getpid());
		holds[i] = record->hold;
	}
	qsort(holds, file.n, sizeof holds[0], by_number);
	for (uint64_t i = 1; i < file.n; i++)
		assert_true(holds[i - 1] < holds[i]);
	history_unmap(&file);
}

/* The child finishes one call, begins another, says so, and never comes back from it. */
static void play_victim(int ready_fd) {
	struct history *history = history_create(path, 16);
	struct history_record form = { .op = HISTORY_ACQUIRE, .mode = 'W', .lock = 3, .actor = 4 };

	if (!history)
		_exit(1);
	history_end(history_begin(history, &form), -2);
	form.lock = 5;
	history_begin(history, &form);
	if (write(ready_fd, "x", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void a_killed_process_leaves_its_open_call(void **state) {
	(void)state;
	struct history_file file;
	int ready[2], status;
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		play_victim(ready[1]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));

	assert_int_equal(history_open(path, &file), 0);
	assert_int_equal(file.pid, pid);
	assert_int_equal(file.n, 2);
	assert_int_equal(file.records[0].result, -2);
	assert_true(file.records[0].return_ns >= file.records[0].invoke_ns);
	assert_int_equal(file.records[1].op, HISTORY_ACQUIRE);
	assert_int_equal(file.records[1].lock, 5);
	assert_true(file.records[1].invoke_ns >= file.records[0].return_ns);
	assert_int_equal(file.records[1].return_ns, 0);
	history_unmap(&file);
}

static void a_full_file_says_so(void **state) {
	(void)state;
	struct history *history = history_create(path, 3);
	struct history_record form = { .op = HISTORY_STATE };
	struct history_file file;

	assert_non_null(history);
	for (uint32_t i = 0; i < 3; i++) {
		form.lock = i;
		history_mark(history, &form);
	}
	assert_int_equal(history_open(path, &file), 0);
	assert_false(file.cut);
	history_unmap(&file);
	form.lock = 9;
	history_mark(history, &form);
	assert_int_equal(history_open(path, &file), 0);
	assert_true(file.cut);
	assert_int_equal(file.n, 3);
	assert_int_equal(file.records[1].lock, 1);
	assert_int_equal(file.records[2].lock, 9);
	history_unmap(&file);
	history_close(history);
}

static void a_mark_keeps_the_times_it_is_given(void **state) {
	(void)state;
	struct history *history = history_create(path, 2);
	struct history_record form = { .op = HISTORY_FAULT, .invoke_ns = 5 };
	struct history_file file;

	assert_non_null(history);
	history_mark(history, &form);
	form.return_ns = 6;
	history_mark(history, &form);
	history_close(history);
	assert_int_equal(history_open(path, &file), 0);
	assert_int_equal(file.records[0].invoke_ns, 5);
	assert_true(file.records[0].return_ns > 6);
	assert_int_equal(file.records[1].return_ns, 6);
	history_unmap(&file);
}

static void what_is_no_history_is_refused(void **state) {
	(void)state;
	static const char text[200] = "neither header nor records";
	struct history_file file;
	FILE *stream = fopen(path, "we");

	assert_non_null(stream);
	assert_int_equal(fwrite(text, 1, sizeof text, stream), sizeof text);
	assert_int_equal(fclose(stream), 0);
	assert_int_equal(history_open(path, &file), -1);
	assert_int_equal(errno, EPROTO);
	assert_int_equal(truncate(path, 10), 0);
	assert_int_equal(history_open(path, &file), -1);
	assert_int_equal(errno, EPROTO);
	assert_null(history_create(path, 4));
	assert_int_equal(errno, EEXIST);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(history_open(path, &file), -1);
	assert_int_equal(errno, ENOENT);
}

/* Not a test: what a record costs, for the page that says it. */
static int measure(void) {
	enum { N = 4000000 };
	char where[] = "/tmp/sneck-history-cost-XXXXXX";
	int fd = mkstemp(where);
	struct history_record form = { .op = HISTORY_ACQUIRE };
	struct history *history;
	clock_t start;

	if (fd < 0 || unlink(where) < 0 || !(history = history_create(where, N)))
		return 1;
	start = clock();
	for (int i = 0; i < N; i++)
		history_end(history_begin(history, &form), 0);
	printf("%.1f ns of processor time per record\n",
	        (double)(clock() - start) * 1e9 / CLOCKS_PER_SEC / N);
	history_close(history);
	close(fd);
	return unlink(where);
}

int main(int argc, char **argv) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(threads_lose_nothing, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(a_killed_process_leaves_its_open_call, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(a_full_file_says_so, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(a_mark_keeps_the_times_it_is_given, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(what_is_no_history_is_refused, make_dir, remove_dir),
	};

	if (argc > 1 && strcmp(argv[1], "cost") == 0)
		return measure();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
