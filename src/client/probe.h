/* SPDX-License-Identifier: MIT */
/* Is the server fit for locks? The call is between snecki_client_enter and snecki_client_leave. */
#ifndef SNECK_CLIENT_PROBE_H
#define SNECK_CLIENT_PROBE_H

#include "client/client.h"

/* Fills what `ret->wanted` asks for. */
int snecki_probe(sneck_client *client, sneck_probe_info *ret, sneck_error *reterr);
/* Thread: background. A message on the session's channel; true: it was the probe's own. */
bool snecki_probe_heard(sneck_client *client, const char *payload, size_t len);

#endif
