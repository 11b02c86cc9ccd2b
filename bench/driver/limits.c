/* SPDX-License-Identifier: MIT */
/* The limits, as peers: what no lock on this server can be faster than.
 *
 *   ping     one round trip of a blocking hiredis connection
 *   scripts  sneck's own two scripts over such a connection, with nothing around them
 *   setnx    the smallest lock there is: SET NX PX, and a script that compares and deletes
 *   flock    the kernel's lock on a file, for one machine alone
 *
 * None of the Redis ones can wait, so none of them contends. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "../raw.h"
#include "dialect/dialect.h"
#include "peer.h"
#include "request.h"

#define TEXT_OF(number) #number
#define VERSION_OF(a, b, c) "hiredis " TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)

static const char hiredis_version[] = VERSION_OF(HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);

_Noreturn static void fail(const char *what) {
	fprintf(stderr, "bench: %s failed\n", what);
	exit(1);
}

static void *open_connection(const char *url) {
	return raw_connect(url);
}

/* ---- ping ---------------------------------------------------------------------------------------*/

static void *ping_take(void *client, const char *name, char mode) {
	(void)name;
	(void)mode;
	redisReply *reply = redisCommand(client, "PING");
	if (!reply || reply->type != REDIS_REPLY_STATUS)
		fail("PING");
	freeReplyObject(reply);
	return NULL;
}

static void ping_give(void *client, void *hold) {
	(void)client;
	(void)hold;
}

const struct peer peer_ping = {
	.name = "ping",
	.version = hiredis_version,
	.client_each = true,
	.open = open_connection,
	.take = ping_take,
	.give = ping_give,
};

/* ---- setnx --------------------------------------------------------------------------------------*/

static const char delete_if_equal[] = "if redis.call('get',KEYS[1])==ARGV[1] then return "
                                      "redis.call('del',KEYS[1]) end return 0";

struct setnx {
	redisContext *redis;
	char sha[41], name[128], value[24];
	unsigned long counter;
};

static void *setnx_open(const char *url) {
	struct setnx *setnx = calloc(1, sizeof *setnx);

	if (!setnx)
		abort();
	setnx->redis = raw_connect(url);
	redisReply *reply = redisCommand(setnx->redis, "SCRIPT LOAD %s", delete_if_equal);
	if (!reply || reply->type != REDIS_REPLY_STRING || reply->len != 40)
		fail("SCRIPT LOAD");
	memcpy(setnx->sha, reply->str, sizeof setnx->sha);
	freeReplyObject(reply);
	return setnx;
}

static void *setnx_take(void *client, const char *name, char mode) {
	struct setnx *setnx = client;

	(void)mode;
	snprintf(setnx->name, sizeof setnx->name, "setnx:%s", name);
	snprintf(setnx->value, sizeof setnx->value, "%lx", ++setnx->counter);
	redisReply *reply = redisCommand(setnx->redis, "SET %s %s NX PX 30000", setnx->name, setnx->value);
	if (!reply || reply->type != REDIS_REPLY_STATUS)
		fail("SET NX");
	freeReplyObject(reply);
	return setnx;
}

static void setnx_give(void *client, void *hold) {
	struct setnx *setnx = client;

	(void)hold;
	redisReply *reply =
	        redisCommand(setnx->redis, "EVALSHA %s 1 %s %s", setnx->sha, setnx->name, setnx->value);
	if (!reply || reply->type != REDIS_REPLY_INTEGER || reply->integer != 1)
		fail("compare and delete");
	freeReplyObject(reply);
}

const struct peer peer_setnx = {
	.name = "setnx",
	.version = hiredis_version,
	.client_each = true,
	.open = setnx_open,
	.take = setnx_take,
	.give = setnx_give,
};

/* ---- scripts ------------------------------------------------------------------------------------*/

struct scripts {
	struct raw raw;
	char name[128], mode;
	uint64_t attempt;
};

static void *scripts_open(const char *url) {
	static unsigned number;
	struct scripts *scripts = calloc(1, sizeof *scripts);

	if (!scripts)
		abort();
	raw_start(&scripts->raw, raw_connect(url), NULL, ++number);
	return scripts;
}

static void *scripts_take(void *client, const char *name, char mode) {
	struct scripts *scripts = client;

	snprintf(scripts->name, sizeof scripts->name, "scripts/%s", name);
	scripts->mode = mode;
	scripts->attempt = raw_acquire(&scripts->raw, scripts->name, mode);
	return scripts;
}

