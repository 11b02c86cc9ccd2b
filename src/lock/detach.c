/* SPDX-License-Identifier: MIT */
/* Detach: a hold leaves the session under a name that somebody else may adopt.
 *
 * The grant of a lone hold is renamed; a reader among others is split off, and its grant stays. Whoever
 * adopts the name trusts the server that nobody stands in the way, and the server trusts a session
 * that vouches for its own attempts. So nothing is detached while anything of the session writes, or
 * may come to write, beside it.
 *
 * The new name is marked (LOCK_DETACHED), and nothing that a session holds may keep such a name: it says
 * that anybody may renew or release. If the program has given up waiting when the answer comes, the hold
 * is still the session's, and is renamed once more.
 *
 * A rename that is sent twice finds its old name gone and does nothing. A split would find it there
 * and split off another hold for nobody, so an unanswered one is buried, and asked for anew under
 * another name. */
#include "lock/private.h"

#include <sneck/error.h>

static bool is_alone(const struct lock_hold *hold) {
	const struct list *holds = &hold->grant->holds;
	return holds->next == &hold->in_grant && holds->prev == &hold->in_grant;
}

/* Why not; NULL: it may be. */
static const char *obstacle(const struct lock_hold *hold) {
	const struct lock_grant *grant = hold->grant;

	if (grant->conv != CONV_NONE || grant->wish)
		return "a conversion of this hold is under way; try again";
	if (grant->mode == 'W' && !is_alone(hold))
		return "other holds of this owner are nested in it; release them first";
	LIST_EACH (g, &grant->entry->grants) {
		const struct lock_grant *other = LIST_ITEM(g, struct lock_grant, in_entry);
		if (other == grant || other->state == GRANT_LEAVING)
			continue;
		if (snecki_grant_writes(other))
			return "another hold of this session writes, or is about to; release it first";
		if (grant->mode == 'W' && (other->state == GRANT_HELD || other->vouched))
			return "other holds of this owner are beside it; release them first";
	}
	return NULL;
}

void snecki_core_detach(struct lock_core *core, struct lock_wish *wish, int64_t now_ns) {
	snecki_core_run(core, now_ns);
	struct lock_hold *hold = wish->hold;
	struct lock_grant *grant = hold->grant;
	if (!snecki_wish_begin_about(core, wish))
		return;
	const char *why_not = obstacle(hold);
	if (why_not) {
		snecki_wish_finish(core, wish, SNECK_EBUSY, why_not);
		return;
	}
	grant->wish = wish;
	wish->grant = grant;
	grant->keep_old = !is_alone(hold);
	/* From the moment the request leaves the lease may be as short as it says. */
	int64_t until_ns =
	        now_ns + (wish->lease_ms - snecki_core_margin_ms(core, wish->lease_ms)) * NS_PER_MS;
	if (!grant->keep_old && until_ns < grant->valid_until_ns)
		grant->valid_until_ns = until_ns;
	core->config.hooks->own_id(
	        core->config.ctx, snecki_layout_of(grant), grant->mode, grant->attempt, wish->id);
	snecki_grant_begin_conv(core, grant, CONV_DETACH);
	snecki_conv_send(core, grant, now_ns);
}

static bool is_marked(const struct lock_grant *grant) {
	return grant->attempt & LOCK_DETACHED;
}

/* The split-off hold, if there is one, is nobody's. */
static void abandon_split(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	uint64_t attempt = grant->conv_attempt;

	snecki_grant_end_conv(core, grant);
	snecki_grant_abandon(core, grant, grant->mode, attempt, now_ns);
}

/* The program gave it up meanwhile: the hold stays ours, under a name of ours. */
static void detached_for_nobody(struct lock_core *core, struct lock_grant *grant,
        const struct lock_call *call, const struct lock_outcome *outcome, int64_t sent_ns, int64_t now_ns) {
	if (grant->keep_old) {
		abandon_split(core, grant, now_ns);
	} else {
		snecki_grant_rename(core, grant);
		snecki_lease_converted(core, grant, outcome, call->op.lease_ms, sent_ns, now_ns);
		if (is_marked(grant) && !grant->release_after_conv) {
			snecki_grant_begin_conv(core, grant, CONV_DETACH);
			snecki_conv_send(core, grant, now_ns);
			return;
		}
	}
	snecki_conv_over(core, grant, now_ns);
}

static void detached(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	struct lock_wish *wish = grant->wish;

	wish->new_attempt = grant->conv_attempt;
	core->config.hooks->own_id(
	        core->config.ctx, snecki_layout_of(grant), grant->mode, grant->conv_attempt, wish->id);
	snecki_hold_end_renewals(core, wish->hold, SNECK_ECANCELED);
	snecki_hold_detach(core, wish->hold);
	snecki_grant_unbury(grant, grant->conv_attempt); /* it is the adopter's now */
	snecki_grant_end_conv(core, grant);
	snecki_wish_finish(core, wish, 0, NULL);
	if (grant->keep_old)
		snecki_conv_over(core, grant, now_ns);
	else if (grant->bury_n)
		snecki_grant_leave(core, grant, NULL, now_ns);
	else
		snecki_grant_drop(core, grant);
}

/* `at_once`: the line was lost. An error that comes again as often as it is asked for must not keep the
 * server busy. */
static void unanswered(struct lock_core *core, struct lock_grant *grant, bool at_once, int64_t now_ns) {
	core->counters.resends++;
	if (grant->keep_old)
		abandon_split(core, grant, now_ns);
	if (grant->keep_old && !grant->wish) {
		snecki_conv_over(core, grant, now_ns);
		return;
	}
	if (grant->keep_old)
		snecki_grant_begin_conv(core, grant, CONV_DETACH);
	if (at_once) {
		snecki_conv_send(core, grant, now_ns);
		return;
	}
	grant->retry_at_ns = now_ns + RETRY_NS;
	snecki_lease_arm(core, grant);
}

static void refused(
        struct lock_core *core, struct lock_grant *grant, int code, const char *detail, int64_t now_ns) {
	snecki_grant_end_conv(core, grant);
	if (grant->wish)
		snecki_wish_finish(core, grant->wish, code, detail);
	snecki_conv_over(core, grant, now_ns);
}

void snecki_detach_reply(struct lock_core *core, struct lock_grant *grant, const struct lock_call *call,
        const struct lock_outcome *outcome, const char *detail, int64_t sent_ns, int64_t now_ns) {
	if (grant->conv != CONV_DETACH)
		return;
	switch (outcome->status) {
	case LOCK_GRANTED:
		if (grant->wish)
			detached(core, grant, now_ns);
		else
			detached_for_nobody(core, grant, call, outcome, sent_ns, now_ns);
		return;
	case LOCK_UNKNOWN:
		unanswered(core, grant, outcome->code == 0, now_ns);
		return;
	case LOCK_BUSY:
		refused(core, grant, SNECK_EBUSY, "too many hold it beside a writer", now_ns);
		return;
	case LOCK_FAILED:
		if (outcome->retry || is_marked(grant) ||
		        snecki_grant_unaccounted(grant, grant->conv_attempt)) {
			grant->retry_at_ns = now_ns + RETRY_NS;
			snecki_lease_arm(core, grant);
			return;
		}
		refused(core, grant, outcome->code, detail, now_ns);
		return;
	default:
		snecki_conv_lost(core, grant, outcome, now_ns);
		return;
	}
}
