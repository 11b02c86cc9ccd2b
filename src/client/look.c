/* SPDX-License-Identifier: MIT */
/* Looking at locks: one by name, or all of a namespace.
 *
 * The server's keys are walked to the end before any lock is looked at: a walk may give a key twice, and
 * only when all are known can they be sorted and told apart. Then the locks are looked at in batches that
 * are sent in one go, and after that the records of the sessions that were seen, each once. Nothing is
 * locked meanwhile; each answer was true when it was given. */
#include "client/look.h"

#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/glob.h"
#include "client/ask.h"
#include "net/server_error.h"

enum {
	BATCH = 128,        /* questions in one go */
	LIST_PARTIES = 16,  /* listed of each lock of a list */
	CURSOR_MAX = 24,    /* an unsigned 64-bit number as text */
	SCRIPT_ATTEMPTS = 3 /* how often a server may forget a script while we ask */
};

/* A lock to be looked at, and what was seen. */
struct look {
	char *name;
	size_t name_len;
	sneck_lock_info *info; /* NULL: it is none */
};

static int64_t deadline_of(const sneck_client *client) {
	return snecki_after_ms(snecki_now_ns(), client->command_ms);
}

static int no_memory(sneck_error *reterr) {
	return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
}

void snecki_lock_info_free(sneck_lock_info *info) {
	if (!info)
		return;
	free(info->name);
	free(info->parties);
	free(info);
}

void snecki_lock_list_free(sneck_lock_list *list) {
	if (!list)
		return;
	for (size_t i = 0; i < list->n; i++)
		snecki_lock_info_free(list->locks[i]);
	free(list->locks);
	free(list);
}

/* ---- Locks --------------------------------------------------------------------------------------*/

static int read_look(
        sneck_client *client, const struct redisReply *reply, struct look *look, sneck_error *reterr) {
	sneck_lock_info *info = calloc(1, sizeof *info);

	if (!info)
		return no_memory(reterr);
	int r = client->dialect->decode_inspect(reply, info, reterr);
	if (r < 0) {
		free(info);
		return r;
	}
	info->name_len = look->name_len;
	info->name = malloc(look->name_len + 1);
	if (!info->name) {
		snecki_lock_info_free(info);
		return no_memory(reterr);
	}
	memcpy(info->name, look->name, look->name_len);
	info->name[look->name_len] = '\0';
	look->info = info;
	return 0;
}

/* One batch. `with_text`: the first question brings the script along, for those behind it as well, unless
 * they go to other servers. 1: the server did not know the script. */
static int ask_batch(sneck_client *client, struct look *looks, size_t n, size_t most, bool with_text,
        bool skip_foreign, sneck_error *reterr) {
	struct asks *asks = snecki_asks_new(client, n);
	int r = asks ? 0 : SNECK_ENOMEM;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = client->dialect->encode_inspect(&client->session, looks[i].name, looks[i].name_len, most,
		        with_text && (i == 0 || client->session.sharded), snecki_asks_bytes(asks, i));
	if (r < 0) {
		snecki_asks_free(asks);
		return snecki_err(reterr, r, "%s", sneck_strerror(r));
	}
	r = snecki_asks_run(asks, deadline_of(client), SNECK_ECONN, reterr);
	for (size_t i = 0; r == 0 && i < n; i++)
		if (snecki_reply_noscript(snecki_asks_reply(asks, i)))
			r = 1;
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = read_look(client, snecki_asks_reply(asks, i), &looks[i], reterr);
		if (r == SNECK_ETYPE && skip_foreign)
			r = 0;
	}
	snecki_asks_free(asks);
	return r;
}

static int look_at(sneck_client *client, struct look *looks, size_t n, size_t most, bool skip_foreign,
        sneck_error *reterr) {
	for (size_t from = 0; from < n; from += BATCH) {
		size_t count = n - from < BATCH ? n - from : BATCH;
		int r = 1;
		for (int i = 0; r == 1 && i < SCRIPT_ATTEMPTS; i++)
			r = ask_batch(client, looks + from, count, most, i > 0, skip_foreign, reterr);
		if (r == 1)
			return snecki_err(reterr, SNECK_ESERVER, "the server forgets its scripts at once");
		if (r < 0)
			return r;
		if (atomic_load(&client->closing))
			return snecki_err(reterr, SNECK_ECLOSED, "%s", sneck_strerror(SNECK_ECLOSED));
	}
	return 0;
}

/* ---- Sessions -----------------------------------------------------------------------------------*/

/* Whose record tells who the party is: the session's, or that of the detached hold itself. */
static const char *record_of(const sneck_party *party) {
	return party->detached ? party->id + 1 : party->session;
}

