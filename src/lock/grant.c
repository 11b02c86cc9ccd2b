/* SPDX-License-Identifier: MIT */
/* One attempt on the server, from the first request to the last.
 *
 * An attempt is *unaccounted* when a request that could create it went unanswered because its
 * connection broke: such a copy may arrive late. The grant keeps the list (`bury`), and its last
 * message has the whole list buried, however the matter ends. A grant with a list is therefore
 * never dropped, it leaves. On one connection order is kept, and a broken connection ends its calls
 * in the order they were sent, so a release or cancel that is sent behind an unanswered request needs
 * no burial: if it has to be sent again, the list is complete by then. */
#include "lock/private.h"

#include <stdlib.h>
#include <string.h>

#include <sneck/error.h>

#include "base/alloc.h"

static struct lock_grant *new_grant(
        struct lock_core *core, struct lock_entry *entry, char mode, int64_t lease_ms, uint64_t attempt) {
	if (snecki_heap_reserve(&core->timers, core->grants_n + 1) < 0)
		return NULL;
	struct lock_grant *grant = snecki_zalloc(sizeof *grant);
	if (!grant)
		return NULL;
	grant->entry = entry;
	grant->mode = mode;
	grant->lease_ms = lease_ms;
	grant->attempt = attempt;
	grant->by_attempt.grant = grant;
	grant->by_conv.grant = grant;
	grant->by_conv.conv = true;
	grant->retry_at_ns = NS_NEVER;
	grant->leave_until_ns = NS_NEVER;
	grant->mark_at_ns = NS_NEVER;
	snecki_list_init(&grant->calls);
	snecki_list_init(&grant->holds);
	snecki_list_init(&grant->in_line);
	snecki_list_append(&entry->grants, &grant->in_entry);
	snecki_map_insert(&core->attempts, &grant->by_attempt.node, &grant->attempt, sizeof grant->attempt);
	core->grants_n++;
	return grant;
}

struct lock_grant *snecki_grant_new(
        struct lock_core *core, struct lock_entry *entry, char mode, int64_t lease_ms) {
	return new_grant(core, entry, mode, lease_ms, ++core->attempt_counter);
}

/* Calls in flight find nobody any more; whoever waits for one of them is told that it is over. */
void snecki_grant_drop(struct lock_core *core, struct lock_grant *grant) {
	LIST_EACH (c, &grant->calls) {
		struct lock_call *call = LIST_ITEM(c, struct lock_call, node);
		snecki_list_remove(&call->node);
		if (call->watchdog)
			core->lanes[call->renew_lane].renewals_inflight--;
		call->grant = NULL;
		if (call->ticket)
			snecki_wish_finish(core, call->ticket, SNECK_ELOST, NULL);
	}
	if (grant->wish)
		grant->wish->grant = NULL;
	if (grant->ticket)
		grant->ticket->grant = NULL;
	if (grant->entry->pending == grant)
		grant->entry->pending = NULL;
	snecki_grant_end_listen(core, grant);
	snecki_map_remove(&core->attempts, &grant->by_attempt.node);
	if (grant->conv_attempt)
		snecki_map_remove(&core->attempts, &grant->by_conv.node);
	snecki_heap_remove(&core->timers, &grant->timer);
	snecki_list_remove(&grant->in_entry);
	snecki_list_remove(&grant->in_line);
	core->grants_n--;
	free(grant);
}

uint64_t snecki_grant_begin_conv(struct lock_core *core, struct lock_grant *grant, enum conv_state conv) {
	grant->conv = conv;
	grant->conv_valid_ns = grant->valid_until_ns;
	grant->conv_won = false;
	grant->polls = 0;
	if (!grant->claimed) /* a renewal takes the place of the claim */
		grant->renew_at_ns = grant->confirmed_ns;
	grant->conv_attempt = ++core->attempt_counter;
	if (conv == CONV_DETACH && grant->wish)
		grant->conv_attempt |= LOCK_DETACHED;
	snecki_map_insert(
	        &core->attempts, &grant->by_conv.node, &grant->conv_attempt, sizeof grant->conv_attempt);
	return grant->conv_attempt;
}

