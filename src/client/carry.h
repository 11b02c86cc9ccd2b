/* SPDX-License-Identifier: MIT */
/* A request of the core on its way to the server and back: what carry.c (one by one) and together.c (many
 * renewals in one) share. */
#ifndef SNECK_CLIENT_CARRY_H
#define SNECK_CLIENT_CARRY_H

#include "client/client.h"

/* Ours, behind the core's lock_call. */
struct carried {
	struct req req; /* one that went with others has their `sent_ns` and `conn`, and nothing else here */
	struct list node; /* outbox, or deferred */
	sneck_client *client;
	const char *name; /* the entry's: it lives as long as the call */
	size_t name_len;
	bool full_text;              /* EVAL: the server did not know the script */
	struct lock_outcome outcome; /* deferred: the answer */
	struct sneck_error *error;   /* … and its text; NULL: there is none, or no memory for it */
};

static inline struct carried *snecki_carried_of(struct lock_call *call) {
	return (struct carried *)(void *)((char *)call + sizeof *call);
}

static inline struct lock_call *snecki_call_of(struct carried *carried) {
	return (struct lock_call *)(void *)((char *)carried - sizeof(struct lock_call));
}

static inline const struct dialect *snecki_carried_dialect(struct carried *carried) {
	return snecki_dialect_of(snecki_call_of(carried)->layout);
}

/* carry.c */
/* Whoever is sending. By itself. */
void snecki_carried_submit(struct carried *carried);
/* Whoever is sending: net may answer from inside `submit`. */
void snecki_request_submit(sneck_client *client, struct req *req);
/* Thread: whichever reads, in done(). False: it is the answer before it, once more. */
bool snecki_answer_is_new(const struct req *req, const struct lock_outcome *outcomes, size_t n);
/* When a renewal must have been answered; 0: as all others. */
uint32_t snecki_renewal_hurry(const struct lock_op *op);
bool snecki_script_unknown(const struct redisReply *reply);
/* What there is to say when no reply came. */
void snecki_no_reply(const struct req *req, enum req_status status, const struct sneck_error *error,
        struct lock_outcome *ret, struct sneck_error *retdetail);
/* Nothing locked. The answers to `n` of them, all at once, or later if this is inside a submit. */
void snecki_carried_answer(struct carried *const *carried, size_t n, const struct lock_outcome *outcomes,
        const struct sneck_error *error, bool from_read);

/* send.c */
/* Locked. What is in the outbox is lined up; `*ret_number` is that of the last. True: `ret` has it, and what
 * was in line before, and the caller submits it by snecki_send_line; else another thread does. */
bool snecki_line_up(sneck_client *client, uint64_t *ret_number, struct list *ret);
/* Not locked, and sending. Submits this and what is lined up meanwhile. */
void snecki_send_line(sneck_client *client, struct list *batch);
/* Locked; unlocks. From here on until snecki_turn_end the caller is the only one who submits, and everything
 * that was lined up before has been submitted. */
void snecki_turn_begin(sneck_client *client);
void snecki_turn_end(sneck_client *client);

/* together.c */
/* Whoever is sending. Submit a list of calls, in order, but those that can go together in one request. */
void snecki_submit_all(sneck_client *client, struct list *batch);

#endif
