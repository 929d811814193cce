/* attention.cu - causal attention within each document, for several query
 * heads per key and value head.
 *
 * Queries and keys meet in tiles, so that no array of [rows, rows] exists. The
 * forward pass walks the keys of a tile of queries with a running maximum: when
 * it grows, what is summed so far is scaled down. It leaves the log of the sum
 * of the exponentials, lse. The backward pass computes each probability again,
 * p = exp(scale q k - lse), and from delta = sum(do * o) the gradient of its
 * score, ds = p (do v - delta) scale. One kernel sums dq = ds k by tiles of
 * queries, another dk = ds q and dv = p do by tiles of keys, so no two blocks
 * write to the same place.
 *
 * Token i sees the tokens i - pos[i] to i, and i - pos[i] never falls, so the
 * keys of a tile of queries, and the queries of a tile of keys, are contiguous.
 * A sum includes only pairs that see each other: 0 times the NaN of another
 * document is a NaN.
 *
 * Here are the kernels for a GPU, attention_rows.h has those for the host.
 *
 * src  Milakov and Gimelshein 2018, arXiv:1805.02867 (running maximum); Dao et
 *      al. 2022, arXiv:2205.14135 (tiles, backward pass) */
#include <float.h>

#include "kernels/exec/exec_launch.h"

