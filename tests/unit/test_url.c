/* SPDX-License-Identifier: MIT */
/* Server URLs: what is accepted, what is refused and why, and that no text shows a password. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sneck/error.h>

#include "net/url.h"

static void assert_text(const char *url, const char *what, const char *got, const char *want) {
	if (!got != !want || (got && strcmp(got, want) != 0))
		fail_msg("%s: %s is %s, not %s", url, what, got ? got : "none", want ? want : "none");
}

struct good {
	const char *text;
	enum url_kind kind;
	const char *host;
	int port;
	const char *path, *user, *password;
	unsigned db;
	const char *display;
};

static const struct good GOOD[] = {
	{ "redis://cache-1", URL_TCP, "cache-1", 6379, 0, 0, 0, 0, "redis://cache-1:6379" },
	{ "redis://cache-1/", URL_TCP, "cache-1", 6379, 0, 0, 0, 0, "redis://cache-1:6379" },
	{ "REDIS://Cache_1.example.org:1", URL_TCP, "Cache_1.example.org", 1, 0, 0, 0, 0,
	        "redis://Cache_1.example.org:1" },
	{ "valkey://10.0.0.1:65535/3", URL_TCP, "10.0.0.1", 65535, 0, 0, 0, 3, "redis://10.0.0.1:65535/3" },
	{ "redis://h/2147483647", URL_TCP, "h", 6379, 0, 0, 0, 2147483647, "redis://h:6379/2147483647" },
	{ "redis://h?db=5", URL_TCP, "h", 6379, 0, 0, 0, 5, "redis://h:6379/5" },
	{ "redis://h/?db=5&user=u&password=p", URL_TCP, "h", 6379, 0, "u", "p", 5, "redis://h:6379/5" },
	{ "rediss://u:p@h:1/2?ca=/c&verify=none", URL_TCP, "h", 1, 0, "u", "p", 2, "rediss://h:1/2" },
	{ "valkeys://h", URL_TCP, "h", 6379, 0, 0, 0, 0, "rediss://h:6379" },
	{ "redis://[::1]", URL_TCP, "::1", 6379, 0, 0, 0, 0, "redis://[::1]:6379" },
	{ "redis://u:p@[fe80::1%25eth0]:7/1", URL_TCP, "fe80::1%eth0", 7, 0, "u", "p", 1,
	        "redis://[fe80::1%eth0]:7/1" },
	{ "redis://:secret@h", URL_TCP, "h", 6379, 0, 0, "secret", 0, "redis://h:6379" },
	{ "redis://user:@h", URL_TCP, "h", 6379, 0, "user", "", 0, "redis://h:6379" },
	{ "redis://:@h", URL_TCP, "h", 6379, 0, 0, 0, 0, "redis://h:6379" },
	{ "redis://us%65r:p%40s%2Fs%3A%25@h:1/2", URL_TCP, "h", 1, 0, "user", "p@s/s:%", 2, "redis://h:1/2" },
	{ "redis://u:p@ss:word@h", URL_TCP, "h", 6379, 0, "u", "p@ss:word", 0, "redis://h:6379" },
	{ "unix:///run/redis.sock", URL_UNIX, 0, 0, "/run/redis.sock", 0, 0, 0, "unix:/run/redis.sock" },
	{ "unix:/run/redis.sock", URL_UNIX, 0, 0, "/run/redis.sock", 0, 0, 0, "unix:/run/redis.sock" },
	{ "redis+unix:///a%20b?db=7", URL_UNIX, 0, 0, "/a b", 0, 0, 7, "unix:/a b?db=7" },
	{ "unix:///s?user=u&password=%26p&db=0", URL_UNIX, 0, 0, "/s", "u", "&p", 0, "unix:/s" },
	{ "unix://u:p@/s", URL_UNIX, 0, 0, "/s", "u", "p", 0, "unix:/s" },
	{ "unix:///with@sign", URL_UNIX, 0, 0, "/with@sign", 0, 0, 0, "unix:/with@sign" },
	{ "/run/redis.sock", URL_UNIX, 0, 0, "/run/redis.sock", 0, 0, 0, "unix:/run/redis.sock" },
	{ "/odd?db=1 %41", URL_UNIX, 0, 0, "/odd?db=1 %41", 0, 0, 0, "unix:/odd?db=1 %41" },
	{ "local:", URL_LOCAL, 0, 0, 0, 0, 0, 0, "local:" },
	{ "redis://u:p@h:1,i", URL_CLUSTER, 0, 0, 0, "u", "p", 0, "redis+cluster://h:1,..." },
	{ "rediss+cluster://[::1]/0", URL_CLUSTER, 0, 0, 0, 0, 0, 0, "rediss+cluster://[::1]:6379" },
	{ "redis+sentinel://u:p@h,i:1/locks/2", URL_SENTINEL, 0, 0, 0, "u", "p", 2,
	        "redis+sentinel://h:26379,.../locks/2" },
	{ "valkeys+sentinel://h/locks?ca=/c", URL_SENTINEL, 0, 0, 0, 0, 0, 0,
	        "rediss+sentinel://h:26379/locks" },
};

static void test_good(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof(GOOD) / sizeof(GOOD[0]); i++) {
		const struct good *row = &GOOD[i];
		struct sneck_error err;
		struct url url;
		char display[128];
		if (snecki_url_parse(row->text, &url, &err) < 0)
			fail_msg("%s: %s", row->text, err.text);
		assert_int_equal(url.kind, row->kind);
		assert_text(row->text, "host", url.host, row->host);
		assert_text(row->text, "path", url.path, row->path);
		assert_text(row->text, "user", url.user, row->user);
		assert_text(row->text, "password", url.password, row->password);
		assert_int_equal(url.port, row->port);
		assert_int_equal(url.db, row->db);
		snecki_url_display(&url, display, sizeof(display));
		assert_text(row->text, "display", display, row->display);
		snecki_url_done(&url);
		assert_null(url.password);
	}
}

struct bad {
	const char *text;
	int code;
	const char *says; /* must be in the text */
};

