/* SPDX-License-Identifier: MIT */
/* Programs that use the cores: mostly as a sensible program would (an owner does one thing at a time),
 * now and then as two threads with one owner id might. Handles and wishes are freed the moment they
 * may be, so that a core that still touches one is caught by the address sanitizer. */
#include "sim_world.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <sneck/error.h>

#include "lock/private.h"

static const char *const kind_names[] = { "acquire", "upgrade", "release", "renew", "downgrade", "detach",
	"adopt" };
static const char *const lock_names[WORLD_LOCKS] = { "a", "b" };

/* ---- Handles and wishes -------------------------------------------------------------------------*/

static struct handle *new_handle(struct session *session, int lock_index) {
	struct handle *handle = sim_new(sizeof *handle);

	handle->session = session;
	handle->lock_index = lock_index;
	handle->told = HOLD_HELD;
	snecki_list_init(&handle->lock.in_grant);
	snecki_list_append(&session->handles, &handle->node);
	session->handles_n++;
	return handle;
}

static void free_handle(struct handle *handle) {
	snecki_list_remove(&handle->node);
	handle->session->handles_n--;
	free(handle);
}

static struct wish *new_wish(struct session *session, enum wish_kind kind, struct handle *handle) {
	struct wish *wish = sim_new(sizeof *wish);

	memset(&wish->wish, 0xa5, sizeof wish->wish); /* whatever the core needs it must set itself */
	wish->wish.kind = kind;
	wish->wish.layout = NULL;
	wish->wish.mode = handle->lock.mode;
	wish->wish.fixed = wish->wish.prefer = wish->wish.nowait = wish->wish.timed = false;
	wish->wish.owner = handle->lock.owner;
	wish->wish.tag = 0;
	wish->wish.lease_ms = handle->lock.lease_ms;
	wish->wish.linger_ms = 0;
	wish->wish.ack_replicas = wish->wish.ack_ms = 0;
	wish->wish.hold = &handle->lock;
	wish->wish.done = false;
	wish->session = session;
	wish->handle = handle;
	wish->began_ns = session->world->now_ns;
	handle->busy++;
	snecki_list_append(&session->wishes, &wish->node);
	session->wishes_n++;
	return wish;
}

static bool code_fits(const struct wish *wish) {
	switch (wish->wish.code) {
	case 0:
	case SNECK_ELOST:
	case SNECK_EBROKEN:
		return true;
	case SNECK_ENOMEM:
		return wish->session->world->starved > 0;
	case SNECK_ESERVER:
	case SNECK_EACCES:
		return wish->session->world->refusals > 0 || wish->session->world->forgets > 0;
	case SNECK_EBUSY:
		return wish->wish.nowait || wish->wish.kind != WISH_RELEASE;
	case SNECK_ETIMEDOUT:
		return (wish->wish.timed || wish->given_up) &&
		       (wish->wish.kind == WISH_ACQUIRE || wish->wish.kind == WISH_UPGRADE);
	case SNECK_EREPLICAS:
		return wish->wish.ack_replicas > 0;
	case SNECK_EDEADLK:
		return wish->wish.kind == WISH_ACQUIRE || wish->wish.kind == WISH_UPGRADE;
	case SNECK_ECANCELED:
		return true;
	case SNECK_ECLOSED:
		return wish->session->closing;
	case SNECK_ECONN:
	case SNECK_EUNKNOWN:
		return true;
	default:
		return false;
	}
}

static void acquired(struct handle *handle, bool adopted) {
	struct world *world = handle->session->world;

	handle->held = true;
	handle->told = handle->lock.state;
	if (!handle->lock.grant || snecki_hold_valid_until(&handle->lock) <= world->now_ns)
		world_fail(world, "s%d: an acquisition succeeds without a valid hold", handle->session->id);
	check_token(handle, adopted);
}

static void detached(struct wish *wish) {
	struct world *world = wish->session->world;

	if (wish->handle->lock.grant)
		world_fail(world, "a detached hold is still attached");
	if (world->detached_n == WORLD_DETACHED)
		return;
	struct detached *entry = &world->detached[world->detached_n++];
	entry->open = true;
	entry->lock = wish->handle->lock_index;
	entry->until_ns = wish->began_ns + (wish->wish.lease_ms - 1) * NS_PER_MS;
	memcpy(entry->id, wish->wish.id, sizeof entry->id);
}

