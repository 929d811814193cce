/* cv_precision.c - whole models in 16 bits against the same in fp64, and
 * training in 16 bits against training in fp32.
 *
 * How far rounding carries through 52 norms over a few rows depends on the
 * shape: some hundred roundings at these small batches. fp32 shows how far,
 * and rounds 2^13 times finer than fp16 and 2^16 times finer than bf16: the
 * logits of those may be off by as many times what fp32's are. Seen: 0.3 to
 * 0.6 of that; sums in 16 bits, or one tensor rounded twice per layer, would
 * be above it. A gradient meets the clamps, which a 16-bit value passes on
 * the other side now and then: it is held to its direction, of which bf16
 * keeps a trace where a norm has 8 rows, and a half elsewhere; whether that
 * will do is for the training to show.
 */
#include <math.h>

#include "tests/unit/worker/cv_rig.h"

struct bound {
    enum dtype dt;
    double times;  /* of fp32's error in the logits */
    double loss;   /* of fp64's */
    double cosine; /* between the gradients, at least */
};
static const struct bound bounds[] = {
    {DT_F16, 0.8 * 8192, 1e-2, 0.6},
    {DT_BF16, 0.8 * 65536, 5e-2, 0.03},
};

struct seen {
    double *train, *eval, *grads;
    double loss;
};

static double *pulled(struct rig *r, const void *src, int64_t n)
{
    struct error err = ERROR_INIT;
    double *v = calloc((size_t)n, sizeof(*v));
    must(r->d->ops->to_host(r->d, v, src, (size_t)n * dtype_bytes(r->conf.dt),
                            &err),
         &err);
    for (int64_t i = n - 1; i >= 0; i--)
        v[i] = dtype_get(r->conf.dt, v, i);
    return v;
}

static int take(void *arg, const struct model_tensor *t, struct error *err)
{
    return model_import(arg, t, err);
}

enum { SETTLE = 25 };

static struct seen look(struct rig *r)
{
    struct error err = ERROR_INIT;
    const int32_t batch = r->conf.batch;
    size_t n = (size_t)batch * (size_t)r->conf.num_classes;
    struct seen s = {.train = calloc(n, sizeof(double)),
                     .eval = calloc(n, sizeof(double))};

    must(model_forward(r->m, r->x, r->label, batch, false, 0, &err), &err);
    must(model_logits(r->m, batch, s.eval, &err), &err);
    s.loss = rig_loss(r, 3) / batch;
    must(model_logits(r->m, batch, s.train, &err), &err);
    rig_backward(r, 1.0 / batch);
    s.grads = pulled(r, model_grads(r->m), model_planned(r->m)->params);
    return s;
}

/* The same weights and statistics in another type, rounded to it. */
static struct seen look_as(const struct rig *from, enum dtype dt)
{
    struct error err = ERROR_INIT;
    struct model_conf c = from->conf;
    struct rig r;

    c.dt = dt;
    rig_init(&r, &c, 2, 7);
    must(model_export(from->m, take, r.m, &err), &err);
    struct seen s = look(&r);
    rig_clear(&r);
    return s;
}

static void seen_clear(struct seen *s)
{
    free(s->train);
    free(s->eval);
    free(s->grads);
}

/* The largest difference by the largest value. */
static double worst(const double *got, const double *want, size_t n)
{
    double most = 0, off = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs(want[i]));
        off = isnan(got[i]) ? INFINITY : fmax(off, fabs(got[i] - want[i]));
    }
    return off / most;
}

static double cosine(const double *a, const double *b, int64_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < n; i++) {
        ab += a[i] * b[i];
        aa += a[i] * a[i];
        bb += b[i] * b[i];
    }
    return ab / sqrt(aa * bb); /* a NaN is no direction */
}

static void compare(const struct bound *b, const struct rig *r,
                    const struct seen *want, const struct seen *single)
{
    const struct model_conf *c = &r->conf;
    size_t n = (size_t)c->batch * (size_t)c->num_classes;
    int64_t params = model_planned(r->m)->params;
    struct seen got = look_as(r, b->dt);
    double limit_t = fmin(0.8, b->times * worst(single->train, want->train, n));
    double limit_e = b->times * worst(single->eval, want->eval, n);
    double train = worst(got.train, want->train, n);
    double eval = worst(got.eval, want->eval, n);
    double loss = fabs(got.loss - want->loss) / want->loss;
    double along = cosine(got.grads, want->grads, params);

    tap_diag("width %g, %dx%d, %d classes, %s", c->width_mult, c->image_size,
             c->image_size, c->num_classes, dtype_name(b->dt));
    ok(train <= limit_t, "logits of training, off by %.2g of %.2g", train,
       limit_t);
    ok(eval <= limit_e, "logits of evaluation, %.2g of %.2g", eval, limit_e);
    ok(loss <= b->loss, "loss, %.2g", loss);
    ok(along >= b->cosine, "gradient, cosine %.2g", along);
    seen_clear(&got);
}

