/* SPDX-License-Identifier: MIT */
/* The client: owns the threads, feeds events to the lock core and carries out its actions.
 *
 * Locks, in the order in which they may be taken
 *   mutex       the core, the holds, the events; every event of the core happens under it
 *   send_mutex  the requests that are in line to be submitted; for moments only (send.c)
 *   those of net and of the parkers
 * A request completes (net calls us) with none of them held. */
#ifndef SNECK_CLIENT_CLIENT_H
#define SNECK_CLIENT_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sneck/sneck.h>

#include "base/list.h"
#include "base/log.h"
#include "dialect/dialect.h"
#include "lock/core.h"
#include "net/conn.h"
#include "net/url.h"
#include "topology/servers.h"

enum { SESSION_MAX = 40 };

/* An event that waits for sneck_client_next_event. */
struct event_node {
	struct list node; /* in no list: free to be used */
	sneck_event event;
	bool heap; /* free it once it has been read */
};

struct sneck_hold {
	struct lock_hold lock; /* the core's; under the client's mutex */
	sneck_client *client;
	const struct dialect *dialect;
	bool thread_bound;       /* the owner is a thread: only that thread may release it */
	int fd;                  /* eventfd, or -1 */
	struct event_node news;  /* the last change of state, not read yet */
	char *reason;            /* BROKEN: by whom and why; written once. NULL: none was told */
	uint64_t broken_attempt; /* BROKEN: the name of what is left of it on the server; 0: nothing */
	char broken_mode;
	int64_t grace_until_ns; /* BROKEN: until then nobody else has it; 0: that cannot be said */
	struct list all;        /* client's list of handles */
	size_t name_len;
	char name[];
};

/* One blocking or asynchronous call. */
struct waiter {
	struct lock_wish wish;
	struct parker parker; /* blocking calls */
	struct list woken;    /* client's list of those to be woken */
	struct list late;     /* client's list; belongs to it only while in it */
	uint64_t sent_number; /* of the last request that was lined up for it; 0: none was */
	bool async;
	char server[24];          /* first word of the server's error reply, or "" */
	sneck_hold *hold;         /* async acquire: the event's */
	struct event_node *event; /* async: made beforehand, so that the result cannot get lost */
};

/* A thread that has used the client. Two references: the thread's and the client's. */
struct thread_slot {
	atomic_int refs;
	pthread_mutex_t mutex; /* guards `client` against the client's end */
	sneck_client *client;  /* NULL: closed */
	uint64_t owner;
	struct list node;
};

/* The session's record on the server: who we are, for people who look at locks. `wanted` and the
 * texts are constant after open; the rest is under the client's mutex, except `req`, `full_text` and
 * `deleting`, which belong to whoever has made it busy. */
struct record {
	bool wanted;
	bool begun;  /* something was asked of the server: the record has its reason */
	bool unsent; /* begun just now: whoever unlocks writes it */
	bool busy;   /* the request is in line */
	bool ending; /* the client closes: remove it */
	bool full_text, deleting;
	uint32_t ttl_ms, refresh_ms;
	int64_t due_ns;
	int64_t listen_ns; /* from then on messages are heard: one that says who it is wants to hear of a
	                      break */
	int64_t since_ms;
	int32_t pid;
	char user[64], host[64], command[256], note[128];
	struct req req;
};

struct tls_context;

struct sneck_client {
	struct url url;          /* as given */
	struct url server;       /* where to connect: `url`, or the private server's socket */
	struct tls_context *tls; /* NULL: plain */
	char *name_space;
	char *prefix; /* NULL: none */
	char session_id[SESSION_MAX + 1];
	char uuid[37];
	char display[256]; /* the URL for people */
	struct dialect_session session;
	const struct dialect *dialect;
	struct log log;
	uint32_t connect_ms, command_ms, policy, flags;
	int64_t lease_ms;              /* for acquires that name none, as is … */
	int64_t linger_ms;             /* … this … */
	uint32_t ack_replicas, ack_ms; /* … and these */
	unsigned handover_max;
	int64_t handover_ms;
	int64_t skew_ms;
	unsigned char *fork_page; /* zero in a forked child */

