/* SPDX-License-Identifier: MIT */
/* Is this server fit for locks? What sneck_probe() finds out.
 *
 * A fact that the server does not tell, or that the user may not ask for, is unknown: an empty text
 * or a negative number. Include <sneck/sneck.h>, which includes this file. */
#ifndef SNECK_PROBE_H
#define SNECK_PROBE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What to find out. One bit that is not asked for costs nothing. */
enum {
	SNECK_PROBE_SERVER = 1u << 0,  /* version to persistence: two commands in one go … */
	SNECK_PROBE_POLICY = 1u << 1,  /* … or the eviction policy alone: one command */
	SNECK_PROBE_TIME = 1u << 2,    /* round trip and clock: five round trips */
	SNECK_PROBE_RIGHTS = 1u << 3,  /* what the ACL allows: one or two commands */
	SNECK_PROBE_MESSAGE = 1u << 4, /* does a published message arrive? Subscribes first */
	/* What a failover needs: asks each sentinel of the URL, or the cluster. Implies SNECK_PROBE_SERVER.
	 */
	SNECK_PROBE_TOPOLOGY = 1u << 5
};

/* Users of a server, by what they may do with locks. */
typedef enum sneck_role {
	SNECK_ROLE_HOLDER = 0,  /* takes locks, and sees who has them */
	SNECK_ROLE_VIEWER = 1,  /* looks at locks; cannot write */
	SNECK_ROLE_OPERATOR = 2 /* looks at locks, breaks them, sees how the server is doing */
} sneck_role;
enum { SNECK_ROLES = 3 };

typedef enum sneck_persistence {
	SNECK_PERSISTENCE_NONE = 0, /* a restart frees all locks */
	SNECK_PERSISTENCE_RDB = 1,  /* a restart brings back an old state */
	SNECK_PERSISTENCE_AOF = 2
} sneck_persistence;

typedef struct sneck_probe_info {
	size_t size;     /* set by the caller: sizeof(sneck_probe_info) */
	uint32_t wanted; /* set by the caller: SNECK_PROBE_…; 0: all of it */
	/* Set by the caller: which of the primaries of a cluster, below `nodes`. What is about the server is
	 * about this one. */
	int32_t node;
	int32_t nodes;   /* how many primaries there are to ask; 1 where there is no cluster */
	char where[264]; /* which one it is, host:port; "" where there is no cluster */
	int32_t cluster; /* 1: a node of a cluster */
	char server[16]; /* "redis", "valkey" */
	char version[24];
	char role[16]; /* "primary", "replica" */
	char maxmemory_policy[32];
	int64_t maxmemory;   /* bytes; 0: no limit */
	int32_t persistence; /* sneck_persistence */
	char appendfsync[16];
	int32_t replicas;      /* connected now … */
	int32_t replica_lag_s; /* … and since when the last of them was not heard from */
	/* Below so many replicas that keep up the server refuses to write; 0: never. A user who may not ask
	 * for the number sees whether there is one: then this is 1. */
	int32_t min_replicas;
	int32_t min_replicas_lag_s; /* until when a replica counts as keeping up */
	int64_t rtt_us;             /* the shortest of five */
	/* The server's clock minus ours, give or take half of rtt_us. Locks do not depend on it. */
	int64_t clock_offset_ms;
	int32_t clock_known;  /* 0: clock_offset_ms means nothing */
	int32_t rights_known; /* 0: `missing` means nothing. In a cluster both are about that primary alone */
	/* Commands that a role needs, with blanks between them … */
	char needs[SNECK_ROLES][512];
	/* … and those of them that this user may not call on these keys and channels. */
	char missing[SNECK_ROLES][512];
	int64_t message_us; /* from publishing to receiving; -1: unknown; -2: it did not arrive */
	/* Sentinels: those of the URL, how many of them answered, and of these, how many name another primary
	 * than the first that did; -1: there are none. */
	int32_t sentinels_named;
	int32_t sentinels_answering;
	int32_t sentinels_dissenting;
	/* What the first of them that tells says: how many there are, on how many hosts, how many must agree
	 * that the primary is dead, after which silence. */
	int32_t sentinels;
	int32_t sentinel_hosts;
	int32_t quorum;
	int64_t down_after_ms;
	/* A cluster: does it serve (1 or 0), how many slots has somebody, … */
	int32_t cluster_ok;
	int32_t slots_covered;
	/* … how many primaries have slots, and how many of them have no replica that is well, … */
	int32_t primaries;
	int32_t primaries_bare;
	/* … does one slot without a server stop all (1 or 0), after which silence is a node taken for dead?
	 */
	int32_t full_coverage;
	int64_t node_timeout_ms;
} sneck_probe_info;
#define SNECK_PROBE_INFO_INIT                                                                                \
	{                                                                                                    \
		sizeof(sneck_probe_info), 0, 0, 1, "", -1, "", "", "", "", -1, -1, "", -1, -1, -1, -1, -1,   \
		        0, 0, 0, { "", "", "" }, { "", "", "" }, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, \
		        -1, -1, -1                                                                           \
	}

#ifdef __cplusplus
}
#endif

#endif