/* "hunter2" is always (part of) a password. */
static const struct bad BAD[] = {
	{ "", SNECK_EINVAL, "empty" },
	{ "cache-1", SNECK_EINVAL, "no scheme" },
	{ "http://h", SNECK_EINVAL, "scheme" },
	{ "redis:h", SNECK_EINVAL, "'//'" },
	{ "redis:/h", SNECK_EINVAL, "'//'" },
	{ "redis://", SNECK_EINVAL, "host is missing" },
	{ "redis:///0", SNECK_EINVAL, "host is missing" },
	{ "redis://:6379", SNECK_EINVAL, "host is missing" },
	{ "redis://:hunter2@", SNECK_EINVAL, "host is missing" },
	{ "redis://h:", SNECK_EINVAL, "port" },
	{ "redis://h:0", SNECK_EINVAL, "port" },
	{ "redis://h:65536", SNECK_EINVAL, "port" },
	{ "redis://h:-1", SNECK_EINVAL, "port" },
	{ "redis://h:6379x", SNECK_EINVAL, "port" },
	{ "redis://h:99999999999999999999", SNECK_EINVAL, "port" },
	{ "redis://::1", SNECK_EINVAL, "IPv6" },
	{ "redis://[::1", SNECK_EINVAL, "']'" },
	{ "redis://[::1]x", SNECK_EINVAL, "']'" },
	{ "redis://[cache-1]", SNECK_EINVAL, "IPv6" },
	{ "redis://[]", SNECK_EINVAL, "IPv6" },
	{ "redis://[fe80::1%eth0]", SNECK_EINVAL, "IPv6" },
	{ "redis://[fe80::1%25]", SNECK_EINVAL, "IPv6" },
	{ "redis://h/x", SNECK_EINVAL, "database" },
	{ "redis://h/-1", SNECK_EINVAL, "database" },
	{ "redis://h/2147483648", SNECK_EINVAL, "database" },
	{ "redis://h/1/2", SNECK_EINVAL, "database" },
	{ "redis://h/1/", SNECK_EINVAL, "database" },
	{ "redis://h/1?db=1", SNECK_EINVAL, "twice" },
	{ "redis://h?db=", SNECK_EINVAL, "database" },
	{ "redis://u:p@h?password=hunter2", SNECK_EINVAL, "twice" },
	{ "redis://h?user=u", SNECK_EINVAL, "without a password" },
	{ "redis://h?ttl=5", SNECK_EINVAL, "parameter number 1" },
	{ "redis://h?db", SNECK_EINVAL, "parameter number 1" },
	{ "unix:///s?password=a&hunter2", SNECK_EINVAL, "parameter number 2" },
	{ "unix:///s?password=a&hunter2=", SNECK_EINVAL, "parameter number 2" },
	{ "redis://hunter2@h", SNECK_EINVAL, "redis://:password@host" },
	{ "redis://:hunter2/x@h", SNECK_EINVAL, "%2F" },
	{ "redis://:hunter2?x@h", SNECK_EINVAL, "%2F" },
	{ "redis://:hunter2#x@h", SNECK_EINVAL, "%23" },
	{ "redis://:hunter2%@h", SNECK_EINVAL, "%25" },
	{ "redis://:hunter2%4@h", SNECK_EINVAL, "%25" },
	{ "redis://:hunter2%zz@h", SNECK_EINVAL, "%25" },
	{ "redis://:hunter2%00@h", SNECK_EINVAL, "00" },
	{ "redis://:hunter2 @h", SNECK_EINVAL, "blank" },
	{ "redis://h\n", SNECK_EINVAL, "control" },
	{ "redis://ho%73t", SNECK_EINVAL, "host" },
	{ "redis://ho$t", SNECK_EINVAL, "host" },
	{ "unix://", SNECK_EINVAL, "three slashes" },
	{ "unix://relative", SNECK_EINVAL, "three slashes" },
	{ "unix:relative", SNECK_EINVAL, "three slashes" },
	{ "unix:///", SNECK_EINVAL, "path" },
	{ "local:x", SNECK_EINVAL, "local:" },
	{ "local://", SNECK_EINVAL, "local:" },
	{ "rediss://h?verify=maybe", SNECK_EINVAL, "full (the default) or none" },
	{ "rediss://h?verify=none&verify=none", SNECK_EINVAL, "twice" },
	{ "redis://h?ca=/x", SNECK_EINVAL, "with rediss://" },
	{ "redis+sentinel://h:26379", SNECK_EINVAL, "service is missing" },
	{ "redis+sentinel://h:26379/", SNECK_EINVAL, "service is missing" },
	{ "redis+sentinel:///primary", SNECK_EINVAL, "host is missing" },
	{ "redis+sentinel://h,,i/primary", SNECK_EINVAL, "host is missing" },
	{ "redis+sentinel://h/primary/x", SNECK_EINVAL, "database" },
	{ "redis+sentinel://h/primary?sentinel_user=u", SNECK_EINVAL, "without a password" },
	{ "redis://h?sentinel_password=hunter2", SNECK_EINVAL, "parameter number 1" },
	{ "redis://u:hunter2@h1:7000,h2:7001/1", SNECK_EINVAL, "database 0 only" },
	{ "redis+cluster://h?db=2", SNECK_EINVAL, "database 0 only" },
	{ "redis://h1,", SNECK_EINVAL, "host is missing" },
	{ "redis://h1,h2:x", SNECK_EINVAL, "port" },
	{ "redis://h1,redis://h2", SNECK_EINVAL, "port" },
};

