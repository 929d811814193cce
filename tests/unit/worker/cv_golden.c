/* cv_golden.c - the whole model against PyTorch, step by step.
 *
 * tests/golden/mobilenet.py says what was computed and how its weights and
 * data are drawn. fp64 must agree to 1e-9: both sides compute the same
 * formulas in different orders, and ten steps through 52 batch norms over as
 * few as 16 rows amplify the 1e-16 of rounding. fp32 starts 2^29 times
 * coarser, which by the third step is all that is left of some cases: its first
 * pass and two losses may be as far from fp64 as fp64 is with weights that are
 * moved by 2^-14 or 2^-16 of themselves, which a processor does not decide, and
 * no further than 1e-3 and 5e-2. In 16 bits the first pass scatters
 * (cv_precision.c): its logits and gradients may be as far from fp64 as
 * PyTorch's are, and half as far again; in the mean of all cases, gradients a
 * fifth. By chance one case's gradient is a tenth nearer or farther (the
 * deviation of the ten ratios), so the mean of ten by 0.03. Half is five times
 * the one, a fifth six times the other, and one rounding more in each layer
 * would be 1.4.
 *
 * Twenty steps are made by the worker's own optimizer, schedule and mean of
 * the weights.
 */
#include <math.h>
#include <stdlib.h>

#include "jobs/base/rng.h"
#include "kernels/device.h"
#include "tests/device.h"
#include "tests/golden/golden.h"
#include "tests/pass.h"
#include "tests/slow.h"
#include "tests/tap.h"
#include "worker/cv/mobilenet.h"
#include "worker/train/ema.h"
#include "worker/train/lr_schedule.h"
#include "worker/train/optimizer.h"

enum {
    STEPS = 20,
    BATCH = 16,
    ROWS = 4,
    CLASSES = 10,
    PER_EPOCH = 3,
    WARMUP = 4,
    MAX_TENSORS = 320
};

struct golden_case {
    const char *name;
    double width;
    int32_t size, classes, channels, batch, steps;
    const char *optimizer;
    enum spec_schedule schedule;
    double smoothing;
};

static const struct golden_case cases[] = {
    {"sgd_1.0_32", 1.0, 32, 10, 3, 16, 10, "sgd", SCHEDULE_CONSTANT, 0},
    {"sgd_0.5_28", 0.5, 28, 7, 3, 16, 10, "sgd", SCHEDULE_CONSTANT, 0},
    {"adamw_0.5_32", 0.5, 32, 10, 3, 16, 10, "adamw", SCHEDULE_CONSTANT, 0},
    {"gray_1.0_28", 1.0, 28, 10, 1, 16, 4, "momentum", SCHEDULE_CONSTANT, 0.1},
    {"one_0.5_28", 0.5, 28, 1, 3, 8, 2, "sgd", SCHEDULE_CONSTANT, 0},
    {"thousand_1.0_100", 1.0, 100, 1000, 3, 4, 2, "sgd", SCHEDULE_CONSTANT,
     0.1},
    {"thousand_0.5_224", 0.5, 224, 1000, 3, 2, 2, "sgd", SCHEDULE_CONSTANT, 0},
    {"sgd_20_steps", 0.25, 32, 10, 3, 16, 20, "momentum", SCHEDULE_STEP, 0.1},
    {"nesterov_20_steps", 0.25, 32, 10, 3, 16, 20, "sgd", SCHEDULE_MULTISTEP,
     0},
    {"adamw_20_steps", 0.25, 32, 10, 1, 16, 20, "adamw", SCHEDULE_COSINE, 0},
    {"rmsprop_20_steps", 0.25, 32, 10, 3, 16, 20, "rmsprop", SCHEDULE_COSINE,
     0},
};
enum { SEED = 100 };
/* Relative, of each weight: 1,000 and 256 times what fp32 rounds. */
enum { MOVES = 2 };
static const double moves[MOVES] = {0x1p-14, 0x1p-16};
static const double HALF_SCALE = 0x1p-6; /* of the loss in 16 bits */

