/* SPDX-License-Identifier: MIT */
/* The world around the sessions: messages, time, and what must be true at every moment.
 *
 * Checked after each move: no two sessions believe in holds that exclude each other; numbers grow as
 * promised (native_actor.c); no reply is an error; the key outlives all that it keeps; waiters and
 * their leases come in pairs; living holders on the server agree with each other. */
#include "native_world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BASE_US INT64_C(4000000000000000) /* far from the real clock, exact in a score */

struct world_times world_times;
bool world_trace;
enum careless world_careless;

int64_t world_server_us(const struct world *world) {
	return BASE_US + world->now_us + world->offset_us;
}

void world_violation(struct world *world, const char *format, ...) {
	va_list args;
	if (world->violation[0])
		return;
	va_start(args, format);
	vsnprintf(world->violation, sizeof(world->violation), format, args);
	va_end(args);
}

static void new_session(struct world *world, int which) {
	struct actor *a = &world->actors[which];
	int incarnation = a->incarnation + 1;
	memset(a, 0, sizeof(*a));
	a->incarnation = incarnation;
	snprintf(a->id, sizeof(a->id), "%c%d", 'a' + which, incarnation);
}

void world_init(struct world *world, int actors, const struct budget *budget) {
	memset(world, 0, sizeof(*world));
	world->actors_n = actors;
	world->budget = *budget;
	for (int i = 0; i < actors; i++)
		new_session(world, i);
}

/* ---- Messages -------------------------------------------------------------------------------*/

static void remove_message(struct world *world, int which) {
	int last = --world->messages_n;
	memmove(&world->messages[which], &world->messages[which + 1],
	        sizeof(world->messages[0]) * (size_t)(last - which));
	memset(&world->messages[last], 0, sizeof(world->messages[0]));
}

void world_send(struct world *world, const struct message *message) {
	if (world->messages_n == MESSAGES_MAX)
		remove_message(world, 0); /* a network that is full loses */
	world->messages[world->messages_n++] = *message;
}

/* Nothing travels for longer than an attempt stays buried. */
static void lose_old_messages(struct world *world) {
	for (int i = world->messages_n - 1; i >= 0; i--) {
		int64_t age_ms = (world->now_us - world->messages[i].sent_us) / 1000;
		if (age_ms > world_times.bury_ms / 2)
			remove_message(world, i);
	}
}

/* ---- What must be true ----------------------------------------------------------------------*/

static const struct model_member *find(const struct model_state *state, const char *name) {
	for (int i = 0; i < state->n; i++) {
		if (strcmp(state->members[i].name, name) == 0)
			return &state->members[i];
	}
	return NULL;
}

static bool same_session(const char *a, const char *b) {
	size_t len = strcspn(a + 1, ".");
	return strcspn(b + 1, ".") == len && memcmp(a + 1, b + 1, len) == 0;
}

static void check_holders(struct world *world) {
	const struct model_state *s = &world->server;
	int64_t now_ms = world_server_us(world) / 1000;
	for (int i = 0; i < s->n; i++) {
		for (int j = 0; j < s->n; j++) {
			const struct model_member *w = &s->members[i], *other = &s->members[j];
			if (w->name[0] == 'W' && w->score > now_ms && strchr("RW", other->name[0]) &&
			        other->score > now_ms && !same_session(w->name, other->name))
				world_violation(world, "%s and %s hold on the server", w->name, other->name);
		}
	}
}

static void check_state(struct world *world) {
	const struct model_state *s = &world->server;
	int upgraders = 0;
	for (int i = 0; i < s->n; i++) {
		const struct model_member *m = &s->members[i];
		char kind = m->name[0], pair[MODEL_NAME];
		int64_t until = kind == '#' ? m->score / 1000 : m->score % INT64_C(100000000000000);
		snprintf(pair, sizeof(pair), "%s", m->name);
		pair[0] = 'l';
		if (strchr("rwu", kind) && !find(s, pair))
			world_violation(world, "waiter %s has no lease", m->name);
		pair[0] = 'r';
		bool waits = find(s, pair) != NULL;
		pair[0] = 'w';
		waits = waits || find(s, pair);
		pair[0] = 'u';
		if (kind == 'l' && !waits && !find(s, pair))
			world_violation(world, "lease %s has no waiter", m->name);
		if (m->score > 0 && s->expires_ms < until + world_times.keep_ms)
			world_violation(world, "%s outlives the key", m->name);
		upgraders += kind == 'u';
	}
	if (upgraders > 1)
		world_violation(world, "%d upgraders wait", upgraders);
	if (s->n && !find(s, "#1"))
		world_violation(world, "the token is gone");
	check_holders(world);
}

static void check_beliefs(struct world *world) {
	for (int i = 0; i < world->actors_n; i++) {
		for (int j = 0; j < world->actors_n; j++) {
			char mine = actor_believes(world, &world->actors[i]);
			char other = actor_believes(world, &world->actors[j]);
			if (i != j && mine == 'W' && other)
				world_violation(world, "%s believes in WRITE and %s in %c",
				        world->actors[i].id, world->actors[j].id, other);
		}
	}
}