static void succeeded(struct wish *wish) {
	struct world *world = wish->session->world;
	struct handle *handle = wish->handle;

	world->succeeded[wish->wish.kind]++;
	switch (wish->wish.kind) {
	case WISH_ACQUIRE:
	case WISH_ADOPT:
		acquired(handle, wish->wish.kind == WISH_ADOPT);
		return;
	case WISH_UPGRADE:
		if (!handle->lock.grant || handle->lock.mode != 'W')
			world_fail(world, "s%d: an upgrade succeeds and the hold is no writer",
			        wish->session->id);
		check_token(handle, false);
		return;
	case WISH_DOWNGRADE:
		if (handle->lock.mode != 'R')
			world_fail(world, "s%d: a downgrade succeeds and the hold writes", wish->session->id);
		if (handle->lock.grant && !owner_has_more(handle)) /* else its owner goes on as it did */
			check_token(handle, false);
		return;
	case WISH_DETACH:
		detached(wish);
		return;
	case WISH_RENEW:
		if (snecki_hold_valid_until(&handle->lock) <= world->now_ns)
			world_fail(world, "s%d: a renewal succeeds and the hold is not valid",
			        wish->session->id);
		return;
	case WISH_RELEASE:
		return;
	}
}

void program_finish(struct wish *wish) {
	struct session *session = wish->session;
	struct world *world = session->world;
	struct handle *handle = wish->handle;
	enum wish_kind kind = wish->wish.kind;
	bool ok = wish->wish.code == 0;

	world_trace(world, "s%d owner %" PRIu64 ": %s ends with %d %s", session->id, wish->wish.owner,
	        kind_names[kind], wish->wish.code, wish->wish.detail);
	if (!wish->wish.done || !code_fits(wish))
		world_fail(world, "s%d: %s ends with %d", session->id, kind_names[kind], wish->wish.code);
	world->completed[kind]++;
	if (handle)
		handle->busy--;
	if (ok)
		succeeded(wish);
	bool over = ok ? kind == WISH_DETACH : kind == WISH_ACQUIRE || kind == WISH_ADOPT;
	if (handle && over)
		handle->freed_later = true;
	if (handle && handle->freed_later && handle->busy == 0)
		free_handle(handle);
	snecki_list_remove(&wish->node);
	session->wishes_n--;
	memset(&wish->wish, 0x5a, sizeof wish->wish);
	free(wish);
}

void program_forget(struct session *session) {
	LIST_EACH (w, &session->wishes)
		free(LIST_ITEM(w, struct wish, node));
	LIST_EACH (h, &session->handles)
		free(LIST_ITEM(h, struct handle, node));
	snecki_list_init(&session->wishes);
	snecki_list_init(&session->handles);
	session->wishes_n = session->handles_n = 0;
}

/* ---- Choosing -----------------------------------------------------------------------------------*/

static bool owner_waits(const struct session *session, uint64_t owner) {
	LIST_EACH (at, &session->wishes) {
		const struct wish *wish = LIST_ITEM(at, struct wish, node);
		if (wish->wish.owner == owner && wish->wish.kind != WISH_RELEASE)
			return true;
	}
	return false;
}

static bool owner_gone(const struct session *session, uint64_t owner) {
	return session->owners_gone & (1u << owner);
}

/* A hold that the program may use now; NULL: none. mode 0: any. */
static struct handle *choose_handle(struct session *session, char mode) {
	struct world *world = session->world;
	struct handle *found = NULL;
	int n = 0;

	LIST_EACH (at, &session->handles) {
		struct handle *handle = LIST_ITEM(at, struct handle, node);
		if (!handle->held || handle->freed_later || owner_gone(session, handle->lock.owner))
			continue;
		if (mode && handle->lock.mode != mode)
			continue;
		if (owner_waits(session, handle->lock.owner) && !world_chance(world, 60))
			continue;
		if (world_below(world, ++n) == 0)
			found = handle;
	}
	return found;
}

/* ---- Doing --------------------------------------------------------------------------------------*/

static void begin(struct session *session) {
	session->world->inside_core = true;
}

static void end(struct session *session) {
	session->world->inside_core = false;
	world_settle(session->world);
}

static int64_t some_lease(struct world *world) {
	static const int64_t leases[] = { 500, 1200, 5000, 30000 };
	return leases[world_below(world, 4)];
}

static int64_t some_linger(struct world *world) {
	static const int64_t lingers[] = { 1, 60, 700, 60000 };
	return world_chance(world, world->lingers) ? lingers[world_below(world, 4)] : 0;
}

static void fill_acquire(struct session *session, struct wish *wish, uint64_t owner) {
	struct world *world = session->world;
	struct lock_wish *lock = &wish->wish;

	lock->mode = world_chance(world, 450) ? 'W' : 'R';
	lock->fixed = world_chance(world, 200);
	lock->prefer = lock->mode == 'W' && world_chance(world, 250);
	lock->nowait = world_chance(world, 250);
	lock->timed = !lock->nowait && world_chance(world, 300);
	lock->deadline_ns = world->now_ns + world_below(world, 4000) * NS_PER_MS;
	lock->owner = owner;
	lock->tag = owner;
	lock->lease_ms = some_lease(world);
	lock->linger_ms = some_linger(world);
	lock->ack_replicas = world_chance(world, world->acks) ? 1 + (uint32_t)world_below(world, 2) : 0;
	wish->handle->lock.owner = owner;
	wish->handle->lock.lease_ms = lock->lease_ms;
}

