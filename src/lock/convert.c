/* SPDX-License-Identifier: MIT */
/* Conversions of a held grant: upgrade and downgrade. The third, the rename of a detach, has its own
 * file; what they have in common is here.
 *
 * Each renames the grant to a fresh attempt, so a copy of the request that arrives late finds its
 * old attempt gone and does nothing. Until the answer is there the grant has two attempts, and only
 * the conversion's own answers decide which one is ours. One conversion at a time per grant; one
 * upgrade at a time per entry. */
#include "lock/private.h"

#include <string.h>

#include <sneck/error.h>

static void finish_wish(struct lock_core *core, struct lock_grant *grant, int code, const char *detail) {
	if (grant->wish)
		snecki_wish_finish(core, grant->wish, code, detail);
}

/* The conversion is over, one way or the other; do what waited for that. */
void snecki_conv_over(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	if (grant->release_after_conv && snecki_grant_empty(grant)) {
		struct lock_wish *ticket = grant->ticket;
		grant->release_after_conv = false;
		grant->ticket = NULL;
		snecki_grant_leave(core, grant, ticket, now_ns);
		return;
	}
	grant->release_after_conv = false;
	snecki_lease_arm(core, grant);
}

/* The server says that there is nothing to convert. */
void snecki_conv_lost(struct lock_core *core, struct lock_grant *grant, const struct lock_outcome *outcome,
        int64_t now_ns) {
	snecki_grant_end_conv(core, grant); /* answered: nothing of it is under way but what is listed */
	snecki_lease_lose(core, grant, outcome->status == LOCK_BROKEN ? HOLD_BROKEN : HOLD_LOST, now_ns);
}

/* ---- Upgrade ------------------------------------------------------------------------------------*/

/* Does another owner of this session hold the lock? */
bool snecki_others_hold(const struct lock_entry *entry, uint64_t owner) {
	LIST_EACH (g, &entry->grants) {
		const struct lock_grant *grant = LIST_ITEM(g, struct lock_grant, in_entry);

		LIST_EACH (h, &grant->holds)
			if (LIST_ITEM(h, struct lock_hold, in_grant)->owner != owner)
				return true;
	}
	return false;
}

static bool upgrades(const struct lock_grant *grant) {
	return grant->conv == CONV_UP_ASKED || grant->conv == CONV_UP_QUEUED || grant->conv == CONV_UP_LOCAL;
}

/* WRITE is ours, or may be ours by now, on the server. */
bool snecki_grant_writes(const struct lock_grant *grant) {
	if (grant->state != GRANT_HELD)
		return grant->state != GRANT_LEAVING && grant->vouched && grant->mode == 'W';
	return grant->mode == 'W' || upgrades(grant) || grant->conv == CONV_UP_CANCEL;
}

bool snecki_entry_writes(const struct lock_entry *entry) {
	LIST_EACH (g, &entry->grants)
		if (snecki_grant_writes(LIST_ITEM(g, struct lock_grant, in_entry)))
			return true;
	return false;
}

static bool upgrade_under_way(const struct lock_entry *entry) {
	LIST_EACH (g, &entry->grants)
		if (upgrades(LIST_ITEM(g, struct lock_grant, in_entry)))
			return true;
	return false;
}

/* One owner holds everything here: from now on under one number, or a store that has seen the latest
 * would refuse the others. */
static uint64_t renumber(struct lock_entry *entry, uint64_t token) {
	LIST_EACH (g, &entry->grants)
		LIST_EACH (h, &LIST_ITEM(g, struct lock_grant, in_entry)->holds)
			if (LIST_ITEM(h, struct lock_hold, in_grant)->token > token)
				token = LIST_ITEM(h, struct lock_hold, in_grant)->token;
	LIST_EACH (g, &entry->grants)
		LIST_EACH (h, &LIST_ITEM(g, struct lock_grant, in_entry)->holds)
			LIST_ITEM(h, struct lock_hold, in_grant)->token = token;
	return token;
}

/* An upgrade is being withdrawn, or a writer turns reader: the numbers of another upgrade would get
 * between theirs. */
