/* SPDX-License-Identifier: MIT */
/* The reply parser with bounds.
 *
 * hiredis trusts its peer: an array header alone makes it allocate for the announced number of
 * elements, and a bulk string may announce half a gigabyte. A lock's replies are small, so a reply
 * that is larger than a megabyte, or whose arrays (nested ones counted together) announce more
 * elements than that could hold, means a broken or hostile peer. Arrays are checked before memory is
 * taken, by wrapping the parser's own function; bytes are checked while the reply is incomplete,
 * so a length that is announced but never sent costs nothing. */
#include "net/reader.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

#include "base/err.h"

#if HIREDIS_MAJOR >= 1
typedef size_t array_count;
#else
typedef int array_count;
#endif

struct reader {
	redisReader *parser;
	redisReplyObjectFunctions fn; /* the parser's, with a bounded createArray */
	void *(*create_array)(const redisReadTask *, array_count);
	size_t pending;  /* bytes fed since the last complete reply */
	size_t elements; /* announced by the arrays of the incomplete reply */
};

static void *create_array_bounded(const redisReadTask *task, array_count count) {
	struct reader *reader = task->privdata;
	int depth = 0;
	for (const redisReadTask *parent = task->parent; parent; parent = parent->parent)
		depth++;
	if (depth > READER_DEPTH_MAX)
		return NULL;
	if (count > 0) {
		if ((size_t)count > READER_ELEMENTS_MAX - reader->elements)
			return NULL;
		reader->elements += (size_t)count;
	}
	return reader->create_array(task, count);
}

struct reader *snecki_reader_new(void) {
	struct reader *reader = calloc(1, sizeof(*reader));
	if (!reader)
		return NULL;
	reader->parser = redisReaderCreate();
	if (!reader->parser) {
		free(reader);
		return NULL;
	}
	reader->fn = *reader->parser->fn;
	reader->create_array = reader->fn.createArray;
	reader->fn.createArray = create_array_bounded;
	reader->parser->fn = &reader->fn;
	reader->parser->privdata = reader;
	return reader;
}

void snecki_reader_free(struct reader *reader) {
	if (!reader)
		return;
	redisReaderFree(reader->parser);
	free(reader);
}

int snecki_reader_feed(struct reader *reader, const char *data, size_t len, struct sneck_error *reterr) {
	if (redisReaderFeed(reader->parser, data, len) != REDIS_OK)
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory for a reply of the server");
	reader->pending += len;
	return 0;
}

static int bad_stream(struct sneck_error *reterr, const char *why) {
	return snecki_err(reterr, SNECK_ECONN,
	        "the server sent what is no valid reply (%s); is it a Redis or Valkey server?", why);
}

int snecki_reader_next(struct reader *reader, struct redisReply **ret, struct sneck_error *reterr) {
	void *reply = NULL;
	if (redisReaderGetReply(reader->parser, &reply) != REDIS_OK) {
		if (reader->parser->err == REDIS_ERR_OOM)
			return bad_stream(reterr, "it is too large or nested too deeply, or memory is short");
		return bad_stream(reterr, reader->parser->errstr);
	}
	if (!reply) {
		if (reader->pending > READER_REPLY_MAX)
			return bad_stream(reterr, "it is larger than a mebibyte");
		return 0;
	}
	reader->elements = 0;
	reader->pending = reader->parser->len - reader->parser->pos;
	*ret = reply;
	/* Types beyond RESP2 were not agreed on in the greeting. */
	if ((*ret)->type > REDIS_REPLY_ERROR) {
		freeReplyObject(reply);
		return bad_stream(reterr, "its type is unknown");
	}
	return 1;
}
