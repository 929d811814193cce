/* determinism.c - the same calls give the same bits on any number of threads,
 * and a shape that was seen once allocates nothing more.
 *
 * MGPU_TEST_ALL=1: 3 and 8 threads, too. */
#include <stdlib.h>
#include <string.h>

#include "kernels/exec/exec_device.h"
#include "tests/device.h"
#include "tests/slow.h"
#include "tests/tap.h"
#include "tests/unit/kernels/contract/llm_attention_case.h"

enum { N = 6, S = 12, C = 56, ROWS = N * S * S, VALUES = ROWS * C };

enum { TENSORS = 160 };

/* What a run leaves behind, one tensor after the other. */
struct trace {
    double *v;
    size_t n, ends[TENSORS]; /* of the tensors */
    const char *what[TENSORS];
    int tensors;
};

static void look(struct trace *t, struct tensor *x, const char *what)
{
    size_t n = (size_t)x->n;

    tensor_pull(x);
    t->v = realloc(t->v, (t->n + n) * sizeof(*t->v));
    if (!t->v || t->tensors == TENSORS)
        abort();
    memcpy(t->v + t->n, x->v, n * sizeof(*t->v));
    t->n += n;
    t->what[t->tensors] = what;
    t->ends[t->tensors++] = t->n;
}

static void keep(struct trace *t, struct tensor *x, const char *what)
{
    look(t, x, what);
    tensor_drop(x);
}

/* Every op that sums over rows, on the same inputs each time. Of few pixels a
 * 1x1 convolution has one part. */
static void sums(struct bed *b, struct trace *t, int32_t images)
{
    const int64_t rows = (int64_t)images * S * S, values = rows * C;
    const struct device_ops *ops = b->d->ops;
    struct conv3 s = {images, S, S, C, S, S, 1};
    struct tensor x = tensor_make(b, values, -2, 2);
    struct tensor dy = tensor_make(b, values, -2, 2);
    struct tensor y = tensor_make(b, values, 0, 0),
                  w = tensor_make(b, 9 * C, 0, 1);
    struct tensor filter = tensor_make(b, (int64_t)C * C, -1, 1);
    struct tensor c[8];

    for (int i = 0; i < 8; i++)
        c[i] = i < 4 ? tensor_acc(b, C, 0.5, 1) : tensor_make(b, C, 0.5, 1);
    struct tensor z = tensor_make(b, values, 0, 0);
    struct tensor two = tensor_acc(b, (int64_t)2 * C, 0, 0);
    struct bed exact = *b;
    exact.dt = DT_F64;
    struct tensor square = tensor_make(&exact, 1, 0, 0);
    const struct norm_stats stats = {c[0].p, c[1].p, c[2].p, c[3].p, 1e-5, 0.1};
    const struct norm n = {c[0].p, c[1].p, c[4].p, c[5].p, 6};
    const struct norm_grad out = {two.p, c[6].p, c[7].p};
    must(ops->dw_fwd(b->d, b->dt, z.p, &stats, x.p, NULL, w.p, &s, ERR));
    look(t, &z, "depthwise");
    for (int i = 0; i < 4; i++)
        look(t, &c[i], "depthwise's statistics");
    must(ops->pw_fwd(b->d, b->dt, y.p, &stats, NULL, z.p, &n, x.p, filter.p,
                     rows, C, C, ERR));
    look(t, &y, "pointwise");
    for (int i = 0; i < 4; i++)
        look(t, &c[i], "pointwise's statistics");
    must(ops->norm_grads(b->d, b->dt, dy.p, &out, z.p, &n, rows, C, ERR));
    look(t, &two, "batch norm's gradient");
    must(ops->pw_bwd(b->d, b->dt, y.p, filter.p, &out, dy.p, y.p, &n, two.p,
                     NULL, z.p, &n, x.p, filter.p, rows, C, C, ERR));
    look(t, &filter, "pointwise's weights");
    look(t, &two, "pointwise's gate");
    must(ops->dw_bwd(b->d, b->dt, dy.p, w.p, &out, y.p, z.p, &n, two.p, x.p, &n,
                     w.p, &s, ERR));
    must(ops->bias_bwd(b->d, b->dt, c[5].p, dy.p, rows, C, ERR));
    must(ops->gemm(b->d, b->dt, true, false, C, C, (int32_t)rows, 1, y.p, C,
                   dy.p, C, 0, x.p, C, ERR));
    must(ops->sum_squares(b->d, b->dt, square.p, dy.p, values, ERR));
    keep(t, &square, "sum of squares");
    keep(t, &w, "depthwise's filter");
    keep(t, &two, "depthwise's gate");
    keep(t, &dy, "depthwise's gradient");
    keep(t, &y, "pointwise's gradient");
    keep(t, &x, "product");
    keep(t, &z, "depthwise");
    keep(t, &filter, "pointwise's weights");
    for (int i = 0; i < 8; i++)
        keep(t, &c[i], "bias");
}

