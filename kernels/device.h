/* device.h - the device seam, host or CUDA: memory, GEMM and all kernels.
 *
 * A device is its ops table and a workspace. Two implementations: host
 * (device_host.c and the .cu files compiled by g++) and cuda (the same .cu
 * files compiled by nvcc, in the plug-in libmgpu-cuda.so). A third, simt,
 * runs the CUDA side of the kernels in a lane-by-lane emulator; it exists
 * for tests. tests/unit/kernels/contract/ runs against all of them.
 *
 * Tensors are dense, row major, NHWC; x [N, H, W, C] means C is contiguous.
 * T is the storage type named by `dt`; A is its accumulator type (f64 for
 * f64, f32 for the others): statistics, losses and partial sums are kept in
 * A. Lengths count elements, never bytes, except where a name says _bytes.
 * Pointers are device memory unless a comment says host.
 *
 * Calls enqueue work in order; the host sees results after sync() or a copy
 * to the host. Every call returns 0, or -1 with err:
 *   ERR_INVAL   a shape that the comment forbids; nothing was enqueued
 *   ERR_NOMEM   alloc only
 *   ERR_EXTERN  the device refused; it is unusable after that
 * A device gives the same bits for the same calls, on any number of threads. */
#ifndef MGPU_KERNELS_DEVICE_H
#define MGPU_KERNELS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "kernels/cv/image_u8.h"
#include "kernels/dtype.h"
#include "kernels/llm/llm_ops.h"
#include "kernels/ops/optim_args.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A 3x3 convolution with padding 1: OH = (H - 1) / stride + 1, OW alike. */
struct conv3 {
    int32_t N, H, W, C; /* input */
    int32_t OH, OW;
    int32_t stride; /* 1 or 2 */
};

/* A batch norm and the clamp after it, which the next operation applies when it
 * reads: u = clamp((z - mean) * rstd * gamma + beta), to [0, cap]; cap 0: no
 * clamp. */
struct norm {
    const void *mean, *rstd;  /* [C] A */
    const void *gamma, *beta; /* [C] T */
    double cap;
};

/* Statistics that an operation computes of its output z, over all of its rows:
 * mean, rstd = 1 / sqrt(var + eps), both [C] A, and the running statistics r +=
 * momentum * (batch - r), [C] A, with the unbiased variance, as
 * torch.nn.BatchNorm2d. */
struct norm_stats {
    void *mean, *rstd, *run_mean, *run_var;
    double eps, momentum;
};

/* The gradient of a norm. d is dL/du where the clamp did not clip, else 0. */
struct norm_grad {
    void *sums;           /* [2, C] A: sums over rows of d * hat and of d */
    void *dgamma, *dbeta; /* [C] T: the same */
};

/* Kinds of work that device_ops.count counts and times. */
enum device_work {
    DEVICE_KERNEL, /* one launch; a GEMM counts separately */
    DEVICE_GEMM,
    DEVICE_TO_DEVICE,
    DEVICE_TO_HOST,
    DEVICE_COPY,
    DEVICE_WORK_N
};
struct device_count {
    int64_t calls, bytes; /* bytes: of copies */
    double total_s;
};

struct device;
struct graph; /* captured calls */

enum {
    PUT_BYTES = 128,   /* limit of one put() */
    DEVICE_MARKS = 16, /* mark(0) to mark(15) */
    DEVICE_SLOTS = 4,  /* send(0) to send(3) */
};

struct device_ops {
    const char *name;                  /* "host", "cuda", "simt" */
    void (*destroy)(struct device *d); /* NULL is fine */

