/* SPDX-License-Identifier: MIT */
/* The proxy's thread and its commands. One mutex guards everything but the poll; a command changes
 * the weather under it and wakes the thread. Tests never sleep: they wait on the condition that is
 * signalled after each pass. */
#include "proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "proxy_link.h"

enum { LINKS_MAX = 256 };

struct proxy_state {
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool stop;
	int listen_fd;
	int wake_fd;
	char dir[64];
	struct sockaddr_un here;
	struct sockaddr_un server;
	struct proxy_weather weather;
	struct proxy_link *links;
};

static void check(bool ok, const char *what) {
	if (!ok) {
		fprintf(stderr, "proxy: %s: %s\n", what, strerror(errno));
		abort();
	}
}

static void accept_client(struct proxy_state *state) {
	int client_fd = accept4(state->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (client_fd < 0)
		return;
	state->weather.counts.connections++;
	int server_fd = -1;
	if (!state->weather.refuse) {
		server_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		check(server_fd >= 0, "socket");
		if (connect(server_fd, (struct sockaddr *)&state->server, sizeof(state->server)) < 0) {
			close(server_fd);
			server_fd = -1;
		}
	}
	if (server_fd < 0) {
		close(client_fd);
		return;
	}
	struct proxy_link *link = test_proxy_link_new(client_fd, server_fd);
	link->next = state->links;
	state->links = link;
}

/* Poll with the mutex released. Returns how many links were polled, in the order of the list. */
static size_t wait_for_work(struct proxy_state *state, struct pollfd *pfds) {
	int64_t wake_ns = INT64_MAX;
	pfds[0] = (struct pollfd){ .fd = state->wake_fd, .events = POLLIN };
	pfds[1] = (struct pollfd){ .fd = state->listen_fd, .events = POLLIN };
	size_t links = 0;
	for (struct proxy_link *link = state->links; link && links < LINKS_MAX; link = link->next, links++)
		test_proxy_link_prepare(link, &state->weather, &pfds[2 + 2 * links], &wake_ns);
	struct timespec timeout;
	if (wake_ns != INT64_MAX) {
		int64_t left_ns = wake_ns - test_proxy_now_ns();
		if (left_ns < 0)
			left_ns = 0;
		timeout.tv_sec = (time_t)(left_ns / 1000000000);
		timeout.tv_nsec = (long)(left_ns % 1000000000);
	}
	pthread_mutex_unlock(&state->mutex);
	int n = ppoll(pfds, 2 + 2 * links, wake_ns == INT64_MAX ? NULL : &timeout, NULL);
	pthread_mutex_lock(&state->mutex);
	check(n >= 0 || errno == EINTR, "poll");
	if (n < 0)
		for (size_t i = 0; i < 2 + 2 * links; i++)
			pfds[i].revents = 0;
	return links;
}

static void *run(void *arg) {
	struct proxy_state *state = arg;
	struct pollfd *pfds = calloc(2 + 2 * LINKS_MAX, sizeof(*pfds));
	check(pfds != NULL, "memory");
	pthread_mutex_lock(&state->mutex);
	while (!state->stop) {
		size_t polled = wait_for_work(state, pfds);
		uint64_t wakes;
		if (pfds[0].revents)
			check(read(state->wake_fd, &wakes, sizeof(wakes)) > 0, "wake");
		struct proxy_link **at = &state->links;
		for (size_t i = 0; i < polled; i++) {
			struct proxy_link *link = *at;
			if (!link->dead)
				test_proxy_link_run(link, &state->weather, pfds[2 + 2 * i].revents,
				        pfds[3 + 2 * i].revents);
			if (link->dead) {
				*at = link->next;
				test_proxy_link_free(link);
			} else {
				at = &link->next;
			}
		}
		if (pfds[1].revents)
			accept_client(state);
		pthread_cond_broadcast(&state->changed);
	}
	pthread_mutex_unlock(&state->mutex);
	free(pfds);
	return NULL;
}

static void listen_unix(struct test_proxy *proxy, struct proxy_state *state) {
	state->here.sun_family = AF_UNIX;
	snprintf(state->here.sun_path, sizeof(state->here.sun_path), "%s/proxy.sock", state->dir);
	state->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	check(state->listen_fd >= 0, "socket");
	check(bind(state->listen_fd, (struct sockaddr *)&state->here, sizeof(state->here)) == 0, "bind");
	snprintf(proxy->url, sizeof(proxy->url), "unix://%s", state->here.sun_path);
}

static void listen_tcp(struct test_proxy *proxy, struct proxy_state *state) {
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(here);
	state->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	check(state->listen_fd >= 0, "socket");
	check(bind(state->listen_fd, (struct sockaddr *)&here, len) == 0, "bind");
	check(getsockname(state->listen_fd, (struct sockaddr *)&here, &len) == 0, "getsockname");
	proxy->port = ntohs(here.sin_port);
	snprintf(proxy->url, sizeof(proxy->url), "redis://127.0.0.1:%d", proxy->port);
}

static void start(struct test_proxy *proxy, const char *server_socket, bool tcp) {
	struct proxy_state *state = calloc(1, sizeof(*state));
	check(state != NULL, "memory");
	proxy->port = 0;
	strcpy(state->dir, "/tmp/sneck-proxy-XXXXXX");
	check(mkdtemp(state->dir) != NULL, "mkdtemp");
	state->server.sun_family = AF_UNIX;
	check(strlen(server_socket) < sizeof(state->server.sun_path), "length of the server's socket");
	strcpy(state->server.sun_path, server_socket);
	if (tcp)
		listen_tcp(proxy, state);
	else
		listen_unix(proxy, state);
	check(listen(state->listen_fd, 128) == 0, "listen");
	state->wake_fd = eventfd(0, EFD_CLOEXEC);
	check(state->wake_fd >= 0, "eventfd");
	pthread_mutex_init(&state->mutex, NULL);
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&state->changed, &attr);
	pthread_condattr_destroy(&attr);
	check(pthread_create(&state->thread, NULL, run, state) == 0, "thread");
	proxy->state = state;
}

