/* SPDX-License-Identifier: MIT */
/* Where the settings come from. The server: --server, SNECK_URL, REDIS_URL, ~/.config/sneck/config,
 * /etc/sneck/config, local:. The dialect: --dialect, that URL, SNECK_DIALECT, the files. The password, which
 * is never needed where other users can read it:
 * --password-file, SNECK_PASSWORD_FILE, the URL, REDISCLI_AUTH. The sentinels' own:
 * SNECK_SENTINEL_PASSWORD_FILE, the URL.
 *
 * A configuration file has `key = value` lines and # comments. What it says wrongly is an error
 * that names the line, never skipped: a misspelled `url` would put the lock on another server than
 * everybody else's. Of two files the user's wins, key by key. */
#include "settings.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "duration.h"
#include "exit.h"
#include "options.h"
#include "server_url.h"

#define SYSTEM_FILE "/etc/sneck/config"
#define USER_FILE "/.config/sneck/config"

/* The line without blanks around it and without its end. */
static char *trim(char *text) {
	text += strspn(text, " \t");
	size_t len = strlen(text);
	while (len > 0 && strchr(" \t\r\n", text[len - 1]))
		text[--len] = '\0';
	return text;
}

static int complain_line(const char *path, int number, const char *what, const char *word) {
	fprintf(stderr, "sneck: %s:%d: %s%s\n", path, number, what, word);
	return EXIT_CONFIG;
}

static int keep(char **place, const char *value) {
	if (*place)
		return 0;
	*place = strdup(value);
	return *place ? 0 : EXIT_INTERNAL;
}

static int take_line(struct settings *settings, const char *path, int number, char *line) {
	line = trim(line);
	if (!*line || *line == '#')
		return 0;
	char *equals = strchr(line, '=');
	if (!equals)
		return complain_line(path, number, "not a `key = value` line: ", line);
	*equals = '\0';
	char *key = trim(line), *value = trim(equals + 1);
	if (!*value)
		return complain_line(path, number, "no value for ", key);
	if (!strcmp(key, "url"))
		return keep(&settings->url, value);
	if (!strcmp(key, "namespace"))
		return keep(&settings->name_space, value);
	if (!strcmp(key, "dialect"))
		return keep(&settings->dialect, value);
	if (strcmp(key, "lease") != 0)
		return complain_line(
		        path, number, "unknown key; known are url, namespace, dialect, lease: ", key);
	int64_t lease_ms;
	if (!parse_duration(value, &lease_ms) || lease_ms <= 0)
		return complain_line(path, number, "not a time (500ms, 10s, 2m, 1h): ", value);
	if (!settings->lease_ms)
		settings->lease_ms = lease_ms;
	return 0;
}

/* A file that is not there says nothing. */
static int read_file(struct settings *settings, const char *path) {
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	int code = 0;

	if (!file) {
		if (errno == ENOENT || errno == ENOTDIR)
			return 0;
		fprintf(stderr, "sneck: %s: %s; make it readable or remove it\n", path, strerror(errno));
		return EXIT_CONFIG;
	}
	for (int number = 1; code == 0 && getline(&line, &size, file) >= 0; number++)
		code = take_line(settings, path, number, line);
	if (code == 0 && ferror(file)) {
		fprintf(stderr, "sneck: %s: %s\n", path, strerror(errno));
		code = EXIT_CONFIG;
	}
	free(line);
	fclose(file);
	return code;
}

/* cron and services may have no HOME. */
static const char *home_directory(void) {
	const char *home = getenv("HOME");

	if (home && *home)
		return home;
	const struct passwd *user = getpwuid(geteuid());
	return user ? user->pw_dir : NULL;
}

static int read_files(struct settings *settings) {
	const char *home = home_directory();
	char *path = NULL;
	int code = 0;

	if (home && asprintf(&path, "%s" USER_FILE, home) < 0)
		return EXIT_INTERNAL;
	if (home)
		code = read_file(settings, path);
	free(path);
	return code ? code : read_file(settings, SYSTEM_FILE);
}

/* ---- The password ---------------------------------------------------------------------------*/

static int read_password(char **place, const char *path) {
	FILE *file = fopen(path, "re");
	size_t size = 0;
	ssize_t len = -1;

	if (file)
		len = getline(place, &size, file);
	int failed = errno;
	if (file)
		fclose(file);
	if (len < 0) {
		fprintf(stderr, "sneck: password file %s: %s\n", path, file ? "is empty" : strerror(failed));
		return EXIT_CONFIG;
	}
	(*place)[strcspn(*place, "\r\n")] = '\0';
	return 0;
}

static int find_password(struct settings *settings, const char *option) {
	const char *file = getenv("SNECK_PASSWORD_FILE");
	const char *password = getenv("REDISCLI_AUTH");

	if (option)
		return read_password(&settings->password, option);
	/* What lies around in the environment is meant for a server that asks. */
	if (!strcmp(settings->url, "local:"))
		return 0;
	if (file && *file)
		return read_password(&settings->password, file);
	if (!password || !*password || server_url_has_secret(settings->url))
		return 0;
	return keep(&settings->password, password);
}

static int find_sentinel_password(struct settings *settings) {
	const char *file = getenv("SNECK_SENTINEL_PASSWORD_FILE");

	if (!file || !*file || !server_url_is_sentinel(settings->url))
		return 0;
	return read_password(&settings->sentinel_password, file);
}

/* ---- All of it ------------------------------------------------------------------------------*/

/* What the URL says counts before the environment and the files. The library complains if --dialect says
 * something else. */
static void prefer_url(struct settings *settings) {
	char *by_url = server_url_dialect(settings->url);

	if (!by_url)
		return;
	free(settings->dialect);
	settings->dialect = by_url;
}

static int find_all(struct settings *ret, const struct common_options *common) {
	const char *named = find_server_url(common->server);
	int code = 0;

	if (named)
		code = keep(&ret->url, named);
	if (code == 0 && common->name_space)
		code = keep(&ret->name_space, common->name_space);
	const char *dialect = common->dialect ? common->dialect : getenv("SNECK_DIALECT");
	if (code == 0 && dialect && *dialect)
		code = keep(&ret->dialect, dialect);
	if (code == 0)
		code = read_files(ret);
	if (code != 0)
		return code;
	ret->url_named = ret->url != NULL;
	code = keep(&ret->url, "local:");
	if (code == 0 && !common->dialect)
		prefer_url(ret);
	if (code == 0)
		code = find_password(ret, common->password_file);
	return code ? code : find_sentinel_password(ret);
}

int settings_load(struct settings *ret, const struct common_options *common) {
	*ret = (struct settings){ 0 };
	int code = find_all(ret, common);

	if (common->server)
		wipe_server_url(common->server);
	if (code == 0) {
		show_server_url(ret->url, ret->url_shown, sizeof(ret->url_shown));
		return 0;
	}
	if (code == EXIT_INTERNAL)
		fputs("sneck: out of memory\n", stderr);
	settings_done(ret);
	return code;
}

const char *settings_family(const struct settings *settings) {
	if (settings->dialect && strcmp(settings->dialect, "native") != 0)
		return settings->dialect;
	return settings->name_space ? settings->name_space : "sneck";
}

static void free_secret(char *secret) {
	if (secret)
		explicit_bzero(secret, strlen(secret));
	free(secret);
}

void settings_done(struct settings *settings) {
	free_secret(settings->url);
	free_secret(settings->password);
	free_secret(settings->sentinel_password);
	free(settings->name_space);
	free(settings->dialect);
	*settings = (struct settings){ 0 };
}
