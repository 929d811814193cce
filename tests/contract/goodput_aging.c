/* goodput_aging.c - with aging no job waits for ever under a fair load.
 *
 * One node, four weeks, and a stream of short jobs that takes most of it. Among
 * them are long jobs, which weigh least. goodput plans each minute; what it
 * decides happens at once, and a resize costs half a minute. With aging, the
 * time from the submit to the end is within a bound of the job's length, which
 * is printed.
 */
#include <math.h>
#include <stdlib.h>

#include "jobs/base/rng.h"
#include "scheduler/policy/policy.h"
#include "tests/tap.h"

enum { GPUS = 8, JOBS = 256, SIZES = GPUS };
static const double STEP_S = 60, COST_S = 30, DAY_S = 86400;
/* A long job each 12 hours. The others take 10 minutes on the mean, and at
 * least five, which makes the load a tenth more. */
static const double LONG_S = 60000, LONG_EACH_S = 43200;
static const double SHORT_S = 600, SHORTEST_S = 300;
static const double LOAD = 0.8;
/* 2.5 is seen with aging, 4.3 without. */
static const double SLOWDOWN_MAX = 4;

struct run {
    struct rng rng;
    struct policy_view v;
    struct policy_node node;
    struct policy_job jobs[JOBS]; /* in the order of arrival */
    double waits_s[JOBS];         /* without GPUs, since it last had some */
    int32_t at;                   /* of all jobs: the node */
    struct policy_decision decisions[JOBS];
    struct policy_rate rates[SIZES];
    struct policy_curve curve;
    uint64_t last_id;
    double next_short_s, next_long_s;

    bool is_full;        /* there was no room for a job: the load is too much */
    double most_waits_s; /* the longest time that a job stood still */
    double most_slowdown; /* of all jobs, also of those that have not ended */
    int n_ended;
};

static double uniform(struct run *r)
{
    return (rng_u32(&r->rng) + 1.0) / 4294967297.0;
}

static double speed(int32_t gpus)
{
    return pow(gpus, 0.9);
}

static void come(struct run *r, double one_s)
{
    if (r->v.n_jobs == JOBS) {
        r->is_full = true;
        return;
    }
    size_t i = r->v.n_jobs++;
    r->waits_s[i] = 0;
    r->jobs[i] = (struct policy_job){
        .id = ++r->last_id,
        .state = JOB_QUEUED,
        .gpus_min = 1,
        .gpus_max = GPUS,
        .nodes_min = 1,
        .nodes_max = 1,
        .classes = POLICY_ANY_CLASS,
        .classes_ever = POLICY_ANY_CLASS,
        .submit_s = r->v.now_s,
        .start_s = NAN,
        .limit_s = INFINITY,
        .left_s = NAN,
        .cost_s = COST_S,
        .goodput = {.curve = &r->curve, .left_one_s = one_s, .one_s = one_s}};
}

static void note_slowdown(struct run *r, const struct policy_job *job)
{
    double s = (r->v.now_s - job->submit_s) / job->goodput.one_s;

    r->most_slowdown = fmax(r->most_slowdown, s);
}

static void leave(struct run *r, size_t i)
{
    r->node.gpus_free += r->jobs[i].gpus;
    r->n_ended++;
    r->v.n_jobs--;
    for (; i < r->v.n_jobs; i++) {
        r->jobs[i] = r->jobs[i + 1];
        r->waits_s[i] = r->waits_s[i + 1];
    }
}

static void set_size(struct run *r, struct policy_job *job, int32_t gpus)
{
    bool is_resize = job->gpus > 0;

    r->node.gpus_free += job->gpus - gpus;
    job->gpus = gpus;
    job->nodes = job->may_resize = gpus > 0;
    job->state = gpus > 0 ? JOB_RUNNING : JOB_QUEUED;
    job->at = gpus > 0 ? &r->at : NULL;
    job->start_s = gpus > 0 ? r->v.now_s : (double)NAN;
    job->goodput.left_one_s += is_resize ? COST_S * speed(gpus) : 0;
}

