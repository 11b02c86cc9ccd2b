/* SPDX-License-Identifier: MIT */
/* The lock core: the lock table of one session, as a pure state machine.
 *
 * Events and the time go in (the functions below, each with `now_ns`; each event first runs the timers
 * that are due), actions come out through the function table `lock_hooks`. No socket, no clock, no thread, no
 * lock: the caller serializes all calls and carries the actions out. Hooks must not call back into the core.
 *
 * Terms
 *   entry   one lock name of which this session holds or wants something
 *   grant   one attempt on the server: asked for, queued, held, or being given back
 *   hold    one acquisition of the program, attached to the grant that covers it
 *   wish    one call of the program that the core will complete, exactly once
 *   call    one request to the server, answered exactly once by snecki_core_reply
 *
 * A *shared* grant serves all renewed holds of the session that it is compatible with; writers of
 * the session pass it on among themselves. A *private* grant (fixed lease, adopted) serves one hold
 * and what its owner nests in it. Between grants the server decides, within one grant the core. */
#ifndef SNECK_LOCK_CORE_H
#define SNECK_LOCK_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "lock/op.h"

struct lock_core;
struct lock_entry;
struct lock_grant;
struct lock_call;

enum { LOCK_DETAIL_MAX = 256, LOCK_LAYOUTS_MAX = 8 };

/* The numbers are those of sneck_state. */
enum hold_state { HOLD_HELD = 1, HOLD_SUSPECT = 2, HOLD_LOST = 3, HOLD_BROKEN = 4 };

/* In the program's handle. The core writes it, the caller reads it under the same serialization. */
struct lock_hold {
	struct list in_grant;
	struct lock_entry *entry; /* NULL: not held (never was, or released) */
	struct lock_grant *grant; /* NULL once lost */
	uint64_t owner;
	int64_t lease_ms;
	int64_t linger_ms;     /* for how long the session keeps it afterwards; 0: not */
	uint32_t ack_replicas; /* as its wish had it; an upgrade asks for the same */
	uint32_t ack_ms;
	int64_t fixed_until_ns; /* a fixed hold's own end; NS_NEVER when renewed */
	uint64_t token;
	char mode; /* 'R' or 'W' */
	enum hold_state state;
};

enum wish_kind {
	WISH_ACQUIRE,
	WISH_UPGRADE,
	WISH_RELEASE,
	WISH_RENEW,
	WISH_DOWNGRADE,
	WISH_DETACH,
	WISH_ADOPT
};

/* Filled by the caller up to `hold`; must stay in place until it is done. */
struct lock_wish {
	enum wish_kind kind;
	char mode;   /* ACQUIRE: 'R' or 'W' */
	bool fixed;  /* ACQUIRE, ADOPT */
	bool prefer; /* ACQUIRE: preferred class */
	bool nowait; /* ACQUIRE, UPGRADE: refuse rather than queue */
	bool timed;  /* the core ends it at deadline_ns; else the caller gives it up itself */
	uint64_t owner;
	uint64_t tag;
	int64_t lease_ms;
	int64_t linger_ms; /* ACQUIRE, not fixed: keep it for so long after the release, unless it is wanted
	                    */
	int64_t deadline_ns;
	uint32_t ack_replicas; /* ACQUIRE, UPGRADE: so many must have it before it counts; 0: the server's
	                        * word is enough */
	uint32_t ack_ms;       /* how long they have */
	const struct lock_traits *layout; /* ACQUIRE, ADOPT: of the lock; NULL: the core's default */
	char id[LOCK_ID_MAX]; /* ADOPT: of what. DETACH: the result; the caller's dialect fills the old id in
	                       */
	struct lock_hold *hold;

	/* The result. */
	bool done;
	int code;         /* 0 or SNECK_E… */
	bool local_block; /* refused because of another owner in this session */
	char holder_mode;
	uint32_t ahead;
	char holder[LOCK_HOLDER_MAX];
	char detail[LOCK_DETAIL_MAX]; /* text behind a failure, or "" */
	uint64_t new_attempt;         /* DETACH: the attempt that the id names */

