/* SPDX-License-Identifier: MIT */
/* TLS to a real server: whom it trusts, what it refuses and with which words, and that one connection
 * serves many threads. The certificates are made for the run (tests/lib/make-certs.sh). */
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "certs.h"
#include "locks.h"
#include "wait.h"

static struct test_certs certs;
static const char *const dir = certs.dir;

static int make_certificates(void **state) {
	(void)state;
	return test_certs_make(&certs);
}

static int remove_certificates(void **state) {
	(void)state;
	test_certs_remove(&certs);
	return 0;
}

/* A server with the certificate `identity`; returns its port. `clients`: no, or yes (they must show one). */
static int start_tls(struct test_server *server, const char *identity, const char *clients) {
	char crt[128], key[128], ca[128], port[16];
	int number = test_free_port();

	snprintf(crt, sizeof crt, "%s/%s.crt", dir, identity);
	snprintf(key, sizeof key, "%s/%s.key", dir, identity);
	snprintf(ca, sizeof ca, "%s/ca.crt", dir);
	snprintf(port, sizeof port, "%d", number);
	const char *const args[] = { "--tls-port", port, "--tls-cert-file", crt, "--tls-key-file", key,
		"--tls-ca-cert-file", ca, "--tls-auth-clients", clients, NULL };
	assert_int_equal(test_server_start(server, args), 0);
	return number;
}

static const char *tls_url(int port, const char *ca, const char *more) {
	static char url[512];

	snprintf(url, sizeof url, "rediss://localhost:%d?ca=%s/%s.crt%s", port, dir, ca, more);
	return url;
}

/* The text of the refusal. */
static const char *refusal(const char *url, int expected) {
	static sneck_error error;
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	sneck_client *client = NULL;

	memset(&error, 0, sizeof error);
	options.flags = SNECK_OPEN_CONNECT;
	assert_result(expected, sneck_open(url, &options, &client, &error), &error);
	return error.text;
}

static void assert_refused(const char *url, int expected, const char *words) {
	const char *text = refusal(url, expected);
	if (!strstr(text, words))
		fail_msg("\"%s\" does not say \"%s\"", text, words);
}

static void use(const char *url) {
	sneck_client *client = test_open(url);

	test_release(test_take(client, "door", SNECK_WRITE, 0));
	sneck_close(client);
}

/* ---- Trust --------------------------------------------------------------------------------------*/

static void the_right_server_is_let_in(void **state) {
	struct test_server server;
	char url[256];
	int port = start_tls(&server, "server", "no");
	(void)state;

	use(tls_url(port, "ca", ""));
	snprintf(url, sizeof url, "valkeys://127.0.0.1:%d?ca=%s/ca.crt", port,
	        dir); /* an address is a name, too */
	use(url);
	use(tls_url(port, "ca", "&servername=127.0.0.1&verify=full"));
	test_server_stop(&server);
}

static void each_wrong_one_has_its_own_words(void **state) {
	struct test_server server;
	int port = start_tls(&server, "server", "no");
	(void)state;

	assert_refused(tls_url(port, "other-ca", ""), SNECK_ECONN, "not trusted here");
	assert_refused(tls_url(port, "ca", "&servername=elsewhere.example"), SNECK_ECONN, "for another name");
	test_server_stop(&server);
	port = start_tls(&server, "elsewhere", "no");
	assert_refused(tls_url(port, "ca", ""), SNECK_ECONN, "for another name");
	use(tls_url(port, "ca", "&servername=elsewhere.example"));
	test_server_stop(&server);
	port = start_tls(&server, "expired", "no");
	assert_refused(tls_url(port, "ca", ""), SNECK_ECONN, "has expired");
	test_server_stop(&server);
	port = start_tls(&server, "self", "no");
	assert_refused(tls_url(port, "ca", ""), SNECK_ECONN, "signed by itself alone");
	use(tls_url(port, "self", ""));
	test_server_stop(&server);
	assert_int_equal(test_server_start_tcp(&server, NULL), 0);
	assert_refused(tls_url(server.port, "ca", ""), SNECK_ECONN, "does it speak TLS on this port?");
	test_server_stop(&server);
}