/* Before it, the running statistics, far from the data at first, are settled:
 * with those of a new model fp16's activations shrink to nothing. */
static void test_against_fp64(const struct model_conf *conf)
{
    struct model_conf c = *conf;
    struct rig r;

    c.dt = DT_F64;
    rig_init(&r, &c, 2, 7);
    for (int i = 0; i < SETTLE; i++)
        (void)rig_loss(&r, 3);
    struct seen single = look_as(&r, DT_F32), want = look_as(&r, DT_F64);
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
        compare(&bounds[i], &r, &want, &single);
    seen_clear(&single);
    seen_clear(&want);
    rig_clear(&r);
}

/* Memory: everything but statistics takes half of fp32's. */
static void test_memory(void)
{
    struct model_conf c = {
        .width_mult = 1, .num_classes = 1000, .image_size = 224, .batch = 32};
    struct model_plan half, single;
    struct error err = ERROR_INIT;
    c.dt = DT_BF16;
    must(model_plan(&c, &half, &err), &err);
    c.dt = DT_F32;
    must(model_plan(&c, &single, &err), &err);
    ok((double)half.bytes_total < 0.51 * (double)single.bytes_total,
       "a model in bf16 takes half of one in fp32: %lld of %lld",
       (long long)half.bytes_total, (long long)single.bytes_total);
}

enum { STEPS = 20 };

/* The mean loss of the last five of 20 steps on one batch. */
static double train(const struct model_conf *conf, enum dtype dt,
                    double *ret_first)
{
    struct error err = ERROR_INIT;
    struct model_conf c = *conf;
    struct rig r;
    void *momentum = NULL;
    double last = 0;

    c.dt = dt;
    rig_init(&r, &c, 2, 11);
    int64_t n = model_planned(r.m)->params;
    must(r.d->ops->alloc(r.d, (size_t)n * dtype_acc_bytes(dt), &momentum, &err),
         &err);
    for (int i = 0; i < STEPS; i++) {
        const struct sgd_args a = {.lr = 0.02,
                                   .momentum = 0.9,
                                   .weight_decay = 4e-5,
                                   .grad_scale = 1,
                                   .first = i == 0};
        double loss = rig_loss(&r, (uint64_t)i) / c.batch;
        rig_backward(&r, 1.0 / c.batch);
        must(r.d->ops->sgd(r.d, dt, model_params(r.m), momentum,
                           model_grads(r.m), n, &a, &err),
             &err);
        *ret_first = i == 0 ? loss : *ret_first;
        last += i >= STEPS - 5 ? loss / 5 : 0;
    }
    r.d->ops->release(r.d, momentum);
    rig_clear(&r);
    return last;
}

static void test_training(int32_t size)
{
    static const enum dtype types[] = {DT_F16, DT_BF16};
    const struct model_conf c = {
        .width_mult = 0.5, .num_classes = 4, .image_size = size, .batch = 16};
    double first = 0, want = train(&c, DT_F32, &first);

    ok(want < 0.5 * first, "%dx%d fp32 learns the batch: %.3f from %.3f", size,
       size, want, first);
    for (int i = 0; i < 2; i++) {
        double begin = 0, got = train(&c, types[i], &begin);
        ok(got < 0.6 * begin && got - want < 0.2 * first, /* or better */
           "%dx%d %s learns it, too: %.3f from %.3f, fp32 %.3f", size, size,
           dtype_name(types[i]), got, begin, want);
    }
}

int main(void)
{
    static const struct model_conf cases[] = {
        {.width_mult = 1, .num_classes = 10, .image_size = 32, .batch = 16},
        {.width_mult = 0.5, .num_classes = 1000, .image_size = 28, .batch = 8},
        {.width_mult = 0.5, .num_classes = 5, .image_size = 100, .batch = 4},
        {.width_mult = 0.25, .num_classes = 10, .image_size = 224, .batch = 2},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        test_against_fp64(&cases[i]);
    test_memory();
    test_training(28);
    test_training(32);
    return tap_done();
}
