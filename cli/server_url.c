/* SPDX-License-Identifier: MIT */
/* Server URLs as the command handles them: where they come from, and how they are shown without
 * the secrets in them. What a URL means is the library's business. */
#include "server_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *find_server_url(const char *option) {
	static const char *const variables[] = { "SNECK_URL", "REDIS_URL" };

	if (option)
		return option;
	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
		const char *value = getenv(variables[i]);
		if (value && *value)
			return value;
	}
	return NULL;
}

/* Finds `user:password@` in `url`: from *ret_begin (after "://") to the returned '@'. NULL: none. A
 * password may contain '@' and '/' where people forgot to encode them: the last '@' counts, unless
 * the URL is a path. */
static char *find_userinfo(char *url, char **ret_begin) {
	char *begin = strstr(url, "://");

	if (!begin || begin[3] == '/')
		return NULL;
	*ret_begin = begin + 3;
	return strrchr(begin + 3, '@');
}

static bool is_secret(const char *parameter) {
	return strncmp(parameter, "db=", 3) != 0;
}

void show_server_url(const char *url, char *ret_text, size_t size) {
	char *copy = strdup(url);
	char *begin, *at, *query;

	ret_text[0] = '\0';
	if (!copy)
		return;
	/* User and password first: a '?' may be one of theirs. */
	at = find_userinfo(copy, &begin);
	if (at)
		memmove(begin, at + 1, strlen(at + 1) + 1);
	query = strchr(copy, '?');
	if (query)
		*query++ = '\0';
	size_t len = (size_t)snprintf(ret_text, size, "%s", copy);
	char separator = '?';
	for (char *next, *one = query; one && len < size; one = next) {
		next = strchr(one, '&');
		if (next)
			*next++ = '\0';
		if (is_secret(one))
			continue;
		len += (size_t)snprintf(ret_text + len, size - len, "%c%s", separator, one);
		separator = '&';
	}
	free(copy);
}

void wipe_server_url(char *url) {
	char *begin;
	char *at = find_userinfo(url, &begin);
	char *query = strchr(url, '?');

	if (at)
		memset(begin, '*', (size_t)(at - begin));
	if (query)
		memset(query + 1, '*', strlen(query + 1));
}

static bool scheme_ends(const char *url, const char *word) {
	size_t scheme = strcspn(url, ":"), len = strlen(word);

	return scheme > len && strncmp(url + scheme - len, word, len) == 0;
}

bool server_url_is_sentinel(const char *url) {
	return scheme_ends(url, "sentinel");
}

/* By its scheme, or by several hosts. */
bool server_url_is_cluster(const char *url) {
	const char *host = strstr(url, "://");

	if (scheme_ends(url, "+cluster"))
		return true;
	if (!host || server_url_is_sentinel(url))
		return false;
	size_t len = strcspn(host + 3, "/?");
	const char *at = memrchr(host + 3, '@', len);
	const char *begin = at ? at + 1 : host + 3;
	return memchr(begin, ',', len - (size_t)(begin - (host + 3))) != NULL;
}

const char *server_url_database(const char *url) {
	const char *query = strstr(url, "?db="), *host = strstr(url, "://");

	if (query)
		return query + 4;
	if (!host || host[3] == '/')
		return NULL;
	const char *path = strchr(host + 3, '/');
	if (path && server_url_is_sentinel(url)) /* the service stands before it */
		path = strchr(path + 1, '/');
	return path ? path + 1 : NULL;
}

bool server_url_has_secret(const char *url) {
	char *copy = strdup(url);
	char *begin;

	if (!copy)
		return false;
	const char *at = find_userinfo(copy, &begin);
	bool has = (at && memchr(begin, ':', (size_t)(at - begin))) || strstr(copy, "?password=") ||
	           strstr(copy, "&password=");
	free(copy);
	return has;
}

void server_url_identity(const char *url, char *ret_text, size_t size) {
	const char *rest = !strncmp(url, "valkey", 6) ? url + 6 : url;

	snprintf(ret_text, size, "%s%s", rest == url ? "" : "redis", rest);
	if (strncmp(ret_text, "redis://", 8) != 0)
		return;
	char *slash = strchr(ret_text + 8, '/');
	if (slash && (!slash[1] || !strcmp(slash, "/0")))
		*slash = '\0';
	size_t len = strcspn(ret_text + 8, "/") + 8;
	if (len > 5 && !strncmp(ret_text + len - 5, ":6379", 5))
		memmove(ret_text + len - 5, ret_text + len, strlen(ret_text + len) + 1);
}

char *server_url_dialect(const char *url) {
	static const char word[] = "dialect=";

	for (const char *at = strchr(url, '?'); at; at = strchr(at, '&')) {
		at++;
		if (!strncmp(at, word, sizeof(word) - 1))
			return strndup(at + sizeof(word) - 1, strcspn(at + sizeof(word) - 1, "&"));
	}
	return NULL;
}
