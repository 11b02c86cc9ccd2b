/* SPDX-License-Identifier: MIT */
/* Roles of users on a server, and the rules that make them. */
#ifndef SNECK_CLI_RIGHTS_H
#define SNECK_CLI_RIGHTS_H

#include <sneck/sneck.h>

#include "text.h"

struct session;

#define ROLE_VALUES "holder|viewer|operator"

sneck_role role_of(const char *word); /* one of ROLE_VALUES */
const char *role_name(sneck_role role);

/* "~sneck:* &sneck:!*": the keys and channels of the session's namespace. */
void add_places(struct text *text, const struct session *session, sneck_role role);
/* "+get +set" for "get set" */
void add_commands(struct text *text, const char *commands);
/* What makes a user of a sentinel's who may ask where the primary is and hear that it has moved. */
void add_sentinel_rule(struct text *text, const char *user);
/* Does the session's URL select another database than 0? */
bool selects_database(const struct session *session);

#endif
