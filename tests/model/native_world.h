/* SPDX-License-Identifier: MIT */
/* A few sessions, the network between them and one lock, as plain data: every move gives the next
 * world, and a copy of a world is a place to come back to.
 *
 * The sessions follow the rules for clients in docs/protocol.md. The network keeps, loses and delays
 * what it likes and in any order, but nothing for longer than an attempt stays buried. */
#ifndef TESTS_MODEL_NATIVE_WORLD_H
#define TESTS_MODEL_NATIVE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "native_server.h"

enum { ACTORS_MAX = 5, MESSAGES_MAX = 24, MOVES_MAX = 128, DETACHED_MAX = 8 };

enum phase {
	IDLE,
	ACQUIRING,   /* asked; no answer yet */
	ADOPTING,    /* asked to take over a detached hold */
	WAITING,     /* in the queue */
	HOLDING,     /* until valid_us */
	UPGRADING,   /* READ is held; asked for more */
	UP_WAITING,  /* READ is held; in the queue for more */
	UNUPGRADING, /* READ is held; the upgrade is being withdrawn */
	DOWNGRADING, /* counts as READ from the moment it is asked */
	ENDING       /* asked to release or cancel, again and again until it is answered */
};

struct actor {
	int phase; /* enum phase */
	int incarnation;
	char id[16]; /* the session */
	uint64_t counter;
	/* The hold, or what is waited for. */
	char mode;
	bool claimed; /* false: believed from a message, and not confirmed yet */
	uint64_t attempt;
	uint64_t conversion; /* the attempt that `attempt` is to become; 0: none */
	uint64_t token;      /* as the server knows it */
	uint64_t used;       /* highest number used; more than token after local hand-overs */
	int64_t valid_us;
	int64_t deadline_ms;
	int64_t believed_us; /* since when */
	/* Waiting. */
	uint64_t waiting_token;
	int64_t answered_us; /* when the last answered heartbeat was sent */
	/* Attempts of this matter of which a copy may still be under way. */
	size_t unaccounted_n;
	uint64_t unaccounted[LOCK_BURY_MAX];
	/* Its hold was broken, and it may not know yet. */
	bool broken;
	int64_t grace_us;    /* until then it still excludes others … */
	uint64_t next_token; /* … and the numbers that it uses are below this one, the next that was given */
	/* A second hold with a lease of its own, beside the first. */
	uint64_t extra; /* its attempt; 0: none */
	char extra_mode;
	bool extra_doubtful; /* not answered: to be cancelled and buried */
	int64_t extra_valid_us;
	/* The one request that is unanswered. */
	bool asked;
	uint32_t request_id;
	int64_t asked_us; /* when the last copy was sent */
	struct lock_op request;
};

enum message_type { REQUEST, REPLY, NOTE };
struct message {
	int type; /* enum message_type */
	int actor;
	int incarnation;
	uint32_t request_id;
	int64_t sent_us; /* when the request was sent, also in its reply */
	struct lock_op op;
	struct lock_outcome outcome;
	struct lock_note note;
};

/* What may still happen; a random walk has plenty, an exhaustive one must end. */
struct budget {
	int starts, beats, renewals, conversions, extras, detaches, resends, abandons, losses, ticks, crashes,
	        steps_back, breaks, unused;
};

struct world {
	struct model_state server;
	int64_t now_us;     /* the sessions' clock */
	int64_t offset_us;  /* the server's clock minus that one */
	int64_t stepped_us; /* when the server's clock last stepped back */
	int actors_n;
	int messages_n;
	struct actor actors[ACTORS_MAX];
	struct message messages[MESSAGES_MAX];
	uint64_t top_token; /* the largest number used by anybody */
	uint64_t top_write; /* the largest used for writing */
	char detached[DETACHED_MAX][MODEL_NAME];
	int detached_at;
	int detached_uses; /* of the latest */
	struct budget budget;
	char violation[200]; /* empty: none */
};

struct world_times {
	int64_t lease_ms, wait_lease_ms, margin_ms, keep_ms, bury_ms;
};
extern struct world_times world_times;
extern bool world_trace; /* print every move */

/* A rule for clients that is left out, to see that it matters. */
enum careless {
	CAREFUL,
	NOTE_OF_ANY_TOKEN, /* believes a grant message whatever its token */
	NOTE_OF_ANY_AGE,   /* believes it however old the last heartbeat is */
	VALID_FROM_REPLY,  /* counts the lease from the reply */
	NEVER_BURIES,
	NEVER_REPORTS, /* keeps the numbers that it used to itself */
	USES_ANY_NEXT  /* uses the next number also beyond its deadline */
};
extern enum careless world_careless;

enum move_type { MOVE_STEP, MOVE_DELIVER, MOVE_LOSE, MOVE_TICK, MOVE_CRASH, MOVE_STEP_BACK, MOVE_BREAK };
struct move {
	int type;  /* enum move_type */
	int which; /* actor, message, or member of the lock */
	int action;
	int64_t ms; /* MOVE_TICK, MOVE_STEP_BACK; MOVE_BREAK: the grace */
};

void world_init(struct world *world, int actors, const struct budget *budget);
/* Everything that may happen next except ticks and steps of the clock. */
int world_moves(const struct world *world, struct move moves[MOVES_MAX]);
void world_apply(struct world *world, const struct move *move);
/* No new work and no more losses: everybody ends what it has begun, the network delivers. Afterwards
 * nobody waits and nothing of a living session is left on the server, or it is a violation. */
void world_drain(struct world *world, unsigned (*choose)(unsigned n));

/* ---- Between native_world.c, native_actor.c and native_moves.c ------------------------------*/

void world_violation(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void world_send(struct world *world, const struct message *message);
int64_t world_server_us(const struct world *world);
/* Whether the session believes that it holds, and how: 'R', 'W' or 0. */
char actor_believes(const struct world *world, const struct actor *actor);
int actor_moves(const struct world *world, int which, struct move *moves);
void actor_step(struct world *world, int which, int action);
void actor_reply(struct world *world, int which, const struct message *reply);
void actor_note(struct world *world, int which, const struct lock_note *note);
/* An operator has broken the hold `member`, which is in the way for another `grace_ms`. */
void actor_broken(struct world *world, int which, const char *member, int64_t grace_ms);
/* What a session does that wants to be done; false: it is idle. */
bool actor_finish(struct world *world, int which);

#endif
