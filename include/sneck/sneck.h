/* SPDX-License-Identifier: MIT */
/* libsneck: locks that many processes on many machines share, kept in Redis or Valkey.
 *
 * Calling sequence
 *   sneck_open -> sneck_acquire -> (work; sneck_check before each side effect) -> sneck_release
 *   -> sneck_close.
 *
 * A *client* is one session: the unit of ownership on the server. Open one per process and share
 * it among all threads; every function here may be called from any thread unless it says
 * otherwise. A *hold* is one successful acquisition. The *owner* of a hold, which decides who
 * re-enters, is the calling thread, or the number in `sneck_acquire_options.owner`.
 *
 * Ownership of memory: `T **ret_x` gives the caller an object to hand back (sneck_hold to
 * sneck_release, sneck_client to sneck_close); plain pointers that are returned belong to the
 * object they were asked of and live as long as it. Outputs are written on success only.
 *
 * Results: functions that can fail return 0 or a negative SNECK_E… code. A `sneck_error *` may be
 * NULL. The library never prints, exits, or touches signal handlers.
 *
 * Caveats
 *   - A lease is a promise about time. A program that is paused between sneck_check() and its
 *     side effect can be late; give sneck_hold_token() to whatever the lock protects and let it
 *     refuse smaller numbers.
 *   - After fork() the child owns nothing: every call there returns SNECK_EFORKED, and
 *     sneck_close() only frees memory.
 *   - A thread that ends while it holds: its holds are renewed no longer, and an event says so.
 */
#ifndef SNECK_SNECK_H
#define SNECK_SNECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sneck/error.h>
#include <sneck/inspect.h>
#include <sneck/probe.h>
#include <sneck/version.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SNECK_API __attribute__((visibility("default")))
#else
#define SNECK_API
#endif

typedef struct sneck_client sneck_client;
typedef struct sneck_hold sneck_hold;

/* ---- Numbers --------------------------------------------------------------------------------
 * The one table of times and limits; all times in milliseconds. */
enum {
	SNECK_NAME_MAX = 1024,    /* bytes in a lock name (at least 1) */
	SNECK_NAMESPACE_MAX = 64, /* bytes in a namespace */
	SNECK_LEASE_DEFAULT_MS = 30000,
	SNECK_LEASE_MIN_MS = 50,        /* fixed leases */
	SNECK_LEASE_RENEW_MIN_MS = 500, /* renewed leases */
	SNECK_LEASE_MAX_MS = 604800000, /* 7 days */
	SNECK_WAITER_LEASE_MS = 3000,   /* how long the queue keeps a waiter that is silent */
	SNECK_WAITER_BEAT_MS = 1000,
	SNECK_BURY_MS = 60000, /* how long an abandoned attempt is kept from coming to life */
	SNECK_KEEP_MS = 10000, /* how long an idle lock remembers its last token */
	SNECK_CONNECT_DEFAULT_MS = 1000,
	SNECK_COMMAND_DEFAULT_MS = 2000,
	SNECK_RECONNECT_MIN_MS = 50,
	SNECK_RECONNECT_MAX_MS = 2000,
	SNECK_MARGIN_MIN_MS = 2,    /* margin is max(this, 1 % of the lease) */
	SNECK_HANDOVER_MAX = 16,    /* times that threads pass on a lock which another session waits for */
	SNECK_HANDOVER_MS = 5,      /* and for how long */
	SNECK_LINGER_LEAST_MS = 1,  /* a WRITE that lingers is kept so long from its grant, even if wanted */
	SNECK_SKEW_MS = 50,         /* between the clocks of servers that take over from each other */
	SNECK_ACK_DEFAULT_MS = 1000 /* how long replicas have to acknowledge; at most half of the lease */
};

typedef enum sneck_mode {
	SNECK_READ = 1, /* shared */
	SNECK_WRITE = 2 /* exclusive; a mutex is a lock that is only ever taken in this mode */
} sneck_mode;

