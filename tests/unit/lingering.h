/* SPDX-License-Identifier: MIT */
/* The bench, with holds that linger after their release. */
#ifndef SNECK_TESTS_LINGERING_H
#define SNECK_TESTS_LINGERING_H

#include "bench.h"

enum { LINGER_MS = 5000, LEAST_MS = 1, MARK_MS = 50 };

struct deed *new_lingering(struct bench *bench, uint64_t owner, char mode, int64_t linger_ms);
struct deed *take_lingering(struct bench *bench, uint64_t owner, char mode); /* asked for */
struct deed *hold_lingering(struct bench *bench, uint64_t owner, char mode); /* and granted */
void let_linger(struct bench *bench, struct deed *held); /* released, and the server has not heard of it */
void begin_lingering(struct bench *bench, char mode);    /* held by attempt 1, and released */
void gone(struct bench *bench);                          /* given back, and nothing is left */

#endif
