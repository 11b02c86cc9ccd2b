/* SPDX-License-Identifier: MIT */
/* Starts and finds the private server behind `local:`.
 *
 * Two processes of one user that say `local:` must meet at one server, whatever started them, or
 * both get the same lock. So the directory follows from the user id alone: /var/tmp/sneck-<uid>.
 * HOME, XDG_RUNTIME_DIR and TMPDIR differ between cron, sudo and a login; /run/user/<uid> comes
 * and goes with the login. SNECK_LOCAL_DIR overrides it, for tests and for users who share the
 * variable among all their programs.
 *
 * Anybody may write to /var/tmp, so the directory counts only if it is a real directory, ours, with
 * mode 0700; then nobody else can have put a socket into it.
 *
 * One server, never two: whoever starts it locks the directory (flock) and passes the locked
 * descriptor on to the server, which keeps it for life and loses it with its last breath, kill -9
 * included. "Locked" therefore means "a server lives, or is being started"; nobody who finds the
 * lock taken starts another, however slow the first one is, and whoever gets the lock knows that
 * what lies in the directory is stale.
 *
 * The server keeps nothing on disk. Locks that came back after a restart would be those of holders
 * that were told meanwhile that theirs are lost; forgetting is the honest answer, and fencing
 * tokens grow across it because they follow the clock. */
#include "topology/local.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"

enum {
	STEP_MS = 2,             /* between two looks at a server that is being started */
	LOCK_FD = 3,             /* the locked directory, in the server */
	LOG_MAX_BYTES = 1 << 20, /* a longer log is emptied at the next start */
	LOG_LINE_MAX = 200
};

#define SOCKET_NAME "redis.sock"
#define SERVER_PACKAGE "install the package redis-server or valkey-server"

