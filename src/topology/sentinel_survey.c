/* SPDX-License-Identifier: MIT */
/* Asking the sentinels what they think of each other.
 *
 * Nothing here decides where a lock lives; the sentinel that does is asked in sentinel.c. A sentinel that
 * does not answer in time, or does not let this user ask, leaves its facts unknown. Each has the time that
 * the client gives to connecting and to one command, so the whole takes at most that much for each of them.
 */
#include "topology/sentinel_survey.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <hiredis/hiredis.h>

#include <sneck/error.h>

#include "base/buf.h"
#include "base/clock.h"
#include "net/link.h"
#include "net/reply.h"

enum { QUESTIONS = 3 };

/* ---- One conversation ---------------------------------------------------------------------------*/

static void write_question(struct buf *out, const char *what, const char *service) {
	snecki_buf_resp_array(out, 3);
	snecki_buf_resp_str(out, "SENTINEL");
	snecki_buf_resp_str(out, what);
	snecki_buf_resp_str(out, service);
}

static void wait_for(struct pollfd *pfd, int n, int64_t deadline_ns) {
	struct timespec left;

	snecki_time_left(deadline_ns, &left);
	(void)ppoll(pfd, (nfds_t)n, &left, NULL);
}

static bool connect_to(struct link *link, const struct endpoint *at) {
	struct sneck_error why;
	int r = snecki_link_start_to(link, at, snecki_now_ns(), &why);

	while (r == 0 && (r = snecki_link_step(link, snecki_now_ns(), &why)) == 0) {
		int64_t deadline_ns = NS_NEVER;
		struct pollfd pfd;
		int n = snecki_link_prepare(link, &pfd, &deadline_ns);
		wait_for(&pfd, n, deadline_ns);
	}
	return r > 0;
}

/* How many answers came. */
static int exchange(struct link *link, struct buf *out, redisReply *ret[QUESTIONS], int64_t deadline_ns) {
	struct sneck_error why;
	int got = 0;

	while (got < QUESTIONS && snecki_now_ns() < deadline_ns) {
		struct pollfd pfd = { .fd = link->fd, .events = (short)(POLLIN | (out->len ? POLLOUT : 0)) };
		wait_for(&pfd, 1, deadline_ns);
		ssize_t sent = out->len ? snecki_link_send(link, out->data, out->len) : 0;
		if (sent < 0 || snecki_link_receive(link, &why) < 0)
			break;
		snecki_buf_consume(out, (size_t)sent);
		int r = 0;
		while (got < QUESTIONS && (r = snecki_link_next(link, &ret[got], &why)) > 0)
			got++;
		if (r < 0)
			break;
	}
	return got;
}

/* ---- What they say ------------------------------------------------------------------------------*/

static bool own_address(const struct link *link, char *ret, size_t size) {
	struct sockaddr_storage addr;
	socklen_t len = sizeof addr;

	return getpeername(link->fd, (struct sockaddr *)&addr, &len) == 0 &&
	       getnameinfo((struct sockaddr *)&addr, len, ret, (socklen_t)size, NULL, 0, NI_NUMERICHOST) == 0;
}

/* On how many hosts they are, by their addresses. The one that was asked does not tell its own; how it is
 * reached says nothing if that is by way of the loopback interface. */
static int32_t count_hosts(const struct link *link, const redisReply *others) {
	char own[NI_MAXHOST];
	int32_t n = 0;
	bool own_counts =
	        own_address(link, own, sizeof own) && strncmp(own, "127.", 4) != 0 && strcmp(own, "::1") != 0;

	for (size_t i = 0; i < others->elements; i++) {
		const char *host = snecki_reply_field(others->element[i], "ip");
		bool seen = !host;
		for (size_t j = 0; j < i && !seen; j++) {
			const char *earlier = snecki_reply_field(others->element[j], "ip");
			seen = earlier && strcmp(earlier, host) == 0;
		}
		n += !seen;
		if (host && strcmp(host, own) == 0)
			own_counts = false;
	}
	return n == 0 || own_counts ? n + 1 : n;
}

static void read_details(const struct link *link, const redisReply *service, const redisReply *others,
        struct sentinel_survey *ret) {
	if (service->type != REDIS_REPLY_ARRAY || ret->sentinels >= 0)
		return;
	int64_t other = snecki_reply_number(service, "num-other-sentinels");
	ret->sentinels = other < 0 ? -1 : (int32_t)other + 1;
	ret->quorum = (int32_t)snecki_reply_number(service, "quorum");
	ret->down_after_ms = snecki_reply_number(service, "down-after-milliseconds");
	if (others->type == REDIS_REPLY_ARRAY)
		ret->hosts = count_hosts(link, others);
}

/* "" if it names none. */
static const char *named(const redisReply *place, size_t i) {
	return place->type == REDIS_REPLY_ARRAY && place->elements == 2 &&
	                       place->element[i]->type == REDIS_REPLY_STRING
	               ? place->element[i]->str
	               : "";
}

/* `first`: the place that the first sentinel named, or NULL. Takes the answers. */
static void judge(const struct link *link, redisReply *replies[QUESTIONS], redisReply **first,
        struct sentinel_survey *ret) {
	const redisReply *place = replies[0];

	ret->answering++;
	read_details(link, replies[1], replies[2], ret);
	if (*first && named(place, 0)[0] &&
	        (strcmp(named(place, 0), named(*first, 0)) != 0 ||
	                strcmp(named(place, 1), named(*first, 1)) != 0))
		ret->dissenting++;
	if (!*first && named(place, 0)[0]) {
		*first = replies[0];
		replies[0] = NULL;
	}
}

static void ask_one(struct link *link, const struct sentinel_config *config, const struct endpoint *at,
        redisReply **first, struct sentinel_survey *ret) {
	redisReply *replies[QUESTIONS] = { NULL, NULL, NULL };
	struct buf out = BUF_INIT;

	write_question(&out, "GET-MASTER-ADDR-BY-NAME", config->url->service);
	write_question(&out, "MASTER", config->url->service);
	write_question(&out, "SENTINELS", config->url->service);
	if (!out.failed && connect_to(link, at) &&
	        exchange(link, &out, replies, snecki_after_ms(snecki_now_ns(), config->command_ms)) ==
	                QUESTIONS)
		judge(link, replies, first, ret);
	for (int i = 0; i < QUESTIONS; i++)
		if (replies[i])
			freeReplyObject(replies[i]);
	snecki_buf_done(&out);
	snecki_link_close(link);
}

int snecki_sentinel_survey(const struct sentinel_config *config, struct sentinel_survey *ret) {
	struct url login = snecki_sentinel_login(config->url);
	const struct link_config link_config = { .url = &login,
		.peer = PEER_SENTINEL,
		.tls = config->tls,
		.client_name = config->client_name,
		.connect_ms = config->connect_ms,
		.command_ms = config->command_ms };
	redisReply *first = NULL;
	struct link link;

	*ret = (struct sentinel_survey){ 0, 0, -1, -1, -1, -1 };
	int r = snecki_link_init(&link, &link_config);
	if (r < 0)
		return r;
	for (size_t i = 0; i < config->url->seeds_n; i++)
		ask_one(&link, config, &config->url->seeds[i], &first, ret);
	if (first)
		freeReplyObject(first);
	snecki_link_done(&link);
	return 0;
}