    /* ---- memory --------------------------------------------------------- */
    /* Zeroed, 256-byte aligned. */
    int (*alloc)(struct device *d, size_t bytes, void **ret, struct error *err);
    void (*release)(struct device *d, void *p); /* NULL is fine */
    /* Page-locks host memory until unpin(), so that to_device() from it is
     * asynchronous and faster. Both NULL if the device needs no
     * page-locking. */
    int (*pin)(struct device *d, void *host, size_t bytes, struct error *err);
    void (*unpin)(struct device *d, void *host);
    int (*to_device)(struct device *d, void *dst, const void *host_src,
                     size_t bytes, struct error *err);
    int (*to_host)(struct device *d, void *host_dst, const void *src,
                   size_t bytes, struct error *err); /* synchronous */
    int (*copy)(struct device *d, void *dst, const void *src, size_t bytes,
                struct error *err);
    int (*zero)(struct device *d, void *dst, size_t bytes, struct error *err);
    int (*sync)(struct device *d, struct error *err);
    /* Copies src [bytes] in host memory to dst; the caller may reuse src at
     * once; at most PUT_BYTES. For the scalars of a step. */
    int (*put)(struct device *d, void *dst, const void *src, size_t bytes,
               struct error *err);
    /* Optional: the size of the memory that alloc() allocates from. */
    int (*memory)(struct device *d, size_t *ret_free, size_t *ret_total,
                  struct error *err);

    /* ---- capture and replay -----------------------------------------------
     * Optional, all four or none. Between capture_begin() and capture_end(),
     * calls that enqueue work are recorded and not run; launch() runs them in
     * their order, on the memory's contents at that time. Only calls that ran
     * before with the same shapes can be captured, because capturing cannot
     * allocate; copies from and to the host, put(), sync() and alloc() cannot.
     *
     * err  capture_end: ERR_EXTERN also if a call in between failed; the device
     *      is then in the state before capture_begin() */
    int (*capture_begin)(struct device *d, struct error *err);
    int (*capture_end)(struct device *d, struct graph **ret, struct error *err);
    int (*launch)(struct device *d, struct graph *g, struct error *err);
    void (*graph_free)(struct device *d, struct graph *g); /* NULL is fine */

    /* Optional, both or neither: the time on the device. mark() records when
     * the work enqueued so far ends; it can be captured. elapsed() is the time
     * from one mark to another; both must have passed (sync). */
    int (*mark)(struct device *d, int32_t i, struct error *err);
    int (*elapsed)(struct device *d, int32_t from, int32_t to, double *ret_s,
                   struct error *err);

    /* ---- copies beside the work
     * ----------------------------------------------- Optional, all four or
     * none. A slot is one buffer on the device that is filled from the host
     * while the device works: send     starts a copy after the work that was
     * enqueued before the slot's last reuse(); host_src is read until sent()
     * returns receive  work enqueued from now on waits for the slot's copy
     *   reuse    no work enqueued from now on reads the slot
     *   sent     waits until the copy has finished */
    int (*send)(struct device *d, int32_t slot, void *dst, const void *host_src,
                size_t bytes, struct error *err);
    int (*receive)(struct device *d, int32_t slot, struct error *err);
    int (*reuse)(struct device *d, int32_t slot, struct error *err);
    int (*sent)(struct device *d, int32_t slot, struct error *err);

    /* ---- types ----------------------------------------------------------- */
    /* y [n] of type `to` = x [n] of type `from`, rounded to the nearest, ties
     * to even. y is not x, unless the types are the same. */
    int (*cast)(struct device *d, enum dtype to, void *y, enum dtype from,
                const void *x, int64_t n, struct error *err);
    /* From now on fp32 products may round their factors to 10 bits of fraction
     * (NVIDIA's TF32). Optional: NULL if the hardware lacks it. */
    int (*allow_tf32)(struct device *d, bool allow, struct error *err);
    /* From now on the first call of a product with a new shape may choose the
     * fastest algorithm by timing, which may differ between runs; otherwise
     * shape and device determine it. Optional. */
    int (*tune)(struct device *d, bool on, struct error *err);

    /* ---- GEMM ------------------------------------------------------------ */
    /* C[m,n] = alpha * op(A) op(B) + beta * C, row major, leading dimensions
     * in elements; op(A) is [m,k], op(B) is [k,n]. Sums are accumulated in A,
     * and rounded to T once. */
    int (*gemm)(struct device *d, enum dtype dt, bool ta, bool tb, int32_t m,
                int32_t n, int32_t k, double alpha, const void *A, int32_t lda,
                const void *B, int32_t ldb, double beta, void *C, int32_t ldc,
                struct error *err);