struct run {
    const struct golden_case *c;
    const struct golden *g;
    struct device *d;
    struct model *m;
    enum dtype dt;
    double moved; /* how far each weight is from what was drawn; relative */
    struct rng rng, mover;
    void *x;        /* device, [batch, S, S, channels] T */
    int32_t *label; /* device */
    struct job_spec spec;
    struct optimizer optimizer;
    struct ema ema;
    double *grads; /* fp64's, of the first step; the caller's */
    double sums[2 * MAX_TENSORS];
    size_t n_sums;
};

/* All calls of a test must work. */
static void must(int rc, const struct error *err)
{
    if (rc < 0) {
        tap_diag("%s", err->msg);
        exit(1);
    }
}

static bool ends(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && strcmp(s + n - k, tail) == 0;
}

/* value_of() of the generator. */
static double value_of(const struct model_tensor *t, double u)
{
    if (strncmp(t->name, "classifier", 10) == 0)
        return (2 * u - 1) * 0.1;
    if (t->dims == 4)
        return (2 * u - 1) *
               sqrt(6.0 / (t->shape[0] * t->shape[2] * t->shape[3]));
    if (ends(t->name, "bias") || ends(t->name, "running_mean"))
        return (2 * u - 1) * 0.3;
    return 0.5 + u;
}

static int draw_tensor(void *arg, const struct model_tensor *t,
                       struct error *err)
{
    struct run *r = arg;
    if (t->dt == DT_N)
        return 0;
    size_t n = t->bytes / dtype_bytes(t->dt);
    double *v = malloc(n * sizeof(*v));
    for (size_t i = 0; i < n; i++)
        v[i] = value_of(t, rng_uniform(&r->rng)) *
               (1 + r->moved * (2 * rng_uniform(&r->mover) - 1));
    struct model_tensor in = *t;
    in.dt = DT_F64;
    in.data = v;
    in.bytes = n * sizeof(*v);
    int rc = model_import(r->m, &in, err);
    free(v);
    return rc;
}

static int sum_tensor(void *arg, const struct model_tensor *t,
                      struct error *err)
{
    struct run *r = arg;
    (void)err;
    if (t->dt == DT_N)
        return 0;
    size_t n = t->bytes / dtype_bytes(t->dt);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        double v = t->dt == DT_F64 ? ((const double *)t->data)[i]
                                   : (double)((const float *)t->data)[i];
        sum += v;
        squares += v * v;
    }
    r->sums[r->n_sums++] = sum;
    r->sums[r->n_sums++] = squares;
    return 0;
}

/* Images in PyTorch's order of drawing, [n, C, S, S]; ours is NHWC. */
static void next_batch(struct run *r, struct error *err)
{
    const size_t pixels = (size_t)(r->c->size * r->c->size);
    const size_t channels = (size_t)r->c->channels;
    const size_t n = (size_t)r->c->batch * channels * pixels;
    void *x = malloc(n * sizeof(double));
    for (size_t j = 0; j < n; j++) {
        size_t pixel = j % pixels, plane = j / pixels;
        size_t i =
            (plane / channels * pixels + pixel) * channels + plane % channels;
        dtype_set(r->dt, x, (int64_t)i, 3 * rng_uniform(&r->rng) - 1.5);
    }
    int32_t label[BATCH];
    for (int32_t i = 0; i < r->c->batch; i++)
        label[i] = (int32_t)(rng_uniform(&r->rng) * r->c->classes);
    must(r->d->ops->to_device(r->d, r->x, x, n * dtype_bytes(r->dt), err), err);
    must(r->d->ops->to_device(r->d, r->label, label,
                              (size_t)r->c->batch * sizeof(*label), err),
         err);
    must(r->d->ops->sync(r->d, err), err);
    free(x);
}

