/* store_fixture.h - one of each store to test, things to put in, and what
 * comes out as text. */
#ifndef MGPU_TESTS_CONTRACT_STORE_FIXTURE_H
#define MGPU_TESTS_CONTRACT_STORE_FIXTURE_H

#include "db/mem/store_mem.h"
#include "db/metric_store.h"
#include "db/store_faulty.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "tests/tap.h"

/* ---- fixtures ------------------------------------------------------------ */

struct fixture {
    const char *name;
    bool sqlite, faulty;
    struct store_fault fault; /* for the next fx_open() */
    char dir[64];
    struct store_mem_world *world;
    struct store *s;
};

static inline int open_inner(struct fixture *fx, struct store **ret,
                             struct error *err)
{
    return fx->sqlite ? store_sqlite_open(fx->dir, ret, err)
                      : store_mem_create(fx->world, ret, err);
}

static inline void fx_open(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    struct store *inner = NULL;

    if (!ok(open_inner(fx, &inner, &err) == 0, "%s: opens", fx->name)) {
        tap_diag("%s", err.msg);
        exit(1);
    }
    fx->s = inner;
    if (fx->faulty && store_faulty_create(inner, &fx->fault, &fx->s, &err) < 0)
        exit(1);
}

static inline void fx_close(struct fixture *fx)
{
    fx->s->ops->destroy(fx->s);
    fx->s = NULL;
}

static inline void fx_reopen(struct fixture *fx)
{
    fx_close(fx);
    fx_open(fx);
}

static inline void remove_dir(const char *dir)
{
    const char *const files[] = {"state.db", "metrics.db", "lock", "stored"};
    char path[128];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
        (void)unlink(path);
    }
    ok(rmdir(dir) == 0, "the store leaves no other files behind");
}

static inline void fx_begin(struct fixture *fx)
{
    struct error err = ERROR_INIT;

    fx->fault = (struct store_fault){.n = 0};
    (void)snprintf(fx->dir, sizeof(fx->dir), "/tmp/mgpu-store-XXXXXX");
    if (fx->sqlite ? !mkdtemp(fx->dir)
                   : store_mem_world_create(&fx->world, &err) < 0)
        exit(1);
    fx_open(fx);
}

static inline void fx_end(struct fixture *fx)
{
    fx_close(fx);
    store_mem_world_destroy(fx->world);
    fx->world = NULL;
    if (fx->sqlite)
        remove_dir(fx->dir);
}

/* ---- what the tests store ------------------------------------------------ */

static inline struct store_event event(uint64_t job, enum job_event ev,
                                       const char *detail)
{
    return (struct store_event){.job = job,
                                .ev = ev,
                                .at_s = 1763712000.5,
                                .uid = 1000,
                                .detail = detail};
}

static inline struct store_job job(uint64_t id)
{
    return (struct store_job){.id = id,
                              .name = "mnist",
                              .user = "ada",
                              .kind = "cv",
                              .uid = 1000,
                              .state = "QUEUED",
                              .gpus_min = 1,
                              .gpus_max = 4,
                              .exit_code = -1,
                              .submit_s = 1763712000.5,
                              .start_s = NAN,
                              .end_s = NAN,
                              .spec = "{}",
                              .dir = "/jobs/1"};
}

static inline struct store_attempt attempt(uint64_t id, int32_t k)
{
    return (struct store_attempt){.job = id,
                                  .attempt = k,
                                  .state = "DISPATCHING",
                                  .gpus = 2,
                                  .nodes = 1,
                                  .exit_code = -1,
                                  .intent_s = 1763712001,
                                  .claim_s = NAN,
                                  .run_s = NAN,
                                  .end_s = NAN};
}

static inline struct metric_row iteration(int32_t rank, int64_t i,
                                          double t_iter)
{
    return (struct metric_row){.kind = METRIC_ITERATION,
                               .iteration = {.rank = rank,
                                             .epoch = 1,
                                             .iteration = i,
                                             .started_at = 1763712002,
                                             .t_iter = t_iter,
                                             .t_data = 0.25,
                                             .t_h2d = NAN,
                                             .t_forward = 0.5,
                                             .t_backward = INFINITY,
                                             .t_comm = 0,
                                             .t_optimizer = 0.125,
                                             .loss = NAN,
                                             .lr = 0.1,
                                             .samples = 64,
                                             .tokens = -1,
                                             .gpu_mem_bytes = -1}};
}

