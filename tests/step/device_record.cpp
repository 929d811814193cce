/* device_record.cpp - a device that writes launches down; see step.h.
 *
 * The host code of the kernels is that of the emulator's build (tests/simt),
 * which reports each launch instead of running it. */
#include <stdlib.h>
#include <string.h>

#include "kernels/exec/exec_cuda.h"
#include "tests/simt/simt.h"
#include "tests/step/names.h"
#include "tests/step/recorder.h"

namespace
{

enum { ALIGN = 256 };

recorder *the_recorder;

/* ---- launches -------------------------------------------------------------
 */

struct step_launch *add(recorder *r, const char *kernel, int64_t grid)
{
    struct step *s = r->to;

    if (!s)
        return nullptr;
    if (s->n == STEP_LAUNCHES)
        abort();
    struct step_launch *l = &s->at[s->n++];
    *l = step_launch();
    strncpy(l->kernel, kernel, sizeof(l->kernel) - 1);
    l->grid = grid;
    l->op = r->op;
    l->document = r->document;
    l->vocab = r->vocab;
    l->before = r->before ? r->before : "";
    l->parts = r->parts;
    r->before = kernel;
    r->parts = grid;
    return l;
}

void on_launch(const void *kernel, int64_t grid)
{
    add(the_recorder, names_find(kernel), grid);
}

void add_bytes(struct device *d, const char *what, size_t bytes)
{
    const bool is_alone = !of(d)->op.name;
    if (is_alone)
        of(d)->op = plain(what);
    struct step_launch *l = add(of(d), what, 1);
    if (l)
        l->bytes = (int64_t)bytes;
    if (is_alone)
        of(d)->op = plain(nullptr);
}

/* ---- memory ---------------------------------------------------------------
 */

void *take(recorder *r, size_t bytes)
{
    uintptr_t at = r->memory;

    r->memory += (bytes + ALIGN) / ALIGN * ALIGN;
    return reinterpret_cast<void *>(at);
}

int alloc(struct device *d, size_t bytes, void **ret, struct error *)
{
    *ret = take(of(d), bytes);
    return 0;
}

void release(struct device *, void *)
{
}

int grow(struct exec_device *exec, size_t bytes, struct error *)
{
    exec->scratch = take(of(&exec->base), bytes);
    exec->scratch_bytes = bytes;
    return 0;
}

int to_device(struct device *, void *, const void *, size_t, struct error *)
{
    return 0;
}

/* What was just put there, as a number that the ranks agree on; else zeros. */
int to_host(struct device *d, void *dst, const void *src, size_t bytes,
            struct error *)
{
    const recorder *r = of(d);

    if (bytes > 0 && src == r->put_at && bytes == r->put_bytes)
        memcpy(dst, r->put, bytes);
    else if (bytes > 0)
        memset(dst, 0, bytes);
    return 0;
}

int copy(struct device *d, void *, const void *, size_t bytes, struct error *)
{
    add_bytes(d, STEP_COPY, 2 * bytes);
    return 0;
}

int zero(struct device *d, void *, size_t bytes, struct error *)
{
    add_bytes(d, STEP_ZERO, bytes);
    return 0;
}

int sync(struct device *, struct error *)
{
    return 0;
}

int report(struct exec_device *, const char *op, struct error *err)
{
    return error_set(err, ERR_EXTERN,
                     "%s: a launch that is only recorded "
                     "cannot fail",
                     op);
}

int gemm(struct device *d, enum dtype dt, bool ta, bool tb, int32_t m,
         int32_t n, int32_t k, double, const void *, int32_t lda, const void *,
         int32_t ldb, double beta, void *, int32_t ldc, struct error *err)
{
    if (gemm_check(dt, ta, tb, m, n, k, lda, ldb, ldc, err) < 0)
        return -1;
    struct step_launch *l = add(of(d), STEP_PRODUCT, 1);
    if (!l)
        return 0;
    l->m = m;
    l->n = n;
    l->k = k;
    l->beta = beta;
    l->type = dt;
    l->is_transposed = ta;
    l->op.value = (int32_t)dtype_bytes(dt);
    return 0;
}

void destroy(struct device *d)
{
    simt_on_launch = nullptr;
    free(of(d));
}

/* ---- what each op was called with ------------------------------------------
 * The ops of a step are members of the table that note their call, and then
 * make it. A launch outside them has no op. */

struct step_op of_conv(const char *name, enum dtype dt, const struct conv3 *s)
{
    struct step_op op =
        shaped(name, dt, (int64_t)s->N * s->H * s->W * s->C,
               (int64_t)s->N * s->OH * s->OW * s->C, s->C, s->C);

