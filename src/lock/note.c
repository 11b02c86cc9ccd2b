/* SPDX-License-Identifier: MIT */
/* What a message does to a grant.
 *
 * Messages are hints that may be lost, late, doubled or forged. A grant by message is believed only if
 * it names an attempt that waits, its token is larger than the last one seen while waiting, and the
 * waiter's own lease, counted from before its last answered heartbeat, lies ahead; it is claimed in
 * the background all the same: at once, or, when the message has told what the claim's answer would
 * tell and there is time, a little later, which spares the claim where the lock passes quickly from hand to
 * hand. In every other case the answer to a heartbeat decides, as it does when
 * replicas are to acknowledge the grant: what they get is behind it. */
#include "lock/private.h"

static bool believable(const struct lock_core *core, const struct lock_grant *grant,
        const struct lock_note *note, int64_t valid_ns, int64_t now_ns) {
	if (core->config.verify_grants || snecki_ack_wanted(grant))
		return false;
	return note->token > grant->token_seen && valid_ns > now_ns;
}

/* One here waits for it, and will give it back at once, as far as is known. */
static bool for_one_only(const struct lock_grant *grant) {
	const struct list *queue = &grant->entry->queue;
	const struct lock_wish *wish = grant->wish;

	if (!grant->private_)
		wish = snecki_list_empty(queue) ? NULL : LIST_ITEM(queue->next, const struct lock_wish, node);
	return wish && !wish->fixed && !wish->linger_ms && (grant->private_ || queue->next == queue->prev);
}

/* Its lease is as short as a waiter's until it is claimed: too short to be passed on here, or to linger. And
 * a fixed one, which nothing renews, is to begin now. */
static bool may_claim_later(const struct lock_core *core, const struct lock_grant *grant,
        const struct lock_note *note, int64_t now_ns) {
	int64_t worry_ms = core->config.wait_lease_ms / 2;

	return note->tells_wanted && for_one_only(grant) &&
	       grant->beat_valid_ns - now_ns > (worry_ms + 10 * CLAIM_LATER_MS) * NS_PER_MS;
}

static void on_grant_note(
        struct lock_core *core, struct lock_grant *grant, const struct lock_note *note, int64_t now_ns) {
	if (grant->state == GRANT_ASKED) {
		grant->early = true;
		return;
	}
	if (grant->state != GRANT_QUEUED)
		return;
	if (!believable(core, grant, note, grant->beat_valid_ns, now_ns)) {
		snecki_grant_ask_again(core, grant, now_ns); /* claim first, believe the answer */
		return;
	}
	core->counters.grants_by_message++;
	grant->token = note->token;
	grant->server_token = note->token;
	grant->server_deadline_ms = note->deadline_ms;
	grant->valid_until_ns = grant->beat_valid_ns;
	grant->confirmed_ns = now_ns;
	grant->claimed = false;
	snecki_lease_held(core, grant, now_ns);
	if (note->wanted)
		snecki_lease_hint(core, grant, now_ns);
	if (may_claim_later(core, grant, note, now_ns))
		grant->beat_at_ns = now_ns + CLAIM_LATER_MS * NS_PER_MS;
	else
		snecki_grant_beat(core, grant, now_ns);
	snecki_queue_granted(core, grant, now_ns);
}

static void on_conv_note(
        struct lock_core *core, struct lock_grant *grant, const struct lock_note *note, int64_t now_ns) {
	int64_t valid_ns =
	        grant->valid_until_ns > grant->beat_valid_ns ? grant->valid_until_ns : grant->beat_valid_ns;

	if (grant->conv == CONV_UP_ASKED)
		grant->early = true;
	if (grant->conv != CONV_UP_QUEUED)
		return;
	if (!believable(core, grant, note, valid_ns, now_ns)) {
		snecki_grant_ask_again(core, grant, now_ns);
		return;
	}
	core->counters.grants_by_message++;
	grant->valid_until_ns = valid_ns;
	grant->token = note->token;
	grant->server_token = note->token;
	grant->server_deadline_ms = note->deadline_ms;
	snecki_conv_granted(core, grant, now_ns);
}

/* A hint: the heartbeat, or the renewal, tells for certain. */
static void on_broken_note(struct lock_core *core, struct lock_grant *grant, bool conv, int64_t now_ns) {
	if (grant->state == GRANT_QUEUED || (conv && grant->conv == CONV_UP_QUEUED)) {
		snecki_grant_beat(core, grant, now_ns);
	} else if (grant->lingers) {
		grant->linger_until_ns = now_ns; /* nobody is there to be told */
	} else if (grant->state == GRANT_HELD && !conv) {
		grant->renew_at_ns = now_ns;
		if (!snecki_grant_renewed(grant))
			snecki_lease_renew(core, grant, NULL, 1);
	}
	snecki_lease_arm(core, grant);
}

void snecki_core_note(struct lock_core *core, const struct lock_note *note, int64_t now_ns) {
	snecki_core_run(core, now_ns);
	struct map_node *node = snecki_map_find(&core->attempts, &note->attempt, sizeof note->attempt);
	if (!node)
		return;
	struct attempt_ref *ref = MAP_ITEM(node, struct attempt_ref, node);
	struct lock_grant *grant = ref->grant;
	struct lock_entry *entry = grant->entry;
	switch (note->kind) {
	case LOCK_NOTE_GRANT:
		if (ref->conv)
			on_conv_note(core, grant, note, now_ns);
		else
			on_grant_note(core, grant, note, now_ns);
		break;
	case LOCK_NOTE_WANTED:
		snecki_lease_hint(core, grant, now_ns);
		break;
	case LOCK_NOTE_BROKEN:
		on_broken_note(core, grant, ref->conv, now_ns);
		break;
	}
	snecki_pump(core, entry, now_ns);
	snecki_entry_settle(entry);
}

void snecki_grant_ask_again(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	bool waits = grant->state == GRANT_QUEUED || grant->conv == CONV_UP_QUEUED;

	if (grant->state == GRANT_ASKED || grant->conv == CONV_UP_ASKED || (waits && grant->beating))
		grant->early = true;
	else if (waits)
		snecki_grant_beat(core, grant, now_ns);
	else if (grant->state == GRANT_HELD)
		snecki_linger_look(grant, now_ns);
	snecki_lease_arm(core, grant);
}

void snecki_core_maybe_free(struct lock_core *core, const struct lock_traits *layout, const void *name,
        size_t name_len, int64_t now_ns) {
	snecki_core_run(core, now_ns);
	struct lock_entry *entry = snecki_entry_get(core, layout, name, name_len, false);
	if (!entry)
		return;
	LIST_EACH (g, &entry->grants)
		snecki_grant_ask_again(core, LIST_ITEM(g, struct lock_grant, in_entry), now_ns);
}