namespace
{

enum { HEAD_MAX = 256 }; /* values of a head; a block keeps sums of them */

/* A maximum of nothing. It is finite, so that exp(lowest - lowest) is 1. */
template <class A>
constexpr A lowest = sizeof(A) == 8 ? -(A)DBL_MAX : -(A)FLT_MAX;

/* What all kernels read. */
template <class T> struct seen {
    const T *q, *k, *v;
    int64_t ld;
    const int32_t *pos;
    int64_t rows, heads, kv_heads, D;
    acc<T> scale;

    /* The first token that token i sees. A position that cannot be, behind i or
     * before the list, is moved into it. */
    FN int64_t first(int64_t i) const
    {
        const int64_t at = i - pos[i];
        return at < 0 ? 0 : at > i ? i : at;
    }
    FN bool sees(int64_t i, int64_t j) const
    {
        return i < rows && j <= i && j >= first(i);
    }
    FN int64_t group() const
    {
        return heads / kv_heads;
    }
};

/* The backward pass's inputs and outputs. */
template <class T> struct grads {
    T *dq, *dk, *dv;
    int64_t ldd;
    const T *dout;
    int64_t ldo;
    const acc<T> *lse, *delta; /* [rows, heads] */
};

/* Of n tiles, the u-th to work on: one from the front, one from the back, and
 * so on. Late tiles of a document have more keys, and a block takes consecutive
 * ones. */
FN int64_t tile_at(int64_t u, int64_t n)
{
    return u % 2 ? n - 1 - u / 2 : u / 2;
}

FN int64_t tiles_of(int64_t rows, int64_t size)
{
    return (rows + size - 1) / size;
}

/* delta [rows, heads] = the sum of do * o over a head. */
template <class T, int W>
KERNEL head_deltas(blk b, acc<T> *delta, const T *dout, const T *o, int64_t ldo,
                   int64_t rows, int64_t heads, int64_t D)
{
    typedef vec<acc<T>, W> V;

    for (int64_t i : b.each(rows * heads)) {
        const int64_t at = i / heads * ldo + i % heads * D;
        V s = V::of(0);
        for (int64_t c = 0; c < D; c += W)
            s += V::load(dout + at + c) * V::load(o + at + c);
        delta[i] = s.total();
    }
}

template <class T>
void take_deltas(struct device *d, acc<T> *delta, const T *dout, const T *o,
                 int64_t ldo, const seen<T> &in)
{
    const int64_t n = in.rows * in.heads;

    /* A vector has to divide both a head and the distance of rows. */
    LAUNCH_ROWS(in.D | ldo, blocks(d, n * in.D, n), head_deltas, delta, dout, o,
                ldo, in.rows, in.heads, in.D);
}

#ifdef EXEC_CUDA
/* The sums of a block are in shared memory: 16 queries of 256 values are 32 kB
 * in fp64, and so are dk and dv of 8 keys. The other factors are read from
 * where they are, through the cache. */
enum { QUERIES = 16, KEYS = 32, OWN_KEYS = 8 };

FN int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

template <class T> FN acc<T> dot(const T *a, const T *b, int64_t D)
{
    acc<T> s = 0;
    for (int64_t d = 0; d < D; d++)
        s += (acc<T>)a[d] * (acc<T>)b[d];
    return s;
}

/* Scores s [KEYS] of a query become exponentials below the new maximum; keep is
 * what the sums so far are scaled by. */
template <class A> FN void run_softmax(A *s, A *top, A *sum, A *keep)
{
    A most = *top;
    for (int j = 0; j < KEYS; j++)
        most = most < s[j] ? s[j] : most;
    const A f = exp(*top - most);
    A total = *sum * f;
    for (int j = 0; j < KEYS; j++) {
        s[j] = exp(s[j] - most);
        total += s[j];
    }
    *top = most;
    *sum = total;
    *keep = f;
}

/* A block processes QUERIES queries of a head at a time. Each lane owns some
 * elements of `out` from their first to their last use. */
template <class T>
KERNEL attend(blk b, T *o, int64_t ldo, acc<T> *lse, seen<T> in)
{
    typedef acc<T> A;
    SHARED(A, out, QUERIES * HEAD_MAX);
    SHARED(A, s, QUERIES * KEYS);
    SHARED(A, top, QUERIES);
    SHARED(A, sum, QUERIES);
    SHARED(A, keep, QUERIES);
    const int64_t D = in.D, n_tiles = tiles_of(in.rows, QUERIES);

    for (int64_t u : b.share(in.heads * n_tiles)) {
        const int64_t h = u / n_tiles,
                      x = tile_at(u % n_tiles, n_tiles) * QUERIES,
                      n = least(in.rows - x, QUERIES), end = x + n;
        const T *q = in.q + h * D, *k = in.k + h / in.group() * D,
                *v = in.v + h / in.group() * D;
        for (int64_t i : b.lanes(n * D))
            out[i] = 0;
        for (int64_t i : b.lanes(QUERIES)) {
            top[i] = lowest<A>; /* a tile may have no keys for i */
            sum[i] = 0;
        }
        for (int64_t y = in.first(x); y < end; y += KEYS) {
            for (int64_t i : b.lanes(QUERIES * KEYS)) {
                const int64_t r = x + i / KEYS, c = y + i % KEYS;
                s[i] = in.sees(r, c)
                           ? dot(q + r * in.ld, k + c * in.ld, D) * in.scale
                           : -(A)INFINITY;
            }
            b.sync(); /* scores */
            for (int64_t i : b.lanes(QUERIES))
                run_softmax(s + i * KEYS, top + i, sum + i, keep + i);
            b.sync(); /* exponentials */
            for (int64_t i : b.lanes(n * D)) {
                const int64_t r = i / D;
                A a = out[i] * keep[r];
                for (int64_t c = y; c < least(y + KEYS, end); c++)
                    if (in.sees(x + r, c))
                        a += s[r * KEYS + c - y] * (A)v[c * in.ld + i % D];
                out[i] = a;
            }
            b.sync(); /* s is free */
        }
        for (int64_t i : b.lanes(n * D))
            o[(x + i / D) * ldo + h * D + i % D] = (T)(out[i] / sum[i / D]);
        for (int64_t i : b.lanes(lse ? n : 0))
            lse[(x + i) * in.heads + h] = log(sum[i]) + top[i];
        b.sync(); /* sum is free */
    }
}

/* Probability and the gradient of its score, of query i, key j and head h. */
template <class T>
FN acc<T> score_grad(const seen<T> &in, const grads<T> &g, int64_t i, int64_t j,
                     int64_t h, acc<T> *p)
{
    const int64_t D = in.D, key = j * in.ld + h / in.group() * D;
    const acc<T> s = dot(in.q + i * in.ld + h * D, in.k + key, D) * in.scale,
                 dp = dot(g.dout + i * g.ldo + h * D, in.v + key, D);

    *p = exp(s - g.lse[i * in.heads + h]);
    return *p * (dp - g.delta[i * in.heads + h]) * in.scale;
}

template <class T> KERNEL attend_dq(blk b, seen<T> in, grads<T> g)
{
    typedef acc<T> A;
    SHARED(A, dq, QUERIES * HEAD_MAX);
    SHARED(A, ds, QUERIES * KEYS);
    const int64_t D = in.D, n_tiles = tiles_of(in.rows, QUERIES);

    for (int64_t u : b.share(in.heads * n_tiles)) {
        const int64_t h = u / n_tiles,
                      x = tile_at(u % n_tiles, n_tiles) * QUERIES,
                      n = least(in.rows - x, QUERIES), end = x + n;
        const T *k = in.k + h / in.group() * D;
        for (int64_t i : b.lanes(n * D))
            dq[i] = 0;
        for (int64_t y = in.first(x); y < end; y += KEYS) {
            for (int64_t i : b.lanes(QUERIES * KEYS)) {
                const int64_t r = x + i / KEYS, c = y + i % KEYS;
                A p = 0;
                ds[i] = in.sees(r, c) ? score_grad(in, g, r, c, h, &p) : A(0);
            }
            b.sync(); /* ds is there */
            for (int64_t i : b.lanes(n * D)) {
                const int64_t r = i / D;
                A a = dq[i];
                for (int64_t c = y; c < least(y + KEYS, end); c++)
                    if (in.sees(x + r, c))
                        a += ds[r * KEYS + c - y] * (A)k[c * in.ld + i % D];
                dq[i] = a;
            }
            b.sync(); /* ds is free */
        }
        for (int64_t i : b.lanes(n * D))
            g.dq[(x + i / D) * g.ldd + h * D + i % D] = (T)dq[i];
    }
}

/* dk and dv of n keys from y on += those of the queries from x on; p and ds are
 * [QUERIES, OWN_KEYS]. */
template <class T>
FN void add_key_grads(blk b, const seen<T> &in, const grads<T> &g, int64_t h,
                      int64_t x, int64_t y, int64_t n, const acc<T> *p,
                      const acc<T> *ds, acc<T> *dk, acc<T> *dv)
{
    typedef acc<T> A;
    const int64_t D = in.D;

    for (int64_t i : b.lanes(n * D)) {
        const int64_t c = i / D, d = h * D + i % D;
        A to_k = dk[i], to_v = dv[i];
        for (int64_t r = 0; r < QUERIES; r++)
            if (in.sees(x + r, y + c)) {
                to_k += ds[r * OWN_KEYS + c] * (A)in.q[(x + r) * in.ld + d];
                to_v += p[r * OWN_KEYS + c] * (A)g.dout[(x + r) * g.ldo + d];
            }
        dk[i] = to_k;
        dv[i] = to_v;
    }
}

template <class T> KERNEL attend_dkv(blk b, seen<T> in, grads<T> g)
{
    typedef acc<T> A;
    SHARED(A, dk, OWN_KEYS * HEAD_MAX);
    SHARED(A, dv, OWN_KEYS * HEAD_MAX);
    SHARED(A, p, QUERIES * OWN_KEYS);
    SHARED(A, ds, QUERIES * OWN_KEYS);
    const int64_t D = in.D, n_tiles = tiles_of(in.rows, OWN_KEYS);

    for (int64_t u : b.share(in.kv_heads * n_tiles)) {
        const int64_t kv = u / n_tiles,
                      y = tile_at(u % n_tiles, n_tiles) * OWN_KEYS,
                      n = least(in.rows - y, OWN_KEYS);
        for (int64_t i : b.lanes(n * D))
            dk[i] = dv[i] = 0;
        for (int64_t h = kv * in.group(); h < (kv + 1) * in.group(); h++)
            for (int64_t x = y; x < in.rows && in.first(x) < y + n;
                 x += QUERIES) {
                for (int64_t i : b.lanes(QUERIES * OWN_KEYS)) {
                    const int64_t r = x + i / OWN_KEYS, c = y + i % OWN_KEYS;
                    p[i] = ds[i] = 0;
                    if (in.sees(r, c))
                        ds[i] = score_grad(in, g, r, c, h, &p[i]);
                }
                b.sync(); /* both are there */
                add_key_grads(b, in, g, h, x, y, n, p, ds, dk, dv);
                b.sync(); /* both are free */
            }
        for (int64_t i : b.lanes(n * D)) {
            const int64_t at = (y + i / D) * g.ldd + kv * D + i % D;
            g.dk[at] = (T)dk[i];
            g.dv[at] = (T)dv[i];
        }
    }
}

template <class T>
int run_fwd(struct device *d, T *o, int64_t ldo, acc<T> *lse, const seen<T> &in,
            struct error *)
{
    const int64_t units = in.heads * tiles_of(in.rows, QUERIES);

