/* cv_grad.c - the gradient against central differences in fp64, for some
 * elements of every tensor, with and without dropout; and what on_ready()
 * is told about it.
 */
#include <math.h>

#include "tests/unit/worker/cv_rig.h"
#include "worker/cv/arch.h"
#include "worker/cv/mobilenet_internal.h"

static const struct mobilenet_conf small = {.dt = DT_F64,
                                            .width_mult = 0.25,
                                            .num_classes = 5,
                                            .image_size = 32,
                                            .batch = 4};

struct worst {
    double error;
    int64_t at;
};

static double difference(struct rig *r, int64_t i, double h)
{
    double *p = model_params(r->m), keep = p[i];
    p[i] = keep + h;
    double up = rig_loss(r, 9);
    p[i] = keep - h;
    double down = rig_loss(r, 9);
    p[i] = keep;
    return (up - down) / (2 * h);
}

/* `n` of the elements first..first+count, at random, by central differences.
 *
 * The loss is rough (ReLU6 has corners, the early layers gradients of 1000)
 * and has 1e-14 of rounding, so no step suits every element: the best of
 * four counts. A wrong gradient is wrong for all of them. Errors are
 * relative to the tensor's largest gradient. */
static void check_tensor(struct rig *r, const double *g, int64_t first,
                         int64_t count, int32_t n, struct rng *rng,
                         struct worst *worst)
{
    static const double steps[] = {1e-7, 1e-8, 1e-6, 1e-5};
    const double *p = model_params(r->m);
    double size = 0.1, most = 1e-3;
    for (int64_t i = first; i < first + count; i++) {
        size = fmax(size, fabs(p[i]));
        most = fmax(most, fabs(g[i]));
    }
    for (int32_t k = 0; k < n; k++) {
        int64_t i = first + (int64_t)(rng_u32(rng) % (uint64_t)count);
        double best = INFINITY;
        for (size_t s = 0; s < 4 && !(best < 1e-6); s++)
            best = fmin(best,
                        fabs(difference(r, i, steps[s] * size) - g[i]) / most);
        if (!(best <= worst->error))
            *worst = (struct worst){best, i};
    }
}

static void test_differences(const char *what, double dropout)
{
    struct rig r;
    struct mobilenet_conf conf = small;
    struct arch a;
    struct error err = ERROR_INIT;
    struct rng rng;
    struct worst worst = {0, -1};
    double zero = 0;

    conf.dropout = dropout;
    rig_init(&r, &conf, 1, 3);
    must(arch_build(&conf, &a, &err), &err);
    /* Off the initial values: gamma 1 and beta 0 hide mistakes. */
    rng_seed(&rng, 17);
    double *p = model_params(r.m);
    for (int64_t i = 0; i < a.params; i++)
        p[i] += (i >= a.fc_bias ? 0.1 : 0.2 * fabs(p[i]) + 1e-3) *
                (2 * rng_uniform(&rng) - 1);

    size_t bytes = (size_t)a.params * sizeof(double);
    double *g = malloc(bytes);
    (void)rig_loss(&r, 9);
    rig_backward(&r, 1);
    memcpy(g, model_grads(r.m), bytes);
    for (int32_t i = 0; i < ARCH_LAYERS; i++) {
        const struct layer *l = &a.layers[i];
        check_tensor(&r, g, l->weight, l->weights, 2, &rng, &worst);
        check_tensor(&r, g, l->gamma, l->cout, 1, &rng, &worst);
        if (l->cap > 0)
            check_tensor(&r, g, l->beta, l->cout, 1, &rng, &worst);
        else /* a linear layer's shift is removed by the next norm */
            for (int32_t k = 0; k < l->cout; k++)
                zero = fmax(zero, fabs(g[l->beta + k]));
    }
    check_tensor(&r, g, a.fc_weight, a.fc_bias - a.fc_weight, 4, &rng, &worst);
    check_tensor(&r, g, a.fc_bias, conf.num_classes, 2, &rng, &worst);
    ok(zero < 1e-9, "%s: shifts that the next norm removes: %.1g", what, zero);
    if (!ok(worst.error < 1e-5, "%s: gradient is that of the loss", what))
        tap_diag("element %lld: error %.3g", (long long)worst.at, worst.error);
    free(g);
    rig_clear(&r);
}

/* What on_ready() was told, and the gradients as they were then. */
struct seen {
    struct rig *r;
    double *then;
    int32_t *times;
    int64_t last_first; /* ranges come from the end to the beginning */
    bool in_order;
    int32_t calls, fail_at;
};