/* The corner of the logits that is written; how many. */
static size_t take_logits(struct run *r, bool train, double z[ROWS * CLASSES],
                          struct error *err)
{
    int32_t classes = r->c->classes < CLASSES ? r->c->classes : CLASSES;
    int32_t rows = r->c->batch < ROWS ? r->c->batch : ROWS;
    double *all = calloc((size_t)(r->c->batch * r->c->classes), sizeof(*all));
    must(pass_forward(r->m, r->x, r->label, r->c->batch, train, 0, err), err);
    must(mobilenet_logits(r->m, r->c->batch, all, err), err);
    for (int32_t i = 0; i < rows; i++)
        for (int32_t k = 0; k < classes; k++)
            z[i * classes + k] = all[i * r->c->classes + k];
    free(all);
    return (size_t)(rows * classes);
}

static void check_logits(struct run *r, bool train, const char *what,
                         double tolerance, struct error *err)
{
    char line[80];
    double z[ROWS * CLASSES];
    size_t n = take_logits(r, train, z, err);
    (void)snprintf(line, sizeof(line), "%s %s", r->c->name, what);
    golden_is(r->g, line, z, n, tolerance);
}

/* OPTIMIZERS of the generator. */
static void set_optimizer(struct run *r)
{
    const char *name = r->c->optimizer;
    struct job_spec *s = &r->spec;
    s->train.optimizer.name = OPTIM_SGD;
    s->train.optimizer.lr = 1e-5;
    s->train.optimizer.momentum = 0.9;
    s->train.optimizer.weight_decay = 0.1;
    s->train.optimizer.nesterov = strcmp(name, "sgd") == 0;
    if (strcmp(name, "adamw") == 0) {
        s->train.optimizer.name = OPTIM_ADAMW;
        s->train.optimizer.lr = 1e-3;
        s->train.optimizer.betas =
            (struct spec_numbers){.n = 2, .v = {0.9, 0.999}};
        s->train.optimizer.eps = 1e-8;
        s->train.optimizer.weight_decay = 1e-2;
    } else if (strcmp(name, "rmsprop") == 0) {
        s->train.optimizer.name = OPTIM_RMSPROP;
        s->train.optimizer.lr = 1e-4;
        s->train.optimizer.alpha = 0.9;
        s->train.optimizer.eps = 1e-3;
        s->train.optimizer.weight_decay = 1e-2;
    }
}

/* SCHEDULES of the generator. */
static void set_schedule(struct run *r)
{
    struct job_spec *s = &r->spec;
    s->train.lr_scheduler.name = r->c->schedule;
    s->train.lr_scheduler.gamma = 0.5;
    s->train.lr_scheduler.step_size = 2;
    if (r->c->schedule == SCHEDULE_COSINE)
        s->train.lr_scheduler.num_warmup_steps = WARMUP;
    if (r->c->schedule != SCHEDULE_MULTISTEP)
        return;
    s->train.lr_scheduler.gamma = 0.3;
    s->train.lr_scheduler.milestones =
        (struct spec_numbers){.n = 2, .v = {1, 4}};
}

static void step(struct run *r, int32_t i, struct error *err)
{
    double lr = r->spec.train.optimizer.lr *
                schedule_factor(&r->spec, i, PER_EPOCH, r->c->steps);
    must(optimizer_step(&r->optimizer, model_params(r->m), model_grads(r->m),
                        i + 1, lr, 1, err),
         err);
    must(ema_update(&r->ema, i == 0, err), err);
}

/* Sums over the gradients by tensor; there is no export of gradients, so
 * the flat array is cut at the shapes of the exported parameters. */
