/* SPDX-License-Identifier: MIT */
#ifndef SNECK_CLI_FIRST_USE_H
#define SNECK_CLI_FIRST_USE_H

struct session;

/* When this user comes to this server for the first time: warn if it may drop locks. Later the server
 * is not asked again. Costs one command, once. */
void warn_on_first_use(const struct session *session);

#endif
