/* SPDX-License-Identifier: MIT */
/* One lock core on the bench: time is a number, and the test plays the server by hand. */
#ifndef TESTS_UNIT_BENCH_H
#define TESTS_UNIT_BENCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <sneck/error.h>

#include "base/clock.h"
#include "lock/core.h"

enum { BENCH_WAIT_LEASE_MS = 3000, BENCH_BEAT_MS = 1000, LEASE_MS = 30000 };
enum { MARGIN_MS = LEASE_MS / 100, VALID_MS = LEASE_MS - MARGIN_MS };

/* What the program asked for, and its handle of the hold. */
struct deed {
	struct lock_wish wish;
	struct lock_hold hold;
	int states;           /* changes that the program was told */
	enum hold_state told; /* the last of them */
};

struct bench {
	struct lock_core *core;
	int64_t now_ns;
	int64_t server_ahead_us; /* how far the server's clock has jumped */
	uint64_t token;          /* the last of the lock */
	struct list sent;        /* requests that the test has not looked at */
	size_t sent_n;
	bool verify_grants;
	int listening; /* attempts that want to hear when the lock may be free */
};

int bench_setup(void **state);
int bench_setup_layout(void **state, const struct lock_traits *traits); /* what the server cannot do */
int bench_teardown(void **state);
struct bench *bench_of(void **state);

/* The program. A deed is made, perhaps changed, and begun. All are freed at the end. */
struct deed *new_deed(struct bench *bench, uint64_t owner, char mode);
void begin(struct bench *bench, struct deed *deed);                /* acquire "name" */
struct deed *take(struct bench *bench, uint64_t owner, char mode); /* new, with LEASE_MS, and begun */
struct deed *take_fixed(struct bench *bench, uint64_t owner, char mode, int64_t lease_ms);
/* A wish about a hold; its own deed, done or not. */
struct deed *ask(struct bench *bench, enum wish_kind kind, struct deed *held);
struct deed *adopt(struct bench *bench, uint64_t owner, const char *id);
bool has(const struct deed *deed);    /* done, with success, and valid now */
int code_of(const struct deed *deed); /* 1: not done yet */
void give_up(struct bench *bench, struct deed *deed, int code);

/* The server. */
struct lock_call *expect(struct bench *bench, enum lock_op_kind kind); /* the next request is of this kind */
void expect_silence(const struct bench *bench);
void grant(struct bench *bench, struct lock_call *call);   /* under a new token */
void confirm(struct bench *bench, struct lock_call *call); /* granted, under the last token */
void queue_up(struct bench *bench, struct lock_call *call);
void answer(struct bench *bench, struct lock_call *call, enum lock_status status);
void answer_outcome(struct bench *bench, struct lock_call *call, const struct lock_outcome *outcome);
void lose_link(struct bench *bench, struct lock_call *call); /* it was never sent */
void reconnect(struct bench *bench);                         /* after all that was sent so far */
struct lock_outcome outcome_of(const struct bench *bench, enum lock_status status);
void hear_grant(struct bench *bench, uint64_t attempt); /* a message: granted under a new token */
/* The same, and whether another session waits behind it. */
void hear_full_grant(struct bench *bench, uint64_t attempt, bool wanted);
void hear_wanted(struct bench *bench, uint64_t attempt);
void pass_ms(struct bench *bench, int64_t ms); /* with timers when they are due */

/* The usual beginning: taken, and granted. */
struct deed *hold_it(struct bench *bench, uint64_t owner, char mode);
void release_done(struct bench *bench, struct deed *held); /* released, and the server has said so */

#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)

#endif
