/* SPDX-License-Identifier: MIT */
/* One connection through the proxy: two descriptors and two directions. Private to the proxy. */
#ifndef TESTS_LIB_PROXY_LINK_H
#define TESTS_LIB_PROXY_LINK_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy.h"

enum { PROXY_RULES_MAX = 16 };

/* What the test asked for, and what has happened. Under the proxy's mutex. */
struct proxy_weather {
	struct proxy_rule rules[PROXY_RULES_MAX];
	unsigned seen[PROXY_RULES_MAX]; /* messages a rule has counted */
	unsigned rules_n;
	bool silent_up;
	bool silent_down;
	bool dribble;
	bool refuse;
	int64_t delay_ns;
	struct proxy_counts counts;
};

struct proxy_bytes {
	char *data;
	size_t len;
	size_t cap;
};

/* A message on its way. */
struct proxy_parcel {
	struct proxy_parcel *next;
	char *data;
	size_t len;
	size_t sent;
	int64_t due_ns;
	bool held; /* until delivered by command, or until due_ns if that is set */
	bool was_held;
};

struct proxy_pipe {
	struct proxy_bytes in; /* not yet a whole message */
	struct proxy_parcel *first;
	struct proxy_parcel **last;
	int64_t next_byte_ns; /* dribble: not before */
};

/* A reply that is due on a link, in order. */
struct proxy_due {
	struct proxy_due *next;
	enum proxy_class class;
	const char *line; /* the proxy itself answers with this; NULL: the server does */
};

struct proxy_link {
	struct proxy_link *next;
	int client_fd; /* -1: gone; the server side lives on while requests are held */
	int server_fd;
	struct proxy_pipe up;   /* client to server */
	struct proxy_pipe down; /* server to client */
	struct proxy_due *due_first;
	struct proxy_due **due_last;
	struct proxy_bytes last_reply;
	bool muted; /* replies are swallowed */
	bool dead;  /* to be freed */
};

int64_t test_proxy_now_ns(void);
struct proxy_link *test_proxy_link_new(int client_fd, int server_fd);
void test_proxy_link_free(struct proxy_link *link);
void test_proxy_link_cut(struct proxy_link *link);
/* Read and frame what has come, write what may go. */
void test_proxy_link_run(
        struct proxy_link *link, struct proxy_weather *weather, short client_ready, short server_ready);
/* Events to poll for; lowers `*wake_ns` to when a parcel falls due. */
void test_proxy_link_prepare(const struct proxy_link *link, const struct proxy_weather *weather,
        struct pollfd pfds[2], int64_t *wake_ns);
void test_proxy_link_deliver(struct proxy_link *link);

#endif
