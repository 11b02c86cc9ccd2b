/* SPDX-License-Identifier: MIT */
/* A socket from nothing to greeted.
 *
 * Nothing here blocks: an attempt is a small state machine that a poll loop drives, with one deadline
 * for the whole of it, so that a dead name server, a firewall that drops packets and a server that
 * accepts but does not answer all end in the same time. A name with several addresses is tried in
 * order; each gets its share of what is left of the time.
 *
 * Every descriptor is CLOEXEC, no write raises SIGPIPE, and an error text names the address and what
 * to do about it but never the credentials; the greeting's bytes are wiped once sent. */
#include "net/link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/err.h"
#include "net/hello.h"
#include "net/reader.h"
#include "net/tls.h"
#include "net/url.h"

enum {
	CHUNK = 64 * 1024,
	BACKLOG_RETRY_MS = 5, /* a Unix socket whose backlog is full cannot be polled for */
	KEEPALIVE_IDLE_S = 5, /* as often as the subscribe connection is asked */
	KEEPALIVE_COUNT = 3,  /* for kernels that do not go by TCP_USER_TIMEOUT */
	WHERE_MAX = 160
};

int snecki_link_init(struct link *link, const struct link_config *config) {
	*link = (struct link){ .config = *config, .fd = -1 };
	link->chunk = malloc(CHUNK);
	return link->chunk ? 0 : SNECK_ENOMEM;
}

void snecki_link_close(struct link *link) {
	snecki_tls_free(link->tls);
	link->tls = NULL;
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
	link->state = LINK_CLOSED;
	snecki_reader_free(link->reader);
	link->reader = NULL;
	snecki_buf_wipe(&link->greeting);
}

void snecki_link_done(struct link *link) {
	snecki_link_close(link);
	snecki_resolver_free(link->resolver);
	link->resolver = NULL;
	free(link->chunk);
	link->chunk = NULL;
}

void snecki_link_abandon(struct link *link, bool quiet) {
	if (!quiet) {
		link->reader = NULL;
		link->tls = NULL;
	}
	/* The helper thread did not come along; its descriptor did. */
	if (link->resolver)
		close(snecki_resolver_fd(link->resolver));
	link->resolver = NULL;
	snecki_link_done(link);
}

void snecki_link_display(const struct link *link, char *out, size_t out_size) {
	const struct url *url = link->config.url;
	if (url->kind == URL_TCP || url->kind == URL_UNIX)
		snecki_url_display(url, out, out_size);
	else if (link->at.port)
		snprintf(out, out_size, strchr(link->at.host, ':') ? "%s[%s]:%u" : "%s%s:%u",
		        link->config.peer == PEER_SENTINEL ? "sentinel "
		        : url->tls                         ? "rediss://"
		                                           : "redis://",
		        link->at.host, link->at.port);
	else
		snecki_url_display(url, out, out_size);
}

static int fail_timeout(const struct link *link, const char *doing, struct sneck_error *reterr) {
	char where[WHERE_MAX];
	snecki_link_display(link, where, sizeof(where));
	snecki_err(reterr, SNECK_ECONN,
	        "cannot connect to %s: %s took longer than %u ms; is the address right, is the server alive?",
	        where, doing, (unsigned)link->config.connect_ms);
	if (reterr)
		reterr->sys_errno = ETIMEDOUT;
	return SNECK_ECONN;
}

static const char *remedy(const struct url *url, int sys_errno) {
	switch (sys_errno) {
	case ENOENT:
		return "no such file; is the server running?";
	case ECONNREFUSED:
		return url->kind == URL_UNIX ? "nobody listens on that socket; is the server running?"
		                             : "connection refused; is the server running?";
	case EACCES:
	case EPERM:
		return "permission denied; may this user write to the socket, does a firewall forbid it?";
	case EAGAIN:
		return "its queue for new connections stays full; is the server overloaded or stopped?";
	case ETIMEDOUT:
		return "no answer; is the address right, does a firewall drop the packets?";
	case EHOSTUNREACH:
	case ENETUNREACH:
		return "no route to it; is the network up?";
	case EMFILE:
	case ENFILE:
		return "no descriptor left; raise the limit (ulimit -n)";
	default:
		return NULL;
	}
}

static int fail_connect(const struct link *link, int sys_errno, struct sneck_error *reterr) {
	char where[WHERE_MAX];
	snecki_link_display(link, where, sizeof(where));
	const char *what = remedy(link->config.url, sys_errno);
	if (!what)
		return snecki_err_sys(reterr, SNECK_ECONN, sys_errno, "cannot connect to %s", where);
	snecki_err(reterr, SNECK_ECONN, "cannot connect to %s: %s", where, what);
	if (reterr)
		reterr->sys_errno = sys_errno;
	return SNECK_ECONN;
}

