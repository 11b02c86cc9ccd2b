/* SPDX-License-Identifier: MIT */
/* A server that has forgotten one script but not the next: the text of the first is sent behind the
 * second, and must not undo what that one did. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dialect/native/scripts.h"
#include "locks.h"
#include "proxy.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

/* The server knows this script alone. */
static void remember_only(const struct script *script) {
	test_redis_ok(server, "SCRIPT FLUSH");
	test_redis_ok(server, "SCRIPT LOAD %b", script->text, script->len);
}

static void an_acquire_is_not_sent_behind_its_cancel(void **state) {
	(void)state;
	struct test_proxy proxy;
	test_proxy_start(&proxy, server->socket_path);
	sneck_client *client = test_open(proxy.url);
	test_release(test_take(client, "warm", SNECK_WRITE, 0));
	remember_only(&snecki_native_scripts[NATIVE_CANCEL]);
	struct proxy_rule rule = { .action = PROXY_HOLD_REPLY, .class = PROXY_SCRIPT, .nth = 1 };
	test_proxy_arm(&proxy, &rule);
	struct test_call call;
	sneck_acquire_options options = test_waiting(SNECK_WAIT_FOREVER);
	options.tag = 7;
	test_call_start(&call, client, "door", SNECK_WRITE, &options);
	assert_true(test_proxy_wait_fired(&proxy, 1, 2000));
	assert_int_equal(sneck_cancel(client, 7), 1);
	assert_result(SNECK_ECANCELED, test_call_join(&call), &call.error);
	/* The cancel has run: it found nothing. */
	struct proxy_counts counts;
	assert_true(
	        WAIT_UNTIL((test_proxy_counts(&proxy, &counts), counts.requests[PROXY_SCRIPT] >= 4), 2000));
	test_proxy_deliver(&proxy);
	/* Whatever the client sends now it has sent before this is answered. */
	test_release(test_take(client, "warm", SNECK_WRITE, 1000));
	assert_true(test_is_idle(server, "door"));
	sneck_close(client);
	test_proxy_stop(&proxy);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(an_acquire_is_not_sent_behind_its_cancel),
	};
	return cmocka_run_group_tests(tests, test_server_up, test_server_down);
}
