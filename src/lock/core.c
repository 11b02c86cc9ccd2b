/* SPDX-License-Identifier: MIT */
/* The lock table: entries, wishes, and the events that concern all of them.
 *
 * What the program asks for, answers and messages come after the timers that are due: a lease that is over
 * is lost, even if the answer at hand would have lengthened it. Every event ends in snecki_pump(entry) and
 * snecki_entry_settle(entry): the first lets the entry
 * make whatever progress the event allows, the second frees an entry of which nothing is left. An
 * entry must not be touched after it was settled. */
#include "lock/private.h"

#include <stdlib.h>
#include <string.h>

#include <sneck/error.h>

#include "base/alloc.h"

/* NULL: it is not there, or cannot be made. */
static struct lock_realm *find_realm(struct lock_core *core, const struct lock_traits *layout, bool create) {
	if (!layout)
		layout = core->config.layout;
	for (size_t i = 0; i < core->realms_n; i++)
		if (core->realms[i].layout == layout)
			return &core->realms[i];
	if (!create || core->realms_n == LOCK_LAYOUTS_MAX)
		return NULL;
	struct lock_realm *realm = &core->realms[core->realms_n];
	if (snecki_map_init(&realm->entries) < 0)
		return NULL;
	realm->layout = layout;
	core->realms_n++;
	return realm;
}

int snecki_core_new(const struct lock_core_config *config, struct lock_core **ret) {
	struct lock_core *core = calloc(1, sizeof *core);
	if (!core)
		return SNECK_ENOMEM;
	core->config = *config;
	core->rng = config->seed | 1;
	snecki_list_init(&core->wishes);
	for (int i = 0; i < LANES; i++)
		snecki_list_init(&core->lanes[i].renew_line);
	snecki_heap_init(&core->timers);
	snecki_heap_init(&core->wish_timers);
	if (!find_realm(core, config->layout, true))
		goto no_realm;
	if (snecki_map_init(&core->attempts) < 0)
		goto no_attempts;
	*ret = core;
	return 0;

no_attempts:
	snecki_map_done(&core->realms[0].entries);
no_realm:
	free(core);
	return SNECK_ENOMEM;
}

void snecki_core_free(struct lock_core *core) {
	struct lock_entry *entry;

	if (!core)
		return;
	while ((entry = snecki_entry_next(core, NULL))) {
		LIST_EACH (at, &entry->grants) {
			struct lock_grant *grant = LIST_ITEM(at, struct lock_grant, in_entry);
			snecki_list_remove(at);
			free(grant);
		}
		snecki_map_remove(&entry->realm->entries, &entry->by_name);
		free(entry);
	}
	for (size_t i = 0; i < core->realms_n; i++)
		snecki_map_done(&core->realms[i].entries);
	snecki_map_done(&core->attempts);
	snecki_heap_done(&core->timers);
	snecki_heap_done(&core->wish_timers);
	free(core);
}

uint64_t snecki_core_random(struct lock_core *core, uint64_t below) {
	core->rng = core->rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (core->rng >> 33) % below;
}

/* ---- Entries ------------------------------------------------------------------------------------*/

struct lock_entry *snecki_entry_get(struct lock_core *core, const struct lock_traits *layout,
        const void *name, size_t name_len, bool create) {
	struct lock_realm *realm = find_realm(core, layout, create);
	if (!realm)
		return NULL;
	struct lock_entry *recent = realm->recent;
	if (recent && recent->name_len == name_len && memcmp(recent->name, name, name_len) == 0)
		return recent;
	struct map_node *node = snecki_map_find(&realm->entries, name, name_len);
	if (node)
		return realm->recent = MAP_ITEM(node, struct lock_entry, by_name);
	if (!create)
		return NULL;
	struct lock_entry *entry = snecki_zalloc(sizeof *entry + name_len);
	if (!entry)
		return NULL;
	memcpy(entry->name, name, name_len);
	entry->name_len = name_len;
	entry->realm = realm;
	entry->lane = LANE_UNKNOWN;
	snecki_list_init(&entry->grants);
	snecki_list_init(&entry->queue);
	snecki_list_init(&entry->later);
	snecki_map_insert(&realm->entries, &entry->by_name, entry->name, name_len);
	return realm->recent = entry;
}