static void acquire(struct session *session, struct wish *wish, int lock) {
	const struct lock_wish *what = &wish->wish;

	world_trace(session->world,
	        "s%d owner %" PRIu64 ": acquire %c of %s%s%s%s lease %" PRId64 " linger %" PRId64,
	        session->id, what->owner, what->mode, lock_names[lock], what->fixed ? " fixed" : "",
	        what->nowait ? " nowait" : "", what->prefer ? " prefer" : "", what->lease_ms,
	        what->linger_ms);
	begin(session);
	snecki_core_acquire(session->core, lock_names[lock], 1, &wish->wish, session->world->now_ns);
	end(session);
}

static void do_acquire(struct session *session) {
	struct world *world = session->world;
	uint64_t owner = 1 + (uint64_t)world_below(world, WORLD_OWNERS);
	int lock = world_chance(world, 150) ? 1 : 0;

	if (session->handles_n >= 8 || owner_gone(session, owner))
		return;
	if (owner_waits(session, owner) && !world_chance(world, 60))
		return;
	struct wish *wish = new_wish(session, WISH_ACQUIRE, new_handle(session, lock));
	fill_acquire(session, wish, owner);
	acquire(session, wish, lock);
}

static void do_adopt(struct session *session) {
	struct world *world = session->world;

	if (world->detached_n == 0 || session->handles_n >= 8)
		return;
	struct detached *entry = &world->detached[world_below(world, (int)world->detached_n)];
	uint64_t owner = 1 + (uint64_t)world_below(world, WORLD_OWNERS);
	if (owner_gone(session, owner) || owner_waits(session, owner))
		return;
	if (!entry->open && !world_chance(world, 100))
		return;
	entry->open = world_chance(world, 100);
	entry->until_ns = 0;
	struct wish *wish = new_wish(session, WISH_ADOPT, new_handle(session, entry->lock));
	fill_acquire(session, wish, owner);
	wish->wish.timed = wish->wish.prefer = false;
	memcpy(wish->wish.id, entry->id, sizeof wish->wish.id);
	world_trace(world, "s%d owner %" PRIu64 ": adopt %s lease %" PRId64, session->id, owner, entry->id,
	        wish->wish.lease_ms);
	begin(session);
	snecki_core_adopt(session->core, lock_names[entry->lock], 1, &wish->wish, world->now_ns);
	end(session);
}

/* The handle is the program's to free as soon as the call has begun. */
void program_release(struct session *session, struct handle *handle) {
	struct wish *wish = new_wish(session, WISH_RELEASE, handle);

	world_trace(session->world, "s%d owner %" PRIu64 ": release %c of %s", session->id,
	        handle->lock.owner, handle->lock.mode, lock_names[handle->lock_index]);
	wish->handle = NULL;
	handle->busy--;
	begin(session);
	snecki_core_release(session->core, &wish->wish, session->world->now_ns);
	session->world->inside_core = false;
	if (handle->busy != 0)
		world_fail(session->world, "s%d: a hold was released, and something still waits for it",
		        session->id);
	free_handle(handle);
	world_settle(session->world);
}

/* Programs that let things linger take them again, mostly in the same way. */
static void take_again(struct session *session, int lock, char mode) {
	struct world *world = session->world;
	uint64_t owner = 1 + (uint64_t)world_below(world, WORLD_OWNERS);

	if (session->handles_n >= 8 || owner_gone(session, owner) || owner_waits(session, owner))
		return;
	struct wish *wish = new_wish(session, WISH_ACQUIRE, new_handle(session, lock));
	fill_acquire(session, wish, owner);
	if (world_chance(world, 800)) {
		wish->wish.mode = mode;
		wish->wish.fixed = wish->wish.prefer = false;
	}
	acquire(session, wish, lock);
}

static void do_release(struct session *session) {
	struct handle *handle = choose_handle(session, 0);

	if (!handle)
		return;
	int lock = handle->lock_index;
	char mode = handle->lock.mode;
	program_release(session, handle);
	if (world_chance(session->world, session->world->lingers))
		take_again(session, lock, mode);
}