struct cut {
    const double *g;
    size_t at, n;
    double sums[2 * MAX_TENSORS];
};
static int cut_tensor(void *arg, const struct model_tensor *t,
                      struct error *err)
{
    struct cut *c = arg;
    (void)err;
    if (t->dt == DT_N || ends(t->name, "running_mean") ||
        ends(t->name, "running_var"))
        return 0;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < t->bytes / sizeof(double); i++, c->at++) {
        sum += c->g[c->at];
        squares += c->g[c->at] * c->g[c->at];
    }
    c->sums[c->n++] = sum;
    c->sums[c->n++] = squares;
    return 0;
}

/* They stay in r. */
static void check_grads(struct run *r, struct error *err)
{
    char line[80];
    size_t bytes = (size_t)model_planned(r->m)->params * sizeof(double);
    struct cut c = {.g = r->grads = malloc(bytes)};
    must(r->d->ops->to_host(r->d, r->grads, model_grads(r->m), bytes, err),
         err);
    if (r->c->steps >= 20)
        return;
    must(model_export(r->m, cut_tensor, &c, err), err);
    (void)snprintf(line, sizeof(line), "%s grads", r->c->name);
    golden_is_sums(r->g, line, c.sums, c.n, 1e-9);
}

/* What fp32 and fp64 with moved weights are compared by: logits, and losses of
 * two steps. */
struct early {
    double eval[ROWS * CLASSES], train[ROWS * CLASSES], losses[2];
};
static void early(struct run *r, struct early *ret, struct error *err)
{
    const int32_t batch = r->c->batch;
    for (int32_t i = 0; i < 2; i++) {
        int64_t hits;
        next_batch(r, err);
        if (i == 0) {
            (void)take_logits(r, false, ret->eval, err);
            (void)take_logits(r, true, ret->train, err);
        } else {
            must(pass_forward(r->m, r->x, r->label, batch, true, 0, err), err);
        }
        must(pass_backward(r->m, batch, 0, 1.0 / batch, err), err);
        must(pass_result(r->m, batch, &ret->losses[i], &hits, err), err);
        ret->losses[i] /= batch;
        step(r, i, err);
    }
}

static void train(struct run *r, double *losses, struct error *err)
{
    const int32_t batch = r->c->batch;
    double tight = 1e-10;
    for (int32_t i = 0; i < r->c->steps; i++) {
        int64_t hits;
        next_batch(r, err);
        if (i == 0)
            check_logits(r, false, "eval first", tight, err);
        if (i == 0) /* it is this step's forward pass, looked at */
            check_logits(r, true, "train first", tight, err);
        else
            must(pass_forward(r->m, r->x, r->label, batch, true, 0, err), err);
        must(pass_backward(r->m, batch, 0, 1.0 / batch, err), err);
        if (i == 0 && r->dt == DT_F64)
            check_grads(r, err);
        must(pass_result(r->m, batch, &losses[i], &hits, err), err);
        losses[i] /= batch;
        step(r, i, err);
    }
}

static void open_run(struct run *r, const struct golden_case *c,
                     const struct golden *g, enum dtype dt, double moved,
                     struct error *err)
{
    const struct mobilenet_conf conf = {.dt = dt,
                                        .width_mult = c->width,
                                        .num_classes = c->classes,
                                        .in_channels = c->channels,
                                        .label_smoothing = c->smoothing,
                                        .image_size = c->size,
                                        .batch = c->batch};
    struct optimizer_range all;
    void *label = NULL;
    *r = (struct run){.c = c, .g = g, .dt = dt, .moved = moved};
    must(test_device(1, &r->d, err), err);
    must(mobilenet_create(r->d, &conf, &r->m, err), err);
    size_t x = (size_t)(c->batch * c->channels) * (size_t)(c->size * c->size);
    must(r->d->ops->alloc(r->d, x * dtype_bytes(dt), &r->x, err), err);
    must(r->d->ops->alloc(r->d, BATCH * sizeof(int32_t), &label, err), err);
    r->label = label;
    set_optimizer(r);
    set_schedule(r);
    all = (struct optimizer_range){.count = model_planned(r->m)->params};
    must(optimizer_init(&r->optimizer, r->d, &r->spec, dt, all.count, &all, 1,
                        err),
         err);
    must(ema_init(&r->ema, r->d, r->m, dt, NULL, c->steps == 20 ? 0.9 : 0, err),
         err);
    rng_seed(&r->rng, SEED + (uint32_t)(c - cases));
    rng_seed(&r->mover, SEED);
    must(model_export(r->m, draw_tensor, r, err), err);
}

