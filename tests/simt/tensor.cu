/* tensor.cu - products by a warp, loads of matrices and copies beside the work,
 * and kernels that use them wrongly, which the emulator has to find. */
#include "kernels/exec/exec_mma.h"
#include "tests/simt/simt_device.h"

namespace
{

enum { M = 16, N = 8, K = 16, LD = 24, LANES = 64 };

/* By the tables of the PTX ISA, element by element, and not by words: element i
 * of A, B and C as lane `l` of a warp has it. */
FN int row_of_a(int l, int i)
{
    return l / 4 + (i < 2 || (i >= 4 && i < 6) ? 0 : 8);
}
FN int col_of_a(int l, int i)
{
    return l % 4 * 2 + (i & 1) + (i < 4 ? 0 : 8);
}
FN int row_of_b(int l, int i)
{
    return l % 4 * 2 + (i & 1) + (i < 2 ? 0 : 8);
}
FN int row_of_c(int l, int i)
{
    return l / 4 + (i < 2 ? 0 : 8);
}
FN int col_of_c(int l, int i)
{
    return l % 4 * 2 + (i & 1);
}

/* Each warp has matrices of its own, [M, K], [K, N], [M, N]. */
template <class T>
KERNEL by_element(blk b, float *d, const T *A, const T *B, const float *C)
{
    const int l = b.lane() % 32, w = b.lane() / 32;
    T a[8], of_b[4];
    unsigned wa[4], wb[2];
    float c[4];

    for (int i = 0; i < 8; i++)
        a[i] = A[w * M * K + row_of_a(l, i) * K + col_of_a(l, i)];
    for (int i = 0; i < 4; i++)
        of_b[i] = B[w * K * N + row_of_b(l, i) * N + l / 4];
    for (int i = 0; i < 4; i++)
        c[i] = C[w * M * N + row_of_c(l, i) * N + col_of_c(l, i)];
    memcpy(wa, a, sizeof(wa));
    memcpy(wb, of_b, sizeof(wb));
    mma_16x8x16<T>(c, wa, wb);
    for (int i = 0; i < 4; i++)
        d[w * M * N + row_of_c(l, i) * N + col_of_c(l, i)] = c[i];
}

/* The same from shared memory: A's rows, and B by rows, as [K, N], or
 * transposed, as [N, K]. */
template <class T, bool Trans>
KERNEL by_matrix(blk b, float *d, const T *A, const T *B, const float *C)
{
    SHARED(T, of_a, 2 * M * LD);
    SHARED(T, of_b, 2 * K * LD);
    const int l = b.lane() % 32, w = b.lane() / 32;
    unsigned wa[4], wb[2];
    float c[4];

    for (int64_t i : b.lanes(2 * M * K))
        of_a[i / K * LD + i % K] = A[i];
    for (int64_t i : b.lanes(2 * K * N)) {
        int64_t m = i / (K * N), k = i / N % K, n = i % N;
        of_b[(m * K + (Trans ? k : n)) * LD + (Trans ? n : k)] = B[i];
    }
    b.sync();
    ldmatrix<4, false>(wa, of_a + (w * M + l % 16) * LD + l / 16 * 8);
    if (Trans)
        ldmatrix<2, true>(wb, of_b + (w * K + l % 16) * LD);
    else
        ldmatrix<2, false>(wb, of_b + (w * K + l % 8) * LD + l / 8 % 2 * 8);
    for (int i = 0; i < 4; i++)
        c[i] = C[w * M * N + row_of_c(l, i) * N + col_of_c(l, i)];
    mma_16x8x16<T>(c, wa, wb);
    for (int i = 0; i < 4; i++)
        d[w * M * N + row_of_c(l, i) * N + col_of_c(l, i)] = c[i];
}

enum fault {
    NONE,
    NO_WAIT,       /* for a group: the line is not there */
    NO_GROUP,      /* so there is nothing to wait for */
    NO_BARRIER,    /* between the last read of a line and the next copy */
    LANE_ODD_COPY, /* an address that is no multiple of 16 */
};

/* out[i] = the sums of the lines of x [lines, LANES, 4] that the opposite
 * lane has copied, two lines under way. The last line is half a one. */
template <fault F>
KERNEL copied(blk b, float *out, const float *x, int lines)
{
    SHARED(float, box, 2 * LANES * 4);
    const int i = b.lane(), other = LANES - 1 - i;
    float sum = 0;
    auto start = [&](int n) {
        float *to = box + (n % 2 * LANES + i) * 4;
        if (F == LANE_ODD_COPY && i == 40)
            to++;
        if (n < lines)
            copy_async(to, x + (n * LANES + i) * 4, n + 1 < lines ? 16 : 8);
        if (F != NO_GROUP)
            copy_group();
    };

    start(0);
    start(1);
    for (int n = 0; n < lines; n++) {
        if (F != NO_WAIT)
            copy_wait<1>();
        b.sync();
        for (int k = 0; k < 4; k++)
            sum += box[(n % 2 * LANES + other) * 4 + k];
        if (F != NO_BARRIER)
            b.sync();
        start(n + 2);
    }
    copy_wait<0>();
    out[i] = sum;
}

enum meeting { LANE_MISSES, LANE_LOADS, LANE_ODD_ROW, LANE_LEAVES_COPY };

template <meeting F> KERNEL misled(blk b, float *out)
{
    SHARED(uint16_t, box, M * LD);
    const int i = b.lane();
    unsigned a[4] = {0, 0, 0, 0}, two[2] = {0, 0};
    float c[4] = {0, 0, 0, 0};

    for (int64_t k : b.lanes(M * LD))
        box[k] = 0;
    b.sync();
    const uint16_t *row = box + i % 16 * LD;
    if (F == LANE_ODD_ROW)
        ldmatrix<2, false>(two, i == 9 ? row + 1 : row);
    if (F == LANE_LEAVES_COPY && i == 9)
        copy_async(box, out, 16);
    if (F == LANE_LOADS && i == 40)
        ldmatrix<2, false>(two, row);
    else if (F != LANE_MISSES || i != 40)
        mma_16x8x16<bf16>(c, a, two);
    out[i] = c[0];
}

template <class T>
int products(int how, float *d, const void *A, const void *B, const float *C)
{
    return simt_launch(1, LANES, [=] {
        if (how == 0)
            by_element<T>(blk{}, d, (const T *)A, (const T *)B, C);
        else if (how == 1)
            by_matrix<T, true>(blk{}, d, (const T *)A, (const T *)B, C);
        else
            by_matrix<T, false>(blk{}, d, (const T *)A, (const T *)B, C);
    });
}

template <meeting F> int mislead(float *out)
{
    return simt_launch(1, LANES, [=] { misled<F>(blk{}, out); });
}
template <fault F> int copy(float *out, const float *x, int lines)
{
    return simt_launch(1, LANES, [=] { copied<F>(blk{}, out, x, lines); });
}

} // namespace

int simt_try_product(bool is_bf16, int how, float *d, const void *A,
                     const void *B, const float *C)
{
    return is_bf16 ? products<bf16>(how, d, A, B, C)
                   : products<f16>(how, d, A, B, C);
}
int simt_try_copies(int fault, float *out, const float *x, int lines)
{
    switch (fault) {
    case NONE:
        return copy<NONE>(out, x, lines);
    case NO_WAIT:
        return copy<NO_WAIT>(out, x, lines);
    case NO_GROUP:
        return copy<NO_GROUP>(out, x, lines);
    case NO_BARRIER:
        return copy<NO_BARRIER>(out, x, lines);
    default:
        return copy<LANE_ODD_COPY>(out, x, lines);
    }
}
int simt_try_misled(int how, float *out)
{
    switch (how) {
    case LANE_MISSES:
        return mislead<LANE_MISSES>(out);
    case LANE_LOADS:
        return mislead<LANE_LOADS>(out);
    case LANE_ODD_ROW:
        return mislead<LANE_ODD_ROW>(out);
    default:
        return mislead<LANE_LEAVES_COPY>(out);
    }
}
