/* SPDX-License-Identifier: MIT */
/* How long a grant lasts, and what becomes of its holds.
 *
 * A grant is valid until `time before sending + lease - margin`; nothing here ever uses the time of
 * a reply, except to learn that the server's clock ran ahead. HELD turns to SUSPECT when half of
 * the lease has gone without a confirmed renewal, and to LOST when the validity ends or the server
 * says so; LOST never turns back. Renewals keep an absolute pace of a third of the lease. */
#include "lock/private.h"

#include <sneck/error.h>

int64_t snecki_margin_ms(int64_t lease_ms) {
	int64_t percent = lease_ms / 100;
	return percent > 2 ? percent : 2;
}

/* A server that takes over has the deadlines of the one before it, and a clock of its own. */
int64_t snecki_core_margin_ms(const struct lock_core *core, int64_t lease_ms) {
	int64_t skew_ms = core->config.skew_ms;

	return snecki_margin_ms(lease_ms) + (skew_ms < lease_ms / 4 ? skew_ms : lease_ms / 4);
}

bool snecki_hold_live(const struct lock_hold *hold) {
	return hold->grant && hold->state <= HOLD_SUSPECT;
}

int64_t snecki_hold_valid_until(const struct lock_hold *hold) {
	if (!snecki_hold_live(hold))
		return 0;
	int64_t until = hold->grant->valid_until_ns;
	return hold->fixed_until_ns < until ? hold->fixed_until_ns : until;
}

bool snecki_grant_empty(const struct lock_grant *grant) {
	return snecki_list_empty(&grant->holds);
}

/* Some hold is to last longer than the grant does by now: until further notice, or (a fixed one that is
 * nested in a shorter lease) to its own end. */
bool snecki_grant_renewed(const struct lock_grant *grant) {
	LIST_EACH (h, &grant->holds)
		if (LIST_ITEM(h, struct lock_hold, in_grant)->fixed_until_ns > grant->valid_until_ns)
			return true;
	return grant->renew_first || (grant->ack_first && !grant->private_);
}

static void set_state(struct lock_core *core, struct lock_hold *hold, enum hold_state state) {
	if (hold->state == state || hold->state >= HOLD_LOST)
		return;
	hold->state = state;
	if (state >= HOLD_LOST)
		core->counters.losses++;
	core->config.hooks->state(core->config.ctx, hold);
}

/* The hold is lost; the handle stays the program's until it releases it. */
static void lose_hold(struct lock_core *core, struct lock_hold *hold, enum hold_state how) {
	snecki_list_remove(&hold->in_grant);
	hold->grant = NULL;
	hold->entry = NULL;
	core->holds_n--;
	set_state(core, hold, how);
}

static void lose_all(struct lock_core *core, struct lock_grant *grant, enum hold_state how, int64_t now_ns) {
	int code = how == HOLD_BROKEN ? SNECK_EBROKEN : SNECK_ELOST;

	if (grant->wish)
		snecki_wish_finish(core, grant->wish, code, NULL);
	LIST_EACH (h, &grant->holds) {
		struct lock_hold *hold = LIST_ITEM(h, struct lock_hold, in_grant);
		snecki_hold_abandon(core, hold, code, now_ns);
		lose_hold(core, hold, how);
	}
	if (grant->ticket)
		snecki_wish_finish(core, grant->ticket, code, NULL);
}

void snecki_lease_lose(
        struct lock_core *core, struct lock_grant *grant, enum hold_state how, int64_t now_ns) {
	lose_all(core, grant, how, now_ns);
	if (grant->bury_n || grant->conv_attempt) /* a late request must not bring it back */
		snecki_grant_leave(core, grant, NULL, now_ns);
	else
		snecki_grant_drop(core, grant);
}

void snecki_lease_expire(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	lose_all(core, grant, HOLD_LOST, now_ns);
	snecki_grant_leave(core, grant, NULL, now_ns);
}

