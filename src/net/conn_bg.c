/* SPDX-License-Identifier: MIT */
/* The background thread's side of the command connection: it makes the connection, reads when no
 * caller does, notices silence and hang-up, and takes a broken connection down. Creating and
 * freeing are here as well, and what is about the connection as a whole rather than about one request.
 *
 * Its poll covers the socket in two ways. With requests in flight that no thread waits for, the role is
 * ROLE_POLLED: the poll waits for input, and a caller that parks may take the role over (the poll then
 * ends once for nothing). Otherwise it waits for a hang-up only, so that the traffic of callers
 * who read for themselves does not wake this thread.
 *
 * A request that was in flight when the connection broke is REQ_UNKNOWN if the kernel had taken a
 * byte of it, else it is queued again: a caller must not be told of a connection that the server
 * closed while it was idle. What is queued outlives a break and fails only with a failed attempt to
 * connect. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/err.h"
#include "net/conn_internal.h"
#include "net/url.h"

enum { READS_PER_RUN = 16 /* the background thread has other things to do as well */ };

/* ---- Life -----------------------------------------------------------------------------------*/

int snecki_conn_new(const struct conn_config *config, struct conn **ret) {
	struct conn *conn = calloc(1, sizeof(*conn));
	if (!conn)
		return SNECK_ENOMEM;
	const struct link_config link_config = {
		.url = config->url,
		.tls = config->tls,
		.client_name = config->client_name,
		.peer = config->peer,
		.connect_ms = config->connect_ms,
		.command_ms = config->command_ms,
	};
	conn->config = *config;
	conn->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int r = conn->kick_fd < 0 ? SNECK_ESYS : snecki_link_init(&conn->link, &link_config);
	if (r < 0) {
		if (conn->kick_fd >= 0)
			close(conn->kick_fd);
		free(conn);
		return r;
	}
	snecki_list_init(&conn->queued);
	snecki_list_init(&conn->inflight);
	pthread_mutex_init(&conn->mutex, NULL);
	*ret = conn;
	return 0;
}

static void free_parts(struct conn *conn) {
	close(conn->kick_fd);
	snecki_buf_done(&conn->out);
	snecki_buf_done(&conn->wr);
	free(conn);
}

void snecki_conn_abandon(struct conn *conn) {
	/* The mutex may have been held at the fork, by a thread that does not exist here. */
	bool quiet = conn->role != ROLE_LEADER && conn->role != ROLE_BACKGROUND && !conn->writing;
	snecki_link_abandon(&conn->link, quiet);
	if (!quiet) {
		conn->out = (struct buf)BUF_INIT;
		conn->wr = (struct buf)BUF_INIT;
	}
	free_parts(conn);
}

/* Locked. Move a whole list away, to complete it without the mutex. */
static void take_list(struct list *from, struct list *to) {
	snecki_list_init(to);
	LIST_EACH (node, from) {
		struct req *req = LIST_ITEM(node, struct req, node);
		snecki_list_remove(node);
		snecki_list_append(to, node);
		req->place = REQ_OUT_OF_LINE;
		if (req->parker)
			req->parker->inflight--;
	}
}

/* Not locked. `written`: how far the kernel had taken the stream these requests were part of. */
static void complete_list(
        struct conn *conn, struct list *list, uint64_t written, const struct sneck_error *why) {
	LIST_EACH (node, list) {
		struct req *req = LIST_ITEM(node, struct req, node);
		bool left = req->sent_ns != 0 && req->offset < written;
		snecki_list_remove(node);
		freeReplyObject(req->first); /* half an answer is none */
		req->first = NULL;
		if (!left)
			req->sent_ns = 0;
		if (left || conn->closing || !conn->config.unsent ||
		        !conn->config.unsent(conn->config.ctx, req, why))
			req->done(req, left ? REQ_UNKNOWN : REQ_NOT_SENT, NULL, why);
	}
}

void snecki_conn_recall(struct conn *conn, struct list *ret) {
	pthread_mutex_lock(&conn->mutex);
	take_list(&conn->queued, ret);
	pthread_mutex_unlock(&conn->mutex);
	LIST_EACH (node, ret)
		LIST_ITEM(node, struct req, node)->parker = NULL;
}

/* Locked. What the kernel has not taken a byte of is at the end of the line; it goes to the head of
 * the queue, in its order, and is sent on the next connection. */
