/* owed.c - see owed.h.
 *
 * The picture `soon` is what is free with all that leaves: jobs that were told
 * to go, for whatever reason, jobs whose time limit comes before anybody could
 * be made to go, and those that this plan tells to. Whoever is owed has his
 * place in that picture, and each start is tried on it.
 */
#include "scheduler/policy/owed.h"

#include <stdlib.h>
#include <string.h>

bool owed_has_devices(const struct policy_job *job)
{
    return job_state_is_live(job->state) && job->at && job->nodes > 0 &&
           (job->gpus > 0 || job->is_exclusive);
}

/* By itself, before anybody who is told now is sure to be gone. */
static bool leaves_anyway(const struct policy_view *v,
                          const struct policy_job *job)
{
    double slack_s = POLICY_PREEMPT_SLACK_S;
    double end_s = job->start_s + job->limit_s;

    return (job->is_leaving && job->leaves_s + slack_s > v->now_s) ||
           (end_s <= v->now_s + v->preempt.grace_s &&
            end_s + slack_s > v->now_s);
}

void owed_add(struct policy_node *nodes, const struct policy_job *job,
              int32_t sign)
{
    place_add(nodes, job->at, place_of(job, job->nodes, job->gpus / job->nodes),
              sign);
}

/* On p->trial, as it is. The first who has no place left, if any. */
static struct plan_owed *place_on_trial(const struct plan *p)
{
    size_t n = p->view->n_nodes;

    for (size_t i = 0; i < p->n_owed; i++) {
        struct plan_owed *o = &p->owed[i];
        if (o->is_stuck || o->has_them)
            continue;
        if (!place_fits(p->trial, n, o->place))
            return o;
        place_take(p->trial, n, o->place, p->trial_at);
    }
    return NULL;
}

struct plan_owed *owed_place(const struct plan *p,
                             const struct policy_node *from)
{
    memcpy(p->trial, from, p->view->n_nodes * sizeof(*p->trial));
    return place_on_trial(p);
}

/* The same, when the allocator finds a place for the start only after all have
 * left, so that it is another one. */
static struct plan_owed *place_owed_late(const struct plan *p,
                                         struct place start)
{
    size_t n = p->view->n_nodes;

    memcpy(p->trial, p->soon, n * sizeof(*p->trial));
    place_take(p->trial, n, start, p->trial_at);
    return place_on_trial(p);
}

/* Places for those who were owed something before this plan, one after the
 * other. How many have none. */
static size_t keep_places(struct plan *p)
{
    size_t n = p->view->n_nodes, n_stuck = 0;

    memcpy(p->trial, p->soon, n * sizeof(*p->trial));
    for (size_t i = 0; i < p->n_owed; i++) {
        struct plan_owed *o = &p->owed[i];
        o->is_stuck = !place_find(p->trial, n, o->job, &o->place);
        n_stuck += o->is_stuck;
        if (!o->is_stuck)
            place_take(p->trial, n, o->place, p->trial_at);
    }
    return n_stuck;
}

/* Both are of one array, which is in order. */
static int by_view(const void *x, const void *y)
{
    const struct policy_job *a = ((const struct plan_owed *)x)->job;
    const struct policy_job *b = ((const struct plan_owed *)y)->job;
    return (a > b) - (a < b);
}

/* Who needs more nodes, or more of them, finds a place less easily. */
static int by_width(const void *x, const void *y)
{
    const struct policy_job *a = ((const struct plan_owed *)x)->job;
    const struct policy_job *b = ((const struct plan_owed *)y)->job;
    if (a->nodes_min != b->nodes_min)
        return a->nodes_min > b->nodes_min ? -1 : 1;
    if (a->gpus_min != b->gpus_min)
        return a->gpus_min > b->gpus_min ? -1 : 1;
    return by_view(x, y);
}

/* One who came later and goes first may have what comes free for a wide job,
 * by best fit, although there is room for both: it then waits until the next
 * job ends. So the wide are placed first where not all find a place else. */
static void keep_all(struct plan *p)
{
    size_t n_stuck = keep_places(p);

    if (n_stuck == 0)
        return;
    qsort(p->owed, p->n_owed, sizeof(*p->owed), by_width);
    if (keep_places(p) < n_stuck)
        return;
    qsort(p->owed, p->n_owed, sizeof(*p->owed), by_view);
    (void)keep_places(p);
}

