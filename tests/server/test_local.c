/* SPDX-License-Identifier: MIT */
/* The private server behind `local:`: one per directory whatever happens, and only in a directory
 * that is safely ours. Each test has a directory of its own and ends the server that it caused. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include <sneck/error.h>

#include "base/clock.h"
#include "topology/local.h"
#include "wait.h"

enum { RUN_ID_LEN = 40, STARTERS = 8 };

struct fixture {
	char base[64]; /* what the test may litter */
	char dir[256]; /* SNECK_LOCAL_DIR, not made yet */
	char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct sneck_error error;
};

static int ensure_within(struct fixture *f, int64_t ms) {
	memset(&f->error, 0, sizeof(f->error));
	return snecki_local_ensure(
	        f->socket_path, sizeof(f->socket_path), snecki_after_ms(snecki_now_ns(), ms), &f->error);
}

static int ensure(struct fixture *f) {
	return ensure_within(f, 10000);
}

static redisReply *ask(const struct fixture *f, const char *command) {
	struct timeval limit = { 5, 0 };
	redisContext *context = redisConnectUnixWithTimeout(f->socket_path, limit);

	assert_non_null(context);
	assert_int_equal(context->err, 0);
	redisSetTimeout(context, limit);
	redisReply *reply = redisCommand(context, command);
	assert_non_null(reply);
	redisFree(context);
	return reply;
}

/* The number that a server draws at its start: two servers never have the same. */
static void run_id(const struct fixture *f, char ret_id[RUN_ID_LEN + 1]) {
	redisReply *reply = ask(f, "INFO server");
	const char *found = strstr(reply->str, "run_id:");

	assert_non_null(found);
	snprintf(ret_id, RUN_ID_LEN + 1, "%.*s", RUN_ID_LEN, found + strlen("run_id:"));
	freeReplyObject(reply);
}

static pid_t server_pid(const struct fixture *f) {
	char path[300], text[32] = "";

	snprintf(path, sizeof(path), "%s/redis.pid", f->dir);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	return n > 0 ? (pid_t)atoi(text) : 0;
}

/* The server holds the directory's lock for life. */
static bool nobody_lives(const struct fixture *f) {
	int fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return true;
	bool free_now = flock(fd, LOCK_EX | LOCK_NB) == 0;
	close(fd);
	return free_now;
}

static void kill_server(const struct fixture *f) {
	if (nobody_lives(f))
		return;
	pid_t pid = server_pid(f);
	assert_true(pid > 1);
	kill(pid, SIGKILL);
	assert_true(WAIT_UNTIL(nobody_lives(f), 5000));
}

