/* SPDX-License-Identifier: MIT */
#ifndef SNECK_NET_URL_H
#define SNECK_NET_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct endpoint;
struct sneck_error;

enum url_kind { URL_TCP, URL_UNIX, URL_LOCAL, URL_SENTINEL, URL_CLUSTER };

/* A parsed server URL. Strings are owned; done() wipes the password before it frees it. */
struct url {
	enum url_kind kind;
	char *host;     /* URL_TCP */
	uint16_t port;  /* URL_TCP; 6379 by default */
	char *path;     /* URL_UNIX */
	char *user;     /* NULL: none */
	char *password; /* NULL: none */
	uint32_t db;
	char *dialect; /* NULL: not named */
	char *prefix;  /* NULL: none */
	/* URL_SENTINEL: where the sentinels are, and what they watch for us. `user` and `password` are for
	 * the servers. URL_CLUSTER: some of its nodes. */
	struct endpoint *seeds;
	size_t seeds_n;
	char *service;
	char *sentinel_user, *sentinel_password; /* NULL: none */
	bool tls;                                /* not URL_UNIX, URL_LOCAL */
	bool verify_none;
	char *ca, *cert, *key, *server_name; /* TLS; NULL: not said */
};

/* redis://, valkey://, unix://, redis+unix://, a bare /path, local:. SNECK_EINVAL: the text names
 * the part that is wrong and the valid form, never the password. */
int snecki_url_parse(const char *text, struct url *ret, struct sneck_error *reterr);
void snecki_url_done(struct url *url);
/* The URL for people: without user and password. */
void snecki_url_display(const struct url *url, char *out, size_t out_size);

#endif
