/* SPDX-License-Identifier: MIT */
/* Starts and stops the real servers that tests talk to.
 *
 * Invariants:
 *   - A server never outlives its test: the child asks the kernel to kill it with its parent, and
 *     checks that the parent was still there when it asked.
 *   - "Ready" means that *this* server answered PING, asked over the socket in its own directory.
 *     A port alone proves nothing: another test may have been faster to bind it.
 *   - Between fork and exec only async-signal-safe calls are made, so threaded tests may start
 *     servers. The server inherits no descriptor of the test: a test that waits for the end of a
 *     connection would otherwise wait for the server's copy of it. */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wait.h"

enum { READY_MS = 10000, COMMAND_S = 5, PORT_TRIES = 20, REDIRECTS_MAX = 5 };

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw) {
	(void)st;
	(void)type;
	(void)ftw;
	(void)remove(path);
	return 0;
}

static void show_log(const struct test_server *server) {
	char tail[2048];
	int fd = open(server->log_path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)lseek(fd, -(off_t)(sizeof(tail) - 1), SEEK_END);
	ssize_t n = read(fd, tail, sizeof(tail) - 1);
	close(fd);
	if (n > 0)
		fprintf(stderr, "%s:\n%.*s", server->log_path, (int)n, tail);
}

static void forget(struct test_server *server) {
	if (server->dir[0])
		(void)nftw(server->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	for (size_t i = 0; i < TEST_SERVER_ARGS_MAX; i++)
		free(server->extra_args[i]);
	memset(server, 0, sizeof(*server));
}

/* Runs in the child: only async-signal-safe calls. */
static _Noreturn void become_server(const struct test_server *server, char *const *argv, pid_t parent) {
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(126);
	int null = open("/dev/null", O_RDONLY);
	int log = open(server->log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (null < 0 || log < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
		_exit(126);
	close_range(3, UINT_MAX, 0);
	execvp(argv[0], argv);
	_exit(127);
}

int test_server_spawn(struct test_server *server) {
	const char *binary = getenv("SNECK_TEST_SERVER");
	char port[16];
	const char *argv[TEST_SERVER_ARGS_MAX + 40];
	size_t n = 0;

	snprintf(port, sizeof(port), "%d", server->port);
	const char *usual[] = { binary && *binary ? binary : "redis-server", "--port", port, "--bind",
		"127.0.0.1", "--unixsocket", server->socket_path, "--unixsocketperm", "700", "--dir",
		server->dir, "--daemonize", "no", "--save", "", "--appendonly", "no",
		"--enable-debug-command", "local" };
	for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++)
		argv[n++] = usual[i];
	if (server->tls) {
		argv[2] = "0";
		argv[n++] = "--tls-port";
		argv[n++] = port;
	}
	for (size_t i = 0; server->extra_args[i]; i++)
		argv[n++] = server->extra_args[i];
	if (server->config_path[0]) { /* a sentinel reads everything from its file, and writes it there */
		argv[1] = server->config_path;
		argv[2] = "--sentinel";
		n = 3;
	}
	argv[n] = NULL;

	/* A socket file of a killed predecessor must not be taken for the new server's. */
	(void)unlink(server->socket_path);
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid < 0)
		return -1;
	if (pid == 0)
		become_server(server, (char *const *)(void *)argv, parent);
	server->pid = pid;
	return 0;
}

static bool answers(const struct test_server *server) {
	redisContext *context = test_server_connect(server);
	redisReply *reply = context ? redisCommand(context, "PING") : NULL;
	/* A server with a password answers with an error, and answers. */
	bool pong = reply && !(reply->type == REDIS_REPLY_ERROR && !strncmp(reply->str, "LOADING", 7));

	if (reply)
		freeReplyObject(reply);
	if (context)
		redisFree(context);
	return pong;
}

static bool has_died(struct test_server *server) {
	int status;

	if (waitpid(server->pid, &status, WNOHANG) != server->pid)
		return false;
	server->pid = 0;
	return true;
}

int test_server_await(struct test_server *server) {
	bool died = false;

	if (WAIT_UNTIL((died = has_died(server)) || answers(server), READY_MS) && !died)
		return 0;
	test_server_kill9(server);
	return -1;
}

static int spawn_and_wait(struct test_server *server) {
	return test_server_spawn(server) < 0 ? -1 : test_server_await(server);
}

int test_server_prepare(struct test_server *server, const char *const *extra_args) {
	memset(server, 0, sizeof(*server));
	snprintf(server->dir, sizeof(server->dir), "/tmp/sneck-test-XXXXXX");
	if (!mkdtemp(server->dir)) {
		fprintf(stderr, "mkdtemp %s: %s\n", server->dir, strerror(errno));
		server->dir[0] = '\0';
		return -1;
	}
	snprintf(server->socket_path, sizeof(server->socket_path), "%s/redis.sock", server->dir);
	snprintf(server->log_path, sizeof(server->log_path), "%s/server.log", server->dir);
	for (size_t i = 0; extra_args && extra_args[i]; i++) {
		if (i == TEST_SERVER_ARGS_MAX - 1 || !(server->extra_args[i] = strdup(extra_args[i]))) {
			fprintf(stderr, "too many arguments for a test server\n");
			forget(server);
			return -1;
		}
	}
	return 0;
}

int test_server_start(struct test_server *server, const char *const *extra_args) {
	if (test_server_prepare(server, extra_args) < 0)
		return -1;
	snprintf(server->url, sizeof(server->url), "unix://%s", server->socket_path);
	if (spawn_and_wait(server) < 0) {
		fprintf(stderr, "the test server did not start\n");
		show_log(server);
		forget(server);
		return -1;
	}
	return 0;
}

/* 0: any free one. The port that was bound, or -1. */
static int bind_once(int port) {
	struct sockaddr_in addr = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons((uint16_t)port) };
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	int r = bind(fd, (struct sockaddr *)&addr, sizeof(addr));
	if (r == 0)
		r = getsockname(fd, (struct sockaddr *)&addr, &len);
	close(fd);
	return r < 0 ? -1 : ntohs(addr.sin_port);
}

