/* attention.cu - causal attention within each document, for several query
 * heads per key and value head.
 *
 * Queries and keys meet in tiles, so that no array of [rows, rows] exists. The
 * forward pass walks the keys of a tile of queries with a running maximum: when
 * it grows, what is summed so far is scaled down. It leaves the log of the sum
 * of the exponentials, lse. The backward pass computes each probability again,
 * p = exp(scale q k - lse), and from delta = sum(do * o) the gradient of its
 * score, ds = p (do v - delta) scale. dq = ds k is summed by tiles of queries,
 * dk = ds q and dv = p do by tiles of keys: on a GPU by two kernels, so no two
 * blocks write to the same place.
 *
 * Token i sees the tokens i - pos[i] to i, or the last W of them if there is a
 * window of W. The first of them never falls from one token to the next, so the
 * keys of a tile of queries, and the queries of a tile of keys, are contiguous.
 * Kernels skip the tiles without such a pair on both sides.
 * A sum includes only pairs that see each other: 0 times the NaN of another
 * document is a NaN.
 *
 * attention_device.h chooses the kernels for a GPU, attention_rows.h and
 * attention_back_rows.h have those for the host.
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
    int32_t reach; /* tokens before it that a token sees at most */

    /* The first token that token i sees. A position that cannot be, behind i or
     * before the list, is moved into it. */
    FN int64_t first(int64_t i) const
    {
        const int64_t at = i - (pos[i] < reach ? pos[i] : reach);
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

} // namespace

#ifdef EXEC_CUDA
#include "kernels/llm/attention_device.h"
#else
#include "kernels/llm/attention_back_rows.h"
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
    if (s->window < 0)
        return error_set(err, ERR_INVAL,
                         "%s: a window of %d tokens; 0, which is none, and "
                         "more are possible: check sliding_window in the "
                         "model's config.json",
                         op, (int)s->window);
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
    const int32_t reach = s->window > 0 ? s->window - 1 : INT32_MAX;

    return {(const T *)q, (const T *)k,     (const T *)v, ld,
            pos,          s->rows,          s->heads,     s->kv_heads,
            s->head_dim,  (acc<T>)s->scale, reach};
}

template <class T>
int attention_fwd(struct device *d, void *o, int32_t ldo, void *lse,
                  const void *q, const void *k, const void *v, int32_t ld,
                  const int32_t *pos, const struct attention *s,
                  struct error *err)
{
    if (check("attention", s, ld, ldo, err) < 0)
        return -1;
    if (s->rows > 0 && run_fwd(d, (T *)o, (int64_t)ldo, (acc<T> *)lse,
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
    if (s->rows > 0 &&
        run_bwd(d, seen_of<T>(q, k, v, ld, pos, s), g, (const T *)o, err) < 0)
        return -1;
    return finish(d, op, err);
}

} // namespace

FAMILY(attention)
{
    ops->llm.attention_fwd = BY_TYPE(attention_fwd);
    ops->llm.attention_bwd = BY_TYPE(attention_bwd);
}
