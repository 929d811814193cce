/* policy.h - what a scheduling policy sees, and what it may ask for.
 *
 * A policy is a pure function from a view of the cluster to a list of
 * wishes. It reads no clock, no file and no global, logs nothing and keeps
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

/* Nodes that jobs cannot tell apart, but for their size, are of one class:
 * which classes a job may use is a mask, bit i for class i. */
enum { POLICY_CLASSES = 64 };
#define POLICY_ANY_CLASS UINT64_MAX

struct policy_node {
    int32_t gpus_total, gpus_free;
    int32_t is_up;
    int32_t class_id; /* 0..63 */
    /* A machine with GPUs of several types is n_parts nodes in a row, this one
     * the part-th from 0; else 0. What it has besides GPUs is for all of them:
     * its part 0 says for how many GPUs of any type, and for how many more. */
    int32_t part, n_parts, shared_total, shared_free;
};

struct policy_job {
    uint64_t id;
    enum job_state state;       /* QUEUED, or live */
    int32_t priority;           /* higher goes first */
    int32_t gpus_min, gpus_max; /* what the job accepts, in all */
    int32_t nodes_min, nodes_max;
    int32_t per_node;      /* GPUs on each; 0: as many as come out */
    uint64_t classes;      /* that it may use now */
    uint64_t classes_ever; /* and those that are closed to it for a while,
                              as by a reservation */
    /* All of its nodes are to be in one of these sets of classes, tried in
     * this order; n_sets 0: it does not matter. Borrowed. */
    const uint64_t *sets;
    size_t n_sets;
    int32_t is_exclusive; /* 1: shares its nodes with nobody, and takes all
                             of their GPUs */
    int32_t gpus;         /* what it holds now, in all; 0 while queued */
    int32_t nodes;        /* on how many nodes it holds them */
    const int32_t *at;    /* [nodes] indexes into the view's nodes, borrowed;
                             NULL: not known, or queued */
    int32_t is_promised;  /* 1: it was asked for and is not granted; `at` is
                             where it would go now */
    double submit_s;      /* seconds on the view's clock */
    double start_s;       /* of the running attempt; NAN while queued */
    double limit_s;       /* its time limit; INFINITY: none */
    double left_s;        /* estimate of run time left, or NAN */
    int32_t is_owed; /* queued: devices were taken back for it, and it has not
                        started since. Such jobs go before all others */

    /* Of a live one, for preempt.h. */
    int32_t may_go;      /* its devices may be taken back, were it only for
                            what it is, and the state that it is in */
    int32_t is_leaving;  /* it was told to let them go, for whatever reason */
    double leaves_s;     /* and does so by then */
    uint64_t leaves_for; /* the job that they were taken back for; 0: none */
    double grace_s;      /* the time that it has once it is told */
    double preempted_s;  /* when they were last taken back; -INFINITY: never */
    double lost_s;       /* so much of its work is lost if it is told now */
};

/* When devices are taken back from jobs that run, see preempt.h. */
struct policy_preempt {
    int32_t is_on;
    double grace_s;       /* no job has longer to let its devices go */
    double min_runtime_s; /* of its present attempt, before which none goes */
};
enum {
    POLICY_PREEMPT_AGAIN_S = 600, /* nor one that went less than this ago */
    /* Who was told to go and is still there so long after its time is not
     * counted on any more; nor is a job owed anything after it. */
    POLICY_PREEMPT_SLACK_S = 60,
};

struct policy_view {
    double now_s;
    double wall_s; /* the same moment since 1970, to name others in UTC */
    const struct policy_node *nodes; /* borrowed */
    size_t n_nodes;
    const struct policy_job *jobs; /* borrowed; policy_in_order(), queued and
                                      live together */
    size_t n_jobs;
    struct policy_preempt preempt;
};

/* Whether a goes before b: who is owed something, then by (priority desc,
 * submit_s, id). */
bool policy_in_order(const struct policy_job *a, const struct policy_job *b);
/* err  ERR_INVAL the view contradicts itself; ERR_LIMIT its jobs need more than
 *      `cap` wishes */
int policy_check_view(const struct policy_view *v, size_t cap,
                      struct error *err) MUST_CHECK;

enum policy_act { POLICY_START, POLICY_RESIZE, POLICY_PREEMPT, POLICY_WAIT };

/* Every queued job gets exactly one wish, START or WAIT, in the order to
 * carry them out; a live one may get PREEMPT. `reason` is one of the tokens of
 * mgpu-stat(1) with its numbers, e.g. "WaitingForGpus: needs 2, 1 free",
 * "Priority: behind job 7".
 */
struct policy_wish {
    enum policy_act act;
    uint64_t id;
    int32_t nodes, gpus_per_node; /* for START and RESIZE; of a WAIT that is
                                     owed these */
    uint64_t classes; /* of these, on which of its classes; of one set only */
    double start_s;   /* WAIT: when it may start, or NAN when not known */
    int32_t lacks;    /* WAIT, 1: for GPUs that somebody has, and for nothing
                         else; the nodes that are up would hold it */
    int32_t is_owed;  /* WAIT, 1: it gets them from those that leave */
    uint64_t for_id;  /* PREEMPT: the job, which is owed, that they go to */
    char reason[120];
};

struct policy {
    const char *name;    /* as written in mgpu.yaml(5) */
    const char *summary; /* one line */

    /* in   view
     * out  wishes[cap], *ret_n <= cap
     * err  ERR_LIMIT when cap is too small, ERR_INVAL for a bad view
     *
     * The engine rejects a plan that hands out more than is free or breaks a
     * job's bounds: a policy is trusted to be clever, not right.
     */
    int (*plan)(const struct policy_view *view, struct policy_wish *wishes,
                size_t cap, size_t *ret_n, struct error *err);
};

/* NULL when there is none of that name. */
const struct policy *policy_find(const char *name);
/* The i-th policy, or NULL past the end. */
const struct policy *policy_at(size_t i);

extern const struct policy policy_fifo;
extern const struct policy policy_backfill;

#endif
