/* SPDX-License-Identifier: MIT */
/* From an address to a greeted connection, and the words for everything that goes wrong on the way.
 * Real servers where one can be had; a scripted peer for servers that are too old or hang. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "conn_rig.h"
#include "net/link.h"
#include "server.h"
#include "wait.h"

static const char PASSWORD[] = "hunter2";

static int start_server(void **state) {
	struct test_server *server = calloc(1, sizeof(*server));
	static const char *const args[] = { "--requirepass", "hunter2", "--databases", "4", NULL };
	*state = server;
	return server ? test_server_start_tcp(server, args) : -1;
}

/* Try one request; the connection must fail with `code` and a text that contains `says`. */
static void assert_refused(const char *url, uint32_t connect_ms, int code, const char *says) {
	struct rig rig;
	struct call call;
	rig_start(&rig, url, &(struct rig_options){ .connect_ms = connect_ms });
	call_init(&call, "PING");
	assert_true(call_run(&rig, &call, 20000));
	assert_int_equal(call.status, REQ_NOT_SENT);
	if (call.code != code || !strstr(call.text, says))
		fail_msg("%s: code %d: %s", url, call.code, call.text);
	assert_null(strstr(call.text, PASSWORD));
	assert_true(WAIT_UNTIL(atomic_load(&rig.downs) >= 1, 2000));
	assert_int_equal(atomic_load(&rig.ups), 0);
	call_done(&call);
	pthread_mutex_lock(&rig.mutex);
	assert_true(rig.logged[0]);
	assert_null(strstr(rig.logged, PASSWORD));
	pthread_mutex_unlock(&rig.mutex);
	rig_stop(&rig);
}

static void assert_accepted(const char *url, const char *line, long long want) {
	struct rig rig;
	rig_start(&rig, url, NULL);
	assert_int_equal(rig_integer(&rig, line), want);
	pthread_mutex_lock(&rig.mutex);
	assert_null(strstr(rig.logged, PASSWORD));
	pthread_mutex_unlock(&rig.mutex);
	rig_stop(&rig);
}

static redisContext *admin(const struct test_server *server) {
	redisContext *redis = redisConnectUnix(server->socket_path);
	freeReplyObject(redisCommand(redis, "AUTH %s", PASSWORD));
	return redis;
}

static void test_passwords(void **state) {
	struct test_server *server = *state;
	char url[200];
	redisContext *redis = admin(server);
	freeReplyObject(redisCommand(redis, "ACL SETUSER alice on >hunter2x ~* +@all"));
	freeReplyObject(redisCommand(redis, "ACL SETUSER fixed on >hunter2x ~* +@all -select"));
	redisFree(redis);
	assert_refused(server->url, 0, SNECK_EACCES, "redis://:password@host");
	snprintf(url, sizeof(url), "redis://:hunter2wrong@127.0.0.1:%d", server->port);
	assert_refused(url, 0, SNECK_EACCES, "WRONGPASS");
	snprintf(url, sizeof(url), "redis://bob:hunter2@127.0.0.1:%d", server->port);
	assert_refused(url, 0, SNECK_EACCES, "WRONGPASS");
	snprintf(url, sizeof(url), "redis://fixed:hunter2x@127.0.0.1:%d/1", server->port);
	assert_refused(url, 0, SNECK_EACCES, "NOPERM");
	snprintf(url, sizeof(url), "redis://:hunter2@127.0.0.1:%d", server->port);
	assert_accepted(url, "INCR default", 1);
	snprintf(url, sizeof(url), "redis://alice:hunter2x@127.0.0.1:%d", server->port);
	assert_accepted(url, "INCR alice", 1);
	snprintf(url, sizeof(url), "unix://%s?password=hunter2", server->socket_path);
	assert_accepted(url, "INCR unix", 1);
}

