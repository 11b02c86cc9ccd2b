/* SPDX-License-Identifier: MIT */
/* A dialect of another program's layout against a real server, one operation at a time: requests go through
 * the dialect's encoder and answers through its decoder, and the whole keyspace is compared as text.
 *
 * Owners are written as session and attempt, `A.1`, wherever they stand. Time is never waited for. */
#ifndef TESTS_SERVER_LAYOUT_FIXTURE_H
#define TESTS_SERVER_LAYOUT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>
#include <sneck/sneck.h>

#include "dialect/dialect.h"
#include "server.h"

enum { LEASE_MS = 30000, WAIT_LEASE_MS = 3000, BURY_MS = 60000 };

/* Sessions of the tests. */
extern const struct dialect_session A, B, C;

/* For cmocka: one server for the program, an empty keyspace for each test. The program sets the dialect
 * before its tests run. */
extern const struct dialect *layout_dialect;
int layout_up(void **state);
int layout_down(void **state);
int layout_clean(void **state);
#define LAYOUT_TEST(function) cmocka_unit_test_setup(function, layout_clean)
/* The same, and every message is heard from the beginning. */
int layout_clean_and_listen(void **state);
#define LAYOUT_HEARING_TEST(function) cmocka_unit_test_setup(function, layout_clean_and_listen)

/* The lock of the operations below; "t" at the beginning of each test. */
extern const char *layout_name;

/* An operation with the usual times, of one hold. */
struct lock_op layout_op(enum lock_op_kind kind, char mode, uint64_t attempt);
struct lock_outcome layout_run(const struct dialect_session *session, const struct lock_op *op);
struct lock_outcome layout_run_name(
        const struct dialect_session *session, const struct lock_op *op, const char *name);
/* The detail of the last LOCK_FAILED, and what the document returns, from the last answer. */
extern sneck_error layout_error;
extern char layout_verdict[64];

/* The plain forms. */
struct lock_outcome acquire(const struct dialect_session *session, char mode, uint64_t attempt); /* waits */
struct lock_outcome try_acquire(const struct dialect_session *session, char mode, uint64_t attempt);
struct lock_outcome beat(const struct dialect_session *session, char mode, uint64_t attempt);
struct lock_outcome release(const struct dialect_session *session, char mode, uint64_t attempt);
struct lock_outcome cancel(const struct dialect_session *session, char mode, uint64_t attempt);
/* Cancel, and bury the attempt itself. */
struct lock_outcome withdraw(const struct dialect_session *session, char mode, uint64_t attempt);
struct lock_outcome renew(
        const struct dialect_session *session, char mode, uint64_t attempt, uint32_t reads, uint32_t writes);
struct lock_outcome upgrade(const struct dialect_session *session, uint64_t attempt, uint64_t old);
struct lock_outcome upgrade_cancel(const struct dialect_session *session, uint64_t attempt, uint64_t old);
struct lock_outcome downgrade(const struct dialect_session *session, uint64_t attempt, uint64_t old);

/* Run and require a status; gives the outcome for further checks. */
#define expect(status_, call) layout_expect((status_), (call), #call, __FILE__, __LINE__)
struct lock_outcome layout_expect(
        enum lock_status status, struct lock_outcome outcome, const char *call, const char *file, int line);

/* Who stands in the way. */
void layout_assert_holder(const struct lock_outcome *outcome, char mode,
        const struct dialect_session *session, uint64_t attempt);

/* Everything on the server, by name: "t{mode=read r:A.1=1 rcount=1} {t}:sneck_buried:A.2=1"; "" for
 * nothing. A list is "l[a b]", a sorted set "z<a b>". */
#define assert_keys(text) layout_assert_keys((text), __FILE__, __LINE__)
void layout_assert_keys(const char *expected, const char *file, int line);
/* What a key has left, in milliseconds. Owners in `key` are written out. */
int64_t layout_pttl(const char *key);
/* The key has this left, give or take what a test takes. */
#define assert_ttl(key, ms) layout_assert_ttl((key), (ms), __FILE__, __LINE__)
void layout_assert_ttl(const char *key, int64_t ms, const char *file, int line);
/* Run a command that must not fail; its answer as a number, or 0. Owners in the words are written out. */
long long layout_do(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* How often the server has run a command, in scripts as well; its clock. */
long layout_calls(const char *command);
int64_t layout_now_ms(void);

/* Look and break as the client does. free(info.parties). */
sneck_lock_info layout_inspect(const char *name);
int layout_break(const char *id);

/* Subscribe to everything; then what was published since, "channel payload" and a newline each. */
void layout_listen(void);
const char *layout_heard(void);
#define assert_heard(text) assert_string_equal(layout_heard(), (text))

#endif
