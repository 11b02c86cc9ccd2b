/* SPDX-License-Identifier: MIT */
/* The process that takes part in a test as another user of the lock. It keeps a stack of holds, all
 * owned by its only thread, and does one thing per line; see actor.h for the lines. */
#include "actor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <sneck/sneck.h>

enum { HOLDS_MAX = 64, ANSWER_MS = 15000 };

struct actor {
	sneck_client *client;
	sneck_hold *holds[HOLDS_MAX];
	int holds_n;
};

static sneck_hold *top(struct actor *actor) {
	return actor->holds[actor->holds_n - 1];
}

static void answer_token(struct actor *actor, int result) {
	if (result == 0)
		printf("ok %llu\n", (unsigned long long)sneck_hold_token(top(actor)));
	else
		printf("%s\n", sneck_err_name(result));
}

static void do_take(struct actor *actor, const char *line, bool announce) {
	char name[256], mode, kind[16] = "";
	long long wait_ms, lease_ms;
	if (sscanf(line, "%*s %255s %c %lld %lld %15s", name, &mode, &wait_ms, &lease_ms, kind) < 4) {
		printf("bad line\n");
		return;
	}
	if (announce)
		printf("waiting\n");
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	options.wait_ms = wait_ms;
	options.lease_ms = lease_ms;
	options.fixed = strcmp(kind, "fixed") == 0;
	sneck_hold *hold = NULL;
	int result = sneck_acquire(
	        actor->client, name, mode == 'r' ? SNECK_READ : SNECK_WRITE, &options, &hold, NULL);
	if (result == 0)
		actor->holds[actor->holds_n++] = hold;
	answer_token(actor, result);
}

static void do_adopt(struct actor *actor, const char *line) {
	char name[256], id[SNECK_ID_MAX];
	long long lease_ms;
	if (sscanf(line, "%*s %255s %63s %lld", name, id, &lease_ms) < 3) {
		printf("bad line\n");
		return;
	}
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	options.lease_ms = lease_ms;
	sneck_hold *hold = NULL;
	int result = sneck_adopt(actor->client, name, strlen(name), id, &options, &hold, NULL);
	if (result == 0)
		actor->holds[actor->holds_n++] = hold;
	answer_token(actor, result);
}

static void do_detach(struct actor *actor, long long lease_ms) {
	char id[SNECK_ID_MAX];
	int result = sneck_detach(top(actor), lease_ms, id, NULL);
	if (result == 0) {
		actor->holds_n--;
		printf("ok %s\n", id);
	} else {
		printf("%s\n", sneck_err_name(result));
	}
}

static void do_convert(struct actor *actor, bool upgrade, long long wait_ms) {
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	options.wait_ms = wait_ms;
	int result = upgrade ? sneck_upgrade(top(actor), &options, NULL) : sneck_downgrade(top(actor), NULL);
	answer_token(actor, result);
}

static void obey(struct actor *actor, const char *line) {
	char verb[16] = "";
	long long number = 0;
	sscanf(line, "%15s %lld", verb, &number);
	if (strcmp(verb, "session") == 0) {
		printf("ok %s\n", sneck_client_session(actor->client));
	} else if (strcmp(verb, "take") == 0 || strcmp(verb, "wait") == 0) {
		do_take(actor, line, verb[0] == 'w');
	} else if (strcmp(verb, "adopt") == 0) {
		do_adopt(actor, line);
	} else if (strcmp(verb, "quit") == 0) {
		_exit(0);
	} else if (actor->holds_n == 0) {
		printf("nothing taken\n");
	} else if (strcmp(verb, "drop") == 0) {
		int result = sneck_release(top(actor));
		if (result != SNECK_ENOTOWNER)
			actor->holds_n--;
		printf("%s\n", result == 0 ? "ok" : sneck_err_name(result));
	} else if (strcmp(verb, "look") == 0) {
		printf("%s %lld\n", sneck_state_name(sneck_hold_state(top(actor))),
		        (long long)sneck_hold_left_ms(top(actor)));
	} else if (strcmp(verb, "upgrade") == 0 || strcmp(verb, "downgrade") == 0) {
		do_convert(actor, verb[0] == 'u', number);
	} else if (strcmp(verb, "detach") == 0) {
		do_detach(actor, number);
	} else {
		printf("bad line\n");
	}
}

int test_actor_main(int argc, char **argv) {
	if (argc < 3 || strcmp(argv[1], "actor") != 0)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	struct actor actor = { 0 };
	if (sneck_open(argv[2], NULL, &actor.client, NULL) != 0)
		return 3;
	char line[2048];
	while (fgets(line, sizeof(line), stdin))
		obey(&actor, line);
	sneck_close(actor.client);
	return 0;
}

void test_actor_start(struct test_proc *proc, const char *url) {
	const char *args[] = { "actor", url, NULL };
	test_proc_start(proc, args);
}

static void expect(const char *line, const char *expected, const char *asked) {
	if (strncmp(line, expected, strlen(expected)) != 0)
		fail_msg("%s: answered '%s', expected '%s'", asked, line, expected);
}

void test_actor_expect(struct test_proc *proc, const char *expected, const char *format, ...) {
	char asked[1024], line[256];
	va_list args;
	va_start(args, format);
	vsnprintf(asked, sizeof(asked), format, args);
	va_end(args);
	if (!test_proc_ask(proc, line, sizeof(line), ANSWER_MS, "%s", asked))
		fail_msg("%s: no answer", asked);
	expect(line, expected, asked);
}

void test_actor_hear(struct test_proc *proc, const char *expected, int timeout_ms) {
	char line[256];
	if (!test_proc_line(proc, line, sizeof(line), timeout_ms))
		fail_msg("not heard within %d ms: '%s'", timeout_ms, expected);
	expect(line, expected, "heard");
}

unsigned long long test_actor_number(struct test_proc *proc, const char *format, ...) {
	char asked[1024], line[256];
	va_list args;
	va_start(args, format);
	vsnprintf(asked, sizeof(asked), format, args);
	va_end(args);
	if (!test_proc_ask(proc, line, sizeof(line), ANSWER_MS, "%s", asked))
		fail_msg("%s: no answer", asked);
	expect(line, "ok ", asked);
	return strtoull(line + 3, NULL, 10);
}