static inline struct metric_row epoch(int32_t e, double accuracy)
{
    return (struct metric_row){.kind = METRIC_EPOCH,
                               .epoch = {.epoch = e,
                                         .seconds = 9.5,
                                         .train_loss = 0.5,
                                         .eval_loss = NAN,
                                         .eval_accuracy = accuracy,
                                         .samples_per_s = 1000,
                                         .tokens_per_s = NAN}};
}

static inline struct metric_row value(int32_t rank, int64_t i, const char *name,
                                      double v)
{
    struct metric_row row = {
        .kind = METRIC_VALUE,
        .value = {.rank = rank, .iteration = i, .value = v}};
    (void)snprintf(row.value.name, sizeof(row.value.name), "%s", name);
    return row;
}

/* calls -1: bytes alone, as of memory. */
static inline struct metric_row profile(int32_t rank, int32_t epoch,
                                        const char *metric, int64_t calls)
{
    bool is_sum = calls >= 0;
    struct metric_row row = {.kind = METRIC_PROFILE,
                             .profile = {.rank = rank,
                                         .epoch = epoch,
                                         .calls = calls,
                                         .total_s = is_sum ? 0.5 : NAN,
                                         .bytes = is_sum ? -1 : 4096,
                                         .sampled = is_sum ? 0.25 : 1}};
    (void)snprintf(row.profile.metric, sizeof(row.profile.metric), "%s",
                   metric);
    return row;
}

static inline int append_events(struct store *s, struct store_event *events,
                                size_t n, struct error *err)
{
    struct store_batch b = {.events = events, .n_events = n};
    return s->ops->append(s, &b, err);
}

static inline int append_one(struct store *s, uint64_t job_id,
                             enum job_event ev, struct error *err)
{
    struct store_event e = event(job_id, ev, NULL);
    return append_events(s, &e, 1, err);
}

/* ---- what the tests read, as text ---------------------------------------- */

static inline int print_event(void *arg, const struct store_event *e,
                              struct error *err)
{
    return buf_addf(arg, err, "%llu:%llu/%d %s@%.1f by %lld %s\n",
                    (unsigned long long)e->seq, (unsigned long long)e->job,
                    e->attempt, job_event_name(e->ev), e->at_s,
                    (long long)e->uid, e->detail ? e->detail : "-");
}

/* Borrowed until the next call. */
static inline const char *loaded(struct store *s)
{
    static struct buf text;
    struct error err = ERROR_INIT;

    buf_clear(&text);
    if (s->ops->load(s, print_event, &text, &err) < 0)
        tap_diag("load: %s", err.msg);
    return buf_str(&text);
}

static inline int print_row(void *arg, const struct store_cell *cells, size_t n,
                            struct error *err)
{
    struct buf *b = arg;

    for (size_t i = 0; i < n; i++) {
        const struct store_cell *c = &cells[i];
        int rc = 0;
        if (c->kind == CELL_NULL)
            rc = buf_addstr(b, "- ", err);
        else if (c->kind == CELL_INT)
            rc = buf_addf(b, err, "%lld ", (long long)c->i);
        else if (c->kind == CELL_REAL)
            rc = buf_addf(b, err, "%.10gr ", c->r);
        else
            rc = buf_addf(b, err, "'%s' ", c->s);
        if (rc < 0)
            return -1;
    }
    b->data[b->len - 1] = '\n';
    return 0;
}

static inline const char *queried(struct store *s, struct store_query q)
{
    static struct buf text;
    struct error err = ERROR_INIT;

    buf_clear(&text);
    if (s->metrics->query(s, &q, print_row, &text, &err) < 0)
        tap_diag("query: %s", err.msg);
    return buf_str(&text);
}

static inline const char *view(struct store *s, enum store_view v)
{
    return queried(s, (struct store_query){.view = v, .rank = -1});
}

static inline int run_on(const struct fixture *all, size_t n,
                         void (*body)(struct fixture *fx))
{
    for (size_t i = 0; i < n; i++) {
        struct fixture fx = all[i];
        tap_diag("%s", fx.name);
        body(&fx);
    }
    return tap_done();
}

static const struct fixture stores[] = {
    {.name = "sqlite", .sqlite = true},
    {.name = "faulty(sqlite)", .sqlite = true, .faulty = true},
    {.name = "mem"},
    {.name = "faulty(mem)", .faulty = true}};
enum { METRIC_STORES = 2 }; /* the first of them */

/* Runs `body` against each store. */
static inline int each_store(void (*body)(struct fixture *fx))
{
    return run_on(stores, sizeof(stores) / sizeof(stores[0]), body);
}

/* Against each that has metrics and views. */
static inline int each_metric_store(void (*body)(struct fixture *fx))
{
    return run_on(stores, METRIC_STORES, body);
}

#endif
