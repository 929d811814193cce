/* kernels.c - how fast the kernels are at the shapes of MobileNetV2.
 *
 *   kernels [threads|cuda [size [batch [fp32|fp64 [table]]]]]   1 32 64 fp32
 *
 * Every op of a training step runs at every shape it has in the network; the
 * times are the best of several rounds, summed over the network. On a GPU a
 * round is 20 calls between two marks, so that neither the host's clock nor its
 * waiting shows. GB/s counts what an op has to read and write at least, GF/s
 * its multiplications and additions. With `table`, a row each of Markdown, with
 * the limit that the device sets: the longer of the bytes at the bandwidth of a
 * copy and the additions and multiplications at the rate of a large product.
 * `share` is that of the least bytes: what fusing would gain counts. `share as
 * it moves` is that of the bytes of the op's own kernels: how well each of them
 * does. Not a test: nothing here can fail.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jobs/base/rng.h"
#include "kernels/device.h"

enum { ROUNDS = 7, MAX_LAYERS = 64 };

enum op {
    IM2COL,
    GEMM_FWD,
    GEMM_BWD,
    PW_FWD,
    PW_BWD,
    DW_FWD,
    DW_BWD,
    NORM,
    POOL_FWD,
    POOL_BWD,
    DROPOUT,
    XENT,
    SGD,
    N_OPS
};
static const char *const op_names[N_OPS] = {
    "im2col3",     "(gemm forward)", "(gemm backward)", "pw_fwd",
    "pw_bwd",      "dw_fwd",         "dw_bwd",          "norm, last row",
    "avgpool_fwd", "avgpool_bwd",    "dropout",         "xent",
    "sgd"};

struct layer {
    char kind; /* Stem, Pointwise, Depthwise */
    struct conv3 s;
    int32_t out; /* channels */
    double cap;
};

struct bench {
    struct device *d;
    enum dtype dt;
    struct rng rng;
    struct error err;
    int calls;                      /* between two looks at the clock */
    void *x, *y, *z, *w, *g, *c[8]; /* g: a gradient */
    struct layer layers[MAX_LAYERS];
    int n;
    int64_t params;
    double ms[N_OPS], bytes[N_OPS], moved[N_OPS], flop[N_OPS];
};

static void give_up(const char *what, const struct error *err)
{
    (void)fprintf(stderr, "kernels: %s: %s\n", what, err->msg);
    exit(1);
}

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void add_layer(struct bench *b, char kind, int32_t N, int32_t *size,
                      int32_t in, int32_t out, int32_t stride, double cap)
{
    int32_t H = *size, OH = (H - 1) / stride + 1;
    int32_t fan = kind == 'S' ? 27 : kind == 'D' ? 9 : in;

    b->layers[b->n++] = (struct layer){.kind = kind,
                                       .s = {N, H, H, in, OH, OH, stride},
                                       .out = out,
                                       .cap = cap};
    b->params += (int64_t)out * fan + 2 * out;
    *size = OH;
}

