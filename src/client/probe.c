/* SPDX-License-Identifier: MIT */
/* Facts about the server that people want to know before they trust it with locks.
 *
 * Nothing here decides about a lock. A question that the server refuses leaves its fact unknown, for
 * a user with few rights is no error; only a server that does not answer is one.
 *
 * The message is one that the session publishes to itself, `p <number>`: it takes the way that every
 * grant takes. */
#include "client/probe.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/random.h"
#include "client/ask.h"
#include "net/reply.h"

enum {
	ROUNDS = 5,
	ECHO_MAX = 24,
	NAMING_MS = 200 /* a call that has failed returns soon, with or without the name */
};

static int64_t deadline_of(const sneck_client *client) {
	return snecki_after_ms(snecki_now_ns(), client->command_ms);
}

static void write_words(struct buf *out, const char *const *words) {
	size_t n = 0;

	while (words[n])
		n++;
	snecki_buf_resp_array(out, n);
	for (size_t i = 0; i < n; i++)
		snecki_buf_resp_str(out, words[i]);
}

static int run(sneck_client *client, struct asks *asks, size_t n, sneck_error *reterr) {
	for (size_t i = 0; i < n; i++)
		if (snecki_asks_bytes(asks, i)->failed)
			return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	return snecki_asks_run(asks, deadline_of(client), SNECK_ECONN, reterr);
}

/* Which of the primaries it is: its number at the topology, 0 where there is one server. Nodes that the
 * cluster has got since are behind those that were there. */
static int find_node(
        sneck_client *client, int32_t node, unsigned *ret_number, int32_t *ret_n, sneck_error *reterr) {
	unsigned *numbers = NULL;
	size_t n = 1;

	*ret_number = 0;
	if (client->url.kind == URL_CLUSTER) {
		int r = snecki_ask_servers(client, &numbers, &n, reterr);
		if (r < 0)
			return r;
	}
	if (numbers && node >= 0 && (size_t)node < n)
		*ret_number = numbers[node];
	free(numbers);
	*ret_n = (int32_t)n;
	if (node < 0 || (size_t)node >= n)
		return snecki_err(reterr, SNECK_EINVAL,
		        "there are %zu servers to ask, counted from 0, and no %" PRId32, n, node);
	return 0;
}

static int pick_node(sneck_client *client, sneck_probe_info *ret, sneck_error *reterr) {
	unsigned number;
	int r = find_node(client, ret->node, &number, &ret->nodes, reterr);

	if (r == 0 && number) {
		struct endpoint at = snecki_servers_where(client->servers, number);
		snprintf(ret->where, sizeof ret->where, "%s:%u", at.host, (unsigned)at.port);
	}
	return r;
}

struct asks *snecki_probe_ask(sneck_client *client, const sneck_probe_info *info,
        const char *const *const *questions, size_t n, int *ret_code, sneck_error *reterr) {
	unsigned number;
	int32_t nodes;

	*ret_code = find_node(client, info->node, &number, &nodes, reterr);
	if (*ret_code < 0)
		return NULL;
	struct asks *asks = snecki_asks_new(client, n);
	if (!asks) {
		*ret_code = snecki_err(reterr, SNECK_ENOMEM, "out of memory");
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		write_words(snecki_asks_bytes(asks, i), questions[i]);
		if (number)
			snecki_asks_only(asks, i, number);
	}
	*ret_code = run(client, asks, n, reterr);
	if (*ret_code == 0)
		return asks;
	snecki_asks_free(asks);
	return NULL;
}

/* ---- INFO ---------------------------------------------------------------------------------------*/

/* Copies the value of line `name:`; what does not fit is cut. False: there is none. */
static bool info_text(const redisReply *info, const char *name, char *ret, size_t size) {
	size_t name_len = strlen(name);

	if (info->type != REDIS_REPLY_STRING)
		return false;
	for (const char *line = info->str; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, name_len) != 0 || line[name_len] != ':')
			continue;
		const char *value = line + name_len + 1;
		size_t len = strcspn(value, "\r\n");
		snprintf(ret, size, "%.*s", (int)(len < size ? len : size - 1), value);
		return true;
	}
	return false;
}

