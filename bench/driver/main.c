/* SPDX-License-Identifier: MIT */
/* The driver of sneck and of the limits, for bench/compare: opens a client, then answers requests line by
 * line until its standard input ends. bench/peers/README.md has the protocol, which drivers in other
 * languages speak too.
 *
 *   sneck_bench_driver --peer NAME --url URL */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"
#include "request.h"
#include "turns.h"

static const struct peer *const peers[] = { &peer_sneck, &peer_ping, &peer_scripts, &peer_setnx,
	&peer_flock };

static const struct peer *find_peer(const char *name) {
	for (size_t i = 0; i < sizeof peers / sizeof peers[0]; i++)
		if (strcmp(peers[i]->name, name) == 0)
			return peers[i];
	return NULL;
}

static void answer(const struct peer *peer, void *client, const char *url, const struct request *request) {
	if (strcmp(request->word, "pair") == 0)
		turns_pair(peer, client, request);
	else if (strcmp(request->word, "threads") == 0)
		turns_threads(peer, client, url, request);
	else if (strcmp(request->word, "contend") == 0)
		turns_contend(peer, client, request);
	else if (strcmp(request->word, "ring") == 0)
		turns_ring(request);
	else if (!peer->answer || !peer->answer(client, url, request))
		printf("{\"unsupported\":true}\n");
	fflush(stdout);
}

static int usage(void) {
	fprintf(stderr, "usage: sneck_bench_driver --peer NAME --url URL\n");
	return 64;
}

int main(int argc, char **argv) {
	const struct peer *peer = NULL;
	const char *url = NULL;
	char *line = NULL;
	size_t size = 0;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--peer") == 0)
			peer = find_peer(argv[i + 1]);
		else if (strcmp(argv[i], "--url") == 0)
			url = argv[i + 1];
		else if (strcmp(argv[i], "--clients") != 0)
			return usage();
	}
	if (!peer || !url)
		return usage();
	signal(SIGINT, SIG_IGN); /* the terminal's: bench/compare ends us by closing our input */
	void *client = peer->open(url);
	printf("{\"version\":\"%s\"}\n", peer->version);
	fflush(stdout);
	while (getline(&line, &size, stdin) > 0) {
		struct request request;
		if (!request_parse(&request, line)) {
			fprintf(stderr, "bench: cannot read a request\n");
			return 1;
		}
		answer(peer, client, url, &request);
	}
	free(line);
	return 0;
}
