/* audit_log.h - what administrators do to the daemon itself, kept for good.
 *
 * <state_dir>/admin.log is JSON Lines, one per deed: {"at":..,"uid":..,
 * "do":"pause","detail":{..}}. What is done to jobs is an event of the job and
 * not here. A line is on disk before the deed is answered, and the daemon
 * reads them when it starts: what was paused stays paused. A last line that
 * was cut by a crash was never answered, and is taken away.
 */
#ifndef MGPU_SCHEDULER_CTLD_MAINTENANCE_AUDIT_LOG_H
#define MGPU_SCHEDULER_CTLD_MAINTENANCE_AUDIT_LOG_H

#include <jansson.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct audit;

/* Calls each() for every deed so far, in order.
 * err  ERR_IO it cannot be read, or a line is none; line and file are named */
int audit_open(const char *state_dir,
               void (*each)(void *arg, const json_t *deed), void *arg,
               struct audit **ret, struct error *err) MUST_CHECK;
void audit_close(struct audit *a); /* NULL is fine */

/* Tells each() what would keep a daemon from starting: 0 or 1 findings. Changes
 * nothing; a file that is not there is fine. */
int audit_check(const char *state_dir,
                void (*each)(void *arg, const char *finding), void *arg);

/* Durable when 0; else as if it had not been called.
 * in   detail  taken, also on failure; NULL: none */
int audit_add(struct audit *a, double at_s, int64_t uid, const char *deed,
              json_t *detail, struct error *err) MUST_CHECK;

/* The last n as an array, in order; NULL without memory, or with err. */
json_t *audit_last(const struct audit *a, int64_t n, struct error *err);

#endif
