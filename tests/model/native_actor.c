/* SPDX-License-Identifier: MIT */
/* One session of the model: when it believes that it holds, what it does when no answer comes, and
 * what it buries. These are the client's rules; the scripts are safe only together with them.
 *
 *   - A hold is believed until (time before sending + lease - margin), no longer, and never again
 *     once that has passed.
 *   - A grant message counts only if its token is greater than that of the last "waiting" reply and
 *     the heartbeat that was answered last is recent enough; it is then claimed.
 *   - A request that could create something and was sent twice or given up makes its attempt
 *     unaccounted; the last message about the matter buries it. */
#include "native_actions.h"
#include "native_world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int64_t valid_from(int64_t sent_us, int64_t lease_ms) {
	return sent_us + (lease_ms - world_times.margin_ms) * 1000;
}

char actor_believes(const struct world *world, const struct actor *a) {
	bool extra = a->extra && !a->extra_doubtful && world->now_us < a->extra_valid_us;
	char mode = 0;
	if (a->phase >= HOLDING && a->phase <= DOWNGRADING && world->now_us < a->valid_us &&
	        (!a->broken || world->now_us < a->grace_us))
		mode = a->phase == HOLDING ? a->mode : 'R';
	return extra && mode != 'W' ? a->extra_mode : mode;
}

/* ---- Requests -------------------------------------------------------------------------------*/

static bool creates(enum lock_op_kind kind) {
	return kind == OP_ACQUIRE || kind == OP_UPGRADE || kind == OP_DOWNGRADE || kind == OP_RENAME ||
	       kind == OP_BEAT;
}

static void put_copy(struct world *world, int which) {
	struct actor *a = &world->actors[which];
	struct message message;
	memset(&message, 0, sizeof(message));
	message.type = REQUEST;
	message.actor = which;
	message.incarnation = a->incarnation;
	message.request_id = a->request_id;
	message.sent_us = a->asked_us = world->now_us;
	message.op = a->request;
	world_send(world, &message);
}

static void ask(struct world *world, int which, const struct lock_op *op) {
	struct actor *a = &world->actors[which];
	a->asked = true;
	a->request_id++;
	a->request = *op;
	put_copy(world, which);
}

static struct lock_op make_op(const struct actor *a, enum lock_op_kind kind, char mode, uint64_t attempt) {
	struct lock_op op;
	memset(&op, 0, sizeof(op));
	op.kind = kind;
	op.mode = mode;
	op.attempt = attempt;
	op.queue = true;
	op.lease_ms = world_times.lease_ms;
	op.wait_lease_ms = world_times.wait_lease_ms;
	op.last_token = world_careless == NEVER_REPORTS ? 0 : a->used;
	if (a->extra && !a->extra_doubtful && a->extra != attempt)
		op.own[op.own_n++] = a->extra;
	return op;
}

static void unaccount(struct actor *a, uint64_t attempt) {
	if (world_careless == NEVER_BURIES)
		return;
	for (size_t i = 0; i < a->unaccounted_n; i++) {
		if (a->unaccounted[i] == attempt)
			return;
	}
	if (a->unaccounted_n < LOCK_BURY_MAX)
		a->unaccounted[a->unaccounted_n++] = attempt;
}

static void account(struct actor *a, uint64_t attempt) {
	size_t n = 0;
	for (size_t i = 0; i < a->unaccounted_n; i++) {
		if (a->unaccounted[i] != attempt)
			a->unaccounted[n++] = a->unaccounted[i];
	}
	a->unaccounted_n = n;
}

/* A copy of the request may be under way, and nobody will look at its answer. */
static void doubt(struct actor *a) {
	if (!a->asked || !creates(a->request.kind))
		return;
	if (a->request.attempt == a->extra)
		a->extra_doubtful = true;
	else
		unaccount(a, a->request.attempt);
}

static void bury_unaccounted(const struct actor *a, struct lock_op *op) {
	op->bury_n = a->unaccounted_n;
	memcpy(op->bury, a->unaccounted, sizeof(op->bury));
}

