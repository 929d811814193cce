/* screen.h - all of a terminal for a while: the other screen, without what is
 * typed on it, and the way back. One at a time. */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_SCREEN_H
#define MGPU_SCHEDULER_TOOLS_COMMON_SCREEN_H

#include <stdio.h>

#include "jobs/base/error.h"

/* Before the other threads are started: from here on none of them takes
 * SIGINT, SIGTERM, SIGHUP or SIGQUIT.
 * in   out     flushed, and a terminal
 *      on_end  called by a thread of its own when the user wants to go (q,
 *              Ctrl-C, Ctrl-D; signo 0), or a signal says so
 * err  ERR_USAGE it is no terminal, or one that cannot; ERR_IO */
int screen_enter(FILE *out, void (*on_end)(void *arg, int signo), void *arg,
                 struct error *err) MUST_CHECK;
/* As it was before. Nothing may be written to it meanwhile, and on_end() is
 * not called any more; of a second call nothing comes. */
void screen_leave(void);
/* From on_end(), after screen_leave(): ends the program as the signal would
 * have, without one with status 0. */
_Noreturn void screen_exit(int signo);

/* A text from the top, on any screen: each line over the old one and the rest
 * of it away, so that nothing is seen to vanish. No more lines than the screen
 * has, or it would roll. */
void screen_put(const char *long_text, int columns, int rows, FILE *out);

#endif
