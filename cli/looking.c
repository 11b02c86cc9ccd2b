/* SPDX-License-Identifier: MIT */
/* The beginning of every command that looks at locks. */
#include "looking.h"

#include <string.h>

#include "exit.h"

static int check_name(const struct command *self, size_t len) {
	if (len == 0)
		return usage_error(self, "NAME is empty; a name has 1 to %d bytes", SNECK_NAME_MAX);
	if (len > SNECK_NAME_MAX)
		return usage_error(self, "NAME has %zu bytes; a name has 1 to %d", len, SNECK_NAME_MAX);
	return OPTIONS_OK;
}

int looking_parse(struct looking *looking, const struct command *self, int argc, char **argv,
        take_option_fn take, void *ctx, int min, bool pattern) {
	memset(looking, 0, sizeof(*looking));
	int code = options_parse(self, argc, argv, take, ctx, &looking->parsed);
	if (code == OPTIONS_OK)
		code = options_words(self, &looking->parsed, min, min > 0 || pattern, "NAME");
	if (code != OPTIONS_OK)
		return code;
	if (looking->parsed.word_count > 0) {
		looking->name = looking->parsed.words[0];
		looking->name_len = strlen(looking->name);
		if (!pattern && (code = check_name(self, looking->name_len)) != OPTIONS_OK)
			return code;
	}
	return OPTIONS_OK;
}

int looking_open(struct looking *looking) {
	const struct session_request request = { 0 };

	int code = session_load(&looking->session, &looking->parsed.common);
	if (code == 0)
		code = session_open(&looking->session, &request);
	return code == 0 ? OPTIONS_OK : code;
}

int looking_begin(struct looking *looking, const struct command *self, int argc, char **argv,
        take_option_fn take, void *ctx, int min, bool pattern) {
	int code = looking_parse(looking, self, argc, argv, take, ctx, min, pattern);

	return code == OPTIONS_OK ? looking_open(looking) : code;
}

int looking_failed(const struct looking *looking, int code, sneck_error *error) {
	error->code = code;
	return session_complain(&looking->session, error, EXIT_USAGE);
}

sneck_lock_info *looking_inspect(const struct looking *looking, size_t most, int *ret_exit) {
	sneck_lock_info *info = NULL;
	sneck_error error = { 0, 0, "", "" };
	int r = sneck_inspect(looking->session.client, looking->name, looking->name_len, most, &info, &error);

	if (r == 0)
		return info;
	*ret_exit = looking_failed(looking, r, &error);
	return NULL;
}
