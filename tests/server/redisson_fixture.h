/* SPDX-License-Identifier: MIT */
/* Redisson's layouts against a real server, one operation at a time: requests go through the dialect's
 * encoder, answers through its decoder, and the whole keyspace is compared as text.
 *
 * Time is never waited for: a test ends a lease by removing the key that carries it. */
#ifndef TESTS_SERVER_REDISSON_FIXTURE_H
#define TESTS_SERVER_REDISSON_FIXTURE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
#include <sneck/error.h>

#include "dialect/dialect.h"
#include "server.h"

enum { LEASE_MS = 30000, BURY_MS = 60000 };

/* Their UUIDs are "A", "B", "C": owners are A:1, A:2, B:1 … */
extern const struct dialect_session A, B, C;

/* The group's server; each test begins with an empty keyspace, the dialect of the group, the lock "t", and a
 * subscription to every channel. */
int redisson_up(const struct dialect *dialect);
int redisson_down(void **state);
int redisson_clean(void **state);
#define REDISSON_TEST(function) cmocka_unit_test_setup(function, redisson_clean)
extern const char *redisson_name;
extern const struct dialect *redisson_dialect;

struct lock_op redisson_op(enum lock_op_kind kind, char mode, uint64_t attempt);
struct lock_outcome redisson_run(const struct dialect_session *session, const struct lock_op *op);
/* The detail of the last failure, and what the last answer gave as Redisson's own return value. */
extern sneck_error redisson_error;
extern char redisson_verdict[32];

struct lock_outcome acquire(const struct dialect_session *session, char mode, uint64_t attempt); /* waits */
struct lock_outcome try_acquire(const struct dialect_session *session, char mode, uint64_t attempt);
struct lock_outcome beat(const struct dialect_session *session, char mode, uint64_t attempt);
struct lock_outcome release(const struct dialect_session *session, char mode, uint64_t attempt);
struct lock_outcome cancel(const struct dialect_session *session, char mode, uint64_t attempt);
/* Cancel and bury the attempt itself. */
struct lock_outcome withdraw(const struct dialect_session *session, char mode, uint64_t attempt);
struct lock_outcome renew(
        const struct dialect_session *session, char mode, uint64_t attempt, uint32_t reads, uint32_t writes);
struct lock_outcome downgrade(
        const struct dialect_session *session, uint64_t attempt, uint64_t old, uint32_t reads);

/* Run and require a status. */
#define expect(status_, call) redisson_expect((status_), (call), #call, __FILE__, __LINE__)
struct lock_outcome redisson_expect(
        enum lock_status status, struct lock_outcome outcome, const char *call, const char *file, int line);

/* Every key of the server in order, `key{field=value …}`, `key=value`, `key[item …]`, `key<member …>`. */
#define assert_keys(text) redisson_assert_keys((text), __FILE__, __LINE__)
void redisson_assert_keys(const char *expected, const char *file, int line);
/* `channel payload` of every message since the last time, with a line end behind each. */
#define assert_heard(text) redisson_assert_heard((text), __FILE__, __LINE__)
void redisson_assert_heard(const char *expected, const char *file, int line);
/* The key has this time to live, give or take what a test takes. */
#define assert_ttl(key, ms) redisson_assert_ttl((key), (ms), __FILE__, __LINE__)
void redisson_assert_ttl(const char *key, long long ms, const char *file, int line);

/* Run a command that must not fail; integer reply or 0. */
long long redisson_do(const char *format, ...);

#endif
