/* screen.h - full-screen mode: the alternate screen, no echo, and the way back.
 * One at a time.
 */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_SCREEN_H
#define MGPU_SCHEDULER_TOOLS_COMMON_SCREEN_H

#include <stdio.h>

#include "jobs/base/error.h"

/* Call it before other threads are started: from here on none of them receives
 * SIGINT, SIGTERM, SIGHUP or SIGQUIT.
 * in   out     flushed, and a terminal
 *      on_end  called by a separate thread when the user quits (q, Ctrl-C,
 * Ctrl-D; signo 0), or a signal arrives err  ERR_USAGE not a terminal, or one
 * without an alternate screen; ERR_IO */
int screen_enter(FILE *out, void (*on_end)(void *arg, int signo), void *arg,
                 struct error *err) MUST_CHECK;
/* Restores the terminal. Nothing may be written to it meanwhile, and on_end()
 * is not called any more; a second call does nothing. */
void screen_leave(void);
/* Call it from on_end(), after screen_leave(): ends the program as the signal
 * would have; status 0 without a signal. */
_Noreturn void screen_exit(int signo);

/* Draws a text from the top of the screen. Each line overwrites the old one and
 * the rest is cleared, so that nothing flickers. It must not have more lines
 * than the screen, or the screen would scroll. */
void screen_put(const char *long_text, int columns, int rows, FILE *out);

#endif
