/* daemonize.h - --background: the command returns when the daemon is up.
 *
 * The process that the user started waits for the daemon's verdict and ends
 * with it: status 0 once the daemon answers requests, or its error message
 * and its exit status. So `mgpu-ctld --background && mgpu-submit ...` works,
 * and a start that fails is seen to fail (munge's daemonpipe).
 */
#ifndef MGPU_SCHEDULER_CTLD_STARTUP_DAEMONIZE_H
#define MGPU_SCHEDULER_CTLD_STARTUP_DAEMONIZE_H

#include <stdbool.h>

#include "jobs/base/error.h"

/* Returns in the daemon only, which has no terminal any more; standard error
 * still goes where it went until daemonize_ready().
 * err  the fork failed; this is still the first process */
int daemonize_start(struct error *err) MUST_CHECK;
/* Up: lets the first process end well, and sends standard output and error
 * to log_file from now on; in the foreground only when asked `always`. */
int daemonize_ready(const char *log_file, bool always,
                    struct error *err) MUST_CHECK;
/* The log of daemonize_ready() anew: somebody has moved it. What was open
 * stays when that fails, and without a log of ours nothing is done. */
int daemonize_reopen(struct error *err) MUST_CHECK;
/* The daemon did not start: the first process ends with this status. The caller
 * has written the cause to standard error. Does nothing without
 * daemonize_start(). */
void daemonize_failed(int status);

#endif
