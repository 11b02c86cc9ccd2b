/* SPDX-License-Identifier: MIT */
/* What happens to the messages of one connection. Each direction takes bytes in, cuts them into
 * messages, lets the rules judge each message once, and queues what is left as parcels. A parcel
 * leaves when it is due and nothing before it is held, so order within a direction never changes:
 * that is what a network does to a stream, too.
 *
 * Replies are matched to requests by order; `due_first` lists the requests that have no reply yet.
 * A link whose client has gone lives on until its held requests have been delivered: a request in
 * a kernel buffer outlives the program that wrote it. */
#include "proxy_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "resp_frame.h"

static const int64_t dribble_pause_ns = 20000;

int64_t test_proxy_now_ns(void) {
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void *must(void *memory) {
	if (!memory)
		abort();
	return memory;
}

static void bytes_add(struct proxy_bytes *bytes, const char *data, size_t len) {
	if (bytes->len + len > bytes->cap) {
		bytes->cap = (bytes->len + len) * 2;
		bytes->data = must(realloc(bytes->data, bytes->cap));
	}
	memcpy(bytes->data + bytes->len, data, len);
	bytes->len += len;
}

static void bytes_consume(struct proxy_bytes *bytes, size_t len) {
	bytes->len -= len;
	memmove(bytes->data, bytes->data + len, bytes->len);
}

static struct proxy_parcel *pipe_add(struct proxy_pipe *pipe, const char *data, size_t len, int64_t due_ns) {
	struct proxy_parcel *parcel = must(calloc(1, sizeof(*parcel)));
	parcel->data = must(malloc(len));
	memcpy(parcel->data, data, len);
	parcel->len = len;
	parcel->due_ns = due_ns;
	*pipe->last = parcel;
	pipe->last = &parcel->next;
	return parcel;
}

static void pipe_pop(struct proxy_pipe *pipe) {
	struct proxy_parcel *parcel = pipe->first;
	pipe->first = parcel->next;
	if (!pipe->first)
		pipe->last = &pipe->first;
	free(parcel->data);
	free(parcel);
}

static void pipe_done(struct proxy_pipe *pipe) {
	while (pipe->first)
		pipe_pop(pipe);
	free(pipe->in.data);
}

static void due_push(struct proxy_link *link, enum proxy_class class, const char *line) {
	struct proxy_due *due = must(calloc(1, sizeof(*due)));
	due->class = class;
	due->line = line;
	*link->due_last = due;
	link->due_last = &due->next;
}

static enum proxy_class due_pop(struct proxy_link *link) {
	struct proxy_due *due = link->due_first;
	if (!due)
		return PROXY_GREETING; /* unasked for, such as an error on connecting */
	enum proxy_class class = due->class;
	link->due_first = due->next;
	if (!link->due_first)
		link->due_last = &link->due_first;
	free(due);
	return class;
}

struct proxy_link *test_proxy_link_new(int client_fd, int server_fd) {
	struct proxy_link *link = must(calloc(1, sizeof(*link)));
	link->client_fd = client_fd;
	link->server_fd = server_fd;
	link->up.last = &link->up.first;
	link->down.last = &link->down.first;
	link->due_last = &link->due_first;
	return link;
}

void test_proxy_link_free(struct proxy_link *link) {
	test_proxy_link_cut(link);
	pipe_done(&link->up);
	pipe_done(&link->down);
	while (link->due_first)
		due_pop(link);
	free(link->last_reply.data);
	free(link);
}

static void close_client(struct proxy_link *link) {
	if (link->client_fd >= 0)
		close(link->client_fd);
	link->client_fd = -1;
}

void test_proxy_link_cut(struct proxy_link *link) {
	close_client(link);
	if (link->server_fd >= 0)
		close(link->server_fd);
	link->server_fd = -1;
	link->dead = true;
}

static bool acts_on_reply(enum proxy_action action) {
	return action >= PROXY_DROP;
}

/* Count a message against every rule; true and the rule when one strikes. */
static bool judge(
        struct proxy_weather *weather, enum proxy_class class, bool is_reply, struct proxy_rule *ret_rule) {
	bool struck = false;
	for (unsigned i = 0; i < weather->rules_n; i++) {
		struct proxy_rule *rule = &weather->rules[i];
		if (acts_on_reply(rule->action) != is_reply)
			continue;
		if (rule->class != PROXY_ANY && rule->class != class)
			continue;
		weather->seen[i]++;
		if (struck || (rule->nth != 0 && weather->seen[i] != rule->nth))
			continue;
		struck = true;
		*ret_rule = *rule;
		if (rule->nth != 0) {
			weather->rules_n--;
			memmove(rule, rule + 1, (weather->rules_n - i) * sizeof(*rule));
			memmove(&weather->seen[i], &weather->seen[i + 1],
			        (weather->rules_n - i) * sizeof(weather->seen[0]));
			i--;
		}
	}
	if (struck)
		weather->counts.fired++;
	return struck;
}

static enum proxy_class classify_request(const char *data, size_t len) {
	if (test_resp_element_is(data, len, 0, "EVALSHA") || test_resp_element_is(data, len, 0, "EVAL"))
		return PROXY_SCRIPT;
	if (test_resp_element_is(data, len, 0, "SUBSCRIBE"))
		return PROXY_SUBSCRIBE;
	return PROXY_GREETING;
}

static void hold(struct proxy_parcel *parcel, const struct proxy_rule *rule) {
	parcel->was_held = true;
	if (rule->hold_ms > 0)
		parcel->due_ns = test_proxy_now_ns() + rule->hold_ms * 1000000;
	else
		parcel->held = true;
}

static void take_request(
        struct proxy_link *link, struct proxy_weather *weather, const char *data, size_t len) {
	enum proxy_class class = classify_request(data, len);
	weather->counts.requests[class]++;
	weather->counts.requests[PROXY_ANY]++;
	struct proxy_rule rule = { 0 };
	bool struck = judge(weather, class, false, &rule);
	if (struck && rule.action == PROXY_CUT_BEFORE) {
		test_proxy_link_cut(link);
		return;
	}
	if (struck && rule.action == PROXY_ANSWER) {
		due_push(link, class, rule.line);
		return;
	}
	long replies = class == PROXY_SUBSCRIBE ? test_resp_elements(data, len) - 1 : 1;
	for (long i = 0; i < replies; i++)
		due_push(link, class, NULL);
	struct proxy_parcel *parcel = pipe_add(&link->up, data, len, test_proxy_now_ns() + weather->delay_ns);
	if (struck && rule.action == PROXY_HOLD)
		hold(parcel, &rule);
	if (struck && rule.action == PROXY_CUT_AFTER)
		close_client(link);
}

static void pass_reply(struct proxy_link *link, struct proxy_weather *weather, enum proxy_class class,
        const char *data, size_t len) {
	weather->counts.replies[class]++;
	weather->counts.replies[PROXY_ANY]++;
	struct proxy_rule rule = { 0 };
	bool struck = judge(weather, class, true, &rule);
	int64_t due_ns = test_proxy_now_ns() + weather->delay_ns;
	if (struck && rule.action == PROXY_DROP_CUT) {
		test_proxy_link_cut(link);
		return;
	}
	if (struck && rule.action == PROXY_DROP_SILENT)
		link->muted = true;
	if (link->muted || (struck && rule.action == PROXY_DROP))
		return;
	if (struck && rule.action == PROXY_REPLACE) {
		pipe_add(&link->down, rule.line, strlen(rule.line), due_ns);
		pipe_add(&link->down, "\r\n", 2, due_ns);
		return;
	}
	if (struck && rule.action == PROXY_SHIFT && link->last_reply.len > 0)
		pipe_add(&link->down, link->last_reply.data, link->last_reply.len, due_ns);
	struct proxy_parcel *parcel = pipe_add(&link->down, data, len, due_ns);
	if (struck && rule.action == PROXY_HOLD_REPLY)
		hold(parcel, &rule);
	if (class != PROXY_MESSAGE) {
		link->last_reply.len = 0;
		bytes_add(&link->last_reply, data, len);
	}
}

static void answer_due(struct proxy_link *link, struct proxy_weather *weather) {
	while (!link->dead && link->due_first && link->due_first->line) {
		char line[256];
		int len = snprintf(line, sizeof(line), "%s\r\n", link->due_first->line);
		pass_reply(link, weather, due_pop(link), line, (size_t)len);
	}
}

static void take_reply(struct proxy_link *link, struct proxy_weather *weather, const char *data, size_t len) {
	enum proxy_class class;
	if (test_resp_element_is(data, len, 0, "message"))
		class = PROXY_MESSAGE;
	else
		class = due_pop(link);
	pass_reply(link, weather, class, data, len);
}

/* Read what has come; false when the peer has gone. */
static bool fill(int fd, struct proxy_bytes *in) {
	for (;;) {
		char chunk[16384];
		ssize_t n = recv(fd, chunk, sizeof(chunk), MSG_DONTWAIT);
		if (n > 0) {
			bytes_add(in, chunk, (size_t)n);
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
	}
}

static void frame(struct proxy_link *link, struct proxy_weather *weather, struct proxy_pipe *pipe,
        void (*take)(struct proxy_link *, struct proxy_weather *, const char *, size_t)) {
	while (!link->dead && pipe->in.len > 0) {
		size_t len = test_resp_frame(pipe->in.data, pipe->in.len);
		if (len == 0)
			return;
		take(link, weather, pipe->in.data, len);
		bytes_consume(&pipe->in, len);
	}
}

/* Write what may go; false when the peer has gone. `fd` -1 swallows everything. */
static bool flush(int fd, struct proxy_pipe *pipe, struct proxy_weather *weather) {
	int64_t now_ns = test_proxy_now_ns();
	while (pipe->first) {
		struct proxy_parcel *parcel = pipe->first;
		if (parcel->held || parcel->due_ns > now_ns)
			return true;
		if (fd >= 0) {
			size_t want = parcel->len - parcel->sent;
			if (weather->dribble) {
				if (pipe->next_byte_ns > now_ns)
					return true;
				want = 1;
			}
			ssize_t n = send(fd, parcel->data + parcel->sent, want, MSG_DONTWAIT | MSG_NOSIGNAL);
			if (n < 0)
				return errno == EAGAIN || errno == EINTR;
			parcel->sent += (size_t)n;
			pipe->next_byte_ns = now_ns + dribble_pause_ns;
			if (parcel->sent < parcel->len)
				continue;
		}
		if (parcel->was_held)
			weather->counts.delivered++;
		pipe_pop(pipe);
	}
	return true;
}

static bool has_held(const struct proxy_pipe *pipe) {
	for (const struct proxy_parcel *parcel = pipe->first; parcel; parcel = parcel->next)
		if (parcel->was_held)
			return true;
	return false;
}

void test_proxy_link_run(
        struct proxy_link *link, struct proxy_weather *weather, short client_ready, short server_ready) {
	if (client_ready && link->client_fd >= 0) {
		bool alive = fill(link->client_fd, &link->up.in);
		frame(link, weather, &link->up, take_request);
		if (!alive)
			close_client(link);
	}
	if (server_ready && !link->dead) {
		bool alive = fill(link->server_fd, &link->down.in);
		frame(link, weather, &link->down, take_reply);
		if (!alive && !link->dead) {
			flush(link->client_fd, &link->down, weather);
			test_proxy_link_cut(link);
		}
	}
	if (link->dead)
		return;
	answer_due(link, weather);
	if (!link->dead && !weather->silent_up && !flush(link->server_fd, &link->up, weather))
		test_proxy_link_cut(link);
	if (!link->dead && !weather->silent_down && !flush(link->client_fd, &link->down, weather))
		close_client(link);
	if (!link->dead && link->client_fd < 0 && !has_held(&link->up) && !link->up.first)
		test_proxy_link_cut(link);
}

static void prepare_pipe(const struct proxy_pipe *pipe, const struct proxy_weather *weather, bool silent,
        struct pollfd *out, int64_t *wake_ns) {
	const struct proxy_parcel *parcel = pipe->first;
	if (!parcel || parcel->held || silent)
		return;
	int64_t due_ns = parcel->due_ns;
	if (weather->dribble && pipe->next_byte_ns > due_ns)
		due_ns = pipe->next_byte_ns;
	if (due_ns <= test_proxy_now_ns())
		out->events |= POLLOUT;
	else if (due_ns < *wake_ns)
		*wake_ns = due_ns;
}

void test_proxy_link_prepare(const struct proxy_link *link, const struct proxy_weather *weather,
        struct pollfd pfds[2], int64_t *wake_ns) {
	pfds[0] = (struct pollfd){ .fd = link->client_fd, .events = POLLIN };
	pfds[1] = (struct pollfd){ .fd = link->server_fd, .events = POLLIN };
	prepare_pipe(&link->up, weather, weather->silent_up, &pfds[1], wake_ns);
	prepare_pipe(&link->down, weather, weather->silent_down, &pfds[0], wake_ns);
}

void test_proxy_link_deliver(struct proxy_link *link) {
	for (struct proxy_parcel *parcel = link->up.first; parcel; parcel = parcel->next)
		parcel->held = false;
	for (struct proxy_parcel *parcel = link->down.first; parcel; parcel = parcel->next)
		parcel->held = false;
}
