/* optim.c - 20 steps of each optimizer against its formula in double; 5 where
 * lanes are emulated. */
#include <math.h>
#include <stdlib.h>

#include "kernels/ops/state8.h"
#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

static int steps(const struct bed *b)
{
    return b->small ? 5 : 20;
}

/* What a captured step reads, in every other step; the arguments beside it are
 * then none. */
static const struct optim_now *now_of(struct bed *b, int step, double *lr,
                                      double *grad_scale, double reach1,
                                      double reach2)
{
    const struct optim_now now = {.lr = *lr,
                                  .grad_scale = *grad_scale,
                                  .reach1 = reach1,
                                  .reach2 = reach2,
                                  .first = step == 0};
    if (step % 2 != 0)
        return NULL;
    *lr = *grad_scale = NAN;
    return bed_put(b, &now, sizeof(now));
}

static void sgd_one(struct bed *b, int64_t n, double momentum, bool nesterov)
{
    struct tensor p = tensor_make(b, n, -1, 1), m = tensor_acc(b, n, 7, 8);
    double *P = zeros(n), *M = zeros(n);

    for (int64_t i = 0; i < n; i++) {
        P[i] = p.v[i];
        m.v[i] = NAN; /* "holds nothing yet" */
    }
    tensor_push(&m);
    for (int step = 0; step < steps(b); step++) {
        struct sgd_args a = {.lr = 0.05 / (1 + step),
                             .momentum = momentum,
                             .weight_decay = 4e-3,
                             .grad_scale = 0.25,
                             .nesterov = nesterov,
                             .first = step == 0};
        struct tensor g = tensor_make(b, n, -2, 2);
        for (int64_t i = 0; i < n; i++) {
            double d = a.grad_scale * g.v[i] + a.weight_decay * P[i];
            M[i] = a.first ? d : momentum * M[i] + d;
            P[i] -= a.lr * (nesterov ? d + momentum * M[i] : M[i]);
            P[i] = rounded(b->dt, P[i]); /* between two steps it is a T */
        }
        a.now = now_of(b, step, &a.lr, &a.grad_scale, NAN, NAN);
        a.first = a.first && !a.now;
        must(b->d->ops->sgd(b->d, b->dt, p.p, m.p, g.p, n, &a, ERR));
        tensor_drop(&g);
    }
    near(&p, P, "sgd p, %lld values, momentum %g%s", (long long)n, momentum,
         nesterov ? ", nesterov" : "");
    near(&m, M, "sgd m");
    free(P);
    free(M);
    tensor_drop(&p);
    tensor_drop(&m);
}

static void adamw_one(struct bed *b, int64_t n)
{
    struct tensor p = tensor_make(b, n, -1, 1), m = tensor_acc(b, n, 0, 0);
    struct tensor v = tensor_acc(b, n, 0, 0);
    double *P = zeros(n), *M = zeros(n), *V = zeros(n);

    for (int64_t i = 0; i < n; i++)
        P[i] = p.v[i];
    for (int step = 1; step <= steps(b); step++) {
        struct adamw_args a = {.lr = 1e-2,
                               .beta1 = 0.9,
                               .beta2 = 0.95,
                               .eps = 1e-8,
                               .weight_decay = 0.1,
                               .grad_scale = 0.5,
                               .step = step};
        struct tensor g = tensor_make(b, n, 0.5, 2);
        for (int64_t i = 0; i < n; i++) {
            double d = a.grad_scale * g.v[i];
            P[i] -= a.lr * a.weight_decay * P[i];
            M[i] = a.beta1 * M[i] + (1 - a.beta1) * d;
            V[i] = a.beta2 * V[i] + (1 - a.beta2) * d * d;
            double mh = M[i] / (1 - pow(a.beta1, step));
            double vh = V[i] / (1 - pow(a.beta2, step));
            P[i] = rounded(b->dt, P[i] - a.lr * mh / (sqrt(vh) + a.eps));
        }
        a.now = now_of(b, step, &a.lr, &a.grad_scale, 1 - pow(a.beta1, step),
                       1 - pow(a.beta2, step));
        a.step = a.now ? 0 : step;
        must(b->d->ops->adamw(b->d, b->dt, p.p, m.p, v.p, g.p, n, &a, ERR));
        tensor_drop(&g);
    }
    near(&p, P, "adamw p, %lld values", (long long)n);
    near(&m, M, "adamw m");
    near(&v, V, "adamw v");
    free(P);
    free(M);
    free(V);
    tensor_drop(&p);
    tensor_drop(&m);
    tensor_drop(&v);
}

/* One step from codes and blocks that are there. The map of m begins one step
 * above -1. */
