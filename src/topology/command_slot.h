/* SPDX-License-Identifier: MIT */
/* Which slot of a cluster a command belongs to. */
#ifndef SNECK_TOPOLOGY_COMMAND_SLOT_H
#define SNECK_TOPOLOGY_COMMAND_SLOT_H

#include <stddef.h>

enum {
	SLOTS_N = 16384,
	SLOT_ANY = -1,    /* it has no key */
	SLOT_SEVERAL = -2 /* its keys lie in different slots: no server can run it */
};

/* The slot of a key or of a sharded channel: that of what stands in its first braces, if anything does. */
int snecki_key_slot(const char *key, size_t len);
/* The slot of a command as RESP: its only key is the second word, except that scripts count their keys. */
int snecki_command_slot(const char *resp, size_t len);

#endif