    op.stride = s->stride;
    return op;
}

/* The last of some arguments that has this type. */
template <class X> struct last {
    X at;
    void take(X x)
    {
        at = x;
    }
    template <class Y> void take(Y)
    {
    }
};
template <class X, class... A> X pick(X none, A... a)
{
    last<X> l = {none};
    (l.take(a), ...);
    return l.at;
}

/* Its patches have 9 * C columns, or as many as it is given. */
template <class> struct im2col3;
template <class... A> struct im2col3<int (*)(struct device *, A...)> {
    static int call(struct device *d, A... a)
    {
        const struct conv3 *s = pick<const struct conv3 *>(nullptr, a...);
        struct step_op op = of_conv("im2col3", pick<enum dtype>(DT_N, a...), s);

        op.is_stem = true;
        op.N = pick<int32_t>(9 * s->C, a...);
        op.out = (int64_t)s->N * s->OH * s->OW * op.N;
        begin(d, op);
        of(d)->patches = pick<void *>(nullptr, a...);
        return end(d, of(d)->own.im2col3(d, a...));
    }
};

int pw_fwd(struct device *d, enum dtype dt, void *z,
           const struct norm_stats *stats, void *y, const void *x,
           const struct norm *in, const void *skip, const void *w, int64_t rows,
           int32_t K, int32_t N, struct error *err)
{
    struct step_op op = shaped("pw_fwd", dt, rows * K, rows * N, K, N);

    op.is_stem = x == of(d)->patches;
    op.skip = skip;
    op.keeps = y;
    begin(d, op);
    return end(d, of(d)->own.pw_fwd(d, dt, z, stats, y, x, in, skip, w, rows, K,
                                    N, err));
}

int pw_bwd(struct device *d, enum dtype dt, void *dx, void *dw,
           const struct norm_grad *out, const void *dn, const void *z,
           const struct norm *norm, const void *sums, const void *u,
           const void *x, const struct norm *in, const void *extra,
           const void *w, int64_t rows, int32_t K, int32_t N, struct error *err)
{
    struct step_op op = shaped("pw_bwd", dt, rows * K, rows * N, K, N);

    op.is_stem = u && u == of(d)->patches;
    op.keeps = u;
    op.extra = extra;
    begin(d, op);
    return end(d, of(d)->own.pw_bwd(d, dt, dx, dw, out, dn, z, norm, sums, u, x,
                                    in, extra, w, rows, K, N, err));
}

int dw_fwd(struct device *d, enum dtype dt, void *z,
           const struct norm_stats *stats, const void *x, const struct norm *in,
           const void *w, const struct conv3 *s, struct error *err)
{
    begin(d, of_conv("dw_fwd", dt, s));
    return end(d, of(d)->own.dw_fwd(d, dt, z, stats, x, in, w, s, err));
}

int dw_bwd(struct device *d, enum dtype dt, void *dx, void *dw,
           const struct norm_grad *out, const void *dn, const void *z,
           const struct norm *norm, const void *sums, const void *x,
           const struct norm *in, const void *w, const struct conv3 *s,
           struct error *err)
{
    begin(d, of_conv("dw_bwd", dt, s));
    return end(d, of(d)->own.dw_bwd(d, dt, dx, dw, out, dn, z, norm, sums, x,
                                    in, w, s, err));
}

int norm_apply(struct device *d, enum dtype dt, void *y, const void *x,
               const struct norm *n, const void *skip, int64_t rows, int32_t C,
               struct error *err)
{
    struct step_op op = shaped("norm_apply", dt, rows * C, rows * C, C, C);

