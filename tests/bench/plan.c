/* plan.c - how long one step of the engine takes: the loop stands still.
 *
 *   plan [POLICY[+preempt] [JOBS [NODES [GPUS [DIR]]]]]   backfill 1000 64 8
 *
 * The engine, with the fake cluster in virtual time: JOBS jobs of many sizes,
 * for nodes of four kinds, wait for NODES x GPUs and run to their end. Prints
 * what the steps took in milliseconds, of time and of this thread's CPU: what
 * is in the first and not in the second, other programs had of the machine.
 * With +preempt every fifth job comes later, one a step, and goes before all
 * others, for which those that run go back to the queue. DIR is for a SQLite
 * store; without it the store is in memory, so the numbers are planning alone.
 * While the queue is full it is also asked why some of the jobs wait, as by
 * mgpu-stat --why, which takes a few plans more, and what the next plan is. Not
 * a test: no number is expected. The target is 50 ms for the longest.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "db/mem/store_mem.h"
#include "db/metric_store.h"
#include "jobs/base/rng.h"
#include "scheduler/engine/engine.h"
#include "scheduler/engine/what_if.h"
#include "slurm/fake/alloc_fake.h"

enum { STEPS_MAX = 200000, WHY_EVERY = 97, EXPLAINS = 20 };

static struct clock_virtual vclock;
static struct rng rng;

struct took {
    double wall_s, cpu_s;
};
static struct took *took;
static size_t n_steps;
static bool preempts;

static void check(int rc, const struct error *err)
{
    if (rc < 0) {
        (void)fprintf(stderr, "plan: %s\n", err->msg);
        exit(1);
    }
}

static double cpu_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct took now(void)
{
    return (struct took){clock_real.now_s(&clock_real), cpu_s()};
}

static void note(struct took began)
{
    struct took ended = now();
    if (n_steps < STEPS_MAX)
        took[n_steps++] = (struct took){ended.wall_s - began.wall_s,
                                        ended.cpu_s - began.cpu_s};
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

static void submit(struct engine *e, int i, int32_t priority)
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
                   640 + draw(0, 600), where[draw(0, 3)],
                   priority + draw(-1, 1));
    struct engine_submit req = {
        .uid = 1000, .user = "anna", .key = key, .spec = spec};
    check(engine_submit(e, &req, &id, NULL, &err), &err);
}

/* A worker says how it ended before it does; who may be told to go says so at
 * the last moment, for who has reported is done. */
static int at_exit(void *arg, const struct job *j, struct error *err)
{
    return j->holder[0] && !j->reported
               ? engine_report(arg, j->id, j->attempt, 0, "", NULL, NULL, err)
               : 0;
}

/* Every granted attempt has a worker, which claims; one pass over the jobs, as
 * no step takes part in it. */
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
        if (!preempts)
            check(engine_report(e, j->id, j->attempt, 0, "", NULL, NULL, &err),
                  &err);
    }
    return n_left;
}

static void step(struct engine *e)
{
    struct error err = ERROR_INIT;
    struct took began = now();
    check(engine_step(e, &err), &err);
    note(began);
}

static int by_wall(const void *a, const void *b)
{
    double x = ((const struct took *)a)->wall_s;
    double y = ((const struct took *)b)->wall_s;
    return (x > y) - (x < y);
}

static int by_cpu(const void *a, const void *b)
{
    double x = ((const struct took *)a)->cpu_s;
    double y = ((const struct took *)b)->cpu_s;
    return (x > y) - (x < y);
}

static void print(const char *what, size_t from)
{
    size_t n = n_steps - from;
    struct took *t = took + from;

    qsort(t, n, sizeof(*t), by_wall);
    double cpu_of_max = t[n - 1].cpu_s;
    (void)printf("%-10s %7zu steps, p50 %7.3f ms, p99 %7.3f ms, max %7.3f ms, "
                 "of which %7.3f ms CPU;",
                 what, n, t[n / 2].wall_s * 1e3, t[n * 99 / 100].wall_s * 1e3,
                 t[n - 1].wall_s * 1e3, cpu_of_max * 1e3);
    qsort(t, n, sizeof(*t), by_cpu);
    (void)printf(" CPU: p50 %7.3f ms, p99 %7.3f ms, max %7.3f ms\n",
                 t[n / 2].cpu_s * 1e3, t[n * 99 / 100].cpu_s * 1e3,
                 t[n - 1].cpu_s * 1e3);
}

static void count_wish(void *arg, const struct engine_decision *w)
{
    (void)w;
    ++*(size_t *)arg;
}

/* One of the jobs that wait after the other, over the whole queue. */
static void ask(struct engine *e)
{
    struct error err = ERROR_INIT;
    size_t from = n_steps, i = 0, n_decisions = 0;

    for (const struct job *j = engine_next_job(e, 0); j;
         j = engine_next_job(e, j->id)) {
        struct engine_what_if s;
        if (j->state != JOB_QUEUED || i++ % WHY_EVERY != 0)
            continue;
        struct took began = now();
        check(engine_what_if(e, j, &s, &err), &err);
        note(began);
    }
    print("--why", from);
    from = n_steps;
    for (int k = 0; k < EXPLAINS && n_steps < STEPS_MAX; k++) {
        struct took began = now();
        check(engine_explain(e, count_wish, &n_decisions, &err), &err);
        note(began);
    }
    print("explain", from);
}

static void count_went(void *arg, const struct store_event *event,
                       const struct job *job)
{
    (void)job;
    *(size_t *)arg += event->ev == EV_PREEMPT;
}

static void run(struct engine *e, const struct alloc_fake_world *w, int n_jobs)
{
    size_t n_went = 0;
    double began_s = vclock.t_s;
    int n = preempts ? n_jobs - n_jobs / 5 : n_jobs;

    engine_on_exit(e, at_exit, e);
    engine_on_event(e, count_went, &n_went);
    for (int i = 0; i < n; i++)
        submit(e, i, 0);
    step(e); /* all of them in one batch: what only a benchmark does */
    print("first", 0);
    size_t from = n_steps;
    while (claim(e) > 0 && n_steps < STEPS_MAX) {
        double t = fmin(engine_next_s(e), alloc_fake_next_s(w));
        if (isfinite(t) && t > vclock.t_s)
            vclock.t_s = t;
        if (n < n_jobs)
            submit(e, n++, 10);
        step(e);
        if (from > 1 || vclock.t_s < began_s + 60)
            continue;
        print("full queue", from); /* hardly any has ended */
        ask(e);
        from = n_steps;
    }
    print("the rest", from);
    (void)printf("makespan %.0f s, %zu made room for others\n",
                 vclock.t_s - began_s, n_went);
}

/* NULL: there is none. */
static const struct policy *policy_of(const char *word)
{
    char name[32];
    size_t len = strcspn(word, "+");

    preempts = strcmp(word + len, "+preempt") == 0;
    (void)snprintf(name, sizeof(name), "%.*s", (int)len, word);
    return word[len] == '\0' || preempts ? policy_find(name) : NULL;
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
    struct engine_parts parts = {.clock = &vclock.base,
                                 .policy =
                                     policy_of(argc > 1 ? argv[1] : "backfill"),
                                 .conf = &conf,
                                 .secret_of = secret_of};

    if (!parts.policy || !(took = calloc(STEPS_MAX, sizeof(*took))))
        return error_exit_status(ERR_USAGE);
    conf.preempt = (struct policy_preempt){
        .is_on = preempts, .grace_s = 30, .min_runtime_s = 60};
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
    free(took);
    return 0;
}
