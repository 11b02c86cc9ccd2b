/* SPDX-License-Identifier: MIT */
/* Is this server fit for locks? */
#include "api/api.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "client/probe.h"

int sneck_probe(sneck_client *client, sneck_probe_info *ret_info, sneck_error *reterr) {
	static const sneck_probe_info unknown = SNECK_PROBE_INFO_INIT;

	if (!client || !ret_info)
		return snecki_err(reterr, SNECK_EINVAL, "%s is NULL", client ? "ret_info" : "client");
	if (ret_info->size != sizeof *ret_info)
		return snecki_err(reterr, SNECK_EINVAL, "sneck_probe_info.size is wrong");
	int r = snecki_client_enter(client, snecki_after_ms(snecki_now_ns(), client->command_ms), reterr);
	if (r < 0)
		return r;
	sneck_probe_info info = unknown;
	info.wanted = ret_info->wanted ? ret_info->wanted : ~0u;
	info.node = ret_info->node;
	r = snecki_probe(client, &info, reterr);
	snecki_client_leave(client);
	if (r == 0) {
		*ret_info = info;
	} else { /* who else could be asked, and who was */
		ret_info->nodes = info.nodes;
		memcpy(ret_info->where, info.where, sizeof info.where);
	}
	return r;
}
