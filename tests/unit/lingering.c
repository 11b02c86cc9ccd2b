/* SPDX-License-Identifier: MIT */
#include "lingering.h"

struct deed *new_lingering(struct bench *bench, uint64_t owner, char mode, int64_t linger_ms) {
	struct deed *deed = new_deed(bench, owner, mode);

	deed->wish.linger_ms = linger_ms;
	return deed;
}

struct deed *take_lingering(struct bench *bench, uint64_t owner, char mode) {
	struct deed *deed = new_lingering(bench, owner, mode, LINGER_MS);

	begin(bench, deed);
	return deed;
}

struct deed *hold_lingering(struct bench *bench, uint64_t owner, char mode) {
	struct deed *deed = take_lingering(bench, owner, mode);

	grant(bench, expect(bench, OP_ACQUIRE));
	assert_true(has(deed));
	return deed;
}

void let_linger(struct bench *bench, struct deed *held) {
	assert_int_equal(code_of(ask(bench, WISH_RELEASE, held)), 0);
	expect_silence(bench);
}

void begin_lingering(struct bench *bench, char mode) {
	let_linger(bench, hold_lingering(bench, 1, mode));
}

void gone(struct bench *bench) {
	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	expect_silence(bench);
	assert_int_equal(snecki_core_next_due(bench->core), NS_NEVER);
}
