/* SPDX-License-Identifier: MIT */
/* The table of channels that come and go.
 *
 * A topic is in the map from the first listener on until it has been idle for longest of more than
 * TOPICS_IDLE_MAX; then it is only a word that the server has to be told (`forgotten`). `node` is in one
 * of three lists, or in none: idle, unsent, forgotten. A topic that is both unheard and unsent is in
 * `unsent`, and is subscribed all the same. */
#include "net/topics.h"

#include <stdlib.h>
#include <string.h>

#include <sneck/error.h>

struct topic {
	struct map_node by_channel;
	struct list node;
	unsigned listeners;
	bool missed; /* something came while nobody listened: it may have been for one who is about to */
	bool unsent; /* in topics->unsent */
	bool sharded;
	size_t channel_len, subject_len;
	char bytes[]; /* the channel, then the subject */
};

int snecki_topics_init(struct topics *topics) {
	int r = snecki_map_init(&topics->map);

	if (r < 0)
		return r;
	pthread_mutex_init(&topics->mutex, NULL);
	snecki_list_init(&topics->idle);
	snecki_list_init(&topics->unsent);
	snecki_list_init(&topics->forgotten);
	topics->idle_n = 0;
	return 0;
}

static void free_list(struct list *list) {
	LIST_EACH (at, list)
		free(LIST_ITEM(at, struct topic, node));
}

void snecki_topics_done(struct topics *topics) {
	struct map_node *node;

	while ((node = snecki_map_next(&topics->map, NULL))) {
		snecki_map_remove(&topics->map, node);
		free(MAP_ITEM(node, struct topic, by_channel));
	}
	free_list(&topics->forgotten);
	snecki_map_done(&topics->map);
	pthread_mutex_destroy(&topics->mutex);
}

static struct topic *find(const struct topics *topics, const char *channel, size_t channel_len) {
	struct map_node *node = snecki_map_find(&topics->map, channel, channel_len);

	return node ? MAP_ITEM(node, struct topic, by_channel) : NULL;
}

static struct topic *new_topic(struct topics *topics, const char *channel, size_t channel_len,
        const char *subject, size_t subject_len) {
	struct topic *topic = calloc(1, sizeof *topic + channel_len + subject_len);

	if (!topic)
		return NULL;
	memcpy(topic->bytes, channel, channel_len);
	memcpy(topic->bytes + channel_len, subject, subject_len);
	topic->channel_len = channel_len;
	topic->subject_len = subject_len;
	topic->unsent = true;
	snecki_map_insert(&topics->map, &topic->by_channel, topic->bytes, channel_len);
	snecki_list_append(&topics->unsent, &topic->node);
	return topic;
}

int snecki_topics_add(struct topics *topics, const char *channel, size_t channel_len, bool sharded,
        const char *subject, size_t subject_len, bool *ret_changed) {
	pthread_mutex_lock(&topics->mutex);
	struct topic *topic = find(topics, channel, channel_len);
	*ret_changed = !topic;
	if (!topic) {
		topic = new_topic(topics, channel, channel_len, subject, subject_len);
		if (topic)
			topic->sharded = sharded;
	} else if (topic->listeners == 0 && !topic->unsent) {
		snecki_list_remove(&topic->node);
		topics->idle_n--;
		if (topic->missed) { /* the server's second confirmation makes whoever listens look */
			topic->unsent = true;
			snecki_list_append(&topics->unsent, &topic->node);
			*ret_changed = true;
		}
	}
	if (topic) {
		topic->missed = false;
		topic->listeners++;
	}
	pthread_mutex_unlock(&topics->mutex);
	return topic ? 0 : SNECK_ENOMEM;
}

/* Locked. */
static void make_idle(struct topics *topics, struct topic *topic) {
	snecki_list_append(&topics->idle, &topic->node);
	if (++topics->idle_n <= TOPICS_IDLE_MAX)
		return;
	struct topic *oldest = LIST_ITEM(topics->idle.next, struct topic, node);
	snecki_list_remove(&oldest->node);
	topics->idle_n--;
	snecki_map_remove(&topics->map, &oldest->by_channel);
	snecki_list_append(&topics->forgotten, &oldest->node);
}

bool snecki_topics_remove(struct topics *topics, const char *channel, size_t channel_len) {
	pthread_mutex_lock(&topics->mutex);
	struct topic *topic = find(topics, channel, channel_len);
	if (topic && topic->listeners && --topic->listeners == 0 && !topic->unsent)
		make_idle(topics, topic);
	pthread_mutex_unlock(&topics->mutex);
	return topic != NULL;
}

bool snecki_topics_find(
        struct topics *topics, const char *channel, size_t channel_len, struct topic_subject *ret) {
	bool found = false;

	*ret = (struct topic_subject){ .bytes = BUF_INIT };
	pthread_mutex_lock(&topics->mutex);
	struct topic *topic = find(topics, channel, channel_len);
	if (topic)
		topic->missed = topic->listeners == 0;
	/* Of a lock in a cluster there may be news, such as a grace that is cut short, when nobody waits or
	 * holds any more. */
	if (topic && (topic->listeners || topic->sharded)) {
		snecki_buf_add(&ret->bytes, topic->bytes + topic->channel_len, topic->subject_len);
		ret->data = ret->bytes.data;
		ret->len = ret->bytes.len;
		found = !ret->bytes.failed;
	}
	pthread_mutex_unlock(&topics->mutex);
	if (!found)
		snecki_buf_done(&ret->bytes);
	return found;
}