void snecki_lease_suspect(struct lock_core *core, struct lock_grant *grant, bool suspect) {
	if (grant->suspect == suspect)
		return;
	grant->suspect = suspect;
	LIST_EACH (h, &grant->holds)
		set_state(core, LIST_ITEM(h, struct lock_hold, in_grant), suspect ? HOLD_SUSPECT : HOLD_HELD);
}

static void set_wanted(struct lock_core *core, struct lock_grant *grant, bool wanted, int64_t now_ns) {
	if (wanted && !grant->wanted) {
		grant->wanted_ns = now_ns;
		grant->handovers = 0;
	}
	grant->wanted = wanted;
	if (grant->lingers)
		snecki_lease_arm(core, grant);
}

void snecki_lease_hint(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	grant->hint_ns = now_ns;
	if (grant->state == GRANT_HELD)
		set_wanted(core, grant, true, now_ns);
}

/* Messages and answers come on different ways: one that was heard after the request had left may be newer
 * than its answer, and is not sent again for a heartbeat. */
void snecki_lease_wanted(
        struct lock_core *core, struct lock_grant *grant, bool wanted, int64_t sent_ns, int64_t now_ns) {
	set_wanted(core, grant, wanted || grant->hint_ns >= sent_ns, now_ns);
}

/* ---- Confirmation -------------------------------------------------------------------------------*/

void snecki_lease_confirm(struct lock_core *core, struct lock_grant *grant,
        const struct lock_outcome *outcome, int64_t lease_ms, int64_t sent_ns, int64_t now_ns) {
	int64_t valid = sent_ns + (lease_ms - snecki_core_margin_ms(core, lease_ms)) * NS_PER_MS;

	if (valid > grant->valid_until_ns && grant->conv != CONV_DETACH) /* which may make it shorter */
		grant->valid_until_ns = valid;
	grant->confirmed_ns = sent_ns;
	grant->server_deadline_ms = outcome->deadline_ms;

	grant->claimed = true;
	grant->last_code = 0;
	if (grant->valid_until_ns > now_ns)
		snecki_lease_suspect(core, grant, false);
}

/* A conversion was granted. What was renewed under the old name since it was sent may have been a hold that
 * a late copy brought to life: only what was certain when it began counts, and what the server says. */
void snecki_lease_converted(struct lock_core *core, struct lock_grant *grant,
        const struct lock_outcome *outcome, int64_t lease_ms, int64_t sent_ns, int64_t now_ns) {
	int64_t left_ms =
	        outcome->deadline_ms - outcome->server_us / 1000 - snecki_core_margin_ms(core, lease_ms);
	int64_t valid = sent_ns + left_ms * NS_PER_MS;

	if (grant->valid_until_ns > grant->conv_valid_ns)
		grant->valid_until_ns = valid > grant->conv_valid_ns ? valid : grant->conv_valid_ns;
	snecki_lease_confirm(core, grant, outcome, lease_ms, sent_ns, now_ns);
}

/* The first confirmation of a private grant: its fixed holds last as long as they were asked for. */
void snecki_lease_extend_fixed(
        const struct lock_core *core, struct lock_grant *grant, int64_t lease_ms, int64_t sent_ns) {
	int64_t until = sent_ns + (lease_ms - snecki_core_margin_ms(core, lease_ms)) * NS_PER_MS;

	LIST_EACH (h, &grant->holds) {
		struct lock_hold *hold = LIST_ITEM(h, struct lock_hold, in_grant);
		if (hold->fixed_until_ns != NS_NEVER && hold->lease_ms == lease_ms &&
		        hold->fixed_until_ns < until)
			hold->fixed_until_ns = until;
	}
}

static int64_t interval_ns(const struct lock_grant *grant) {
	return grant->lease_ms * NS_PER_MS / 3;
}

/* Spread over the last fifth of the interval, so that grants taken together are not renewed together. */
static int64_t spread_ns(struct lock_core *core, int64_t interval) {
	return (int64_t)snecki_core_random(core, (uint64_t)(interval / 5 + 1));
}

