/* layers.c - where the time of a training step goes, and what the machine
 * would allow.
 *
 *   layers [threads [size [batch [dtype [width]]]]]      1 28 64 fp32 1.0
 *
 * Measures two limits of this machine with that many threads, products and
 * sums per second from registers and bytes per second from memory, then runs
 * training steps on a device whose operations are timed one by one. Per shape
 * of layer it prints the operations of both passes, the bytes they must move
 * at least (every tensor once), their time (the best of each call over the
 * steps) and which share of it the nearer of the two limits explains. What
 * stays in the third cache may exceed 100 % of the memory's limit. Not a
 * test: no number is expected.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/device.h"
#include "tests/bench/limits.h"
#include "tests/pass.h"
#include "worker/cv/arch.h"

enum { STEPS = 12, MAX_CALLS = 256, MAX_ROWS = 80, LABEL = 32 };

struct call {
    char label[LABEL];
    bool back;
    double s, flop, bytes;
};

struct row {
    char label[LABEL];
    int32_t n;
    double fwd, bwd, flop, bytes;
};

/* Wrapped operations have no room for an argument of their own. */
static const struct device_ops *real;
static struct call calls[MAX_CALLS];
static int32_t at, n_calls;

static void must(int rc, const struct error *err)
{
    if (rc < 0) {
        (void)fprintf(stderr, "layers: %s\n", err->msg);
        exit(error_exit_status(err->code));
    }
}

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The call that began at t0 is over: its best time over the steps. */
static void note(struct device *d, double t0, bool back, double flop,
                 double values, enum dtype dt, const char *label)
{
    (void)real->sync(d, NULL);
    const double s = now() - t0;
    struct call *c = &calls[at];
    if (at == MAX_CALLS)
        return;
    if (at++ == n_calls) {
        n_calls++;
        *c = (struct call){.back = back,
                           .s = s,
                           .flop = flop,
                           .bytes = values * (double)dtype_bytes(dt)};
        (void)snprintf(c->label, sizeof(c->label), "%s", label);
    } else if (s < c->s) {
        c->s = s;
    }
}

static const char *pw_label(int64_t rows, int32_t K, int32_t N)
{
    static char s[LABEL];
    (void)snprintf(s, sizeof(s), "1x1 %lld: %d > %d", (long long)rows, K, N);
    return s;
}

static const char *dw_label(const struct conv3 *c)
{
    static char s[LABEL];
    (void)snprintf(s, sizeof(s), "3x3 %d > %d: %d", c->H, c->OH, c->C);
    return s;
}

static int pw_fwd(struct device *d, enum dtype dt, void *z,
                  const struct norm_stats *stats, void *y, const void *x,
                  const struct norm *in, const void *skip, const void *w,
                  int64_t rows, int32_t K, int32_t N, struct error *err)
{
    const double t = now(), r = (double)rows, kn = (double)K * N;
    const int rc =
        real->pw_fwd(d, dt, z, stats, y, x, in, skip, w, rows, K, N, err);
    note(d, t, false, 2 * r * kn,
         r * K * (1 + (skip != NULL) + (y != NULL)) + r * N + kn, dt,
         pw_label(rows, K, N));
    return rc;
}

static int pw_bwd(struct device *d, enum dtype dt, void *dx, void *dw,
                  const struct norm_grad *out, const void *dn, const void *z,
                  const struct norm *norm, const void *sums, const void *u,
                  const void *x, const struct norm *in, const void *extra,
                  const void *w, int64_t rows, int32_t K, int32_t N,
                  struct error *err)
{
    const double t = now(), r = (double)rows, kn = (double)K * N;
    const int rc = real->pw_bwd(d, dt, dx, dw, out, dn, z, norm, sums, u, x, in,
                                extra, w, rows, K, N, err);
    const int32_t of_k =
        (u != NULL) + (x != NULL) + (extra != NULL) + (dx != NULL);
    note(d, t, true, (dx ? 4 : 2) * r * kn, r * N * 2 + r * K * of_k + 2 * kn,
         dt, pw_label(rows, K, N));
    return rc;
}

static double pixels(const struct conv3 *s, bool out)
{
    return (double)s->N * s->C *
           (out ? (double)s->OH * s->OW : (double)s->H * s->W);
}

