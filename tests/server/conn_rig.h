/* SPDX-License-Identifier: MIT */
/* A command connection and a subscribe connection with a background thread of the test's own, and a
 * caller's side that sends one command and waits for its reply. */
#ifndef SNECK_TESTS_CONN_RIG_H
#define SNECK_TESTS_CONN_RIG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sneck/error.h>

#include "net/conn.h"
#include "net/sub.h"
#include "net/url.h"

struct rig {
	struct url url;
	struct conn *conn;
	struct sub *sub; /* NULL: none */
	struct parking parking;
	struct log log;
	int wake_fd;
	pthread_t background;
	atomic_bool stop;
	atomic_int ups, downs;    /* how often on_up and on_down were called */
	_Atomic int64_t since_ns; /* what the last on_up was told */
	atomic_int readies;       /* confirmed subscriptions */
	atomic_int sub_downs;
	atomic_int messages;
	atomic_int topic_readies, topic_messages; /* of channels that come and go */
	atomic_int rounds;                        /* of the background loop */
	void (*heard)(struct rig *rig); /* not NULL: called on the background thread, once per message */
	pthread_mutex_t mutex;
	struct sneck_error why;     /* under mutex: of the last on_down */
	struct sneck_error sub_why; /* under mutex: of the subscription's last on_down */
	char last_message[64];      /* under mutex; of a topic: "subject=payload" */
	char logged[4096];          /* under mutex: all log lines */
};

struct rig_options {
	uint32_t connect_ms; /* 0: 1000 */
	uint32_t command_ms; /* 0: 2000 */
	const char *channel; /* NULL: no subscribe connection */
	uint32_t ping_ms;
	bool sleeps_alone; /* no parking */
	void (*heard)(struct rig *rig);
};

/* Set-up and tear-down of a test: a server of its own, which `*state` points to; on a Unix socket, or also on
 * a port. */
int rig_server_up(void **state);
int rig_server_up_tcp(void **state);
int rig_server_down(void **state);

/* Fails the test when it cannot. */
void rig_start(struct rig *rig, const char *url, const struct rig_options *options);
void rig_stop(struct rig *rig);

/* One request and what became of it. */
struct call {
	struct req req;
	struct parker parker; /* used when the request has no other */
	atomic_bool finished;
	enum req_status status;
	int type;          /* of the reply */
	long long integer; /* of the reply */
	char text[512];    /* of the reply or the error */
	int code;          /* of the error */
	int order;         /* the how-manieth completion it was */
};

/* Fill in a command from a line of words. The call must be zeroed or finished. */
void call_init(struct call *call, const char *line);
void call_done(struct call *call);
/* Submit and wait up to `ms`. True: finished. A call that is not finished is orphaned. */
bool call_run(struct rig *rig, struct call *call, int64_t ms);
/* The same for a line; returns the integer of the reply, or fails the test. */
long long rig_integer(struct rig *rig, const char *line);

#endif
