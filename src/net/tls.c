/* SPDX-License-Identifier: MIT */
/* TLS by OpenSSL.
 *
 * Verified: the chain, against the CA file of the URL or the system's store, and the name, which is the
 * host of the URL (or its `servername`). TLS 1.2 is the least. Each way of being refused has its own text,
 * because each has its own remedy.
 *
 * The stream reads and writes the socket itself (a BIO of our own): OpenSSL's would use write(), which raises
 * SIGPIPE when the server has gone, and a library must not do that to a program. It also takes from the
 * socket what is there, where OpenSSL would ask twice for each record. Nobody can poll for what it has taken:
 * whoever receives goes on until nothing is left here. */
#include "net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/err.h"
#include "net/url.h"

struct tls_context {
	SSL_CTX *ctx;
	BIO_METHOD *socket;
	bool verify;
	bool passphrase_wanted; /* a key file was locked */
};

struct tls {
	pthread_mutex_t mutex;
	SSL *ssl;
	int fd;
	int error, sys_errno; /* of what failed last, for snecki_tls_why */
	bool drained;         /* the last look at the socket took all that there was */
};

/* ---- The socket ---------------------------------------------------------------------------------*/

static int bio_result(BIO *bio, ssize_t n, int retry_flag) {
	BIO_clear_retry_flags(bio);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS))
		BIO_set_flags(bio, retry_flag | BIO_FLAGS_SHOULD_RETRY);
	return (int)n;
}

static int bio_write(BIO *bio, const char *data, int len) {
	const struct tls *tls = BIO_get_data(bio);
	return bio_result(
	        bio, send(tls->fd, data, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT), BIO_FLAGS_WRITE);
}

static int bio_read(BIO *bio, char *data, int len) {
	struct tls *tls = BIO_get_data(bio);
	ssize_t n = recv(tls->fd, data, (size_t)len, MSG_DONTWAIT);

	tls->drained = n < len;
	return bio_result(bio, n, BIO_FLAGS_READ);
}

static long bio_ctrl(BIO *bio, int command, long number, void *data) {
	(void)bio;
	(void)number;
	(void)data;
	return command == BIO_CTRL_FLUSH;
}

static int bio_create(BIO *bio) {
	BIO_set_init(bio, 1);
	return 1;
}

static BIO_METHOD *new_socket_method(void) {
	BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "sneck socket");

	if (!method)
		return NULL;
	BIO_meth_set_write(method, bio_write);
	BIO_meth_set_read(method, bio_read);
	BIO_meth_set_ctrl(method, bio_ctrl);
	BIO_meth_set_create(method, bio_create);
	return method;
}

/* ---- The context --------------------------------------------------------------------------------*/

/* What OpenSSL has to say about the last failure; its queue is this thread's, and emptied. */
static const char *last_reason(void) {
	unsigned long code = ERR_peek_last_error();
	const char *reason = code ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	return reason ? reason : "no reason was given";
}

/* OpenSSL's own words for a file that cannot be opened are "system lib". */
static int bad_file(const char *what, const char *path, struct sneck_error *reterr) {
	struct stat info;
	int fd = open(path, O_RDONLY | O_CLOEXEC), sys_errno = fd < 0 ? errno : 0;

	if (fd >= 0 && fstat(fd, &info) == 0 && S_ISDIR(info.st_mode))
		sys_errno = EISDIR;
	if (fd >= 0)
		close(fd);
	if (sys_errno) {
		ERR_clear_error();
		return snecki_err_sys(reterr, SNECK_EINVAL, sys_errno, "TLS: cannot read %s %s", what, path);
	}
	return snecki_err(reterr, SNECK_EINVAL, "TLS: cannot use %s %s: %s", what, path, last_reason());
}

static int load_trust(struct tls_context *context, const struct url *url, struct sneck_error *reterr) {
	if (url->ca && SSL_CTX_load_verify_file(context->ctx, url->ca) != 1)
		return bad_file("the CA file", url->ca, reterr);
	if (!url->ca && SSL_CTX_set_default_verify_paths(context->ctx) != 1)
		return snecki_err(reterr, SNECK_ESYS,
		        "TLS: the system's certificate store cannot be read (%s); name a file with ca=",
		        last_reason());
	return 0;
}

