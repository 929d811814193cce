/* optim.c - 20 steps of each optimizer against its formula in double; 5 where
 * lanes are emulated. */
#include <math.h>
#include <stdlib.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

static int steps(const struct bed *b)
{
    return b->small ? 5 : 20;
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
        }
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
            P[i] -= a.lr * mh / (sqrt(vh) + a.eps);
        }
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

void contract_optim(struct bed *b)
{
    int64_t big = b->small ? 1030 : 30011;

    sgd_one(b, 1, 0.9, true);
    sgd_one(b, 13, 0, false);
    sgd_one(b, big, 0.9, false);
    sgd_one(b, big, 0.9, true);
    adamw_one(b, 3);
    adamw_one(b, big);
}