static struct policy_job *job_of(struct run *r, uint64_t id)
{
    size_t i = 0;

    while (r->jobs[i].id != id)
        i++;
    return &r->jobs[i];
}

static bool plan(struct run *r)
{
    struct error err = ERROR_INIT;
    size_t n = 0;

    if (policy_goodput.plan(&r->v, r->decisions, JOBS, &n, &err) < 0) {
        tap_diag("%s", err.msg);
        return false;
    }
    for (int starts = 0; starts < 2; starts++)
        for (size_t i = 0; i < n; i++) {
            const struct policy_decision *w = &r->decisions[i];
            if (w->act == (starts ? POLICY_START : POLICY_RESIZE))
                set_size(r, job_of(r, w->id), w->nodes * w->gpus_per_node);
        }
    return r->node.gpus_free >= 0;
}

static void pass(struct run *r)
{
    r->v.now_s += STEP_S;
    for (size_t i = r->v.n_jobs; i-- > 0;) {
        struct policy_job *job = &r->jobs[i];
        r->waits_s[i] = job->gpus > 0 ? 0 : r->waits_s[i] + STEP_S;
        r->most_waits_s = fmax(r->most_waits_s, r->waits_s[i]);
        note_slowdown(r, job);
        job->goodput.left_one_s -=
            job->gpus > 0 ? STEP_S * speed(job->gpus) : 0;
        if (job->goodput.left_one_s <= 0)
            leave(r, i);
    }
}

static void arrive(struct run *r)
{
    double short_share = LOAD - LONG_S / LONG_EACH_S / GPUS;

    for (; r->next_short_s <= r->v.now_s;
         r->next_short_s -= SHORT_S / (GPUS * short_share) * log(uniform(r)))
        come(r, fmax(SHORTEST_S, -SHORT_S * log(uniform(r))));
    for (; r->next_long_s <= r->v.now_s; r->next_long_s += LONG_EACH_S)
        come(r, LONG_S);
}

static bool run(struct run *r, double aging, double days)
{
    *r = (struct run){
        .node = {.gpus_total = GPUS, .gpus_free = GPUS, .is_up = 1}};
    rng_seed(&r->rng, 26);
    r->v = (struct policy_view){.now_s = 0,
                                .nodes = &r->node,
                                .n_nodes = 1,
                                .jobs = r->jobs,
                                .goodput = policy_goodput_default};
    r->v.goodput.aging = aging;
    for (int g = 0; g < SIZES; g++)
        r->rates[g] = (struct policy_rate){.nodes = 1,
                                           .per_node = g + 1,
                                           .per_s = speed(g + 1),
                                           .hoped_per_s = speed(g + 1),
                                           .basis = RATE_MEASURED,
                                           .n = 100};
    r->curve = (struct policy_curve){
        .rates = r->rates, .n_rates = SIZES, .one_per_s = 1, .largest = GPUS};
    while (r->v.now_s < days * DAY_S) {
        arrive(r);
        if (!plan(r))
            return false;
        pass(r);
    }
    return true;
}

static void show(const char *what, const struct run *r)
{
    tap_diag("%s: %d jobs ended, all within %.1f times their length on one "
             "GPU; none had no GPU for longer than %.1f h",
             what, r->n_ended, r->most_slowdown, r->most_waits_s / 3600);
}

int main(void)
{
    struct run *r = calloc(1, sizeof(*r));
    double without, waits_s;

    if (!r)
        return EXIT_FAILURE;
    ok(run(r, 0, 28), "four weeks without aging");
    show("no aging", r);
    without = r->most_slowdown;
    waits_s = r->most_waits_s;
    ok(run(r, policy_goodput_default.aging, 28) && !r->is_full,
       "four weeks with the default");
    show("aging", r);
    ok(r->n_ended > 10000, "jobs come and go");
    ok(r->most_slowdown <= SLOWDOWN_MAX, "the bound");
    ok(r->most_slowdown < without, "  is less than without aging");
    ok(r->most_waits_s < waits_s && r->most_waits_s < LONG_S,
       "no job stands still for as long as it takes on one GPU");
    free(r);
    return tap_done();
}