static bool converts(const struct lock_entry *entry) {
	LIST_EACH (g, &entry->grants) {
		const struct lock_grant *grant = LIST_ITEM(g, struct lock_grant, in_entry);
		if (grant->conv == CONV_UP_CANCEL || grant->conv == CONV_DOWN)
			return true;
	}
	return false;
}

void snecki_conv_start_later(struct lock_core *core, struct lock_entry *entry, int64_t now_ns) {
	size_t n = 0;

	LIST_EACH (at, &entry->later)
		n++;
	for (; n > 0 && !converts(entry); n--) { /* each once: it may have to wait again */
		struct lock_wish *wish = LIST_ITEM(entry->later.next, struct lock_wish, node);
		snecki_list_remove(&wish->node);
		snecki_queue_again(core, entry, wish, now_ns);
	}
}

static void upgrade_done(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	struct lock_wish *wish = grant->wish;

	grant->conv = CONV_NONE;
	grant->release_after_conv = false;
	if (grant->ticket) /* the release of a reader: its grant goes on as the writer's */
		snecki_wish_finish(core, grant->ticket, 0, NULL);
	uint64_t token = renumber(grant->entry, grant->token);
	if (wish->kind == WISH_UPGRADE)
		wish->hold->mode = 'W';
	else
		snecki_hold_attach(core, grant, wish, token, now_ns);
	snecki_wish_finish(core, wish, 0, NULL);
	snecki_lease_arm(core, grant);
}

/* wish->grant is the grant to be upgraded; the wish is an upgrade of a hold in it, or an acquire of
 * WRITE by an owner that reads. */
void snecki_conv_upgrade(struct lock_core *core, struct lock_wish *wish, int64_t now_ns) {
	struct lock_grant *grant = wish->grant;
	struct lock_entry *entry = grant->entry;

	if (snecki_layout_of(grant)->no_upgrade && grant->mode == 'R') {
		wish->grant = NULL;
		snecki_wish_finish(core, wish, wish->kind == WISH_UPGRADE ? SNECK_ENOTSUP : SNECK_EDEADLK,
		        "in this dialect a reader cannot come to write: release READ first");
		return;
	}
	if (upgrade_under_way(entry)) {
		entry->local_holder = true;
		entry->holder_mode = 'R';
		snecki_wish_refuse(core, wish, SNECK_EDEADLK);
		return;
	}
	if (grant->conv != CONV_NONE || grant->wish || converts(entry)) {
		wish->grant = NULL;
		if (wish->nowait)
			snecki_wish_finish(
			        core, wish, SNECK_EBUSY, "another conversion is under way; try again");
		else
			snecki_list_append(&entry->later, &wish->node);
		return;
	}
	if (wish->nowait && snecki_others_hold(entry, wish->owner)) {
		entry->local_holder = true;
		entry->holder_mode = 'R';
		snecki_wish_refuse(core, wish, SNECK_EBUSY);
		return;
	}
	grant->wish = wish;
	if (grant->mode == 'W') { /* covered already: WRITE is ours for the sake of another hold */
		grant->conv = CONV_UP_LOCAL;
		if (!snecki_others_hold(entry, wish->owner) && snecki_ack_fits(core, grant, wish))
			upgrade_done(core, grant, now_ns);
		return;
	}
	grant->queue_flag = !wish->nowait;
	grant->early = false;
	snecki_grant_begin_conv(core, grant, CONV_UP_ASKED);
	snecki_conv_send(core, grant, now_ns);
}

void snecki_core_upgrade(struct lock_core *core, struct lock_wish *wish, int64_t now_ns) {
	snecki_core_run(core, now_ns);
	struct lock_hold *hold = wish->hold;
	struct lock_entry *entry = hold->entry;
	if (!snecki_wish_begin_about(core, wish))
		return;
	if (hold->mode == 'W') {
		snecki_wish_finish(core, wish, 0, NULL);
		return;
	}
	wish->owner = hold->owner;
	wish->grant = hold->grant;
	snecki_conv_upgrade(core, wish, now_ns);
	snecki_pump(core, entry, now_ns);
	snecki_entry_settle(entry);
}

