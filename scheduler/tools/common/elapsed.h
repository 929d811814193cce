/* elapsed.h - relative times of a job that advance between two updates: until
 * its start, since its start, until its limit.
 */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_ELAPSED_H
#define MGPU_SCHEDULER_TOOLS_COMMON_ELAPSED_H

#include <jansson.h>
#include <stdbool.h>

/* Records the times of a job that was just received. now_s is on a monotonic
 * clock. */
void elapsed_note(json_t *job, double now_s);

/* Advances the times to now_s. False: the job has no time that advances. */
bool elapsed_by(json_t *job, double now_s);

#endif
