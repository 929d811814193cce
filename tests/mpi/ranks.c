/* ranks.c - the same global batch on other numbers of ranks: so many ranks
 * with so many batches each per iteration as make 12 together. The losses
 * agree as far as rounding in fp64 allows (trace_sensitivity()), under every
 * optimizer, with clipping, smoothed labels and a mean of the weights; also
 * when a run goes on elsewhere.
 *
 * What cannot agree is what batch norm's running statistics make: rank 0's
 * are the model's, and it sees one of 12 batches on 12 ranks and all of them
 * alone. Evaluations are therefore bounded only: their losses are 2 % apart
 * at most. In fp64 that is a property of these data, the same to seven digits
 * on every processor. */
#include <math.h>

#include "tests/mpi/trace.h"

enum { PARTS = 12 };

static const double EVAL_APART = 0.02; /* they are 0.005 apart */

/* With as many batches on each rank as make PARTS together. */
static int run_parts(int ranks, struct job_spec *spec, const char *dir, int at,
                     struct train_result *r, struct trace *t)
{
    spec->train.gradient_accumulation_steps = PARTS / ranks;
    return run_on(ranks, spec, dir, at, r, t);
}

/* Other ranks than the first have nothing to compare. */
static void near(const struct trace *t, const struct trace *want, double most,
                 const char *what)
{
    char line[120];
    double apart = mpi_rank == 0 ? trace_apart(t, want, want->n) : 0;
    (void)snprintf(line, sizeof(line), "%s: %.2g apart", what, apart);
    (void)mpi_ok(apart < most, NULL, line);
}

/* Returns how much rounding may move the losses. */
static double test_ranks(struct job_spec *spec, const char *what)
{
    struct trace one = {.n = 0};
    struct train_result r = {.end = TRAIN_STOPPED};
    char dir[64], line[120];
    train_dir(dir);
    (void)mpi_ok(
        run_parts(1, spec, dir, 0, &r, &one) == 0 &&
            (mpi_rank > 0 || (one.n == 6 && isfinite(one.eval_loss[3]))),
        NULL, what);
    train_remove(dir);
    const double most = trace_sensitivity(spec, &one);
    for (int ranks = 2; ranks <= mpi_size && ranks <= 4; ranks++) {
        struct trace t = {.n = 0};
        train_dir(dir);
        int rc = run_parts(ranks, spec, dir, 0, &r, &t);
        (void)snprintf(line, sizeof(line), "%s, %d ranks and one", what, ranks);
        (void)mpi_ok(rc == 0, NULL, line);
        near(&t, &one, most, line);
        double off = mpi_rank == 0 ? t.eval_loss[3] / one.eval_loss[3] - 1 : 0;
        (void)snprintf(line, sizeof(line),
                       "its evaluation, by other statistics: %+.2g", off);
        (void)mpi_ok(fabs(off) <= EVAL_APART, NULL, line);
        train_remove(dir);
    }
    return most;
}

/* Stopped in mid-epoch on one number of ranks, resumed on another. */
static void test_moved(struct job_spec *spec, int from, int to, double most)
{
    struct trace whole = {.n = 0}, t = {.n = 0};
    struct train_result r = {.iteration = -1};
    char dir[64], line[80];
    train_dir(dir);
    (void)mpi_ok(run_parts(from, spec, dir, 0, &r, &whole) == 0, NULL, "whole");
    train_remove(dir);
    train_dir(dir);
    (void)snprintf(line, sizeof(line), "from %d ranks to %d", from, to);
    (void)mpi_ok(run_parts(from, spec, dir, 2, &r, &t) == 0 &&
                     run_parts(to, spec, dir, 0, &r, &t) == 0 &&
                     (mpi_rank > 0 || (r.iteration == 6 && t.n == 6)),
                 NULL, line);
    near(&t, &whole, most, line);
    train_remove(dir);
}

int main(int argc, char **argv)
{
    mpi_tap_start(&argc, &argv);
    struct error err = ERROR_INIT;
    struct job_spec spec = {.version = 0};
    if (train_spec(&spec)) {
        /* Batches of 4 and 3, the last of which are padded. At 32x32 the last
         * layers would see 4 or 3 values per channel, and the norm of so few
         * makes a large difference of a rounding error: 1e-2 after 6
         * iterations. At 64x64 they see four times as many. */
        spec.dataset.train_samples = 82;
        spec.dataset.image_size = 64;
        spec.train.epochs = 3;
        spec.train.optimizer.lr = 0.02;
        spec.train.clip_grad_norm = 1;
        spec.train.label_smoothing = 0.1;
        test_ranks(&spec, "sgd, clipped, smoothed");
        spec.train.optimizer.name = OPTIM_RMSPROP;
        spec.train.optimizer.lr = 1e-4;
        spec.train.optimizer.eps = 1e-3;
        spec.train.optimizer.alpha = 0.9;
        spec.train.optimizer.centered = true;
        spec.train.optimizer.no_decay = NO_DECAY_NORM_BIAS;
        spec.train.optimizer.weight_decay = 0.01;
        spec.train.on_nan = ON_NAN_SKIP;
        spec.train.ema.decay = 0.9;
        const double most = test_ranks(&spec, "rmsprop, with a mean");
        test_moved(&spec, mpi_size, 1, most);
        test_moved(&spec, 1, mpi_size, most);
        if (mpi_size >= 4)
            test_moved(&spec, 4, 3, most);
    }
    (void)mpi_ok(comm_mpi_use(0, &err) == 0, &err, "all again");
    spec_clear(&spec);
    return mpi_tap_done();
}
