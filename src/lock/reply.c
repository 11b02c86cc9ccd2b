/* SPDX-License-Identifier: MIT */
/* What an answer does to a grant. Messages and conversions have their own files.
 *
 * Nothing is believed that is not about the attempt it claims to be about: the dialect compares the
 * echo, and here the token must be the one that the hold was given (or that we have reported since). */
#include "lock/private.h"

#include <stdlib.h>
#include <string.h>

#include <sneck/error.h>

static void note_refusal(struct lock_grant *grant, int code, const char *detail) {
	size_t len = detail ? strnlen(detail, sizeof grant->detail - 1) : 0;

	grant->last_code = code;
	if (len)
		memcpy(grant->detail, detail, len);
	grant->detail[len] = '\0';
}

void snecki_note_holder(struct lock_entry *entry, const struct lock_outcome *outcome) {
	entry->local_holder = false;
	memcpy(entry->holder, outcome->holder, sizeof entry->holder);
	entry->holder_mode = outcome->holder_mode;
	entry->ahead = outcome->ahead;
}

/* The matter is over without a hold here. What the server may have must be given back. */
static void end_grant(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	if (grant->bury_n || grant->state == GRANT_HELD)
		snecki_grant_leave(core, grant, NULL, now_ns);
	else
		snecki_grant_drop(core, grant);
}

/* The attempt cannot become a hold any more, but whoever wished for it still does: ask anew. */
static void ask_anew(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	struct lock_wish *wish = grant->wish;

	if (wish && grant->foreign_id[0]) { /* what was to be adopted cannot be had again */
		snecki_wish_finish(core, wish, SNECK_ELOST, NULL);
		wish = NULL;
	}
	if (!wish) { /* shared: the pump asks for the head of the queue */
		end_grant(core, grant, now_ns);
		return;
	}
	struct lock_grant *next = snecki_grant_new(core, grant->entry, grant->mode, grant->lease_ms);
	if (!next) {
		snecki_wish_finish(core, wish, SNECK_ENOMEM, NULL);
		end_grant(core, grant, now_ns);
		return;
	}
	next->private_ = true;
	next->queue_flag = grant->queue_flag;
	next->prefer = grant->prefer;
	grant->wish = NULL;
	next->wish = wish;
	wish->grant = next;
	end_grant(core, grant, now_ns);
	if (!snecki_grant_ask(core, next)) {
		snecki_wish_finish(core, wish, SNECK_ENOMEM, NULL);
		snecki_grant_drop(core, next);
	}
}

/* ---- Granted ------------------------------------------------------------------------------------*/

/* It was let in beside what its owner held. If that has gone meanwhile it should have waited for its
 * turn: another owner here may have come to write, under the very number that it was told. */
static bool too_late_here(const struct lock_grant *grant, int64_t now_ns) {
	bool conflict = false, holds = false;

	if (!grant->wish || !grant->beside)
		return false; /* what the server decides by itself is newer than what we believe */
	LIST_EACH (g, &grant->entry->grants)
		LIST_EACH (h, &LIST_ITEM(g, struct lock_grant, in_entry)->holds) {
			const struct lock_hold *hold = LIST_ITEM(h, struct lock_hold, in_grant);
			bool own = hold->owner == grant->wish->owner;
			if (snecki_hold_valid_until(hold) <= now_ns)
				continue;
			holds = holds || own;
			conflict = conflict || (!own && (hold->mode == 'W' || grant->mode == 'W'));
		}
	return conflict || (grant->vouched && !holds);
}

static void become_held(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	/* The answer took longer than the lease, or than the reason for it. */
	if (grant->valid_until_ns <= now_ns || too_late_here(grant, now_ns)) {
		grant->state = GRANT_HELD; /* so that it is released */
		ask_anew(core, grant, now_ns);
		return;
	}
	snecki_lease_held(core, grant, now_ns);
	snecki_queue_granted(core, grant, now_ns);
}

static void granted_by_answer(struct lock_core *core, struct lock_grant *grant,
        const struct lock_outcome *outcome, int64_t sent_ns, int64_t now_ns) {
	grant->token = outcome->token;
	grant->server_token = outcome->token;
	snecki_lease_wanted(core, grant, outcome->wanted, sent_ns, now_ns);
	grant->valid_until_ns = 0;
	snecki_lease_confirm(core, grant, outcome, grant->lease_ms, sent_ns, now_ns);
	become_held(core, grant, now_ns);
}