	/* The core's own. */
	bool answered;    /* the server has said something about it */
	struct list node; /* entry's queue, or none */
	struct lock_entry *entry;
	struct lock_grant *grant; /* private ask, upgrade, release …: the grant it is about */
	struct lock_call *call;   /* the call whose reply completes it */
	struct heap_node timer;
	struct list all; /* core's list of unfinished wishes */
};

/* One request to the server. The caller's own `call_extra` bytes follow it. */
struct lock_call {
	struct lock_op op;
	const struct lock_traits *layout; /* the lock's */
	struct lock_entry *entry;
	struct lock_grant *grant; /* NULL: nobody here cares for the answer any more */
	struct lock_wish *ticket; /* the wish that this answer completes, or NULL */
	struct list node;         /* grant's calls in flight */
	unsigned lane; /* which of several servers has the lock: the caller says it before the reply; 0: the
	                  one */
	unsigned renew_lane;
	bool watchdog; /* a renewal that nobody asked for */
	bool claim;    /* OP_BEAT: sent when the grant was believed already */
	/* OP_RENEW: the caller answers when so many replicas have got what it wrote, or the time is over,
	 * with outcome.acked. 0: nobody asks. */
	uint32_t ack_replicas;
	uint32_t ack_ms;
};

struct lock_hooks {
	/* Carry the call out; exactly one snecki_core_reply follows, never from inside. */
	void (*send)(void *ctx, struct lock_call *call, const char *name, size_t name_len);
	/* The wish is done. Its memory is the caller's again. */
	void (*complete)(void *ctx, struct lock_wish *wish);
	/* hold->state has changed. */
	void (*state)(void *ctx, struct lock_hold *hold);
	/* An id for OP_RENAME of our own attempt. */
	void (*own_id)(void *ctx, const struct lock_traits *layout, char mode, uint64_t attempt,
	        char ret_id[LOCK_ID_MAX]);
	/* traits.polls, or config.lock_channels: `attempt` begins (ends) to wait for the lock; until then it
	 * wants to hear when that may be free (snecki_core_maybe_free), or of its grant. With lock_channels
	 * also one that holds, and wants to hear who else waits. */
	void (*listen)(void *ctx, const struct lock_traits *layout, const char *name, size_t name_len,
	        uint64_t attempt, bool on);
};

struct lock_core_config {
	const struct lock_hooks *hooks;
	void *ctx;
	size_t call_extra;
	const char *session; /* shown as the holder when this session stands in its own way; borrowed */
	int64_t wait_lease_ms;
	int64_t beat_ms;
	int64_t skew_ms; /* by how much the clocks of servers may differ that take over from each other */
	/* How often, and for how long, a lock that another session waits for is passed on in this one. */
	unsigned handover_max;
	int64_t handover_ns;
	bool verify_grants;
	bool lock_channels; /* messages come by a channel of each lock, which must be asked for */
	/* What the layouts can do, LOCK_LAYOUTS_MAX at most. Locks of two layouts are two locks, whatever
	 * their names. A wish that names none means `layout`. */
	const struct lock_traits *layout;
	uint64_t seed; /* spreads the renewals */
};

struct lock_core_counters {
	uint64_t acquires, local_acquires, handovers, releases, refusals, renewals, renewal_failures;
	uint64_t beats, grants_by_message, grants_by_beat, losses, resends;
	uint64_t retakes; /* of what lingered */
	uint64_t recalls; /* lingered, and was given back because another session wanted it */
	uint64_t holds, waiters;
};

int snecki_core_new(const struct lock_core_config *config, struct lock_core **ret);
void snecki_core_free(struct lock_core *core); /* drops everything; completes nothing */

/* ---- The program's calls. Each completes `wish` through hooks->complete, perhaps at once. -------*/
void snecki_core_acquire(
        struct lock_core *core, const void *name, size_t name_len, struct lock_wish *wish, int64_t now_ns);
void snecki_core_adopt(
        struct lock_core *core, const void *name, size_t name_len, struct lock_wish *wish, int64_t now_ns);