    op.skip = skip;
    begin(d, op);
    return end(d, of(d)->own.norm_apply(d, dt, y, x, n, skip, rows, C, err));
}

int norm_grads(struct device *d, enum dtype dt, void *dy,
               const struct norm_grad *out, const void *x, const struct norm *n,
               int64_t rows, int32_t C, struct error *err)
{
    begin(d, shaped("norm_grads", dt, rows * C, rows * C, C, C));
    return end(d, of(d)->own.norm_grads(d, dt, dy, out, x, n, rows, C, err));
}

int add_into(struct device *d, enum dtype dt, void *y, const void *x, int64_t n,
             struct error *err)
{
    begin(d, shaped("add", dt, n, n, 0, 0));
    return end(d, of(d)->own.add(d, dt, y, x, n, err));
}

int avgpool_fwd(struct device *d, enum dtype dt, void *y, const void *x,
                int32_t N, int32_t HW, int32_t C, struct error *err)
{
    int64_t out = (int64_t)N * C;

    begin(d, shaped("avgpool_fwd", dt, out * HW, out, C, C));
    return end(d, of(d)->own.avgpool_fwd(d, dt, y, x, N, HW, C, err));
}

int avgpool_bwd(struct device *d, enum dtype dt, void *dx, const void *dy,
                int32_t N, int32_t HW, int32_t C, struct error *err)
{
    int64_t out = (int64_t)N * C;

    begin(d, shaped("avgpool_bwd", dt, out * HW, out, C, C));
    return end(d, of(d)->own.avgpool_bwd(d, dt, dx, dy, N, HW, C, err));
}

int bias_fwd(struct device *d, enum dtype dt, void *y, const void *b,
             int64_t rows, int32_t C, struct error *err)
{
    begin(d, shaped("bias_fwd", dt, rows * C, rows * C, C, C));
    return end(d, of(d)->own.bias_fwd(d, dt, y, b, rows, C, err));
}

int bias_bwd(struct device *d, enum dtype dt, void *db, const void *dy,
             int64_t rows, int32_t C, struct error *err)
{
    begin(d, shaped("bias_bwd", dt, rows * C, C, C, C));
    return end(d, of(d)->own.bias_bwd(d, dt, db, dy, rows, C, err));
}

int dropout(struct device *d, enum dtype dt, void *y, const void *x, int64_t n,
            double p, const uint64_t *seed, uint64_t offset, struct error *err)
{
    begin(d, shaped("dropout", dt, n, n, 0, 0));
    return end(d, of(d)->own.dropout(d, dt, y, x, n, p, seed, offset, err));
}

int xent(struct device *d, enum dtype dt, void *loss, int32_t *hit, void *z,
         const int32_t *label, int64_t rows, int32_t C, const double *scale,
         double smooth, bool grad, struct error *err)
{
    begin(d, shaped("xent", dt, rows * C, grad ? rows * C : 0, C, C));
    return end(d, of(d)->own.xent(d, dt, loss, hit, z, label, rows, C, scale,
                                  smooth, grad, err));
}

int gemm_alone(struct device *d, enum dtype dt, bool ta, bool tb, int32_t m,
               int32_t n, int32_t k, double alpha, const void *A, int32_t lda,
               const void *B, int32_t ldb, double beta, void *C, int32_t ldc,
               struct error *err)
{
    const char *name = of(d)->op.name;

