/* SPDX-License-Identifier: MIT */
#ifndef SNECK_BASE_LOG_H
#define SNECK_BASE_LOG_H

/* Where a client's log lines go. Levels are those of sneck_log_level; no secret ever gets here. */
struct log {
	void (*fn)(void *ctx, int level, const char *text); /* NULL: silent */
	void *ctx;
	int level;
};
enum { LOG_ERROR_ = 1, LOG_WARN_ = 2, LOG_INFO_ = 3, LOG_DEBUG_ = 4 };

void snecki_log(const struct log *log, int level, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

#endif
