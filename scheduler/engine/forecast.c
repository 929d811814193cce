/* forecast.c - when those may start that have others before them.
 *
 * A plan knows until when its first job waits, and of those behind it no more
 * than that they do. So the policy is asked again and again, each time at the
 * moment at which the next job is over if all end at their limits, and it is
 * taken down what it starts when. That is when each would start if nobody else
 * came.
 *
 * Done when somebody asks, never for a plan, once for all of them, and only as
 * far as it is cheap and known: behind ENGINE_FORECASTS others, in a queue of
 * more than QUEUE_MAX, behind a job without a limit, and where more than
 * devices decides - limits of users, preemption, a sweep's max_parallel -
 * nothing is said.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/core.h"
#include "scheduler/policy/place.h"

/* Jobs that are looked at, in all plans together; and those of which a view is
 * made at all, 0.3 us each: some milliseconds. */
enum { FORECAST_WORK = 1 << 16, QUEUE_MAX = 20000 };

struct forecast {
    struct engine *e;
    struct engine_start *starts; /* the caller's, [ENGINE_FORECASTS] */
    size_t n, n_waiting;
    struct eng_view
        t;        /* of a time to come: nodes and jobs are as they are then */
    int32_t *ats; /* owned; [ENGINE_FORECASTS][n_nodes], of those started */
    size_t work;
};

/* What decides besides devices is not known of a time to come. */
static bool is_known(const struct engine *e)
{
    return !eng_has_limits(e) && !e->parts.conf->preempt.is_on &&
           !e->is_draining && e->n_nodes > 0 && e->n_active <= QUEUE_MAX &&
           e->unavailable.code == ERR_NONE;
}

/* The highest priority of a job that may have to wait for others of its sweep:
 * from there down a start may come sooner or later. */
static int64_t capped_priority(const struct engine *e)
{
    int64_t top = INT64_MIN;
    for (size_t i = 0; i < e->n_active; i++) {
        const struct job *job = &e->active[i]->job;
        if (job->state == JOB_QUEUED && job->max_parallel > 0 &&
            job->priority > top)
            top = job->priority;
    }
    return top;
}

/* Those that live, and the first that wait. */
static void cut(struct forecast *f)
{
    size_t kept = 0;

    for (size_t i = 0; i < f->t.v.n_jobs; i++) {
        const struct policy_job job = f->t.jobs[i];
        bool waits = job.state == JOB_QUEUED;
        if (waits && f->n_waiting == ENGINE_FORECASTS)
            continue;
        f->n_waiting += waits;
        f->t.jobs[kept++] = job;
    }
    f->t.v.n_jobs = kept;
    f->t.v.jobs = f->t.jobs;
}

static struct policy_job *job_of(struct forecast *f, uint64_t id)
{
    size_t i = 0;
    while (f->t.jobs[i].id != id)
        i++;
    return &f->t.jobs[i];
}

static void start(struct forecast *f, const struct policy_wish *w)
{
    struct policy_job *job = job_of(f, w->id);
    struct place p = place_of(job, w->nodes, w->gpus_per_node);
    int32_t *at = &f->ats[f->n * f->t.v.n_nodes];

    f->starts[f->n++] = (struct engine_start){w->id, f->t.v.now_s};
    p.classes = w->classes;
    place_take(f->t.nodes, f->t.v.n_nodes, p, at);
    job->state = JOB_RUNNING;
    job->gpus = w->nodes * w->gpus_per_node;
    job->nodes = w->nodes;
    job->at = at;
    job->start_s = f->t.v.now_s;
}

static double end_of(const struct forecast *f, const struct policy_job *job)
{
    double start_s = isnan(job->start_s) ? f->t.v.now_s : job->start_s;
    return fmax(start_s + job->limit_s, f->t.v.now_s);
}

/* What of it is free: never more than there is, for others may be there, too.
 */
static void give_back(struct forecast *f, const struct policy_job *job)
{
    if (!job->at || job->nodes < 1 || (job->gpus < 1 && !job->is_exclusive))
        return;
    place_add(f->t.nodes, job->at,
              place_of(job, job->nodes, job->gpus / job->nodes), 1);
    for (int32_t k = 0; k < job->nodes; k++) {
        struct policy_node *node = &f->t.nodes[job->at[k]];
        struct policy_node *first = node - node->part;
        int32_t n = node->n_parts > 1 ? node->n_parts : 1;
        for (int32_t i = 0; i < n; i++)
            if (first[i].gpus_free > first[i].gpus_total)
                first[i].gpus_free = first[i].gpus_total;
    }
}

/* To the moment at which the next is over; false: none ever is. */
static bool go_on(struct forecast *f)
{
    double next_s = INFINITY;
    size_t n = 0;

    for (size_t i = 0; i < f->t.v.n_jobs; i++)
        if (job_state_is_live(f->t.jobs[i].state))
            next_s = fmin(next_s, end_of(f, &f->t.jobs[i]));
    if (!isfinite(next_s))
        return false;
    for (size_t i = 0; i < f->t.v.n_jobs; i++) {
        const struct policy_job job = f->t.jobs[i];
        if (job_state_is_live(job.state) && end_of(f, &job) <= next_s)
            give_back(f, &job);
        else
            f->t.jobs[n++] = job;
    }
    f->t.v.n_jobs = n;
    f->t.v.wall_s += next_s - f->t.v.now_s;
    f->t.v.now_s = next_s;
    return true;
}

/* As far as it is known. */
static void play(struct forecast *f)
{
    const struct policy *policy = f->e->policy;
    size_t n = 0;

    do {
        struct eng_view *t = &f->t;
        f->work += t->v.n_jobs;
        if (f->work > FORECAST_WORK ||
            policy->plan(&t->v, t->wishes, f->e->n_active, &n, NULL) < 0 ||
            eng_check_plan(&t->v, t->wishes, n, NULL) < 0)
            return;
        for (size_t i = 0; i < n; i++)
            if (t->wishes[i].act == POLICY_START)
                start(f, &t->wishes[i]);
    } while (f->n < f->n_waiting && go_on(f));
}

/* Those of which it can be said; in ascending order of their numbers. */
static size_t keep_known(struct forecast *f)
{
    int64_t capped = capped_priority(f->e);
    size_t n = 0;

    for (size_t i = 0; i < f->n; i++) {
        const struct job *job = &eng_find(f->e, f->starts[i].id)->job;
        struct engine_start one = f->starts[i];
        size_t at = n;
        if (job->state != JOB_QUEUED || job->priority <= capped)
            continue;
        for (; at > 0 && f->starts[at - 1].id > one.id; at--)
            f->starts[at] = f->starts[at - 1];
        f->starts[at] = one;
        n++;
    }
    return n;
}

int engine_forecast(struct engine *e, struct engine_start *ret, size_t *ret_n,
                    struct error *err)
{
    struct forecast f = {.e = e, .starts = ret};
    bool *was_ahead = NULL;

    *ret_n = 0;
    if (!is_known(e))
        return 0;
    if (eng_ahead_save(e, &was_ahead, err) < 0)
        return -1;
    int rc = eng_view_build(e, &f.t, err);
    if (rc == 0) {
        cut(&f);
        f.ats = calloc((size_t)ENGINE_FORECASTS * e->n_nodes, sizeof(*f.ats));
        rc = f.ats ? 0 : error_set(err, ERR_NOMEM, "out of memory");
    }
    if (rc == 0) {
        play(&f);
        *ret_n = keep_known(&f);
    }
    eng_ahead_restore(e, was_ahead);
    eng_view_clear(&f.t);
    free(f.ats);
    return rc;
}
