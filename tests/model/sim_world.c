/* SPDX-License-Identifier: MIT */
/* Sessions and the network between them and the server.
 *
 * * One connection per session keeps order. When it breaks, every request that had left is answered "unknown"
 * in the order it was sent; of those that the server had not read, a first part may still reach it, later
 * than anything on the next connection. What was still in line leaves on the next one, or fails. Without a
 * link a request fails at once and was never sent. Messages travel apart from answers: they come early, late,
 * twice or never. */
#include "sim_world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sneck/error.h>

#include "lock/private.h"

static const char *const op_names[OP_KINDS] = { "acquire", "beat", "release", "renew", "upgrade", "downgrade",
	"cancel", "advance", "rename", "linger" };
static const char *const status_names[] = { "granted", "waiting", "busy", "deadlock", "gone", "broken",
	"buried", "done", "failed", "unknown" };

/* ---- Chance and words ---------------------------------------------------------------------------*/

uint64_t world_random(struct world *world) {
	uint64_t x = world->rng;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	world->rng = x;
	return x * UINT64_C(2685821657736338717);
}

int world_below(struct world *world, int n) {
	return (int)((world_random(world) >> 33) % (uint64_t)n);
}

bool world_chance(struct world *world, int in_1000) {
	return world_below(world, 1000) < in_1000;
}

