/* SPDX-License-Identifier: MIT */
/* Host names to addresses without blocking: numeric addresses at once, names on a helper thread. */
#ifndef SNECK_NET_RESOLVE_H
#define SNECK_NET_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct sneck_error;
struct resolver;

enum { RESOLVE_MAX = 8 };

struct addresses {
	int n;
	struct sockaddr_storage addr[RESOLVE_MAX];
	socklen_t len[RESOLVE_MAX];
};

/* True when `host` is numeric: `ret` is filled without asking anybody. */
bool snecki_resolve_numeric(const char *host, uint16_t port, struct addresses *ret);

/* Start to look `host` up. 0 or a negative code. */
int snecki_resolver_new(const char *host, uint16_t port, struct resolver **ret, struct sneck_error *reterr);
/* Readable when the answer is there. */
int snecki_resolver_fd(const struct resolver *resolver);
/* 1: `ret` is filled; 0: not yet; SNECK_ECONN: no such host, or nobody to ask. */
int snecki_resolver_result(struct resolver *resolver, struct addresses *ret, struct sneck_error *reterr);
/* Returns at once, also when the answer is still awaited. NULL is allowed. */
void snecki_resolver_free(struct resolver *resolver);

#endif
