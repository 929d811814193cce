/* planner.h - a plan in the making: what is free, and the wishes so far.
 *
 * Shared by the policies: it checks the view, keeps a copy of the nodes from
 * which started jobs are taken, and words the reasons in one way.
 *
 * In a long queue few jobs differ in what they ask for, and few are started
 * by one plan. So what was found out for one job is kept for all of its shape,
 * until the free GPUs have changed: nodes are gone through once for a shape,
 * not once for each job that waits. And what did not fit does not fit after
 * another start either: a plan only takes.
 */
#ifndef MGPU_SCHEDULER_POLICY_PLANNER_H
#define MGPU_SCHEDULER_POLICY_PLANNER_H

#include "scheduler/policy/placement.h"
#include "scheduler/policy/policy.h"

struct plan_shape;

/* Whom a job of some shape would delay where it fits: the same for all whose
 * ends are before the same of these times. */
struct plan_delay {
    uint64_t state;      /* of the plan; 0: not looked at */
    uint64_t owed_state; /* of plan.owed */
    size_t n_heads;      /* there were so many reservations */
    uint64_t is_short;   /* by reservation: it would have ended by then */
    size_t by; /* whose time would not be kept; or, if there is one: */
    const struct plan_owed *owed; /* who would lose what he is owed */
};

/* A queued job that gets its devices from those that leave. */
struct plan_owed {
    const struct policy_job *job;
    struct place place;
    bool is_stuck; /* its devices have not come, though all have left */
    bool is_lost;  /* starts of before may have its place */
    bool has_them; /* it starts with this plan */
    double at_s;   /* when it has them */
};

/* Not granted yet. */
struct plan_start {
    struct place place;
    bool is_owed; /* it was taken from others for it */
};

struct plan {
    const struct policy_view *view;
    struct policy_node *nodes; /* owned; gpus_free after the plan so far */
    struct plan_shape *shapes; /* owned; [n_shapes], a power of two, by hash */
    size_t n_shapes;
    struct plan_shape *last_shape; /* of them, that was asked for last */
    uint64_t state, last_state;    /* another number for each other gpus_free */
    uint64_t before;               /* state before the last start */
    uint64_t lacked_in; /* the last state in which something did not fit */
    uint64_t undone;    /* changes when what did not fit may fit again */
    int32_t *at;        /* owned; [n_nodes], of the last start */
    struct policy_wish *wishes; /* borrowed */
    size_t cap, n;
    /* By class, what plan_reach() adds to it. */
    uint64_t near[POLICY_CLASSES], near_alone[POLICY_CLASSES];
    bool has_parts;

    /* What was last said of a place that is kept; reserved_for 0: nothing. */
    uint64_t reserved_for;
    double reserved_s;
    char reserved[sizeof(((struct policy_wish *)NULL)->reason)];

    /* Owned; NULL unless devices may be taken back. */
    struct policy_node *soon;  /* as nodes, when all have left who are to */
    struct policy_node *left;  /* likewise, without those that start */
    struct policy_node *late;  /* with them, each in the way of those who are
                                  owed something, if there is room for it */
    struct policy_node *was;   /* to put `late` back */
    struct plan_start *starts; /* [n_starts], of before and of this plan */
    size_t n_starts;
    int32_t *late_at; /* [n_nodes], of the last of them on `late`, where it */
    bool is_late;     /* has room */
    bool *is_kept;    /* [n_nodes]: one who is owed something would be there */
    struct policy_node *trial; /* [n_nodes], to try things on */
    int32_t *trial_at;         /* [n_nodes] */
    struct plan_owed *owed;    /* [n_owed], in the order in which they are
                                  placed */
    size_t n_owed;
    bool *leaves;        /* by job of the view: counted in soon */
    size_t n_leaving;    /* of these, who were told to */
    uint64_t owed_state; /* another number when who leaves, or is owed, is
                            another, but for starts */
};

/* err  ERR_INVAL the view is wrong, ERR_LIMIT more jobs than cap */
int plan_begin(struct plan *p, const struct policy_view *view,
               struct policy_wish *wishes, size_t cap,
               struct error *err) MUST_CHECK;
void plan_end(struct plan *p);

/* place_find() and place_ever() on p->nodes, for any but a running job. */
bool plan_find(struct plan *p, const struct policy_job *job, struct place *ret);
bool plan_ever(struct plan *p, const struct policy_job *job, bool with_down);

/* What the policy keeps of the job's shape; zeroed at first. Valid until
 * another job is asked about. */
struct plan_delay *plan_delay(struct plan *p, const struct policy_job *job);

/* The job's classes, and those of which a job may be in its way, or it in
 * theirs: of other parts of the same machines. */
uint64_t plan_reach(const struct plan *p, const struct policy_job *job);

/* Starts the job there and takes its GPUs; p->at says on which nodes. Not if
 * a job that was planned before it would lose what it is owed: returned then,
 * else NULL. */
const struct plan_owed *plan_start(struct plan *p, const struct policy_job *job,
                                   struct place place);
/* As if the last plan_start(), with that place, had not been. */
void plan_unstart(struct plan *p, struct place place);

/* It waits. In the order in which they are to be tried: */
void plan_never_fits(struct plan *p, const struct policy_job *job);
void plan_lacks_gpus(struct plan *p, const struct policy_job *job,
                     double start_s);
void plan_behind(struct plan *p, const struct policy_job *job,
                 const struct policy_job *head, int32_t ahead);
void plan_reserved(struct plan *p, const struct policy_job *job,
                   const struct policy_job *head, double start_s);

#endif
