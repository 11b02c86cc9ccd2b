/* SPDX-License-Identifier: MIT */
/* Breaking holds and waits of others, and having been broken. */
#ifndef SNECK_CLIENT_BREAK_H
#define SNECK_CLIENT_BREAK_H

#include "client/client.h"

/* Between snecki_client_enter and snecki_client_leave. */
int snecki_break(sneck_client *client, const void *name, size_t name_len, const char *id, const char *reason,
        int64_t grace_ms, sneck_error *reterr);

/* Until when others are certainly kept out, if the server said `kept_ms` to a request of `sent_ns`, or later;
 * 0: that cannot be said. */
int64_t snecki_kept_until(const sneck_client *client, int64_t kept_ms, int64_t sent_ns);
/* Locked: a message says how long `attempt` is kept. If it was known to be broken, an operator has cut its
 * grace. Believed without proof, for it only makes the program stop sooner. */
void snecki_grace_cut(sneck_client *client, uint64_t attempt, int64_t kept_ms);
/* Locked: the hold turns BROKEN by the answer that is being dealt with. Remembers who and why. */
void snecki_hold_broken(sneck_client *client, sneck_hold *hold);

/* The program lets go of a broken hold: what was left of its grace is over. */
struct farewell {
	const struct dialect *dialect;
	struct lock_op op;
	size_t name_len;
	char name[SNECK_NAME_MAX];
};
/* Locked, while the hold is there. False: nothing needs to be said, or another hold will say it. */
bool snecki_farewell_take(sneck_hold *hold, struct farewell *ret);
/* Unlocked. If the server does not hear of it, the grace just runs out. */
void snecki_farewell_say(sneck_client *client, const struct farewell *farewell, int64_t deadline_ns);

#endif
