/* start_forecast.c - start estimates for the first pending jobs.
 *
 * A plan knows the start time of its first pending job only. So the forecast
 * simulates the queue: it asks the policy repeatedly, each time at the moment
 * at which the next job ends if all jobs run to their limits, and records what
 * the policy starts. The result is when each job would start if no further job
 * came: the worst case.
 *
 * A second simulation uses the expected run times (runtime_history.h), because
 * most jobs end long before their limits. The policy still sees the limits.
 *
 * All jobs keep the sizes that they have, or start with: the policy goodput may
 * change them later, but a forecast of its changes would be a guess.
 *
 * The engine computes it on request, never for a plan, once for all jobs, and
 * only as far as it is cheap and known. There is no estimate behind
 * ENGINE_FORECASTS other jobs, in a queue of more than QUEUE_MAX, behind a job
 * without a limit, and where more than devices decides: limits of users,
 * preemption, a sweep's max_parallel.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/policy/placement.h"

/* FORECAST_WORK: jobs that the policy looks at in all plans together.
 * QUEUE_MAX: jobs for which a view is built at all, 0.3 us each. Together some
 * milliseconds. */
enum { FORECAST_WORK = 1 << 16, QUEUE_MAX = 20000 };

struct forecast {
    struct engine *e;
    bool is_expected;            /* use expected run times instead of limits */
    struct engine_start *starts; /* [ENGINE_FORECASTS] */
    size_t n, n_waiting;
    size_t n_measured; /* jobs expected to end before their limits */
    struct eng_view t; /* the simulated view: nodes and jobs at t.v.now_s */
    double *takes_s;   /* owned; run time of each job in t.jobs */
    int32_t *ats;      /* owned; [ENGINE_FORECASTS][n_nodes], nodes of the
                          started jobs */
    size_t work;
};

/* Whether devices alone decide; limits and preemption cannot be predicted. */
static bool is_known(const struct engine *e)
{
    return !eng_has_limits(e) && !e->parts.conf->preempt.is_on &&
           !e->is_draining && e->n_nodes > 0 && e->n_active <= QUEUE_MAX &&
           e->unavailable.code == ERR_NONE;
}

/* The highest priority of a job that may have to wait for other tasks of its
 * sweep: for jobs of this priority or a lower one the start is uncertain. */
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

/* Keeps the live jobs and the first pending ones. */
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

/* Run time of the job from start to end. in for_s how long it has run by now */
static double takes_s(struct forecast *f, const struct policy_job *job,
                      double for_s)
{
    double s = f->is_expected
                   ? eng_runtime_expect_s(f->e, eng_find(f->e, job->id),
                                          job->nodes, job->gpus, for_s, 0.5)
                   : (double)NAN;
    f->n_measured += s < job->limit_s;
    return isnan(s) ? job->limit_s : s;
}

static struct policy_job *job_of(struct forecast *f, uint64_t id)
{
    size_t i = 0;
    while (f->t.jobs[i].id != id)
        i++;
    return &f->t.jobs[i];
}

static void start(struct forecast *f, const struct policy_decision *w)
{
    struct policy_job *job = job_of(f, w->id);
    struct place p = place_of(job, w->nodes, w->gpus_per_node);
    int32_t *at = &f->ats[f->n * f->t.v.n_nodes];

    f->starts[f->n++] = (struct engine_start){w->id, f->t.v.now_s, NAN};
    p.classes = w->classes;
    place_take(f->t.nodes, f->t.v.n_nodes, p, at);
    job->state = JOB_RUNNING;
    job->gpus = w->nodes * w->gpus_per_node;
    job->nodes = w->nodes;
    job->at = at;
    job->start_s = f->t.v.now_s;
    f->takes_s[job - f->t.jobs] = takes_s(f, job, 0);
}

static double end_of(const struct forecast *f, size_t i)
{
    double start_s = f->t.jobs[i].start_s;
    return fmax((isnan(start_s) ? f->t.v.now_s : start_s) + f->takes_s[i],
                f->t.v.now_s);
}

/* Releases the job's GPUs. The free GPUs never exceed the total, because others
 * may use the node, too. */
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

