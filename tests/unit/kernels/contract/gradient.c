/* gradient.c - the backward passes of networks for images against central
 * differences, in fp64.
 *
 * The loss is the sum of r * y with random r, so dy = r.
 */
#include <stdlib.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

enum { MAX_IN = 4 };

struct probe {
    struct bed *b;
    void (*forward)(struct probe *p);
    struct conv3 s;
    int64_t rows;
    int32_t C;
    double cap, smooth;
    struct tensor in[MAX_IN], grad[MAX_IN]; /* in[i] has gradient grad[i] */
    struct tensor y, z, r, aux[4];
    const int32_t *label;
};

static void run(void *arg)
{
    struct probe *p = arg;

    p->forward(p);
}

static void check_input(struct probe *p, int k, const char *what)
{
    const struct call c = {p->b, run, p};

    differences(&c, &p->in[k], &p->grad[k], &p->y, p->r.v, what);
}

static void probe_drop(struct probe *p)
{
    for (int i = 0; i < MAX_IN; i++) {
        if (p->in[i].v)
            tensor_drop(&p->in[i]);
        if (p->grad[i].v)
            tensor_drop(&p->grad[i]);
        if (p->aux[i].v)
            tensor_drop(&p->aux[i]);
    }
    tensor_drop(&p->y);
    if (p->r.v)
        tensor_drop(&p->r);
}

/* A depthwise convolution and its norm by the batch's own statistics:
 * in[] are x, w, gamma and beta, y what comes out behind the clamp. */
static struct norm probe_norm(const struct probe *p)
{
    return (struct norm){p->aux[0].p, p->aux[1].p, p->in[2].p, p->in[3].p,
                         p->cap};
}

static void norm_forward(struct probe *p)
{
    const struct norm_stats stats = {p->aux[0].p, p->aux[1].p, p->aux[2].p,
                                     p->aux[3].p, 1e-3,        0.1};
    const struct norm n = probe_norm(p);
    must(p->b->d->ops->dw_fwd(p->b->d, DT_F64, p->z.p, &stats, p->in[0].p, NULL,
                              p->in[1].p, &p->s, ERR));
    must(p->b->d->ops->norm_apply(p->b->d, DT_F64, p->y.p, p->z.p, &n, NULL,
                                  p->rows, p->C, ERR));
}

static void norm_gradient(struct bed *b, int32_t H, int32_t W, int32_t C,
                          int32_t stride, double cap)
{
    struct probe p = {
        .b = b,
        .forward = norm_forward,
        .s = {2, H, W, C, (H - 1) / stride + 1, (W - 1) / stride + 1, stride},
        .C = C,
        .cap = cap};
    int64_t nx = (int64_t)2 * H * W * C;
    struct tensor sums = tensor_acc(b, (int64_t)2 * C, 7, 8);

    p.rows = (int64_t)2 * p.s.OH * p.s.OW;
    p.in[0] = tensor_make(b, nx, -2, 2);
    p.in[1] = tensor_make(b, (int64_t)9 * C, -1, 1);
    p.in[2] = tensor_make(b, C, 1, 4);
    p.in[3] = tensor_make(b, C, -1, 4);
    p.grad[0] = tensor_make(b, nx, 7, 8);
    p.grad[1] = tensor_make(b, (int64_t)9 * C, 7, 8);
    p.grad[2] = tensor_make(b, C, 7, 8);
    p.grad[3] = tensor_make(b, C, 7, 8);
    for (int i = 0; i < 4; i++)
        p.aux[i] = tensor_make(b, C, 1, 1);
    p.y = tensor_make(b, p.rows * C, 0, 0);
    p.z = tensor_make(b, p.rows * C, 0, 0);
    p.r = tensor_make(b, p.rows * C, -1, 1);
    struct tensor d = tensor_make(b, p.rows * C, 0, 0);
    const struct norm n = probe_norm(&p);
    const struct norm_grad out = {sums.p, p.grad[2].p, p.grad[3].p};
    norm_forward(&p);
    must(b->d->ops->copy(b->d, d.p, p.r.p, (size_t)d.n * sizeof(double), ERR));
    must(b->d->ops->norm_grads(b->d, DT_F64, d.p, &out, p.z.p, &n, p.rows, C,
                               ERR));
    must(b->d->ops->dw_bwd(b->d, DT_F64, p.grad[0].p, p.grad[1].p, NULL, d.p,
                           p.z.p, &n, sums.p, p.in[0].p, NULL, p.in[1].p, &p.s,
                           ERR));
    check_input(&p, 0, cap > 0 ? "dw x, clamped" : "dw x");
    check_input(&p, 1, cap > 0 ? "dw w, clamped" : "dw w");
    check_input(&p, 2, cap > 0 ? "norm gamma, clamped" : "norm gamma");
    check_input(&p, 3, cap > 0 ? "norm beta, clamped" : "norm beta");
    tensor_drop(&d);
    tensor_drop(&sums);
    tensor_drop(&p.z);
    probe_drop(&p);
}

static void pool_forward(struct probe *p)
{
    must(p->b->d->ops->avgpool_fwd(p->b->d, DT_F64, p->y.p, p->in[0].p, 2, 6, 5,
                                   ERR));
}

