/* SPDX-License-Identifier: MIT */
/* The callers' side of the command connection: submit, write, wait, lead.
 *
 * The reader. At most one thread reads: `role` says who. Whoever gives the role up calls
 * snecki_conn_assign() under the same lock, which hands it to the parked thread with the oldest
 * request, or wakes the background thread when requests without a parker are in flight. What may be
 * left without a reader are requests whose threads are between submit and park: they take the role
 * when they park, or orphan their request, which wakes the background thread. Only a parked
 * thread is handed the role (both are bits of its parker's word), and every way
 * out of park gives it back.
 *
 * The writer. Bytes are appended to `out` in the order of `inflight`; one thread at a time (`writing`)
 * moves them to `wr` and sends without the mutex. No byte can be stranded: unsent bytes imply that
 * a thread is writing and will look again, or that the socket is full and the reader polls for
 * POLLOUT, or that a request is already on its way, whose answer takes the reader through flush,
 * or that the leader is at work on answers (`busy`), which wake threads that will ask for more: it sends for
 * all of them before it polls again or leaves. Whoever adds the last of UNSENT_MAX sends them even so: the
 * server answers all that it finds in one go, and if that were the requests of everybody, it would have
 * nothing to do while the threads deal with the answers, and they nothing while it works.
 *
 * Taking down. A thread that finds the connection broken only marks it; the background thread closes
 * the socket when nobody writes or leads, and completes what was in flight, in order. So
 * the descriptor is never closed under a thread that polls it. */
#include "net/conn.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/err.h"
#include "net/conn_internal.h"

#define ASKING "*1\r\n$6\r\nASKING\r\n"

enum {
	DIRECT_MAX = 8,       /* with so many on their way, bytes are left to the reader to send in one go */
	UNSENT_MAX = 16,      /* … but no more than these, or server and client would work in turn */
	BATCH = 64,           /* replies taken per lock of the mutex */
	KEEP_MAX = 256 * 1024 /* a larger buffer is given back after the burst that needed it */
};

void snecki_conn_kick(struct conn *conn) {
	uint64_t one = 1;
	ssize_t n = write(conn->kick_fd, &one, sizeof(one));
	(void)n; /* EAGAIN: it is readable already */
}

static void unkick(struct conn *conn) {
	uint64_t count;
	ssize_t n = read(conn->kick_fd, &count, sizeof(count));
	(void)n;
}

/* ---- State ----------------------------------------------------------------------------------*/

void snecki_conn_wake_background(struct conn *conn) {
	if (conn->woken)
		return;
	conn->woken = true;
	conn->config.wake_background(conn->config.ctx);
}

void snecki_conn_mark_broken(struct conn *conn, const struct sneck_error *why) {
	if (conn->state != CONN_UP)
		return;
	conn->state = CONN_BROKEN;
	conn->why = *why;
	snecki_link_shutdown(&conn->link);
	snecki_conn_wake_background(conn);
}

int64_t snecki_conn_silence_ns(const struct conn *conn) {
	if (snecki_list_empty(&conn->inflight))
		return NS_NEVER;
	const struct req *oldest = LIST_ITEM(conn->inflight.next, struct req, node);
	int64_t since = oldest->sent_ns > conn->heard_ns ? oldest->sent_ns : conn->heard_ns;
	int64_t silence_ns = snecki_after_ms(since, (int64_t)conn->config.command_ms + oldest->patience_ms);
	if (conn->hurried_n) {
		since = conn->hurry_ns > conn->heard_ns ? conn->hurry_ns : conn->heard_ns;
		int64_t hurried_ns = snecki_after_ms(since, conn->hurry_ms);
		if (hurried_ns < silence_ns)
			silence_ns = hurried_ns;
	}
	return silence_ns;
}

/* Locked. `req` has been put in line. */
static void hurry(struct conn *conn, const struct req *req) {
	if (!req->hurry_ms || req->hurry_ms >= conn->config.command_ms)
		return;
	bool sooner = conn->hurried_n == 0 || req->hurry_ms < conn->hurry_ms;
	if (conn->hurried_n++ == 0)
		conn->hurry_ns = req->sent_ns;
	if (sooner)
		conn->hurry_ms = req->hurry_ms;
	if (sooner && conn->role == ROLE_LEADER) /* whose poll may last longer than that */
		snecki_conn_kick(conn);
}

