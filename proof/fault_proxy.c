/* SPDX-License-Identifier: MIT */
/* Faults on the way between a worker and the server, by the worker's proxy: messages lost, late, cut,
 * crossed, and each error that a server may answer with.
 *
 * A fault strikes one worker's line, or one time in three all of them. Rules that are aimed at a message
 * are armed again and again while the fault lasts, so that different messages are struck. */
#include "fault.h"

#include "server_errors.h"

struct lines {
	uint32_t first, n;
};

static struct lines choose_lines(struct strike *strike) {
	uint32_t workers = strike->rig->shape.workers;
	if (rng_below(&strike->rng, 3) == 0)
		return (struct lines){ 0, workers };
	return (struct lines){ rng_below(&strike->rng, workers), 1 };
}

static struct test_proxy *line(struct strike *strike, uint32_t i) {
	return &strike->rig->workers[i].proxy;
}

static struct proxy_counts counts_of(struct strike *strike, struct lines lines) {
	struct proxy_counts sum = { 0 };
	for (uint32_t i = lines.first; i < lines.first + lines.n; i++) {
		struct proxy_counts counts;
		test_proxy_counts(line(strike, i), &counts);
		sum.fired += counts.fired;
		sum.connections += counts.connections;
		sum.requests[PROXY_ANY] += counts.requests[PROXY_ANY];
	}
	return sum;
}

static void heal(struct strike *strike, struct lines lines) {
	for (uint32_t i = lines.first; i < lines.first + lines.n; i++) {
		test_proxy_calm(line(strike, i));
		test_proxy_deliver(line(strike, i));
	}
}

/* Aim at one of the next messages, five times. */
static void aim(struct strike *strike, const struct proxy_rule *rule) {
	struct lines lines = choose_lines(strike);
	struct proxy_counts before = counts_of(strike, lines);
	for (int round = 0; round < 5; round++) {
		for (uint32_t i = lines.first; i < lines.first + lines.n; i++) {
			struct proxy_rule aimed = *rule;
			aimed.nth = 1 + rng_below(&strike->rng, 8);
			test_proxy_calm(line(strike, i));
			test_proxy_arm(line(strike, i), &aimed);
		}
		rig_pass_time(rng_between(&strike->rng, 60, 160));
	}
	heal(strike, lines);
	strike->bite = counts_of(strike, lines).fired - before.fired;
}

static void aim_at_any(struct strike *strike) {
	aim(strike, &(struct proxy_rule){
	                    .action = (enum proxy_action)strike->kind->number, .class = PROXY_ANY });
}

static void aim_at_script(struct strike *strike) {
	aim(strike, &(struct proxy_rule){
	                    .action = (enum proxy_action)strike->kind->number, .class = PROXY_SCRIPT });
}

static void aim_at_message(struct strike *strike) {
	aim(strike, &(struct proxy_rule){ .action = (enum proxy_action)strike->kind->number,
	                    .class = PROXY_MESSAGE,
	                    .hold_ms = rng_between(&strike->rng, 50, 1500) });
}

/* Late beyond the command time: the caller has given up and the message comes all the same. */
static void aim_late(struct strike *strike) {
	int64_t command_ms = strike->rig->shape.command_ms;
	aim(strike, &(struct proxy_rule){ .action = (enum proxy_action)strike->kind->number,
	                    .class = PROXY_SCRIPT,
	                    .hold_ms = rng_between(&strike->rng, command_ms / 2, 4 * command_ms) });
}

enum silence { SILENT_UP = 1, SILENT_DOWN = 2 };

static void be_silent(struct strike *strike) {
	struct lines lines = choose_lines(strike);
	struct proxy_counts before = counts_of(strike, lines);
	for (uint32_t i = lines.first; i < lines.first + lines.n; i++)
		test_proxy_silence(line(strike, i), strike->kind->number & SILENT_UP,
		        strike->kind->number & SILENT_DOWN);
	rig_pass_time(rng_between(&strike->rng, 150, 1800));
	strike->bite = counts_of(strike, lines).requests[PROXY_ANY] - before.requests[PROXY_ANY];
	heal(strike, lines);
}

