/* SPDX-License-Identifier: MIT */
/* The session's own wishes among themselves: re-entry, sharing, the local queue, passing on.
 *
 * Only the head of the queue is ever asked for on the server, so a session with a hundred waiting
 * threads takes one place in the server's queue. A grant that is no longer used goes to the next
 * local wish while no other session wants the lock, or within a bound of times and time when one
 * does; otherwise back to the server. The queue is served strictly in order. */
#include "lock/private.h"

#include <string.h>

#include <sneck/error.h>

static struct lock_wish *head_of(const struct lock_entry *entry) {
	return snecki_list_empty(&entry->queue) ? NULL : LIST_ITEM(entry->queue.next, struct lock_wish, node);
}

/* ---- Holds --------------------------------------------------------------------------------------*/

void snecki_hold_attach(struct lock_core *core, struct lock_grant *grant, struct lock_wish *wish,
        uint64_t token, int64_t now_ns) {
	struct lock_hold *hold = wish->hold;
	bool first = snecki_grant_empty(grant);

	hold->entry = grant->entry;
	hold->grant = grant;
	hold->owner = wish->owner;
	hold->mode = wish->mode;
	hold->lease_ms = wish->lease_ms;
	hold->linger_ms = wish->fixed ? 0 : wish->linger_ms;
	hold->ack_replicas = wish->ack_replicas;
	hold->ack_ms = wish->ack_ms;
	hold->token = token;
	hold->state = grant->suspect ? HOLD_SUSPECT : HOLD_HELD;
	hold->fixed_until_ns = NS_NEVER;
	if (wish->fixed && first && grant->private_)
		hold->fixed_until_ns = grant->valid_until_ns;
	else if (wish->fixed)
		hold->fixed_until_ns =
		        now_ns + (wish->lease_ms - snecki_core_margin_ms(core, wish->lease_ms)) * NS_PER_MS;
	else if (wish->lease_ms > grant->lease_ms) {
		grant->lease_ms = wish->lease_ms;
		grant->renew_at_ns = now_ns;
	} else if (first) {
		grant->lease_ms = wish->lease_ms; /* passed on: the lease of who held it before is over */
	}
	if (grant->lingers)
		snecki_linger_retaken(core, grant, now_ns);
	core->shares = core->shares || hold->linger_ms > 0; /* it must hear when another session wants it */
	snecki_list_append(&grant->holds, &hold->in_grant);
	core->holds_n++;
	if (grant->unheard)
		snecki_linger_look(grant, now_ns);
	grant->renew_tried = false;
	grant->fresh = grant->fresh && wish->mode == 'R'; /* one writer, or all the readers in a row */
	snecki_lease_arm(core, grant);
}

void snecki_hold_detach(struct lock_core *core, struct lock_hold *hold) {
	if (hold->grant) {
		snecki_list_remove(&hold->in_grant);
		core->holds_n--;
	}
	hold->grant = NULL;
	hold->entry = NULL;
}

static struct lock_hold *find_hold(
        const struct lock_entry *entry, uint64_t owner, char mode, int64_t now_ns) {
	LIST_EACH (g, &entry->grants) {
		const struct lock_grant *grant = LIST_ITEM(g, struct lock_grant, in_entry);
		if (grant->state != GRANT_HELD || grant->conv == CONV_DETACH)
			continue;
		LIST_EACH (h, &grant->holds) {
			struct lock_hold *hold = LIST_ITEM(h, struct lock_hold, in_grant);
			if (hold->owner == owner && hold->mode == mode &&
			        snecki_hold_valid_until(hold) > now_ns)
				return hold;
		}
	}
	return NULL;
}

/* A renewal that is under way tells nobody any more. */
void snecki_hold_end_renewals(struct lock_core *core, struct lock_hold *hold, int code) {
	LIST_EACH (c, &hold->grant->calls) {
		struct lock_call *call = LIST_ITEM(c, struct lock_call, node);
		if (call->ticket && call->ticket->hold == hold)
			snecki_wish_finish(core, call->ticket, code, NULL);
	}
}

