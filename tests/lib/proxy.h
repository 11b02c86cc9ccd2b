/* SPDX-License-Identifier: MIT */
/* A proxy on a Unix socket between a client under test and a real redis-server. It understands the
 * framing of the protocol, so a fault can be aimed at the n-th request or reply of a kind instead
 * of at a moment in time: the same fault strikes in every run.
 *
 * Start it, open the client on `url`, arm rules, act, and ask what happened. Everything runs on one
 * thread of the test program; every function here may be called from any other. */
#ifndef TESTS_LIB_PROXY_H
#define TESTS_LIB_PROXY_H

#include <stdbool.h>
#include <stdint.h>

/* What a message is about. A reply has the class of its request. */
enum proxy_class {
	PROXY_ANY,       /* in rules: every message; in counts: the sum */
	PROXY_GREETING,  /* whatever is not one of the following: HELLO, AUTH, CLIENT, PING … */
	PROXY_SCRIPT,    /* EVAL and EVALSHA */
	PROXY_SUBSCRIBE, /* SUBSCRIBE and its confirmation */
	PROXY_MESSAGE,   /* what was published; only from the server */
	PROXY_CLASSES
};

enum proxy_action {
	/* On requests. */
	PROXY_CUT_BEFORE, /* the request is lost and the connection cut */
	PROXY_HOLD,       /* it and what follows on its connection stay in the proxy for `hold_ms`, or
	                   * until test_proxy_deliver, also when the client has gone meanwhile */
	PROXY_ANSWER,     /* it never reaches the server; the client reads `line` */
	PROXY_CUT_AFTER,  /* it is forwarded and the connection cut before any reply */
	/* On replies: the server has executed the request. */
	PROXY_DROP,        /* only this reply is lost (for messages: replies would be out of step) */
	PROXY_DROP_CUT,    /* it is lost and the connection cut */
	PROXY_DROP_SILENT, /* it is lost, and so is everything after it on its connection */
	PROXY_REPLACE,     /* the client reads `line` instead */
	PROXY_SHIFT,       /* the reply before it comes again first: from here on all are one late */
	PROXY_HOLD_REPLY   /* as PROXY_HOLD, on the way back */
};

struct proxy_rule {
	enum proxy_action action;
	enum proxy_class class;
	unsigned nth;     /* which one, counted from the moment of arming, from 1; 0: every one */
	int64_t hold_ms;  /* PROXY_HOLD, PROXY_HOLD_REPLY; 0: until test_proxy_deliver */
	const char *line; /* PROXY_ANSWER, PROXY_REPLACE: "-ERR text", no line end. Borrowed */
};

struct proxy_counts {
	unsigned connections; /* accepted so far */
	unsigned open;        /* client sides that are open now */
	unsigned requests[PROXY_CLASSES];
	unsigned replies[PROXY_CLASSES];
	unsigned fired;     /* faults that have struck */
	unsigned delivered; /* held messages that were sent on */
};

struct proxy_state;

struct test_proxy {
	char url[128];
	int port; /* 0: a Unix socket */
	struct proxy_state *state;
};

/* Listen in a fresh directory and pass connections on to `server_socket`. */
void test_proxy_start(struct test_proxy *proxy, const char *server_socket);
/* The same on a free port of 127.0.0.1: `port`. */
void test_proxy_start_tcp(struct test_proxy *proxy, const char *server_socket);
void test_proxy_stop(struct test_proxy *proxy);

/* At most 16 rules are armed at once; one with `nth` disarms itself when it strikes. */
void test_proxy_arm(struct test_proxy *proxy, const struct proxy_rule *rule);
/* Remove every rule, silence, delay and dribble. Held messages stay held. */
void test_proxy_calm(struct test_proxy *proxy);

/* From now on bytes of that direction wait in the proxy; false lets them go on. */
void test_proxy_silence(struct test_proxy *proxy, bool to_server, bool to_client);
/* Everything takes this long in each direction. */
void test_proxy_delay(struct test_proxy *proxy, int64_t ms);
/* Everything is written byte by byte, with a pause after each. */
void test_proxy_dribble(struct test_proxy *proxy, bool on);
/* New connections are closed at once. */
void test_proxy_refuse(struct test_proxy *proxy, bool on);
void test_proxy_cut_all(struct test_proxy *proxy);
/* Send on what is held. */
void test_proxy_deliver(struct test_proxy *proxy);

void test_proxy_counts(struct test_proxy *proxy, struct proxy_counts *ret);
/* Wait until as many faults have struck (or held messages been delivered); false: not in time. */
bool test_proxy_wait_fired(struct test_proxy *proxy, unsigned fired, int timeout_ms);
bool test_proxy_wait_delivered(struct test_proxy *proxy, unsigned delivered, int timeout_ms);

#endif