    /* ---- convolution ---------------------------------------------------- */
    /* col [N*OH*OW, ld]: the 3x3 patch of each output pixel, (kh, kw, c) order,
     * zeros outside and behind it; for the stem. ld >= 9*C */
    int (*im2col3)(struct device *d, enum dtype dt, void *col, int32_t ld,
                   const void *x, const struct conv3 *s, struct error *err);
    /* y [rows, to] = the first columns of x [rows, from], or it and zeros. */
    int (*pad_rows)(struct device *d, enum dtype dt, void *y, int32_t to,
                    const void *x, int32_t from, int64_t rows,
                    struct error *err);

    /* ---- convolution and batch norm together ------------------------------
     * A wide tensor is stored as z, before its norm: the operation that reads
     * it applies the norm, the one that writes it computes the statistics. */
    /* u = x, or norm(x) with in, plus skip if there is one, [rows, K]; stored
     * in y if that is not NULL.  z [rows, N] = u w^T with w [N, K].
     * out  stats  NULL: not wanted
     * err  ERR_INVAL rows < 2 with stats */
    int (*pw_fwd)(struct device *d, enum dtype dt, void *z,
                  const struct norm_stats *stats, void *y, const void *x,
                  const struct norm *in, const void *skip, const void *w,
                  int64_t rows, int32_t K, int32_t N, struct error *err);
    /* From d [rows, N], the gradient of norm(z), whose sums are given, computes
     * dw [N, K] = dz^T u  and  dx [rows, K] = dz w + extra, gated by `in`, with
     * the sums of that in `out`.
     * in   u      [rows, K] the forward pass's, or NULL: norm(x) is computed
     *      again x, in  x NULL, or in NULL: dx is not gated, and has no sums
     *      extra  [rows, K], or NULL
     * out  dx     NULL: not wanted; not d */
    int (*pw_bwd)(struct device *d, enum dtype dt, void *dx, void *dw,
                  const struct norm_grad *out, const void *dn, const void *z,
                  const struct norm *norm, const void *sums, const void *u,
                  const void *x, const struct norm *in, const void *extra,
                  const void *w, int64_t rows, int32_t K, int32_t N,
                  struct error *err);
    /* Depthwise 3x3 on u = x or norm(x); w [3, 3, C]. As pw_fwd. */
    int (*dw_fwd)(struct device *d, enum dtype dt, void *z,
                  const struct norm_stats *stats, const void *x,
                  const struct norm *in, const void *w, const struct conv3 *s,
                  struct error *err);
    int (*dw_bwd)(struct device *d, enum dtype dt, void *dx, void *dw,
                  const struct norm_grad *out, const void *dn, const void *z,
                  const struct norm *norm, const void *sums, const void *x,
                  const struct norm *in, const void *w, const struct conv3 *s,
                  struct error *err);
    /* y = norm(x) + skip (or NULL). */
    int (*norm_apply)(struct device *d, enum dtype dt, void *y, const void *x,
                      const struct norm *n, const void *skip, int64_t rows,
                      int32_t C, struct error *err);
    /* dy := d, in place, and its sums. */
    int (*norm_grads)(struct device *d, enum dtype dt, void *dy,
                      const struct norm_grad *out, const void *x,
                      const struct norm *n, int64_t rows, int32_t C,
                      struct error *err);
    /* rstd [C] A = 1 / sqrt(var + eps), for a norm by running statistics. */
    int (*norm_rstd)(struct device *d, enum dtype dt, void *rstd,
                     const void *var, int32_t C, double eps, struct error *err);