void snecki_hold_abandon(struct lock_core *core, struct lock_hold *hold, int code, int64_t now_ns) {
	struct lock_wish *wish = hold->grant->wish;

	snecki_hold_end_renewals(core, hold, code);
	LIST_EACH (at, &hold->entry->later) {
		struct lock_wish *later = LIST_ITEM(at, struct lock_wish, node);
		if (later->kind == WISH_UPGRADE && later->hold == hold)
			snecki_wish_finish(core, later, code, NULL);
	}
	if (!wish || wish->hold != hold || wish->kind == WISH_RELEASE)
		return;
	snecki_conv_give_up(core, wish, now_ns);
	snecki_wish_finish(core, wish, code, NULL);
}

static bool has_write_hold(const struct lock_grant *grant) {
	LIST_EACH (h, &grant->holds)
		if (LIST_ITEM(h, struct lock_hold, in_grant)->mode == 'W')
			return true;
	return false;
}

/* ---- Serving from what the session holds --------------------------------------------------------*/

/* What a newcomer asks for of an older grant: half of its lease. Less, and it is renewed first. */
static bool long_enough(const struct lock_grant *grant, const struct lock_wish *wish, int64_t now_ns) {
	return grant->valid_until_ns - now_ns >= wish->lease_ms * NS_PER_MS / 2;
}

/* A local number may be used only while no later grant of the server could repeat it. */
static bool token_in_reach(const struct lock_grant *grant) {
	return grant->token + 1 < (uint64_t)grant->server_deadline_ms * 1000;
}

static void renew_before_use(
        struct lock_core *core, struct lock_grant *grant, const struct lock_wish *wish, int64_t now_ns) {
	if (grant->renew_tried)
		return;
	if (wish->lease_ms > grant->lease_ms)
		grant->lease_ms = wish->lease_ms;
	grant->renew_first = true;
	/* After an error the timer does it: this is asked for again with every answer. */
	if (!grant->renew_refused || now_ns >= grant->renew_at_ns)
		snecki_lease_renew_soon(core, grant, now_ns);
	snecki_lease_arm(core, grant);
}

static bool may_hand_over(const struct lock_core *core, const struct lock_grant *grant, int64_t now_ns) {
	if (grant->lingers)
		return now_ns < snecki_linger_ends(core, grant);
	if (!grant->wanted)
		return true;
	return grant->handovers < core->config.handover_max &&
	       now_ns - grant->wanted_ns < core->config.handover_ns;
}

static void serve(struct lock_core *core, struct lock_grant *grant, struct lock_wish *wish, uint64_t token,
        int64_t now_ns) {
	snecki_hold_attach(core, grant, wish, token, now_ns);
	snecki_wish_finish(core, wish, 0, NULL);
}

static bool serve_writer(
        struct lock_core *core, struct lock_grant *grant, struct lock_wish *wish, int64_t now_ns) {
	if (grant->mode != 'W' || !snecki_grant_empty(grant))
		return false;
	if (grant->fresh) {
		if (!snecki_ack_fits(core, grant, wish))
			return false;
		serve(core, grant, wish, grant->token, now_ns);
		return true;
	}
	if (!may_hand_over(core, grant, now_ns) || grant->beside || snecki_layout_of(grant)->server_tokens)
		return false;
	if (grant->suspect || !long_enough(grant, wish, now_ns) || !token_in_reach(grant)) {
		renew_before_use(core, grant, wish, now_ns);
		return false;
	}
	if (!snecki_ack_fits(core, grant, wish))
		return false;
	grant->handovers++;
	if (!grant->lingers)
		core->counters.handovers++;
	core->shares = true;
	snecki_grant_want_hints(core, grant);
	core->counters.local_acquires++;
	if (!snecki_layout_of(grant)->no_tokens)
		grant->token++;
	serve(core, grant, wish, grant->token, now_ns);
	return true;
}

static bool serve_reader(
        struct lock_core *core, struct lock_grant *grant, struct lock_wish *wish, int64_t now_ns) {
	if (grant->mode != 'R')
		return false;
	if (!grant->fresh) {
		if (grant->wanted || grant->beside ||
		        (grant->lingers && now_ns >= snecki_linger_ends(core, grant)))
			return false; /* the door is closed: another session, or an owner here, is to write */
		if (grant->suspect || !long_enough(grant, wish, now_ns)) {
			renew_before_use(core, grant, wish, now_ns);
			return false;
		}
	}
	if (!snecki_ack_fits(core, grant, wish))
		return false;
	if (!grant->fresh) {
		core->shares = true;
		snecki_grant_want_hints(core, grant);
		core->counters.local_acquires++;
	}
	serve(core, grant, wish, grant->token, now_ns);
	return true;
}

