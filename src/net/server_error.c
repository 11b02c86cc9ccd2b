/* SPDX-License-Identifier: MIT */
/* What the server's error replies mean for a lock client.
 *
 * The first row whose word and substring match counts, so rows that need a substring stand before
 * the plain row of the same word. Errors raised inside a script carry a suffix (" script: …") and
 * may hide their usual word behind ERR, hence the match on a substring. `executed_maybe` is
 * false only where the server refuses before the first write: our scripts read and check before
 * they write, and their first write is the one that is refused for lack of memory or rights to the
 * key. An error that is not listed is treated as if part of the script had run. */
#include "net/server_error.h"

#include <string.h>

#include "base/err.h"

static const struct server_error ROWS[] = {
	{ "NOSCRIPT", NULL, false, ACT_EVAL, SNECK_ESERVER, "the script is sent again in full" },
	{ "LOADING", NULL, false, ACT_BACKOFF, SNECK_ESERVER,
	        "the server is still reading its data; wait until it has started" },
	{ "BUSY", NULL, false, ACT_BACKOFF, SNECK_ESERVER,
	        "another client's script has been running for long; wait, or look at it with SLOWLOG" },
	{ "READONLY", NULL, false, ACT_REDISCOVER, SNECK_ESERVER,
	        "this server is a replica; connect to the primary" },
	{ "MASTERDOWN", NULL, false, ACT_REDISCOVER, SNECK_ESERVER,
	        "this server is a replica that has lost its primary; connect to the primary" },
	{ "UNBLOCKED", NULL, false, ACT_REDISCOVER, SNECK_ESERVER,
	        "the server has changed its role; connect to the primary" },
	{ "OOM", NULL, false, ACT_FAIL, SNECK_ESERVER,
	        "the server's memory is full; raise maxmemory or remove data" },
	{ "MISCONF", NULL, false, ACT_FAIL, SNECK_ESERVER,
	        "the server cannot save its data and refuses writes; see its log, mend the disk" },
	{ "NOREPLICAS", NULL, false, ACT_BACKOFF, SNECK_ESERVER,
	        "too few replicas are connected for min-replicas-to-write" },
	{ "NOAUTH", NULL, false, ACT_FAIL, SNECK_EACCES,
	        "the server asks for a password; put it into the URL as redis://:password@host" },
	{ "WRONGPASS", NULL, false, ACT_FAIL, SNECK_EACCES,
	        "the user or the password is wrong, or the user is disabled; see ACL LIST on the server" },
	{ "NOPERM", "in script", true, ACT_FAIL, SNECK_EACCES,
	        "the user may not run a command of the lock scripts; extend its ACL" },
	{ "NOPERM", NULL, false, ACT_FAIL, SNECK_EACCES,
	        "the user may not run this command, or not on this key or channel; extend its ACL" },
	{ "DENIED", NULL, false, ACT_FAIL, SNECK_EACCES,
	        "the server is in protected mode; set a password there, or connect from its own host" },
	{ "WRONGTYPE", NULL, false, ACT_FAIL, SNECK_ETYPE,
	        "another program uses this key; choose another name or namespace" },
	{ "SNECKTYPE", NULL, false, ACT_FAIL, SNECK_ETYPE,
	        "a sorted set without the protocol's mark, or of another protocol version; choose another "
	        "name or namespace, or use one version everywhere" },
	{ "CLUSTERDOWN", NULL, false, ACT_BACKOFF, SNECK_ESERVER,
	        "the cluster does not serve this slot now; see CLUSTER INFO" },
	{ "TRYAGAIN", NULL, false, ACT_BACKOFF, SNECK_ESERVER, "the slot of this lock is being moved" },
	{ "MOVED", NULL, false, ACT_FAIL, SNECK_ENOTSUP,
	        "the server is part of a cluster, and Cluster is not supported yet" },
	{ "ASK", NULL, false, ACT_FAIL, SNECK_ENOTSUP,
	        "the server is part of a cluster, and Cluster is not supported yet" },
	{ "CROSSSLOT", NULL, false, ACT_FAIL, SNECK_ESERVER,
	        "the keys of one call lie in different slots; this is a fault in sneck, please report it" },
	{ "NOPROTO", NULL, false, ACT_FAIL, SNECK_ENOTSUP,
	        "the server does not speak RESP2; Redis 7.0 or later, or Valkey, is needed" },
	{ "ERR", "max number of clients reached", false, ACT_BACKOFF, SNECK_ECONN,
	        "the server accepts no more clients; raise maxclients" },
	{ "ERR", "The user executing the script can't", true, ACT_FAIL, SNECK_EACCES,
	        "the user may not run a command of the lock scripts; extend its ACL" },
	{ "ERR", "ACL failure in script", true, ACT_FAIL, SNECK_EACCES,
	        "the user may not run a command of the lock scripts; extend its ACL" },
	{ "ERR", "access a non local key", true, ACT_FAIL, SNECK_ESERVER,
	        "a script used a key that it did not declare; this is a fault in sneck, please report it" },
	{ "ERR", "Unknown Redis command called from", true, ACT_FAIL, SNECK_ENOTSUP,
	        "the server lacks a command that the lock scripts need; Redis 7.0 or later is needed" },
	{ "ERR", "unknown command", false, ACT_FAIL, SNECK_ENOTSUP,
	        "the server lacks this command (or has renamed it); Redis 7.0 or later is needed" },
	{ "ERR", "DB index is out of range", false, ACT_FAIL, SNECK_EINVAL,
	        "the server has fewer databases; choose a smaller number in the URL" },
	{ "ERR", "SELECT is not allowed in cluster mode", false, ACT_FAIL, SNECK_EINVAL,
	        "a cluster has database 0 only" },
	/* Anything else. */
	{ "", NULL, true, ACT_UNKNOWN, SNECK_ESERVER, "see the server's log" },
};

static bool contains(const char *text, size_t len, const char *what) {
	return memmem(text, len, what, strlen(what)) != NULL;
}

static size_t first_word(const char *text, size_t len) {
	size_t n = 0;
	while (n < len && text[n] != ' ' && text[n] != '\r' && text[n] != '\n')
		n++;
	return n;
}

const struct server_error *snecki_server_error_find(const char *reply_text, size_t len) {
	const struct server_error *row = ROWS;
	size_t word_len = first_word(reply_text, len);
	for (; row->word[0]; row++)
		if (strlen(row->word) == word_len && memcmp(row->word, reply_text, word_len) == 0 &&
		        (!row->contains || contains(reply_text, len, row->contains)))
			break;
	return row;
}

int snecki_server_error_fill(const char *reply_text, size_t len, struct sneck_error *reterr) {
	const struct server_error *row = snecki_server_error_find(reply_text, len);
	/* Replies are one line; a script's may be long, and the remedy must fit behind it. */
	int shown = (int)(len < 240 ? len : 240);
	return snecki_err_server(reterr, row->code, reply_text, first_word(reply_text, len),
	        "the server says: %.*s; %s", shown, reply_text, row->remedy);
}
