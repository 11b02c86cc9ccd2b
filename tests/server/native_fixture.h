/* SPDX-License-Identifier: MIT */
/* The native dialect against a real server, one operation at a time: requests go through the
 * dialect's encoder and answers through its decoder, states are compared as text.
 *
 * Time is never waited for. A test ends a lease by writing a deadline of long ago into the lock. */
#ifndef TESTS_SERVER_NATIVE_FIXTURE_H
#define TESTS_SERVER_NATIVE_FIXTURE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>
#include <sneck/error.h>

#include "dialect/native/native.h"
#include "server.h"

enum { LEASE_MS = 30000, WAIT_LEASE_MS = 3000, KEEP_MS = 10000, BURY_MS = 60000 };

/* Sessions of the tests. */
extern const struct dialect_session A, B, C, D;

/* For cmocka: one server for the program, an empty keyspace for each test. */
int native_up(void **state);
int native_down(void **state);
int native_clean(void **state);
#define NATIVE_TEST(function) cmocka_unit_test_setup(function, native_clean)

extern redisContext *native_redis;
/* The lock of the tests: "t" in namespace "sneck". */
#define KEY "sneck:{t}"

/* Operations with the usual times; change fields before native_run() if need be. */
struct lock_op native_op(enum lock_op_kind kind, char mode, uint64_t attempt);
struct lock_outcome native_run(const struct dialect_session *session, const struct lock_op *op);
struct lock_outcome native_run_name(
        const struct dialect_session *session, const struct lock_op *op, const char *name, size_t name_len);
/* The detail of the last LOCK_FAILED. */
extern sneck_error native_error;

/* The plain forms. */
struct lock_outcome acquire(const struct dialect_session *session, char mode, uint64_t attempt); /* queue */
struct lock_outcome try_acquire(const struct dialect_session *session, char mode, uint64_t attempt);
struct lock_outcome beat(const struct dialect_session *session, char mode, uint64_t attempt);
struct lock_outcome release(const struct dialect_session *session, char mode, uint64_t attempt);
struct lock_outcome renew(const struct dialect_session *session, char mode, uint64_t attempt);
struct lock_outcome cancel(const struct dialect_session *session, char mode, uint64_t attempt);
/* Cancel and bury the attempt itself. */
struct lock_outcome withdraw(const struct dialect_session *session, char mode, uint64_t attempt);
struct lock_outcome upgrade(const struct dialect_session *session, uint64_t attempt, uint64_t old);
struct lock_outcome downgrade(const struct dialect_session *session, uint64_t attempt, uint64_t old);
struct lock_outcome upgrade_beat(const struct dialect_session *session, uint64_t attempt, uint64_t old);
struct lock_outcome upgrade_cancel(const struct dialect_session *session, uint64_t attempt, uint64_t old);
struct lock_outcome rename_hold(const struct dialect_session *session, const char *id, uint64_t attempt);
struct lock_outcome advance(const struct dialect_session *session);

/* Run and require a status; gives the outcome for further checks. */
#define expect(status_, call) native_expect((status_), (call), #call, __FILE__, __LINE__)
struct lock_outcome native_expect(
        enum lock_status status, struct lock_outcome outcome, const char *call, const char *file, int line);

/* The members without the token: waiters in order, then the others by name, e.g. "wB.1 WA.1 lB.1";
 * "" for an idle lock, "-" without a key. */
#define assert_state(text) native_assert_state((text), __FILE__, __LINE__)
void native_assert_state(const char *expected, const char *file, int line);

/* Scores as they stand; fails the test when the member is not there. */
int64_t native_score(const char *member);
int64_t native_pexpiretime(void);
int64_t native_now_ms(void);
/* End the lease of a holder ("WA.1") or of a waiter ("lA.1") long ago. */
void native_end_lease(const char *member);
/* Run a command that must not fail; integer reply or 0. */
long long native_do(const char *format, ...);

/* Messages: subscribe to the channels of all sessions, then read what came since, one line each:
 * "A g 1" (a grant to attempt 1), "B w 2"; "" for none. Grants are checked against the state. */
void native_listen(void);
const char *native_heard(void);

#endif