static bool serve_locally(
        struct lock_core *core, struct lock_entry *entry, struct lock_wish *wish, int64_t now_ns) {
	for (struct list *at = entry->grants.prev; at != &entry->grants; at = at->prev) {
		struct lock_grant *grant = LIST_ITEM(at, struct lock_grant, in_entry);
		if (grant->state != GRANT_HELD || grant->private_ || grant->conv != CONV_NONE)
			continue;
		if (now_ns >=
		        grant->valid_until_ns) /* replicas took their time; its own timer is due as well */
			continue;
		if (wish->mode == 'W' ? serve_writer(core, grant, wish, now_ns)
		                      : serve_reader(core, grant, wish, now_ns))
			return true;
	}
	return false;
}

/* ---- Asking the server --------------------------------------------------------------------------*/

static void ask_for_head(struct lock_core *core, struct lock_entry *entry, struct lock_wish *wish) {
	struct lock_grant *grant = snecki_grant_new(core, entry, wish->mode, wish->lease_ms);

	if (!grant) {
		snecki_wish_finish(core, wish, SNECK_ENOMEM, NULL);
		return;
	}
	grant->queue_flag = !wish->nowait;
	grant->prefer = wish->prefer;
	if (!snecki_grant_ask(core, grant)) {
		snecki_grant_drop(core, grant);
		snecki_wish_finish(core, wish, SNECK_ENOMEM, NULL);
		return;
	}
	entry->pending = grant;
}

static void ask_private(
        struct lock_core *core, struct lock_entry *entry, struct lock_wish *wish, int64_t now_ns) {
	snecki_linger_make_way(core, entry, wish->mode, now_ns);
	struct lock_grant *grant = snecki_grant_new(core, entry, wish->mode, wish->lease_ms);

	if (!grant) {
		snecki_wish_finish(core, wish, SNECK_ENOMEM, NULL);
		return;
	}
	grant->private_ = true;
	grant->queue_flag = !wish->nowait;
	grant->prefer = wish->prefer;
	grant->wish = wish;
	wish->grant = grant;
	if (wish->kind == WISH_ADOPT) {
		memcpy(grant->foreign_id, wish->id, sizeof grant->foreign_id);
		grant->foreign_id[sizeof grant->foreign_id - 1] = '\0';
	}
	if (!snecki_grant_ask(core, grant)) {
		snecki_wish_finish(core, wish, SNECK_ENOMEM, NULL);
		snecki_grant_drop(core, grant);
	}
}

/* The head waits for this session itself: for a writer here, who passes the lock on when it is done, or
 * for a renewal or for replicas. Asking the server as well would only have to be taken back. */
static bool waits_for_own(const struct lock_entry *entry) {
	LIST_EACH (g, &entry->grants) {
		const struct lock_grant *grant = LIST_ITEM(g, struct lock_grant, in_entry);
		if (grant->state != GRANT_HELD || grant->private_)
			continue;
		if (grant->renew_first || grant->ack_first ||
		        (grant->mode == 'W' && !snecki_grant_empty(grant)))
			return true;
	}
	return false;
}

static void release_idle(struct lock_core *core, struct lock_entry *entry, int64_t now_ns) {
	LIST_EACH (g, &entry->grants) {
		struct lock_grant *grant = LIST_ITEM(g, struct lock_grant, in_entry);
		if (grant->state != GRANT_HELD)
			continue;
		grant->fresh = grant->fresh && grant->ack_first;
		if (snecki_list_empty(&entry->queue))
			grant->renew_first = false; /* nobody is left to keep it for */
		if (!snecki_grant_empty(grant) || grant->conv != CONV_NONE || grant->renew_first ||
		        grant->ack_first)
			continue;
		if (!grant->lingers)
			snecki_grant_leave(core, grant, NULL, now_ns);
		else if (!snecki_list_empty(&entry->queue) || now_ns >= snecki_linger_ends(core, grant))
			snecki_linger_over(core, grant, now_ns);
	}
}

