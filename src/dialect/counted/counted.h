/* SPDX-License-Identifier: MIT */
/* The counted layout, for the list of dialects and for tests. */
#ifndef SNECK_DIALECT_COUNTED_H
#define SNECK_DIALECT_COUNTED_H

#include "dialect/dialect.h"

enum { COUNTED_OWNER_MAX = 36 };

/* The UUID under which an attempt of this session is an owner. */
void snecki_counted_owner(
        const struct dialect_session *session, uint64_t attempt, char ret_owner[COUNTED_OWNER_MAX + 1]);

extern const struct dialect snecki_counted;

#endif
