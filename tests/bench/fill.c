/* fill.c - a state directory with a long past, for tests/bench/ctld.sh and
 * history.sh.
 *
 *   fill DIR QUEUED ENDED [DAYS [ROWS [few]]]
 *
 * Jobs of the caller, written by the engine itself: they came, and those that
 * ended ended, over so many days until now; ROWS iterations of four ranks,
 * 100,000 rows a job from the last one back. few: a row tells its time and its
 * loss, as a program of one's own would, and not all of an mgpu-worker's.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "db/metric_store.h"
#include "jobs/base/clock.h"
#include "scheduler/engine/engine.h"
#include "slurm/fake/alloc_fake.h"

enum { AT_ONCE = 1000, RANKS = 4, ROWS_OF_JOB = 100000 };
static const double DAY_S = 86400;

static void check(int rc, const struct error *err)
{
    if (rc < 0) {
        (void)fprintf(stderr, "fill: %s\n", err->msg);
        exit(1);
    }
}

static int secret_of(void *arg, enum engine_secret which, uint64_t job,
                     int32_t attempt, char ret[ENGINE_SECRET_CAP],
                     struct error *err)
{
    (void)arg;
    (void)which;
    (void)job;
    (void)attempt;
    (void)err;
    (void)snprintf(ret, ENGINE_SECRET_CAP, "0");
    return 0;
}

/* Those that ended were cancelled while they waited. */
static void add(struct engine *e, int i, bool is_over)
{
    struct error err = ERROR_INIT;
    char key[32];
    uint64_t id;
    (void)snprintf(key, sizeof(key), "fill-%d", i);
    struct engine_submit req = {
        .uid = (int64_t)getuid(),
        .user = "load",
        .key = key,
        .spec = "{\"version\":1,\"name\":\"fill\",\"kind\":\"command\","
                "\"command\":[\"true\"],\"resources\":{\"gpus\":1}}"};
    check(engine_submit(e, &req, &id, NULL, &err), &err);
    if (is_over)
        check(engine_cancel(e, id, req.uid, &err), &err);
}

static struct metric_row row_of(int64_t at, double began_s, bool is_few)
{
    struct metric_row row = {.kind = METRIC_ITERATION,
                             .iteration = {.rank = (int32_t)(at % RANKS),
                                           .epoch = 1,
                                           .iteration = 1 + at / RANKS,
                                           .started_at = began_s,
                                           .t_iter = 0.031,
                                           .t_data = 0.001,
                                           .t_h2d = NAN,
                                           .t_forward = 0.01,
                                           .t_backward = 0.02,
                                           .t_comm = 0.001,
                                           .t_optimizer = 0.001,
                                           .loss = 0.5,
                                           .lr = 0.1,
                                           .samples = 64,
                                           .tokens = -1,
                                           .gpu_mem_bytes = -1}};
    if (is_few) {
        struct metric_iteration *i = &row.iteration;
        i->started_at = i->t_data = i->t_forward = i->t_backward = NAN;
        i->t_comm = i->t_optimizer = i->lr = NAN;
        i->samples = -1;
        i->loss = 0.3;
    }
    return row;
}

/* By the store's own writer, as if the job's first attempt had told them. */
static void add_rows(struct store *store, uint64_t job, int64_t n, bool is_few)
{
    struct error err = ERROR_INIT;
    double began_s = clock_real.wall_s(&clock_real);
    for (int64_t at = 0; at < n;) {
        struct metric_row row[AT_ONCE];
        size_t k = 0;
        for (; k < AT_ONCE && at < n; k++, at++)
            row[k] = row_of(at, began_s, is_few);
        check(store->metrics->rows(store, job, 1, row, k, NULL, &err), &err);
    }
}

static void add_all_rows(struct store *store, uint64_t last, int64_t n,
                         bool is_few)
{
    struct error err = ERROR_INIT;
    for (uint64_t job = last; job > 0 && n > 0; job--, n -= ROWS_OF_JOB)
        add_rows(store, job, n < ROWS_OF_JOB ? n : ROWS_OF_JOB, is_few);
    check(store->metrics->sync_rows(store, &err), &err);
}

int main(int argc, char **argv)
{
    struct error err = ERROR_INIT;
    struct clock_virtual clock;
    struct alloc_fake_world *world = NULL;
    struct engine *e = NULL;
    struct engine_conf conf = {.cluster = "fill", .jobs_dir = "/nonexistent"};
    struct alloc_fake_conf cluster = {
        .nodes = 1, .gpus_per_node = 1, .clock = &clock.base};
    struct engine_parts parts = {.clock = &clock.base,
                                 .policy = policy_find("fifo"),
                                 .conf = &conf,
                                 .secret_of = secret_of};
    if (argc < 4 || argc > 7)
        return 64;
    int queued = (int)strtol(argv[2], NULL, 10);
    int ended = (int)strtol(argv[3], NULL, 10);
    double span_s = argc > 4 ? strtod(argv[4], NULL) * DAY_S : 0;
    int64_t n_rows = argc > 5 ? strtoll(argv[5], NULL, 10) : 0;
    clock_virtual_init(&clock, 1000,
                       clock_real.wall_s(&clock_real) - 1000 - span_s);
    check(alloc_fake_world_create(&cluster, &world, &err), &err);
    check(alloc_fake_create(world, &parts.alloc, &err), &err);
    check(store_sqlite_open(argv[1], &parts.store, &err), &err);
    check(engine_create(&parts, &e, &err), &err);
    engine_drain(e, ""); /* nothing starts */
    for (int i = 0; i < queued + ended; i++) {
        clock.t_s = 1000 + span_s * i / (queued + ended);
        add(e, i, i < ended);
        if (i % AT_ONCE == AT_ONCE - 1)
            check(engine_step(e, &err), &err);
    }
    check(engine_step(e, &err), &err);
    engine_destroy(e);
    add_all_rows(parts.store, (uint64_t)ended, n_rows, argc > 6);
    parts.store->ops->destroy(parts.store);
    parts.alloc->ops->destroy(parts.alloc);
    alloc_fake_world_destroy(world);
    return 0;
}