static void set_int(int fd, int level, int option, int value) {
	/* All of these are wishes: a kernel that refuses one still gives a working connection. */
	(void)setsockopt(fd, level, option, &value, sizeof(value));
}

/* A peer that has vanished sends no packet that would tell. With requests in flight their deadline notices
 * it, or the kernel does, after the same time without an acknowledgement of what was sent; without any, its
 * probes do, so that the next request need not find out. */
static void tune_tcp(const struct link *link) {
	int answer_s = (int)(link->config.command_ms / 1000 + (link->config.command_ms % 1000 != 0));

	set_int(link->fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_int(link->fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_int(link->fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
	set_int(link->fd, IPPROTO_TCP, TCP_KEEPINTVL, answer_s);
	set_int(link->fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT);
	set_int(link->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)link->config.command_ms);
}

/* Send what is left of the greeting. */
static int send_greeting(struct link *link, struct sneck_error *reterr) {
	while (link->greeting.len) {
		ssize_t n = snecki_link_send(link, link->greeting.data, link->greeting.len);
		if (n < 0)
			return fail_connect(link, errno, reterr);
		if (n == 0)
			return 0;
		snecki_buf_consume(&link->greeting, (size_t)n);
	}
	snecki_buf_wipe(&link->greeting);
	return 0;
}

static int begin_greeting(struct link *link, struct sneck_error *reterr) {
	link->state = LINK_GREETING;
	link->reader = snecki_reader_new();
	link->replies_left = snecki_hello_write(link->config.url, link->config.client_name, &link->greeting);
	link->reply_index = 0;
	if (!link->reader || link->replies_left < 0)
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	return 0;
}

/* The socket is connected. */
static int begin_talking(struct link *link, struct sneck_error *reterr) {
	const struct url *url = link->config.url;

	if (url->kind != URL_UNIX)
		tune_tcp(link);
	if (!link->config.tls)
		return begin_greeting(link, reterr);
	const char *name = url->server_name ? url->server_name : link->at.host;
	if (snecki_tls_new(link->config.tls, link->fd, name, &link->tls) < 0)
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	link->state = LINK_SECURING;
	link->tls_events = POLLOUT;
	return 0;
}

/* Start connect() to the address at hand. 0: under way (or greeting already); negative errno: not. */
static int connect_address(struct link *link, int64_t now_ns) {
	const struct sockaddr *addr = (const struct sockaddr *)&link->addresses.addr[link->address_at];
	int left = link->addresses.n - link->address_at;
	if (link->fd < 0) {
		link->fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (link->fd < 0)
			return -errno;
		link->address_ns = now_ns + (link->deadline_ns - now_ns) / left;
	}
	link->state = LINK_CONNECTING;
	link->retry_ns = 0;
	if (connect(link->fd, addr, link->addresses.len[link->address_at]) == 0)
		return 0;
	if (errno == EINPROGRESS || errno == EINTR)
		return 0;
	if (errno == EAGAIN) {
		link->retry_ns = snecki_after_ms(now_ns, BACKLOG_RETRY_MS);
		return 0;
	}
	return -errno;
}

/* Give up this address; try the others in turn. */
static int next_address(struct link *link, int sys_errno, int64_t now_ns, struct sneck_error *reterr) {
	do {
		if (link->fd >= 0)
			close(link->fd);
		link->fd = -1;
		if (++link->address_at >= link->addresses.n)
			return fail_connect(link, sys_errno, reterr);
		int r = connect_address(link, now_ns);
		sys_errno = -r;
	} while (sys_errno);
	return 0;
}

static int first_address(struct link *link, int64_t now_ns, struct sneck_error *reterr) {
	link->address_at = 0;
	int r = connect_address(link, now_ns);
	return r < 0 ? next_address(link, -r, now_ns, reterr) : 0;
}

static void unix_address(const char *path, struct addresses *ret) {
	struct sockaddr_un *addr = (struct sockaddr_un *)&ret->addr[0];
	*addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(addr->sun_path, path, strlen(path)); /* url.c has checked that it fits */
	ret->len[0] = sizeof(*addr);
	ret->n = 1;
}

static int start(struct link *link, int64_t now_ns, struct sneck_error *reterr) {
	const struct url *url = link->config.url;
	link->deadline_ns = snecki_after_ms(now_ns, link->config.connect_ms);
	if (url->kind == URL_UNIX) {
		unix_address(url->path, &link->addresses);
		return first_address(link, now_ns, reterr);
	}
	if (snecki_resolve_numeric(link->at.host, link->at.port, &link->addresses))
		return first_address(link, now_ns, reterr);
	link->state = LINK_RESOLVING;
	if (link->resolver)
		return 0;
	return snecki_resolver_new(link->at.host, link->at.port, &link->resolver, reterr);
}

int snecki_link_start(struct link *link, int64_t now_ns, struct sneck_error *reterr) {
	const struct url *url = link->config.url;
	if (url->host) {
		snprintf(link->at.host, sizeof(link->at.host), "%s", url->host);
		link->at.port = url->port;
	}
	int r = start(link, now_ns, reterr);
	if (r < 0)
		snecki_link_close(link);
	return r;
}

int snecki_link_start_to(
        struct link *link, const struct endpoint *at, int64_t now_ns, struct sneck_error *reterr) {
	if (!snecki_endpoint_same(&link->at, at)) { /* a name that is still being looked up is another one */
		snecki_resolver_free(link->resolver);
		link->resolver = NULL;
	}
	link->at = *at;
	int r = start(link, now_ns, reterr);
	if (r < 0)
		snecki_link_close(link);
	return r;
}

int snecki_link_start_at(
        struct link *link, const struct addresses *addresses, int64_t now_ns, struct sneck_error *reterr) {
	link->deadline_ns = snecki_after_ms(now_ns, link->config.connect_ms);
	link->addresses = *addresses;
	int r = first_address(link, now_ns, reterr);
	if (r < 0)
		snecki_link_close(link);
	return r;
}

int snecki_link_prepare(const struct link *link, struct pollfd *pfd, int64_t *deadline_ns) {
	int64_t deadline = link->deadline_ns;
	*pfd = (struct pollfd){ .fd = link->fd };
	switch (link->state) {
	case LINK_RESOLVING:
		pfd->fd = snecki_resolver_fd(link->resolver);
		pfd->events = POLLIN;
		break;
	case LINK_CONNECTING:
		pfd->events = POLLOUT;
		deadline = link->retry_ns ? link->retry_ns : link->address_ns;
		break;
	case LINK_SECURING:
		pfd->events = link->tls_events;
		break;
	case LINK_GREETING:
		pfd->events = POLLIN | (link->greeting.len ? POLLOUT : 0);
		break;
	case LINK_CLOSED:
	case LINK_UP:
		return 0;
	}
	if (deadline < *deadline_ns)
		*deadline_ns = deadline;
	return link->state == LINK_CONNECTING && link->retry_ns ? 0 : 1;
}

static int step_resolving(struct link *link, int64_t now_ns, struct sneck_error *reterr) {
	int r = snecki_resolver_result(link->resolver, &link->addresses, reterr);
	if (r == 0)
		return now_ns >= link->deadline_ns ? fail_timeout(link, "finding its address", reterr) : 0;
	snecki_resolver_free(link->resolver);
	link->resolver = NULL;
	return r < 0 ? r : first_address(link, now_ns, reterr);
}

static int step_connecting(struct link *link, int64_t now_ns, struct sneck_error *reterr) {
	if (link->retry_ns) {
		if (now_ns >= link->address_ns)
			return next_address(link, EAGAIN, now_ns, reterr);
		if (now_ns < link->retry_ns)
			return 0;
		int r = connect_address(link, now_ns);
		if (r < 0)
			return next_address(link, -r, now_ns, reterr);
		if (link->retry_ns)
			return 0;
	}
	struct pollfd pfd = { .fd = link->fd, .events = POLLOUT };
	if (poll(&pfd, 1, 0) <= 0) {
		if (now_ns < link->address_ns)
			return 0;
		return next_address(link, ETIMEDOUT, now_ns, reterr);
	}
	int so_error = 0;
	socklen_t len = sizeof(so_error);
	if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &so_error, &len) < 0)
		so_error = errno;
	if (so_error)
		return next_address(link, so_error, now_ns, reterr);
	return begin_talking(link, reterr);
}

