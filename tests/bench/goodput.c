/* goodput.c - how long goodput takes to plan, and how that grows.
 *
 * usage: goodput [JOBS [NODES [PLANS]]]
 *
 * Without an argument: 1,000, 3,000, 10,000 and 30,000 jobs on as many GPUs,
 * and the exponent with which the median of a plan grows.
 *
 * Nodes of 8 GPUs, fifty classes of jobs of 1 to 64 GPUs. All nodes are in use;
 * three quarters of the jobs wait. From one plan to the next the jobs have less
 * left to do, and one of them has ended.
 *
 * At first nothing is carried out, so that each plan wants to change the sizes
 * of most jobs: the dearest ones. Then the plans are carried out, and what one
 * costs that follows a single change of a settled cluster is measured.
 *
 * Each once more on a cluster shared with others.
 *
 * The times are of the CPU, so that other load does not count. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "jobs/base/rng.h"
#include "scheduler/policy/placement.h"
#include "scheduler/policy/policy.h"

enum { GPUS = 8, CLASSES = 50, NODES_MAX = 8, SIZES = GPUS + NODES_MAX - 1 };
/* Plans that are carried out until few sizes change. */
enum { SETTLE = 10, MIN_RUNTIME_S = 60 };

struct bench {
    struct rng rng;
    struct policy_view v;
    struct policy_node *nodes; /* owned, like all that follows */
    struct policy_job *jobs;
    int32_t *at;
    struct policy_decision *decisions;
    double *took_s;
    struct policy_rate rates[CLASSES][SIZES];
    struct policy_curve curves[CLASSES];
};

static int32_t draw(struct bench *b, int32_t from, int32_t to)
{
    return from + (int32_t)(rng_u32(&b->rng) % (uint32_t)(to - from + 1));
}

static void make_curves(struct bench *b)
{
    for (int c = 0; c < CLASSES; c++) {
        double serial = draw(b, 1, 40) / 100.0;
        for (int k = 0; k < SIZES; k++) {
            int32_t nodes = k < GPUS ? 1 : k - GPUS + 2;
            int32_t each = k < GPUS ? k + 1 : GPUS;
            double per_s = 1 / (serial + (1 - serial) / (nodes * each));
            b->rates[c][k] = (struct policy_rate){.nodes = nodes,
                                                  .per_node = each,
                                                  .per_s = per_s,
                                                  .hoped_per_s = per_s,
                                                  .basis = RATE_MEASURED,
                                                  .n = 100};
        }
        b->curves[c] = (struct policy_curve){.rates = b->rates[c],
                                             .n_rates = SIZES,
                                             .one_per_s = 1,
                                             .largest = GPUS * 8};
    }
}

static int32_t *at_of(const struct bench *b, size_t i)
{
    return &b->at[i * NODES_MAX];
}

/* A quarter of the jobs runs, on as many GPUs as there are. */
static void make_jobs(struct bench *b, size_t n)
{
    size_t node = 0;

    for (size_t i = 0; i < n; i++) {
        struct policy_job *job = &b->jobs[i];
        int32_t gpus = draw(b, 1, GPUS);
        *job = (struct policy_job){
            .id = i + 1,
            .state = JOB_QUEUED,
            .gpus_min = 1,
            .gpus_max = GPUS * 8,
            .nodes_min = 1,
            .nodes_max = NODES_MAX,
            .classes = POLICY_ANY_CLASS,
            .classes_ever = POLICY_ANY_CLASS,
            .submit_s = (double)i,
            .start_s = NAN,
            .limit_s = INFINITY,
            .left_s = NAN,
            .cost_s = 30,
            .goodput = {.curve = &b->curves[draw(b, 0, CLASSES - 1)]}};
        job->goodput.left_one_s = job->goodput.one_s = draw(b, 100, 200000);
        if (node == b->v.n_nodes || i % 4 > 0)
            continue;
        gpus =
            gpus < b->nodes[node].gpus_free ? gpus : b->nodes[node].gpus_free;
        *at_of(b, i) = (int32_t)node;
        job->state = JOB_RUNNING;
        job->at = at_of(b, i);
        job->gpus = gpus;
        job->nodes = 1;
        job->start_s = b->v.now_s - draw(b, 0, 7200);
        job->may_resize = 1;
        b->nodes[node].gpus_free -= gpus;
        node += b->nodes[node].gpus_free == 0;
    }
}