	pthread_mutex_t mutex;
	struct lock_core *core;
	int answer_code;         /* of the error reply that the core is dealing with, or 0 … */
	char answer_word[24];    /* … and its first word */
	const char *answer_text; /* the text of the answer that the core is dealing with, or NULL … */
	const struct lock_op *answering; /* … and, BROKEN, what was asked, … */
	int64_t answer_kept_ns;          /* … and until when others are kept out; 0: they are not */
	int64_t message_ns;              /* when the last message about a lock came; 0: none did */
	struct list outbox;              /* calls that the core has made in this event, … */
	unsigned outbox_n;               /* … and how many */
	struct list done;                /* waiters whose wish is done: woken once the mutex is free */
	struct list late;                /* waiters whose time is up, and which the server has not answered */
	struct waiter *current;          /* whose event is at hand: its thread waits for what it sends */
	struct list holds;
	struct list events;
	int event_fd;
	size_t event_n;
	atomic_bool started;
	atomic_bool closing;
	_Atomic uint64_t inside; /* calls that have not returned yet, and those of … */
	uint64_t left;           /* … them that have said so under the mutex, which is cheaper */
	pthread_cond_t changed;  /* the link went up or down, a call returned, an answer came while closing */
	bool subscribed_once;
	struct sneck_error down; /* why the link is down; code 0: it is not */

	pthread_mutex_t send_mutex; /* guards this: */
	struct list line;           /* calls that nobody has submitted yet, in the order of the core */
	uint64_t lined_up;          /* how many have ever been in it */
	bool sending;               /* a thread is submitting, for everybody */
	unsigned awaiting;          /* threads that wait for `sent` */
	pthread_cond_t sent;        /* something was submitted, or `sending` was cleared */
	_Atomic uint64_t submitted; /* of `lined_up`; whoever is sending writes it, without the mutex */
	atomic_uintptr_t submitter; /* the thread inside snecki_conn_submit (a pthread_t), or 0 */
	pthread_mutex_t defer_mutex;
	struct list deferred; /* answers that came from inside a submit */

	struct servers *servers; /* NULL: not started */
	struct parking parking;  /* where its callers sleep */
	struct record record;
	uint64_t echo_number;  /* of the probe's message that is under way; 0: none. Under mutex, as … */
	int64_t echo_heard_ns; /* … when the last one came, and … */
	bool sub_failed;       /* … that the subscription failed since a probe began */
	pthread_t background;
	int wake_fd;
	atomic_uintptr_t about_to_look; /* the background thread, while it has no need to be woken; else 0 */
	int64_t background_due_ns;      /* when the background thread will look at the timers; under mutex */
	atomic_bool stop;

	pthread_key_t thread_key;
	bool have_key;
	struct list threads;
	uint64_t thread_counter;
};

/* client.c */
int snecki_client_open(
        const char *url, const sneck_client_options *options, sneck_client **ret, sneck_error *reterr);
void snecki_client_close(sneck_client *client);
/* In a forked child: free the memory, touch nothing that the parent uses. */
void snecki_client_abandon(sneck_client *client);
static inline bool snecki_client_forked(const sneck_client *client) {
	return client->fork_page[0] == 0;
}
/* Start the threads on first use, and the private server when it is wanted and not there. */
int snecki_client_start(sneck_client *client, int64_t deadline_ns, sneck_error *reterr);
/* Started, and nothing to be started again. */
static inline bool snecki_client_ready(const sneck_client *client) {
	return atomic_load(&client->started) && client->url.kind != URL_LOCAL;
}
/* Every call that may block enters and leaves; close waits for those inside. */
int snecki_client_enter(sneck_client *client, int64_t deadline_ns, sneck_error *reterr);
/* The first half of it, where nothing is to be started: for a call that wakes others, who may close the
 * client before it is over. */
static inline void snecki_client_count_in(sneck_client *client) {
	atomic_fetch_add(&client->inside, 1);
}
void snecki_client_leave(sneck_client *client);
/* Unlock and leave in one, where nothing is to be sent and nobody to be woken. False: nothing was done. */
bool snecki_client_unlock_and_leave(sneck_client *client);
/* Locked: wait for `changed`, or the deadline. False: it has passed. */
bool snecki_client_await_change(sneck_client *client, int64_t deadline_ns);
int snecki_client_connect(sneck_client *client, sneck_error *reterr);

