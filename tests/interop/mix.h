/* SPDX-License-Identifier: MIT */
/* Java and sneck at random on one lock for a while, with a counter that must come out exact. */
#ifndef TESTS_INTEROP_MIX_H
#define TESTS_INTEROP_MIX_H

#include "java.h"

/* `object` is Java's name of the exclusive side ("write": readers take part). Fails the test if the counter
 * is wrong, if anybody was inside beside a writer, or if one side did nothing. */
void mix_run(struct java *java, const struct test_server *server, const char *object, const char *dialect,
        int for_ms);

#endif
