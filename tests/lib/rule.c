/* SPDX-License-Identifier: MIT */
#include "rule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void test_rule_read(struct test_rule *rule, const char *printed) {
	char *save = NULL;

	snprintf(rule->text, sizeof rule->text, "%.*s", (int)strcspn(printed, "\n"), printed);
	rule->count = 0;
	for (char *word = strtok_r(rule->text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		assert_true(rule->count < TEST_RULE_WORDS);
		rule->words[rule->count++] = strcmp(word, ">PASSWORD") == 0 ? ">pw" : word;
	}
}

void test_rule_obey(
        const struct test_rule *rule, const struct test_server *servers, size_t n, const char *but) {
	const char *words[TEST_RULE_WORDS];
	int count = 0;

	for (int i = 0; i < rule->count; i++)
		if (!but || strcmp(rule->words[i], but) != 0)
			words[count++] = rule->words[i];
	for (size_t i = 0; i < n; i++) {
		redisContext *admin = test_server_connect(&servers[i]);
		assert_non_null(admin);
		redisReply *reply = redisCommandArgv(admin, count, words, NULL);
		assert_non_null(reply);
		if (reply->type == REDIS_REPLY_ERROR)
			fail_msg("%s", reply->str);
		freeReplyObject(reply);
		redisFree(admin);
	}
}

void test_allow(const struct test_server *server, const char *user, const char *scope, const char *commands,
        const char *but) {
	char rest[TEST_RULE_BYTES], line[2 * TEST_RULE_BYTES], *save = NULL;
	size_t len = (size_t)snprintf(line, sizeof line, "ACL SETUSER %s reset on %s", user, scope);

	assert_true((size_t)snprintf(rest, sizeof rest, "%s", commands) < sizeof rest);
	for (char *word = strtok_r(rest, " ", &save); word; word = strtok_r(NULL, " ", &save))
		if (!but || strcmp(word, but) != 0)
			len += (size_t)snprintf(line + len, sizeof line - len, " +%s", word);
	assert_true(len < sizeof line);
	test_redis_ok(server, line);
}

static redisReply *info_of(const struct test_server *server, const char *section) {
	redisReply *reply = test_redis(server, "INFO %s", section);

	assert_non_null(reply);
	assert_int_equal(reply->type, REDIS_REPLY_STRING);
	return reply;
}

static long number_behind(const redisReply *info, const char *line) {
	const char *at = strstr(info->str, line);
	return at ? strtol(at + strlen(line), NULL, 10) : 0;
}

static long calls_in(const redisReply *info, const char *command) {
	char line[64];

	snprintf(line, sizeof line, "cmdstat_%s:calls=", command);
	return number_behind(info, line);
}

long test_info_sum(const struct test_server *servers, size_t n, const char *section, const char *line) {
	long sum = 0;

	for (size_t i = 0; i < n; i++) {
		redisReply *info = info_of(&servers[i], section);
		sum += number_behind(info, line);
		freeReplyObject(info);
	}
	return sum;
}

long test_calls(const struct test_server *servers, size_t n, const char *command) {
	long sum = 0;

	for (size_t i = 0; i < n; i++) {
		redisReply *info = info_of(&servers[i], "commandstats");
		sum += calls_in(info, command);
		freeReplyObject(info);
	}
	return sum;
}

/* Each is asked once, by an INFO that is not counted in its own answer. */
void test_rule_all_used(const struct test_rule *rule, const struct test_server *servers, size_t n) {
	bool used[TEST_RULE_WORDS] = { false };

	for (size_t i = 0; i < n; i++) {
		redisReply *info = info_of(&servers[i], "commandstats");
		for (int j = 0; j < rule->count; j++)
			used[j] = used[j] || calls_in(info, rule->words[j] + 1) > 0;
		freeReplyObject(info);
	}
	for (int j = 0; j < rule->count; j++)
		if (rule->words[j][0] == '+' && !used[j])
			fail_msg("nobody called %s", rule->words[j] + 1);
}

/* An entry of the log is a list of names and values. */
static const char *value_of(const redisReply *entry, const char *name) {
	for (size_t i = 0; i + 1 < entry->elements; i += 2)
		if (strcmp(entry->element[i]->str, name) == 0)
			return entry->element[i + 1]->str;
	return "";
}

void test_nothing_refused(const struct test_server *servers, size_t n, bool (*may_be)(const char *object)) {
	for (size_t i = 0; i < n; i++) {
		redisReply *log = test_redis(&servers[i], "ACL LOG 100");
		assert_non_null(log);
		assert_int_equal(log->type, REDIS_REPLY_ARRAY);
		for (size_t j = 0; j < log->elements; j++) {
			const char *object = value_of(log->element[j], "object");
			if (!may_be || !may_be(object))
				fail_msg("refused (%s): %s", value_of(log->element[j], "reason"), object);
		}
		freeReplyObject(log);
	}
}
