/* SPDX-License-Identifier: MIT */
/* A real Redis server of a test's own: its own directory, its own socket, dead with the test.
 *
 *   struct test_server server;
 *   assert_int_equal(test_server_start(&server, NULL), 0);
 *   redisReply *reply = test_redis(&server, "GET %s", "key");
 *   freeReplyObject(reply);
 *   test_server_stop(&server);
 *
 * The binary is $SNECK_TEST_SERVER, or redis-server from PATH. Failures are explained on stderr,
 * with the end of the server's log. Start servers from a thread that lives as long as they shall:
 * the kernel kills them when the thread that started them ends. */
#ifndef SNECK_TESTS_SERVER_H
#define SNECK_TESTS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <hiredis/hiredis.h>

enum { TEST_SERVER_ARGS_MAX = 40, TEST_URL_MAX = 512 };

struct test_server {
	pid_t pid; /* 0: not running */
	int port;  /* on 127.0.0.1; 0: Unix socket only */
	bool tls;  /* the port speaks TLS */
	bool stopped;
	char dir[64];
	char socket_path[96]; /* always there, also beside a TCP port */
	char log_path[96];
	char config_path[96];                   /* a sentinel's file; else "" */
	char url[TEST_URL_MAX];                 /* unix://… or redis://127.0.0.1:port */
	char *extra_args[TEST_SERVER_ARGS_MAX]; /* copies, kept for a restart */
	/* The face of several servers (topology.h) has none of its own, but these. A command with a key goes
	 * to the one that has it; one about the server itself (FLUSHALL, CONFIG, SCRIPT, CLIENT, ACL, DBSIZE)
	 * goes to all, integers are added up; any other goes to the first. What is done to the process is
	 * done to all. */
	struct test_server *peers; /* NULL: a server of its own */
	size_t peers_n;
};

/* Start a server on a Unix socket and wait until it answers. `extra_args` (NULL, or ends with NULL)
 * come after the usual ones and win over them, e.g. { "--maxmemory", "1mb", NULL }.
 * 0, or -1 with nothing left behind. */
int test_server_start(struct test_server *server, const char *const *extra_args);
/* The same, also listening on a free port of 127.0.0.1; `url` names that port. */
int test_server_start_tcp(struct test_server *server, const char *const *extra_args);
/* The same with TLS on the port, and nothing else; `extra_args` bring the certificates (certs.h). */
int test_server_start_tls(struct test_server *server, const char *const *extra_args);

/* For those who start several that must know each other's ports first. prepare: the directory and the
 * arguments; spawn: the process, without waiting; await: until it answers. spawn and await give -1 when it
 * cannot be; then the caller stops it. */
int test_server_prepare(struct test_server *server, const char *const *extra_args);
int test_server_spawn(struct test_server *server);
int test_server_await(struct test_server *server);

/* A port of 127.0.0.1 on which nobody listens; somebody else may be faster to take it. -1: none. */
int test_free_port(void);
/* Can it be bound right now? */
bool test_port_is_free(int port);

/* Its URL with more parameters ("dialect=%s"), in `out`. */
const char *test_url_with(const struct test_server *server, char out[TEST_URL_MAX], const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* A sentinel, on a free port; `config` is what its file says beside ports and directories, one directive per
 * line ("sentinel monitor …"); what it says of ports wins. */
int test_server_start_sentinel(struct test_server *server, const char *config);

/* Kill, reap, remove the directory. Also after kill9; a server that is zeroed is left alone. */
void test_server_stop(struct test_server *server);

/* kill -9 and reap; the directory, the stale socket file and whatever was saved stay. */
void test_server_kill9(struct test_server *server);
/* Start again in the same directory, on the same socket and port, with the same arguments; a server
 * that still runs is killed first. Waits until it answers. 0 or -1. */
int test_server_restart(struct test_server *server);
/* Freeze (true) or thaw (false) the process: connections stay, nothing is answered. Returns when
 * the kernel has done it. */
void test_server_stopcont(struct test_server *server, bool stop);

/* A connection for tests that need several commands on one; redisFree() it. NULL: unreachable.
 * Commands on it fail after 5 s. */
redisContext *test_server_connect(const struct test_server *server);

/* Run one command on a connection of its own; formats are hiredis' (%s, %d, %b with a length).
 * Any thread. NULL: no answer. freeReplyObject() it. */
redisReply *test_redis(const struct test_server *server, const char *format, ...);
/* The same for commands that answer with an integer, or with a string that is one. Anything else
 * ends the program with a message. */
long long test_redis_int(const struct test_server *server, const char *format, ...);
/* The same for commands whose answer does not matter as long as it is no error. */
void test_redis_ok(const struct test_server *server, const char *format, ...);

#endif
