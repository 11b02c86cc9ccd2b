/* SPDX-License-Identifier: MIT */
/* The slot of a command.
 *
 * It is read from the request as it goes out, so that whoever writes requests need not know of slots. All
 * requests are written by this library: scripts (EVAL… with a count of keys), commands whose second word is
 * the one key, and a few without any. What does not look like that has no slot. */
#include "topology/command_slot.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

/* CRC-16/XMODEM, as the cluster specification has it; four bits at a time. */
static uint16_t crc16(const char *data, size_t len) {
	unsigned crc = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned byte = (unsigned char)data[i];
		crc = (crc << 4) ^ ((crc >> 12 ^ byte >> 4) & 15) * 0x1021;
		crc &= 0xffff;
		crc = (crc << 4) ^ ((crc >> 12 ^ byte) & 15) * 0x1021;
		crc &= 0xffff;
	}
	return (uint16_t)crc;
}

int snecki_key_slot(const char *key, size_t len) {
	const char *open = memchr(key, '{', len);
	const char *close = open ? memchr(open, '}', len - (size_t)(open - key)) : NULL;

	if (close && close > open + 1)
		return crc16(open + 1, (size_t)(close - open - 1)) % SLOTS_N;
	return crc16(key, len) % SLOTS_N;
}

struct cursor {
	const char *at;
	size_t left;
};

/* "$5\r\nhello\r\n", or the "*3\r\n" before the first with `mark` '*'. */
static bool take_number(struct cursor *in, char mark, size_t *ret) {
	size_t i = 1, number = 0;

	if (in->left < 4 || in->at[0] != mark)
		return false;
	for (; i < in->left && in->at[i] >= '0' && in->at[i] <= '9'; i++)
		number = number * 10 + (size_t)(in->at[i] - '0');
	if (i == 1 || i + 2 > in->left)
		return false;
	in->at += i + 2;
	in->left -= i + 2;
	*ret = number;
	return true;
}

static bool take_word(struct cursor *in, const char **ret, size_t *ret_len) {
	if (!take_number(in, '$', ret_len) || *ret_len + 2 > in->left)
		return false;
	*ret = in->at;
	in->at += *ret_len + 2;
	in->left -= *ret_len + 2;
	return true;
}

static bool is_script(const char *word, size_t len) {
	return len >= 4 && strncasecmp(word, "eval", 4) == 0;
}

static bool has_no_key(const char *word, size_t len) {
	static const char *const words[] = { "PING", "INFO", "SCAN", "TIME", "CONFIG", "ACL", "CLUSTER",
		"PUBLISH", "ROLE", "WAIT", "COMMAND" };

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strlen(words[i]) == len && strncasecmp(word, words[i], len) == 0)
			return true;
	return false;
}

/* Behind EVAL and the script: a count, and so many keys. */
static int script_slot(struct cursor *in) {
	const char *word;
	size_t len, keys = 0;
	int slot = SLOT_ANY;

	if (!take_word(in, &word, &len) || !take_word(in, &word, &len))
		return SLOT_ANY;
	for (size_t i = 0; i < len; i++)
		keys = keys * 10 + (size_t)(word[i] - '0');
	for (; keys > 0 && take_word(in, &word, &len); keys--) {
		int one = snecki_key_slot(word, len);
		if (slot != SLOT_ANY && one != slot)
			return SLOT_SEVERAL;
		slot = one;
	}
	return slot;
}

int snecki_command_slot(const char *resp, size_t len) {
	struct cursor in = { resp, len };
	const char *word;
	size_t words, word_len;

	if (!take_number(&in, '*', &words) || !take_word(&in, &word, &word_len))
		return SLOT_ANY;
	if (is_script(word, word_len))
		return script_slot(&in);
	if (has_no_key(word, word_len) || !take_word(&in, &word, &word_len))
		return SLOT_ANY;
	return snecki_key_slot(word, word_len);
}