static int step_securing(struct link *link, int64_t now_ns, struct sneck_error *reterr) {
	char where[WHERE_MAX];
	snecki_link_display(link, where, sizeof(where));
	int r = snecki_tls_handshake(link->tls, &link->tls_events, where, reterr);
	if (r == 0 && now_ns >= link->deadline_ns)
		return snecki_err(reterr, SNECK_ECONN,
		        "cannot connect to %s: no answer to the TLS handshake within %u ms; does it speak "
		        "TLS "
		        "on this port? A plain server is redis://",
		        where, (unsigned)link->config.connect_ms);
	return r <= 0 ? r : begin_greeting(link, reterr);
}

static int judge_greeting(struct link *link, const struct redisReply *reply, struct sneck_error *reterr) {
	char where[WHERE_MAX];
	snecki_link_display(link, where, sizeof(where));
	return snecki_hello_check(where, link->config.peer, link->reply_index++, reply, reterr);
}

/* A server that hangs up without a word when it is greeted in plain text may have expected another language.
 */
static int hung_up(const struct link *link, int code, struct sneck_error *reterr) {
	char where[WHERE_MAX];

	if (link->tls || link->config.url->kind == URL_UNIX || link->reply_index > 0 || code != SNECK_ECONN)
		return code;
	snecki_link_display(link, where, sizeof(where));
	return snecki_err(reterr, SNECK_ECONN,
	        "%s ended the connection instead of answering; did it stop, or does it speak TLS on this "
	        "port? "
	        "Then write rediss://",
	        where);
}