void snecki_grant_end_conv(struct lock_core *core, struct lock_grant *grant) {
	snecki_grant_listen(core, grant, false);
	grant->conv = CONV_NONE;
	grant->retry_at_ns = NS_NEVER;
	if (!grant->conv_attempt)
		return;
	snecki_map_remove(&core->attempts, &grant->by_conv.node);
	grant->conv_attempt = 0;
}

void snecki_grant_rename(struct lock_core *core, struct lock_grant *grant) {
	uint64_t attempt = grant->conv_attempt;

	snecki_grant_end_conv(core, grant);
	snecki_map_remove(&core->attempts, &grant->by_attempt.node);
	grant->attempt = attempt;
	grant->acked = 0; /* what replicas have goes by the old name */
	snecki_map_insert(&core->attempts, &grant->by_attempt.node, &grant->attempt, sizeof grant->attempt);
}

bool snecki_grant_unaccounted(const struct lock_grant *grant, uint64_t attempt) {
	for (size_t i = 0; i < grant->bury_n; i++)
		if (grant->bury[i] == attempt)
			return true;
	return false;
}

void snecki_grant_unbury(struct lock_grant *grant, uint64_t attempt) {
	size_t n = 0;

	for (size_t i = 0; i < grant->bury_n; i++)
		if (grant->bury[i] != attempt)
			grant->bury[n++] = grant->bury[i];
	grant->bury_n = n;
}

void snecki_grant_bury(struct lock_grant *grant, uint64_t attempt) {
	if (snecki_grant_unaccounted(grant, attempt))
		return;
	if (grant->bury_n == LOCK_BURY_MAX) {
		/* The oldest is the least likely to be still on its way. */
		memmove(grant->bury, grant->bury + 1, (LOCK_BURY_MAX - 1) * sizeof grant->bury[0]);
		grant->bury_n--;
	}
	grant->bury[grant->bury_n++] = attempt;
}

/* ---- Channels of a lock's own, and layouts without a queue ----------------------------------------*/

static void set_listening(struct lock_core *core, struct lock_grant *grant, bool on) {
	const struct lock_entry *entry = grant->entry;

	if (grant->listening == on)
		return;
	grant->listening = on;
	core->config.hooks->listen(
	        core->config.ctx, snecki_layout_of(grant), entry->name, entry->name_len, grant->attempt, on);
}

/* Who need not wait any more still holds, and hears by the same channel of others who do. */
void snecki_grant_listen(struct lock_core *core, struct lock_grant *grant, bool on) {
	if (snecki_layout_of(grant)->polls || (core->config.lock_channels && on))
		set_listening(core, grant, on);
}

void snecki_grant_end_listen(struct lock_core *core, struct lock_grant *grant) {
	set_listening(core, grant, false);
}

void snecki_grant_want_hints(struct lock_core *core, struct lock_grant *grant) {
	if (core->config.lock_channels && !snecki_layout_of(grant)->polls)
		set_listening(core, grant, true);
}

struct lock_lane *snecki_lane_of(struct lock_core *core, const struct lock_entry *entry) {
	return &core->lanes[entry->lane == LANE_UNKNOWN ? 0 : entry->lane];
}

/* Pauses that grow by half, and differ by chance, so that those who wait do not ask together. */
int64_t snecki_grant_next_poll(struct lock_core *core, struct lock_grant *grant, int64_t from_ns) {
	const struct lock_traits *traits = snecki_layout_of(grant);
	int64_t pause_ns = traits->poll_first_ms * NS_PER_MS;
	int64_t most_ns = traits->poll_most_ms * NS_PER_MS;

	for (unsigned i = 0; i < grant->polls && pause_ns < most_ns; i++)
		pause_ns += pause_ns / 2;
	grant->polls++;
	if (pause_ns > most_ns)
		pause_ns = most_ns;
	return from_ns + pause_ns - (int64_t)snecki_core_random(core, (uint64_t)(pause_ns / 4 + 1));
}

