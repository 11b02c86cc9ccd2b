/* SPDX-License-Identifier: MIT */
/* The workloads that every peer answers. Each prints one line of JSON. */
#ifndef SNECK_BENCH_TURNS_H
#define SNECK_BENCH_TURNS_H

struct peer;
struct request;

/* CLOCK_MONOTONIC: one clock for all drivers of the machine, whatever their language. */
long long now_ns(void);
void sleep_ns(long long ns);

/* pair n= ms= name= mode= pause_us=: take and give, one caller; how long each took. */
void turns_pair(const struct peer *peer, void *client, const struct request *request);
/* threads threads= ms= name=: each on a lock of its own, one client (unless client_each). */
void turns_threads(const struct peer *peer, void *client, const char *url, const struct request *request);
/* contend n= hold_us= gap_us= limit_ms= at= name= mode=: one contender of many. */
void turns_contend(const struct peer *peer, void *client, const struct request *request);
/* ring procs= n= hold_us= at=: the control. Processes pass a token round through pipes. */
void turns_ring(const struct request *request);

#endif
