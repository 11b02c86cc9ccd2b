/* SPDX-License-Identifier: MIT */
/* What the files of the lock core share. See core.h for the terms. */
#ifndef SNECK_LOCK_PRIVATE_H
#define SNECK_LOCK_PRIVATE_H

#include "base/clock.h"
#include "lock/core.h"

enum {
	LINGER_LEAST_NS = 1000000, /* a wanted writer's grant lingers until this long after it was granted */
	LINGER_MARK_NS = 50000000, /* the server is told that a grant lingers once it has for so long */
	RENEW_INFLIGHT_MAX = 256,  /* of each lane */
	RENEW_ALONG_MAX = 32,      /* so many at a time, if they are sent before they are due */
	LANES = 64,                /* servers that are told apart; beyond that some share one */
	LANE_UNKNOWN = LANES,
	CLAIM_LATER_MS = 20,        /* what is given back within this costs no claim */
	RETRY_NS = 100000000,       /* "not now" from the server: ask again after this */
	LINK_RETRY_NS = 1000000000, /* no link: its return is an event, so this hardly matters */
	LEAVE_EXTRA_NS = 1000000000,
	LOOK_SPREAD_MS = 300, /* how much later than the head a waiter looks for a dead holder, at most */
	BURY_MS = 60000       /* how long a request may be late */
};

enum grant_state {
	GRANT_ASKED,  /* an acquire (or adopt) is unanswered */
	GRANT_QUEUED, /* waits in the server's queue */
	GRANT_HELD,
	GRANT_LEAVING /* release or cancel is unanswered; no hold and no wish depends on it */
};

/* A conversion of a held grant to another attempt. */
enum conv_state {
	CONV_NONE,
	CONV_UP_ASKED,  /* upgrade unanswered */
	CONV_UP_QUEUED, /* the upgrader waits on the server */
	CONV_UP_LOCAL,  /* WRITE is ours; other owners here still read */
	CONV_UP_CANCEL, /* the upgrade was given up (or is to begin anew); the cancel is unanswered */
	CONV_DOWN,      /* downgrade unanswered */
	CONV_DETACH     /* rename for a detach unanswered */
};

/* Finds the grant of an attempt that a message names. */
struct attempt_ref {
	struct map_node node;
	struct lock_grant *grant;
	bool conv; /* the attempt is the one that the grant is being converted to */
};