static int64_t info_number(const redisReply *info, const char *name) {
	char text[24], *end;

	if (!info_text(info, name, text, sizeof text))
		return -1;
	int64_t number = strtoll(text, &end, 10);
	return *end || end == text ? -1 : number;
}

static int32_t info_small(const redisReply *info, const char *name) {
	int64_t number = info_number(info, name);
	return number > INT_MAX ? INT_MAX : (int32_t)number;
}

/* The longest silence of a replica, in whole seconds; -1: there is none. */
static int32_t longest_lag(const redisReply *info, int32_t replicas) {
	int32_t longest = -1;

	for (int32_t i = 0; i < replicas; i++) {
		char name[24], line[256];
		snprintf(name, sizeof name, "slave%" PRId32, i);
		const char *lag = info_text(info, name, line, sizeof line) ? strstr(line, ",lag=") : NULL;
		int32_t seconds = lag ? (int32_t)strtol(lag + strlen(",lag="), NULL, 10) : -1;
		if (seconds > longest)
			longest = seconds;
	}
	return longest;
}

/* Without CONFIG it is known whether the server has a limit: only then it counts those who keep up. */
static void read_min_replicas(const redisReply *info, const redisReply *config, sneck_probe_info *ret) {
	ret->min_replicas_lag_s = (int32_t)snecki_reply_number(config, "min-replicas-max-lag");
	ret->min_replicas = (int32_t)snecki_reply_number(config, "min-replicas-to-write");
	if (ret->min_replicas < 0 && ret->replicas >= 0)
		ret->min_replicas = info_number(info, "min_slaves_good_slaves") >= 0;
}

static void read_policy(const redisReply *info, sneck_probe_info *ret) {
	info_text(info, "maxmemory_policy", ret->maxmemory_policy, sizeof ret->maxmemory_policy);
	ret->maxmemory = info_number(info, "maxmemory");
}

static void read_version(const redisReply *info, sneck_probe_info *ret) {
	bool valkey = info_text(info, "valkey_version", ret->version, sizeof ret->version);

	if (valkey || info_text(info, "redis_version", ret->version, sizeof ret->version))
		snprintf(ret->server, sizeof ret->server, "%s", valkey ? "valkey" : "redis");
}

/* `config`: the answer to CONFIG GET, which few users may ask. */
static void read_persistence(const redisReply *info, const redisReply *config, sneck_probe_info *ret) {
	int64_t aof = info_number(info, "aof_enabled");
	const char *save = snecki_reply_field(config, "save");
	const char *sync = snecki_reply_field(config, "appendfsync");

	if (aof == 1)
		ret->persistence = SNECK_PERSISTENCE_AOF;
	else if (aof == 0 && save)
		ret->persistence = *save ? SNECK_PERSISTENCE_RDB : SNECK_PERSISTENCE_NONE;
	if (sync)
		snprintf(ret->appendfsync, sizeof ret->appendfsync, "%s", sync);
}

static void read_server(const redisReply *info, const redisReply *config, sneck_probe_info *ret) {
	char role[16];

	read_version(info, ret);
	read_policy(info, ret);
	if (info_text(info, "role", role, sizeof role))
		snprintf(ret->role, sizeof ret->role, "%s", strcmp(role, "master") ? "replica" : "primary");
	ret->replicas = info_small(info, "connected_slaves");
	ret->cluster = info_small(info, "cluster_enabled");
	ret->replica_lag_s = longest_lag(info, ret->replicas);
	read_persistence(info, config, ret);
	read_min_replicas(info, config, ret);
}

static int ask_server(sneck_client *client, sneck_probe_info *ret, sneck_error *reterr) {
	static const char *const all[] = { "INFO", NULL };
	static const char *const memory[] = { "INFO", "memory", NULL };
	static const char *const config[] = { "CONFIG", "GET", "save", "appendfsync", "min-replicas-to-write",
		"min-replicas-max-lag", NULL };
	bool policy_only = !(ret->wanted & SNECK_PROBE_SERVER);
	const char *const *const questions[] = { policy_only ? memory : all, config };
	int r = 0;
	struct asks *asks = snecki_probe_ask(client, ret, questions, policy_only ? 1 : 2, &r, reterr);

	if (!asks)
		return r;
	if (policy_only)
		read_policy(snecki_asks_reply(asks, 0), ret);
	else
		read_server(snecki_asks_reply(asks, 0), snecki_asks_reply(asks, 1), ret);
	snecki_asks_free(asks);
	return 0;
}

