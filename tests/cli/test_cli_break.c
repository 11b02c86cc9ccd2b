/* SPDX-License-Identifier: MIT */
/* sneck break: exactly that hold, the victim learns who and why and stops, the lock passes on, tokens
 * grow; anything that does not fit changes nothing. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "look.h"
#include "wait.h"

enum { ID_MAX = 80 };

static struct test_server server;

static int start(void **state) {
	(void)state;
	return test_server_start(&server, NULL);
}

static int stop(void **state) {
	(void)state;
	test_server_stop(&server);
	return 0;
}

static void has(const char *text, const char *part) {
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in: %s", part, text);
}

static const char *id_of(const char *path, char id[ID_MAX]) {
	json_t *json = look_json(&server, 0, CLI_ARGS("show", "--json", "demo"));

	snprintf(id, ID_MAX, "%s", look_text(json, path));
	json_decref(json);
	return id;
}

static const char *holder_id(char id[ID_MAX]) {
	return id_of("lock.holders.0.id", id);
}

static unsigned long long token(void) {
	struct cli cli;

	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "demo", "sh", "-c", "echo $SNECK_TOKEN")), 0);
	return strtoull(cli_out(&cli), NULL, 10);
}

static void test_the_victim_learns_who_and_why(void **state) {
	struct cli victim, next, cli;
	char id[ID_MAX];

	(void)state;
	unsigned long long before = token();
	cli_start(&victim, &server,
	        CLI_ARGS("run", "demo", "sh", "-c",
	                "trap 'echo stopping; exit 3' TERM; echo in; sleep 60 & wait"));
	assert_true(cli_wait_out(&victim, "in\n", 10000));
	look_queue(&next, &server, "demo", 1);
	assert_int_equal(
	        cli_run(&cli, &server, CLI_ARGS("break", "demo", "--id", holder_id(id), "-m", "it hangs")),
	        0);
	has(cli_err(&cli), "is broken");
	assert_int_equal(cli_wait(&victim, 10000), 79);
	/* Politely, and told why. */
	has(cli_out(&victim), "stopping\n");
	has(cli_err(&victim), "sneck: \"demo\" was broken by ");
	has(cli_err(&victim), ": it hangs: stopping the command\n");
	/* The next in the queue has it, long before any lease or grace ends. */
	assert_int_equal(cli_wait(&next, 5000), 0);
	assert_string_equal(cli_out(&next), "got\n");
	assert_true(token() > before);
}

/* Whatever time it would have by itself: it is dead before the lock passes on. */
static void test_a_stubborn_victim_is_killed_within_the_grace(void **state) {
	struct cli victim, next, cli;
	char id[ID_MAX], look[128];
	int pid = 0;

	(void)state;
	cli_start(&victim, &server,
	        CLI_ARGS("run", "-k", "10s", "--lease", "60s", "demo", "sh", "-c",
	                "trap '' TERM; echo in $$.; exec cat"));
	assert_true(cli_wait_out(&victim, ".\n", 10000));
	assert_int_equal(sscanf(cli_out(&victim), "in %d.", &pid), 1);
	/* A dead one that nobody has buried yet is dead; kill -0 finds it all the same. */
	snprintf(look, sizeof(look),
	        "grep -qs '^State:.[^ZX]' /proc/%d/status && echo it lives || echo it is dead", pid);
	cli_start(&next, &server, CLI_ARGS("run", "demo", "sh", "-c", look));
	assert_true(WAIT_UNTIL(test_redis_int(&server, "ZCOUNT sneck:{demo} -inf (0") == 1, 5000));
	int64_t begun_ms = test_now_ms();
	assert_int_equal(
	        cli_run(&cli, &server,
	                CLI_ARGS("break", "demo", "--id", holder_id(id), "-m", "x", "--grace", "1s")),
	        0);
	assert_int_equal(cli_wait(&next, 8000), 0);
	assert_string_equal(cli_out(&next), "it is dead\n");
	assert_true(test_now_ms() - begun_ms >= 800); /* it had its time */
	int in_fd = victim.in_fd;
	victim.in_fd = -1; /* stays open: it must not end by itself */
	assert_int_equal(cli_wait(&victim, 5000), 79);
	victim.in_fd = in_fd;
	cli_kill(&victim);
}

/* Who asked to be told only is told the same, and keeps the command's exit code. */
static void test_a_victim_that_only_wants_to_know(void **state) {
	struct cli victim, cli;
	char id[ID_MAX];

	(void)state;
	cli_start(&victim, &server,
	        CLI_ARGS("run", "--on-lost=warn", "demo", "sh", "-c", "echo in; cat; exit 4"));
	assert_true(cli_wait_out(&victim, "in\n", 10000));
	assert_int_equal(cli_run(&cli, &server,
	                         CLI_ARGS("break", "demo", "--id", holder_id(id), "-m", "it hangs", "--now")),
	        0);
	assert_true(WAIT_UNTIL(strstr(cli_err(&victim), "the command goes on") != NULL, 10000));
	has(cli_err(&victim), "broken by ");
	has(cli_err(&victim), ": it hangs");
	assert_int_equal(cli_wait(&victim, 10000), 4);
}

