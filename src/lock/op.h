/* SPDX-License-Identifier: MIT */
/* The vocabulary between the lock core and a dialect: what is asked of the server about one lock,
 * and what it answered. The core makes `lock_op`s, the dialect turns them into script calls and
 * their replies into `lock_outcome`s. No socket and no clock here. */
#ifndef SNECK_LOCK_OP_H
#define SNECK_LOCK_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lock_op_kind {
	OP_ACQUIRE,   /* take, or join the queue */
	OP_BEAT,      /* a waiter's heartbeat, and the claim of what it was granted */
	OP_RELEASE,   /* give a held attempt back */
	OP_RENEW,     /* lengthen a held attempt; never creates, never shortens */
	OP_UPGRADE,   /* READ attempt `old` becomes WRITE attempt `attempt`, or waits as the upgrader */
	OP_DOWNGRADE, /* WRITE attempt `old` becomes READ attempt `attempt` */
	OP_CANCEL,    /* leave the queue; give back what was granted meanwhile */
	OP_ADVANCE,   /* nothing of ours: let the queue move on (after a reply said `more`) */
	OP_RENAME,    /* adopt: hold `foreign_id` becomes our attempt `attempt`; also detach */
	OP_LINGER,    /* say, for people, whether a held attempt is in use; changes no deadline */
	OP_KINDS
};

enum { LOCK_OWN_MAX = 8, LOCK_BURY_MAX = 8, LOCK_ID_MAX = 64, LOCK_HOLDER_MAX = 48 };

/* What a layout can do, and what it leaves to the core. All false: everything, as the native dialect. */
struct lock_traits {
	/* No queue on the server. Who waits asks again (OP_BEAT takes what it can get): when a message says
	 * that the lock may be free, when the last holder's time is over, and every so often. */
	bool polls;
	bool counts;        /* the server is told how many holds an attempt has (lock_op.reads, .writes) */
	bool no_read;       /* WRITE is all there is */
	bool no_upgrade;    /* a reader cannot come to write */
	bool no_downgrade;  /* a writer cannot come to read: it covers its readers to their end */
	bool no_tokens;     /* all tokens are 0 */
	bool server_tokens; /* a number is the server's to give: nothing is passed on within the session */
	/* `polls`: the pause before the first question that is asked again, and the longest one; each is
	 * half as long again as the one before. */
	int32_t poll_first_ms, poll_most_ms;
};

/* Set in the counter of an attempt that a detach makes: no session holds under such a name, so whoever
 * knows it may renew and release it without taking anything from a program that is alive. */
#define LOCK_DETACHED (UINT64_C(1) << 63)

/* `attempt` and `old` are counters of this session; the dialect puts the session's id before them. */
struct lock_op {
	enum lock_op_kind kind;
	char mode;          /* 'R' or 'W': what the attempt holds or wants. OP_RELEASE/RENEW: what it holds.
	                     * OP_BEAT: what it waits for; an upgrade's beat has mode 'W' and `old` set */
	bool queue;         /* OP_ACQUIRE, OP_UPGRADE: join the queue when it cannot be had now */
	bool prefer;        /* OP_ACQUIRE: join the preferred class */
	bool keep_old;      /* OP_RENAME: split (READ): the old attempt stays beside the new one */
	bool lingers;       /* OP_LINGER: nobody uses it */
	bool must_write;    /* OP_RENEW: change something in any case: what follows it is WAIT */
	bool shrink_expiry; /* OP_RELEASE: the lease was long; an idle key need not outlive `keep`.
	                     * OP_RENAME: the lease becomes `lease_ms` even if that is sooner (detach) */
	uint64_t attempt;
	uint64_t old; /* OP_UPGRADE, OP_DOWNGRADE, and OP_BEAT/OP_CANCEL of an upgrade; else 0 */
	int64_t lease_ms;
	int64_t wait_lease_ms;
	/* Where the layout counts: how many holds of the program the attempt has, with this one. */
	uint32_t reads, writes;
	uint64_t last_token; /* highest token this session used locally under the hold; 0: none */
	uint64_t token;      /* OP_RENEW: the lock's last token, by the server's last word; 0: not known */
	/* Other attempts of this session that hold the lock and do not stand in the way (re-entry of a
	 * reader past the queue, upgrade beside other reads of the same session). */
	size_t own_n;
	uint64_t own[LOCK_OWN_MAX];
	/* OP_RELEASE, OP_CANCEL: attempts to bury with this message, so that a late copy of their
	 * request cannot come to life. */
	size_t bury_n;
	uint64_t bury[LOCK_BURY_MAX];
	char foreign_id[LOCK_ID_MAX]; /* OP_RENAME: mode letter + session + '.' + counter; NUL-terminated */
};

