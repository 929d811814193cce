/* submit_ahead.c - submit jobs to the cluster's queue before they fit.
 *
 * On a shared cluster, freed GPUs go to jobs pending in Slurm's queue. A job
 * that is submitted only when it fits is never in that queue, so jobs of others
 * overtake it, and a wide job may never fit. So the engine submits the first
 * jobs that lack devices at once, submit_ahead of them for each disjoint set of
 * nodes. The cluster's own priority, backfill and reservations then apply to
 * them.
 *
 * The policy still sees these jobs as queued, and plans around them. If it
 * decides otherwise, the engine cancels the attempt: another size of the job
 * fits now, or a job that goes before it lacks devices, too. The attempt is
 * over for the engine, without counting a retry, before the allocator hears of
 * it: if it starts at that moment, its worker is fenced. The job is not planned
 * again before the allocator has been told.
 *
 * A job that the cluster holds for a limit of its user does not count here, and
 * no other job of that user is submitted ahead: the cluster would hold it as
 * well.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "scheduler/engine/attempts/attempts.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/engine/plan/take_back.h"
#include "scheduler/policy/placement.h"

int eng_ahead_decision(struct engine *e, struct job_record *rec,
                       const struct policy_decision *w, struct error *err)
{
    const struct job *job = &rec->job;
    char why[80];

    rec->job.start_estimate_s =
        w->act == POLICY_WAIT ? w->start_s : (double)NAN;
    bool is_same_type = job->gpu_type[0] == '\0' ||
                        (w->classes & ~eng_type_classes(e, job->gpu_type)) == 0;
    if (w->act == POLICY_WAIT ||
        (w->nodes == job->nodes && w->nodes * w->gpus_per_node == job->gpus &&
         is_same_type))
        return 0;
    (void)snprintf(why, sizeof(why),
                   "%" PRId32 " GPUs on %" PRId32 " nodes fit now",
                   w->nodes * w->gpus_per_node, w->nodes);
    return eng_take_back(e, rec, why, err);
}

/* ---- whose turn it is to stand in line ------------------------------------
 */
static const struct policy_job *in_view(const struct policy_view *v,
                                        uint64_t id, size_t *at)
{
    for (size_t n = 0; n < v->n_jobs; n++, (*at)++) {
        if (*at >= v->n_jobs)
            *at = 0;
        if (v->jobs[*at].id == id)
            return &v->jobs[*at];
    }
    return NULL;
}

/* Whether the cluster holds a job of this user for a reason other than
 * devices. */
static bool has_held(const struct engine *e, int64_t uid)
{
    for (size_t i = 0; i < e->lists.moving.n; i++) {
        const struct job_record *rec = e->lists.moving.at[i];
        if (rec->job.uid == uid && rec->is_held &&
            job_state_is_live(rec->job.state) && rec->job.native_id[0] == '\0')
            return true;
    }
    return false;
}

/* Counts the jobs in the cluster's queue that compete for the job's nodes. out
 * ret_last the last of them */
static int32_t in_line(const struct engine *e, const struct policy_view *v,
                       const struct policy_job *job,
                       const struct policy_job **ret_last)
{
    int32_t n = 0;

    *ret_last = NULL;
    for (size_t i = 0; i < v->n_jobs; i++) {
        const struct policy_job *other = &v->jobs[i];
        const struct job_record *rec = eng_find(e, other->id);
        if (other->state != JOB_QUEUED || !job_state_is_live(rec->job.state) ||
            !rec->is_ahead || (other->classes & job->classes) == 0)
            continue;
        n++;
        *ret_last = other;
    }
    return n;
}

/* Submits one job that lacks devices, if it is its turn. The jobs of a view are
 * in the policy's order. */
static int consider(struct engine *e, const struct policy_view *v,
                    const struct policy_job *job, struct error *err)
{
    struct job_record *rec = eng_find(e, job->id);
    const struct policy_job *last;
    struct policy_job as = *job;
    struct place p;
    char why[80];

    /* A preference for a type must not keep it from what comes free first. */
    if (!eng_wants_type(e, &rec->job))
        as.n_sets = 0;
    int32_t n = in_line(e, v, job, &last);
    bool is_full = n >= e->parts.conf->submit_ahead;
    if ((is_full && last < job) || has_held(e, rec->job.uid) ||
        !place_empty(v->nodes, v->n_nodes, &as, &p) ||
        eng_is_limited(e, &rec->job, p.nodes * p.per_node))
        return 0;
    if (is_full) {
        (void)snprintf(why, sizeof(why), "job %" PRIu64 " goes first", job->id);
        if (eng_take_back(e, eng_find(e, last->id), why, err) < 0)
            return -1;
    }
    if (eng_intend(e, rec, p.nodes, p.nodes * p.per_node, p.classes, err) < 0)
        return -1;
    rec->is_ahead = true;
    return 0;
}

int eng_ahead(struct engine *e, const struct policy_view *view,
              const struct policy_decision *decisions, size_t n,
              struct error *err)
{
    size_t at = 0;

    for (size_t i = 0; e->parts.conf->submit_ahead > 0 && i < n; i++) {
        const struct policy_decision *w = &decisions[i];
        const struct policy_job *job =
            w->lacks ? in_view(view, w->id, &at) : NULL;
        if (job && eng_find(e, job->id)->job.state == JOB_QUEUED &&
            eng_find(e, job->id)->dropped == 0 &&
            consider(e, view, job, err) < 0)
            return -1;
    }
    return 0;
}