static int load_identity(struct tls_context *context, const struct url *url, struct sneck_error *reterr) {
	if (!url->cert && !url->key)
		return 0;
	if (!url->cert || !url->key)
		return snecki_err(
		        reterr, SNECK_EINVAL, "TLS: a client certificate needs both files, cert= and key=");
	if (SSL_CTX_use_certificate_chain_file(context->ctx, url->cert) != 1)
		return bad_file("the client certificate", url->cert, reterr);
	bool used = SSL_CTX_use_PrivateKey_file(context->ctx, url->key, SSL_FILETYPE_PEM) == 1;
	if (used && SSL_CTX_check_private_key(context->ctx) == 1)
		return 0;
	if (used || ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH) {
		ERR_clear_error();
		return snecki_err(reterr, SNECK_EINVAL,
		        "TLS: the key %s does not belong to the certificate %s", url->key, url->cert);
	}
	if (context->passphrase_wanted) {
		ERR_clear_error();
		return snecki_err(reterr, SNECK_EINVAL,
		        "TLS: the client's key %s is locked by a passphrase; use one without, which nobody "
		        "else can read",
		        url->key);
	}
	return bad_file("the client's key", url->key, reterr);
}

/* A key that is protected by a passphrase cannot be used: never ask at the terminal. */
static int no_passphrase(char *buffer, int size, int writing, void *ctx) {
	struct tls_context *context = ctx;

	(void)buffer;
	(void)size;
	(void)writing;
	context->passphrase_wanted = true;
	return -1;
}

