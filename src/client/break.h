/* SPDX-License-Identifier: MIT */
/* Breaking holds and waits of others, and having been broken. */
#ifndef SNECK_CLIENT_BREAK_H
#define SNECK_CLIENT_BREAK_H

#include "client/client.h"

/* Between snecki_client_enter and snecki_client_leave. */
int snecki_break(sneck_client *client, const void *name, size_t name_len, const char *id, const char *reason,
        int64_t grace_ms, sneck_error *reterr);

/* Locked: the hold turns BROKEN by the answer that is being dealt with. Remembers who and why. */
void snecki_hold_broken(sneck_client *client, sneck_hold *hold);

/* The program lets go of a broken hold: what was left of its grace is over. */
struct farewell {
	struct lock_op op;
	size_t name_len;
	char name[SNECK_NAME_MAX];
};
/* Locked, while the hold is there. False: nothing needs to be said, or another hold will say it. */
bool snecki_farewell_take(sneck_hold *hold, struct farewell *ret);
/* Unlocked. If the server does not hear of it, the grace just runs out. */
void snecki_farewell_say(sneck_client *client, const struct farewell *farewell, int64_t deadline_ns);

#endif
