/* strategies.c - how the data reaches the ranks does not change what is
 * computed: ddp-rr is ddp-ds bit by bit, dp to rounding (the sum is made in
 * another order), and ddp on any number of ranks is one rank. Each of them
 * stops and resumes to the last bit. */
#include <math.h>

#include "tests/mpi/trace.h"

enum { EPOCHS = 3, EACH = 2 };

/* The largest difference of two losses, relative; of the first n. */
static double most_apart(const struct trace *a, const struct trace *b, int n)
{
    double apart = a->n == b->n && a->n == EPOCHS * EACH ? 0 : INFINITY;
    for (int i = 1; i <= n; i++) {
        double d = fabs(a->loss[i] - b->loss[i]) / fabs(b->loss[i]);
        apart = d > apart || isnan(d) ? d : apart;
    }
    return apart;
}

static void near(const struct trace *t, const struct trace *want,
                 const char *what)
{
    char line[160];
    double first = mpi_rank == 0 ? most_apart(t, want, 2) : 0;
    double all = mpi_rank == 0 ? most_apart(t, want, want->n) : 0;
    double epoch =
        mpi_rank == 0 ? fabs(t->epoch_loss[1] / want->epoch_loss[1] - 1) : 0;
    (void)snprintf(line, sizeof(line),
                   "%s: after one step %.2g apart, at the end %.2g", what,
                   first, all);
    (void)mpi_ok(first <= 1e-12 && all <= 1e-10 && epoch <= 1e-12, NULL, line);
}

/* On the first `ranks` ranks; 0: on all. Stopped in iteration `at`. */
static bool train(int ranks, struct job_spec *spec, enum spec_distribution how,
                  const char *dir, int at, struct trace *t)
{
    struct error err = ERROR_INIT;
    struct comm *c = NULL;
    struct train_result r = {.end = TRAIN_DONE};
    int rc = comm_mpi_use(ranks, &err);
    if (rc == 0 && (ranks == 0 || mpi_rank < ranks))
        rc = comm_mpi_create(NULL, &c, &err);
    spec->train.distribution = how;
    rc = rc < 0 ? rc : run(c, spec, dir, at, &r, t);
    if (c != NULL)
        c->ops->destroy(c);
    return mpi_ok(rc == 0 && r.end == (at > 0 ? TRAIN_STOPPED : TRAIN_DONE),
                  &err, at > 0 ? "it stops" : "it runs");
}

static void whole(int ranks, struct job_spec *spec, enum spec_distribution how,
                  struct trace *t)
{
    char dir[64];
    memset(t, 0, sizeof(*t));
    train_dir(dir);
    (void)train(ranks, spec, how, dir, 0, t);
    train_remove(dir);
}

static void resumed(struct job_spec *spec, enum spec_distribution how,
                    const struct trace *want, const char *what)
{
    struct trace t = {.n = 0};
    char dir[64];
    train_dir(dir);
    (void)train(0, spec, how, dir, EACH + 1, &t);
    (void)train(0, spec, how, dir, 0, &t);
    (void)mpi_ok(same_trace(&t, want), NULL, what);
    train_remove(dir);
}

static void test_same(struct job_spec *spec)
{
    struct trace ds, t;
    whole(0, spec, DIST_DDP_DS, &ds);
    (void)mpi_ok(ds.n == EPOCHS * EACH, NULL, "as many iterations as planned");
    whole(0, spec, DIST_DDP_RR, &t);
    (void)mpi_ok(same_trace(&t, &ds), NULL, "ddp-rr is ddp-ds, bit by bit");
    resumed(spec, DIST_DDP_RR, &ds, "ddp-rr, stopped and resumed");
    whole(0, spec, DIST_DP, &t);
    near(&t, &ds, "dp and ddp-ds");
    struct trace dp = t;
    resumed(spec, DIST_DP, &dp, "dp, stopped and resumed");
}

/* Only rank 0 changes the fp32 weights; the mean of them, with which every
 * rank evaluates, is the same on all. */
static void test_mixed(const struct job_spec *spec)
{
    struct trace t;
    struct job_spec s = *spec;
    s.train.precision = PRECISION_BF16;
    s.train.mixed = true;
    s.train.ema.decay = 0.5;
    whole(0, &s, DIST_DP, &t);
    resumed(&s, DIST_DP, &t, "dp in bf16 with fp32 weights, resumed");
}

static void test_ddp(struct job_spec *spec)
{
    struct trace one, t;
    whole(1, spec, DIST_DDP_DS, &one);
    whole(0, spec, DIST_DDP, &t);
    near(&t, &one, "ddp and one rank");
    /* Evaluations too: every rank has seen all. */
    (void)mpi_ok(mpi_rank > 0 ||
                     fabs(t.eval_loss[EPOCHS] / one.eval_loss[EPOCHS] - 1) <
                         1e-10,
                 NULL, "and what is evaluated");
    resumed(spec, DIST_DDP, &t, "ddp, stopped and resumed");
}

int main(int argc, char **argv)
{
    mpi_tap_start(&argc, &argv);
    struct error err = ERROR_INIT;
    struct job_spec spec = {.version = 0};
    if (train_spec(&spec)) {
        /* As in ranks.c: batches of 4 and 3, and large enough images. */
        spec.dataset.image_size = 64;
        spec.train.epochs = EPOCHS;
        spec.train.gradient_accumulation_steps = 2;
        spec.model.in_channels = 1;
        spec.train.clip_grad_norm = 1;
        spec.train.optimizer.lr = 0.02;
        spec.dataset.train_samples = 2 * mpi_size * 7 - 1;
        test_same(&spec);
        test_mixed(&spec);
        spec.dataset.train_samples = 2 * 7 - 1;
        test_ddp(&spec);
    }
    (void)mpi_ok(comm_mpi_use(0, &err) == 0, &err, "all again");
    spec_clear(&spec);
    return mpi_tap_done();
}