void snecki_conn_unlock(struct conn *conn) {
	struct sleeper sleeper = conn->to_wake;
	conn->to_wake.own = NULL;
	pthread_mutex_unlock(&conn->mutex);
	snecki_sleeper_wake(&sleeper);
}

/* Locked. Hand the role to this parker if its thread is parked. */
static bool hand_role(struct conn *conn, struct parker *parker) {
	if (!snecki_parker_hand_role(parker, &conn->to_wake))
		return false;
	conn->role = ROLE_LEADER;
	return true;
}

void snecki_conn_assign(struct conn *conn, bool from_background) {
	if (conn->role != ROLE_NONE)
		return;
	if (conn->state == CONN_BROKEN) {
		snecki_conn_wake_background(conn);
		return;
	}
	if (conn->state != CONN_UP)
		return;
	size_t waited_for = conn->inflight_n - conn->orphan_n; /* often 0, among thousands */
	LIST_EACH (node, &conn->inflight) {
		struct req *req = LIST_ITEM(node, struct req, node);
		if (waited_for == 0)
			break;
		if (req->parker && hand_role(conn, req->parker))
			return;
		waited_for -= req->parker != NULL;
	}
	if ((conn->orphan_n || conn->hangup_ignored) && !from_background)
		snecki_conn_wake_background(conn);
}

/* ---- Writing --------------------------------------------------------------------------------*/

/* Locked. The next bytes to send are in `wr`; false: there are none. */
static bool load_wr(struct conn *conn, bool all) {
	if (conn->wr_at < conn->wr.len)
		return true;
	if (conn->out.len == 0)
		return false;
	if (!all && conn->unsent_n < UNSENT_MAX &&
	        (conn->busy || conn->inflight_n - conn->unsent_n >= DIRECT_MAX))
		return false;
	struct buf sent = conn->wr;
	conn->wr = conn->out;
	conn->out = sent;
	snecki_buf_clear(&conn->out);
	if (conn->out.cap > KEEP_MAX)
		snecki_buf_done(&conn->out);
	conn->wr_at = 0;
	conn->unsent_n = 0;
	conn->offered = conn->added;
	return true;
}

void snecki_conn_flush(struct conn *conn, bool all) {
	while (conn->state == CONN_UP && !conn->writing && !conn->blocked && load_wr(conn, all)) {
		const char *data = conn->wr.data + conn->wr_at;
		size_t len = conn->wr.len - conn->wr_at;
		conn->writing = true;
		pthread_mutex_unlock(&conn->mutex);
		ssize_t n = snecki_link_send(&conn->link, data, len);
		int sys_errno = errno;
		pthread_mutex_lock(&conn->mutex);
		conn->writing = false;
		if (n > 0) {
			conn->wr_at += (size_t)n;
			conn->written += (uint64_t)n;
		} else if (n < 0) {
			struct sneck_error why;
			snecki_err_sys(&why, SNECK_ECONN, sys_errno, "the connection to the server broke");
			snecki_conn_mark_broken(conn, &why);
		} else {
			/* The reader is perhaps polling already, for input only. */
			conn->blocked = true;
			if (conn->role == ROLE_LEADER)
				snecki_conn_kick(conn);
			else if (conn->role == ROLE_POLLED)
				snecki_conn_wake_background(conn);
		}
		/* Taking down had to wait for this send. */
		if (conn->state == CONN_BROKEN)
			snecki_conn_wake_background(conn);
	}
}

bool snecki_conn_enlist(struct conn *conn, struct req *req, int64_t now_ns) {
	size_t before = req->asking ? sizeof ASKING - 1 : 0;
	if (req->bytes.failed || !snecki_buf_reserve(&conn->out, before + req->bytes.len)) {
		conn->out.failed = false; /* what is in it is whole */
		return false;
	}
	snecki_buf_add(&conn->out, ASKING, before);
	snecki_buf_add(&conn->out, req->bytes.data, req->bytes.len);
	req->skip = req->asking;
	req->offset = conn->added;
	req->sent_ns = now_ns;
	req->place = REQ_IN_FLIGHT;
	conn->added += before + req->bytes.len;
	snecki_list_append(&conn->inflight, &req->node);
	conn->inflight_n++;
	conn->unsent_n++;
	if (!req->parker)
		conn->orphan_n++;
	conn->counters.commands++;
	hurry(conn, req);
	return true;
}

