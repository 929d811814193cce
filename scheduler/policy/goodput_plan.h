/* goodput_plan.h - a plan of the policy goodput in progress.
 *
 * goodput_value.c lists the jobs that get or change GPUs, with their weights,
 * for which goodput_groups.c counts the jobs of a user that came together;
 * goodput_sizes.c has the sizes of each, with their values, and
 * goodput_in_time.c leaves out those that are too small for its time limit;
 * goodput_hull.c chooses the sizes; goodput_place.c finds out what fits on the
 * nodes, and when; goodput.c makes the decisions.
 */
#ifndef MGPU_SCHEDULER_POLICY_GOODPUT_PLAN_H
#define MGPU_SCHEDULER_POLICY_GOODPUT_PLAN_H

#include <math.h>

#include "scheduler/policy/node_picture.h"
#include "scheduler/policy/planner.h"
#include "scheduler/policy/policy.h"

/* A size that a job may have now. The values are those of a job of weight 1:
 * jobs that wait for GPUs with equal bounds share their sizes. In an array of
 * them, the one before the first has no GPUs; its value is 0, and below that
 * for a live job. */
struct gp_size {
    int32_t nodes, per_node, gpus;
    bool is_efficient; /* it may be chosen while others want the GPUs */
    bool is_idle_use;  /* it may be chosen for GPUs that would idle */
    double value;      /* s^speedup_exponent rho, s over one GPU */
    double hoped;      /* the same without a fitted curve; >= value */
    const struct policy_rate *rate; /* borrowed; NULL: of a job of one size */
    /* goodput_hull.c: the next size on the hull, once it is known */
    bool has_next;
    int32_t next; /* -1: none */
    double next_gain;
};

/* The sizes of all jobs with the same curve and bounds, as of jobs that wait
 * (goodput_sizes.c). */
struct gp_ladder {
    bool is_used;
    const struct policy_job *like; /* borrowed; the first of them */
    struct gp_size *sizes; /* borrowed; [-1..n_all), all that it accepts */
    int32_t n_all;
    int32_t n; /* that a job may choose which waits: the first ones */
};

struct gp_job {
    const struct policy_job *job;
    size_t order; /* in the view */
    double left_one_s, weight;
    struct gp_size *sizes; /* borrowed; [-1..n), by GPUs; [-1] is no GPU */
    int32_t n;
    /* Borrowed; [n_late], smaller sizes on which it would not end in time. Its
     * present one may be among them: that is also in `sizes`. */
    const struct gp_size *late;
    int32_t n_late;
    bool is_shared;     /* these are the sizes of a ladder */
    int32_t now;        /* its present size; -1: it has no GPUs */
    int32_t chosen;     /* -1: it waits, or is told to */
    bool is_forced;     /* a size was promised to it: before all others */
    bool is_backfilled; /* likewise: backfill starts it */
    bool is_single;     /* it has one size, without a rate */
    bool competes;      /* likewise, and it is chosen as those with a range */
    bool is_beyond;     /* it has no resize of the hour left to grow */
    bool is_bound;  /* likewise, or on a shared cluster: what it becomes larger
                       by is free now, or it keeps its size */
    bool is_held;   /* it gives up no GPUs: its present size is its smallest */
    bool is_needed; /* it gives up none of those of its smallest size, by which
                       it ends in time, unless the head gets them */
    bool has_grown; /* it has the GPUs for its larger size */
    bool yields;    /* it makes room for the head */
    bool is_barred; /* backfill lets it wait */
    double waits_s; /* until then, as backfill has it */
    bool starts;    /* within this plan */
    bool is_tried;  /* likewise: goodput.c has seen whether it can */
};

enum { GP_LADDERS = 512 }; /* a collision only costs time */

