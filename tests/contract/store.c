/* store.c - what every store promises (db/store.h), run against each. */
#include "db/store.h"

#include <math.h>
#include <pthread.h>
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

static int open_inner(struct fixture *fx, struct store **ret, struct error *err)
{
    return fx->sqlite ? store_sqlite_open(fx->dir, ret, err)
                      : store_mem_create(fx->world, ret, err);
}

static void fx_open(struct fixture *fx)
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

static void fx_close(struct fixture *fx)
{
    fx->s->ops->destroy(fx->s);
    fx->s = NULL;
}

static void fx_reopen(struct fixture *fx)
{
    fx_close(fx);
    fx_open(fx);
}

static void remove_dir(const char *dir)
{
    const char *const files[] = {"state.db", "metrics.db", "lock"};
    char path[128];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
        (void)unlink(path);
    }
    ok(rmdir(dir) == 0, "the store leaves no other files behind");
}

static void fx_begin(struct fixture *fx)
{
    struct error err = ERROR_INIT;

    fx->fault = (struct store_fault){.n = 0};
    (void)snprintf(fx->dir, sizeof(fx->dir), "/tmp/mgpu-store-XXXXXX");
    if (fx->sqlite ? !mkdtemp(fx->dir)
                   : store_mem_world_create(&fx->world, &err) < 0)
        exit(1);
    fx_open(fx);
}

static void fx_end(struct fixture *fx)
{
    fx_close(fx);
    store_mem_world_destroy(fx->world);
    fx->world = NULL;
    if (fx->sqlite)
        remove_dir(fx->dir);
}

/* ---- what the tests store ------------------------------------------------ */

static struct store_event event(uint64_t job, enum job_event ev,
                                const char *detail)
{
    return (struct store_event){.job = job,
                                .ev = ev,
                                .at_s = 1763712000.5,
                                .uid = 1000,
                                .detail = detail};
}

static struct store_job job(uint64_t id)
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

static struct store_attempt attempt(uint64_t id, int32_t k)
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

static struct metric_row iteration(int32_t rank, int64_t i, double t_iter)
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

static struct metric_row epoch(int32_t e, double accuracy)
{
    return (struct metric_row){.kind = METRIC_EPOCH,
                               .epoch = {.epoch = e,
                                         .seconds = 9.5,
                                         .train_loss = 0.5,
                                         .eval_loss = NAN,
                                         .eval_accuracy = accuracy,
                                         .samples_per_s = 1000}};
}

static struct metric_row value(int32_t rank, int64_t i, const char *name,
                               double v)
{
    struct metric_row row = {
        .kind = METRIC_VALUE,
        .value = {.rank = rank, .iteration = i, .value = v}};
    (void)snprintf(row.value.name, sizeof(row.value.name), "%s", name);
    return row;
}

static int append_events(struct store *s, struct store_event *events, size_t n,
                         struct error *err)
{
    struct store_batch b = {.events = events, .n_events = n};
    return s->ops->append(s, &b, err);
}

static int append_one(struct store *s, uint64_t job_id, enum job_event ev,
                      struct error *err)
{
    struct store_event e = event(job_id, ev, NULL);
    return append_events(s, &e, 1, err);
}

/* ---- what the tests read, as text ---------------------------------------- */

static int print_event(void *arg, const struct store_event *e,
                       struct error *err)
{
    return buf_addf(arg, err, "%llu:%llu/%d %s@%.1f by %lld %s\n",
                    (unsigned long long)e->seq, (unsigned long long)e->job,
                    e->attempt, job_event_name(e->ev), e->at_s,
                    (long long)e->uid, e->detail ? e->detail : "-");
}

/* Borrowed until the next call. */
static const char *loaded(struct store *s)
{
    static struct buf text;
    struct error err = ERROR_INIT;

    buf_clear(&text);
    if (s->ops->load(s, print_event, &text, &err) < 0)
        tap_diag("load: %s", err.msg);
    return buf_str(&text);
}

