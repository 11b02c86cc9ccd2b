/* SPDX-License-Identifier: MIT */
/* What must be true. check_world runs after every single event. */
#include "sim_world.h"

#include <inttypes.h>

#include "lock/private.h"

static bool believed(const struct handle *handle) {
	return handle->held && handle->lock.state <= HOLD_SUSPECT &&
	       snecki_hold_valid_until(&handle->lock) > handle->session->world->now_ns && !handle->broken;
}

/* ---- Two holds -----------------------------------------------------------------------------------*/

static bool conflict(const struct handle *a, const struct handle *b) {
	if (a->lock_index != b->lock_index || (a->lock.mode == 'R' && b->lock.mode == 'R'))
		return false;
	return a->session != b->session || a->lock.owner != b->lock.owner;
}

static void check_against_others(const struct world *world, const struct handle *one) {
	for (int i = 0; i < world->sessions_n; i++) {
		if (!world->sessions[i].core)
			continue;
		LIST_EACH (at, &world->sessions[i].handles) {
			const struct handle *other = LIST_ITEM(at, struct handle, node);
			if (other != one && believed(other) && conflict(one, other))
				world_fail(world,
				        "two holds at once: s%d owner %" PRIu64 " %c and s%d owner %" PRIu64
				        " %c",
				        one->session->id, one->lock.owner, one->lock.mode, other->session->id,
				        other->lock.owner, other->lock.mode);
		}
	}
}

/* ---- What is believed is true --------------------------------------------------------------------*/

/* The server has the hold under one of the names that it may have by now, and keeps it long enough. */
static void check_backed(const struct world *world, const struct handle *handle) {
	const struct lock_grant *grant = handle->lock.grant;
	const struct sim_lock *lock = &world->locks[handle->lock_index];
	int session = handle->session->id;
	const struct sim_holder *holder = sim_find_holder(lock, session, grant->attempt);
	const struct sim_holder *converted = sim_find_holder(lock, session, grant->conv_attempt);

	if (converted && (!holder || converted->deadline_ms > holder->deadline_ms))
		holder = converted; /* the old name may be that of a late copy */
	if (!holder)
		world_fail(world, "s%d owner %" PRIu64 " believes in a hold that the server does not know",
		        session, handle->lock.owner);
	if (handle->lock.mode == 'W' && holder->mode != 'W')
		world_fail(world, "s%d owner %" PRIu64 " writes where the server has a reader", session,
		        handle->lock.owner);
	int64_t left_ns = world_from_server_ms(holder->deadline_ms) - snecki_hold_valid_until(&handle->lock);
	if (left_ns < NS_PER_MS) /* the smallest margin, less the server's rounding to milliseconds */
		world_fail(world, "s%d owner %" PRIu64 " believes %.3f ms longer than the server", session,
		        handle->lock.owner, (double)-left_ns / 1e6);
}

/* ---- Nothing is left behind ----------------------------------------------------------------------*/

/* What was detached waits for its adopter. */
static void check_detached(const struct world *world) {
	char mode;
	int session;
	uint64_t attempt;

	for (size_t i = 0; i < world->detached_n; i++) {
		const struct detached *entry = &world->detached[i];
		const struct sim_lock *lock = &world->locks[entry->lock];
		if (world->now_ns >= entry->until_ns || !sim_parse_id(entry->id, &mode, &session, &attempt))
			continue;
		if (!sim_find_holder(lock, session, attempt) && !sim_is_broken(lock, session, attempt))
			world_fail(world, "the detached hold %s has gone", entry->id);
	}
}

static bool is_detached(const struct world *world, int lock, const struct sim_holder *holder) {
	char mode;
	int session;
	uint64_t attempt;

	for (size_t i = 0; i < world->detached_n; i++)
		if (world->detached[i].lock == lock &&
		        sim_parse_id(world->detached[i].id, &mode, &session, &attempt) &&
		        session == holder->session && attempt == holder->attempt)
			return true;
	return world->detached_n == WORLD_DETACHED;
}

/* Such an attempt is ended with the grant that has it on its list. */
static bool will_be_buried(const struct lock_core *core, uint64_t attempt) {
	for (struct map_node *node = NULL; (node = snecki_map_next(&core->realms[0].entries, node));) {
		const struct lock_entry *entry = MAP_ITEM(node, struct lock_entry, by_name);
		LIST_EACH (g, &entry->grants)
			if (snecki_grant_unaccounted(LIST_ITEM(g, struct lock_grant, in_entry), attempt))
				return true;
	}
	return false;
}