/* WRITE is ours on the server. */
void snecki_conv_granted(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	snecki_grant_tell_siblings(grant, grant->server_token);
	snecki_grant_rename(core, grant);
	grant->mode = 'W';  /* as wanted as it was: those who wait have not been told that we went before */
	if (!grant->wish) { /* given up meanwhile */
		if (grant->release_after_conv)
			snecki_conv_over(core, grant, now_ns);
		else
			snecki_conv_downgrade(core, grant, NULL, now_ns);
		return;
	}
	grant->conv = CONV_UP_LOCAL;
	snecki_lease_arm(core, grant); /* the pump finishes it as soon as no other owner here reads */
}

void snecki_conv_try_finish(struct lock_core *core, struct lock_entry *entry, int64_t now_ns) {
	LIST_EACH (g, &entry->grants) {
		struct lock_grant *grant = LIST_ITEM(g, struct lock_grant, in_entry);
		struct lock_wish *wish = grant->wish;
		if (grant->conv != CONV_UP_LOCAL || !wish || snecki_others_hold(entry, wish->owner))
			continue;
		if (now_ns >= grant->valid_until_ns ||
		        (wish->kind == WISH_UPGRADE && now_ns >= snecki_hold_valid_until(wish->hold)))
			continue; /* its own timer is due as well, and ends it */
		if (snecki_ack_fits(core, grant, wish))
			upgrade_done(core, grant, now_ns);
	}
}

static void upgrade_refused(
        struct lock_core *core, struct lock_grant *grant, int code, const char *detail, int64_t now_ns) {
	struct lock_wish *wish = grant->wish;
	bool copies = snecki_grant_unaccounted(grant, grant->conv_attempt);

	if (!copies)
		snecki_grant_end_conv(core, grant);
	if (wish && (code == SNECK_EBUSY || code == SNECK_EDEADLK))
		snecki_wish_refuse(core, wish, code);
	else
		finish_wish(core, grant, code, detail);
	if (copies) { /* one that arrives late would still convert what we hold */
		grant->conv = CONV_UP_CANCEL;
		snecki_conv_send(core, grant, now_ns);
		return;
	}
	snecki_conv_over(core, grant, now_ns);
}

/* The waiting upgrader was taken for dead; the read hold may well be alive. */
static void upgrade_anew(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	if (snecki_grant_unaccounted(grant, grant->conv_attempt)) {
		grant->conv = CONV_UP_CANCEL; /* a late copy may still convert what we hold: first end it */
	} else {
		snecki_grant_end_conv(core, grant);
		snecki_grant_begin_conv(core, grant, CONV_UP_ASKED);
		grant->early = false;
	}
	snecki_conv_send(core, grant, now_ns);
}

static void upgrade_waits(struct lock_core *core, struct lock_grant *grant,
        const struct lock_outcome *outcome, int64_t sent_ns, int64_t now_ns) {
	int64_t wait_ms = core->config.wait_lease_ms;

	grant->conv = CONV_UP_QUEUED;
	grant->last_code = 0;
	grant->token_seen = outcome->token;
	grant->beat_valid_ns = sent_ns + (wait_ms - snecki_core_margin_ms(core, wait_ms)) * NS_PER_MS;
	int64_t beat_at = snecki_layout_of(grant)->polls ? snecki_grant_next_poll(core, grant, now_ns)
	                                                 : snecki_grant_next_beat(core, sent_ns);
	grant->beat_at_ns = grant->early ? now_ns : beat_at;
	grant->early = false;
	snecki_grant_listen(core, grant, true);
	if (grant->wish)
		grant->wish->answered = true;
	snecki_lease_arm(core, grant);
}

static void upgrade_failed(struct lock_core *core, struct lock_grant *grant,
        const struct lock_outcome *outcome, const char *detail, int64_t now_ns) {
	bool copies = snecki_grant_unaccounted(grant, grant->conv_attempt);

	if (grant->conv == CONV_UP_QUEUED) {
		grant->beat_at_ns = now_ns + RETRY_NS;
	} else if (outcome->retry || (outcome->code == SNECK_ECONN && copies)) {
		grant->retry_at_ns = now_ns + RETRY_NS;
	} else {
		upgrade_refused(core, grant, outcome->code, detail, now_ns);
		return;
	}
	snecki_lease_arm(core, grant);
}