/* And the other way round. */
static void a_tls_server_behind_a_plain_url(void **state) {
	struct test_server server;
	char url[64];
	int port = start_tls(&server, "server", "no");
	(void)state;

	snprintf(url, sizeof url, "redis://localhost:%d", port);
	assert_refused(url, SNECK_ECONN, "Then write rediss://");
	test_server_stop(&server);
}

/* ---- Versions and names, against openssl s_server -----------------------------------------------*/

static bool accepts(int port) {
	struct sockaddr_in addr = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool yes = connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0;

	close(fd);
	return yes;
}

/* openssl s_server in the directory of the certificates; it speaks TLS, and nothing that we would understand.
 * Returns its pid. `args` ends with NULL. */
static pid_t start_s_server(int port, const char *const *args) {
	char number[16];
	const char *argv[16] = { "openssl", "s_server", "-quiet", "-accept", number };
	size_t n = 5;
	pid_t parent = getpid();

	snprintf(number, sizeof number, "%d", port);
	while (*args && n < 15)
		argv[n++] = *args++;
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		int null = open("/dev/null", O_RDWR);
		if (getppid() == parent && chdir(dir) == 0 && dup2(null, 0) >= 0 && dup2(null, 1) >= 0 &&
		        dup2(null, 2) >= 0)
			execvp(argv[0], (char *const *)(void *)argv);
		_exit(127);
	}
	assert_true(pid > 0);
	assert_true(WAIT_UNTIL(accepts(port), 10000));
	return pid;
}

