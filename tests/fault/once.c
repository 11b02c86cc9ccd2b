/* SPDX-License-Identifier: MIT */
/* The runner of the exactly-once tests. A dry run of each script counts its messages; then every
 * fault is aimed at every one of them.
 *
 * A message that is held back is delivered at one of two moments: while the result of the act stands
 * (it must not disturb it), or after everything has been given back (it must not bring anything to
 * life). By then the client has long given the connection up, as a real one does. */
#include "once.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server_errors.h"
#include "layouts.h"
#include "wait.h"

enum {
	COMMAND_MS = 150,
	SETTLE_MS = 8000, /* more than a waiter's lease, less than that of a hold: an orphan is still there */
	PLAYERS = TEST_SANITIZED ? 8 : 16,
	CASES_MAX = 2000,
	MESSAGES_MIN = 6, /* the subscription comes when it comes, during the act or after it */
	SCRIPTS_MIN = 2   /* what follows the first one may come after the act */
};

struct once_fault {
	const char *name;
	enum proxy_action action;
	bool on_reply;
	bool deliver_last;
	const char *line; /* what the client reads instead */
};

static const struct once_fault line_faults[] = {
	{ "reply lost, connection cut", PROXY_DROP_CUT, true, false, NULL },
	{ "reply lost, then silence", PROXY_DROP_SILENT, true, false, NULL },
	{ "request lost, connection cut", PROXY_CUT_BEFORE, false, false, NULL },
	{ "request sent, connection cut", PROXY_CUT_AFTER, false, false, NULL },
	{ "request late, before the end", PROXY_HOLD, false, false, NULL },
	{ "request late, after the end", PROXY_HOLD, false, true, NULL },
	{ "reply late", PROXY_HOLD_REPLY, true, false, NULL },
};

#define ERROR_FAULT(name, text) { name, PROXY_ANSWER, false, false, "-" text },
static const struct once_fault error_faults[] = {
	TEST_SERVER_ERRORS(ERROR_FAULT){ "wrong reply", PROXY_SHIFT, true, false, NULL },
};

struct once_case {
	const struct once_script *script;
	const struct once_fault *kind; /* NULL: the dry run */
	int fault;                     /* its number; -1 */
	unsigned nth;
	unsigned requests; /* of the dry run's act */
	unsigned replies;
	char failure[2048];
};

struct stage {
	struct once_case *cases;
	int cases_n;
	atomic_int next;
};

static void describe_lock(const char *name, char *out, size_t size) {
	if (test_dialect()) {
		test_layout_describe(&test_the_server, name, out, size);
		return;
	}
	char key[160];
	redisReply *reply = test_redis(&test_the_server, "ZRANGE %s 0 -1 WITHSCORES", test_key(name, key));
	size_t len = 0;
	out[0] = '\0';
	for (size_t i = 0; reply && i < reply->elements && len < size; i += 2)
		len += (size_t)snprintf(
		        out + len, size - len, " %s=%s", reply->element[i]->str, reply->element[i + 1]->str);
	if (reply)
		freeReplyObject(reply);
}

void once_fail(struct once_scene *scene, const char *format, ...) {
	if (scene->failure[0])
		return;
	char what[256], lock[512];
	va_list args;
	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	describe_lock(scene->name, lock, sizeof(lock));
	snprintf(scene->failure, sizeof(scene->failure), "%s; act gave %s%s%s; server has%s", what,
	        scene->result ? sneck_err_name(scene->result) : "0", scene->result ? ": " : "",
	        scene->result ? scene->error.text : "", lock[0] ? lock : " nothing");
}

static bool server_has(const struct once_scene *scene, long reads, long writes, long waiters) {
	return test_members(&test_the_server, scene->name, "R") == reads &&
	       test_members(&test_the_server, scene->name, "W") == writes &&
	       test_members(&test_the_server, scene->name, "rwu") == waiters;
}

void once_expect(struct once_scene *scene, long reads, long writes, long waiters) {
	if (!scene->failure[0] && !WAIT_UNTIL(server_has(scene, reads, writes, waiters), SETTLE_MS))
		once_fail(scene, "expected R %ld, W %ld, waiters %ld", reads, writes, waiters);
}