static int setup(void **state) {
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	snprintf(f->base, sizeof(f->base), "/tmp/sneck-test-XXXXXX");
	if (!mkdtemp(f->base))
		return -1;
	snprintf(f->dir, sizeof(f->dir), "%s/local", f->base);
	setenv("SNECK_LOCAL_DIR", f->dir, 1);
	*state = f;
	return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw) {
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int teardown(void **state) {
	struct fixture *f = *state;

	kill_server(f);
	nftw(f->base, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	free(f);
	return 0;
}

/* ---- One server -----------------------------------------------------------------------------*/

static void test_starts_and_finds_again(void **state) {
	struct fixture *f = *state;
	char first[RUN_ID_LEN + 1], second[RUN_ID_LEN + 1];
	struct stat st;

	assert_int_equal(ensure(f), 0);
	run_id(f, first);
	assert_int_equal(ensure(f), 0);
	run_id(f, second);
	assert_string_equal(first, second);
	assert_int_equal(stat(f->dir, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat(f->socket_path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
}

/* Runs in a child: wait for the start, ensure, report the server that was found. */
static _Noreturn void be_starter(struct fixture *f, int start_fd, int report_fd) {
	char id[RUN_ID_LEN + 1];
	char byte;

	if (read(start_fd, &byte, 1) != 0 || ensure(f) != 0)
		_exit(1);
	run_id(f, id);
	_exit(write(report_fd, id, RUN_ID_LEN) == RUN_ID_LEN ? 0 : 1);
}

static void test_many_starters_one_server(void **state) {
	struct fixture *f = *state;
	char ids[STARTERS][RUN_ID_LEN];
	int start[2], report[2], status;
	pid_t pids[STARTERS];

	assert_int_equal(pipe2(start, O_CLOEXEC), 0);
	assert_int_equal(pipe2(report, O_CLOEXEC), 0);
	for (int i = 0; i < STARTERS; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0) {
			close(start[1]);
			be_starter(f, start[0], report[1]);
		}
	}
	close(start[0]);
	close(start[1]); /* the end of the pipe lets all of them go at once */
	for (int i = 0; i < STARTERS; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	for (int i = 0; i < STARTERS; i++) {
		assert_int_equal(read(report[0], ids[i], RUN_ID_LEN), RUN_ID_LEN);
		assert_memory_equal(ids[i], ids[0], RUN_ID_LEN);
	}
	close(report[0]);
	close(report[1]);
}

static void test_starts_again_after_kill9(void **state) {
	struct fixture *f = *state;
	char first[RUN_ID_LEN + 1], second[RUN_ID_LEN + 1];

	assert_int_equal(ensure(f), 0);
	run_id(f, first);
	kill_server(f);
	assert_int_equal(access(f->socket_path, F_OK), 0); /* the stale socket is there */
	assert_int_equal(ensure(f), 0);
	run_id(f, second);
	assert_string_not_equal(first, second);
}

/* A server that is silent, or whose socket is gone, lives: starting another one beside it would
 * give the same lock out twice. */
static void test_never_a_second_server(void **state) {
	struct fixture *f = *state;
	char path[sizeof(f->socket_path)], first[RUN_ID_LEN + 1], second[RUN_ID_LEN + 1];

	assert_int_equal(ensure(f), 0);
	run_id(f, first);
	pid_t pid = server_pid(f);
	kill(pid, SIGSTOP);
	int64_t begin_ms = test_now_ms();
	assert_int_equal(ensure_within(f, 150), SNECK_ECONN);
	assert_non_null(strstr(f->error.text, "does not answer"));
	assert_in_range(test_now_ms() - begin_ms, 100, 9000); /* by itself, however busy the machine is */
	kill(pid, SIGCONT);
	assert_int_equal(ensure(f), 0);
	run_id(f, second);
	assert_string_equal(first, second);

	snprintf(path, sizeof(path), "%s", f->socket_path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(ensure_within(f, 150), SNECK_ECONN);
	assert_non_null(strstr(f->error.text, "redis.pid"));
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(server_pid(f), pid);
}

/* ---- What kind of server --------------------------------------------------------------------*/

static void check_config(const struct fixture *f, const char *name, const char *value) {
	char command[64];

	snprintf(command, sizeof(command), "CONFIG GET %s", name);
	redisReply *reply = ask(f, command);
	assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
	assert_int_equal(reply->elements, 2);
	assert_string_equal(reply->element[1]->str, value);
	freeReplyObject(reply);
}

static void test_config(void **state) {
	struct fixture *f = *state;

	assert_int_equal(ensure(f), 0);
	check_config(f, "port", "0");
	check_config(f, "tls-port", "0");
	check_config(f, "save", "");
	check_config(f, "appendonly", "no");
	check_config(f, "maxmemory-policy", "noeviction");
	check_config(f, "unixsocketperm", "700");
	check_config(f, "dir", f->dir);
}

/* Counts descriptors of `pid` that point to `target`, or of all when it is NULL. */
static int count_fds(pid_t pid, const char *target) {
	int count = 0;

	for (int fd = 0; fd < 64; fd++) {
		char path[64], link[256];
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
		ssize_t n = readlink(path, link, sizeof(link) - 1);
		if (n < 0)
			continue;
		link[n] = '\0';
		count += !target || !strcmp(link, target);
	}
	return count;
}

/* Puts a program of ours where the server is looked for first. */
static void write_program(const struct fixture *f, const char *text) {
	char path[128];

	snprintf(path, sizeof(path), "%s/redis-server", f->base);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static int ensure_with_program(struct fixture *f, const char *text) {
	char *path = strdup(getenv("PATH"));

	write_program(f, text);
	setenv("PATH", f->base, 1);
	int r = ensure(f);
	setenv("PATH", path, 1);
	free(path);
	return r;
}

static void test_inherits_nothing(void **state) {
	struct fixture *f = *state;
	char path[128], script[512], environment[4096];

	snprintf(path, sizeof(path), "%s/marker", f->base);
	int first = open(path, O_WRONLY | O_CREAT, 0600); /* without O_CLOEXEC, on purpose */
	assert_true(first >= 0);
	int fd = dup2(first, 50); /* where nothing else comes to lie */
	assert_int_equal(fd, 50);
	setenv("SNECK_TEST_SECRET", "canary", 1);
	snprintf(script, sizeof(script),
	        "#!/bin/sh\nenv >%s/env\nPATH=$PATH:/usr/local/bin exec redis-server \"$@\"\n", f->base);
	assert_int_equal(ensure_with_program(f, script), 0);
	unsetenv("SNECK_TEST_SECRET");
	pid_t pid = server_pid(f);
	assert_int_equal(count_fds(getpid(), path), 2);
	assert_int_equal(count_fds(pid, path), 0);
	assert_int_equal(count_fds(pid, f->dir), 1);  /* the lock */
	assert_int_not_equal(getsid(pid), getsid(0)); /* Ctrl-C does not reach it */
	close(first);
	close(fd);

	snprintf(path, sizeof(path), "%s/env", f->base);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, environment, sizeof(environment));
	close(fd);
	assert_true(n > 0);
	assert_non_null(memmem(environment, (size_t)n, "PATH=", 5));
	assert_null(memmem(environment, (size_t)n, "canary", 6));
}

static void test_leaves_no_child(void **state) {
	struct fixture *f = *state;

	assert_int_equal(ensure(f), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

/* ---- Where it may not be --------------------------------------------------------------------*/

static void test_refuses_wrong_mode(void **state) {
	struct fixture *f = *state;

	assert_int_equal(mkdir(f->dir, 0700), 0);
	assert_int_equal(chmod(f->dir, 0755), 0);
	assert_int_equal(ensure(f), SNECK_EACCES);
	assert_non_null(strstr(f->error.text, "chmod 700"));
	assert_int_equal(chmod(f->dir, 01700), 0);
	assert_int_equal(ensure(f), SNECK_EACCES);
	assert_true(nobody_lives(f));
	assert_int_equal(chmod(f->dir, 0700), 0);
	assert_int_equal(ensure(f), 0);
}

static void test_umask_does_not_matter(void **state) {
	struct fixture *f = *state;
	mode_t old = umask(0277);
	int r = ensure(f);

	umask(old);
	assert_int_equal(r, 0);
}

static void test_refuses_another_owner(void **state) {
	struct fixture *f = *state;

	if (geteuid() == 0) {
		assert_int_equal(mkdir(f->dir, 0700), 0);
		assert_int_equal(chown(f->dir, 65534, 65534), 0);
	} else {
		setenv("SNECK_LOCAL_DIR", "/usr", 1);
	}
	assert_int_equal(ensure(f), SNECK_EACCES);
	assert_non_null(strstr(f->error.text, "belongs to user"));
}

static void test_refuses_link_and_file(void **state) {
	struct fixture *f = *state;
	char real[128];

	snprintf(real, sizeof(real), "%s/real", f->base);
	assert_int_equal(mkdir(real, 0700), 0);
	assert_int_equal(symlink(real, f->dir), 0);
	assert_int_equal(ensure(f), SNECK_EACCES);
	assert_int_equal(unlink(f->dir), 0);

	int fd = open(f->dir, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(ensure(f), SNECK_EACCES);
}

static void test_refuses_paths(void **state) {
	struct fixture *f = *state;
	char dir[256];

	setenv("SNECK_LOCAL_DIR", "relative/dir", 1);
	assert_int_equal(ensure(f), SNECK_EINVAL);
	assert_non_null(strstr(f->error.text, "absolute"));

	/* "/redis.sock" and the NUL need 12 of 108 bytes: 96 fit, 97 do not. */
	memset(dir, 'x', sizeof(dir));
	memcpy(dir, f->base, strlen(f->base));
	dir[strlen(f->base)] = '/';
	dir[97] = '\0';
	setenv("SNECK_LOCAL_DIR", dir, 1);
	assert_int_equal(ensure(f), SNECK_EINVAL);
	assert_non_null(strstr(f->error.text, "too long"));
	assert_int_equal(access(dir, F_OK), -1);
	dir[96] = '\0';
	setenv("SNECK_LOCAL_DIR", dir, 1);
	assert_int_equal(ensure(f), 0);
	memcpy(f->dir, dir, sizeof(f->dir)); /* teardown ends the server there */
}

/* ---- When it cannot be started --------------------------------------------------------------*/

static void test_reports_a_server_that_dies(void **state) {
	struct fixture *f = *state;
	int64_t begin_ms = test_now_ms();

	int r = ensure_with_program(f, "#!/bin/sh\necho first line\necho out of cheese\nexit 1\n");
	assert_int_equal(r, SNECK_ECONN);
	assert_non_null(strstr(f->error.text, "out of cheese"));
	assert_true(test_now_ms() - begin_ms < 5000); /* it does not wait for the deadline */
}

/* In an empty root directory no server is installed. */
static void test_names_the_package(void **state) {
	struct fixture *f = *state;
	int status;

	if (geteuid() != 0)
		skip();
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		setenv("SNECK_LOCAL_DIR", "/local", 1);
		if (chroot(f->base) < 0 || chdir("/") < 0)
			_exit(3);
		int r = ensure(f);
		_exit(r == SNECK_ECONN && strstr(f->error.text, "install the package redis-server") ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void) {
#define LOCAL_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		LOCAL_TEST(test_starts_and_finds_again),
		LOCAL_TEST(test_many_starters_one_server),
		LOCAL_TEST(test_starts_again_after_kill9),
		LOCAL_TEST(test_never_a_second_server),
		LOCAL_TEST(test_config),
		LOCAL_TEST(test_inherits_nothing),
		LOCAL_TEST(test_leaves_no_child),
		LOCAL_TEST(test_refuses_wrong_mode),
		LOCAL_TEST(test_umask_does_not_matter),
		LOCAL_TEST(test_refuses_another_owner),
		LOCAL_TEST(test_refuses_link_and_file),
		LOCAL_TEST(test_refuses_paths),
		LOCAL_TEST(test_reports_a_server_that_dies),
		LOCAL_TEST(test_names_the_package),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
