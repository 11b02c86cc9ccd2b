/* SPDX-License-Identifier: MIT */
/* The line that a waiting command shows. On a terminal it is one line that is written again in its
 * place, cut to the window; elsewhere it is a line of a log, and one a minute is enough. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lock_view.h"
#include "session.h"
#include "talk.h"

enum { FIRST_MS = 1000, IN_PLACE_MS = 1000, LOG_MS = 60000, PARTIES = 1000, WIDTH_DEFAULT = 80 };

void waiting_begin(struct waiting *waiting, bool quiet) {
	const char *term = getenv("TERM");

	*waiting = (struct waiting){ .quiet = quiet, .due_ms = boot_ms() + FIRST_MS };
	waiting->in_place = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

int64_t waiting_due_ms(const struct waiting *waiting) {
	int64_t left_ms = waiting->due_ms - boot_ms();

	return left_ms > LOG_MS ? LOG_MS : left_ms > 0 ? left_ms : 0;
}

/* How many of the queue come before this session; -1: it is not among those listed. */
static long ahead_of(const sneck_lock_info *info, const char *session) {
	long ahead = 0;

	for (size_t i = 0; i < info->party_n; i++) {
		if (info->parties[i].kind == SNECK_PARTY_HOLDER)
			continue;
		if (!strcmp(info->parties[i].session, session))
			return ahead;
		ahead++;
	}
	return -1;
}

static void describe(struct text *text, const sneck_lock_info *info, const char *session) {
	const sneck_party *holder = first_holder(info);
	char duration[32];
	long ahead = ahead_of(info, session);

	if (holder) {
		text_add(text, ", held by ");
		add_party(text, holder);
		if (info->holder_n > 1)
			text_add(text, " and %zu more", info->holder_n - 1);
		if (holder->command[0]) {
			text_add(text, " (");
			text_add_safe(text, holder->command, strlen(holder->command));
			text_add(text, ")");
		}
		if (party_age_ms(info, holder) >= 0)
			text_add(text, " for %s", show_duration(party_age_ms(info, holder), duration));
		if (holder->note[0]) {
			text_add(text, ", note \"");
			text_add_safe(text, holder->note, strlen(holder->note));
			text_add(text, "\"");
		}
	}
	if (ahead >= 0)
		text_add(text, "; %ld ahead of you", ahead);
	else if (info->waiter_n > 0)
		text_add(text, "; %zu waiting", info->waiter_n);
}

/* What fits into the window, so that it stays one line. */
static int shown_bytes(const char *line) {
	struct winsize window;
	size_t width = WIDTH_DEFAULT, n = 0;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1)
		width = window.ws_col;
	for (width--; line[n]; n++) {
		if (((unsigned char)line[n] & 0xc0) != 0x80 && width-- == 0)
			break;
	}
	return (int)n;
}

void waiting_show(struct waiting *waiting, const struct session *session, const void *name, size_t name_len) {
	sneck_lock_info *info = NULL;
	struct text text = { 0 };
	char shown[SHOWN_MAX];

	if (boot_ms() < waiting->due_ms)
		return;
	waiting->due_ms = boot_ms() + (waiting->in_place ? IN_PLACE_MS : LOG_MS);
	if (waiting->quiet)
		return;
	text_add(&text, "sneck: waiting for %s", quote_name(name, name_len, shown));
	if (sneck_inspect(session->client, name, name_len, PARTIES, &info, NULL) == 0)
		describe(&text, info, sneck_client_session(session->client));
	else
		text_add(&text, "; the server does not answer");
	sneck_lock_info_free(info);
	if (waiting->in_place) {
		fprintf(stderr, "\r\033[K%.*s", shown_bytes(text_of(&text)), text_of(&text));
		waiting->shown = true;
	} else {
		fprintf(stderr, "%s\n", text_of(&text));
	}
	fflush(stderr);
	text_free(&text);
}

void waiting_end(struct waiting *waiting) {
	if (waiting->shown)
		fputs("\r\033[K", stderr);
	waiting->shown = false;
}