static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static struct place place_now(const struct policy_job *job)
{
    return place_of(job, job->nodes, job->gpus / job->nodes);
}

static void release(struct bench *b, size_t i)
{
    struct policy_job *job = &b->jobs[i];

    if (job->gpus == 0)
        return;
    place_add(b->nodes, at_of(b, i), place_now(job), 1);
    job->state = JOB_QUEUED;
    job->at = NULL;
    job->gpus = job->nodes = job->may_resize = 0;
    job->start_s = NAN;
}

static void occupy(struct bench *b, size_t i, const struct policy_decision *w)
{
    struct policy_job *job = &b->jobs[i];
    struct place place = place_of(job, w->nodes, w->gpus_per_node);

    if (w->nodes == 0 || !place_fits(b->nodes, b->v.n_nodes, place))
        return;
    place_take(b->nodes, b->v.n_nodes, place, at_of(b, i));
    job->state = JOB_RUNNING;
    job->at = at_of(b, i);
    job->gpus = w->nodes * w->gpus_per_node;
    job->nodes = w->nodes;
    job->may_resize = 1;
    job->start_s = b->v.now_s - MIN_RUNTIME_S;
}

/* At once: what is resized leaves, then all get their GPUs. */
static void carry_out(struct bench *b, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (b->decisions[k].act == POLICY_RESIZE)
            release(b, (size_t)b->decisions[k].id - 1);
    for (size_t k = 0; k < n; k++)
        if (b->decisions[k].act != POLICY_WAIT)
            occupy(b, (size_t)b->decisions[k].id - 1, &b->decisions[k]);
}

/* What a plan of a phase may cost, in ms of CPU time. */
struct goal {
    int p99_ms, longest_ms;
};

static int measure(struct bench *b, size_t n_plans, bool is_settled,
                   struct goal goal, double *ret_median_s, struct error *err)
{
    for (size_t k = 0; k < n_plans; k++) {
        size_t n;
        clock_t began = clock();
        if (policy_goodput.plan(&b->v, b->decisions, b->v.n_jobs, &n, err) < 0)
            return -1;
        b->took_s[k] = (double)(clock() - began) / CLOCKS_PER_SEC;
        b->v.now_s += 1;
        if (is_settled)
            carry_out(b, n);
        for (size_t i = 0; i < b->v.n_jobs; i++)
            b->jobs[i].goodput.left_one_s *= 0.999;
        size_t out = (size_t)draw(b, 0, (int32_t)b->v.n_jobs - 1);
        if (is_settled)
            release(b, out);
        b->jobs[out].goodput.left_one_s = draw(b, 100, 200000);
    }
    qsort(b->took_s, n_plans, sizeof(*b->took_s), by_time);
    (void)printf("%zu jobs x %zu GPUs%s, %s: plan p50 %.1f ms, p99 %.1f ms, "
                 "longest %.1f ms of CPU, goal p99 %d, longest %d\n",
                 b->v.n_jobs, b->v.n_nodes * GPUS,
                 b->v.is_shared ? " of a shared cluster" : "",
                 is_settled ? "one job comes or goes" : "all sizes change",
                 1e3 * b->took_s[n_plans / 2],
                 1e3 * b->took_s[n_plans * 99 / 100],
                 1e3 * b->took_s[n_plans - 1], goal.p99_ms, goal.longest_ms);
    *ret_median_s = b->took_s[n_plans / 2];
    return 0;
}

enum { PHASES = 4 };
static const char *const phase_names[PHASES] = {
    "all sizes change", "all sizes change, shared", "one job comes or goes",
    "one job comes or goes, shared"};

static int measure_all(struct bench *b, size_t n_plans, double ret_s[PHASES],
                       struct error *err)
{
    bool is_large = b->v.n_jobs > 10000;

