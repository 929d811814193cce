/* plan.h - what a policy is shown, what keeps jobs from it, and what comes of
 * its wishes: of the insides that engine_internal.h has, those that planning
 * needs.
 */
#ifndef MGPU_SCHEDULER_ENGINE_PLAN_PLAN_H
#define MGPU_SCHEDULER_ENGINE_PLAN_PLAN_H

#include "scheduler/engine/engine_internal.h"

/* ---- policy_view.c, plan.c, plan_check.c --------------------------------- */
/* What a policy is shown, and room for its wishes. */
struct eng_view {
    struct policy_view v;
    struct engine *of;
    struct eng_buffers buffers;    /* owned; jobs and wishes below are its */
    struct policy_node *nodes;     /* owned, as are the ats */
    struct policy_job *jobs;       /* [e->n_active] */
    int32_t *ats;                  /* the nodes of the live jobs, one after the
                                      other */
    struct policy_wish *wishes;    /* [e->n_active] */
    uint64_t sets[POLICY_CLASSES]; /* by type; the policy_jobs point there */
};
/* Of the last inventory. Notes in the entries which of them stand in the
 * allocator's queue. eng_view_clear() is due after an error, too. */
int eng_view_build(struct engine *e, struct eng_view *t,
                   struct error *err) MUST_CHECK;
void eng_view_clear(struct eng_view *t);
/* Allocates and touches the buffers of the first view before the first step.
 * Without memory that view allocates its own. */
void eng_buffers_reserve(struct engine *e);
void eng_buffers_clear(struct eng_buffers *r);
/* entry.is_ahead of all that are active, for whoever builds a view and carries
 * nothing of it out.
 * own  *ret: the second ends it */
int eng_ahead_save(const struct engine *e, bool **ret,
                   struct error *err) MUST_CHECK;
void eng_ahead_restore(struct engine *e, bool *saved);
/* One plan, checked, and with the limits of users kept. Takes jobs out of the
 * view for which there is no room in these.
 * in   tells  and such a job gets that as its reason, from this id on
 * out  ret_n  wishes
 * err  of the policy */
enum { TELLS_ALL = 0 };
#define TELLS_NONE UINT64_MAX
int eng_make_plan(struct engine *e, struct eng_view *t, uint64_t tells,
                  size_t *ret_n, struct error *err) MUST_CHECK;

int eng_inventory(struct engine *e, struct error *err);
int eng_plan(struct engine *e, struct error *err);
int eng_check_plan(const struct policy_view *view,
                   const struct policy_wish *wishes, size_t n,
                   struct error *err) MUST_CHECK;

/* ---- node_classes.c, feasibility.c --------------------------------------- */
/* Of the last inventory. err  ERR_NOMEM; those of before stay */
int eng_classify(struct engine *e, struct error *err) MUST_CHECK;
/* Whether node i is one that w allows. in  now  reservations count */
bool eng_node_fits(const struct engine *e, size_t i,
                   const struct alloc_where *w, bool has_gpus, bool now);
/* What of policy_job a job may use. */
struct class_masks {
    uint64_t now, ever;
};
/* Most jobs of a queue want the same. Zeroed to begin with; of one
 * inventory. */
enum { MASK_MEMO = 8 };
struct mask_memo {
    struct mask_memo_row {
        bool is_used, has_gpus;
        struct alloc_where where; /* texts are borrowed */
        struct class_masks masks;
    } rows[MASK_MEMO];
    size_t next;
};
struct class_masks eng_masks(const struct engine *e, const struct job *job,
                             struct mask_memo *memo);
/* err  ERR_INVAL "can never fit", and what is missing */
int eng_check_fits(const struct engine *e, const struct job *job,
                   struct error *err) MUST_CHECK;
/* Jobs that were found to fit: most tasks of a sweep want the same. Zeroed to
 * begin with; of one inventory, and for as long as these jobs are there. */
enum { FIT_MEMO = 16 };
struct fit_memo {
    const struct job *of[FIT_MEMO];
    size_t next;
};
/* As eng_check_fits(). in  memo  NULL: nothing is known */
int eng_check_fits_as(const struct engine *e, const struct job *job,
                      struct fit_memo *memo, struct error *err) MUST_CHECK;