void test_proxy_start(struct test_proxy *proxy, const char *server_socket) {
	start(proxy, server_socket, false);
}

void test_proxy_start_tcp(struct test_proxy *proxy, const char *server_socket) {
	start(proxy, server_socket, true);
}

static struct proxy_weather *enter(struct test_proxy *proxy) {
	pthread_mutex_lock(&proxy->state->mutex);
	return &proxy->state->weather;
}

static void leave(struct test_proxy *proxy) {
	uint64_t one = 1;
	check(write(proxy->state->wake_fd, &one, sizeof(one)) > 0, "wake");
	pthread_mutex_unlock(&proxy->state->mutex);
}

void test_proxy_stop(struct test_proxy *proxy) {
	struct proxy_state *state = proxy->state;
	if (!state)
		return;
	enter(proxy);
	state->stop = true;
	leave(proxy);
	pthread_join(state->thread, NULL);
	while (state->links) {
		struct proxy_link *link = state->links;
		state->links = link->next;
		test_proxy_link_free(link);
	}
	close(state->listen_fd);
	close(state->wake_fd);
	if (!proxy->port)
		unlink(state->here.sun_path);
	rmdir(state->dir);
	pthread_mutex_destroy(&state->mutex);
	pthread_cond_destroy(&state->changed);
	free(state);
	proxy->state = NULL;
}

void test_proxy_arm(struct test_proxy *proxy, const struct proxy_rule *rule) {
	struct proxy_weather *weather = enter(proxy);
	check(weather->rules_n < PROXY_RULES_MAX, "too many rules");
	weather->seen[weather->rules_n] = 0;
	weather->rules[weather->rules_n++] = *rule;
	leave(proxy);
}

void test_proxy_calm(struct test_proxy *proxy) {
	struct proxy_weather *weather = enter(proxy);
	weather->rules_n = 0;
	weather->silent_up = false;
	weather->silent_down = false;
	weather->dribble = false;
	weather->refuse = false;
	weather->delay_ns = 0;
	leave(proxy);
}

void test_proxy_silence(struct test_proxy *proxy, bool to_server, bool to_client) {
	struct proxy_weather *weather = enter(proxy);
	weather->silent_up = to_server;
	weather->silent_down = to_client;
	leave(proxy);
}

void test_proxy_delay(struct test_proxy *proxy, int64_t ms) {
	enter(proxy)->delay_ns = ms * 1000000;
	leave(proxy);
}

void test_proxy_dribble(struct test_proxy *proxy, bool on) {
	enter(proxy)->dribble = on;
	leave(proxy);
}

void test_proxy_refuse(struct test_proxy *proxy, bool on) {
	enter(proxy)->refuse = on;
	leave(proxy);
}

void test_proxy_cut_all(struct test_proxy *proxy) {
	enter(proxy);
	for (struct proxy_link *link = proxy->state->links; link; link = link->next)
		test_proxy_link_cut(link);
	leave(proxy);
}

void test_proxy_deliver(struct test_proxy *proxy) {
	enter(proxy);
	for (struct proxy_link *link = proxy->state->links; link; link = link->next)
		test_proxy_link_deliver(link);
	leave(proxy);
}

void test_proxy_counts(struct test_proxy *proxy, struct proxy_counts *ret) {
	*ret = enter(proxy)->counts;
	ret->open = 0;
	for (struct proxy_link *link = proxy->state->links; link; link = link->next)
		ret->open += link->client_fd >= 0;
	leave(proxy);
}

static bool wait_for(struct test_proxy *proxy, const unsigned *counter, unsigned at_least, int timeout_ms) {
	struct proxy_state *state = proxy->state;
	int64_t until_ns = test_proxy_now_ns() + (int64_t)timeout_ms * 1000000;
	struct timespec until = { .tv_sec = (time_t)(until_ns / 1000000000),
		.tv_nsec = (long)(until_ns % 1000000000) };
	pthread_mutex_lock(&state->mutex);
	while (*counter < at_least)
		if (pthread_cond_timedwait(&state->changed, &state->mutex, &until) == ETIMEDOUT)
			break;
	bool reached = *counter >= at_least;
	pthread_mutex_unlock(&state->mutex);
	return reached;
}

bool test_proxy_wait_fired(struct test_proxy *proxy, unsigned fired, int timeout_ms) {
	return wait_for(proxy, &proxy->state->weather.counts.fired, fired, timeout_ms);
}

bool test_proxy_wait_delivered(struct test_proxy *proxy, unsigned delivered, int timeout_ms) {
	return wait_for(proxy, &proxy->state->weather.counts.delivered, delivered, timeout_ms);
}