/* Nobody waits for anything, and the one grant there is has all that it needs: re-entry, and what is taken
 * again and again, come here each time. */
static bool is_at_rest(const struct lock_core *core, const struct lock_entry *entry, int64_t now_ns) {
	const struct list *grants = &entry->grants;

	if (!snecki_list_empty(&entry->queue) || !snecki_list_empty(&entry->later) || entry->pending ||
	        grants->next == grants || grants->next != grants->prev || entry->realm->layout->counts)
		return false;
	const struct lock_grant *grant = LIST_ITEM(grants->next, struct lock_grant, in_entry);
	if (grant->state != GRANT_HELD || grant->conv != CONV_NONE || grant->fresh || grant->renew_first ||
	        grant->ack_first)
		return false;
	return !snecki_grant_empty(grant) || (grant->lingers && now_ns < snecki_linger_ends(core, grant));
}

void snecki_pump(struct lock_core *core, struct lock_entry *entry, int64_t now_ns) {
	struct lock_wish *wish;

	if (is_at_rest(core, entry, now_ns))
		return;
	snecki_ack_forget(entry);
	snecki_conv_try_finish(core, entry, now_ns);
	snecki_conv_start_later(core, entry, now_ns);
	while ((wish = head_of(entry)) && serve_locally(core, entry, wish, now_ns))
		;
	release_idle(core, entry, now_ns);
	if (entry->pending && (!wish || wish->mode != entry->pending->mode))
		snecki_grant_leave(core, entry->pending, NULL, now_ns);
	while ((wish = head_of(entry)) && !entry->pending && !core->closing && !waits_for_own(entry))
		ask_for_head(core, entry, wish);
	if (entry->realm->layout->counts && !core->closing)
		snecki_grant_tell_counts(core, entry);
}

/* ---- Arrival ------------------------------------------------------------------------------------*/

static void enqueue(struct lock_entry *entry, struct lock_wish *wish) {
	struct list *at = &entry->queue;

	if (wish->prefer) {
		at = entry->queue.next;
		while (at != &entry->queue && LIST_ITEM(at, struct lock_wish, node)->prefer)
			at = at->next;
	}
	snecki_list_insert_before(at, &wish->node);
}

static bool reenter(
        struct lock_core *core, struct lock_entry *entry, struct lock_wish *wish, int64_t now_ns) {
	struct lock_hold *held = find_hold(entry, wish->owner, 'W', now_ns);

	if (!held && wish->mode == 'R')
		held = find_hold(entry, wish->owner, 'R', now_ns);
	if (!held)
		return false;
	int64_t until = now_ns + (wish->lease_ms - snecki_core_margin_ms(core, wish->lease_ms)) * NS_PER_MS;
	bool outlives = wish->fixed && until > held->grant->valid_until_ns;
	if (outlives && !entry->realm->layout->polls) { /* else the watchdog sees it to its end */
		/* It may outlive what is held: an attempt of its own. */
		ask_private(core, entry, wish, now_ns);
		return true;
	}
	core->counters.local_acquires++;
	serve(core, held->grant, wish, held->token, now_ns);
	return true;
}

/* A wish that will not wait is refused here when something of this session stands in the way. */
static bool refused_at_once(struct lock_core *core, struct lock_entry *entry, struct lock_wish *wish) {
	const struct lock_grant *pending = entry->pending;

	if (!wish->nowait)
		return false;
	if (pending && pending->state == GRANT_QUEUED) {
		snecki_wish_refuse(core, wish, SNECK_EBUSY);
		return true;
	}
	bool blocked = pending && (pending->mode == 'W' || wish->mode == 'W');
	char mode = pending ? pending->mode : 0;
	LIST_EACH (g, &entry->grants) {
		const struct lock_grant *grant = LIST_ITEM(g, struct lock_grant, in_entry);
		if (grant->state != GRANT_HELD || (snecki_grant_empty(grant) && !grant->ack_first))
			continue;
		if (grant->mode == 'W' || wish->mode == 'W') {
			blocked = true;
			mode = grant->mode;
		}
	}
	if (!blocked)
		return false;
	entry->local_holder = true;
	entry->holder_mode = mode;
	snecki_wish_refuse(core, wish, SNECK_EBUSY);
	return true;
}