    launch(d, blocks(d, units * QUERIES * in.D * 16, units), attend<T>, o, ldo,
           lse, in);
    return 0;
}

template <class T>
int run_bwd(struct device *d, const seen<T> &in, grads<T> g, const T *o,
            struct error *err)
{
    const int64_t by_query = in.heads * tiles_of(in.rows, QUERIES),
                  by_key = in.kv_heads * tiles_of(in.rows, OWN_KEYS),
                  work = in.rows * in.heads * in.D * 16;
    acc<T> *delta = scratch<acc<T>>(d, in.rows * in.heads, err);

    if (!delta)
        return -1;
    g.delta = delta;
    take_deltas(d, delta, g.dout, o, g.ldo, in);
    launch(d, blocks(d, work, by_query), attend_dq<T>, in, g);
    launch(d, blocks(d, work, by_key), attend_dkv<T>, in, g);
    return 0;
}
#endif

} // namespace

#ifndef EXEC_CUDA
#include "kernels/llm/attention_rows.h"
#endif

namespace
{

int check(const char *op, const struct attention *s, int32_t ld, int32_t ldo,
          struct error *err)
{
    if (s->rows < 0 || s->rows > INT32_MAX)
        return error_set(err, ERR_INVAL,
                         "%s: %lld tokens; between 0 and 2147483647 are "
                         "possible: change train.batch_size",
                         op, (long long)s->rows);
    if (s->heads < 1 || s->kv_heads < 1 || s->heads % s->kv_heads != 0)
        return error_set(err, ERR_INVAL,
                         "%s: %d query heads and %d key heads; the first must "
                         "be a multiple of the second: check the model's "
                         "config.json",
                         op, (int)s->heads, (int)s->kv_heads);
    if (s->head_dim < 1 || s->head_dim > HEAD_MAX)
        return error_set(err, ERR_INVAL,
                         "%s: heads of %d values; between 1 and %d are "
                         "possible: check the model's config.json",
                         op, (int)s->head_dim, (int)HEAD_MAX);
    const int64_t width = (int64_t)s->heads * s->head_dim;
    if (ld < width || ldo < width)
        return error_set(err, ERR_INVAL,
                         "%s: rows of %lld values lie %d and %d apart: they "
                         "overlap",
                         op, (long long)width, (int)ld, (int)ldo);
    return 0;
}

template <class T>
seen<T> seen_of(const void *q, const void *k, const void *v, int32_t ld,
                const int32_t *pos, const struct attention *s)
{
    return {(const T *)q, (const T *)k,    (const T *)v, ld,
            pos,          s->rows,         s->heads,     s->kv_heads,
            s->head_dim,  (acc<T>)s->scale};
}

template <class T>
int attention_fwd(struct device *d, void *o, int32_t ldo, void *lse,
                  const void *q, const void *k, const void *v, int32_t ld,
                  const int32_t *pos, const struct attention *s,
                  struct error *err)
{
    if (check("attention", s, ld, ldo, err) < 0 ||
        run_fwd(d, (T *)o, (int64_t)ldo, (acc<T> *)lse,
                seen_of<T>(q, k, v, ld, pos, s), err) < 0)
        return -1;
    return finish(d, "attention", err);
}

template <class T>
int attention_bwd(struct device *d, void *dq, void *dk, void *dv, int32_t ldd,
                  const void *dout, const void *o, int32_t ldo, const void *lse,
                  const void *q, const void *k, const void *v, int32_t ld,
                  const int32_t *pos, const struct attention *s,
                  struct error *err)
{
    static const char op[] = "attention's gradient";

    if (check(op, s, ld, ldo, err) < 0 || check(op, s, ldd, ldo, err) < 0)
        return -1;
    if (!lse)
        return error_set(err, ERR_INVAL,
                         "%s: it requires the forward pass's lse", op);
    const grads<T> g = {(T *)dq,
                        (T *)dk,
                        (T *)dv,
                        ldd,
                        (const T *)dout,
                        ldo,
                        (const acc<T> *)lse,
                        nullptr};
    if (run_bwd(d, seen_of<T>(q, k, v, ld, pos, s), g, (const T *)o, err) < 0)
        return -1;
    return finish(d, op, err);
}

} // namespace

FAMILY(attention)
{
    ops->llm.attention_fwd = BY_TYPE(attention_fwd);
    ops->llm.attention_bwd = BY_TYPE(attention_bwd);
}