/* ---- Time ---------------------------------------------------------------------------------------*/

static int64_t wall_us(void) {
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static bool read_time(const redisReply *reply, int64_t *ret_us) {
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	        reply->element[0]->type != REDIS_REPLY_STRING ||
	        reply->element[1]->type != REDIS_REPLY_STRING)
		return false;
	*ret_us = strtoll(reply->element[0]->str, NULL, 10) * 1000000 +
	          strtoll(reply->element[1]->str, NULL, 10);
	return true;
}

/* An answer that is an error took its time all the same. */
static int ask_time(sneck_client *client, sneck_probe_info *ret, sneck_error *reterr) {
	static const char *const words[] = { "TIME", NULL };
	const char *const *const question = words;
	int64_t server_us;
	int r = 0;

	int64_t before_ns = snecki_now_ns(), before_us = wall_us();
	struct asks *asks = snecki_probe_ask(client, ret, &question, 1, &r, reterr);
	if (!asks)
		return r;
	int64_t rtt_us = (snecki_now_ns() - before_ns) / 1000;
	if (ret->rtt_us < 0 || rtt_us < ret->rtt_us) {
		ret->rtt_us = rtt_us;
		if (read_time(snecki_asks_reply(asks, 0), &server_us)) {
			ret->clock_offset_ms = (server_us - before_us - rtt_us / 2) / 1000;
			ret->clock_known = 1;
		}
	}
	snecki_asks_free(asks);
	return 0;
}

/* ---- Rights -------------------------------------------------------------------------------------*/

/* A user who may look but not write can ask by a script that only reads, and by no other. */
static int ask_rights(sneck_client *client, int64_t deadline_ns, sneck_probe_info *ret, sneck_error *reterr) {
	unsigned number;
	int32_t nodes;

	if (!client->dialect->encode_rights) /* then it is not known */
		return 0;
	int r = find_node(client, ret->node, &number, &nodes, reterr);
	for (int i = 0; r == 0 && !ret->rights_known && i < 2; i++) {
		struct asks *asks = snecki_asks_new(client, 1);
		if (!asks)
			return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
		if (number)
			snecki_asks_only(asks, 0, number);
		r = client->dialect->encode_rights(&client->session, i > 0, snecki_asks_bytes(asks, 0));
		if (r < 0)
			snecki_err(reterr, r, "%s", sneck_strerror(r));
		else
			r = snecki_asks_run(asks, deadline_ns, SNECK_ECONN, reterr);
		if (r == 0)
			ret->rights_known = client->dialect->decode_rights(
			        &client->session, snecki_asks_reply(asks, 0), ret);
		snecki_asks_free(asks);
	}
	return r;
}

/* Redis 7.0 does not tell which command of a script was refused; later ones do, and all do outside of
 * scripts. */
void snecki_probe_name_missing(sneck_client *client, sneck_error *reterr) {
	sneck_probe_info info = SNECK_PROBE_INFO_INIT;
	struct sneck_error ignored;

	if (!reterr || reterr->code != SNECK_EACCES || strcmp(reterr->server, "ERR") != 0)
		return;
	int r = ask_rights(client, snecki_after_ms(snecki_now_ns(), NAMING_MS), &info, &ignored);
	const char *missing = info.missing[SNECK_ROLE_HOLDER];
	if (r < 0 || !info.rights_known || !*missing)
		return;
	size_t len = strlen(reterr->text), room = sizeof reterr->text - len;
	size_t n = (size_t)snprintf(reterr->text + len, room, ": +");
	for (; *missing && n + 3 < room; missing++) {
		reterr->text[len + n++] = *missing;
		if (*missing == ' ')
			reterr->text[len + n++] = '+';
	}
	if (n < room)
		reterr->text[len + n] = '\0';
}

/* ---- A message ----------------------------------------------------------------------------------*/

