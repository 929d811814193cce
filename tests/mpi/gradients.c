/* gradients.c - N ranks are one: the gradient that the ranks sum, and what
 * they evaluate together, is what one rank computes from all their shares.
 *
 * Batch norm sees one rank's batch at a time, so the single rank goes
 * through the shares one by one. fp64; sums in another order differ by
 * rounding alone: 1e-12 relative to the largest gradient. */
#include <math.h>

#include "tests/mpi/train.h"
#include "tests/pass.h"

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

/* Batch `batch` of rank `rank`, forward and backward. */
static int one_share(struct trainer *t, int rank, int32_t batch,
                     struct buckets *b, struct error *err)
{
    struct sampler s = {.n = 0};
    struct loader_batch x;
    int32_t size = t->spec->train.batch_size;
    if (sampler_init(&s, t->train.n, rank, mpi_size, 5, SAMPLER_SHUFFLE, err) <
        0)
        return -1;
    sampler_epoch(&s, 1);
    int32_t n = sampler_batch(&s, batch, size, t->index);
    sampler_clear(&s);
    if (b != NULL)
        buckets_begin(b);
    if (loader_next(t->train_loader, t->index, n, &x, err) < 0 ||
        pass_forward(t->model, x.x, x.label, n, true, (uint64_t)rank, err) < 0)
        return -1;
    const struct batch ran = {.n = n};
    if (model_put(t->model, (uint64_t)rank, 1.0 / (n * mpi_size), err) < 0)
        return -1;
    return model_backward(t->model, &ran, b != NULL ? buckets_on_ready : NULL,
                          b, err);
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

/* The whole evaluation set on one rank, sample by sample. */
static void test_evaluation(struct trainer *t)
{
    struct error err = ERROR_INIT;
    struct agreed a;
    struct evaluation v = {.loss = 0};
    double want_loss = 0;
    int64_t want_hits = 0;
    int rc = trainer_evaluate(t, &v, &a, &err);
    for (int32_t i = 0; i < t->eval.n && rc == 0; i++) {
        struct loader_batch x;
        double sum = 0;
        int64_t hits = 0;
        rc = loader_next(t->eval_loader, &i, 1, &x, &err);
        rc = rc < 0 ? rc
                    : pass_forward(t->model, x.x, x.label, 1, false, 0, &err);
        rc = rc < 0 ? rc : pass_result(t->model, 1, &sum, &hits, &err);
        want_loss += sum;
        want_hits += hits;
    }
    want_loss /= t->eval.n;
    double want = (double)want_hits / t->eval.n;
    (void)mpi_ok(rc == 0 && v.accuracy == want, &err,
                 "accuracy is exact: no sample is counted twice");
    (void)mpi_ok(fabs(v.loss - want_loss) <= 1e-12 * want_loss, &err,
                 "so is the loss");
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
    const struct sampler *s = &t->train_sampler;
    int *seen = calloc((size_t)t->train.n, sizeof(int)), n_seen = 0, twice = 0;
    for (int32_t i = 0; i < sampler_batches(s, 4); i++) {
        int32_t index[4], n = sampler_batch(s, i, 4, index);
        for (int32_t k = 0; k < n; k++)
            seen[index[k]]++;
    }
    (void)MPI_Allreduce(MPI_IN_PLACE, seen, t->train.n, MPI_INT, MPI_SUM,
                        MPI_COMM_WORLD);
    for (int32_t i = 0; i < t->train.n; i++) {
        n_seen += seen[i] > 0;
        twice += seen[i] - (seen[i] > 0);
    }
    (void)mpi_ok(n_seen == t->train.n &&
                     twice == s->per_rank * mpi_size - t->train.n,
                 NULL, "the ranks share the samples out");
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
