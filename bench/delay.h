/* SPDX-License-Identifier: MIT */
/* A line on a port of 127.0.0.1 that takes its time: bytes arrive as they were sent, only later. It looks at
 * none of them, so it costs little beside what is measured behind it. */
#ifndef SNECK_BENCH_DELAY_H
#define SNECK_BENCH_DELAY_H

struct delay_line;

/* Lines to this Unix socket; a failure ends the program. */
struct delay_line *delay_line_start(const char *socket_path, int *ret_port);
void delay_line_stop(struct delay_line *line);
void delay_line_set(struct delay_line *line, int ms);   /* for what is sent from now on */
double delay_line_cpu_s(const struct delay_line *line); /* processor time that it has taken */
void delay_line_cut(struct delay_line *line);           /* all connections there are */

#endif
