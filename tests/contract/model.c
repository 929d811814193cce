/* model.c - the contract of worker/model.h, and of worker/batch.h as far as a
 * model's batches go: one body for every kind of model.
 *
 * A case is a small job in fp64 on the host. Its batches come from the kind's
 * own source of synthetic data.
 */
#include "worker/model.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/clock.h"
#include "jobs/base/rng.h"
#include "tests/contract/model_cases.h"
#include "tests/tap.h"
#include "worker/model_call.h"
#include "worker/model_kind.h"

enum { SEED = 9, TENSORS = 1024, EACH = 2 };

static void must(int rc, const struct error *err)
{
    if (rc < 0) {
        tap_diag("%s", err->msg);
        exit(1);
    }
}

/* ---- a device that counts ------------------------------------------------ */

static const struct device_ops *real;
static int64_t n_allocs, n_bytes, n_held;

static int count_alloc(struct device *d, size_t bytes, void **ret,
                       struct error *err)
{
    n_allocs++;
    n_held++;
    n_bytes += (int64_t)bytes;
    return real->alloc(d, bytes, ret, err);
}

static void count_release(struct device *d, void *p)
{
    n_held -= p != NULL;
    real->release(d, p);
}

/* ---- a job --------------------------------------------------------------- */

struct rig {
    const struct model_case *c;
    struct job_spec spec;
    const struct model_kind *kind;
    struct device_ops ops;
    struct device *d;
    struct comm *comm;
    struct batch_source *source;
    const struct batch_info *info;
    struct model *m;
    struct batch train, eval; /* the first of each part */
    int64_t params;
};

static struct model *create(struct rig *r, uint32_t seed)
{
    struct error err = ERROR_INIT;
    struct model *m = NULL;
    must(r->kind->create(r->d, r->comm, &r->spec, DT_F64, r->info, &m, &err),
         &err);
    must(model_init(m, seed, &err), &err);
    return m;
}

static void write_yaml(const char *yaml, struct buf *ret)
{
    char here[PATH_MAX];
    const char *src = getenv("MGPU_SRC");
    struct error err = ERROR_INIT;
    if (realpath(src != NULL ? src : ".", here) == NULL)
        exit(1);
    for (const char *at = yaml; *at != '\0'; at++)
        must(*at == '@' ? buf_addstr(ret, here, &err)
                        : buf_addf(ret, &err, "%c", *at),
             &err);
}

static void open_spec(struct rig *r)
{
    struct error err = ERROR_INIT;
    struct spec_options opt = {.file = NULL};
    struct spec_report report;
    struct buf text = BUF_INIT;
    write_yaml(r->c->yaml, &text);
    int rc =
        spec_parse(buf_str(&text), text.len, &opt, &r->spec, &report, &err);
    buf_clear(&text);
    if (rc < 0 && report.n > 0)
        tap_diag("%s: %s", report.findings[0].path, report.findings[0].message);
    diagnostics_clear(&report);
    must(rc, &err);
}

static void open_rig(struct rig *r, const struct model_case *c)
{
    const struct batch_epoch first = {.seed = 3, .epoch = 1, .batches = 3};
    struct error err = ERROR_INIT;
    memset(r, 0, sizeof(*r));
    r->c = c;
    open_spec(r);
    must(model_kind_find(&r->spec, &r->kind, &err), &err);
    must(device_host_create(1, &r->d, &err), &err);
    must(comm_alone_create(NULL, &r->comm, &err), &err);
    real = r->d->ops;
    r->ops = *real;
    r->ops.alloc = count_alloc;
    r->ops.release = count_release;
    r->d->ops = &r->ops;
    n_allocs = n_bytes = n_held = 0;
    const struct batch_env env = {.spec = &r->spec,
                                  .dev = r->d,
                                  .dt = DT_F64,
                                  .comm = r->comm,
                                  .deadline_s = 10,
                                  .clock = &clock_real,
                                  .parts = 1,
                                  .streams = 1,
                                  .shares = 1};
    must(r->kind->open_data(&env, &r->source, &err), &err);
    r->info = r->source->ops->info(r->source);
    must(r->source->ops->start(r->source, &err), &err);
    r->m = create(r, 1);
    r->params = model_planned(r->m)->params;
    if (r->kind->prepare != NULL)
        must(r->kind->prepare(&env, r->source, r->m, &err), &err);
    must(r->source->ops->begin(r->source, &first, &err), &err);
    must(r->source->ops->take(r->source, BATCH_TRAIN, 0, &r->train, &err),
         &err);
    must(r->source->ops->take(r->source, BATCH_EVAL, 0, &r->eval, &err), &err);
}