enum lock_status {
	LOCK_GRANTED,  /* ACQUIRE, BEAT, UPGRADE, DOWNGRADE, RENEW, RENAME, LINGER: held, until deadline_ms */
	LOCK_WAITING,  /* in the queue */
	LOCK_BUSY,     /* cannot be had now, and not queued */
	LOCK_DEADLOCK, /* UPGRADE: another upgrader waits already */
	LOCK_GONE,     /* the attempt is not there. RELEASE/RENEW/UPGRADE…: lost; BEAT: join again */
	LOCK_BROKEN,   /* an operator ended it */
	LOCK_BURIED,   /* ACQUIRE, UPGRADE, …: this attempt was buried; it can never hold */
	LOCK_DONE,     /* RELEASE: released. CANCEL: out of the queue (or released). ADVANCE: done */
	LOCK_FAILED,   /* an error reply: `code`; nothing was executed */
	LOCK_UNKNOWN   /* sent, not answered (or answered with what cannot be understood) */
};

struct lock_outcome {
	enum lock_status status;
	int code;            /* LOCK_FAILED, and LOCK_UNKNOWN by an error reply: SNECK_E…; GRANTED: why the
	                      * replicas could not be asked; else 0 */
	bool retry;          /* LOCK_FAILED: the server says "not now" (loading, busy, read only) */
	bool more;           /* the queue has more to do: send OP_ADVANCE */
	bool wanted;         /* another session waits for this lock */
	bool released_grant; /* OP_CANCEL: it had been granted (plain: given back; upgrade: kept) */
	uint64_t token;      /* last token of the lock, always */
	int64_t server_us;   /* the server's TIME when it ran */
	int64_t deadline_ms; /* GRANTED: server time at which the hold ends. BROKEN, UPGRADE and its
	                      * BEAT: that of the read hold, when the wait alone was broken; else 0 */
	int64_t kept_ms;     /* BROKEN: for how long after server_us it still excludes others */
	int64_t holder_deadline_ms;   /* WAITING, BUSY: latest deadline of a holder; 0: none */
	uint32_t acked;               /* GRANTED, lock_call.ack_replicas: how many replicas have it by now */
	uint32_t ahead;               /* WAITING: waiters before this one */
	char holder[LOCK_HOLDER_MAX]; /* WAITING, BUSY, DEADLOCK: one session that stands in the way */
	char holder_mode;             /* 'R', 'W' or 0 */
};

/* What a message on the session's channel says. */
enum lock_note_kind {
	LOCK_NOTE_GRANT,  /* `attempt` was granted: token, deadline_ms, server_us */
	LOCK_NOTE_WANTED, /* somebody waits for what `attempt` holds */
	LOCK_NOTE_BROKEN  /* `attempt` was broken by an operator, and is kept for another `kept_ms` */
};
struct lock_note {
	enum lock_note_kind kind;
	uint64_t attempt;
	uint64_t token;
	int64_t deadline_ms;
	int64_t server_us;
	int64_t kept_ms;
	bool tells_wanted; /* GRANT: `wanted` is known … */
	bool wanted;       /* … another session waits behind it */
};

#endif
