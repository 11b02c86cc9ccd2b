/* SPDX-License-Identifier: MIT */
/* A primary with two replicas and three sentinels, real ones, on ports of 127.0.0.1. */
#ifndef TESTS_LIB_SENTINELS_H
#define TESTS_LIB_SENTINELS_H

#include "server.h"

enum { SENTINELS_SERVERS = 3, SENTINELS_N = 3 };

struct test_sentinels {
	struct test_server servers[SENTINELS_SERVERS];
	int ports[SENTINELS_SERVERS]; /* by which the sentinels know them */
	struct test_server sentinels[SENTINELS_N];
	char url[512]; /* redis[s]+sentinel://… */
};

#define SENTINELS_SERVICE "locks"

/* What they are started with; whatever is NULL is not there. */
struct test_sentinels_options {
	const char *const *server_args; /* for each server, NULL at the end */
	const char *config;             /* lines for the file of each sentinel; they win */
	const char *certs;              /* TLS: a directory of make-certs.sh's */
	const char *server, *sentinel;  /* TLS: whose certificate they show */
};

/* Start all of them, and wait until each sentinel knows the others and the replicas. A primary that is silent
 * for two seconds is taken for dead. 0 or -1. `server_args` (may be NULL) goes to each server, `config`
 * (may be NULL) to each sentinel. */
int test_sentinels_start(struct test_sentinels *all, const char *const *server_args, const char *config);
/* The same with TLS everywhere: between them all, and for clients alone (the Unix sockets stay plain).
 * `certs` is a directory of make-certs.sh's; the servers show the certificate `server`, the sentinels
 * `sentinel`. */
int test_sentinels_start_tls(
        struct test_sentinels *all, const char *certs, const char *server, const char *sentinel);
int test_sentinels_start_with(struct test_sentinels *all, const struct test_sentinels_options *options);
void test_sentinels_stop(struct test_sentinels *all);

/* Wait until both replicas have everything that the primary has written. */
void test_sentinels_settle(struct test_sentinels *all);
/* Which server all sentinels (but dead ones) take for the primary, and it agrees, and no failover is under
 * way; -1: none right now. */
int test_sentinels_primary(struct test_sentinels *all);
/* Wait until another server than `old` is the primary: which one. Fails the program after a minute. */
int test_sentinels_wait_switch(struct test_sentinels *all, int old);
/* Start a dead one again, as a replica of `primary`; returns when it follows. */
void test_sentinels_bring_back(struct test_sentinels *all, int dead, int primary);
/* kill -9 of the primary, and wait until another one is. The dead one is started again, as a replica. Returns
 * the new one. */
int test_sentinels_fail_over(struct test_sentinels *all);

#endif