struct lock_grant {
	struct list in_entry;
	struct lock_entry *entry;
	struct attempt_ref by_attempt;
	struct attempt_ref by_conv;
	struct heap_node timer;
	struct list calls; /* in flight */
	struct list holds;
	struct list in_line; /* a lane's renew_line */
	enum grant_state state;
	enum conv_state conv;
	char mode;
	bool private_;
	bool fresh; /* granted, and nobody has used it yet */
	bool suspect;
	bool wanted;   /* another session waits for it */
	bool early;    /* a grant message came before the answer that would have said "waiting" */
	bool renewing; /* a renewal of the watchdog is in flight */
	bool beating;
	bool conv_won;           /* CONV_UP_CANCEL: its upgrade was granted, as an answer said */
	bool release_after_conv; /* the last hold went while a conversion was unanswered */
	bool resent_leave;       /* an earlier copy of the release may have run */
	bool claimed;            /* the server has confirmed the grant to us */
	bool renew_first;        /* kept for a local wish until a renewal has come back */
	bool renew_tried;        /* it has just come back: if that did not help, another will not */
	bool ack_first;          /* kept for a wish until enough replicas have it: see ack.c */
	bool renew_refused;      /* the last one came back with an error: none before renew_at_ns */
	bool keep_old;           /* CONV_DETACH: other holds stay on the old attempt */
	bool queue_flag;         /* the ask may join the queue */
	bool vouched;            /* asked for beside others of this session, past the queue */
	bool may_be_late;        /* a request of it went unanswered, and may still run */
	bool beside;             /* another grant of this session may hold beside it, and move the token */
	bool prefer;
	bool lingers;   /* nobody here holds it; kept for the next: see linger.c */
	bool marked;    /* the server was told that it lingers */
	bool marking;   /* it is being told that it does, or that it does not any more */
	bool unheard;   /* the server is to be told at once: its answer says whether it is wanted */
	bool listening; /* hooks->listen was told */
	unsigned polls; /* questions asked again since it waits */
	uint32_t told_reads, told_writes; /* traits.counts: what the server was told last */
	uint64_t attempt;
	uint64_t conv_attempt;
	int64_t lease_ms;
	int64_t longest_ms;    /* the longest lease that was ever asked for: the server may keep it so long */
	uint64_t token;        /* last token known of the lock under this grant */
	uint64_t token_seen;   /* last token before the grant: a message must exceed it */
	uint64_t server_token; /* the token that the server's next answer must carry, reports of ours apart */
	int64_t server_deadline_ms;
	int64_t valid_until_ns;
	int64_t conv_valid_ns; /* valid_until_ns when the conversion began */
	int64_t confirmed_ns;  /* sent_ns of the last confirmed acquire, claim or renew */
	int64_t beat_valid_ns;
	int64_t renew_at_ns;
	int64_t beat_at_ns;
	int64_t retry_at_ns;
	int64_t leave_until_ns;
	int64_t wanted_ns;       /* since when */
	int64_t hint_ns;         /* when a message last said so; 0: none has */
	int64_t granted_ns;      /* since when it is held */
	int64_t linger_ms;       /* as the hold wished that went last */
	int64_t linger_until_ns; /* `lingers`: unless it is wanted */
	int64_t mark_at_ns;
	unsigned handovers;         /* since it was wanted */
	uint32_t acked;             /* how many replicas are known to have it */
	struct lock_call *ack_call; /* asks them, or NULL */
	struct lock_wish *wish;     /* the private ask, or adopt, or the unfinished conversion */
	struct lock_wish *ticket;   /* the release that waits for the server's word */
	enum lock_op_kind leave_op;
	int last_code; /* the last refusal that was no answer to the question (not now, no link) */
	char detail[LOCK_DETAIL_MAX]; /* its text */
	char foreign_id[LOCK_ID_MAX]; /* adopt */
	size_t bury_n;
	uint64_t bury[LOCK_BURY_MAX];
};

struct lock_entry {
	struct map_node by_name;
	struct lock_realm *realm;
	struct list grants;
	struct list queue;          /* wishes for shared grants, in local order */
	struct list later;          /* upgrades that begin when another conversion is over */
	struct lock_grant *pending; /* the shared grant that is asked for or queued, or NULL */
	size_t calls;               /* in flight; they keep the entry alive */
	unsigned lane;              /* where it was last found, or LANE_UNKNOWN */
	bool advancing;             /* an OP_ADVANCE is in flight */
	bool local_holder;          /* the last refusal came from this session itself */
	char holder[LOCK_HOLDER_MAX];
	char holder_mode;
	uint32_t ahead;
	size_t name_len;
	char name[];
};

/* The locks of one layout. */
struct lock_realm {
	const struct lock_traits *layout;
	struct map entries;
	struct lock_entry *recent; /* the one that was asked for last, as mostly the next one is; or NULL */
};

/* One of several servers: a slow one holds up only what is its own. */
struct lock_lane {
	unsigned renewals_inflight;
	struct list renew_line; /* grants whose renewal is due when there is room for it */
	/* The last answer's clock reading, to notice that the server's clock ran ahead. */
	int64_t clock_server_us, clock_sent_ns;
};

struct lock_core {
	struct lock_core_config config;
	struct lock_realm realms[LOCK_LAYOUTS_MAX];
	size_t realms_n;
	struct map attempts;
	struct heap timers; /* grants */
	struct heap wish_timers;
	struct list wishes;
	size_t grants_n, wishes_n, calls_n, holds_n;
	uint64_t renewals_sent; /* by the watchdog */
	struct lock_lane lanes[LANES];
	bool hints; /* every hold wants to hear of others, also before it is renewed */
	uint64_t attempt_counter;
	uint64_t rng;
	bool closing;
	bool shares; /* an owner was served from what another one held */
	struct lock_core_counters counters;
};

/* core.c */
struct lock_entry *snecki_entry_get(struct lock_core *core, const struct lock_traits *layout,
        const void *name, size_t name_len, bool create);