static int see(void *arg, int64_t first, int64_t count, struct error *err)
{
    struct seen *s = arg;
    const double *g = model_grads(s->r->m);
    if (++s->calls == s->fail_at)
        return error_set(err, ERR_BUSY, "told to fail");
    s->in_order = s->in_order && first + count == s->last_first;
    s->last_first = first;
    for (int64_t i = first; i < first + count; i++) {
        s->then[i] = g[i];
        s->times[i]++;
    }
    return 0;
}

static void test_ready(void)
{
    struct rig r;
    struct error err = ERROR_INIT;
    struct mobilenet_conf conf = small;
    conf.dropout = 0.2;
    rig_init(&r, &conf, 1, 4);
    const int64_t n = model_planned(r.m)->params;
    double *g = model_grads(r.m);
    struct seen s = {.r = &r, .last_first = n, .in_order = true};
    s.then = calloc((size_t)n, sizeof(*s.then));
    s.times = calloc((size_t)n, sizeof(*s.times));

    (void)rig_loss(&r, 5);
    for (int64_t i = 0; i < n; i++)
        g[i] = NAN; /* whatever is not written shows */
    const struct batch b = {.n = conf.batch};
    must(model_put(r.m, 5, 0.25, &err), &err);
    must(model_backward(r.m, &b, see, &s, &err), &err);
    int64_t once = 0, final = 0;
    for (int64_t i = 0; i < n; i++) {
        once += s.times[i] == 1;
        final += s.then[i] == g[i]; /* false for NAN */
    }
    is_int(once, n, "on_ready: every gradient once");
    is_int(final, n, "on_ready: and final by then");
    ok(s.in_order && s.last_first == 0, "on_ready: from the end to the start");
    is_int(s.calls, ARCH_LAYERS + 1, "on_ready: layer by layer");

    s.fail_at = s.calls + 10;
    (void)rig_loss(&r, 5);
    is_int(model_backward(r.m, &b, see, &s, &err), -1,
           "on_ready: its failure ends backward()");
    is_int(err.code, ERR_BUSY, "on_ready: with its code");
    is_int(s.calls, s.fail_at, "on_ready: and no further call");
    free(s.times);
    free(s.then);
    rig_clear(&r);
}

/* scale multiplies the gradient; labels below 0 leave samples out. */
static void test_scale(void)
{
    struct rig r;
    rig_init(&r, &small, 1, 6);
    const int64_t n = model_planned(r.m)->params;
    double *one = malloc((size_t)n * sizeof(*one)), worst = 0, most = 0;
    const double *g = model_grads(r.m);
    (void)rig_loss(&r, 0);
    rig_backward(&r, 1);
    memcpy(one, g, (size_t)n * sizeof(*one));
    (void)rig_loss(&r, 0);
    rig_backward(&r, 0.25);
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs(one[i]));
        worst = fmax(worst, fabs(4 * g[i] - one[i]));
    }
    ok(most > 0 && worst <= 1e-12 * most, "a quarter of the scale");
    for (int32_t i = 0; i < small.batch; i++)
        r.label[i] = -1;
    ok(rig_loss(&r, 0) == 0, "no label, no loss");
    rig_backward(&r, 1);
    int64_t zero = 0;
    for (int64_t i = 0; i < n; i++)
        zero += g[i] == 0;
    is_int(zero, n, "no label, no gradient");
    free(one);
    rig_clear(&r);
}

/* A device may want the stem's patches with more columns. */
static void test_padded(void)
{
    struct rig r;
    struct error err = ERROR_INIT;
    rig_init(&r, &small, 1, 6);
    const int64_t n = model_planned(r.m)->params;
    const int32_t plain = mobilenet_of(r.m)->stem_columns;
    double *one = malloc((size_t)n * sizeof(*one)), worst = 0, most = 0;
    const double loss = rig_loss(&r, 0);
    rig_backward(&r, 1);
    memcpy(one, model_grads(r.m), (size_t)n * sizeof(*one));
    model_destroy(r.m);
    r.d->row_bytes = 64;
    must(mobilenet_create(r.d, &small, &r.m, &err), &err);
    must(model_init(r.m, 6, &err), &err);
    ok(plain == 27 && mobilenet_of(r.m)->stem_columns == 32,
       "patches of 27 columns, and of 32");
    ok(fabs(rig_loss(&r, 0) - loss) <= 1e-12 * loss, "have the same loss");
    rig_backward(&r, 1);
    const double *g = model_grads(r.m);
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs(one[i]));
        worst = fmax(worst, fabs(g[i] - one[i]));
    }
    if (!ok(most > 0 && worst <= 1e-9 * most, "and the same gradient"))
        tap_diag("%g of %g", worst, most);
    free(one);
    rig_clear(&r);
}

int main(void)
{
    test_ready();
    test_scale();
    test_padded();
    test_differences("no dropout", 0);
    test_differences("dropout 0.4", 0.4);
    return tap_done();
}