/* The same for the ops of a transformer. */
static void llm_sums(struct bed *b, struct trace *t)
{
    enum { KINDS = 50 };
    const struct llm_ops *ops = &b->d->ops->llm;
    int32_t index[ROWS], order[ROWS], n = 0;
    struct tensor h = tensor_make(b, VALUES, -2, 2);
    struct tensor dy = tensor_make(b, VALUES, -2, 2);
    struct tensor rstd = tensor_acc(b, ROWS, 0.5, 1);
    struct tensor w = tensor_make(b, C, 0, 1), dw = tensor_make(b, C, 0, 0);
    struct tensor sum = tensor_make(b, (int64_t)KINDS * C, -1, 1);

    for (int32_t k = 0; k < KINDS; k++)
        for (int32_t i = k; i < ROWS; i += KINDS) {
            index[i] = k;
            order[n++] = i;
        }
    int32_t *at = bed_indices(b, index, ROWS);
    int32_t *sorted = bed_indices(b, order, ROWS);
    must(ops->rmsnorm_bwd(b->d, b->dt, dy.p, dw.p, NULL, dy.p, h.p, rstd.p, w.p,
                          NULL, ROWS, C, ERR));
    must(ops->add_rows(b->d, b->dt, sum.p, dy.p, at, sorted, ROWS, C,
                       &(struct row_part){0, KINDS, KINDS}, ERR));
    b->d->ops->release(b->d, at);
    b->d->ops->release(b->d, sorted);
    tensor_drop(&h);
    tensor_drop(&rstd);
    tensor_drop(&w);
    keep(t, &dy, "RMSNorm's gradient");
    keep(t, &dw, "RMSNorm's weights");
    keep(t, &sum, "sum of rows");
}

static void attention_of(struct bed *b, struct trace *t, const struct layout *l)
{
    struct attend_case c = attend_make(b, l);

    attend_forward(&c);
    attend_backward(&c);
    keep(t, &c.o, "attention");
    keep(t, &c.lse, "attention's sums");
    keep(t, &c.dq, "attention's dq");
    keep(t, &c.dk, "attention's dk");
    keep(t, &c.dv, "attention's dv");
    b->d->ops->release(b->d, c.pos_at);
    free(c.pos);
    tensor_drop(&c.x);
    tensor_drop(&c.dout);
}

/* Attention, whose sums do not depend on how its tiles are divided. The second
 * group is wider than what the host works on at once, and so are its heads. */
static void attention(struct bed *b, struct trace *t)
{
    static const struct layout few = {{100, 1, 150, 30, -3}, 4, 2, 8, false},
                               group = {{70, 20}, 5, 1, 200, false};

    attention_of(b, t, &few);
    attention_of(b, t, &group);
}