static void on_upgrade(struct lock_core *core, struct lock_grant *grant, const struct lock_call *call,
        const struct lock_outcome *outcome, const char *detail, int64_t sent_ns, int64_t now_ns) {
	if (grant->conv != CONV_UP_ASKED && grant->conv != CONV_UP_QUEUED) {
		grant->conv_won = grant->conv_won || outcome->status == LOCK_GRANTED;
		return; /* given up: the cancel behind it settles it. Or a message was faster */
	}
	switch (outcome->status) {
	case LOCK_GRANTED:
		grant->token = outcome->token;
		grant->server_token = outcome->token;
		snecki_lease_converted(core, grant, outcome, call->op.lease_ms, sent_ns, now_ns);
		snecki_conv_granted(core, grant, now_ns);
		return;
	case LOCK_WAITING:
		snecki_note_holder(grant->entry, outcome);
		upgrade_waits(core, grant, outcome, sent_ns, now_ns);
		return;
	case LOCK_BUSY:
	case LOCK_DEADLOCK:
		snecki_note_holder(grant->entry, outcome);
		upgrade_refused(core, grant, outcome->status == LOCK_BUSY ? SNECK_EBUSY : SNECK_EDEADLK,
		        detail, now_ns);
		return;
	case LOCK_UNKNOWN:
		if (outcome->code == SNECK_EACCES) { /* a right that is missing does not come by asking */
			snecki_grant_bury(grant, grant->conv_attempt);
			upgrade_refused(core, grant, outcome->code, detail, now_ns);
			return;
		}
		core->counters.resends++;
		if (grant->conv == CONV_UP_QUEUED)
			grant->beat_at_ns = now_ns + (outcome->code ? RETRY_NS : 0);
		else if (outcome->code)
			grant->retry_at_ns = now_ns + RETRY_NS;
		else
			snecki_conv_send(core, grant, now_ns);
		snecki_lease_arm(core, grant);
		return;
	case LOCK_FAILED:
		upgrade_failed(core, grant, outcome, detail, now_ns);
		return;
	case LOCK_BROKEN:
		if (outcome->deadline_ms > 0) { /* the wait alone: READ is still held */
			upgrade_refused(core, grant, SNECK_EBROKEN, detail, now_ns);
			return;
		}
		snecki_conv_lost(core, grant, outcome, now_ns);
		return;
	case LOCK_GONE:
	case LOCK_BURIED:
	case LOCK_DONE:
		if (grant->conv == CONV_UP_QUEUED && outcome->status == LOCK_GONE)
			upgrade_anew(core, grant, now_ns);
		else
			snecki_conv_lost(core, grant, outcome, now_ns);
		return;
	}
}

/* What to bury with a withdrawn upgrade, so that a late copy of it neither waits nor wins for nobody.
 * Not the attempt that is held: its turn comes when it is given back. */
static size_t lost_requests(const struct lock_grant *grant, uint64_t *ret) {
	size_t n = 0;

	for (size_t i = 0; i < grant->bury_n; i++)
		if (grant->bury[i] != grant->attempt)
			ret[n++] = grant->bury[i];
	return n;
}

static void on_upgrade_cancel(struct lock_core *core, struct lock_grant *grant, const struct lock_call *call,
        const struct lock_outcome *outcome, int64_t now_ns) {
	if (grant->conv != CONV_UP_CANCEL)
		return;
	if (outcome->status == LOCK_UNKNOWN)
		core->counters.resends++;
	if (outcome->status == LOCK_UNKNOWN && outcome->code == 0) {
		snecki_conv_send(core, grant, now_ns);
		return;
	}
	if (outcome->status == LOCK_UNKNOWN || outcome->status == LOCK_FAILED) {
		grant->retry_at_ns = now_ns + snecki_pause_ns(grant, outcome, RETRY_NS);
		snecki_lease_arm(core, grant);
		return;
	}
	if (outcome->released_grant) {
		grant->token = outcome->token;
		grant->server_token = outcome->token;
		snecki_conv_granted(core, grant, now_ns);
		return;
	}
	if (outcome->status == LOCK_GONE || grant->conv_won) { /* WRITE was ours, and has ended */
		snecki_conv_lost(core, grant, outcome, now_ns);
		return;
	}
	uint64_t lost[LOCK_BURY_MAX];
	if (call->op.bury_n < lost_requests(grant, lost)) { /* it was in line when they were lost */
		snecki_conv_send(core, grant, now_ns);
		return;
	}
	if (grant->wish) { /* it is still wanted, under another name */
		snecki_grant_unbury(grant, grant->conv_attempt);
		upgrade_anew(core, grant, now_ns);
		return;
	}
	snecki_grant_end_conv(core, grant);
	snecki_conv_over(core, grant, now_ns);
}