static void do_convert(struct session *session) {
	static const struct {
		enum wish_kind kind;
		char mode;
		void (*call)(struct lock_core *, struct lock_wish *, int64_t);
	} choices[] = {
		{ WISH_UPGRADE, 'R', snecki_core_upgrade },
		{ WISH_UPGRADE, 'R', snecki_core_upgrade },
		{ WISH_DOWNGRADE, 'W', snecki_core_downgrade },
		{ WISH_RENEW, 0, snecki_core_renew },
		{ WISH_DETACH, 0, snecki_core_detach },
	};
	struct world *world = session->world;
	int choice = world_below(world, 5);
	struct handle *handle = choose_handle(session, choices[choice].mode);

	if (!handle)
		return;
	struct wish *wish = new_wish(session, choices[choice].kind, handle);
	if (choices[choice].kind == WISH_UPGRADE) {
		wish->wish.nowait = world_chance(world, 250);
		wish->wish.timed = !wish->wish.nowait && world_chance(world, 400);
		wish->wish.deadline_ns = world->now_ns + world_below(world, 4000) * NS_PER_MS;
		wish->wish.tag = wish->wish.owner;
		wish->wish.ack_replicas = handle->lock.ack_replicas;
	} else if (choices[choice].kind != WISH_DOWNGRADE) {
		wish->wish.lease_ms = some_lease(world);
	}
	world_trace(world, "s%d owner %" PRIu64 ": %s of %c in %s", session->id, wish->wish.owner,
	        kind_names[wish->wish.kind], handle->lock.mode, lock_names[handle->lock_index]);
	begin(session);
	choices[choice].call(session->core, &wish->wish, world->now_ns);
	end(session);
}

static void do_cancel(struct session *session) {
	struct world *world = session->world;
	uint64_t tag = 1 + (uint64_t)world_below(world, WORLD_OWNERS);

	world_trace(world, "s%d: cancel tag %" PRIu64, session->id, tag);
	begin(session);
	snecki_core_cancel_tag(session->core, tag, world->now_ns);
	end(session);
}

static void do_give_up(struct session *session) {
	struct world *world = session->world;

	if (session->wishes_n == 0)
		return;
	int n = world_below(world, (int)session->wishes_n);
	LIST_EACH (at, &session->wishes) {
		if (n-- > 0)
			continue;
		struct wish *wish = LIST_ITEM(at, struct wish, node);
		world_trace(world, "s%d owner %" PRIu64 ": gives up its %s", session->id, wish->wish.owner,
		        kind_names[wish->wish.kind]);
		wish->given_up = true;
		begin(session);
		snecki_core_give_up(session->core, &wish->wish, SNECK_ETIMEDOUT, world->now_ns);
		end(session);
		return;
	}
}

static void do_owner_gone(struct session *session) {
	struct world *world = session->world;
	uint64_t owner = 1 + (uint64_t)world_below(world, WORLD_OWNERS);

	if (owner_waits(session, owner) || owner_gone(session, owner))
		return;
	world_trace(world, "s%d owner %" PRIu64 " is gone", session->id, owner);
	session->owners_gone |= 1u << owner;
	begin(session);
	snecki_core_owner_gone(session->core, owner, world->now_ns);
	end(session);
}

void program_close(struct session *session) {
	struct world *world = session->world;

	world_trace(world, "s%d closes", session->id);
	session->closing = true;
	begin(session);
	snecki_core_close(session->core, world->now_ns);
	world->inside_core = false;
	if (session->wishes_n)
		world_fail(world, "s%d: closed, and a wish is not done", session->id);
	LIST_EACH (at, &session->handles) {
		struct handle *handle = LIST_ITEM(at, struct handle, node);
		if (handle->lock.grant)
			world_fail(world, "s%d: closed, and a hold is attached", session->id);
		free_handle(handle);
	}
	world_settle(world);
}

void program_step(struct session *session) {
	struct world *world = session->world;
	int choice = world_below(world, 1000);

	if (session->closing)
		return;
	if (choice < 360)
		do_acquire(session);
	else if (choice < 560)
		do_release(session);
	else if (choice < 850)
		do_convert(session);
	else if (choice < 930)
		do_adopt(session);
	else if (choice < 955)
		do_cancel(session);
	else if (choice < 985)
		do_give_up(session);
	else if (choice < 990)
		do_owner_gone(session);
	else if (choice < 993)
		program_close(session);
}

/* The program comes to its end: it gives back what it has. all: also what owners that are gone held. */
void program_tidy(struct session *session, bool all) {
	bool found;

	do {
		found = false;
		LIST_EACH (at, &session->handles) {
			struct handle *handle = LIST_ITEM(at, struct handle, node);
			bool lost = handle->lock.state >= HOLD_LOST;
			if (!handle->held || handle->freed_later || handle->busy)
				continue;
			if (owner_gone(session, handle->lock.owner) && !lost && !all)
				continue;
			program_release(session, handle);
			found = true;
			break;
		}
	} while (found && !session->closing);
}