/* Products that a team shares, and small ones; with both libraries' shapes. */
static void products(struct bed *b, struct trace *t)
{
    static const struct {
        bool ta, tb;
        int32_t m, n, k;
        const char *what;
    } shapes[] = {
        {false, true, 1024, 64, 64, "tokens by narrow weights"},
        {false, true, 1024, 8, 512, "tokens by an adapter's A"},
        {false, true, 1024, 512, 8, "tokens by an adapter's B"},
        {true, false, 8, 512, 1024, "an adapter's gradient"},
        {true, false, 512, 8, 1024, "an adapter's other gradient"},
        {false, true, 2100, 16, 300, "many tokens by an adapter's A"},
        {false, true, 2100, 300, 16, "many tokens by an adapter's B"},
        {true, false, 16, 300, 2100, "an adapter's gradient of many"},
        {true, false, 300, 16, 2100, "an adapter's other gradient of many"},
        {false, true, 700, 320, 172, "tokens by weights"},
        {false, false, 700, 172, 320, "a gradient of tokens"},
        {true, false, 344, 192, 700, "a gradient of weights"},
        {false, true, 48, 1536, 96, "few tokens by wide weights"},
        {true, false, 1536, 96, 48, "a gradient over few tokens"},
        {false, true, 64, 1000, 1280, "a classifier"},
        {true, false, 1000, 1280, 64, "a classifier's gradient"},
        {true, true, 131, 257, 67, "both transposed"},
        {false, false, 1, 1000, 512, "one row"},
        {false, true, 1000, 1, 700, "one column"},
        {false, false, 256, 128, 512, "rows of few products each"},
        {false, true, 4033, 40, 24, "more rows than a call takes"},
        {false, false, 8100, 24, 48, "more rows than two calls take"},
        {false, true, 64, 4096, 40, "pieces of columns"},
        {false, true, 1030, 300, 270, "tokens by wide weights"},
        {false, false, 1030, 270, 300, "a gradient of tokens, wide"},
    };
    /* All are tried once more, added up; a factor is for few sums. */
    enum { FACTORED = 256 };
    const size_t n_shapes = sizeof(shapes) / sizeof(shapes[0]);
    for (size_t at = 0; at < 2 * n_shapes; at++) {
        const size_t i = at % n_shapes;
        const int32_t m = shapes[i].m, n = shapes[i].n, k = shapes[i].k;
        const bool ta = shapes[i].ta, tb = shapes[i].tb, adds = at >= n_shapes;
        struct tensor A = tensor_make(b, (int64_t)m * k, -1, 1);
        struct tensor B = tensor_make(b, (int64_t)k * n, -1, 1);
        struct tensor c = tensor_make(b, (int64_t)m * n, -1, 1);
        const double alpha = adds && k < FACTORED ? 0.5 : 1;
        must(b->d->ops->gemm(b->d, b->dt, ta, tb, m, n, k, alpha, A.p,
                             ta ? m : k, B.p, tb ? k : n, adds, c.p, n, ERR));
        tensor_drop(&A);
        tensor_drop(&B);
        keep(t, &c, shapes[i].what);
    }
}

static struct trace run(struct device *d, enum dtype dt)
{
    struct bed b = {.d = d, .name = "host", .dt = dt, .seed = 7};
    struct trace t = {0};

    sums(&b, &t, N);
    sums(&b, &t, 2);
    llm_sums(&b, &t);
    attention(&b, &t);
    products(&b, &t);
    return t;
}

/* One TAP line; what differs is named. */
static void is_same(const struct trace *a, const struct trace *b,
                    const char *dt, int32_t threads)
{
    int differ = a->tensors != b->tensors;

    for (int i = 0; i < a->tensors && a->tensors == b->tensors; i++) {
        const size_t from = i == 0 ? 0 : a->ends[i - 1];
        if (a->ends[i] == b->ends[i] &&
            memcmp(a->v + from, b->v + from,
                   (a->ends[i] - from) * sizeof(*a->v)) == 0)
            continue;
        tap_diag("%s, %d threads: %s differs", dt, threads, a->what[i]);
        differ++;
    }
    ok(!differ, "%s, %d threads: the bits of one", dt, threads);
}