/* ---- Moves ----------------------------------------------------------------------------------*/

static void send_grants(struct world *world, const struct model_result *result) {
	for (int i = 0; i < result->notes_n; i++) {
		struct message note;
		memset(&note, 0, sizeof(note));
		note.type = NOTE;
		note.actor = result->notes[i].session[0] - 'a';
		note.incarnation = (int)strtol(result->notes[i].session + 1, NULL, 10);
		note.sent_us = world->now_us;
		note.note = result->notes[i].note;
		if (note.note.kind == LOCK_NOTE_GRANT)
			world_send(world, &note);
	}
}

static void execute(struct world *world, const struct message *request) {
	struct dialect_session session = { .name_space = "model",
		.id = "",
		.keep_ms = world_times.keep_ms,
		.bury_ms = world_times.bury_ms };
	struct model_result result;
	struct message reply = *request;
	char id[sizeof(world->actors[0].id)];
	int64_t now_us = world_server_us(world);

	snprintf(id, sizeof(id), "%c%d", 'a' + request->actor, request->incarnation);
	session.id = id;
	native_server_expire(&world->server, now_us);
	native_server_run(&world->server, &session, &request->op, now_us, &result);
	reply.type = REPLY;
	reply.outcome = result.outcome;
	if (result.outcome.status == LOCK_FAILED || result.outcome.status == LOCK_UNKNOWN)
		world_violation(world, "an error reply to operation %d", request->op.kind);
	if (result.differs)
		world_violation(world, "one of many renewals is not like a single one");
	world_send(world, &reply);
	send_grants(world, &result);
	check_state(world);
}

static void break_member(struct world *world, int which, int64_t grace_ms) {
	struct dialect_session session = { .name_space = "model",
		.id = "z0",
		.keep_ms = world_times.keep_ms,
		.bury_ms = world_times.bury_ms };
	struct model_result result;
	struct model_member member = world->server.members[which];
	int64_t now_us = world_server_us(world);

	native_server_expire(&world->server, now_us);
	if (!find(&world->server, member.name) || (member.score > 0 && member.score <= now_us / 1000))
		return;            /* its time was over */
	if (member.name[0] == 'u') /* the old counter is no part of the id */
		*strrchr(member.name, '.') = '\0';
	int actor = member.name[1] - 'a';
	int incarnation = (int)strtol(member.name + 2, NULL, 10);
	native_server_break(&world->server, &session, member.name, grace_ms, now_us, &result);
	if (result.outcome.status != LOCK_DONE)
		world_violation(world, "%s could not be broken", member.name);
	if (strchr("RW", member.name[0]) && incarnation == world->actors[actor].incarnation)
		actor_broken(world, actor, member.name, grace_ms);
	send_grants(world, &result);
	check_state(world);
}

static void deliver(struct world *world, int which) {
	struct message message = world->messages[which];
	remove_message(world, which);
	if (message.type == REQUEST)
		execute(world, &message);
	else if (message.incarnation != world->actors[message.actor].incarnation)
		return; /* nobody is there any more */
	else if (message.type == REPLY)
		actor_reply(world, message.actor, &message);
	else
		actor_note(world, message.actor, &message.note);
}

int world_moves(const struct world *world, struct move moves[MOVES_MAX]) {
	int n = 0;
	for (int i = 0; i < world->messages_n; i++) {
		moves[n++] = (struct move){ MOVE_DELIVER, i, 0, 0 };
		if (world->budget.losses > 0)
			moves[n++] = (struct move){ MOVE_LOSE, i, 0, 0 };
	}
	for (int i = 0; i < world->actors_n; i++) {
		n += actor_moves(world, i, moves + n);
		if (world->budget.crashes > 0 && world->actors[i].phase != IDLE)
			moves[n++] = (struct move){ MOVE_CRASH, i, 0, 0 };
	}
	for (int i = 0; i < world->server.n && world->budget.breaks > 0 && n + 2 <= MOVES_MAX; i++) {
		const char *name = world->server.members[i].name;
		if (!strchr("RWrwu", name[0]) || strchr(name, '!'))
			continue;
		moves[n++] = (struct move){ MOVE_BREAK, i, 0, 0 };
		moves[n++] = (struct move){ MOVE_BREAK, i, 0, world_times.lease_ms / 4 };
	}
	return n;
}

static const char *const action_names[] = { "acquire-read", "acquire-write", "acquire-preferred", "try-write",
	"adopt", "beat", "cancel", "release", "renew", "upgrade", "try-upgrade", "downgrade", "use-next",
	"extra-read", "extra-write", "end-extra", "detach", "resend", "abandon" };