static int dw_fwd(struct device *d, enum dtype dt, void *z,
                  const struct norm_stats *stats, const void *x,
                  const struct norm *in, const void *w, const struct conv3 *s,
                  struct error *err)
{
    const double t = now();
    const int rc = real->dw_fwd(d, dt, z, stats, x, in, w, s, err);
    note(d, t, false, 18 * pixels(s, true), pixels(s, false) + pixels(s, true),
         dt, dw_label(s));
    return rc;
}

static int dw_bwd(struct device *d, enum dtype dt, void *dx, void *dw,
                  const struct norm_grad *out, const void *dn, const void *z,
                  const struct norm *norm, const void *sums, const void *x,
                  const struct norm *in, const void *w, const struct conv3 *s,
                  struct error *err)
{
    const double t = now();
    const int rc =
        real->dw_bwd(d, dt, dx, dw, out, dn, z, norm, sums, x, in, w, s, err);
    note(d, t, true, 36 * pixels(s, true),
         2 * (pixels(s, false) + pixels(s, true)), dt, dw_label(s));
    return rc;
}

static int im2col3(struct device *d, enum dtype dt, void *col, int32_t ld,
                   const void *x, const struct conv3 *s, struct error *err)
{
    const double t = now();
    const int rc = real->im2col3(d, dt, col, ld, x, s, err);
    note(d, t, false, 0, pixels(s, false) + 9 * pixels(s, true), dt,
         "stem's patches");
    return rc;
}

static int sgd(struct device *d, enum dtype dt, void *p, void *m, const void *g,
               int64_t n, const struct sgd_args *a, struct error *err)
{
    const double t = now();
    const int rc = real->sgd(d, dt, p, m, g, n, a, err);
    note(d, t, true, 0, 5 * (double)n, dt, "SGD");
    return rc;
}

static void step(struct model *m, struct device *d, void *x, int32_t *label,
                 void *mom, const struct mobilenet_conf *c, struct error *err)
{
    const struct sgd_args a = {
        .lr = 0.01, .momentum = 0.9, .grad_scale = 1, .nesterov = true};
    at = 0;
    must(pass_forward(m, x, label, c->batch, true, 1, err), err);
    must(pass_backward(m, c->batch, 1, 1.0 / c->batch, err), err);
    must(d->ops->sgd(d, c->dt, model_params(m), mom, model_grads(m),
                     model_planned(m)->params, &a, err),
         err);
}

static void add_row(struct row *rows, int32_t *n, const struct call *c)
{
    int32_t i = 0;
    while (i < *n && strcmp(rows[i].label, c->label) != 0)
        i++;
    if (i == MAX_ROWS)
        return;
    if (i == *n) {
        rows[(*n)++] = (struct row){.n = 0};
        memcpy(rows[i].label, c->label, sizeof(c->label));
    }
    rows[i].n += !c->back || c->flop == 0;
    rows[i].fwd += c->back ? 0 : c->s;
    rows[i].bwd += c->back ? c->s : 0;
    rows[i].flop += c->flop;
    rows[i].bytes += c->bytes;
}

static void print_row(const struct row *r, double total,
                      const struct limits *lim)
{
    const double s = r->fwd + r->bwd;
    const double by_flop = r->flop / lim->flops, by_mem = r->bytes / lim->bytes;
    (void)printf("%-26s %3d %8.3f %8.3f %6.1f %8.3f %8.1f %7.1f %6.1f  %s "
                 "%3.0f\n",
                 r->label, r->n, 1e3 * r->fwd, 1e3 * r->bwd, 100 * s / total,
                 1e-9 * r->flop, 1e-6 * r->bytes, 1e-9 * r->flop / s,
                 1e-9 * r->bytes / s, by_flop > by_mem ? "flop" : "mem ",
                 100 * (by_flop > by_mem ? by_flop : by_mem) / s);
}

