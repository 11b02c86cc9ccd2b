/* SPDX-License-Identifier: MIT */
/* What a session of the model may do next, as far as its state, the rules for clients and the budget of the
 * walk allow. Nothing is changed here: a walk asks, chooses, and lets native_actor.c do it. */
#include "native_actions.h"
#include "native_world.h"

struct menu {
	struct move *moves;
	int n;
	int which;
};

static void offer(struct menu *menu, bool allowed, int action) {
	if (allowed)
		menu->moves[menu->n++] = (struct move){ MOVE_STEP, menu->which, action, 0 };
}

static void offer_unanswered(const struct world *world, const struct actor *a, struct menu *menu) {
	bool room = a->unaccounted_n < LOCK_BURY_MAX - 2;
	bool ending = a->phase == ENDING || a->phase == UNUPGRADING ||
	              (a->extra && a->request.attempt == a->extra && a->request.kind != OP_ACQUIRE);
	bool again = !(a->extra && a->request.attempt == a->extra && a->request.kind == OP_ACQUIRE);
	offer(menu, again && room && world->budget.resends > 0, RESEND);
	offer(menu, !ending && world->budget.abandons > 0, ABANDON);
	offer(menu, (a->phase == UPGRADING || a->phase == UNUPGRADING) && world->budget.abandons > 0,
	        RELEASE);
}

static void offer_held(const struct world *world, const struct actor *a, struct menu *menu) {
	const struct budget *budget = &world->budget;
	bool valid = world->now_us < a->valid_us, writes = a->mode == 'W';
	bool converts =
	        valid && a->claimed && budget->conversions > 0 && a->unaccounted_n < LOCK_BURY_MAX - 2;
	bool extra = valid && a->claimed && !a->extra && a->used == a->token && budget->extras > 0;
	bool in_reach = (int64_t)a->used + 1 < a->deadline_ms * 1000 || world_careless == USES_ANY_NEXT;
	offer(menu, true, RELEASE);
	offer(menu, valid && !a->claimed && budget->beats > 0, BEAT);
	offer(menu, valid && a->claimed && budget->renewals > 0, RENEW);
	offer(menu, converts && !writes, UPGRADE);
	offer(menu, converts && !writes, TRY_UPGRADE);
	offer(menu, converts && writes, DOWNGRADE);
	offer(menu, valid && writes && a->claimed && !a->extra && in_reach && budget->renewals > 0, USE_NEXT);
	offer(menu, extra, EXTRA_READ);
	offer(menu, extra, EXTRA_WRITE);
	offer(menu,
	        valid && a->claimed && !a->extra && !a->unaccounted_n && a->used == a->token &&
	                budget->detaches > 0,
	        DETACH);
}

int actor_moves(const struct world *world, int which, struct move *moves) {
	const struct actor *a = &world->actors[which];
	const struct budget *budget = &world->budget;
	struct menu menu = { moves, 0, which };
	if (a->asked) {
		offer_unanswered(world, a, &menu);
		return menu.n;
	}
	offer(&menu, a->extra != 0, END_EXTRA);
	if (a->phase == IDLE) {
		bool start_now = budget->starts > 0 && !a->extra;
		offer(&menu, start_now, ACQUIRE_READ);
		offer(&menu, start_now, ACQUIRE_WRITE);
		offer(&menu, start_now && budget->starts > 9, ACQUIRE_PREFERRED);
		offer(&menu, start_now && budget->starts > 9, TRY_WRITE);
		offer(&menu, !a->extra && world->detached[world->detached_at][0] && world->detached_uses < 2,
		        ADOPT);
	} else if (a->phase == WAITING || a->phase == UP_WAITING) {
		offer(&menu, budget->beats > 0, BEAT);
		offer(&menu, true, CANCEL);
		offer(&menu, a->phase == UP_WAITING, RELEASE);
	} else if (a->phase == HOLDING) {
		offer_held(world, a, &menu);
	}
	return menu.n;
}
