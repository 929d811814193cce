/* store_purge.c - what every store with metrics promises
 * (db/metric_store.h) of rows that leave: those of jobs that ended long ago, a
 * piece at a time, and no others.
 */
#include "tests/contract/store_fixture.h"

static const double OLD_S = 1000, NEW_S = 3000, BEFORE_S = 2000;

static struct store_job ended(uint64_t id, const char *state, double end_s)
{
    struct store_job j = job(id);
    j.state = state;
    j.end_s = end_s;
    return j;
}

/* 1 and 6 ended long ago, 2 of late, 3 runs, 4 has ended and is to go on (a
 * row that no daemon writes), and of 5 nothing is known. */
static void fill(struct store *s)
{
    struct error err = ERROR_INIT;
    struct store_job jobs[] = {
        ended(1, "COMPLETED", OLD_S), ended(2, "FAILED", NEW_S),
        ended(3, "RUNNING", NAN),     ended(4, "QUEUED", OLD_S),
        ended(6, "CANCELLED", OLD_S), ended(7, "COMPLETED", NAN),
    };
    struct store_batch b = {.jobs = jobs,
                            .n_jobs = sizeof(jobs) / sizeof(jobs[0])};
    ok(s->ops->append(s, &b, &err) == 0, "stores jobs");
    for (uint64_t j = 1; j <= 7; j++)
        for (int32_t k = 1; k <= 2; k++) {
            struct metric_row rows[9];
            for (int i = 0; i < 6; i++)
                rows[i] = iteration(i % 2, i / 2, 1);
            rows[6] = epoch(1, 0.5);
            rows[7] = value(0, 1, "f1", 1);
            rows[8] = profile(0, 1, "memory", 1);
            ok(s->metrics->rows(s, j, k, rows, 9, NULL, &err) == 0, "and rows");
        }
}

struct has {
    int64_t job;
    int n, of_job;
};

static int count(void *arg, const struct store_cell *cells, size_t n,
                 struct error *err)
{
    struct has *h = arg;
    (void)n;
    (void)err;
    h->n++;
    h->of_job += cells[0].i == h->job;
    return 0;
}

/* Of a job in all views of rows; job 0: of all jobs. */
static int n_rows(struct store *s, int64_t of)
{
    static const enum store_view all[] = {VIEW_ITERATION, VIEW_EPOCH,
                                          VIEW_METRIC, VIEW_PROFILE};
    struct has h = {.job = of};
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct store_query q = {.view = all[i], .rank = -1};
        if (s->metrics->query(s, &q, count, &h, &err) < 0)
            return -1;
    }
    return of ? h.of_job : h.n;
}

static int purge(struct fixture *fx, struct store_purge *p)
{
    struct error err = ERROR_INIT;
    int rc = fx->s->metrics->purge_rows(fx->s, p, &err);
    if (rc < 0)
        tap_diag("%s", err.msg);
    return rc;
}

static void test_pieces(struct fixture *fx)
{
    struct store_purge p = {.before_s = BEFORE_S, .max = 4};
    int calls = 0, most = 0, gone = 0;

    fx_begin(fx);
    fill(fx->s);
    is_int(n_rows(fx->s, 0), 126, "18 rows of each of seven");
    ok(purge(fx, &p) == 0 && !p.is_over, "a piece goes");
    is_int((long long)p.n, 4, "of four rows");
    is_int(n_rows(fx->s, 1), 14, "of the first job");
    is_int(n_rows(fx->s, 0), 122, "alone");
    fx_reopen(fx); /* killed here, begun again */
    p = (struct store_purge){.before_s = BEFORE_S, .max = 4};
    for (; calls < 100 && !p.is_over && purge(fx, &p) == 0; calls++) {
        most = (int)p.n > most ? (int)p.n : most;
        gone += (int)p.n;
    }
    ok(p.is_over, "it comes to an end, after %d calls", calls);
    is_int(most, 4, "no piece was larger");
    is_int(gone, 32, "all of two jobs went, each row once");
    is_int(n_rows(fx->s, 1) + n_rows(fx->s, 6), 0, "both have none");
    for (int64_t j = 2; j <= 5; j++)
        is_int(n_rows(fx->s, j), 18, "a job that has not ended so long ago");
    is_int(n_rows(fx->s, 7), 18, "nor one whose end is not known");
    fx_reopen(fx);
    is_int(n_rows(fx->s, 0), 90, "so it is in the next life");
    fx_end(fx);
}

static void test_all(struct fixture *fx)
{
    struct store_purge p = {.before_s = INFINITY, .max = 1000};
    struct error err = ERROR_INIT;
    struct metric_row row = iteration(0, 1, 1);
    size_t added = 0;

    fx_begin(fx);
    ok(purge(fx, &p) == 0 && p.is_over && p.n == 0, "an empty store");
    fill(fx->s);
    p = (struct store_purge){.before_s = 0, .max = 1000};
    ok(purge(fx, &p) == 0 && p.is_over, "before the first end");
    is_int(n_rows(fx->s, 0), 126, "nothing goes");
    p = (struct store_purge){.before_s = INFINITY, .max = 1000};
    for (int i = 0; i < 10 && !p.is_over; i++)
        (void)purge(fx, &p);
    is_int(n_rows(fx->s, 0), 72, "whatever has ended");
    ok(fx->s->metrics->rows(fx->s, 3, 1, &row, 1, &added, &err) == 0 &&
           added == 0,
       "what a job that runs has sent is still known");
    ok(fx->s->metrics->rows(fx->s, 9, 1, &row, 1, &added, &err) == 0 &&
           added == 1,
       "and new rows are stored");
    fx_end(fx);
}

/* The first that goes is the first of its key: a curve is cut from its
 * beginning, and not in places. */
static void test_order(struct fixture *fx)
{
    struct store_purge p = {.before_s = BEFORE_S, .max = 3};

    fx_begin(fx);
    fill(fx->s);
    ok(purge(fx, &p) == 0, "three rows go");
    is_str(queried(fx->s, (struct store_query){.view = VIEW_ITERATION,
                                               .job = 1,
                                               .attempt = 1,
                                               .rank = 1}),
           "1 1 1 1 1 1763712002r 1r 0.25r - 0.5r - 0r 0.125r - 0.1r 64 - -\n"
           "1 1 1 2 1 1763712002r 1r 0.25r - 0.5r - 0r 0.125r - 0.1r 64 - -\n",
           "the first iteration of both ranks, the next of rank 0");
    fx_end(fx);
}

static void run(struct fixture *fx)
{
    test_pieces(fx);
    test_all(fx);
    test_order(fx);
}

int main(void)
{
    return each_metric_store(run);
}