static void refuse(struct req *req, int code, const char *text) {
	struct sneck_error why;
	req->place = REQ_OUT_OF_LINE;
	req->sent_ns = 0;
	snecki_err(&why, code, "%s", text);
	req->done(req, REQ_NOT_SENT, NULL, &why);
}

void snecki_conn_submit(struct conn *conn, struct req *req) {
	struct parker *parker = req->parker;
	req->conn = conn;
	pthread_mutex_lock(&conn->mutex);
	if (conn->closing) {
		pthread_mutex_unlock(&conn->mutex);
		refuse(req, SNECK_ECLOSED, "the connection is being closed");
		return;
	}
	if (conn->state != CONN_UP) {
		req->place = REQ_QUEUED;
		req->sent_ns = 0;
		snecki_list_append(&conn->queued, &req->node);
		if (parker)
			parker->inflight++;
		snecki_conn_wake_background(conn);
		pthread_mutex_unlock(&conn->mutex);
		return;
	}
	if (!snecki_conn_enlist(conn, req, snecki_now_ns())) {
		pthread_mutex_unlock(&conn->mutex);
		refuse(req, SNECK_ENOMEM, "out of memory for a request");
		return;
	}
	if (parker)
		parker->inflight++;
	/* From here on the request may be answered, and gone, whenever the mutex is free. A reader is
	 * found first: its thread wakes while this one writes. */
	if (conn->role == ROLE_NONE) {
		if (!parker)
			snecki_conn_wake_background(conn);
		else
			hand_role(conn, parker);
	}
	snecki_conn_flush(conn, false);
	snecki_conn_unlock(conn);
}

bool snecki_conn_orphan(struct conn *conn, struct req *req) {
	pthread_mutex_lock(&conn->mutex);
	bool in_line = req->place != REQ_OUT_OF_LINE;
	if (in_line && req->parker) {
		req->parker->inflight--;
		req->parker = NULL;
		if (req->place == REQ_IN_FLIGHT)
			conn->orphan_n++;
		snecki_conn_assign(conn, false);
	}
	snecki_conn_unlock(conn);
	return in_line;
}

void snecki_conn_orphan_all(struct conn *conn, struct parker *parker) {
	struct list *lines[] = { &conn->queued, &conn->inflight };
	if (atomic_load(&parker->inflight) == 0)
		return; /* as nearly always: everything has been answered */
	pthread_mutex_lock(&conn->mutex);
	for (size_t i = 0; i < 2 && parker->inflight; i++) {
		LIST_EACH (node, lines[i]) {
			struct req *req = LIST_ITEM(node, struct req, node);
			if (req->parker != parker)
				continue;
			req->parker = NULL;
			parker->inflight--;
			if (req->place == REQ_IN_FLIGHT)
				conn->orphan_n++;
		}
	}
	snecki_conn_assign(conn, false);
	snecki_conn_unlock(conn);
}

bool snecki_conn_withdraw(struct conn *conn, struct req *req) {
	pthread_mutex_lock(&conn->mutex);
	bool queued = req->place == REQ_QUEUED;
	if (queued) {
		snecki_list_remove(&req->node);
		req->place = REQ_OUT_OF_LINE;
		if (req->parker)
			req->parker->inflight--;
	}
	pthread_mutex_unlock(&conn->mutex);
	return queued;
}

int64_t *snecki_conn_word(struct conn *conn) {
	return &conn->word;
}

/* ---- Reading --------------------------------------------------------------------------------*/

/* Locked. Take the oldest requests out of line, one for each of `n` answers (NULL: it belongs to the
 * ASKING before one, or is the first of two, which the request keeps); false: there are not so many answers
 * due. */
static bool take_answered(struct conn *conn, size_t n, struct redisReply **replies, struct req **ret) {
	for (size_t i = 0; i < n; i++) {
		if (snecki_list_empty(&conn->inflight))
			return false;
		struct req *req = LIST_ITEM(conn->inflight.next, struct req, node);
		if (req->offset >= conn->offered)
			return false;
		if (req->skip) {
			req->skip = false;
			continue;
		}
		if (req->acked && !req->first) {
			req->first = replies[i];
			replies[i] = NULL;
			continue;
		}
		snecki_list_remove(&req->node);
		req->place = REQ_OUT_OF_LINE;
		conn->inflight_n--;
		conn->hurried_n -= req->hurry_ms && req->hurry_ms < conn->config.command_ms;
		if (req->parker)
			req->parker->inflight--;
		else
			conn->orphan_n--;
		ret[i] = req;
	}
	return true;
}

