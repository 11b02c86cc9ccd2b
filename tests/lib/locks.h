/* SPDX-License-Identifier: MIT */
/* What the tests of the public interface share: short ways to open, take and release that fail the
 * test when they fail, a call that runs on a thread of its own, and eyes on the server.
 *
 * The layout of a lock on the server is known here and nowhere else in these tests: one sorted set
 * per name, the kind of a member in its first letter. */
#ifndef TESTS_LIB_LOCKS_H
#define TESTS_LIB_LOCKS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sneck/sneck.h>

#include "server.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif
#if defined(__SANITIZE_THREAD__)
#define TEST_THREAD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_THREAD_SANITIZED 1
#endif
#endif
#ifndef TEST_THREAD_SANITIZED
#define TEST_THREAD_SANITIZED 0
#endif

/* How late a thing may come because the machine is busy. */
#define TEST_SLACK_MS (TEST_SANITIZED ? 1000 : 300)

/* The server of the program: tests/lib owns it because nearly every program has exactly one. Which
 * topology it is the face of, and who clients log in as, is the environment's choice (topology.h).
 * up and down are for cmocka's group, clean (an empty keyspace) is for each test. */
extern struct test_server test_the_server;
int test_server_up(void **state);
int test_server_down(void **state);
int test_server_clean(void **state);
#define TEST(function) cmocka_unit_test_setup(function, test_server_clean)
/* What is about one connection to one plain server, or about a server that the test starts itself: no part of
 * the run on other topologies. */
#define TEST_PLAIN(function) cmocka_unit_test_setup(function, test_server_clean_plain)
int test_server_clean_plain(void **state);
/* Run a program's tests on the topology of the environment: those that belong there. The result of main(). */
#define TEST_RUN(tests) test_run(#tests, tests, sizeof(tests) / sizeof((tests)[0]))
struct CMUnitTest;
int test_run(const char *group, const struct CMUnitTest *tests, size_t n);

/* Fails with both results by name, and the error's text. */
#define assert_result(expected, call, error) \
	test_assert_result((expected), (call), (error), #call, __FILE__, __LINE__)
void test_assert_result(
        int expected, int result, const sneck_error *error, const char *call, const char *file, int line);

sneck_client *test_open(const char *url);
/* Connect, and close again: the result, and what it says. */
int test_connect(const char *url, sneck_error *ret_error);
/* With a command time other than the default, for tests that wait for it to pass. */
sneck_client *test_open_command_ms(const char *url, uint32_t command_ms);

/* Wait until it is connected to the server that has this lock: for those with a short command time, in which
 * a busy machine may not come through TLS and sentinels. */
void test_await_link(sneck_client *client, const char *name);

sneck_acquire_options test_waiting(int64_t wait_ms);
/* Take `name`, or fail the test. */
sneck_hold *test_take(sneck_client *client, const char *name, sneck_mode mode, int64_t wait_ms);
sneck_hold *test_take_opts(
        sneck_client *client, const char *name, sneck_mode mode, const sneck_acquire_options *options);
/* Ask for `name` without waiting: the result; a hold that is got is released at once. */
int test_probe(sneck_client *client, const char *name, sneck_mode mode);
/* Release, or fail the test. */
void test_release(sneck_hold *hold);
sneck_counters test_stats(sneck_client *client);

/* Wait for the next event; false: none in time. */
bool test_next_event(sneck_client *client, sneck_event *ret_event, int timeout_ms);
/* For layouts whose waiters ask again: wait until two questions of `client` were so far apart (150 ms) that
 * the next one is that far off as well. The time of the last one: what comes sooner after it is the doing of
 * a message. */
int64_t test_await_long_pause(sneck_client *client);
/* Is the descriptor readable within that time? */
bool test_readable(int fd, int timeout_ms);

/* An acquire on a thread of its own, with an owner of its own, so that the hold outlives the
 * thread and may be released from any. */
struct test_call {
	sneck_client *client;
	const char *name;
	sneck_mode mode;
	sneck_acquire_options options;
	sneck_hold *upgrade; /* set: upgrade this hold instead */
	atomic_bool done;
	int result;
	int64_t end_ms; /* test_now_ms() when it returned */
	sneck_hold *hold;
	sneck_error error;
	pthread_t thread;
};
/* `options` may be NULL: wait 10 s. An owner is chosen unless the options name one. */
void test_call_start(struct test_call *call, sneck_client *client, const char *name, sneck_mode mode,
        const sneck_acquire_options *options);
void test_call_start_upgrade(struct test_call *call, sneck_hold *hold, const sneck_acquire_options *options);
/* Wait for its end (10 s at most, else the test fails); its result. */
int test_call_join(struct test_call *call);

/* ---- Eyes on the server. These end the program when the server does not answer, and may be used on
 * any thread. -------------------------------------------------------------------------------------*/

/* The key of `name` in the default namespace; names without '%', '{', '}' only. */
const char *test_key(const char *name, char out[160]);
/* Members of the lock whose first letter is in `kinds`: "RW" holders (whose time is not over), "rwu"
 * waiters, "x" buried. */
long test_members(const struct test_server *server, const char *name, const char *kinds);
/* Score of the first member of one of these kinds; 0: none. */
double test_score(const struct test_server *server, const char *name, const char *kinds);
/* Wait until exactly `count` members of these kinds are there; false: not in time. */
bool test_await_members(
        const struct test_server *server, const char *name, const char *kinds, long count, int timeout_ms);
/* Nothing is left but the token, what is buried, and holders whose time is over; all of it has an end,
 * and so has the key. */
bool test_is_idle(const struct test_server *server, const char *name);
/* How many channels anybody listens to, of those that have `part` in their names; each server counts its own,
 * and both kinds are counted, plain and sharded ones. */
long test_channels(const struct test_server *server, const char *part);
/* Say something to a session, on each channel on which it listens: on how many. */
long test_say(const struct test_server *server, const char *session, const void *text, size_t len);
/* Keys that match, on all servers. */
long test_count_keys(const struct test_server *server, const char *pattern);
/* The server's clock, in milliseconds. */
int64_t test_server_ms(const struct test_server *server);

#endif
