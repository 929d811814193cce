/* plan.c - how long one step of the engine takes: the loop stands still.
 *
 *   plan [POLICY [JOBS [NODES [GPUS [DIR]]]]]   backfill 1000 64 8
 *
 * The engine, with the fake cluster in virtual time: JOBS jobs of many sizes,
 * for nodes of four kinds, wait for NODES x GPUs and run to their end. Prints
 * the steps' wall time in milliseconds. DIR is for a SQLite store; without it
 * the store is in memory, so the numbers are planning alone. While the queue is
 * full it is also asked why some of the jobs wait, as by mgpu-stat --why, which
 * takes a few plans more, and what the next plan is. Not a test: no number is
 * expected. The target is 50 ms for the longest.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/store.h"
#include "jobs/base/rng.h"
#include "scheduler/engine/engine.h"
#include "slurm/alloc_fake.h"

enum { STEPS_MAX = 200000, WHY_EVERY = 97, EXPLAINS = 20 };

static struct clock_virtual vclock;
static struct rng rng;
static double *took_s;
static size_t n_steps;

static void check(int rc, const struct error *err)
{
    if (rc < 0) {
        (void)fprintf(stderr, "plan: %s\n", err->msg);
        exit(1);
    }
}

static double wall_s(void)
{
    return clock_real.now_s(&clock_real);
}

static int32_t draw(int32_t from, int32_t to)
{
    return from + (int32_t)(rng_u32(&rng) % (uint32_t)(to - from + 1));
}

static void outcome(void *arg, uint64_t job, int32_t attempt, int32_t gpus,
                    struct alloc_fake_outcome *ret)
{
    (void)arg;
    (void)attempt;
    (void)gpus;
    *ret = (struct alloc_fake_outcome){.run_s = 20 + (double)(job * 37 % 600)};
}

static void kind(void *arg, int32_t i, struct alloc_node *io)
{
    (void)arg;
    (void)snprintf(io->partitions, sizeof(io->partitions), "batch*");
    (void)snprintf(io->gpu_type, sizeof(io->gpu_type),
                   i % 4 < 2 ? "h100" : "a100");
    (void)snprintf(io->features, sizeof(io->features), i % 2 ? "ib" : "");
}

static bool may_use(void *arg, int32_t i, const struct alloc_where *w)
{
    (void)arg;
    return (!w->gpu_type || w->gpu_type[0] == (i % 4 < 2 ? 'h' : 'a')) &&
           (!w->constraint || i % 2 != 0);
}

static int secret_of(void *arg, enum engine_secret what, uint64_t job,
                     int32_t attempt, char ret[ENGINE_SECRET_CAP],
                     struct error *err)
{
    (void)arg;
    (void)err;
    (void)snprintf(ret, ENGINE_SECRET_CAP, "%d-%016" PRIu64 "-%016d", (int)what,
                   job, attempt);
    return 0;
}

static void submit(struct engine *e, int i)
{
    static const char *const where[] = {"", "", ",\"gpu_type\":\"h100\"",
                                        ",\"constraint\":\"ib\""};
    static const int32_t sizes[] = {1, 1, 1, 2, 2, 4, 8, 8, 16, 32, 64};
    char spec[600], key[32];
    struct error err = ERROR_INIT;
    uint64_t id;
    int32_t gpus = sizes[draw(0, 10)];

    (void)snprintf(key, sizeof(key), "k%d", i);
    (void)snprintf(spec, sizeof(spec),
                   "{\"version\":1,\"name\":\"j%d\",\"kind\":\"command\","
                   "\"command\":[\"true\"],\"resources\":{\"gpus\":\"%d..%d\","
                   "\"nodes\":\"1..%d\",\"time_limit\":\"%ds\"%s},"
                   "\"policy\":{\"priority\":%d}}",
                   i, gpus, gpus * draw(1, 2), gpus > 8 ? 8 : 1,
                   640 + draw(0, 600), where[draw(0, 3)], draw(-1, 1));
    struct engine_submit req = {
        .uid = 1000, .user = "anna", .key = key, .spec = spec};
    check(engine_submit(e, &req, &id, NULL, &err), &err);
}

/* Every granted attempt has a worker, which claims and, before it ends, says
 * how; one pass over the jobs, as no step takes part in it. */
static int claim(struct engine *e)
{
    int n_left = 0;
    char token[ENGINE_SECRET_CAP];
    struct error err = ERROR_INIT;
    const struct job *j = engine_next_job(e, 0);

    for (; j; j = engine_next_job(e, j->id)) {
        n_left += !job_state_is_final(j->state);
        if (!job_state_is_live(j->state) || !j->native_id[0] || j->holder[0])
            continue;
        (void)secret_of(NULL, SECRET_TOKEN, j->id, j->attempt, token, NULL);
        check(engine_claim(e, j->id, j->attempt, token, "n1 7 7", j->native_id,
                           &err),
              &err);
        struct engine_beat beat = {.iteration = 1, .loss = NAN};
        check(engine_beat(e, j->id, j->attempt, &beat, &err), &err);
        check(engine_report(e, j->id, j->attempt, 0, "", NULL, &err), &err);
    }
    return n_left;
}