static int step_greeting(struct link *link, int64_t now_ns, struct sneck_error *reterr) {
	/* A server that refuses says why and closes, perhaps before it was greeted: its words count, not
	 * the end of the connection. */
	struct sneck_error last = { 0 };
	int broken = send_greeting(link, reterr);
	int received = snecki_link_receive(link, &last);
	if (received < 0 && (broken == 0 || last.code == SNECK_EACCES)) {
		broken = last.code;
		if (reterr)
			*reterr = last;
	}
	struct redisReply *reply;
	int r = 0;
	while (link->replies_left > 0 && (r = snecki_link_next(link, &reply, reterr)) > 0) {
		int judged = judge_greeting(link, reply, reterr);
		freeReplyObject(reply);
		if (judged < 0)
			return judged;
		link->replies_left--;
	}
	if (r < 0)
		return r;
	if (link->replies_left == 0) {
		link->state = LINK_UP;
		return 1;
	}
	if (broken < 0)
		return hung_up(link, broken, reterr);
	return now_ns >= link->deadline_ns ? fail_timeout(link, "its greeting", reterr) : 0;
}

int snecki_link_step(struct link *link, int64_t now_ns, struct sneck_error *reterr) {
	int r = 0;
	/* A state may be over at once (a local socket connects without delay): go on until one waits. */
	for (enum link_state before = LINK_CLOSED; r == 0 && before != link->state;) {
		before = link->state;
		switch (link->state) {
		case LINK_RESOLVING:
			r = step_resolving(link, now_ns, reterr);
			break;
		case LINK_CONNECTING:
			r = step_connecting(link, now_ns, reterr);
			break;
		case LINK_SECURING:
			r = step_securing(link, now_ns, reterr);
			break;
		case LINK_GREETING:
			r = step_greeting(link, now_ns, reterr);
			break;
		case LINK_CLOSED:
		case LINK_UP:
			break;
		}
	}
	if (r < 0)
		snecki_link_close(link);
	return r;
}

ssize_t snecki_link_send(struct link *link, const char *data, size_t len) {
	if (link->tls)
		return snecki_tls_send(link->tls, data, len);
	for (;;) {
		ssize_t n = send(link->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0)
			return n;
		if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)
			return 0;
		if (errno != EINTR)
			return -1;
	}
}

/* Until there is nothing left: what was taken from the socket nobody could poll for. */
static int receive_tls(struct link *link, struct sneck_error *reterr) {
	bool more = true;
	int got = 0;

	while (more) {
		ssize_t n = snecki_tls_receive(link->tls, link->chunk, CHUNK, &more);
		if (n == 0 || (n < 0 && got)) /* what came before the end goes first */
			return got;
		if (n < 0) {
			char where[WHERE_MAX];
			snecki_link_display(link, where, sizeof(where));
			return snecki_tls_why(link->tls, where, reterr);
		}
		int r = snecki_reader_feed(link->reader, link->chunk, (size_t)n, reterr);
		if (r < 0)
			return r;
		got = 1;
	}
	return got;
}

int snecki_link_receive(struct link *link, struct sneck_error *reterr) {
	if (link->tls)
		return receive_tls(link, reterr);
	ssize_t n;
	do {
		n = recv(link->fd, link->chunk, CHUNK, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		int r = snecki_reader_feed(link->reader, link->chunk, (size_t)n, reterr);
		if (r < 0)
			return r;
		return n == CHUNK ? 2 : 1;
	}
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return 0;
	char where[WHERE_MAX];
	int sys_errno = n < 0 ? errno : 0;
	snecki_link_display(link, where, sizeof(where));
	if (sys_errno)
		return snecki_err_sys(reterr, SNECK_ECONN, sys_errno, "the connection to %s broke", where);
	return snecki_err(reterr, SNECK_ECONN,
	        "the server %s closed the connection; did it stop, or was this client killed there?", where);
}

int snecki_link_next(struct link *link, struct redisReply **ret, struct sneck_error *reterr) {
	return snecki_reader_next(link->reader, ret, reterr);
}

void snecki_link_shutdown(struct link *link) {
	if (link->fd >= 0)
		(void)shutdown(link->fd, SHUT_RDWR);
}