static void adamw8_one(struct bed *b, int64_t n)
{
    enum { BLOCK = 256, CODES = 256 };
    const struct adamw_args a = {.lr = 1e-2,
                                 .beta1 = 0.9,
                                 .beta2 = 0.95,
                                 .eps = 1e-8,
                                 .weight_decay = 0.1,
                                 .grad_scale = 0.5,
                                 .step = 3};
    const int64_t blocks = (n + BLOCK - 1) / BLOCK;
    struct tensor p = tensor_make(b, n, -1, 1), g = tensor_make(b, n, 0.5, 2);
    float map[2][CODES], most[2][200];
    uint8_t *codes[2];
    double *P = zeros(n), *M = zeros(n), *V = zeros(n);
    void *at[2], *most_at[2], *map_at = NULL;
    bool is_near = true;

    for (int i = 0; i < CODES; i++) {
        map[0][i] = (float)(i - 127) / 128;
        map[1][i] = (float)i / 255;
    }
    must(b->d->ops->alloc(b->d, sizeof(map), &map_at, ERR));
    must(b->d->ops->to_device(b->d, map_at, map, sizeof(map), ERR));
    for (int s = 0; s < 2; s++) {
        codes[s] = malloc((size_t)n);
        for (int64_t i = 0; i < n; i++)
            codes[s][i] = (uint8_t)bed_uniform(b, 1, 255);
        for (int64_t k = 0; k < blocks; k++)
            most[s][k] = (float)bed_uniform(b, 0.5, 2);
        must(b->d->ops->alloc(b->d, (size_t)n, &at[s], ERR));
        must(b->d->ops->alloc(b->d, sizeof(most[s]), &most_at[s], ERR));
        must(b->d->ops->to_device(b->d, at[s], codes[s], (size_t)n, ERR));
        must(b->d->ops->to_device(b->d, most_at[s], most[s], sizeof(most[s]),
                                  ERR));
        must(b->d->ops->sync(b->d, ERR));
    }
    for (int64_t i = 0; i < n; i++) {
        const double d = a.grad_scale * g.v[i];
        M[i] = a.beta1 * map[0][codes[0][i]] * most[0][i / BLOCK] +
               (1 - a.beta1) * d;
        V[i] = a.beta2 * map[1][codes[1][i]] * most[1][i / BLOCK] +
               (1 - a.beta2) * d * d;
        P[i] = p.v[i] * (1 - a.lr * a.weight_decay) -
               a.lr * (M[i] / (1 - pow(a.beta1, 3))) /
                   (sqrt(V[i] / (1 - pow(a.beta2, 3))) + a.eps);
    }
    must(b->d->ops->adamw8(b->d, b->dt, p.p, at[0], at[1], most_at[0],
                           most_at[1], g.p, map_at, n, &a, ERR));
    near(&p, P, "adamw8 p, %lld values", (long long)n);
    for (int s = 0; s < 2; s++) {
        const double *want = s == 0 ? M : V;
        must(b->d->ops->to_host(b->d, codes[s], at[s], (size_t)n, ERR));
        must(b->d->ops->to_host(b->d, most[s], most_at[s], sizeof(most[s]),
                                ERR));
        for (int64_t i = 0; i < n; i++) {
            const float largest = most[s][i / BLOCK];
            const double off = map[s][codes[s][i]] * largest - want[i];
            is_near = is_near && fabs(off) <= 1.01 / 127 * largest &&
                      fabs(want[i]) <= largest * (1 + 1e-6);
        }
        free(codes[s]);
        b->d->ops->release(b->d, at[s]);
        b->d->ops->release(b->d, most_at[s]);
    }
    ok(is_near, "adamw8: the codes are the nearest, %lld values", (long long)n);
    b->d->ops->release(b->d, map_at);
    free(P);
    free(M);
    free(V);
    tensor_drop(&p);
    tensor_drop(&g);
}

/* All moments are exact, in every type, and so are the codes: the map of m has
 * steps of 1/128, that of v of 1/256; means of halves; gradients of eighths,
 * -2..2, of which one makes the largest of its block what the scale is exact
 * for. Weights begin `off` values behind an aligned address. */