static void queue_unsent(struct conn *conn) {
	while (!snecki_list_empty(&conn->inflight)) {
		struct req *req = LIST_ITEM(conn->inflight.prev, struct req, node);
		if (req->offset < conn->written)
			return;
		snecki_list_remove(&req->node);
		snecki_list_insert_before(conn->queued.next, &req->node);
		req->place = REQ_QUEUED;
		req->sent_ns = 0;
		conn->counters.commands--;
	}
}

/* Locked on entry and return. Close the socket and complete what was in flight. Nobody writes or
 * leads. */
static void take_down(struct conn *conn, const struct sneck_error *why) {
	struct list answerless;
	uint64_t written = conn->written;
	if (!conn->closing)
		queue_unsent(conn);
	take_list(&conn->inflight, &answerless);
	conn->inflight_n = 0;
	conn->orphan_n = 0;
	conn->unsent_n = 0;
	conn->hurried_n = 0;
	conn->role = ROLE_NONE;
	conn->blocked = false;
	conn->hangup_ignored = false;
	snecki_buf_clear(&conn->out);
	snecki_buf_clear(&conn->wr);
	conn->wr_at = 0;
	conn->added = conn->offered = conn->written = 0;
	snecki_link_close(&conn->link);
	conn->state = CONN_DOWN;
	pthread_mutex_unlock(&conn->mutex);
	complete_list(conn, &answerless, written, why);
	pthread_mutex_lock(&conn->mutex);
}

void snecki_conn_close(struct conn *conn) {
	struct sneck_error why;
	struct list queued;
	snecki_err(&why, SNECK_ECLOSED, "the connection is being closed");
	pthread_mutex_lock(&conn->mutex);
	conn->closing = true;
	take_list(&conn->queued, &queued);
	take_down(conn, &why);
	pthread_mutex_unlock(&conn->mutex);
	complete_list(conn, &queued, 0, &why);
}

void snecki_conn_free(struct conn *conn) {
	if (!conn)
		return;
	snecki_conn_close(conn);
	snecki_link_done(&conn->link);
	pthread_mutex_destroy(&conn->mutex);
	free_parts(conn);
}

/* ---- For whoever looks at it, or means all of it -----------------------------------------------*/

void snecki_conn_want(struct conn *conn) {
	pthread_mutex_lock(&conn->mutex);
	if (conn->state != CONN_UP && !conn->wanted) {
		conn->wanted = true;
		snecki_conn_wake_background(conn);
	}
	pthread_mutex_unlock(&conn->mutex);
}

bool snecki_conn_is_up(struct conn *conn) {
	pthread_mutex_lock(&conn->mutex);
	bool up = conn->state == CONN_UP;
	pthread_mutex_unlock(&conn->mutex);
	return up;
}

void snecki_conn_counters(struct conn *conn, struct conn_counters *ret) {
	pthread_mutex_lock(&conn->mutex);
	*ret = conn->counters;
	pthread_mutex_unlock(&conn->mutex);
}

size_t snecki_conn_in_line(struct conn *conn) {
	pthread_mutex_lock(&conn->mutex);
	size_t n = conn->inflight_n;
	LIST_EACH (node, &conn->queued)
		n++;
	pthread_mutex_unlock(&conn->mutex);
	return n;
}

void snecki_conn_break(struct conn *conn, const char *text) {
	struct sneck_error why;
	snecki_err(&why, SNECK_ECONN, "%s", text);
	pthread_mutex_lock(&conn->mutex);
	snecki_conn_mark_broken(conn, &why);
	pthread_mutex_unlock(&conn->mutex);
}

/* ---- Coming up and going down ---------------------------------------------------------------*/

static void tell(const struct conn *conn, int level, const char *what, const char *text) {
	char where[160];
	snecki_url_display(conn->config.url, where, sizeof(where));
	snecki_log(conn->config.log, level, "%s %s%s%s", where, what, text ? ": " : "", text ? text : "");
}

/* The link is up: send what has been queued. */
static void come_up(struct conn *conn, int64_t now_ns) {
	struct list failed;
	snecki_list_init(&failed);
	pthread_mutex_lock(&conn->mutex);
	conn->state = CONN_UP;
	conn->role = ROLE_NONE;
	conn->wanted = false;
	conn->heard_ns = now_ns;
	conn->up_ns = now_ns;
	conn->word = 0;
	conn->counters.connects++;
	/* The connection's `sent_ns` must be before the first byte can leave, and as late as it can. */
	int64_t sent_ns = snecki_now_ns();
	LIST_EACH (node, &conn->queued) {
		struct req *req = LIST_ITEM(node, struct req, node);
		snecki_list_remove(node);
		if (snecki_conn_enlist(conn, req, sent_ns))
			continue;
		req->place = REQ_OUT_OF_LINE;
		if (req->parker)
			req->parker->inflight--;
		snecki_list_append(&failed, node);
	}
	snecki_conn_flush(conn, true);
	snecki_conn_assign(conn, true);
	snecki_conn_unlock(conn);
	struct sneck_error why;
	snecki_err(&why, SNECK_ENOMEM, "out of memory for a request");
	complete_list(conn, &failed, 0, &why);
	tell(conn, LOG_INFO_, "connected", NULL);
	if (conn->config.on_up)
		conn->config.on_up(conn->config.ctx, sent_ns);
}

