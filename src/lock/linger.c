/* SPDX-License-Identifier: MIT */
/* Lingering: what nobody here holds any more is kept for whoever comes next, so that taking it again costs
 * no request.
 *
 * Invariants:
 *   - A lingering grant is shared, has no hold and no conversion, and nothing renews it: it ends with the
 *     linger time, with its lease, or when another session wants the lock, whichever is first. So a hint
 *     that gets lost costs the others a wait, and never for longer than that.
 *   - Wanted, a writer's grant is kept on for the rest of a minimum time since it was granted, and within
 *     the bound that passing on has: without that, two sessions that take and release in a loop would do
 *     nothing but send the lock to and fro. A reader's goes at once, for nobody may come to read any more.
 *   - It goes at once as well when the lease is in doubt, or when anything else of this session comes to
 *     hold, or to ask for, the same lock.
 *   - The server does not hear of a local release. People who look at the lock are to see it all the
 *     same, so after a moment the server is told; nothing depends on it, and a loop that takes and
 *     releases never comes to it. Its answer also says whether the lock is wanted. */
#include "lock/private.h"

static bool can_linger(const struct lock_core *core, const struct lock_grant *grant) {
	const struct lock_traits *layout = snecki_layout_of(grant);

	if (layout->polls || layout->counts || layout->server_tokens)
		return false; /* nobody would tell us that it is wanted, or the server must know */
	return grant->linger_ms > 0 && !grant->private_ && !core->closing &&
	       snecki_list_empty(&grant->entry->queue) && snecki_list_empty(&grant->entry->later);
}

static int64_t earlier(int64_t a, int64_t b) {
	return a < b ? a : b;
}

int64_t snecki_linger_ends(const struct lock_core *core, const struct lock_grant *grant) {
	if (grant->suspect || grant->beside)
		return 0;
	if (!grant->wanted)
		return grant->linger_until_ns;
	if (grant->mode != 'W' || grant->handovers >= core->config.handover_max)
		return 0;
	int64_t ends_ns = earlier(grant->linger_until_ns, grant->wanted_ns + core->config.handover_ns);
	return earlier(ends_ns, grant->granted_ns + LINGER_LEAST_NS);
}

/* What the server was told is no longer so, or is so again. */
static void mark_later(struct lock_grant *grant, int64_t now_ns) {
	if (grant->unheard)
		grant->mark_at_ns = now_ns;
	else
		grant->mark_at_ns = grant->lingers == grant->marked ? NS_NEVER : now_ns + LINGER_MARK_NS;
}

bool snecki_linger_begin(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	if (!can_linger(core, grant))
		return false;
	grant->linger_until_ns = now_ns + grant->linger_ms * NS_PER_MS;
	if (now_ns >= snecki_linger_ends(core, grant))
		return false;
	grant->lingers = true;
	snecki_grant_want_hints(core, grant);
	mark_later(grant, now_ns);
	snecki_lease_arm(core, grant);
	return true;
}

/* Now, or when it is released. */
static bool will_linger(const struct lock_grant *grant) {
	if (grant->lingers)
		return true;
	LIST_EACH (h, &grant->holds)
		if (LIST_ITEM(h, struct lock_hold, in_grant)->linger_ms > 0)
			return true;
	return false;
}

void snecki_linger_look(struct lock_grant *grant, int64_t now_ns) {
	if (grant->private_ || snecki_layout_of(grant)->polls || !will_linger(grant))
		return;
	grant->unheard = true;
	grant->mark_at_ns = now_ns;
}

void snecki_linger_over(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	if (grant->wanted)
		core->counters.recalls++;
	snecki_grant_leave(core, grant, NULL, now_ns);
}

void snecki_linger_retaken(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	grant->lingers = false;
	core->counters.retakes++;
	mark_later(grant, now_ns);
}

/* The server would have it wait for what nobody here uses. */
void snecki_linger_make_way(struct lock_core *core, struct lock_entry *entry, char mode, int64_t now_ns) {
	LIST_EACH (g, &entry->grants) {
		struct lock_grant *grant = LIST_ITEM(g, struct lock_grant, in_entry);
		if (grant->lingers && (mode == 'W' || grant->mode == 'W'))
			snecki_grant_leave(core, grant, NULL, now_ns);
	}
}

/* ---- What people see ----------------------------------------------------------------------------*/

/* Whatever is renewed is in use: the server takes the mark back by itself. */
void snecki_linger_renewed(struct lock_grant *grant, int64_t now_ns) {
	grant->marked = false;
	mark_later(grant, now_ns);
}

void snecki_linger_mark(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	grant->mark_at_ns = NS_NEVER;
	if (!snecki_grant_named(grant)) { /* it has two names for now */
		grant->mark_at_ns = now_ns + LINGER_MARK_NS;
		return;
	}
	grant->unheard = false;
	struct lock_call *call = snecki_call_new(core, grant->entry, grant, OP_LINGER);
	if (!call)
		return;
	call->op.lingers = grant->lingers;
	grant->marking = true;
	snecki_call_send(core, call);
}

void snecki_linger_marked(struct lock_core *core, struct lock_grant *grant, const struct lock_call *call,
        const struct lock_outcome *outcome, int64_t sent_ns, int64_t now_ns) {
	grant->marking = false;
	if (grant->state != GRANT_HELD || call->op.attempt != grant->attempt || !snecki_grant_named(grant))
		return;
	switch (outcome->status) {
	case LOCK_GRANTED:
		if (!snecki_token_fits(grant, call, outcome)) {
			snecki_lease_lose(core, grant, HOLD_LOST, now_ns);
			return;
		}
		grant->marked = call->op.lingers;
		mark_later(grant, now_ns);
		snecki_lease_wanted(core, grant, outcome->wanted, sent_ns, now_ns);
		break;
	case LOCK_UNKNOWN: /* it may have run: then it has to be taken back */
		grant->marked = true;
		break;
	case LOCK_FAILED:
		break;
	default:
		snecki_lease_lose(
		        core, grant, outcome->status == LOCK_BROKEN ? HOLD_BROKEN : HOLD_LOST, now_ns);
		return;
	}
	snecki_lease_arm(core, grant);
}
