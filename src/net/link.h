/* SPDX-License-Identifier: MIT */
/* One socket to one server: resolve, connect, greet; then bytes out and replies in.
 *
 * While it is being made a link belongs to one thread (the background thread). Once it is up, one
 * thread may send while another receives. */
#ifndef SNECK_NET_LINK_H
#define SNECK_NET_LINK_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "net/endpoint.h"
#include "net/hello.h"
#include "net/resolve.h"

struct reader;
struct redisReply;
struct sneck_error;
struct tls;
struct tls_context;

struct link_config {
	const struct url *url; /* borrowed; where to connect, unless an attempt says otherwise, and as whom */
	enum link_peer peer;   /* what must answer there */
	struct tls_context *tls; /* borrowed; NULL: plain */
	const char *client_name; /* borrowed; may be NULL */
	uint32_t connect_ms;     /* for all of resolving, connecting, encrypting and greeting */
	uint32_t command_ms;     /* how long the kernel waits for an acknowledgement of what was sent */
};

enum link_state {
	LINK_CLOSED,
	LINK_RESOLVING,  /* the name server is being asked */
	LINK_CONNECTING, /* connect() is under way, or will be tried again at retry_ns */
	LINK_SECURING,   /* the TLS handshake is under way */
	LINK_GREETING,   /* the greeting is sent, its replies are awaited */
	LINK_UP
};

struct link {
	struct link_config config;
	enum link_state state;
	int fd;                    /* -1: none */
	struct tls *tls;           /* NULL: plain */
	short tls_events;          /* LINK_SECURING: what to poll for */
	struct reader *reader;     /* of this connection */
	char *chunk;               /* where received bytes land first */
	struct resolver *resolver; /* may outlive an attempt: a slow name server is asked once */
	struct endpoint at;        /* not a Unix socket: where this attempt goes */
	struct addresses addresses;
	int address_at;      /* the one being tried */
	int64_t deadline_ns; /* for the whole attempt */
	int64_t address_ns;  /* for this address */
	int64_t retry_ns;    /* connect() again then; 0: it is under way */
	struct buf greeting; /* what is left to send of it */
	int replies_left;    /* of the greeting */
	int reply_index;
};

int snecki_link_init(struct link *link, const struct link_config *config); /* 0 or SNECK_ENOMEM */
void snecki_link_done(struct link *link);
/* In a forked child: close the descriptors. The memory of the parser is freed only when `quiet`
 * (nobody was using it when the process forked). */
void snecki_link_abandon(struct link *link, bool quiet);

/* Begin an attempt; the link must be closed. 0, or the attempt has failed already. */
int snecki_link_start(struct link *link, int64_t now_ns, struct sneck_error *reterr);
/* The same to another place than the URL's. */
int snecki_link_start_to(
        struct link *link, const struct endpoint *at, int64_t now_ns, struct sneck_error *reterr);
/* The same when the addresses are known: they are tried in order. */
int snecki_link_start_at(
        struct link *link, const struct addresses *addresses, int64_t now_ns, struct sneck_error *reterr);
/* What to poll for while the link is being made: returns 0 or 1, lowers `*deadline_ns`. */
int snecki_link_prepare(const struct link *link, struct pollfd *pfd, int64_t *deadline_ns);
/* Go on. 1: up. 0: not yet. Negative: failed and closed; the text says what to do. */
int snecki_link_step(struct link *link, int64_t now_ns, struct sneck_error *reterr);
void snecki_link_close(struct link *link);

/* How many bytes the kernel took; 0: none now; -1: the link is broken (errno). */
ssize_t snecki_link_send(struct link *link, const char *data, size_t len);
/* Receive once, without waiting. 1: bytes came; 2: and there may be more at once; 0: none now;
 * negative: the link is broken. */
int snecki_link_receive(struct link *link, struct sneck_error *reterr);
/* As snecki_reader_next(). */
int snecki_link_next(struct link *link, struct redisReply **ret, struct sneck_error *reterr);
/* Make every thread that waits on the socket notice, without closing the descriptor. */
void snecki_link_shutdown(struct link *link);
/* The place for people. */
void snecki_link_display(const struct link *link, char *out, size_t out_size);

#endif