/* The last message about a matter: give it back, whatever became of it, and bury. */
static void end(struct world *world, int which, enum lock_op_kind kind) {
	struct actor *a = &world->actors[which];
	doubt(a);
	if (a->conversion)
		unaccount(a, a->conversion);
	struct lock_op op = make_op(a, kind, a->mode, a->attempt);
	bury_unaccounted(a, &op);
	a->phase = ENDING;
	a->conversion = 0;
	ask(world, which, &op);
}

static void done(struct actor *a) {
	a->phase = IDLE;
	a->attempt = a->conversion = a->token = a->used = a->waiting_token = 0;
	a->unaccounted_n = 0;
	memset(a->unaccounted, 0, sizeof(a->unaccounted));
	a->mode = 0;
	a->claimed = false;
	a->broken = false;
	a->grace_us = 0;
	a->next_token = 0;
	a->valid_us = a->deadline_ms = a->answered_us = a->believed_us = 0;
}

/* Not taken: nothing is left to say unless a copy may be under way. */
static void refused(struct world *world, int which) {
	struct actor *a = &world->actors[which];
	if (a->unaccounted_n)
		end(world, which, OP_CANCEL);
	else
		done(a);
}

/* ---- Believing ------------------------------------------------------------------------------*/

static void use_token(struct world *world, const struct actor *a, char mode, uint64_t token, bool shared) {
	uint64_t floor = mode == 'W' ? world->top_token : world->top_write;
	for (int i = 0; i < world->actors_n && !a->broken; i++) {
		struct actor *other = &world->actors[i];
		if (other != a && mode == 'W' && token < other->next_token)
			other->next_token = token;
	}
	if (a->broken && token >= a->next_token) /* what comes after it may be there already */
		world_violation(world, "%s was broken and uses token %" PRIu64 ", not below %" PRIu64, a->id,
		        token, a->next_token);
	if (!a->broken && (shared ? token < floor : token <= floor))
		world_violation(
		        world, "%s uses token %" PRIu64 " for %c after %" PRIu64, a->id, token, mode, floor);
	if (token > world->top_token)
		world->top_token = token;
	if (mode == 'W' && token > world->top_write)
		world->top_write = token;
}

static void begin_hold(
        struct world *world, int which, char mode, uint64_t token, int64_t valid_us, int64_t deadline_ms) {
	struct actor *a = &world->actors[which];
	bool shared = a->phase == ADOPTING || a->extra;
	a->phase = HOLDING;
	a->mode = mode;
	a->token = a->used = token;
	a->valid_us = valid_us;
	a->deadline_ms = deadline_ms;
	a->believed_us = world->now_us;
	if (world->now_us >= valid_us)
		end(world, which, OP_RELEASE); /* the answer came too late */
	else
		use_token(world, a, mode, token, shared);
}

static void begin_converted(
        struct world *world, int which, char mode, uint64_t token, int64_t valid_us, int64_t deadline_ms) {
	struct actor *a = &world->actors[which];
	if (a->valid_us > valid_us)
		valid_us = a->valid_us; /* the old lease went over to the new name */
	a->attempt = a->conversion;
	a->conversion = 0;
	begin_hold(world, which, mode, token, valid_us, deadline_ms);
}

void actor_note(struct world *world, int which, const struct lock_note *note) {
	struct actor *a = &world->actors[which];
	int64_t valid_us = valid_from(a->answered_us, world_times.wait_lease_ms);
	uint64_t waited_for = a->phase == WAITING ? a->attempt : a->phase == UP_WAITING ? a->conversion : 0;
	bool newer = note->token > a->waiting_token || world_careless == NOTE_OF_ANY_TOKEN;
	if (world_careless == NOTE_OF_ANY_AGE)
		valid_us = valid_from(world->now_us, world_times.wait_lease_ms);
	if (note->kind != LOCK_NOTE_GRANT || note->attempt != waited_for || !newer ||
	        world->now_us >= valid_us)
		return; /* the heartbeat will tell */
	a->claimed = false;
	if (a->phase == WAITING)
		begin_hold(world, which, a->mode, note->token, valid_us, note->deadline_ms);
	else
		begin_converted(world, which, 'W', note->token, valid_us, note->deadline_ms);
}

