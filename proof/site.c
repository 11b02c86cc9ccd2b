/* SPDX-License-Identifier: MIT */
/* Starting what the locks live on. Sentinels and replicas have a user of their own on the servers, and so
 * have the workers: a partition between the servers is made by refusing one of the two. That is a partition
 * by refusal, not by silence; what both have in common is that the primary goes on serving its clients while
 * the others, who no longer hear of it, promote another. */
#include "site.h"

#include <stdio.h>
#include <string.h>

#include "history.h"

static const char *const names[SITE_KINDS] = { "single", "sentinel" };

const char *site_name(enum site_kind kind) {
	return names[kind];
}

bool site_find(const char *name, enum site_kind *ret_kind) {
	for (int i = 0; i < SITE_KINDS; i++)
		if (strcmp(names[i], name) == 0) {
			*ret_kind = (enum site_kind)i;
			return true;
		}
	return false;
}

static int start_sentinels(struct site *site) {
	static const char *const args[] = { "--masteruser", "within", "--masterauth", "w", "--user", "within",
		"on", ">w", "~*", "&*", "+@all", "--user", "worker", "on", ">w", "~*", "&*", "+@all", NULL };
	static const char config[] = "sentinel auth-user " SENTINELS_SERVICE " within\n"
	                             "sentinel auth-pass " SENTINELS_SERVICE " w\n"
	                             "sentinel down-after-milliseconds " SENTINELS_SERVICE " 1000\n"
	                             "sentinel failover-timeout " SENTINELS_SERVICE " 2000\n";
	if (test_sentinels_start(&site->sentinels, args, config) != 0)
		return -1;
	snprintf(site->url, sizeof(site->url), "redis+sentinel://worker:w@%s",
	        strstr(site->sentinels.url, "://") + 3);
	site->primary = test_sentinels_primary(&site->sentinels);
	site->seen_ns = history_now();
	return 0;
}

int site_start(struct site *site, enum site_kind kind) {
	memset(site, 0, sizeof(*site));
	site->kind = kind;
	if (kind == SITE_SENTINEL)
		return start_sentinels(site);
	if (test_server_start(&site->single, NULL) != 0)
		return -1;
	snprintf(site->url, sizeof(site->url), "%s", site->single.url);
	return 0;
}

void site_stop(struct site *site) {
	if (site->kind == SITE_SENTINEL)
		test_sentinels_stop(&site->sentinels);
	else
		test_server_stop(&site->single);
}

size_t site_primaries(struct site *site, const struct test_server *ret[SITE_PRIMARIES_MAX]) {
	ret[0] = &site->single;
	if (site->kind == SITE_SINGLE)
		return 1;
	int primary = test_sentinels_primary(&site->sentinels);
	if (primary < 0)
		return 0;
	ret[0] = &site->sentinels.servers[primary];
	return 1;
}

const struct test_server *site_server_of(struct site *site, const char *key) {
	const struct test_server *servers[SITE_PRIMARIES_MAX];
	(void)key;
	return site_primaries(site, servers) ? servers[0] : NULL;
}

/* What sentinels and replicas do on a primary. */
#define DUTIES(sign) sign "ping " sign "info " sign "publish " sign "subscribe " sign "psync " sign "replconf"

void site_cut_off(struct site *site, int server) {
	const struct test_server *cut = &site->sentinels.servers[server];
	test_redis_ok(cut, "ACL SETUSER within off");
	test_redis_ok(cut, "ACL SETUSER default " DUTIES("-"));
	test_redis_ok(cut, "CLIENT KILL USER within");
}

void site_let_in(struct site *site, int server) {
	const struct test_server *cut = &site->sentinels.servers[server];
	test_redis_ok(cut, "ACL SETUSER default " DUTIES("+"));
	test_redis_ok(cut, "ACL SETUSER within on");
}
