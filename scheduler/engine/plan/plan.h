/* plan.h - the functions of planning that several files of the engine share:
 * the view, node classes, limits, submit-ahead, preemption.
 */
#ifndef MGPU_SCHEDULER_ENGINE_PLAN_PLAN_H
#define MGPU_SCHEDULER_ENGINE_PLAN_PLAN_H

#include "scheduler/engine/engine_internal.h"

/* ---- policy_view.c, plan.c, plan_check.c --------------------------------- */
/* What a policy sees, and room for its decisions. */
struct eng_view {
    struct policy_view v;
    struct engine *of;
    struct eng_buffers buffers; /* owned; has the jobs and decisions below */
    struct policy_node *nodes;  /* owned, like ats */
    struct policy_job *jobs;    /* [e->n_active] */
    int32_t *ats;               /* nodes of the live jobs, job after job */
    size_t *live;               /* owned; [n_live], indexes of the jobs that
                                   were live when the view was built */
    size_t n_live;
    struct policy_decision *decisions; /* [e->n_active] */
    uint64_t sets[POLICY_CLASSES]; /* by GPU type; the policy_jobs point here */
    int64_t free[POLICY_CLASSES];  /* GPUs, by index of node_classes.types */
};
/* Builds the view from the last inventory. Marks the entries that are pending
 * in the allocator's queue. Call eng_view_clear() after an error, too. */
int eng_view_build(struct engine *e, struct eng_view *t,
                   struct error *err) MUST_CHECK;
void eng_view_clear(struct eng_view *t);
/* Allocates and touches the buffers of the first view before the first step. If
 * that fails, the view allocates its own. */
void eng_buffers_reserve(struct engine *e);
void eng_buffers_clear(struct eng_buffers *r);
/* Saves and restores job_record.is_ahead of all live jobs, for a caller that
 * builds a view without carrying out a plan.
 * own  *ret: eng_ahead_restore() frees it */
int eng_ahead_save(const struct engine *e, bool **ret,
                   struct error *err) MUST_CHECK;
void eng_ahead_restore(struct engine *e, bool *saved);
/* Makes a plan, checks it and applies the limits of users. Removes jobs from
 * the view that exceed a limit.
 * in   tells  a removed job with this id or a higher one gets the limit as its
 *      reason
 * out  ret_n  decisions
 * err  of the policy */
enum { TELLS_ALL = 0 };
#define TELLS_NONE UINT64_MAX
int eng_make_plan(struct engine *e, struct eng_view *t, uint64_t tells,
                  size_t *ret_n, struct error *err) MUST_CHECK;

int eng_inventory(struct engine *e, struct error *err);
int eng_plan(struct engine *e, struct error *err);
int eng_check_plan(const struct policy_view *view,
                   const struct policy_decision *decisions, size_t n,
                   struct error *err) MUST_CHECK;

/* ---- node_classes.c, feasibility.c --------------------------------------- */
/* Sets the node classes of the last inventory. err ERR_NOMEM: no change */
int eng_classify(struct engine *e, struct error *err) MUST_CHECK;
/* Whether w allows node i. in now honour reservations */
bool eng_node_fits(const struct engine *e, size_t i,
                   const struct alloc_where *w, bool has_gpus, bool now);
/* Classes that a job may use, as in policy_job. */
struct class_masks {
    uint64_t now, ever;
};
/* Cache of masks: most jobs of a queue have the same request. Zeroed at first;
 * for one inventory. */
enum { MASK_MEMO = 8 };
struct mask_memo {
    struct mask_memo_row {
        bool is_used, has_gpus;
        struct alloc_where where; /* strings are borrowed */
        struct class_masks masks;
    } rows[MASK_MEMO];
    size_t next;
};
struct class_masks eng_masks(const struct engine *e, const struct job *job,
                             struct mask_memo *memo);
/* err  ERR_INVAL "can never fit", and what is missing */
int eng_feasibility_check(const struct engine *e, const struct job *job,
                          struct error *err) MUST_CHECK;
/* Jobs that were found to fit: most tasks of a sweep have the same request.
 * Zeroed at first; for one inventory, and while these jobs exist. */
enum { FIT_MEMO = 16 };
struct fit_memo {
    const struct job *of[FIT_MEMO];
    size_t next;
};
/* As eng_feasibility_check(). in memo NULL: no cache */
int eng_feasibility_check_as(const struct engine *e, const struct job *job,
                             struct fit_memo *memo,
                             struct error *err) MUST_CHECK;
bool eng_same_where(const struct alloc_where *a, const struct alloc_where *b);

/* ---- mixed_gpu_nodes.c ----------------------------------------------------
 */
/* Whether entry i belongs to the same node as entry i - 1. */
bool eng_is_more(const struct engine *e, size_t i);
/* For the last inventory. out io->by_name; false: out of memory */
bool mixed_gpu_nodes_index(const struct engine *e,
                           struct node_classes *io) MUST_CHECK;