static void report(double wall, double images, const struct limits *lim)
{
    struct row rows[MAX_ROWS], kind[3] = {{.label = "all 1x1"},
                                          {.label = "all 3x3"},
                                          {.label = "all other"}};
    int32_t n = 0;
    for (int32_t i = 0; i < n_calls; i++)
        add_row(rows, &n, &calls[i]);
    (void)printf("limits: %.0f GF/s, %.1f GB/s; a step %.2f ms, %.0f images/s\n"
                 "%-26s %3s %8s %8s %6s %8s %8s %7s %6s  %s\n",
                 1e-9 * lim->flops, 1e-9 * lim->bytes, 1e3 * wall,
                 images / wall, "pixels or sides: channels", "n", "fwd ms",
                 "bwd ms", "%", "GF", "MB", "GF/s", "GB/s", "limit %");
    for (int32_t i = 0; i < n; i++) {
        struct row *k = &kind[rows[i].label[0] == '1'   ? 0
                              : rows[i].label[0] == '3' ? 1
                                                        : 2];
        print_row(&rows[i], wall, lim);
        k->n += rows[i].n;
        k->fwd += rows[i].fwd;
        k->bwd += rows[i].bwd;
        k->flop += rows[i].flop;
        k->bytes += rows[i].bytes;
    }
    double rest = wall;
    for (int32_t i = 0; i < 3; i++) {
        print_row(&kind[i], wall, lim);
        rest -= kind[i].fwd + kind[i].bwd;
    }
    (void)printf("%-26s %30.1f\n", "pool, classifier, loss", 100 * rest / wall);
}

int main(int argc, char **argv)
{
    const int32_t threads = argc > 1 ? (int32_t)strtol(argv[1], NULL, 10) : 1;
    const struct mobilenet_conf c = {
        .image_size = argc > 2 ? (int32_t)strtol(argv[2], NULL, 10) : 28,
        .batch = argc > 3 ? (int32_t)strtol(argv[3], NULL, 10) : 64,
        .dt = argc > 4 ? dtype_named(argv[4]) : DT_F32,
        .width_mult = argc > 5 ? strtod(argv[5], NULL) : 1,
        .dropout = 0.2,
        .num_classes = 10,
    };
    struct error err = ERROR_INIT;
    struct device *d;
    struct model *m;
    void *x, *mom;
    int32_t *label;

    if (c.dt == DT_N) {
        (void)fprintf(stderr, "layers: no type '%s'\n", argv[4]);
        return 2;
    }
    const struct limits lim = limits_measure(threads);
    must(device_host_create(threads, &d, &err), &err);
    real = d->ops;
    struct device_ops timed = *real;
    timed.pw_fwd = pw_fwd;
    timed.pw_bwd = pw_bwd;
    timed.dw_fwd = dw_fwd;
    timed.dw_bwd = dw_bwd;
    timed.im2col3 = im2col3;
    timed.sgd = sgd;
    d->ops = &timed;
    must(mobilenet_create(d, &c, &m, &err), &err);
    must(model_init(m, 1, &err), &err);
    const size_t pixels_n =
        (size_t)c.batch * (size_t)c.image_size * (size_t)c.image_size * 3;
    must(real->alloc(d, pixels_n * dtype_bytes(c.dt), &x, &err), &err);
    must(
        real->alloc(d, (size_t)c.batch * sizeof(*label), (void **)&label, &err),
        &err);
    must(real->alloc(d,
                     (size_t)model_planned(m)->params * dtype_acc_bytes(c.dt),
                     &mom, &err),
         &err);
    /* Bytes below 0.5 in any type: no NaN, and not all the same. */
    for (size_t i = 0; i < pixels_n * dtype_bytes(c.dt); i++)
        ((unsigned char *)x)[i] = (unsigned char)(i * 2654435761u >> 24) % 60;
    double best = 1e30;
    for (int32_t i = 0; i < STEPS; i++) {
        const double t = now();
        step(m, d, x, label, mom, &c, &err);
        const double s = now() - t;
        best = i > 0 && s < best ? s : best;
    }
    (void)printf("%d threads, %dx%d, batch %d, %s, width %g\n", threads,
                 c.image_size, c.image_size, c.batch, dtype_name(c.dt),
                 c.width_mult);
    report(best, c.batch, &lim);
    real->release(d, x);
    real->release(d, label);
    real->release(d, mom);
    model_destroy(m);
    real->destroy(d);
    return 0;
}
