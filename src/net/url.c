/* SPDX-License-Identifier: MIT */
/* Server URLs.
 *
 * Every URL may hold a password, and a malformed one may hold it in an unexpected place (a raw '/'
 * or '@' in a password moves the borders of all parts). So no error text quotes any piece of the
 * URL: it names the part that is wrong and shows the valid form instead. What a typo could silently
 * change (an unknown parameter, a second `db`, `user@host` that clients read in two ways) is refused
 * rather than guessed. */
#include "net/url.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "base/err.h"
#include "net/endpoint.h"

enum { DEFAULT_PORT = 6379, SENTINEL_PORT = 26379, HOST_MAX = ENDPOINT_HOST_MAX, SEEDS_MAX = 64 };

static const char FORMS[] =
        "valid forms are redis[s]://[user:password@]host[:port][/db], "
        "redis[s]+sentinel://[user:password@]host,host/service[/db], for a cluster "
        "redis[s]://[user:password@]host,host or redis[s]+cluster://…, unix:///path[?db=N] and local:";

/* A piece of the text. */
struct span {
	const char *at;
	size_t len;
};

static bool span_is(struct span s, const char *word) {
	return s.len == strlen(word) && strncasecmp(s.at, word, s.len) == 0;
}

static const char *span_chr(struct span s, char c) {
	return s.len ? memchr(s.at, c, s.len) : NULL;
}

/* Cut `s` at `at` (which lies in it): returns the part before; `s` keeps what follows the character. */
static struct span cut(struct span *s, const char *at) {
	struct span head = { s->at, (size_t)(at - s->at) };
	s->len -= head.len + 1;
	s->at = at + 1;
	return head;
}

static int bad(struct sneck_error *reterr, const char *what) {
	return snecki_err(reterr, SNECK_EINVAL, "server URL: %s; %s", what, FORMS);
}

static int hex_value(char c) {
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static void free_secret(char *secret) {
	if (secret) {
		explicit_bzero(secret, strlen(secret));
		free(secret);
	}
}

/* Percent-decode into a new string. A C string cannot hold a NUL, so %00 is refused. */
static int decode(struct span s, const char *part, char **ret, struct sneck_error *reterr) {
	char *out = calloc(1, s.len + 1);
	if (!out)
		return snecki_err(reterr, SNECK_ENOMEM, "server URL: out of memory");
	size_t n = 0;
	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] != '%') {
			out[n++] = s.at[i];
			continue;
		}
		int high = s.len - i > 2 ? hex_value(s.at[i + 1]) : -1;
		int low = s.len - i > 2 ? hex_value(s.at[i + 2]) : -1;
		if (high < 0 || low < 0 || high + low == 0) {
			free_secret(out);
			return snecki_err(reterr, SNECK_EINVAL,
			        "server URL: '%%' in the %s must be followed by two hex digits (not 00); "
			        "write '%%25' for the character itself",
			        part);
		}
		out[n++] = (char)(high * 16 + low);
		i += 2;
	}
	free_secret(*ret);
	*ret = out;
	return 0;
}

/* Digits only; false when there are none, or the value exceeds `max`. */
static bool parse_number(struct span s, uint32_t max, uint32_t *ret) {
	uint64_t value = 0;
	if (s.len == 0 || s.len > 10)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] < '0' || s.at[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(s.at[i] - '0');
	}
	if (value > max)
		return false;
	*ret = (uint32_t)value;
	return true;
}

static int parse_db(struct span s, uint32_t *ret, struct sneck_error *reterr) {
	if (!parse_number(s, INT32_MAX, ret))
		return bad(reterr, "the database must be a number from 0 to 2147483647");
	return 0;
}

static int parse_userinfo(struct span s, struct url *url, struct sneck_error *reterr) {
	const char *colon = span_chr(s, ':');
	/* redis-cli reads redis://X@host as a password, most other clients as a user. */
	if (!colon)
		return snecki_err(reterr, SNECK_EINVAL,
		        "server URL: what stands before '@' is ambiguous; write redis://user:password@host, "
		        "or "
		        "redis://:password@host for a password alone");
	struct span user = cut(&s, colon);
	int r;
	if (user.len) {
		r = decode(user, "user", &url->user, reterr);
		if (r < 0)
			return r;
	}
	if (!user.len && !s.len)
		return 0;
	return decode(s, "password", &url->password, reterr);
}

