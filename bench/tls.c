/* SPDX-License-Identifier: MIT */
/* A lone uncontended pair over TLS, against two round trips of the same scripts on a bare OpenSSL socket.
 *
 * The yardstick is what a program would write that has nothing else to do: a blocking socket, SSL_write and
 * SSL_read with OpenSSL's own socket BIO, the same protocol version and cipher, hiredis' parser. Both sides
 * take turns in rounds, so that they see the same noise; the plain pair is in the same rounds, to show
 * what TLS itself costs. */
#include "tls.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "lib/server.h"
#include "raw.h"
#include "sessions.h"
#include "stats.h"

enum { ROUNDS = 61, PAIRS = 200, WARM_UP = 500 };

struct bare {
	SSL_CTX *context;
	SSL *ssl;
	redisReader *reader;
};

static _Noreturn void give_up(const char *what) {
	fprintf(stderr, "bench: %s\n", what);
	ERR_print_errors_fp(stderr);
	exit(1);
}

static int connect_to(int port) {
	struct sockaddr_in addr = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0)
		give_up("cannot connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	return fd;
}

static void bare_open(struct bare *bare, int port, const char *ca) {
	bare->context = SSL_CTX_new(TLS_client_method());
	if (!bare->context || SSL_CTX_load_verify_file(bare->context, ca) != 1)
		give_up("no TLS context");
	SSL_CTX_set_verify(bare->context, SSL_VERIFY_PEER, NULL);
	bare->ssl = SSL_new(bare->context);
	bare->reader = redisReaderCreate();
	if (!bare->ssl || !bare->reader || SSL_set_fd(bare->ssl, connect_to(port)) != 1 ||
	        SSL_connect(bare->ssl) != 1)
		give_up("no TLS connection");
}

static void bare_close(struct bare *bare) {
	int fd = SSL_get_fd(bare->ssl);

	SSL_free(bare->ssl);
	SSL_CTX_free(bare->context);
	redisReaderFree(bare->reader);
	close(fd);
}

static redisReply *exchange(void *ctx, const char *data, size_t len) {
	struct bare *bare = ctx;
	redisReply *reply = NULL;
	char chunk[16384];

	if (SSL_write(bare->ssl, data, (int)len) != (int)len)
		give_up("cannot write");
	while (!reply) {
		int n = SSL_read(bare->ssl, chunk, sizeof chunk);
		if (n <= 0 || redisReaderFeed(bare->reader, chunk, (size_t)n) != REDIS_OK ||
		        redisReaderGetReply(bare->reader, (void **)&reply) != REDIS_OK)
			give_up("cannot read");
	}
	return reply;
}

/* ---- The server ---------------------------------------------------------------------------------*/

static int start(struct test_server *server, const char *dir) {
	char command[256], crt[128], key[128], ca[128], port[16];
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof addr;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, len) < 0 ||
	        getsockname(fd, (struct sockaddr *)&addr, &len) < 0)
		give_up("no free port");
	close(fd);
	snprintf(command, sizeof command, "%s %s", MAKE_CERTS, dir);
	if (system(command) != 0)
		give_up("no certificates");
	snprintf(crt, sizeof crt, "%s/server.crt", dir);
	snprintf(key, sizeof key, "%s/server.key", dir);
	snprintf(ca, sizeof ca, "%s/ca.crt", dir);
	snprintf(port, sizeof port, "%d", ntohs(addr.sin_port));
	const char *const args[] = { "--tls-port", port, "--tls-cert-file", crt, "--tls-key-file", key,
		"--tls-ca-cert-file", ca, "--tls-auth-clients", "no", NULL };
	if (test_server_start_tcp(server, args) < 0)
		give_up("no server");
	return ntohs(addr.sin_port);
}

/* ---- Rounds -------------------------------------------------------------------------------------*/

static double time_sneck(sneck_client *client, int pairs) {
	double begin = now_s();
	for (int i = 0; i < pairs; i++)
		bench_pair(client, "bench/tls", SNECK_WRITE);
	return (now_s() - begin) / pairs * 1e6;
}

static double time_raw(struct raw *raw, int pairs) {
	double begin = now_s();
	for (int i = 0; i < pairs; i++) {
		uint64_t attempt = raw_acquire(raw, "bench/tls", 'W');
		raw_release(raw, "bench/tls", 'W', attempt);
	}
	return (now_s() - begin) / pairs * 1e6;
}

static void report(const struct series *ours, const struct series *theirs, const struct series *plain) {
	struct series ratio;
	char text[128];

	series_ratio(&ratio, ours, theirs);
	printf("uncontended pair, one thread, TLS over the loopback interface\n");
	printf("  sneck                   %s\n", series_text(ours, " us", text, sizeof text));
	printf("  two raw EVALSHA, TLS    %s\n", series_text(theirs, " us", text, sizeof text));
	printf("  ratio                   %s   (wanted: at most 1.15)\n",
	        series_text(&ratio, "", text, sizeof text));
	printf("    half of the rounds    %.3f .. %.3f\n", series_quantile(&ratio, 0.25),
	        series_quantile(&ratio, 0.75));
	series_ratio(&ratio, ours, plain);
	printf("  sneck without TLS       %s\n", series_text(plain, " us", text, sizeof text));
	printf("  what TLS costs          %s\n", series_text(&ratio, " times", text, sizeof text));
}

void bench_tls(void) {
	char dir[] = "/tmp/sneck-bench-tls-XXXXXX", url[256], ca[128], command[128];
	struct series ours = { .n = 0 }, theirs = { .n = 0 }, without = { .n = 0 };
	struct test_server server;
	struct bare bare;
	struct raw raw;

	if (!mkdtemp(dir))
		give_up("no directory");
	int port = start(&server, dir);
	snprintf(ca, sizeof ca, "%s/ca.crt", dir);
	snprintf(url, sizeof url, "rediss://127.0.0.1:%d?ca=%s", port, ca);
	sneck_client *client = bench_open(url), *plain = bench_open(server.url);
	bare_open(&bare, port, ca);
	raw_start(&raw, NULL, NULL, 1);
	raw.exchange = exchange;
	raw.ctx = &bare;
	time_sneck(client, WARM_UP);
	time_sneck(plain, WARM_UP);
	time_raw(&raw, WARM_UP);
	for (int round = 0; round < ROUNDS; round++) {
		series_add(&theirs, time_raw(&raw, PAIRS));
		series_add(&ours, time_sneck(client, PAIRS));
		series_add(&without, time_sneck(plain, PAIRS));
	}
	report(&ours, &theirs, &without);
	raw_close(&raw);
	bare_close(&bare);
	sneck_close(plain);
	sneck_close(client);
	test_server_stop(&server);
	snprintf(command, sizeof command, "rm -rf %s", dir);
	if (system(command) != 0)
		give_up("cannot remove the certificates");
}
