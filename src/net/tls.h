/* SPDX-License-Identifier: MIT */
/* TLS: what a client trusts and shows (one context for all its connections), and the encrypted stream over
 * one socket. Nothing here blocks.
 *
 * One thread may send while another receives, as on a plain socket: OpenSSL allows one at a time, so a
 * stream has a mutex, which is never held across a wait. */
#ifndef SNECK_NET_TLS_H
#define SNECK_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct sneck_error;
struct tls;
struct tls_context;
struct url;

/* From the URL: CA file or system store, client certificate, whether to verify. SNECK_EINVAL: a file cannot
 * be used; the text names it and says why. */
int snecki_tls_context_new(const struct url *url, struct tls_context **ret, struct sneck_error *reterr);
void snecki_tls_context_free(struct tls_context *context);

/* `name` is what the server's certificate must be for: a host name or an address. */
int snecki_tls_new(struct tls_context *context, int fd, const char *name, struct tls **ret);
void snecki_tls_free(struct tls *tls);
/* Go on with the handshake. 1: done. 0: not yet; `*ret_events` is what to poll for. Negative: refused, by us
 * or by the server; `where` is for the text. */
int snecki_tls_handshake(struct tls *tls, short *ret_events, const char *where, struct sneck_error *reterr);

/* As send() and recv() without waiting: how many bytes; 0: none now (receive: also never the end); -1: the
 * stream is broken. `*ret_more`: there is more at hand, which poll would not tell. */
ssize_t snecki_tls_send(struct tls *tls, const char *data, size_t len);
ssize_t snecki_tls_receive(struct tls *tls, char *data, size_t len, bool *ret_more);
/* Why it returned -1, by the same thread. Returns the code. */
int snecki_tls_why(const struct tls *tls, const char *where, struct sneck_error *reterr);

#endif
