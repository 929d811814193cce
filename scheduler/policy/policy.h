/* policy.h - what a scheduling policy sees, and what it may request.
 *
 * A policy is a pure function from a view of the cluster to a list of
 * decisions. It reads no clock, no file and no global, logs nothing and keeps
 * nothing between calls, so the daemon and the simulator run the same object
 * code and any decision in production can be replayed from a logged view.
 */
#ifndef MGPU_SCHEDULER_POLICY_H
#define MGPU_SCHEDULER_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/state.h"
#include "scheduler/policy/goodput.h"

/* Nodes that differ in nothing but their size are of one class. A mask says
 * which classes a job may use, bit i for class i. */
enum { POLICY_CLASSES = 64 };
#define POLICY_ANY_CLASS UINT64_MAX

struct policy_node {
    int32_t gpus_total, gpus_free;
    int32_t is_up;
    int32_t class_id;  /* 0..63 */
    int32_t is_wanted; /* on a shared cluster: others wait for its GPUs */
    /* A machine with GPUs of several types is n_parts nodes in a row; this one
     * is the part-th from 0. Else 0. The parts share the CPUs and memory of the
     * machine: shared_total of part 0 is the number of GPUs, of any type, that
     * these suffice for, and shared_free is how many more of them. */
    int32_t part, n_parts, shared_total, shared_free;
};

struct policy_job {
    uint64_t id;
    enum job_state state; /* QUEUED, or live */
    int32_t priority;     /* higher goes first */
    int32_t user;         /* number of its user, from 1; 0: not known */
    int32_t user_rank;    /* of users, by what they used lately: less goes first
                             within a priority. 0 for all without fair share */
    int32_t gpus_min, gpus_max; /* total that the job accepts */
    int32_t nodes_min, nodes_max;
    int32_t per_node; /* GPUs on each node; 0: any number */
    int32_t parts;    /* the number of GPUs divides it (gpu_sizes.h); 0: any */
    uint64_t classes; /* that it may use now */
    uint64_t classes_ever; /* and those that are closed to it for a while,
                              for example by a reservation */
    /* All of its nodes must be in one of these sets of classes, tried in this
     * order; n_sets 0: any nodes. Borrowed. */
    const uint64_t *sets;
    size_t n_sets;
    int32_t is_exclusive;    /* 1: shares its nodes with no other job, and takes
                                all of their GPUs */
    int32_t gpus;            /* allocated now, in all; 0 while queued */
    int32_t nodes;           /* number of nodes of the allocation */
    const int32_t *at;       /* [nodes] indexes into the view's nodes, borrowed;
                                NULL: unknown, or queued */
    int32_t is_promised;     /* 1: requested from the allocator and not granted;
                                `at` is where it would go now */
    double submit_s;         /* seconds on the view's clock */
    double start_s;          /* of the running attempt; NAN while queued */
    double limit_s;          /* time limit; INFINITY: none */
    double left_s;           /* estimate of run time left, or NAN */
    int32_t has_reservation; /* queued: other jobs were preempted for it, and it
                        has not started since. Such jobs go before all others */

    int32_t is_back; /* it gave its GPUs up for a size that was not granted,
                        and is to have its old size again: it goes before all
                        but those */

    /* A resize under way, of a live job that leaves or a queued one: the size
     * of the next attempt. The ranges above have no other then. to_gpus 0:
     * none; to_nodes 0: any number. */
    int32_t to_gpus, to_nodes;
    int32_t may_resize; /* live: it saves its work when it is told to stop, and
                           may have another number of GPUs */
    double cost_s;      /* live: what a resize of such a job took lately, from
                           the word to stop to the next iteration; NAN */
    struct policy_job_goodput goodput;
    /* Since when nothing but GPUs keeps it from running: its slowdown counts
     * from then. Before submit_s: from its submit. */
    double eligible_s;

    /* For a live job; see preempt.h. */
    int32_t may_go;      /* preemptible: kind and state allow preemption (the
                            limits are checked separately) */
    int32_t is_leaving;  /* was told to stop, for any reason */
    double leaves_s;     /* expected end of a job that was told to stop */
    uint64_t leaves_for; /* job that it was preempted for; 0: none */
    double grace_s;      /* grace time between the signal and the kill */
    double preempted_s;  /* time of its last preemption; -INFINITY: never */
    double lost_s;       /* seconds of work that a preemption now would lose */
};