static void close_run(struct run *r)
{
    ema_clear(&r->ema);
    optimizer_clear(&r->optimizer);
    r->d->ops->release(r->d, r->label);
    r->d->ops->release(r->d, r->x);
    model_destroy(r->m);
    r->d->ops->destroy(r->d);
}

/* Of all tensors, after the last step; with the mean in their place, too. */
static void check_state(struct run *r, const char *what, struct error *err)
{
    char line[80];
    (void)snprintf(line, sizeof(line), "%s %s", r->c->name, what);
    r->n_sums = 0;
    must(model_export(r->m, sum_tensor, r, err), err);
    /* Some betas have gradient 0, but for rounding, which AdamW divides by
     * itself and eps. */
    golden_is_sums(r->g, line, r->sums, r->n_sums,
                   r->spec.train.optimizer.name == OPTIM_ADAMW ? 1e-6 : 1e-9);
}

/* Returns the gradients of the first step, from malloc. */
static double *test_double(const struct golden_case *c, const struct golden *g)
{
    struct error err = ERROR_INIT;
    struct run r;
    char line[80];
    double losses[STEPS];
    open_run(&r, c, g, DT_F64, 0, &err);
    train(&r, losses, &err);
    (void)snprintf(line, sizeof(line), "%s losses", c->name);
    golden_is(g, line, losses, (size_t)c->steps, 1e-9);
    check_logits(&r, false, "eval last", 1e-9, &err);
    if (c->steps >= 10)
        check_state(&r, "state", &err);
    if (c->steps == 20) {
        must(ema_show(&r.ema, true, &err), &err);
        check_state(&r, "mean", &err);
    }
    close_run(&r);
    return r.grads;
}

static void early_of(const struct golden_case *c, const struct golden *g,
                     enum dtype dt, double moved, struct early *ret)
{
    struct error err = ERROR_INIT;
    struct run r;
    open_run(&r, c, g, dt, moved, &err);
    early(&r, ret, &err);
    close_run(&r);
}

/* fp32 may be as far from PyTorch's fp64 as our fp64 is with weights that are
 * moved, and not further than `most`. */
static void nearer(const struct golden_case *c, const struct golden *g,
                   const char *what, const double *single,
                   const double *const moved[MOVES], size_t most_n, double most)
{
    char line[80];
    size_t n;
    double far = 0;
    (void)snprintf(line, sizeof(line), "%s %s", c->name, what);
    double *want = golden_get(g, line, &n);
    n = n < most_n ? n : most_n;
    for (int k = 0; k < MOVES; k++)
        far = fmax(far, golden_error(moved[k], want, n));
    far = fmin(far, most);
    const double e = golden_error(single, want, n);
    ok(e <= far, "%s: fp32, %.1e from fp64, at most %.1e", line, e, far);
    free(want);
}

static void test_single(const struct golden_case *c, const struct golden *g)
{
    struct early a, b[MOVES];
    early_of(c, g, DT_F32, 0, &a);
    for (int k = 0; k < MOVES; k++)
        early_of(c, g, DT_F64, moves[k], &b[k]);
    nearer(c, g, "eval first", a.eval,
           (const double *const[]){b[0].eval, b[1].eval}, ROWS * CLASSES, 1e-3);
    nearer(c, g, "train first", a.train,
           (const double *const[]){b[0].train, b[1].train}, ROWS * CLASSES,
           1e-3);
    nearer(c, g, "losses", a.losses,
           (const double *const[]){b[0].losses, b[1].losses}, 2, 5e-2);
}