void once_release(struct once_scene *scene, sneck_hold **hold, int allowed) {
	if (!*hold)
		return;
	int r = sneck_release(*hold);
	*hold = NULL;
	if (r != 0 && r != allowed)
		once_fail(scene, "the release gave %s", sneck_err_name(r));
}

int once_acquire(struct once_scene *scene, sneck_mode mode, int64_t wait_ms) {
	sneck_acquire_options options = test_waiting(wait_ms);
	options.owner = 1;
	return sneck_acquire(scene->client, scene->name, mode, &options, &scene->hold, &scene->error);
}

static sneck_client *open_or_note(struct once_scene *scene, const char *url, uint32_t command_ms) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	options.command_ms = command_ms;
	options.dialect = test_dialect();
	sneck_client *client = NULL;
	if (sneck_open(url, &options, &client, NULL) != 0)
		once_fail(scene, "cannot open");
	return client;
}

/* Where the machine is busy, a greeting may take longer than the short command time. That is a definite
 * answer, and not what is tested. */
static void warm(struct once_scene *scene) {
	sneck_hold *hold = NULL;
	sneck_acquire_options options = test_waiting(5000);
	char name[64];
	snprintf(name, sizeof(name), "warm-%s", scene->name);
	sneck_mode mode = test_layout_has_read() ? SNECK_READ : SNECK_WRITE;
	(void)WAIT_UNTIL((scene->result = sneck_acquire(
	                          scene->client, name, mode, &options, &hold, &scene->error)) != SNECK_ECONN,
	        SETTLE_MS);
	if (scene->result == 0)
		(void)sneck_release(hold);
	else
		once_fail(scene, "cannot warm up");
}

/* The held message, if any, is on its way to the server, which has dealt with it when this returns:
 * it serves its connections in turn. */
static void deliver(struct once_scene *scene, unsigned fired) {
	if (!scene->failure[0] && !test_proxy_wait_fired(&scene->proxy, fired, 0))
		return;
	struct proxy_counts before;
	test_proxy_counts(&scene->proxy, &before);
	test_proxy_deliver(&scene->proxy);
	(void)test_proxy_wait_delivered(&scene->proxy, before.delivered + 1, 1000);
	for (int i = 0; i < 3; i++)
		(void)test_server_ms(&test_the_server);
}

static void count_act(struct once_case *play, struct once_scene *scene) {
	struct proxy_counts before, after;
	test_proxy_counts(&scene->proxy, &before);
	scene->result = play->script->act(scene);
	test_proxy_counts(&scene->proxy, &after);
	play->requests = after.requests[PROXY_ANY] - before.requests[PROXY_ANY];
	play->replies = after.replies[PROXY_ANY] - before.replies[PROXY_ANY];
}

static void act_under_fault(struct once_case *play, struct once_scene *scene) {
	struct proxy_rule rule = { .action = play->kind->action,
		.class = play->kind->line ? PROXY_SCRIPT : PROXY_ANY,
		.nth = play->nth,
		.line = play->kind->line };
	test_proxy_arm(&scene->proxy, &rule);
	scene->result = play->script->act(scene);
}

static void play_case(struct once_case *play, int number) {
	struct once_scene scene = { 0 };
	snprintf(scene.name, sizeof(scene.name), "%s-%d", play->script->name, number);
	test_proxy_start(&scene.proxy, test_the_server.socket_path);
	scene.client = open_or_note(&scene, scene.proxy.url, COMMAND_MS);
	scene.other = open_or_note(&scene, test_the_server.url, 0);
	if (!play->script->cold)
		warm(&scene);
	if (play->script->prepare && !scene.failure[0])
		play->script->prepare(&scene);
	bool held =
	        play->kind && (play->kind->action == PROXY_HOLD || play->kind->action == PROXY_HOLD_REPLY);
	bool last = held && play->kind->deliver_last;
	if (!scene.failure[0]) {
		if (!play->kind)
			count_act(play, &scene);
		else
			act_under_fault(play, &scene);
		play->script->settled(&scene);
		if (held && !last) {
			deliver(&scene, 1);
			play->script->settled(&scene);
		}
		if (!held)
			test_proxy_calm(&scene.proxy);
		play->script->finish(&scene);
		once_expect(&scene, 0, 0, 0);
	}
	if (last && !scene.failure[0]) {
		/* It may come to life as long as its withdrawal is under way, too; not for longer. */
		deliver(&scene, 1);
		once_expect(&scene, 0, 0, 0);
	}
	sneck_close(scene.client);
	sneck_close(scene.other);
	test_proxy_stop(&scene.proxy);
	if (!scene.failure[0] && !test_is_idle(&test_the_server, scene.name))
		once_fail(&scene, "not idle after the clients were closed");
	memcpy(play->failure, scene.failure, sizeof(play->failure));
}

