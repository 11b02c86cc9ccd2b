/* SPDX-License-Identifier: MIT */
#ifndef SNECK_BENCH_COMMAND_H
#define SNECK_BENCH_COMMAND_H

struct test_server;

/* `sneck run -n NAME -- true` against `flock -n FILE true`. */
void bench_command(const struct test_server *server);

#endif