struct lock_entry *snecki_entry_next(const struct lock_core *core, const struct lock_entry *entry) {
	const struct lock_realm *realm = entry ? entry->realm : core->realms;
	const struct map_node *node = entry ? &entry->by_name : NULL;

	for (; realm < core->realms + core->realms_n; realm++, node = NULL) {
		struct map_node *next = snecki_map_next(&realm->entries, node);
		if (next)
			return MAP_ITEM(next, struct lock_entry, by_name);
	}
	return NULL;
}

void snecki_entry_settle(struct lock_entry *entry) {
	if (entry->calls || !snecki_list_empty(&entry->grants) || !snecki_list_empty(&entry->queue) ||
	        !snecki_list_empty(&entry->later))
		return;
	if (entry->realm->recent == entry)
		entry->realm->recent = NULL;
	snecki_map_remove(&entry->realm->entries, &entry->by_name);
	free(entry);
}

static void end_event(struct lock_core *core, struct lock_entry *entry, int64_t now_ns) {
	snecki_pump(core, entry, now_ns);
	snecki_entry_settle(entry);
}

/* ---- Wishes -------------------------------------------------------------------------------------*/

void snecki_wish_begin(struct lock_core *core, struct lock_wish *wish, struct lock_entry *entry) {
	wish->done = false;
	wish->code = 0;
	wish->local_block = false;
	wish->holder_mode = 0;
	wish->ahead = 0;
	wish->holder[0] = '\0';
	wish->detail[0] = '\0';
	wish->answered = false;
	wish->entry = entry;
	wish->grant = NULL;
	wish->call = NULL;
	wish->timer.index = 0;
	snecki_list_init(&wish->node);
	snecki_list_append(&core->wishes, &wish->all);
	core->wishes_n++;
	if (wish->kind == WISH_ACQUIRE || wish->kind == WISH_UPGRADE)
		core->counters.waiters++;
	if (wish->timed && snecki_heap_insert(&core->wish_timers, &wish->timer, wish->deadline_ns) < 0)
		wish->timed = false; /* it still ends: with the grant, or by cancel */
}

/* A wish about a hold. False: the hold is no more, and the wish is done. */
bool snecki_wish_begin_about(struct lock_core *core, struct lock_wish *wish) {
	const struct lock_hold *hold = wish->hold;

	snecki_wish_begin(core, wish, hold->entry);
	if (hold->grant)
		return true;
	snecki_wish_finish(core, wish, hold->state == HOLD_BROKEN ? SNECK_EBROKEN : SNECK_ELOST, NULL);
	return false;
}

static void count_result(struct lock_core *core, const struct lock_wish *wish) {
	if (wish->kind == WISH_ACQUIRE || wish->kind == WISH_UPGRADE) {
		core->counters.waiters--;
		if (wish->code < 0)
			core->counters.refusals++;
	} else if (wish->kind == WISH_RELEASE && wish->code == 0) {
		core->counters.releases++;
	}
	if (wish->code == 0 && (wish->kind == WISH_ACQUIRE || wish->kind == WISH_ADOPT))
		core->counters.acquires++;
}

void snecki_wish_finish(struct lock_core *core, struct lock_wish *wish, int code, const char *detail) {
	if (wish->done)
		return;
	wish->done = true;
	wish->code = code;
	if (detail && code < 0) {
		size_t len = strnlen(detail, sizeof wish->detail - 1);
		memcpy(wish->detail, detail, len);
		wish->detail[len] = '\0';
	}
	snecki_list_remove(&wish->node);
	snecki_list_remove(&wish->all);
	snecki_heap_remove(&core->wish_timers, &wish->timer);
	core->wishes_n--;
	if (wish->call)
		wish->call->ticket = NULL;
	if (wish->grant) {
		if (wish->grant->wish == wish)
			wish->grant->wish = NULL;
		if (wish->grant->ticket == wish)
			wish->grant->ticket = NULL;
	}
	wish->call = NULL;
	wish->grant = NULL;
	wish->entry = NULL;
	count_result(core, wish);
	core->config.hooks->complete(core->config.ctx, wish);
}

