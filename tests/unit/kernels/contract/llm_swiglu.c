/* llm_swiglu.c - SwiGLU: values and gradients. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

struct glu {
    struct bed *b;
    int64_t rows;
    int32_t F;
    struct tensor x, y, dy, dx, again;
};

static void glu_make(struct glu *k, struct bed *b, int64_t rows, int32_t F,
                     double range)
{
    *k = (struct glu){.b = b, .rows = rows, .F = F};
    k->x = tensor_make(b, 2 * rows * F, -range, range);
    k->dx = tensor_make(b, 2 * rows * F, 7, 8);
    k->y = tensor_make(b, rows * F, 7, 8);
    k->again = tensor_make(b, rows * F, 7, 8);
    k->dy = tensor_make(b, rows * F, -1, 1);
}

static void glu_drop(struct glu *k)
{
    tensor_drop(&k->x);
    tensor_drop(&k->dx);
    tensor_drop(&k->y);
    tensor_drop(&k->again);
    tensor_drop(&k->dy);
}

static void forward(void *arg)
{
    struct glu *k = arg;

    must(k->b->d->ops->llm.swiglu_fwd(k->b->d, k->b->dt, k->y.p, k->x.p,
                                      k->rows, k->F, ERR));
}

static void backward(struct glu *k, void *dx, void *y)
{
    must(k->b->d->ops->llm.swiglu_bwd(k->b->d, k->b->dt, dx, y, k->dy.p, k->x.p,
                                      k->rows, k->F, ERR));
}

static void run_bwd(void *arg)
{
    struct glu *k = arg;

    backward(k, k->dx.p, k->again.p);
}

static void expect(const struct glu *k, double *Y, double *DX)
{
    for (int64_t i = 0; i < k->rows * k->F; i++) {
        int64_t at = i / k->F * 2 * k->F + i % k->F;
        double g = k->x.v[at], u = k->x.v[at + k->F], d = k->dy.v[i];
        double s = 1 / (1 + exp(-g));
        Y[i] = g * s * u;
        DX[at] = d * u * (s + g * s * (1 - s));
        DX[at + k->F] = d * g * s;
    }
}

static void glu_one(struct bed *b, int64_t rows, int32_t F, double range)
{
    const struct device_ops *ops = b->d->ops;
    size_t bytes = (size_t)rows * (size_t)F * dtype_bytes(b->dt);
    double *Y = zeros(rows * F), *DX = zeros(2 * rows * F);
    struct glu k;

    glu_make(&k, b, rows, F, range);
    struct tensor dy = tensor_make(b, rows * F, 0, 0);
    expect(&k, Y, DX);
    forward(&k);
    near(&k.y, Y, "swiglu_fwd %lld x %d, to %g", (long long)rows, F, range);
    backward(&k, k.dx.p, k.again.p);
    near(&k.dx, DX, "swiglu_bwd dx");
    same(&k.again, k.y.v, "swiglu_bwd y has the bits of swiglu_fwd");
    memset(k.dx.v, 0, (size_t)k.dx.n * sizeof(double));
    tensor_push(&k.dx);
    backward(&k, k.dx.p, NULL);
    near(&k.dx, DX, "swiglu_bwd dx without y");
    must(ops->copy(b->d, dy.p, k.dy.p, bytes, ERR));
    must(ops->llm.swiglu_bwd(b->d, b->dt, k.x.p, dy.p, dy.p, k.x.p, rows, F,
                             ERR));
    same(&k.x, k.dx.v, "swiglu_bwd dx over x");
    same(&dy, k.y.v, "swiglu_bwd y over dy");
    free(Y);
    free(DX);
    tensor_drop(&dy);
    glu_drop(&k);
}

/* Gates far from 0: closed is 0, open is the identity, and nothing overflows
 * to a NaN. */