/* `reply` is the last that it gets. */
static void hand_over(struct conn *conn, struct req *req, struct redisReply *reply) {
	struct redisReply *first = req->first;

	req->first = NULL;
	if (first) {
		req->second = reply;
		reply = first;
	}
	bool elsewhere = reply->type == REDIS_REPLY_ERROR && conn->config.redirect &&
	                 conn->config.redirect(conn->config.ctx, req, reply);
	if (!elsewhere)
		req->done(req, REQ_REPLY, reply, NULL);
	freeReplyObject(first); /* NULL is allowed */
}

/* Complete the requests that these replies answer. */
static bool complete(struct conn *conn, struct redisReply **replies, size_t n) {
	struct req *reqs[BATCH] = { 0 };
	pthread_mutex_lock(&conn->mutex);
	bool fits = take_answered(conn, n, replies, reqs);
	if (!fits) {
		struct sneck_error why;
		snecki_err(&why, SNECK_ECONN, "the server sent a reply that nobody asked for");
		snecki_conn_mark_broken(conn, &why);
	}
	pthread_mutex_unlock(&conn->mutex);
	for (size_t i = 0; i < n; i++) {
		if (reqs[i])
			hand_over(conn, reqs[i], replies[i]);
		freeReplyObject(replies[i]);
	}
	if (conn->config.after_read)
		conn->config.after_read(conn->config.ctx);
	return fits;
}

bool snecki_conn_read(struct conn *conn) {
	struct redisReply *replies[BATCH];
	struct sneck_error why;
	int got = snecki_link_receive(&conn->link, &why);
	if (got == 0)
		return false;
	if (got > 0) {
		pthread_mutex_lock(&conn->mutex);
		conn->heard_ns = snecki_now_ns();
		conn->busy = conn->role == ROLE_LEADER;
		pthread_mutex_unlock(&conn->mutex);
	}
	int r = got < 0 ? got : 1;
	while (r > 0) {
		size_t n = 0;
		while (n < BATCH && (r = snecki_link_next(&conn->link, &replies[n], &why)) > 0)
			n++;
		if (n && !complete(conn, replies, n))
			return false;
	}
	if (r < 0) {
		pthread_mutex_lock(&conn->mutex);
		snecki_conn_mark_broken(conn, &why);
		pthread_mutex_unlock(&conn->mutex);
		return false;
	}
	return got == 2;
}

void snecki_conn_check_silence(struct conn *conn) {
	/* Bytes may have arrived while this process was stopped or the machine asleep. */
	while (snecki_conn_read(conn))
		;
	pthread_mutex_lock(&conn->mutex);
	if (conn->state == CONN_UP && snecki_now_ns() >= snecki_conn_silence_ns(conn)) {
		struct sneck_error why;
		snecki_err(&why, SNECK_ECONN,
		        "the server has not answered for %u ms; is it overloaded or stopped, is the network "
		        "down?",
		        (unsigned)(conn->hurried_n ? conn->hurry_ms : conn->config.command_ms));
		snecki_conn_mark_broken(conn, &why);
	}
	pthread_mutex_unlock(&conn->mutex);
}

/* ---- Waiting and leading --------------------------------------------------------------------*/

/* Locked. May this thread lead, and is it free? */
static bool take_role(struct conn *conn, const struct parker *parker) {
	if (conn->state != CONN_UP || parker->inflight == 0)
		return false;
	if (conn->role != ROLE_NONE && conn->role != ROLE_POLLED)
		return false;
	conn->role = ROLE_LEADER;
	return true;
}

/* Locked. Shall this thread look for its answer before it sleeps? Only one that waits for
 * nobody's answer but its own, and that sent right after it had heard from the server, finds it awake. */
static bool shall_glance(struct conn *conn, const struct parker *parker) {
	if (!parker->may_glance || parker->inflight == 0 || conn->inflight_n != parker->inflight)
		return false;
	const struct req *oldest = LIST_ITEM(conn->inflight.next, struct req, node);
	if (oldest->sent_ns - conn->heard_ns >= GLANCE_AFTER_NS || !snecki_glance_due(&conn->glance))
		return false;
	conn->counters.glances++;
	return true;
}