void snecki_wish_refuse(struct lock_core *core, struct lock_wish *wish, int code) {
	const struct lock_entry *entry = wish->entry;

	if (entry->local_holder) {
		size_t len = strnlen(core->config.session, sizeof wish->holder - 1);
		memcpy(wish->holder, core->config.session, len);
		wish->holder[len] = '\0';
		wish->local_block = true;
	} else {
		memcpy(wish->holder, entry->holder, sizeof wish->holder);
	}
	wish->holder_mode = entry->holder_mode;
	wish->ahead = entry->ahead;
	snecki_wish_finish(core, wish, code, NULL);
}

static const struct lock_grant *ask_of(const struct lock_wish *wish) {
	return wish->grant ? wish->grant : wish->entry->pending;
}

bool snecki_wish_unanswered(const struct lock_wish *wish) {
	if (!wish->done && snecki_ack_pending(wish))
		return true;
	if (wish->done || wish->answered)
		return false;
	if (wish->kind != WISH_ACQUIRE)
		return wish->kind != WISH_UPGRADE || (wish->grant && wish->grant->conv == CONV_UP_ASKED);
	const struct lock_grant *ask = ask_of(wish);
	if (!ask || (ask->state != GRANT_ASKED && ask->conv != CONV_UP_ASKED))
		return false;
	/* Behind another wish of this session it was never asked for. */
	return wish->grant || wish->entry->queue.next == &wish->node;
}

/* What ends unanswered may still take effect; the rest was merely not granted. */
static int give_up_code(const struct lock_wish *wish, int code) {
	if (code != SNECK_ETIMEDOUT)
		return code;
	if (wish->kind != WISH_ACQUIRE && wish->kind != WISH_UPGRADE)
		return SNECK_EUNKNOWN;
	if (snecki_ack_pending(wish))
		return SNECK_EREPLICAS;
	if (!snecki_wish_unanswered(wish))
		return code;
	const struct lock_grant *ask = ask_of(wish);
	if (ask->bury_n == 0 && ask->last_code)
		return ask->last_code;
	return SNECK_EUNKNOWN;
}

void snecki_core_give_up(struct lock_core *core, struct lock_wish *wish, int code, int64_t now_ns) {
	struct lock_entry *entry = wish->entry;
	struct lock_grant *grant = wish->grant;

	if (wish->done)
		return;
	code = give_up_code(wish, code);
	char detail[LOCK_DETAIL_MAX] = "";
	if (grant && grant->last_code == code)
		memcpy(detail, grant->detail, sizeof detail);
	else if (!grant && entry->pending && entry->pending->last_code == code)
		memcpy(detail, entry->pending->detail, sizeof detail);
	switch (wish->kind) {
	case WISH_ACQUIRE:
	case WISH_UPGRADE:
	case WISH_DOWNGRADE:
	case WISH_DETACH:
		if (grant && grant->conv != CONV_NONE)
			snecki_conv_give_up(core, wish, now_ns);
		else if (grant)
			snecki_grant_leave(core, grant, NULL, now_ns);
		break;
	case WISH_ADOPT:
		if (grant)
			snecki_grant_leave(core, grant, NULL, now_ns);
		break;
	case WISH_RELEASE: /* goes on in the background */
	case WISH_RENEW:
		break;
	}
	if (code == SNECK_ETIMEDOUT || code == SNECK_EBUSY)
		snecki_wish_refuse(core, wish, code);
	else
		snecki_wish_finish(core, wish, code, detail[0] ? detail : NULL);
	end_event(core, entry, now_ns);
}

