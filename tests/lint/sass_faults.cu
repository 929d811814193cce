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

} // namespace

void launch(void *y, const float *x, const int *at, int n)
{
    typedef __nv_bfloat16 T;
    good<T, 4><<<1, 32>>>((few<T, 4> *)y, x, n);
    slow<T, 4><<<1, 32>>>((few<T, 4> *)y, x, n);
    narrow<T, 4><<<1, 32>>>((T *)y, x, n);
    local<T><<<1, 1>>>((T *)y, at, x);
    allowed<T><<<1, 1>>>((T *)y, at, x);
}