void snecki_lease_held(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	int64_t interval = interval_ns(grant);

	snecki_grant_listen(core, grant, false);
	if (core->hints)
		snecki_grant_want_hints(core, grant);
	grant->granted_ns = now_ns;
	grant->state = GRANT_HELD;
	grant->fresh = true;
	grant->suspect = false;
	grant->renew_at_ns = grant->confirmed_ns + interval - spread_ns(core, interval);
	grant->retry_at_ns = NS_NEVER;
}

/* Until the claim is answered it has a waiter's. */
static int64_t lease_of(const struct lock_core *core, const struct lock_grant *grant) {
	int64_t wait_ms = core->config.wait_lease_ms;

	return !grant->claimed && wait_ms < grant->lease_ms ? wait_ms : grant->lease_ms;
}

/* Half of the lease is left. */
static int64_t suspect_at(const struct lock_core *core, const struct lock_grant *grant) {
	return grant->valid_until_ns - lease_of(core, grant) * NS_PER_MS / 2;
}

static int64_t earliest(int64_t a, int64_t b) {
	return a < b ? a : b;
}

/* An upgrader waits, or a grant is yet to be claimed (which a conversion does as well). */
static bool beats(const struct lock_grant *grant) {
	return grant->conv == CONV_UP_QUEUED || (!grant->claimed && snecki_grant_named(grant));
}

static int64_t held_due(const struct lock_core *core, const struct lock_grant *grant) {
	int64_t due = grant->valid_until_ns;

	LIST_EACH (h, &grant->holds)
		due = earliest(due, LIST_ITEM(h, struct lock_hold, in_grant)->fixed_until_ns);
	if (snecki_grant_renewed(grant)) {
		if (!grant->renewing && snecki_list_empty(&grant->in_line))
			due = earliest(due, grant->renew_at_ns);
		if (!grant->suspect)
			due = earliest(due, suspect_at(core, grant));
	}
	if (beats(grant) && !grant->beating)
		due = earliest(due, grant->beat_at_ns);
	if (grant->lingers && !grant->renew_first && !grant->ack_first)
		due = earliest(due, snecki_linger_ends(core, grant));
	if (!grant->marking)
		due = earliest(due, grant->mark_at_ns);
	return earliest(due, grant->retry_at_ns);
}

void snecki_lease_arm(struct lock_core *core, struct lock_grant *grant) {
	int64_t due = NS_NEVER;

	switch (grant->state) {
	case GRANT_ASKED:
		due = grant->retry_at_ns;
		break;
	case GRANT_QUEUED:
		due = grant->beating ? NS_NEVER : grant->beat_at_ns;
		break;
	case GRANT_HELD:
		due = held_due(core, grant);
		break;
	case GRANT_LEAVING:
		/* As long as the connection lives an answer will come, however late. */
		due = snecki_list_empty(&grant->calls) ? earliest(grant->retry_at_ns, grant->leave_until_ns)
		                                       : grant->retry_at_ns;
		break;
	}
	if (due == NS_NEVER)
		snecki_heap_remove(&core->timers, &grant->timer);
	else if (snecki_heap_has(&grant->timer))
		snecki_heap_update(&core->timers, &grant->timer, due);
	else
		(void)snecki_heap_insert(&core->timers, &grant->timer, due); /* room was reserved */
}

/* ---- Renewal ------------------------------------------------------------------------------------*/

/* `ticket`: the explicit renewal that waits for this answer; NULL: the watchdog. */
void snecki_lease_renew(
        struct lock_core *core, struct lock_grant *grant, struct lock_wish *ticket, int64_t lease_ms) {
	struct lock_call *call = snecki_call_new(core, grant->entry, grant, OP_RENEW);

	if (!call) {
		if (ticket)
			snecki_wish_finish(core, ticket, SNECK_ENOMEM, NULL);
		return;
	}
	call->op.lease_ms = lease_ms;
	call->op.token = grant->server_token;
	if (grant->longest_ms < lease_ms)
		grant->longest_ms = lease_ms;
	if (ticket) {
		call->ticket = ticket;
		ticket->call = call;
	} else {
		call->watchdog = true;
		grant->renewing = true;
		call->renew_lane = (unsigned)(snecki_lane_of(core, grant->entry) - core->lanes);
		core->lanes[call->renew_lane].renewals_inflight++;
		core->renewals_sent++;
	}
	snecki_call_send(core, call);
}

