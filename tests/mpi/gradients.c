/* gradients.c - N ranks are one: the gradient that the ranks sum, and what
 * they evaluate together, is what one rank computes from all their shares.
 *
 * Batch norm sees one rank's batch at a time, so the single rank goes
 * through the shares one by one. fp64; sums in another order differ by
 * rounding alone: 1e-12 relative to the largest gradient. */
#include <math.h>

#include "tests/mpi/train.h"
#include "worker/cv/image_batches.h"
#include "worker/data/sampler.h"

static double most_apart(const double *a, const double *b, int64_t n)
{
    double apart = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs(a[i] - b[i]);
        apart = d > apart || isnan(d) ? d : apart;
        most = fabs(a[i]) > most ? fabs(a[i]) : most;
    }
    return apart / most;
}

/* The samples that the rank of `ranks` has in its second epoch. */
static int open_share(const struct trainer *t, struct comm *c, int rank,
                      int ranks, struct batch_source **ret, struct error *err)
{
    const struct batch_env env = {.spec = t->spec,
                                  .dev = t->dev,
                                  .dt = t->dt,
                                  .comm = c,
                                  .deadline_s = 60,
                                  .clock = &clock_real,
                                  .first = rank,
                                  .parts = 1,
                                  .streams = ranks,
                                  .shares = 1};
    const struct batch_epoch second = {.seed = 5, .epoch = 2, .batches = 9};
    struct batch_source *s = NULL;
    if (image_batches_open(&env, &s, err) < 0)
        return -1;
    if (s->ops->start(s, err) < 0 || s->ops->begin(s, &second, err) < 0) {
        s->ops->destroy(s);
        return -1;
    }
    *ret = s;
    return 0;
}

/* Batch `batch` of rank `rank`, forward and backward. */
static int one_share(struct trainer *t, int rank, int32_t batch,
                     struct buckets *b, struct error *err)
{
    struct batch_source *s = NULL;
    struct batch x;
    if (open_share(t, t->env->comm, rank, mpi_size, &s, err) < 0)
        return -1;
    if (b != NULL)
        buckets_begin(b);
    int rc = s->ops->take(s, BATCH_TRAIN, batch, &x, err);
    rc = rc < 0
             ? rc
             : model_put(t->model, (uint64_t)rank, 1.0 / (x.n * mpi_size), err);
    rc = rc < 0 ? rc : model_forward(t->model, &x, true, err);
    rc = rc < 0 ? rc
                : model_backward(t->model, &x,
                                 b != NULL ? buckets_on_ready : NULL, b, err);
    s->ops->destroy(s);
    return rc;
}