/* Look for a moment, without sleeping. Returns how many of the descriptors have something. */
static int glance(struct conn *conn, struct pollfd pfds[2]) {
	int64_t end_ns = snecki_now_ns() + GLANCE_NS;
	int n;

	do
		n = poll(pfds, 2, 0);
	while (n == 0 && snecki_now_ns() < end_ns);
	snecki_glance_found(&conn->glance, n > 0);
	return n;
}

/* Poll until something happens to the connection or to the parker. Returns the socket's events. */
static short lead_poll(
        struct conn *conn, struct parker *parker, short events, bool look_first, int64_t deadline_ns) {
	struct pollfd pfds[2] = {
		{ .fd = conn->link.fd, .events = events },
		{ .fd = conn->kick_fd, .events = POLLIN },
	};
	if (atomic_fetch_or(&parker->state, PARKER_POLLING) & PARKER_READY) {
		atomic_fetch_and(&parker->state, ~(uint32_t)PARKER_POLLING);
		return 0;
	}
	int n = 0;
	if (look_first)
		n = glance(conn, pfds);
	if (n == 0) {
		struct timespec left;
		snecki_time_left(deadline_ns, &left);
		n = ppoll(pfds, 2, &left, NULL);
	}
	bool ready = atomic_fetch_and(&parker->state, ~(uint32_t)PARKER_POLLING) & PARKER_READY;
	/* A kick that came after poll had returned would end the next leader's poll for nothing. */
	if (ready || (n > 0 && pfds[1].revents))
		unkick(conn);
	return n > 0 ? pfds[0].revents : 0;
}

/* The caller has the role. Read for everybody until the parker is ready, has nothing in flight any
 * more, its deadline has passed, or the connection is broken; then pass the role on. */
static void lead(struct conn *conn, struct parker *parker, int64_t deadline_ns, bool handed) {
	/* Waking up took longer than the server needs for an answer. */
	if (handed)
		while (snecki_conn_read(conn))
			;
	for (;;) {
		pthread_mutex_lock(&conn->mutex);
		conn->busy = false;
		snecki_conn_flush(conn, true);
		int64_t silence_ns = snecki_conn_silence_ns(conn);
		int64_t until_ns = silence_ns < deadline_ns ? silence_ns : deadline_ns;
		short events = (short)(POLLIN | (conn->blocked ? POLLOUT : 0));
		bool leave = conn->state != CONN_UP || parker->inflight == 0;
		bool look_first = shall_glance(conn, parker);
		pthread_mutex_unlock(&conn->mutex);
		if (leave || snecki_parker_ready(parker))
			break;
		short revents = lead_poll(conn, parker, events, look_first, until_ns);
		if (revents & POLLOUT) {
			pthread_mutex_lock(&conn->mutex);
			conn->blocked = false;
			pthread_mutex_unlock(&conn->mutex);
		}
		if (revents & ~POLLOUT)
			while (snecki_conn_read(conn))
				;
		if (snecki_parker_ready(parker))
			break;
		int64_t now_ns = snecki_now_ns();
		if (now_ns >= silence_ns)
			snecki_conn_check_silence(conn);
		if (now_ns >= deadline_ns)
			break;
	}
	pthread_mutex_lock(&conn->mutex);
	conn->busy = false;
	snecki_conn_flush(conn, true); /* what was left to this thread meanwhile */
	conn->role = ROLE_NONE;
	snecki_conn_assign(conn, false);
	snecki_conn_unlock(conn);
}

/* Wait as a follower. Locked on entry, not on return. True: the role has been handed over. */
static bool follow(struct conn *conn, struct parker *parker, int64_t deadline_ns) {
	/* Under the mutex, so that a leader that leaves next finds it asleep. */
	struct sleep sleep = snecki_parker_lie_down(parker, conn->config.parking);
	pthread_mutex_unlock(&conn->mutex);
	return snecki_parker_sleep(parker, sleep, deadline_ns);
}

bool snecki_conn_park(struct conn *conn, struct parker *parker, int64_t deadline_ns) {
	atomic_store(&parker->conn, conn);
	while (!snecki_parker_ready(parker)) {
		pthread_mutex_lock(&conn->mutex);
		bool took = take_role(conn, parker);
		if (took)
			pthread_mutex_unlock(&conn->mutex);
		bool handed = !took && follow(conn, parker, deadline_ns);
		if (took || handed)
			lead(conn, parker, deadline_ns, handed);
		if (snecki_now_ns() >= deadline_ns)
			return snecki_parker_ready(parker);
	}
	return true;
}