static void *play_cases(void *arg) {
	struct stage *stage = arg;
	for (;;) {
		int i = atomic_fetch_add(&stage->next, 1);
		if (i >= stage->cases_n)
			return NULL;
		play_case(&stage->cases[i], i);
	}
}

static bool play_all(struct once_case *cases, int n) {
	struct stage stage = { .cases = cases, .cases_n = n };
	pthread_t players[PLAYERS];
	for (int i = 0; i < PLAYERS; i++)
		if (pthread_create(&players[i], NULL, play_cases, &stage) != 0)
			abort();
	for (int i = 0; i < PLAYERS; i++)
		pthread_join(players[i], NULL);
	int failures = 0;
	for (int i = 0; i < n; i++) {
		if (!cases[i].failure[0])
			continue;
		failures++;
		fprintf(stderr, "%s/%d/%u (%s): %s\n", cases[i].script->name, cases[i].fault, cases[i].nth,
		        cases[i].kind ? cases[i].kind->name : "no fault", cases[i].failure);
	}
	fprintf(stderr, "%d cases, %d failures\n", n, failures);
	return failures == 0;
}

/* SNECK_ONCE="script/fault/message" plays that case alone. */
static bool is_chosen(const struct once_case *play) {
	const char *only = getenv("SNECK_ONCE");
	char name[128];
	snprintf(name, sizeof(name), "%s/%d/%u", play->script->name, play->fault, play->nth);
	return !only || strcmp(only, name) == 0;
}

/* Scripts that are called after reading need readers. */
static bool is_possible(const struct once_script *script) {
	return test_layout_has_read() || !strstr(script->name, "read");
}

static bool run(const struct once_script *scripts, int scripts_n, const struct once_fault *faults,
        int faults_n, unsigned messages_min) {
	static struct once_case cases[CASES_MAX];
	memset(cases, 0, sizeof(cases));
	struct once_case dry[16];
	memset(dry, 0, sizeof(dry));
	int dry_n = 0;
	for (int i = 0; i < scripts_n; i++)
		if (is_possible(&scripts[i]))
			dry[dry_n++] = (struct once_case){ .script = &scripts[i], .fault = -1 };
	if (!play_all(dry, dry_n))
		return false;
	test_redis_ok(&test_the_server, "FLUSHALL");
	int n = 0;
	for (int i = 0; i < dry_n; i++)
		for (int fault = 0; fault < faults_n; fault++) {
			unsigned messages = faults[fault].on_reply ? dry[i].replies : dry[i].requests;
			if (messages < messages_min)
				messages = messages_min;
			for (unsigned nth = 1; nth <= messages && n < CASES_MAX; nth++) {
				cases[n] = (struct once_case){ .script = dry[i].script,
					.kind = &faults[fault],
					.fault = fault,
					.nth = nth };
				n += is_chosen(&cases[n]);
			}
		}
	return play_all(cases, n);
}

bool once_run(const struct once_script *scripts, int scripts_n) {
	return run(scripts, scripts_n, line_faults, sizeof(line_faults) / sizeof(*line_faults), MESSAGES_MIN);
}

bool once_run_errors(const struct once_script *scripts, int scripts_n) {
	return run(
	        scripts, scripts_n, error_faults, sizeof(error_faults) / sizeof(*error_faults), SCRIPTS_MIN);
}
