/* llm_equal.h - the same small job with whole and with sharded weights, and
 * resumed with the other.
 *
 * As many micro-batches on each rank as make n_parts together. */
#ifndef MGPU_TESTS_MPI_LLM_EQUAL_H
#define MGPU_TESTS_MPI_LLM_EQUAL_H

#include <math.h>

#include "tests/mpi/llm_small.h"
#include "tests/mpi/trace.h"

enum { STEPS = 6 };
static int n_parts = 4; /* micro-batches of an iteration, on all ranks */

static int run_parts(int ranks, enum spec_distribution how,
                     struct job_spec *spec, const char *dir, int at,
                     struct trace *t)
{
    struct train_result r = {.iteration = -1};
    spec->train.distribution = how;
    spec->train.gradient_accumulation_steps = n_parts / ranks;
    return run_on(ranks, spec, dir, at, &r, t);
}

static int whole(int ranks, enum spec_distribution how, struct job_spec *spec,
                 struct trace *t)
{
    char dir[64];
    train_dir(dir);
    int rc = run_parts(ranks, how, spec, dir, 0, t);
    train_remove(dir);
    return rc;
}

/* Other ranks than the first have nothing to compare. */
static void near(const struct trace *t, const struct trace *want, double first,
                 double all, const char *what)
{
    char line[200];
    if (mpi_rank > 0) {
        (void)mpi_ok(true, NULL, what);
        return;
    }
    const double step = trace_apart(t, want, 2);
    const double last = trace_apart(t, want, STEPS);
    const double eval = fabs(t->eval_loss[3] / want->eval_loss[3] - 1);
    (void)snprintf(line, sizeof(line), "%s: %.2g, %.2g apart, evaluation %.2g",
                   what, step, last, eval);
    (void)mpi_ok(step <= first && last <= all && eval <= all, NULL, line);
}

/* The next number of ranks that the n_parts can be dealt out to; 0: none. */
static int more_ranks(int ranks)
{
    while (++ranks <= mpi_size && ranks <= n_parts)
        if (n_parts % ranks == 0)
            return ranks;
    return 0;
}

static int most_ranks(void)
{
    int most = 1;
    for (int ranks = 1; ranks > 0; ranks = more_ranks(ranks))
        most = ranks;
    return most;
}

/* fsdp on R ranks, ddp-ds on R ranks, and one rank. */
static void test_equal(struct job_spec *spec, double first, double all,
                       const char *what)
{
    struct trace one = {.n = 0};
    char line[120];
    (void)mpi_ok(whole(1, DIST_DDP_DS, spec, &one) == 0 &&
                     (mpi_rank > 0 ||
                      (one.n == STEPS && one.loss[STEPS] != one.loss[1])),
                 NULL, what);
    for (int ranks = mpi_size > 1 ? more_ranks(1) : 1; ranks > 0;
         ranks = more_ranks(ranks)) {
        struct trace ddp = {.n = 0}, fsdp = {.n = 0};
        (void)snprintf(line, sizeof(line), "%s on %d", what, ranks);
        (void)mpi_ok(whole(ranks, DIST_DDP_DS, spec, &ddp) == 0 &&
                         whole(ranks, DIST_FSDP, spec, &fsdp) == 0,
                     NULL, line);
        near(&fsdp, &one, first, all, line);
        (void)snprintf(line, sizeof(line), "%s on %d, beside ddp-ds", what,
                       ranks);
        near(&fsdp, &ddp, first, all, line);
    }
}

/* Stopped in mid-epoch and resumed, each on so many ranks. */
static void test_moved(struct job_spec *spec, int from,
                       enum spec_distribution from_how, int to,
                       enum spec_distribution to_how)
{
    struct trace want = {.n = 0}, t = {.n = 0};
    char dir[64], line[120];
    (void)snprintf(line, sizeof(line), "from %d ranks%s to %d%s", from,
                   from_how == DIST_FSDP ? " with fsdp" : "", to,
                   to_how == DIST_FSDP ? " with fsdp" : "");
    (void)mpi_ok(whole(from, from_how, spec, &want) == 0, NULL, "whole");
    train_dir(dir);
    (void)mpi_ok(run_parts(from, from_how, spec, dir, 3, &t) == 0 &&
                     run_parts(to, to_how, spec, dir, 0, &t) == 0 &&
                     (mpi_rank > 0 || t.n == STEPS),
                 NULL, line);
    near(&t, &want, 1e-12, 1e-10, line);
    if (from == to && from_how == to_how)
        (void)mpi_ok(mpi_rank > 0 ||
                         memcmp(t.loss, want.loss, sizeof(t.loss)) == 0,
                     NULL, "the same bits");
    train_remove(dir);
}

/* Changed in the backward pass, the weights are the same bit by bit. */
static void test_in_bwd(const struct llm_material *m, enum spec_precision p)
{
    struct job_spec spec = {.version = 0};
    const int most = most_ranks();
    if (!llm_small(&spec, "full", m, "shuffle: true"))
        return;
    spec.train.precision = p;
    spec.train.mixed = p == PRECISION_BF16;
    spec.train.gradient_accumulation_steps = 1;
    for (int k = 0; k < 4; k++) {
        struct trace t[2] = {{.n = 0}};
        struct train_result r = {.iteration = -1};
        const int ranks = k == 0 ? 1 : k == 3 || most == 1 ? most : 2;
        char line[80];
        spec.train.distribution = k > 1 ? DIST_FSDP : DIST_DDP_DS;
        (void)snprintf(line, sizeof(line), "in the backward pass, %d ranks%s",
                       ranks, k > 1 ? ", fsdp" : "");
        for (int i = 0; i < 2; i++) {
            char dir[64];
            train_dir(dir);
            spec.train.optimizer_in_bwd = i;
            (void)mpi_ok(run_on(ranks, &spec, dir, 0, &r, &t[i]) == 0, NULL,
                         line);
            train_remove(dir);
        }
        (void)mpi_ok(mpi_rank > 0 ||
                         (t[0].n > 2 && isfinite(t[0].eval_loss[3]) &&
                          same_trace(&t[0], &t[1])),
                     NULL, "the same bits");
    }
    spec_clear(&spec);
}

#endif
