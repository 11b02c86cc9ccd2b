/* SPDX-License-Identifier: MIT */
/* Starts, watches and fails over a primary with replicas under sentinels. */
#include "sentinels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wait.h"

enum { READY_MS = 20000, SWITCH_MS = 60000 };

#define SERVICE SENTINELS_SERVICE

/* What is behind `key` in a flat list of names and values; "": not there. */
static const char *text_field(const redisReply *reply, const char *key) {
	for (size_t i = 0; reply && i + 1 < reply->elements; i += 2)
		if (!strcmp(reply->element[i]->str, key))
			return reply->element[i + 1]->str;
	return "";
}

static long field(const redisReply *reply, const char *key) {
	return strtol(text_field(reply, key), NULL, 10);
}

static bool sees_all(const struct test_server *sentinel) {
	redisReply *reply = test_redis(sentinel, "SENTINEL MASTER " SERVICE);
	bool all = field(reply, "num-slaves") == SENTINELS_SERVERS - 1 &&
	           field(reply, "num-other-sentinels") == SENTINELS_N - 1;

	if (reply)
		freeReplyObject(reply);
	return all;
}

struct tls_files {
	char crt[160], key[160], ca[160], port[16];
};

static int tls_files(const char *certs, const char *identity, struct tls_files *ret) {
	int port = test_free_port();

	snprintf(ret->crt, sizeof ret->crt, "%s/%s.crt", certs, identity);
	snprintf(ret->key, sizeof ret->key, "%s/%s.key", certs, identity);
	snprintf(ret->ca, sizeof ret->ca, "%s/ca.crt", certs);
	snprintf(ret->port, sizeof ret->port, "%d", port);
	return port;
}

static int start_tls_server(
        struct test_server *server, const struct test_sentinels_options *setup, const char **args, size_t n) {
	struct tls_files files;
	int port = tls_files(setup->certs, setup->server, &files);
	const char *const more[] = { "--tls-port", files.port, "--tls-cert-file", files.crt, "--tls-key-file",
		files.key, "--tls-ca-cert-file", files.ca, "--tls-auth-clients", "no", "--tls-replication",
		"yes", NULL };

	memcpy(args + n, more, sizeof more);
	int r = test_server_start(server, args);
	args[n] = NULL;
	return r < 0 ? -1 : port;
}

static int start_servers(struct test_sentinels *all, const struct test_sentinels_options *setup) {
	const char *args[TEST_SERVER_ARGS_MAX] = { "--repl-diskless-sync-delay", "0",
		"--repl-ping-replica-period", "1" };
	size_t n = 4;
	char primary[16];

	for (size_t i = 0; setup->server_args && setup->server_args[i]; i++)
		args[n++] = setup->server_args[i];
	for (int i = 0; i < SENTINELS_SERVERS; i++) {
		if (i == 1) {
			snprintf(primary, sizeof primary, "%d", all->ports[0]);
			args[n++] = "--replicaof";
			args[n++] = "127.0.0.1";
			args[n++] = primary;
		}
		if (setup->certs)
			all->ports[i] = start_tls_server(&all->servers[i], setup, args, n);
		else
			all->ports[i] =
			        test_server_start_tcp(&all->servers[i], args) < 0 ? -1 : all->servers[i].port;
		if (all->ports[i] < 0)
			return -1;
	}
	return 0;
}

static int start_sentinels(struct test_sentinels *all, const struct test_sentinels_options *setup) {
	char config[2048];

	for (int i = 0; i < SENTINELS_N; i++) {
		int len = snprintf(config, sizeof config,
		        "sentinel monitor " SERVICE " 127.0.0.1 %d 2\n"
		        "sentinel down-after-milliseconds " SERVICE " 2000\n"
		        "sentinel failover-timeout " SERVICE " 3000\n"
		        /* Else it asks the primary, perhaps too early, and not again for ten seconds. */
		        "sentinel known-replica " SERVICE " 127.0.0.1 %d\n"
		        "sentinel known-replica " SERVICE " 127.0.0.1 %d\n%s",
		        all->ports[0], all->ports[1], all->ports[2], setup->config ? setup->config : "");
		struct tls_files files;
		int port = setup->certs ? tls_files(setup->certs, setup->sentinel, &files) : 0;
		if (setup->certs)
			snprintf(config + len, sizeof config - (size_t)len,
			        "port 0\ntls-port %s\ntls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file "
			        "%s\ntls-auth-clients no\ntls-replication yes\n",
			        files.port, files.crt, files.key, files.ca);
		if (test_server_start_sentinel(&all->sentinels[i], config) < 0)
			return -1;
		if (setup->certs)
			all->sentinels[i].port = port;
	}
	return 0;
}