/* A waiter looks when the last holder's time is over: the head at once, those behind it a little later
 * each, so that it is theirs to notice only if the head is dead as well. */
static int64_t look_after_ms(const struct lock_outcome *outcome) {
	if (outcome->holder_deadline_ms <= 0)
		return INT32_MAX;
	int64_t left_ms = outcome->holder_deadline_ms - outcome->server_us / 1000 + 1;
	int64_t turn_ms = outcome->ahead < LOOK_SPREAD_MS / 2 ? (int64_t)outcome->ahead * 2 : LOOK_SPREAD_MS;

	return (left_ms > 1 ? left_ms : 1) + turn_ms;
}

static void now_waiting(struct lock_core *core, struct lock_grant *grant, const struct lock_outcome *outcome,
        int64_t sent_ns, int64_t now_ns) {
	int64_t wait_ms = core->config.wait_lease_ms;

	grant->state = GRANT_QUEUED;
	grant->vouched = false; /* from here on it waits for its turn */
	grant->last_code = 0;
	grant->token_seen = outcome->token;
	grant->beat_valid_ns = sent_ns + (wait_ms - snecki_core_margin_ms(core, wait_ms)) * NS_PER_MS;
	snecki_note_holder(grant->entry, outcome);
	if (grant->wish)
		grant->wish->answered = true;
	else
		snecki_queue_refuse_nowait(core, grant->entry);
	int64_t beat_at = snecki_layout_of(grant)->polls ? snecki_grant_next_poll(core, grant, now_ns)
	                                                 : snecki_grant_next_beat(core, sent_ns);
	int64_t look_at = now_ns + look_after_ms(outcome) * NS_PER_MS;
	if (look_at < beat_at)
		beat_at = look_at;
	grant->beat_at_ns = grant->early ? now_ns : beat_at;
	grant->early = false;
	snecki_grant_listen(core, grant, true);
	snecki_lease_arm(core, grant);
}

/* ---- Acquire ------------------------------------------------------------------------------------*/

/* It stood in the queue before, and the server has forgotten it since (a replica has taken over): who waits
 * goes on waiting, also while there is no link for a moment. */
static bool has_waited(const struct lock_grant *grant) {
	const struct lock_wish *wish = grant->wish;

	if (!wish && !snecki_list_empty(&grant->entry->queue))
		wish = LIST_ITEM(grant->entry->queue.next, struct lock_wish, node);
	return wish && wish->answered;
}

static void ask_failed(struct lock_core *core, struct lock_grant *grant, const struct lock_outcome *outcome,
        const char *detail, int64_t now_ns) {
	bool link_down = outcome->code == SNECK_ECONN;

	note_refusal(grant, outcome->code, detail);
	if (outcome->retry || (link_down && (grant->bury_n || has_waited(grant)))) {
		grant->retry_at_ns = now_ns + RETRY_NS;
		snecki_lease_arm(core, grant);
		return;
	}
	snecki_queue_fail(core, grant, outcome->code, detail);
	end_grant(core, grant, now_ns);
}

/* An operator has ended the wait (or what was to be adopted): whoever wished for it is told, and does not
 * come back by itself. */
static void ask_broken(struct lock_core *core, struct lock_grant *grant, const char *detail, int64_t now_ns) {
	snecki_queue_fail(core, grant, SNECK_EBROKEN, detail);
	end_grant(core, grant, now_ns);
}

static void on_ask(struct lock_core *core, struct lock_grant *grant, const struct lock_outcome *outcome,
        const char *detail, int64_t sent_ns, int64_t now_ns) {
	if (grant->state != GRANT_ASKED)
		return; /* given up meanwhile: the cancel that follows settles it */
	switch (outcome->status) {
	case LOCK_GRANTED:
		granted_by_answer(core, grant, outcome, sent_ns, now_ns);
		return;
	case LOCK_WAITING:
		now_waiting(core, grant, outcome, sent_ns, now_ns);
		return;
	case LOCK_BUSY:
	case LOCK_DEADLOCK:
		snecki_note_holder(grant->entry, outcome);
		if (grant->wish)
			snecki_wish_refuse(core, grant->wish, SNECK_EBUSY);
		else
			snecki_queue_refuse_nowait(core, grant->entry);
		end_grant(core, grant, now_ns);
		return;
	case LOCK_FAILED:
		ask_failed(core, grant, outcome, detail, now_ns);
		return;
	case LOCK_UNKNOWN:
		if (outcome->code ==
		        SNECK_EACCES) { /* a right is missing inside the script: it stays missing */
			snecki_queue_fail(core, grant, outcome->code, detail);
			end_grant(core, grant, now_ns);
			return;
		}
		core->counters.resends++;
		/* An error that comes again at once, as often as it is asked for, must not keep the server
		 * busy. */
		if (outcome->code != 0 || !snecki_grant_ask(core, grant)) {
			grant->retry_at_ns = now_ns + RETRY_NS;
			snecki_lease_arm(core, grant);
		}
		return;
	case LOCK_BROKEN:
		ask_broken(core, grant, detail, now_ns);
		return;
	case LOCK_GONE:
	case LOCK_BURIED:
	case LOCK_DONE:
		if (grant->foreign_id[0]) { /* adopt: what was to be adopted is not there */
			if (grant->wish)
				snecki_wish_finish(core, grant->wish, SNECK_ELOST, NULL);
			end_grant(core, grant, now_ns);
			return;
		}
		ask_anew(core, grant, now_ns);
		return;
	}
}

