/* SPDX-License-Identifier: MIT */
/* What the files of the public interface share: checking arguments. */
#ifndef SNECK_API_API_H
#define SNECK_API_API_H

#include "client/client.h"

/* An acquire's arguments, checked and with defaults filled in. */
struct acquire_args {
	sneck_acquire_options options;
	const struct dialect *dialect;
	int64_t deadline_ns;        /* of the wait; 0: not yet known, as … */
	int64_t answer_deadline_ns; /* … that of the server's first word */
};

int snecki_check_name(const sneck_client *client, const void *name, size_t name_len, sneck_error *reterr);
int snecki_check_lease(int64_t lease_ms, bool fixed, sneck_error *reterr);
/* SNECK_EINVAL: no id of a hold. SNECK_ENOTOWNER: a program has the hold. */
int snecki_check_detached(const struct dialect *dialect, const char *id, sneck_error *reterr);
int snecki_load_acquire(const sneck_client *client, const sneck_acquire_options *options,
        struct acquire_args *ret, sneck_error *reterr);
/* The same for an upgrade, which asks for as many replicas as the hold did unless it says something else. */
int snecki_load_upgrade(const sneck_hold *hold, const sneck_acquire_options *options,
        struct acquire_args *ret, sneck_error *reterr);
/* From when the call began, or nearly so: the clock is not read for a call that need not wait. */
void snecki_acquire_deadlines(const sneck_client *client, struct acquire_args *args, int64_t now_ns);
/* The same, and the name and the mode. */
int snecki_check_acquire(const sneck_client *client, const void *name, size_t name_len, sneck_mode mode,
        const sneck_acquire_options *options, struct acquire_args *ret, sneck_error *reterr);

#endif