static int compare_records(const void *a, const void *b) {
	const sneck_party *const *x = a, *const *y = b;
	return strcmp(record_of(*x), record_of(*y));
}

/* The parties of one record stand together. Returns how many there are at the front. */
static size_t same_record(sneck_party **parties, size_t n) {
	size_t count = 1;
	while (count < n && strcmp(record_of(parties[count]), record_of(parties[0])) == 0)
		count++;
	return count;
}

/* Asks for the records of up to BATCH sessions; `*n_done` parties are dealt with. A record that may not
 * be read is as good as none. */
static int ask_records(
        sneck_client *client, sneck_party **parties, size_t n, size_t *n_done, sneck_error *reterr) {
	size_t begin[BATCH + 1] = { 0 }, sessions = 0;

	while (sessions < BATCH && begin[sessions] < n) {
		size_t at = begin[sessions++];
		begin[sessions] = at + same_record(parties + at, n - at);
	}
	struct asks *asks = snecki_asks_new(client, sessions);
	if (!asks)
		return no_memory(reterr);
	int r = 0;
	for (size_t i = 0; r == 0 && i < sessions; i++)
		r = client->dialect->encode_record_ask(
		        &client->session, record_of(parties[begin[i]]), snecki_asks_bytes(asks, i));
	if (r < 0)
		snecki_err(reterr, r, "%s", sneck_strerror(r));
	else
		r = snecki_asks_run(asks, deadline_of(client), SNECK_ECONN, reterr);
	for (size_t i = 0; r == 0 && i < sessions; i++)
		for (size_t j = begin[i]; j < begin[i + 1]; j++)
			client->dialect->decode_record(snecki_asks_reply(asks, i), parties[j]);
	*n_done = begin[sessions];
	snecki_asks_free(asks);
	return r;
}

static int add_records(sneck_client *client, const struct look *looks, size_t n, sneck_error *reterr) {
	if (!client->dialect->encode_record_ask)
		return 0;
	size_t total = 0, filled = 0, step = 0;

	for (size_t i = 0; i < n; i++)
		total += looks[i].info ? looks[i].info->party_n : 0;
	if (total == 0)
		return 0;
	sneck_party **parties = malloc(total * sizeof *parties);
	if (!parties)
		return no_memory(reterr);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; looks[i].info && j < looks[i].info->party_n; j++)
			parties[filled++] = &looks[i].info->parties[j];
	qsort(parties, total, sizeof *parties, compare_records);
	int r = 0;
	for (size_t at = 0; r == 0 && at < total; at += step)
		r = ask_records(client, parties + at, total - at, &step, reterr);
	free(parties);
	return r;
}

int snecki_look(sneck_client *client, const void *name, size_t name_len, size_t most, sneck_lock_info **ret,
        sneck_error *reterr) {
	struct look look = { .name = malloc(name_len), .name_len = name_len };

	if (!look.name)
		return no_memory(reterr);
	memcpy(look.name, name, name_len);
	int r = look_at(client, &look, 1, most, false, reterr);
	if (r == 0)
		r = add_records(client, &look, 1, reterr);
	free(look.name);
	if (r < 0)
		snecki_lock_info_free(look.info);
	else
		*ret = look.info;
	return r;
}

/* ---- All of them --------------------------------------------------------------------------------*/

struct walk {
	struct look *looks;
	size_t n, cap;
};

static void free_walk(struct walk *walk) {
	for (size_t i = 0; i < walk->n; i++) {
		free(walk->looks[i].name);
		snecki_lock_info_free(walk->looks[i].info);
	}
	free(walk->looks);
}

static int add_name(struct walk *walk, const struct buf *name) {
	if (walk->n == walk->cap) {
		size_t cap = walk->cap ? 2 * walk->cap : 256;
		struct look *looks = realloc(walk->looks, cap * sizeof *looks);
		if (!looks)
			return SNECK_ENOMEM;
		walk->looks = looks;
		walk->cap = cap;
	}
	struct look *look = &walk->looks[walk->n];
	*look = (struct look){ .name = malloc(name->len), .name_len = name->len };
	if (!look->name)
		return SNECK_ENOMEM;
	memcpy(look->name, name->data, name->len);
	walk->n++;
	return 0;
}

