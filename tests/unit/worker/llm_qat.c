/* llm_qat.c - a Llama in quantisation-aware training, against torchao.
 *
 * tests/golden/qat.py says what was computed: losses, gradients and 20 losses
 * of AdamW of two small models and of one with hidden 256 and ffn 512 at a
 * groupsize of 256, of all weights and of adapters. fp64 agrees to 1e-9. The
 * most negative weight of a group lies in the middle between two steps, so its
 * last bit decides, and that of an update in fp32 is another one; so does that
 * of an input in the middle, where the weights stay. So five losses in fp32 may
 * be twice as far off as fp64's are with a learning rate that is a little
 * larger, and no further than 2e-2. A first loss agrees to 1e-4 in fp32 and to
 * 3 % in bf16.
 */
#include <math.h>
#include <string.h>

#include "tests/golden/golden.h"
#include "tests/unit/worker/llm_drawn.h"
#include "tests/unit/worker/llm_golden_rows.h"
#include "worker/llm/llama_internal.h"
#include "worker/train/optimizer.h"

enum { BATCHES = 4, UPDATES = 20, LINE = 160 };

static const struct qat_case {
    const char *model, *set; /* set "full": no adapter */
    uint32_t targets;
    int32_t groupsize, updates, linears;
} cases[] = {
    {"tied", "full", 0, 32, 20, 12},
    {"tied", "full", 0, 16, 20, 14},
    {"untied", "full", 0, 8, 20, 15},
    {"tied", "adapter", 127, 32, 20, 12},
    {"untied", "adapter-output", 255, 8, 20, 15},
    {"wide", "full", 0, 256, 10, 8},
};
static const struct llama_config wide = {.vocab = 64,
                                         .hidden = 256,
                                         .ffn = 512,
                                         .layers = 1,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .head_dim = 64,
                                         .max_positions = 128};
static char wide_dir[] = "/tmp/mgpu-llm-qat-XXXXXX";

static double wide_value(const struct llama_tensor *t, int32_t k, int64_t i)
{
    static struct rng rng;
    if (i == 0)
        rng_seed(&rng, (uint32_t)k);
    const double u = rng_uniform(&rng);
    return t->dims == 1 ? 0.75 + u / 2 : (u - 0.5) * 2 / sqrt(t->shape[1]);
}

struct run {
    const struct qat_case *c;
    const struct golden *g, *want; /* the batches, the results */
    struct llm_rig rig;
    struct llama_shape shape;
    char dir[4096], adapter[4200];
    struct llm_rows rows[BATCHES];
};

static struct llama_conf conf_of(struct run *r, enum dtype dt)
{
    const bool is_full = r->c->targets == 0;
    char path[64];
    (void)snprintf(path, sizeof(path), "tests/data/llama-%s", r->c->model);
    (void)llm_path(path, r->dir);
    if (strcmp(r->c->model, "wide") == 0)
        (void)snprintf(r->dir, sizeof(r->dir), "%s", wide_dir);
    (void)snprintf(r->adapter, sizeof(r->adapter), "%s/%s", r->dir, r->c->set);
    return (struct llama_conf){.dt = dt,
                               .is_full = is_full,
                               .rank = 4,
                               .alpha = 8,
                               .targets = r->c->targets,
                               .quantizer = QUANTIZER_8DA4W,
                               .groupsize = r->c->groupsize,
                               .batch = 3,
                               .batch_eval = 3,
                               .row_tokens = 12,
                               .dir = r->dir,
                               .adapter = is_full ? NULL : r->adapter};
}

static void open_run(struct run *r, const struct qat_case *c,
                     const struct golden *g, const struct golden *want,
                     enum dtype dt, int32_t after)
{
    struct error err = ERROR_INIT;
    memset(r, 0, sizeof(*r));
    r->c = c;
    r->g = strcmp(c->model, "wide") == 0 ? want : g;
    r->want = want;
    struct llama_conf conf = conf_of(r, dt);
    conf.fake_quant_after = after;
    for (int b = 0; b < BATCHES; b++)
        llm_golden_rows(&r->rows[b], r->g, c->model, b);
    llm_rig_open(&r->rig, &conf, 1);
    must(llama_shape_init(&r->shape, &r->rig.conf.shape, conf.is_full, 4, 8,
                          c->targets, &err),
         &err);
}

static double pass(struct run *r, int b, double scale)
{
    llm_rig_rows(&r->rig, &r->rows[b]);
    return llm_pass(&r->rig, scale);
}

