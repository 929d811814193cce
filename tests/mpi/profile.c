/* profile.c - a run that is profiled is the run that is not, to the last bit;
 * and what each rank and epoch consisted of is in its spool. */
#include <math.h>
#include <stdatomic.h>

#include "tests/mpi/trace.h"

enum { EPOCHS = 2, METRICS = 16 };

struct found {
    struct metric_profile at[EPOCHS + 1][METRICS]; /* by epoch */
    int n[EPOCHS + 1];
    double start[ROWS], end[ROWS]; /* of this rank's iterations, by number */
    int iterations;
};

static void keep(struct found *f, const struct metric_row *row)
{
    const struct metric_profile *p = &row->profile;
    const struct metric_iteration *m = &row->iteration;
    if (row->kind == METRIC_PROFILE && p->rank == mpi_rank && p->epoch >= 1 &&
        p->epoch <= EPOCHS && f->n[p->epoch] < METRICS)
        f->at[p->epoch][f->n[p->epoch]++] = *p;
    if (row->kind == METRIC_ITERATION && m->iteration < ROWS) {
        f->start[m->iteration] = m->started_at;
        f->end[m->iteration] = m->started_at + m->t_iter;
        f->iterations = (int)m->iteration;
    }
}

static void read_profile(const char *dir, struct found *ret)
{
    char path[128];
    struct buf b = BUF_INIT;
    struct metric_row rows[8];
    size_t n = 0;
    memset(ret, 0, sizeof(*ret));
    (void)snprintf(path, sizeof(path), "%s/spool.%d", dir, mpi_rank);
    if (buf_read_file(&b, path, 1 << 20, NULL) < 0)
        return;
    for (const char *at = buf_str(&b), *end; (end = strchr(at, '\n')) != NULL;
         at = end + 1) {
        if (metric_line_decode(at, (size_t)(end - at), -1, rows, 8, &n, NULL) ==
                0 &&
            n > 0)
            keep(ret, &rows[0]);
    }
    buf_clear(&b);
}

static const struct metric_profile *find(const struct found *f, int epoch,
                                         const char *metric)
{
    static const struct metric_profile none = {.calls = -1, .bytes = -1};
    for (int i = 0; i < f->n[epoch]; i++)
        if (strcmp(f->at[epoch][i].metric, metric) == 0)
            return &f->at[epoch][i];
    return &none;
}

static bool has_calls(const struct found *f, int epoch, const char *metric,
                      bool moves)
{
    const struct metric_profile *p = find(f, epoch, metric);
    bool is = p->calls > 0 && p->total_s > 0 && p->sampled > 0 &&
              p->sampled <= 1 && (p->bytes > 0) == moves;
    if (!is)
        tap_diag("epoch %d, '%s': %lld calls, %g s, %lld bytes, sampled %g",
                 epoch, metric, (long long)p->calls, p->total_s,
                 (long long)p->bytes, p->sampled);
    return is;
}

static void test_rows(const struct found *f, const char *mode)
{
    for (int e = 1; e <= EPOCHS; e++) {
        (void)mpi_ok(has_calls(f, e, "host kernel launch", false) &&
                         has_calls(f, e, "host GEMM", false) &&
                         has_calls(f, e, "host memcpy Host-to-Device", true),
                     NULL, "launches, products, copies");
        (void)mpi_ok(has_calls(f, e, "MPI all_reduce", true), NULL,
                     "collectives");
        const struct metric_profile *p = find(f, e, "profiler");
        (void)mpi_ok(p->calls > 0 && p->total_s >= 0 && isnan(p->sampled), NULL,
                     "what looking cost");
        p = find(f, e, "memory planned");
        const struct metric_profile *peak =
            find(f, e, "memory of the host, peak");
        (void)mpi_ok(p->bytes > 100000 && peak->bytes > p->bytes / 2 &&
                         p->calls < 0,
                     NULL, "memory");
    }
    /* The last batch of an epoch is smaller, and has as many launches. */
    double a = (double)find(f, 1, "host kernel launch")->calls;
    double b = (double)find(f, 2, "host kernel launch")->calls;
    (void)mpi_ok(fabs(a / b - 1) < 0.2, NULL, mode);
}

