/* cv_state.c - export, import and initial values. */
#include <math.h>

#include "tests/unit/worker/cv_rig.h"
#include "worker/cv/arch.h"

static const struct mobilenet_conf conf32 = {.dt = DT_F32,
                                             .width_mult = 0.25,
                                             .dropout = 0.2,
                                             .num_classes = 10,
                                             .image_size = 32,
                                             .batch = 4};

enum { MAX = 320 };

struct saved {
    struct model_tensor t[MAX];
    int32_t n;
};

static int save(void *arg, const struct model_tensor *t, struct error *err)
{
    struct saved *s = arg;
    (void)err;
    struct model_tensor *to = &s->t[s->n++];
    *to = *t;
    to->name = strdup(t->name);
    to->data = malloc(t->bytes);
    memcpy(to->data, t->data, t->bytes);
    return 0;
}

static void saved_clear(struct saved *s)
{
    for (int32_t i = 0; i < s->n; i++) {
        free((char *)(uintptr_t)s->t[i].name);
        free(s->t[i].data);
    }
    s->n = 0;
}

static bool same(const struct saved *a, const struct saved *b)
{
    bool eq = a->n == b->n;
    for (int32_t i = 0; eq && i < a->n; i++)
        eq = strcmp(a->t[i].name, b->t[i].name) == 0 &&
             a->t[i].bytes == b->t[i].bytes &&
             memcmp(a->t[i].data, b->t[i].data, a->t[i].bytes) == 0;
    return eq;
}

/* One step, so that statistics and counters are not what they start as. */
static void one_step(struct rig *r)
{
    const struct sgd_args a = {.lr = 0.1, .grad_scale = 1, .first = true};
    struct error err = ERROR_INIT;
    void *mom = NULL;
    int64_t n = model_planned(r->m)->params;
    must(r->d->ops->alloc(r->d, (size_t)n * 8, &mom, &err), &err);
    (void)rig_loss(r, 1);
    rig_backward(r, 0.25);
    must(r->d->ops->sgd(r->d, r->conf.dt, model_params(r->m), mom,
                        model_grads(r->m), n, &a, &err),
         &err);
    r->d->ops->release(r->d, mom);
}

/* The stem's tensor with one channel, which a network of three refuses. */
static void test_gray(const struct saved *s)
{
    struct rig colour;
    struct error err = ERROR_INIT;
    const struct model_tensor *t = &s->t[0];
    ok(t->dims == 4 && t->shape[0] == 8 && t->shape[1] == 1 &&
           t->shape[2] == 3 && t->shape[3] == 3,
       "one channel: [8, 1, 3, 3]");
    rig_init(&colour, &conf32, 1, 1);
    is_int(model_import(colour.m, t, &err), -1, "not for three");
    ok(strcmp(err.msg, "features.0.0.weight has shape [8, 1, 3, 3], this "
                       "model's is [8, 3, 3, 3]") == 0,
       "%s", err.msg);
    rig_clear(&colour);
}

static void test_round_trip(enum dtype dt, int32_t channels)
{
    struct rig a, b;
    struct error err = ERROR_INIT;
    struct mobilenet_conf conf = conf32;
    struct saved first = {.n = 0}, second = {.n = 0};
    conf.dt = dt;
    conf.in_channels = channels;
    rig_init(&a, &conf, 1, 1);
    rig_init(&b, &conf, 1, 2);
    one_step(&a);
    must(model_export(a.m, save, &first, &err), &err);
    must(model_export(b.m, save, &second, &err), &err);
    if (channels == 1)
        test_gray(&first);
    is_int(*(int64_t *)first.t[5].data, 1, "a training pass is counted");
    is_int(*(int64_t *)second.t[311].data, 0, "where there was one");
    ok(!same(&first, &second), "%s: two seeds, two models", dtype_name(dt));
    saved_clear(&second);
    for (int32_t i = first.n - 1; i >= 0; i--) /* the order does not matter */
        must(model_import(b.m, &first.t[i], &err), &err);
    must(model_export(b.m, save, &second, &err), &err);
    ok(same(&first, &second), "%s: import gives back every bit",
       dtype_name(dt));

    memcpy(b.x, a.x, rig_x_elems(&a) * dtype_bytes(dt));
    memcpy(b.label, a.label, (size_t)conf.batch * sizeof(*b.label));
    ok(rig_loss(&a, 7) == rig_loss(&b, 7), "%s: the copy computes the same",
       dtype_name(dt));
    saved_clear(&first);
    saved_clear(&second);
    rig_clear(&a);
    rig_clear(&b);
}

/* fp32 tensors into an fp64 model, and back, lose nothing. */
static void test_convert(void)
{
    struct rig a, b;
    struct error err = ERROR_INIT;
    struct mobilenet_conf conf = conf32;
    struct saved first = {.n = 0}, second = {.n = 0}, third = {.n = 0};
    rig_init(&a, &conf, 1, 1);
    conf.dt = DT_F64;
    rig_init(&b, &conf, 1, 2);
    one_step(&a);
    must(model_export(a.m, save, &first, &err), &err);
    for (int32_t i = 0; i < first.n; i++)
        must(model_import(b.m, &first.t[i], &err), &err);
    must(model_export(b.m, save, &second, &err), &err);
    must(model_init(a.m, 9, &err), &err);
    for (int32_t i = 0; i < second.n; i++)
        must(model_import(a.m, &second.t[i], &err), &err);
    must(model_export(a.m, save, &third, &err), &err);
    ok(same(&first, &third), "fp32 to fp64 and back is exact");
    saved_clear(&first);
    saved_clear(&second);
    saved_clear(&third);
    rig_clear(&a);
    rig_clear(&b);
}

