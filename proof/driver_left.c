/* SPDX-License-Identifier: MIT */
/* What lies on the server: what is left of holders and waiters when all have gone, by the keys of each
 * layout, and what is done about waiters that died in a queue which waits for them. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sneck/sneck.h>

/* As the kind of a fault: the queues were cleared. */
enum { QUEUES_CLEARED = 254 };

int rig_open(struct rig *rig, sneck_client **ret_client) {
	char url[RIG_URL_MAX];
	proof_layout_url(rig->shape.layout, rig->site.url, url, sizeof(url));
	return sneck_open(url, NULL, ret_client, NULL);
}

/* ---- native -------------------------------------------------------------------------------------*/

static long long now_ms(const struct test_server *server) {
	redisReply *now = test_redis(server, "TIME");
	long long ms =
	        now && now->type == REDIS_REPLY_ARRAY ? strtoll(now->element[0]->str, NULL, 10) * 1000 : 0;
	if (now)
		freeReplyObject(now);
	return ms;
}

/* Holders and waiters of this lock whose time is not over. Of those that are dead the server learns when
 * somebody next comes by, or with the key's end. */
static uint64_t alive_in(struct rig *rig, uint32_t lock) {
	char key[32];
	snprintf(key, sizeof(key), "sneck:{fault-%u}", lock);
	const struct test_server *server = site_server_of(&rig->site, key);
	if (!server)
		return 1;
	long long ms = now_ms(server);
	redisReply *reply = test_redis(server, "ZRANGE %s 0 -1 WITHSCORES", key);
	uint64_t n = reply ? 0 : 1;
	for (size_t i = 0; reply && reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
		char kind = reply->element[i]->str[0];
		double score = strtod(reply->element[i + 1]->str, NULL);
		if (kind == 'l')
			score -= 1e14;
		if ((kind == 'R' || kind == 'W' || kind == 'l') && score > (double)ms)
			n++;
	}
	if (reply)
		freeReplyObject(reply);
	return n;
}

static uint64_t alive(struct rig *rig) {
	uint64_t n = 0;
	for (uint32_t i = 0; i < rig_locks(rig); i++)
		n += alive_in(rig, i);
	return n;
}

/* ---- The others -----------------------------------------------------------------------------------*/

/* A key that may be there when nobody holds or waits: what is buried, for a minute; a counter of tokens. */
static bool may_stay(const struct rig *rig, const char *key, bool *ret_for_ever) {
	static const char counter[] = "redisson_lock_token:";
	*ret_for_ever = rig->shape.layout->counts_tokens && strncmp(key, counter, sizeof(counter) - 1) == 0;
	return *ret_for_ever || strstr(key, ":sneck_buried:");
}

/* Keys that would stay for ever; of a layout in which a lock that nobody has is no key, also those of
 * locks. */
static uint64_t count_keys_on(const struct rig *rig, const struct test_server *server, bool locks) {
	redisReply *keys = test_redis(server, "KEYS *");
	uint64_t n = 0;
	for (size_t i = 0; keys && i < keys->elements; i++) {
		bool for_ever, allowed = may_stay(rig, keys->element[i]->str, &for_ever);
		long long left_ms = test_redis_int(server, "PTTL %s", keys->element[i]->str);
		n += (left_ms == -1 && !for_ever) || (left_ms >= 0 && locks && !allowed);
	}
	if (keys)
		freeReplyObject(keys);
	return n;
}

static uint64_t count_keys(struct rig *rig, bool locks) {
	const struct test_server *servers[SITE_PRIMARIES_MAX];
	size_t n = site_primaries(&rig->site, servers);
	uint64_t sum = n ? 0 : 1;
	for (size_t i = 0; i < n; i++)
		sum += count_keys_on(rig, servers[i], locks);
	return sum;
}

uint64_t rig_left(struct rig *rig) {
	if (rig->shape.layout == &proof_native)
		return alive(rig) + count_keys(rig, false);
	return count_keys(rig, true);
}

/* ---- Queues that wait for the dead ----------------------------------------------------------------*/

/* The keys themselves: to break waiter by waiter would hit those that have come to hold meanwhile. Those that
 * are alive join again with their next question, and have lost their places. */
void rig_clear_queues(struct rig *rig, uint32_t first_lock, uint32_t n) {
	struct history_record form = { .op = HISTORY_FAULT, .lock = HISTORY_ALL, .detail = QUEUES_CLEARED };
	int64_t cleared = 0;
	if (!rig->shape.layout->waits_for_dead)
		return;
	struct history_record *record = history_begin(rig->history, &form);
	for (uint32_t lock = first_lock; lock < first_lock + n; lock++)
		cleared += test_redis_int(&rig->site.single,
		        "DEL redisson_lock_queue:{fault-%d} redisson_lock_timeout:{fault-%d}", (int)lock,
		        (int)lock);
	history_end(record, (int32_t)cleared);
}
