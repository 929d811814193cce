/* trace.h - runs of a small job, and the losses that they leave. */
#ifndef MGPU_TESTS_MPI_TRACE_H
#define MGPU_TESTS_MPI_TRACE_H

#include <math.h>

#include "tests/mpi/train.h"

enum { ROWS = 256 };

/* What a run leaves: the loss of each iteration, by number. */
struct trace {
    int saves; /* that it told of */
    double loss[ROWS], epoch_loss[4], eval_loss[4];
    int n;
    double t_iter[ROWS], sol[ROWS]; /* sol 0: not reported */
    double fits;                    /* batch_fits; 0: not reported */
};

/* A signal in the middle of iteration `at`, on one rank only: the trainer
 * asks for the wall clock once per iteration. */
static volatile sig_atomic_t stop, save;
static int n_steps, stop_at, stop_rank;

static inline double counting_wall(const struct clock *c)
{
    (void)c;
    if (++n_steps == stop_at && mpi_rank == stop_rank)
        stop = SIGTERM;
    return 1e9 + n_steps;
}

static inline double real_now(const struct clock *c)
{
    (void)c;
    return clock_real.now_s(&clock_real);
}

static const struct clock counting = {.now_s = real_now,
                                      .wall_s = counting_wall};
static const struct clock *trace_clock = &counting; /* of the next runs */

static inline void read_trace(const char *dir, struct trace *t)
{
    char path[128];
    struct buf b = BUF_INIT;
    struct metric_row rows[8];
    size_t n = 0;
    (void)snprintf(path, sizeof(path), "%s/spool.%d", dir, mpi_rank);
    if (buf_read_file(&b, path, 1 << 20, NULL) < 0)
        return;
    for (const char *at = buf_str(&b), *end; (end = strchr(at, '\n')) != NULL;
         at = end + 1) {
        if (metric_line_decode(at, (size_t)(end - at), mpi_rank, rows, 8, &n,
                               NULL) < 0 ||
            n == 0)
            continue;
        const struct metric_iteration *m = &rows[0].iteration;
        const struct metric_epoch *e = &rows[0].epoch;
        const struct metric_value *v = &rows[0].value;
        if (rows[0].kind == METRIC_ITERATION && m->iteration < ROWS) {
            t->loss[m->iteration] = m->loss;
            t->t_iter[m->iteration] = m->t_iter;
            t->n = (int)m->iteration > t->n ? (int)m->iteration : t->n;
        } else if (rows[0].kind == METRIC_EPOCH && e->epoch < 4) {
            t->epoch_loss[e->epoch] = e->train_loss;
            t->eval_loss[e->epoch] = e->eval_loss;
        } else if (rows[0].kind == METRIC_VALUE &&
                   strcmp(v->name, "batch_fits") == 0) {
            t->fits = v->value;
        } else if (rows[0].kind == METRIC_VALUE && v->iteration < ROWS &&
                   strcmp(v->name, "sol") == 0) {
            t->sol[v->iteration] = v->value;
        }
    }
    buf_clear(&b);
}

/* One run, stopped in iteration `at` (counted from its start; 0: never). */
static inline int run(struct comm *c, const struct job_spec *spec,
                      const char *dir, int at, struct train_result *r,
                      struct trace *t)
{
    struct error err = ERROR_INIT;
    struct reporter *reporter = NULL;
    char ckpt[80];
    if (c == NULL) { /* this rank has no part in it */
        (void)MPI_Barrier(MPI_COMM_WORLD);
        return 0;
    }
    struct report_conf conf = {
        .url = "", .token = "", .dir = dir, .rank = mpi_rank};
    (void)snprintf(ckpt, sizeof(ckpt), "%s/ckpt", dir);
    if (reporter_create(&conf, &reporter, &err) < 0) {
        tap_diag("%s", err.msg);
        return -1;
    }
    struct train_env env = {.spec = spec,
                            .ckpt_dir = ckpt,
                            .out_dir = dir,
                            .comm = c,
                            .reporter = reporter,
                            .clock = trace_clock,
                            .stop = &stop,
                            .save = &save};
    stop = 0;
    n_steps = 0;
    stop_at = at;
    stop_rank = at % c->size;
    int rc = model_kind_find(spec, &env.kind, &err);
    rc = rc < 0 ? rc : trainer_run(&env, r, &err);
    if (rc < 0)
        tap_diag("%s", err.msg);
    (void)reporter_flush(reporter, 0);
    struct report_stats stats;
    reporter_stats(reporter, &stats);
    t->saves = (int)stats.saves;
    reporter_destroy(reporter);
    read_trace(dir, t);
    (void)MPI_Barrier(MPI_COMM_WORLD); /* rank 0 has written what it writes */
    return rc;
}

/* NAN is the same as NAN here. */
static inline bool same_trace(const struct trace *a, const struct trace *b)
{
    return a->n == b->n && memcmp(a->loss, b->loss, sizeof(a->loss)) == 0 &&
           memcmp(a->epoch_loss, b->epoch_loss, sizeof(a->epoch_loss)) == 0 &&
           memcmp(a->eval_loss, b->eval_loss, sizeof(a->eval_loss)) == 0;
}

/* As run(), on the first `ranks` ranks alone. */
static inline int run_on(int ranks, const struct job_spec *spec,
                         const char *dir, int at, struct train_result *r,
                         struct trace *t)
{
    struct error err = ERROR_INIT;
    struct comm *c = NULL;
    int rc = comm_mpi_use(ranks, &err);
    if (rc == 0 && mpi_rank < ranks)
        rc = comm_mpi_create(NULL, &c, &err);
    rc = rc < 0 ? rc : run(c, spec, dir, at, r, t);
    if (c != NULL)
        c->ops->destroy(c);
    return rc;
}

/* The largest relative difference of the losses of iterations 1 to last, which
 * both have and end with as many; infinite where they have not. */
static inline double trace_apart(const struct trace *a, const struct trace *b,
                                 int last)
{
    double most = a->n == b->n && a->n >= last ? 0 : INFINITY;
    for (int i = 1; i <= last && isfinite(most); i++) {
        const double d = fabs(a->loss[i] - b->loss[i]) / fabs(b->loss[i]);
        most = d > most || isnan(d) ? d : most;
    }
    return most;
}

/* By how much rounding may move the losses of a run in fp64: by no more than a
 * learning rate does that is 2^-30 of itself larger. A rounding error is 2^-53,
 * 2^23 times less: room for sums of 20,000 terms, and for what one backward
 * pass makes of them, 400 times that. How much the iterations after it make of
 * either is a property of the job, and of no processor. A missing state of the
 * optimizer moves the losses by 1e-2.
 * in  whole  the run of spec, on one rank */
static inline double trace_sensitivity(struct job_spec *spec,
                                       const struct trace *whole)
{
    const double lr = spec->train.optimizer.lr;
    struct trace t = {.n = 0};
    struct train_result r = {.iteration = -1};
    char dir[64], line[80];
    train_dir(dir);
    spec->train.optimizer.lr = lr * (1 + 0x1p-30);
    int rc = run_on(1, spec, dir, 0, &r, &t);
    spec->train.optimizer.lr = lr;
    train_remove(dir);
    double moves = mpi_rank == 0 ? trace_apart(&t, whole, whole->n) : 1e-9;
    (void)snprintf(line, sizeof(line), "a rate 2^-30 larger moves it by %.2g",
                   moves);
    (void)mpi_ok(rc == 0 && moves > 0 && moves < 1e-5, NULL, line);
    return moves;
}

#endif
