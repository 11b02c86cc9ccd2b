/* SPDX-License-Identifier: MIT */
/* Users with few rights, as `sneck acl` prints them, and what the servers themselves say of how these were
 * used: their ACL log has what was refused, their statistics what was called, in scripts as well.
 *
 * `servers` is an array of `n`; everything is done on each of them. Whatever goes wrong fails the test. */
#ifndef TESTS_LIB_RULE_H
#define TESTS_LIB_RULE_H

#include <stdbool.h>
#include <stddef.h>

#include "server.h"

enum { TEST_RULE_WORDS = 96, TEST_RULE_BYTES = 2048 };

struct test_rule {
	char text[TEST_RULE_BYTES]; /* cut at the words' ends */
	const char *words[TEST_RULE_WORDS];
	int count;
};

/* The first line of what the command has printed: it makes a user, whose password is "pw" then. */
void test_rule_read(struct test_rule *rule, const char *printed);
/* Make the user, without the right `but` ("+zadd"; NULL: all of it). At once: at no time may it do less. */
void test_rule_obey(
        const struct test_rule *rule, const struct test_server *servers, size_t n, const char *but);

/* A user with these commands ("get set"), but for `but` (may be NULL); `scope`: its password, keys and
 * channels. At once, too, on what may be the face of several servers. */
void test_allow(const struct test_server *server, const char *user, const char *scope, const char *commands,
        const char *but);

/* The number behind `line` in a section of INFO, all servers' together. */
long test_info_sum(const struct test_server *servers, size_t n, const char *section, const char *line);
/* How often a command was called since CONFIG RESETSTAT. */
long test_calls(const struct test_server *servers, size_t n, const char *command);
/* All that the rule allows was called. */
void test_rule_all_used(const struct test_rule *rule, const struct test_server *servers, size_t n);
/* Nothing was refused but what `may_be` (NULL: nothing) says of. */
void test_nothing_refused(const struct test_server *servers, size_t n, bool (*may_be)(const char *object));

#endif