int test_free_port(void) {
	return bind_once(0);
}

bool test_port_is_free(int port) {
	return bind_once(port) == port;
}

static int start_on_a_port(struct test_server *server, bool tls, const char *const *extra_args) {
	if (test_server_prepare(server, extra_args) < 0)
		return -1;
	server->tls = tls;
	/* Between finding the port and the server's bind somebody else may take it: try another. */
	for (int i = 0; i < PORT_TRIES; i++) {
		server->port = test_free_port();
		snprintf(server->url, sizeof(server->url), "redis%s://127.0.0.1:%d", tls ? "s" : "",
		        server->port);
		if (server->port > 0 && spawn_and_wait(server) == 0)
			return 0;
	}
	fprintf(stderr, "the test server did not start on a port\n");
	show_log(server);
	forget(server);
	return -1;
}

static int write_config(struct test_server *server, const char *config) {
	snprintf(server->config_path, sizeof(server->config_path), "%s/sentinel.conf", server->dir);
	FILE *file = fopen(server->config_path, "we");

	if (!file)
		return -1;
	fprintf(file, "port %d\nbind 127.0.0.1\nunixsocket %s\ndir %s\n%s\n", server->port,
	        server->socket_path, server->dir, config);
	return fclose(file);
}

int test_server_start_sentinel(struct test_server *server, const char *config) {
	if (test_server_prepare(server, NULL) < 0)
		return -1;
	for (int i = 0; i < PORT_TRIES; i++) {
		server->port = test_free_port();
		if (server->port > 0 && write_config(server, config) == 0 && spawn_and_wait(server) == 0)
			return 0;
	}
	fprintf(stderr, "the sentinel did not start\n");
	show_log(server);
	forget(server);
	return -1;
}

int test_server_start_tcp(struct test_server *server, const char *const *extra_args) {
	return start_on_a_port(server, false, extra_args);
}

int test_server_start_tls(struct test_server *server, const char *const *extra_args) {
	return start_on_a_port(server, true, extra_args);
}

const char *test_url_with(const struct test_server *server, char out[TEST_URL_MAX], const char *format, ...) {
	size_t len = strlen(server->url);
	va_list args;

	memcpy(out, server->url, len);
	out[len++] = strchr(server->url, '?') ? '&' : '?';
	va_start(args, format);
	vsnprintf(out + len, TEST_URL_MAX - len, format, args);
	va_end(args);
	return out;
}

void test_server_kill9(struct test_server *server) {
	for (size_t i = 0; i < server->peers_n; i++)
		test_server_kill9(&server->peers[i]);
	if (server->pid <= 0)
		return;
	kill(server->pid, SIGKILL);
	while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
		;
	server->pid = 0;
	server->stopped = false;
}

void test_server_stop(struct test_server *server) {
	test_server_kill9(server);
	forget(server);
}

/* A node of a cluster that has begun anew refuses to serve for a while. */
static bool serves(const struct test_server *server) {
	redisReply *reply = test_redis(server, "EXISTS x");
	bool so = reply && !(reply->type == REDIS_REPLY_ERROR && !strncmp(reply->str, "CLUSTERDOWN", 11));

	if (reply)
		freeReplyObject(reply);
	return so;
}

static int restart_peers(struct test_server *face) {
	test_server_kill9(face);
	for (size_t i = 0; i < face->peers_n; i++)
		if (test_server_restart(&face->peers[i]) < 0)
			return -1;
	for (size_t i = 0; i < face->peers_n; i++)
		if (!WAIT_UNTIL(serves(&face->peers[i]), READY_MS))
			return -1;
	return 0;
}

int test_server_restart(struct test_server *server) {
	if (server->peers)
		return restart_peers(server);
	test_server_kill9(server);
	if (spawn_and_wait(server) == 0)
		return 0;
	fprintf(stderr, "the test server did not start again\n");
	show_log(server);
	return -1;
}