static void stop_s_server(pid_t pid) {
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void tls_1_2_is_the_least(void **state) {
	struct test_server server;
	static const char *const args[] = { "-cert", "server.crt", "-key", "server.key", "-tls1_1", "-cipher",
		"ALL:@SECLEVEL=0", NULL };
	int port = test_free_port();
	char crt[128], key[128], ca[128], number[16];
	(void)state;

	pid_t pid = start_s_server(port, args);
	assert_refused(tls_url(port, "ca", ""), SNECK_ECONN, "speaks no version from 1.2 on");
	stop_s_server(pid);
	snprintf(crt, sizeof crt, "%s/server.crt", dir);
	snprintf(key, sizeof key, "%s/server.key", dir);
	snprintf(ca, sizeof ca, "%s/ca.crt", dir);
	snprintf(number, sizeof number, "%d", port);
	const char *const redis[] = { "--tls-port", number, "--tls-cert-file", crt, "--tls-key-file", key,
		"--tls-ca-cert-file", ca, "--tls-auth-clients", "no", "--tls-protocols", "TLSv1.2", NULL };
	assert_int_equal(test_server_start(&server, redis), 0);
	use(tls_url(port, "ca", ""));
	test_server_stop(&server);
}

/* One address, two certificates: the right one is shown to whoever says which name it means. */
static void the_name_is_said_to_the_server(void **state) {
	static const char *const args[] = { "-cert", "self.crt", "-key", "self.key", "-servername",
		"localhost", "-cert2", "server.crt", "-key2", "server.key", NULL };
	int port = test_free_port();
	char url[256];
	(void)state;

	pid_t pid = start_s_server(port, args);
	/* It is let in, and then has no answer to the greeting. */
	assert_null(strstr(refusal(tls_url(port, "ca", ""), SNECK_ECONN), "certificate"));
	/* An address is no name that could be said. */
	snprintf(url, sizeof url, "rediss://127.0.0.1:%d?ca=%s/ca.crt", port, dir);
	assert_refused(url, SNECK_ECONN, "signed by itself alone");
	stop_s_server(pid);
}

/* Nobody listens to the handshake: it ends in time. */
static void a_silent_server_does_not_hold_us_up(void **state) {
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof addr;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)state;

	assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(listen(fd, 5), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	int64_t before = test_now_ms();
	assert_refused(
	        tls_url(ntohs(addr.sin_port), "ca", ""), SNECK_ECONN, "no answer to the TLS handshake");
	assert_in_range(test_now_ms() - before, 900, 1000 + TEST_SLACK_MS);
	close(fd);
}

/* ---- Without looking ----------------------------------------------------------------------------*/

static void keep_warning(void *ctx, sneck_log_level level, const char *text) {
	if (level == SNECK_LOG_WARN && strstr(text, "verify=none"))
		*(int *)ctx += 1;
}

static void not_looking_must_be_spelled_out_and_is_announced(void **state) {
	struct test_server server;
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	sneck_client *client;
	int warnings = 0, port = start_tls(&server, "self", "no");
	(void)state;

	options.flags = SNECK_OPEN_CONNECT;
	options.log_fn = keep_warning;
	options.log_ctx = &warnings;
	assert_result(0, sneck_open(tls_url(port, "ca", "&verify=none"), &options, &client, NULL), NULL);
	sneck_close(client);
	assert_int_equal(warnings, 1);
	assert_refused(tls_url(port, "ca", "&verify=no"), SNECK_EINVAL, "full (the default) or none");
	test_server_stop(&server);
}

/* ---- Who we are ---------------------------------------------------------------------------------*/

static void a_client_certificate_is_shown(void **state) {
	struct test_server server;
	char more[256];
	int port = start_tls(&server, "server", "yes");
	(void)state;

	snprintf(more, sizeof more, "&cert=%s/client.crt&key=%s/client.key", dir, dir);
	use(tls_url(port, "ca", more));
	assert_refused(tls_url(port, "ca", ""), SNECK_EACCES, "cert= and key=");
	snprintf(more, sizeof more, "&cert=%s/self.crt&key=%s/self.key", dir, dir);
	assert_refused(tls_url(port, "ca", more), SNECK_EACCES, "refuses this client");
	test_server_stop(&server);
}

static void files_are_looked_at_when_it_is_opened(void **state) {
	char more[256];
	(void)state;

	assert_refused(tls_url(1, "nothing", ""), SNECK_EINVAL, "nothing.crt: No such file or directory");
	snprintf(more, sizeof more, "rediss://localhost?ca=%s", dir);
	assert_refused(more, SNECK_EINVAL, "Is a directory");
	snprintf(more, sizeof more, "rediss://localhost?ca=%s/client.key", dir);
	assert_refused(more, SNECK_EINVAL, "cannot use the CA file");
	snprintf(more, sizeof more, "&cert=%s/client.crt", dir);
	assert_refused(tls_url(1, "ca", more), SNECK_EINVAL, "both files");
	snprintf(more, sizeof more, "&cert=%s/client.key&key=%s/client.key", dir, dir);
	assert_refused(tls_url(1, "ca", more), SNECK_EINVAL, "cannot use the client certificate");
	assert_refused("redis://localhost?ca=/x", SNECK_EINVAL, "with rediss://");
}

static void a_key_that_cannot_be_used_is_explained(void **state) {
	static const struct {
		const char *key, *words;
	} cases[] = {
		{ "none.key", "none.key: No such file or directory" },
		{ "client.crt", "cannot use the client's key" },
		{ "server.key", "does not belong to the certificate" },
		{ "rsa.key", "does not belong to the certificate" },
		{ "locked.key", "is locked by a passphrase" },
		{ "", "Is a directory" },
	};
	char more[256];
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		snprintf(more, sizeof more, "&cert=%s/client.crt&key=%s/%s", dir, dir, cases[i].key);
		assert_refused(tls_url(1, "ca", more), SNECK_EINVAL, cases[i].words);
	}
}

/* The effective user alone counts for files; the certificates are root's when root runs the tests. */
static void a_key_that_may_not_be_read_is_explained(void **state) {
	char more[256], key[128];
	(void)state;

	snprintf(key, sizeof key, "%s/client.key", dir);
	snprintf(more, sizeof more, "&cert=%s/client.crt&key=%s", dir, key);
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(chmod(key, 0), 0);
	bool root = geteuid() == 0;
	if (root)
		assert_int_equal(seteuid(65534), 0);
	const char *text = refusal(tls_url(1, "ca", more), SNECK_EINVAL);
	if (root)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(chmod(key, 0600), 0);
	assert_non_null(strstr(text, "client.key: Permission denied"));
}

/* ---- Under load ---------------------------------------------------------------------------------*/

enum { THREADS = 8, ROUNDS = 60 };

