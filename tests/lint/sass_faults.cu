// sass_faults.cu - kernels with one fault each, for the self-test of sass.sh;
// the lines that follow are its tables.
//
// | kernel, as compiled | at most |
// | --- | --- |
// | `good<bf16, 4>` | 12 |
// | `slow<bf16, 4>` | 12 |
// | `gone<bf16, 4>` | 12 |
//
// | kernel with local memory | what |
// | --- | --- |
// | `allowed` | an array |
//
// | kernel of single values | why |
// | --- | --- |
// | `twice`, `wide` | an example |
//
// | kernel of tiles, as compiled | pairs of a lane | passes of a fetch | at most |
// | --- | --- | --- | --- |
// | `beside<bf16>` | 8 | 1 | 12 |
// | `scalar<bf16>` | 8 | 1 | 12 |
#include <cuda_bf16.h>

namespace
{

template <class T, int W> struct alignas(sizeof(T) * W) few {
    T e[W];
};

template <class T, int W>
__global__ void good(few<T, W> *y, const float *x, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        few<T, W> m;
        for (int k = 0; k < W; k++)
            m.e[k] = (T)x[i * W + k];
        uint2 u;
        memcpy(&u, &m, sizeof(u));
        asm volatile("st.v2.b32 [%0], {%1, %2};" ::"l"(y + i), "r"(u.x),
                     "r"(u.y)
                     : "memory");
    }
}

// A division per value.
template <class T, int W>
__global__ void slow(few<T, W> *y, const float *x, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        few<T, W> m;
        for (int k = 0; k < W; k++)
            m.e[k] = (T)(x[i * W + k] / x[i]);
        y[i] = m;
    }
}

// A store per value.
template <class T, int W> __global__ void narrow(T *y, const float *x, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        for (int k = 0; k < W; k++)
            y[(i * W + k) * 3] = (T)x[i * W + k];
}

// The same without a width; one of them may.
template <class T> __global__ void once(T *y, const float *x, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[i] = (T)x[i];
}
template <class T> __global__ void twice(T *y, const float *x, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[i] = (T)(2 * x[i]);
}

// A number that is no width, but the size of a head.
template <class T, int D> __global__ void heads(T *y, const float *x, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[i * D] = (T)x[i * D];
}

// Beside a loop in the loop.
template <class T> __global__ void outer(T *y, const float *x, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float s = 0;
        for (int k = 0; k < n; k++)
            s += x[k] * s + x[i];
        y[i] = (T)s;
    }
}

// An array with an index that is not known.
__device__ float pick(const int *at, const float *x)
{
    float box[32];
    for (int k = 0; k < 32; k++)
        box[k] = x[k];
    for (int k = 0; k < 32; k++)
        box[at[k]] += box[at[k + 32]];
    return box[at[0]];
}
template <class T> __global__ void local(T *y, const int *at, const float *x)
{
    y[0] = (T)pick(at, x);
}
template <class T> __global__ void allowed(T *y, const int *at, const float *x)
{
    y[0] = (T)pick(at, x);
}

// Products on tensor cores, and divisions beside them.
template <class T> __global__ void beside(float *c, const unsigned *a, int n)
{
    float s[4] = {c[0], c[1], c[2], c[3]};
    for (int i = 0; i < n; i++)
#pragma unroll
        for (int k = 0; k < 8; k++) {
            asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                "{%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, "
                "{%0, %1, %2, %3};"
                : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
                : "r"(a[i * 8 + k]));
            for (int j = 0; j < 4; j++)
                s[j] /= c[4 + j];
        }
    for (int j = 0; j < 4; j++)
        c[j] = s[j];
}

// None.
template <class T> __global__ void scalar(float *c, const T *a, int n)
{
    for (int i = 0; i < n; i++)
        c[0] += (float)a[i];
}

} // namespace

void launch(void *y, const float *x, const int *at, int n)
{
    typedef __nv_bfloat16 T;
    good<T, 4><<<1, 32>>>((few<T, 4> *)y, x, n);
    slow<T, 4><<<1, 32>>>((few<T, 4> *)y, x, n);
    narrow<T, 4><<<1, 32>>>((T *)y, x, n);
    once<T><<<1, 32>>>((T *)y, x, n);
    twice<T><<<1, 32>>>((T *)y, x, n);
    heads<T, 128><<<1, 32>>>((T *)y, x, n);
    outer<T><<<1, 32>>>((T *)y, x, n);
    local<T><<<1, 1>>>((T *)y, at, x);
    allowed<T><<<1, 1>>>((T *)y, at, x);
    beside<T><<<1, 32>>>((float *)y, (const unsigned *)at, n);
    scalar<T><<<1, 1>>>((float *)y, (const T *)at, n);
}