    for (int phase = 0; phase < PHASES; phase++) {
        bool is_settled = phase >= PHASES / 2;
        int p99_ms = is_large ? 60 : phase == 2 ? 5 : 50;
        struct goal goal = {p99_ms, is_large ? 300 : p99_ms};
        b->v.is_shared = false;
        for (int i = 0; phase == PHASES / 2 && i < SETTLE; i++) {
            size_t n;
            if (policy_goodput.plan(&b->v, b->decisions, b->v.n_jobs, &n, err) <
                0)
                return -1;
            carry_out(b, n);
        }
        b->v.is_shared = phase % 2 == 1;
        if (measure(b, n_plans, is_settled, goal, &ret_s[phase], err) < 0)
            return -1;
    }
    return 0;
}

static void bench_clear(struct bench *b)
{
    free(b->nodes);
    free(b->jobs);
    free(b->at);
    free(b->decisions);
    free(b->took_s);
}

/* Medians in seconds, by phase. */
static int run(size_t n_jobs, size_t n_nodes, size_t n_plans,
               double ret_s[PHASES], struct error *err)
{
    static struct bench b;
    int rc;

    b = (struct bench){.nodes = calloc(n_nodes + 1, sizeof(*b.nodes)),
                       .jobs = calloc(n_jobs + 1, sizeof(*b.jobs)),
                       .at = calloc(NODES_MAX * (n_jobs + 1), sizeof(*b.at)),
                       .decisions = calloc(n_jobs + 1, sizeof(*b.decisions)),
                       .took_s = calloc(n_plans + 1, sizeof(*b.took_s))};
    if (!b.nodes || !b.jobs || !b.at || !b.decisions || !b.took_s) {
        bench_clear(&b);
        return error_set(err, ERR_NOMEM, "out of memory");
    }
    rng_seed(&b.rng, 1);
    b.v = (struct policy_view){.now_s = 1e6,
                               .nodes = b.nodes,
                               .n_nodes = n_nodes,
                               .jobs = b.jobs,
                               .n_jobs = n_jobs,
                               .goodput = policy_goodput_default};
    for (size_t i = 0; i < n_nodes; i++)
        b.nodes[i] = (struct policy_node){
            .gpus_total = GPUS, .gpus_free = GPUS, .is_up = 1};
    make_curves(&b);
    make_jobs(&b, n_jobs);
    rc = measure_all(&b, n_plans, ret_s, err);
    bench_clear(&b);
    return rc;
}

/* The slope of a straight line through the logarithms. */
static double exponent(const double *x, const double *y, int n)
{
    double sx = 0, sy = 0, sxx = 0, sxy = 0;

    for (int i = 0; i < n; i++) {
        sx += log(x[i]);
        sy += log(y[i]);
        sxx += log(x[i]) * log(x[i]);
        sxy += log(x[i]) * log(y[i]);
    }
    return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

enum { LOADS = 4 };
static int run_growth(struct error *err)
{
    static const double jobs[LOADS] = {1000, 3000, 10000, 30000};
    double took_s[LOADS][PHASES], of_phase[LOADS];

    for (int i = 0; i < LOADS; i++)
        if (run((size_t)jobs[i], (size_t)jobs[i] / GPUS, 100, took_s[i], err) <
            0)
            return -1;
    for (int phase = 0; phase < PHASES; phase++) {
        for (int i = 0; i < LOADS; i++)
            of_phase[i] = took_s[i][phase];
        (void)printf("%s: the median grows with the power %.2f, goal 1.2\n",
                     phase_names[phase], exponent(jobs, of_phase, LOADS));
    }
    return 0;
}

static size_t number(int argc, char **argv, int i, size_t otherwise)
{
    size_t n = argc > i ? strtoul(argv[i], NULL, 10) : otherwise;

    return n > 0 ? n : otherwise;
}

int main(int argc, char **argv)
{
    struct error err = ERROR_INIT;
    double took_s[PHASES];
    int rc = argc == 1 ? run_growth(&err)
                       : run(number(argc, argv, 1, 10000),
                             number(argc, argv, 2, 1250),
                             number(argc, argv, 3, 200), took_s, &err);

    if (rc < 0)
        (void)fprintf(stderr, "goodput: %s\n", err.msg);
    return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
