/* SPDX-License-Identifier: MIT */
/* Holds that no session keeps: renewed and released by their id, with a record of their own. */
#ifndef SNECK_CLIENT_DETACHED_H
#define SNECK_CLIENT_DETACHED_H

#include "client/client.h"

/* All between snecki_client_enter and snecki_client_leave, with an id that is one of a detached hold. */
int snecki_renew_id(sneck_client *client, const void *name, size_t name_len, const char *id, int64_t lease_ms,
        uint64_t *ret_token, int64_t *ret_left_ms, sneck_error *reterr);
int snecki_release_id(
        sneck_client *client, const void *name, size_t name_len, const char *id, sneck_error *reterr);

/* A hold of ours has just been detached: leave word of who did it, for as long as its lease. */
void snecki_detached_record(sneck_client *client, const char *id, int64_t lease_ms, int64_t deadline_ns);
/* The hold `id` is no more, or somebody's: its record can go. Waits for no answer after the deadline. */
void snecki_detached_forget(sneck_client *client, const char *id, int64_t deadline_ns);

#endif