/* ---- Heartbeat and claim ------------------------------------------------------------------------*/

/* Another grant of this session on the same lock has moved the last token: a writer who reported the
 * numbers it used, or who left its own readers to a phase of theirs. Those who read on do so under the
 * new number, once nobody here is to write under it. Not for a grant with a copy of
 * its request under way: only the old number tells a hold that went on from one that such a copy brought
 * back. */
void snecki_grant_tell_siblings(struct lock_grant *grant, uint64_t token) {
	bool writes = snecki_entry_writes(grant->entry);

	LIST_EACH (g, &grant->entry->grants) {
		struct lock_grant *other = LIST_ITEM(g, struct lock_grant, in_entry);
		if (other == grant || other->state != GRANT_HELD || other->bury_n ||
		        token <= other->server_token)
			continue;
		other->server_token = token;
		if (other->mode != 'R' || writes)
			continue;
		other->token = token;
		LIST_EACH (h, &other->holds)
			LIST_ITEM(h, struct lock_hold, in_grant)->token = token;
	}
}

bool snecki_token_fits(
        struct lock_grant *grant, const struct lock_call *call, const struct lock_outcome *outcome) {
	uint64_t expected =
	        grant->server_token > call->op.last_token ? grant->server_token : call->op.last_token;

	if (outcome->token > expected && grant->beside) { /* moved by a grant whose answer is not here yet */
		grant->server_token = outcome->token;
		return true;
	}
	/* A number that was used here may have been reported by a request whose answer was lost. */
	if (outcome->token != expected && (outcome->token < expected || outcome->token > grant->token))
		return false;
	grant->server_token = outcome->token;
	snecki_grant_tell_siblings(grant, outcome->token);
	return true;
}

/* When to ask again. A right that is missing is missing until somebody grants it: that is tried ten times in
 * what is left of a lease, and not ten times a second. */
int64_t snecki_pause_ns(
        const struct lock_grant *grant, const struct lock_outcome *outcome, int64_t usual_ns) {
	int64_t rare_ns = grant->lease_ms * NS_PER_MS / 15;

	return outcome->code == SNECK_EACCES && rare_ns > usual_ns ? rare_ns : usual_ns;
}

static void on_claim(struct lock_core *core, struct lock_grant *grant, const struct lock_call *call,
        const struct lock_outcome *outcome, int64_t sent_ns, int64_t now_ns) {
	switch (outcome->status) {
	case LOCK_GRANTED:
		if (!snecki_token_fits(grant, call, outcome)) {
			if (!snecki_grant_named(grant))
				break; /* the number is that of its conversion */
			snecki_lease_lose(core, grant, HOLD_LOST, now_ns);
			return;
		}
		snecki_lease_confirm(core, grant, outcome, call->op.lease_ms, sent_ns, now_ns);
		if (grant->private_) /* until now the fixed lease could only be vouched for as the waiter's */
			snecki_lease_extend_fixed(core, grant, call->op.lease_ms, sent_ns);
		snecki_lease_wanted(core, grant, outcome->wanted, sent_ns, now_ns);
		grant->renew_at_ns = sent_ns + grant->lease_ms * NS_PER_MS / 3;
		break;
	case LOCK_BROKEN:
		snecki_lease_lose(core, grant, HOLD_BROKEN, now_ns);
		return;
	case LOCK_UNKNOWN:
		grant->beat_at_ns = now_ns + (outcome->code ? snecki_pause_ns(grant, outcome, RETRY_NS) : 0);
		break;
	case LOCK_FAILED:
		grant->beat_at_ns = now_ns + snecki_pause_ns(grant, outcome, RETRY_NS);
		break;
	case LOCK_WAITING:
		if (!call->claim) { /* said before the grant, and overtaken by its message */
			grant->beat_at_ns = now_ns;
			break;
		}
		snecki_grant_bury(grant, grant->attempt); /* it must not be granted to nobody */
		snecki_lease_lose(core, grant, HOLD_LOST, now_ns);
		return;
	default: /* gone: it is not ours, unless a conversion has renamed it */
		if (!snecki_grant_named(grant))
			break;
		snecki_lease_lose(core, grant, HOLD_LOST, now_ns);
		return;
	}
	snecki_lease_arm(core, grant);
}