static void test_bad(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
		struct sneck_error err;
		struct url url;
		memset(&url, 'x', sizeof(url));
		struct url before = url;
		int r = snecki_url_parse(BAD[i].text, &url, &err);
		if (r != BAD[i].code || err.code != r)
			fail_msg("%s: result %d", BAD[i].text, r);
		if (!strstr(err.text, BAD[i].says))
			fail_msg("%s: the text does not say %s: %s", BAD[i].text, BAD[i].says, err.text);
		if (strstr(err.text, "hunter2"))
			fail_msg("%s: the text shows the password: %s", BAD[i].text, err.text);
		assert_memory_equal(&url, &before, sizeof(url));
		assert_int_equal(snecki_url_parse(BAD[i].text, &url, NULL), r);
	}
	assert_int_equal(snecki_url_parse(NULL, NULL, NULL), SNECK_EINVAL);
}

static void test_path_length(void **state) {
	(void)state;
	char text[128];
	struct url url;
	memset(text, 'p', sizeof(text));
	text[0] = '/';
	text[108] = '\0';
	assert_int_equal(snecki_url_parse(text, &url, NULL), SNECK_EINVAL);
	text[107] = '\0';
	assert_int_equal(snecki_url_parse(text, &url, NULL), 0);
	snecki_url_done(&url);
}

/* Every prefix, and every single changed character, of every URL above: no crash, no leak, no
 * password in a text. */
static void test_mutations(void **state) {
	(void)state;
	static const char letters[] = "/:@?#%&=[],.a0 \x7f";
	static const char source[] = "redis://us%41r:hunter2@[::1]:6379/5?db=5";
	char text[sizeof(source)];
	for (size_t at = 0; at < sizeof(source) - 1; at++)
		for (size_t c = 0; c < sizeof(letters); c++) {
			struct sneck_error err;
			struct url url;
			memcpy(text, source, sizeof(source));
			text[at] = letters[c]; /* the last is NUL: a prefix */
			if (snecki_url_parse(text, &url, &err) == 0)
				snecki_url_done(&url);
			else if (strstr(err.text, "hunter2"))
				fail_msg("%s: %s", text, err.text);
		}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_path_length),
		cmocka_unit_test(test_mutations),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