static void close_rig(struct rig *r)
{
    model_destroy(r->m);
    r->source->ops->destroy(r->source);
    is_int(n_held, 0, "all memory is given back");
    r->comm->ops->destroy(r->comm);
    r->d->ops->destroy(r->d);
    spec_clear(&r->spec);
}

/* The sum of the losses of a forward pass in training. */
static double loss_of(struct rig *r)
{
    struct error err = ERROR_INIT;
    struct model_result x;
    must(model_put(r->m, SEED, 1, &err), &err);
    must(model_forward(r->m, &r->train, true, &err), &err);
    must(model_result(r->m, &r->train, &x, &err), &err);
    return x.loss_sum;
}

/* The gradient of scale times that loss; the caller frees it. */
static double *gradient_of(struct rig *r, double scale)
{
    struct error err = ERROR_INIT;
    size_t bytes = (size_t)r->params * sizeof(double);
    double *g = malloc(bytes);
    must(model_put(r->m, SEED, scale, &err), &err);
    must(model_forward(r->m, &r->train, true, &err), &err);
    must(model_backward(r->m, &r->train, NULL, NULL, &err), &err);
    must(r->ops.to_host(r->d, g, model_grads(r->m), bytes, &err), &err);
    return g;
}

/* ---- memory -------------------------------------------------------------- */

static void test_memory(struct rig *r)
{
    struct error err = ERROR_INIT;
    struct model_plan p;
    struct model_result x;
    int64_t device = 0, host = 0, before = n_bytes;
    r->source->ops->plan(r->source, &device, &host);
    must(r->kind->plan(&r->spec, DT_F64, r->info, 1, &p, &err), &err);
    is_int(before, device + p.bytes_total,
           "planned memory is taken memory, with the batches'");
    is_int(p.bytes_base + p.bytes_params + p.bytes_grads + p.bytes_activations +
               p.bytes_gathered + p.bytes_work,
           p.bytes_total, "the parts are the whole");
    ok(memcmp(&p, model_planned(r->m), sizeof(p)) == 0,
       "the model has the same plan");
    ok(p.params > 0 && p.state >= 0 &&
           p.bytes_params >= p.params * (int64_t)sizeof(double) &&
           p.bytes_grads >= p.params * (int64_t)sizeof(double),
       "it has room for parameters and gradients");
    before = n_allocs;
    free(gradient_of(r, 1));
    must(model_forward(r->m, &r->eval, false, &err), &err);
    must(model_result(r->m, &r->eval, &x, &err), &err);
    is_int(n_allocs, before, "passes take none");
}

/* ---- ranges and the gradient --------------------------------------------- */

static void test_ranges(struct rig *r, struct model_range *range, int32_t n)
{
    int64_t at = 0;
    bool in_order = n > 0 && n <= MODEL_RANGES;
    for (int32_t i = 0; i < n && in_order; i++) {
        in_order = range[i].first == at && range[i].count > 0;
        at += range[i].count;
    }
    ok(in_order && at == r->params, "%d ranges cover the parameters in order",
       n);
}