/* ---- Downgrade ----------------------------------------------------------------------------------*/

/* `ticket`: the release or downgrade that waits for it. */
void snecki_conv_downgrade(
        struct lock_core *core, struct lock_grant *grant, struct lock_wish *ticket, int64_t now_ns) {
	if (ticket) {
		grant->wish = ticket;
		ticket->grant = grant;
	}
	snecki_grant_begin_conv(core, grant, CONV_DOWN);
	snecki_conv_send(core, grant, now_ns);
}

void snecki_core_downgrade(struct lock_core *core, struct lock_wish *wish, int64_t now_ns) {
	snecki_core_run(core, now_ns);
	struct lock_hold *hold = wish->hold;
	struct lock_entry *entry = hold->entry;
	if (!snecki_wish_begin_about(core, wish))
		return;
	if (hold->mode == 'R') {
		snecki_wish_finish(core, wish, 0, NULL);
		return;
	}
	if (snecki_layout_of(hold->grant)->no_downgrade) {
		snecki_wish_finish(core, wish, SNECK_ENOTSUP,
		        "in this dialect a writer cannot come to read: release WRITE and acquire READ");
		return;
	}
	if (hold->grant->conv != CONV_NONE || hold->grant->wish) {
		snecki_wish_finish(
		        core, wish, SNECK_EBUSY, "another conversion of this hold is under way; try again");
		return;
	}
	hold->mode = 'R';
	snecki_grant_settle(core, hold->grant, wish, now_ns);
	snecki_pump(core, entry, now_ns);
	snecki_entry_settle(entry);
}

static void on_downgrade(struct lock_core *core, struct lock_grant *grant, const struct lock_call *call,
        const struct lock_outcome *outcome, const char *detail, int64_t sent_ns, int64_t now_ns) {
	if (grant->conv != CONV_DOWN)
		return;
	switch (outcome->status) {
	case LOCK_GRANTED:
		snecki_grant_rename(core, grant);
		grant->mode = 'R';
		snecki_lease_wanted(core, grant, outcome->wanted, sent_ns, now_ns);
		grant->token = outcome->token;
		grant->server_token = outcome->token;
		snecki_grant_tell_siblings(grant, outcome->token);
		snecki_lease_converted(core, grant, outcome, call->op.lease_ms, sent_ns, now_ns);
		LIST_EACH (h, &grant->holds)
			LIST_ITEM(h, struct lock_hold, in_grant)->token = grant->token;
		finish_wish(core, grant, 0, NULL);
		snecki_conv_over(core, grant, now_ns);
		return;
	case LOCK_UNKNOWN:
		core->counters.resends++;
		if (outcome->code == 0) {
			snecki_conv_send(core, grant, now_ns);
		} else {
			grant->retry_at_ns = now_ns + RETRY_NS;
			snecki_lease_arm(core, grant);
		}
		return;
	case LOCK_FAILED: /* WRITE covers the readers meanwhile */
		if (!outcome->retry && outcome->code != SNECK_ECONN)
			finish_wish(core, grant, outcome->code, detail);
		grant->retry_at_ns = now_ns + RETRY_NS;
		snecki_lease_arm(core, grant);
		return;
	default:
		snecki_conv_lost(core, grant, outcome, now_ns);
		return;
	}
}

/* ---- Common -------------------------------------------------------------------------------------*/

