/* device_simt.cpp - the emulated lanes as a device. */
#include <stdlib.h>
#include <string.h>

#include "kernels/exec/exec_device.h"
#include "kernels/exec/simd_types.h"
#include "tests/simt/simt.h"
#include "tests/simt/simt_device.h"

extern bool simt_reverse;

namespace
{

enum {
    ALIGN = 256,
    /* Few, so that emulation is quick, and odd, so that the last block gets
     * less than its share. */
    BLOCKS = 3,
    BLOCK_WORK = 256,
};

void release(struct device *, void *p)
{
    free(p);
}

/* Of exactly this size: what lies behind it belongs to ASan. */
int alloc(struct device *, size_t bytes, void **ret, struct error *err)
{
    void *p = nullptr;

    if (bytes > PTRDIFF_MAX || posix_memalign(&p, ALIGN, bytes + !bytes) != 0)
        return error_set(err, ERR_NOMEM, "%zu bytes", bytes);
    memset(p, 0, bytes);
    *ret = p;
    return 0;
}

int copy(struct device *, void *dst, const void *src, size_t bytes,
         struct error *)
{
    if (bytes > 0)
        memmove(dst, src, bytes);
    return 0;
}

int zero(struct device *, void *dst, size_t bytes, struct error *)
{
    if (bytes > 0)
        memset(dst, 0, bytes);
    return 0;
}

int sync(struct device *, struct error *)
{
    return 0;
}

int grow(struct exec_device *exec, size_t bytes, struct error *err)
{
    void *p = nullptr;

    if (alloc(&exec->base, bytes, &p, err) < 0)
        return -1;
    free(exec->scratch);
    exec->scratch = p;
    exec->scratch_bytes = bytes;
    return 0;
}

int report(struct exec_device *exec, const char *op, struct error *err)
{
    static const char *const faults[] = {"", "a lane missed a barrier",
                                         "a lane missed a shuffle",
                                         "a block of that size cannot be",
                                         "an address is no multiple of 16",
                                         "a copy was not waited for"};

    return error_set(err, ERR_EXTERN, "%s: %s", op, faults[exec->failed]);
}

/* With 160 lanes the product is always slower than a library's, so that both
 * ways are tried. */
int faster(struct exec_device *exec, const int64_t *,
           int (*run)(void *arg, bool second, struct error *err), void *arg,
           bool *ret_second, struct error *err)
{
    *ret_second = exec->lanes == 160;
    /* As a device does that measures: each may run before the one that counts. */
    return run(arg, !*ret_second, err);
}

/* GEMM is not a kernel of ours: the definition will do. */
template <class T>
void multiply(bool ta, bool tb, int m, int n, int k, double alpha, const T *A,
              int64_t lda, const T *B, int64_t ldb, double beta, T *C,
              int64_t ldc)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double s = 0;
            for (int l = 0; l < k; l++)
                s += (double)(ta ? A[l * lda + i] : A[i * lda + l]) *
                     (double)(tb ? B[j * ldb + l] : B[l * ldb + j]);
            T *c = C + i * ldc + j;
            *c = (T)(alpha * s + (beta == 0 ? 0 : beta * (double)*c));
        }
}

int gemm(struct device *, enum dtype dt, bool ta, bool tb, int32_t m, int32_t n,
         int32_t k, double alpha, const void *A, int32_t lda, const void *B,
         int32_t ldb, double beta, void *C, int32_t ldc, struct error *err)
{
    if (gemm_check(dt, ta, tb, m, n, k, lda, ldb, ldc, err) < 0)
        return -1;
#define MULTIPLY(T)                                                        \
    multiply(ta, tb, m, n, k, alpha, (const T *)A, lda, (const T *)B, ldb, \
             beta, (T *)C, ldc)
    switch (dt) {
    case DT_F64:
        MULTIPLY(double);
        break;
    case DT_F32:
        MULTIPLY(float);
        break;
    case DT_F16:
        MULTIPLY(f16);
        break;
    default:
        MULTIPLY(bf16);
    }
    return 0;
}

void destroy(struct device *d)
{
    struct exec_device *exec = reinterpret_cast<struct exec_device *>(d);

    if (!exec)
        return;
    free(exec->scratch);
    free(exec);
}

} // namespace

int device_simt_create(int32_t lanes, bool reverse, struct device **ret,
                       struct error *err)
{
    struct exec_device *exec =
        static_cast<struct exec_device *>(calloc(1, sizeof(*exec)));
    if (!exec)
        return error_set(err, ERR_NOMEM, "a device");
    exec->base.ops = &exec->ops;
    exec->base.host_memory = true;
    exec->base.row_bytes = 16;
    exec->lanes = lanes;
    exec->max_blocks = BLOCKS;
    exec->max_parts = BLOCKS;
    exec->block_work = BLOCK_WORK;
    exec->grow = grow;
    exec->report = report;
    exec->faster = faster;
    exec->ops.name = "simt";
    exec->ops.destroy = destroy;
    exec->ops.alloc = alloc;
    exec->ops.release = release;
    exec->ops.to_device = copy;
    exec->ops.to_host = copy;
    exec->ops.copy = copy;
    exec->ops.zero = zero;
    exec->ops.sync = sync;
    exec->ops.gemm = gemm;
    KERNEL_FAMILIES(KERNEL_INSTALL, simt)
    simt_reverse = reverse;
    *ret = &exec->base;
    return 0;
}