bool eng_same_where(const struct alloc_where *a, const struct alloc_where *b);

/* ---- mixed_gpu_nodes.c ----------------------------------------------------
 */
/* Whether entry i is of the same node as the one before it. */
bool eng_is_more(const struct engine *e, size_t i);
/* Of the last inventory. in  io->of; out  what it has by type */
void eng_part_types(const struct engine *e, struct node_classes *io);
/* A job that names no type, where each of its attempts has to. */
bool eng_wants_type(const struct engine *e, const struct job *job);
/* The type of GPU that the nodes of these classes have in common; "" none. */
const char *eng_type_of(const struct engine *e, uint64_t classes);
/* The other way round; "" is any. */
uint64_t eng_type_classes(const struct engine *e, const char *type);
/* out  nodes  part, n_parts, and all that the machines have to share */
void eng_part_nodes(const struct engine *e, struct policy_node *nodes);
/* The sets of those that stand in the queue; gpus_free is known. */
void eng_part_jobs(const struct engine *e, struct eng_view *t);
/* The entry of a node for GPUs of this type, NULL: any; e->n_nodes: there is no
 * such node. */
size_t eng_part_at(const struct engine *e, const char *name, size_t len,
                   const char *type);

/* ---- user_limits.c --------------------------------------------------------
 */
bool eng_has_limits(const struct engine *e);
/* Takes out of the view what its user's limit keeps from starting; of the rest
 * no upper end is above what is left.
 * in   tells  the jobs with such ids get it as their reason */
int eng_limit_view(struct engine *e, struct policy_view *v,
                   struct policy_job *jobs, uint64_t tells,
                   struct error *err) MUST_CHECK;
/* The same for starts that together are too many; they become waits.
 * out  ret_again  there were some: a plan without them may start others */
int eng_limit_wishes(struct engine *e, struct policy_view *v,
                     struct policy_job *jobs, struct policy_wish *wishes,
                     size_t n, uint64_t tells, bool *ret_again,
                     struct error *err) MUST_CHECK;
bool eng_is_limited(const struct engine *e, const struct job *job,
                    int32_t gpus);
/* err  ERR_LIMIT it could never start */
int eng_check_limits(const struct engine *e, const struct job *job,
                     struct error *err) MUST_CHECK;

/* ---- submit_ahead.c ------------------------------------------------------
 */
/* A wish for a job that waits in the allocator, and that the policy was shown
 * as queued. */
int eng_ahead_wish(struct engine *e, struct entry *en,
                   const struct policy_wish *w, struct error *err) MUST_CHECK;
/* Asks for the first of those that wait for devices, after the policy has
 * planned. */
int eng_ahead(struct engine *e, const struct policy_view *view,
              const struct policy_wish *wishes, size_t n,
              struct error *err) MUST_CHECK;
/* in   classes  of the nodes that it is meant for */
int eng_intend(struct engine *e, struct entry *en, int32_t nodes, int32_t gpus,
               uint64_t classes, struct error *err) MUST_CHECK;

/* ---- preemption.c -------------------------------------------------------- */
/* Files for a view who is owed devices, where anybody is told to go. */
void eng_find_owed(struct engine *e);
/* So long the job that it went for is owed its devices; -INFINITY: it did not
 * go. */
double eng_owed_until(const struct entry *en);
/* Within one view, after eng_find_owed(). */
bool eng_is_owed(const struct engine *e, const struct entry *en);
/* What a policy is to know of a live job that may go, or does. */
void eng_view_preempt(const struct engine *e, const struct entry *en,
                      double now_s, struct policy_job *io);
/* The wish was checked, but for what happened to it since. err  ERR_NOMEM */
int eng_preempt(struct engine *e, const struct policy_wish *wishes, size_t n,
                const struct policy_wish *w, struct error *err) MUST_CHECK;
/* When a plan could tell somebody to go whom this one could not; INFINITY. */
double eng_preempt_next(const struct engine *e, const struct policy_view *v);
/* When the attempt got its devices; now_s: it has not told yet. */
double eng_start_of(const struct entry *en, double now_s);
/* The time that the attempt has to end, once told. */
double eng_grace(const struct entry *en);

#endif
