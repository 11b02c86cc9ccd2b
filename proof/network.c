/* SPDX-License-Identifier: MIT */
/* A network namespace in which packets get lost without a sound.
 *
 * A rule that says "blackhole" is not silent: connect() fails at once where it applies, and whoever connects
 * is better off than one whose packets are lost. So what shall be lost is sent somewhere: to a device whose
 * other end throws away what is addressed to the loopback network. Connections that are there stall, and new
 * ones are not answered, as with a cable that is cut.
 *
 * What is local is looked up after these rules, so that they come first. The namespace ends with the last
 * process in it. */
#include "network.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { COMMAND_MAX = 200, FIRST_RULE = 10, RULES_MAX = 80, TABLE = 77 };

static int rules;

static bool runs(const char *command) {
	return system(command) == 0;
}

/* A sender with a loopback address may use this device only by this leave. */
static bool let_loopback_out(void) {
	FILE *file = fopen("/proc/sys/net/ipv4/conf/void/route_localnet", "we");
	bool written = file && fputs("1", file) >= 0;
	return file && fclose(file) == 0 && written;
}

static bool make_void(void) {
	char command[COMMAND_MAX];
	snprintf(command, sizeof(command), "ip route add 127.0.0.0/8 dev void table %d", TABLE);
	return runs("ip link add void type veth peer name void-end") && runs("ip link set void-end up") &&
	       runs("ip link set void arp off up") && let_loopback_out() && runs(command);
}

bool network_enter(void) {
	static bool tried, entered;
	if (!tried)
		entered = unshare(CLONE_NEWNET) == 0 && runs("ip link set lo up") &&
		          runs("ip rule add pref 100 lookup local") && runs("ip rule del pref 0") &&
		          make_void();
	tried = true;
	return entered;
}

bool network_lose(const char *selector, ...) {
	char command[COMMAND_MAX];
	va_list args;
	if (rules == RULES_MAX)
		return false;
	int n = snprintf(
	        command, sizeof(command), "ip rule add pref %d lookup %d ", FIRST_RULE + rules, TABLE);
	va_start(args, selector);
	vsnprintf(command + n, sizeof(command) - (size_t)n, selector, args);
	va_end(args);
	if (!runs(command))
		return false;
	rules++;
	return true;
}

void network_heal(void) {
	char command[COMMAND_MAX];
	while (rules > 0) {
		snprintf(command, sizeof(command), "ip rule del pref %d", FIRST_RULE + --rules);
		if (!runs(command))
			fprintf(stderr, "\nthe network is not healed: %s\n", command);
	}
}
