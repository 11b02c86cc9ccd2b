/* SPDX-License-Identifier: MIT */
/* The real scripts on a real server as a function: state, time and request in, state, reply and
 * messages out. So a program can go back to any earlier state and try what else might have happened.
 *
 * Time is the caller's: the scripts' one call of TIME reads a list that is set before each run, and
 * their PUBLISH appends to a list. Nothing else of their text is changed. The times lie decades
 * ahead, so the server's own clock never ends a key; native_server_expire() does it by the
 * caller's. */
#ifndef TESTS_MODEL_NATIVE_SERVER_H
#define TESTS_MODEL_NATIVE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "dialect/native/native.h"

enum { MODEL_MEMBERS = 160, MODEL_NOTES = 32, MODEL_NAME = 24 };

struct model_member {
	char name[MODEL_NAME];
	int64_t score;
};

/* One lock, in the order of the sorted set. Unused entries are zero, so that two equal states are
 * equal as bytes. */
struct model_state {
	int n; /* 0: no key */
	int pad;
	int64_t expires_ms;
	struct model_member members[MODEL_MEMBERS];
};

struct model_note {
	char session[MODEL_NAME];
	struct lock_note note;
};

struct model_result {
	struct lock_outcome outcome;
	bool differs; /* OP_RENEW: as one of many it would have done something else */
	int notes_n;
	struct model_note notes[MODEL_NOTES];
};

/* Start the server. False: said on stderr. */
bool native_server_up(void);
/* Load the scripts, with `faults` (NULL: none): pairs of texts, the first of which is replaced by the
 * second wherever it stands; ends with NULL. False: it stands nowhere, or the result does not
 * compile; said on stderr. */
bool native_server_load(const char *const *faults);
void native_server_down(void);

/* Run `op` of `session` on `state` at server time `now_us`. A renewal that may be one of many is tried so as
 * well, on a copy. */
void native_server_run(struct model_state *state, const struct dialect_session *session,
        const struct lock_op *op, int64_t now_us, struct model_result *ret);
/* Break the hold or wait `id` (which must be there). */
void native_server_break(struct model_state *state, const struct dialect_session *session, const char *id,
        int64_t grace_ms, int64_t now_us, struct model_result *ret);
/* The key ends when its time is over. */
void native_server_expire(struct model_state *state, int64_t now_us);

#endif