static void write_command(struct buf *out, bool subscribe, const struct topic *topic) {
	static const char *const words[2][2] = { { "UNSUBSCRIBE", "SUBSCRIBE" },
		{ "SUNSUBSCRIBE", "SSUBSCRIBE" } };

	snecki_buf_resp_array(out, 2);
	snecki_buf_resp_str(out, words[topic->sharded][subscribe]);
	snecki_buf_resp_bulk(out, topic->bytes, topic->channel_len);
}

/* Locked. What waited to be subscribed is so now. */
static void sent(struct topics *topics, struct topic *topic) {
	if (!topic->unsent)
		return;
	topic->unsent = false;
	snecki_list_remove(&topic->node);
	if (topic->listeners == 0)
		make_idle(topics, topic);
}

static void drop_forgotten(struct topics *topics, struct buf *out) {
	LIST_EACH (at, &topics->forgotten) {
		struct topic *topic = LIST_ITEM(at, struct topic, node);
		snecki_list_remove(at);
		/* It may be wanted again by now: then the table has another one of its name, subscribed
		 * behind this command or (unsent) by the next. */
		if (out && !find(topics, topic->bytes, topic->channel_len))
			write_command(out, false, topic);
		free(topic);
	}
}

void snecki_topics_write_all(struct topics *topics, struct buf *out) {
	pthread_mutex_lock(&topics->mutex);
	drop_forgotten(topics, NULL);
	for (struct map_node *node = NULL; (node = snecki_map_next(&topics->map, node));)
		write_command(out, true, MAP_ITEM(node, struct topic, by_channel));
	LIST_EACH (at, &topics->unsent)
		sent(topics, LIST_ITEM(at, struct topic, node));
	drop_forgotten(topics, out);
	pthread_mutex_unlock(&topics->mutex);
}

void snecki_topics_write_changes(struct topics *topics, struct buf *out) {
	pthread_mutex_lock(&topics->mutex);
	LIST_EACH (at, &topics->unsent) {
		struct topic *topic = LIST_ITEM(at, struct topic, node);
		write_command(out, true, topic);
		sent(topics, topic);
	}
	drop_forgotten(topics, out);
	pthread_mutex_unlock(&topics->mutex);
}

bool snecki_topics_any_unsent(struct topics *topics) {
	pthread_mutex_lock(&topics->mutex);
	bool any = !snecki_list_empty(&topics->unsent);
	pthread_mutex_unlock(&topics->mutex);
	return any;
}

/* ---- Moving -------------------------------------------------------------------------------------*/

/* Locked. Out of the map and of whatever list it is in. */
static void take_out(struct topics *topics, struct topic *topic) {
	if (!topic->unsent && topic->listeners == 0)
		topics->idle_n--;
	snecki_list_remove(&topic->node);
	snecki_map_remove(&topics->map, &topic->by_channel);
}

/* Locked. */
static void put_in(struct topics *topics, struct topic *topic) {
	struct topic *same = find(topics, topic->bytes, topic->channel_len);

	if (same && same->listeners == 0 && !same->unsent && topic->listeners > 0) {
		snecki_list_remove(&same->node);
		topics->idle_n--;
	}
	if (same) {
		same->listeners += topic->listeners;
		if (!same->unsent && topic->listeners > 0) { /* its confirmation makes them look */
			same->unsent = true;
			snecki_list_append(&topics->unsent, &same->node);
		}
		free(topic);
		return;
	}
	topic->unsent = true;
	snecki_map_insert(&topics->map, &topic->by_channel, topic->bytes, topic->channel_len);
	snecki_list_append(&topics->unsent, &topic->node);
}

bool snecki_topics_move(struct topics *from, struct topics *to,
        bool (*moved)(void *ctx, const char *channel, size_t channel_len), void *ctx) {
	struct list taken;

	snecki_list_init(&taken);
	pthread_mutex_lock(&from->mutex);
	struct map_node *next = snecki_map_next(&from->map, NULL);
	while (next) {
		struct topic *topic = MAP_ITEM(next, struct topic, by_channel);
		next = snecki_map_next(&from->map, next);
		if (!topic->sharded || !moved(ctx, topic->bytes, topic->channel_len))
			continue;
		take_out(from, topic);
		snecki_list_append(&taken, &topic->node);
	}
	pthread_mutex_unlock(&from->mutex);
	bool any = !snecki_list_empty(&taken);
	pthread_mutex_lock(&to->mutex);
	LIST_EACH (at, &taken) {
		snecki_list_remove(at);
		put_in(to, LIST_ITEM(at, struct topic, node));
	}
	pthread_mutex_unlock(&to->mutex);
	return any;
}