static bool is_known(const struct lock_core *core, uint64_t attempt) {
	return snecki_map_find(&core->attempts, &attempt, sizeof attempt) || will_be_buried(core, attempt);
}

static bool straggles(const struct world *world, int session) {
	LIST_EACH (at, &world->stragglers)
		if (LIST_ITEM(at, struct straggler, node)->session == session)
			return true;
	return false;
}

/* A session with nothing under way knows everything that the server keeps for it. */
static void check_no_ghosts(const struct world *world, const struct session *session) {
	if (!snecki_list_empty(&session->transits) || straggles(world, session->id))
		return;
	if (world->starved) /* a burial that found no memory is left to the end of the lease */
		return;
	for (int l = 0; l < WORLD_LOCKS; l++) {
		const struct sim_lock *lock = &world->locks[l];
		for (size_t i = 0; i < lock->holders_n; i++) {
			const struct sim_holder *holder = &lock->holders[i];
			if (holder->session == session->id &&
			        world_from_server_ms(holder->deadline_ms) > world->now_ns &&
			        !is_known(session->core, holder->attempt) && !is_detached(world, l, holder))
				world_fail(world, "s%d: the server keeps %c%" PRIu64 ", which nobody knows",
				        session->id, holder->mode, holder->attempt);
		}
		for (size_t i = 0; i < lock->waiters_n; i++) {
			const struct sim_waiter *waiter = &lock->waiters[i];
			if (waiter->session == session->id &&
			        world_from_server_ms(waiter->until_ms) > world->now_ns &&
			        !is_known(session->core, waiter->attempt))
				world_fail(world, "s%d: %" PRIu64 " waits on the server, and nobody knows",
				        session->id, waiter->attempt);
		}
	}
}

/* ---- Nothing is lost without need ----------------------------------------------------------------*/

static void look_at(struct handle *handle) {
	const struct lock_grant *grant = handle->lock.grant;
	const struct sim_lock *lock = &handle->session->world->locks[handle->lock_index];

	/* An operator has ended it. Its session will hear of it; until then it is wrong. */
	if (grant && (sim_is_broken(lock, handle->session->id, grant->attempt) ||
	                     sim_is_broken(lock, handle->session->id, grant->conv_attempt)))
		handle->broken = true;
	if (grant)
		LIST_EACH (h, &grant->holds)
			if (LIST_ITEM(LIST_ITEM(h, struct lock_hold, in_grant), struct handle, lock)->broken)
				handle->broken = true; /* nested in one that was */
	handle->attempt = grant ? grant->attempt : 0;
	handle->conv_attempt = grant ? grant->conv_attempt : 0;
	handle->valid_until_ns = snecki_hold_valid_until(&handle->lock);
}

/* A hold is lost when its time is over, or when the server has it no longer. */
void check_loss(const struct handle *handle) {
	const struct world *world = handle->session->world;
	const struct sim_lock *lock = &world->locks[handle->lock_index];
	const struct sim_holder *holder = sim_find_holder(lock, handle->session->id, handle->attempt);

	if (!holder)
		holder = sim_find_holder(lock, handle->session->id, handle->conv_attempt);
	if (handle->attempt && !handle->broken && handle->valid_until_ns > world->now_ns && holder &&
	        world_from_server_ms(holder->deadline_ms) > world->now_ns)
		world_fail(world, "s%d owner %" PRIu64 " loses what the server has", handle->session->id,
		        handle->lock.owner);
}

/* ---- Counts --------------------------------------------------------------------------------------*/

static void check_counts(const struct world *world, const struct session *session) {
	const struct lock_core *core = session->core;
	size_t transits = 0, attached = 0;

	LIST_EACH (at, &session->transits)
		transits++;
	LIST_EACH (at, &session->handles)
		attached += LIST_ITEM(at, struct handle, node)->lock.grant != NULL;
	if (transits != core->calls_n || session->wishes_n != core->wishes_n || attached != core->holds_n)
		world_fail(world, "s%d: %zu calls, %zu wishes, %zu holds; the core counts %zu, %zu, %zu",
		        session->id, transits, session->wishes_n, attached, core->calls_n, core->wishes_n,
		        core->holds_n);
}