static double difference(struct rig *r, int64_t i, double h)
{
    double *p = model_params(r->m), keep = p[i];
    p[i] = keep + h;
    double up = loss_of(r);
    p[i] = keep - h;
    double down = loss_of(r);
    p[i] = keep;
    return (up - down) / (2 * h);
}

/* The worst of some elements of a range, relative to its largest gradient. A
 * loss has corners and 1e-14 of rounding, so no step suits every element: the
 * best of four counts. A wrong gradient is wrong for all of them. */
static double worst_of(struct rig *r, const double *g,
                       const struct model_range *range, struct rng *rng)
{
    static const double steps[] = {1e-7, 1e-8, 1e-6, 1e-5};
    const double *p = model_params(r->m);
    double size = 0.1, most = 1e-3, worst = 0;
    for (int64_t i = range->first; i < range->first + range->count; i++) {
        size = fmax(size, fabs(p[i]));
        most = fmax(most, fabs(g[i]));
    }
    for (int k = 0; k < EACH; k++) {
        int64_t i =
            range->first + (int64_t)(rng_u32(rng) % (uint64_t)range->count);
        double best = INFINITY;
        for (size_t s = 0; s < 4 && !(best < 1e-6); s++)
            best = fmin(best,
                        fabs(difference(r, i, steps[s] * size) - g[i]) / most);
        worst = best <= worst ? worst : best; /* a NaN is the worst */
    }
    return worst;
}

static void test_gradient(struct rig *r)
{
    struct model_range range[MODEL_RANGES];
    const int32_t n = model_ranges(r->m, range, MODEL_RANGES);
    double *p = model_params(r->m), worst = 0, off = 0, most = 0;
    struct rng rng;
    test_ranges(r, range, n);
    /* Away from the initial values: ones and zeros hide mistakes. */
    rng_seed(&rng, 17);
    for (int64_t i = 0; i < r->params; i++)
        p[i] += (0.2 * fabs(p[i]) + 1e-3) * (2 * rng_uniform(&rng) - 1);
    double *g = gradient_of(r, 1), *quarter = gradient_of(r, 0.25);
    /* Rounding has steps, and its gradient is that of a straight line:
     * tests/unit/worker/llm_qat.c freezes what it changes. */
    const bool has_steps = model_planned(r->m)->bytes_rounded > 0;
    for (int32_t i = 0; i < n && !has_steps; i++) {
        double w = worst_of(r, g, &range[i], &rng);
        if (!(w < 1e-5))
            tap_diag("range %d from %lld: error %.3g", i,
                     (long long)range[i].first, w);
        worst = w <= worst ? worst : w;
    }
    ok(worst < 1e-5, "the gradient is that of the loss, by differences%s",
       has_steps ? ": not compared, the loss has steps" : "");
    for (int64_t i = 0; i < r->params; i++) {
        most = fmax(most, fabs(g[i]));
        off = fmax(off, fabs(4 * quarter[i] - g[i]));
    }
    ok(most > 0 && off <= 1e-12 * most, "the scale multiplies it");
    free(quarter);
    free(g);
}

/* What on_ready() is told, and the gradients as they are then. */
struct seen {
    struct rig *r;
    double *then;
    int64_t last_first;
    bool in_order;
    int32_t calls, fail_at;
};

static int see(void *arg, int64_t first, int64_t count, struct error *err)
{
    struct seen *s = arg;
    const double *g = model_grads(s->r->m);
    if (++s->calls == s->fail_at)
        return error_set(err, ERR_BUSY, "told to fail");
    s->in_order = s->in_order && count > 0 && first >= 0 &&
                  first + count == s->last_first;
    s->last_first = first;
    if (s->in_order)
        memcpy(s->then + first, g + first, (size_t)count * sizeof(*g));
    return 0;
}