/* Root of the mean square. */
static double apart(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum / (double)n);
}

/* The weights' gradients, of a loss scaled as the generator's is: how far they
 * are from fp64's, by the length of each, and so the mean of all. */
static double half_grads(struct run *r, const double *exact, struct error *err)
{
    struct model_range range[MODEL_RANGES];
    const int64_t n = model_planned(r->m)->params;
    const int32_t ranges = model_ranges(r->m, range, MODEL_RANGES);
    char line[80];
    size_t one;
    double *g = malloc((size_t)n * sizeof(*g)), squares = 0, tensors = 0;
    must(pass_backward(r->m, r->c->batch, 0, HALF_SCALE / r->c->batch, err),
         err);
    must(r->d->ops->to_host(r->d, g, model_grads(r->m),
                            (size_t)n * dtype_bytes(r->dt), err),
         err);
    for (int64_t i = n - 1; i >= 0; i--)
        g[i] = dtype_get(r->dt, g, i) / HALF_SCALE;
    for (int32_t k = 0; k < ranges; k++) {
        double off = 0, all = 0;
        for (int64_t i = range[k].first; i < range[k].first + range[k].count;
             i++) {
            off += (g[i] - exact[i]) * (g[i] - exact[i]);
            all += exact[i] * exact[i];
        }
        squares += range[k].is_norm_bias ? 0 : off / all;
        tensors += !range[k].is_norm_bias;
    }
    (void)snprintf(line, sizeof(line), "%s grads %s", r->c->name,
                   dtype_name(r->dt));
    double *torch = golden_get(r->g, line, &one);
    double ours = sqrt(squares / tensors), theirs = torch[0];
    ok(one == 1 && ours <= 1.5 * theirs, "%s: %.3g from fp64, PyTorch %.3g",
       line, ours, theirs);
    free(torch);
    free(g);
    return ours / theirs;
}

/* Returns by how much more its gradients are off than PyTorch's. */
static double test_half(const struct golden_case *c, const struct golden *g,
                        const double *exact_grads, enum dtype dt)
{
    struct error err = ERROR_INIT;
    struct run r;
    char line[80];
    double z[ROWS * CLASSES];
    size_t n, n_torch, n_exact;
    open_run(&r, c, g, dt, 0, &err);
    next_batch(&r, &err);
    n = take_logits(&r, true, z, &err);
    (void)snprintf(line, sizeof(line), "%s train first", c->name);
    double *exact = golden_get(g, line, &n_exact);
    (void)snprintf(line, sizeof(line), "%s train %s", c->name, dtype_name(dt));
    double *torch = golden_get(g, line, &n_torch);
    if (n != n_torch || n != n_exact)
        exit(1);
    double ours = apart(z, exact, n), theirs = apart(torch, exact, n);
    ok(ours <= 1.5 * theirs, "%s: %.3g from fp64, PyTorch %.3g", line, ours,
       theirs);
    free(exact);
    free(torch);
    double more = half_grads(&r, exact_grads, &err);
    close_run(&r);
    return more;
}

int main(void)
{
    struct golden g;
    double more[2] = {0}, halves = 0;
    golden_open(&g, "tests/golden/mobilenet.txt");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (is_slow && cases[i].steps > 10)
            continue;
        double *grads = test_double(&cases[i], &g);
        test_single(&cases[i], &g);
        if (cases[i].classes > 1) { /* with one, logits mean nothing */
            more[0] += test_half(&cases[i], &g, grads, DT_F16);
            more[1] += test_half(&cases[i], &g, grads, DT_BF16);
            halves++;
        }
        free(grads);
    }
    for (int k = 0; k < 2; k++)
        ok(more[k] <= 1.2 * halves,
           "%s: gradients are %.2f times as far from fp64 as PyTorch's",
           dtype_name(k == 0 ? DT_F16 : DT_BF16), more[k] / halves);
    golden_close(&g);
    return tap_done();
}
