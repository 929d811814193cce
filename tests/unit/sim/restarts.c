/* restarts.c - goodput restarts nobody for nothing.
 *
 * sim_account.c has the two promises: no size is left before it has paid for
 * its restart, and until what was paused comes back with the size that it had,
 * another job has got GPUs, or jobs, nodes or requests of people came or went.
 * osc.jsonl is a case in which a
 * policy restarted a job each minute: the length of a class that has never run
 * followed from who was in the queue. Small worlds are full of such classes,
 * and of restarts that take longer than an interval.
 *
 * usage: restarts [FIRST [SEEDS]]       1 200; with MGPU_TEST_ALL 1 1000
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/rng.h"
#include "scheduler/sim/run/sim_run.h"
#include "scheduler/sim/trace_file.h"
#include "tests/tap.h"

static const char osc[] = "tests/data/traces/attacks/osc.jsonl";
enum { CLASSES = 6, JOBS_MAX = 9, SEEDS = 200, SEEDS_ALL = 1000 };

struct rig {
    struct rng rng;
    struct sim_cluster cluster;
    struct sim_trace trace;
    struct speed *speed;
    struct sim_output out;
};

static void stop(const struct error *err)
{
    (void)printf("Bail out! %s\n", err->msg);
    exit(1);
}

static int32_t draw(struct rig *r, int32_t from, int32_t to)
{
    return from + (int32_t)(rng_u32(&r->rng) % (uint32_t)(to - from + 1));
}

/* 1 s on one GPU, and gpus^0.9 times as fast on more. */
static void add_class(struct rig *r, const char *class, int32_t nodes,
                      int32_t most, double restart_s)
{
    struct error err = ERROR_INIT;

    for (int32_t g = 1; g <= most; g++)
        if (size_table_add(r->speed, class, "", 1, g, pow(g, -0.9), restart_s,
                           &err) < 0)
            stop(&err);
    for (int32_t k = 2; k <= nodes; k++)
        if (size_table_add(r->speed, class, "", k, most, pow(k * most, -0.9),
                           restart_s, &err) < 0)
            stop(&err);
}

static void begin(struct rig *r, const char *cluster)
{
    struct error err = ERROR_INIT;

    *r = (struct rig){.trace = {.n = 0}};
    if (sim_cluster_parse(cluster, &r->cluster, &err) < 0 ||
        size_table_create(&r->speed, &err) < 0)
        stop(&err);
}

/* Whether all invariants hold, and all jobs end. */
static bool run(struct rig *r, double aging)
{
    struct error err = ERROR_INIT;
    struct sim_policy policy = {.policy = &policy_goodput,
                                .goodput = policy_goodput_default};
    const struct sim_conf conf = {.cluster = &r->cluster,
                                  .trace = &r->trace,
                                  .speed = r->speed,
                                  .request = REQUEST_TRACE,
                                  .round_s = 60,
                                  .restart_s = 30,
                                  .limit_factor = 100,
                                  .seed = 1};

    policy.goodput.aging = aging;
    for (size_t i = 0; i < r->trace.n; i++)
        if (r->speed->ops->prepare(r->speed, &r->trace.jobs[i], &err) < 0)
            stop(&err);
    if (sim_run(&conf, &policy, &r->out, &err) < 0) {
        tap_diag("%s", err.msg);
        return false;
    }
    if (r->out.n_unfinished > 0)
        tap_diag("%s", buf_str(&r->out.unfinished));
    return r->out.n_unfinished == 0;
}

static void end(struct rig *r)
{
    sim_output_clear(&r->out);
    sim_trace_clear(&r->trace);
    r->speed->ops->destroy(r->speed);
}

static void test_oscillation(void)
{
    static struct rig r;
    struct error err = ERROR_INIT;

    begin(&r, "1x2");
    add_class(&r, "a", 1, 2, 60);
    add_class(&r, "b", 1, 2, 60);
    if (trace_file_load(TRACE_MGPU, osc, 1, &r.trace, &err) < 0)
        stop(&err);
    ok(run(&r, policy_goodput_default.aging), "the case that oscillated");
    for (size_t i = 0; i < r.out.n; i++) {
        const struct sim_result *x = &r.out.results[i];
        tap_diag("%s: ends at %.0f s, %d restarts", r.trace.jobs[i].name,
                 x->end_s, (int)x->restarts);
        /* To make room for the short one and to take its GPU back, and once
         * more when the other long one has ended. */
        ok(x->restarts <= 3, "  %s restarts at most three times",
           r.trace.jobs[i].name);
    }
    end(&r);
}

static void add_jobs(struct rig *r)
{
    struct error err = ERROR_INIT;
    int32_t n = draw(r, 2, JOBS_MAX);

    for (int32_t i = 0; i < n; i++) {
        struct sim_job job = {
            .submit_s = draw(r, 0, 3) * draw(r, 0, 3000),
            .work = draw(r, 1, 30) * draw(r, 1, 1000),
            .gpus_min = draw(r, 1, 2),
        };
        job.gpus_max = draw(r, job.gpus_min, 4);
        job.gpus_min = draw(r, 0, 3) ? 1 : job.gpus_min;
        (void)snprintf(job.name, sizeof(job.name), "j%d", (int)i);
        (void)snprintf(job.user, sizeof(job.user), "u%d", (int)draw(r, 0, 2));
        (void)snprintf(job.class, sizeof(job.class), "c%d",
                       (int)draw(r, 0, CLASSES - 1));
        if (sim_trace_add(&r->trace, &job, &err) < 0)
            stop(&err);
    }
    if (sim_trace_sort(&r->trace, &err) < 0)
        stop(&err);
}

static bool world(uint32_t seed, uint64_t *io_restarts)
{
    static const char *const clusters[] = {"1x2", "1x4", "2x2", "3x2"};
    static const int32_t nodes[] = {1, 1, 2, 3}, gpus[] = {2, 4, 2, 2};
    static const double restarts[] = {0, 20, 60, 150, 300, 900};
    struct rig draws = {.trace = {.n = 0}};
    static struct rig r;

    rng_seed(&draws.rng, seed);
    int32_t k = draw(&draws, 0, 3);
    begin(&r, clusters[k]);
    r.rng = draws.rng;
    for (int32_t c = 0; c < CLASSES; c++) {
        char class[16];
        (void)snprintf(class, sizeof(class), "c%d", (int)c);
        add_class(&r, class, nodes[k], gpus[k], restarts[draw(&r, 0, 5)]);
    }
    add_jobs(&r);
    bool is_good = run(&r, draw(&r, 0, 2));
    for (size_t i = 0; is_good && i < r.out.n; i++)
        *io_restarts += (uint64_t)r.out.results[i].restarts;
    end(&r);
    return is_good;
}

int main(int argc, char **argv)
{
    uint32_t first = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1;
    uint32_t n = getenv("MGPU_TEST_ALL") ? SEEDS_ALL : SEEDS;
    uint64_t n_restarts = 0;
    uint32_t n_good = 0;

    n = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : n;
    test_oscillation();
    for (uint32_t seed = first; seed < first + n; seed++) {
        if (world(seed, &n_restarts))
            n_good++;
        else
            tap_diag("seed %u", (unsigned)seed);
    }
    is_int(n_good, n, "small worlds without a restart for nothing");
    ok(n_restarts >= n, "  with a restart each on the mean");
    return tap_done();
}
