/* SPDX-License-Identifier: MIT */
/* One thread per line. Each direction of each connection is a queue of pieces, each with the time at which it
 * is to go on; what is read at once goes on at once, so a batch stays a batch. */
#include "delay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "stats.h"

enum { PAIRS_MAX = 64, PIECE = 256 * 1024 };

struct piece {
	struct piece *next;
	double due_s;
	size_t len, at;
	char bytes[];
};

struct way {
	int from, to;
	struct piece *first, **last;
};

struct pair {
	bool open;
	struct way ways[2];
};

struct delay_line {
	pthread_t thread;
	int listen_fd, wake_fd;
	struct sockaddr_un server;
	atomic_int delay_ms;
	atomic_bool stop, cut;
	struct pair pairs[PAIRS_MAX];
	char *chunk;
};

static void check(bool ok, const char *what) {
	if (ok)
		return;
	fprintf(stderr, "bench: delay line: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void begin_way(struct way *way, int from, int to) {
	*way = (struct way){ .from = from, .to = to };
	way->last = &way->first;
}

static void accept_pair(struct delay_line *line) {
	int client = accept4(line->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), on = 1;
	int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (client < 0)
		return;
	check(server >= 0 && connect(server, (struct sockaddr *)&line->server, sizeof line->server) == 0,
	        "connect");
	setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	for (int i = 0; i < PAIRS_MAX; i++) {
		struct pair *pair = &line->pairs[i];
		if (pair->open)
			continue;
		pair->open = true;
		begin_way(&pair->ways[0], client, server);
		begin_way(&pair->ways[1], server, client);
		return;
	}
	check(false, "too many connections");
}

static void close_pair(struct pair *pair) {
	pair->open = false;
	close(pair->ways[0].from);
	close(pair->ways[0].to);
	for (int i = 0; i < 2; i++) {
		for (struct piece *piece = pair->ways[i].first, *next; piece; piece = next) {
			next = piece->next;
			free(piece);
		}
	}
}

/* False: the end. */
static bool take(struct delay_line *line, struct way *way) {
	ssize_t n = recv(way->from, line->chunk, PIECE, MSG_DONTWAIT);

	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	struct piece *piece = malloc(sizeof *piece + (size_t)n);
	check(piece != NULL, "memory");
	*piece = (struct piece){ .due_s = now_s() + atomic_load(&line->delay_ms) / 1000.0, .len = (size_t)n };
	memcpy(piece->bytes, line->chunk, (size_t)n);
	*way->last = piece;
	way->last = &piece->next;
	return true;
}

static bool give(struct way *way) {
	while (way->first && way->first->due_s <= now_s()) {
		struct piece *piece = way->first;
		ssize_t n = send(way->to, piece->bytes + piece->at, piece->len - piece->at,
		        MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN;
		piece->at += (size_t)n;
		if (piece->at < piece->len)
			return true;
		way->first = piece->next;
		if (!way->first)
			way->last = &way->first;
		free(piece);
	}
	return true;
}

/* Fills in what to poll for, two for each connection that there is, and returns how many; `*due_s` becomes
 * the time of the next piece, if that is sooner. */
static nfds_t prepare(struct delay_line *line, struct pollfd *pfds, double *due_s) {
	nfds_t n = 2;

	pfds[0] = (struct pollfd){ .fd = line->wake_fd, .events = POLLIN };
	pfds[1] = (struct pollfd){ .fd = line->listen_fd, .events = POLLIN };
	for (int i = 0; i < PAIRS_MAX; i++) {
		const struct pair *pair = &line->pairs[i];
		for (int j = 0; pair->open && j < 2; j++) {
			const struct way *way = &pair->ways[j];
			pfds[n++] = (struct pollfd){ .fd = way->from, .events = POLLIN };
			if (way->first && way->first->due_s < *due_s)
				*due_s = way->first->due_s;
		}
	}
	return n;
}

/* `pfds`: those of the connections, as prepared. */
static void carry(struct delay_line *line, const struct pollfd *pfds, bool cut) {
	for (int i = 0; i < PAIRS_MAX; i++) {
		struct pair *pair = &line->pairs[i];
		bool ok = !cut;
		if (!pair->open)
			continue;
		for (int j = 0; j < 2; j++, pfds++)
			ok = ok && (!pfds->revents || take(line, &pair->ways[j])) && give(&pair->ways[j]);
		if (!ok)
			close_pair(pair);
	}
}

static void *run(void *ctx) {
	struct delay_line *line = ctx;
	struct pollfd pfds[2 + 2 * PAIRS_MAX];

	while (!atomic_load(&line->stop)) {
		double now = now_s(), due_s = now + 0.5;
		nfds_t n = prepare(line, pfds, &due_s);
		struct timespec left = { .tv_nsec = due_s > now ? (long)((due_s - now) * 1e9) : 0 };
		ppoll(pfds, n, &left, NULL);
		uint64_t count;
		if (pfds[0].revents && read(line->wake_fd, &count, sizeof count) < 0)
			check(false, "wake");
		carry(line, pfds + 2, atomic_exchange(&line->cut, false));
		if (pfds[1].revents)
			accept_pair(line);
	}
	return NULL;
}

struct delay_line *delay_line_start(const char *socket_path, int *ret_port) {
	struct delay_line *line = calloc(1, sizeof *line);
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof here;

	check(line != NULL && (line->chunk = malloc(PIECE)) != NULL, "memory");
	line->server.sun_family = AF_UNIX;
	snprintf(line->server.sun_path, sizeof line->server.sun_path, "%s", socket_path);
	line->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	check(line->listen_fd >= 0 && bind(line->listen_fd, (struct sockaddr *)&here, len) == 0 &&
	                listen(line->listen_fd, 64) == 0 &&
	                getsockname(line->listen_fd, (struct sockaddr *)&here, &len) == 0,
	        "listen");
	line->wake_fd = eventfd(0, EFD_CLOEXEC);
	check(line->wake_fd >= 0 && pthread_create(&line->thread, NULL, run, line) == 0, "thread");
	*ret_port = ntohs(here.sin_port);
	return line;
}

static void wake(struct delay_line *line) {
	uint64_t one = 1;
	check(write(line->wake_fd, &one, sizeof one) == sizeof one, "wake");
}

void delay_line_stop(struct delay_line *line) {
	atomic_store(&line->stop, true);
	wake(line);
	pthread_join(line->thread, NULL);
	for (int i = 0; i < PAIRS_MAX; i++)
		if (line->pairs[i].open)
			close_pair(&line->pairs[i]);
	close(line->listen_fd);
	close(line->wake_fd);
	free(line->chunk);
	free(line);
}

void delay_line_set(struct delay_line *line, int ms) {
	atomic_store(&line->delay_ms, ms);
}

double delay_line_cpu_s(const struct delay_line *line) {
	struct timespec taken = { 0 };
	clockid_t clock;

	check(pthread_getcpuclockid(line->thread, &clock) == 0 && clock_gettime(clock, &taken) == 0, "clock");
	return (double)taken.tv_sec + (double)taken.tv_nsec / 1e9;
}

void delay_line_cut(struct delay_line *line) {
	atomic_store(&line->cut, true);
	wake(line);
}