static void step(struct engine *e)
{
    struct error err = ERROR_INIT;
    double began_s = wall_s();
    check(engine_step(e, &err), &err);
    if (n_steps < STEPS_MAX)
        took_s[n_steps++] = wall_s() - began_s;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(const char *what, size_t from)
{
    size_t n = n_steps - from;
    qsort(took_s + from, n, sizeof(*took_s), by_value);
    (void)printf("%-10s %7zu steps, p50 %7.3f ms, p99 %7.3f ms, max %7.3f ms\n",
                 what, n, took_s[from + n / 2] * 1e3,
                 took_s[from + n * 99 / 100] * 1e3, took_s[n_steps - 1] * 1e3);
}

static void count_wish(void *arg, const struct engine_wish *w)
{
    (void)w;
    ++*(size_t *)arg;
}

/* One of the jobs that wait after the other, over the whole queue. */
static void ask(struct engine *e)
{
    struct error err = ERROR_INIT;
    size_t from = n_steps, i = 0, n_wishes = 0;

    for (const struct job *j = engine_next_job(e, 0); j;
         j = engine_next_job(e, j->id)) {
        struct engine_suppose s;
        if (j->state != JOB_QUEUED || i++ % WHY_EVERY != 0)
            continue;
        double began_s = wall_s();
        check(engine_suppose(e, j, &s, &err), &err);
        if (n_steps < STEPS_MAX)
            took_s[n_steps++] = wall_s() - began_s;
    }
    print("--why", from);
    from = n_steps;
    for (int k = 0; k < EXPLAINS && n_steps < STEPS_MAX; k++) {
        double began_s = wall_s();
        check(engine_explain(e, count_wish, &n_wishes, &err), &err);
        took_s[n_steps++] = wall_s() - began_s;
    }
    print("explain", from);
}

static void run(struct engine *e, const struct alloc_fake_world *w, int n_jobs)
{
    double began_s = vclock.t_s;

    for (int i = 0; i < n_jobs; i++)
        submit(e, i);
    step(e); /* all of them in one batch: what only a benchmark does */
    print("first", 0);
    size_t from = n_steps;
    while (claim(e) > 0 && n_steps < STEPS_MAX) {
        double t = fmin(engine_next_s(e), alloc_fake_next_s(w));
        if (isfinite(t) && t > vclock.t_s)
            vclock.t_s = t;
        step(e);
        if (from > 1 || vclock.t_s < began_s + 60)
            continue;
        print("full queue", from); /* hardly any has ended */
        ask(e);
        from = n_steps;
    }
    print("the rest", from);
    (void)printf("makespan %.0f s\n", vclock.t_s - began_s);
}

static int32_t number(int argc, char **argv, int i, int32_t otherwise)
{
    return argc > i ? (int32_t)strtol(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    struct error err = ERROR_INIT;
    struct alloc_fake_world *world = NULL;
    struct store_mem_world *db = NULL;
    struct store *store = NULL;
    struct engine *e = NULL;
    struct engine_conf conf = {.cluster = "bench",
                               .jobs_dir = "/jobs",
                               .worker = "/bin/worker",
                               .url = "unix:/sock",
                               .reconcile_s = 5};
    struct alloc_fake_conf cluster = {.nodes = number(argc, argv, 3, 64),
                                      .gpus_per_node = number(argc, argv, 4, 8),
                                      .grant_delay_s = 0.1,
                                      .clock = &vclock.base,
                                      .outcome = outcome,
                                      .node = kind,
                                      .may_use = may_use};
    struct engine_parts parts = {
        .clock = &vclock.base,
        .policy = policy_find(argc > 1 ? argv[1] : "backfill"),
        .conf = &conf,
        .secret_of = secret_of};

    if (!parts.policy || !(took_s = calloc(STEPS_MAX, sizeof(*took_s))))
        return error_exit_status(ERR_USAGE);
    rng_seed(&rng, 1);
    clock_virtual_init(&vclock, 1000, 1.7e9);
    check(alloc_fake_world_create(&cluster, &world, &err), &err);
    check(alloc_fake_create(world, &parts.alloc, &err), &err);
    check(store_mem_world_create(&db, &err), &err);
    check(argc > 5 ? store_sqlite_open(argv[5], &store, &err)
                   : store_mem_create(db, &store, &err),
          &err);
    parts.store = store;
    check(engine_create(&parts, &e, &err), &err);
    run(e, world, number(argc, argv, 2, 1000));
    engine_destroy(e);
    store->ops->destroy(store);
    parts.alloc->ops->destroy(parts.alloc);
    alloc_fake_world_destroy(world);
    store_mem_world_destroy(db);
    free(took_s);
    return 0;
}
