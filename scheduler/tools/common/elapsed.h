/* elapsed.h - times of a job that go by while nothing is heard of it: until its
 * start, in its run, until its limit. */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_ELAPSED_H
#define MGPU_SCHEDULER_TOOLS_COMMON_ELAPSED_H

#include <jansson.h>
#include <stdbool.h>

/* Notes in the job when it was heard of. now_s is of a clock that nobody
 * sets. */
void going_note(json_t *job, double now_s);

/* Makes its times those of now. False: it has none that goes by. */
bool going_by(json_t *job, double now_s);

#endif