/* For the last inventory. in io->of; out its members by type */
void eng_part_types(const struct engine *e, struct node_classes *io);
/* Whether the job names no GPU type but each of its attempts needs one. */
bool eng_wants_type(const struct engine *e, const struct job *job);
/* The GPU type that all nodes of these classes have; "" none. */
const char *eng_type_of(const struct engine *e, uint64_t classes);
/* The classes of a GPU type; "" is any. */
uint64_t eng_type_classes(const struct engine *e, const char *type);
/* out  nodes  part, n_parts, and the totals that the parts share */
void eng_part_nodes(const struct engine *e, struct policy_node *nodes);
/* Sets the node sets of the queued jobs; gpus_free is known. */
void eng_part_jobs(const struct engine *e, struct eng_view *t);
/* The entry of a node for this GPU type, NULL: any; e->n_nodes: no such
 * node. */
size_t eng_part_at(const struct engine *e, const char *name, size_t len,
                   const char *type);
/* Of the job's GPUs on the first node of a place, "n1:0 n2:0"; "": unknown. */
const char *eng_type_at(const struct engine *e, const struct job *job,
                        const char *place);

/* ---- user_limits.c --------------------------------------------------------
 */
bool eng_has_limits(const struct engine *e);
/* Removes from the view the jobs that a limit of their user keeps from
 * starting, and cuts the upper ends of the others to what is left.
 * in   tells  removed jobs with this id or a higher one get the limit as their
 *      reason */
int eng_limit_view(struct engine *e, struct policy_view *v,
                   struct policy_job *jobs, uint64_t tells,
                   struct error *err) MUST_CHECK;
/* The same for starts that exceed a limit together; they become WAIT.
 * out  ret_again  there were some: a plan without them may start other jobs */
int eng_limit_decisions(struct engine *e, struct policy_view *v,
                        struct policy_job *jobs,
                        struct policy_decision *decisions, size_t n,
                        uint64_t tells, bool *ret_again,
                        struct error *err) MUST_CHECK;
bool eng_is_limited(const struct engine *e, const struct job *job,
                    int32_t gpus);
/* Whether the user or the account of the job has no GPU-hours left for so many
 * GPUs. A job without GPUs needs none, nor does one that only shrinks. */
bool eng_is_spent(const struct engine *e, const struct job *job, int32_t gpus,
                  char why[JOB_REASON_CAP]);
/* err  ERR_LIMIT the job alone exceeds a limit */
int eng_check_limits(const struct engine *e, const struct job *job,
                     struct error *err) MUST_CHECK;

/* ---- submit_ahead.c ------------------------------------------------------
 */
/* Handles the decision for an attempt that is pending in the allocator, which
 * the policy saw as queued. */
int eng_ahead_decision(struct engine *e, struct job_record *rec,
                       const struct policy_decision *w,
                       struct error *err) MUST_CHECK;
/* Requests attempts for the first jobs that lack devices, after the policy has
 * planned. */
int eng_ahead(struct engine *e, const struct policy_view *view,
              const struct policy_decision *decisions, size_t n,
              struct error *err) MUST_CHECK;
/* Stages the INTENT of an attempt. in classes of its nodes */
int eng_intend(struct engine *e, struct job_record *rec, int32_t nodes,
               int32_t gpus, uint64_t classes, struct error *err) MUST_CHECK;

/* ---- resizing.c ----------------------------------------------------------
 */
/* Sets the members that tell the policy about a live job that may be resized,
 * or that leaves for another size. */
void eng_view_resize(const struct engine *e, const struct job_record *rec,
                     struct policy_job *io);
/* Stages the resize that a policy decides. err ERR_NOMEM */
int eng_resize(struct engine *e, struct job_record *rec,
               const struct policy_decision *w, struct error *err) MUST_CHECK;

/* ---- preemption.c -------------------------------------------------------- */
/* Finds the jobs with a preemption reservation, if preemption is on. */
void eng_find_reserved(struct engine *e);
/* End of the reservation that this preempted job caused; -INFINITY: it was not
 * preempted. */
double eng_reserved_until(const struct job_record *rec);
/* Within one view, after eng_find_reserved(). */
bool eng_has_reservation(const struct engine *e, const struct job_record *rec);
/* Sets the members that tell the policy about a possible victim, or about one
 * that is leaving. */
void eng_view_preempt(const struct engine *e, const struct job_record *rec,
                      double now_s, struct policy_job *io);
/* Stages the preemption. The decision was checked, but limits may have changed
 * since. err ERR_NOMEM */
int eng_preempt(struct engine *e, const struct policy_decision *decisions,
                size_t n, const struct policy_decision *w,
                struct error *err) MUST_CHECK;
/* When a plan could preempt a job that this plan could not; INFINITY: never. */
double eng_preempt_next(const struct engine *e, const struct policy_view *v);
/* When the attempt got its devices; now_s: not known yet. */
double eng_start_of(const struct job_record *rec, double now_s);
/* Grace time of the attempt. */
double eng_grace(const struct job_record *rec);

#endif