    if (name) /* a part of that op */
        return gemm(d, dt, ta, tb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc,
                    err);
    begin(d, shaped("gemm", dt, 0, 0, 0, 0));
    return end(d, gemm(d, dt, ta, tb, m, n, k, alpha, A, lda, B, ldb, beta, C,
                       ldc, err));
}

int put(struct device *d, void *dst, const void *src, size_t bytes,
        struct error *err)
{
    begin(d, plain("put"));
    of(d)->put_at = dst;
    of(d)->put_bytes = bytes < sizeof(of(d)->put) ? bytes : 0;
    memcpy(of(d)->put, src, of(d)->put_bytes);
    return end(d, of(d)->own.put(d, dst, src, bytes, err));
}

int cast(struct device *d, enum dtype to, void *y, enum dtype from,
         const void *x, int64_t n, struct error *err)
{
    struct step_op op = shaped("cast", to, n, n, 0, 0);

    op.from = (int32_t)dtype_bytes(from);
    op.to = (int32_t)dtype_bytes(to);
    begin(d, op);
    return end(d, of(d)->own.cast(d, to, y, from, x, n, err));
}

int sgd(struct device *d, enum dtype dt, void *p, void *m, const void *g,
        int64_t n, const struct sgd_args *a, struct error *err)
{
    begin(d, shaped("sgd", dt, n, n, 0, 0));
    return end(d, of(d)->own.sgd(d, dt, p, m, g, n, a, err));
}

void fill_table(recorder *r)
{
    struct exec_device *exec = &r->exec;

    exec->ops.name = "record";
    exec->ops.destroy = destroy;
    exec->ops.alloc = alloc;
    exec->ops.release = release;
    exec->ops.to_device = to_device;
    exec->ops.to_host = to_host;
    exec->ops.copy = copy;
    exec->ops.zero = zero;
    exec->ops.sync = sync;
    exec->ops.gemm = gemm_alone;
    KERNEL_FAMILIES(KERNEL_INSTALL, simt)
    r->own = exec->ops;
    exec->ops.im2col3 = im2col3<decltype(exec->ops.im2col3)>::call;
    exec->ops.pw_fwd = pw_fwd;
    exec->ops.pw_bwd = pw_bwd;
    exec->ops.dw_fwd = dw_fwd;
    exec->ops.dw_bwd = dw_bwd;
    exec->ops.norm_apply = norm_apply;
    exec->ops.norm_grads = norm_grads;
    exec->ops.add = add_into;
    exec->ops.avgpool_fwd = avgpool_fwd;
    exec->ops.avgpool_bwd = avgpool_bwd;
    exec->ops.bias_fwd = bias_fwd;
    exec->ops.bias_bwd = bias_bwd;
    exec->ops.dropout = dropout;
    exec->ops.xent = xent;
    exec->ops.put = put;
    exec->ops.cast = cast;
    exec->ops.sgd = sgd;
    record_llm(exec);
}

} // namespace

void device_record_add(struct device *d, const struct step_launch *l)
{
    struct step *to = of(d)->to;

    if (to && to->n < STEP_LAUNCHES)
        to->at[to->n++] = *l;
}

void device_record_to(struct device *d, struct step *to)
{
    of(d)->to = to;
}

void device_record_text(struct device *d, int32_t document, int32_t vocab)
{
    of(d)->document = document;
    of(d)->vocab = vocab;
}

/* A kernel that nobody counts is one that nobody sees. */
static int check_noted(const recorder *r, struct error *err)
{
    typedef void (*op)();
    enum { OPS = sizeof(struct llm_ops) / sizeof(op) };
    op own[OPS], noted[OPS];

    memcpy(own, &r->own.llm, sizeof(own));
    memcpy(noted, &r->exec.ops.llm, sizeof(noted));
    for (int i = 0; i < OPS; i++)
        if (!noted[i] || noted[i] == own[i])
            return error_set(err, ERR_NOTFOUND,
                             "op %d of struct llm_ops notes no call: add it to "
                             "tests/step/record_llm.cpp",
                             i + 1);
    return 0;
}

int device_record_create(struct device **ret, struct error *err)
{
    recorder *r = static_cast<recorder *>(calloc(1, sizeof(*r)));

    if (!r)
        return error_set(err, ERR_NOMEM, "a device");
    if (names_open(err) < 0) {
        free(r);
        return -1;
    }
    r->memory = (uintptr_t)1 << 44; /* where no process has memory */
    r->exec.base.ops = &r->exec.ops;
    r->exec.lanes = CUDA_LANES;
    r->exec.max_blocks = (int64_t)STEP_SMS * CUDA_BLOCKS_PER_SM;
    r->exec.max_parts = (int64_t)STEP_SMS * CUDA_PARTS_PER_SM;
    r->exec.block_work = CUDA_BLOCK_WORK;
    r->exec.base.row_bytes = CUDA_ROW_BYTES;
    r->exec.grow = grow;
    r->exec.report = report;
    fill_table(r);
    if (check_noted(r, err) < 0) {
        free(r);
        return -1;
    }
    the_recorder = r;
    simt_on_launch = on_launch;
    *ret = &r->exec.base;
    return 0;
}
