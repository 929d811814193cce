/* sim_run.h - one simulation: a trace, a cluster and a policy.
 *
 * The engine is that of the daemon, with a virtual clock, the fake allocator
 * and a store in memory. This folder is the users, the workers and the nodes
 * around it. Nothing in the engine or a policy knows. */
#ifndef MGPU_SCHEDULER_SIM_RUN_SIM_RUN_H
#define MGPU_SCHEDULER_SIM_RUN_SIM_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "scheduler/engine/engine.h"
#include "scheduler/engine/update.h"
#include "scheduler/sim/run/sim_cluster.h"
#include "scheduler/sim/trace/speed.h"

enum sim_request { REQUEST_ELASTIC, REQUEST_TRACE, REQUEST_FIXED };

/* A value for one class of jobs; class "": for all. */
struct sim_of_class {
    char class[SIM_CLASS_CAP];
    double x;
};
enum { SIM_CLASSES_MAX = 32 };
struct sim_classes {
    struct sim_of_class at[SIM_CLASSES_MAX];
    int32_t n;
};
/* The value for the class, or `absent`. */
double sim_class_value(const struct sim_classes *c, const char *class,
                       double absent);

struct sim_policy;
struct sim_action {
    double t_s; /* since the first second of the trace */
    enum sim_act act;
    size_t job; /* index in the trace */
    int32_t priority;
    int32_t gpus, nodes; /* of a resize; 0: any */
    bool ends;           /* of a requeue or resize: it ends an attempt */
    struct engine_update update;
    const struct sim_policy *policy; /* borrowed; in force from now on */
};

struct sim_conf {
    const struct sim_cluster *cluster;
    const struct sim_trace *trace;
    struct speed *speed;
    bool repeats;  /* jobs have the sizes that all their attempts had */
    bool is_fixed; /* jobs with work_gpus ask for as many: the policy chooses no
                      sizes */
    enum sim_request request;
    int32_t request_gpus;
    double round_s, grant_delay_s;
    double restart_s; /* 30 s, unless a table or a class has its own */
    struct sim_classes restarts, slowdowns;
    double limit_factor; /* 0: exact */
    double length_error; /* sigma, of what workers report */
    double speed_noise;  /* sigma, of each attempt */
    double failures_per_node_day;
    struct sim_classes watts; /* of a GPU in use, by its type; n 0: unknown */
    uint32_t seed;
    size_t decisions_max; /* stop after so many; 0: at the end of all jobs */
    const struct sim_action *actions; /* in the order of t_s */
    size_t n_actions;
};

/* A policy with its keys. */
struct sim_policy {
    const struct policy *policy;
    struct policy_preempt preempt;
    struct policy_goodput goodput;            /* interval_s 0: the defaults */
    const struct conf_fair_share *fair_share; /* borrowed; NULL: none */
    struct engine_limits limits;
};

/* What became of a job. Times since the first second of the trace; NAN: it did
 * not happen. */
struct sim_result {
    double start_s, end_s;
    double gpu_s, restarting_gpu_s;
    int32_t gpus_max, restarts;
    int32_t resizes; /* restarts on another number of GPUs */
    double slowdown, fairness;
    bool is_completed;
    enum job_state state;
    char reason[JOB_REASON_CAP]; /* why it did not complete */
};

struct sim_span { /* a job on a node */
    double from_s, to_s;
    int32_t job, node, gpus;
    uint64_t mask; /* of the first 64 GPUs of the node */
};

struct sim_event {
    double t_s;
    int32_t job;
    bool is_start;
    char *place; /* owned: "n1:4 n2:4" */
};

struct sim_output {
    struct sim_result *results; /* owned; one for each job of the trace */
    size_t n;
    struct sim_event *events; /* owned, with its places */
    size_t n_events, cap_events;
    struct sim_span *spans; /* owned */
    size_t n_spans, cap_spans;
    double *decision_s; /* owned; a step that planned */
    size_t n_decisions, cap_decisions;
    double used_gpu_s, restarting_gpu_s, idle_queued_gpu_s;
    double energy_ws; /* of attempts that ended; NAN: conf.watts has none */
    double first_s, last_s; /* of the first submit and the last end */
    uint64_t n_steps, n_log;
    size_t n_not_applied; /* actions of people */
    size_t n_cut;         /* attempts on more nodes than their place names */
    double wall_s;
    struct buf unfinished; /* a line for each job that did not end */
    size_t n_unfinished;   /* ended otherwise than COMPLETED, or did not */
    size_t n_unended;      /* did not end, or were not accepted */
};

void sim_output_clear(struct sim_output *o); /* a zeroed one is fine */

/* Runs to the end of all jobs.
 * out  ret  also set if jobs did not end: ret->n_unfinished
 * err  ERR_INTERNAL an invariant does not hold; from the engine */
int sim_run(const struct sim_conf *conf, const struct sim_policy *policy,
            struct sim_output *ret, struct error *err) MUST_CHECK;

/* ---- random_world.c ------------------------------------------------------ */
/* Runs a random world twice: all invariants hold, each job ends or is refused,
 * and both runs are alike to the last event.
 * err  ERR_INTERNAL what does not hold */
int random_world_check(uint32_t seed, struct error *err) MUST_CHECK;
/* Jobs of 1 to 64 GPUs that are all there at once, on nodes of 8 GPUs.
 * own  sim_trace_clear() */
int random_queue(uint32_t seed, int32_t jobs, struct sim_trace *ret,
                 struct error *err) MUST_CHECK;

#endif
