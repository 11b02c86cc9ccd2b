/* SPDX-License-Identifier: MIT */
/* See topology.h. Everything that a topology needs is started here, once for the program.
 *
 * Users come from an ACL file, which a server that is restarted reads again. It names the default user, who
 * may do everything (the tests' own eyes, the servers among themselves), until the rule is known; the rule is
 * what the command prints for these servers, so it is asked once they run. */
#include "topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "certs.h"
#include "cluster.h"
#include "layouts.h"
#include "sentinels.h"

#define USER "sneck-tests"
#define SENTINEL_USER "sneck-asks"
#define PASSWORD "open-sesame"

enum kind { KIND_NONE, KIND_SINGLE, KIND_SENTINEL, KIND_CLUSTER };
enum { QUIET_MS = 60000, RULE_MAX = 4096 };

static struct {
	struct test_server *face;
	enum kind kind;
	bool tls;
	struct test_certs certs;
	char acl_path[64];
	char admin_url[TEST_URL_MAX]; /* that of the face, without a user */
	char rights[2 * RULE_MAX], sentinel_rights[RULE_MAX];
	struct test_server single;
	struct test_sentinels sentinels;
	struct test_cluster cluster;
} topology;

static const struct {
	const char *name;
	enum kind kind;
	bool tls;
} topologies[] = {
	{ "single", KIND_SINGLE, false },
	{ "tls", KIND_SINGLE, true },
	{ "sentinel", KIND_SENTINEL, false },
	{ "sentinel-tls", KIND_SENTINEL, true },
	{ "cluster", KIND_CLUSTER, false },
	{ "cluster-tls", KIND_CLUSTER, true },
};

bool test_topology_is_plain(void) {
	return topology.kind == KIND_NONE || (topology.kind == KIND_SINGLE && !topology.tls);
}

bool test_topology_is_cluster(void) {
	return topology.kind == KIND_CLUSTER;
}

static int choose(void) {
	const char *name = getenv("SNECK_TEST_TOPOLOGY");

	if (!name || !name[0])
		return 0;
	for (size_t i = 0; i < sizeof(topologies) / sizeof(topologies[0]); i++) {
		if (strcmp(topologies[i].name, name) != 0)
			continue;
		topology.kind = topologies[i].kind;
		topology.tls = topologies[i].tls;
		return 0;
	}
	fprintf(stderr, "SNECK_TEST_TOPOLOGY: there is no \"%s\"\n", name);
	return -1;
}

/* ---- Servers ------------------------------------------------------------------------------------*/

static int start_single(struct test_server *face, const char *const *acl_args) {
	const char *args[TEST_CERTS_ARGS + 2] = { acl_args[0], acl_args[1] };

	if (topology.tls)
		test_certs_args(&topology.certs, args + 2);
	int r = topology.tls ? test_server_start_tls(&topology.single, args)
	                     : test_server_start_tcp(&topology.single, args);
	if (r < 0)
		return -1;
	snprintf(face->url, sizeof(face->url), "redis%s://127.0.0.1:%d%s%s", topology.tls ? "s" : "",
	        topology.single.port, topology.tls ? "?ca=" : "", topology.certs.ca);
	memcpy(face->socket_path, topology.single.socket_path, sizeof(face->socket_path)); /* for proxies */
	face->peers = &topology.single;
	face->peers_n = 1;
	return 0;
}

static int start_sentinels(struct test_server *face, const char *const *acl_args) {
	char quiet[80];
	struct test_sentinels_options options = { .server_args = acl_args,
		.config = quiet,
		.certs = topology.tls ? topology.certs.dir : NULL,
		.server = "server",
		.sentinel = "server" };

	snprintf(quiet, sizeof(quiet), "sentinel down-after-milliseconds " SENTINELS_SERVICE " %d\n",
	        QUIET_MS);
	if (test_sentinels_start_with(&topology.sentinels, &options) < 0)
		return -1;
	snprintf(face->url, sizeof(face->url), "%s", topology.sentinels.url);
	face->peers =
	        topology.sentinels.servers; /* the primary: the first, as long as it is not failed over */
	face->peers_n = 1;
	return 0;
}

