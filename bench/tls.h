/* SPDX-License-Identifier: MIT */
/* What a lock costs over TLS. Starts a server of its own. */
#ifndef SNECK_BENCH_TLS_H
#define SNECK_BENCH_TLS_H

void bench_tls(void);

#endif