static void scripts_give(void *client, void *hold) {
	struct scripts *scripts = client;

	(void)hold;
	raw_release(&scripts->raw, scripts->name, scripts->mode, scripts->attempt);
}

/* The words of a request as the dialect encodes it: `*n`, then for each word its length and itself. */
static void print_words(char *at) {
	long words = strtol(at + 1, &at, 10);

	printf("{\"words\":[");
	for (long i = 0; i < words; i++) {
		long len = strtol(at + 3, &at, 10);
		printf("%s\"%.*s\"", i ? "," : "", (int)len, at + 2);
		at += 2 + len;
	}
	printf("]}\n");
}

static struct lock_op first_attempt(const struct scripts *scripts, enum lock_op_kind kind) {
	return (struct lock_op){ .kind = kind, .mode = 'W', .attempt = 1, .lease_ms = scripts->raw.lease_ms };
}

/* fill n=: locks whose names are numbers of twelve digits, all of one session and attempt. */
static void answer_fill(struct scripts *scripts, const struct request *request) {
	enum { AT_ONCE = 500 };
	long long n = request_number(request, "n", 1);
	struct lock_op op = first_attempt(scripts, OP_ACQUIRE);
	struct buf bytes = BUF_INIT;
	redisReply *reply;

	for (long long i = 0, answered = 0; answered < n;) {
		for (; i < n && i - answered < AT_ONCE; i++) {
			char name[24];
			snprintf(name, sizeof name, "%012lld", i);
			snecki_buf_clear(&bytes);
			raw_encode(&scripts->raw, &op, name, &bytes);
			redisAppendFormattedCommand(scripts->raw.redis, bytes.data, bytes.len);
		}
		for (; answered < i; answered++) {
			if (redisGetReply(scripts->raw.redis, (void **)&reply) != REDIS_OK ||
			        reply->type == REDIS_REPLY_ERROR)
				fail("filling");
			freeReplyObject(reply);
		}
	}
	snecki_buf_done(&bytes);
	printf("{\"held\":%lld}\n", n);
}

/* script op=acquire|release name=: the request itself, for a program that sends it more often than we. */
static bool scripts_answer(void *client, const char *url, const struct request *request) {
	struct scripts *scripts = client;
	bool acquire = strcmp(request_text(request, "op", "acquire"), "acquire") == 0;

	(void)url;
	if (strcmp(request->word, "fill") == 0) {
		answer_fill(scripts, request);
		return true;
	}
	if (strcmp(request->word, "script") != 0)
		return false;
	struct lock_op op = first_attempt(scripts, acquire ? OP_ACQUIRE : OP_RELEASE);
	struct buf bytes = BUF_INIT;
	raw_encode(&scripts->raw, &op, request_text(request, "name", "script"), &bytes);
	print_words(bytes.data);
	snecki_buf_done(&bytes);
	return true;
}

const struct peer peer_scripts = {
	.name = "scripts",
	.version = hiredis_version,
	.client_each = true,
	.open = scripts_open,
	.take = scripts_take,
	.give = scripts_give,
	.answer = scripts_answer,
};

/* ---- flock --------------------------------------------------------------------------------------*/

struct flock_hold {
	int fd;
};

/* The "URL" is a directory. */
static void *flock_open(const char *url) {
	return strdup(url);
}

static void *flock_take(void *client, const char *name, char mode) {
	struct flock_hold *hold = malloc(sizeof *hold);
	char path[256];

	if (!hold)
		abort();
	snprintf(path, sizeof path, "%s/", (const char *)client);
	for (size_t at = strlen(path); *name && at + 1 < sizeof path; name++, at++) {
		path[at] = *name == '/' ? '_' : *name;
		path[at + 1] = '\0';
	}
	hold->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (hold->fd < 0 || flock(hold->fd, mode == 'R' ? LOCK_SH : LOCK_EX) < 0)
		fail("flock");
	return hold;
}

static void flock_give(void *client, void *hold) {
	(void)client;
	close(((struct flock_hold *)hold)->fd);
	free(hold);
}

const struct peer peer_flock = {
	.name = "flock",
	.version = "the kernel's",
	.open = flock_open,
	.take = flock_take,
	.give = flock_give,
};