static int print_row(void *arg, const struct store_cell *cells, size_t n,
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

static const char *queried(struct store *s, struct store_query q)
{
    static struct buf text;
    struct error err = ERROR_INIT;

    buf_clear(&text);
    if (s->ops->query(s, &q, print_row, &text, &err) < 0)
        tap_diag("query: %s", err.msg);
    return buf_str(&text);
}

static const char *view(struct store *s, enum store_view v)
{
    return queried(s, (struct store_query){.view = v, .rank = -1});
}

/* ---- events -------------------------------------------------------------- */

static void test_order(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    struct store_event events[] = {event(7, EV_SUBMIT, "{\"a\":1}"),
                                   event(8, EV_SUBMIT, NULL),
                                   event(7, EV_INTENT, "")};
    events[2].attempt = 1;
    events[2].uid = -1;

    fx_begin(fx);
    is_str(loaded(fx->s), "", "a new store has no events");
    ok(append_events(fx->s, events, 3, &err) == 0, "appends a batch");
    ok(events[0].seq == 1 && events[1].seq == 2 && events[2].seq == 3,
       "fills in seq");
    ok(append_events(fx->s, NULL, 0, &err) == 0, "an empty batch is fine");
    fx_reopen(fx);
    ok(append_one(fx->s, 8, EV_CANCEL, &err) == 0, "appends after reopening");
    is_str(loaded(fx->s),
           "1:7/0 submit@1763712000.5 by 1000 {\"a\":1}\n"
           "2:8/0 submit@1763712000.5 by 1000 -\n"
           "3:7/1 intent@1763712000.5 by -1 \n"
           "4:8/0 cancel@1763712000.5 by 1000 -\n",
           "loads what was appended, in order and without gaps");
    fx_end(fx);
}

static int stop_at_two(void *arg, const struct store_event *e,
                       struct error *err)
{
    *(uint64_t *)arg = e->seq;
    return e->seq == 2 ? error_set(err, ERR_BUSY, "enough") : 0;
}

static int stop_row(void *arg, const struct store_cell *cells, size_t n,
                    struct error *err)
{
    (void)cells;
    ++*(size_t *)arg;
    return error_set(err, ERR_BUSY, "enough of %zu", n);
}

static void test_stop(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    uint64_t seen = 0;
    size_t rows = 0;
    struct store_query q = {.view = VIEW_EVENT, .rank = -1};

    fx_begin(fx);
    for (uint64_t i = 1; i <= 3; i++)
        (void)append_one(fx->s, i, EV_SUBMIT, &err);
    is_int(fx->s->ops->load(fx->s, stop_at_two, &seen, &err), -1,
           "load fails when each() does");
    is_int((long long)seen, 2, "load stops there");
    is_str(err.msg, "enough", "load keeps the reason");
    is_int(fx->s->ops->query(fx->s, &q, stop_row, &rows, &err), -1,
           "query fails when row() does");
    is_int((long long)rows, 1, "query stops there");
    is_str(err.msg, "enough of 7", "query keeps the reason");
    ok(append_one(fx->s, 4, EV_SUBMIT, &err) == 0, "the store goes on");
    fx_end(fx);
}

/* ---- jobs and attempts --------------------------------------------------- */

static void test_upsert(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    struct store_job jobs[] = {job(2), job(1)};
    struct store_attempt attempts[] = {attempt(1, 1), attempt(1, 2)};
    struct store_event e = event(1, EV_SUBMIT, NULL);
    struct store_batch b = {.events = &e,
                            .n_events = 1,
                            .jobs = jobs,
                            .n_jobs = 2,
                            .attempts = attempts,
                            .n_attempts = 2};

    fx_begin(fx);
    ok(fx->s->ops->append(fx->s, &b, &err) == 0, "stores jobs and attempts");
    jobs[1].state = "RUNNING";
    jobs[1].reason = NULL;
    jobs[1].start_s = 1763712003;
    jobs[1].idempotency_key = "key'; --";
    jobs[1].exit_code = 0;
    attempts[1].native_id = "slurm:17";
    attempts[1].class = "cv/28";
    attempts[1].signal = 9;
    b = (struct store_batch){.jobs = &jobs[1],
                             .n_jobs = 1,
                             .attempts = &attempts[1],
                             .n_attempts = 1};
    ok(fx->s->ops->append(fx->s, &b, &err) == 0, "replaces one of each");
    fx_reopen(fx);
    is_str(view(fx->s, VIEW_JOB),
           "1 'mnist' 'ada' 1000 'cv' 'RUNNING' - 0 1 4 0 0 0 1763712000r "
           "1763712003r - 'key'; --' '{}' '/jobs/1'\n"
           "2 'mnist' 'ada' 1000 'cv' 'QUEUED' - 0 1 4 0 0 - 1763712000r "
           "- - - '{}' '/jobs/1'\n",
           "v_job: by id, the latest values, -1 and NAN and NULL as NULL");
    is_str(view(fx->s, VIEW_ATTEMPT),
           "1 1 'DISPATCHING' - - - - 2 1 - 0 1763712001r - - -\n"
           "1 2 'DISPATCHING' - 'slurm:17' - 'cv/28' 2 1 - 9 1763712001r "
           "- - -\n",
           "v_attempt: by job and attempt, the latest values");
    is_str(queried(fx->s, (struct store_query){.view = VIEW_JOB, .job = 2}),
           "2 'mnist' 'ada' 1000 'cv' 'QUEUED' - 0 1 4 0 0 - 1763712000r "
           "- - - '{}' '/jobs/1'\n",
           "v_job of one job");
    fx_end(fx);
}

/* ---- metrics ------------------------------------------------------------- */

static void test_rows(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    size_t added = 99;
    struct metric_row rows[] = {iteration(0, 1, 1.5), epoch(1, 0.75),
                                value(0, 1, "grad", 2), iteration(0, 1, 9),
                                value(0, -1, "f1", NAN)};

    fx_begin(fx);
    ok(fx->s->ops->rows(fx->s, 5, 1, rows, 5, &added, &err) == 0,
       "stores rows");
    is_int((long long)added, 4, "counts the new ones");
    rows[0].iteration.t_iter = 77;
    rows[1].epoch.eval_accuracy = 77;
    rows[2].value.value = 77;
    ok(fx->s->ops->rows(fx->s, 5, 1, rows, 5, &added, &err) == 0,
       "the same rows again are fine");
    is_int((long long)added, 0, "and none of them is new");
    ok(fx->s->ops->rows(fx->s, 5, 2, rows, 1, NULL, &err) == 0,
       "another attempt, without a count");
    ok(fx->s->ops->rows(fx->s, 5, 2, NULL, 0, &added, &err) == 0, "no rows");
    ok(fx->s->ops->sync_rows(fx->s, &err) == 0, "syncs");
    ok(fx->s->ops->sync_rows(fx->s, &err) == 0, "syncs nothing");
    fx_reopen(fx);
    is_str(view(fx->s, VIEW_ITERATION),
           "5 1 0 1 1 1763712002r 1.5r 0.25r - 0.5r - 0r 0.125r - 0.1r 64 "
           "- -\n"
           "5 2 0 1 1 1763712002r 77r 0.25r - 0.5r - 0r 0.125r - 0.1r 64 "
           "- -\n",
           "v_iteration: the first row stays; not reported is NULL");
    is_str(view(fx->s, VIEW_EPOCH), "5 1 1 9.5r 0.5r - 0.75r 1000r\n",
           "v_epoch");
    is_str(view(fx->s, VIEW_METRIC),
           "5 1 0 - 'f1' -\n"
           "5 1 0 1 'grad' 2r\n",
           "v_metric");
    is_str(view(fx->s, VIEW_PROFILE), "", "v_profile can be asked");
    fx_end(fx);
}

static void fill_filters(struct store *s)
{
    struct error err = ERROR_INIT;

    for (uint64_t j = 1; j <= 2; j++)
        for (int32_t k = 1; k <= 2; k++)
            for (int32_t rank = 1; rank >= 0; rank--) {
                struct metric_row rows[4];
                for (int i = 0; i < 4; i++)
                    rows[i] = value(rank, 4 - i, "x", (double)j);
                if (s->ops->rows(s, j, k, rows, 4, NULL, &err) < 0)
                    tap_diag("%s", err.msg);
            }
}

static void test_filters(struct fixture *fx)
{
    struct store_query q = {.view = VIEW_METRIC, .rank = -1, .job = 2};

    fx_begin(fx);
    fill_filters(fx->s);
    q.attempt = 1;
    q.after = 2;
    is_str(queried(fx->s, q),
           "2 1 0 3 'x' 2r\n2 1 1 3 'x' 2r\n2 1 0 4 'x' 2r\n2 1 1 4 'x' 2r\n",
           "job, attempt and after: by iteration, then rank");
    q.limit = 3;
    is_str(queried(fx->s, q),
           "2 1 0 3 'x' 2r\n2 1 1 3 'x' 2r\n2 1 0 4 'x' 2r\n", "limit");
    q.last = 1;
    is_str(queried(fx->s, q),
           "2 1 1 3 'x' 2r\n2 1 0 4 'x' 2r\n2 1 1 4 'x' 2r\n",
           "the last rows, in order");
    q = (struct store_query){
        .view = VIEW_METRIC, .job = 1, .rank = 1, .after = 3};
    is_str(queried(fx->s, q), "1 1 1 4 'x' 1r\n1 2 1 4 'x' 1r\n",
           "rank, of all attempts");
    q = (struct store_query){.view = VIEW_METRIC, .rank = -1, .after = 3};
    is_str(queried(fx->s, q),
           "1 1 0 4 'x' 1r\n1 1 1 4 'x' 1r\n1 2 0 4 'x' 1r\n1 2 1 4 'x' 1r\n"
           "2 1 0 4 'x' 2r\n2 1 1 4 'x' 2r\n2 2 0 4 'x' 2r\n2 2 1 4 'x' 2r\n",
           "after, of all jobs");
    q = (struct store_query){.view = VIEW_METRIC, .rank = -1, .last = 1};
    q.limit = 100;
    ok(strlen(queried(fx->s, q)) == 32 * strlen("1 1 0 4 'x' 1r\n"),
       "fewer rows than the limit: all of them");
    q = (struct store_query){.view = VIEW_METRIC, .rank = -1, .job = 3};
    is_str(queried(fx->s, q), "", "no such job: no rows, no error");
    fx_end(fx);
}

static void test_event_filters(struct fixture *fx)
{
    struct error err = ERROR_INIT;

    fx_begin(fx);
    for (uint64_t i = 1; i <= 6; i++)
        (void)append_one(fx->s, 1 + i % 2, EV_SUBMIT, &err);
    is_str(
        queried(fx->s,
                (struct store_query){.view = VIEW_EVENT, .job = 1, .after = 2}),
        "4 1 0 'submit' 1763712000r 1000 -\n"
        "6 1 0 'submit' 1763712000r 1000 -\n",
        "v_event of one job after a seq; rank has no say");
    is_str(queried(
               fx->s,
               (struct store_query){.view = VIEW_EVENT, .limit = 1, .last = 1}),
           "6 1 0 'submit' 1763712000r 1000 -\n", "the last event");
    struct store_query bad = {.view = VIEW_N};
    is_int(fx->s->ops->query(fx->s, &bad, print_row, NULL, &err), -1,
           "no such view");
    is_int(err.code, ERR_INVAL, "is invalid");
    bad = (struct store_query){.view = VIEW_JOB, .limit = -1};
    is_int(fx->s->ops->query(fx->s, &bad, print_row, NULL, &err), -1,
           "a negative limit");
    is_int(err.code, ERR_INVAL, "is invalid too");
    fx_end(fx);
}

static int count_names(void *arg, const struct store_cell *cells, size_t n,
                       struct error *err)
{
    const char *const want[] = {"job",       "attempt", "rank",
                                "iteration", "name",    "value"};
    (void)err;
    for (size_t i = 0; i < n && i < 6; i++)
        *(size_t *)arg += strcmp(cells[i].name, want[i]) == 0;
    return 0;
}

static void test_names(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    struct store_query q = {.view = VIEW_METRIC, .rank = -1, .limit = 1};
    size_t right = 0;

    fx_begin(fx);
    fill_filters(fx->s);
    ok(fx->s->ops->query(fx->s, &q, count_names, &right, &err) == 0, "queries");
    is_int((long long)right, 6, "cells carry their columns' names");
    fx_end(fx);
}

/* Two classes, three sizes; rank 1 is the slow one. */
static void test_scaling(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    struct store_attempt at[3] = {attempt(1, 1), attempt(2, 1), attempt(3, 1)};
    struct store_batch b = {.attempts = at, .n_attempts = 3};

    at[0].class = at[1].class = "a";
    at[0].gpus = 1;
    at[2].class = "b";
    fx_begin(fx);
    ok(fx->s->ops->append(fx->s, &b, &err) == 0, "stores attempts");
    for (uint64_t j = 1; j <= 4; j++)
        for (int64_t i = 101; i <= 105; i++) {
            bool wide = j > 1, warm = i > 103;
            struct metric_row rows[2] = {iteration(0, i, warm ? 1 : 50),
                                         iteration(1, i, warm ? 1.25 : 50)};
            if (j == 3)
                rows[0].iteration.samples = rows[1].iteration.samples = -1;
            (void)fx->s->ops->rows(fx->s, j, 1, rows, wide ? 2 : 1, NULL, &err);
        }
    is_str(view(fx->s, VIEW_SCALING),
           "'a' 1 1 1r 64r 1r 1r 2 'measured'\n"
           "'a' 2 1 1.25r 102.4r 1.6r 0.8r 2 'measured'\n"
           "'b' 2 1 1.25r - - - 2 'measured'\n",
           "v_scaling: the slowest rank, without the warm-up");
    is_str(queried(fx->s, (struct store_query){.view = VIEW_SCALING,
                                               .after = 1,
                                               .limit = 1,
                                               .last = 1}),
           "'b' 2 1 1.25r - - - 2 'measured'\n", "v_scaling: the last row");
    fx_end(fx);
}

/* ---- failures ------------------------------------------------------------ */

static void test_second(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    struct store *second = NULL;

    fx_begin(fx);
    is_int(open_inner(fx, &second, &err), -1, "a second store is refused");
    is_int(err.code, ERR_STATE, "as a state");
    ok(!second, "and nothing is handed out");
    ok(append_one(fx->s, 1, EV_SUBMIT, &err) == 0, "the first one works on");
    fx_end(fx);
}

/* Every call fails once, before and after; a retry then tells which. */
static void test_faults(struct fixture *fx)
{
    struct error err = ERROR_INIT;

    for (int32_t after = 0; after <= 1; after++) {
        fx_begin(fx);
        fx->fault = (struct store_fault){.n = 2, .after = after};
        fx_reopen(fx);
        ok(append_one(fx->s, 1, EV_SUBMIT, &err) == 0, "call 1 passes");
        is_int(append_one(fx->s, 2, EV_SUBMIT, &err), -1, "call 2 fails");
        is_int(err.code, ERR_IO, "as the disk would");
        ok(append_one(fx->s, 3, EV_SUBMIT, &err) == 0, "call 3 passes");
        is_int(store_faulty_calls(fx->s), 3, "three calls");
        fx->fault.n = 0;
        fx_reopen(fx);
        is_str(loaded(fx->s),
               after ? "1:1/0 submit@1763712000.5 by 1000 -\n"
                       "2:2/0 submit@1763712000.5 by 1000 -\n"
                       "3:3/0 submit@1763712000.5 by 1000 -\n"
                     : "1:1/0 submit@1763712000.5 by 1000 -\n"
                       "2:3/0 submit@1763712000.5 by 1000 -\n",
               after ? "after: it was done" : "before: it was not");
        fx_end(fx);
    }
    fx_begin(fx);
    fx->fault = (struct store_fault){.n = 1, .after = 1};
    fx_reopen(fx);
    size_t added = 99;
    struct metric_row row = epoch(1, 0.5);
    is_int(fx->s->ops->rows(fx->s, 1, 1, &row, 1, &added, &err), -1,
           "rows fail too");
    is_int((long long)added, 99, "and leave the count alone");
    ok(fx->s->ops->rows(fx->s, 1, 1, &row, 1, &added, &err) == 0 && added == 0,
       "the retry finds them there");
    fx_end(fx);
}

/* ---- threads ------------------------------------------------------------- */

enum { ROUNDS = 50 };

struct side {
    struct store *s;
    const char *failed; /* at what, or NULL */
};

static void *write_rows(void *arg)
{
    struct side *side = arg;
    struct store *s = side->s;
    struct error err = ERROR_INIT;

    for (int64_t i = 1; i <= ROUNDS; i++) {
        struct metric_row row = iteration(0, i, 1);
        if (s->ops->rows(s, 1, 1, &row, 1, NULL, &err) < 0 ||
            s->ops->sync_rows(s, &err) < 0)
            side->failed = "rows";
    }
    return NULL;
}

static int count_row(void *arg, const struct store_cell *cells, size_t n,
                     struct error *err)
{
    (void)cells;
    (void)n;
    (void)err;
    ++*(size_t *)arg;
    return 0;
}

static void *read_views(void *arg)
{
    struct side *side = arg;
    struct store *s = side->s;
    struct error err = ERROR_INIT;
    size_t before = 0;

    for (int i = 0; i < ROUNDS; i++) {
        struct store_query q = {.view = VIEW_ITERATION, .rank = -1};
        size_t rows = 0;
        if (s->ops->query(s, &q, count_row, &rows, &err) < 0)
            side->failed = "query v_iteration";
        if (rows < before)
            side->failed = "rows went away";
        before = rows;
        q.view = VIEW_EVENT;
        if (s->ops->query(s, &q, count_row, &rows, &err) < 0)
            side->failed = "query v_event";
    }
    return NULL;
}

static void test_threads(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    void *(*const mains[3])(void *) = {write_rows, read_views, read_views};
    struct side sides[3];
    pthread_t threads[3];
    int failed = 0;

    fx_begin(fx);
    for (int i = 0; i < 3; i++) {
        sides[i] = (struct side){.s = fx->s};
        if (pthread_create(&threads[i], NULL, mains[i], &sides[i]) != 0)
            exit(1);
    }
    for (int i = 0; i < ROUNDS; i++)
        failed += append_one(fx->s, 1, EV_STALL, &err) < 0;
    is_int(failed, 0, "appends while others write rows and read");
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        ok(!sides[i].failed, "thread %d: %s", i,
           sides[i].failed ? sides[i].failed : "fine");
    }
    fx_end(fx);
}

/* -------------------------------------------------------------------------- */

static void run(struct fixture fx)
{
    tap_diag("%s", fx.name);
    test_order(&fx);
    test_stop(&fx);
    test_upsert(&fx);
    test_rows(&fx);
    test_filters(&fx);
    test_event_filters(&fx);
    test_names(&fx);
    test_scaling(&fx);
    test_second(&fx);
    if (fx.faulty)
        test_faults(&fx);
    test_threads(&fx);
}

int main(void)
{
    run((struct fixture){.name = "mem"});
    run((struct fixture){.name = "faulty(mem)", .faulty = true});
    run((struct fixture){.name = "sqlite", .sqlite = true});
    run((struct fixture){
        .name = "faulty(sqlite)", .sqlite = true, .faulty = true});
    return tap_done();
}