static void fill_conv(struct lock_core *core, struct lock_grant *grant, struct lock_call *call) {
	call->op.attempt = grant->conv_attempt;
	call->op.old = grant->attempt;
	switch (grant->conv) {
	case CONV_UP_ASKED:
		call->op.mode = 'W';
		call->op.queue = grant->queue_flag;
		call->op.own_n = snecki_grant_own_list(grant, 0, call->op.own);
		return;
	case CONV_UP_CANCEL:
		call->op.mode = 'W';
		call->op.bury_n = lost_requests(grant, call->op.bury);
		return;
	case CONV_DOWN:
		call->op.mode = 'R';
		return;
	case CONV_DETACH:
		call->op.old = 0;
		call->op.keep_old = grant->keep_old;
		call->op.shrink_expiry = grant->wish != NULL;
		if (grant->wish)
			call->op.lease_ms = grant->wish->lease_ms;
		if (grant->longest_ms < call->op.lease_ms)
			grant->longest_ms = call->op.lease_ms;
		core->config.hooks->own_id(core->config.ctx, snecki_layout_of(grant), grant->mode,
		        grant->attempt, call->op.foreign_id);
		return;
	case CONV_NONE:
	case CONV_UP_QUEUED:
	case CONV_UP_LOCAL:
		return;
	}
}

static enum lock_op_kind conv_kind(enum conv_state conv) {
	switch (conv) {
	case CONV_UP_CANCEL:
		return OP_CANCEL;
	case CONV_DOWN:
		return OP_DOWNGRADE;
	case CONV_DETACH:
		return OP_RENAME;
	default:
		return OP_UPGRADE;
	}
}

void snecki_conv_send(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	struct lock_call *call = snecki_call_new(core, grant->entry, grant, conv_kind(grant->conv));

	grant->retry_at_ns = NS_NEVER;
	if (!call) {
		grant->retry_at_ns = now_ns + RETRY_NS;
	} else {
		fill_conv(core, grant, call);
		snecki_call_send(core, call);
	}
	snecki_lease_arm(core, grant);
}

void snecki_conv_resend(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	if (grant->conv == CONV_UP_ASKED || grant->conv == CONV_UP_CANCEL || grant->conv == CONV_DOWN ||
	        grant->conv == CONV_DETACH)
		snecki_conv_send(core, grant, now_ns);
}

void snecki_conv_reply(struct lock_core *core, struct lock_grant *grant, struct lock_call *call,
        const struct lock_outcome *outcome, const char *detail, int64_t sent_ns, int64_t now_ns) {
	if (grant->state != GRANT_HELD || call->op.attempt != grant->conv_attempt)
		return;
	switch (call->op.kind) {
	case OP_UPGRADE:
	case OP_BEAT:
		on_upgrade(core, grant, call, outcome, detail, sent_ns, now_ns);
		return;
	case OP_CANCEL:
		on_upgrade_cancel(core, grant, call, outcome, now_ns);
		return;
	case OP_DOWNGRADE:
		on_downgrade(core, grant, call, outcome, detail, sent_ns, now_ns);
		return;
	case OP_RENAME:
		snecki_detach_reply(core, grant, call, outcome, detail, sent_ns, now_ns);
		return;
	default:
		return;
	}
}

/* The wish will be finished by the caller; the conversion goes on, or is withdrawn. */
void snecki_conv_give_up(struct lock_core *core, struct lock_wish *wish, int64_t now_ns) {
	struct lock_grant *grant = wish->grant;
	struct lock_wish *ticket = grant->ticket;

	if (grant->wish == wish)
		grant->wish = NULL;
	wish->grant = NULL;
	switch (grant->conv) {
	case CONV_UP_ASKED:
	case CONV_UP_QUEUED:
		grant->conv = CONV_UP_CANCEL;
		snecki_conv_send(core, grant, now_ns);
		return;
	case CONV_UP_LOCAL: /* WRITE was ours, but other owners here still read, or replicas did not have it
	                     */
		grant->conv = CONV_NONE;
		grant->release_after_conv = false;
		grant->ticket = NULL;
		snecki_grant_settle(core, grant, ticket, now_ns);
		return;
	case CONV_NONE:
	case CONV_UP_CANCEL:
	case CONV_DOWN:
	case CONV_DETACH:
		return;
	}
}