static void name_line(const struct run *r, const char *what, char ret[LINE])
{
    (void)snprintf(ret, LINE, "%s %s %d %s", r->c->model, r->c->set,
                   r->c->groupsize, what);
}

/* Sums over the tensors, in the order of their names. */
static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct llama_tensor *)a)->name,
                  ((const struct llama_tensor *)b)->name);
}

static void check_grads(struct run *r)
{
    const int32_t n = llama_trained_count(&r->shape);
    struct llama_tensor *t = calloc((size_t)n, sizeof(*t));
    double *sums = calloc(2 * (size_t)n, sizeof(*sums));
    double *grads = llm_grads(&r->rig);
    char line[LINE];
    for (int32_t i = 0; i < n; i++)
        llama_trained(&r->shape, i, &t[i]);
    qsort(t, (size_t)n, sizeof(*t), by_name);
    for (int32_t i = 0; i < n; i++)
        for (int64_t k = 0; k < t[i].n; k++) {
            const double v = grads[t[i].at + k];
            sums[2 * (ptrdiff_t)i] += v;
            sums[2 * (ptrdiff_t)i + 1] += v * v;
        }
    name_line(r, "grad", line);
    golden_is_sums(r->want, line, sums, 2 * (size_t)n, 1e-9);
    free(sums);
    free(grads);
    free(t);
}

static void test_first(const struct qat_case *c, const struct golden *g,
                       const struct golden *want, enum dtype dt,
                       double tolerance)
{
    static struct run r;
    char line[LINE], text[400], words[80];
    open_run(&r, c, g, want, dt, 0);
    const double n_labelled = r.rows[0].n_labelled;
    double loss[2] = {pass(&r, 0, 1 / n_labelled)};
    loss[1] = loss[0] / n_labelled;
    name_line(&r, "loss", line);
    golden_is(want, line, loss, 2, tolerance);
    if (dt == DT_F64) {
        check_grads(&r);
        r.rig.m->ops->describe(r.rig.m, text, sizeof(text));
        (void)snprintf(words, sizeof(words),
                       "; fake-quantised: %d linears to 8da4w in groups of %d",
                       c->linears, c->groupsize);
        ok(strstr(text, words) != NULL, "%s", text);
    }
    llm_rig_close(&r.rig);
}

/* n losses, with a learning rate of 1e-3 * faster. */
static void curve(const struct qat_case *c, const struct golden *g,
                  const struct golden *want, enum dtype dt, int32_t after,
                  int n, double faster, double losses[UPDATES])
{
    struct error err = ERROR_INIT;
    static struct run r;
    struct optimizer o;
    struct job_spec spec = {.version = 1};
    open_run(&r, c, g, want, dt, after);
    for (int32_t i = 0; c->targets != 0 && i < llama_adapter_count(&r.shape);
         i++) {
        struct llama_tensor t;
        const size_t size = dtype_bytes(dt);
        llama_adapter(&r.shape, i, &t);
        if (t.fan_in == 0) /* the curves of adapters begin with a B of zero */
            must(r.rig.d->ops->zero(r.rig.d,
                                    (char *)model_params(r.rig.m) +
                                        (size_t)t.at * size,
                                    (size_t)t.n * size, &err),
                 &err);
    }
    const int64_t params = model_planned(r.rig.m)->params;
    const struct optimizer_range range = {0, params, false};
    spec.train.optimizer.name = OPTIM_ADAMW;
    spec.train.optimizer.betas =
        (struct spec_numbers){.n = 2, .v = {0.9, 0.999}};
    spec.train.optimizer.eps = 1e-8;
    spec.train.optimizer.weight_decay = 0.01;
    must(optimizer_init(&o, r.rig.d, &spec, dt, params, &range, 1, &err), &err);
    for (int u = 0; u < n; u++) {
        const double labelled = r.rows[u % BATCHES].n_labelled;
        model_reached(r.rig.m, u);
        losses[u] = pass(&r, u % BATCHES, 1) / labelled;
        must(optimizer_step(&o, model_params(r.rig.m), model_grads(r.rig.m),
                            u + 1, 1e-3 * faster, 1 / labelled, &err),
             &err);
    }
    optimizer_clear(&o);
    llm_rig_close(&r.rig);
}

/* How far fp64's losses move with learning rates that are larger by 2^-10 to
 * 2^-16 of themselves: which roundings turn over is chance, so of all four the
 * farthest. */
static double scatter(const struct qat_case *c, const struct golden *g,
                      const struct golden *want, int32_t after, int n,
                      const double *losses)
{
    double far = 0, moved_losses[UPDATES];
    for (int k = -10; k >= -16; k -= 2) {
        curve(c, g, want, DT_F64, after, n, 1 + ldexp(1, k), moved_losses);
        far = fmax(far, golden_error(moved_losses, losses, (size_t)n));
    }
    return far;
}

