/* llm_parts.c - see llm_parts.h.
 *
 * CPU time and not wall time: beside other programs the one stays what it is.
 * With several threads the calling thread sleeps for those that are behind,
 * which is "waiting", as is a core that other programs have. */
#include "tests/bench/llm_parts.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/bench/limits.h"

enum { MAX_CALLS = 4096, MAX_ROWS = 96, LABEL = 36 };

enum part {
    PRODUCTS_PART,
    ATTENTION,
    NORMS,
    HEAD,
    ADAPTERS,
    EXPANDED,
    OPTIMIZER,
    COPIES,
    PARTS
};

static const char *const names[PARTS] = {
    "products", "attention", "norms, RoPE, SwiGLU", "head",
    "adapters", "NF4",       "optimizer",           "embedding and copies"};

struct call {
    char label[LABEL];
    enum part part;
    double s, flop, bytes;
};

struct row {
    char label[LABEL];
    int32_t n;
    double s, flop, bytes;
};

/* Wrapped operations have no room for an argument of their own. */
static const struct device_ops *real;
static struct device_ops timed;
static struct call calls[MAX_CALLS];
static int32_t at, n_calls, depth, vocab, lows;
static double step_wall, step_cpu, best_wall, best_cpu;

static double now(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* An operation may call others: a product of 16 bits casts. They are its. */
static double begin(void)
{
    depth++;
    return now(CLOCK_THREAD_CPUTIME_ID);
}

static int end(double t0, int rc, enum part part, double flop, double values,
               enum dtype dt, const char *label)
{
    const double s = now(CLOCK_THREAD_CPUTIME_ID) - t0;
    if (--depth > 0 || at == MAX_CALLS)
        return rc;
    struct call *c = &calls[at++];
    if (at > n_calls) {
        n_calls = at;
        *c = (struct call){.part = part,
                           .s = s,
                           .flop = flop,
                           .bytes = values * (double)dtype_bytes(dt)};
        (void)snprintf(c->label, sizeof(c->label), "%s", label);
    } else if (s < c->s) {
        c->s = s;
    }
    return rc;
}

/* ---- the operations ------------------------------------------------------ */

static enum part part_of(bool ta, int32_t m, int32_t n, int32_t k)
{
    /* The tokens, which may be as many as anything, are m, or k with ta. */
    if (n == vocab || (ta ? m : k) == vocab)
        return HEAD;
    return n <= lows || (ta ? m : k) <= lows ? ADAPTERS : PRODUCTS_PART;
}

static int gemm(struct device *d, enum dtype dt, bool ta, bool tb, int32_t m,
                int32_t n, int32_t k, double alpha, const void *A, int32_t lda,
                const void *B, int32_t ldb, double beta, void *C, int32_t ldc,
                struct error *err)
{
    const double t = begin(), M = m, N = n, K = k;
    const int rc = real->gemm(d, dt, ta, tb, m, n, k, alpha, A, lda, B, ldb,
                              beta, C, ldc, err);
    char label[LABEL];
    (void)snprintf(label, sizeof(label), "%c%c [%d, %d] by [%d, %d]%s",
                   ta ? 'T' : 'N', tb ? 'T' : 'N', m, k, k, n,
                   beta == 0 ? "" : " +");
    return end(t, rc, part_of(ta, m, n, k), 2 * M * N * K,
               M * K + K * N + M * N * (beta == 0 ? 1 : 2), dt, label);
}

/* Of a token and one that it sees. */
static double pairs_of(const struct attention *s, const int32_t *pos)
{
    double pairs = 0;
    for (int64_t i = 0; i < s->rows; i++)
        pairs +=
            s->window > 0 && s->window <= pos[i] ? s->window : pos[i] + 1.0;
    return pairs;
}

static int attention_fwd(struct device *d, enum dtype dt, void *o, int32_t ldo,
                         void *lse, const void *q, const void *k, const void *v,
                         int32_t ld, const int32_t *pos,
                         const struct attention *s, struct error *err)
{
    const double t = begin();
    const int rc =
        real->llm.attention_fwd(d, dt, o, ldo, lse, q, k, v, ld, pos, s, err);
    const double rows = (double)s->rows, D = s->head_dim;
    const double pairs = pairs_of(s, pos);
    return end(t, rc, ATTENTION, 4 * pairs * s->heads * D,
               rows * D * (2.0 * s->heads + 2.0 * s->kv_heads), dt,
               "attention");
}

static int attention_bwd(struct device *d, enum dtype dt, void *dq, void *dk,
                         void *dv, int32_t ldd, const void *dout, const void *o,
                         int32_t ldo, const void *lse, const void *q,
                         const void *k, const void *v, int32_t ld,
                         const int32_t *pos, const struct attention *s,
                         struct error *err)
{
    const double t = begin();
    const int rc = real->llm.attention_bwd(d, dt, dq, dk, dv, ldd, dout, o, ldo,
                                           lse, q, k, v, ld, pos, s, err);
    const double rows = (double)s->rows, D = s->head_dim;
    const double pairs = pairs_of(s, pos);
    return end(t, rc, ATTENTION, 10 * pairs * s->heads * D,
               rows * D * (4.0 * s->heads + 4.0 * s->kv_heads), dt,
               "attention, backward");
}

static int rmsnorm_fwd(struct device *d, enum dtype dt, void *y, void *rstd,
                       void *h, const void *x, const void *delta, const void *w,
                       int64_t rows, int32_t C, double eps, struct error *err)
{
    const double t = begin();
    const int rc = real->llm.rmsnorm_fwd(d, dt, y, rstd, h, x, delta, w, rows,
                                         C, eps, err);
    return end(t, rc, NORMS, 0,
               (double)rows * C * (2 + (h != NULL) + (delta != NULL)), dt,
               "RMSNorm");
}

static int rmsnorm_bwd(struct device *d, enum dtype dt, void *dx, void *dw,
                       void *y, const void *dy, const void *h, const void *rstd,
                       const void *w, const void *extra, int64_t rows,
                       int32_t C, struct error *err)
{
    const double t = begin();
    const int rc = real->llm.rmsnorm_bwd(d, dt, dx, dw, y, dy, h, rstd, w,
                                         extra, rows, C, err);
    return end(t, rc, NORMS, 0,
               (double)rows * C * (3 + (extra != NULL) + (y != NULL)), dt,
               "RMSNorm, backward");
}

static int heads_fwd(struct device *d, enum dtype dt, void *x, int32_t ld,
                     void *h, void *rstd, const void *w, int64_t rows,
                     int32_t heads, int32_t D, double eps, struct error *err)
{
    const double t = begin();
    const int rc = real->llm.head.norm_fwd(d, dt, x, ld, h, rstd, w, rows,
                                           heads, D, eps, err);
    return end(t, rc, NORMS, 0, (double)rows * heads * D * (2 + (h != NULL)),
               dt, "norm of heads");
}

static int heads_bwd(struct device *d, enum dtype dt, void *dx, int32_t ld,
                     void *dw, const void *h, const void *rstd, const void *w,
                     int64_t rows, int32_t heads, int32_t D, struct error *err)
{
    const double t = begin();
    const int rc = real->llm.head.norm_bwd(d, dt, dx, ld, dw, h, rstd, w, rows,
                                           heads, D, err);
    return end(t, rc, NORMS, 0, 3 * (double)rows * heads * D, dt,
               "norm of heads, backward");
}

static int rope(struct device *d, enum dtype dt, void *x, int32_t ld,
                const int32_t *pos, const void *table, int32_t positions,
                int64_t rows, int32_t heads, int32_t D, bool back,
                struct error *err)
{
    const double t = begin();
    const int rc = real->llm.rope(d, dt, x, ld, pos, table, positions, rows,
                                  heads, D, back, err);
    return end(t, rc, NORMS, 0, 2 * (double)rows * heads * D, dt, "RoPE");
}

static int swiglu_fwd(struct device *d, enum dtype dt, void *y, const void *x,
                      int64_t rows, int32_t F, struct error *err)
{
    const double t = begin();
    const int rc = real->llm.swiglu_fwd(d, dt, y, x, rows, F, err);
    return end(t, rc, NORMS, 0, 3 * (double)rows * F, dt, "SwiGLU");
}

static int swiglu_bwd(struct device *d, enum dtype dt, void *dx, void *y,
                      const void *dy, const void *x, int64_t rows, int32_t F,
                      struct error *err)
{
    const double t = begin();
    const int rc = real->llm.swiglu_bwd(d, dt, dx, y, dy, x, rows, F, err);
    return end(t, rc, NORMS, 0, (double)rows * F * (5 + (y != NULL)), dt,
               "SwiGLU, backward");
}

static int xent(struct device *d, enum dtype dt, void *loss, int32_t *hit,
                void *z, const int32_t *label, int64_t rows, int32_t C,
                const double *scale, double smooth, bool grad,
                struct error *err)
{
    const double t = begin();
    const int rc = real->xent(d, dt, loss, hit, z, label, rows, C, scale,
                              smooth, grad, err);
    return end(t, rc, HEAD, 0, (double)rows * C * (grad ? 2 : 1), dt, "loss");
}

static int take_rows(struct device *d, enum dtype dt, void *y, const void *x,
                     const int32_t *index, int64_t n, int32_t C,
                     const struct row_part *part, struct error *err)
{
    const double t = begin();
    const int rc = real->llm.take_rows(d, dt, y, x, index, n, C, part, err);
    return end(t, rc, COPIES, 0, 2 * (double)n * C, dt, "rows taken");
}

static int put_rows(struct device *d, enum dtype dt, void *y, const void *x,
                    const int32_t *index, int64_t n, int32_t C, int64_t limit,
                    struct error *err)
{
    const double t = begin();
    const int rc = real->llm.put_rows(d, dt, y, x, index, n, C, limit, err);
    return end(t, rc, COPIES, 0, (double)(n + limit) * C, dt, "rows put");
}

static int add_rows(struct device *d, enum dtype dt, void *y, const void *x,
                    const int32_t *index, const int32_t *order, int64_t n,
                    int32_t C, const struct row_part *part, struct error *err)
{
    const double t = begin();
    const int rc =
        real->llm.add_rows(d, dt, y, x, index, order, n, C, part, err);
    return end(t, rc, COPIES, 0, 3 * (double)n * C, dt, "rows added");
}

static int cast(struct device *d, enum dtype to, void *y, enum dtype from,
                const void *x, int64_t n, struct error *err)
{
    const double t = begin();
    const int rc = real->cast(d, to, y, from, x, n, err);
    const double bytes = (double)(dtype_bytes(to) + dtype_bytes(from)) / 4;
    return end(t, rc, OPTIMIZER, 0, (double)n * bytes, DT_F32,
               "copies of another type");
}

static int adamw(struct device *d, enum dtype dt, void *p, void *m, void *v,
                 const void *g, int64_t n, const struct adamw_args *a,
                 struct error *err)
{
    const double t = begin();
    const int rc = real->adamw(d, dt, p, m, v, g, n, a, err);
    return end(t, rc, OPTIMIZER, 0, 7 * (double)n, dt, "AdamW");
}

/* For the gradient's norm. */
static int sum_squares(struct device *d, enum dtype dt, void *out,
                       const void *x, int64_t n, struct error *err)
{
    const double t = begin();
    const int rc = real->sum_squares(d, dt, out, x, n, err);
    return end(t, rc, OPTIMIZER, 0, (double)n, dt, "sum of squares");
}

/* Codes of half a byte, and values; a scaler for each 64 is little. */
static int nf4_expand(struct device *d, enum dtype dt, void *w,
                      const struct nf4 *q, struct error *err)
{
    const double t = begin();
    const int rc = real->llm.nf4_expand(d, dt, w, q, err);
    return end(t, rc, EXPANDED, 0,
               (double)q->n * (1 + 0.5 / (double)dtype_bytes(dt)), dt,
               "NF4 to values");
}

static int zero(struct device *d, void *dst, size_t bytes, struct error *err)
{
    const double t = begin();
    const int rc = real->zero(d, dst, bytes, err);
    return end(t, rc, COPIES, 0, (double)bytes / 4, DT_F32, "zeros");
}

static int copy(struct device *d, void *dst, const void *src, size_t bytes,
                struct error *err)
{
    const double t = begin();
    const int rc = real->copy(d, dst, src, bytes, err);
    return end(t, rc, COPIES, 0, (double)bytes / 2, DT_F32, "copies");
}

/* ---- begin and end ------------------------------------------------------- */

void llm_parts_begin(struct device *d, int32_t of_vocab, int32_t of_lows)
{
    real = d->ops;
    timed = *real;
    at = n_calls = depth = 0;
    vocab = of_vocab;
    lows = of_lows;
    best_wall = best_cpu = 1e30;
    timed.gemm = gemm;
    timed.xent = xent;
    timed.cast = cast;
    timed.adamw = adamw;
    timed.sum_squares = sum_squares;
    timed.zero = zero;
    timed.copy = copy;
    timed.llm.attention_fwd = attention_fwd;
    timed.llm.attention_bwd = attention_bwd;
    timed.llm.rmsnorm_fwd = rmsnorm_fwd;
    timed.llm.rmsnorm_bwd = rmsnorm_bwd;
    timed.llm.head.norm_fwd = heads_fwd;
    timed.llm.head.norm_bwd = heads_bwd;
    timed.llm.rope = rope;
    timed.llm.swiglu_fwd = swiglu_fwd;
    timed.llm.swiglu_bwd = swiglu_bwd;
    timed.llm.nf4_expand = nf4_expand;
    timed.llm.take_rows = take_rows;
    timed.llm.put_rows = put_rows;
    timed.llm.add_rows = add_rows;
    d->ops = &timed;
}

void llm_parts_step_begin(void)
{
    at = 0;
    step_wall = now(CLOCK_MONOTONIC);
    step_cpu = now(CLOCK_THREAD_CPUTIME_ID);
}

void llm_parts_step_end(void)
{
    const double cpu = now(CLOCK_THREAD_CPUTIME_ID) - step_cpu;
    const double wall = now(CLOCK_MONOTONIC) - step_wall;
    if (cpu >= best_cpu)
        return;
    best_cpu = cpu;
    best_wall = wall;
}

static void add(struct row *r, const struct call *c)
{
    r->n++;
    r->s += c->s;
    r->flop += c->flop;
    r->bytes += c->bytes;
}

static void print_row(const char *label, const struct row *r,
                      const struct limits *lim)
{
    const double by_flop = r->flop / lim->flops, by_mem = r->bytes / lim->bytes;
    if (r->n == 0)
        return;
    (void)printf("%-34s %4d %9.3f %6.1f %8.3f %8.1f %7.1f %6.1f  %s %3.0f\n",
                 label, r->n, 1e3 * r->s, 100 * r->s / best_cpu, 1e-9 * r->flop,
                 1e-6 * r->bytes, 1e-9 * r->flop / r->s, 1e-9 * r->bytes / r->s,
                 by_flop > by_mem ? "flop" : "mem ",
                 100 * (by_flop > by_mem ? by_flop : by_mem) / r->s);
}

static void report(const struct limits *lim)
{
    struct row rows[MAX_ROWS] = {{.n = 0}}, parts[PARTS] = {{.n = 0}};
    int32_t n = 0;
    double rest = best_cpu;
    for (int32_t i = 0; i < n_calls; i++) {
        int32_t k = 0;
        while (k < n && strcmp(rows[k].label, calls[i].label) != 0)
            k++;
        if (k == n && n < MAX_ROWS)
            memcpy(rows[n++].label, calls[i].label, LABEL);
        if (k < n)
            add(&rows[k], &calls[i]);
        add(&parts[calls[i].part], &calls[i]);
        rest -= calls[i].s;
    }
    (void)printf("limits: %.0f GF/s, %.1f GB/s; a step %.2f ms, of which on "
                 "the CPU %.2f\n%-34s %4s %9s %6s %8s %8s %7s %6s  %s\n",
                 1e-9 * lim->flops, 1e-9 * lim->bytes, 1e3 * best_wall,
                 1e3 * best_cpu, "operation, or part", "n", "CPU ms", "%", "GF",
                 "MB", "GF/s", "GB/s", "limit %");
    for (int32_t i = 0; i < n; i++)
        print_row(rows[i].label, &rows[i], lim);
    (void)puts("by part:");
    for (int32_t i = 0; i < PARTS; i++)
        print_row(names[i], &parts[i], lim);
    (void)printf("%-34s %14.3f %6.1f\n%-34s %14.3f %6.1f\n\n",
                 "between operations", 1e3 * rest, 100 * rest / best_cpu,
                 "waiting, of the whole step", 1e3 * (best_wall - best_cpu),
                 100 * (best_wall - best_cpu) / best_wall);
}

void llm_parts_end(struct device *d, int32_t threads)
{
    d->ops = real;
    const struct limits lim = limits_measure(threads);
    report(&lim);
}