static bool starts_upgrade(
        struct lock_core *core, struct lock_entry *entry, struct lock_wish *wish, int64_t now_ns) {
	struct lock_hold *held = wish->mode == 'W' ? find_hold(entry, wish->owner, 'R', now_ns) : NULL;

	if (!held)
		return false;
	wish->grant = held->grant;
	snecki_conv_upgrade(core, wish, now_ns);
	return true;
}

static void begin_acquire(
        struct lock_core *core, struct lock_entry *entry, struct lock_wish *wish, int64_t now_ns) {
	if (reenter(core, entry, wish, now_ns) || starts_upgrade(core, entry, wish, now_ns))
		return; /* settled, or under way */
	if (wish->fixed)
		ask_private(core, entry, wish, now_ns);
	else if (!refused_at_once(core, entry, wish))
		enqueue(entry, wish);
}

/* A wish that had to wait for the end of a conversion. */
void snecki_queue_again(
        struct lock_core *core, struct lock_entry *entry, struct lock_wish *wish, int64_t now_ns) {
	if (wish->kind == WISH_ACQUIRE) {
		begin_acquire(core, entry, wish, now_ns);
	} else if (now_ns >= snecki_hold_valid_until(wish->hold)) {
		snecki_wish_finish(core, wish, SNECK_ELOST, NULL);
	} else if (wish->hold->mode == 'W') {
		snecki_wish_finish(core, wish, 0, NULL);
	} else {
		wish->grant = wish->hold->grant;
		snecki_conv_upgrade(core, wish, now_ns);
	}
}

void snecki_core_acquire(
        struct lock_core *core, const void *name, size_t name_len, struct lock_wish *wish, int64_t now_ns) {
	snecki_core_run(core, now_ns);
	struct lock_entry *entry = snecki_entry_get(core, wish->layout, name, name_len, true);
	snecki_wish_begin(core, wish, entry);
	if (!entry || core->closing) {
		snecki_wish_finish(core, wish, entry ? SNECK_ECLOSED : SNECK_ENOMEM, NULL);
		if (entry)
			snecki_entry_settle(entry);
		return;
	}
	begin_acquire(core, entry, wish, now_ns);
	snecki_pump(core, entry, now_ns);
	snecki_entry_settle(entry);
}

void snecki_core_adopt(
        struct lock_core *core, const void *name, size_t name_len, struct lock_wish *wish, int64_t now_ns) {
	snecki_core_run(core, now_ns);
	struct lock_entry *entry = snecki_entry_get(core, wish->layout, name, name_len, true);
	snecki_wish_begin(core, wish, entry);
	if (!entry || core->closing) {
		snecki_wish_finish(core, wish, entry ? SNECK_ECLOSED : SNECK_ENOMEM, NULL);
	} else {
		wish->mode = wish->id[0];
		wish->nowait = true;
		wish->ack_replicas = 0; /* it is held already: too few must not end it */
		ask_private(core, entry, wish, now_ns);
	}
	if (entry)
		snecki_entry_settle(entry);
}

/* ---- Answers ------------------------------------------------------------------------------------*/

/* Re-entry keeps the number. The server's may be older (the lock was passed on here, which it will hear
 * with the release), or that of a writer here who still waits for this owner. */
static uint64_t private_token(const struct lock_grant *grant, int64_t now_ns) {
	const struct lock_entry *entry = grant->entry;

	if (!grant->vouched)
		return grant->token; /* no re-entry: it had its turn */
	const struct lock_hold *outer = find_hold(entry, grant->wish->owner, 'W', now_ns);
	if (!outer)
		outer = find_hold(entry, grant->wish->owner, 'R', now_ns);
	return outer ? outer->token : grant->token;
}

void snecki_queue_granted(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	struct lock_entry *entry = grant->entry;

	if (entry->pending == grant)
		entry->pending = NULL;
	if (grant->private_ && grant->wish) {
		struct lock_wish *wish = grant->wish;
		if (snecki_ack_fits(core, grant, wish))
			serve(core, grant, wish, private_token(grant, now_ns), now_ns);
	}
	snecki_lease_arm(core, grant);
	/* A shared grant is given to the queue by the pump that ends every event. */
}