static void test_ready(struct rig *r)
{
    struct error err = ERROR_INIT;
    double *g = model_grads(r->m);
    size_t bytes = (size_t)r->params * sizeof(*g);
    struct seen s = {.r = r, .last_first = r->params, .in_order = true};
    s.then = malloc(bytes);
    for (int64_t i = 0; i < r->params; i++)
        g[i] = NAN; /* what is not written shows */
    (void)loss_of(r);
    must(model_backward(r->m, &r->train, see, &s, &err), &err);
    int64_t written = 0;
    for (int64_t i = 0; i < r->params; i++)
        written += !isnan(g[i]);
    ok(s.in_order && s.last_first == 0,
       "on_ready: each gradient once, from the last to the first");
    is_int(written, r->params, "forward() and backward() write every gradient");
    ok(memcmp(s.then, g, bytes) == 0, "on_ready: they are final by then");
    s.fail_at = s.calls + (s.calls > 1 ? 2 : 1); /* one: all of one layer */
    (void)loss_of(r);
    ok(model_backward(r->m, &r->train, see, &s, &err) < 0 &&
           err.code == ERR_BUSY && s.calls == s.fail_at,
       "on_ready: its failure ends backward()");
    free(s.then);
}

/* ---- passes -------------------------------------------------------------- */

static void test_evaluation(struct rig *r)
{
    struct error err = ERROR_INIT;
    struct model_result x[2];
    size_t bytes = (size_t)model_planned(r->m)->state * sizeof(double);
    void *state = calloc(1, bytes + 1);
    memset(x, 0, sizeof(x));
    ok((bytes > 0) == (model_state(r->m) != NULL), "state is where it is due");
    if (bytes > 0)
        memcpy(state, model_state(r->m), bytes);
    for (int i = 0; i < 2; i++) {
        must(model_put(r->m, SEED + (uint64_t)i, 1, &err), &err);
        must(model_forward(r->m, &r->eval, false, &err), &err);
        must(model_result(r->m, &r->eval, &x[i], &err), &err);
    }
    ok(memcmp(&x[0], &x[1], sizeof(x[0])) == 0 && isfinite(x[0].loss_sum),
       "an evaluation gives the same bits twice, whatever the seed");
    ok(bytes == 0 || memcmp(state, model_state(r->m), bytes) == 0,
       "and leaves the state as it is");
    ok(x[0].hits >= 0 && (double)x[0].hits <= r->eval.weight,
       "not more is right than there is");
    ok(loss_of(r) == loss_of(r), "a training pass gives the same bits twice");
    free(state);
}

static void test_order(struct rig *r)
{
    struct error err = ERROR_INIT;
    struct model_result x;
    struct model *m = create(r, 1);
    struct batch many = r->train;
    many.n = r->spec.train.batch_size + 1;
    is_int(model_result(m, &r->train, &x, &err), -1, "no result before a pass");
    is_int(err.code, ERR_STATE, "is a matter of state");
    ok(model_backward(m, &r->train, NULL, NULL, &err) < 0 &&
           err.code == ERR_STATE,
       "no way back without a way there");
    ok(model_forward(m, &many, true, &err) < 0 && err.code == ERR_INVAL,
       "no more samples than planned");
    must(model_forward(m, &r->eval, false, &err), &err);
    ok(model_backward(m, &r->eval, NULL, NULL, &err) < 0 &&
           err.code == ERR_STATE,
       "no way back from an evaluation");
    must(model_put(m, SEED, 1, &err), &err);
    must(model_forward(m, &r->train, true, &err), &err);
    must(model_backward(m, &r->train, NULL, NULL, &err), &err);
    ok(model_backward(m, &r->train, NULL, NULL, &err) < 0 &&
           err.code == ERR_STATE,
       "nor twice");
    must(model_result(m, &r->train, &x, &err), &err);
    ok(isfinite(x.loss_sum), "the result is there behind both passes");
    model_destroy(m);
}

/* ---- export and import --------------------------------------------------- */

struct saved {
    struct model_tensor t[TENSORS];
    int32_t n;
};

