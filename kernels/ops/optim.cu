/* optim.cu - one step of SGD with momentum, AdamW and RMSprop, as torch.optim;
 * the norm of a gradient, and the exponential moving average of the weights.
 *
 * src  Sutskever et al. 2013, ICML (momentum, Nesterov); Loshchilov, Hutter
 *      2019, arXiv:1711.05101, algorithm 2 (AdamW); Graves 2013,
 *      arXiv:1308.0850, section 4.2 (centered RMSprop). The state is in
 *      acc<T>. */
#include "kernels/exec/exec_columns.h"
#include "kernels/exec/exec_launch.h"
#define STATE8_FN FN
#include "kernels/ops/state8.h"

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

/* The mean and the mean of squares behind a step. */
template <class T> struct moments {
    acc<T> m, v;
    FN moments(uint8_t m_code, uint8_t v_code, float m_most, float v_most,
               const float *map, T g, const adamw_scalars<acc<T>> &a)
    {
        const acc<T> d = (acc<T>)g * a.grad_scale;
        m = (acc<T>)map[m_code] * (acc<T>)m_most * a.beta1 + d * a.grow1;
        v = (acc<T>)map[STATE8_CODES + v_code] * (acc<T>)v_most * a.beta2 +
            d * d * a.grow2;
    }
};

/* Lanes share a block of the state. They make its moments twice: for the
 * largest of them, and when that is known for the codes. The maps and what is
 * between their codes are in shared memory: a code takes eight look-ups, of
 * which each waits for the one before. */
template <class T>
KERNEL adamw8_step(blk b, single<T> p, single<uint8_t> m, single<uint8_t> v,
                   single<float> m_most, single<float> v_most,
                   single<const T> g, single<const float> map, int64_t n,
                   adamw_scalars<acc<T>> a)
{
    typedef acc<T> A;
    SHARED(float, codes, 2 * STATE8_CODES);
    SHARED(float, middles, 2 * STATE8_CODES);

    a.look();
    for (int64_t i : b.lanes(2 * STATE8_CODES)) {
        codes[i] = map.at[i];
        if (i % STATE8_CODES < STATE8_CODES - 1)
            middles[i] = state8_middle(map.at, i);
    }
    b.sync(); /* the maps are there */
    for (int64_t k : b.share(state8_blocks(n))) {
        const int64_t lo = k * STATE8_BLOCK;
        const int64_t left = n - lo;
        const int64_t len = left < STATE8_BLOCK ? left : (int64_t)STATE8_BLOCK;
        const float m_was = m_most.at[k], v_was = v_most.at[k];
        A m_now = 0, v_now = 0;
        for (int64_t j : b.lanes(len)) {
            const int64_t i = lo + j;
            const moments<T> now(m.at[i], v.at[i], m_was, v_was, codes,
                                 g.at[i], a);
            const A size = now.m < 0 ? -now.m : now.m;
            m_now = size > m_now ? size : m_now;
            v_now = now.v > v_now ? now.v : v_now;
        }
        m_now = b.max(m_now);
        v_now = b.max(v_now);
        const float m_scale = state8_scale((float)m_now);
        const float v_scale = state8_scale((float)v_now);
        for (int64_t j : b.lanes(len)) {
            const int64_t i = lo + j;
            const moments<T> now(m.at[i], v.at[i], m_was, v_was, codes,
                                 g.at[i], a);
            const A step = now.m * a.rate / ((A)sqrt(now.v) * a.root + a.eps);
            p.at[i] = (T)((A)p.at[i] * a.shrink - step);
            m.at[i] = state8_find(middles, (float)now.m * m_scale);
            v.at[i] =
                state8_find(middles + STATE8_CODES, (float)now.v * v_scale);
        }
        if (b.lane() == 0) {
            m_most.at[k] = (float)m_now;
            v_most.at[k] = (float)v_now;
        }
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
    sgd_scalars<A> s = {(A)a->lr,
                        (A)a->momentum,
                        (A)a->weight_decay,
                        (A)a->grad_scale,
                        a->nesterov,
                        a->first,
                        a->now};
    LAUNCH_FLAT(blocks(d, n), sgd_step, (T *)p, (A *)m, (const T *)g, n, s);
    return finish(d, "sgd", err);
}

template <class A> adamw_scalars<A> adamw_scalars_of(const struct adamw_args *a)
{
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
    return s;
}

int adamw_check(int64_t n, const struct adamw_args *a, struct error *err)
{
    if (n >= 0 && (a->now || a->step >= 1))
        return 0;
    return error_set(err, ERR_INVAL, "adamw: n %lld, step %lld", (long long)n,
                     (long long)a->step);
}

template <class T>
int adamw8(struct device *d, void *p, uint8_t *m, uint8_t *v, float *m_most,
           float *v_most, const void *g, const float *map, int64_t n,
           const struct adamw_args *a, struct error *err)
{
    const int64_t parts = n > 0 ? (n + STATE8_BLOCK - 1) / STATE8_BLOCK : 0;

    if (adamw_check(n, a, err) < 0)
        return -1;
    launch(d, blocks(d, parts * STATE8_BLOCK, parts), adamw8_step<T>,
           single<T>{(T *)p}, single<uint8_t>{m}, single<uint8_t>{v},
           single<float>{m_most}, single<float>{v_most},
           single<const T>{(const T *)g}, single<const float>{map}, n,
           adamw_scalars_of<acc<T>>(a));
    return finish(d, "adamw8", err);
}

template <class T>
int adamw(struct device *d, void *p, void *m, void *v, const void *g, int64_t n,
          const struct adamw_args *a, struct error *err)
{
    typedef acc<T> A;

    if (adamw_check(n, a, err) < 0)
        return -1;
    const adamw_scalars<A> s = adamw_scalars_of<A>(a);
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
    rmsprop_scalars<A> s = {
        (A)a->lr,       (A)a->alpha,        (A)(1 - a->alpha), (A)a->eps,
        (A)a->momentum, (A)a->weight_decay, (A)a->grad_scale,  a->now};
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
    ops->adamw8 = BY_TYPE(adamw8);
    ops->rmsprop = BY_TYPE(rmsprop);
    ops->sum_squares = BY_TYPE(sum_squares);
    ops->ema = BY_TYPE(ema);
}