struct crew {
	sneck_client *client;
	long counter; /* under the lock alone */
};

static void *count(void *arg) {
	struct crew *crew = arg;
	char own[32];

	snprintf(own, sizeof own, "own-%lu", (unsigned long)pthread_self());
	for (int i = 0; i < ROUNDS; i++) {
		sneck_hold *mine = test_take(crew->client, own, SNECK_WRITE, 0);
		sneck_hold *hold = test_take(crew->client, "shared", SNECK_WRITE, 30000);
		crew->counter++;
		test_release(hold);
		test_release(mine);
	}
	return NULL;
}

static void one_connection_serves_many_threads(void **state) {
	struct test_server server;
	pthread_t threads[2 * THREADS];
	struct crew crews[2] = { { 0 } };
	int port = start_tls(&server, "server", "no");
	(void)state;

	for (int c = 0; c < 2; c++)
		crews[c].client = test_open(tls_url(port, "ca", ""));
	for (int i = 0; i < 2 * THREADS; i++)
		pthread_create(&threads[i], NULL, count, &crews[i % 2]);
	for (int i = 0; i < 2 * THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(crews[0].counter, THREADS * ROUNDS);
	assert_int_equal(crews[1].counter, THREADS * ROUNDS);
	for (int c = 0; c < 2; c++) {
		assert_int_equal(test_stats(crews[c].client).connects, 1);
		sneck_close(crews[c].client);
	}
	test_server_stop(&server);
}

/* More than one record, in both directions. */
static void long_names_fit(void **state) {
	struct test_server server;
	int port = start_tls(&server, "server", "no");
	sneck_client *client = test_open(tls_url(port, "ca", ""));
	char name[SNECK_NAME_MAX + 1];
	(void)state;

	for (int i = 0; i < 200; i++) {
		memset(name, 'a' + i % 26, SNECK_NAME_MAX);
		snprintf(name, 16, "%04d", i);
		name[4] = 'x';
		name[SNECK_NAME_MAX] = '\0';
		assert_result(
		        0, sneck_acquire_start(client, name, SNECK_NAME_MAX, SNECK_WRITE, NULL, NULL), NULL);
	}
	for (int i = 0; i < 200; i++) {
		sneck_event event = { .size = sizeof event };
		assert_true(test_next_event(client, &event, 5000));
		assert_int_equal(event.type, SNECK_EVENT_ACQUIRED);
	}
	sneck_lock_list *list;
	assert_result(0, sneck_list(client, NULL, &list, NULL), NULL);
	assert_int_equal(list->n, 200);
	sneck_lock_list_free(list);
	sneck_close(client);
	test_server_stop(&server);
}

/* The server is killed and comes back; SIGPIPE is at its default and must not come. */
static void it_connects_again(void **state) {
	struct test_server server;
	int port = start_tls(&server, "server", "no");
	sneck_client *client = test_open(tls_url(port, "ca", ""));
	(void)state;

	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	assert_int_equal(test_server_restart(&server), 0);
	assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_LOST, 35000));
	assert_result(SNECK_ELOST, sneck_release(hold), NULL);
	test_release(test_take(client, "door", SNECK_WRITE, 5000));
	sneck_close(client);
	test_server_stop(&server);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_right_server_is_let_in),
		cmocka_unit_test(each_wrong_one_has_its_own_words),
		cmocka_unit_test(a_silent_server_does_not_hold_us_up),
		cmocka_unit_test(not_looking_must_be_spelled_out_and_is_announced),
		cmocka_unit_test(a_client_certificate_is_shown),
		cmocka_unit_test(files_are_looked_at_when_it_is_opened),
		cmocka_unit_test(a_key_that_cannot_be_used_is_explained),
		cmocka_unit_test(a_key_that_may_not_be_read_is_explained),
		cmocka_unit_test(a_tls_server_behind_a_plain_url),
		cmocka_unit_test(tls_1_2_is_the_least),
		cmocka_unit_test(the_name_is_said_to_the_server),
		cmocka_unit_test(one_connection_serves_many_threads),
		cmocka_unit_test(long_names_fit),
		cmocka_unit_test(it_connects_again),
	};
	return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