int test_sentinels_start_with(struct test_sentinels *all, const struct test_sentinels_options *setup) {
	memset(all, 0, sizeof *all);
	if (start_servers(all, setup) < 0 || start_sentinels(all, setup) < 0) {
		test_sentinels_stop(all);
		return -1;
	}
	int len = snprintf(all->url, sizeof all->url,
	        "redis%s+sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/" SERVICE, setup->certs ? "s" : "",
	        all->sentinels[0].port, all->sentinels[1].port, all->sentinels[2].port);
	if (setup->certs)
		snprintf(all->url + len, sizeof all->url - (size_t)len, "?ca=%s/ca.crt", setup->certs);
	if (WAIT_UNTIL(sees_all(&all->sentinels[0]) && sees_all(&all->sentinels[1]) &&
	                       sees_all(&all->sentinels[2]),
	            READY_MS))
		return 0;
	fprintf(stderr, "the sentinels did not find each other\n");
	test_sentinels_stop(all);
	return -1;
}

int test_sentinels_start(struct test_sentinels *all, const char *const *server_args, const char *config) {
	return test_sentinels_start_with(
	        all, &(struct test_sentinels_options){ .server_args = server_args, .config = config });
}

int test_sentinels_start_tls(
        struct test_sentinels *all, const char *certs, const char *server, const char *sentinel) {
	return test_sentinels_start_with(all,
	        &(struct test_sentinels_options){ .certs = certs, .server = server, .sentinel = sentinel });
}

void test_sentinels_stop(struct test_sentinels *all) {
	for (int i = 0; i < SENTINELS_N; i++)
		test_server_stop(&all->sentinels[i]);
	for (int i = 0; i < SENTINELS_SERVERS; i++)
		test_server_stop(&all->servers[i]);
}

static bool is_primary(const struct test_server *server) {
	if (server->pid <= 0)
		return false;
	redisReply *reply = test_redis(server, "ROLE");
	bool primary = reply && reply->elements && reply->element[0]->str &&
	               !strcmp(reply->element[0]->str, "master");

	if (reply)
		freeReplyObject(reply);
	return primary;
}

/* The port that this sentinel names; 0: it is dead; -1: it is in the middle of a failover, or takes the
 * primary for dead. While one of them is, another failover would leave them at odds for long. */
static int named_by(const struct test_server *sentinel) {
	if (sentinel->pid <= 0)
		return 0;
	redisReply *reply = test_redis(sentinel, "SENTINEL MASTER " SERVICE);
	int port = strcmp(text_field(reply, "flags"), "master") == 0 ? (int)field(reply, "port") : -1;

	if (reply)
		freeReplyObject(reply);
	return port;
}

int test_sentinels_primary(struct test_sentinels *all) {
	int port = 0;

	for (int i = 0; i < SENTINELS_N; i++) {
		int named = named_by(&all->sentinels[i]);
		if (named < 0 || (named && port && named != port))
			return -1;
		port = named ? named : port;
	}
	for (int i = 0; i < SENTINELS_SERVERS; i++)
		if (all->ports[i] == port)
			return is_primary(&all->servers[i]) ? i : -1;
	return -1;
}

/* WAIT is about what its own connection has written. */
static bool replicated(const struct test_server *primary) {
	redisContext *redis = test_server_connect(primary);
	long long replicas = 0;

	if (!redis)
		return false;
	redisReply *set = redisCommand(redis, "SET settled 1 PX 1000");
	redisReply *wait = set && set->type == REDIS_REPLY_STATUS ? redisCommand(redis, "WAIT 2 1000") : NULL;
	if (wait)
		replicas = wait->integer;
	if (set)
		freeReplyObject(set);
	if (wait)
		freeReplyObject(wait);
	redisFree(redis);
	return replicas == SENTINELS_SERVERS - 1;
}

void test_sentinels_settle(struct test_sentinels *all) {
	int primary = -1;

	if (!WAIT_UNTIL((primary = test_sentinels_primary(all)) >= 0 && replicated(&all->servers[primary]),
	            SWITCH_MS)) {
		fprintf(stderr, "the replicas do not follow\n");
		abort();
	}
}

int test_sentinels_wait_switch(struct test_sentinels *all, int old) {
	int now = -1;

	if (!WAIT_UNTIL((now = test_sentinels_primary(all)) >= 0 && now != old, SWITCH_MS)) {
		fprintf(stderr, "the sentinels did not promote a replica\n");
		abort();
	}
	return now;
}

static bool follows(const struct test_server *server) {
	redisReply *reply = test_redis(server, "ROLE");
	bool so = reply && reply->elements == 5 && !strcmp(reply->element[3]->str, "connected");

	if (reply)
		freeReplyObject(reply);
	return so;
}

void test_sentinels_bring_back(struct test_sentinels *all, int dead, int primary) {
	if (test_server_restart(&all->servers[dead]) < 0)
		abort();
	/* The sentinels would do it as well, only much later. */
	test_redis_ok(&all->servers[dead], "REPLICAOF 127.0.0.1 %d", all->ports[primary]);
	if (!WAIT_UNTIL(follows(&all->servers[dead]), SWITCH_MS)) {
		fprintf(stderr, "the old primary did not become a replica\n");
		abort();
	}
}

int test_sentinels_fail_over(struct test_sentinels *all) {
	int old = test_sentinels_primary(all);

	test_server_kill9(&all->servers[old]);
	int now = test_sentinels_wait_switch(all, old);
	test_sentinels_bring_back(all, old, now);
	return now;
}