static void test_refused(void)
{
    struct rig r;
    struct error err = ERROR_INIT;
    float v[3 * 8 * 9] = {0};
    int64_t count = 3;
    struct saved before = {.n = 0}, after = {.n = 0};
    const struct model_tensor stem = {.name = "features.0.0.weight",
                                      .dt = DT_F32,
                                      .dims = 4,
                                      .shape = {8, 3, 3, 3},
                                      .data = v,
                                      .bytes = sizeof(v)};
    struct model_tensor t = stem;
    rig_init(&r, &conf32, 1, 1);
    must(model_export(r.m, save, &before, &err), &err);

    t.name = "features.0.0.weights";
    is_int(model_import(r.m, &t, &err), -1, "a name that is not there");
    is_int(err.code, ERR_NOTFOUND, "is not found");
    is_str(err.msg, "the model has no tensor 'features.0.0.weights'",
           "by name");
    t = stem;
    t.shape[0] = 16;
    is_int(model_import(r.m, &t, &err), -1, "another shape");
    is_int(err.code, ERR_INVAL, "is invalid");
    is_str(err.msg,
           "features.0.0.weight has shape [16, 3, 3, 3], this model's is "
           "[8, 3, 3, 3]",
           "with both shapes");
    t = stem;
    t.dims = 1;
    t.shape[0] = 216;
    is_int(model_import(r.m, &t, &err), -1, "the right size, another shape");
    t = stem;
    t.bytes--;
    is_int(model_import(r.m, &t, &err), -1, "a byte less");
    t = stem;
    t.dt = DT_N;
    is_int(model_import(r.m, &t, &err), -1, "integers for weights");
    t = (struct model_tensor){.name = "features.0.1.num_batches_tracked",
                              .dt = DT_F64,
                              .data = &count,
                              .bytes = 8};
    is_int(model_import(r.m, &t, &err), -1, "a double for the counter");
    must(model_export(r.m, save, &after, &err), &err);
    ok(same(&before, &after), "a refused tensor changes nothing");
    must(model_import(r.m, &stem, &err), &err);
    t.dt = DT_N;
    must(model_import(r.m, &t, &err), &err);
    saved_clear(&after);
    must(model_export(r.m, save, &after, &err), &err);
    is_int(*(int64_t *)after.t[5].data, 3, "the counter is kept");
    saved_clear(&before);
    saved_clear(&after);
    rig_clear(&r);
}

static int stop(void *arg, const struct model_tensor *t, struct error *err)
{
    (void)t;
    if (++*(int *)arg == 3)
        return error_set(err, ERR_IO, "disk full");
    return 0;
}

static void test_stop(void)
{
    struct rig r;
    struct error err = ERROR_INIT;
    int calls = 0;
    rig_init(&r, &conf32, 1, 1);
    is_int(model_export(r.m, stop, &calls, &err), -1, "each() may fail");
    is_str(err.msg, "disk full", "and its message arrives");
    is_int(calls, 3, "and the rest is not exported");
    rig_clear(&r);
}

/* Mean and standard deviation within five standard errors. */
static bool is_normal(const float *v, size_t n, double std)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)v[i];
        squares += (double)v[i] * (double)v[i];
    }
    double count = (double)n, mean = sum / count;
    double got = sqrt(squares / count);
    return fabs(mean) < 5 * std / sqrt(count) &&
           fabs(got - std) < 5 * std / sqrt(2 * count);
}

static bool is_constant(const float *v, size_t n, float c)
{
    for (size_t i = 0; i < n; i++)
        if (v[i] != c)
            return false;
    return true;
}

static bool starts_right(const struct model_tensor *t)
{
    const char *last = strrchr(t->name, '.') + 1;
    size_t n = t->bytes / sizeof(float);
    if (t->dt == DT_N)
        return *(const int64_t *)t->data == 0;
    if (t->dims == 4) {
        double fan_out = t->shape[0] * t->shape[2] * t->shape[3];
        return is_normal(t->data, n, sqrt(2 / fan_out));
    }
    if (t->dims == 2)
        return is_normal(t->data, n, 0.01);
    bool one = strcmp(last, "weight") == 0 || strcmp(last, "running_var") == 0;
    return is_constant(t->data, n, one ? 1 : 0);
}

static void test_init(void)
{
    struct rig a, b;
    struct error err = ERROR_INIT;
    struct saved first = {.n = 0}, second = {.n = 0};
    int32_t right = 0;
    rig_init(&a, &conf32, 1, 42);
    rig_init(&b, &conf32, 2, 42);
    one_step(&b);
    must(model_init(b.m, 42, &err), &err);
    must(model_export(a.m, save, &first, &err), &err);
    must(model_export(b.m, save, &second, &err), &err);
    ok(same(&first, &second), "init() starts over, with the seed's values");
    for (int32_t i = 0; i < first.n; i++) {
        right += starts_right(&first.t[i]);
        if (!starts_right(&first.t[i]))
            tap_diag("%s", first.t[i].name);
    }
    is_int(right, first.n, "every tensor starts as torchvision's");
    saved_clear(&first);
    saved_clear(&second);
    rig_clear(&a);
    rig_clear(&b);
}

int main(void)
{
    test_round_trip(DT_F32, 3);
    test_round_trip(DT_F32, 1);
    test_round_trip(DT_F64, 3);
    test_convert();
    test_refused();
    test_stop();
    test_init();
    return tap_done();
}
