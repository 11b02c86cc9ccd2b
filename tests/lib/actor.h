/* SPDX-License-Identifier: MIT */
/* A process that does with locks what it is told, line by line. Started by test_actor_start, played
 * by test_actor_main, which the test's main() calls first:
 *
 *   int main(int argc, char **argv) {
 *           if (argc > 1)
 *                   return test_actor_main(argc, argv);
 *
 * Lines, each answered by one:
 *   take NAME r|w WAIT_MS LEASE_MS [fixed]   -> ok TOKEN | SNECK_E…
 *   wait NAME r|w WAIT_MS LEASE_MS [fixed]   -> waiting, and later the answer of take
 *   drop                                     -> ok | SNECK_E…      (the last taken)
 *   look                                     -> held|suspect|lost|broken LEFT_MS
 *   upgrade WAIT_MS | downgrade              -> ok TOKEN | SNECK_E…
 *   detach LEASE_MS                          -> ok ID | SNECK_E…
 *   adopt NAME ID LEASE_MS                   -> ok TOKEN | SNECK_E…
 *   session                                  -> ok SESSION
 *   quit                                     -> (ends without closing the client)
 * End of input closes the client and ends the process. */
#ifndef TESTS_LIB_ACTOR_H
#define TESTS_LIB_ACTOR_H

#include "procs.h"

void test_actor_start(struct test_proc *proc, const char *url);
int test_actor_main(int argc, char **argv);
/* Ask and fail the test unless the answer starts with `expected`. */
void test_actor_expect(struct test_proc *proc, const char *expected, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
/* Read a line and fail the test unless it starts with `expected`. */
void test_actor_hear(struct test_proc *proc, const char *expected, int timeout_ms);
/* Ask for something answered by "ok NUMBER"; the number. */
unsigned long long test_actor_number(struct test_proc *proc, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

#endif
