/* SPDX-License-Identifier: MIT */
#ifndef SNECK_BENCH_DIALECTS_H
#define SNECK_BENCH_DIALECTS_H

#include <stdbool.h>

struct test_server;

/* What the layouts cost beside each other, in one table; `markdown`: as docs/dialects.md has it. */
void bench_dialects(const struct test_server *server, bool markdown);

#endif
