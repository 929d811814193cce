/* optim.cu - one step of SGD with momentum and of AdamW, as torch.optim.
 *
 * src  Sutskever et al. 2013, ICML (momentum, Nesterov); Loshchilov, Hutter
 *      2019, arXiv:1711.05101, algorithm 2 (AdamW). The state is in acc<T>.
 */
#include "kernels/exec_launch.h"

namespace
{

template <class A> struct sgd_scalars {
    A lr, momentum, decay, grad_scale;
    int nesterov, first;
};

template <class T, int W>
KERNEL sgd_step(blk b, T *p, acc<T> *m, const T *g, int64_t n,
                sgd_scalars<acc<T>> a)
{
    typedef vec<acc<T>, W> V;

    for (int64_t i : b.each(n, W)) {
        V w = V::load(p + i, n - i);
        V d = V::load(g + i, n - i) * a.grad_scale + w * a.decay;
        V v = a.first ? d : V::load(m + i, n - i) * a.momentum + d;
        v.store(m + i, n - i);
        V step = a.nesterov ? d + v * a.momentum : v;
        (w - step * a.lr).store(p + i, n - i);
    }
}

/* p *= shrink;  p -= rate * m / (sqrt(v) * root + eps) */
template <class A> struct adamw_scalars {
    A beta1, beta2, grow1, grow2, grad_scale, shrink, rate, root, eps;
};

template <class T, int W>
KERNEL adamw_step(blk b, T *p, acc<T> *m, acc<T> *v, const T *g, int64_t n,
                  adamw_scalars<acc<T>> a)
{
    typedef vec<acc<T>, W> V;

    for (int64_t i : b.each(n, W)) {
        V d = V::load(g + i, n - i) * a.grad_scale;
        V mi = V::load(m + i, n - i) * a.beta1 + d * a.grow1;
        V vi = V::load(v + i, n - i) * a.beta2 + d * d * a.grow2;
        mi.store(m + i, n - i);
        vi.store(v + i, n - i);
        V step = mi * a.rate / (vsqrt(vi) * a.root + a.eps);
        (V::load(p + i, n - i) * a.shrink - step).store(p + i, n - i);
    }
}

template <class T>
int sgd(struct device *d, void *p, void *m, const void *g, int64_t n,
        const struct sgd_args *a, struct error *err)
{
    typedef acc<T> A;

    if (n < 0)
        return error_set(err, ERR_INVAL, "sgd: n %lld", (long long)n);
    sgd_scalars<A> s = {(A)a->lr,         (A)a->momentum, (A)a->weight_decay,
                        (A)a->grad_scale, a->nesterov,    a->first};
    LAUNCH_FLAT(blocks(d, n), sgd_step, (T *)p, (A *)m, (const T *)g, n, s);
    return finish(d, "sgd", err);
}

template <class T>
int adamw(struct device *d, void *p, void *m, void *v, const void *g, int64_t n,
          const struct adamw_args *a, struct error *err)
{
    typedef acc<T> A;

    if (n < 0 || a->step < 1)
        return error_set(err, ERR_INVAL, "adamw: n %lld, step %lld",
                         (long long)n, (long long)a->step);
    /* The means start at zero; dividing by what they can have reached by
     * now undoes it. */
    double reach1 = 1 - pow(a->beta1, (double)a->step);
    double reach2 = 1 - pow(a->beta2, (double)a->step);
    adamw_scalars<A> s = {(A)a->beta1,
                          (A)a->beta2,
                          (A)(1 - a->beta1),
                          (A)(1 - a->beta2),
                          (A)a->grad_scale,
                          (A)(1 - a->lr * a->weight_decay),
                          (A)(a->lr / reach1),
                          (A)(1 / sqrt(reach2)),
                          (A)a->eps};
    LAUNCH_FLAT(blocks(d, n), adamw_step, (T *)p, (A *)m, (A *)v, (const T *)g,
                n, s);
    return finish(d, "adamw", err);
}

} // namespace

FAMILY(optim)
{
    ops->sgd = BY_TYPE(sgd);
    ops->adamw = BY_TYPE(adamw);
}