void actor_broken(struct world *world, int which, const char *member, int64_t grace_ms) {
	struct actor *a = &world->actors[which];
	struct dialect_session session = { .name_space = "model", .id = a->id };
	char held[LOCK_ID_MAX], converted[LOCK_ID_MAX];
	snecki_native.hold_id(&session, member[0], a->attempt, held);
	snecki_native.hold_id(&session, member[0], a->conversion, converted);
	if (strcmp(held, member) != 0 && strcmp(converted, member) != 0)
		return; /* of a matter that it has left */
	a->broken = true;
	a->grace_us = world->now_us + grace_ms * 1000;
	a->next_token = UINT64_MAX;
}

/* ---- Answers --------------------------------------------------------------------------------*/

static void lost(struct world *world, int which) {
	world->actors[which].valid_us = 0;
	end(world, which, OP_RELEASE);
}

static void answer_waiting(struct actor *a, enum phase phase, const struct message *reply) {
	a->phase = phase;
	a->waiting_token = reply->outcome.token;
	a->answered_us = reply->sent_us;
}

static void answer_acquire(struct world *world, int which, const struct message *reply) {
	struct actor *a = &world->actors[which];
	const struct lock_outcome *out = &reply->outcome;
	if (out->status == LOCK_GRANTED) {
		a->claimed = true;
		begin_hold(world, which, a->mode, out->token,
		        valid_from(reply->sent_us, world_times.lease_ms), out->deadline_ms);
	} else if (out->status == LOCK_WAITING) {
		answer_waiting(a, WAITING, reply);
	} else {
		refused(world, which);
	}
}

/* A claim, or a renewal: the same token, or it is lost. */
static void answer_held(struct world *world, int which, const struct message *reply, uint64_t expected) {
	struct actor *a = &world->actors[which];
	const struct lock_outcome *out = &reply->outcome;
	if (out->status != LOCK_GRANTED || out->token != expected || world->now_us >= a->valid_us) {
		lost(world, which);
		return;
	}
	int64_t valid_us = valid_from(reply->sent_us, world_times.lease_ms);
	a->valid_us = valid_us > a->valid_us ? valid_us : a->valid_us;
	a->deadline_ms = out->deadline_ms;
	a->token = out->token;
	a->claimed = true;
}

/* Withdraw an upgrade; what was granted meanwhile is kept. */
static void withdraw_upgrade(struct world *world, int which) {
	struct actor *a = &world->actors[which];
	doubt(a);
	struct lock_op op = make_op(a, OP_CANCEL, 'W', a->conversion);
	op.old = a->attempt;
	for (size_t i = 0; i < a->unaccounted_n; i++) {
		if (a->unaccounted[i] == a->conversion)
			op.bury[op.bury_n++] = a->conversion;
	}
	a->phase = UNUPGRADING;
	ask(world, which, &op);
}

static void answer_upgrade(struct world *world, int which, const struct message *reply) {
	struct actor *a = &world->actors[which];
	const struct lock_outcome *out = &reply->outcome;
	if (out->status == LOCK_GRANTED) {
		a->claimed = true;
		begin_converted(world, which, 'W', out->token,
		        valid_from(reply->sent_us, world_times.lease_ms), out->deadline_ms);
	} else if (out->status == LOCK_WAITING) {
		answer_waiting(a, UP_WAITING, reply);
	} else {
		withdraw_upgrade(world, which); /* also when it is gone: READ may be there */
	}
}

static void answer_cancel(struct world *world, int which, const struct message *reply) {
	struct actor *a = &world->actors[which];
	const struct lock_outcome *out = &reply->outcome;
	if (a->phase == ENDING) {
		done(a);
	} else if (out->status != LOCK_DONE) {
		lost(world, which);
	} else if (out->released_grant) {
		a->claimed = true;
		begin_converted(world, which, 'W', out->token, a->valid_us, out->deadline_ms);
	} else {
		if (reply->op.bury_n)
			account(a, a->conversion);
		a->conversion = 0;
		a->phase = HOLDING;
		if (world->now_us >= a->valid_us)
			lost(world, which);
	}
}