    /* ---- other layers --------------------------------------------------- */
    int (*add)(struct device *d, enum dtype dt, void *y, const void *x,
               int64_t n, struct error *err); /* y += x */
    /* y [N, C] = mean over HW of x [N, HW, C], and its gradient. */
    int (*avgpool_fwd)(struct device *d, enum dtype dt, void *y, const void *x,
                       int32_t N, int32_t HW, int32_t C, struct error *err);
    int (*avgpool_bwd)(struct device *d, enum dtype dt, void *dx,
                       const void *dy, int32_t N, int32_t HW, int32_t C,
                       struct error *err);
    /* y [rows, C] += b [C];  db [C] = column sums of dy [rows, C]. */
    int (*bias_fwd)(struct device *d, enum dtype dt, void *y, const void *b,
                    int64_t rows, int32_t C, struct error *err);
    int (*bias_bwd)(struct device *d, enum dtype dt, void *db, const void *dy,
                    int64_t rows, int32_t C, struct error *err);
    /* y = x * keep / (1 - p), keep drawn per element from the counter-based
     * stream (seed, offset + i) - the same stream on every device; the
     * backward pass is the same call on dy. y may be x. 0 <= p < 1. The seed
     * is in device memory. */
    int (*dropout)(struct device *d, enum dtype dt, void *y, const void *x,
                   int64_t n, double p, const uint64_t *seed, uint64_t offset,
                   struct error *err);
    /* Softmax cross-entropy over rows of z [rows, C]; a row with a label < 0 is
     * skipped: loss 0, gradient 0. A label >= C gives NaN in both.
     * in    smooth  0..below 1: that share of the label's weight is spread
     *               over all classes, as torch's label_smoothing
     *       scale   device memory; NULL without grad
     * inout z     the logits; becomes *scale * d(loss)/dz when grad is true
     * out   loss  [rows] A, nats
     *       hit   [rows] i32, 1 where the largest logit is the label's; of
     *             equal ones the first counts */
    int (*xent)(struct device *d, enum dtype dt, void *loss, int32_t *hit,
                void *z, const int32_t *label, int64_t rows, int32_t C,
                const double *scale, double smooth, bool grad,
                struct error *err);
    /* x [N, S, S, C] T: image i is the part of src that list[i] names, see
     * kernels/cv/image_u8.h, resized and then (v / 255 - mean[c]) / std[c]. An
     * image stored with one channel is replicated to C.
     *
     * in   list  [N], device memory; the caller has checked each with
     *      image_u8_check() C     1 or IMAGE_CHANNELS */
    int (*images_u8)(struct device *d, enum dtype dt, void *x,
                     const uint8_t *src, const struct image_u8 *list, int32_t N,
                     int32_t S, int32_t C, const struct image_norm *norm,
                     struct error *err);
    /* y [N, pixels, C] = x [N, C, pixels], values of `size` bytes: 1, 2, 4 or
     * 8. With a list, of images of bytes, image i has list[i].H * list[i].W
     * pixels of list[i].C channels, and begins at byte list[i].at of x and of
     * y. y is not x.
     *
     * in   list    [N], device memory; NULL: all images are alike
     *      pixels  of an image; with a list about so many
     *      C       1 or IMAGE_CHANNELS; with a list it is not read
     * err  ERR_INVAL N < 1, pixels < 1, another C or size */
    int (*nchw_to_nhwc)(struct device *d, size_t size, void *y, const void *x,
                        const struct image_u8 *list, int32_t N, int64_t pixels,
                        int32_t C, struct error *err);