static void test_database(void **state) {
	struct test_server *server = *state;
	char url[200];
	snprintf(url, sizeof(url), "redis://:hunter2@127.0.0.1:%d/3", server->port);
	assert_accepted(url, "INCR db3", 1);
	snprintf(url, sizeof(url), "redis://:hunter2@127.0.0.1:%d", server->port);
	assert_accepted(url, "EXISTS db3", 0);
	snprintf(url, sizeof(url), "redis://:hunter2@127.0.0.1:%d/4", server->port);
	assert_refused(url, 0, SNECK_EINVAL, "fewer databases");
}

/* The name is shown in CLIENT LIST; a blank in it must not spoil the greeting. */
static void test_client_name(void **state) {
	struct test_server *server = *state;
	char url[200];
	struct rig rig;
	snprintf(url, sizeof(url), "unix://%s?password=hunter2", server->socket_path);
	rig_start(&rig, url, NULL);
	rig_integer(&rig, "INCR name");
	redisContext *redis = admin(server);
	redisReply *reply = redisCommand(redis, "CLIENT LIST");
	assert_non_null(strstr(reply->str, " name=a_test "));
	freeReplyObject(reply);
	redisFree(redis);
	rig_stop(&rig);
}

static void test_host_names(void **state) {
	struct test_server *server = *state;
	char url[200];
	/* "localhost" may be ::1 first, where nobody listens: the next address is tried. */
	snprintf(url, sizeof(url), "redis://:hunter2@localhost:%d", server->port);
	assert_accepted(url, "INCR localhost", 1);
	assert_refused("redis://:hunter2@no-such-host.invalid", 5000, SNECK_ECONN, "no-such-host.invalid");
}

/* Nobody listens there. */
static void test_refused_by_the_kernel(void **state) {
	struct test_server *server = *state;
	char url[200];
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	assert_refused("redis://127.0.0.1:1", 0, SNECK_ECONN, "connection refused; is the server running?");
	snprintf(url, sizeof(url), "unix://%s/missing", server->dir);
	assert_refused(url, 0, SNECK_ECONN, "no such file; is the server running?");
	/* A socket file that a dead server left behind. */
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/stale", server->dir);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	close(fd);
	snprintf(url, sizeof(url), "unix://%s", addr.sun_path);
	assert_refused(url, 0, SNECK_ECONN, "nobody listens");
	unlink(addr.sun_path);
}

static void test_replica(void **state) {
	(void)state;
	struct test_server replica;
	static const char *const args[] = { "--replicaof", "127.0.0.1", "1", NULL };
	memset(&replica, 0, sizeof(replica));
	assert_int_equal(test_server_start(&replica, args), 0);
	assert_refused(replica.url, 0, SNECK_ECONN, "is a replica");
	test_server_stop(&replica);
}

static void test_too_many_clients(void **state) {
	(void)state;
	struct test_server full;
	static const char *const args[] = { "--maxclients", "1", NULL };
	memset(&full, 0, sizeof(full));
	assert_int_equal(test_server_start(&full, args), 0);
	redisContext *only = NULL;
	/* The one place may be taken for a moment by the check that the server has started. */
	assert_true(WAIT_UNTIL(({
		redisReply *reply = NULL;
		if (only)
			redisFree(only);
		only = test_server_connect(&full);
		if (only)
			reply = redisCommand(only, "PING");
		bool in = reply && reply->type == REDIS_REPLY_STATUS;
		if (reply)
			freeReplyObject(reply);
		in;
	}),
	        5000));
	assert_refused(full.url, 0, SNECK_ECONN, "raise maxclients");
	redisFree(only);
	test_server_stop(&full);
}

/* ---- A peer that says what it is told to say -------------------------------------------------*/

struct peer {
	int fd;
	char url[200];
	char path[120];
	const char *says; /* NULL: nothing, and the connection stays open */
	pthread_t thread;
};