/* carry.c: actions of the core, answers of the server */
extern const struct lock_hooks snecki_client_hooks;
size_t snecki_client_call_extra(void);
void snecki_client_lock(sneck_client *client);
/* Submit what the core wants sent, tell the background thread of an earlier timer, and unlock. */
void snecki_client_unlock(sneck_client *client);
/* Thread: any, nothing locked. Wake the waiters whose wishes are done. Net calls it after each batch of
 * answers, so that the threads it wakes do not fight with the answers that follow. */
void snecki_client_wake_done(void *client);
void snecki_client_run_deferred(sneck_client *client);

/* send.c */
/* Not locked. Submits what is in line, if nobody is sending. */
void snecki_send_rest(sneck_client *client);
/* Not locked. Until the requests up to this one have been submitted. */
void snecki_sent_await(sneck_client *client, uint64_t number);
void snecki_sent_await_all(sneck_client *client);

/* background.c */
void *snecki_client_background(void *client);
void snecki_client_wake(void *client);
/* The same from the background thread, too: it looks at deferred answers first in a turn, and what it submits
 * behind that may bring another. */
void snecki_client_wake_for_deferred(sneck_client *client);
int snecki_client_links(sneck_client *client); /* makes `servers` */

/* wait.c: blocking calls */
void snecki_waiter_init(struct waiter *waiter);
void snecki_waiter_done(sneck_client *client, struct waiter *waiter);
/* Locked by snecki_client_lock with `current` set. True: the wish has been granted already, nothing else is
 * to be done, and all of it is over: the client is unlocked and left, and may be gone. */
bool snecki_waiter_done_at_once(sneck_client *client, struct waiter *waiter);
/* Locked by snecki_client_lock with `current` set; unlocks, and waits until the wish is done. */
int snecki_waiter_wait(
        sneck_client *client, struct waiter *waiter, int64_t deadline_ns, int64_t answer_deadline_ns);
/* Locked. The server has answered something: who waited for that only does not go on waiting. */
void snecki_end_late(sneck_client *client);
sneck_hold *snecki_hold_new(sneck_client *client, const void *name, size_t name_len);
void snecki_hold_free(sneck_hold *hold); /* locked */
/* A name for people, NUL-terminated. */
void snecki_print_name(char *out, size_t size, const void *bytes, size_t len);
/* Fills `reterr` from a finished wish; returns its code. */
int snecki_wish_error(sneck_client *client, const struct lock_wish *wish, const void *name, size_t name_len,
        int64_t wait_ms, sneck_error *reterr);

/* record.c */
void snecki_record_init(sneck_client *client, const sneck_client_options *options);
void snecki_record_done(sneck_client *client);
struct session_record snecki_record_fields(const sneck_client *client); /* borrowed from the client */
void snecki_record_begin(sneck_client *client);                         /* locked: a lock is asked for */
/* Locked. True: the caller writes it, once everything is unlocked. */
bool snecki_record_take(sneck_client *client);
void snecki_record_write(sneck_client *client);
/* Thread: background. Writes it again when that is due; lowers `*due_ns` to the next time. */
void snecki_record_run(sneck_client *client, int64_t *due_ns);
/* Unlocked: the client closes. `busy` turns false when the server has heard of it. */
void snecki_record_end(sneck_client *client);

/* threads.c */
int snecki_client_threads_begin(sneck_client *client);
int snecki_client_thread_owner(sneck_client *client, uint64_t *ret_owner); /* unlocked */
void snecki_client_threads_end(sneck_client *client);
uint64_t snecki_client_anonymous_owner(sneck_client *client); /* locked */

/* events.c; all locked */
void snecki_event_post(sneck_client *client, struct event_node *node);
bool snecki_event_take(sneck_client *client, sneck_event *ret);
void snecki_event_drop(sneck_client *client, struct event_node *node);
void snecki_events_free(sneck_client *client);

#endif
