/* what_if.h - a smaller request with which a pending job would start now, and
 * its expected start. */
#ifndef MGPU_SCHEDULER_ENGINE_WHAT_IF_H
#define MGPU_SCHEDULER_ENGINE_WHAT_IF_H

#include "scheduler/engine/engine.h"

/* One change of a job's request. */
struct engine_change {
    int32_t gpus, nodes; /* allocation with which it starts; nodes 0: none */
    double limit_s;      /* for a change of the time limit */
    char partition[64];  /* for a change of the partition */
};
struct engine_what_if {
    /* The largest number of GPUs below its minimum, the longest shorter limit,
     * another partition; each change alone. */
    struct engine_change gpus, limit, partition;
    /* Expected start if the running jobs continue as they do, on the engine's
     * clock; NAN unknown, or no sooner than by their limits. The middle between
     * the fastest and the slowest known run times (runtime_history.h), and the
     * distance to both; NAN with only one of them. */
    double expected_s, within_s;
    int32_t n_running, n_measured; /* running jobs; those whose measured
                                      speed lets them end before their limits */
    /* "Fragmented: ...", if enough GPUs are free, but not on as few nodes as
     * it requires; also of a job that is pending in the allocator. Or "". */
    char fragmented[JOB_REASON_CAP];
};
/* The change with which the policy would start a queued job at once if it were
 * cancelled and submitted again, behind all others of its priority. None for a
 * job that does not wait for devices. Changes nothing and asks no allocator:
 * the nodes are those of the last inventory.
 * err  ERR_NOMEM */
int engine_what_if(struct engine *e, const struct job *job,
                   struct engine_what_if *ret, struct error *err) MUST_CHECK;

#endif
