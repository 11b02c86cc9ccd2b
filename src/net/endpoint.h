/* SPDX-License-Identifier: MIT */
/* A place in the network. */
#ifndef SNECK_NET_ENDPOINT_H
#define SNECK_NET_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

enum { ENDPOINT_HOST_MAX = 255 };

struct endpoint {
	char host[ENDPOINT_HOST_MAX + 1]; /* name or address, NUL-terminated */
	uint16_t port;
};

static inline bool snecki_endpoint_same(const struct endpoint *a, const struct endpoint *b) {
	return a->port == b->port && strcasecmp(a->host, b->host) == 0;
}

#endif
