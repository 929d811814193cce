/* exec_mma.h - the tensor cores of a GPU: products of small matrices by a warp,
 * and how their operands get there.
 *
 * Every lane of a warp calls these together. A fragment is a lane's share of a
 * matrix of 16-bit values, two in a word, the first in the lower half. With
 * g = lane / 4 and t = lane % 4 in the warp:
 *
 *   A [16, 16]  a[0]: row g, columns 2t, 2t+1;  a[1]: row g+8;
 *               a[2]: row g, columns 2t+8, 2t+9;  a[3]: row g+8
 *   B [16, 8]   b[0]: rows 2t, 2t+1, column g;  b[1]: rows 2t+8, 2t+9
 *   C [16, 8]   c[0], c[1]: row g, columns 2t, 2t+1;  c[2], c[3]: row g+8
 *
 * Products are exact, sums are of fp32 in no order that is known.
 *
 * src  PTX ISA 9.0, "Matrix fragments for mma.m16n8k16 with floating point
 *      type", "ldmatrix", "cp.async" */
#ifndef MGPU_KERNELS_EXEC_EXEC_MMA_H
#define MGPU_KERNELS_EXEC_EXEC_MMA_H

#include "kernels/exec/exec.h"

#ifdef EXEC_CUDA
namespace
{

#ifdef MGPU_SIMT

/* c += A B */
template <class T>
FN void mma_16x8x16(float (&c)[4], const unsigned (&a)[4],
                    const unsigned (&b)[2])
{
    const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    T rows[2][16], cols[2][16]; /* of A: g, g + 8; of B: 2t, 2t + 1 */
    const void *at[32];

    simt_gather(SIMT_MMA_A, a, sizeof(a), at);
    for (unsigned of = 0; of < 4; of++)
        for (unsigned i = 0; i < 4; i++)
            memcpy(&rows[i % 2][of * 2 + i / 2 * 8],
                   (const char *)at[g * 4 + of] + i * 4, 4);
    simt_gather(SIMT_MMA_B, b, sizeof(b), at);
    for (unsigned col = 0; col < 2; col++)
        for (unsigned of = 0; of < 4; of++)
            for (unsigned i = 0; i < 2; i++)
                memcpy(&cols[col][of * 2 + i * 8],
                       (const char *)at[(2 * t + col) * 4 + of] + i * 4, 4);
    for (unsigned i = 0; i < 4; i++) {
        double s = c[i];
        for (unsigned k = 0; k < 16; k++)
            s += (double)(float)rows[i / 2][k] * (double)(float)cols[i % 2][k];
        c[i] = (float)s;
    }
}

/* The address of 16 bytes in shared memory. */
typedef uintptr_t shared_address;
FN shared_address in_shared(const void *p)
{
    return (shared_address)p;
}

/* N matrices [8, 8]; lanes 8i to 8i+7 give the rows of matrix i, 16 bytes
 * each in shared memory. r[i]: of matrix i row g, columns 2t, 2t+1; or with
 * Trans rows 2t, 2t+1 of column g. */
template <int N, bool Trans>
FN void ldmatrix(unsigned (&r)[N], shared_address row)
{
    const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const void *at[32];

    if (threadIdx.x % 32 < 8 * N && row % 16 != 0)
        simt_trap(SIMT_MISALIGNED);
    simt_gather(Trans ? SIMT_LDMATRIX_TRANS : SIMT_LDMATRIX, &row, sizeof(row),
                at);
    for (unsigned i = 0; i < N; i++) {
        uint16_t two[2];
        for (unsigned k = 0; k < 2; k++) {
            const void *from;
            memcpy(&from, at[8 * i + (Trans ? 2 * t + k : g)], sizeof(from));
            memcpy(&two[k], (const uint16_t *)from + (Trans ? g : 2 * t + k),
                   2);
        }
        r[i] = two[0] | (unsigned)two[1] << 16;
    }
}

/* Some time before copy_wait() returns: 16 bytes from global to shared memory.
 * Those after `bytes` (0 to 16) are not read; zeros are written for them. */
FN void copy_async(void *to, const void *from, int bytes)
{
    if ((uintptr_t)to % 16 != 0 || (bytes > 0 && (uintptr_t)from % 16 != 0))
        simt_trap(SIMT_MISALIGNED);
    simt_copy_later({to, from, bytes});
    if (simt_reverse)
        simt_copy_now(0, true);
}

/* What this lane has copied since the last one is a group. */
FN void copy_group()
{
    simt_copy_group();
}

/* This lane's groups have arrived, but for the last N. */
template <int N> FN void copy_wait()
{
    simt_copy_now(N, false);
}

#else

template <class T>
FN void mma_16x8x16(float (&c)[4], const unsigned (&a)[4],
                    const unsigned (&b)[2]);
template <>
FN void mma_16x8x16<bf16>(float (&c)[4], const unsigned (&a)[4],
                          const unsigned (&b)[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
FN void mma_16x8x16<f16>(float (&c)[4], const unsigned (&a)[4],
                         const unsigned (&b)[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

typedef unsigned shared_address;
FN shared_address in_shared(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

template <int N, bool Trans>
FN void ldmatrix(unsigned (&r)[N], shared_address row)
{
    static_assert(N == 2 || N == 4, "as many as a fragment of B or A");
    if constexpr (N == 4 && Trans)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                     "{%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(row)
                     : "memory");
    else if constexpr (N == 4)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                     "{%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(row)
                     : "memory");
    else if constexpr (Trans)
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 "
                     "{%0, %1}, [%2];"
                     : "=r"(r[0]), "=r"(r[1])
                     : "r"(row)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 "
                     "{%0, %1}, [%2];"
                     : "=r"(r[0]), "=r"(r[1])
                     : "r"(row)
                     : "memory");
}

FN void copy_async(void *to, const void *from, int bytes)
{
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(in_shared(to)),
        "l"(__cvta_generic_to_global(from)), "r"(bytes)
        : "memory");
}

FN void copy_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N> FN void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#endif

template <int N, bool Trans> FN void ldmatrix(unsigned (&r)[N], const void *row)
{
    ldmatrix<N, Trans>(r, in_shared(row));
}

} // namespace
#endif
#endif
