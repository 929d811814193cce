/* optim.cu - one step of SGD with momentum, AdamW and RMSprop, as torch.optim;
 * the norm of a gradient, and the exponential moving average of the weights.
 *
 * src  Sutskever et al. 2013, ICML (momentum, Nesterov); Loshchilov, Hutter
 *      2019, arXiv:1711.05101, algorithm 2 (AdamW); Graves 2013,
 *      arXiv:1308.0850, section 4.2 (centered RMSprop). The state is in
 *      acc<T>. */
#include "kernels/exec/exec_columns.h"
#include "kernels/exec/exec_launch.h"

namespace
{

/* Each kernel uses the scalars in `now`, if it is given, instead of those of
 * the call. */
template <class A> struct sgd_scalars {
    A lr, momentum, decay, grad_scale;
    int nesterov, first;
    const optim_now *now;

    FN void look()
    {
        if (!now)
            return;
        lr = (A)now->lr;
        grad_scale = (A)now->grad_scale;
        first = now->first != 0;
    }
};

template <class T, int W>
KERNEL sgd_step(blk b, T *p, acc<T> *m, const T *g, int64_t n,
                sgd_scalars<acc<T>> a)
{
    typedef vec<acc<T>, W> V;

    a.look();
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
    double decay;
    const optim_now *now;

    FN void look()
    {
        if (!now)
            return;
        grad_scale = (A)now->grad_scale;
        shrink = (A)(1 - now->lr * decay);
        rate = (A)(now->lr / now->reach1);
        root = (A)(1 / sqrt(now->reach2));
    }
};

template <class T, int W>
KERNEL adamw_step(blk b, T *p, acc<T> *m, acc<T> *v, const T *g, int64_t n,
                  adamw_scalars<acc<T>> a)
{
    typedef vec<acc<T>, W> V;

    a.look();
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

template <class A> struct rmsprop_scalars {
    A lr, alpha, grow, eps, momentum, decay, grad_scale;
    const optim_now *now;

    FN void look()
    {
        if (!now)
            return;
        lr = (A)now->lr;
        grad_scale = (A)now->grad_scale;
    }
};

template <class T, int W>
KERNEL rmsprop_step(blk b, T *p, acc<T> *v, acc<T> *m, acc<T> *mean, const T *g,
                    int64_t n, rmsprop_scalars<acc<T>> a)
{
    typedef vec<acc<T>, W> V;

    a.look();
    for (int64_t i : b.each(n, W)) {
        V w = V::load(p + i, n - i);
        V d = V::load(g + i, n - i) * a.grad_scale + w * a.decay;
        V vi = V::load(v + i, n - i) * a.alpha + d * d * a.grow;
        vi.store(v + i, n - i);
        if (mean) {
            V mi = V::load(mean + i, n - i) * a.alpha + d * a.grow;
            mi.store(mean + i, n - i);
            /* Rounding can make it slightly negative. */
            vi = vmax(vi - mi * mi, V::of(0));
        }
        V step = d / (vsqrt(vi) + a.eps);
        if (m) {
            step = V::load(m + i, n - i) * a.momentum + step;
            step.store(m + i, n - i);
        }
        (w - step * a.lr).store(p + i, n - i);
    }
}

/* One part per block, which fold() adds in order. */
template <class T, int W>
KERNEL squares(blk b, double *part, const T *x, int64_t n)
{
    vec<double, W> s = vec<double, W>::of(0);

    for (int64_t i : b.each(n, W)) {
        vec<acc<T>, W> v = vec<acc<T>, W>::load(x + i, n - i);
        UNROLL for (int k = 0; k < W; k++) s.v[k] +=
            (double)v.v[k] * (double)v.v[k];
    }
    const double sum = b.sum(s.total());
    if (b.lane() == 0)
        part[b.id()] = sum;
}

template <class T, int W>
KERNEL ema_step(blk b, acc<T> *mean, const T *p, int64_t n, acc<T> decay,
                acc<T> grow)
{
    typedef vec<acc<T>, W> V;

    for (int64_t i : b.each(n, W))
        (V::load(mean + i, n - i) * decay + V::load(p + i, n - i) * grow)
            .store(mean + i, n - i);
}

template <class T>
int sgd(struct device *d, void *p, void *m, const void *g, int64_t n,
        const struct sgd_args *a, struct error *err)
{
    typedef acc<T> A;

    if (n < 0)
        return error_set(err, ERR_INVAL, "sgd: n %lld", (long long)n);
    sgd_scalars<A> s = {(A)a->lr,         (A)a->momentum, (A)a->weight_decay,
                        (A)a->grad_scale, a->nesterov,    a->first,
                        a->now};
    LAUNCH_FLAT(blocks(d, n), sgd_step, (T *)p, (A *)m, (const T *)g, n, s);
    return finish(d, "sgd", err);
}

template <class T>
int adamw(struct device *d, void *p, void *m, void *v, const void *g, int64_t n,
          const struct adamw_args *a, struct error *err)
{
    typedef acc<T> A;

    if (n < 0 || (!a->now && a->step < 1))
        return error_set(err, ERR_INVAL, "adamw: n %lld, step %lld",
                         (long long)n, (long long)a->step);
    /* The means start at zero; dividing by their largest possible value so far
     * corrects the bias. */
    adamw_scalars<A> s = {(A)a->beta1,
                          (A)a->beta2,
                          (A)(1 - a->beta1),
                          (A)(1 - a->beta2),
                          (A)a->grad_scale,
                          0,
                          0,
                          0,
                          (A)a->eps,
                          a->weight_decay,
                          a->now};
    if (!a->now) {
        const double t = (double)a->step, lr = a->lr;
        const double reach1 = 1 - pow(a->beta1, t);
        const double reach2 = 1 - pow(a->beta2, t);
        s.shrink = (A)(1 - lr * a->weight_decay);
        s.rate = (A)(lr / reach1);
        s.root = (A)(1 / sqrt(reach2));
    }
    LAUNCH_FLAT(blocks(d, n), adamw_step, (T *)p, (A *)m, (A *)v, (const T *)g,
                n, s);
    return finish(d, "adamw", err);
}

template <class T>
int rmsprop(struct device *d, void *p, void *v, void *m, void *mean,
            const void *g, int64_t n, const struct rmsprop_args *a,
            struct error *err)
{
    typedef acc<T> A;

    if (n < 0)
        return error_set(err, ERR_INVAL, "rmsprop: n %lld", (long long)n);
    rmsprop_scalars<A> s = {(A)a->lr,        (A)a->alpha,    (A)(1 - a->alpha),
                            (A)a->eps,       (A)a->momentum, (A)a->weight_decay,
                            (A)a->grad_scale, a->now};
    LAUNCH_FLAT(blocks(d, n), rmsprop_step, (T *)p, (A *)v, (A *)m, (A *)mean,
                (const T *)g, n, s);
    return finish(d, "rmsprop", err);
}

template <class T>
int sum_squares(struct device *d, void *out, const void *x, int64_t n,
                struct error *err)
{
    if (n < 0)
        return error_set(err, ERR_INVAL, "length of the gradient: n %lld",
                         (long long)n);
    const int64_t parts = parts_for(d, n, n > 0 ? n : 1);
    double *part = scratch<double>(d, parts, err);
    if (!part)
        return -1;
    LAUNCH_FLAT(parts, squares, part, (const T *)x, n);
    launch(d, 1, fold<double>, (double *)out, part, parts, (int64_t)1);
    return finish(d, "length of the gradient", err);
}

template <class T>
int ema(struct device *d, void *mean, const void *p, int64_t n, double decay,
        struct error *err)
{
    typedef acc<T> A;

    if (n < 0)
        return error_set(err, ERR_INVAL, "mean of the weights: n %lld",
                         (long long)n);
    LAUNCH_FLAT(blocks(d, n), ema_step, (A *)mean, (const T *)p, n, (A)decay,
                (A)(1 - decay));
    return finish(d, "mean of the weights", err);
}

} // namespace

FAMILY(optim)
{
    ops->sgd = BY_TYPE(sgd);
    ops->adamw = BY_TYPE(adamw);
    ops->rmsprop = BY_TYPE(rmsprop);
    ops->sum_squares = BY_TYPE(sum_squares);
    ops->ema = BY_TYPE(ema);
}
