/* SPDX-License-Identifier: MIT */
/* Who may ask the sentinels, and whom a client believes to be one: users and passwords of sentinels and of
 * servers, which are different things, and certificates. What is refused is refused in words that say which
 * of the two it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "certs.h"
#include "locks.h"
#include "sentinels.h"
#include "wait.h"

enum { URL_BYTES = 640 };

static struct test_sentinels all;
static struct test_certs certs;

static int make_certs(void **state) {
	(void)state;
	return test_certs_make(&certs);
}

static int remove_certs(void **state) {
	(void)state;
	test_certs_remove(&certs);
	return 0;
}

static int down(void **state) {
	(void)state;
	test_sentinels_stop(&all);
	return 0;
}

static int up_plain(void **state) {
	(void)state;
	return test_sentinels_start(&all, NULL, NULL);
}

static void refused(const char *url, int expected, const char *words) {
	sneck_error error;

	assert_result(expected, test_connect(url, &error), &error);
	if (!strstr(error.text, words))
		fail_msg("\"%s\" does not say \"%s\"", error.text, words);
	assert_null(strstr(error.text, "canary"));
}

static void use(const char *url) {
	sneck_client *client = test_open(url);

	test_release(test_take(client, "door", SNECK_WRITE, 0));
	sneck_close(client);
}

/* The URL with credentials for the servers, and parameters. */
static const char *url_as(const char *userinfo, const char *parameters) {
	static char url[URL_BYTES];
	const char *rest = strstr(all.url, "://") + 3;

	snprintf(url, sizeof url, "%.*s%s%s%s", (int)(rest - all.url), all.url, userinfo, rest, parameters);
	return url;
}

static void each(struct test_server *servers, int n, const char *command) {
	for (int i = 0; i < n; i++)
		test_redis_ok(&servers[i], command);
}

/* ---- Passwords ----------------------------------------------------------------------------------*/

static void sentinels_have_users_of_their_own(void **state) {
	(void)state;
	each(all.sentinels, SENTINELS_N, "ACL SETUSER asker reset on >canary-s &* +@all");
	each(all.servers, SENTINELS_SERVERS, "ACL SETUSER holder reset on >canary-h ~* &* +@all");
	use(url_as("holder:canary-h@", "?sentinel_user=asker&sentinel_password=canary-s"));
	refused(url_as("holder:canary-h@", "?sentinel_user=asker&sentinel_password=canary-h"), SNECK_EACCES,
	        "sentinel_password=");
	refused(url_as("holder:canary-s@", "?sentinel_user=asker&sentinel_password=canary-s"), SNECK_EACCES,
	        "server redis://127.0.0.1");
	/* Those for the servers are not tried on the sentinels, where they would be wrong. */
	use(url_as("holder:canary-h@", ""));
}

static void options_may_say_it_instead(void **state) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	sneck_client *client;
	sneck_error error;
	(void)state;

	options.flags = SNECK_OPEN_CONNECT;
	options.sentinel_user = "asker";
	options.sentinel_password = "canary-s";
	assert_result(0, sneck_open(all.url, &options, &client, &error), &error);
	sneck_close(client);
	options.sentinel_password = "canary-x";
	assert_result(SNECK_EACCES, sneck_open(all.url, &options, &client, &error), &error);
}

static void a_missing_password_is_asked_for(void **state) {
	redisContext *admins[SENTINELS_N];
	(void)state;

	/* Who is connected stays: the sentinels go on talking to each other. */
	for (int i = 0; i < SENTINELS_N; i++) {
		admins[i] = test_server_connect(&all.sentinels[i]);
		freeReplyObject(redisCommand(admins[i], "ACL SETUSER default >canary-d"));
	}
	refused(all.url, SNECK_EACCES, "it asks for a password");
	/* The servers' password is not shown to sentinels, although it would do. */
	refused(url_as(":canary-d@", ""), SNECK_EACCES, "it asks for a password");
	use(url_as("", "?sentinel_password=canary-d"));
	for (int i = 0; i < SENTINELS_N; i++) {
		freeReplyObject(redisCommand(admins[i], "ACL SETUSER default nopass"));
		redisFree(admins[i]);
	}
}

static void a_missing_right_is_the_sentinels(void **state) {
	(void)state;
	each(all.sentinels, SENTINELS_N, "ACL SETUSER poor reset on >canary-p &* +@all -sentinel");
	refused(url_as("", "?sentinel_user=poor&sentinel_password=canary-p"), SNECK_EACCES,
	        "sentinel 127.0.0.1");
}

/* What has to be mended is said, though the last that was asked was only dead. */
static void a_refusal_says_more_than_silence(void **state) {
	char url[URL_BYTES];
	(void)state;

	snprintf(url, sizeof url,
	        "redis+sentinel://127.0.0.1:%d,127.0.0.1:1/" SENTINELS_SERVICE
	        "?sentinel_user=asker&sentinel_password=canary-x",
	        all.sentinels[0].port);
	refused(url, SNECK_EACCES, "sentinel_password=");
	snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d,127.0.0.1:1/nothing", all.sentinels[0].port);
	refused(url, SNECK_EINVAL, "no service 'nothing'");
}

/* ---- Certificates -------------------------------------------------------------------------------*/

/* All of it by TLS: asking, listening, the server that was named, and the one that is named next. */
static void everything_goes_by_tls(void **state) {
	(void)state;
	assert_int_equal(test_sentinels_start_tls(&all, certs.dir, "server", "server"), 0);
	sneck_client *client = test_open(all.url);
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	test_sentinels_settle(&all);
	test_sentinels_fail_over(&all);
	assert_true(WAIT_UNTIL(sneck_renew(hold, 0, NULL) == 0, 10000));
	test_release(hold);
	sneck_close(client);
	char url[URL_BYTES];
	snprintf(url, sizeof url, "%.*s?ca=%s/other-ca.crt", (int)strcspn(all.url, "?"), all.url, certs.dir);
	refused(url, SNECK_ECONN, "not trusted here");
}

/* The sentinels are who they say; the server that they name shows somebody else's certificate. */
static void names_are_checked_on_both(void **state) {
	char url[URL_BYTES];
	(void)state;

	assert_int_equal(test_sentinels_start_tls(&all, certs.dir, "elsewhere", "server"), 0);
	refused(all.url, SNECK_ECONN, "for another name");
	snprintf(url, sizeof url, "%s&servername=elsewhere.example", all.url);
	refused(url, SNECK_ECONN, "sentinel 127.0.0.1");
	/* A plain URL does not get through to either. */
	snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/" SENTINELS_SERVICE, all.sentinels[0].port);
	refused(url, SNECK_ECONN, "sentinel 127.0.0.1");
}

int main(void) {
	const struct CMUnitTest passwords[] = {
		cmocka_unit_test(sentinels_have_users_of_their_own),
		cmocka_unit_test(options_may_say_it_instead),
		cmocka_unit_test(a_missing_password_is_asked_for),
		cmocka_unit_test(a_missing_right_is_the_sentinels),
		cmocka_unit_test(a_refusal_says_more_than_silence),
	};
	const struct CMUnitTest certificates[] = {
		cmocka_unit_test_teardown(everything_goes_by_tls, down),
		cmocka_unit_test_teardown(names_are_checked_on_both, down),
	};
	int failed = cmocka_run_group_tests(passwords, up_plain, down);
	return failed + cmocka_run_group_tests(certificates, make_certs, remove_certs);
}