typedef enum sneck_policy {
	SNECK_POLICY_DEFAULT = 0,       /* the client's, else FAIR */
	SNECK_POLICY_FAIR = 1,          /* first come, first served; neighbouring readers together */
	SNECK_POLICY_PREFER_WRITERS = 2 /* a waiting writer goes before waiting readers */
} sneck_policy;

/* LOST and BROKEN never turn back. */
typedef enum sneck_state {
	SNECK_HELD = 1,
	SNECK_SUSPECT = 2, /* a due renewal is unconfirmed, or the server's clock jumped */
	SNECK_LOST = 3,
	SNECK_BROKEN = 4 /* an operator ended it */
} sneck_state;

/* ---- Client ---------------------------------------------------------------------------------*/

typedef enum sneck_log_level {
	SNECK_LOG_ERROR = 1,
	SNECK_LOG_WARN = 2,
	SNECK_LOG_INFO = 3,
	SNECK_LOG_DEBUG = 4
} sneck_log_level;

/* Called from library threads with no library lock held; it must not call back into sneck. */
typedef void (*sneck_log_fn)(void *log_ctx, sneck_log_level level, const char *text);

/* Options start with their size; zero means the default everywhere; fields are only appended. */
typedef struct sneck_client_options {
	size_t size;
	const char *name_space;   /* NULL: "sneck" */
	const char *user;         /* overrides the URL's */
	const char *password;     /* overrides the URL's; copied, never logged */
	const char *session_host; /* shown as the holder's host; NULL: the host name */
	uint32_t connect_ms;
	uint32_t command_ms;
	uint32_t keep_ms;    /* see SNECK_KEEP_MS */
	uint32_t policy;     /* sneck_policy */
	uint32_t flags;      /* SNECK_OPEN_… */
	uint32_t log_level;  /* most verbose level wanted; 0: WARN */
	sneck_log_fn log_fn; /* NULL: silent */
	void *log_ctx;
	/* Who this session is, shown to people who look at its locks. When any of them is set, the client
	 * keeps a record on the server from its first acquire to its close; without, none. Longer texts
	 * are cut (63, 255 and 127 bytes). Put no secrets here: whoever sees the locks sees the record. */
	const char *who_user;
	const char *who_command;
	const char *note;
	/* The layout on the server, for locks that are shared with other programs; also `?dialect=` and
	 * `&prefix=` in the URL. NULL: "native". `prefix` goes before every name, in those others. */
	const char *dialect;
	const char *prefix;
	int64_t lease_ms; /* for acquires that name none; 0: SNECK_LEASE_DEFAULT_MS */
	/* As whom to ask the sentinels, instead of what the URL says; `user` and `password` are never shown
	 * to them. */
	const char *sentinel_user;
	const char *sentinel_password;
	/* For acquires that say nothing of it: see sneck_acquire_options. 0: nothing lingers. SNECK_ENOTSUP
	 * where the dialect has no way to ask for it back. */
	int64_t linger_ms;
	/* Threads of this client that wait for one lock pass it on without the server. While another session
	 * waits for it they do so at most so often and for so long. 0: SNECK_HANDOVER_MAX, SNECK_HANDOVER_MS;
	 * SNECK_HANDOVER_OFF: not at all while another session waits. */
	uint32_t handover_max;
	uint32_t handover_ms;
	/* For acquires that say nothing of it: see sneck_acquire_options. 0: no replica is asked. */
	uint32_t ack_replicas;
	uint32_t ack_ms;
	/* Sentinel and Cluster: by how much the clocks of the servers may differ. So much less of each lease
	 * is counted on (a quarter of it at most). 0: SNECK_SKEW_MS; SNECK_SKEW_NONE: not at all. */
	uint32_t skew_ms;
} sneck_client_options;
#define SNECK_CLIENT_OPTIONS_INIT                                                                            \
	{                                                                                                    \
		sizeof(sneck_client_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
		        0, 0, 0, 0, 0                                                                        \
	}
#define SNECK_HANDOVER_OFF UINT32_MAX
#define SNECK_SKEW_NONE UINT32_MAX

enum {
	SNECK_OPEN_CONNECT = 1u << 0,      /* connect now, and fail if that fails */
	SNECK_OPEN_VERIFY_GRANTS = 1u << 1 /* never believe a grant message before a claim confirms it */
};

/* Open a session. URLs: redis[s]://[user:password@]host[:port][/db], unix:///path[?db=N], local:
 * (a private server of this user, started on first use). Does not touch the network unless
 * SNECK_OPEN_CONNECT is set. SNECK_EINVAL names the part of the URL that is wrong. */
SNECK_API int sneck_open(
        const char *url, const sneck_client_options *options, sneck_client **ret_client, sneck_error *reterr);

/* Release what is held, end waiting calls with SNECK_ECLOSED, stop the threads, free everything.
 * Waits at most the command time for the server. Holds of this client must not be used afterwards.
 * NULL is allowed. */
SNECK_API void sneck_close(sneck_client *client);

/* The session's id on the server, `host:pid:random`. */
SNECK_API const char *sneck_client_session(const sneck_client *client);

/* Where the Unix socket of the private server behind `local:` is, or would be. Starts nothing. The
 * server's process id is in redis.pid beside it. */
SNECK_API int sneck_local_socket(char *ret_path, size_t size, sneck_error *reterr);

/* ---- Acquire and release --------------------------------------------------------------------*/

#define SNECK_WAIT_FOREVER (-1)

typedef struct sneck_acquire_options {
	size_t size;
	int64_t wait_ms;  /* 0: do not wait; SNECK_WAIT_FOREVER */
	int64_t lease_ms; /* 0: SNECK_LEASE_DEFAULT_MS */
	/* Non-zero: never renewed, ends at its own deadline, when the library gives it back. (One that is
	 * shorter than SNECK_WAITER_LEASE_MS and was waited for lasts up to that long if the program dies:
	 * the server lengthens leases only, else a late message could cut one that was renewed since.) */
	uint32_t fixed;
	uint32_t policy;     /* sneck_policy */
	uint64_t owner;      /* 0: the calling thread; else who re-enters */
	uint64_t tag;        /* names this call for sneck_cancel and in events; 0: none */
	uint64_t need_token; /* non-zero: SNECK_ENOTSUP where the dialect has no fencing tokens */
	const char *dialect; /* of this lock; NULL: the client's */
	/* After the release the session keeps the lock on the server for so long, and whoever takes it again
	 * in this client has it without a round trip (a WRITE under a new token). It is given back at once
	 * when another session asks for it, when the time is over, or when the lease, which is not renewed
	 * meanwhile, ends. 0: the client's; SNECK_LINGER_OFF: not. Fixed holds never linger. SNECK_ENOTSUP
	 * where the dialect has no way to ask for it back. */
	int64_t linger_ms;
	/* So many replicas must have the grant, within ack_ms, before it counts: one that a failover promotes
	 * then knows of it. Else SNECK_EREPLICAS: it was undone. It narrows what a failover may lose to
	 * replicas that did not acknowledge; it is no consensus. Asked for with every grant of the server and
	 * every upgrade; not with renewals, re-entry, downgrade or release, nor when the lock is refused. The
	 * call may return ack_ms later than without. `ack_replicas` 0: the client's; SNECK_ACK_OFF: none.
	 * `ack_ms` 0: the client's, else SNECK_ACK_DEFAULT_MS; below lease_ms. SNECK_ENOTSUP where the
	 * dialect is not native. */
	uint32_t ack_replicas;
	uint32_t ack_ms;
} sneck_acquire_options;
#define SNECK_ACK_OFF UINT32_MAX
#define SNECK_ACQUIRE_OPTIONS_INIT \
	{ sizeof(sneck_acquire_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#define SNECK_LINGER_OFF (-1)

/* Take `name` in `mode`, waiting up to wait_ms. The owner may hold it already: re-entry costs no
 * round trip, WRITE while holding READ is an upgrade, READ while holding WRITE is granted.
 * Blocks; returns by its deadline (wait_ms, or the command time if no answer came at all).
 *
 * SNECK_EBUSY, SNECK_ETIMEDOUT, SNECK_ECANCELED, SNECK_EDEADLK: not taken; the text names the
 * holder. SNECK_EUNKNOWN: no answer; the library withdraws the request in the background.
 * SNECK_EREPLICAS: see ack_replicas. */
SNECK_API int sneck_acquire(sneck_client *client, const char *name, sneck_mode mode,
        const sneck_acquire_options *options, sneck_hold **ret_hold, sneck_error *reterr);
SNECK_API int sneck_acquire_n(sneck_client *client, const void *name, size_t name_len, sneck_mode mode,
        const sneck_acquire_options *options, sneck_hold **ret_hold, sneck_error *reterr);

/* The same without blocking: 0 means that exactly one event with `options->tag` follows,
 * SNECK_EVENT_ACQUIRED or SNECK_EVENT_REFUSED; an error return means that none does.
 * A hold taken this way belongs to no thread: without `owner` nobody re-enters it. */
SNECK_API int sneck_acquire_start(sneck_client *client, const void *name, size_t name_len, sneck_mode mode,
        const sneck_acquire_options *options, sneck_error *reterr);

/* End every waiting acquire or upgrade of this client whose tag is `tag`; returns how many. */
SNECK_API int sneck_cancel(sneck_client *client, uint64_t tag);

/* Give the hold back and free the handle, whatever the result, except SNECK_ENOTOWNER (another
 * thread's hold: nothing changes, the handle lives). SNECK_ELOST, SNECK_EBROKEN: it was no longer
 * ours. SNECK_EUNKNOWN: not answered; it goes on in the background until the lease ends. */
SNECK_API int sneck_release(sneck_hold *hold);

/* Make the lease last `lease_ms` from now (0: the hold's own lease). Never shortens it. */
SNECK_API int sneck_renew(sneck_hold *hold, int64_t lease_ms, sneck_error *reterr);

/* Turn a READ hold into WRITE, ahead of the queue, waiting for the other readers to leave.
 * A failure leaves the read hold as it was; after SNECK_EUNKNOWN (no answer) the library withdraws the
 * request in the background. The second upgrader gets SNECK_EDEADLK at once. `options`: wait_ms and tag
 * count, the rest is the hold's. */
SNECK_API int sneck_upgrade(sneck_hold *hold, const sneck_acquire_options *options, sneck_error *reterr);

/* Turn a WRITE hold into READ and let waiting readers in. */
SNECK_API int sneck_downgrade(sneck_hold *hold, sneck_error *reterr);

enum { SNECK_ID_MAX = 64 }; /* bytes of an id, with its NUL */

/* ---- Looking at a hold: from memory, no round trip ------------------------------------------*/

/* Is the hold certainly ours for another `need_ms`? The habit to have before each side effect. False once
 * it is broken: what is under way may be ended in the grace, nothing new may be begun. A hold that was waited
 * for is certain for less than SNECK_WAITER_LEASE_MS at first; within some 20 ms the server has been asked
 * for the whole lease. With SNECK_OPEN_VERIFY_GRANTS it is asked before the wait ends. */
SNECK_API bool sneck_check(const sneck_hold *hold, int64_t need_ms);
/* Milliseconds for which it is certainly ours; 0 when that cannot be said. Of a broken hold: how long the
 * program certainly has to stop before the lock passes on. */
SNECK_API int64_t sneck_hold_left_ms(const sneck_hold *hold);
/* The fencing token. A WRITE token is larger than every earlier token of the name, a READ token
 * larger than every earlier WRITE token. */
SNECK_API uint64_t sneck_hold_token(const sneck_hold *hold);
SNECK_API sneck_state sneck_hold_state(const sneck_hold *hold);
/* Who broke it and why, as they put it (any bytes but NUL: escape them before you show them). "" unless
 * the state is SNECK_BROKEN. Lives as long as the handle. */
SNECK_API const char *sneck_hold_reason(const sneck_hold *hold);
SNECK_API sneck_mode sneck_hold_mode(const sneck_hold *hold);
SNECK_API const char *sneck_hold_name(const sneck_hold *hold, size_t *ret_len);
/* The hold's id at this moment, as sneck_inspect shows it; threads that share a hold on the server
 * share it, and a conversion changes it. SNECK_ELOST: it is not held any more. */
SNECK_API int sneck_hold_id(const sneck_hold *hold, char ret_id[SNECK_ID_MAX]);
/* A descriptor that is readable while the state is not SNECK_HELD; made on first use, closed by
 * sneck_release. Poll it, do not read it. Negative: an SNECK_E… code. */
SNECK_API int sneck_hold_fd(sneck_hold *hold);

/* ---- A hold that outlives the process -------------------------------------------------------*/

/* Give up the handle but not the hold: it stays on the server until its lease ends (lease_ms from
 * now, fixed), unless somebody renews, releases or adopts it by the id written to `ret_id`. The id names this
 * hold and no other, ever; those of holds that a program keeps look different (they have no `~` at the end),
 * so nobody can mistake one for the other. What the client's options say of who it is stays to be read as
 * long as the hold. Frees the handle on success. */
SNECK_API int sneck_detach(
        sneck_hold *hold, int64_t lease_ms, char ret_id[SNECK_ID_MAX], sneck_error *reterr);
/* Make the lease of the detached hold `id` last lease_ms from now (0: the client's default). Never shortens
 * it; id and token stay. `ret_token` and `ret_left_ms` (how long it certainly lasts) may be NULL.
 * SNECK_ELOST: it is over; the text says who holds the lock now. SNECK_EBROKEN: by whom and why.
 * SNECK_ENOTOWNER: a program keeps that hold, and nothing was changed. SNECK_EUNKNOWN: no answer; ask
 * again. */
SNECK_API int sneck_renew_id(sneck_client *client, const void *name, size_t name_len, const char *id,
        int64_t lease_ms, uint64_t *ret_token, int64_t *ret_left_ms, sneck_error *reterr);
/* Give it back. The results are those of sneck_renew_id; after SNECK_EUNKNOWN a second call tells: 0 if the
 * first had not arrived, SNECK_ELOST if it had (or the lease is over). */
SNECK_API int sneck_release_id(
        sneck_client *client, const void *name, size_t name_len, const char *id, sneck_error *reterr);
/* Take over the detached hold `id` of `name`, which has another id then: of several adopters one wins, the
 * others get SNECK_ELOST. The token stays. `options`: lease_ms, fixed and owner count. SNECK_ENOTOWNER: a
 * program keeps that hold. */
SNECK_API int sneck_adopt(sneck_client *client, const void *name, size_t name_len, const char *id,
        const sneck_acquire_options *options, sneck_hold **ret_hold, sneck_error *reterr);

/* ---- Events, for loops ----------------------------------------------------------------------*/

typedef enum sneck_event_type {
	SNECK_EVENT_NONE = 0,
	SNECK_EVENT_ACQUIRED = 1,   /* sneck_acquire_start succeeded: `hold` is the caller's */
	SNECK_EVENT_REFUSED = 2,    /* it did not: `code`, `text` */
	SNECK_EVENT_STATE = 3,      /* `hold` changed to `state` */
	SNECK_EVENT_THREAD_GONE = 4 /* a thread ended with a hold of `name`: it is renewed no longer */
} sneck_event_type;

typedef struct sneck_event {
	size_t size; /* set by the caller: sizeof(sneck_event) */
	int type;    /* sneck_event_type */
	int code;
	uint64_t tag;
	sneck_hold *hold; /* compare only, unless ACQUIRED: it may have been released meanwhile */
	int state;        /* sneck_state */
	uint64_t token;
	char text[512];
} sneck_event;

/* Readable while events wait. Owned by the client. */
SNECK_API int sneck_client_fd(sneck_client *client);
/* 1 and an event, or 0. Never blocks. */
SNECK_API int sneck_client_next_event(sneck_client *client, sneck_event *ret_event);

/* ---- Looking at locks, breaking them ----------------------------------------------------------
 * The structs are in inspect.h. */

/* Who holds `name`, who waits for it. A lock of which the server knows nothing is free: mode 0.
 * At most `max_parties` are listed (0: 1000; never more than 10000). */
SNECK_API int sneck_inspect(sneck_client *client, const void *name, size_t name_len, size_t max_parties,
        sneck_lock_info **ret_info, sneck_error *reterr);
SNECK_API void sneck_lock_info_free(sneck_lock_info *info);

/* The locks of this namespace that somebody holds or waits for, whose names match the glob
 * `pattern` (NULL: all; `*`, `?`, `[a-z]`, `[^a]`, `\` before a character that is meant as such). At most
 * 16 parties of each are listed. Walks the server's keys in steps; not a snapshot. */
SNECK_API int sneck_list(
        sneck_client *client, const char *pattern, sneck_lock_list **ret_list, sneck_error *reterr);
SNECK_API void sneck_lock_list_free(sneck_lock_list *list);

/* Is this server fit for locks? Fills `ret_info` (begin with SNECK_PROBE_INFO_INIT, see probe.h) with
 * what its `wanted` asks for. What the server refuses to tell is unknown and no error. In a cluster it is
 * about primary number `node`, and `nodes` tells how many there are, also when that one did not answer. */
SNECK_API int sneck_probe(sneck_client *client, sneck_probe_info *ret_info, sneck_error *reterr);

/* End exactly the hold (or wait) `id` of `name`, as sneck_inspect tells it. The session behind it learns
 * SNECK_EBROKEN, who did it and why: at once if it listens, else with the next thing it sends (a renewed
 * hold: within a third of its lease). `reason` may be NULL, and is cut at about 150 bytes. The lock passes
 * on when the program has released the hold, or after grace_ms (0: at once), but never later than its
 * lease would have ended. Tokens never go back. A wait ends at once.
 *
 * Breaking takes the lock away from a program that may not have stopped: only a store that checks tokens
 * is safe from that. SNECK_ENOTHELD: that hold is no longer there, and nothing was changed; the text says
 * who holds it now. SNECK_EUNKNOWN: no answer; look again. */
SNECK_API int sneck_break(sneck_client *client, const void *name, size_t name_len, const char *id,
        const char *reason, int64_t grace_ms, sneck_error *reterr);

/* ---- Counters -------------------------------------------------------------------------------*/

typedef struct sneck_counters {
	size_t size;
	uint64_t commands;       /* requests written, renewals included */
	uint64_t acquires;       /* holds given out */
	uint64_t local_acquires; /* of these, without a round trip */
	uint64_t handovers;      /* of these, passed from thread to thread */
	uint64_t releases;
	uint64_t refusals;
	uint64_t renewals; /* confirmed */
	uint64_t renewal_failures;
	uint64_t beats;
	uint64_t grants_by_message; /* waits ended by a message */
	uint64_t grants_by_beat;    /* waits ended by a heartbeat: messages are being lost */
	uint64_t losses;
	uint64_t resends; /* requests repeated because no answer came */
	uint64_t connects;
	uint64_t disconnects;
	uint64_t holds;   /* now */
	uint64_t waiters; /* now */
	uint64_t retakes; /* local acquires of what lingered */
	uint64_t recalls; /* lingered, and was given back because another session asked for it */
} sneck_counters;

/* Fills the fields that `ret_stats->size` covers. */
SNECK_API int sneck_stats(sneck_client *client, sneck_counters *ret_stats);

/* ---- Names of things ------------------------------------------------------------------------*/

SNECK_API const char *sneck_err_name(int code); /* "SNECK_EBUSY" */
SNECK_API const char *sneck_strerror(int code); /* static text */
SNECK_API int sneck_err_outcome(int code);      /* sneck_outcome */
SNECK_API const char *sneck_state_name(sneck_state state);
SNECK_API const char *sneck_version(void);

#ifdef __cplusplus
}
#endif

#endif
