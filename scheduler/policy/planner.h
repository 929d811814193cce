/* planner.h - a plan in progress: the free GPUs, and the decisions so far.
 *
 * Shared by the policies. The planner checks the view, keeps a copy of the
 * nodes from which it takes the GPUs of started jobs, and writes the reasons in
 * one format.
 *
 * In a long queue few jobs differ in their request, and one plan starts few of
 * them. So the planner caches results per shape until the free GPUs change: it
 * searches the nodes once for a shape, not once for each pending job. A shape
 * that did not fit does not fit after another start either, because a plan only
 * takes GPUs.
 */
#ifndef MGPU_SCHEDULER_POLICY_PLANNER_H
#define MGPU_SCHEDULER_POLICY_PLANNER_H

#include "scheduler/policy/placement.h"
#include "scheduler/policy/policy.h"

struct plan_shape;

/* Which job a start of some shape would delay. The answer is the same for all
 * jobs of the shape whose ends are before the same of these times. */
struct plan_delay {
    uint64_t state;              /* plan.state; 0: not computed */
    uint64_t reservations_state; /* plan.reservations_state */
    size_t n_heads;              /* number of reservations at that time */
    uint64_t is_short; /* bit per reservation: the job would end before its
                          start */
    size_t by;         /* reservation that would be delayed, unless: */
    const struct plan_reservation *reservation; /* set: job whose preemption
                                                   reservation would be lost */
};

/* A queued job with a preemption reservation: it gets the GPUs of its
 * victims. */
struct plan_reservation {
    const struct policy_job *job;
    struct place place;
    bool is_stuck; /* all victims have left, and the job still has no place */
    bool is_lost;  /* earlier starts may take its place */
    bool has_them; /* this plan starts it */
    double at_s;   /* expected start */
};

/* A start that the allocator has not granted yet. */
struct plan_start {
    struct place place;
    bool has_reservation; /* its GPUs came from victims */
};

struct plan {
    const struct policy_view *view;
    struct policy_node *nodes; /* owned; gpus_free after the starts so far */
    struct plan_shape *shapes; /* owned; hash table, [n_shapes], a power of
                                  two */
    size_t n_shapes;
    struct plan_shape *last_shape; /* the shape of the last query */
    uint64_t state, last_state;    /* a different number for each different
                                      gpus_free */
    uint64_t before;               /* state before the last start */
    uint64_t lacked_in;            /* the last state in which a search failed */
    uint64_t undone; /* changes when a failed search may succeed again */
    int32_t *at;     /* owned; [n_nodes], nodes of the last start */
    struct policy_decision *decisions; /* borrowed */
    size_t cap, n;
    /* By class, the classes that plan_reach() adds to it. */
    uint64_t near[POLICY_CLASSES], near_alone[POLICY_CLASSES];
    bool has_parts;

    /* The last reason that names a reservation; reserved_for 0: none. */
    uint64_t reserved_for;
    double reserved_s;
    char reserved[sizeof(((struct policy_decision *)NULL)->reason)];

    /* Owned; NULL unless preemption is on. */
    struct policy_node *soon;  /* nodes, once all victims have left */
    struct policy_node *left;  /* likewise, without the starts of this plan */
    struct policy_node *late;  /* with these starts, each on a reserved node
                                  if it has room there */
    struct policy_node *was;   /* copy to restore `late` from */
    struct plan_start *starts; /* [n_starts], of earlier plans and of this
                                  one */
    size_t n_starts;
    int32_t *late_at; /* [n_nodes], where the last start is on `late`, if it */
    bool is_late;     /* has room there */
    bool *is_kept;    /* [n_nodes]: a reservation would use the node */
    struct policy_node *trial; /* [n_nodes], scratch copy for searches */
    int32_t *trial_at;         /* [n_nodes] */
    struct plan_reservation
        *reservations; /* [n_reservations], in the order of their placement */
    size_t n_reservations;
    bool *leaves;     /* by job of the view: its GPUs are counted in soon */
    size_t n_leaving; /* how many of these were told to leave */
    uint64_t reservations_state; /* changes when the victims or the reservations
                                    change, except by starts */
};

/* err  ERR_INVAL the view is inconsistent; ERR_LIMIT it has more jobs than
 *      cap */
int plan_begin(struct plan *p, const struct policy_view *view,
               struct policy_decision *decisions, size_t cap,
               struct error *err) MUST_CHECK;
void plan_end(struct plan *p);

/* place_find() and place_ever() on p->nodes, for any job that does not run. */
bool plan_find(struct plan *p, const struct policy_job *job, struct place *ret);
bool plan_ever(struct plan *p, const struct policy_job *job, bool with_down);

/* The policy's memo for the job's shape, zeroed at first. Valid until the next
 * call with another job. */
struct plan_delay *plan_delay(struct plan *p, const struct policy_job *job);

/* The job's classes, and the classes of other parts of the same machines whose
 * jobs may compete with it. */
uint64_t plan_reach(const struct plan *p, const struct policy_job *job);

/* Starts the job at `place` and takes its GPUs; p->at has the nodes. Returns
 * NULL, or the reserved job that the start would delay, in which case nothing
 * is started. */
const struct plan_reservation *plan_start(struct plan *p,
                                          const struct policy_job *job,
                                          struct place place);
/* A live job that leaves for another size: sets the GPUs of that size aside, so
 * that no later job of the plan takes them. False: not so many are free, its
 * own included. */
bool plan_hold(struct plan *p, const struct policy_job *job);
/* The same on the nodes that place_take() would choose, which the caller knows
 * (node_picture.h): it would look at every node once more. */
const struct plan_reservation *plan_start_at(struct plan *p,
                                             const struct policy_job *job,
                                             struct place place,
                                             const int32_t *at);
/* Undoes the last plan_start(), which had this place. */
void plan_unstart(struct plan *p, struct place place);

/* Each of these makes the job wait, with a reason. Callers try them in this
 * order: */
void plan_never_fits(struct plan *p, const struct policy_job *job);
void plan_lacks_gpus(struct plan *p, const struct policy_job *job,
                     double start_s);
void plan_behind(struct plan *p, const struct policy_job *job,
                 const struct policy_job *head, int32_t ahead);
void plan_reserved(struct plan *p, const struct policy_job *job,
                   const struct policy_job *head, double start_s);

/* Whether enough GPUs are free for the job, but not on as few nodes as it
 * requires. Nodes that are down or drained have none.
 * out  ret  as the reason of a policy_decision; unchanged if false */
bool plan_say_fragmented(const struct policy_node *nodes, size_t n,
                         const struct policy_job *job, char *ret);

#endif