static void adamw8_exact(struct bed *b, int64_t n, int64_t off)
{
    const struct adamw_args a = {
        .beta1 = 0.5, .beta2 = 0.5, .eps = 1, .grad_scale = 1, .step = 1};
    const int64_t blocks = state8_blocks(n);
    const size_t beside = (size_t)off * dtype_bytes(b->dt);
    struct tensor p = tensor_make(b, n + off, -1, 1);
    struct tensor g = tensor_ints(b, n, -16, 16);
    float map[2][STATE8_CODES], most[2][200] = {{0}};
    uint8_t *codes[2];
    void *at[2], *most_at[2], *map_at = NULL;
    int64_t wrong[2] = {0}, wrong_most = 0;

    for (int i = 0; i < STATE8_CODES; i++) {
        map[0][i] = (float)(i - 128) / 128;
        map[1][i] = (float)i / 256;
    }
    for (int64_t i = 0; i < n; i++)
        g.v[i] = i % STATE8_BLOCK == i / STATE8_BLOCK ? 4 : g.v[i] / 8;
    tensor_push(&g);
    must(b->d->ops->alloc(b->d, sizeof(map), &map_at, ERR));
    must(b->d->ops->to_device(b->d, map_at, map, sizeof(map), ERR));
    for (int s = 0; s < 2; s++) {
        codes[s] = malloc((size_t)n + 1);
        for (int64_t i = 0; i < n; i++)
            codes[s][i] = i % STATE8_BLOCK == i / STATE8_BLOCK
                              ? s == 0 ? 128 : 0
                              : (uint8_t)bed_uniform(b, 0, 256);
        for (int64_t k = 0; k < blocks; k++)
            most[s][k] = 1;
        must(b->d->ops->alloc(b->d, (size_t)n + 1, &at[s], ERR));
        must(b->d->ops->alloc(b->d, sizeof(most[s]), &most_at[s], ERR));
        must(b->d->ops->to_device(b->d, at[s], codes[s], (size_t)n, ERR));
        must(b->d->ops->to_device(b->d, most_at[s], most[s], sizeof(most[s]),
                                  ERR));
        must(b->d->ops->sync(b->d, ERR));
    }
    must(b->d->ops->adamw8(b->d, b->dt, (char *)p.p + beside, at[0], at[1],
                           most_at[0], most_at[1], g.p, map_at, n, &a, ERR));
    for (int s = 0; s < 2; s++) {
        uint8_t *is = malloc((size_t)n + 1);
        must(b->d->ops->to_host(b->d, is, at[s], (size_t)n, ERR));
        must(b->d->ops->to_host(b->d, most[s], most_at[s], sizeof(most[s]),
                                ERR));
        for (int64_t i = 0; i < n; i++) {
            const double g2 = s == 0 ? g.v[i] : g.v[i] * g.v[i];
            const double now = (map[s][codes[s][i]] + g2) / 2;
            const float largest = s == 0 ? 2 : 8;
            wrong_most += most[s][i / STATE8_BLOCK] != largest;
            wrong[s] += is[i] != state8_code(map[s], (float)now / largest);
        }
        free(is);
        free(codes[s]);
        b->d->ops->release(b->d, at[s]);
        b->d->ops->release(b->d, most_at[s]);
    }
    ok(wrong[0] == 0 && wrong[1] == 0,
       "adamw8: %lld and %lld codes of %lld are not the exact ones",
       (long long)wrong[0], (long long)wrong[1], (long long)n);
    is_int(wrong_most, 0, "adamw8: the largest of each block");
    b->d->ops->release(b->d, map_at);
    tensor_drop(&p);
    tensor_drop(&g);
}

static void rmsprop_one(struct bed *b, int64_t n, double momentum,
                        bool centered)
{
    struct tensor p = tensor_make(b, n, -1, 1), v = tensor_acc(b, n, 0, 0);
    struct tensor m = tensor_acc(b, n, 0, 0), c = tensor_acc(b, n, 0, 0);
    double *P = zeros(n), *V = zeros(n), *M = zeros(n), *C = zeros(n);

    for (int64_t i = 0; i < n; i++)
        P[i] = p.v[i];
    for (int step = 0; step < steps(b); step++) {
        struct rmsprop_args a = {.lr = 1e-2 / (1 + step),
                                 .alpha = 0.95,
                                 .eps = 1e-2,
                                 .momentum = momentum,
                                 .weight_decay = 4e-3,
                                 .grad_scale = 0.25};
        struct tensor g = tensor_make(b, n, -2, 2);
        for (int64_t i = 0; i < n; i++) {
            double d = a.grad_scale * g.v[i] + a.weight_decay * P[i];
            V[i] = a.alpha * V[i] + (1 - a.alpha) * d * d;
            C[i] = centered ? a.alpha * C[i] + (1 - a.alpha) * d : 0;
            double u = d / (sqrt(fmax(V[i] - C[i] * C[i], 0)) + a.eps);
            M[i] = momentum * M[i] + u;
            P[i] = rounded(b->dt, P[i] - a.lr * M[i]);
        }
        a.now = now_of(b, step, &a.lr, &a.grad_scale, NAN, NAN);
        must(b->d->ops->rmsprop(b->d, b->dt, p.p, v.p,
                                momentum > 0 ? m.p : NULL,
                                centered ? c.p : NULL, g.p, n, &a, ERR));
        tensor_drop(&g);
    }
    near(&p, P, "rmsprop p, %lld values, momentum %g%s", (long long)n, momentum,
         centered ? ", centered" : "");
    near(&v, V, "rmsprop v");
    if (momentum > 0)
        near(&m, M, "rmsprop m");
    if (centered)
        near(&c, C, "rmsprop mean");
    free(P);
    free(V);
    free(M);
    free(C);
    tensor_drop(&p);
    tensor_drop(&v);
    tensor_drop(&m);
    tensor_drop(&c);
}

