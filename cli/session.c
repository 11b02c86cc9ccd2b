/* SPDX-License-Identifier: MIT */
/* Opening the library's client for a command, and speaking about its failures: what happened, at
 * which server, what to do. */
#include "session.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "exit.h"
#include "server_url.h"
#include "talk.h"

enum {
	CONNECT_MS = 800,         /* the answer comes in less than a second */
	LOCAL_CONNECT_MS = 10000, /* starting the private server on a busy machine takes its time */
	RETRY_STEP_MS = 250
};

int exit_code_of(int sneck_code, int exit_if_invalid) {
	switch (sneck_code) {
	case SNECK_OK:
		return 0;
	case SNECK_EBUSY:
	case SNECK_ETIMEDOUT:
	case SNECK_EDEADLK:
		return EXIT_BUSY;
	case SNECK_EINVAL:
		return exit_if_invalid;
	case SNECK_EACCES:
		return EXIT_NOPERM;
	case SNECK_ENOTSUP:
	case SNECK_ETYPE:
	case SNECK_ECONN:
	case SNECK_ESERVER:
	case SNECK_EREPLICAS:
	case SNECK_EUNKNOWN:
		return EXIT_UNREACHABLE;
	case SNECK_ELOST:
	case SNECK_EBROKEN:
		return EXIT_LOST;
	default:
		return EXIT_INTERNAL;
	}
}

/* What to do about it, or NULL. */
static const char *remedy_of(const struct session *session, const sneck_error *error) {
	switch (error->code) {
	case SNECK_ECONN:
		return session->settings.url_named ? "name another with --server or SNECK_URL; run "
		                                     "--retry-connect TIME keeps trying"
		                                   : NULL;
	case SNECK_EACCES:
		if (!strcmp(error->server, "NOPERM"))
			return "have the server's administrator allow it; sneck acl prints the rule";
		return server_url_is_sentinel(session->settings.url)
		               ? "give the servers' password with --password-file FILE or "
		                 "SNECK_PASSWORD_FILE, "
		                 "the sentinels' with SNECK_SENTINEL_PASSWORD_FILE, the users in the URL"
		               : "give the password with --password-file FILE or SNECK_PASSWORD_FILE, the "
		                 "user "
		                 "in the URL";
	case SNECK_EUNKNOWN:
		return "whether the server has done it is not known; sneck show NAME tells";
	default:
		return NULL;
	}
}

/* Does this user lack a right that holders need? False: no, or not known. */
static bool find_missing(const struct session *session, sneck_probe_info *info) {
	info->wanted = SNECK_PROBE_RIGHTS;
	return session->client && sneck_probe(session->client, info, NULL) == 0 && info->rights_known &&
	       info->missing[SNECK_ROLE_HOLDER][0];
}

bool session_lacks_rights(const struct session *session) {
	sneck_probe_info info = SNECK_PROBE_INFO_INIT;

	return find_missing(session, &info);
}

/* The rule that the server's administrator has to add. False: not known. */
static bool say_missing_rule(const struct session *session) {
	sneck_probe_info info = SNECK_PROBE_INFO_INIT;
	char rule[2 * sizeof(info.missing[0])] = "", *out = rule;

	if (!find_missing(session, &info))
		return false;
	for (const char *in = info.missing[SNECK_ROLE_HOLDER]; *in && out < rule + sizeof(rule) - 3; in++) {
		if (in == info.missing[SNECK_ROLE_HOLDER] || in[-1] == ' ')
			*out++ = '+';
		*out++ = *in;
	}
	*out = '\0';
	talk("hint: the missing rule: ACL SETUSER <user> %s", rule);
	return true;
}

int session_complain(const struct session *session, const sneck_error *error, int exit_if_invalid) {
	const char *text = error->text[0] ? error->text : sneck_strerror(error->code);
	const char *remedy = remedy_of(session, error);

	/* "local:" has its colon */
	const char *shown = session->settings.url_shown;
	talk("%s%s %s", shown, strcmp(shown, "local:") == 0 ? "" : ":", text);
	/* A refusal in the middle of a script looks like no answer: what it has done so far is not known. */
	if ((error->code == SNECK_EACCES || error->code == SNECK_EUNKNOWN) && say_missing_rule(session))
		return EXIT_NOPERM;
	if (remedy)
		talk("hint: %s", remedy);
	return exit_code_of(error->code, exit_if_invalid);
}

static void log_line(void *ctx, sneck_log_level level, const char *text) {
	(void)ctx;
	(void)level;
	talk("%s", text);
}

int session_load(struct session *session, const struct common_options *common) {
	session->common = common;
	session->client = NULL;
	return settings_load(&session->settings, common);
}

/* Worth another try: nobody answers, or the server says that it is not ready. */
static bool may_change(const sneck_error *error) {
	return error->code == SNECK_ECONN || error->code == SNECK_EUNKNOWN ||
	       !strcmp(error->server, "LOADING");
}

static void sleep_ms(int64_t ms) {
	const struct timespec time = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };

	nanosleep(&time, NULL);
}

static int open_patiently(struct session *session, const struct session_request *request,
        const sneck_client_options *options, sneck_error *error) {
	int64_t until_ms = boot_ms() + request->retry_ms;

	for (;;) {
		int r = sneck_open(session->settings.url, options, &session->client, error);
		error->code = r;
		int64_t left_ms = until_ms - boot_ms();
		if (r == 0 || !may_change(error) || left_ms <= 0)
			return r;
		int64_t step_ms = left_ms < RETRY_STEP_MS ? left_ms : RETRY_STEP_MS;
		if (!request->interrupted)
			sleep_ms(step_ms);
		else if (request->interrupted(request->ctx, step_ms))
			return r;
	}
}

int session_open(struct session *session, const struct session_request *request) {
	const struct settings *settings = &session->settings;
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	sneck_error error = { 0, 0, "", "" };
	char command[256];

	options.flags = SNECK_OPEN_CONNECT;
	options.connect_ms = !strcmp(settings->url, "local:") ? LOCAL_CONNECT_MS : CONNECT_MS;
	options.name_space = settings->name_space;
	options.dialect = settings->dialect;
	options.password = settings->password;
	options.sentinel_password = settings->sentinel_password;
	if (session->common->verbose) {
		options.log_fn = log_line;
		options.log_level = SNECK_LOG_INFO;
	}
	/* Also for those who take none: whoever loses a lock by `break` learns whose hand it was. */
	const struct passwd *user = getpwuid(geteuid());
	options.who_user = user ? user->pw_name : "?";
	if (request->takes_locks) {
		if (request->command && join_words(request->command, command, sizeof(command)))
			options.who_command = command;
		options.note = request->note;
		if (!settings->url_named && !session->common->quiet)
			talk("no server was named: using local:, whose locks hold on this machine only; for "
			     "others set SNECK_URL=redis://HOST (--server local: silences this)");
	}
	if (strstr(settings->url, "verify=none") && !session->common->quiet)
		talk("verify=none: the server's certificate is not looked at; anybody on the way may pose as "
		     "it");
	if (open_patiently(session, request, &options, &error) == 0)
		return 0;
	return session_complain(session, &error, EXIT_CONFIG);
}

void session_close(struct session *session) {
	sneck_close(session->client);
	session->client = NULL;
	settings_done(&session->settings);
}
