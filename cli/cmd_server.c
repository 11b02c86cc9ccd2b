/* SPDX-License-Identifier: MIT */
/* sneck server: the private server behind `local:`, which the library starts on first use and which
 * then goes on running. Here it can be looked at and stopped. It is found by its directory: the socket's
 * place comes from the library, the process id is in a file beside it. A process id out of a file may
 * have become somebody else's: it is believed only if that process has the directory locked, which
 * the server does for life. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <jansson.h>
#include <sneck/sneck.h>

#include "command.h"
#include "exit.h"
#include "lock_view.h"
#include "options.h"
#include "talk.h"

enum { STOP_MS = 5000, PATH_BYTES = 256 };

struct private_server {
	char socket_path[PATH_BYTES];
	char dir[PATH_BYTES];
	pid_t pid; /* 0: it does not run */
};

/* Somebody has the directory locked: the server lives, or is being started. */
static bool is_locked(const char *dir) {
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return false;
	bool locked = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
	close(fd);
	return locked;
}

/* Does the process have `dir` open, as the server has? */
static bool has_open(pid_t pid, const char *dir) {
	char path[64];
	struct stat wanted, found;

	snprintf(path, sizeof(path), "/proc/%d/fd/3", (int)pid);
	return stat(dir, &wanted) == 0 && stat(path, &found) == 0 && wanted.st_dev == found.st_dev &&
	       wanted.st_ino == found.st_ino;
}

static pid_t read_pid(const char *dir) {
	char path[PATH_BYTES + 16];
	int pid = 0;

	snprintf(path, sizeof(path), "%s/redis.pid", dir);
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%d", &pid) != 1)
		pid = 0;
	fclose(file);
	return pid > 1 ? pid : 0;
}

static int find_server(struct private_server *ret) {
	sneck_error error = { 0, 0, "", "" };

	memset(ret, 0, sizeof(*ret));
	if (sneck_local_socket(ret->socket_path, sizeof(ret->socket_path), &error) < 0) {
		talk("%s", error.text);
		return EXIT_CONFIG;
	}
	memcpy(ret->dir, ret->socket_path, sizeof(ret->dir));
	char *slash = strrchr(ret->dir, '/');
	if (slash)
		*slash = '\0';
	if (!is_locked(ret->dir))
		return 0;
	pid_t pid = read_pid(ret->dir);
	if (pid && has_open(pid, ret->dir))
		ret->pid = pid;
	return 0;
}

/* ---- What can be done with it ---------------------------------------------------------------*/

static int print_as_json(const struct private_server *server) {
	json_t *json = json_pack("{s:i, s:b, s:s+}", "schema", JSON_SCHEMA, "running", server->pid != 0,
	        "url", "unix://", server->socket_path);

	json_object_set_new(json, "pid", server->pid ? json_integer(server->pid) : json_null());
	return print_json(json);
}

static int print_status(const struct private_server *server, const struct common_options *common) {
	int code = 0;

	if (common->json)
		code = print_as_json(server);
	else if (server->pid)
		printf("running, pid %d, unix://%s, log %s/redis.log\n", (int)server->pid,
		        server->socket_path, server->dir);
	else
		printf("not running; the first use of local: starts it at unix://%s\n", server->socket_path);
	return code ? code : server->pid ? 0 : EXIT_UNREACHABLE;
}

static int print_url(const struct private_server *server, const struct common_options *common) {
	if (common->json)
		return print_as_json(server);
	printf("unix://%s\n", server->socket_path);
	return 0;
}

static int stop(const struct private_server *server, const struct common_options *common) {
	if (!server->pid) {
		if (!common->quiet)
			talk("the private server was not running");
		return 0;
	}
	/* The descriptor names this process for good, whatever happens to the number. */
	int pidfd = (int)syscall(SYS_pidfd_open, server->pid, 0);
	if (pidfd < 0 || !has_open(server->pid, server->dir)) {
		talk("the private server, pid %d, has just ended", (int)server->pid);
		return 0;
	}
	struct pollfd ended = { .fd = pidfd, .events = POLLIN };
	long r = syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0);
	bool done = r == 0 && poll(&ended, 1, STOP_MS) == 1;
	close(pidfd);
	if (done) {
		if (common->verbose)
			talk("the private server, pid %d, has ended", (int)server->pid);
		return 0;
	}
	talk("the private server, pid %d, does not stop; see %s/redis.log", (int)server->pid, server->dir);
	return EXIT_INTERNAL;
}

static const char *const actions[] = { "status", "stop", "url", NULL };

static int server_main(const struct command *self, int argc, char **argv) {
	struct private_server server;
	struct parsed parsed;
	int code = options_parse(self, argc, argv, NULL, NULL, &parsed);

	if (code == OPTIONS_OK)
		code = options_words(self, &parsed, 0, 1, "the action");
	if (code != OPTIONS_OK)
		return code;
	const char *action = parsed.word_count ? parsed.words[0] : "status";
	bool known = false;
	for (const char *const *one = actions; *one; one++)
		known = known || !strcmp(*one, action);
	if (!known)
		return usage_error(self, "no such action: %s: must be status, stop or url", action);
	code = find_server(&server);
	if (code != 0)
		return code;
	if (!strcmp(action, "status"))
		return print_status(&server, &parsed.common);
	if (!strcmp(action, "url"))
		return print_url(&server, &parsed.common);
	code = stop(&server, &parsed.common);
	if (code == 0)
		server.pid = 0;
	return code == 0 && parsed.common.json ? print_as_json(&server) : code;
}

static const char *const examples[] = {
	"sneck server                               is it running?",
	"redis-cli -s \"$(sneck server url | cut -c8-)\"   look inside",
	"sneck server stop                          end it; whoever holds a lock there loses it",
	NULL,
};
static const char *const notes[] = {
	"status exits with 69 when it is not running; stop with 0 also when it was not.",
	NULL,
};

const struct command command_server = {
	.name = "server",
	.synopsis = "[status|stop|url]",
	.summary = "The private server behind local:.",
	.examples = examples,
	.notes = notes,
	.common = COMMON_TALK | COMMON_JSON,
	.word = WORD_CHOICE,
	.choices = actions,
	.main = server_main,
};