/* How many holds the program has on this attempt; one that is only asked for is for one. */
static void count_holds(const struct lock_grant *grant, uint32_t *reads, uint32_t *writes) {
	*reads = *writes = 0;
	LIST_EACH (h, &grant->holds)
		++*(LIST_ITEM(h, struct lock_hold, in_grant)->mode == 'W' ? writes : reads);
	if (*reads + *writes == 0)
		++*(grant->mode == 'W' ? writes : reads);
}

/* The program has come to hold it more, or fewer, times: the server hears it with a renewal that lengthens
 * nothing. Nobody waits for the answer, and the watchdog's next renewal says it again. */
void snecki_grant_tell_counts(struct lock_core *core, struct lock_entry *entry) {
	uint32_t reads, writes;

	LIST_EACH (g, &entry->grants) {
		struct lock_grant *grant = LIST_ITEM(g, struct lock_grant, in_entry);
		if (grant->state != GRANT_HELD || !snecki_grant_named(grant) || snecki_grant_empty(grant))
			continue;
		count_holds(grant, &reads, &writes);
		if (reads != grant->told_reads || writes != grant->told_writes)
			snecki_lease_renew(core, grant, NULL, 1);
	}
}

/* ---- Requests -----------------------------------------------------------------------------------*/

struct lock_call *snecki_call_new(
        struct lock_core *core, struct lock_entry *entry, struct lock_grant *grant, enum lock_op_kind kind) {
	struct lock_call *call = snecki_zalloc(sizeof *call + core->config.call_extra);

	if (!call)
		return NULL;
	call->layout = entry->realm->layout;
	call->entry = entry;
	call->grant = grant;
	call->op.kind = kind;
	call->op.wait_lease_ms = core->config.wait_lease_ms;
	snecki_list_init(&call->node);
	if (grant) {
		call->op.mode = grant->mode;
		call->op.attempt = grant->attempt;
		call->op.lease_ms = grant->lease_ms;
		if (grant->longest_ms < grant->lease_ms)
			grant->longest_ms = grant->lease_ms;
		if (grant->token > grant->server_token)
			call->op.last_token = grant->token;
		if (snecki_layout_of(grant)->counts) {
			count_holds(grant, &call->op.reads, &call->op.writes);
			grant->told_reads = call->op.reads;
			grant->told_writes = call->op.writes;
		}
		snecki_list_append(&grant->calls, &call->node);
	}
	return call;
}

void snecki_call_send(struct lock_core *core, struct lock_call *call) {
	call->entry->calls++;
	core->calls_n++;
	core->config.hooks->send(core->config.ctx, call, call->entry->name, call->entry->name_len);
}

static bool owner_holds(const struct lock_grant *grant, uint64_t owner) {
	LIST_EACH (h, &grant->holds)
		if (LIST_ITEM(h, struct lock_hold, in_grant)->owner == owner)
			return true;
	return false;
}

static bool holds_alone(const struct lock_grant *grant, uint64_t owner) {
	LIST_EACH (h, &grant->holds)
		if (LIST_ITEM(h, struct lock_hold, in_grant)->owner != owner)
			return false;
	return !grant->wish || grant->wish->owner == owner;
}

/* Re-entry to read: a writer of this session beside what the owner holds is one that waits for it. To
 * write: only what is the owner's alone. */
static bool stands_aside(const struct lock_grant *grant, const struct lock_grant *asking, uint64_t owner) {
	if (owner == 0 || asking->mode == 'R')
		return true;
	return owner_holds(grant, owner) && holds_alone(grant, owner);
}

