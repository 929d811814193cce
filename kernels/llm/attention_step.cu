/* attention_step.cu - attention of one more token of a document, whose keys and
 * values are kept: a step of generation.
 *
 * A block has a query head. Its lanes first take a key each, which gives the
 * weights of all keys, and then W values of the head each, over some of the
 * keys: these partial sums meet in shared memory. */
#include "kernels/exec/exec_launch.h"

namespace
{

enum { STEP_HEAD_MAX = 256 };

/* weight [keys] = softmax(scale * q k^T) of one head. */
template <class T, int W>
FN void weigh(blk b, acc<T> *weight, const T *q, const T *k, int64_t ld,
              int64_t keys, int64_t D, acc<T> scale)
{
    typedef acc<T> A;
    typedef vec<A, W> V;
    A most = -(A)INFINITY, sum = 0;

    for (int64_t j : b.lanes(keys)) {
        V along = V::of(0);
        for (int64_t i = 0; i < D; i += W)
            along += V::load(q + i) * V::load(k + j * ld + i);
        const A score = along.total() * scale;
        weight[j] = score;
        most = score > most || !(score == score) ? score : most;
    }
    most = b.max(most);
    for (int64_t j : b.lanes(keys)) {
        weight[j] = exp((A)(weight[j] - most));
        sum += weight[j];
    }
    sum = b.sum(sum);
    for (int64_t j : b.lanes(keys))
        weight[j] /= sum;
    b.sync(); /* the weights are there */
}

/* o [D] = the values, weighted. */
template <class T, int W>
FN void mix(blk b, T *o, const acc<T> *weight, const T *v, int64_t ld,
            int64_t keys, int64_t D)
{
    typedef acc<T> A;
    typedef vec<A, W> V;
    SHARED(A, part, MAX_LANES * W);
    const int64_t tiles = D / W;
    const rect lay(b, tiles);

    for (int64_t first = 0; first < tiles; first += lay.across) {
        const int64_t t = first + lay.col;
        const bool works = lay.row < lay.down && t < tiles;
        V sum = V::of(0);

        for (int64_t j = lay.row; works && j < keys; j += lay.down)
            sum += V::load(v + j * ld + t * W) * weight[j];
        sum.store(part + b.lane() * W);
        b.sync(); /* the partial sums are there */
        if (works && lay.row == 0) {
            for (int64_t r = 1; r < lay.down; r++)
                sum += V::load(part + (r * lay.across + lay.col) * W);
            sum.store(o + t * W);
        }
        b.sync(); /* part is free */
    }
}

template <class T, int W>
KERNEL attend_step(blk b, T *o, single<acc<T>> weight, const T *q, const T *k,
                   const T *v, int64_t ld, int64_t keys, int64_t heads,
                   int64_t group, int64_t D, acc<T> scale)
{
    for (int64_t h : b.share(heads)) {
        const int64_t at = h / group * D;
        acc<T> *own = weight.at + h * keys;

        weigh<T, W>(b, own, q + h * D, k + at, ld, keys, D, scale);
        mix<T, W>(b, o + h * D, own, v + at, ld, keys, D);
    }
}

template <class T>
int attention_step(struct device *d, void *o, const void *q, const void *k,
                   const void *v, int32_t ld, const struct attention *s,
                   struct error *err)
{
    typedef acc<T> A;
    const int64_t D = s->head_dim, heads = s->heads;

    if (s->rows < 1 || heads < 1 || s->kv_heads < 1 ||
        heads % s->kv_heads != 0 || D < 1 || D > STEP_HEAD_MAX ||
        ld < s->kv_heads * D || s->window < 0)
        return error_set(err, ERR_INVAL,
                         "attention of a token: %lld keys, %d query and %d key "
                         "heads of %d, %d apart, a window of %d",
                         (long long)s->rows, (int)heads, (int)s->kv_heads,
                         (int)D, (int)ld, (int)s->window);
    const bool is_cut = s->window > 0 && s->window < s->rows;
    const int64_t keys = is_cut ? s->window : s->rows,
                  from = (s->rows - keys) * ld; /* the first that it sees */
    A *weight = scratch<A>(d, heads * keys, err);
    if (!weight)
        return -1;
    LAUNCH_ROWS(D | ld, blocks(d, heads * keys * D, heads), attend_step, (T *)o,
                single<A>{weight}, (const T *)q, (const T *)k + from,
                (const T *)v + from, (int64_t)ld, keys, heads,
                heads / s->kv_heads, D, (A)s->scale);
    return finish(d, "attention of a token", err);
}

} // namespace

FAMILY(attention_step)
{
    ops->llm.attention_step = BY_TYPE(attention_step);
}
