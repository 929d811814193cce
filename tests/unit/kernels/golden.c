/* golden.c - the kernels against PyTorch's operators and their gradients.
 *
 * tests/golden/kernels.py says what was computed. fp64 must agree to 1e-11,
 * of the largest value of a tensor: a batch norm divides by the deviation of
 * as few as 27 rows, twice. fp32 rounds 2^29 times coarser. In 16 bits a
 * result may be as far from fp64 as PyTorch's is that rounds the same
 * tensors, and as far again, or within the type's tolerance
 * (kernels/README.md).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "jobs/base/rng.h"
#include "kernels/device.h"
#include "tests/golden/golden.h"
#include "tests/tap.h"

enum { EACH = 7, N = 3, H = 6, W = 5, K = 5, M = 8, ROWS = 9, CLASSES = 11 };

static struct golden golden;
static struct device *dev;
static enum dtype dt;
static struct rng rng;

static void must(int rc, const struct error *err)
{
    if (rc < 0) {
        tap_diag("%s", err->msg);
        exit(1);
    }
}

static void *space(int64_t n, size_t size)
{
    struct error err = ERROR_INIT;
    void *p = NULL;
    must(dev->ops->alloc(dev, (size_t)n * size, &p, &err), &err);
    return p;
}

static void *blank(int64_t n)
{
    return space(n, dtype_bytes(dt));
}

static void *blank_acc(int64_t n)
{
    return space(n, dtype_acc_bytes(dt));
}

/* n values of lo..hi from the stream, as T; host memory. */
static void *drawn(int64_t n, double lo, double hi)
{
    void *p = blank(n);
    for (int64_t i = 0; i < n; i++)
        dtype_set(dt, p, i, lo + (hi - lo) * rng_uniform(&rng));
    return p;
}

static double tolerance(void)
{
    static const double of[DT_N] = {
        [DT_F64] = 1e-11, [DT_F32] = 1e-4, [DT_F16] = 2e-3, [DT_BF16] = 1.6e-2};
    return of[dt];
}

/* n values of type `type`, each EACH-th, against the line of fp64. */
static void check(const char *name, const char *what, enum dtype type,
                  const void *p, int64_t n)
{
    char line[80];
    double got[400], limit = tolerance();
    size_t n_got = 0, n_want, n_torch;
    for (int64_t i = 0; i < n; i += EACH)
        got[n_got++] = dtype_get(type, p, i);
    (void)snprintf(line, sizeof(line), "%s fp64 %s", name, what);
    double *want = golden_get(&golden, line, &n_want);
    if (n_got != n_want)
        exit(1);
    double off = golden_error(got, want, n_got), theirs = 0;
    if (dt == DT_F16 || dt == DT_BF16) {
        (void)snprintf(line, sizeof(line), "%s %s %s", name, dtype_name(dt),
                       what);
        double *torch = golden_get(&golden, line, &n_torch);
        theirs = golden_error(torch, want, n_torch);
        limit = fmax(limit, 2 * theirs);
        free(torch);
    }
    ok(off <= limit, "%s %s %s: off by %.2g, PyTorch by %.2g", name,
       dtype_name(dt), what, off, theirs);
    free(want);
}

/* One norm: what it has, and what it leaves. */
struct side {
    void *gamma, *beta, *mean, *rstd, *running; /* running: [2, M] */
    void *sums, *dgamma, *dbeta;
};

static struct side side_of(void *gamma, void *beta)
{
    struct side s = {.gamma = gamma,
                     .beta = beta,
                     .mean = blank_acc(M),
                     .rstd = blank_acc(M),
                     .running = blank_acc(2 * M),
                     .sums = blank_acc(2 * M),
                     .dgamma = blank(M),
                     .dbeta = blank(M)};
    for (int64_t i = M; i < 2 * M; i++)
        dtype_set(dtype_acc(dt), s.running, i, 1);
    return s;
}

static struct norm norm_of(const struct side *s, double cap)
{
    return (struct norm){.mean = s->mean,
                         .rstd = s->rstd,
                         .gamma = s->gamma,
                         .beta = s->beta,
                         .cap = cap};
}

static struct norm_stats stats_of(const struct side *s)
{
    return (struct norm_stats){.mean = s->mean,
                               .rstd = s->rstd,
                               .run_mean = s->running,
                               .run_var =
                                   (char *)s->running + M * dtype_acc_bytes(dt),
                               .eps = 1e-5,
                               .momentum = 0.1};
}

static struct norm_grad grads_of(const struct side *s)
{
    return (struct norm_grad){
        .sums = s->sums, .dgamma = s->dgamma, .dbeta = s->dbeta};
}

static void side_drop(struct side *s)
{
    void *all[] = {s->gamma,   s->beta, s->mean,   s->rstd,
                   s->running, s->sums, s->dgamma, s->dbeta};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        dev->ops->release(dev, all[i]);
}

struct block {
    struct conv3 s;
    int64_t rows1, rows2;
    void *x, *w1, *w2, *skip, *g; /* g becomes the gradient of the norm */
    struct side one, two;
    void *z1, *z2, *y, *d1, *dx, *dw1, *dw2;
};

