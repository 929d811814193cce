/* run_groups.h - the figures of a simulation by size of jobs and by user. */
#ifndef MGPU_SCHEDULER_SIM_OUTPUT_RUN_GROUPS_H
#define MGPU_SCHEDULER_SIM_OUTPUT_RUN_GROUPS_H

#include <jansson.h>

#include "scheduler/sim/run/sim_run.h"

/* Sizes of jobs by the GPUs that the trace asks for: 1, 2-4, 5-8, 9-32, more.
 */
enum { RUN_SIZES = 5 };

/* Means over completed jobs; NAN without any. */
struct run_group {
    size_t jobs;
    double jct_s, wait_s, slowdown, fairness;
};

struct run_groups {
    struct run_group sizes[RUN_SIZES];
    /* Jain's index of the users' mean fairness: 1 if all fare alike, 1/n if one
     * of n bears all; NAN with less than two users. */
    double jain;
    json_t *users; /* owned: {"anna": {"jobs": 3, "jct_s": ...}, ...} */
};

/* in   o  NULL: of what was recorded
 * own  json_decref(ret->users) */
int run_groups_make(const struct sim_conf *conf, const struct sim_output *o,
                    struct run_groups *ret, struct error *err) MUST_CHECK;
/* [{"size": "2-4 GPUs", "jobs": 3, "jct_s": ..., ...}, ...] of sizes with jobs.
 * NULL: memory is short */
json_t *run_groups_sizes_json(const struct run_groups *g);

#endif
