/* SPDX-License-Identifier: MIT */
/* Replica acknowledgement: a grant counts only once so many replicas have it.
 *
 * A renewal that certainly writes goes out for a grant that the server has confirmed to us, and its caller
 * answers when the replicas have got it (WAIT), or the time is over. Replicas follow the primary's writes in
 * order: whoever has the renewal has the grant before it, whichever connection that was a write of.
 *
 * Invariants:
 *   - A wish that asks for n replicas is served only from a grant that n are known to have under its present
 *     name and mode. Until then the grant is kept for it (`ack_first`), fresh as it was.
 *   - Nobody else waits for that: what needs no acknowledgement and comes first is served.
 *   - Too few answers, or none: the wish ends, and the grant goes on to whoever asks for less, or back. An
 *     upgrade that fails so turns into READ again.
 *   - Renewals, re-entry, downgrade, release and whatever is refused ask no replica. */
#include "lock/private.h"

#include <sneck/error.h>

/* The private ask, or the upgrade. A grant's wish may also be to end, or to turn into something less. */
static struct lock_wish *own_wish(const struct lock_grant *grant) {
	struct lock_wish *wish = grant->wish;

	return wish && (wish->kind == WISH_ACQUIRE || wish->kind == WISH_UPGRADE) ? wish : NULL;
}

static struct lock_wish *user_of(const struct lock_grant *grant) {
	const struct lock_entry *entry = grant->entry;
	struct lock_wish *wish = own_wish(grant);

	if (wish || grant->private_ || snecki_list_empty(&entry->queue))
		return wish;
	return LIST_ITEM(entry->queue.next, struct lock_wish, node);
}

bool snecki_ack_wanted(const struct lock_grant *grant) {
	const struct lock_wish *wish = user_of(grant);

	return wish && wish->ack_replicas > 0;
}

bool snecki_ack_pending(const struct lock_wish *wish) {
	if (!wish->entry || wish->ack_replicas == 0)
		return false;
	LIST_EACH (g, &wish->entry->grants) {
		const struct lock_grant *grant = LIST_ITEM(g, struct lock_grant, in_entry);
		if (grant->ack_first && user_of(grant) == wish)
			return true;
	}
	return false;
}

void snecki_ack_forget(struct lock_entry *entry) {
	LIST_EACH (g, &entry->grants) {
		struct lock_grant *grant = LIST_ITEM(g, struct lock_grant, in_entry);
		grant->ack_first = grant->ack_first && grant->private_ && own_wish(grant);
	}
}

bool snecki_ack_fits(struct lock_core *core, struct lock_grant *grant, struct lock_wish *wish) {
	if (wish->ack_replicas <= grant->acked)
		return true;
	grant->ack_first = true;
	if (grant->ack_call || !grant->claimed)
		return false; /* the answer to that comes first */
	struct lock_call *call = snecki_call_new(core, grant->entry, grant, OP_RENEW);
	if (!call) {
		grant->ack_first = false;
		snecki_wish_finish(core, wish, SNECK_ENOMEM, NULL);
		return false;
	}
	if (grant->private_) /* its lease is fixed */
		call->op.lease_ms = 1;
	call->op.must_write = true;
	call->ack_replicas = wish->ack_replicas;
	call->ack_ms = wish->ack_ms;
	grant->ack_call = call;
	snecki_call_send(core, call);
	return false;
}

/* Whoever asked for more than that many. */
static void refuse(struct lock_core *core, struct lock_grant *grant, uint32_t acked, int code,
        const char *detail, int64_t now_ns) {
	struct lock_wish *wish = own_wish(grant);

	if (wish) { /* a private ask or an upgrade; what it leaves behind, the pump gives back */
		if (grant->conv != CONV_NONE)
			snecki_conv_give_up(core, wish, now_ns);
		snecki_wish_finish(core, wish, code, detail);
		return;
	}
	LIST_EACH (at, &grant->entry->queue) {
		wish = LIST_ITEM(at, struct lock_wish, node);
		if (wish->mode != grant->mode)
			return;
		if (wish->ack_replicas > acked)
			snecki_wish_finish(core, wish, code, detail);
		if (grant->mode == 'W')
			return; /* those behind it have their own turn */
	}
}

void snecki_ack_failed(
        struct lock_core *core, struct lock_grant *grant, int code, const char *detail, int64_t now_ns) {
	if (!grant->ack_first)
		return; /* nobody waits for it any more */
	grant->ack_first = false;
	refuse(core, grant, grant->acked, code, detail, now_ns);
}

void snecki_ack_answered(struct lock_core *core, struct lock_grant *grant, const struct lock_call *call,
        const struct lock_outcome *outcome, const char *detail, int64_t now_ns) {
	if (outcome->acked > grant->acked)
		grant->acked = outcome->acked;
	if (outcome->acked < call->ack_replicas)
		snecki_ack_failed(
		        core, grant, outcome->code ? outcome->code : SNECK_EREPLICAS, detail, now_ns);
	else if (grant->private_ && own_wish(grant) && grant->conv == CONV_NONE)
		snecki_queue_granted(core, grant, now_ns);
}
