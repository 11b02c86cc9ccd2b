/* SPDX-License-Identifier: MIT */
/* What the server itself has counted since CONFIG RESETSTAT. */
#ifndef SNECK_BENCH_COMMANDSTATS_H
#define SNECK_BENCH_COMMANDSTATS_H

#include <stdint.h>

struct test_server;

/* Microseconds per EVALSHA, all that the script does included. */
double bench_script_us(const struct test_server *server);
/* Commands that clients have sent for locks: script calls, and subscriptions. */
uint64_t bench_requests(const struct test_server *server);
/* SUBSCRIBE alone. */
uint64_t bench_subscriptions(const struct test_server *server);

#endif
