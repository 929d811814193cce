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

/* Codes of W neighbours. */
template <int W> struct alignas(W) codes_raw {
    uint8_t e[W];
    FN int at(int k) const
    {
        if constexpr (W % 4 != 0)
            return e[k];
        uint32_t word; /* nvcc takes a byte out of 16 bits, and these first */
        memcpy(&word, e + k / 4 * 4, sizeof(word));
        return (int)(word >> k % 4 * 8 & 255);
    }
};
template <int W> FN codes_raw<W> load_codes(const uint8_t *p)
{
    codes_raw<W> r;
#ifdef EXEC_CUDA
    r = *reinterpret_cast<const codes_raw<W> *>(p);
#else
    memcpy(&r, p, W); /* its address may be odd */
#endif
    return r;
}
template <int W> FN void store_codes(uint8_t *p, const codes_raw<W> &r)
{
#ifdef EXEC_CUDA
    store_raw(p, r);
#else
    memcpy(p, &r, W);
#endif
}

/* The walk of state8_find() on addresses of 32 bits, four instructions a level:
 * the children of the node at `at` are at 2 at - base, and one value behind.
 * Where memory is not shared addresses begin with the tree. */
struct codes_tree {
    const float *tree;
    uint32_t base;
    FN codes_tree(const float *tree) : tree(tree), base(0)
    {
#ifdef __CUDACC__
        base = (uint32_t)__cvta_generic_to_shared(tree);
#endif
    }
    FN float value(uint32_t at) const
    {
#ifdef __CUDACC__
        return *(const float *)__cvta_shared_to_generic(at);
#else
        return tree[at / sizeof(float)];
#endif
    }
    FN uint8_t find(float x) const
    {
        const uint32_t one = sizeof(float), left = 0u - base;
        uint32_t at = base + one;
        UNROLL for (int level = 0; level < STATE8_BITS; level++) at =
            at + at + (value(at) < x ? left + one : left);
        return (uint8_t)((at - base) / one);
    }
};

/* What a step of adamw8bit reads and writes, and on a GPU in shared memory, its
 * maps and their trees (state8.h). */
template <class T> struct adamw8_state {
    T *p;
    const T *g;
    uint8_t *m, *v;
    single<float> m_most, v_most;
    int64_t n;
};
struct adamw8_maps {
    const float *map, *tree; /* of m; that of v is behind it */
};

/* A warp processes a block of the state: a lane has a few times W neighbours,
 * whose moments stay in registers until the block's largest are known. W = 1
 * also ends within a block. */
template <class T, int W>
FN void adamw8_block(blk b, const adamw8_state<T> &x, const adamw8_maps &maps,
                     int64_t k, const adamw_scalars<acc<T>> &a)
{
    typedef acc<T> A;
    typedef vec<A, W> V;
    enum { NEXT = blk::WARP * W, TIMES = STATE8_BLOCK / NEXT };
    const int64_t lo = k * STATE8_BLOCK + b.lane_of_warp() * W;
    const bool is_first = b.lane_of_warp() == 0;
    /* Only the lane that writes them later reads them. */
    const A m_was = (A)b.warp_first(is_first ? x.m_most.at[k] : 0);
    const A v_was = (A)b.warp_first(is_first ? x.v_most.at[k] : 0);
    A m[TIMES][W], v[TIMES][W], m_now = 0, v_now = 0;

    UNROLL_HELD for (int t = 0; t < TIMES; t++)
    {
        const int64_t i = lo + t * NEXT;
        if (W == 1 && i >= x.n)
            continue;
        const codes_raw<W> was_m = load_codes<W>(x.m + i);
        const codes_raw<W> was_v = load_codes<W>(x.v + i);
        const V g = V::load(x.g + i);
        EACH
        {
            const A d = g.v[k] * a.grad_scale;
            const A mk =
                (A)maps.map[was_m.at(k)] * m_was * a.beta1 + d * a.grow1;
            const A vk =
                (A)maps.map[STATE8_CODES + was_v.at(k)] * v_was * a.beta2 +
                d * d * a.grow2;
            const A size = (A)fabs(mk);
            m_now = size > m_now ? size : m_now;
            v_now = vk > v_now ? vk : v_now;
            m[t][k] = mk;
            v[t][k] = vk;
        }
    }
    m_now = b.warp_max(m_now);
    v_now = b.warp_max(v_now);
    const float m_scale = state8_scale((float)m_now);
    const float v_scale = state8_scale((float)v_now);
    const codes_tree m_tree(maps.tree), v_tree(maps.tree + STATE8_CODES);
    UNROLL_HELD for (int t = 0; t < TIMES; t++)
    {
        const int64_t i = lo + t * NEXT;
        if (W == 1 && i >= x.n)
            continue;
        codes_raw<W> m_code, v_code;
        V p = V::load(x.p + i);
        EACH
        {
            const A step =
                m[t][k] * a.rate / ((A)sqrt(v[t][k]) * a.root + a.eps);
            p.v[k] = p.v[k] * a.shrink - step;
        }
        p.store(x.p + i);
        EACH
        {
            m_code.e[k] = m_tree.find((float)m[t][k] * m_scale);
            v_code.e[k] = v_tree.find((float)v[t][k] * v_scale);
        }
        store_codes(x.m + i, m_code);
        store_codes(x.v + i, v_code);
    }
    if (is_first) {
        x.m_most.at[k] = (float)m_now;
        x.v_most.at[k] = (float)v_now;
    }
}

/* Blocks of the state from `first` on. The maps are in shared memory: a code
 * takes eight look-ups, and each waits for the one before. */
template <class T, int W>
KERNEL adamw8_step(blk b, T *p, const T *g, uint8_t *m, uint8_t *v,
                   single<float> m_most, single<float> v_most,
                   single<const float> map, int64_t first, int64_t n,
                   adamw_scalars<acc<T>> a)
{
    SHARED(float, codes, 2 * STATE8_CODES);
    SHARED(float, trees, 2 * STATE8_CODES);
    const adamw8_state<T> x = {p, g, m, v, m_most, v_most, n};

    a.look();
    for (int64_t i : b.lanes(2 * STATE8_CODES)) {
        const int node = (int)i % STATE8_CODES;
        codes[i] = map.at[i];
        trees[i] = node > 0 ? state8_node(map.at + i - node, node) : 0;
    }
    b.sync(); /* the maps are there */
    for (int64_t k : b.warps(state8_blocks(n) - first))
        adamw8_block<T, W>(b, x, {codes, trees}, first + k, a);
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

/* Blocks that are whole in vectors, a last one that is not value by value. */
template <class T>
int adamw8(struct device *d, void *p, uint8_t *m, uint8_t *v, float *m_most,
           float *v_most, const void *g, const float *map, int64_t n,
           const struct adamw_args *a, struct error *err)
{
    const int64_t whole = n / STATE8_BLOCK, all = n - n % STATE8_BLOCK;
    const single<float> ms = {m_most}, vs = {v_most};
    const single<const float> maps = {map};

    if (adamw_check(n, a, err) < 0)
        return -1;
    const adamw_scalars<acc<T>> s = adamw_scalars_of<acc<T>>(a);
    if (whole > 0)
        LAUNCH_FLAT(blocks(d, all, whole), adamw8_step, (T *)p, (const T *)g, m,
                    v, ms, vs, maps, (int64_t)0, all, s);
    if (n > all)
        launch(d, 1, adamw8_step<T, 1>, (T *)p, (const T *)g, m, v, ms, vs,
               maps, whole, n, s);
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