/* [next cursor, [keys…]] */
static int take_keys(sneck_client *client, const redisReply *reply, const char *pattern, struct walk *walk,
        char cursor[CURSOR_MAX], sneck_error *reterr) {
	struct buf name = BUF_INIT;
	int r = 0;

	if (reply->type == REDIS_REPLY_ERROR && reply->str)
		return snecki_server_error_fill(reply->str, (size_t)reply->len, reterr);
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	        reply->element[0]->type != REDIS_REPLY_STRING || reply->element[0]->len >= CURSOR_MAX ||
	        reply->element[1]->type != REDIS_REPLY_ARRAY)
		return snecki_err(reterr, SNECK_ESERVER, "the server's answer to SCAN cannot be understood");
	strcpy(cursor, reply->element[0]->str);
	const redisReply *keys = reply->element[1];
	for (size_t i = 0; r == 0 && i < keys->elements; i++) {
		const redisReply *key = keys->element[i];
		snecki_buf_clear(&name);
		if (key->type != REDIS_REPLY_STRING ||
		        !client->dialect->key_name(&client->session, key->str, (size_t)key->len, &name))
			r = name.failed ? SNECK_ENOMEM : 0;
		else if (!pattern || snecki_glob(pattern, name.data, name.len))
			r = add_name(walk, &name);
	}
	snecki_buf_done(&name);
	return r < 0 ? no_memory(reterr) : 0;
}

/* The keys of one server. */
static int walk_server(
        sneck_client *client, unsigned server, const char *pattern, struct walk *walk, sneck_error *reterr) {
	char cursor[CURSOR_MAX] = "0";
	int r;

	do {
		struct asks *asks = snecki_asks_new(client, 1);
		if (!asks)
			return no_memory(reterr);
		snecki_asks_only(asks, 0, server);
		r = client->dialect->encode_scan(&client->session, cursor, snecki_asks_bytes(asks, 0));
		if (r < 0)
			r = no_memory(reterr);
		else
			r = snecki_asks_run(asks, deadline_of(client), SNECK_ECONN, reterr);
		if (r == 0)
			r = take_keys(client, snecki_asks_reply(asks, 0), pattern, walk, cursor, reterr);
		snecki_asks_free(asks);
		if (r == 0 && atomic_load(&client->closing))
			r = snecki_err(reterr, SNECK_ECLOSED, "%s", sneck_strerror(SNECK_ECLOSED));
	} while (r == 0 && strcmp(cursor, "0") != 0);
	return r;
}

/* A key that moves from one server to another meanwhile may be seen twice, or not at all. */
static int walk_keys(sneck_client *client, const char *pattern, struct walk *walk, sneck_error *reterr) {
	unsigned *servers = NULL;
	size_t n = 0;
	int r = snecki_ask_servers(client, &servers, &n, reterr);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = walk_server(client, servers[i], pattern, walk, reterr);
	free(servers);
	return r;
}

static int compare_names(const void *a, const void *b) {
	const struct look *x = a, *y = b;
	size_t len = x->name_len < y->name_len ? x->name_len : y->name_len;
	int r = memcmp(x->name, y->name, len);
	return r ? r : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

/* By name, each once. */
static void sort_names(struct walk *walk) {
	size_t n = 0;

	if (walk->n == 0)
		return;
	qsort(walk->looks, walk->n, sizeof walk->looks[0], compare_names);
	for (size_t i = 0; i < walk->n; i++) {
		if (n > 0 && compare_names(&walk->looks[n - 1], &walk->looks[i]) == 0)
			free(walk->looks[i].name);
		else
			walk->looks[n++] = walk->looks[i];
	}
	walk->n = n;
}

/* The locks that somebody holds or waits for move into a list. */
static sneck_lock_list *make_list(struct walk *walk) {
	sneck_lock_list *list = calloc(1, sizeof *list);

	if (!list)
		return NULL;
	list->locks = malloc((walk->n ? walk->n : 1) * sizeof list->locks[0]);
	if (!list->locks) {
		free(list);
		return NULL;
	}
	for (size_t i = 0; i < walk->n; i++) {
		sneck_lock_info *info = walk->looks[i].info;
		if (!info || (info->holder_n == 0 && info->waiter_n == 0))
			continue;
		list->locks[list->n++] = info;
		walk->looks[i].info = NULL;
	}
	return list;
}

int snecki_look_list(sneck_client *client, const char *pattern, sneck_lock_list **ret, sneck_error *reterr) {
	struct walk walk = { 0 };
	int r = walk_keys(client, pattern, &walk, reterr);

	if (r == 0) {
		sort_names(&walk);
		r = look_at(client, walk.looks, walk.n, LIST_PARTIES, true, reterr);
	}
	if (r == 0)
		r = add_records(client, walk.looks, walk.n, reterr);
	if (r == 0) {
		sneck_lock_list *list = make_list(&walk);
		if (list)
			*ret = list;
		else
			r = no_memory(reterr);
	}
	free_walk(&walk);
	return r;
}