static bool reenters(const struct lock_grant *asking, uint64_t owner) {
	LIST_EACH (g, &asking->entry->grants) {
		const struct lock_grant *grant = LIST_ITEM(g, struct lock_grant, in_entry);
		if (grant != asking && grant->state == GRANT_HELD && owner_holds(grant, owner))
			return true;
	}
	return false;
}

bool snecki_call_wanted(const struct lock_call *call) {
	const struct lock_grant *grant = call->grant;
	bool converting = grant && grant->state == GRANT_HELD && grant->conv_attempt == call->op.attempt;

	switch (call->op.kind) {
	case OP_ACQUIRE:
		return grant && grant->state == GRANT_ASKED;
	case OP_UPGRADE:
		return converting && grant->conv == CONV_UP_ASKED;
	case OP_DOWNGRADE:
		return converting && grant->conv == CONV_DOWN;
	case OP_RENAME:
		return (grant && grant->state == GRANT_ASKED) || (converting && grant->conv == CONV_DETACH);
	default: /* creates nothing */
		return true;
	}
}

/* The session's other held attempts that do not stand in the way of `owner` (0: of the session's
 * upgrader). While a conversion is unanswered either name may be the one that the server knows. What is
 * being detached will not be ours, so nobody vouches for it. */
size_t snecki_grant_own_list(struct lock_grant *asking, uint64_t owner, uint64_t *own) {
	size_t n = 0;

	if (owner != 0 && !reenters(asking, owner))
		return 0;
	LIST_EACH (g, &asking->entry->grants) {
		struct lock_grant *grant = LIST_ITEM(g, struct lock_grant, in_entry);
		if (grant == asking || grant->state != GRANT_HELD || grant->conv == CONV_DETACH)
			continue;
		if (!stands_aside(grant, asking, owner))
			continue;
		asking->beside = grant->beside = true;
		if (n < LOCK_OWN_MAX)
			own[n++] = grant->attempt;
		if (n < LOCK_OWN_MAX && grant->conv_attempt)
			own[n++] = grant->conv_attempt;
	}
	return n;
}

/* Sends the acquire (or the adoption), the first time or again. */
bool snecki_grant_ask(struct lock_core *core, struct lock_grant *grant) {
	bool adopt = grant->foreign_id[0] != '\0';
	struct lock_call *call = snecki_call_new(core, grant->entry, grant, adopt ? OP_RENAME : OP_ACQUIRE);

	if (!call)
		return false;
	call->op.queue = grant->queue_flag;
	call->op.prefer = grant->prefer;
	if (adopt)
		memcpy(call->op.foreign_id, grant->foreign_id, sizeof call->op.foreign_id);
	else if (grant->private_ && grant->wish)
		call->op.own_n = snecki_grant_own_list(grant, grant->wish->owner, call->op.own);
	grant->vouched = grant->vouched || call->op.own_n > 0;
	grant->state = GRANT_ASKED;
	snecki_call_send(core, call);
	return true;
}

/* One beat after `from_ns`, moved by up to three quarters towards it (or one quarter away) to the session's
 * own grid: whatever a session waits for, its heartbeats leave together, as one batch. Where the grid
 * lies is chance, so that sessions differ. */
int64_t snecki_grant_next_beat(const struct lock_core *core, int64_t from_ns) {
	int64_t beat_ns = core->config.beat_ms * NS_PER_MS;
	int64_t phase_ns = (int64_t)(core->config.seed % (uint64_t)beat_ns);
	int64_t latest_ns = from_ns + beat_ns + beat_ns / 4;

	return latest_ns - (latest_ns + beat_ns - phase_ns) % beat_ns;
}

