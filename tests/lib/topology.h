/* SPDX-License-Identifier: MIT */
/* Where the locks of a test program live: the same program runs on each topology, by the environment.
 *
 *   SNECK_TEST_TOPOLOGY   single, tls, sentinel, sentinel-tls, cluster or cluster-tls: on it, as a user who
 *                         has the rights that `sneck acl` prints, and no other. Not set: one server on a Unix
 *                         socket, as its default user.
 *   SNECK_TEST_ROLES      whose rights: "holder" (the default) or "holder operator", as --role has them;
 *                         "holder@counted": in that dialect, for programs that choose it themselves. Else it
 * is SNECK_TEST_DIALECT's (layouts.h).
 *
 * The servers are the program's for all its tests. What tests see of them is one `struct test_server`, the
 * face of all: its URL is for clients, and commands for it go where they belong (server.h). No server fails
 * over by itself: they may be silent for a minute. */
#ifndef TESTS_LIB_TOPOLOGY_H
#define TESTS_LIB_TOPOLOGY_H

#include "server.h"

/* 0 or -1. */
int test_topology_start(struct test_server *face);
/* -1: the user was refused something that it asked for; what, is said on stderr. */
int test_topology_stop(struct test_server *face);

/* Give the user the same rights in another namespace as well. For clients that are opened later. Ends the
 * program when that cannot be. */
void test_topology_allow(const char *name_space);

/* One plain server: what a proxy can stand before, and what counts connections and commands is sure to see.
 */
bool test_topology_is_plain(void);
/* Several primaries, each with a part of the keys. */
bool test_topology_is_cluster(void);
/* The server that has the lock of this name. */
struct test_server *test_owner(const char *name);

#endif