static void on_wait_beat(struct lock_core *core, struct lock_grant *grant, const struct lock_outcome *outcome,
        const char *detail, int64_t sent_ns, int64_t now_ns) {
	switch (outcome->status) {
	case LOCK_GRANTED:
		core->counters.grants_by_beat++;
		granted_by_answer(core, grant, outcome, sent_ns, now_ns);
		return;
	case LOCK_WAITING:
		now_waiting(core, grant, outcome, sent_ns, now_ns);
		return;
	case LOCK_UNKNOWN:
		if (outcome->code == SNECK_EACCES) { /* as when it was asked for */
			snecki_queue_fail(core, grant, outcome->code, detail);
			snecki_grant_leave(core, grant, NULL, now_ns);
			return;
		}
		core->counters.resends++;
		grant->beat_at_ns = now_ns + (outcome->code ? RETRY_NS : 0);
		snecki_lease_arm(core, grant);
		return;
	case LOCK_FAILED:
		note_refusal(grant, outcome->code, detail);
		if (!outcome->retry && outcome->code != SNECK_ECONN) {
			snecki_queue_fail(core, grant, outcome->code, detail);
			snecki_grant_leave(core, grant, NULL, now_ns);
			return;
		}
		grant->beat_at_ns = now_ns + RETRY_NS;
		snecki_lease_arm(core, grant);
		return;
	case LOCK_BROKEN:
		ask_broken(core, grant, detail, now_ns);
		return;
	default: /* not in the queue any more: the server took us for dead, or forgot everything */
		ask_anew(core, grant, now_ns);
		return;
	}
}

static void on_beat(struct lock_core *core, struct lock_grant *grant, struct lock_call *call,
        const struct lock_outcome *outcome, const char *detail, int64_t sent_ns, int64_t now_ns) {
	grant->beating = false;
	if (call->op.old)
		snecki_conv_reply(core, grant, call, outcome, detail, sent_ns, now_ns);
	else if (grant->state == GRANT_QUEUED)
		on_wait_beat(core, grant, outcome, detail, sent_ns, now_ns);
	else if (grant->state == GRANT_HELD && call->op.attempt == grant->attempt)
		on_claim(core, grant, call, outcome, sent_ns, now_ns);
}

/* ---- Renew --------------------------------------------------------------------------------------*/

/* A renewal may cross a conversion: then it speaks of an attempt that is no longer (or not yet) ours. */
static bool crossed_conversion(
        struct lock_core *core, struct lock_grant *grant, const struct lock_call *call, int64_t now_ns) {
	if (call->op.attempt == grant->attempt && snecki_grant_named(grant))
		return false;
	if (grant->conv == CONV_UP_QUEUED)
		snecki_grant_beat(core, grant, now_ns); /* it tells whether the upgrade was granted */
	grant->renew_at_ns = now_ns + 10 * NS_PER_MS;
	return true;
}

static void renew_confirmed(struct lock_core *core, struct lock_grant *grant, const struct lock_call *call,
        const struct lock_outcome *outcome, int64_t sent_ns, int64_t now_ns) {
	struct lock_wish *ticket = call->ticket;

	core->counters.renewals++;
	snecki_lease_confirm(core, grant, outcome, call->op.lease_ms, sent_ns, now_ns);
	snecki_lease_wanted(core, grant, outcome->wanted, sent_ns, now_ns);
	grant->renew_tried = grant->renew_first;
	grant->renew_first = false;
	grant->renew_refused = false;
	snecki_linger_renewed(grant, now_ns);
	if (!ticket)
		return;
	struct lock_hold *hold = ticket->hold;
	if (hold->grant == grant && hold->fixed_until_ns != NS_NEVER) {
		int64_t until =
		        sent_ns +
		        (call->op.lease_ms - snecki_core_margin_ms(core, call->op.lease_ms)) * NS_PER_MS;
		if (until > hold->fixed_until_ns)
			hold->fixed_until_ns = until;
	}
	snecki_wish_finish(core, ticket, 0, NULL);
}