/* Walk over all of them: NULL gives the first, NULL is returned after the last. To remove while walking, ask
 * for the next one first. */
struct lock_entry *snecki_entry_next(const struct lock_core *core, const struct lock_entry *entry);
static inline const struct lock_traits *snecki_layout_of(const struct lock_grant *grant) {
	return grant->entry->realm->layout;
}
void snecki_entry_settle(struct lock_entry *entry); /* frees it when nothing is left */
void snecki_wish_begin(struct lock_core *core, struct lock_wish *wish, struct lock_entry *entry);
bool snecki_wish_begin_about(struct lock_core *core, struct lock_wish *wish);
void snecki_wish_finish(struct lock_core *core, struct lock_wish *wish, int code, const char *detail);
void snecki_wish_refuse(struct lock_core *core, struct lock_wish *wish, int code); /* with the holder */

/* grant.c: one attempt on the server */
struct lock_grant *snecki_grant_new(
        struct lock_core *core, struct lock_entry *entry, char mode, int64_t lease_ms);
void snecki_grant_drop(struct lock_core *core, struct lock_grant *grant);
void snecki_grant_rename(struct lock_core *core, struct lock_grant *grant); /* conv_attempt becomes attempt */
uint64_t snecki_grant_begin_conv(struct lock_core *core, struct lock_grant *grant, enum conv_state conv);
void snecki_grant_end_conv(struct lock_core *core, struct lock_grant *grant);
void snecki_grant_bury(struct lock_grant *grant, uint64_t attempt);
void snecki_grant_unbury(struct lock_grant *grant, uint64_t attempt); /* it is not ours any more */
bool snecki_grant_unaccounted(const struct lock_grant *grant, uint64_t attempt);
/* Bury an attempt that the grant leaves behind while it lives on itself. */
void snecki_grant_abandon(
        struct lock_core *core, struct lock_grant *grant, char mode, uint64_t attempt, int64_t now_ns);
/* NULL: out of memory; the caller's state is unchanged. */
struct lock_call *snecki_call_new(
        struct lock_core *core, struct lock_entry *entry, struct lock_grant *grant, enum lock_op_kind kind);
void snecki_call_send(struct lock_core *core, struct lock_call *call);
bool snecki_grant_ask(struct lock_core *core, struct lock_grant *grant);
int64_t snecki_grant_next_beat(const struct lock_core *core, int64_t from_ns);
int64_t snecki_grant_next_poll(struct lock_core *core, struct lock_grant *grant, int64_t from_ns);
void snecki_grant_tell_counts(struct lock_core *core, struct lock_entry *entry);
void snecki_grant_listen(struct lock_core *core, struct lock_grant *grant, bool on);
/* It is over: whatever it was listening for. */
void snecki_grant_end_listen(struct lock_core *core, struct lock_grant *grant);
/* It is held, and matters to others: it wants to hear who waits. */
void snecki_grant_want_hints(struct lock_core *core, struct lock_grant *grant);
struct lock_lane *snecki_lane_of(struct lock_core *core, const struct lock_entry *entry);
uint64_t snecki_core_random(struct lock_core *core, uint64_t below);
void snecki_grant_beat(struct lock_core *core, struct lock_grant *grant, int64_t now_ns);
void snecki_grant_leave(
        struct lock_core *core, struct lock_grant *grant, struct lock_wish *ticket, int64_t now_ns);
void snecki_grant_send_leave(struct lock_core *core, struct lock_grant *grant, int64_t now_ns);
void snecki_grant_advance(struct lock_core *core, struct lock_entry *entry);
size_t snecki_grant_own_list(struct lock_grant *asking, uint64_t owner, uint64_t *own);
void snecki_grant_leave_longer(struct lock_core *core, struct lock_grant *grant, int64_t now_ns);
void snecki_note_holder(struct lock_entry *entry, const struct lock_outcome *outcome); /* reply.c */
void snecki_grant_tell_siblings(struct lock_grant *grant, uint64_t token);             /* reply.c */
/* Is the answer's token the one that the grant must have? Else the hold is another's. In reply.c. */
bool snecki_token_fits(
        struct lock_grant *grant, const struct lock_call *call, const struct lock_outcome *outcome);