void snecki_core_upgrade(struct lock_core *core, struct lock_wish *wish, int64_t now_ns);
void snecki_core_downgrade(struct lock_core *core, struct lock_wish *wish, int64_t now_ns);
/* The hold is gone from the core when this returns, whatever becomes of the wish. Other wishes about it
 * that are not done (an upgrade, a renewal) end with SNECK_ECANCELED. */
void snecki_core_release(struct lock_core *core, struct lock_wish *wish, int64_t now_ns);
void snecki_core_renew(struct lock_core *core, struct lock_wish *wish, int64_t now_ns);
void snecki_core_detach(struct lock_core *core, struct lock_wish *wish, int64_t now_ns);
/* End a wish that is not done yet: SNECK_ETIMEDOUT, SNECK_ECANCELED, SNECK_ECLOSED. What it asked of
 * the server is withdrawn in the background. A wish the server never answered ends as unknown. */
void snecki_core_give_up(struct lock_core *core, struct lock_wish *wish, int code, int64_t now_ns);
/* Does the wish wait for the server's first word, rather than for its turn? */
bool snecki_wish_unanswered(const struct lock_wish *wish);
size_t snecki_core_cancel_tag(struct lock_core *core, uint64_t tag, int64_t now_ns);
/* An owner (a thread) is no more: its holds are renewed no longer. Returns how many there were. */
size_t snecki_core_owner_gone(struct lock_core *core, uint64_t owner, int64_t now_ns);
/* Give everything back and end all wishes with SNECK_ECLOSED. snecki_core_idle tells when the server
 * has answered. */
void snecki_core_close(struct lock_core *core, int64_t now_ns);
bool snecki_core_idle(const struct lock_core *core);
/* Do owners of this session share grants? Then it matters to hear that another session waits. */
bool snecki_core_shares(const struct lock_core *core);

/* config.lock_channels: from now on whatever is held, for longer than a moment, wants to hear of others. */
void snecki_core_listen(struct lock_core *core);

/* ---- What comes from the server. ----------------------------------------------------------------*/
/* `sent_ns`: taken before the request left (0: it never did). Frees the call. `detail` may be NULL. */
void snecki_core_reply(struct lock_core *core, struct lock_call *call, const struct lock_outcome *outcome,
        const char *detail, int64_t sent_ns, int64_t now_ns);
void snecki_core_note(struct lock_core *core, const struct lock_note *note, int64_t now_ns);
/* Whoever waits for this lock asks at once: it may be free, or a message may have been missed. */
void snecki_core_maybe_free(struct lock_core *core, const struct lock_traits *layout, const void *name,
        size_t name_len, int64_t now_ns);
/* Commands flow (again) to the server of that lane, and to those whose lane is not known; -1: to all. What
 * the answer to a request has confirmed that was sent at `since_ns` or later is known to be there. */
void snecki_core_connected(struct lock_core *core, int lane, int64_t since_ns, int64_t now_ns);
void snecki_core_subscribed(struct lock_core *core, int64_t now_ns); /* messages flow (again) */

/* The call did not run and would have to be sent again, behind everything that was sent since: does
 * anybody still want that? */
bool snecki_call_wanted(const struct lock_call *call);

/* ---- Time. --------------------------------------------------------------------------------------*/
int64_t snecki_core_next_due(const struct lock_core *core); /* NS_NEVER: nothing to wait for */
void snecki_core_run(struct lock_core *core, int64_t now_ns);
/* How much of a lease is not counted on, for clocks that do not run alike. */
int64_t snecki_margin_ms(int64_t lease_ms);
/* The same, and for clocks that differ (config.skew_ms; at most a quarter of the lease). */
int64_t snecki_core_margin_ms(const struct lock_core *core, int64_t lease_ms);
/* Until when the hold is certainly ours; 0 when it is not. */
int64_t snecki_hold_valid_until(const struct lock_hold *hold);
/* The server's name of the hold, through hooks->own_id. False: it is not held. */
bool snecki_hold_id(const struct lock_core *core, const struct lock_hold *hold, char ret_id[LOCK_ID_MAX]);

void snecki_core_counters(const struct lock_core *core, struct lock_core_counters *ret);

#endif
