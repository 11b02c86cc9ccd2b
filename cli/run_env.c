/* SPDX-License-Identifier: MIT */
/* The environment of a command under a lock. The array is made before the fork, because the child of a
 * program with threads may not allocate.
 *
 * SNECK_HELD is for sneck itself: all locks that this command and those around it run under, so that a
 * run inside a run does not wait for itself, however deep. Entries are separated by blanks, fields by
 * colons, everything else is percent-encoded, so that a name may contain any bytes:
 *
 *   PID.START:MODE:TOKEN:ID:SERVER:NAMESPACE:NAME
 *
 * A daemon may carry its environment beyond the run in which it was started. So an entry counts only
 * while the sneck that wrote it lives: the same process number, started at the same time. */
#include "run_env.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server_url.h"

enum { VARIABLES = 6 };

static const char *const names[VARIABLES] = {
	"SNECK_NAME=", "SNECK_TOKEN=", "SNECK_MODE=", "SNECK_SERVER=", "SNECK_ID=", "SNECK_HELD="
};

/* ---- SNECK_HELD -----------------------------------------------------------------------------*/

/* When the process was started, in the kernel's ticks since boot; 0: there is no such process. */
static unsigned long long start_of(int pid) {
	char path[64], text[1024] = "";
	unsigned long long start = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	size_t n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = '\0';
	char *field = strrchr(text, ')');
	/* It is the 22nd; the name's end is that of the second. */
	for (int i = 2; field && i < 22; i++)
		field = strchr(field + 1, ' ');
	if (field)
		start = strtoull(field, NULL, 10);
	return start;
}

static void put_encoded(FILE *out, const char *text) {
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";

	for (; *text; text++) {
		if (strchr(plain, *text))
			fputc(*text, out);
		else
			fprintf(out, "%%%02x", (unsigned char)*text);
	}
}

/* What names the lock apart from its name: two spellings of one server should agree. */
static void put_place(FILE *out, const struct held_lock *lock) {
	const char *local_dir = getenv("SNECK_LOCAL_DIR");
	char server[512];

	server_url_identity(lock->server, server, sizeof(server));
	put_encoded(out, server);
	if (!strcmp(lock->server, "local:") && local_dir)
		put_encoded(out, local_dir);
	fputc(':', out);
	put_encoded(out, lock->family);
	fputc(':', out);
	put_encoded(out, lock->name);
}

/* free() it. NULL: out of memory. */
static char *make_held(const struct held_lock *lock) {
	const char *outer = getenv("SNECK_HELD");
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	if (outer && *outer)
		fprintf(out, "%s ", outer);
	fprintf(out, "%d.%llu:%s:%" PRIu64 ":", (int)getpid(), start_of(getpid()), lock->mode, lock->token);
	put_encoded(out, lock->id);
	fputc(':', out);
	put_place(out, lock);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

static void decode(char *text) {
	char *out = text;

	for (; *text; text++) {
		unsigned byte;
		if (*text == '%' && sscanf(text + 1, "%2x", &byte) == 1) {
			*out++ = (char)byte;
			text += 2;
		} else {
			*out++ = *text;
		}
	}
	*out = '\0';
}

/* `entry` is cut up. True: it is about `place`, and who wrote it lives. */
static bool match_entry(char *entry, const char *place, struct outer_lock *ret) {
	char *fields[4];
	int pid;
	unsigned long long start;

	for (size_t i = 0; i < 4; i++) {
		fields[i] = entry;
		entry = strchr(entry, ':');
		if (!entry)
			return false;
		*entry++ = '\0';
	}
	if (strcmp(entry, place) != 0 || sscanf(fields[0], "%d.%llu", &pid, &start) != 2 || start == 0 ||
	        start_of(pid) != start)
		return false;
	decode(fields[3]);
	*ret = (struct outer_lock){ strdup(fields[1]), strdup(fields[3]), strdup(fields[2]), pid };
	return ret->mode && ret->id && ret->token;
}

bool find_outer_lock(const struct held_lock *wanted, struct outer_lock *ret) {
	const char *held = getenv("SNECK_HELD");
	char *copy = held ? strdup(held) : NULL;
	char *place = NULL, *rest = copy, *entry;
	size_t size;
	bool found = false;
	FILE *out = copy ? open_memstream(&place, &size) : NULL;

	if (out) {
		put_place(out, wanted);
		bool fine = fclose(out) == 0;
		while (fine && !found && (entry = strsep(&rest, " ")) != NULL)
			found = match_entry(entry, place, ret);
	}
	free(place);
	free(copy);
	return found;
}

void outer_lock_done(struct outer_lock *outer) {
	free(outer->mode);
	free(outer->id);
	free(outer->token);
}

/* ---- The array ------------------------------------------------------------------------------*/

static bool is_ours(const char *entry) {
	for (size_t i = 0; i < VARIABLES; i++) {
		if (!strncmp(entry, names[i], strlen(names[i])))
			return true;
	}
	return false;
}

static char *join(const char *name, const char *value) {
	char *entry;

	return asprintf(&entry, "%s%s", name, value) < 0 ? NULL : entry;
}

/* The entries that is_ours knows are to be freed, the others are the environment's. */
char **run_env_new(const struct held_lock *lock) {
	char token[32];
	size_t count = 0;

	while (environ && environ[count])
		count++;
	char **envp = calloc(VARIABLES + count + 1, sizeof(*envp));
	char *held = make_held(lock);
	snprintf(token, sizeof(token), "%" PRIu64, lock->token);
	const char *values[VARIABLES] = { lock->name, lock->token ? token : NULL, lock->mode, lock->server,
		lock->id, held };
	bool fine = envp && held;
	size_t n = 0;
	for (size_t i = 0; fine && i < VARIABLES; i++) {
		if (values[i])
			fine = (envp[n++] = join(names[i], values[i])) != NULL;
	}
	free(held);
	if (!fine) {
		run_env_free(envp);
		return NULL;
	}
	for (size_t i = 0; i < count; i++) {
		if (!is_ours(environ[i]))
			envp[n++] = environ[i];
	}
	return envp;
}

void run_env_free(char **envp) {
	for (size_t i = 0; envp && envp[i]; i++) {
		if (is_ours(envp[i]))
			free(envp[i]);
	}
	free(envp);
}