void test_server_stopcont(struct test_server *server, bool stop) {
	siginfo_t info;

	for (size_t i = 0; i < server->peers_n; i++)
		test_server_stopcont(&server->peers[i], stop);
	if (server->peers || server->stopped == stop)
		return;
	server->stopped = stop;
	kill(server->pid, stop ? SIGSTOP : SIGCONT);
	/* waitid reports the change once every thread of the server has stopped or runs again. */
	while (waitid(P_PID, (id_t)server->pid, &info, stop ? WSTOPPED : WCONTINUED) < 0 && errno == EINTR)
		;
}

redisContext *test_server_connect(const struct test_server *server) {
	struct timeval limit = { COMMAND_S, 0 };

	if (server->peers)
		return test_server_connect(&server->peers[0]);
	redisContext *context = redisConnectUnixWithTimeout(server->socket_path, limit);
	if (!context)
		return NULL;
	if (context->err || redisSetTimeout(context, limit) != REDIS_OK) {
		redisFree(context);
		return NULL;
	}
	return context;
}

/* One command, already in the protocol's form. */
static redisReply *send_to(const struct test_server *server, const char *command, size_t len) {
	redisContext *context = test_server_connect(server);
	void *reply = NULL;

	if (!context)
		return NULL;
	if (redisAppendFormattedCommand(context, command, len) == REDIS_OK)
		(void)redisGetReply(context, &reply);
	redisFree(context);
	return reply;
}

/* Is it about the server itself, whatever keys it has? */
static bool concerns_all(const char *format) {
	static const char *const words[] = { "FLUSHALL", "CONFIG", "SCRIPT", "CLIENT", "ACL", "DBSIZE" };
	size_t len = strcspn(format, " ");

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strlen(words[i]) == len && !strncmp(format, words[i], len))
			return true;
	return false;
}

static redisReply *send_to_all(const struct test_server *face, const char *command, size_t len) {
	redisReply *sum = NULL;

	for (size_t i = 0; i < face->peers_n; i++) {
		redisReply *reply = send_to(&face->peers[i], command, len);
		bool bad = !reply || reply->type == REDIS_REPLY_ERROR;
		if (sum && !bad && reply->type == REDIS_REPLY_INTEGER)
			reply->integer += sum->integer;
		if (sum)
			freeReplyObject(sum);
		sum = reply;
		if (bad)
			break;
	}
	return sum;
}

/* "MOVED slot host:port": the one with that port; NULL: it says something else. */
static const struct test_server *moved_to(const struct test_server *face, const redisReply *reply) {
	if (!reply || reply->type != REDIS_REPLY_ERROR || strncmp(reply->str, "MOVED ", 6))
		return NULL;
	const char *colon = strrchr(reply->str, ':');
	int port = colon ? atoi(colon + 1) : 0;
	for (size_t i = 0; i < face->peers_n; i++)
		if (face->peers[i].port == port)
			return &face->peers[i];
	return NULL;
}

static redisReply *run(const struct test_server *server, const char *format, va_list args) {
	char *command = NULL;
	int len = redisvFormatCommand(&command, format, args);
	redisReply *reply = NULL;

	if (len < 0)
		return NULL;
	if (server->peers && concerns_all(format)) {
		reply = send_to_all(server, command, (size_t)len);
	} else {
		const struct test_server *next = server;
		for (int i = 0; next && i < REDIRECTS_MAX; i++) {
			if (reply)
				freeReplyObject(reply);
			reply = send_to(next, command, (size_t)len);
			next = moved_to(server, reply);
		}
	}
	redisFreeCommand(command);
	return reply;
}

redisReply *test_redis(const struct test_server *server, const char *format, ...) {
	va_list args;

	va_start(args, format);
	redisReply *reply = run(server, format, args);
	va_end(args);
	return reply;
}

static _Noreturn void give_up(const redisReply *reply, const char *format) {
	if (!reply)
		fprintf(stderr, "no answer to: %s\n", format);
	else
		fprintf(stderr, "unexpected answer to: %s: type %d %s\n", format, reply->type,
		        reply->str ? reply->str : "");
	abort();
}

long long test_redis_int(const struct test_server *server, const char *format, ...) {
	va_list args;
	char *end = NULL;

	va_start(args, format);
	redisReply *reply = run(server, format, args);
	va_end(args);
	if (!reply)
		give_up(NULL, format);
	long long value = reply->integer;
	if (reply->type == REDIS_REPLY_STRING) {
		value = strtoll(reply->str, &end, 10);
		if (end == reply->str || *end)
			give_up(reply, format);
	} else if (reply->type != REDIS_REPLY_INTEGER) {
		give_up(reply, format);
	}
	freeReplyObject(reply);
	return value;
}

void test_redis_ok(const struct test_server *server, const char *format, ...) {
	va_list args;

	va_start(args, format);
	redisReply *reply = run(server, format, args);
	va_end(args);
	if (!reply || reply->type == REDIS_REPLY_ERROR)
		give_up(reply, format);
	freeReplyObject(reply);
}
