/* SPDX-License-Identifier: MIT */
/* A server that evicts keys when its memory is full drops locks that somebody holds. That is worth a
 * warning, but not one with every cron job: a mark in the user's cache directory says that the
 * server has been looked at. Without a place for marks the warning comes every time, and a server that
 * does not tell is asked every time. */
#include "first_use.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server_url.h"
#include "session.h"
#include "talk.h"

/* The mark's name says nothing about the server to those who see it. FNV-1a. */
static uint64_t hash(const char *text) {
	uint64_t value = UINT64_C(14695981039346656037);

	for (; *text; text++)
		value = (value ^ (unsigned char)*text) * UINT64_C(1099511628211);
	return value;
}

/* free() it. NULL: there is no place. Makes the directories. */
static char *mark_path(const char *url_shown) {
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char server[512];
	char *dir = NULL, *path = NULL;

	server_url_identity(url_shown, server, sizeof(server));
	if (cache && *cache == '/') {
		if (asprintf(&dir, "%s/sneck", cache) < 0)
			return NULL;
	} else if (home && *home == '/') {
		if (asprintf(&dir, "%s/.cache", home) < 0)
			return NULL;
		(void)mkdir(dir, 0700);
		free(dir);
		if (asprintf(&dir, "%s/.cache/sneck", home) < 0)
			return NULL;
	} else {
		return NULL;
	}
	(void)mkdir(dir, 0700);
	if (asprintf(&path, "%s/seen-%016llx", dir, (unsigned long long)hash(server)) < 0)
		path = NULL;
	free(dir);
	return path;
}

/* False: the server does not tell. */
static bool look(const struct session *session) {
	sneck_probe_info info = SNECK_PROBE_INFO_INIT;

	info.wanted = SNECK_PROBE_POLICY;
	if (sneck_probe(session->client, &info, NULL) < 0 || !info.maxmemory_policy[0]) {
		if (session->common->verbose)
			talk("%s does not say whether it may drop locks when its memory is full; for that "
			     "this user needs +info",
			        session->settings.url_shown);
		return false;
	}
	if (info.maxmemory > 0 && strcmp(info.maxmemory_policy, "noeviction") != 0)
		talk("warning: %s has maxmemory-policy %s and may drop locks that are held when its memory "
		     "is full; set noeviction there, or use another server",
		        session->settings.url_shown, info.maxmemory_policy);
	return true;
}

void warn_on_first_use(const struct session *session) {
	/* The private server is started with the right policy. */
	if (!strcmp(session->settings.url, "local:") || session->common->quiet)
		return;
	char *path = mark_path(session->settings.url_shown);
	if (path && access(path, F_OK) == 0) {
		free(path);
		return;
	}
	if (look(session) && path) {
		int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd >= 0)
			close(fd);
	}
	free(path);
}
