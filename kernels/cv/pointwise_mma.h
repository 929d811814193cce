/* pointwise_mma.h - 1x1 convolution on a GPU's tensor cores, in one pass: the
 * norm on the way in, the product, the sums of what comes out.
 *
 * Included by pointwise.cu, within its namespace, for bf16 and fp16. A block
 * takes a tile of 16 rows a warp: it normalises PRODUCT_K columns of it into
 * shared memory, where for a narrow input they stay for all tiles of columns of
 * z, and multiplies them by the weights, which arrive PIECE_K columns ahead of
 * their use. So x is read once, or once for each PRODUCT_N columns of z, and z
 * written once; by norm_rows, a library's product and norm_sums it is 3 in and
 * 2 out. Rows and columns are summed in a fixed order.
 */
#ifndef MGPU_KERNELS_CV_POINTWISE_MMA_H
#define MGPU_KERNELS_CV_POINTWISE_MMA_H

#include "kernels/cv/pointwise_tile_mma.h"

/* The origin of `high` columns from c on: the mean of the first 8 of a warp's
 * 16 rows, or if there are fewer of a power of two of them, which keeps sums of
 * small integers exact. */
template <class T>
FN void leave_origin(const float (&sum)[TILES_N][4], acc<T> *origin,
                     int64_t rows, int64_t c, int high, int l)
{
    typedef vec<acc<T>, 2> V;
    int n = 8;

    while (n > rows)
        n /= 2;
    UNROLL for (int j = 0; j < TILES_N; j++)
    {
        V v;
        v.v[0] = sum[j][0];
        v.v[1] = sum[j][1];
        v = V::open(v.template round<T>());
        UNROLL for (int e = 0; e < 2; e++)
        {
            float s = l / 4 < n ? v.v[e] : 0;
            UNROLL for (int m = 16; m >= 4; m >>= 1) s +=
                __shfl_xor_sync(~0u, s, m);
            v.v[e] = s / (float)n;
        }
        if (l < 4 && j * 8 < high)
            v.store(origin + c + j * 8 + l * 2);
    }
}

/* z of a warp's 16 rows, from row lo on, and `high` columns from c on; sum
 * becomes {sums, sums, squares, squares} of a lane's two rows and columns. */
template <class T>
FN void leave_z(float (&sum)[TILES_N][4], T *z, const acc<T> *origin,
                int64_t lo, int64_t rows, int64_t c, int high, int64_t N, int l)
{
    typedef vec<acc<T>, 2> V;

    UNROLL for (int j = 0; j < TILES_N; j++)
    {
        V s = V::of(0), q = V::of(0);
        if (j * 8 < high) {
            const int64_t col = c + j * 8 + l % 4 * 2;
            const V o = origin ? V::load(origin + col) : V::of(0);
            UNROLL for (int h = 0; h < 2; h++)
            {
                const int64_t r = lo + l / 4 + h * 8;
                V v;
                v.v[0] = sum[j][2 * h];
                v.v[1] = sum[j][2 * h + 1];
                const auto m = v.template round<T>();
                if (r < rows) {
                    V::put(z + r * N + col, m);
                    const V d = V::open(m) - o;
                    s += d;
                    q += d * d;
                }
            }
        }
        sum[j][0] = s.v[0];
        sum[j][1] = s.v[1];
        sum[j][2] = q.v[0];
        sum[j][3] = q.v[1];
    }
}

/* Sums of a warp's rows into box [2, PRODUCT_N]: the 8 lanes that share columns
 * each end with an eighth of them. */
FN void sum_rows(float (&sum)[TILES_N][4], float *box, int l)
{
    constexpr int ALL = TILES_N * 4;
    float v[ALL];

    UNROLL for (int e = 0; e < ALL; e++) v[e] = sum[e / 4][e % 4];
    int first = 0, n = ALL;
    UNROLL for (int m = 16; m >= 4; m >>= 1)
    {
        n /= 2;
        const bool is_upper = l & m;
        first += is_upper ? n : 0;
        UNROLL for (int e = 0; e < ALL / 2; e++)
        {
            if (e < n) {
                const float mine = is_upper ? v[e + n] : v[e];
                const float other = is_upper ? v[e] : v[e + n];
                v[e] = mine + __shfl_xor_sync(~0u, other, m);
            }
        }
    }
    UNROLL for (int e = 0; e < ALL / 8; e++)
    {
        const int at = first + e;
        box[at % 4 / 2 * PRODUCT_N + at / 4 * 8 + l % 4 * 2 + at % 2] = v[e];
    }
}

