/* SPDX-License-Identifier: MIT */
/* Clients of the library, as the parts of the benchmark use them. What fails ends the program. */
#ifndef SNECK_BENCH_SESSIONS_H
#define SNECK_BENCH_SESSIONS_H

#include <sneck/sneck.h>

_Noreturn void bench_fail(const char *what, const sneck_error *err);
sneck_client *bench_open(const char *url);
/* Take `name`, waiting for it if need be, and release it at once. */
void bench_pair(sneck_client *client, const char *name, sneck_mode mode);

#endif