/* src  Sandler et al. 2018, arXiv:1801.04381, table 2 */
static void network(struct bench *b, int32_t N, int32_t size)
{
    static const int32_t rows[7][4] = {
        {1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
        {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    int32_t in = 32;

    add_layer(b, 'S', N, &size, 3, 32, 2, 6);
    for (int r = 0; r < 7; r++)
        for (int32_t k = 0; k < rows[r][2]; k++) {
            int32_t mid = in * rows[r][0], out = rows[r][1];
            int32_t stride = k ? 1 : rows[r][3];
            if (mid != in)
                add_layer(b, 'P', N, &size, in, mid, 1, 6);
            add_layer(b, 'D', N, &size, mid, mid, stride, 6);
            add_layer(b, 'P', N, &size, mid, out, 1, 0);
            in = out;
        }
    add_layer(b, 'P', N, &size, in, 1280, 1, 6);
}

/* ---- time ------------------------------------------------------------------
 * Marks on the device, where it has them. Elsewhere a call returns when its
 * work is done.
 */

static void begin(struct bench *b, double *ret_ms)
{
    *ret_ms = now_ms();
    if (b->d->ops->mark && b->d->ops->mark(b->d, 0, &b->err) < 0)
        give_up("mark", &b->err);
}

/* inout  ms  of the beginning; since then */
static void end(struct bench *b, double *ms)
{
    const struct device_ops *ops = b->d->ops;
    double s = 0;

    if ((ops->mark && ops->mark(b->d, 1, &b->err) < 0) ||
        ops->sync(b->d, &b->err) < 0 ||
        (ops->elapsed && ops->elapsed(b->d, 0, 1, &s, &b->err) < 0))
        give_up("wait", &b->err);
    *ms = ops->elapsed ? s * 1e3 : now_ms() - *ms;
}

/* One call before, which allocates and chooses. */
#define TIME_MOVING(b, op, n_bytes, n_moved, n_flop, call) \
    do {                                                   \
        double best_ = 1e30;                               \
        if ((call) < 0)                                    \
            give_up(op_names[op], &(b)->err);              \
        for (int i_ = 0; i_ < ROUNDS; i_++) {              \
            double t_ = 0;                                 \
            begin(b, &t_);                                 \
            for (int c_ = 0; c_ < (b)->calls; c_++)        \
                if ((call) < 0)                            \
                    give_up(op_names[op], &(b)->err);      \
            end(b, &t_);                                   \
            t_ /= (b)->calls;                              \
            best_ = t_ < best_ ? t_ : best_;               \
        }                                                  \
        (b)->ms[op] += best_;                              \
        (b)->bytes[op] += (double)(n_bytes)*es;            \
        (b)->moved[op] += (double)(n_moved)*es;            \
        (b)->flop[op] += (double)(n_flop);                 \
    } while (0)
#define TIME(b, op, n_bytes, n_flop, call) \
    TIME_MOVING(b, op, n_bytes, n_bytes, n_flop, call)

/* The products alone, for comparison: they are in pw_fwd and pw_bwd. */
static void gemm_layer(struct bench *b, int32_t rows, int32_t in, int32_t out,
                       bool dx)
{
    const struct device_ops *ops = b->d->ops;
    double es = (double)dtype_bytes(b->dt);
    double io = (double)rows * in + (double)rows * out + (double)in * out;
    double flop = 2.0 * rows * in * out;

    TIME(b, GEMM_FWD, io, flop,
         ops->gemm(b->d, b->dt, false, true, rows, out, in, 1, b->x, in, b->w,
                   in, 0, b->y, out, &b->err));
    TIME(b, GEMM_BWD, io, flop,
         ops->gemm(b->d, b->dt, true, false, out, in, rows, 1, b->y, out, b->x,
                   in, 0, b->w, in, &b->err));
    if (dx)
        TIME(b, GEMM_BWD, io, flop,
             ops->gemm(b->d, b->dt, false, false, rows, in, out, 1, b->y, out,
                       b->w, in, 0, b->z, in, &b->err));
}

static struct norm norm_of(const struct bench *b, double cap)
{
    return (struct norm){b->c[0], b->c[1], b->c[4], b->c[5], cap};
}

/* What moves at least: forwards x and z, backwards x, z, d and dx. On a GPU a
 * 1x1 convolution is several kernels: the norm of x, the product, the sums of
 * z, unless tensor cores do it in one (pointwise_mma.h); dz, the norm of x
 * again, two products, the gate (pointwise.cu), unless tensor cores do it in
 * one where w is small, else in one for dx and one for dw. */
static void convolution(struct bench *b, const struct layer *l)
{
    const struct device_ops *ops = b->d->ops;
    double es = (double)dtype_bytes(b->dt);
    int64_t rows = (int64_t)l->s.N * l->s.OH * l->s.OW;
    double out = (double)rows * l->out;
    double in = (double)l->s.N * l->s.H * l->s.W * l->s.C;
    double flop = 2.0 * out * (l->kind == 'D' ? 9 : l->s.C);
    const struct norm before = norm_of(b, l->cap > 0 ? 0 : 6);
    const struct norm after = norm_of(b, l->cap);
    const struct norm_stats stats = {b->c[2], b->c[3], b->c[6],
                                     b->c[7], 1e-5,    0.1};
    const struct norm_grad grad = {b->c[2], b->c[3], b->c[6]};

    if (l->kind == 'D') {
        TIME(b, DW_FWD, in + out, flop,
             ops->dw_fwd(b->d, b->dt, b->y, &stats, b->x, &before, b->w, &l->s,
                         &b->err));
        TIME(b, DW_BWD, 2 * (in + out), 2 * flop,
             ops->dw_bwd(b->d, b->dt, b->z, b->w, &grad, b->g, b->y, &after,
                         b->c[5], b->x, &before, b->w, &l->s, &b->err));
        return;
    }
    bool is_host = b->d->host_memory;
    bool in_one = is_host || (dtype_bytes(b->dt) == 2 && l->s.C % 8 == 0 &&
                              l->out % 8 == 0);
    TIME_MOVING(b, PW_FWD, in + out, in_one ? in + out : 3 * in + 2 * out, flop,
                ops->pw_fwd(b->d, b->dt, b->y, &stats, NULL, b->x, &before,
                            NULL, b->w, rows, l->s.C, l->out, &b->err));
    bool is_small = is_host || (in_one && (int64_t)l->s.C * l->out <= 6144);
    TIME_MOVING(b, PW_BWD, 2 * (in + out),
                is_small ? 2 * (in + out)
                : in_one ? 3 * in + 4 * out
                         : 7 * in + 5 * out,
                2 * flop,
                ops->pw_bwd(b->d, b->dt, b->z, b->w, &grad, b->g, b->y, &after,
                            b->c[5], NULL, b->x, &before, NULL, b->w, rows,
                            l->s.C, l->out, &b->err));
}

static void one_layer(struct bench *b, const struct layer *l)
{
    const struct device_ops *ops = b->d->ops;
    double es = (double)dtype_bytes(b->dt);
    int64_t rows = (int64_t)l->s.N * l->s.OH * l->s.OW;
    const int32_t ld = device_columns(b->d, b->dt, 9 * l->s.C);
    double io = (double)l->s.N * l->s.H * l->s.W * l->s.C + (double)rows * ld;

    if (l->kind == 'S') {
        struct layer product = *l; /* as the model does it */
        product.kind = 'P';
        product.s =
            (struct conv3){1, (int32_t)rows, 1, ld, (int32_t)rows, 1, 1};
        TIME(b, IM2COL, io, 0,
             ops->im2col3(b->d, b->dt, b->x, ld, b->y, &l->s, &b->err));
        one_layer(b, &product);
        return;
    }
    if (l->kind == 'P')
        gemm_layer(b, (int32_t)rows, l->s.C, l->out, true);
    convolution(b, l);
}

static void the_rest(struct bench *b, int32_t N)
{
    const struct device_ops *ops = b->d->ops;
    const struct layer *l = &b->layers[b->n - 1];
    double es = (double)dtype_bytes(b->dt);
    int32_t HW = l->s.OH * l->s.OW;
    double n = (double)N * 1280;
    struct sgd_args a = {
        .lr = 1e-9, .momentum = 0.9, .grad_scale = 1, .nesterov = true};

    TIME(b, POOL_FWD, n * HW + n, 0,
         ops->avgpool_fwd(b->d, b->dt, b->y, b->x, N, HW, 1280, &b->err));
    TIME(b, POOL_BWD, n * HW + n, 0,
         ops->avgpool_bwd(b->d, b->dt, b->x, b->y, N, HW, 1280, &b->err));
    for (int i = 0; i < 2; i++)
        TIME(b, DROPOUT, 2 * n, 0,
             ops->dropout(b->d, b->dt, b->y, b->x, (int64_t)N * 1280, 0.2,
                          b->c[0], 0, &b->err));
    const struct norm last = norm_of(b, 6);
    const struct norm_grad grad = {b->c[2], b->c[3], b->c[6]};
    TIME(b, NORM, 2 * n * HW, 0,
         ops->norm_apply(b->d, b->dt, b->y, b->x, &last, NULL, (int64_t)N * HW,
                         1280, &b->err));
    TIME(b, NORM, 3 * n * HW, 0,
         ops->norm_grads(b->d, b->dt, b->y, &grad, b->x, &last, (int64_t)N * HW,
                         1280, &b->err));
    gemm_layer(b, N, 1280, 10, true);
    TIME(b, XENT, 20.0 * N, 0,
         ops->xent(b->d, b->dt, b->c[0], b->c[1], b->y, b->c[7], N, 10, b->c[6],
                   0, true, &b->err));
    TIME(b, SGD, 5.0 * (double)b->params, 0,
         ops->sgd(b->d, b->dt, b->x, b->y, b->z, b->params, &a, &b->err));
}

/* Random values of 0.05 to 1.25, so that no two buffers have the same: none is
 * a denormal. The host fills a block, and the device copies it. */
static void *room(struct bench *b, size_t bytes)
{
    const size_t block = bytes < (size_t)64 << 20 ? bytes : (size_t)64 << 20;
    struct error err = ERROR_INIT;
    void *p = NULL, *host = malloc(block);

    if (!host)
        (void)error_set(&err, ERR_NOMEM, "%zu bytes of the host", block);
    if (!host || b->d->ops->alloc(b->d, bytes, &p, &err) < 0)
        give_up("memory for the largest layer", &err);
    for (size_t i = 0; i < block / dtype_bytes(b->dt); i++)
        dtype_set(b->dt, host, (int64_t)i, 0.05 + 1.2 * rng_uniform(&b->rng));
    if (b->d->ops->to_device(b->d, p, host, block, &err) < 0)
        give_up("filling a buffer", &err);
    free(host);
    for (size_t at = block; at < bytes; at += block) {
        size_t n = bytes - at < block ? bytes - at : block;
        if (b->d->ops->copy(b->d, (char *)p + at, p, n, &err) < 0)
            give_up("filling a buffer", &err);
    }
    return p;
}

/* Values of the largest tensor; the stem's patches are nine times its image,
 * and padded. */
static size_t largest(const struct bench *b)
{
    size_t most = (size_t)b->params;

    for (int i = 0; i < b->n; i++) {
        const struct layer *l = &b->layers[i];
        size_t in = (size_t)l->s.H * (size_t)l->s.W * (size_t)l->s.C;
        size_t pixels = (size_t)l->s.OH * (size_t)l->s.OW;
        size_t out = pixels * (size_t)l->out;
        size_t n = in > out ? in : out;
        size_t ld = (size_t)device_columns(b->d, b->dt, 9 * l->s.C);
        if (l->kind == 'S' && pixels * ld > n)
            n = pixels * ld;
        n *= (size_t)l->s.N;
        most = n > most ? n : most;
    }
    return most;
}

/* ---- what the device can do -----------------------------------------------
 */

struct limits {
    double bytes_per_ms, flop_per_ms;
};

static double best_ms(struct bench *b, int (*call)(struct bench *b, int64_t n),
                      int64_t n)
{
    double best = 1e30;

    for (int i = 0; i <= ROUNDS; i++) { /* the first one chooses */
        double t = 0;
        begin(b, &t);
        if (call(b, n) < 0)
            give_up("limits", &b->err);
        end(b, &t);
        best = i > 0 && t < best ? t : best;
    }
    return best;
}

static int copy_bytes(struct bench *b, int64_t n)
{
    return b->d->ops->copy(b->d, b->y, b->x, (size_t)n, &b->err);
}

static int multiply(struct bench *b, int64_t n)
{
    const int32_t m = (int32_t)n;

    return b->d->ops->gemm(b->d, b->dt, false, true, m, m, m, 1, b->x, m, b->w,
                           m, 0, b->y, m, &b->err);
}

/* A copy that no cache holds, a product that its launch does not show in. */
static struct limits find_limits(struct bench *b, size_t room)
{
    int64_t bytes = b->d->host_memory ? 64 << 20 : 1 << 30;
    int64_t side = b->d->host_memory ? 512 : 8192;

    bytes = bytes < (int64_t)room ? bytes : (int64_t)room;
    while ((size_t)(side * side) * dtype_bytes(b->dt) > room)
        side /= 2;
    return (struct limits){
        .bytes_per_ms = 2.0 * (double)bytes / best_ms(b, copy_bytes, bytes),
        .flop_per_ms = 2.0 * (double)side * (double)side * (double)side /
                       best_ms(b, multiply, side)};
}

static void print_table(const struct bench *b, const struct limits *l)
{
    printf("Limits: %.0f GB/s, %.1f TF/s.\n\n| operation | GB, least | GB, as "
           "it moves | GF | ms | limit, ms | share | share as it moves |\n"
           "|---|---|---|---|---|---|---|---|\n",
           l->bytes_per_ms * 1e-6, l->flop_per_ms * 1e-9);
    for (int i = 0; i < N_OPS; i++) {
        double by_bytes = b->bytes[i] / l->bytes_per_ms;
        double by_flop = b->flop[i] / l->flop_per_ms;
        double by_moved = b->moved[i] / l->bytes_per_ms;
        double limit = by_bytes > by_flop ? by_bytes : by_flop;
        double own = by_moved > by_flop ? by_moved : by_flop;
        printf("| %s | %.3f | %.3f | %.1f | %.3f | %.3f | %.0f %% | %.0f %% "
               "|\n",
               op_names[i], b->bytes[i] * 1e-9, b->moved[i] * 1e-9,
               b->flop[i] * 1e-9, b->ms[i], limit, 100 * limit / b->ms[i],
               100 * own / b->ms[i]);
    }
}

int main(int argc, char **argv)
{
    static struct bench b;
    bool on_gpu = argc > 1 && strcmp(argv[1], "cuda") == 0;
    int32_t threads =
        argc > 1 && !on_gpu ? (int32_t)strtol(argv[1], NULL, 10) : 1;
    int32_t size = argc > 2 ? (int32_t)strtol(argv[2], NULL, 10) : 32;
    int32_t N = argc > 3 ? (int32_t)strtol(argv[3], NULL, 10) : 64;
    double total = 0;

    b.dt = argc > 4 ? dtype_named(argv[4]) : DT_F32;
    if (b.dt == DT_N) {
        (void)fprintf(stderr, "kernels: no type '%s'\n", argv[4]);
        return 2;
    }
    int rc = on_gpu ? device_cuda_create(0, &b.d, &b.err)
                    : device_host_create(threads, &b.d, &b.err);
    if (rc < 0) {
        (void)fprintf(stderr, "kernels: %s\n", b.err.msg);
        return 1;
    }
    const bool is_table = argc > 5 && strcmp(argv[5], "table") == 0;
    rng_seed(&b.rng, 1);
    b.calls = on_gpu ? 20 : 1;
    network(&b, N, size);
    size_t most = largest(&b) * dtype_bytes(b.dt);
    /* The optimizer's state has at most eight bytes a value. */
    if (most < (size_t)b.params * 8)
        most = (size_t)b.params * 8;
    const size_t least = on_gpu ? (size_t)1 << 30 : (size_t)64 << 20;
    if (is_table && most < least)
        most = least;
    b.x = room(&b, most);
    b.y = room(&b, most);
    b.z = room(&b, most);
    b.w = room(&b, most);
    b.g = room(&b, most);
    for (int i = 0; i < 8; i++)
        b.c[i] = room(&b, (size_t)4096 * 8);
    (void)b.d->ops->zero(b.d, b.c[7], (size_t)4096 * 8, NULL); /* labels */
    struct limits limits = {0};
    if (is_table)
        limits = find_limits(&b, most);
    for (int i = 0; i < b.n; i++)
        one_layer(&b, &b.layers[i]);
    the_rest(&b, N);
    if (is_table)
        print_table(&b, &limits);
    printf(is_table ? "\n" : "");
    printf("%d layers, %lld parameters, %dx%d, batch %d, %s, %s, %d threads\n",
           b.n, (long long)b.params, size, size, N, dtype_name(b.dt),
           b.d->ops->name, b.d->threads);
    for (int i = 0; i < N_OPS; i++) {
        total += op_names[i][0] == '(' ? 0 : b.ms[i];
        if (is_table)
            continue;
        printf("%-15s %8.3f ms %7.1f GB/s %7.1f GF/s\n", op_names[i], b.ms[i],
               b.bytes[i] / b.ms[i] * 1e-6, b.flop[i] / b.ms[i] * 1e-6);
    }
    printf("%-15s %8.3f ms = %.0f img/s\n", "step", total, N / total * 1e3);
    void *all[] = {b.x, b.y, b.z, b.w, b.g};
    for (int i = 0; i < 5; i++)
        b.d->ops->release(b.d, all[i]);
    for (int i = 0; i < 8; i++)
        b.d->ops->release(b.d, b.c[i]);
    b.d->ops->destroy(b.d);
    return 0;
}
