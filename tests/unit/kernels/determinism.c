/* determinism.c - the same calls give the same bits, and a shape that was
 * seen once allocates nothing more. */
#include <stdlib.h>
#include <string.h>

#include "kernels/exec/exec_device.h"
#include "tests/device.h"
#include "tests/tap.h"
#include "tests/unit/kernels/contract/llm_attention_case.h"

enum { N = 6, S = 12, C = 40, ROWS = N * S * S, VALUES = ROWS * C };

/* What a run leaves behind, one tensor after the other. */
struct trace {
    double *v;
    size_t n;
};

static void keep(struct trace *t, struct tensor *x)
{
    size_t n = (size_t)x->n;

    tensor_pull(x);
    t->v = realloc(t->v, (t->n + n) * sizeof(*t->v));
    if (!t->v)
        abort();
    memcpy(t->v + t->n, x->v, n * sizeof(*t->v));
    t->n += n;
    tensor_drop(x);
}

/* Every op that sums over rows, on the same inputs each time. */
static void sums(struct bed *b, struct trace *t)
{
    const struct device_ops *ops = b->d->ops;
    struct conv3 s = {N, S, S, C, S, S, 1};
    struct tensor x = tensor_make(b, VALUES, -2, 2);
    struct tensor dy = tensor_make(b, VALUES, -2, 2);
    struct tensor y = tensor_make(b, VALUES, 0, 0),
                  w = tensor_make(b, 9 * C, 0, 1);
    struct tensor filter = tensor_make(b, (int64_t)C * C, -1, 1);
    struct tensor c[8];

    for (int i = 0; i < 8; i++)
        c[i] = i < 4 ? tensor_acc(b, C, 0.5, 1) : tensor_make(b, C, 0.5, 1);
    struct tensor z = tensor_make(b, VALUES, 0, 0);
    struct tensor two = tensor_acc(b, (int64_t)2 * C, 0, 0);
    const struct norm_stats stats = {c[0].p, c[1].p, c[2].p, c[3].p, 1e-5, 0.1};
    const struct norm n = {c[0].p, c[1].p, c[4].p, c[5].p, 6};
    const struct norm_grad out = {two.p, c[6].p, c[7].p};
    must(ops->dw_fwd(b->d, b->dt, z.p, &stats, x.p, NULL, w.p, &s, ERR));
    must(ops->pw_fwd(b->d, b->dt, y.p, &stats, NULL, z.p, &n, x.p, filter.p,
                     ROWS, C, C, ERR));
    must(ops->norm_grads(b->d, b->dt, dy.p, &out, z.p, &n, ROWS, C, ERR));
    must(ops->pw_bwd(b->d, b->dt, y.p, filter.p, &out, dy.p, y.p, &n, two.p,
                     NULL, z.p, &n, x.p, filter.p, ROWS, C, C, ERR));
    must(ops->dw_bwd(b->d, b->dt, dy.p, w.p, &out, y.p, z.p, &n, two.p, x.p, &n,
                     w.p, &s, ERR));
    must(ops->bias_bwd(b->d, b->dt, c[5].p, dy.p, ROWS, C, ERR));
    must(ops->gemm(b->d, b->dt, true, false, C, C, ROWS, 1, y.p, C, dy.p, C, 0,
                   x.p, C, ERR));
    keep(t, &x);
    keep(t, &dy);
    keep(t, &y);
    keep(t, &w);
    keep(t, &z);
    keep(t, &two);
    keep(t, &filter);
    for (int i = 0; i < 8; i++)
        keep(t, &c[i]);
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
    must(ops->add_rows(b->d, b->dt, sum.p, dy.p, at, sorted, ROWS, C, KINDS,
                       ERR));
    b->d->ops->release(b->d, at);
    b->d->ops->release(b->d, sorted);
    tensor_drop(&h);
    tensor_drop(&rstd);
    tensor_drop(&w);
    keep(t, &dy);
    keep(t, &dw);
    keep(t, &sum);
}

/* Attention, whose sums do not depend on how its tiles are divided. */
static void attention(struct bed *b, struct trace *t)
{
    static const struct layout l = {{100, 1, 150, 30, -3}, 4, 2, 8, false};
    struct attend_case c = attend_make(b, &l);

    attend_forward(&c);
    attend_backward(&c);
    keep(t, &c.o);
    keep(t, &c.lse);
    keep(t, &c.dq);
    keep(t, &c.dk);
    keep(t, &c.dv);
    b->d->ops->release(b->d, c.pos_at);
    free(c.pos);
    tensor_drop(&c.x);
    tensor_drop(&c.dout);
}

static struct trace run(struct device *d, enum dtype dt)
{
    struct bed b = {.d = d, .name = "host", .dt = dt, .seed = 7};
    struct trace t = {0};

    sums(&b, &t);
    llm_sums(&b, &t);
    attention(&b, &t);
    return t;
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

    for (int32_t threads = 1; threads <= 7; threads += 3) {
        struct device *d = NULL;
        if (!ok(device_host_create(threads, &d, &err) == 0, "%s", err.msg))
            return;
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
        for (int dt = 0; dt < DT_N; dt++)
            test_attention((enum dtype)dt);
    }
    return tap_done();
}