struct place {
	char dir[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char log_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char pid_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

/* ---- The directory --------------------------------------------------------------------------*/

static int find_place(struct place *ret, struct sneck_error *reterr) {
	const char *override = secure_getenv("SNECK_LOCAL_DIR");
	char standard[64];

	snprintf(standard, sizeof(standard), "/var/tmp/sneck-%lu", (unsigned long)geteuid());
	const char *dir = override && *override ? override : standard;
	if (dir[0] != '/')
		return snecki_err(
		        reterr, SNECK_EINVAL, "SNECK_LOCAL_DIR is \"%s\"; it must be an absolute path", dir);
	if (strlen(dir) + sizeof("/" SOCKET_NAME) > sizeof(ret->socket_path))
		return snecki_err(reterr, SNECK_EINVAL,
		        "%.64s… is too long for the path of a socket (%zu bytes at most); set "
		        "SNECK_LOCAL_DIR to a shorter one",
		        dir, sizeof(ret->socket_path) - sizeof("/" SOCKET_NAME));
	/* Every name in the directory is shorter than the socket's or as long, so all of them fit. */
	snprintf(ret->dir, sizeof(ret->dir), "%s", dir);
	snprintf(ret->socket_path, sizeof(ret->socket_path), "%s/" SOCKET_NAME, dir);
	snprintf(ret->log_path, sizeof(ret->log_path), "%s/redis.log", dir);
	snprintf(ret->pid_path, sizeof(ret->pid_path), "%s/redis.pid", dir);
	return 0;
}

static int check_directory(const struct place *place, const struct stat *st, struct sneck_error *reterr) {
	if (st->st_uid != geteuid())
		return snecki_err(reterr, SNECK_EACCES,
		        "%s belongs to user %lu, not to %lu; have it removed, or set SNECK_LOCAL_DIR",
		        place->dir, (unsigned long)st->st_uid, (unsigned long)geteuid());
	if ((st->st_mode & 07777) != 0700)
		return snecki_err(reterr, SNECK_EACCES,
		        "%s has mode %04o, so others may reach into it; make sure that nothing in it is "
		        "theirs, then chmod 700 %s",
		        place->dir, st->st_mode & 07777u, place->dir);
	return 0;
}

/* Create the directory if it is not there, and open it. `ret_fd` is above LOCK_FD, so that the
 * server's descriptors can be put in place without overwriting it. */
static int open_directory(const struct place *place, int *ret_fd, struct sneck_error *reterr) {
	struct stat st;
	bool created = mkdir(place->dir, 0700) == 0;

	if (!created && errno != EEXIST)
		return snecki_err_sys(reterr, errno == EACCES || errno == EPERM ? SNECK_EACCES : SNECK_ECONN,
		        errno, "cannot create %s for the private server", place->dir);
	/* The umask may have taken bits away. */
	if (created)
		/* A failure shows in the check that follows. */
		if (fchmodat(AT_FDCWD, place->dir, 0700, AT_SYMLINK_NOFOLLOW) != 0)
			errno = 0;
	int first = open(place->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (first < 0 && (errno == ELOOP || errno == ENOTDIR))
		return snecki_err(reterr, SNECK_EACCES,
		        "%s is not a directory (or a symbolic link to one); remove it, or set "
		        "SNECK_LOCAL_DIR",
		        place->dir);
	if (first < 0)
		return snecki_err_sys(reterr, errno == EACCES ? SNECK_EACCES : SNECK_ECONN, errno,
		        "cannot open %s", place->dir);
	int fd = fcntl(first, F_DUPFD_CLOEXEC, LOCK_FD + 1);
	close(first);
	if (fd < 0 || fstat(fd, &st) < 0) {
		int r = snecki_err_sys(reterr, SNECK_ESYS, errno, "cannot look at %s", place->dir);
		if (fd >= 0)
			close(fd);
		return r;
	}
	int r = check_directory(place, &st, reterr);
	if (r < 0) {
		close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

/* Is what the path names still what is open? An administrator may have removed it meanwhile. */
static bool is_current(const struct place *place, int dir_fd) {
	struct stat named, open_one;

	return lstat(place->dir, &named) == 0 && fstat(dir_fd, &open_one) == 0 &&
	       named.st_dev == open_one.st_dev && named.st_ino == open_one.st_ino;
}

/* ---- Does it answer? ------------------------------------------------------------------------*/

static int left_ms(int64_t deadline_ns) {
	int64_t left_ns = deadline_ns - snecki_now_ns();

	if (left_ns <= 0)
		return 0;
	int64_t ms = (left_ns + NS_PER_MS - 1) / NS_PER_MS;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

enum ping { PING_ABSENT, PING_SILENT, PING_ANSWERED };

/* Any answer will do: what a live server objects to is for the connection to find out. */
static enum ping ping_connected(int fd, int64_t deadline_ns) {
	static const char request[] = "PING\r\n";
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	char answer[8];

	if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0)
		return PING_ABSENT;
	for (;;) {
		int ready = poll(&pfd, 1, left_ms(deadline_ns));
		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0)
			return PING_SILENT;
		ssize_t n = recv(fd, answer, sizeof(answer), 0);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		return n > 0 ? PING_ANSWERED : PING_ABSENT;
	}
}

static enum ping ping_server(const struct place *place, int64_t deadline_ns) {
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	enum ping result = PING_ABSENT;

	memcpy(addr.sun_path, place->socket_path, sizeof(addr.sun_path));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return PING_ABSENT;
	/* EAGAIN: the line of those who wait to be accepted is full, so somebody does listen. */
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
		result = ping_connected(fd, deadline_ns);
	else if (errno == EAGAIN)
		result = PING_SILENT;
	close(fd);
	return result;
}

/* ---- Starting it ----------------------------------------------------------------------------*/

static bool is_program(const char *path) {
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static bool find_in(const char *dirs, const char *name, char *ret_path, size_t size) {
	while (dirs && *dirs) {
		size_t len = strcspn(dirs, ":");
		/* Relative entries name something else after each chdir: not for a daemon. */
		if (dirs[0] == '/' &&
		        (size_t)snprintf(ret_path, size, "%.*s/%s", (int)len, dirs, name) < size &&
		        is_program(ret_path))
			return true;
		dirs += len;
		dirs += *dirs == ':';
	}
	return false;
}

/* cron's PATH is /usr/bin:/bin, and some systems keep servers in sbin: look there as well. */
static bool find_program(char *ret_path, size_t size) {
	static const char *const names[] = { "redis-server", "valkey-server" };
	static const char usual[] = "/usr/bin:/usr/sbin:/usr/local/bin:/usr/local/sbin";

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (find_in(getenv("PATH"), names[i], ret_path, size) ||
		        find_in(usual, names[i], ret_path, size))
			return true;
	}
	return false;
}

/* The log exists before the server does, so that no umask can keep the server from opening it. A
 * failure shows when the server is started. */
static void prepare_log(const struct place *place) {
	struct stat st;
	int fd = open(place->log_path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return;
	(void)fchmod(fd, 0600);
	if (fstat(fd, &st) == 0 && st.st_size > LOG_MAX_BYTES)
		(void)!ftruncate(fd, 0);
	close(fd);
}

/* The server's descriptors: nothing from the caller but the lock. */
static int lay_out_descriptors(
        posix_spawn_file_actions_t *actions, const struct place *place, int locked_fd) {
	int r = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
	if (r == 0)
		r = posix_spawn_file_actions_addopen(
		        actions, 1, place->log_path, O_WRONLY | O_APPEND | O_NOFOLLOW, 0);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(actions, 1, 2);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(actions, locked_fd, LOCK_FD);
	if (r == 0)
		r = posix_spawn_file_actions_addclosefrom_np(actions, LOCK_FD + 1);
	return r;
}

static int reset_signals(posix_spawnattr_t *attr) {
	sigset_t set;

	sigemptyset(&set);
	int r = posix_spawnattr_setsigmask(attr, &set);
	sigfillset(&set);
	if (r == 0)
		r = posix_spawnattr_setsigdefault(attr, &set);
	if (r == 0)
		r = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	return r;
}

/* Not fork: a library has no say over what a fork handler of the program does, nor over its locks.
 * The server makes itself a daemon; the process that is spawned here ends when it has. An errno. */
static int spawn_program(const char *program, const struct place *place, int locked_fd, pid_t *ret_pid) {
	/* Its environment is not the caller's, which may contain secrets and stays readable for life. */
	char *const env[] = { (char[]){ "PATH=/usr/bin:/bin" }, NULL };
	const char *const argv[] = { program, "--port", "0", "--unixsocket", place->socket_path,
		"--unixsocketperm", "700", "--dir", place->dir, "--logfile", place->log_path, "--pidfile",
		place->pid_path, "--daemonize", "yes", "--save", "", "--appendonly", "no",
		"--maxmemory-policy", "noeviction", NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;

	int r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		return r;
	r = posix_spawnattr_init(&attr);
	if (r == 0) {
		r = lay_out_descriptors(&actions, place, locked_fd);
		if (r == 0)
			r = reset_signals(&attr);
		if (r == 0)
			r = posix_spawn(
			        ret_pid, program, &actions, &attr, (char *const *)(uintptr_t)argv, env);
		posix_spawnattr_destroy(&attr);
	}
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

static void sleep_step(void) {
	const struct timespec step = { 0, STEP_MS * NS_PER_MS };

	nanosleep(&step, NULL);
}

/* Reap the process that was spawned. It ends as soon as the server has read its arguments; if it
 * does not in time, it is no server that will ever work. Somebody else may have reaped it. */
static void reap(pid_t pid, int64_t deadline_ns) {
	for (;;) {
		pid_t got = waitpid(pid, NULL, WNOHANG);
		if (got == pid || (got < 0 && errno != EINTR))
			return;
		if (left_ms(deadline_ns) == 0) {
			kill(pid, SIGKILL);
			while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
				;
			return;
		}
		sleep_step();
	}
}

/* Under the lock, which the server takes over: `locked_fd` may be closed afterwards. */
static int start_server(
        const struct place *place, int locked_fd, int64_t deadline_ns, struct sneck_error *reterr) {
	char program[PATH_MAX];
	pid_t pid;

	if (!find_program(program, sizeof(program)))
		return snecki_err(reterr, SNECK_ECONN,
		        "local: needs redis-server or valkey-server, and neither is in PATH, /usr/bin, "
		        "/usr/sbin "
		        "or /usr/local; " SERVER_PACKAGE ", or name another server");
	prepare_log(place);
	int failed = spawn_program(program, place, locked_fd, &pid);
	if (failed)
		return snecki_err_sys(reterr, SNECK_ECONN, failed, "cannot start %s", program);
	reap(pid, deadline_ns);
	return 0;
}

/* ---- Explaining a failure -------------------------------------------------------------------*/

/* The last line that the server wrote, or "". */
static void last_log_line(const struct place *place, char *ret_line, size_t size) {
	char tail[1024];
	ssize_t n = 0;
	int fd = open(place->log_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	ret_line[0] = '\0';
	if (fd < 0)
		return;
	if (lseek(fd, -(off_t)(sizeof(tail) - 1), SEEK_END) >= 0 || lseek(fd, 0, SEEK_SET) == 0)
		n = read(fd, tail, sizeof(tail) - 1);
	close(fd);
	while (n > 0 && (tail[n - 1] == '\n' || tail[n - 1] == ' '))
		n--;
	if (n <= 0)
		return;
	tail[n] = '\0';
	const char *newline = strrchr(tail, '\n');
	snprintf(ret_line, size, "%.*s", (int)size - 1, newline ? newline + 1 : tail);
}

static int explain_death(const struct place *place, struct sneck_error *reterr) {
	char line[LOG_LINE_MAX];

	last_log_line(place, line, sizeof(line));
	return snecki_err(reterr, SNECK_ECONN, "the private server ended at its start; see %s%s%s",
	        place->log_path, line[0] ? ": " : "", line);
}

static int explain_silence(const struct place *place, enum ping last, struct sneck_error *reterr) {
	if (last == PING_SILENT)
		return snecki_err(reterr, SNECK_ECONN,
		        "the private server at %s does not answer; is it stopped? Its process id is in %s",
		        place->socket_path, place->pid_path);
	return snecki_err(reterr, SNECK_ECONN,
	        "the private server runs but does not listen at %s in time; if that lasts, end the process "
	        "in %s",
	        place->socket_path, place->pid_path);
}

/* ---- All of it ------------------------------------------------------------------------------*/

/* One look. 1: it answers. 0: not yet, look again. Negative: it cannot be had. */
static int look(const struct place *place, int64_t deadline_ns, bool *started, enum ping *last,
        struct sneck_error *reterr) {
	int dir_fd;

	*last = ping_server(place, deadline_ns);
	if (*last == PING_ANSWERED)
		return 1;
	int r = open_directory(place, &dir_fd, reterr);
	if (r < 0)
		return r;
	if (flock(dir_fd, LOCK_EX | LOCK_NB) == 0 && is_current(place, dir_fd)) {
		/* Nobody lives here. Between the look and the lock one may have come and gone, but a server
		 * that this call started and that is no more will not do better the next time. */
		r = *started ? explain_death(place, reterr)
		             : start_server(place, dir_fd, deadline_ns, reterr);
		*started = true;
	}
	close(dir_fd);
	return r;
}

int snecki_local_ensure(char *ret_socket_path, size_t size, int64_t deadline_ns, struct sneck_error *reterr) {
	struct place place;
	enum ping last = PING_ABSENT;
	bool started = false;
	int dir_fd;

	int r = find_place(&place, reterr);
	if (r < 0)
		return r;
	if (strlen(place.socket_path) >= size)
		return snecki_err(reterr, SNECK_EINVAL, "no room for the path %s", place.socket_path);
	/* Before the first word to whatever listens there: is it ours? */
	r = open_directory(&place, &dir_fd, reterr);
	if (r < 0)
		return r;
	close(dir_fd);
	for (;;) {
		r = look(&place, deadline_ns, &started, &last, reterr);
		if (r < 0)
			return r;
		if (r > 0)
			break;
		if (left_ms(deadline_ns) == 0)
			return explain_silence(&place, last, reterr);
		sleep_step();
	}
	memcpy(ret_socket_path, place.socket_path, strlen(place.socket_path) + 1);
	return 0;
}

int snecki_local_socket(char *ret_socket_path, size_t size, struct sneck_error *reterr) {
	struct place place;
	int r = find_place(&place, reterr);

	if (r < 0)
		return r;
	if (strlen(place.socket_path) >= size)
		return snecki_err(reterr, SNECK_EINVAL, "no room for the path %s", place.socket_path);
	memcpy(ret_socket_path, place.socket_path, strlen(place.socket_path) + 1);
	return 0;
}
