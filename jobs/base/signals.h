/* signals.h - the signals that a process is born with, and those that wait.
 *
 * What a parent ignores stays ignored over exec(2): nohup ignores SIGHUP, a
 * shell's background job SIGINT and SIGQUIT, Python SIGPIPE. A program of
 * somebody else must not get ours, nor those.
 */
#ifndef MGPU_BASE_SIGNALS_H
#define MGPU_BASE_SIGNALS_H

#include "jobs/base/error.h"

/* Those that a user may send to a job: USR1, SIGUSR1, usr1 or its number.
 * out  ret_name  "USR1"; static. NULL: not wanted
 * Returns the number, or -1 with
 * err  ERR_INVAL it names them all */
int signals_of_job(const char *text, const char **ret_name,
                   struct error *err) MUST_CHECK;

/* Every signal with its default action, and none blocked. Between fork(2) and
 * exec(2) allowed: it calls only what is async-signal-safe. */
void signals_plain(void);

/* SIGUSR1, SIGUSR2 and SIGHUP, which a user may send to a job at any moment,
 * and which end a process that does not listen yet. They wait, over exec(2)
 * too, until they are let in. */
void signals_hold_users(void);
void signals_let_users_in(void);

#endif