void check_world(struct world *world) {
	for (int i = 0; i < world->sessions_n; i++) {
		struct session *session = &world->sessions[i];
		if (!session->core)
			continue;
		LIST_EACH (at, &session->handles)
			look_at(LIST_ITEM(at, struct handle, node));
	}
	check_detached(world);
	for (int i = 0; i < world->sessions_n; i++) {
		struct session *session = &world->sessions[i];
		if (!session->core)
			continue;
		check_counts(world, session);
		check_no_ghosts(world, session);
		LIST_EACH (at, &session->handles) {
			struct handle *handle = LIST_ITEM(at, struct handle, node);
			if (!believed(handle))
				continue;
			check_backed(world, handle);
			check_against_others(world, handle);
		}
	}
}

/* ---- Tokens --------------------------------------------------------------------------------------*/

bool owner_has_more(const struct handle *handle) {
	LIST_EACH (at, &handle->session->handles) {
		const struct handle *other = LIST_ITEM(at, struct handle, node);
		if (other != handle && other->held && other->lock.grant &&
		        other->lock_index == handle->lock_index && other->lock.owner == handle->lock.owner)
			return true;
	}
	return false;
}

/* The hold was taken or converted just now. Re-entry and adoption keep the number. */
void check_token(struct handle *handle, bool adopted) {
	struct world *world = handle->session->world;
	uint64_t *any = &world->token_max[handle->lock_index];
	uint64_t *write = &world->write_token_max[handle->lock_index];
	uint64_t token = handle->lock.token;
	uint64_t who = (uint64_t)handle->session->id << 8 | handle->lock.owner;
	bool goes_on = adopted || owner_has_more(handle) || world->writer[handle->lock_index] == who;

	LIST_EACH (at, &handle->session->handles) {
		struct handle *other = LIST_ITEM(at, struct handle, node);
		look_at(other);
		if (other->broken && other->lock_index == handle->lock_index && other->lock.grant)
			return; /* it may be nested in what is no more */
	}
	world_trace(world, "s%d owner %" PRIu64 ": token %" PRIu64, handle->session->id, handle->lock.owner,
	        token);
	if (!goes_on) {
		if (handle->lock.mode == 'W' && token <= *any)
			world_fail(world, "WRITE token %" PRIu64 " after %" PRIu64, token, *any);
		if (handle->lock.mode == 'R' && token <= *write)
			world_fail(world, "READ token %" PRIu64 " after WRITE token %" PRIu64, token, *write);
	} else if (token < *write) {
		world_fail(world, "token %" PRIu64 " of a hold that goes on after WRITE token %" PRIu64,
		        token, *write);
	}
	if (token > *any)
		*any = token;
	if (handle->lock.mode == 'W') {
		*write = token > *write ? token : *write;
		world->writer[handle->lock_index] = who;
	}
}

/* ---- The end -------------------------------------------------------------------------------------*/

static void check_empty(const struct world *world, const struct session *session) {
	const struct lock_core *core = session->core;

	if (snecki_map_count(&core->realms[0].entries) || snecki_map_count(&core->attempts) ||
	        core->grants_n || core->calls_n || core->wishes_n || core->holds_n ||
	        core->lanes[0].renewals_inflight || core->timers.count || core->wish_timers.count ||
	        core->counters.waiters)
		world_fail(world,
		        "s%d is not empty: %zu entries, %zu attempts, %zu grants, %zu calls, %zu wishes, %zu "
		        "holds, %u renewals, %zu and %zu timers",
		        session->id, snecki_map_count(&core->realms[0].entries),
		        snecki_map_count(&core->attempts), core->grants_n, core->calls_n, core->wishes_n,
		        core->holds_n, core->lanes[0].renewals_inflight, core->timers.count,
		        core->wish_timers.count);
}

/* Everybody has given back everything, and all leases of the dead are over. */
void check_end(struct world *world) {
	for (int i = 0; i < world->sessions_n; i++)
		if (world->sessions[i].core)
			check_empty(world, &world->sessions[i]);
	for (int l = 0; l < WORLD_LOCKS; l++) {
		struct lock_op op = { .kind = OP_ADVANCE };
		struct lock_outcome outcome;
		struct sim_notes notes = { 0 };
		sim_server_run(&world->locks[l], 0, &op, 1000, world_server_us(world), &outcome, &notes);
		if (world->locks[l].holders_n || world->locks[l].waiters_n)
			world_fail(world, "lock %c has %zu holders and %zu waiters at the end", 'a' + l,
			        world->locks[l].holders_n, world->locks[l].waiters_n);
	}
}