/* Limits of preemption; see preempt.h. */
struct policy_preempt {
    int32_t is_on;
    double grace_s;       /* upper bound of the grace time */
    double min_runtime_s; /* minimum run time of an attempt before it can be
                             preempted */
};
/* Minimum time between two preemptions of a job. */
#define POLICY_PREEMPT_AGAIN_S 600.0
/* A victim that is still there so long after its grace time is overdue. Its
 * GPUs are not counted on any more, and its reservation ends. */
#define POLICY_PREEMPT_SLACK_S 60.0

struct policy_view {
    double now_s;
    double wall_s; /* the same moment since 1970, to print times in UTC */
    const struct policy_node *nodes; /* borrowed */
    size_t n_nodes;
    const struct policy_job *jobs; /* borrowed; in policy_view_in_order(),
                                      queued and live jobs together */
    size_t n_jobs;
    /* Others get GPUs from the same cluster. What a job gives up may be theirs
     * at once, so no job grows onto GPUs that are not free yet, nor gives up
     * GPUs that others wait for in order to grow. */
    bool is_shared;
    bool is_fair; /* fair share by user is on: ranks and shares are set */
    struct policy_preempt preempt;
    struct policy_goodput goodput; /* interval_s 0: the defaults */
};

/* Whether the job was told to stop and starts again with another size. Like a
 * queued job, it goes before all jobs behind it. */
static inline bool policy_is_resizing(const struct policy_job *job)
{
    return job_state_is_live(job->state) && job->is_leaving && job->to_gpus > 0;
}

/* Whether a goes before b: jobs with a preemption reservation first, then by
 * (priority desc, user_rank, submit_s, id). */
bool policy_view_in_order(const struct policy_job *a,
                          const struct policy_job *b);
/* err  ERR_INVAL the view contradicts itself; ERR_LIMIT its jobs need more than
 *      `cap` decisions */
int policy_check_view(const struct policy_view *v, size_t cap,
                      struct error *err) MUST_CHECK;

enum policy_act { POLICY_START, POLICY_RESIZE, POLICY_PREEMPT, POLICY_WAIT };

/* Every queued job gets exactly one decision, START or WAIT, in the order in
 * which the engine carries them out; a live job may get PREEMPT. `reason` is
 * one of the tokens of mgpu-stat(1) with its numbers, e.g. "WaitingForGpus:
 * needs 2, 1 free", "Priority: behind job 7". */
struct policy_decision {
    enum policy_act act;
    uint64_t id;
    int32_t nodes, gpus_per_node; /* for START and RESIZE; of a WAIT with a
                                     reservation: the reserved placement */
    uint64_t classes;             /* the classes of its nodes; within one set */
    double start_s;               /* WAIT: estimated start, or NAN if unknown */
    int32_t lacks; /* WAIT, 1: only GPUs that are allocated to other jobs
                      are missing; the nodes that are up would hold it */
    int32_t has_reservation; /* WAIT, 1: it gets the GPUs of its victims */
    uint64_t for_id;         /* PREEMPT: the job that gets the GPUs */
    char reason[120];
};

struct policy {
    const char *name;    /* as written in mgpu.yaml(5) */
    const char *summary; /* one line */

    /* in   view
     * out  decisions[cap], *ret_n <= cap
     * err  ERR_LIMIT cap is too small, ERR_INVAL the view is inconsistent
     *
     * The engine rejects a plan that allocates more than is free or breaks a
     * job's bounds: a policy is trusted to be clever, not right. */
    int (*plan)(const struct policy_view *view,
                struct policy_decision *decisions, size_t cap, size_t *ret_n,
                struct error *err);
};

/* NULL: there is no policy of this name. */
const struct policy *policy_find(const char *name);
/* The i-th policy, or NULL past the end. */
const struct policy *policy_at(size_t i);

extern const struct policy policy_fifo;
extern const struct policy policy_backfill;
extern const struct policy policy_goodput;

#endif