static void renew_now(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	/* The next one by the pace; a failure moves it closer. */
	do
		grant->renew_at_ns += interval_ns(grant);
	while (grant->renew_at_ns <= now_ns);
	/* What is held for so long is worth a channel. Sooner it is renewed only because the connection
	 * broke, and then nothing shall come between the renewals. */
	if (now_ns - grant->granted_ns >= interval_ns(grant) / 2)
		snecki_grant_want_hints(core, grant);
	snecki_lease_renew(core, grant, NULL, grant->lease_ms);
	snecki_lease_arm(core, grant);
}

void snecki_lease_renew_soon(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	if (grant->renewing || !snecki_list_empty(&grant->in_line))
		return;
	struct lock_lane *lane = snecki_lane_of(core, grant->entry);
	if (lane->renewals_inflight < RENEW_INFLIGHT_MAX)
		renew_now(core, grant, now_ns);
	else
		snecki_list_append(&lane->renew_line, &grant->in_line);
}

void snecki_lease_renew_next(struct lock_core *core, struct lock_lane *lane, int64_t now_ns) {
	while (lane->renewals_inflight < RENEW_INFLIGHT_MAX && !snecki_list_empty(&lane->renew_line)) {
		struct lock_grant *grant = LIST_ITEM(lane->renew_line.next, struct lock_grant, in_line);
		snecki_list_remove(&grant->in_line);
		if (grant->state == GRANT_HELD && !grant->renewing && snecki_grant_renewed(grant))
			renew_now(core, grant, now_ns);
	}
}

/* By how much a renewal may come before its time, to go with another. The pace stays: it is not renewed more
 * often, but at times that differ by so much. */
static int64_t early_ns(const struct lock_grant *grant) {
	return interval_ns(grant) / 64;
}

/* Some renewals have just been sent: those that are due very soon go with them. Each by itself would cost
 * both sides a turn of their loops, which is more than the renewal. Not more than so many, for the server
 * serves nobody else meanwhile. */
void snecki_lease_renew_along(struct lock_core *core, uint64_t sent_n, int64_t now_ns) {
	for (; sent_n < RENEW_ALONG_MAX; sent_n++) {
		struct heap_node *node = snecki_heap_min(&core->timers);
		struct lock_grant *grant = node ? HEAP_ITEM(node, struct lock_grant, timer) : NULL;
		if (!grant || grant->state != GRANT_HELD || node->key != grant->renew_at_ns ||
		        node->key > now_ns + early_ns(grant) || grant->renewing ||
		        !snecki_list_empty(&grant->in_line) || !snecki_grant_renewed(grant) ||
		        !snecki_grant_named(grant))
			return;
		struct lock_lane *lane = snecki_lane_of(core, grant->entry);
		if (lane->renewals_inflight >= RENEW_INFLIGHT_MAX)
			return;
		renew_now(core, grant, now_ns);
	}
}

static void renew_due(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	if (grant->conv == CONV_DOWN || grant->conv == CONV_DETACH) /* whose answer lengthens the lease */
		grant->renew_at_ns = now_ns + interval_ns(grant) / 8;
	else
		snecki_lease_renew_soon(core, grant, now_ns);
}

static void expire_fixed(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	bool any = false;

	LIST_EACH (h, &grant->holds) {
		struct lock_hold *hold = LIST_ITEM(h, struct lock_hold, in_grant);
		if (hold->fixed_until_ns <= now_ns) {
			grant->linger_ms = 0;
			snecki_hold_abandon(core, hold, SNECK_ELOST, now_ns);
			lose_hold(core, hold, HOLD_LOST);
			any = true;
		}
	}
	if (any)
		snecki_grant_settle(core, grant, NULL, now_ns);
}