/* How long to wait before it is asked again: `usual_ns`, or longer where a right is missing. In reply.c. */
int64_t snecki_pause_ns(const struct lock_grant *grant, const struct lock_outcome *outcome, int64_t usual_ns);

/* lease.c: how long, and what becomes of the holds */
void snecki_lease_confirm(struct lock_core *core, struct lock_grant *grant,
        const struct lock_outcome *outcome, int64_t lease_ms, int64_t sent_ns, int64_t now_ns);
void snecki_lease_converted(struct lock_core *core, struct lock_grant *grant,
        const struct lock_outcome *outcome, int64_t lease_ms, int64_t sent_ns, int64_t now_ns);
void snecki_lease_extend_fixed(
        const struct lock_core *core, struct lock_grant *grant, int64_t lease_ms, int64_t sent_ns);
void snecki_lease_held(
        struct lock_core *core, struct lock_grant *grant, int64_t now_ns); /* starts the watchdog */
void snecki_lease_arm(struct lock_core *core, struct lock_grant *grant);   /* sets the timer */
void snecki_lease_renew(
        struct lock_core *core, struct lock_grant *grant, struct lock_wish *ticket, int64_t lease_ms);
void snecki_lease_renew_soon(struct lock_core *core, struct lock_grant *grant, int64_t now_ns);
/* `sent_n` renewals have just been sent: what is due very soon goes with them. */
void snecki_lease_renew_along(struct lock_core *core, uint64_t sent_n, int64_t now_ns);
/* There may be room. */
void snecki_lease_renew_next(struct lock_core *core, struct lock_lane *lane, int64_t now_ns);
void snecki_lease_lose(struct lock_core *core, struct lock_grant *grant, enum hold_state how, int64_t now_ns);
/* Its time is over by our clock; the server may keep it longer, so it is given back as well. */
void snecki_lease_expire(struct lock_core *core, struct lock_grant *grant, int64_t now_ns);
void snecki_lease_suspect(struct lock_core *core, struct lock_grant *grant, bool suspect);
/* A message says that it is wanted. */
void snecki_lease_hint(struct lock_core *core, struct lock_grant *grant, int64_t now_ns);
/* The answer to a request that was sent then says whether it is. */
void snecki_lease_wanted(
        struct lock_core *core, struct lock_grant *grant, bool wanted, int64_t sent_ns, int64_t now_ns);
void snecki_lease_clock(struct lock_core *core, unsigned lane, const struct lock_outcome *outcome,
        int64_t sent_ns, int64_t now_ns);
void snecki_lease_timer(struct lock_core *core, struct lock_grant *grant, int64_t now_ns);
bool snecki_grant_renewed(const struct lock_grant *grant);
bool snecki_hold_live(const struct lock_hold *hold);
bool snecki_grant_empty(const struct lock_grant *grant); /* no hold that counts */

/* queue.c: wishes of this session among themselves */
void snecki_pump(struct lock_core *core, struct lock_entry *entry, int64_t now_ns);
void snecki_queue_granted(struct lock_core *core, struct lock_grant *grant, int64_t now_ns);
void snecki_queue_fail(struct lock_core *core, struct lock_grant *grant, int code, const char *detail);
/* The hold is going (released, or lost): whoever waits for something about it is told so. */
void snecki_hold_end_renewals(struct lock_core *core, struct lock_hold *hold, int code);
void snecki_hold_abandon(struct lock_core *core, struct lock_hold *hold, int code, int64_t now_ns);
void snecki_queue_again(
        struct lock_core *core, struct lock_entry *entry, struct lock_wish *wish, int64_t now_ns);
void snecki_queue_refuse_nowait(struct lock_core *core, struct lock_entry *entry);
void snecki_hold_attach(struct lock_core *core, struct lock_grant *grant, struct lock_wish *wish,
        uint64_t token, int64_t now_ns);
void snecki_hold_detach(struct lock_core *core, struct lock_hold *hold);
void snecki_grant_settle(
        struct lock_core *core, struct lock_grant *grant, struct lock_wish *ticket, int64_t now_ns);