static int start_cluster(struct test_server *face, const char *const *acl_args) {
	struct test_cluster_options options = {
		.node_timeout_ms = QUIET_MS, .certs = topology.tls ? &topology.certs : NULL, .args = acl_args
	};

	if (test_cluster_start(&topology.cluster, &options) < 0)
		return -1;
	snprintf(face->url, sizeof(face->url), "%s", topology.cluster.url);
	face->peers = topology.cluster.nodes;
	face->peers_n = CLUSTER_PRIMARIES;
	return 0;
}

static int start_servers(struct test_server *face) {
	const char *const acl_args[] = { "--aclfile", topology.acl_path, NULL };

	switch (topology.kind) {
	case KIND_SENTINEL:
		return start_sentinels(face, acl_args);
	case KIND_CLUSTER:
		return start_cluster(face, acl_args);
	default:
		return start_single(face, acl_args);
	}
}

/* ---- The user -----------------------------------------------------------------------------------*/

static int write_users(void) {
	int fd = -1;

	if (!topology.acl_path[0]) {
		snprintf(topology.acl_path, sizeof(topology.acl_path), "/tmp/sneck-users-XXXXXX");
		fd = mkstemp(topology.acl_path);
		if (fd < 0)
			return -1;
		close(fd);
	}
	FILE *file = fopen(topology.acl_path, "we");
	if (!file)
		return -1;
	fprintf(file, "user default on nopass sanitize-payload ~* &* +@all\n");
	if (topology.rights[0])
		fprintf(file, "user " USER " on >" PASSWORD "%s\n", topology.rights);
	return fclose(file);
}

/* A line of `output` that is a rule: append what stands behind the password to `rights`. */
static int read_rule(FILE *output, char *rights, size_t size) {
	static const char behind[] = ">PASSWORD";
	char line[RULE_MAX];
	const char *rule = fgets(line, sizeof(line), output) ? strstr(line, behind) : NULL;

	if (!rule)
		return -1;
	rule += strlen(behind);
	size_t len = strlen(rights);
	snprintf(rights + len, size - len, "%.*s", (int)strcspn(rule, "\n"), rule);
	return 0;
}

/* What the command prints for this role[@dialect]; for sentinels a second rule is theirs. */
static int ask_rule(const char *role, const char *name_space) {
	char command[2048];
	const char *at = strchr(role, '@'), *dialect = at ? at + 1 : test_dialect();

	snprintf(command, sizeof(command),
	        "'%s' acl -q --server '%s' --role '%.*s' --namespace '%s' --dialect '%s'", SNECK_BINARY,
	        topology.admin_url, (int)strcspn(role, "@"), role, name_space, dialect ? dialect : "native");
	FILE *output = popen(command, "re");
	if (!output)
		return -1;
	int r = read_rule(output, topology.rights, sizeof(topology.rights));
	topology.sentinel_rights[0] = '\0';
	if (r == 0 && topology.kind == KIND_SENTINEL)
		r = read_rule(output, topology.sentinel_rights, sizeof(topology.sentinel_rights));
	if (pclose(output) != 0 || r < 0) {
		fprintf(stderr, "no rule from: %s\n", command);
		return -1;
	}
	return 0;
}

/* Replicas too: they may be primaries one day. */
static void load_users(void) {
	struct test_server *servers = topology.face->peers;
	int n = topology.kind == KIND_CLUSTER    ? CLUSTER_NODES
	        : topology.kind == KIND_SENTINEL ? SENTINELS_SERVERS
	                                         : 1;

	for (int i = 0; i < n; i++)
		test_redis_ok(&servers[i], "ACL LOAD");
}

/* More rights for the user, and the servers know. */
static int allow(const char *name_space) {
	const char *given = getenv("SNECK_TEST_ROLES");
	char roles[512];

	snprintf(roles, sizeof(roles), "%s", given && given[0] ? given : "holder");
	for (char *role = strtok(roles, " "); role; role = strtok(NULL, " "))
		if (ask_rule(role, name_space) < 0)
			return -1;
	if (write_users() != 0)
		return -1;
	load_users();
	return 0;
}

void test_topology_allow(const char *name_space) {
	if (topology.kind != KIND_NONE && allow(name_space) < 0)
		abort();
}

