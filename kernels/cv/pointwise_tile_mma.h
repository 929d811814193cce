/* pointwise_tile_mma.h - a tile of a 1x1 convolution: its rows of u and its
 * columns of the weights in shared memory, and their product.
 *
 * Included by pointwise_mma.h.
 */
#ifndef MGPU_KERNELS_CV_POINTWISE_TILE_MMA_H
#define MGPU_KERNELS_CV_POINTWISE_TILE_MMA_H

enum {
    PRODUCT_K = 96, /* of u in shared memory: 26 KB */
    PRODUCT_N = 64, /* columns of z: 32 sums of a lane in registers */
    PIECE_K = 32,   /* of the weights: twice 5 KB */
    TILES_N = PRODUCT_N / 8,
    /* Rows lie 8 values further apart: the 8 that ldmatrix reads at once are
     * in different banks. */
    LINE_K = PRODUCT_K + 8,
    LINE_PIECE = PIECE_K + 8,
};

/* The vectors are of 8 values, and whole. */
template <class T> bool fits_product(int64_t K, int64_t N, uintptr_t addresses)
{
    return sizeof(T) == 2 && K % 8 == 0 && N % 8 == 0 && addresses % 16 == 0;
}

/* Loops that nvcc must not unroll: sums fill half of the registers. */
#ifdef __CUDACC__
#define ROLLED _Pragma("unroll 1")
#else
#define ROLLED
#endif

/* `width` columns from c on of rows lo.. of u into us, whose rows lie `line`
 * apart, with zeros behind the last row and column; to y as well, if that is
 * not NULL. AT_ONCE: rows whose loads are under way together. */
template <class T, int AT_ONCE = 2>
FN void load_u(blk b, T *us, int line, T *y, const T *x, const T *skip,
               const norm_of<T> &n, int64_t lo, int tall, int64_t rows,
               int64_t c, int width, int64_t K)
{
    typedef vec<acc<T>, 8> V;
    const int across = (width + 15) / 16 * 2, down = b.width() / across;
    const int t = b.lane() % across * 8;
    const int last = rows - lo < tall ? (int)(rows - lo) : tall;
    const bool is_there = t < width;
    /* Of the norm no more than this stays in registers. */
    V scale = V::of(1), shift = V::of(0);

    if (is_there && n.mean) {
        const norm_cols<T, 8> p(n, c + t);
        scale = p.scale;
        shift = p.shift;
    }
    x += lo * K + c + t;
    skip += skip ? lo * K + c + t : 0;
    y += y ? lo * K + c + t : 0;
    const int row0 = b.lane() / across < down ? b.lane() / across : tall;
    ROLLED for (int r = row0; r < tall; r += AT_ONCE * down)
    {
        typename V::template raw<T> m[AT_ONCE], s[AT_ONCE];
        UNROLL for (int h = 0; h < AT_ONCE; h++)
        {
            const int row = r + h * down;
            m[h] = s[h] = V::of(0).template round<T>();
            if (is_there && row < last) {
                m[h] = V::hold(x + row * K);
                if (skip)
                    s[h] = V::hold(skip + row * K);
            }
        }
        UNROLL for (int h = 0; h < AT_ONCE; h++)
        {
            const int row = r + h * down;
            const bool is_row = is_there && row < last;
            if (row >= tall) /* of a narrow tile a lane has fewer rows */
                break;
            V v = V::open(m[h]);
            if (n.mean)
                v = v * scale + shift;
            if (n.mean && n.cap > 0)
                v = vmin(vmax(v, V::of(0)), V::of(n.cap));
            if (skip)
                v += V::open(s[h]);
            if (!is_row)
                v = V::of(0);
            v.store(us + row * line + t);
            if (is_row && y)
                v.store(y + row * K);
        }
    }
}

/* PIECE_K columns from c on of rows lo.. of w [N, K] into ws, some time before
 * the group is waited for; zeros behind the last column. */
template <class T>
FN void ask_for_w(blk b, T *ws, const T *w, int64_t lo, int high, int64_t c,
                  int64_t K)
{
    ROLLED for (int i = b.lane(); i < high * (PIECE_K / 8); i += b.width())
    {
        const int r = i / (PIECE_K / 8), k = i % (PIECE_K / 8) * 8;
        const bool is_there = c + k < K;
        copy_async(ws + r * LINE_PIECE + k,
                   is_there ? w + (lo + r) * K + c + k : w, is_there ? 16 : 0);
    }
    copy_group();
}

/* acc += u w^T of 16 rows of us and `high` of ws, `deep` columns. */
template <class T>
FN void multiply(float (&sum)[TILES_N][4], const T *us, const T *ws, int high,
                 int deep, int l)
{
    ROLLED for (int k = 0; k < deep; k += 16)
    {
        unsigned a[4], w[4];
        ldmatrix<4, false>(a, us + l % 16 * LINE_K + k + l / 16 * 8);
        UNROLL for (int j = 0; j < TILES_N; j += 2)
        {
            if (j * 8 < high) {
                ldmatrix<4, false>(
                    w, ws + (j * 8 + l / 16 * 8 + l % 8) * LINE_PIECE + k +
                           l / 8 % 2 * 8);
                const unsigned first[2] = {w[0], w[1]};
                const unsigned second[2] = {w[2], w[3]};
                mma_16x8x16<T>(sum[j], a, first);
                mma_16x8x16<T>(sum[j + 1], a, second);
            }
        }
    }
}

#endif