static void pool_gradient(struct bed *b)
{
    struct probe p = {.b = b, .forward = pool_forward};

    p.in[0] = tensor_make(b, 60, -1, 1);
    p.grad[0] = tensor_make(b, 60, 7, 8);
    p.y = tensor_make(b, 10, 0, 0);
    p.r = tensor_make(b, 10, -1, 1);
    must(
        b->d->ops->avgpool_bwd(b->d, DT_F64, p.grad[0].p, p.r.p, 2, 6, 5, ERR));
    check_input(&p, 0, "avgpool x");
    probe_drop(&p);
}

/* y += bias: start each time from the same y. */
static void bias_forward(struct probe *p)
{
    struct device *d = p->b->d;

    must(d->ops->copy(d, p->y.p, p->aux[0].p, (size_t)p->y.n * sizeof(double),
                      ERR));
    must(d->ops->bias_fwd(d, DT_F64, p->y.p, p->in[0].p, p->rows, p->C, ERR));
}

static void bias_gradient(struct bed *b)
{
    struct probe p = {.b = b, .forward = bias_forward, .rows = 7, .C = 10};

    p.in[0] = tensor_make(b, 10, -1, 1);
    p.grad[0] = tensor_make(b, 10, 7, 8);
    p.aux[0] = tensor_make(b, 70, -1, 1);
    p.y = tensor_make(b, 70, 0, 0);
    p.r = tensor_make(b, 70, -1, 1);
    must(b->d->ops->bias_bwd(b->d, DT_F64, p.grad[0].p, p.r.p, 7, 10, ERR));
    check_input(&p, 0, "bias");
    probe_drop(&p);
}

static const int32_t labels[] = {3, -1, 0, 6, 6};

/* in[0] holds the logits; aux[0] the labels, aux[1] the hits. */
static void xent_forward(struct probe *p)
{
    struct device *d = p->b->d;

    must(d->ops->xent(d, DT_F64, p->y.p, p->aux[1].p, p->in[0].p, p->aux[0].p,
                      5, 7, NULL, p->smooth, false, ERR));
}

static void xent_gradient(struct bed *b, double smooth)
{
    struct probe p = {.b = b, .forward = xent_forward, .smooth = smooth};

    p.in[0] = tensor_make(b, 35, -3, 3);
    p.grad[0] = tensor_make(b, 35, 0, 0);
    p.aux[0] = tensor_make(b, 5, 0, 0);
    p.aux[1] = tensor_make(b, 5, 0, 0);
    p.y = tensor_make(b, 5, 0, 0);
    must(b->d->ops->to_device(b->d, p.aux[0].p, labels, sizeof(labels), ERR));
    must(b->d->ops->copy(b->d, p.grad[0].p, p.in[0].p, 35 * sizeof(double),
                         ERR));
    const double one = 1;
    must(b->d->ops->xent(b->d, DT_F64, p.y.p, p.aux[1].p, p.grad[0].p,
                         p.aux[0].p, 5, 7, bed_put(b, &one, sizeof(one)),
                         smooth, true, ERR));
    check_input(&p, 0, smooth > 0 ? "xent z, smooth" : "xent z");
    probe_drop(&p);
}

/* in[0] the image, in[1] the filters, aux[0] the patches. */
static void stem_forward(struct probe *p)
{
    struct device *d = p->b->d;
    int32_t k = 9 * p->s.C;

    must(d->ops->im2col3(d, DT_F64, p->aux[0].p, k, p->in[0].p, &p->s, ERR));
    must(d->ops->gemm(d, DT_F64, false, true, (int32_t)p->rows, p->C, k, 1,
                      p->aux[0].p, k, p->in[1].p, k, 0, p->y.p, p->C, ERR));
}

static void stem_gradient(struct bed *b, int32_t stride)
{
    struct conv3 s = {2, 5, 4, 3, 4 / stride + 1, 3 / stride + 1, stride};
    int32_t K = 4, k = 9 * s.C, rows = s.N * s.OH * s.OW;
    struct probe p = {
        .b = b, .forward = stem_forward, .s = s, .rows = rows, .C = K};

    p.in[0] = tensor_make(b, (int64_t)s.N * s.H * s.W * s.C, -1, 1);
    p.in[1] = tensor_make(b, (int64_t)K * k, -1, 1);
    p.grad[1] = tensor_make(b, (int64_t)K * k, 7, 8);
    p.aux[0] = tensor_make(b, (int64_t)rows * k, 0, 0);
    p.y = tensor_make(b, (int64_t)rows * K, 0, 0);
    p.r = tensor_make(b, (int64_t)rows * K, -1, 1);
    stem_forward(&p);
    must(b->d->ops->gemm(b->d, DT_F64, true, false, K, k, rows, 1, p.r.p, K,
                         p.aux[0].p, k, 0, p.grad[1].p, k, ERR));
    check_input(&p, 1, "the stem's filters");
    probe_drop(&p);
}

void contract_gradients(struct bed *b)
{
    norm_gradient(b, 4, 5, 3, 1, 0);
    norm_gradient(b, 5, 4, 4, 2, 0);
    norm_gradient(b, 4, 3, 4, 1, 6);
    norm_gradient(b, 6, 5, 3, 2, 6);
    pool_gradient(b);
    bias_gradient(b);
    xent_gradient(b, 0);
    xent_gradient(b, 0.1);
    stem_gradient(b, 1);
    stem_gradient(b, 2);
}