size_t snecki_core_cancel_tag(struct lock_core *core, uint64_t tag, int64_t now_ns) {
	size_t n = 0;
	bool found;

	/* Ending one wish may end others, so the walk starts again after each. */
	do {
		found = false;
		LIST_EACH (at, &core->wishes) {
			struct lock_wish *wish = LIST_ITEM(at, struct lock_wish, all);
			if (wish->tag != tag || (wish->kind != WISH_ACQUIRE && wish->kind != WISH_UPGRADE))
				continue;
			snecki_core_give_up(core, wish, SNECK_ECANCELED, now_ns);
			found = true;
			n++;
			break;
		}
	} while (found);
	return n;
}

/* ---- Owners and the end -------------------------------------------------------------------------*/

size_t snecki_core_owner_gone(struct lock_core *core, uint64_t owner, int64_t now_ns) {
	size_t n = 0;

	(void)now_ns;
	for (struct lock_entry *entry = NULL; (entry = snecki_entry_next(core, entry));) {
		LIST_EACH (g, &entry->grants) {
			struct lock_grant *grant = LIST_ITEM(g, struct lock_grant, in_entry);
			LIST_EACH (h, &grant->holds) {
				struct lock_hold *hold = LIST_ITEM(h, struct lock_hold, in_grant);
				if (hold->owner != owner || !snecki_hold_live(hold))
					continue;
				n++;
				if (hold->fixed_until_ns == NS_NEVER)
					hold->fixed_until_ns = grant->valid_until_ns;
			}
			snecki_lease_arm(core, grant);
		}
	}
	return n;
}

static void close_entry(struct lock_core *core, struct lock_entry *entry, int64_t now_ns) {
	LIST_EACH (g, &entry->grants) {
		struct lock_grant *grant = LIST_ITEM(g, struct lock_grant, in_entry);
		LIST_EACH (h, &grant->holds) {
			struct lock_hold *hold = LIST_ITEM(h, struct lock_hold, in_grant);
			snecki_hold_detach(core, hold);
		}
		if (grant->state != GRANT_LEAVING) {
			snecki_grant_leave(core, grant, NULL, now_ns);
		} else if (grant->retry_at_ns != NS_NEVER) { /* there is no later */
			grant->retry_at_ns = NS_NEVER;
			snecki_grant_send_leave(core, grant, now_ns);
		}
	}
}

void snecki_core_close(struct lock_core *core, int64_t now_ns) {
	core->closing = true;
	while (!snecki_list_empty(&core->wishes)) {
		struct lock_wish *wish = LIST_ITEM(core->wishes.next, struct lock_wish, all);
		snecki_core_give_up(core, wish, SNECK_ECLOSED, now_ns);
	}
	for (struct lock_entry *entry = NULL; (entry = snecki_entry_next(core, entry));)
		close_entry(core, entry, now_ns);
}

void snecki_core_listen(struct lock_core *core) {
	core->hints = true;
	for (struct lock_entry *entry = NULL; (entry = snecki_entry_next(core, entry));)
		LIST_EACH (g, &entry->grants) {
			struct lock_grant *grant = LIST_ITEM(g, struct lock_grant, in_entry);
			if (grant->state == GRANT_HELD)
				snecki_grant_want_hints(core, grant);
		}
}

bool snecki_core_shares(const struct lock_core *core) {
	return core->shares;
}

bool snecki_core_idle(const struct lock_core *core) {
	return core->calls_n == 0;
}

/* ---- The link -----------------------------------------------------------------------------------*/

static bool in_lane(const struct lock_entry *entry, int lane) {
	return lane < 0 || entry->lane == LANE_UNKNOWN || entry->lane == (unsigned)lane % LANES;
}

typedef void visit_fn(struct lock_core *core, struct lock_grant *grant, int64_t since_ns, int64_t now_ns);

static void each_grant(struct lock_core *core, int lane, int64_t since_ns, int64_t now_ns, visit_fn *visit) {
	struct lock_entry *next = snecki_entry_next(core, NULL);

	while (next) {
		struct lock_entry *entry = next;
		next = snecki_entry_next(core, entry);
		if (!in_lane(entry, lane))
			continue;
		LIST_EACH (g, &entry->grants) {
			struct lock_grant *grant = LIST_ITEM(g, struct lock_grant, in_entry);
			visit(core, grant, since_ns, now_ns);
			snecki_lease_arm(core, grant);
		}
	}
}

