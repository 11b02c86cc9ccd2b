/* SPDX-License-Identifier: MIT */
/* What a library owes its host: it leaves no descriptor, thread or signal behind, hands none of its
 * descriptors to a program that is started, is not upset by the host's signals, and raises none. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "locks.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

static int count_entries(const char *path) {
	DIR *dir = opendir(path);
	assert_non_null(dir);
	int n = 0;
	for (struct dirent *entry; (entry = readdir(dir));)
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

static void use_it(sneck_client *client) {
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 1000);
	assert_true(sneck_hold_fd(hold) >= 0);
	assert_true(sneck_client_fd(client) >= 0);
	test_release(hold);
}

static void a_closed_client_leaves_nothing(void **state) {
	(void)state;
	sneck_client *first = test_open(server->url);
	use_it(first);
	sneck_close(first);
	int fds = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");
	for (int i = 0; i < 30; i++) {
		sneck_client *client = test_open(server->url);
		if (i % 3)
			use_it(client);
		sneck_acquire_options options = test_waiting(0);
		options.tag = 1;
		/* An event that nobody reads, with a hold in it, and a hold that nobody releases. */
		if (i % 3 == 2) {
			assert_result(
			        0, sneck_acquire_start(client, "door", 4, SNECK_READ, &options, NULL), NULL);
			assert_true(test_readable(sneck_client_fd(client), 2000));
			assert_true(sneck_hold_fd(test_take(client, "window", SNECK_WRITE, 0)) >= 0);
		}
		sneck_close(client);
		assert_int_equal(test_members(server, "door", "RW"), 0);
	}
	assert_int_equal(count_entries("/proc/self/fd"), fds);
	assert_true(WAIT_UNTIL(count_entries("/proc/self/task") == threads, 2000));
}

static void no_descriptor_is_inherited(void **state) {
	(void)state;
	bool before[256];
	for (int fd = 0; fd < 256; fd++)
		before[fd] = fcntl(fd, F_GETFD) >= 0;
	sneck_client *client = test_open(server->url);
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 1000);
	assert_true(sneck_hold_fd(hold) >= 0);
	int new_ones = 0;
	for (int fd = 0; fd < 256; fd++) {
		int flags = fcntl(fd, F_GETFD);
		if (before[fd] || flags < 0)
			continue;
		new_ones++;
		if (!(flags & FD_CLOEXEC))
			fail_msg("descriptor %d survives exec", fd);
	}
	assert_true(new_ones >= 3);
	test_release(hold);
	sneck_close(client);
}

static atomic_int ticks;

static void tick(int sig) {
	(void)sig;
	atomic_fetch_add(&ticks, 1);
}

static void signals_do_not_disturb(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	/* Without SA_RESTART, so that every system call feels it. */
	struct sigaction act = { .sa_handler = tick }, old;
	sigaction(SIGALRM, &act, &old);
	struct itimerval often = { { 0, 500 }, { 0, 500 } }, never = { { 0, 0 }, { 0, 0 } };
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 200; i++) {
		sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 2000);
		sneck_acquire_options brief = test_waiting(20);
		sneck_hold *none = NULL;
		if (i % 20 == 0) {
			int64_t start_ms = test_now_ms();
			assert_result(SNECK_ETIMEDOUT,
			        sneck_acquire(b, "door", SNECK_WRITE, &brief, &none, NULL), NULL);
			assert_true(test_now_ms() - start_ms >= 19);
		}
		test_release(hold);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &old, NULL);
	assert_true(atomic_load(&ticks) > 50);
	assert_int_equal(test_stats(a).disconnects, 0);
	sneck_close(a);
	sneck_close(b);
}

static void signals_stay_as_they_were(void **state) {
	(void)state;
	struct sigaction before[32], after;
	sigset_t mask_before, mask_after;
	pthread_sigmask(SIG_SETMASK, NULL, &mask_before);
	for (int sig = 1; sig < 32; sig++)
		sigaction(sig, NULL, &before[sig]);
	sneck_client *client = test_open_command_ms(server->url, 500);
	use_it(client);
	/* A line that breaks while it is written to: no SIGPIPE, which would end this program. */
	for (int i = 0; i < 20; i++) {
		test_redis_ok(server, "CLIENT KILL TYPE normal SKIPME yes");
		sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 3000);
		test_redis_ok(server, "CLIENT KILL TYPE normal SKIPME yes");
		assert_result(0, sneck_release(hold), NULL);
	}
	for (int sig = 1; sig < 32; sig++) {
		sigaction(sig, NULL, &after);
		assert_ptr_equal(
		        (void *)(uintptr_t)before[sig].sa_handler, (void *)(uintptr_t)after.sa_handler);
	}
	pthread_sigmask(SIG_SETMASK, NULL, &mask_after);
	for (int sig = 1; sig < 32; sig++)
		assert_int_equal(sigismember(&mask_before, sig), sigismember(&mask_after, sig));
	sneck_close(client);
}

/* Signals sent to the process are the host's: the library's threads take none of them. */
static void the_background_takes_no_signals(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	use_it(client);
	sigset_t only, old;
	sigemptyset(&only);
	sigaddset(&only, SIGUSR1);
	struct sigaction act = { .sa_handler = tick }, before;
	sigaction(SIGUSR1, &act, &before);
	pthread_sigmask(SIG_BLOCK, &only, &old);
	atomic_store(&ticks, 0);
	kill(getpid(), SIGUSR1);
	/* Blocked here, so any other thread that lets it in would have run the handler by now. */
	use_it(client);
	assert_int_equal(atomic_load(&ticks), 0);
	int sig = 0;
	assert_int_equal(sigwait(&only, &sig), 0);
	assert_int_equal(sig, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	sigaction(SIGUSR1, &before, NULL);
	sneck_close(client);
}

/* The host's standard streams are not the library's, whatever goes wrong. */
static void nothing_is_printed(void **state) {
	(void)state;
	int out = dup(1), err = dup(2);
	char path[128];
	snprintf(path, sizeof(path), "%s/printed", server->dir);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	fflush(NULL);
	dup2(fd, 1);
	dup2(fd, 2);
	sneck_client *client = NULL;
	int opened = sneck_open("redis://127.0.0.1:1", NULL, &client, NULL);
	sneck_hold *hold = NULL;
	int r = sneck_acquire(client, "door", SNECK_WRITE, NULL, &hold, NULL);
	sneck_close(client);
	int bad = sneck_open("nonsense://", NULL, &client, NULL);
	fflush(NULL);
	dup2(out, 1);
	dup2(err, 2);
	close(out);
	close(err);
	assert_result(0, opened, NULL);
	assert_result(SNECK_ECONN, r, NULL);
	assert_result(SNECK_EINVAL, bad, NULL);
	assert_int_equal(lseek(fd, 0, SEEK_END), 0);
	close(fd);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(a_closed_client_leaves_nothing),
		TEST(no_descriptor_is_inherited),
		TEST(signals_do_not_disturb),
		TEST(signals_stay_as_they_were),
		TEST(the_background_takes_no_signals),
		TEST(nothing_is_printed),
	};
	return TEST_RUN(tests);
}