static void set_rules(struct tls_context *context) {
	SSL_CTX_set_min_proto_version(context->ctx, TLS1_2_VERSION);
	SSL_CTX_set_options(context->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(context->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_read_ahead(context->ctx, 1);
	SSL_CTX_set_verify(context->ctx, context->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
	SSL_CTX_set_default_passwd_cb(context->ctx, no_passphrase);
	SSL_CTX_set_default_passwd_cb_userdata(context->ctx, context);
}

int snecki_tls_context_new(const struct url *url, struct tls_context **ret, struct sneck_error *reterr) {
	struct tls_context *context = calloc(1, sizeof *context);

	ERR_clear_error();
	if (context) {
		context->ctx = SSL_CTX_new(TLS_client_method());
		context->socket = new_socket_method();
	}
	if (!context || !context->ctx || !context->socket) {
		snecki_tls_context_free(context);
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	}
	context->verify = !url->verify_none;
	set_rules(context);
	int r = context->verify ? load_trust(context, url, reterr) : 0;
	if (r == 0)
		r = load_identity(context, url, reterr);
	if (r < 0) {
		snecki_tls_context_free(context);
		return r;
	}
	*ret = context;
	return 0;
}

void snecki_tls_context_free(struct tls_context *context) {
	if (!context)
		return;
	SSL_CTX_free(context->ctx);
	BIO_meth_free(context->socket);
	free(context);
}

/* ---- The stream ---------------------------------------------------------------------------------*/

static bool is_address(const char *name) {
	unsigned char bytes[sizeof(struct in6_addr)];
	return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

/* Whose certificate it must be. A name is also said to the server, which may have several. */
static bool set_name(SSL *ssl, const char *name) {
	X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

	if (is_address(name))
		return X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1;
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return X509_VERIFY_PARAM_set1_host(param, name, 0) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

int snecki_tls_new(struct tls_context *context, int fd, const char *name, struct tls **ret) {
	struct tls *tls = calloc(1, sizeof *tls);

	if (!tls)
		return SNECK_ENOMEM;
	tls->fd = fd;
	tls->ssl = SSL_new(context->ctx);
	BIO *bio = BIO_new(context->socket);
	if (!tls->ssl || !bio || !set_name(tls->ssl, name)) {
		BIO_free(bio);
		SSL_free(tls->ssl);
		free(tls);
		ERR_clear_error();
		return SNECK_ENOMEM;
	}
	BIO_set_data(bio, tls);
	SSL_set_bio(tls->ssl, bio, bio); /* which owns it from here on */
	SSL_set_connect_state(tls->ssl);
	pthread_mutex_init(&tls->mutex, NULL);
	*ret = tls;
	return 0;
}

void snecki_tls_free(struct tls *tls) {
	if (!tls)
		return;
	SSL_free(tls->ssl);
	pthread_mutex_destroy(&tls->mutex);
	free(tls);
}

/* ---- Refusals -----------------------------------------------------------------------------------*/

static int bad_certificate(
        const struct tls *tls, long verdict, const char *where, struct sneck_error *reterr) {
	const char *what;

	(void)tls;
	switch (verdict) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		what = "it is for another name; connect by the name that it has, or say servername=";
		break;
	case X509_V_ERR_CERT_HAS_EXPIRED:
		what = "it has expired; the server needs a new one";
		break;
	case X509_V_ERR_CERT_NOT_YET_VALID:
		what = "it is not valid yet; is this machine's clock right?";
		break;
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
		what = "it is signed by itself alone; name it with ca= if it is the right one";
		break;
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
		what = "it is signed by an authority that is not trusted here; name that one's file with ca=";
		break;
	default:
		what = X509_verify_cert_error_string(verdict);
	}
	ERR_clear_error();
	return snecki_err(reterr, SNECK_ECONN, "TLS: the certificate of %s is refused: %s", where, what);
}

/* OpenSSL has an error in its queue. */
static int refused(const char *where, struct sneck_error *reterr) {
	unsigned long code = ERR_peek_error();
	int reason = ERR_GET_REASON(code);

	switch (reason) {
	case SSL_R_WRONG_VERSION_NUMBER:
	case SSL_R_HTTP_REQUEST:
	case SSL_R_PACKET_LENGTH_TOO_LONG:
		ERR_clear_error();
		return snecki_err(reterr, SNECK_ECONN,
		        "TLS: %s does not speak TLS on this port; use redis:// or the server's tls-port",
		        where);
	case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
	case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
	case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
	case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
	case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
		return snecki_err(reterr, SNECK_EACCES,
		        "TLS: %s refuses this client (%s); does it want a certificate? See cert= and key=",
		        where, last_reason());
	case SSL_R_UNSUPPORTED_PROTOCOL:
	case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
		ERR_clear_error();
		return snecki_err(reterr, SNECK_ECONN, "TLS: %s speaks no version from 1.2 on", where);
	default:
		return snecki_err(reterr, SNECK_ECONN, "TLS with %s failed: %s", where, last_reason());
	}
}

static int broken(
        const struct tls *tls, int error, int sys_errno, const char *where, struct sneck_error *reterr) {
	long verdict = SSL_get_verify_result(tls->ssl);

	if (error == SSL_ERROR_SSL && verdict != X509_V_OK &&
	        SSL_get_verify_mode(tls->ssl) != SSL_VERIFY_NONE)
		return bad_certificate(tls, verdict, where, reterr);
	if (error == SSL_ERROR_SSL && ERR_GET_REASON(ERR_peek_error()) != SSL_R_UNEXPECTED_EOF_WHILE_READING)
		return refused(where, reterr);
	ERR_clear_error();
	if (error == SSL_ERROR_SYSCALL && sys_errno)
		return snecki_err_sys(reterr, SNECK_ECONN, sys_errno, "the connection to %s broke", where);
	return snecki_err(reterr, SNECK_ECONN,
	        "the server %s closed the connection; did it stop, or was this client killed there?", where);
}

/* ---- Input and output ---------------------------------------------------------------------------*/

/* SSL_get_error goes by what is in the thread's queue, whoever has left it there. Nearly always nobody has,
 * and emptying an empty one costs as much as a tenth of a record. */
static void forget_errors(void) {
	if (ERR_peek_error())
		ERR_clear_error();
	errno = 0;
}

int snecki_tls_handshake(struct tls *tls, short *ret_events, const char *where, struct sneck_error *reterr) {
	forget_errors();
	int done = SSL_do_handshake(tls->ssl);
	int sys_errno = errno;
	if (done == 1)
		return 1;
	int error = SSL_get_error(tls->ssl, done);
	if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
		*ret_events = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
		return 0;
	}
	if (error == SSL_ERROR_SYSCALL ||
	        ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
		ERR_clear_error();
		return snecki_err(reterr, SNECK_ECONN,
		        "TLS: %s ended the connection in the middle of the handshake; does it speak TLS on "
		        "this port?",
		        where);
	}
	return broken(tls, error, sys_errno, where, reterr);
}

ssize_t snecki_tls_send(struct tls *tls, const char *data, size_t len) {
	size_t n = 0;

	pthread_mutex_lock(&tls->mutex);
	forget_errors();
	int ok = SSL_write_ex(tls->ssl, data, len, &n);
	int error = ok ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, 0);
	pthread_mutex_unlock(&tls->mutex);
	if (ok)
		return (ssize_t)n;
	ERR_clear_error();
	if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
		return 0;
	if (!errno)
		errno = EPIPE;
	return -1;
}

ssize_t snecki_tls_receive(struct tls *tls, char *data, size_t len, bool *ret_more) {
	size_t n = 0;

	pthread_mutex_lock(&tls->mutex);
	forget_errors();
	bool failed = false;
	if (!SSL_read_ex(tls->ssl, data, len, &n)) {
		tls->sys_errno = errno;
		tls->error = SSL_get_error(tls->ssl, 0);
		failed = tls->error != SSL_ERROR_WANT_READ && tls->error != SSL_ERROR_WANT_WRITE;
	}
	*ret_more = n > 0 && (!tls->drained || SSL_has_pending(tls->ssl));
	pthread_mutex_unlock(&tls->mutex);
	return failed ? -1 : (ssize_t)n;
}

int snecki_tls_why(const struct tls *tls, const char *where, struct sneck_error *reterr) {
	return broken(tls, tls->error, tls->sys_errno, where, reterr);
}
