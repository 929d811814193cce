/* audit_log.h - a permanent log of what administrators do to the daemon.
 *
 * <state_dir>/admin.log is JSON Lines, one for each action: {"at":..,"uid":..,
 * "do":"pause","detail":{..}}. An action on a job is an event of the job and is
 * not here. A line is on disk before the request is answered, and the daemon
 * reads all lines when it starts: a daemon that was paused is paused again. A
 * last line that a crash has cut was never answered, and is removed.
 */
#ifndef MGPU_SCHEDULER_CTLD_MAINTENANCE_AUDIT_LOG_H
#define MGPU_SCHEDULER_CTLD_MAINTENANCE_AUDIT_LOG_H

#include <jansson.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct audit_log;

/* Calls each() for every line so far, in order.
 * err  ERR_IO the file cannot be read, or a line is not valid; the error names
 *      both */
int audit_log_open(const char *state_dir,
                   void (*each)(void *arg, const json_t *record), void *arg,
                   struct audit_log **ret, struct error *err) MUST_CHECK;
void audit_log_close(struct audit_log *a); /* NULL is fine */

/* Calls each() with what would keep a daemon from starting: 0 or 1 findings.
 * Changes nothing; a missing file is fine. */
int audit_log_check(const char *state_dir,
                    void (*each)(void *arg, const char *finding), void *arg);

/* Appends a line. It is durable when this returns 0; else nothing has changed.
 * in   detail  consumed, also on failure; NULL: none */
int audit_log_add(struct audit_log *a, double at_s, int64_t uid,
                  const char *action, json_t *detail,
                  struct error *err) MUST_CHECK;

/* The last n lines as an array, in order; NULL: err says why. */
json_t *audit_log_last(const struct audit_log *a, int64_t n, struct error *err);

#endif
