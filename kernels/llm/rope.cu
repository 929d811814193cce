/* rope.cu - rotary position embedding, in place.
 *
 * The angles of a token are the same for all of its heads: a lane reads W
 * cosines and sines once and rotates W pairs of every head, or of every
 * `down`-th where the lanes of a block share the heads.
 *
 * src  Su et al. 2021, arXiv:2104.09864, equation 34, in the order of halves
 *      that Llama's checkpoints have in Hugging Face's form */
#include "kernels/exec/exec_launch.h"

namespace
{

/* W pairs (cos, sin) at p. */
template <class A, int W> struct angles {
    vec<A, W> cos, sin;
    static FN angles load(const A *p)
    {
        const vec<A, W> lo = vec<A, W>::load(p), hi = vec<A, W>::load(p + W);
        angles r;
        EACH
        {
            const int c = 2 * k, s = 2 * k + 1;
            r.cos.v[k] = c < W ? lo.v[c % W] : hi.v[c % W];
            r.sin.v[k] = s < W ? lo.v[s % W] : hi.v[s % W];
        }
        return r;
    }
    static FN angles none()
    {
        return {vec<A, W>::of(NAN), vec<A, W>::of(NAN)};
    }
};

template <class T, int W>
KERNEL rotate(blk b, T *x, int64_t ld, single<const int32_t> pos,
              const acc<T> *table, int64_t positions, int64_t rows,
              int64_t heads, int64_t half, acc<T> sign)
{
    typedef acc<T> A;
    typedef vec<A, W> V;
    typedef angles<A, W> turn;
    const int64_t tiles = half / W;
    const rect lay(b, tiles);

    for (int64_t r : b.share(rows)) {
        const int64_t at = pos.at[r];
        const bool in = at >= 0 && at < positions;

        for (int64_t t : lay.cols(tiles)) {
            const turn by =
                in ? turn::load(table + (at * half + t * W) * 2) : turn::none();
            const V sin = by.sin * sign;
            for (int64_t k : lay.rows({0, heads, 1})) {
                T *p = x + r * ld + k * 2 * half + t * W;
                const V left = V::load(p), right = V::load(p + half);
                (left * by.cos - right * sin).store(p);
                (right * by.cos + left * sin).store(p + half);
            }
        }
    }
}

template <class T>
int rope(struct device *d, void *x, int32_t ld, const int32_t *pos,
         const void *table, int32_t positions, int64_t rows, int32_t heads,
         int32_t D, bool back, struct error *err)
{
    typedef acc<T> A;
    const int64_t half = D / 2;

    if (rows < 0 || heads < 1 || D < 2 || D % 2 != 0 || positions < 1)
        return error_set(err, ERR_INVAL,
                         "rotation: rows %lld, %d heads of %d, %d positions",
                         (long long)rows, (int)heads, (int)D, (int)positions);
    if (ld < (int64_t)heads * D)
        return error_set(err, ERR_INVAL,
                         "rotation: row stride %d, but %d heads of %d", (int)ld,
                         (int)heads, (int)D);
#ifndef EXEC_CUDA
    /* Halves of heads of 8 are a quarter of AVX-512's width. */
    if constexpr (widest<T> == 16)
        if ((half | ld) % 4 == 0 && (half | ld) % 8 != 0) {
            launch(d, blocks(d, rows * heads * D, rows), rotate<T, 4>, (T *)x,
                   (int64_t)ld, single<const int32_t>{pos}, (const A *)table,
                   (int64_t)positions, rows, (int64_t)heads, half,
                   (A)(back ? -1 : 1));
            return finish(d, "rotation", err);
        }
#endif
    /* A power of two divides both exactly if it divides half | ld. */
    LAUNCH_ROWS(half | ld, blocks(d, rows * heads * D, rows), rotate, (T *)x,
                (int64_t)ld, single<const int32_t>{pos}, (const A *)table,
                (int64_t)positions, rows, (int64_t)heads, half,
                (A)(back ? -1 : 1));
    return finish(d, "rotation", err);
}

} // namespace

FAMILY(rope)
{
    ops->llm.rope = BY_TYPE(rope);
}
