/* SPDX-License-Identifier: MIT */
/* What conn.c (the callers' side) and conn_bg.c (the background thread's side) share. The rules are at
 * the top of conn.c. Functions marked "locked" are called with conn->mutex held. */
#ifndef SNECK_NET_CONN_INTERNAL_H
#define SNECK_NET_CONN_INTERNAL_H

#include <pthread.h>

#include <sneck/error.h>

#include "net/backoff.h"
#include "net/conn.h"
#include "net/glance.h"
#include "net/link.h"

enum conn_state {
	CONN_DOWN,       /* no socket; the background thread connects when something is queued or wanted */
	CONN_CONNECTING, /* the link belongs to the background thread */
	CONN_UP,
	CONN_BROKEN /* was up; the background thread takes it down once nobody uses the socket */
};

/* Who reads. */
enum conn_role {
	ROLE_NONE,
	ROLE_LEADER, /* a thread in snecki_conn_park, or one that was handed the role and will wake there */
	ROLE_POLLED, /* the background thread's poll covers the socket; a parker may take the role over */
	ROLE_BACKGROUND /* the background thread reads at this moment */
};

struct conn {
	struct conn_config config;
	int kick_fd; /* eventfd that ends the leader's poll */
	struct link link;
	struct glance glance; /* the leader's */
	int64_t word;         /* the user's; of whoever reads */

	pthread_mutex_t mutex; /* guards all that follows */
	enum conn_state state;
	enum conn_role role;
	bool closing;        /* nothing is taken any more */
	bool wanted;         /* connect although nothing is queued */
	bool lost;           /* where to connect is not known; snecki_conn_look_again follows */
	bool woken;          /* wake_background was called and it has not prepared since */
	bool hangup_ignored; /* the background thread saw the hang-up and left it to the leader */
	struct list queued;  /* requests that wait for a connection */
	struct list inflight;
	size_t inflight_n;
	size_t orphan_n;   /* of these, without a parker */
	size_t unsent_n;   /* of these, not yet offered to the kernel (their bytes are in `out`) */
	size_t hurried_n;  /* of these, with a `hurry_ms` … */
	uint32_t hurry_ms; /* … the shortest since there are any, … */
	int64_t hurry_ns;  /* … and when the first of them was sent */

	/* The stream. `writing` gives a thread `wr` and the right to send without the mutex. */
	bool writing;
	bool busy;        /* the leader is between two polls: it sends what there is before the next one */
	bool blocked;     /* the kernel took no more: the reader waits for POLLOUT */
	struct buf out;   /* appended, not offered */
	struct buf wr;    /* being sent */
	size_t wr_at;     /* of `wr`, already sent */
	uint64_t added;   /* bytes put into `out` since the connection is up */
	uint64_t offered; /* of these, moved to `wr` */
	uint64_t written; /* of these, taken by the kernel */

	struct sleeper to_wake; /* who has been handed the role; woken when the mutex is free */
	int64_t heard_ns;       /* when the last byte arrived */
	int64_t up_ns;          /* when the connection came up */
	int64_t next_attempt_ns;
	struct backoff backoff; /* background only */
	struct sneck_error why; /* why it is BROKEN */
	struct conn_counters counters;
};

/* End the leader's poll. */
void snecki_conn_kick(struct conn *conn);
/* Locked. Send what there is to send (unlocks meanwhile); `all`: also what a reader would send. */
void snecki_conn_flush(struct conn *conn, bool all);
/* Locked. Put a request in line on a connection that is up. False: out of memory, not in line. */
bool snecki_conn_enlist(struct conn *conn, struct req *req, int64_t now_ns);
/* Locked. Nobody reads: find a parked thread that shall, else tell the background thread if there is
 * anything for it to read. */
void snecki_conn_assign(struct conn *conn, bool from_background);
/* Locked. Unlocks, and wakes whoever was handed the role. */
void snecki_conn_unlock(struct conn *conn);
/* Locked. The connection is unusable; the background thread takes it down. */
void snecki_conn_mark_broken(struct conn *conn, const struct sneck_error *why);
/* Locked. */
void snecki_conn_wake_background(struct conn *conn);
/* Locked. When the silence of the server becomes too long; NS_NEVER: nothing is in flight. */
int64_t snecki_conn_silence_ns(const struct conn *conn);
/* Not locked; the caller has the role. Receive once and complete what was answered. True: there may
 * be more at once. */
bool snecki_conn_read(struct conn *conn);
/* Not locked; the caller has the role. The server was silent for too long: look once more, then
 * break. */
void snecki_conn_check_silence(struct conn *conn);

#endif
