/* device_host.c - the host as a device: malloc'd memory, OpenMP blocks.
 *
 * Ops run synchronously, in the calling thread and its OpenMP team; sync() does
 * nothing. The number of OpenMP threads is a property of the calling thread, so
 * a device is used by the thread that created it. */
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/blas_host.h"
#include "kernels/exec/exec_device.h"
#include "kernels/host_cpu.h"

enum {
    ALIGN = 256, /* as cudaMalloc; a multiple of every SIMD register */
    MAX_THREADS = 1024,
    /* An OpenMP region costs some 2 us when its threads spin, which is what
     * one core needs for about this many values. */
    BLOCK_WORK = 16384,
    /* Of sums over rows, for any number of threads (exec_columns.h). */
    PARTS = 64,
    HUGE_PAGE = 2 << 20,
};

static void host_release(struct device *d, void *p)
{
    (void)d;
    free(p);
}

static int host_alloc(struct device *d, size_t bytes, void **ret,
                      struct error *err)
{
    (void)d;
    void *p = NULL;
    const size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : ALIGN;
    /* Of exactly this size, so that ASan detects an access past its end. */
    if (bytes > PTRDIFF_MAX || posix_memalign(&p, align, bytes + !bytes) != 0)
        return error_set(err, ERR_NOMEM, "%zu bytes of host memory", bytes);
    /* Passes over activations miss the TLB at every page of 4 kB. If the kernel
     * refuses huge pages, ordinary ones work. */
    if (bytes >= HUGE_PAGE)
        (void)madvise(p, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    *ret = p;
    return 0;
}

static void host_count(struct device *d, struct device_count *to)
{
    ((struct exec_device *)d)->counts = to;
}

static int move(struct device *d, enum device_work work, void *dst,
                const void *src, size_t bytes)
{
    struct exec_device *exec = (struct exec_device *)d;
    double begin_s = exec_begin(exec);

    if (bytes > 0)
        memmove(dst, src, bytes);
    exec_end(exec, work, begin_s, bytes);
    return 0;
}

static int host_to_device(struct device *d, void *dst, const void *src,
                          size_t bytes, struct error *err)
{
    (void)err;
    return move(d, DEVICE_TO_DEVICE, dst, src, bytes);
}

static int host_to_host(struct device *d, void *dst, const void *src,
                        size_t bytes, struct error *err)
{
    (void)err;
    return move(d, DEVICE_TO_HOST, dst, src, bytes);
}

static int host_copy(struct device *d, void *dst, const void *src, size_t bytes,
                     struct error *err)
{
    (void)err;
    return move(d, DEVICE_COPY, dst, src, bytes);
}

static int host_zero(struct device *d, void *dst, size_t bytes,
                     struct error *err)
{
    (void)d;
    (void)err;
    if (bytes > 0)
        memset(dst, 0, bytes);
    return 0;
}

static int host_sync(struct device *d, struct error *err)
{
    (void)d;
    (void)err;
    return 0;
}

static int host_grow(struct exec_device *exec, size_t bytes, struct error *err)
{
    void *p = NULL;

    if (host_alloc(&exec->base, bytes, &p, err) < 0)
        return error_wrap(err, "work space: lower train.batch_size or "
                               "dataset.image_size");
    free(exec->scratch);
    exec->scratch = p;
    exec->scratch_bytes = bytes;
    return 0;
}

static void host_destroy(struct device *d)
{
    struct exec_device *exec = (struct exec_device *)d;

    if (!exec)
        return;
    free(exec->scratch);
    free(exec);
}

static void install(struct exec_device *exec)
{
#if HAVE_WIDE
    if (host_cpu().avx512) { /* the wide build is for all of x86-64-v4 */
        KERNEL_FAMILIES(KERNEL_INSTALL, wide)
        return;
    }
#endif
    KERNEL_FAMILIES(KERNEL_INSTALL, host)
}

int device_host_create(int32_t threads, struct device **ret, struct error *err)
{
    if (threads < 0 || threads > MAX_THREADS)
        return error_set(err, ERR_INVAL, "%d threads: expected 0..%d", threads,
                         MAX_THREADS);
    if (blas_open(err) < 0)
        return -1;
    struct exec_device *exec = calloc(1, sizeof(*exec));
    if (!exec)
        return error_set(err, ERR_NOMEM, "a device");
    if (threads == 0)
        threads = omp_get_max_threads();
    exec->base.ops = &exec->ops;
    exec->base.threads = threads;
    exec->base.host_memory = true;
    exec->base.row_bytes = 1;
    exec->lanes = 1;
    exec->max_blocks = threads;
    exec->max_parts = PARTS;
    exec->block_work = BLOCK_WORK;
    exec->grow = host_grow;
    exec->ops = (struct device_ops){
        .name = "host",
        .destroy = host_destroy,
        .alloc = host_alloc,
        .release = host_release,
        .to_device = host_to_device,
        .to_host = host_to_host,
        .copy = host_copy,
        .zero = host_zero,
        .sync = host_sync,
        .gemm = host_gemm,
        .count = host_count,
    };
    install(exec);
    host_gemm_threads(threads);
    *ret = &exec->base;
    return 0;
}