void world_trace(const struct world *world, const char *format, ...) {
	va_list args;

	if (!world->trace)
		return;
	printf("%6" PRId64 " %10.3f  ", world->step, (double)(world->now_ns % INT64_C(1000000000000)) / 1e6);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

void world_fail(const struct world *world, const char *format, ...) {
	va_list args;

	fflush(stdout);
	fprintf(stderr, "FAILED at step %" PRId64 ", replay with --seed %" PRIu64 " --sequences 1 --trace: ",
	        world->step, world->seed);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

int64_t world_server_us(const struct world *world) {
	return WORLD_EPOCH_US + world->now_ns / 1000;
}

int64_t world_from_server_ms(int64_t server_ms) {
	return (server_ms * 1000 - WORLD_EPOCH_US) * 1000;
}

/* ---- Memory -------------------------------------------------------------------------------------*/

void *__real_calloc(size_t n, size_t size);

static struct world *starving; /* the one world whose cores are short of memory, or NULL */

void *__wrap_calloc(size_t n, size_t size) {
	if (starving && starving->inside_core && !starving->quiet &&
	        world_chance(starving, starving->starved))
		return NULL;
	return __real_calloc(n, size);
}

void *sim_new(size_t size) {
	void *new = __real_calloc(1, size);

	if (!new)
		abort();
	return new;
}

/* ---- Hooks --------------------------------------------------------------------------------------*/

static void fail_transit(struct transit *transit) {
	transit->answered = true;
	transit->outcome.status = LOCK_FAILED;
	transit->outcome.code = SNECK_ECONN;
}

void session_write(struct session *session) {
	LIST_EACH (at, &session->transits) {
		struct transit *transit = LIST_ITEM(at, struct transit, node);
		if (transit->written || transit->answered)
			continue;
		transit->written = true;
		transit->sent_ns = session->world->now_ns;
	}
}

static void on_send(void *ctx, struct lock_call *call, const char *name, size_t name_len) {
	struct session *session = ctx;
	struct world *world = session->world;
	struct transit *transit = sim_new(sizeof *transit);

	if (name_len != 1)
		world_fail(world, "a name of %zu bytes", name_len);
	transit->call = call;
	transit->op = call->op;
	transit->lock = name[0] - 'a';
	if (!session->link_up)
		fail_transit(transit);
	world->calls++;
	world_trace(world, "s%d sends %s %c%" PRIu64 " old %" PRIu64 " own %zu bury %zu lock %c%s",
	        session->id, op_names[call->op.kind], call->op.mode ? call->op.mode : '-', call->op.attempt,
	        call->op.old, call->op.own_n, call->op.bury_n, name[0], session->link_up ? "" : " (no link)");
	snecki_list_append(&session->transits, &transit->node);
	if (world_chance(world, 800))
		session_write(session);
}

static void on_complete(void *ctx, struct lock_wish *wish) {
	struct session *session = ctx;

	if (!session->world->inside_core)
		world_fail(session->world, "a wish ends outside of any event");
	program_finish(LIST_ITEM(wish, struct wish, wish));
}

static void on_state(void *ctx, struct lock_hold *lock) {
	struct session *session = ctx;
	struct handle *handle = LIST_ITEM(lock, struct handle, lock);

	world_trace(session->world, "s%d owner %" PRIu64 " lock %c: state %d", session->id, lock->owner,
	        'a' + handle->lock_index, (int)lock->state);
	if (handle->told >= HOLD_LOST)
		world_fail(session->world, "a lost hold changes its state");
	if (lock->state >= HOLD_LOST) {
		session->world->lost++;
		if (lock->grant)
			world_fail(session->world, "a lost hold is still attached");
		check_loss(handle);
	}
	handle->told = lock->state;
}

static void on_own_id(
        void *ctx, const struct lock_traits *layout, char mode, uint64_t attempt, char ret_id[LOCK_ID_MAX]) {
	(void)layout;
	sim_format_id(mode, ((struct session *)ctx)->id, attempt, ret_id);
}

static const struct lock_hooks hooks = {
	.send = on_send, .complete = on_complete, .state = on_state, .own_id = on_own_id
};

/* ---- Sessions -----------------------------------------------------------------------------------*/

void session_start(struct world *world, struct session *session) {
	static const struct lock_traits everything = { 0 };
	struct lock_core_config config = { .hooks = &hooks,
		.layout = &everything,
		.ctx = session,
		.session = "me",
		.wait_lease_ms = WORLD_WAIT_LEASE_MS,
		.beat_ms = WORLD_BEAT_MS,
		.handover_max = 16,
		.handover_ns = 5 * NS_PER_MS,
		.verify_grants = world->verify_grants,
		.seed = world_random(world) };

	memset(session, 0, sizeof *session);
	session->world = world;
	session->id = ++world->session_counter;
	session->link_up = session->sub_up = true;
	snecki_list_init(&session->transits);
	snecki_list_init(&session->handles);
	snecki_list_init(&session->wishes);
	if (snecki_core_new(&config, &session->core) < 0)
		world_fail(world, "no memory");
	/* The table's own seed is random; a replay must walk it in the same order. */
	session->core->realms[0].entries.seed[0] = session->core->realms[0].entries.seed[1] = 1;
	session->core->attempts.seed[0] = session->core->attempts.seed[1] = 1;
}

/* Of the requests that the server has not read, a first part still reaches it. */
static void leave_stragglers(struct session *session) {
	struct world *world = session->world;
	bool goes_on = !world->quiet;

	LIST_EACH (at, &session->transits) {
		struct transit *transit = LIST_ITEM(at, struct transit, node);
		if (transit->answered)
			continue;
		if (!transit->written)
			return;
		goes_on = goes_on && world_chance(world, 600);
		if (!goes_on)
			return;
		struct straggler *straggler = sim_new(sizeof *straggler);
		straggler->session = session->id;
		straggler->lock = transit->lock;
		straggler->op = transit->op;
		straggler->until_ns = world->now_ns + SIM_BURY_MS * NS_PER_MS;
		snecki_list_append(&world->stragglers, &straggler->node);
	}
}

static void reply(struct session *session, struct transit *transit, const struct lock_outcome *outcome) {
	struct world *world = session->world;
	const char *detail = outcome->status == LOCK_FAILED ? "refused" : NULL;

	world_trace(world, "s%d answer to %s %c%" PRIu64 ": %s token %" PRIu64 "%s%s", session->id,
	        op_names[transit->op.kind], transit->op.mode ? transit->op.mode : '-', transit->op.attempt,
	        status_names[outcome->status], outcome->token, outcome->wanted ? " wanted" : "",
	        outcome->more ? " more" : "");
	snecki_list_remove(&transit->node);
	world->inside_core = true;
	snecki_core_reply(session->core, transit->call, outcome, detail, transit->sent_ns, world->now_ns);
	world->inside_core = false;
	free(transit);
	world_settle(world);
}

void session_break(struct session *session, bool down) {
	struct world *world = session->world;
	struct lock_outcome unknown = { .status = LOCK_UNKNOWN };
	bool fails = down || world_chance(world, 500);
	size_t n = 0;

	world->breaks++;
	world_trace(world, "s%d connection breaks%s", session->id, down ? ", link down" : "");
	leave_stragglers(session);
	session->link_up = !down;
	LIST_EACH (at, &session->transits) {
		struct transit *transit = LIST_ITEM(at, struct transit, node);
		if (!transit->written && !transit->answered && fails)
			fail_transit(transit);
		n += transit->written || transit->answered;
	}
	for (; n > 0; n--) {
		struct transit *transit = LIST_ITEM(session->transits.next, struct transit, node);
		reply(session, transit, transit->written ? &unknown : &transit->outcome);
	}
	if (!down) {
		world->inside_core = true;
		snecki_core_connected(session->core, -1, world->now_ns + 1, world->now_ns);
		world->inside_core = false;
		world_settle(world);
	}
}

void session_link_up(struct session *session) {
	struct world *world = session->world;

	world_trace(world, "s%d link up", session->id);
	session->link_up = true;
	world->inside_core = true;
	snecki_core_connected(session->core, -1, world->now_ns + 1, world->now_ns);
	world->inside_core = false;
	world_settle(world);
}

void session_sub(struct session *session, bool up) {
	struct world *world = session->world;

	world_trace(world, "s%d messages %s", session->id, up ? "flow" : "stop");
	session->sub_up = up;
	if (!up)
		return;
	world->inside_core = true;
	snecki_core_subscribed(session->core, world->now_ns);
	world->inside_core = false;
	world_settle(world);
}

void session_crash(struct session *session) {
	struct world *world = session->world;

	world_trace(world, "s%d is gone", session->id);
	leave_stragglers(session);
	LIST_EACH (at, &session->transits) {
		struct transit *transit = LIST_ITEM(at, struct transit, node);
		free(transit->call);
		free(transit);
	}
	world->retakes += session->core->counters.retakes;
	world->recalls += session->core->counters.recalls;
	snecki_core_free(session->core);
	session->core = NULL;
	program_forget(session);
}

/* ---- The server ---------------------------------------------------------------------------------*/

static void take_notes(struct world *world, const struct sim_notes *notes) {
	for (size_t i = 0; i < notes->n; i++)
		if (world->notes_n < WORLD_NOTES)
			world->notes[world->notes_n++] = notes->items[i];
}

/* The server says that it does not know the script: nothing was run, and the client will send the text. */
static bool forget(struct world *world, struct transit *transit) {
	if (world->quiet || transit->with_text || !world_chance(world, world->forgets))
		return false;
	memset(&transit->outcome, 0, sizeof transit->outcome);
	transit->outcome.status = LOCK_FAILED;
	transit->outcome.code = SNECK_ESERVER;
	transit->unknown_script = true;
	return true;
}

/* An error reply: nothing was run. */
static bool refuse(struct world *world, struct transit *transit) {
	if (world->quiet || !world_chance(world, world->refusals))
		return false;
	memset(&transit->outcome, 0, sizeof transit->outcome);
	transit->outcome.status = LOCK_FAILED;
	transit->outcome.code = world_chance(world, 500) ? SNECK_ESERVER : SNECK_EACCES;
	transit->outcome.retry = world_chance(world, 600);
	return true;
}

/* An answer that cannot be understood, or an error after which nobody knows whether it ran. */
static void garble(struct world *world, struct transit *transit) {
	if (world->quiet || transit->unknown_script || !world_chance(world, world->refusals / 3))
		return;
	memset(&transit->outcome, 0, sizeof transit->outcome);
	transit->outcome.status = LOCK_UNKNOWN;
	transit->outcome.code = SNECK_ESERVER;
}

bool session_execute(struct session *session) {
	struct world *world = session->world;
	struct sim_notes notes = { 0 };

	session_write(session);
	LIST_EACH (at, &session->transits) {
		struct transit *transit = LIST_ITEM(at, struct transit, node);
		if (transit->answered)
			continue;
		if (!forget(world, transit) && !refuse(world, transit))
			sim_server_run(&world->locks[transit->lock], session->id, &transit->op, world->budget,
			        world_server_us(world), &transit->outcome, &notes);
		transit->outcome.acked = (uint32_t)world_below(world, 3);
		garble(world, transit);
		transit->answered = true;
		world_trace(world, "server runs %s %c%" PRIu64 " of s%d: %s", op_names[transit->op.kind],
		        transit->op.mode ? transit->op.mode : '-', transit->op.attempt, session->id,
		        status_names[transit->outcome.status]);
		take_notes(world, &notes);
		world_settle(world);
		return true;
	}
	return false;
}

/* Behind everything that was sent since. */
static void send_text(struct session *session, struct transit *transit) {
	world_trace(session->world, "s%d sends the text of %s %" PRIu64, session->id,
	        op_names[transit->op.kind], transit->op.attempt);
	transit->unknown_script = transit->answered = transit->written = false;
	transit->with_text = true;
	snecki_list_remove(&transit->node);
	snecki_list_append(&session->transits, &transit->node);
	if (!session->link_up)
		fail_transit(transit);
}

bool session_deliver(struct session *session) {
	if (snecki_list_empty(&session->transits))
		return false;
	struct transit *transit = LIST_ITEM(session->transits.next, struct transit, node);
	if (!transit->answered)
		return false;
	if (transit->unknown_script && snecki_call_wanted(transit->call))
		send_text(session, transit);
	else
		reply(session, transit, &transit->outcome);
	return true;
}

void world_straggle(struct world *world, bool lose) {
	struct lock_outcome nobody_hears;
	struct sim_notes notes = { 0 };

	if (snecki_list_empty(&world->stragglers))
		return;
	struct straggler *straggler = LIST_ITEM(world->stragglers.next, struct straggler, node);
	snecki_list_remove(&straggler->node);
	if (!lose && world->now_ns < straggler->until_ns) {
		sim_server_run(&world->locks[straggler->lock], straggler->session, &straggler->op,
		        world->budget, world_server_us(world), &nobody_hears, &notes);
		world_trace(world, "server runs late %s %c%" PRIu64 " of s%d: %s",
		        op_names[straggler->op.kind], straggler->op.mode ? straggler->op.mode : '-',
		        straggler->op.attempt, straggler->session, status_names[nobody_hears.status]);
		take_notes(world, &notes);
	}
	free(straggler);
	world_settle(world);
}

void world_break(struct world *world) {
	struct sim_lock *lock = &world->locks[world_below(world, WORLD_LOCKS)];
	struct sim_notes notes = { 0 };

	if (!world->breaks_holds)
		return;
	if (lock->waiters_n && world_chance(world, 400)) {
		size_t victim = (size_t)world_below(world, (int)lock->waiters_n);
		world_trace(world, "an operator breaks the wait %" PRIu64 " of s%d",
		        lock->waiters[victim].attempt, lock->waiters[victim].session);
		sim_server_break_wait(lock, victim, world_server_us(world), &notes);
		take_notes(world, &notes);
		world_settle(world);
		return;
	}
	if (lock->holders_n == 0)
		return;
	size_t at = (size_t)world_below(world, (int)lock->holders_n);
	world_trace(world, "an operator breaks %c%" PRIu64 " of s%d", lock->holders[at].mode,
	        lock->holders[at].attempt, lock->holders[at].session);
	sim_server_break(lock, at, world_server_us(world), &notes);
	take_notes(world, &notes);
	world_settle(world);
}

void world_note(struct world *world, bool lose, bool twice) {
	if (world->notes_n == 0)
		return;
	size_t at = (size_t)world_below(world, (int)world->notes_n);
	struct sim_note note = world->notes[at];
	if (!twice)
		world->notes[at] = world->notes[--world->notes_n];
	for (int i = 0; i < world->sessions_n && !lose; i++) {
		struct session *session = &world->sessions[i];
		if (!session->core || session->id != note.to || !session->sub_up)
			continue;
		world_trace(world, "s%d hears %s %" PRIu64 " token %" PRIu64, session->id,
		        note.note.kind == LOCK_NOTE_GRANT    ? "grant of"
		        : note.note.kind == LOCK_NOTE_WANTED ? "wanted"
		                                             : "broken",
		        note.note.attempt, note.note.token);
		world->inside_core = true;
		snecki_core_note(session->core, &note.note, world->now_ns);
		world->inside_core = false;
		world_settle(world);
	}
}

/* ---- Time and the world -------------------------------------------------------------------------*/

void session_run(struct session *session) {
	struct world *world = session->world;

	world->inside_core = true;
	snecki_core_run(session->core, world->now_ns);
	world->inside_core = false;
	if (snecki_core_next_due(session->core) <= world->now_ns)
		world_fail(world, "s%d: the timers ran, and one is still due", session->id);
	LIST_EACH (at, &session->handles) {
		struct handle *handle = LIST_ITEM(at, struct handle, node);
		if (handle->held && snecki_hold_live(&handle->lock) &&
		        snecki_hold_valid_until(&handle->lock) <= world->now_ns)
			world_fail(world, "s%d: a hold is not valid and not lost", session->id);
	}
	world_settle(world);
}

void world_settle(struct world *world) {
	world->events++;
	check_world(world);
}

void world_open(struct world *world, uint64_t seed, bool trace) {
	memset(world, 0, sizeof *world);
	world->seed = seed;
	world->rng = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	world->trace = trace;
	world->now_ns = INT64_C(1000000000000) + (int64_t)(seed % 1000) * 1000;
	snecki_list_init(&world->stragglers);
	for (int i = 0; i < 8; i++)
		world_random(world);
	world->punctual = world_chance(world, 700);
	world->verify_grants = world_chance(world, 150);
	world->budget = world_chance(world, 200) ? 1 + world_below(world, 3) : 64;
	world->loss = world_chance(world, 300) ? 0 : 5 + world_below(world, 60);
	world->forgets = world_chance(world, 150) ? 20 + world_below(world, 200) : 0;
	world->starved = world_chance(world, 60) ? 1 + world_below(world, 60) : 0;
	starving = world->starved ? world : NULL;
	world->refusals = world_chance(world, 200) ? world_below(world, 150) : 0;
	world->breaks_holds = world_chance(world, 100);
	world->lingers = world_chance(world, 400) ? 100 + world_below(world, 900) : 0;
	world->acks = world_chance(world, 300) ? 100 + world_below(world, 900) : 0;
	world->busy = 100 + world_below(world, 300);
	world->sessions_n = 2 + world_below(world, WORLD_SESSIONS - 1);
	for (int i = 0; i < world->sessions_n; i++)
		session_start(world, &world->sessions[i]);
}

void world_close(struct world *world) {
	for (int i = 0; i < world->sessions_n; i++)
		if (world->sessions[i].core)
			session_crash(&world->sessions[i]);
	LIST_EACH (at, &world->stragglers)
		free(LIST_ITEM(at, struct straggler, node));
}