static void glu_far(struct bed *b)
{
    enum { F = 8 };
    static const double gates[F] = {-20000, -800, -200, -100,
                                    100,    200,  800,  20000};
    struct glu k;
    double Y[F] = {0}, DX[2 * F] = {0};

    glu_make(&k, b, 1, F, 1);
    for (int i = 0; i < F; i++) {
        k.x.v[i] = rounded(b->dt, gates[i]);
        k.x.v[F + i] = i % 2 ? 2 : -1;
        k.dy.v[i] = 0.5;
        Y[i] = k.x.v[i] > 0 ? k.x.v[i] * k.x.v[F + i] : 0;
        DX[i] = k.x.v[i] > 0 ? k.x.v[F + i] * 0.5 : 0;
        DX[F + i] = k.x.v[i] > 0 ? k.x.v[i] * 0.5 : 0;
    }
    tensor_push(&k.x);
    tensor_push(&k.dy);
    forward(&k);
    near(&k.y, Y, "swiglu_fwd of far gates");
    backward(&k, k.dx.p, NULL);
    near(&k.dx, DX, "swiglu_bwd of far gates");
    double most = 0;
    for (int i = 0; i < F; i++)
        most = fmax(most, fabs(k.dx.v[i] - DX[i]));
    ok(most <= b->tol, "dg of far gates: off by %g", most);
    glu_drop(&k);
}

static void glu_nan(struct bed *b)
{
    enum { ROWS = 2, F = 9 };
    struct glu k;
    int y = 0, dx = 0;

    glu_make(&k, b, ROWS, F, 1);
    k.x.v[3] = NAN;             /* a gate */
    k.x.v[2 * F + F + 5] = NAN; /* a value: its gate still gets 0 for du */
    k.dy.v[F + 7] = NAN;
    tensor_push(&k.x);
    tensor_push(&k.dy);
    forward(&k);
    backward(&k, k.dx.p, NULL);
    tensor_pull(&k.y);
    tensor_pull(&k.dx);
    for (int i = 0; i < ROWS * F; i++)
        y += isnan(k.y.v[i]) ? 1 : 0;
    for (int i = 0; i < 2 * ROWS * F; i++)
        dx += isnan(k.dx.v[i]) ? 1 : 0;
    ok(y == 2 && isnan(k.y.v[3]) && isnan(k.y.v[F + 5]),
       "a NaN in x reaches its y, and only that");
    ok(dx == 5 && isnan(k.dx.v[3]) && isnan(k.dx.v[F + 3]) &&
           isnan(k.dx.v[2 * F + 5]) && isnan(k.dx.v[2 * F + 7]) &&
           isnan(k.dx.v[3 * F + 7]),
       "a NaN in x or dy reaches its dx, and only that");
    glu_drop(&k);
}

static void glu_gradient(struct bed *b)
{
    struct glu k;

    glu_make(&k, b, 3, 5, 3);
    backward(&k, k.dx.p, NULL);
    differences(&(struct call){b, forward, &k}, &k.x, &k.dx, &k.y, k.dy.v,
                "swiglu x");
    glu_drop(&k);
}

static void glu_rest(struct bed *b)
{
    const struct llm_ops *ops = &b->d->ops->llm;
    struct glu k;

    glu_make(&k, b, 19, 65, 2);
    same_bits(&(struct call){b, forward, &k}, &k.y, "swiglu_fwd");
    same_bits(&(struct call){b, run_bwd, &k}, &k.dx, "swiglu_bwd");
    double *was = zeros(k.y.n);
    memcpy(was, k.y.v, (size_t)k.y.n * sizeof(*was));
    void *y = k.y.p, *x = k.x.p;
    refused(ops->swiglu_fwd(b->d, b->dt, y, x, -1, 4, ERR));
    refused(ops->swiglu_fwd(b->d, b->dt, y, x, 2, 0, ERR));
    refused(ops->swiglu_fwd(b->d, DT_N, y, x, 2, 4, ERR));
    refused(ops->swiglu_bwd(b->d, b->dt, y, y, x, x, -1, 4, ERR));
    refused(ops->swiglu_bwd(b->d, b->dt, y, y, x, x, 2, 0, ERR));
    refused(ops->swiglu_bwd(b->d, DT_N, y, y, x, x, 2, 4, ERR));
    same(&k.y, was, "a refused swiglu writes nothing");
    free(was);
    glu_drop(&k);
}

void contract_llm_swiglu(struct bed *b)
{
    glu_one(b, 0, 64, 2);
    glu_one(b, 1, 64, 2);
    glu_one(b, 50, 1, 4);
    glu_one(b, 13, 7, 10);
    glu_one(b, 5, 65, 2);
    glu_one(b, 2, 1376, 6);
    glu_far(b);
    glu_nan(b);
    glu_rest(b);
    if (b->small)
        return;
    glu_one(b, 2, 4096, 4);
    glu_one(b, 300, 172, 4);
    if (b->dt == DT_F64)
        glu_gradient(b);
}
