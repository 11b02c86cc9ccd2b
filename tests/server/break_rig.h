/* SPDX-License-Identifier: MIT */
/* What the tests of breaking share: a victim that listens, and an operator who breaks what it sees first. */
#ifndef TESTS_SERVER_BREAK_RIG_H
#define TESTS_SERVER_BREAK_RIG_H

#include "locks.h"

#define RIG_REASON "it hangs"

/* One that says who it is, and so hears of a break at once. */
sneck_client *rig_open_as(const char *user);
bool rig_listens(const char *session);
void rig_await_listener(sneck_client *client);
/* The id of the first party of this kind. */
const char *rig_id_of(sneck_client *client, const char *name, int kind, char out[SNECK_ID_MAX]);
/* Break it, for RIG_REASON. */
void rig_break_first(sneck_client *client, const char *name, int kind, int64_t grace_ms);
bool rig_is_broken(const sneck_hold *hold);

#endif
