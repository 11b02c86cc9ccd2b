/* SPDX-License-Identifier: MIT */
/* The command connection: one socket to one server, shared by all threads, pipelined.
 *
 * Leader/follower. Every caller writes its own request while few are in flight (under load the
 * bytes are left for whoever reads, who writes them in one go). Of the threads that have a request
 * in flight and nothing to do but wait, one leads: it polls, reads and completes requests for
 * everybody, and passes the role on when its own request is answered or its parker is ready. A lone
 * caller therefore sends and receives on its own thread. When nobody with a parker has a request
 * in flight, the background thread reads (snecki_conn_bg_*).
 *
 * The background thread also connects: submitting to a connection that is down queues the
 * request, asks for a connect and leaves the rest to it. A connect that fails fails what is queued.
 *
 * A request completes exactly once, by calling done() with no lock of this module held, on the
 * thread that reads (or submits, or closes). Requests complete in the order they were submitted,
 * also when the connection breaks; only one that is refused at once (no memory, closing) ends inside
 * submit. done() may submit further requests.
 *
 * The connection is closed when it has been silent for `command_ms` with a request in flight, not
 * because one caller has given up: it leaves its request in line. Only a renewal may hurry it, whose
 * lease would end meanwhile; and a request that ends in WAIT may be answered later by as long as that. */
#ifndef SNECK_NET_CONN_H
#define SNECK_NET_CONN_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "net/hello.h"
#include "net/parker.h"

struct redisReply;
struct sneck_error;
struct endpoint;
struct conn;
struct tls_context;

enum req_status {
	REQ_REPLY,    /* `reply` is the server's answer */
	REQ_NOT_SENT, /* no byte of it left: certainly not executed. `error` says why */
	REQ_UNKNOWN   /* it was (partly) written and no answer came */
};

enum req_place { REQ_OUT_OF_LINE, REQ_QUEUED, REQ_IN_FLIGHT };

/* Zero it, then fill in bytes, parker and done. */
struct req {
	struct list node;      /* the connection's */
	enum req_place place;  /* the connection's: queued for a connection, or for an answer */
	uint64_t offset;       /* the connection's: where its bytes begin in the stream */
	struct buf bytes;      /* the command in RESP; the submitter fills it, done() may free it */
	struct parker *parker; /* the thread that waits for it, or NULL: background. Set to NULL by
	                        * snecki_conn_orphan; done() may read it */
	uint32_t hurry_ms;     /* the submitter's: it needs to know sooner than by the command time that the
	                        * server is silent; 0: it does not */
	int64_t sent_ns;       /* snecki_now_ns() taken before its first byte can have left; 0: not sent */
	struct conn *conn;     /* the connection's: the last one that it was submitted to */
	bool acked; /* the submitter's: `bytes` are two commands, the second of which is WAIT: it goes
	             * by a connection that is kept for such. done() gets the first one's answer */
	uint32_t patience_ms; /* `acked`: for how long the server may be silent on top of the command time */
	struct redisReply *first;        /* the connection's: the answer that is there already */
	const struct redisReply *second; /* `acked`: the second answer, while done() runs with the first */
	bool asking; /* ASKING goes before it, once: a slot that is being moved is imported there */
	bool skip;   /* the connection's: the answer to ASKING is still to come */
	/* For whoever sends requests on to other servers; none of it is the connection's. */
	unsigned char hops;
	bool strange;       /* it was sent to a place that nobody knew, and the map has been fetched since */
	unsigned only_node; /* 0: where its keys are; else that node and no other, counted from 1 */
	int64_t again_ns, until_ns;
	/* It did not run. Have it sent again by `send`, in order with whatever else its owner sends; false:
	 * it is not wanted any more. NULL: it always is, in any order. */
	bool (*resend)(struct req *req, void (*send)(struct req *req, void *to), void *to);
	void (*done)(struct req *req, enum req_status status, const struct redisReply *reply,
	        const struct sneck_error *error);
};