static void draw_block(struct block *b, int32_t stride)
{
    int32_t oh = (H - 1) / stride + 1, ow = (W - 1) / stride + 1;
    b->s = (struct conv3){N, H, W, M, oh, ow, stride};
    b->rows1 = N * H * W;
    b->rows2 = (int64_t)N * oh * ow;
    b->x = drawn(b->rows1 * K, -2, 2);
    b->w1 = drawn(M * K, -1, 1);
    void *gamma = drawn(M, 0.5, 2), *beta = drawn(M, -1, 1);
    b->one = side_of(gamma, beta);
    b->w2 = drawn(9 * M, -1, 1);
    gamma = drawn(M, 0.5, 2);
    beta = drawn(M, -1, 1);
    b->two = side_of(gamma, beta);
    b->skip = drawn(b->rows2 * M, -1, 1);
    b->g = drawn(b->rows2 * M, -1, 1);
    b->z1 = blank(b->rows1 * M);
    b->z2 = blank(b->rows2 * M);
    b->y = blank(b->rows2 * M);
    b->d1 = blank(b->rows1 * M);
    b->dx = blank(b->rows1 * K);
    b->dw1 = blank(M * K);
    b->dw2 = blank(9 * M);
}

static void drop_block(struct block *b)
{
    void *all[] = {b->x,  b->w1, b->w2, b->skip, b->g,   b->z1,
                   b->z2, b->y,  b->d1, b->dx,   b->dw1, b->dw2};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        dev->ops->release(dev, all[i]);
    side_drop(&b->one);
    side_drop(&b->two);
}

static void run_block(struct block *b)
{
    const struct device_ops *ops = dev->ops;
    struct error err = ERROR_INIT;
    const struct norm n1 = norm_of(&b->one, 6), n2 = norm_of(&b->two, 0);
    const struct norm_stats s1 = stats_of(&b->one), s2 = stats_of(&b->two);
    const struct norm_grad g1 = grads_of(&b->one), g2 = grads_of(&b->two);
    must(ops->pw_fwd(dev, dt, b->z1, &s1, NULL, b->x, NULL, NULL, b->w1,
                     b->rows1, K, M, &err),
         &err);
    must(ops->dw_fwd(dev, dt, b->z2, &s2, b->z1, &n1, b->w2, &b->s, &err),
         &err);
    must(ops->norm_apply(dev, dt, b->y, b->z2, &n2, b->skip, b->rows2, M, &err),
         &err);
    must(ops->norm_grads(dev, dt, b->g, &g2, b->z2, &n2, b->rows2, M, &err),
         &err);
    must(ops->dw_bwd(dev, dt, b->d1, b->dw2, &g1, b->g, b->z2, &n2, b->two.sums,
                     b->z1, &n1, b->w2, &b->s, &err),
         &err);
    must(ops->pw_bwd(dev, dt, b->dx, b->dw1, NULL, b->d1, b->z1, &n1,
                     b->one.sums, b->x, NULL, NULL, NULL, b->w1, b->rows1, K, M,
                     &err),
         &err);
    must(ops->sync(dev, &err), &err);
}

static void test_block(int32_t stride)
{
    struct block b;
    char name[16];
    double running[4 * M];
    (void)snprintf(name, sizeof(name), "block%d", stride);
    rng_seed(&rng, 10 + (uint32_t)stride);
    draw_block(&b, stride);
    run_block(&b);
    check(name, "y", dt, b.y, b.rows2 * M);
    for (int64_t i = 0; i < 4 * M; i++)
        running[i] =
            dtype_get(dtype_acc(dt), i < 2 * M ? b.one.running : b.two.running,
                      i % (2 * M));
    check(name, "running", DT_F64, running, 4 * M);
    check(name, "dx", dt, b.dx, b.rows1 * K);
    check(name, "dw1", dt, b.dw1, M * K);
    check(name, "dgamma1", dt, b.one.dgamma, M);
    check(name, "dbeta1", dt, b.one.dbeta, M);
    check(name, "dw2", dt, b.dw2, 9 * M);
    check(name, "dgamma2", dt, b.two.dgamma, M);
    check(name, "dbeta2", dt, b.two.dbeta, M);
    drop_block(&b);
}

static void test_loss(int32_t i, double smooth)
{
    struct error err = ERROR_INIT;
    const double half = 0.5;
    char name[16];
    (void)snprintf(name, sizeof(name), "loss%d", i);
    rng_seed(&rng, 20 + (uint32_t)i);
    void *z = drawn(ROWS * CLASSES, -4, 4), *loss = blank_acc(ROWS);
    int32_t *label = space(ROWS, sizeof(*label));
    int32_t *hit = space(ROWS, sizeof(*hit));
    for (int32_t r = 0; r < ROWS; r++)
        label[r] = r % 4 == 3 ? -1 : r * 7 % CLASSES;
    must(dev->ops->xent(dev, dt, loss, hit, z, label, ROWS, CLASSES, &half,
                        smooth, true, &err),
         &err);
    must(dev->ops->sync(dev, &err), &err);
    check(name, "loss", dtype_acc(dt), loss, ROWS);
    check(name, "dz", dt, z, ROWS * CLASSES);
    dev->ops->release(dev, z);
    dev->ops->release(dev, loss);
    dev->ops->release(dev, label);
    dev->ops->release(dev, hit);
}

int main(void)
{
    struct error err = ERROR_INIT;
    golden_open(&golden, "tests/golden/kernels.txt");
    must(device_host_create(2, &dev, &err), &err);
    for (int i = 0; i < DT_N; i++) {
        dt = (enum dtype)i;
        test_block(1);
        test_block(2);
        test_loss(0, 0);
        test_loss(1, 0.1);
    }
    dev->ops->destroy(dev);
    golden_close(&golden);
    return tap_done();
}