void owed_picture(const struct plan *p, struct policy_node *ret)
{
    size_t n = p->view->n_nodes;

    if (p->soon)
        (void)owed_place(p, p->soon);
    memcpy(ret, p->soon ? p->trial : p->nodes, n * sizeof(*ret));
}

int owed_begin(struct plan *p, struct error *err)
{
    const struct policy_view *v = p->view;
    size_t n = v->n_nodes + 1;

    p->soon = malloc(n * sizeof(*p->soon));
    p->trial = malloc(n * sizeof(*p->trial));
    p->trial_at = malloc(n * sizeof(*p->trial_at));
    p->owed = malloc((v->n_jobs + 1) * sizeof(*p->owed));
    p->leaves = calloc(v->n_jobs + 1, sizeof(*p->leaves));
    if (!p->soon || !p->trial || !p->trial_at || !p->owed || !p->leaves)
        return error_set(err, ERR_NOMEM, "out of memory");
    memcpy(p->soon, p->nodes, v->n_nodes * sizeof(*p->soon));
    for (size_t i = 0; i < v->n_jobs; i++) {
        p->leaves[i] =
            owed_has_devices(&v->jobs[i]) && leaves_anyway(v, &v->jobs[i]);
        if (p->leaves[i])
            owed_add(p->soon, &v->jobs[i], 1);
        p->n_leaving += p->leaves[i] && v->jobs[i].is_leaving;
    }
    p->n_owed = 0;
    for (size_t i = 0; i < v->n_jobs; i++)
        if (v->jobs[i].state == JOB_QUEUED && v->jobs[i].is_owed)
            p->owed[p->n_owed++] = (struct plan_owed){.job = &v->jobs[i]};
    keep_all(p);
    return 0;
}

void owed_end(struct plan *p)
{
    free(p->soon);
    free(p->trial);
    free(p->trial_at);
    free(p->owed);
    free(p->leaves);
    p->soon = p->trial = NULL;
    p->trial_at = NULL;
    p->owed = NULL;
    p->leaves = NULL;
}

struct plan_owed *owed_of(const struct plan *p, const struct policy_job *job)
{
    for (size_t i = 0; i < p->n_owed; i++)
        if (p->owed[i].job->id == job->id)
            return &p->owed[i];
    return NULL;
}

/* Of a job that is stuck nobody knows where its devices come free. */
struct plan_owed *owed_stuck_before(const struct plan *p,
                                    const struct policy_job *job)
{
    for (size_t i = 0; i < p->n_owed; i++)
        if (p->owed[i].is_stuck && p->owed[i].job->id != job->id &&
            policy_in_order(p->owed[i].job, job) &&
            (plan_reach(p, p->owed[i].job) & plan_reach(p, job)))
            return &p->owed[i];
    return NULL;
}

/* `soon` is without the start. */
static struct plan_owed *robbed_by(const struct plan *p, struct place start)
{
    struct plan_owed *robbed = owed_place(p, p->soon);
    if (robbed)
        return robbed;
    place_add(p->soon, p->at, start, 1);
    robbed = place_owed_late(p, start);
    place_add(p->soon, p->at, start, -1);
    return robbed;
}

/* Those who are owed start in the order of the view, but none with what others
 * are to have while his own is still to come. When all have left, whoever is
 * first takes what there is. */
const struct plan_owed *owed_take(struct plan *p, const struct policy_job *job,
                                  struct place place)
{
    struct plan_owed *self, *robbed;

    if (!p->soon)
        return NULL;
    self = owed_of(p, job);
    robbed = self ? NULL : owed_stuck_before(p, job);
    if (robbed)
        return robbed;
    place_add(p->soon, p->at, place, -1);
    if (self)
        self->has_them = true;
    while ((robbed = robbed_by(p, place)) && self && p->n_leaving == 0)
        robbed->is_stuck = true;
    if (!robbed)
        return NULL;
    if (self)
        self->has_them = false;
    place_add(p->soon, p->at, place, 1);
    return robbed;
}