/* x is [n] and begins `off` values behind an aligned address. */
static void squares_one(struct bed *b, int64_t n, int64_t off, bool is_exact)
{
    struct tensor x = is_exact ? tensor_ints(b, n + off, -7, 7)
                               : tensor_make(b, n + off, -3, 3);
    char *at = (char *)x.p + (size_t)off * dtype_bytes(b->dt);
    void *out = NULL;
    double got = NAN, again = NAN, want = 0;

    for (int64_t i = off; i < n + off; i++)
        want += x.v[i] * x.v[i];
    must(b->d->ops->alloc(b->d, sizeof(double), &out, ERR));
    must(b->d->ops->sum_squares(b->d, b->dt, out, at, n, ERR));
    must(b->d->ops->to_host(b->d, &got, out, sizeof(got), ERR));
    must(b->d->ops->sum_squares(b->d, b->dt, out, at, n, ERR));
    must(b->d->ops->to_host(b->d, &again, out, sizeof(again), ERR));
    /* What the values are is known exactly; the sum is in double. */
    ok(is_exact ? got == want : fabs(got - want) <= 1e-12 * want,
       "sum_squares of %lld from %lld: %.17g for %.17g", (long long)n,
       (long long)off, got, want);
    ok(got == again, "sum_squares: the same again");
    b->d->ops->release(b->d, out);
    tensor_drop(&x);
}

static void squares_nan(struct bed *b, double bad)
{
    struct tensor x = tensor_make(b, 700, -1, 1);
    void *out = NULL;
    double got = 0;

    x.v[613] = bad;
    tensor_push(&x);
    must(b->d->ops->alloc(b->d, sizeof(double), &out, ERR));
    must(b->d->ops->sum_squares(b->d, b->dt, out, x.p, 700, ERR));
    must(b->d->ops->to_host(b->d, &got, out, sizeof(got), ERR));
    ok(!isfinite(got), "sum_squares: %g comes through", bad);
    b->d->ops->release(b->d, out);
    tensor_drop(&x);
}

static void ema_one(struct bed *b, int64_t n)
{
    struct tensor p = tensor_make(b, n, -1, 1), e = tensor_acc(b, n, 7, 8);
    double *E = zeros(n);

    for (int step = 0; step < steps(b); step++) {
        double decay = step == 0 ? 0 : 0.9;
        for (int64_t i = 0; i < n; i++) {
            p.v[i] += bed_uniform(b, -0.1, 0.1);
            E[i] = decay * E[i];
        }
        tensor_push(&p);
        for (int64_t i = 0; i < n; i++)
            E[i] += (1 - decay) * p.v[i];
        must(b->d->ops->ema(b->d, b->dt, e.p, p.p, n, decay, ERR));
        if (step == 0)
            same(&e, p.v, "ema: decay 0 copies, whatever was there");
    }
    near(&e, E, "ema of %lld values", (long long)n);
    free(E);
    tensor_drop(&p);
    tensor_drop(&e);
}

void contract_optim(struct bed *b)
{
    int64_t big = b->small ? 1030 : 30011;

    sgd_one(b, 1, 0.9, true);
    sgd_one(b, 13, 0, false);
    sgd_one(b, big, 0.9, false);
    sgd_one(b, big, 0.9, true);
    adamw_one(b, 3);
    adamw_one(b, big);
    adamw8_one(b, 1);
    adamw8_one(b, big);
    adamw8_exact(b, 1, 0);
    adamw8_exact(b, 300, 0);
    adamw8_exact(b, 600, 1);
    adamw8_exact(b, (int64_t)9 * STATE8_BLOCK, 0);
    rmsprop_one(b, 1, 0, false);
    rmsprop_one(b, 13, 0.9, false);
    rmsprop_one(b, big, 0.9, true);
    rmsprop_one(b, big, 0, true);
    squares_one(b, 0, 0, true);
    squares_one(b, 1, 0, true);
    squares_one(b, 1000, 1, true);
    squares_one(b, big, 0, true);
    squares_one(b, big, 3, false);
    squares_nan(b, NAN);
    squares_nan(b, INFINITY);
    ema_one(b, 5);
    ema_one(b, big);
}