struct conn_config {
	const struct url *url;   /* URL_TCP or URL_UNIX; borrowed */
	struct tls_context *tls; /* borrowed; NULL: plain */
	struct parking *parking; /* borrowed: where its callers sleep; NULL: each for itself */
	const char *client_name; /* HELLO … SETNAME; may be NULL */
	enum link_peer peer;     /* what must answer there */
	/* Thread: background. Where to connect, if not to the URL's place (NULL): 1 and the place; 0: that is
	 * not known yet, snecki_conn_look_again follows; negative: nobody knows. With `ret` NULL it is only
	 * asked whether the place is known (1, else 0). */
	int (*where)(void *ctx, struct endpoint *ret, struct sneck_error *reterr);
	/* Thread: background. An attempt has failed: shall `where` be asked again instead of giving up? May
	 * be NULL. */
	bool (*elsewhere)(void *ctx, const struct sneck_error *why);
	uint32_t connect_ms;
	uint32_t command_ms;
	const struct log *log;
	/* Thread: background. Both are called with no lock of this module held. */
	/* Connected, greeted, version checked. What was sent over it was sent at `since_ns` or later; some of
	 * that may have been answered by now. */
	void (*on_up)(void *ctx, int64_t since_ns);
	void (*on_down)(void *ctx, const struct sneck_error *why); /* was up, or failed to come up */
	/* Thread: any. The background thread must run snecki_conn_bg_* soon. Called with this module's lock
	 * held: it writes to an eventfd or the like and calls nothing here. */
	void (*wake_background)(void *ctx);
	/* Thread: whichever reads, with no lock held. The answer is an error; true: the request has been
	 * taken, to be sent elsewhere, and done() is not called. May be NULL. */
	bool (*redirect)(void *ctx, struct req *req, const struct redisReply *reply);
	/* Thread: background, with no lock held. It could not be sent; true: it has been taken. May be NULL.
	 */
	bool (*unsent)(void *ctx, struct req *req, const struct sneck_error *why);
	/* Thread: whichever reads, with no lock held. Answers have been handed to done(), and no more are at
	 * hand right now. May be NULL. */
	void (*after_read)(void *ctx);
	void *ctx;
};

struct conn_counters {
	uint64_t commands, connects, disconnects;
	uint64_t glances; /* waits that began by looking for the answer */
};

int snecki_conn_new(const struct conn_config *config, struct conn **ret); /* 0 or a negative code */
/* Completes everything that is in line, and closes; from now on everything is refused. No other thread may be
 * inside. */
void snecki_conn_close(struct conn *conn);
/* The same, and frees. */
void snecki_conn_free(struct conn *conn);
/* In a forked child: close the descriptor without a word to the server and free the memory. */
void snecki_conn_abandon(struct conn *conn);

/* Thread: any. Takes the request until done() has been called. */
void snecki_conn_submit(struct conn *conn, struct req *req);
/* Thread: any. Nobody waits for this request any more (its caller gave up); it stays in line, and its
 * parker is forgotten. False: too late, done() is about to be called or has been; the caller waits
 * for it before the parker or the request goes away. */
bool snecki_conn_orphan(struct conn *conn, struct req *req);
/* Thread: the parker's. The same for every request of the parker that is still in line, so that it
 * can go away. done() of those that are no longer in line must not use it. */
void snecki_conn_orphan_all(struct conn *conn, struct parker *parker);
/* Thread: any. Take a request back that still waits for a connection: true means that no byte of it
 * left, that done() will not be called and that the request is the caller's again. */
bool snecki_conn_withdraw(struct conn *conn, struct req *req);
/* Thread: the parker's. Wait until it is ready or `deadline_ns` (BOOTTIME) has passed, reading for
 * everybody when it is this thread's turn. True: ready. */
bool snecki_conn_park(struct conn *conn, struct parker *parker, int64_t deadline_ns);

/* Thread: any. Ask for a connection although nothing is to be sent (SNECK_OPEN_CONNECT, reconnect
 * while waiting). One wish is one attempt: after on_down it must be said again. */
void snecki_conn_want(struct conn *conn);
bool snecki_conn_is_up(struct conn *conn);
/* Thread: whichever reads, inside done() with REQ_REPLY. A number of the user's for each connection; 0 on a
 * new one.
 */
int64_t *snecki_conn_word(struct conn *conn);
void snecki_conn_counters(struct conn *conn, struct conn_counters *ret);
size_t snecki_conn_in_line(struct conn *conn); /* how many requests are not answered yet */
/* Thread: background. `where` may have another answer: break a connection to another place, try at once if
 * there is none. */
void snecki_conn_look_again(struct conn *conn);
/* Thread: background. Take back what waits for a connection, in its order. Nobody waits for it here any more
 * (its parkers are forgotten); done() is the caller's to call. */
void snecki_conn_recall(struct conn *conn, struct list *ret);
/* Thread: any. Break the connection now; what is in flight is REQ_UNKNOWN. */
void snecki_conn_break(struct conn *conn, const char *why);

/* Thread: background. Fill up to 2 pollfds (returns how many) and lower `*deadline_ns` to the time
 * by which snecki_conn_bg_run must be called even if nothing happens. */
int snecki_conn_bg_prepare(struct conn *conn, struct pollfd pfds[2], int64_t *deadline_ns);
/* Thread: background. Connect, greet, read when it is ours to read, notice silence and hang-up. */
void snecki_conn_bg_run(struct conn *conn, const struct pollfd *pfds, int n, int64_t now_ns);

#endif