/* 1, 2 and 4 threads; 3 and 8 at night. */
static void test_threads(enum dtype dt)
{
    static const int32_t counts[] = {1, 2, 4, 3, 8};
    const int n = getenv("MGPU_TEST_ALL") && !is_slow ? 5 : 3;
    struct error err = ERROR_INIT;
    struct trace first = {0};

    for (int i = 0; i < n; i++) {
        struct device *d = NULL;
        if (!ok(device_host_create(counts[i], &d, &err) == 0, "%s", err.msg))
            return;
        struct trace t = run(d, dt);
        d->ops->destroy(d);
        if (i == 0) {
            first = t;
            continue;
        }
        is_same(&first, &t, dtype_name(dt), counts[i]);
        free(t.v);
    }
    free(first.v);
}

static void test_same_bits(int32_t threads, enum dtype dt)
{
    struct device *d = NULL, *e = NULL;
    struct error err = ERROR_INIT;

    if (!ok(test_device(threads, &d, &err) == 0 &&
                test_device(threads, &e, &err) == 0,
            "two devices %s", err.msg))
        return;
    struct trace first = run(d, dt);
    const struct exec_device *exec = (const struct exec_device *)d;
    const void *scratch = exec->scratch;
    size_t bytes = exec->scratch_bytes;
    struct trace again = run(d, dt), other = run(e, dt);
    size_t size = first.n * sizeof(*first.v);

    ok(first.n == again.n && memcmp(first.v, again.v, size) == 0,
       "%s, %d threads: two runs, same bits", dtype_name(dt), threads);
    ok(first.n == other.n && memcmp(first.v, other.v, size) == 0,
       "another device with as many threads: same bits");
    ok(scratch && exec->scratch == scratch && exec->scratch_bytes == bytes,
       "shapes seen before allocate nothing");
    free(first.v);
    free(again.v);
    free(other.v);
    d->ops->destroy(d);
    e->ops->destroy(e);
}

/* The random stream of dropout does not know how it was split. */
static void test_dropout(void)
{
    static float x[100003], a[100003], c[100003];
    const uint64_t seed = 42;
    struct device *d = NULL;
    struct error err = ERROR_INIT;

    for (size_t i = 0; i < 100003; i++)
        x[i] = (float)i;
    for (int32_t threads = 1; threads <= 7; threads += 3) {
        if (!ok(device_host_create(threads, &d, &err) == 0, "%s", err.msg))
            return;
        struct bed b = {.d = d, .name = "host", .dt = DT_F32};
        must(d->ops->dropout(b.d, b.dt, threads == 1 ? a : c, x, 100003, 0.3,
                             &seed, 6, ERR));
        ok(threads == 1 || memcmp(a, c, sizeof(a)) == 0,
           "dropout on %d threads: the same mask", threads);
        d->ops->destroy(d);
    }
}

static void test_attention(enum dtype dt)
{
    struct trace first = {0};
    struct error err = ERROR_INIT;

    for (int32_t threads = 1; threads <= 4; threads++) {
        struct device *d = NULL;
        if (!ok(device_host_create(threads, &d, &err) == 0, "%s", err.msg))
            return;
        ((struct exec_device *)d)->block_work = 1; /* as many as there are */
        struct bed b = {.d = d, .name = "host", .dt = dt, .seed = 7};
        struct trace t = {0};
        attention(&b, &t);
        d->ops->destroy(d);
        if (threads == 1) {
            first = t;
            continue;
        }
        ok(t.n == first.n && memcmp(t.v, first.v, t.n * sizeof(*t.v)) == 0,
           "%s, attention on %d threads: the bits of one", dtype_name(dt),
           threads);
        free(t.v);
    }
    free(first.v);
}

int main(void)
{
    for (int32_t threads = 1; threads <= (test_on_gpu() ? 1 : 3); threads++)
        for (int dt = 0; dt < DT_N; dt++)
            test_same_bits(threads, (enum dtype)dt);
    if (!test_on_gpu()) {
        test_dropout();
        for (int dt = 0; dt < DT_N; dt++) {
            test_attention((enum dtype)dt);
            test_threads((enum dtype)dt);
        }
    }
    return tap_done();
}