/* convert.c */
void snecki_conv_reply(struct lock_core *core, struct lock_grant *grant, struct lock_call *call,
        const struct lock_outcome *outcome, const char *detail, int64_t sent_ns, int64_t now_ns);
void snecki_conv_granted(struct lock_core *core, struct lock_grant *grant, int64_t now_ns);
void snecki_conv_try_finish(struct lock_core *core, struct lock_entry *entry, int64_t now_ns);
void snecki_conv_give_up(struct lock_core *core, struct lock_wish *wish, int64_t now_ns);
void snecki_conv_send(struct lock_core *core, struct lock_grant *grant, int64_t now_ns);
void snecki_conv_over(struct lock_core *core, struct lock_grant *grant, int64_t now_ns);
void snecki_conv_lost(
        struct lock_core *core, struct lock_grant *grant, const struct lock_outcome *outcome, int64_t now_ns);
void snecki_conv_resend(struct lock_core *core, struct lock_grant *grant, int64_t now_ns);
void snecki_conv_downgrade(
        struct lock_core *core, struct lock_grant *grant, struct lock_wish *ticket, int64_t now_ns);
void snecki_conv_start_later(struct lock_core *core, struct lock_entry *entry, int64_t now_ns);
bool snecki_others_hold(const struct lock_entry *entry, uint64_t owner);
/* Does the server know it by `attempt` and no other name? */
static inline bool snecki_grant_named(const struct lock_grant *grant) {
	return grant->conv == CONV_NONE || grant->conv == CONV_UP_LOCAL;
}
bool snecki_entry_writes(const struct lock_entry *entry); /* some grant of it does */
bool snecki_grant_writes(const struct lock_grant *grant);
void snecki_conv_upgrade(struct lock_core *core, struct lock_wish *wish, int64_t now_ns);

/* note.c */
/* It may have been granted, and the message missed. A question that is under way may have been answered
 * before that: it is asked again. */
void snecki_grant_ask_again(struct lock_core *core, struct lock_grant *grant, int64_t now_ns);

/* linger.c */
/* Nobody holds it any more. True: it lingers from now on; false: give it back. */
bool snecki_linger_begin(struct lock_core *core, struct lock_grant *grant, int64_t now_ns);
int64_t snecki_linger_ends(const struct lock_core *core, const struct lock_grant *grant);  /* 0: at once */
void snecki_linger_over(struct lock_core *core, struct lock_grant *grant, int64_t now_ns); /* give it back */
void snecki_linger_retaken(struct lock_core *core, struct lock_grant *grant, int64_t now_ns);
void snecki_linger_make_way(struct lock_core *core, struct lock_entry *entry, char mode, int64_t now_ns);
void snecki_linger_look(struct lock_grant *grant, int64_t now_ns); /* messages may have been missed */
void snecki_linger_renewed(struct lock_grant *grant, int64_t now_ns);
void snecki_linger_mark(struct lock_core *core, struct lock_grant *grant, int64_t now_ns);
void snecki_linger_marked(struct lock_core *core, struct lock_grant *grant, const struct lock_call *call,
        const struct lock_outcome *outcome, int64_t sent_ns, int64_t now_ns);

/* ack.c */
/* Have enough replicas the grant for this wish? Else they are asked, and the pump that follows the answer
 * tries again. */
bool snecki_ack_fits(struct lock_core *core, struct lock_grant *grant, struct lock_wish *wish);
void snecki_ack_answered(struct lock_core *core, struct lock_grant *grant, const struct lock_call *call,
        const struct lock_outcome *outcome, const char *detail, int64_t now_ns);
void snecki_ack_failed(
        struct lock_core *core, struct lock_grant *grant, int code, const char *detail, int64_t now_ns);
bool snecki_ack_wanted(const struct lock_grant *grant); /* by whoever it would go to */
bool snecki_ack_pending(const struct lock_wish *wish);  /* it waits for nothing else */
void snecki_ack_forget(struct lock_entry *entry);       /* whoever still wants it says so again */

/* detach.c */
void snecki_detach_reply(struct lock_core *core, struct lock_grant *grant, const struct lock_call *call,
        const struct lock_outcome *outcome, const char *detail, int64_t sent_ns, int64_t now_ns);

#endif