/* Inside the brackets: an IPv6 address, perhaps with %25zone. */
static int parse_ipv6(struct span s, char **host, struct sneck_error *reterr) {
	char text[INET6_ADDRSTRLEN];
	struct in6_addr addr;
	const char *zone = span_chr(s, '%');
	size_t len = zone ? (size_t)(zone - s.at) : s.len;
	bool valid = len < sizeof(text);
	if (valid) {
		memcpy(text, s.at, len);
		text[len] = '\0';
		valid = inet_pton(AF_INET6, text, &addr) == 1;
	}
	if (valid && zone)
		valid = s.len - len > 3 && strncmp(zone, "%25", 3) == 0;
	if (!valid)
		return bad(reterr, "what stands in [] is not an IPv6 address");
	return decode(s, "host", host, reterr);
}

static int parse_name(struct span s, char **host, struct sneck_error *reterr) {
	if (s.len == 0)
		return bad(reterr, "the host is missing");
	if (s.len > HOST_MAX)
		return bad(reterr, "the host is too long");
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
		if (!plain && c != '-' && c != '.' && c != '_')
			return bad(reterr, "the host has a character that no host name has");
	}
	return decode(s, "host", host, reterr);
}

/* host[:port]; the host goes to *host. */
static int parse_host_port(
        struct span s, uint16_t standard, char **host, uint16_t *ret_port, struct sneck_error *reterr) {
	struct span port = { 0 };
	bool has_port = false;
	int r;
	if (s.len && s.at[0] == '[') {
		const char *end = span_chr(s, ']');
		if (!end)
			return bad(reterr, "'[' without ']' in the host");
		struct span inside = cut(&s, end);
		inside.at++;
		inside.len--;
		if (s.len && s.at[0] != ':')
			return bad(reterr, "only ':port' may follow ']'");
		has_port = s.len > 0;
		port = has_port ? (struct span){ s.at + 1, s.len - 1 } : s;
		r = parse_ipv6(inside, host, reterr);
	} else {
		struct span name = s;
		const char *colon = span_chr(s, ':');
		if (colon) {
			name = cut(&s, colon);
			port = s;
			has_port = true;
			if (span_chr(port, ':'))
				return bad(reterr,
				        "more than one ':' after the host (an IPv6 address goes in [])");
		}
		r = parse_name(name, host, reterr);
	}
	if (r < 0)
		return r;
	uint32_t number = standard;
	if (has_port && (!parse_number(port, UINT16_MAX, &number) || number == 0))
		return bad(reterr, "the port must be a number from 1 to 65535");
	*ret_port = (uint16_t)number;
	return 0;
}

