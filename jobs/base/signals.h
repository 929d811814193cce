/* signals.h - reset inherited signal actions, and block users' signals until a
 * program handles them.
 *
 * Signals that a parent ignores stay ignored over exec(2): nohup ignores
 * SIGHUP, a shell's background job SIGINT and SIGQUIT, Python SIGPIPE. A user's
 * program must inherit neither our settings nor those. */
#ifndef MGPU_BASE_SIGNALS_H
#define MGPU_BASE_SIGNALS_H

#include "jobs/base/error.h"

/* Parses a signal that a user may send to a job: USR1, SIGUSR1, usr1 or its
 * number.
 * out  ret_name  "USR1"; static. NULL: not wanted
 * Returns the number, or -1 with
 * err  ERR_INVAL with the list of signals */
int signals_of_job(const char *text, const char **ret_name,
                   struct error *err) MUST_CHECK;

/* Sets every signal to its default action, and unblocks all. May be called
 * between fork(2) and exec(2): it only calls async-signal-safe functions. */
void signals_plain(void);

/* Blocks SIGUSR1, SIGUSR2 and SIGHUP, which a user may send to a job at any
 * time, and which end a process without a handler. They stay pending, also over
 * exec(2), until they are unblocked. */
void signals_hold_users(void);
void signals_let_users_in(void);

#endif