static int save(void *arg, const struct model_tensor *t, struct error *err)
{
    struct saved *s = arg;
    if (s->n == TENSORS)
        return error_set(err, ERR_LIMIT, "more tensors than the test holds");
    struct model_tensor *to = &s->t[s->n++];
    *to = *t;
    to->name = strdup(t->name);
    to->data = malloc(t->bytes + 1);
    memcpy(to->data, t->data, t->bytes);
    return 0;
}

static struct saved *saved_of(struct model *m)
{
    struct error err = ERROR_INIT;
    struct saved *s = calloc(1, sizeof(*s));
    must(model_export(m, save, s, &err), &err);
    return s;
}

static void drop(struct saved *s)
{
    for (int32_t i = 0; i < s->n; i++) {
        free((char *)(uintptr_t)s->t[i].name);
        free(s->t[i].data);
    }
    free(s);
}

static bool is_same(const struct saved *a, const struct saved *b)
{
    bool same = a->n == b->n;
    for (int32_t i = 0; i < a->n && same; i++) {
        const struct model_tensor *x = &a->t[i], *y = &b->t[i];
        same = strcmp(x->name, y->name) == 0 && x->dt == y->dt &&
               x->dims == y->dims && x->bytes == y->bytes &&
               memcmp(x->shape, y->shape, sizeof(x->shape)) == 0 &&
               memcmp(x->data, y->data, x->bytes) == 0;
    }
    return same;
}

static void test_refused(struct model *m, const struct saved *s)
{
    struct error err = ERROR_INIT;
    struct model_tensor t = s->t[0];
    t.name = "no.such.tensor";
    ok(model_import(m, &t, &err) < 0 && err.code == ERR_NOTFOUND &&
           strstr(err.msg, t.name) != NULL,
       "a name that is not there: %s", err.msg);
    t = s->t[0];
    t.shape[0]++;
    ok(model_import(m, &t, &err) < 0 && err.code == ERR_INVAL &&
           strstr(err.msg, t.name) != NULL,
       "another shape: %s", err.msg);
    struct saved *after = saved_of(m);
    ok(is_same(s, after), "and the model is as it was");
    drop(after);
}

static void test_copy(struct rig *r)
{
    struct error err = ERROR_INIT;
    struct model *copy = create(r, 2);
    size_t params = (size_t)r->params * sizeof(double);
    size_t state = (size_t)model_planned(r->m)->state * sizeof(double);
    struct saved *a = saved_of(r->m), *b = saved_of(copy);
    ok(a->n > 0 && !is_same(a, b), "%d tensors, others from another seed",
       a->n);
    drop(b);
    for (int32_t i = 0; i < a->n; i++)
        must(model_import(copy, &a->t[i], &err), &err);
    b = saved_of(copy);
    ok(is_same(a, b), "import(export(x)) is x: as it is exported");
    ok(memcmp(model_params(copy), model_params(r->m), params) == 0 &&
           (state == 0 ||
            memcmp(model_state(copy), model_state(r->m), state) == 0),
       "and as it lies in memory");
    test_refused(copy, b);
    drop(a);
    drop(b);
    model_destroy(copy);
}

/* A pass that is repeated on the device leaves on the host what a pass does:
 * it counts for export(), and result() follows it. */
static void test_repeat(struct rig *r)
{
    struct error err = ERROR_INIT;
    struct model *m[2] = {create(r, 4), create(r, 4)};
    size_t state = (size_t)model_planned(r->m)->state * sizeof(double);
    struct model_result x;
    for (int i = 0; i < 3; i++) {
        must(model_put(m[i == 2], SEED, 1, &err), &err);
        must(model_forward(m[i == 2], &r->train, true, &err), &err);
        must(model_backward(m[i == 2], &r->train, NULL, NULL, &err), &err);
    }
    model_repeat(m[1], &r->train, true);
    if (state > 0) /* what a launch would have done */
        memcpy(model_state(m[1]), model_state(m[0]), state);
    struct saved *a = saved_of(m[0]), *b = saved_of(m[1]);
    ok(is_same(a, b), "repeat() counts as a pass");
    ok(model_backward(m[1], &r->train, NULL, NULL, &err) < 0 &&
           err.code == ERR_STATE &&
           model_result(m[1], &r->train, &x, &err) == 0,
       "of both kinds, with a result");
    drop(a);
    drop(b);
    model_destroy(m[0]);
    model_destroy(m[1]);
}