/* Advances to the moment at which the next job ends; false: none ever ends. */
static bool go_on(struct forecast *f)
{
    double next_s = INFINITY;
    size_t n = 0;

    for (size_t i = 0; i < f->t.v.n_jobs; i++)
        if (job_state_is_live(f->t.jobs[i].state))
            next_s = fmin(next_s, end_of(f, i));
    if (!isfinite(next_s))
        return false;
    for (size_t i = 0; i < f->t.v.n_jobs; i++) {
        const struct policy_job job = f->t.jobs[i];
        if (job_state_is_live(job.state) && end_of(f, i) <= next_s) {
            give_back(f, &job);
            continue;
        }
        f->takes_s[n] = f->takes_s[i];
        f->t.jobs[n++] = job;
    }
    f->t.v.n_jobs = n;
    f->t.v.wall_s += next_s - f->t.v.now_s;
    f->t.v.now_s = next_s;
    return true;
}

/* Simulates until all pending jobs have started, or the limits are reached. */
static void play(struct forecast *f)
{
    const struct policy *policy = f->e->policy;
    size_t n = 0;

    do {
        struct eng_view *t = &f->t;
        f->work += t->v.n_jobs;
        if (f->work > FORECAST_WORK ||
            policy->plan(&t->v, t->decisions, f->e->n_active, &n, NULL) < 0 ||
            eng_check_plan(&t->v, t->decisions, n, NULL) < 0)
            return;
        for (size_t i = 0; i < n; i++)
            if (t->decisions[i].act == POLICY_START)
                start(f, &t->decisions[i]);
    } while (f->n < f->n_waiting && go_on(f));
}

/* Keeps the starts that are certain, in ascending order of ids. */
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

static int prepare(struct forecast *f, struct error *err)
{
    if (eng_view_build(f->e, &f->t, err) < 0)
        return -1;
    cut(f);
    f->ats = calloc((size_t)ENGINE_FORECASTS * f->e->n_nodes, sizeof(*f->ats));
    f->takes_s = calloc(f->t.v.n_jobs + 1, sizeof(*f->takes_s));
    if (!f->ats || !f->takes_s)
        return error_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < f->t.v.n_jobs; i++) {
        const struct policy_job *job = &f->t.jobs[i];
        if (!job_state_is_live(job->state))
            continue;
        f->takes_s[i] = takes_s(f, job, fmax(0, f->t.v.now_s - job->start_s));
        f->t.jobs[i].may_resize = 0;
    }
    return 0;
}

/* out  ret  [ENGINE_FORECASTS] */
static int forecast(struct engine *e, bool is_expected,
                    struct engine_start *ret, size_t *ret_n,
                    size_t *ret_measured, struct error *err)
{
    struct forecast f = {.e = e, .is_expected = is_expected, .starts = ret};
    bool *was_ahead = NULL;

    *ret_n = 0;
    if (eng_ahead_save(e, &was_ahead, err) < 0)
        return -1;
    int rc = prepare(&f, err);
    if (rc == 0) {
        play(&f);
        *ret_n = keep_known(&f);
        *ret_measured = f.n_measured;
    }
    eng_ahead_restore(e, was_ahead);
    eng_view_clear(&f.t);
    free(f.ats);
    free(f.takes_s);
    return rc;
}

/* Both lists are in order of ids. A job with an expected start may be behind a
 * job without a limit, so that it has no worst case. */
static size_t merge(struct engine_start *io, size_t n,
                    const struct engine_start *expected, size_t n_expected)
{
    struct engine_start all[2 * ENGINE_FORECASTS] = {{.id = 0}};
    size_t i = 0, k = 0, n_all = 0;

    while (i < n || k < n_expected) {
        bool is_in = i < n && (k == n_expected || io[i].id <= expected[k].id);
        struct engine_start one = is_in ? io[i++]
                                        : (struct engine_start){
                                              .id = expected[k].id,
                                              .start_s = NAN,
                                          };
        one.expected_s = NAN;
        if (k < n_expected && expected[k].id == one.id) {
            double s = expected[k++].start_s;
            one.expected_s = s >= one.start_s ? (double)NAN : s;
        }
        all[n_all++] = one;
    }
    if (n_all > ENGINE_FORECASTS)
        n_all = ENGINE_FORECASTS; /* neither list has more pending jobs */
    memcpy(io, all, n_all * sizeof(*io));
    return n_all;
}

int engine_forecast(struct engine *e, struct engine_start *ret, size_t *ret_n,
                    struct error *err)
{
    struct engine_start expected[ENGINE_FORECASTS];
    size_t n_expected = 0, n_measured = 0;

    *ret_n = 0;
    if (!is_known(e))
        return 0;
    if (forecast(e, false, ret, ret_n, &n_measured, err) < 0 ||
        forecast(e, true, expected, &n_expected, &n_measured, err) < 0)
        return -1;
    if (n_measured > 0)
        *ret_n = merge(ret, *ret_n, expected, n_expected);
    return 0;
}
