/* SPDX-License-Identifier: MIT */
/* Looking at locks from outside. Each call is between snecki_client_enter and snecki_client_leave. */
#ifndef SNECK_CLIENT_LOOK_H
#define SNECK_CLIENT_LOOK_H

#include "client/client.h"

int snecki_look(sneck_client *client, const void *name, size_t name_len, size_t most, sneck_lock_info **ret,
        sneck_error *reterr);
/* `pattern` NULL: all. */
int snecki_look_list(sneck_client *client, const char *pattern, sneck_lock_list **ret, sneck_error *reterr);
void snecki_lock_info_free(sneck_lock_info *info); /* NULL is allowed */
void snecki_lock_list_free(sneck_lock_list *list);

#endif