static void *run_peer(void *arg) {
	struct peer *peer = arg;
	for (;;) {
		int fd = accept4(peer->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			return NULL;
		char in[1024];
		ssize_t n = recv(fd, in, sizeof(in), 0);
		if (n > 0 && peer->says)
			send(fd, peer->says, strlen(peer->says), MSG_NOSIGNAL);
		/* Until the other side has had enough. */
		while (n > 0)
			n = recv(fd, in, sizeof(in), 0);
		close(fd);
	}
}

static void peer_listen(struct peer *peer, const struct test_server *server, int backlog) {
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/peer", server->dir);
	snprintf(peer->path, sizeof(peer->path), "%s", addr.sun_path);
	snprintf(peer->url, sizeof(peer->url), "unix://%s?password=hunter2", addr.sun_path);
	peer->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(peer->fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(peer->fd, backlog), 0);
}

static void peer_refused(
        const struct test_server *server, const char *says, uint32_t connect_ms, int code, const char *text) {
	struct peer peer = { .says = says };
	peer_listen(&peer, server, 8);
	assert_int_equal(pthread_create(&peer.thread, NULL, run_peer, &peer), 0);
	assert_refused(peer.url, connect_ms, code, text);
	shutdown(peer.fd, SHUT_RDWR);
	pthread_join(peer.thread, NULL);
	close(peer.fd);
	unlink(peer.path);
}

#define HELLO(version, mode, role)                                        \
	"*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n" version \
	"$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:3\r\n"                         \
	"$4\r\nmode\r\n" mode "$4\r\nrole\r\n" role "$7\r\nmodules\r\n*0\r\n"
#define STANDALONE "$10\r\nstandalone\r\n"
#define MASTER "$6\r\nmaster\r\n"

static void test_unsuitable_servers(void **state) {
	struct test_server *server = *state;
	/* Older than HELLO: the error repeats the password. */
	peer_refused(server,
	        "-ERR unknown command `HELLO`, with args beginning with: `2`, `AUTH`, `default`, `hunter2`, "
	        "\r\n",
	        0, SNECK_ENOTSUP, "7.0 or later is needed");
	peer_refused(server, HELLO("$6\r\n6.2.14\r\n", STANDALONE, MASTER), 0, SNECK_ENOTSUP,
	        "is Redis 6.2.14; 7.0 or later is needed");
	peer_refused(
	        server, HELLO("$5\r\n7.0.0\r\n", "$8\r\nsentinel\r\n", MASTER), 0, SNECK_ENOTSUP, "Sentinel");
	peer_refused(
	        server, HELLO("$5\r\n7.0.0\r\n", STANDALONE, "$7\r\nreplica\r\n"), 0, SNECK_ECONN, "replica");
	peer_refused(server, HELLO("$1\r\nx\r\n", STANDALONE, MASTER), 0, SNECK_ENOTSUP, "version");
	peer_refused(server, "-ERR something about hunter2\r\n", 0, SNECK_ESERVER, "unknown error");
	peer_refused(
	        server, "-DENIED Redis is running in protected mode\r\n", 0, SNECK_EACCES, "protected mode");
	peer_refused(server, "+OK\r\n", 0, SNECK_ENOTSUP, "HELLO");
	peer_refused(server, "HTTP/1.1 400 Bad Request\r\n\r\n", 0, SNECK_ECONN,
	        "is it a Redis or Valkey server?");
}

/* It accepts, and says nothing (or too little): the deadline covers the greeting. */
static void test_hanging_server(void **state) {
	struct test_server *server = *state;
	int64_t before_ms = test_now_ms();
	peer_refused(server, NULL, 150, SNECK_ECONN, "150 ms");
	peer_refused(server, "*14\r\n$6\r\nserver\r\n", 150, SNECK_ECONN, "150 ms");
	assert_in_range(test_now_ms() - before_ms, 290, 5000);
}

/* Nobody accepts and the queue is full: a Unix socket says EAGAIN, for which nobody can poll. */
static void test_full_backlog(void **state) {
	struct test_server *server = *state;
	struct peer peer = { 0 };
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int stuck[4];
	peer_listen(&peer, server, 0);
	memcpy(addr.sun_path, peer.path, strlen(peer.path));
	for (int i = 0; i < 4; i++) {
		stuck[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		(void)!connect(stuck[i], (struct sockaddr *)&addr, sizeof(addr));
	}
	assert_refused(peer.url, 100, SNECK_ECONN, "stays full");
	for (int i = 0; i < 4; i++)
		close(stuck[i]);
	close(peer.fd);
	unlink(peer.path);
}

/* ---- Several addresses ----------------------------------------------------------------------*/

static void add_unix(struct addresses *addresses, const char *path) {
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	memcpy(addr.sun_path, path, strlen(path));
	memcpy(&addresses->addr[addresses->n], &addr, sizeof(addr));
	addresses->len[addresses->n++] = sizeof(addr);
}

/* Drive an attempt to its end. */
static int connect_any(
        const struct test_server *server, const struct addresses *addresses, uint32_t connect_ms) {
	struct url url;
	struct link link;
	char text[200];
	snprintf(text, sizeof(text), "unix://%s?password=hunter2", server->socket_path);
	assert_int_equal(snecki_url_parse(text, &url, NULL), 0);
	assert_int_equal(
	        snecki_link_init(&link, &(struct link_config){ .url = &url, .connect_ms = connect_ms }), 0);
	int r = snecki_link_start_at(&link, addresses, snecki_now_ns(), NULL);
	while (r == 0) {
		struct pollfd pfd;
		struct timespec left;
		int64_t deadline_ns = NS_NEVER;
		int n = snecki_link_prepare(&link, &pfd, &deadline_ns);
		snecki_time_left(deadline_ns, &left);
		ppoll(&pfd, (nfds_t)n, &left, NULL);
		r = snecki_link_step(&link, snecki_now_ns(), NULL);
	}
	snecki_link_done(&link);
	snecki_url_done(&url);
	return r;
}

static void test_several_addresses(void **state) {
	struct test_server *server = *state;
	struct addresses addresses = { 0 };
	char missing[120];
	snprintf(missing, sizeof(missing), "%s/missing", server->dir);
	add_unix(&addresses, missing);
	assert_int_equal(connect_any(server, &addresses, 1000), SNECK_ECONN);
	add_unix(&addresses, missing);
	add_unix(&addresses, server->socket_path);
	assert_int_equal(connect_any(server, &addresses, 1000), 1);
}

/* The first address swallows connections for ever: it gets its share of the time, not all of it. */
static void test_slow_address_leaves_time_for_the_next(void **state) {
	struct test_server *server = *state;
	struct addresses addresses = { 0 };
	struct peer peer = { 0 };
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int stuck[4];
	peer_listen(&peer, server, 0);
	memcpy(addr.sun_path, peer.path, strlen(peer.path));
	for (int i = 0; i < 4; i++) {
		stuck[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		(void)!connect(stuck[i], (struct sockaddr *)&addr, sizeof(addr));
	}
	add_unix(&addresses, peer.path);
	add_unix(&addresses, server->socket_path);
	assert_int_equal(connect_any(server, &addresses, 400), 1);
	for (int i = 0; i < 4; i++)
		close(stuck[i]);
	close(peer.fd);
	unlink(peer.path);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_passwords),
		cmocka_unit_test(test_database),
		cmocka_unit_test(test_client_name),
		cmocka_unit_test(test_host_names),
		cmocka_unit_test(test_refused_by_the_kernel),
		cmocka_unit_test(test_replica),
		cmocka_unit_test(test_too_many_clients),
		cmocka_unit_test(test_unsuitable_servers),
		cmocka_unit_test(test_hanging_server),
		cmocka_unit_test(test_full_backlog),
		cmocka_unit_test(test_several_addresses),
		cmocka_unit_test(test_slow_address_leaves_time_for_the_next),
	};
	return cmocka_run_group_tests(tests, start_server, rig_server_down);
}