struct gp {
    struct plan *p;
    struct policy_goodput conf;
    struct gp_job *jobs; /* owned; [n], in the order of the view */
    size_t n;
    struct gp_size *sizes; /* owned; [cap_sizes], those of all jobs */
    size_t n_sizes, cap_sizes;
    bool is_plain; /* in tests: gp_hull_choose() takes no shortcut */
    struct gp_ladder *ladders; /* owned; hash table, [GP_LADDERS] */
    size_t from, to;           /* of jobs: those of the priority in turn */
    int32_t kept_gpus;         /* the smallest sizes of live jobs after them */
    int32_t least_priority;    /* of all jobs of the view */
    int32_t grow_gpus; /* by so many GPUs may live jobs become larger in all */
    struct gp_job *head; /* of goodput_rigid.c; NULL: none */
    int32_t gpus;        /* that the jobs can share */
    double jobs_per_gpu; /* of the view and of the nodes that are up; 0: without
                            fair share, or of one user */
    struct node_picture now;  /* owned; what is free now; the decisions take
                                 their starts from it */
    struct node_picture soon; /* owned; pictures of goodput_place.c */
    struct node_picture free;
    int32_t *at;               /* owned; [n_nodes] */
    int32_t *closed, *kept_at; /* owned; [n_nodes], of goodput_place.c */
    size_t *leaving; /* owned; [n_leaving], jobs of the view that leave */
    size_t n_leaving;
    size_t *movers; /* owned; [n_movers], of goodput_place.c */
    size_t n_movers;
    double *gains; /* owned; [n], likewise */
    /* Owned; of goodput_in_time.c. What is free once all jobs have ended that
     * do. */
    struct node_picture lasting;
    bool has_lasting, lacks_memory; /* it was made, or could not be */
    size_t *line;                   /* owned; [n], scratch */
    size_t *turns;                  /* owned; [gp_n_turns()], likewise */
};

/* By size, twice, and two between. */
static inline int32_t gp_n_turns(const struct gp *g)
{
    return 2 * (g->gpus + 1) + 2;
}

/* ---- goodput_value.c ----------------------------------------------------- */
/* err  ERR_NOMEM; call gp_value_clear() in any case */
int gp_value_collect(struct gp *g, struct plan *p,
                     struct error *err) MUST_CHECK;
void gp_value_clear(struct gp *g);

/* ---- goodput_groups.c ---------------------------------------------------- */
/* Whether fair share is on, and there are jobs of several users. */
bool gp_groups_matter(const struct policy_view *v);
/* How often each job counts, for what its user sent together with it: 1 if they
 * do not matter. out ret [n_jobs]. err  ERR_NOMEM */
int gp_groups_count(const struct policy_view *v, double *ret,
                    struct error *err) MUST_CHECK;

/* ---- goodput_sizes.c ----------------------------------------------------- */
/* Room for n further sizes after an empty one. */
struct gp_size *gp_sizes_new(struct gp *g, size_t n);
/* Lists the sizes of a job with a curve. False: the curve has none for the job,
 * or not its present one. */
bool gp_sizes_list(struct gp *g, struct gp_job *j);
/* The value of a size for a job of weight 1. in speed  how many times as fast
 * as one GPU; NAN or 0: unknown */
double gp_sizes_value(const struct gp *g, const struct policy_job *job,
                      double speed, int32_t gpus);
/* For a live job, once its weight and what it has left to do are known: takes
 * the cost of a change from the values. */
void gp_sizes_value_changes(const struct gp *g, struct gp_job *j);
/* The size may not be chosen. */
void gp_sizes_rule_out(struct gp *g, struct gp_job *j, int32_t size);

/* How long a job could have run, so far. */
static inline double gp_waited_s(const struct gp *g,
                                 const struct policy_job *job)
{
    return g->p->view->now_s - fmax(job->submit_s, job->eligible_s);
}

/* ---- goodput_hull.c ------------------------------------------------------ */
/* Sets `chosen` of each job so that the GPUs of all are at most g->gpus.
 * err  ERR_NOMEM */
int gp_hull_choose(struct gp *g, struct error *err) MUST_CHECK;
/* Marks the sizes that lie on the upper hull from size `from` on: their value
 * per further GPU falls. in from -1: from nothing. out on[job->n] */
void gp_hull(const struct gp_job *job, int32_t from, bool *on);

/* ---- goodput_place.c ----------------------------------------------------- */
/* Goes to smaller sizes where nodes x GPUs do not fit, takes back resizes that
 * nobody needs, and says which queued jobs start now. */
void gp_place(struct gp *g);

/* It gives up none of the GPUs of its smallest size, whatever others are worth.
 */
static inline bool gp_keeps(const struct gp_job *j)
{
    return j->is_held || j->is_needed;
}

/* A live job whose GPUs are about to be free. */
static inline bool gp_leaves(const struct policy_job *job)
{
    return job_state_is_live(job->state) && job->is_leaving && job->at &&
           job->nodes > 0;
}

/* The job as one that accepts this size only. */
static inline struct policy_job gp_as(const struct gp_job *j, int32_t size)
{
    struct policy_job as = *j->job;

    as.gpus_min = as.gpus_max = j->sizes[size].gpus;
    as.nodes_min = as.nodes_max = j->sizes[size].nodes;
    return as;
}

#endif
