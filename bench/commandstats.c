/* SPDX-License-Identifier: MIT */
/* The server's own counts, from INFO commandstats.
 *
 * The server's total_commands_processed is no count of requests: it has every command that a script calls in
 * it, so a layout whose scripts do more would seem to send more. Here the commands are counted by name, and
 * only names that no script of ours can call: those reach the server from clients alone. */
#include "commandstats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/server.h"

struct count {
	unsigned long long calls, usec;
};

static struct count count_of(const char *info, const char *command) {
	struct count count = { 0, 0 };
	char start[64];

	snprintf(start, sizeof start, "cmdstat_%s:", command);
	const char *at = strstr(info, start);
	if (at && sscanf(at + strlen(start), "calls=%llu,usec=%llu", &count.calls, &count.usec) != 2) {
		fprintf(stderr, "bench: cannot read the server's statistics\n");
		exit(1);
	}
	return count;
}

static redisReply *ask(const struct test_server *server) {
	redisReply *reply = test_redis(server, "INFO commandstats");

	if (!reply || !reply->str) {
		fprintf(stderr, "bench: the server does not tell its statistics\n");
		exit(1);
	}
	return reply;
}

double bench_script_us(const struct test_server *server) {
	redisReply *reply = ask(server);
	struct count scripts = count_of(reply->str, "evalsha");

	freeReplyObject(reply);
	return scripts.calls ? (double)scripts.usec / (double)scripts.calls : 0;
}

uint64_t bench_requests(const struct test_server *server) {
	static const char *const commands[] = { "evalsha", "eval", "evalsha_ro", "eval_ro", "subscribe",
		"unsubscribe" };
	redisReply *reply = ask(server);
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
		sum += count_of(reply->str, commands[i]).calls;
	freeReplyObject(reply);
	return sum;
}

uint64_t bench_subscriptions(const struct test_server *server) {
	redisReply *reply = ask(server);
	uint64_t calls = count_of(reply->str, "subscribe").calls;

	freeReplyObject(reply);
	return calls;
}
