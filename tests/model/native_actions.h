/* SPDX-License-Identifier: MIT */
/* What a session of the model may do by itself: native_moves.c says when, native_actor.c does it. */
#ifndef TESTS_MODEL_NATIVE_ACTIONS_H
#define TESTS_MODEL_NATIVE_ACTIONS_H

enum action {
	ACQUIRE_READ,
	ACQUIRE_WRITE,
	ACQUIRE_PREFERRED,
	TRY_WRITE,
	ADOPT,
	BEAT,
	CANCEL,
	RELEASE,
	RENEW,
	UPGRADE,
	TRY_UPGRADE,
	DOWNGRADE,
	USE_NEXT, /* a local hand-over: the next number without asking */
	EXTRA_READ,
	EXTRA_WRITE,
	END_EXTRA,
	DETACH,
	RESEND,
	ABANDON
};

#endif