static void held_timer(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	if (now_ns >= grant->valid_until_ns) {
		snecki_lease_expire(core, grant, now_ns);
		return;
	}
	if (snecki_grant_renewed(grant)) {
		if (now_ns >= suspect_at(core, grant))
			snecki_lease_suspect(core, grant, true);
		if (!grant->renewing && snecki_list_empty(&grant->in_line) && now_ns >= grant->renew_at_ns)
			renew_due(core, grant, now_ns);
	}
	if (beats(grant) && !grant->beating && now_ns >= grant->beat_at_ns)
		snecki_grant_beat(core, grant, now_ns);
	if (!grant->marking && now_ns >= grant->mark_at_ns)
		snecki_linger_mark(core, grant, now_ns);
	if (now_ns >= grant->retry_at_ns) {
		grant->retry_at_ns = NS_NEVER;
		snecki_conv_resend(core, grant, now_ns);
	}
	snecki_lease_arm(core, grant);
	expire_fixed(core, grant, now_ns); /* last: it may let go of the grant */
}

void snecki_lease_timer(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	switch (grant->state) {
	case GRANT_ASKED:
		if (now_ns >= grant->retry_at_ns) {
			grant->retry_at_ns = NS_NEVER;
			if (!snecki_grant_ask(core, grant))
				grant->retry_at_ns = now_ns + RETRY_NS;
		}
		snecki_lease_arm(core, grant);
		return;
	case GRANT_QUEUED:
		snecki_grant_beat(core, grant, now_ns);
		snecki_lease_arm(core, grant);
		return;
	case GRANT_HELD:
		held_timer(core, grant, now_ns);
		return;
	case GRANT_LEAVING:
		if (now_ns >= grant->leave_until_ns && snecki_list_empty(&grant->calls)) {
			if (grant->ticket)
				snecki_wish_finish(core, grant->ticket, SNECK_EUNKNOWN, NULL);
			snecki_grant_drop(core, grant);
			return;
		}
		grant->retry_at_ns = NS_NEVER;
		snecki_grant_send_leave(core, grant, now_ns);
		snecki_lease_arm(core, grant);
		return;
	}
}

/* ---- The server's clock -------------------------------------------------------------------------*/

static void clock_jumped(struct lock_core *core, unsigned lane, int64_t ahead_ns, int64_t now_ns) {
	for (struct lock_entry *entry = NULL; (entry = snecki_entry_next(core, entry));) {
		if (entry->lane != lane && entry->lane != LANE_UNKNOWN)
			continue;
		LIST_EACH (g, &entry->grants) {
			struct lock_grant *grant = LIST_ITEM(g, struct lock_grant, in_entry);
			grant->beat_valid_ns -= ahead_ns;
			if (grant->state != GRANT_HELD ||
			        ahead_ns <= snecki_core_margin_ms(core, lease_of(core, grant)) * NS_PER_MS)
				continue;
			grant->valid_until_ns -= ahead_ns;
			grant->renew_at_ns = now_ns;
			snecki_lease_suspect(core, grant, true);
			snecki_lease_arm(core, grant);
		}
	}
}

void snecki_lease_clock(struct lock_core *core, unsigned lane, const struct lock_outcome *outcome,
        int64_t sent_ns, int64_t now_ns) {
	struct lock_lane *clock = &core->lanes[lane];

	if (outcome->server_us <= 0 || sent_ns <= 0)
		return;
	if (clock->clock_server_us) {
		int64_t server_ns = (outcome->server_us - clock->clock_server_us) * 1000;
		int64_t ahead_ns = server_ns - (now_ns - clock->clock_sent_ns);
		if (ahead_ns > 2 * NS_PER_MS)
			clock_jumped(core, lane, ahead_ns, now_ns);
	}
	clock->clock_server_us = outcome->server_us;
	clock->clock_sent_ns = sent_ns;
}
