/* SPDX-License-Identifier: MIT */
/* Eyes on locks of other programs' layouts, for test programs that are run on several dialects:
 * SNECK_TEST_DIALECT names the one that clients are to be opened with; without it, the native one. The eyes
 * of locks.h use these then. */
#ifndef TESTS_LIB_LAYOUTS_H
#define TESTS_LIB_LAYOUTS_H

#include <stdbool.h>
#include <stddef.h>

#include <sneck/sneck.h>

#include "server.h"

/* For sneck_client_options.dialect. NULL: native. */
const char *test_dialect(void);

/* Some of Redisson's objects are mutexes. */
bool test_layout_has_read(void);

/* As test_members: "R" and "W" are owners. These layouts have no queue; "w" or "u" alone are the sessions
 * that listen for the lock, all of "rwu" the marks that somebody waits. Redisson's fair lock has one: both
 * are who is in it. */
long test_layout_members(const struct test_server *server, const char *name, const char *kinds);
/* How many holds the server counts. */
long test_layout_holds(const struct test_server *server, const char *name, sneck_mode mode);
/* There is no lock, and what lies beside it ends by itself. */
bool test_layout_is_idle(const struct test_server *server, const char *name);
void test_layout_describe(const struct test_server *server, const char *name, char *out, size_t size);

#endif
