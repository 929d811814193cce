/* device_cuda.c - a GPU as a device: memory and one stream. In the plug-in
 * libmgpu-cuda.so, with gemm_cuda.c and the kernels as nvcc compiles them.
 *
 * All work goes to one stream of the device's own, so ops run in the order of
 * the calls and block no other work on the GPU. A launch or a copy only reports
 * that it was refused; a later call reports an error of a running kernel, at
 * the latest sync() or to_host(). */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/card_name.h"
#include "kernels/cuda_fault.h"
#include "kernels/exec/exec_cuda.h"

_Static_assert(CUDA_UNAVAILABLE == (int)cudaErrorDevicesUnavailable &&
                   CUDA_ECC == (int)cudaErrorECCUncorrectable &&
                   CUDA_NVLINK == (int)cudaErrorNvlinkUncorrectable &&
                   CUDA_NOT_READY == (int)cudaErrorSystemNotReady &&
                   CUDA_UNKNOWN == (int)cudaErrorUnknown,
               "cuda_fault.h has CUDA's numbers");

/* Every CUDA call goes through this function, the only translation of CUDA's
 * errors. */
int cuda_check(int status, const char *what, struct error *err)
{
    cudaError_t e = (cudaError_t)status;

    if (e == cudaSuccess)
        return 0;
    /* CUDA keeps the error for the next cudaGetLastError(), where launch()
     * would take it for its own. */
    (void)cudaGetLastError();
    switch (e) {
    case cudaErrorMemoryAllocation:
        return error_set(err, ERR_NOMEM, "%s: out of GPU memory", what);
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
        return error_set(err, ERR_UNAVAIL, "%s: no usable CUDA driver (%s)",
                         what, cudaGetErrorString(e));
    case cudaErrorNoDevice:
        return error_set(err, ERR_UNAVAIL, "%s: no GPU", what);
    default:
        return error_set(err, cuda_is_fault(status) ? ERR_DEVICE : ERR_EXTERN,
                         "%s: CUDA: %s (the driver's messages are in dmesg and "
                         "nvidia-smi -q)",
                         what, cudaGetErrorString(e));
    }
}

static cudaStream_t stream_of(struct device *d)
{
    return (cudaStream_t)((struct exec_device *)d)->stream;
}

static int cuda_report(struct exec_device *exec, const char *op,
                       struct error *err)
{
    (void)cuda_check(exec->failed, op, err);
    if (err && err->code == ERR_NOMEM) /* the kernel's module, at first use */
        (void)error_wrap(err, "CUDA and NCCL of the memory plan: lower "
                              "train.batch_size");
    /* A launch that lacks resources is not alloc's ERR_NOMEM. */
    if (err && err->code != ERR_DEVICE)
        err->code = ERR_EXTERN;
    return -1;
}

static void *cuda_stream(struct device *d)
{
    return stream_of(d); /* a cudaStream_t is a CUstream */
}

static const char *cuda_bus(struct device *d)
{
    return ((struct cuda_device *)d)->bus;
}

static int cuda_sync(struct device *d, struct error *err)
{
    return cuda_check((int)cudaStreamSynchronize(stream_of(d)), "sync", err);
}

static void cuda_release(struct device *d, void *p)
{
    (void)d;
    (void)cudaFree(p); /* waits for the work that uses it */
}

/* Zeroed before it returns: another stream (NCCL's) may use it first. */
static int cuda_alloc(struct device *d, size_t bytes, void **ret,
                      struct error *err)
{
    void *p = NULL;
    size_t room = bytes > 0 ? bytes : 1;

    if (cuda_check((int)cudaMalloc(&p, room), "alloc", err) < 0)
        return -1;
    if (cuda_check((int)cudaMemsetAsync(p, 0, room, stream_of(d)), "alloc",
                   err) < 0 ||
        cuda_sync(d, err) < 0) {
        (void)cudaFree(p);
        return -1;
    }
    *ret = p;
    return 0;
}

static int cuda_pin(struct device *d, void *host, size_t bytes,
                    struct error *err)
{
    (void)d;
    return cuda_check(
        (int)cudaHostRegister(host, bytes, cudaHostRegisterDefault), "pin",
        err);
}

static void cuda_unpin(struct device *d, void *host)
{
    (void)cuda_sync(d, NULL); /* a copy from it may be under way */
    (void)cudaHostUnregister(host);
}

/* Pageable memory may be reused when this returns; pinned memory is read when
 * the stream reaches the copy. */
static int cuda_to_device(struct device *d, void *dst, const void *host_src,
                          size_t bytes, struct error *err)
{
    return cuda_check((int)cudaMemcpyAsync(dst, host_src, bytes,
                                           cudaMemcpyHostToDevice,
                                           stream_of(d)),
                      "to_device", err);
}

static int cuda_to_host(struct device *d, void *host_dst, const void *src,
                        size_t bytes, struct error *err)
{
    if (cuda_check((int)cudaMemcpyAsync(host_dst, src, bytes,
                                        cudaMemcpyDeviceToHost, stream_of(d)),
                   "to_host", err) < 0)
        return -1;
    return cuda_check((int)cudaStreamSynchronize(stream_of(d)), "to_host", err);
}

static int cuda_copy(struct device *d, void *dst, const void *src, size_t bytes,
                     struct error *err)
{
    return cuda_check((int)cudaMemcpyAsync(dst, src, bytes,
                                           cudaMemcpyDeviceToDevice,
                                           stream_of(d)),
                      "copy", err);
}

static int cuda_zero(struct device *d, void *dst, size_t bytes,
                     struct error *err)
{
    return cuda_check((int)cudaMemsetAsync(dst, 0, bytes, stream_of(d)), "zero",
                      err);
}

/* A graph contains the address of the scratch at its capture: while a graph
 * exists, the old scratch is kept. */