    /* ---- optimizers; p, g [n] T, state [n] A ---------------------------- */
    /* g' = grad_scale * g + weight_decay * p;  m = momentum * m + g' (m = g'
     * when first);  p -= lr * (nesterov ? g' + momentum * m : m). As
     * torch.optim.SGD with dampening 0. */
    int (*sgd)(struct device *d, enum dtype dt, void *p, void *m, const void *g,
               int64_t n, const struct sgd_args *a, struct error *err);
    /* As torch.optim.AdamW. */
    int (*adamw)(struct device *d, enum dtype dt, void *p, void *m, void *v,
                 const void *g, int64_t n, const struct adamw_args *a,
                 struct error *err);
    /* The same with m, v [n] codes of eight bits (kernels/ops/state8.h), whose
     * blocks begin with p: map [2, 256] float of m and of v, m_most, v_most
     * [n / 256, rounded up] float. The step uses the new m and v as they are
     * before they become codes. */
    int (*adamw8)(struct device *d, enum dtype dt, void *p, uint8_t *m,
                  uint8_t *v, float *m_most, float *v_most, const void *g,
                  const float *map, int64_t n, const struct adamw_args *a,
                  struct error *err);
    /* As torch.optim.RMSprop, from state that starts as zeros:
     * g' = grad_scale * g + weight_decay * p;  v = alpha v + (1 - alpha) g'^2;
     * u = g' / (sqrt(v) + eps), or with mean, = alpha mean + (1 - alpha) g',
     * g' / (sqrt(v - mean^2) + eps);  p -= lr * (m ? m = momentum m + u : u).
     * m NULL: no momentum;  mean NULL: not centered. */
    int (*rmsprop)(struct device *d, enum dtype dt, void *p, void *v, void *m,
                   void *mean, const void *g, int64_t n,
                   const struct rmsprop_args *a, struct error *err);
    /* out [1] double = the sum of x^2, x [n] T, accumulated in double; NaN and
     *      infinity propagate. */
    int (*sum_squares)(struct device *d, enum dtype dt, void *out,
                       const void *x, int64_t n, struct error *err);
    /* mean [n] A = decay * mean + (1 - decay) * p, p [n] T. */
    int (*ema)(struct device *d, enum dtype dt, void *mean, const void *p,
               int64_t n, double decay, struct error *err);

    struct llm_ops llm; /* kernels/llm/llm_ops.h */

    /* Optional, for libraries that enqueue work themselves (NCCL): the CUstream
     * of the calls above. */
    void *(*stream)(struct device *d);
    /* Optional: from now on adds each completed work to to[DEVICE_WORK_N],
     * which the caller owns; NULL: stops. A GPU does not implement it, because
     * NVIDIA's profiler measures more. */
    void (*count)(struct device *d, struct device_count *to);
    /* Optional: the PCI address, "0000:18:00.0". */
    const char *(*bus)(struct device *d);
};

/* First member of every implementation's own struct. */
struct device {
    const struct device_ops *ops;
    int32_t threads;   /* host: OpenMP threads; cuda: 0 */
    bool host_memory;  /* its memory can be read and written by the CPU */
    int32_t row_bytes; /* products are fastest with rows of a multiple of it */
};

/* Columns of rows of n values of dt, padded to such a multiple. */
static inline int32_t device_columns(const struct device *d, enum dtype dt,
                                     int32_t n)
{
    const int32_t unit = d->row_bytes / (int32_t)dtype_bytes(dt);
    return unit > 1 ? (n + unit - 1) / unit * unit : n;
}

/* threads 0: as many as OMP_NUM_THREADS or the affinity mask allow. Only the
 * thread that created it may use it: OpenMP's team size belongs to a thread.
 * err ERR_INVAL threads not in 0..1024;  ERR_NOMEM */
int device_host_create(int32_t threads, struct device **ret,
                       struct error *err) MUST_CHECK;

/* Opens the plug-in libmgpu-cuda.so (at $MGPU_CUDA_PLUGIN if that is set, else
 * in the program's directory, in ../lib/mgpu or in ../lib of a build tree) and
 * its device `index`.
 * err ERR_UNAVAIL no plug-in, no driver or no GPU; the message says which */
int device_cuda_create(int32_t index, struct device **ret,
                       struct error *err) MUST_CHECK;

/* How many GPUs the driver shows to this process.
 * err as device_cuda_create() */
int device_cuda_count(int32_t *ret, struct error *err) MUST_CHECK;

/* The two symbols that the plug-in exports: "mgpu_cuda_open" and
 * "mgpu_cuda_count". */
typedef int (*device_cuda_open_f)(int32_t index, struct device **ret,
                                  struct error *err);
typedef int (*device_cuda_count_f)(int32_t *ret, struct error *err);

#ifdef __cplusplus
}
#endif
#endif