/* in  name       of the line whose first n losses are compared
 *     tolerance  in fp32 twice what scatter() finds, if that is less */
static void test_curve(const struct qat_case *c, const struct golden *g,
                       const struct golden *want, enum dtype dt,
                       const char *name, int32_t after, int n, double tolerance)
{
    static struct run r;
    double losses[UPDATES], first;
    char line[LINE];
    size_t all;
    curve(c, g, want, dt, after, n, 1, losses);
    r.c = c;
    name_line(&r, name, line);
    double *v = golden_get(want, line, &all);
    if (dt == DT_F32)
        tolerance = fmin(tolerance, 2 * scatter(c, g, want, after, n, v));
    first = golden_error(losses, v, (size_t)n);
    ok(n <= (int)all && first <= tolerance,
       "%s %s: %d losses within %.0e: %.1e", line, dtype_name(dt), n, tolerance,
       first);
    free(v);
}

/* ---- the gradient, with frozen rounding -----------------------------------
 */

/* What rounding changed, call by call: taken down in one pass, and added to
 * whatever comes in others. */
static const struct device_ops *real;
static double *moved[400];
static int n_moved, at_moved;
static bool is_frozen;

static int keep_or_add(struct device *d, double *y, const double *x, int64_t n,
                       int (*rounds)(struct device *d, double *y,
                                     const double *x, int64_t n, int64_t across,
                                     struct error *err),
                       int64_t across, struct error *err)
{
    if (at_moved == 400)
        exit(1);
    double **m = &moved[at_moved++];
    if (is_frozen) {
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] + (*m)[i];
        return 0;
    }
    *m = malloc((size_t)n * sizeof(**m));
    n_moved = at_moved;
    if (rounds(d, y, x, n, across, err) < 0)
        return -1;
    for (int64_t i = 0; i < n; i++)
        (*m)[i] = y[i] - x[i];
    return 0;
}

static int real_int4(struct device *d, double *y, const double *x, int64_t n,
                     int64_t across, struct error *err)
{
    return real->llm.round_int4(d, DT_F64, y, x, n, (int32_t)across, err);
}

static int real_int8(struct device *d, double *y, const double *x, int64_t n,
                     int64_t across, struct error *err)
{
    return real->llm.round_int8(d, DT_F64, y, x, n / across, (int32_t)across,
                                err);
}

static int frozen_int4(struct device *d, enum dtype dt, void *y, const void *w,
                       int64_t n, int32_t group, struct error *err)
{
    (void)dt;
    return keep_or_add(d, y, w, n, real_int4, group, err);
}

static int frozen_int8(struct device *d, enum dtype dt, void *y, const void *x,
                       int64_t rows, int32_t C, struct error *err)
{
    (void)dt;
    return keep_or_add(d, y, x, rows * C, real_int8, C, err);
}

/* The forward pass alone. */
static double loss_of(struct run *r)
{
    struct error err = ERROR_INIT;
    struct model_result x;
    at_moved = 0;
    must(model_put(r->rig.m, 11, 1, &err), &err);
    must(model_forward(r->rig.m, &r->rig.b, true, &err), &err);
    must(model_result(r->rig.m, &r->rig.b, &x, &err), &err);
    return x.loss_sum;
}

static void test_differences(const struct qat_case *c, const struct golden *g,
                             const struct golden *want)
{
    static struct run r;
    struct device_ops ops;
    double worst = 0, most = 0;
    open_run(&r, c, g, want, DT_F64, 0);
    if (!r.rig.d->host_memory) {
        llm_rig_close(&r.rig);
        return;
    }
    (void)pass(&r, 0, 1);
    double *grads = llm_grads(&r.rig);
    real = r.rig.d->ops;
    ops = *real;
    ops.llm.round_int4 = frozen_int4;
    ops.llm.round_int8 = frozen_int8;
    r.rig.d->ops = &ops;
    is_frozen = false;
    (void)loss_of(&r);
    is_frozen = true;
    double *p = model_params(r.rig.m);
    const int64_t n = model_planned(r.rig.m)->params;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(grads[i]));
    for (int64_t i = 7; i < n; i += n / 61) {
        const double keep = p[i], h = 1e-6;
        p[i] = keep + h;
        const double up = loss_of(&r);
        p[i] = keep - h;
        const double down = loss_of(&r);
        p[i] = keep;
        worst = fmax(worst, fabs((up - down) / (2 * h) - grads[i]));
    }
    ok(worst <= 1e-7 * most && most > 0,
       "%s %s %d: differences with frozen rounding: off by %.1e of %.1e",
       c->model, c->set, c->groupsize, worst, most);
    for (int i = 0; i < n_moved; i++)
        free(moved[i]);
    r.rig.d->ops = real;
    free(grads);
    llm_rig_close(&r.rig);
}

