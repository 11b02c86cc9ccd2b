/* SPDX-License-Identifier: MIT */
/* The command's small parts: times and URLs as people write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "duration.h"
#include "server_url.h"

static void test_durations(void **state) {
	static const struct {
		const char *text;
		int64_t ms; /* -1: refused */
	} rows[] = {
		{ "0", 0 },
		{ "10", 10000 },
		{ "1.5", 1500 },
		{ ".5", 500 },
		{ "1.", 1000 },
		{ "500ms", 500 },
		{ "1.5s", 1500 },
		{ "2m", 120000 },
		{ "3h", 10800000 },
		{ "7d", 604800000 },
		{ "0.0001", 1 },
		{ "0.00000000000001s", 1 },
		{ "0.1ms", 1 },
		{ "0.000", 0 },
		{ "1.999999999d", 172800000 },
		{ "3650d", INT64_C(315360000000) },
		{ "3651d", -1 },
		{ "315360000000ms", INT64_C(315360000000) },
		{ "315360000001ms", -1 },
		{ "99999999999999999999999999", -1 },
		{ "", -1 },
		{ ".", -1 },
		{ "s", -1 },
		{ "-1", -1 },
		{ "+1", -1 },
		{ " 1", -1 },
		{ "1 s", -1 },
		{ "1e3", -1 },
		{ "0x10", -1 },
		{ "nan", -1 },
		{ "inf", -1 },
		{ "1,5", -1 },
		{ "1S", -1 },
		{ "1sec", -1 },
		{ "1.2.3", -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		int64_t ms = -1;
		bool fine = parse_duration(rows[i].text, &ms);
		if (fine != (rows[i].ms >= 0) || ms != rows[i].ms)
			fail_msg("\"%s\": %s %lld", rows[i].text, fine ? "is" : "refused", (long long)ms);
	}
}

static void test_shown_urls(void **state) {
	static const struct {
		const char *url, *shown;
	} rows[] = {
		{ "redis://host", "redis://host" },
		{ "redis://host:6380/3", "redis://host:6380/3" },
		{ "redis://user:secret@host:6380/3", "redis://host:6380/3" },
		{ "redis://:secret@host", "redis://host" },
		{ "redis://:sec@ret@host/1", "redis://host/1" },
		{ "redis://:sec/ret?x@host/1", "redis://host/1" },
		{ "unix:///run/redis.sock?db=3", "unix:///run/redis.sock?db=3" },
		{ "unix:///run/a@b.sock", "unix:///run/a@b.sock" },
		{ "unix:///run/r.sock?user=u&password=secret&db=2", "unix:///run/r.sock?db=2" },
		{ "unix:///run/r.sock?db=2&password=sec@ret", "unix:///run/r.sock?db=2" },
		{ "/run/r.sock?password=secret", "/run/r.sock" },
		{ "local:", "local:" },
		{ "", "" },
	};
	char shown[64];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		show_server_url(rows[i].url, shown, sizeof(shown));
		assert_string_equal(shown, rows[i].shown);
	}
	show_server_url("redis://:secret@a-host-with-a-long-name", shown, 16);
	assert_string_equal(shown, "redis://a-host-");
	show_server_url("unix:///123456?db=1", shown, 17);
	assert_string_equal(shown, "unix:///123456?d");
}

static void test_wiped_urls(void **state) {
	static const struct {
		const char *url, *wiped;
	} rows[] = {
		{ "redis://u:pw@host/3", "redis://****@host/3" },
		{ "redis://host/3", "redis://host/3" },
		{ "unix:///r?password=x", "unix:///r?**********" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char *copy = strdup(rows[i].url);
		wipe_server_url(copy);
		assert_string_equal(copy, rows[i].wiped);
		free(copy);
	}
}

static void test_which_server(void **state) {
	(void)state;
	unsetenv("SNECK_URL");
	unsetenv("REDIS_URL");
	assert_null(find_server_url(NULL));
	setenv("REDIS_URL", "redis://r", 1);
	assert_string_equal(find_server_url(NULL), "redis://r");
	setenv("SNECK_URL", "redis://s", 1);
	assert_string_equal(find_server_url(NULL), "redis://s");
	setenv("SNECK_URL", "", 1);
	assert_string_equal(find_server_url(NULL), "redis://r");
	assert_string_equal(find_server_url("redis://o"), "redis://o");
}

static void test_secrets_in_urls(void **state) {
	(void)state;
	assert_true(server_url_has_secret("redis://u:pw@host/3"));
	assert_true(server_url_has_secret("redis://:pw@host"));
	assert_true(server_url_has_secret("unix:///r?db=1&password=x"));
	assert_false(server_url_has_secret("redis://user@host"));
	assert_false(server_url_has_secret("redis://host:6380/3"));
	assert_false(server_url_has_secret("local:"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_shown_urls),
		cmocka_unit_test(test_wiped_urls),
		cmocka_unit_test(test_which_server),
		cmocka_unit_test(test_secrets_in_urls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
