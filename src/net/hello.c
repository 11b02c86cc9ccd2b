/* SPDX-License-Identifier: MIT */
/* The greeting: HELLO 2 with AUTH and SETNAME, and SELECT behind it, in one round trip.
 *
 * HELLO tells version and role, so that a server which is too old or a replica is refused here, with
 * the reason, instead of failing later in the middle of a script. A server older than 6 does not
 * know HELLO and repeats its arguments, the password among them, in its error: what the server says
 * to HELLO is therefore quoted only for the errors whose form is known. */
#include "net/hello.h"

#include <stdio.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "base/err.h"
#include "net/reply.h"
#include "net/server_error.h"

enum { VERSION_MIN = 7 };

int snecki_hello_write(const struct url *url, const char *client_name, struct buf *out) {
	size_t secret = url->password ? strlen(url->password) + (url->user ? strlen(url->user) : 0) : 0;
	/* Growing copies; reserving first keeps the password in one place that is wiped. */
	snecki_buf_reserve(out, 256 + secret + (client_name ? strlen(client_name) : 0));
	snecki_buf_resp_array(out, 2u + (url->password ? 3u : 0u) + (client_name ? 2u : 0u));
	snecki_buf_resp_str(out, "HELLO");
	snecki_buf_resp_str(out, "2");
	if (url->password) {
		snecki_buf_resp_str(out, "AUTH");
		snecki_buf_resp_str(out, url->user ? url->user : "default");
		snecki_buf_resp_str(out, url->password);
	}
	if (client_name) {
		snecki_buf_resp_str(out, "SETNAME");
		size_t name_at = out->len;
		snecki_buf_resp_str(out, client_name);
		/* The server refuses the whole HELLO for a blank in the name. */
		size_t len = strlen(client_name);
		if (!out->failed)
			for (size_t i = out->len - 2 - len; i > name_at && i < out->len - 2; i++)
				if (out->data[i] <= ' ' || out->data[i] > '~')
					out->data[i] = '_';
	}
	int replies = 1;
	if (url->db) {
		snecki_buf_resp_array(out, 2);
		snecki_buf_resp_str(out, "SELECT");
		snecki_buf_resp_u64(out, url->db);
		replies++;
	}
	return out->failed ? SNECK_ENOMEM : replies;
}

static int too_old(const char *where, const char *version, struct sneck_error *reterr) {
	return snecki_err(
	        reterr, SNECK_ENOTSUP, "server %s is Redis %s; 7.0 or later is needed", where, version);
}

/* `where` says that it is a sentinel. */
static int check_sentinel_error(const char *where, const struct server_error *row,
        const struct redisReply *reply, struct sneck_error *reterr) {
	size_t word_len = strcspn(reply->str, " ");
	return snecki_err_server(reterr, SNECK_EACCES, reply->str, word_len,
	        "%s says %.*s: %s; sentinels have users and passwords of their own, which the URL has as "
	        "sentinel_user= and sentinel_password=",
	        where, (int)word_len, reply->str,
	        strcmp(row->word, "NOAUTH") == 0 ? "it asks for a password"
	                                         : "its user or password is wrong, or the user is disabled");
}

static int check_error(
        const char *where, bool sentinel, const struct redisReply *reply, struct sneck_error *reterr) {
	const struct server_error *row = snecki_server_error_find(reply->str, reply->len);
	if (row->code == SNECK_ENOTSUP && row->contains)
		return too_old(where, "before 6.0 (it does not know HELLO)", reterr);
	if (sentinel && row->code == SNECK_EACCES && strcmp(row->word, "DENIED") != 0)
		return check_sentinel_error(where, row, reply, reterr);
	size_t word_len = strcspn(reply->str, " ");
	if (row->action == ACT_UNKNOWN)
		return snecki_err_server(reterr, SNECK_ESERVER, reply->str, word_len,
		        "server %s refuses the greeting with an unknown error; see its log", where);
	return snecki_err_server(reterr, row->code, reply->str, word_len, "server %s says %.*s: %s", where,
	        (int)word_len, reply->str, row->remedy);
}

/* The server's mode is "standalone", "sentinel" or "cluster". */
static int check_mode(const char *where, enum link_peer peer, const char *mode, struct sneck_error *reterr) {
	bool is_sentinel = mode && strcmp(mode, "sentinel") == 0;
	bool is_cluster = mode && strcmp(mode, "cluster") == 0;

	if (peer == PEER_SENTINEL)
		return is_sentinel ? 0
		                   : snecki_err(reterr, SNECK_ENOTSUP,
		                             "%s is no Sentinel; name the sentinels, or connect to it by "
		                             "redis://",
		                             where);
	if (is_sentinel)
		return snecki_err(reterr, SNECK_ENOTSUP,
		        "%s is a Sentinel; write redis+sentinel://host,host,host/service", where);
	if (is_cluster && peer == PEER_PRIMARY)
		return snecki_err(reterr, SNECK_ENOTSUP,
		        "server %s is a node of a cluster; write redis+cluster://host, or several of its "
		        "nodes "
		        "as redis://host,host",
		        where);
	if (!is_cluster && peer != PEER_PRIMARY)
		return snecki_err(reterr, SNECK_ENOTSUP,
		        "server %s is no node of a cluster; connect to it alone by redis://host", where);
	return 0;
}

static int check_hello(
        const char *where, enum link_peer peer, const struct redisReply *reply, struct sneck_error *reterr) {
	if (reply->type != REDIS_REPLY_ARRAY)
		return snecki_err(reterr, SNECK_ENOTSUP,
		        "server %s answers HELLO in an unknown way; is it a Redis or Valkey server?", where);
	const char *version = snecki_reply_field(reply, "version");
	const char *role = snecki_reply_field(reply, "role");
	unsigned major = 0;
	int r = check_mode(where, peer, snecki_reply_field(reply, "mode"), reterr);
	if (r < 0)
		return r;
	if (!version || sscanf(version, "%u", &major) != 1)
		return snecki_err(reterr, SNECK_ENOTSUP, "server %s does not tell its version", where);
	if (major < VERSION_MIN)
		return too_old(where, version, reterr);
	bool primary = peer == PEER_PRIMARY || peer == PEER_CLUSTER_PRIMARY;
	if (primary && role && strcmp(role, "master") != 0)
		return snecki_err_server(reterr, SNECK_ECONN, HELLO_IS_REPLICA, strlen(HELLO_IS_REPLICA),
		        "server %s is a replica; connect to the primary instead", where);
	return 0;
}

int snecki_hello_check(const char *where, enum link_peer peer, int index, const struct redisReply *reply,
        struct sneck_error *reterr) {
	if (reply->type == REDIS_REPLY_ERROR)
		return check_error(where, peer == PEER_SENTINEL, reply, reterr);
	return index == 0 ? check_hello(where, peer, reply, reterr) : 0;
}
