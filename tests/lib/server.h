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

enum { TEST_SERVER_ARGS_MAX = 40 };

struct test_server {
	pid_t pid; /* 0: not running */
	int port;  /* on 127.0.0.1; 0: Unix socket only */
	char dir[64];
	char socket_path[96]; /* always there, also beside a TCP port */
	char log_path[96];
	char config_path[96];                   /* a sentinel's file; else "" */
	char url[128];                          /* unix://… or redis://127.0.0.1:port */
	char *extra_args[TEST_SERVER_ARGS_MAX]; /* copies, kept for a restart */
};

/* Start a server on a Unix socket and wait until it answers. `extra_args` (NULL, or ends with NULL)
 * come after the usual ones and win over them, e.g. { "--maxmemory", "1mb", NULL }.
 * 0, or -1 with nothing left behind. */
int test_server_start(struct test_server *server, const char *const *extra_args);
/* The same, also listening on a free port of 127.0.0.1; `url` names that port. */
int test_server_start_tcp(struct test_server *server, const char *const *extra_args);

/* A sentinel, on a free port; `config` is what its file says beside ports and directories, one directive per
 * line ("sentinel monitor …"); what it says of ports wins. */
int test_server_start_sentinel(struct test_server *server, const char *config);

/* A port of 127.0.0.1 that nobody has at this moment; -1: none. */
int test_free_port(void);

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
