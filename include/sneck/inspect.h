/* SPDX-License-Identifier: MIT */
/* Looking at locks from outside, and breaking them: who holds this, since when, who waits?
 *
 * These calls ask the server; they take nothing and wait for nobody. What they tell was true when
 * the server answered. Include <sneck/sneck.h>, which includes this file. */
#ifndef SNECK_INSPECT_H
#define SNECK_INSPECT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sneck_party_kind {
	SNECK_PARTY_HOLDER = 1,
	SNECK_PARTY_UPGRADER = 2, /* holds READ and waits, ahead of the queue, for WRITE */
	SNECK_PARTY_WAITER = 3
} sneck_party_kind;

/* Somebody who holds or waits for a lock. The texts come from the session's record and may hold any
 * bytes but NUL: escape them before you show them. Without a record (a program that did not set
 * sneck_client_options.who_user and the like) user, command and note are empty, and host and pid are
 * those in the session's id. */
typedef struct sneck_party {
	int kind;    /* sneck_party_kind */
	int mode;    /* sneck_mode: what it holds, or waits for */
	char id[64]; /* names exactly this hold or wait: for sneck_break, sneck_adopt */
	char session[48];
	/* Since when, Unix time by the server's clock; 0: unknown. A waiter: since it joined. A holder:
	 * since the lock's last token was given out, so of readers the first one's time counts for all,
	 * and an upgrade or downgrade begins anew. */
	int64_t since_ms;
	int64_t lease_left_ms; /* until the server gives up on it unless it is heard of; may be negative */
	int32_t pid;           /* 0: unknown */
	char host[64];
	char user[64];
	char command[256];
	char note[128];
	int detached; /* non-zero: no program keeps this hold (sneck_detach); the texts say who left it */
	int lingers;  /* non-zero: released, and kept for the next time unless somebody else asks for it */
} sneck_party;

typedef struct sneck_lock_info {
	char *name; /* name_len bytes and a NUL */
	size_t name_len;
	int mode;          /* sneck_mode of the holders; 0: free */
	uint64_t token;    /* the last one given out; 0: none is remembered */
	int64_t server_ms; /* the server's clock when it answered */
	size_t holder_n;   /* all of them; `parties` may list fewer */
	size_t waiter_n;   /* upgraders included */
	size_t party_n;    /* holders first, longest-lived lease first; then waiters in their order */
	sneck_party *parties;
} sneck_lock_info;

typedef struct sneck_lock_list {
	size_t n;
	sneck_lock_info **locks; /* by name */
} sneck_lock_list;

#ifdef __cplusplus
}
#endif

#endif