/* z [rows, N] = u w^T, u = norm(x) + skip; y NULL, or u as well; and the sums
 * of z, about what the first rows of a block say. */
template <class T>
KERNEL_OF_TWO pw_product(blk b, T *z, own_sums<T> own, T *y, const T *x,
                         const T *skip, norm_of<T> in, const T *w, int64_t rows,
                         int64_t K, int64_t N)
{
    /* Of no class, which g++ would guard like any other static. */
    SHARED(uint16_t, u_room, MAX_LANES / 2 * LINE_K);
    SHARED(uint16_t, w_room, 2 * PRODUCT_N * LINE_PIECE);
    SHARED(float, box, MAX_LANES / 32 * 2 * PRODUCT_N);
    T *us = reinterpret_cast<T *>(u_room), *ws = reinterpret_cast<T *>(w_room);
    const int warps = b.width() / 32, l = b.lane() % 32, warp = b.lane() / 32;
    const int tall = warps * 16;
    const range mine = b.share((rows + tall - 1) / tall);

    double *part = own.part ? own.part + b.id() * 2 * N : nullptr;
    acc<T> *origin = part ? own.origin + b.id() * N : nullptr;
    if (part) {
        for (int64_t i : b.lanes(2 * N))
            part[i] = 0;
        for (int64_t i : b.lanes(N))
            origin[i] = 0;
        const int64_t end = mine.hi * tall < rows ? mine.hi * tall : rows;
        for (int64_t i : b.lanes(1))
            own.rows[b.id() + i] =
                mine.lo < mine.hi ? (double)(end - mine.lo * tall) : 0;
        b.sync(); /* each column has another lane below */
    }
    for (int64_t tile = mine.lo; tile < mine.hi; tile++) {
        const int64_t lo = tile * tall;
        for (int64_t c = 0; c < N; c += PRODUCT_N) {
            const int high = N - c < PRODUCT_N ? (int)(N - c) : (int)PRODUCT_N;
            float sum[TILES_N][4];
            UNROLL for (int e = 0; e < TILES_N * 4; e++) sum[e / 4][e % 4] = 0;
            ROLLED for (int64_t k = 0; k < K; k += PRODUCT_K)
            {
                const int wide =
                    K - k < PRODUCT_K ? (int)(K - k) : (int)PRODUCT_K;
                const int pieces = (wide + PIECE_K - 1) / PIECE_K;
                ask_for_w(b, ws, w, c, high, k, K);
                if (c == 0 || K > PRODUCT_K)
                    load_u(b, us, LINE_K, c == 0 ? y : nullptr, x, skip, in, lo,
                           tall, rows, k, wide, K);
                ROLLED for (int p = 0; p < pieces; p++)
                {
                    T *next = ws + (p + 1) % 2 * PRODUCT_N * LINE_PIECE;
                    if (p + 1 < pieces)
                        ask_for_w(b, next, w, c, high, k + (p + 1) * PIECE_K,
                                  K);
                    else
                        copy_group();
                    copy_wait<1>();
                    b.sync(); /* u and this piece are there */
                    const int left = wide - p * PIECE_K;
                    multiply(sum, us + warp * 16 * LINE_K + p * PIECE_K,
                             ws + p % 2 * PRODUCT_N * LINE_PIECE, high,
                             left < PIECE_K ? left : (int)PIECE_K, l);
                    b.sync(); /* both are free */
                }
            }
            if (part && tile == mine.lo) {
                if (warp == 0)
                    leave_origin<T>(sum, origin, rows - lo, c, high, l);
                b.sync(); /* the origins are there */
            }
            leave_z<T>(sum, z, origin, lo + warp * 16, rows, c, high, N, l);
            if (!part)
                continue;
            sum_rows(sum, box + warp * 2 * PRODUCT_N, l);
            b.sync(); /* the sums of all warps are there */
            for (int64_t i : b.lanes(2 * high)) {
                const int64_t q = i / high, col = i % high;
                float s = 0;
                for (int k = 0; k < warps; k++)
                    s += box[(k * 2 + q) * PRODUCT_N + col];
                part[q * N + c + col] += s;
            }
        }
    }
    copy_wait<0>();
}

#endif