/* ---- batches and lines --------------------------------------------------- */

/* The sum of a batch's bytes, which lie in host memory. */
static uint64_t sum_of(const struct batch *b)
{
    uint64_t sum = 0;
    for (int32_t k = 0; k < BATCH_ARRAYS; k++) {
        const unsigned char *p = b->arrays[k].data;
        for (size_t i = 0; i < (size_t)b->n * b->arrays[k].bytes; i++)
            sum = sum * 31 + p[i];
    }
    return sum;
}

static void test_batches(struct rig *r)
{
    struct error err = ERROR_INIT;
    const struct batch_source_ops *ops = r->source->ops;
    const struct batch_epoch e[] = {{.seed = 3, .epoch = 2, .batches = 3},
                                    {.seed = 3, .epoch = 1, .batches = 3}};
    uint64_t first = sum_of(&r->train), sums[2] = {0};
    int32_t train = 0, eval = 0;
    double weight = 0;
    bool fits = true;
    must(ops->count(r->source, &train, &eval, &err), &err);
    for (int i = 0; i < 2; i++) {
        must(ops->begin(r->source, &e[i], &err), &err);
        must(ops->take(r->source, BATCH_TRAIN, 0, &r->train, &err), &err);
        sums[i] = sum_of(&r->train);
    }
    ok(sums[0] != first && sums[1] == first,
       "another epoch has other batches, the same one the same");
    for (int32_t i = 0; i < eval; i++) {
        must(ops->take(r->source, BATCH_EVAL, i, &r->eval, &err), &err);
        weight += r->eval.weight;
        fits = fits && r->eval.n <= r->spec.train.batch_size &&
               r->eval.valid <= r->eval.n;
        for (int32_t k = 0; k < BATCH_ARRAYS; k++)
            fits = fits && r->eval.arrays[k].bytes <= r->info->sample_bytes[k];
    }
    ok(train > 0 && eval > 0 && weight > 0 && fits,
       "batches keep to what the source says of itself");
    ok(r->info->sample_weight > 0, "a sample has a weight");
}

static void test_lines(struct rig *r)
{
    char line[120] = "", cut[8];
    model_describe(r->m, line, sizeof(line));
    model_describe(r->m, cut, sizeof(cut));
    ok(line[0] != '\0' && strchr(line, '\n') == NULL && strlen(cut) == 7 &&
           strncmp(line, cut, 7) == 0,
       "a line about itself: %s", line);
    r->source->ops->describe(r->source, 3, line, sizeof(line));
    ok(line[0] != '\0' && strchr(line, '\n') == NULL,
       "a line about its data: %s", line);
    int32_t n = 0;
    const char *const *values = r->m->ops->values;
    while (values != NULL && n <= MODEL_VALUES && values[n] != NULL)
        n++;
    ok(n <= MODEL_VALUES, "%d extra values", n);
    ok(r->kind->name != NULL && r->kind->too_large != NULL,
       "kind %s; too large: %s", r->kind->name, r->kind->too_large);
}

int main(void)
{
    (void)unsetenv("XDG_CACHE_HOME"); /* nothing is kept */
    (void)unsetenv("HOME");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig r;
        tap_diag("%s", cases[i].name);
        open_rig(&r, &cases[i]);
        test_memory(&r);
        test_gradient(&r);
        test_ready(&r);
        test_evaluation(&r);
        test_order(&r);
        test_copy(&r);
        test_repeat(&r);
        test_batches(&r);
        test_lines(&r);
        close_rig(&r);
    }
    return tap_done();
}