/* user:password@ behind scheme:// */
static void add_user(char *url, size_t size) {
	char rest[TEST_URL_MAX];
	char *host = strstr(url, "://") + 3;

	snprintf(rest, sizeof(rest), "%s", host);
	snprintf(host, size - (size_t)(host - url), USER ":" PASSWORD "@%s", rest);
}

/* They do not restart, and need no file. */
static void make_sentinel_user(void) {
	char command[RULE_MAX + 64];

	snprintf(command, sizeof(command), "ACL SETUSER " SENTINEL_USER " reset on >" PASSWORD "%s",
	        topology.sentinel_rights);
	for (int i = 0; i < SENTINELS_N; i++)
		test_redis_ok(&topology.sentinels.sentinels[i], command);
}

static int make_user(struct test_server *face) {
	snprintf(topology.admin_url, sizeof(topology.admin_url), "%s", face->url);
	if (allow("sneck") < 0)
		return -1;
	add_user(face->url, sizeof(face->url));
	if (topology.kind == KIND_SENTINEL) {
		make_sentinel_user();
		char url[TEST_URL_MAX];
		test_url_with(face, url, "sentinel_user=" SENTINEL_USER "&sentinel_password=" PASSWORD);
		memcpy(face->url, url, sizeof(face->url));
	}
	return 0;
}

/* What our user was refused; one question is asked in the hope of an answer, and works without one. */
static int report_refusals(const struct test_server *server) {
	redisReply *log = test_redis(server, "ACL LOG 100");
	int refused = 0;

	for (size_t i = 0; log && i < log->elements; i++) {
		const redisReply *entry = log->element[i];
		const char *object = "", *reason = "", *user = "";
		for (size_t j = 0; j + 1 < entry->elements; j += 2) {
			const char *key = entry->element[j]->str, *value = entry->element[j + 1]->str;
			object = strcmp(key, "object") == 0 ? value : object;
			reason = strcmp(key, "reason") == 0 ? value : reason;
			user = strcmp(key, "username") == 0 ? value : user;
		}
		if ((strcmp(user, USER) != 0 && strcmp(user, SENTINEL_USER) != 0) ||
		        strcmp(object, "config|get") == 0)
			continue;
		fprintf(stderr, "refused to the user of the rule (%s): %s\n", reason, object);
		refused++;
	}
	if (log)
		freeReplyObject(log);
	return refused;
}

/* ---- All of it ----------------------------------------------------------------------------------*/

static void remove_all(void) {
	test_server_stop(&topology.single);
	test_sentinels_stop(&topology.sentinels);
	test_cluster_stop(&topology.cluster);
	test_certs_remove(&topology.certs);
	if (topology.acl_path[0])
		(void)unlink(topology.acl_path);
	memset(&topology, 0, sizeof(topology));
}

int test_topology_start(struct test_server *face) {
	memset(face, 0, sizeof(*face));
	if (choose() < 0)
		return -1;
	topology.face = face;
	if (topology.kind == KIND_NONE)
		return test_server_start(face, NULL);
	if ((topology.tls && test_certs_make(&topology.certs) < 0) || write_users() != 0 ||
	        start_servers(face) < 0 || make_user(face) < 0) {
		remove_all();
		memset(face, 0, sizeof(*face));
		return -1;
	}
	memcpy(face->dir, face->peers[0].dir, sizeof(face->dir)); /* a place for files of the tests */
	return 0;
}

int test_topology_stop(struct test_server *face) {
	int refused = 0;

	if (topology.kind == KIND_NONE) {
		test_server_stop(face);
		return 0;
	}
	for (size_t i = 0; i < face->peers_n; i++)
		refused += report_refusals(&face->peers[i]);
	for (int i = 0; topology.kind == KIND_SENTINEL && i < SENTINELS_N; i++)
		refused += report_refusals(&topology.sentinels.sentinels[i]);
	remove_all();
	memset(face, 0, sizeof(*face));
	return refused ? -1 : 0;
}

struct test_server *test_owner(const char *name) {
	if (topology.kind == KIND_NONE)
		return topology.face;
	if (topology.kind != KIND_CLUSTER)
		return &topology.face->peers[0];
	int owner = test_cluster_owner(&topology.cluster, name);
	if (owner < 0) {
		fprintf(stderr, "no server has the lock \"%s\"\n", name);
		abort();
	}
	return &topology.cluster.nodes[owner];
}