/* The server will not have it: everybody who waited for this answer is told. */
void snecki_queue_fail(struct lock_core *core, struct lock_grant *grant, int code, const char *detail) {
	struct lock_entry *entry = grant->entry;

	if (grant->private_) {
		if (grant->wish)
			snecki_wish_finish(core, grant->wish, code, detail);
		return;
	}
	LIST_EACH (at, &entry->queue)
		snecki_wish_finish(core, LIST_ITEM(at, struct lock_wish, node), code, detail);
}

void snecki_queue_refuse_nowait(struct lock_core *core, struct lock_entry *entry) {
	struct lock_wish *head = head_of(entry);

	if (head)
		head->answered = true;
	LIST_EACH (at, &entry->queue) {
		struct lock_wish *wish = LIST_ITEM(at, struct lock_wish, node);
		if (wish->nowait)
			snecki_wish_refuse(core, wish, SNECK_EBUSY);
	}
}

/* ---- Giving back --------------------------------------------------------------------------------*/

/* From now on the lease is the longest that is still asked for: a long one that was nested in a short
 * one must not be renewed for ever. */
static void shorten_lease(struct lock_grant *grant) {
	int64_t longest_ms = 0;

	LIST_EACH (h, &grant->holds) {
		const struct lock_hold *hold = LIST_ITEM(h, struct lock_hold, in_grant);
		if (hold->fixed_until_ns != NS_NEVER)
			continue;
		if (hold->lease_ms == grant->lease_ms)
			return; /* nearly always the first one, however many there are */
		if (hold->lease_ms > longest_ms)
			longest_ms = hold->lease_ms;
	}
	if (longest_ms)
		grant->lease_ms = longest_ms;
}

/* A hold has gone from the grant: pass it on, turn it into READ, or give it back. */
void snecki_grant_settle(
        struct lock_core *core, struct lock_grant *grant, struct lock_wish *ticket, int64_t now_ns) {
	struct lock_entry *entry = grant->entry;
	struct lock_wish *head;

	if (!snecki_grant_empty(grant)) {
		shorten_lease(grant);
		bool covers_readers_only = grant->mode == 'W' && grant->conv == CONV_NONE &&
		                           !has_write_hold(grant) && !snecki_layout_of(grant)->no_downgrade;
		if (covers_readers_only)
			snecki_conv_downgrade(core, grant, ticket, now_ns);
		else if (ticket)
			snecki_wish_finish(core, ticket, 0, NULL);
		if (!covers_readers_only)
			snecki_lease_arm(core, grant);
		return;
	}
	if (grant->conv != CONV_NONE) {
		grant->release_after_conv = true;
		if (ticket) {
			grant->ticket = ticket;
			ticket->grant = grant;
		}
		return;
	}
	if (!grant->private_ && (head = head_of(entry))) {
		bool passed = serve_locally(core, entry, head, now_ns);
		if ((passed && !snecki_grant_empty(grant)) || grant->renew_first || grant->ack_first) {
			if (ticket)
				snecki_wish_finish(core, ticket, 0, NULL);
			return;
		}
	}
	if (!snecki_linger_begin(core, grant, now_ns))
		snecki_grant_leave(core, grant, ticket, now_ns);
	else if (ticket)
		snecki_wish_finish(core, ticket, 0, NULL);
}

void snecki_core_release(struct lock_core *core, struct lock_wish *wish, int64_t now_ns) {
	snecki_core_run(core, now_ns);
	struct lock_hold *hold = wish->hold;
	struct lock_grant *grant = hold->grant;
	struct lock_entry *entry = hold->entry;
	if (!snecki_wish_begin_about(core, wish))
		return;
	snecki_hold_abandon(core, hold, SNECK_ECANCELED, now_ns);
	grant->linger_ms = hold->fixed_until_ns == NS_NEVER ? hold->linger_ms : 0;
	snecki_hold_detach(core, hold);
	snecki_grant_settle(core, grant, wish, now_ns);
	snecki_pump(core, entry, now_ns);
	snecki_entry_settle(entry);
}

void snecki_core_renew(struct lock_core *core, struct lock_wish *wish, int64_t now_ns) {
	snecki_core_run(core, now_ns);
	if (snecki_wish_begin_about(core, wish))
		snecki_lease_renew(core, wish->hold->grant, wish, wish->lease_ms);
}