static void delay(struct strike *strike) {
	struct lines lines = choose_lines(strike);
	struct proxy_counts before = counts_of(strike, lines);
	for (uint32_t i = lines.first; i < lines.first + lines.n; i++)
		test_proxy_delay(line(strike, i), rng_between(&strike->rng, 5, 120));
	rig_pass_time(rng_between(&strike->rng, 300, 1200));
	strike->bite = counts_of(strike, lines).requests[PROXY_ANY] - before.requests[PROXY_ANY];
	heal(strike, lines);
}

static void dribble(struct strike *strike) {
	struct lines lines = choose_lines(strike);
	struct proxy_counts before = counts_of(strike, lines);
	for (uint32_t i = lines.first; i < lines.first + lines.n; i++)
		test_proxy_dribble(line(strike, i), true);
	rig_pass_time(rng_between(&strike->rng, 300, 1000));
	strike->bite = counts_of(strike, lines).requests[PROXY_ANY] - before.requests[PROXY_ANY];
	heal(strike, lines);
}

/* Cut what is there; `number`: and let nobody in for a while. */
static void cut(struct strike *strike) {
	struct lines lines = choose_lines(strike);
	int64_t until_ms = strike->kind->number ? rng_between(&strike->rng, 100, 900) : 0;
	for (uint32_t i = lines.first; i < lines.first + lines.n; i++) {
		struct proxy_counts counts;
		test_proxy_counts(line(strike, i), &counts);
		strike->bite += counts.open;
		test_proxy_refuse(line(strike, i), strike->kind->number);
		test_proxy_cut_all(line(strike, i));
	}
	rig_pass_time(until_ms);
	heal(strike, lines);
}

const struct fault_kind fault_proxy_kinds[] = {
	{ "reply-lost", "the reply is dropped after the execution, and the line cut", aim_at_any,
	        PROXY_DROP_CUT, NULL },
	{ "reply-lost-silent", "the reply is dropped, and all that follow it", aim_at_any, PROXY_DROP_SILENT,
	        NULL },
	{ "request-lost", "the request is dropped and the line cut", aim_at_any, PROXY_CUT_BEFORE, NULL },
	{ "request-unanswered", "the request arrives, and the line is cut behind it", aim_at_any,
	        PROXY_CUT_AFTER, NULL },
	{ "request-late", "a request stays on its way beyond its deadline", aim_late, PROXY_HOLD, NULL },
	{ "reply-late", "a reply stays on its way beyond its deadline", aim_late, PROXY_HOLD_REPLY, NULL },
	{ "wrong-reply", "the reply before comes again: from there on all are one late", aim_at_script,
	        PROXY_SHIFT, NULL },
	{ "message-lost", "what was published is dropped", aim_at_message, PROXY_DROP, NULL },
	{ "message-late", "what was published comes late", aim_at_message, PROXY_HOLD_REPLY, NULL },
	{ "dribble", "one byte at a time", dribble, 0, NULL },
	{ "delay", "everything takes longer", delay, 0, NULL },
	{ "reset", "every connection is cut", cut, 0, NULL },
	{ "refuse", "connections are cut, and new ones refused for a while", cut, 1, NULL },
	{ "silence-up", "nothing reaches the server", be_silent, SILENT_UP, NULL },
	{ "silence-down", "nothing comes back", be_silent, SILENT_DOWN, NULL },
	{ "silence", "nothing passes", be_silent, SILENT_UP | SILENT_DOWN, NULL },
	{ NULL, NULL, NULL, 0, NULL },
};

/* ---- What a server may answer instead ------------------------------------------------------------*/

/* Every script call is answered so for a while, or a few of them are. */
static void answer(struct strike *strike) {
	struct lines lines = choose_lines(strike);
	struct proxy_rule rule = {
		.action = PROXY_ANSWER, .class = PROXY_SCRIPT, .line = strike->kind->text
	};
	if (rng_below(&strike->rng, 2) == 0) {
		aim(strike, &rule);
		return;
	}
	struct proxy_counts before = counts_of(strike, lines);
	for (uint32_t i = lines.first; i < lines.first + lines.n; i++)
		test_proxy_arm(line(strike, i), &rule);
	rig_pass_time(rng_between(&strike->rng, 100, 600));
	heal(strike, lines);
	strike->bite = counts_of(strike, lines).fired - before.fired;
}

#define ERROR_KIND(name, text) { "error-" name, "script calls are answered with " text, answer, 0, "-" text },

const struct fault_kind fault_error_kinds[] = { TEST_SERVER_ERRORS(ERROR_KIND){ NULL, NULL, NULL, 0, NULL } };