/* ---- the rest --------------------------------------------------------------
 */

/* Losses and gradients do not depend on what is kept or made again. */
static void test_recomputed(const struct qat_case *c, const struct golden *g,
                            const struct golden *want, enum dtype dt)
{
    static struct run r;
    double *v[2], loss[2];
    int64_t n = 0;
    for (int i = 0; i < 2; i++) {
        open_run(&r, c, g, want, dt, 0);
        struct llama_conf conf = r.rig.conf;
        llm_rig_close(&r.rig);
        conf.recomputes = i == 1;
        conf.head_rows = i == 1 ? 5 : 0;
        llm_rig_open(&r.rig, &conf, 1);
        loss[i] = pass(&r, 0, 1);
        v[i] = llm_grads(&r.rig);
        n = model_planned(r.rig.m)->params;
        llm_rig_close(&r.rig);
    }
    double apart = fabs(loss[0] / loss[1] - 1), most = 0, off = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs(v[0][i]));
        off = fmax(off, fabs(v[0][i] - v[1][i]));
    }
    const double tolerance = dt == DT_F64 ? 1e-12 : 3e-2;
    ok(apart <= tolerance && off <= tolerance * most && most > 0,
       "%s %s %s: activation checkpointing, output layer in pieces: %.1e, %.1e",
       c->model, c->set, dtype_name(dt), apart, off / most);
    free(v[0]);
    free(v[1]);
}

static void test_plan(const struct golden *g, const struct golden *want)
{
    struct error err = ERROR_INIT;
    static struct run r;
    struct model_plan p;
    open_run(&r, &cases[0], g, want, DT_F64, 0);
    struct llama_conf conf = r.rig.conf;
    conf.groupsize = 64;
    ok(llama_plan(&conf, &p, &err) < 0 && err.code == ERR_INVAL &&
           strstr(err.msg, "train.quantizer.groupsize: 64 divides the inputs "
                           "of no linear") != NULL &&
           strstr(err.msg, "q_proj, k_proj, v_proj (32 inputs)") != NULL &&
           strstr(err.msg, "down_proj (48 inputs), lm_head (the embedding)") !=
               NULL,
       "nothing to round: %s", err.msg);
    conf.groupsize = 32;
    ok(llama_plan(&conf, &p, &err) == 0 && p.bytes_rounded > 0, "planned: %s",
       err.msg);
    const int64_t rounded = p.bytes_rounded;
    conf.shared_by = 2;
    ok(llama_plan(&conf, &p, &err) == 0 && p.bytes_rounded == rounded &&
           p.bytes_gathered > 0,
       "sharded, a rank rounds as much: %s", err.msg);
    conf.shared_by = 0;
    char words[120];
    llama_rounded_words(&conf, words, sizeof(words));
    is_str(words,
           "12 linears to 8da4w in groups of 32, but not down_proj (48 "
           "inputs), lm_head (the embedding)",
           "what is rounded, and what is not");
    llm_rig_close(&r.rig);
}

int main(void)
{
    struct golden g, want;
    if (mkdtemp(wide_dir) == NULL)
        return 1;
    llm_write_model(wide_dir, &wide, wide_value);
    golden_open(&g, "tests/golden/llama.txt");
    golden_open(&want, "tests/golden/qat.txt");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct qat_case *c = &cases[i];
        test_first(c, &g, &want, DT_F64, 1e-9);
        test_first(c, &g, &want, DT_F32, 1e-4);
        test_first(c, &g, &want, DT_BF16, 3e-2);
        test_curve(c, &g, &want, DT_F64, "curve1", 0, c->updates, 1e-9);
        test_curve(c, &g, &want, DT_F32, "curve1", 0, 5, 2e-2);
        test_recomputed(c, &g, &want, DT_F64);
        test_recomputed(c, &g, &want, DT_BF16);
        test_differences(c, &g, &want);
        if (c->targets == 0 && c->groupsize < 256)
            test_curve(c, &g, &want, DT_F64, "later", 3, 6, 1e-9);
    }
    test_plan(&g, &want);
    golden_close(&want);
    golden_close(&g);
    llm_remove_model(wide_dir);
    return tap_done();
}
