/* SPDX-License-Identifier: MIT */
/* Which server, as whom, with what lease: from options, environment and configuration files. */
#ifndef SNECK_CLI_SETTINGS_H
#define SNECK_CLI_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

struct common_options;

struct settings {
	char *url;
	bool url_named;          /* somebody named it: it is not the default */
	char url_shown[512];     /* without user and password */
	char *name_space;        /* NULL: the library's default */
	char *dialect;           /* NULL: native */
	char *password;          /* NULL: the URL's, or none */
	char *sentinel_password; /* NULL: the URL's, or none */
	int64_t lease_ms;        /* 0: the library's default */
};

/* 0, or the exit code after a complaint on stderr. A secret in argv is overwritten. */
int settings_load(struct settings *ret, const struct common_options *common);
/* Which locks of the server: the namespace, or the dialect that has none. */
const char *settings_family(const struct settings *settings);
void settings_done(struct settings *settings);

#endif
