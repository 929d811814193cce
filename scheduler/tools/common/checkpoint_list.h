/* checkpoint_list.h - the checkpoints of a job that this machine can see. */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_CHECKPOINT_LIST_H
#define MGPU_SCHEDULER_TOOLS_COMMON_CHECKPOINT_LIST_H

#include <jansson.h>

enum { CHECKPOINT_PATH_CAP = 1200 };

/* in   job  with its "spec" and "dir"
 * out  newest  "": none visible;  best  the same */
void checkpoint_find(const json_t *job, char newest[CHECKPOINT_PATH_CAP],
                     char best[CHECKPOINT_PATH_CAP]);

#endif