/* host[:port],host[:port]… */
static int parse_seeds(struct span s, uint16_t standard, struct url *url, struct sneck_error *reterr) {
	size_t n = 1;
	for (size_t i = 0; i < s.len; i++)
		n += s.at[i] == ',';
	if (n > SEEDS_MAX)
		return bad(reterr, "more than 64 hosts");
	url->seeds = calloc(n, sizeof(*url->seeds));
	if (!url->seeds)
		return snecki_err(reterr, SNECK_ENOMEM, "server URL: out of memory");
	while (url->seeds_n < n) {
		const char *comma = span_chr(s, ',');
		struct span one = comma ? cut(&s, comma) : s;
		struct endpoint *seed = &url->seeds[url->seeds_n++];
		char *host = NULL;
		int r = parse_host_port(one, standard, &host, &seed->port, reterr);
		if (r == 0)
			snprintf(seed->host, sizeof(seed->host), "%s", host);
		free(host);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The sentinels, and /service[/db] behind them. */
static int parse_sentinel(
        struct span authority, struct span path, bool *has_db, struct url *url, struct sneck_error *reterr) {
	int r = parse_seeds(authority, SENTINEL_PORT, url, reterr);
	if (r < 0)
		return r;
	url->kind = URL_SENTINEL;
	if (path.len)
		path = (struct span){ path.at + 1, path.len - 1 };
	const char *slash = span_chr(path, '/');
	struct span service = slash ? cut(&path, slash) : path;
	if (!service.len)
		return snecki_err(reterr, SNECK_EINVAL,
		        "server URL: the service is missing; write redis+sentinel://host,host,host/service, "
		        "with the name that the sentinels watch the primary under");
	r = decode(service, "service", &url->service, reterr);
	if (r == 0 && slash) {
		*has_db = true;
		r = parse_db(path, &url->db, reterr);
	}
	return r;
}

/* Where the value of a parameter that is a text goes; NULL: it is none of these. */
static char **text_parameter(struct span key, struct url *url) {
	const struct {
		const char *key;
		char **at;
		bool tls;
	} texts[] = {
		{ "user", &url->user, false },
		{ "password", &url->password, false },
		{ "dialect", &url->dialect, false },
		{ "prefix", &url->prefix, false },
		{ "ca", &url->ca, true },
		{ "cert", &url->cert, true },
		{ "key", &url->key, true },
		{ "servername", &url->server_name, true },
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (span_is(key, texts[i].key))
			return texts[i].tls && !url->tls ? NULL : texts[i].at;
	if (url->kind == URL_SENTINEL && span_is(key, "sentinel_user"))
		return &url->sentinel_user;
	if (url->kind == URL_SENTINEL && span_is(key, "sentinel_password"))
		return &url->sentinel_password;
	return NULL;
}

static int parse_verify(struct span value, bool *ret_none, struct sneck_error *reterr) {
	*ret_none = span_is(value, "none");
	if (!*ret_none && !span_is(value, "full"))
		return snecki_err(reterr, SNECK_EINVAL,
		        "server URL: verify= is full (the default) or none (anybody may pose as the server)");
	return 0;
}

static int unknown_parameter(int number, const struct url *url, struct sneck_error *reterr) {
	return snecki_err(reterr, SNECK_EINVAL,
	        "server URL: query parameter number %d is not known; valid are db=, user=, password=, "
	        "dialect= and prefix=%s, joined by '&' (write '%%26' for '&' in a value)",
	        number,
	        url->tls ? ", ca=, cert=, key=, servername= and verify="
	                 : " (and with rediss:// ca=, cert=, key=, servername=, verify=)");
}

/* key=value, once each. Texts count the parameters instead of naming them: an unescaped '&' makes a
 * piece of a password look like a parameter's name. */
static int parse_query(struct span s, bool *has_db, struct url *url, struct sneck_error *reterr) {
	bool has_verify = false;
	for (int number = 1; s.len > 0; number++) {
		const char *amp = span_chr(s, '&');
		struct span value = s;
		if (amp)
			value = cut(&s, amp);
		else
			s.len = 0;
		const char *equals = span_chr(value, '=');
		struct span key = { value.at, 0 };
		if (equals)
			key = cut(&value, equals);
		char **text = text_parameter(key, url);
		bool twice;
		int r;
		if (text) {
			twice = *text;
			r = decode(value, "query", text, reterr);
		} else if (span_is(key, "db")) {
			twice = *has_db;
			*has_db = true;
			r = parse_db(value, &url->db, reterr);
		} else if (url->tls && span_is(key, "verify")) {
			twice = has_verify;
			has_verify = true;
			r = parse_verify(value, &url->verify_none, reterr);
		} else {
			return unknown_parameter(number, url, reterr);
		}
		if (twice)
			return bad(reterr, "a query parameter, the user or the password is given twice");
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_path(const char *path, struct sneck_error *reterr) {
	struct sockaddr_un addr;
	if (strlen(path) >= sizeof(addr.sun_path))
		return snecki_err(reterr, SNECK_EINVAL,
		        "server URL: the path of a Unix socket has at most %zu bytes; use a shorter one or a "
		        "link",
		        sizeof(addr.sun_path) - 1);
	return 0;
}

static int parse_unix(struct span authority, struct span path, struct url *url, struct sneck_error *reterr) {
	if (authority.len || !path.len || path.at[0] != '/')
		return bad(reterr, "a socket needs its full path after three slashes, unix:///path");
	if (path.len == 1)
		return bad(reterr, "the path of the socket is missing");
	url->kind = URL_UNIX;
	int r = decode(path, "path", &url->path, reterr);
	return r < 0 ? r : check_path(url->path, reterr);
}

static int parse_tcp(
        struct span authority, struct span path, bool *has_db, struct url *url, struct sneck_error *reterr) {
	int r = parse_host_port(authority, DEFAULT_PORT, &url->host, &url->port, reterr);
	if (r < 0 || path.len <= 1)
		return r;
	*has_db = true;
	return parse_db((struct span){ path.at + 1, path.len - 1 }, &url->db, reterr);
}

static int no_db(struct sneck_error *reterr) {
	return bad(reterr, "a cluster has database 0 only; leave the number out");
}

/* Any nodes of the cluster; the others are found through them. */
static int parse_cluster(
        struct span authority, struct span path, struct url *url, struct sneck_error *reterr) {
	int r = parse_seeds(authority, DEFAULT_PORT, url, reterr);
	url->kind = URL_CLUSTER;
	if (r == 0 && path.len > 1 && !span_is(path, "/0"))
		return no_db(reterr);
	return r;
}

/* What follows "scheme://" (or "unix:"): [user:password@]place[/path][?query] */
static int parse_rest(struct span rest, struct url *url, struct sneck_error *reterr) {
	bool is_unix = url->kind == URL_UNIX;
	struct span query = { 0 };
	bool has_db = false;
	int r;
	if (span_chr(rest, '#'))
		return bad(reterr, "'#' has no meaning here (write '%23' in a password)");
	const char *mark = span_chr(rest, '?');
	if (mark) {
		struct span before = cut(&rest, mark);
		query = rest;
		rest = before;
	}
	const char *slash = span_chr(rest, '/');
	struct span authority = { rest.at, slash ? (size_t)(slash - rest.at) : rest.len };
	struct span path = { rest.at + authority.len, rest.len - authority.len };
	const char *at = authority.len ? memrchr(authority.at, '@', authority.len) : NULL;
	if (!at && !is_unix && (span_chr(path, '@') || span_chr(query, '@')))
		return bad(reterr, "'@' after the host; in a password write '%2F' for '/', '%3F' for '?'");
	if (at) {
		struct span userinfo = cut(&authority, at);
		r = parse_userinfo(userinfo, url, reterr);
		if (r < 0)
			return r;
	}
	if (is_unix) {
		r = parse_unix(authority, path, url, reterr);
	} else if (url->kind == URL_SENTINEL) {
		r = parse_sentinel(authority, path, &has_db, url, reterr);
	} else if (url->kind == URL_CLUSTER || span_chr(authority, ',')) {
		r = parse_cluster(authority, path, url, reterr);
	} else {
		r = parse_tcp(authority, path, &has_db, url, reterr);
	}
	if (r < 0)
		return r;
	r = parse_query(query, &has_db, url, reterr);
	if (r == 0 && ((url->user && !url->password) || (url->sentinel_user && !url->sentinel_password)))
		return bad(reterr, "a user without a password");
	if (r == 0 && url->kind == URL_CLUSTER && url->db)
		return no_db(reterr);
	return r;
}

/* 1: a scheme of ours; else an error code. */
static int check_scheme(struct span scheme, struct url *url, struct sneck_error *reterr) {
	static const struct {
		const char *scheme;
		enum url_kind kind;
		bool tls;
	} schemes[] = {
		{ "redis", URL_TCP, false },
		{ "valkey", URL_TCP, false },
		{ "rediss", URL_TCP, true },
		{ "valkeys", URL_TCP, true },
		{ "unix", URL_UNIX, false },
		{ "redis+unix", URL_UNIX, false },
		{ "valkey+unix", URL_UNIX, false },
		{ "redis+sentinel", URL_SENTINEL, false },
		{ "redis-sentinel", URL_SENTINEL, false },
		{ "valkey+sentinel", URL_SENTINEL, false },
		{ "rediss+sentinel", URL_SENTINEL, true },
		{ "valkeys+sentinel", URL_SENTINEL, true },
		{ "redis+cluster", URL_CLUSTER, false },
		{ "valkey+cluster", URL_CLUSTER, false },
		{ "rediss+cluster", URL_CLUSTER, true },
		{ "valkeys+cluster", URL_CLUSTER, true },
	};
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		if (!span_is(scheme, schemes[i].scheme))
			continue;
		url->kind = schemes[i].kind;
		url->tls = schemes[i].tls;
		return 1;
	}
	return bad(reterr, "the scheme is not known");
}

static int parse(const char *text, struct url *url, struct sneck_error *reterr) {
	struct span rest = { text, strlen(text) };
	if (rest.len == 0)
		return bad(reterr, "it is empty");
	if (text[0] == '/') {
		url->kind = URL_UNIX;
		url->path = strdup(text);
		if (!url->path)
			return snecki_err(reterr, SNECK_ENOMEM, "server URL: out of memory");
		return check_path(text, reterr);
	}
	for (size_t i = 0; i < rest.len; i++)
		if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
			return bad(reterr, "it has a blank or a control character in it");
	const char *colon = span_chr(rest, ':');
	if (!colon)
		return bad(reterr, "it has no scheme");
	struct span scheme = cut(&rest, colon);
	if (span_is(scheme, "local")) {
		bool has_db = true; /* there is one database */
		url->kind = URL_LOCAL;
		if (rest.len == 0)
			return 0;
		if (rest.at[0] != '?')
			return bad(reterr, "nothing but '?' and parameters may follow 'local:'");
		return parse_query((struct span){ rest.at + 1, rest.len - 1 }, &has_db, url, reterr);
	}
	int r = check_scheme(scheme, url, reterr);
	if (r < 0)
		return r;
	if (rest.len >= 2 && rest.at[0] == '/' && rest.at[1] == '/')
		rest = (struct span){ rest.at + 2, rest.len - 2 };
	else if (url->kind != URL_UNIX)
		return bad(reterr, "'//' is missing after the scheme");
	return parse_rest(rest, url, reterr);
}

int snecki_url_parse(const char *text, struct url *ret, struct sneck_error *reterr) {
	struct url url = { 0 };
	if (!text)
		return bad(reterr, "there is none");
	int r = parse(text, &url, reterr);
	if (r < 0) {
		snecki_url_done(&url);
		return r;
	}
	*ret = url;
	return 0;
}

void snecki_url_done(struct url *url) {
	free(url->host);
	free(url->path);
	free_secret(url->user);
	free_secret(url->password);
	free(url->dialect);
	free(url->prefix);
	free(url->ca);
	free(url->cert);
	free(url->key);
	free(url->server_name);
	free(url->seeds);
	free(url->service);
	free_secret(url->sentinel_user);
	free_secret(url->sentinel_password);
	*url = (struct url){ 0 };
}

void snecki_url_display(const struct url *url, char *out, size_t out_size) {
	char db[16] = "";
	switch (url->kind) {
	case URL_TCP:
		if (url->db)
			snprintf(db, sizeof(db), "/%u", url->db);
		snprintf(out, out_size, strchr(url->host, ':') ? "%s://[%s]:%u%s" : "%s://%s:%u%s",
		        url->tls ? "rediss" : "redis", url->host, url->port, db);
		break;
	case URL_UNIX:
		if (url->db)
			snprintf(db, sizeof(db), "?db=%u", url->db);
		snprintf(out, out_size, "unix:%s%s", url->path, db);
		break;
	case URL_SENTINEL:
		if (url->db)
			snprintf(db, sizeof(db), "/%u", url->db);
		snprintf(out, out_size, "%s+sentinel://%s:%u%s/%s%s", url->tls ? "rediss" : "redis",
		        url->seeds[0].host, url->seeds[0].port, url->seeds_n > 1 ? ",..." : "", url->service,
		        db);
		break;
	case URL_CLUSTER:
		snprintf(out, out_size,
		        strchr(url->seeds[0].host, ':') ? "%s+cluster://[%s]:%u%s" : "%s+cluster://%s:%u%s",
		        url->tls ? "rediss" : "redis", url->seeds[0].host, url->seeds[0].port,
		        url->seeds_n > 1 ? ",..." : "");
		break;
	case URL_LOCAL:
		snprintf(out, out_size, "local:");
		break;
	}
}