/* The heartbeat of a waiter, or the claim of what a message has granted. */
void snecki_grant_beat(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	if (grant->beating)
		return;
	grant->beat_at_ns = now_ns + core->config.beat_ms * NS_PER_MS;
	struct lock_call *call = snecki_call_new(core, grant->entry, grant, OP_BEAT);
	if (!call)
		return; /* the next beat tries again */
	if (grant->conv == CONV_UP_QUEUED) {
		call->op.mode = 'W';
		call->op.old = grant->attempt;
		call->op.attempt = grant->conv_attempt;
		call->op.own_n = snecki_grant_own_list(grant, 0, call->op.own);
	}
	call->op.last_token = 0; /* a beat reports nothing */
	call->claim = grant->state == GRANT_HELD && grant->conv != CONV_UP_QUEUED;
	grant->beating = true;
	core->counters.beats++;
	snecki_call_send(core, call);
}

void snecki_grant_advance(struct lock_core *core, struct lock_entry *entry) {
	if (entry->advancing)
		return;
	struct lock_call *call = snecki_call_new(core, entry, NULL, OP_ADVANCE);
	if (!call)
		return; /* any waiter's beat advances as well */
	entry->advancing = true;
	snecki_call_send(core, call);
}

/* ---- Leaving ------------------------------------------------------------------------------------*/

void snecki_grant_send_leave(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	struct lock_call *call = snecki_call_new(core, grant->entry, grant, grant->leave_op);

	if (!call) {
		grant->retry_at_ns = now_ns + RETRY_NS;
		snecki_lease_arm(core, grant);
		return;
	}
	call->op.bury_n = grant->bury_n;
	memcpy(call->op.bury, grant->bury, grant->bury_n * sizeof grant->bury[0]);
	call->op.shrink_expiry = grant->lease_ms > 60000;
	snecki_call_send(core, call);
}

/* From now on it can be on the server, or on its way there, for no longer than this. */
void snecki_grant_leave_longer(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	int64_t linger_ms = core->config.wait_lease_ms;

	if (grant->longest_ms > linger_ms)
		linger_ms = grant->longest_ms;
	if (grant->may_be_late)
		linger_ms += BURY_MS;
	grant->leave_until_ns = now_ns + linger_ms * NS_PER_MS + LEAVE_EXTRA_NS;
}

/* Give the attempt back: release what is held, cancel what is only asked for. `ticket` waits for
 * the server's word. No hold may be attached any more. */
void snecki_grant_leave(
        struct lock_core *core, struct lock_grant *grant, struct lock_wish *ticket, int64_t now_ns) {
	if (grant->entry->pending == grant)
		grant->entry->pending = NULL;
	if (grant->wish) {
		grant->wish->grant = NULL;
		grant->wish = NULL;
	}
	if (grant->conv_attempt) { /* unanswered: it may hold under this name as well */
		snecki_grant_bury(grant, grant->conv_attempt);
		snecki_grant_end_conv(core, grant);
	}
	snecki_grant_end_listen(core, grant);
	grant->leave_op = grant->state == GRANT_HELD ? OP_RELEASE : OP_CANCEL;
	grant->renew_first = false;
	grant->ack_first = false;
	grant->ack_call = NULL;
	grant->lingers = false;
	snecki_grant_leave_longer(core, grant, now_ns);
	grant->retry_at_ns = NS_NEVER;
	grant->state = GRANT_LEAVING;
	if (ticket) {
		grant->ticket = ticket;
		ticket->grant = grant;
	}
	snecki_grant_send_leave(core, grant, now_ns);
	snecki_lease_arm(core, grant);
}

void snecki_grant_abandon(
        struct lock_core *core, struct lock_grant *grant, char mode, uint64_t attempt, int64_t now_ns) {
	struct lock_grant *grave = new_grant(core, grant->entry, mode, grant->longest_ms, attempt);

	snecki_grant_unbury(grant, attempt);
	if (!grave)
		return; /* out of memory: what it may hold ends with its lease */
	grave->longest_ms = grant->longest_ms;
	grave->may_be_late = true;
	snecki_grant_bury(grave, attempt);
	snecki_grant_leave(core, grave, NULL, now_ns);
}