bool snecki_probe_heard(sneck_client *client, const char *payload, size_t len) {
	char text[ECHO_MAX];

	if (len < 2 || len >= sizeof text || payload[0] != 'p' || payload[1] != ' ')
		return false;
	memcpy(text, payload, len);
	text[len] = '\0';
	int64_t now_ns = snecki_now_ns();
	snecki_client_lock(client);
	if (client->echo_number != 0 && strtoull(text + 2, NULL, 16) == client->echo_number) {
		client->echo_number = 0;
		client->echo_heard_ns = now_ns;
		pthread_cond_broadcast(&client->changed);
	}
	snecki_client_unlock(client);
	return true;
}

/* False: the server does not let us subscribe, or not in time. */
static bool wait_for_subscription(sneck_client *client) {
	int64_t deadline_ns = deadline_of(client);

	snecki_client_lock(client);
	client->sub_failed = false;
	snecki_client_unlock(client);
	snecki_servers_hear(client->servers);
	snecki_client_wake(client);
	snecki_client_lock(client);
	while (!snecki_servers_heard(client->servers) && !client->sub_failed &&
	        snecki_client_await_change(client, deadline_ns))
		;
	bool ready = snecki_servers_heard(client->servers);
	snecki_client_unlock(client);
	return ready;
}

static int publish(sneck_client *client, uint64_t number, sneck_error *reterr) {
	struct asks *asks = snecki_asks_new(client, 1);
	struct buf channel = BUF_INIT;
	char text[ECHO_MAX];

	if (!asks)
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	int r = client->dialect->channel(&client->session, &channel);
	snprintf(text, sizeof text, "p %" PRIx64, number);
	struct buf *out = snecki_asks_bytes(asks, 0);
	snecki_buf_resp_array(out, 3);
	snecki_buf_resp_str(out, "PUBLISH");
	snecki_buf_resp_bulk(out, channel.data, channel.len);
	snecki_buf_resp_str(out, text);
	snecki_buf_done(&channel);
	if (r < 0)
		snecki_err(reterr, r, "%s", sneck_strerror(r));
	else
		r = run(client, asks, 1, reterr);
	if (r == 0 && snecki_asks_reply(asks, 0)->type != REDIS_REPLY_INTEGER)
		r = 1; /* not allowed */
	snecki_asks_free(asks);
	return r;
}

static int ask_message(sneck_client *client, sneck_probe_info *ret, sneck_error *reterr) {
	uint64_t number = snecki_random_u64() | 1;

	/* Nothing of ours that could be said to ourselves: in a cluster channels are those of locks. */
	if (!client->dialect->channel || client->session.sharded)
		return 0;
	if (!wait_for_subscription(client)) {
		ret->message_us = -2;
		return 0;
	}
	snecki_client_lock(client);
	client->echo_number = number;
	snecki_client_unlock(client);
	int64_t before_ns = snecki_now_ns(), deadline_ns = deadline_of(client);
	int r = publish(client, number, reterr);
	snecki_client_lock(client);
	while (r == 0 && client->echo_number == number && snecki_client_await_change(client, deadline_ns))
		;
	bool heard = client->echo_number != number;
	client->echo_number = 0;
	if (r == 0)
		ret->message_us = heard ? (client->echo_heard_ns - before_ns) / 1000 : -2;
	snecki_client_unlock(client);
	return r < 0 ? r : 0;
}

int snecki_probe(sneck_client *client, sneck_probe_info *ret, sneck_error *reterr) {
	int r = pick_node(client, ret, reterr);

	if (r < 0)
		return r;
	if (ret->wanted & SNECK_PROBE_TOPOLOGY)
		ret->wanted |= SNECK_PROBE_SERVER;
	client->dialect->needs(&client->session, ret);
	if (ret->wanted & (SNECK_PROBE_SERVER | SNECK_PROBE_POLICY))
		r = ask_server(client, ret, reterr);
	if (r == 0 && (ret->wanted & SNECK_PROBE_TOPOLOGY))
		r = snecki_probe_topology(client, ret, reterr);
	for (int i = 0; r == 0 && (ret->wanted & SNECK_PROBE_TIME) && i < ROUNDS; i++)
		r = ask_time(client, ret, reterr);
	if (r == 0 && (ret->wanted & SNECK_PROBE_RIGHTS))
		r = ask_rights(client, deadline_of(client), ret, reterr);
	if (r == 0 && (ret->wanted & SNECK_PROBE_MESSAGE))
		r = ask_message(client, ret, reterr);
	return r;
}