/* An attempt has failed: so has everything that waited for it, unless there is another place to try. */
static void fail_attempt(struct conn *conn, const struct sneck_error *why, int64_t now_ns) {
	struct list queued;
	if (conn->config.elsewhere && conn->config.elsewhere(conn->config.ctx, why)) {
		pthread_mutex_lock(&conn->mutex);
		conn->state = CONN_DOWN;
		conn->next_attempt_ns = now_ns;
		pthread_mutex_unlock(&conn->mutex);
		return;
	}
	pthread_mutex_lock(&conn->mutex);
	conn->state = CONN_DOWN;
	conn->wanted = false;
	conn->next_attempt_ns = snecki_backoff_next_ns(&conn->backoff, now_ns);
	take_list(&conn->queued, &queued);
	pthread_mutex_unlock(&conn->mutex);
	complete_list(conn, &queued, 0, why);
	tell(conn, LOG_WARN_, "not connected", why->text);
	if (conn->config.on_down)
		conn->config.on_down(conn->config.ctx, why);
}

static void run_connecting(struct conn *conn, int64_t now_ns) {
	struct sneck_error why;
	int r = snecki_link_step(&conn->link, now_ns, &why);
	if (r > 0) {
		snecki_backoff_reset(&conn->backoff);
		come_up(conn, now_ns);
	} else if (r < 0) {
		fail_attempt(conn, &why, now_ns);
	}
}

/* Locked. */
static bool connect_due(const struct conn *conn) {
	return conn->state == CONN_DOWN && !conn->closing && !conn->lost &&
	       (conn->wanted || !snecki_list_empty(&conn->queued));
}

/* 1: under way; 0: where to is not known yet; negative: it has failed. */
static int start_attempt(struct conn *conn, int64_t now_ns, struct sneck_error *why) {
	struct endpoint at;
	if (!conn->config.where)
		return snecki_link_start(&conn->link, now_ns, why) < 0 ? why->code : 1;
	int known = conn->config.where(conn->config.ctx, &at, why);
	if (known <= 0)
		return known;
	return snecki_link_start_to(&conn->link, &at, now_ns, why) < 0 ? why->code : 1;
}

static void run_down(struct conn *conn, int64_t now_ns) {
	struct sneck_error why;
	pthread_mutex_lock(&conn->mutex);
	bool start = connect_due(conn) && now_ns >= conn->next_attempt_ns;
	if (start)
		conn->state = CONN_CONNECTING;
	pthread_mutex_unlock(&conn->mutex);
	if (!start)
		return;
	int r = start_attempt(conn, now_ns, &why);
	if (r < 0) {
		fail_attempt(conn, &why, now_ns);
	} else if (r > 0) {
		run_connecting(conn, now_ns);
	} else {
		pthread_mutex_lock(&conn->mutex);
		conn->state = CONN_DOWN;
		conn->lost = true;
		pthread_mutex_unlock(&conn->mutex);
	}
}

void snecki_conn_look_again(struct conn *conn) {
	struct endpoint at;
	struct sneck_error why;
	pthread_mutex_lock(&conn->mutex);
	conn->lost = false; /* whoever waits for the place hears of a failure by asking for it */
	pthread_mutex_unlock(&conn->mutex);
	if (conn->config.where(conn->config.ctx, NULL, NULL) <= 0 ||
	        conn->config.where(conn->config.ctx, &at, &why) <= 0)
		return;
	pthread_mutex_lock(&conn->mutex);
	bool elsewhere = !snecki_endpoint_same(&at, &conn->link.at);
	if (elsewhere && conn->state == CONN_DOWN)
		conn->next_attempt_ns = 0;
	if (elsewhere && conn->state == CONN_UP) {
		snecki_err(&why, SNECK_ECONN, "the primary is another server now");
		snecki_conn_mark_broken(conn, &why);
	}
	pthread_mutex_unlock(&conn->mutex);
}