static void test_gradients(struct trainer *t, int64_t first, int64_t elems,
                           const char *what)
{
    struct error err = ERROR_INIT;
    int64_t n = model_planned(t->model)->params;
    double *grads = model_grads(t->model);
    double *together = calloc((size_t)n, sizeof(double));
    double *alone = calloc((size_t)n, sizeof(double));
    struct buckets b;
    buckets_init(&b, t->comm, &clock_real, grads, n, DT_F64, 60);
    if (first > 0) {
        b.first_elems = first;
        b.elems = elems;
    }
    int rc = one_share(t, mpi_rank, 1, &b, &err);
    rc = rc < 0 ? rc : buckets_finish(&b, &err);
    memcpy(together, grads, (size_t)n * sizeof(double));
    if (first > 0 && mpi_size > 1)
        (void)mpi_ok(b.n_started > COMM_INFLIGHT, &err,
                     "more pieces than can be under way");
    for (int r = 0; r < mpi_size && rc == 0; r++) {
        rc = one_share(t, r, 1, NULL, &err);
        for (int64_t i = 0; i < n; i++)
            alone[i] += grads[i];
    }
    double apart = most_apart(alone, together, n);
    if (mpi_rank == 0)
        tap_diag("%s: %.2g apart", what, apart);
    (void)mpi_ok(rc == 0 && apart <= 1e-12, &err, what);
    /* The same bits on every rank, or the models drift apart. */
    double *zero = alone;
    memcpy(zero, together, (size_t)n * sizeof(double));
    (void)MPI_Bcast(zero, (int)n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    (void)mpi_ok(memcmp(zero, together, (size_t)n * sizeof(double)) == 0, NULL,
                 "the same bits on every rank");
    free(together);
    free(alone);
}

/* The whole evaluation set on one rank. */
static void test_evaluation(struct trainer *t)
{
    struct error err = ERROR_INIT;
    struct agreed a;
    struct evaluation v = {.loss = 0};
    struct batch_source *s = NULL;
    struct comm *alone = NULL;
    double want_loss = 0, n = 0;
    int64_t want_hits = 0;
    int32_t train = 0, eval = 0;
    int rc = trainer_evaluate(t, &v, &a, &err);
    rc = rc < 0 ? rc : comm_alone_create(NULL, &alone, &err);
    rc = rc < 0 ? rc : open_share(t, alone, 0, 1, &s, &err);
    rc = rc < 0 ? rc : s->ops->count(s, &train, &eval, &err);
    for (int32_t i = 0; i < eval && rc == 0; i++) {
        struct batch x;
        struct model_result r = {.hits = 0};
        rc = s->ops->take(s, BATCH_EVAL, i, &x, &err);
        rc = rc < 0 ? rc : model_forward(t->model, &x, false, &err);
        rc = rc < 0 ? rc : model_result(t->model, &x, &r, &err);
        want_loss += r.loss_sum;
        want_hits += r.hits;
        n += x.weight;
    }
    want_loss /= n;
    (void)mpi_ok(rc == 0 && n == t->spec->dataset.eval_samples &&
                     v.accuracy == (double)want_hits / n,
                 &err, "accuracy is exact: no sample is counted twice");
    (void)mpi_ok(fabs(v.loss - want_loss) <= 1e-12 * want_loss, &err,
                 "so is the loss");
    if (s != NULL)
        s->ops->destroy(s);
    if (alone != NULL)
        alone->ops->destroy(alone);
}

/* Each rank has its own statistics after a step, for it saw its own batch;
 * an evaluation is with rank 0's on all of them, as buffers are broadcast in
 * torch's DistributedDataParallel. */
static void test_buffers(struct trainer *t)
{
    struct error err = ERROR_INIT;
    struct agreed a;
    struct evaluation v;
    size_t n = (size_t)model_planned(t->model)->state;
    double *mine = model_state(t->model), *zero = calloc(n, sizeof(*zero));
    double *before = calloc(n, sizeof(*before));
    int rc = one_share(t, mpi_rank, 0, NULL, &err);
    memcpy(zero, mine, n * sizeof(*zero));
    (void)MPI_Bcast(zero, (int)n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    memcpy(before, zero, n * sizeof(*zero));
    (void)mpi_ok(rc == 0 && (mpi_rank == 0 ||
                             memcmp(zero, mine, n * sizeof(*zero)) != 0),
                 &err, "a step leaves each rank its own statistics");
    rc = trainer_evaluate(t, &v, &a, &err);
    (void)mpi_ok(rc == 0 && memcmp(before, mine, n * sizeof(*zero)) == 0, &err,
                 "an evaluation is with rank 0's");
    free(zero);
    free(before);
}

/* Together the ranks see every sample, and only padding twice. */
static void test_cover(const struct trainer *t)
{
    struct error err = ERROR_INIT;
    struct sampler s = {.n = 0};
    const int32_t all = t->spec->dataset.train_samples;
    int *seen = calloc((size_t)all, sizeof(int)), n_seen = 0, twice = 0;
    int rc =
        sampler_init(&s, all, t->first, t->streams, 5, SAMPLER_SHUFFLE, &err);
    for (int32_t i = 0; rc == 0 && i < sampler_batches(&s, 4); i++) {
        int32_t index[4], n = sampler_batch(&s, i, 4, index);
        for (int32_t k = 0; k < n; k++)
            seen[index[k]]++;
    }
    (void)MPI_Allreduce(MPI_IN_PLACE, seen, all, MPI_INT, MPI_SUM,
                        MPI_COMM_WORLD);
    for (int32_t i = 0; i < all; i++) {
        n_seen += seen[i] > 0;
        twice += seen[i] - (seen[i] > 0);
    }
    (void)mpi_ok(n_seen == all && twice == s.per_rank * mpi_size - all, &err,
                 "the ranks share the samples out");
    sampler_clear(&s);
    free(seen);
}

int main(int argc, char **argv)
{
    mpi_tap_start(&argc, &argv);
    struct error err = ERROR_INIT;
    struct comm *c = NULL;
    struct job_spec spec = {.version = 0};
    struct trainer t;
    volatile sig_atomic_t none = 0;
    struct train_rig rig;
    if (mpi_ok(comm_mpi_create(NULL, &c, &err) == 0, &err, "comm") &&
        train_spec(&spec)) {
        int rc = train_rig_open(&rig, c, &spec, &none, &none, &err);
        if (mpi_ok(rc == 0 && trainer_open(&t, &rig.env, &err) == 0, &err,
                   "trainer")) {
            test_cover(&t);
            test_gradients(&t, 0, 0, "gradients, as they are cut");
            test_gradients(&t, 1000, 10000, "gradients, in many pieces");
            test_buffers(&t);
            test_evaluation(&t);
        }
        trainer_close(&t);
        train_rig_close(&rig);
    }
    spec_clear(&spec);
    if (c != NULL)
        c->ops->destroy(c);
    return mpi_tap_done();
}