/* The server may have lost it while we were apart. */
static void doubt(struct lock_core *core, struct lock_grant *grant, int64_t now_ns) {
	if (grant->lingers)
		grant->linger_until_ns = now_ns;
	else
		grant->renew_at_ns = now_ns;
	if (!snecki_list_empty(&grant->holds) && !snecki_grant_renewed(grant) && !grant->renewing)
		snecki_lease_renew(core, grant, NULL, 1); /* lengthens nothing: is it still there? */
}

/* What waits for a retry is due now. */
static void retry_now(struct lock_core *core, struct lock_grant *grant, int64_t since_ns, int64_t now_ns) {
	if (grant->retry_at_ns != NS_NEVER)
		grant->retry_at_ns = now_ns;
	/* What had to wait for the connection may have been granted before we were told of it. */
	if (grant->state == GRANT_HELD && grant->confirmed_ns < since_ns)
		doubt(core, grant, now_ns);
	if (grant->last_code && (grant->state == GRANT_QUEUED || grant->conv == CONV_UP_QUEUED))
		grant->beat_at_ns = now_ns;
}

void snecki_core_connected(struct lock_core *core, int lane, int64_t since_ns, int64_t now_ns) {
	each_grant(core, lane, since_ns, now_ns, retry_now);
}

/* A grant may have been announced while nobody listened. */
static void look_again(struct lock_core *core, struct lock_grant *grant, int64_t since_ns, int64_t now_ns) {
	(void)since_ns;
	if (grant->state == GRANT_ASKED)
		grant->unheard = true; /* granted already, perhaps, and wanted */
	else if (grant->conv == CONV_UP_ASKED)
		snecki_linger_look(grant, now_ns);
	snecki_grant_ask_again(core, grant, now_ns);
}

void snecki_core_subscribed(struct lock_core *core, int64_t now_ns) {
	each_grant(core, -1, now_ns, now_ns, look_again);
}

/* ---- Time ---------------------------------------------------------------------------------------*/

int64_t snecki_core_next_due(const struct lock_core *core) {
	const struct heap_node *grant = snecki_heap_min(&core->timers);
	const struct heap_node *wish = snecki_heap_min(&core->wish_timers);
	int64_t due = grant ? grant->key : NS_NEVER;

	return wish && wish->key < due ? wish->key : due;
}

void snecki_core_run(struct lock_core *core, int64_t now_ns) {
	struct heap_node *node;
	uint64_t sent = core->renewals_sent;

	while ((node = snecki_heap_min(&core->wish_timers)) && node->key <= now_ns)
		snecki_core_give_up(core, HEAP_ITEM(node, struct lock_wish, timer), SNECK_ETIMEDOUT, now_ns);
	while ((node = snecki_heap_min(&core->timers)) && node->key <= now_ns) {
		struct lock_grant *grant = HEAP_ITEM(node, struct lock_grant, timer);
		struct lock_entry *entry = grant->entry;
		snecki_heap_remove(&core->timers, node);
		snecki_lease_timer(core, grant, now_ns); /* may drop the grant; arms it otherwise */
		end_event(core, entry, now_ns);
	}
	if (core->renewals_sent > sent)
		snecki_lease_renew_along(core, core->renewals_sent - sent, now_ns);
}

void snecki_core_counters(const struct lock_core *core, struct lock_core_counters *ret) {
	*ret = core->counters;
	ret->holds = core->holds_n;
}

bool snecki_hold_id(const struct lock_core *core, const struct lock_hold *hold, char ret_id[LOCK_ID_MAX]) {
	if (!snecki_hold_live(hold))
		return false;
	core->config.hooks->own_id(core->config.ctx, snecki_layout_of(hold->grant), hold->grant->mode,
	        hold->grant->attempt, ret_id);
	return true;
}
