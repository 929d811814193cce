/* store.c - how fast the SQLite store is here: commits, rows, restart.
 *
 *   store [DIR [ROWS]]   DIR must be on the disk in question; it is filled
 *                        and left behind. The default is a new directory.
 */
#include "db/metric_store.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "jobs/base/clock.h"

enum { READERS = 4, BATCH = 1000, RANKS = 4, EVENTS = 200000 };

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

static void check(int rc, const struct error *err)
{
    if (rc < 0) {
        fprintf(stderr, "%s\n", err->msg);
        exit(1);
    }
}

static void append(struct store *s, int n, int batch, const char *what)
{
    struct error err = ERROR_INIT;
    struct store_event *events = calloc((size_t)batch, sizeof(*events));
    struct store_batch b = {.events = events, .n_events = (size_t)batch};
    double start = now_s();

    if (!events)
        exit(1);
    for (int i = 0; i < batch; i++)
        events[i] = (struct store_event){
            .job = 1, .ev = EV_STALL, .at_s = start, .detail = "{\"a\":1}"};
    for (int i = 0; i < n; i++)
        check(s->ops->append(s, &b, &err), &err);
    double t = now_s() - start;
    printf("%-28s %9.0f batches/s %10.0f events/s\n", what, n / t,
           (double)n * batch / t);
    free(events);
}

static void insert(struct store *s, uint64_t job, int64_t n, const char *what)
{
    struct error err = ERROR_INIT;
    struct metric_row *rows = calloc(BATCH, sizeof(*rows));
    double start = now_s(), slowest = 0;

    if (!rows)
        exit(1);
    for (int64_t at = 0; at < n; at += BATCH) {
        for (int i = 0; i < BATCH; i++)
            rows[i] =
                (struct metric_row){.kind = METRIC_ITERATION,
                                    .iteration = {.rank = i % RANKS,
                                                  .epoch = 1,
                                                  .iteration = (at + i) / RANKS,
                                                  .started_at = start,
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
        double before = now_s();
        check(s->metrics->rows(s, job, 1, rows, BATCH, NULL, &err), &err);
        slowest = fmax(slowest, now_s() - before);
    }
    check(s->metrics->sync_rows(s, &err), &err);
    printf("%-28s %9.0f rows/s, slowest batch %.1f ms\n", what,
           (double)n / (now_s() - start), 1e3 * slowest);
    free(rows);
}

struct reader {
    struct store *s;
    atomic_bool stop;
    atomic_long queries;
};

static int ignore_row(void *arg, const struct store_cell *c, size_t n,
                      struct error *err)
{
    (void)arg;
    (void)c;
    (void)n;
    (void)err;
    return 0;
}

static void *read_tail(void *arg)
{
    struct reader *r = arg;
    struct error err = ERROR_INIT;
    struct store_query q = {.view = VIEW_ITERATION,
                            .job = 2,
                            .attempt = 1,
                            .rank = -1,
                            .limit = 20,
                            .last = 1};

    while (!r->stop) {
        check(r->s->metrics->query(r->s, &q, ignore_row, NULL, &err), &err);
        r->queries++;
    }
    return NULL;
}

static void insert_with_readers(struct store *s, int64_t n)
{
    struct reader r = {.s = s};
    pthread_t threads[READERS];
    double start = now_s();

    for (int i = 0; i < READERS; i++)
        if (pthread_create(&threads[i], NULL, read_tail, &r) != 0)
            exit(1);
    insert(s, 2, n, "rows, 4 readers of the tail");
    r.stop = true;
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    printf("%-28s %9.0f queries/s\n", "  meanwhile",
           (double)r.queries / (now_s() - start));
}

static int ignore_event(void *arg, const struct store_event *e,
                        struct error *err)
{
    (void)e;
    (void)err;
    ++*(long *)arg;
    return 0;
}

int main(int argc, char **argv)
{
    struct error err = ERROR_INIT;
    char fresh[] = "/tmp/mgpu-bench-XXXXXX";
    const char *dir = argc > 1 ? argv[1] : mkdtemp(fresh);
    int64_t n = argc > 2 ? strtoll(argv[2], NULL, 10) : 1000000;
    struct store *s = NULL;
    long events = 0;

    if (!dir)
        return 1;
    printf("in %s, %lld rows\n", dir, (long long)n);
    check(store_sqlite_open(dir, &s, &err), &err);
    append(s, 2000, 1, "append, 1 event a batch");
    append(s, 2000, 20, "append, 20 events a batch");
    append(s, EVENTS / BATCH, BATCH, "append, 1000 events a batch");
    struct store_attempt a = {
        .job = 1, .attempt = 1, .class = "c", .gpus = RANKS, .nodes = 1};
    struct store_batch b = {.attempts = &a, .n_attempts = 1};
    check(s->ops->append(s, &b, &err), &err);
    insert(s, 1, n, "rows, 1000 a batch");
    insert(s, 1, n, "the same rows again");
    insert_with_readers(s, n);
    double start = now_s();
    s->ops->destroy(s);
    printf("%-28s %9.3f s\n", "close", now_s() - start);
    start = now_s();
    check(store_sqlite_open(dir, &s, &err), &err);
    printf("%-28s %9.3f s\n", "open, with quick_check", now_s() - start);
    start = now_s();
    check(s->ops->load(s, ignore_event, &events, &err), &err);
    printf("%-28s %9.3f s, %ld events\n", "load", now_s() - start, events);
    struct store_query q = {.view = VIEW_SCALING};
    start = now_s();
    check(s->metrics->query(s, &q, ignore_row, NULL, &err), &err);
    printf("%-28s %9.3f s\n", "v_scaling", now_s() - start);
    s->ops->destroy(s);
    return 0;
}