static int cuda_grow(struct exec_device *exec, size_t bytes, struct error *err)
{
    struct cuda_device *cuda = (struct cuda_device *)exec;
    void *p = NULL;

    if (cuda->captures || cuda->n_retired == RETIRED_MOST)
        return error_set(err, ERR_EXTERN,
                         "work space: %zu bytes while a step is captured",
                         bytes);
    if (cuda_check((int)cudaMalloc(&p, bytes),
                   "work of the memory plan: lower train.batch_size, or "
                   "dataset.image_size or train.tokenizer.max_seq_len",
                   err) < 0)
        return -1;
    if (cuda->graphs > 0 && exec->scratch)
        cuda->retired[cuda->n_retired++] = exec->scratch;
    else
        (void)cudaFree(exec->scratch); /* waits for the work that uses it */
    exec->scratch = p;
    exec->scratch_bytes = bytes;
    return 0;
}

static int cuda_memory(struct device *d, size_t *ret_free, size_t *ret_total,
                       struct error *err)
{
    (void)d;
    return cuda_check((int)cudaMemGetInfo(ret_free, ret_total), "memory", err);
}

static void cuda_destroy(struct device *d)
{
    struct cuda_device *cuda = (struct cuda_device *)d;

    if (!cuda)
        return;
    if (cuda->exec.stream)
        (void)cudaStreamSynchronize(stream_of(d));
    cuda_queue_close(cuda);
    cuda_gemm_close(cuda);
    if (cuda->exec.stream)
        (void)cudaStreamDestroy(stream_of(d));
    for (int32_t i = 0; i < cuda->n_retired; i++)
        (void)cudaFree(cuda->retired[i]);
    (void)cudaFree(cuda->exec.scratch);
    free(cuda);
}

static void fill_in(struct exec_device *exec, int32_t multiprocessors)
{
    exec->base.ops = &exec->ops;
    exec->base.row_bytes = CUDA_ROW_BYTES;
    exec->lanes = CUDA_LANES;
    exec->max_blocks = (int64_t)multiprocessors * CUDA_BLOCKS_PER_SM;
    exec->max_parts = (int64_t)multiprocessors * CUDA_PARTS_PER_SM;
    exec->block_work = CUDA_BLOCK_WORK;
    exec->grow = cuda_grow;
    exec->report = cuda_report;
    exec->faster = cuda_faster;
    exec->ops = (struct device_ops){
        .name = "cuda",
        .destroy = cuda_destroy,
        .alloc = cuda_alloc,
        .release = cuda_release,
        .pin = cuda_pin,
        .unpin = cuda_unpin,
        .to_device = cuda_to_device,
        .to_host = cuda_to_host,
        .copy = cuda_copy,
        .zero = cuda_zero,
        .sync = cuda_sync,
        .memory = cuda_memory,
        .allow_tf32 = cuda_allow_tf32,
        .tune = cuda_tune,
        .gemm = cuda_gemm,
        .stream = cuda_stream,
        .bus = cuda_bus,
    };
    cuda_queue_install(&exec->ops);
    KERNEL_FAMILIES(KERNEL_INSTALL, cuda)
}

__attribute__((visibility("default"))) int mgpu_cuda_count(int32_t *ret,
                                                           struct error *err)
{
    int n = 0;

    if (cuda_check((int)cudaGetDeviceCount(&n), "CUDA", err) < 0)
        return -1;
    *ret = n;
    return 0;
}

__attribute__((visibility("default"))) int mgpu_cuda_card(
    int32_t index, char ret[CARD_NAME_CAP], struct error *err)
{
    struct cudaDeviceProp about;

    if (cuda_check((int)cudaGetDeviceProperties(&about, index), "CUDA", err) <
        0)
        return -1;
    (void)snprintf(ret, CARD_NAME_CAP, "%s", about.name);
    return 0;
}

/* Checks that there is a driver and that it has this GPU. */
static int find_gpu(int32_t index, int32_t *ret_multiprocessors,
                    struct error *err)
{
    int n = 0, multiprocessors = 0;

    if (cuda_check((int)cudaGetDeviceCount(&n), "CUDA", err) < 0)
        return -1;
    if (index >= n)
        return error_set(err, ERR_UNAVAIL, "CUDA: no GPU %d: there are %d",
                         index, n);
    if (cuda_check((int)cudaSetDevice(index), "CUDA", err) < 0 ||
        cuda_check((int)cudaDeviceGetAttribute(
                       &multiprocessors, cudaDevAttrMultiProcessorCount, index),
                   "CUDA", err) < 0)
        return -1;
    *ret_multiprocessors = multiprocessors;
    return 0;
}

__attribute__((visibility("default"))) int mgpu_cuda_open(int32_t index,
                                                          struct device **ret,
                                                          struct error *err)
{
    int32_t multiprocessors = 0;

    if (find_gpu(index, &multiprocessors, err) < 0)
        return -1;
    struct cuda_device *cuda = calloc(1, sizeof(*cuda));
    if (!cuda)
        return error_set(err, ERR_NOMEM, "a device");
    fill_in(&cuda->exec, multiprocessors);
    if (cuda_check(
            (int)cudaDeviceGetPCIBusId(cuda->bus, sizeof(cuda->bus), index),
            "CUDA", err) < 0)
        goto fail;
    cudaStream_t stream = NULL;
    if (cuda_check(
            (int)cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
            "CUDA stream", err) < 0)
        goto fail;
    cuda->exec.stream = stream;
    if (cuda_queue_open(cuda, err) < 0 || cuda_gemm_open(cuda, err) < 0)
        goto fail;
    *ret = &cuda->exec.base;
    return 0;

fail:
    cuda_destroy(&cuda->exec.base);
    return -1;
}
