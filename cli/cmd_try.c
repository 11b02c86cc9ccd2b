/* SPDX-License-Identifier: MIT */
/* sneck try, sneck wait: is it free, and when will it be? Neither takes it, so somebody else may
 * have it the moment after.
 *
 * Waiting asks again and again: after 50 ms at first, then less and less often down to twice a second, but as
 * soon as the holder's lease ends. It stands in no queue: under a lock that always has waiters it may wait
 * for ever, and a lock that is free for less than half a second may be missed. */
#include <stdio.h>
#include <time.h>

#include "exit.h"
#include "lock_view.h"
#include "looking.h"
#include "talk.h"

enum { ID_SHARED = 1, ID_WAIT, POLL_FIRST_MS = 50, POLL_MAX_MS = 500, PARTIES = 16 };

struct try_options {
	const struct command *self;
	bool shared;
	int64_t wait_ms; /* -1: for ever */
};

#define SHARED_ROWS_                                                                                   \
	{ "shared", 's', NULL, "free for readers: others who share it do not count", ID_SHARED, 0 }, { \
		"read", 0, NULL, NULL, ID_SHARED, 0                                                    \
	}
static const struct option_row try_rows[] = { SHARED_ROWS_, { NULL, 0, NULL, NULL, 0, 0 } };
static const struct option_row wait_rows[] = {
	SHARED_ROWS_,
	{ "wait", 'w', "DUR", "wait no longer than this (default: for ever)", ID_WAIT, 0 },
	{ NULL, 0, NULL, NULL, 0, 0 },
};

static int take(void *ctx, const struct option_row *row, char *value) {
	struct try_options *options = ctx;

	if (row->id == ID_SHARED)
		options->shared = true;
	else
		return option_duration(options->self, row, value, &options->wait_ms);
	return OPTIONS_OK;
}

/* Could it be taken now? Whoever waits has the older right. */
static bool is_free(const sneck_lock_info *info, bool shared) {
	return info->waiter_n == 0 && (info->holder_n == 0 || (shared && info->mode == SNECK_READ));
}

static int answer(const struct looking *looking, const sneck_lock_info *info, bool free_now, FILE *out) {
	const struct common_options *common = &looking->parsed.common;

	if (common->json) {
		json_t *json = json_head(&looking->session);
		json_object_set_new(json, "free", json_boolean(free_now));
		json_object_set_new(json, "lock", json_lock(info));
		int code = print_json(json);
		return code ? code : free_now ? 0 : EXIT_BUSY;
	}
	if (!free_now && !common->quiet)
		print_busy(info, out, use_color(common->color, out));
	return free_now ? 0 : EXIT_BUSY;
}

static int try_main(const struct command *self, int argc, char **argv) {
	struct try_options options = { .self = self };
	struct looking looking;
	sneck_lock_info *info = NULL;

	int code = looking_begin(&looking, self, argc, argv, take, &options, 1, false);
	if (code == OPTIONS_OK)
		info = looking_inspect(&looking, PARTIES, &code);
	if (info)
		code = answer(&looking, info, is_free(info, options.shared), stdout);
	sneck_lock_info_free(info);
	session_close(&looking.session);
	return code;
}

/* ---- Waiting --------------------------------------------------------------------------------*/

/* When to ask again: no later than the end of the lease that holds it up. */
static int64_t next_step_ms(const sneck_lock_info *info, int64_t step_ms) {
	const sneck_party *holder = first_holder(info);

	if (holder && holder->lease_left_ms >= 0 && holder->lease_left_ms + 1 < step_ms)
		step_ms = holder->lease_left_ms + 1;
	return step_ms;
}

static void sleep_ms(int64_t ms) {
	const struct timespec time = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };

	nanosleep(&time, NULL);
}

/* Asks until it is free or the time is over; the last answer, or NULL and an exit code. */
static sneck_lock_info *wait_until_free(
        const struct looking *looking, const struct try_options *options, int *ret_exit) {
	int64_t begun_ms = boot_ms(), step_ms = POLL_FIRST_MS;
	struct waiting waiting;

	waiting_begin(&waiting, looking->parsed.common.quiet);
	for (;;) {
		sneck_lock_info *info = looking_inspect(looking, PARTIES, ret_exit);
		int64_t left_ms =
		        options->wait_ms < 0 ? POLL_MAX_MS : begun_ms + options->wait_ms - boot_ms();
		if (!info || is_free(info, options->shared) || left_ms <= 0) {
			waiting_end(&waiting);
			return info;
		}
		int64_t pause_ms = next_step_ms(info, step_ms);
		sneck_lock_info_free(info);
		sleep_ms(pause_ms < left_ms ? pause_ms : left_ms);
		waiting_show(&waiting, &looking->session, looking->name, looking->name_len);
		step_ms = step_ms * 3 / 2 < POLL_MAX_MS ? step_ms * 3 / 2 : POLL_MAX_MS;
	}
}

static int wait_main(const struct command *self, int argc, char **argv) {
	struct try_options options = { .self = self, .wait_ms = -1 };
	struct looking looking;
	sneck_lock_info *info = NULL;

	int code = looking_begin(&looking, self, argc, argv, take, &options, 1, false);
	if (code == OPTIONS_OK)
		info = wait_until_free(&looking, &options, &code);
	if (info)
		code = answer(&looking, info, is_free(info, options.shared), stderr);
	sneck_lock_info_free(info);
	session_close(&looking.session);
	return code;
}

static const char *const try_examples[] = {
	"sneck try deploy && echo free     exit 0: free; 75: held, and by whom",
	NULL,
};

const struct command command_try = {
	.name = "try",
	.synopsis = "[-s] NAME",
	.summary = "Say whether a lock is free (exit 0) or held (exit 75, and by whom); take nothing.",
	.examples = try_examples,
	.options = try_rows,
	.common = COMMON_SERVER | COMMON_TALK | COMMON_JSON,
	.word = WORD_LOCK,
	.main = try_main,
};

static const char *const wait_examples[] = {
	"sneck wait deploy           until nobody has it",
	"sneck wait -w 10m deploy    for ten minutes at most, then exit 75",
	NULL,
};

static const char *const wait_notes[] = {
	"It asks again up to every 50 ms at first, twice a second later, and when the holder's lease ends. "
	"It",
	"stands in no queue: to be the next who has the lock use `sneck run`.",
	NULL,
};

const struct command command_wait = {
	.name = "wait",
	.synopsis = "[-s] [-w DUR] NAME",
	.summary = "Wait until a lock is free; take nothing.",
	.examples = wait_examples,
	.notes = wait_notes,
	.options = wait_rows,
	.common = COMMON_SERVER | COMMON_TALK | COMMON_JSON,
	.word = WORD_LOCK,
	.main = wait_main,
};