static void answer_extra(struct world *world, int which, const struct message *reply) {
	struct actor *a = &world->actors[which];
	const struct lock_outcome *out = &reply->outcome;
	bool granted = out->status == LOCK_GRANTED;
	if (granted) {
		a->extra_valid_us = valid_from(reply->sent_us, world_times.lease_ms);
		if (world->now_us >= a->extra_valid_us)
			a->extra_doubtful = true;
		else
			use_token(world, a, a->extra_mode, out->token, true);
	} else if (reply->op.kind != OP_ACQUIRE || !a->extra_doubtful) {
		a->extra = 0;
		a->extra_doubtful = false;
	}
	/* The phase is the session's own doing, so its first hold goes on under the new number. */
	if (a->phase == HOLDING && out->token > a->token && a->used == a->token && a->claimed)
		a->token = a->used = out->token;
}

void actor_reply(struct world *world, int which, const struct message *message) {
	struct actor *a = &world->actors[which];
	struct message late = *message;
	const struct message *reply = &late;
	if (world_careless == VALID_FROM_REPLY)
		late.sent_us = world->now_us;
	if (!a->asked || reply->request_id != a->request_id)
		return; /* given up meanwhile */
	a->asked = false;
	if (a->extra && reply->op.attempt == a->extra) {
		answer_extra(world, which, reply);
	} else if (reply->op.kind == OP_ACQUIRE || reply->op.kind == OP_RENAME) {
		answer_acquire(world, which, reply);
	} else if (reply->op.kind == OP_BEAT && a->phase == WAITING) {
		answer_acquire(world, which, reply);
	} else if (reply->op.kind == OP_BEAT && a->phase == UP_WAITING) {
		answer_upgrade(world, which, reply);
	} else if (reply->op.kind == OP_BEAT) {
		/* A heartbeat from before the message may have been answered before the grant. */
		if (reply->sent_us >= a->believed_us || reply->outcome.status != LOCK_WAITING)
			answer_held(world, which, reply, a->token);
	} else if (reply->op.kind == OP_RENEW) {
		answer_held(world, which, reply,
		        a->token > reply->op.last_token ? a->token : reply->op.last_token);
	} else if (reply->op.kind == OP_UPGRADE) {
		answer_upgrade(world, which, reply);
	} else if (reply->op.kind == OP_DOWNGRADE) {
		a->claimed = true;
		if (reply->outcome.status == LOCK_GRANTED)
			begin_converted(world, which, 'R', reply->outcome.token,
			        valid_from(reply->sent_us, world_times.lease_ms), reply->outcome.deadline_ms);
		else
			lost(world, which);
	} else {
		answer_cancel(world, which, reply);
	}
}

/* ---- Steps ----------------------------------------------------------------------------------*/

static void start(struct world *world, int which, int action) {
	struct actor *a = &world->actors[which];
	a->phase = ACQUIRING;
	a->attempt = ++a->counter;
	a->mode = action == ACQUIRE_READ ? 'R' : 'W';
	a->used = 0;
	struct lock_op op = make_op(a, OP_ACQUIRE, a->mode, a->attempt);
	op.queue = action != TRY_WRITE;
	op.prefer = action == ACQUIRE_PREFERRED;
	ask(world, which, &op);
}

static void adopt(struct world *world, int which) {
	struct actor *a = &world->actors[which];
	const char *id = world->detached[world->detached_at];
	a->phase = ADOPTING;
	a->attempt = ++a->counter;
	a->mode = id[0];
	a->used = 0;
	world->detached_uses++;
	struct lock_op op = make_op(a, OP_RENAME, a->mode, a->attempt);
	snprintf(op.foreign_id, sizeof(op.foreign_id), "%s", id);
	ask(world, which, &op);
}

static void detach(struct world *world, int which) {
	struct actor *a = &world->actors[which];
	struct dialect_session session = { .name_space = "model", .id = a->id };
	char id[LOCK_ID_MAX];
	snecki_native.hold_id(&session, a->mode, a->attempt, id);
	world->detached_at = (world->detached_at + 1) % DETACHED_MAX;
	world->detached_uses = 0;
	snprintf(world->detached[world->detached_at], MODEL_NAME, "%.*s", MODEL_NAME - 1, id);
	done(a);
}

static void convert(struct world *world, int which, int action) {
	struct actor *a = &world->actors[which];
	bool down = action == DOWNGRADE;
	a->conversion = ++a->counter;
	a->phase = down ? DOWNGRADING : UPGRADING;
	struct lock_op op = make_op(a, down ? OP_DOWNGRADE : OP_UPGRADE, down ? 'R' : 'W', a->conversion);
	op.old = a->attempt;
	op.queue = action == UPGRADE;
	ask(world, which, &op);
}