static bool profiled(struct comm *c, struct job_spec spec,
                     enum spec_profile mode, int at, struct trace *t,
                     struct found *f)
{
    struct train_result r;
    char dir[64];
    spec.train.profile = mode;
    train_dir(dir);
    memset(t, 0, sizeof(*t));
    int rc = run(c, &spec, dir, at, &r, t);
    read_profile(dir, f);
    train_remove(dir);
    return mpi_ok(rc == 0, NULL, "a run");
}

static void test_all(struct comm *c, struct job_spec spec)
{
    struct trace plain, t;
    struct found f;
    if (!profiled(c, spec, PROFILE_OFF, 0, &plain, &f))
        return;
    (void)mpi_ok(f.n[1] == 0 && f.n[2] == 0, NULL, "no profile, no rows");
    if (profiled(c, spec, PROFILE_EPOCH, 0, &t, &f)) {
        (void)mpi_ok(same_trace(&plain, &t), NULL, "looking changes nothing");
        test_rows(&f, "epochs are alike");
    }
    if (profiled(c, spec, PROFILE_SAMPLED, 0, &t, &f)) {
        (void)mpi_ok(same_trace(&plain, &t), NULL, "nor does a sample");
        test_rows(&f, "samples are alike");
        double of = find(&f, 1, "host GEMM")->sampled;
        (void)mpi_ok(of < 0.9, NULL, "a sample is not all");
    }
    if (profiled(c, spec, PROFILE_EPOCH, 2, &t, &f))
        (void)mpi_ok(has_calls(&f, 1, "host GEMM", false) && f.n[2] == 0, NULL,
                     "a run that is stopped has the rows of what it did");
}

/* A clock that moves when somebody looks at it: seven times as fast on other
 * ranks than on rank 0. */
static atomic_int looks;

static double ticking_now(const struct clock *c)
{
    (void)c;
    const int ticks = atomic_fetch_add(&looks, 1) + 1;
    return mpi_rank == 0 ? ticks : 7.0 * ticks;
}

static double ticking_wall(const struct clock *c)
{
    (void)c;
    return mpi_rank == 0 ? looks : 7.0 * looks;
}

static const struct clock ticking = {.now_s = ticking_now,
                                     .wall_s = ticking_wall};

/* Iterations of the part that was profiled. */
static int part_of(const struct found *f)
{
    int n = 0;
    for (int e = 1; e <= EPOCHS; e++) {
        const struct metric_profile *p = find(f, e, "profiled part");
        n += p->calls > 0 ? (int)p->calls : 0;
    }
    return n;
}

/* The first part of a run ends in the second epoch: the evaluation between is
 * part of it, and rank 0's clock decides. */
static void test_first(struct comm *c, struct job_spec spec)
{
    struct trace t;
    struct found f;
    trace_clock = &ticking;
    if (!profiled(c, spec, PROFILE_EPOCH, 0, &t, &f))
        return;
    const int epoch = f.iterations / EPOCHS;
    (void)mpi_ok(f.iterations == 24 && part_of(&f) == 0, NULL,
                 "all of a run, without an end");
    double s = f.end[epoch + 6] - f.start[1];
    (void)MPI_Bcast(&s, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    spec.train.profile_first_s = s;
    if (!profiled(c, spec, PROFILE_EPOCH, 0, &t, &f))
        return;
    const int n = part_of(&f);
    int least = n, most = n;
    (void)MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_INT, MPI_MIN,
                        MPI_COMM_WORLD);
    (void)MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_INT, MPI_MAX,
                        MPI_COMM_WORLD);
    (void)mpi_ok(n > epoch && n < f.iterations && least == most, NULL,
                 "every rank counts as many iterations");
    (void)mpi_ok(mpi_rank > 0 || (f.end[n] - f.start[1] >= s &&
                                  f.start[n - 1] - f.start[1] < s),
                 NULL, "those of its time, and the one in which it ends");
    trace_clock = &counting;
}

int main(int argc, char **argv)
{
    mpi_tap_start(&argc, &argv);
    struct error err = ERROR_INIT;
    struct comm *c = NULL;
    struct job_spec spec = {.version = 0};
    if (mpi_ok(comm_mpi_create(NULL, &c, &err) == 0, &err, "comm") &&
        train_spec(&spec)) {
        spec.dataset.train_samples = 48 * mpi_size; /* 12 iterations */
        test_all(c, spec);
        test_first(c, spec);
    }
    spec_clear(&spec);
    if (c != NULL)
        c->ops->destroy(c);
    return mpi_tap_done();
}
