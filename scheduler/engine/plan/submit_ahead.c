/* submit_ahead.c - jobs that wait in the cluster's queue, not only in ours.
 *
 * Who shares a cluster has to stand in its line: devices that come free go to
 * whoever waits there. A job that is asked for when it fits stands in no
 * line, so others' jobs pass it, and a wide one may never fit. So the first
 * that lack devices, submit_ahead for each set of nodes that does not meet
 * another, are asked for at once. The cluster's own priority, backfill and
 * reservations then work for them.
 *
 * The policy sees them as queued jobs still, and plans around them. Whatever
 * it would do otherwise is done by taking the attempt back: another size of
 * the job fits now, or a job that goes before it lacks devices, too. The
 * attempt is over for the engine, at no cost to the job, before the allocator
 * hears of it: if it starts in that moment its worker is fenced. A job is not
 * planned again before the allocator has heard.
 *
 * One that the cluster holds for a limit of its user takes no place here, and
 * no other job of that user gets one: it would be held as well.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "scheduler/engine/attempts/attempts.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/policy/placement.h"

static int take_back(struct engine *e, struct entry *en, const char *why,
                     struct error *err)
{
    struct detail d = DETAIL_INIT;
    int32_t attempt = en->job.attempt;

    d.exit_code = EXIT_NEVER_RAN;
    detail_because(&d, eng_taken_back, why);
    if (eng_stage(e, en, EV_REQUEUE, -1, &d, err) < 0)
        return -1;
    en->dropped = attempt;
    eng_file(e, en);
    return 0;
}

/* Not one whose request was not answered: it may have been granted. */
int eng_take_all_back(struct engine *e, const char *why, struct error *err)
{
    struct entry *en = eng_next_moving(e, 0);

    for (; en; en = eng_next_moving(e, en->job.id)) {
        if (en->job.state == JOB_DISPATCHING && en->is_heard &&
            isinf(en->ask_at_s) && en->job.native_id[0] == '\0' &&
            !eng_is_ending(en) && take_back(e, en, why, err) < 0)
            return -1;
    }
    return 0;
}

int eng_ahead_wish(struct engine *e, struct entry *en,
                   const struct policy_wish *w, struct error *err)
{
    const struct job *job = &en->job;
    char why[80];

    en->job.start_estimate_s = w->act == POLICY_WAIT ? w->start_s : (double)NAN;
    bool is_same_type = job->gpu_type[0] == '\0' ||
                        (w->classes & ~eng_type_classes(e, job->gpu_type)) == 0;
    if (w->act == POLICY_WAIT ||
        (w->nodes == job->nodes && w->nodes * w->gpus_per_node == job->gpus &&
         is_same_type))
        return 0;
    (void)snprintf(why, sizeof(why),
                   "%" PRId32 " GPUs on %" PRId32 " nodes fit now",
                   w->nodes * w->gpus_per_node, w->nodes);
    return take_back(e, en, why, err);
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

/* The cluster holds a job of this user for a reason that devices do not end. */
static bool has_held(const struct engine *e, int64_t uid)
{
    for (size_t i = 0; i < e->files.moving.n; i++) {
        const struct entry *en = e->files.moving.at[i];
        if (en->job.uid == uid && en->is_held &&
            job_state_is_live(en->job.state) && en->job.native_id[0] == '\0')
            return true;
    }
    return false;
}

/* Those that meet the job's nodes: how many stand in line, and the last. */
static int32_t in_line(const struct engine *e, const struct policy_view *v,
                       const struct policy_job *job,
                       const struct policy_job **ret_last)
{
    int32_t n = 0;

    *ret_last = NULL;
    for (size_t i = 0; i < v->n_jobs; i++) {
        const struct policy_job *other = &v->jobs[i];
        const struct entry *en = eng_find(e, other->id);
        if (other->state != JOB_QUEUED || !job_state_is_live(en->job.state) ||
            !en->is_ahead || (other->classes & job->classes) == 0)
            continue;
        n++;
        *ret_last = other;
    }
    return n;
}

/* One that lacks devices. The jobs of a view are in the policy's order. */
static int consider(struct engine *e, const struct policy_view *v,
                    const struct policy_job *job, struct error *err)
{
    struct entry *en = eng_find(e, job->id);
    const struct policy_job *last;
    struct place p;
    char why[80];

    int32_t n = in_line(e, v, job, &last);
    bool is_full = n >= e->parts.conf->submit_ahead;
    if ((is_full && last < job) || has_held(e, en->job.uid) ||
        !place_empty(v->nodes, v->n_nodes, job, &p) ||
        eng_is_limited(e, &en->job, p.nodes * p.per_node))
        return 0;
    if (is_full) {
        (void)snprintf(why, sizeof(why), "job %" PRIu64 " goes first", job->id);
        if (take_back(e, eng_find(e, last->id), why, err) < 0)
            return -1;
    }
    if (eng_intend(e, en, p.nodes, p.nodes * p.per_node, p.classes, err) < 0)
        return -1;
    en->is_ahead = true;
    return 0;
}

int eng_ahead(struct engine *e, const struct policy_view *view,
              const struct policy_wish *wishes, size_t n, struct error *err)
{
    size_t at = 0;

    for (size_t i = 0; e->parts.conf->submit_ahead > 0 && i < n; i++) {
        const struct policy_wish *w = &wishes[i];
        const struct policy_job *job =
            w->lacks ? in_view(view, w->id, &at) : NULL;
        if (job && eng_find(e, job->id)->job.state == JOB_QUEUED &&
            eng_find(e, job->id)->dropped == 0 &&
            consider(e, view, job, err) < 0)
            return -1;
    }
    return 0;
}