static void take_extra(struct world *world, int which, char mode) {
	struct actor *a = &world->actors[which];
	a->extra = ++a->counter;
	a->extra_mode = mode;
	a->extra_valid_us = 0;
	struct lock_op op = make_op(a, OP_ACQUIRE, mode, a->extra);
	op.queue = false;
	op.own[op.own_n++] = a->attempt;
	ask(world, which, &op);
}

static void end_extra(struct world *world, int which) {
	struct actor *a = &world->actors[which];
	struct lock_op op = make_op(a, a->extra_doubtful ? OP_CANCEL : OP_RELEASE, a->extra_mode, a->extra);
	op.last_token = 0;
	if (a->extra_doubtful)
		op.bury[op.bury_n++] = a->extra;
	a->extra_valid_us = 0;
	ask(world, which, &op);
}

static void beat(struct world *world, int which) {
	struct actor *a = &world->actors[which];
	bool upgrade = a->phase == UP_WAITING;
	struct lock_op op =
	        make_op(a, OP_BEAT, upgrade ? 'W' : a->mode, upgrade ? a->conversion : a->attempt);
	op.old = upgrade ? a->attempt : 0;
	ask(world, which, &op);
}

/* Many hand-overs at once, as far as the deadline allows. */
static void use_next(struct world *world, struct actor *a) {
	uint64_t limit = (uint64_t)a->deadline_ms * 1000 - 1;
	uint64_t next = a->used + 400000;
	a->used = next < limit || world_careless == USES_ANY_NEXT ? next : limit;
	use_token(world, a, 'W', a->used, false);
}

static void resend(struct world *world, int which) {
	doubt(&world->actors[which]);
	put_copy(world, which);
}

/* No answer, and no patience. */
static void abandon(struct world *world, int which) {
	struct actor *a = &world->actors[which];
	doubt(a);
	if (a->extra && a->request.attempt == a->extra)
		end_extra(world, which);
	else if (a->phase == ACQUIRING || a->phase == ADOPTING || a->phase == WAITING)
		end(world, which, OP_CANCEL);
	else if (a->phase == UPGRADING || a->phase == UP_WAITING)
		withdraw_upgrade(world, which);
	else
		end(world, which, OP_RELEASE);
}

void actor_step(struct world *world, int which, int action) {
	struct actor *a = &world->actors[which];
	struct lock_op op;
	if (action <= TRY_WRITE)
		start(world, which, action);
	else if (action == ADOPT)
		adopt(world, which);
	else if (action == BEAT)
		beat(world, which);
	else if (action == CANCEL && a->phase == UP_WAITING)
		withdraw_upgrade(world, which);
	else if (action == CANCEL)
		end(world, which, OP_CANCEL);
	else if (action == RELEASE)
		end(world, which, OP_RELEASE);
	else if (action == RENEW)
		op = make_op(a, OP_RENEW, a->mode, a->attempt), ask(world, which, &op);
	else if (action == UPGRADE || action == TRY_UPGRADE || action == DOWNGRADE)
		convert(world, which, action);
	else if (action == USE_NEXT)
		use_next(world, a);
	else if (action == EXTRA_READ || action == EXTRA_WRITE)
		take_extra(world, which, action == EXTRA_READ ? 'R' : 'W');
	else if (action == END_EXTRA)
		end_extra(world, which);
	else if (action == DETACH)
		detach(world, which);
	else if (action == RESEND)
		resend(world, which);
	else
		abandon(world, which);
}

bool actor_finish(struct world *world, int which) {
	struct actor *a = &world->actors[which];
	bool patient = a->asked && world->now_us - a->asked_us < 50000;
	if (a->phase == IDLE && !a->extra)
		return false;
	if (patient)
		return true;
	if (a->asked)
		resend(world, which);
	else if (a->phase == WAITING || a->phase == UP_WAITING)
		beat(world, which);
	else if (a->phase == IDLE)
		end_extra(world, which);
	else
		end(world, which, OP_RELEASE);
	return true;
}