static void on_renew(struct lock_core *core, struct lock_grant *grant, struct lock_call *call,
        const struct lock_outcome *outcome, const char *detail, int64_t sent_ns, int64_t now_ns) {
	enum hold_state lost = outcome->status == LOCK_BROKEN ? HOLD_BROKEN : HOLD_LOST;
	struct lock_wish *ticket = call->ticket;
	bool acks = grant->ack_call == call;

	if (acks)
		grant->ack_call = NULL;

	if (grant->state != GRANT_HELD) {
		if (ticket)
			snecki_wish_finish(core, ticket, SNECK_ELOST, NULL);
		return;
	}
	bool ours = call->op.attempt == grant->attempt; /* not a name that it had before */
	if (outcome->status == LOCK_GRANTED && ours && snecki_token_fits(grant, call, outcome)) {
		renew_confirmed(core, grant, call, outcome, sent_ns, now_ns);
		if (acks)
			snecki_ack_answered(core, grant, call, outcome, detail, now_ns);
	} else if (outcome->status == LOCK_UNKNOWN || outcome->status == LOCK_FAILED) {
		int64_t again = grant->lease_ms * NS_PER_MS / 10;
		core->counters.renewal_failures++;
		grant->renew_at_ns =
		        now_ns + snecki_pause_ns(grant, outcome, again < RETRY_NS ? again : RETRY_NS);
		grant->renew_refused = true;
		if (ticket)
			snecki_wish_finish(core, ticket,
			        outcome->status == LOCK_FAILED || outcome->code == SNECK_EACCES
			                ? outcome->code
			                : SNECK_EUNKNOWN,
			        detail);
		if (acks)
			snecki_ack_failed(core, grant,
			        outcome->status == LOCK_FAILED ? outcome->code : SNECK_EREPLICAS, detail,
			        now_ns);
	} else if ((outcome->status != LOCK_BROKEN || !ours) &&
	           crossed_conversion(core, grant, call, now_ns)) {
		if (ticket)
			snecki_wish_finish(core, ticket, SNECK_EUNKNOWN, NULL);
	} else {
		if (acks && grant->private_ && snecki_grant_empty(grant)) /* it never was the program's */
			snecki_ack_failed(core, grant, SNECK_EREPLICAS,
			        "the grant was lost before the replicas had it", now_ns);
		snecki_lease_lose(core, grant, lost, now_ns); /* also ends the ticket's wish below */
		if (ticket && !ticket->done)
			snecki_wish_finish(
			        core, ticket, lost == HOLD_BROKEN ? SNECK_EBROKEN : SNECK_ELOST, NULL);
		return;
	}
	snecki_lease_arm(core, grant);
}

/* ---- Release and cancel -------------------------------------------------------------------------*/

static int release_code(const struct lock_grant *grant, const struct lock_outcome *outcome) {
	if (outcome->status == LOCK_BROKEN)
		return SNECK_EBROKEN;
	if (outcome->status == LOCK_GONE)
		return grant->resent_leave ? 0 : SNECK_ELOST; /* an earlier copy may have released it */
	return 0;
}

static void on_leave(struct lock_core *core, struct lock_grant *grant, const struct lock_call *call,
        const struct lock_outcome *outcome, const char *detail, int64_t now_ns) {
	struct lock_wish *ticket = grant->ticket;

	if (outcome->status == LOCK_UNKNOWN) {
		grant->resent_leave = true;
		core->counters.resends++;
		if (ticket && outcome->code == SNECK_EACCES)
			snecki_wish_finish(core, ticket, outcome->code, detail);
		if (outcome->code != 0)
			grant->retry_at_ns = now_ns + snecki_pause_ns(grant, outcome, RETRY_NS);
		else
			snecki_grant_send_leave(core, grant, now_ns);
		snecki_lease_arm(core, grant);
		return;
	}
	if (outcome->status == LOCK_FAILED) {
		if (ticket && !outcome->retry)
			snecki_wish_finish(core, ticket,
			        outcome->code == SNECK_ECONN ? SNECK_EUNKNOWN : outcome->code, detail);
		grant->retry_at_ns =
		        now_ns + snecki_pause_ns(grant, outcome,
		                         outcome->code == SNECK_ECONN ? LINK_RETRY_NS : RETRY_NS);
		snecki_lease_arm(core, grant);
		return;
	}
	if (outcome->status == LOCK_DONE)
		snecki_grant_tell_siblings(grant, outcome->token);
	if (ticket)
		snecki_wish_finish(core, ticket, release_code(grant, outcome), NULL);
	if (call->op.bury_n < grant->bury_n) {
		/* The link broke while this message was still in line: it went out on the next one, knowing
		 * nothing of the requests that were lost with the last. */
		snecki_grant_send_leave(core, grant, now_ns);
		return;
	}
	snecki_grant_drop(core, grant);
}