/* Locked. */
static bool may_take_down(const struct conn *conn) {
	return conn->state == CONN_BROKEN && !conn->writing && conn->role != ROLE_LEADER;
}

static void run_broken(struct conn *conn, int64_t now_ns) {
	struct sneck_error why;
	pthread_mutex_lock(&conn->mutex);
	if (!may_take_down(conn)) {
		pthread_mutex_unlock(&conn->mutex);
		return;
	}
	why = conn->why;
	conn->counters.disconnects++;
	/* A break is followed by an attempt at once, but a server that greets and then hangs up is not
	 * worth a busy loop. */
	if (now_ns < snecki_after_ms(conn->up_ns, BACKOFF_MIN_MS))
		conn->next_attempt_ns = snecki_backoff_next_ns(&conn->backoff, now_ns);
	take_down(conn, &why);
	pthread_mutex_unlock(&conn->mutex);
	tell(conn, LOG_WARN_, "disconnected", why.text);
	if (conn->config.on_down)
		conn->config.on_down(conn->config.ctx, &why);
}

/* ---- The poll loop --------------------------------------------------------------------------*/

int snecki_conn_bg_prepare(struct conn *conn, struct pollfd pfds[2], int64_t *deadline_ns) {
	int64_t until_ns = NS_NEVER;
	int n = 0;
	pthread_mutex_lock(&conn->mutex);
	conn->woken = false;
	switch (conn->state) {
	case CONN_DOWN:
		if (connect_due(conn))
			until_ns = conn->next_attempt_ns;
		break;
	case CONN_CONNECTING:
		n = snecki_link_prepare(&conn->link, &pfds[0], &until_ns);
		break;
	case CONN_BROKEN:
		if (may_take_down(conn))
			until_ns = 0;
		break;
	case CONN_UP:
		if (conn->role == ROLE_NONE && conn->orphan_n)
			conn->role = ROLE_POLLED;
		if (conn->role == ROLE_POLLED)
			snecki_conn_flush(conn, true);
		if (conn->role != ROLE_LEADER)
			until_ns = snecki_conn_silence_ns(conn);
		if (conn->hangup_ignored && conn->role == ROLE_LEADER)
			break;
		conn->hangup_ignored = false;
		pfds[0] = (struct pollfd){ .fd = conn->link.fd, .events = POLLRDHUP };
		if (conn->role == ROLE_POLLED)
			pfds[0].events |= (short)(POLLIN | (conn->blocked ? POLLOUT : 0));
		n = 1;
		break;
	}
	pthread_mutex_unlock(&conn->mutex);
	if (until_ns < *deadline_ns)
		*deadline_ns = until_ns;
	return n;
}

static void run_up(struct conn *conn, short revents, int64_t now_ns) {
	pthread_mutex_lock(&conn->mutex);
	bool hangup = revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL);
	bool silent = now_ns >= snecki_conn_silence_ns(conn);
	bool input = (revents & POLLIN) && conn->role == ROLE_POLLED;
	if (conn->role == ROLE_LEADER) {
		conn->hangup_ignored = hangup;
		pthread_mutex_unlock(&conn->mutex);
		return;
	}
	if (conn->role == ROLE_POLLED && (revents & POLLOUT))
		conn->blocked = false;
	if (!hangup && !silent && !input) {
		pthread_mutex_unlock(&conn->mutex);
		return;
	}
	conn->role = ROLE_BACKGROUND;
	pthread_mutex_unlock(&conn->mutex);
	if (silent)
		snecki_conn_check_silence(conn);
	else
		for (int i = 0; i < READS_PER_RUN && snecki_conn_read(conn); i++)
			;
	pthread_mutex_lock(&conn->mutex);
	conn->role = ROLE_NONE;
	snecki_conn_flush(conn, true);
	snecki_conn_assign(conn, true);
	snecki_conn_unlock(conn);
}

static enum conn_state state_of(struct conn *conn) {
	pthread_mutex_lock(&conn->mutex);
	enum conn_state state = conn->state;
	pthread_mutex_unlock(&conn->mutex);
	return state;
}

void snecki_conn_bg_run(struct conn *conn, const struct pollfd *pfds, int n, int64_t now_ns) {
	short revents = n > 0 ? pfds[0].revents : 0;
	if (state_of(conn) == CONN_UP)
		run_up(conn, revents, now_ns);
	else if (state_of(conn) == CONN_CONNECTING)
		run_connecting(conn, now_ns);
	run_broken(conn, now_ns);
	run_down(conn, now_ns);
}
