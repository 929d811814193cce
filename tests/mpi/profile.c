/* profile.c - a run that is profiled is the run that is not, to the last bit;
 * and what each rank and epoch consisted of is in its spool. */
#include <math.h>

#include "tests/mpi/trace.h"

enum { EPOCHS = 2, METRICS = 16 };

struct found {
    struct metric_profile at[EPOCHS + 1][METRICS]; /* by epoch */
    int n[EPOCHS + 1];
};

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
        if (metric_line_decode(at, (size_t)(end - at), -1, rows, 8, &n, NULL) <
                0 ||
            n == 0 || rows[0].kind != METRIC_PROFILE)
            continue;
        const struct metric_profile *p = &rows[0].profile;
        if (p->rank == mpi_rank && p->epoch >= 1 && p->epoch <= EPOCHS &&
            ret->n[p->epoch] < METRICS)
            ret->at[p->epoch][ret->n[p->epoch]++] = *p;
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
    }
    spec_clear(&spec);
    if (c != NULL)
        c->ops->destroy(c);
    return mpi_tap_done();
}
