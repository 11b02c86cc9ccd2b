/* SPDX-License-Identifier: MIT */
/* sneck break: end somebody else's hold or wait.
 *
 * It ends exactly the hold that --id names. Whoever looked a minute ago and breaks now must not hit the one
 * who has the lock by then: an id that is not there any more is refused (75), with the name of the holder of
 * now. The victim learns who broke its hold and why, and by default has time to stop its work. */
#include <stdio.h>
#include <string.h>

#include "exit.h"
#include "lock_view.h"
#include "looking.h"
#include "talk.h"

enum { ID_ID = 1, ID_REASON, ID_GRACE, ID_NOW, GROUP_WHEN = 1, GRACE_DEFAULT_MS = 10000, PARTIES = 1000 };

struct break_options {
	const struct command *self;
	const char *id;
	const char *reason;
	int64_t grace_ms;
};

static const struct option_row options[] = {
	{ "id", 0, "ID", "which hold or wait: as shown by sneck show, or to whoever was refused", ID_ID, 0 },
	{ "reason", 'm', "REASON", "why, told to whoever loses it", ID_REASON, 0 },
	{ "grace", 0, "DUR", "how long it may take to stop its work (default: 10s)", ID_GRACE, GROUP_WHEN },
	{ "now", 0, NULL, "pass the lock on at once: its work may still be going on", ID_NOW, GROUP_WHEN },
	{ NULL, 0, NULL, NULL, 0, 0 },
};

static int take(void *ctx, const struct option_row *row, char *value) {
	struct break_options *choice = ctx;

	switch (row->id) {
	case ID_ID:
		choice->id = value;
		break;
	case ID_REASON:
		choice->reason = value;
		break;
	case ID_GRACE:
		return option_duration(choice->self, row, value, &choice->grace_ms);
	default:
		choice->grace_ms = 0;
		break;
	}
	return OPTIONS_OK;
}

/* Before anything is asked of a server. */
static int check(const struct break_options *choice) {
	if (!choice->id)
		return usage_error(choice->self, "--id is missing: it names the hold, so that nobody else's "
		                                 "is broken; sneck show tells it");
	if (!choice->reason || !choice->reason[0])
		return usage_error(choice->self, "-m REASON is missing: whoever loses the lock is told why");
	return OPTIONS_OK;
}

/* The victim, as it was a moment ago; NULL: not there. */
static const sneck_party *find_party(const sneck_lock_info *info, const char *id) {
	for (size_t i = 0; i < info->party_n; i++) {
		if (!strcmp(info->parties[i].id, id))
			return &info->parties[i];
	}
	return NULL;
}

/* Gone, or never there: nothing was changed. */
static int refuse(const struct looking *looking, const struct break_options *choice) {
	int code = EXIT_BUSY;
	sneck_lock_info *info = looking_inspect(looking, PARTIES, &code);
	char name[SHOWN_MAX];

	if (!info)
		return code;
	quote_name(looking->name, looking->name_len, name);
	if (info->holder_n == 0)
		talk("%s: there is no %s (any more), and nobody holds it now; nothing was changed", name,
		        choice->id);
	else
		talk("%s: there is no %s (any more); nothing was changed", name, choice->id);
	if (info->holder_n > 0 && !looking->parsed.common.quiet)
		print_busy(info, stderr, use_color(looking->parsed.common.color, stderr));
	sneck_lock_info_free(info);
	return EXIT_BUSY;
}

static int report(const struct looking *looking, const struct break_options *choice,
        const sneck_lock_info *before, const sneck_party *victim) {
	struct text who = { 0 };
	char name[SHOWN_MAX], grace[32];

	if (looking->parsed.common.json) {
		json_t *json = json_head(&looking->session);
		json_set_name(json, looking->name, looking->name_len);
		json_object_set_new(json, "broken", victim ? json_party(before, victim) : json_null());
		json_object_set_new(json, "reason", json_text(choice->reason));
		json_object_set_new(json, "grace_ms", json_integer(choice->grace_ms));
		return print_json(json);
	}
	if (looking->parsed.common.quiet)
		return 0;
	if (victim)
		add_party(&who, victim);
	else
		text_add(&who, "%s", choice->id);
	quote_name(looking->name, looking->name_len, name);
	if (choice->grace_ms > 0)
		talk("%s of %s is broken; it passes on when that has stopped, after %s at the latest", name,
		        text_of(&who), show_duration(choice->grace_ms, grace));
	else
		talk("%s of %s is broken and has passed on", name, text_of(&who));
	text_free(&who);
	return 0;
}

static int do_break(const struct looking *looking, const struct break_options *choice) {
	sneck_error error = { 0, 0, "", "" };
	int code = EXIT_INTERNAL;
	/* For the report; the break itself goes by the id alone. */
	sneck_lock_info *before = looking_inspect(looking, PARTIES, &code);

	if (!before)
		return code;
	int r = sneck_break(looking->session.client, looking->name, looking->name_len, choice->id,
	        choice->reason, choice->grace_ms, &error);
	if (r == 0)
		code = report(looking, choice, before, find_party(before, choice->id));
	else if (r == SNECK_ENOTHELD)
		code = refuse(looking, choice);
	else if (r == SNECK_EINVAL)
		code = usage_error(choice->self,
		        "--id \"%s\" is not the id of a hold or a wait; sneck show tells them", choice->id);
	else
		code = looking_failed(looking, r, &error);
	sneck_lock_info_free(before);
	return code;
}

static int break_main(const struct command *self, int argc, char **argv) {
	struct break_options choice = { .self = self, .grace_ms = GRACE_DEFAULT_MS };
	struct looking looking;

	int code = looking_parse(&looking, self, argc, argv, take, &choice, 1, false);
	if (code == OPTIONS_OK)
		code = check(&choice);
	if (code == OPTIONS_OK)
		code = looking_open(&looking);
	if (code == OPTIONS_OK)
		code = do_break(&looking, &choice);
	session_close(&looking.session);
	return code;
}

static const char *const examples[] = {
	"sneck show deploy                                       tells the id",
	"sneck break deploy --id Wweb1:4711:k3v9.1 -m 'hangs'    ends exactly that hold",
	NULL,
};

static const char *const notes[] = {
	"Whoever held it learns who broke it and why, and stops: `sneck run` stops its command and exits "
	"with",
	"79. The lock passes on when it has stopped, after --grace at the latest. If the id is not there any",
	"more, nothing is changed: exit 75, and the holder of now is shown. Tokens never go back.",
	NULL,
};

const struct command command_break = {
	.name = "break",
	.synopsis = "NAME --id ID -m REASON [--grace DUR | --now]",
	.summary = "End exactly one hold of a lock by force; its holder is told who did it and why.",
	.examples = examples,
	.notes = notes,
	.options = options,
	.common = COMMON_SERVER | COMMON_TALK | COMMON_JSON,
	.word = WORD_LOCK,
	.main = break_main,
};
