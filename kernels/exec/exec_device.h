/* exec_device.h - the part of a device that the launch code uses, in every
 * build.
 *
 * Each family of kernels (one .cu file) is compiled up to four times and
 * yields, per build, one function that fills in its members of the ops table:
 * host_depthwise(), wide_depthwise(), cuda_depthwise(), simt_depthwise(). The
 * names distinguish the builds, so that a test can link two into one
 * process. */
#ifndef MGPU_KERNELS_EXEC_EXEC_DEVICE_H
#define MGPU_KERNELS_EXEC_EXEC_DEVICE_H

#include "jobs/base/clock.h"
#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* First member of the host, cuda and simt devices. */
enum { VARIANT_KEY = 5 };

struct exec_device {
    struct device base;
    struct device_ops ops; /* base.ops points here */

    int32_t lanes;      /* lanes in a block; the host has 1 */
    int64_t max_blocks; /* more blocks would only wait for each other */
    int64_t max_parts;  /* partial results that a reduction may leave */
    int64_t block_work; /* number of values that justify one more block */

    /* Partial sums live here. It grows to the largest shape seen and is then
     * never allocated again; its contents last for one op. */
    void *scratch;
    size_t scratch_bytes;
    int (*grow)(struct exec_device *d, size_t bytes, struct error *err);

    void *stream; /* cuda: the cudaStream_t */
    int failed;   /* the first launch that failed: a cudaError_t */
    int (*report)(struct exec_device *d, const char *op, struct error *err);
    /* Optional. Which of two variants of one computation is taken for calls
     * that have this key: run(arg, false) or run(arg, true), which may run many
     * times. */
    int (*faster)(struct exec_device *d, const int64_t key[VARIANT_KEY],
                  int (*run)(void *arg, bool second, struct error *err),
                  void *arg, bool *ret_second, struct error *err);

    struct device_count *counts; /* host: [DEVICE_WORK_N], or NULL */
};

/* Around one work on the host: counts its calls, bytes and time if counting is
 * on. */
static inline double exec_begin(const struct exec_device *d)
{
    return d->counts ? clock_real.now_s(&clock_real) : 0;
}
static inline void exec_end(struct exec_device *d, enum device_work work,
                            double begin_s, size_t bytes)
{
    if (!d->counts)
        return;
    struct device_count *c = &d->counts[work];
    c->calls++;
    c->bytes += (int64_t)bytes;
    c->total_s += clock_real.now_s(&clock_real) - begin_s;
}

#define KERNEL_FAMILIES(X, build) \
    X(build, attention)           \
    X(build, attention_step)      \
    X(build, batchnorm)           \
    X(build, cast)                \
    X(build, depthwise)           \
    X(build, elementwise)         \
    X(build, fake_quant)          \
    X(build, head_norm)           \
    X(build, image)               \
    X(build, loss)                \
    X(build, nf4)                 \
    X(build, optim)               \
    X(build, pairs)               \
    X(build, pointwise)           \
    X(build, pool)                \
    X(build, rmsnorm)             \
    X(build, rope)                \
    X(build, rows)                \
    X(build, swiglu)
#define KERNEL_DECLARE(build, family) \
    void build##_##family(struct device_ops *ops);
#define KERNEL_INSTALL(build, family) build##_##family(&exec->ops);

KERNEL_FAMILIES(KERNEL_DECLARE, host)
KERNEL_FAMILIES(KERNEL_DECLARE, wide) /* the host's, with AVX-512 */
KERNEL_FAMILIES(KERNEL_DECLARE, cuda)
KERNEL_FAMILIES(KERNEL_DECLARE, simt)

/* GEMM on the host's own memory, by gemm_host.c; a member of the ops table. It
 * may copy into scratch: not for use within an op that has values there. */
int host_gemm(struct device *d, enum dtype dt, bool ta, bool tb, int32_t m,
              int32_t n, int32_t k, double alpha, const void *A, int32_t lda,
              const void *B, int32_t ldb, double beta, void *C, int32_t ldc,
              struct error *err);
void host_gemm_threads(int32_t threads);

/* 0, or -1 and err if the shape of a GEMM is invalid; shared by all builds. */
int gemm_check(enum dtype dt, bool ta, bool tb, int32_t m, int32_t n, int32_t k,
               int32_t lda, int32_t ldb, int32_t ldc, struct error *err);

#ifdef __cplusplus
}
#endif
#endif