/* ---- Dispatch -----------------------------------------------------------------------------------*/

static bool may_create(enum lock_op_kind kind) {
	return kind == OP_ACQUIRE || kind == OP_BEAT || kind == OP_UPGRADE || kind == OP_DOWNGRADE ||
	       kind == OP_RENAME;
}

static void dispatch(struct lock_core *core, struct lock_grant *grant, struct lock_call *call,
        const struct lock_outcome *outcome, const char *detail, int64_t sent_ns, int64_t now_ns) {
	switch (call->op.kind) {
	case OP_ACQUIRE:
		on_ask(core, grant, outcome, detail, sent_ns, now_ns);
		return;
	case OP_BEAT:
		on_beat(core, grant, call, outcome, detail, sent_ns, now_ns);
		return;
	case OP_RENEW:
		on_renew(core, grant, call, outcome, detail, sent_ns, now_ns);
		return;
	case OP_LINGER:
		snecki_linger_marked(core, grant, call, outcome, sent_ns, now_ns);
		return;
	case OP_RELEASE:
		on_leave(core, grant, call, outcome, detail, now_ns);
		return;
	case OP_CANCEL:
		if (call->op.old)
			snecki_conv_reply(core, grant, call, outcome, detail, sent_ns, now_ns);
		else
			on_leave(core, grant, call, outcome, detail, now_ns);
		return;
	case OP_RENAME:
		if (grant->state == GRANT_ASKED)
			on_ask(core, grant, outcome, detail, sent_ns, now_ns);
		else
			snecki_conv_reply(core, grant, call, outcome, detail, sent_ns, now_ns);
		return;
	case OP_UPGRADE:
	case OP_DOWNGRADE:
		snecki_conv_reply(core, grant, call, outcome, detail, sent_ns, now_ns);
		return;
	case OP_ADVANCE:
	case OP_KINDS:
		return;
	}
}

void snecki_core_reply(struct lock_core *core, struct lock_call *call, const struct lock_outcome *outcome,
        const char *detail, int64_t sent_ns, int64_t now_ns) {
	snecki_core_run(core, now_ns);
	struct lock_entry *entry = call->entry;
	struct lock_grant *grant = call->grant;
	core->calls_n--;
	entry->calls--;
	snecki_list_remove(&call->node);
	if (call->op.kind == OP_ADVANCE)
		entry->advancing = false;
	if (grant && call->watchdog) {
		grant->renewing = false;
		core->lanes[call->renew_lane].renewals_inflight--;
	}
	if (grant && outcome->status == LOCK_UNKNOWN && may_create(call->op.kind))
		snecki_grant_bury(grant, call->op.attempt);
	if (grant && outcome->status == LOCK_UNKNOWN)
		grant->may_be_late = true;
	if (grant && outcome->deadline_ms - outcome->server_us / 1000 > grant->longest_ms)
		grant->longest_ms = outcome->deadline_ms - outcome->server_us / 1000; /* adopted */
	if (grant && grant->state == GRANT_LEAVING && outcome->status != LOCK_FAILED)
		snecki_grant_leave_longer(core, grant, now_ns); /* it may have run only just now */
	if (sent_ns > 0)
		entry->lane = call->lane % LANES;
	snecki_lease_clock(core, call->lane % LANES, outcome, sent_ns, now_ns);
	if (outcome->more)
		snecki_grant_advance(core, entry);
	if (grant)
		dispatch(core, grant, call, outcome, detail, sent_ns, now_ns);
	if (call->ticket && !call->ticket->done) /* nobody else will end it */
		snecki_wish_finish(core, call->ticket, SNECK_EUNKNOWN, NULL);
	struct lock_lane *lane = &core->lanes[call->renew_lane];
	free(call);
	snecki_lease_renew_next(core, lane, now_ns);
	snecki_pump(core, entry, now_ns);
	snecki_entry_settle(entry);
}
