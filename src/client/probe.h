/* SPDX-License-Identifier: MIT */
/* Is the server fit for locks? The call is between snecki_client_enter and snecki_client_leave. */
#ifndef SNECK_CLIENT_PROBE_H
#define SNECK_CLIENT_PROBE_H

#include "client/client.h"

struct asks;

/* Fills what `ret->wanted` asks for. */
int snecki_probe(sneck_client *client, sneck_probe_info *ret, sneck_error *reterr);
/* probe_topology.c: what a failover needs. */
int snecki_probe_topology(sneck_client *client, sneck_probe_info *ret, sneck_error *reterr);
/* A call was refused for want of a right inside a script: add to the text which one it is, if that is to be
 * found out. */
void snecki_probe_name_missing(sneck_client *client, sneck_error *reterr);
/* Ask the server that `info` is about. Each question is a list of words that ends with NULL. The answers, to
 * be freed; NULL: there is none, `*ret_code` says why. */
struct asks *snecki_probe_ask(sneck_client *client, const sneck_probe_info *info,
        const char *const *const *questions, size_t n, int *ret_code, sneck_error *reterr);
/* Thread: background. A message on the session's channel; true: it was the probe's own. */
bool snecki_probe_heard(sneck_client *client, const char *payload, size_t len);

#endif