static void test_now_does_not_wait(void **state) {
	struct cli victim, cli;
	char id[ID_MAX];

	(void)state;
	cli_start(&victim, &server, CLI_ARGS("run", "demo", "sh", "-c", "trap '' TERM; echo in; exec cat"));
	assert_true(cli_wait_out(&victim, "in\n", 10000));
	assert_int_equal(
	        cli_run(&cli, &server, CLI_ARGS("break", "demo", "--id", holder_id(id), "-m", "x", "--now")),
	        0);
	/* At once: no time for the victim. */
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-n", "demo", "echo", "mine")), 0);
	assert_string_equal(cli_out(&cli), "mine\n");
	cli_kill(&victim);
}

static void test_a_stale_id_changes_nothing(void **state) {
	struct cli holder, cli;
	char old_id[ID_MAX], id[ID_MAX];

	(void)state;
	look_hold(&holder, &server, "demo", NULL);
	holder_id(old_id);
	assert_int_equal(cli_wait(&holder, 10000), 0);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("break", "demo", "--id", old_id, "-m", "x")), 75);
	has(cli_err(&cli), "nobody holds it now; nothing was changed\n");
	look_hold(&holder, &server, "demo", CLI_ARGS("-m", "the new one"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("break", "demo", "--id", old_id, "-m", "x")), 75);
	has(cli_err(&cli), "nothing was changed\n");
	has(cli_err(&cli), "note:    the new one\n");
	has(cli_err(&cli), holder_id(id));
	assert_int_equal(look_count(&server, "demo", "holder_count"), 1);
	assert_int_equal(cli_wait(&holder, 10000), 0);
}

static void test_a_wait_can_be_broken(void **state) {
	struct cli holder, waiter;
	char id[ID_MAX];

	(void)state;
	look_hold(&holder, &server, "demo", NULL);
	look_queue(&waiter, &server, "demo", 1);
	json_t *json = look_json(&server, 0,
	        CLI_ARGS("break", "demo", "--json", "--id", id_of("lock.waiters.0.id", id), "-m", "go away"));
	assert_string_equal(look_text(json, "broken.id"), id);
	assert_string_equal(look_text(json, "broken.kind"), "waiter");
	assert_int_equal(look_number(json, "broken.pid"), waiter.pid);
	assert_string_equal(look_text(json, "reason"), "go away");
	assert_int_equal(look_number(json, "grace_ms"), 10000);
	json_decref(json);
	assert_int_equal(cli_wait(&waiter, 10000), 79);
	has(cli_err(&waiter), "go away");
	assert_string_equal(cli_out(&waiter), "");
	assert_int_equal(look_count(&server, "demo", "holder_count"), 1);
	assert_int_equal(cli_wait(&holder, 10000), 0);
}

static void test_bad_input_is_refused_in_one_line(void **state) {
	static const struct {
		const char *args[8];
		const char *part;
	} cases[] = {
		{ { "break", "--id", "Wa:1:b.1", "-m", "x" }, "NAME is missing" },
		{ { "break", "demo", "-m", "x" }, "--id is missing" },
		{ { "break", "demo", "--id", "Wa:1:b.1" }, "-m REASON is missing" },
		{ { "break", "demo", "--id", "Wa:1:b.1", "-m", "" }, "-m REASON is missing" },
		{ { "break", "demo", "--id", "nonsense", "-m", "x" }, "not the id of a hold" },
		{ { "break", "demo", "--id", "Wa:1:b.1", "-m", "x", "--grace=soon" }, "not a time" },
	};
	struct cli holder, cli;

	(void)state;
	look_hold(&holder, &server, "demo", NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(cli_run(&cli, &server, cases[i].args), 64);
		has(cli_err(&cli), cases[i].part);
		assert_string_equal(strchr(cli_err(&cli), '\n'), "\n");
	}
	assert_int_equal(
	        cli_run(&cli, &server,
	                CLI_ARGS("break", "demo", "--id", "Wa:1:b.1", "-m", "x", "--now", "--grace", "1s")),
	        64);
	has(cli_err(&cli), "contradict each other");
	assert_int_equal(look_count(&server, "demo", "holder_count"), 1);
	assert_int_equal(cli_wait(&holder, 10000), 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_victim_learns_who_and_why),
		cmocka_unit_test(test_a_stubborn_victim_is_killed_within_the_grace),
		cmocka_unit_test(test_a_victim_that_only_wants_to_know),
		cmocka_unit_test(test_now_does_not_wait),
		cmocka_unit_test(test_a_stale_id_changes_nothing),
		cmocka_unit_test(test_a_wait_can_be_broken),
		cmocka_unit_test(test_bad_input_is_refused_in_one_line),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