static void trace(const struct world *world, const struct move *move) {
	static const char *const types[] = { "request", "reply", "note" };
	static const char *const kinds[] = { "acquire", "beat", "release", "renew", "upgrade", "downgrade",
		"cancel", "advance", "rename" };
	printf("%8.3f ", (double)world->now_us / 1000);
	if (move->type == MOVE_STEP) {
		printf("%s %s\n", world->actors[move->which].id, action_names[move->action]);
	} else if (move->type == MOVE_DELIVER || move->type == MOVE_LOSE) {
		const struct message *m = &world->messages[move->which];
		printf("%s %s of %c%d %s %" PRIu64 " (status %d)\n",
		        move->type == MOVE_LOSE ? "lose" : "deliver", types[m->type], 'a' + m->actor,
		        m->incarnation, kinds[m->op.kind], m->type == NOTE ? m->note.attempt : m->op.attempt,
		        m->outcome.status);
	} else if (move->type == MOVE_BREAK) {
		printf("break %s, grace %" PRId64 " ms\n", world->server.members[move->which].name, move->ms);
	} else if (move->type == MOVE_CRASH) {
		printf("%s crashes\n", world->actors[move->which].id);
	} else {
		printf("%s %" PRId64 " ms\n", move->type == MOVE_TICK ? "tick" : "clock back", move->ms);
	}
}

static void trace_state(const struct world *world) {
	printf("            ");
	for (int i = 0; i < world->server.n; i++)
		printf(" %s=%" PRId64, world->server.members[i].name, world->server.members[i].score);
	printf("\n");
}

static void spend(struct world *world, const struct move *move) {
	struct budget *budget = &world->budget;
	int *const by_action[] = { &budget->starts, &budget->starts, &budget->starts, &budget->starts,
		&budget->starts, &budget->beats, NULL, NULL, &budget->renewals, &budget->conversions,
		&budget->conversions, &budget->conversions, &budget->renewals, &budget->extras,
		&budget->extras, NULL, &budget->detaches, &budget->resends, &budget->abandons };
	int *const by_type[] = { NULL, NULL, &budget->losses, &budget->ticks, &budget->crashes,
		&budget->steps_back, &budget->breaks };
	int *spent = move->type == MOVE_STEP ? by_action[move->action] : by_type[move->type];
	if (spent)
		(*spent)--;
}

static void step_back(struct world *world, int64_t ms) {
	world->offset_us -= ms * 1000;
	world->stepped_us = world->now_us;
}

void world_apply(struct world *world, const struct move *move) {
	if (world_trace)
		trace(world, move);
	spend(world, move);
	if (move->type == MOVE_STEP)
		actor_step(world, move->which, move->action);
	else if (move->type == MOVE_DELIVER)
		deliver(world, move->which);
	else if (move->type == MOVE_LOSE)
		remove_message(world, move->which);
	else if (move->type == MOVE_CRASH)
		new_session(world, move->which);
	else if (move->type == MOVE_BREAK)
		break_member(world, move->which, move->ms);
	else if (move->type == MOVE_TICK)
		world->now_us += move->ms * 1000 + 1;
	else
		step_back(world, move->ms);
	if (move->type == MOVE_TICK)
		lose_old_messages(world);
	if (world_trace && (move->type == MOVE_DELIVER || move->type == MOVE_BREAK))
		trace_state(world);
	check_beliefs(world);
}

/* ---- The end --------------------------------------------------------------------------------*/

static void check_nothing_left(struct world *world) {
	for (int i = 0; i < world->server.n; i++) {
		const char *name = world->server.members[i].name;
		bool detached = strchr(name, '!') != NULL; /* nor is a hold in its grace the session's */
		for (int k = 0; k < DETACHED_MAX; k++)
			detached = detached || strcmp(world->detached[k], name) == 0;
		for (int k = 0; k < world->actors_n && !detached; k++) {
			size_t len = strlen(world->actors[k].id);
			if (strchr("RWrwu", name[0]) && strncmp(name + 1, world->actors[k].id, len) == 0 &&
			        name[1 + len] == '.')
				world_violation(world, "%s is left on the server and nobody knows", name);
		}
	}
}

void world_drain(struct world *world, unsigned (*choose)(unsigned n)) {
	int64_t patience_us =
	        world->now_us + (4 * world_times.lease_ms + 10 * world_times.wait_lease_ms) * 1000;
	bool busy = true;
	while (busy && !world->violation[0]) {
		busy = false;
		for (int i = 0; i < world->actors_n; i++)
			busy = actor_finish(world, i) || busy;
		for (unsigned n = choose(8); n > 0 && world->messages_n > 0 && !world->violation[0]; n--) {
			struct move move = { MOVE_DELIVER, (int)choose((unsigned)world->messages_n), 0, 0 };
			world_apply(world, &move);
		}
		struct move tick = { MOVE_TICK, 0, 0, 10 };
		world_apply(world, &tick);
		if (busy && world->now_us > patience_us)
			world_violation(world, "somebody waits for ever");
	}
	while (world->messages_n > 0 && !world->violation[0]) {
		struct move move = { MOVE_DELIVER, (int)choose((unsigned)world->messages_n), 0, 0 };
		world_apply(world, &move);
	}
	native_server_expire(&world->server, world_server_us(world));
	if (!world->violation[0])
		check_nothing_left(world);
}
