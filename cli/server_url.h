/* SPDX-License-Identifier: MIT */
#ifndef SNECK_CLI_SERVER_URL_H
#define SNECK_CLI_SERVER_URL_H

#include <stdbool.h>
#include <stddef.h>

/* Who names the server: `option` (may be NULL), else SNECK_URL, else REDIS_URL; NULL: none of them. */
const char *find_server_url(const char *option);

/* Write `url` without user and password. Too long for `size`: shortened. */
void show_server_url(const char *url, char *ret_text, size_t size);

/* Overwrite the secret in a URL that came in argv: other users can read it there. */
void wipe_server_url(char *url);

/* One spelling of those that mean the same server: default port and database left out. `url` has no
 * password. */
void server_url_identity(const char *url, char *ret_text, size_t size);

/* Does it name sentinels; the nodes of a cluster? */
bool server_url_is_sentinel(const char *url);
bool server_url_is_cluster(const char *url);
/* Which part behind the host is the database; NULL: none. */
const char *server_url_database(const char *url);
/* Is there a password for the server in it? */
bool server_url_has_secret(const char *url);

/* The value of `dialect=` in the URL's options; NULL: there is none. free() it. */
char *server_url_dialect(const char *url);

#endif
