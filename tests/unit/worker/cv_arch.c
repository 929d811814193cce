/* cv_arch.c - sizes, names and order against torchvision's state_dict, and
 * the plan against what is allocated. */
#include "worker/cv/arch.h"

#include "tests/golden/golden.h"
#include "tests/unit/worker/cv_rig.h"
#include "worker/cv/mobilenet_internal.h"

static const struct mobilenet_conf tiny = {.dt = DT_F32,
                                           .width_mult = 0.1,
                                           .num_classes = 10,
                                           .image_size = 28,
                                           .batch = 2};

static void test_counts(const struct golden *g)
{
    static const double widths[] = {0.1, 0.25, 0.35, 0.5, 0.75,
                                    1.0, 1.3,  1.4,  2.0};
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < 2 * sizeof(widths) / sizeof(widths[0]); i++) {
        struct mobilenet_conf conf = tiny;
        struct model_plan plan;
        char line[64];
        size_t n;
        conf.width_mult = widths[i / 2];
        conf.num_classes = i % 2 ? 1000 : 10;
        (void)snprintf(line, sizeof(line), "params %g %d", conf.width_mult,
                       conf.num_classes);
        double *want = golden_get(g, line, &n);
        must(mobilenet_plan(&conf, &plan, &err), &err);
        is_int(plan.params, (long long)want[0], line);
        free(want);
    }
    struct mobilenet_conf conf = tiny;
    struct model_plan plan;
    conf.width_mult = 1;
    must(mobilenet_plan(&conf, &plan, &err), &err);
    is_int(plan.params, 2236682, "2,236,682 parameters for 10 classes");
    is_int(plan.state, 2 * 17056, "mean and variance of 17,056 channels");
    conf.num_classes = 1000;
    must(mobilenet_plan(&conf, &plan, &err), &err);
    is_int(plan.params, 3504872, "3,504,872 parameters for 1000 classes");
}

/* A third of the stem's weights, and of its patches; nothing else. */
static void test_gray(void)
{
    struct model_plan three, one;
    struct error err = ERROR_INIT;
    struct mobilenet_conf conf = tiny;
    conf.width_mult = 1;
    must(mobilenet_plan(&conf, &three, &err), &err);
    conf.in_channels = 3;
    must(mobilenet_plan(&conf, &one, &err), &err);
    ok(memcmp(&one, &three, sizeof(one)) == 0, "three channels are meant by 0");
    conf.in_channels = 1;
    must(mobilenet_plan(&conf, &one, &err), &err);
    is_int(three.params - one.params, 2 * 9 * 32, "576 weights fewer");
    is_int(three.bytes_activations - one.bytes_activations,
           2 * 14 * 14 * 2 * 9 * 4 / 256 * 256, "and 18 values of a patch");
}

static void test_channels(void)
{
    is_int(arch_channels(3.2), 8, "at least 8 channels");
    is_int(arch_channels(16 * 0.75), 16, "12 becomes 16");
    is_int(arch_channels(24 * 0.35), 8, "8.4 becomes 8");
    is_int(arch_channels(11.9), 16, "11.9 may not lose more than 10 %");
    is_int(arch_channels(1280 * 1.4), 1792, "1792 stays");
}

struct names {
    const struct golden *g;
    int32_t at, wrong;
};

static int check_name(void *arg, const struct model_tensor *t,
                      struct error *err)
{
    struct names *s = arg;
    char line[120];
    size_t n;
    (void)err;
    (void)snprintf(line, sizeof(line), "shape %d %s", s->at++, t->name);
    double *want = golden_get(s->g, line, &n); /* ends the test if absent */
    bool same = n == (size_t)t->dims;
    for (size_t i = 0; same && i < n; i++)
        same = (int32_t)want[i] == t->shape[i];
    if (!same)
        tap_diag("%s: another shape", t->name);
    s->wrong += !same;
    free(want);
    return 0;
}

static void test_names(const struct golden *g)
{
    struct rig r;
    struct error err = ERROR_INIT;
    struct mobilenet_conf conf = tiny;
    struct names s = {.g = g};
    conf.width_mult = 1;
    rig_init(&r, &conf, 1, 1);
    must(model_export(r.m, check_name, &s, &err), &err);
    is_int(s.at, 314, "314 tensors, named and ordered as torchvision's");
    is_int(s.wrong, 0, "with its shapes");
    rig_clear(&r);
}

/* Offsets tile the flat arrays without holes, in order. */
static void test_offsets(void)
{
    struct arch a;
    struct error err = ERROR_INIT;
    struct mobilenet_conf conf = tiny;
    int64_t at = 0, running = 0;
    bool good = true;
    conf.width_mult = 0.35;
    must(arch_build(&conf, &a, &err), &err);
    for (int32_t i = 0; i < ARCH_LAYERS; i++) {
        const struct layer *l = &a.layers[i];
        good = good && l->weight == at && l->gamma == at + l->weights &&
               l->beta == l->gamma + l->cout && l->mean == running &&
               l->var == running + l->cout;
        at = l->beta + l->cout;
        running = l->var + l->cout;
        good = good && (i == 0 || l->cin == a.layers[i - 1].cout) &&
               (i == 0 || l->side == a.layers[i - 1].out_side);
    }
    ok(good && a.fc_weight == at && a.running == running,
       "offsets leave no holes");
    is_int(a.layers[0].skip, -1, "the stem has no skip");
    is_int(a.layers[8].skip, 5, "feature 3 adds feature 2's output");
}

static void test_plan(void)
{
    static const enum dtype types[] = {DT_F64, DT_F32};
    for (size_t i = 0; i < 2; i++) {
        struct rig r;
        struct mobilenet_conf conf = tiny;
        conf.dt = types[i];
        conf.dropout = i ? 0.2 : 0;
        rig_init(&r, &conf, 1, 1);
        const struct model_plan *p = model_planned(r.m);
        is_int(rig_allocs, 1, "one allocation");
        is_int(rig_bytes, p->bytes_total, "of the size that was planned");
        is_int(p->bytes_params + p->bytes_grads + p->bytes_activations +
                   p->bytes_work,
               p->bytes_total, "which is the sum of its parts");
        (void)rig_loss(&r, 1);
        rig_backward(&r, 1);
        is_int(rig_allocs, 1, "a step allocates nothing");
        rig_clear(&r);
    }
}

struct span {
    const char *at;
    size_t bytes;
};

static int by_address(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Every array has room for what the kernels write, and none is in another;
 * the sizes are counted here from the shapes in the kernels' comments. */
static void test_no_overlap(void)
{
    struct rig r;
    struct mobilenet_conf conf = tiny;
    struct span v[5 * ARCH_LAYERS + 16];
    size_t n = 0, largest = 0;
    conf.dropout = 0.2;
    rig_init(&r, &conf, 1, 1);
    const struct mobilenet *m = mobilenet_of(r.m);
    const struct arena *mem = &m->mem;
    const struct arch *a = &m->arch;
    const size_t f = sizeof(float), batch = (size_t)conf.batch;
    for (int32_t i = 0; i < ARCH_LAYERS; i++) {
        const struct layer *l = &a->layers[i];
        size_t side = (size_t)l->out_side, c = (size_t)l->cout;
        size_t bytes = batch * side * side * c * f;
        largest = bytes > largest ? bytes : largest;
        v[n++] = (struct span){mem->acts[i].z, bytes};
        if (mem->acts[i].y)
            v[n++] = (struct span){mem->acts[i].y, bytes};
        v[n++] = (struct span){mem->acts[i].sums, 2 * c * f};
        v[n++] = (struct span){mem->acts[i].mean, c * f};
        v[n++] = (struct span){mem->acts[i].rstd, c * f};
    }
    for (int32_t i = 0; i < MODEL_DY; i++)
        v[n++] = (struct span){mem->dy[i], largest};
    const size_t features = batch * (size_t)a->features * f;
    v[n++] = (struct span){mem->pooled, features};
    v[n++] = (struct span){mem->dropped, features};
    v[n++] = (struct span){mem->dpooled, features};
    v[n++] = (struct span){mem->logits, batch * 10 * f};
    v[n++] = (struct span){mem->loss, batch * f};
    v[n++] = (struct span){(const char *)mem->hit, batch * sizeof(int32_t)};
    v[n++] = (struct span){mem->col, batch * 14 * 14 * 27 * f};
    v[n++] = (struct span){mem->params, (size_t)a->params * f};
    v[n++] = (struct span){mem->grads, (size_t)a->params * f};
    v[n++] = (struct span){mem->running, (size_t)a->running * f};
    qsort(v, n, sizeof(v[0]), by_address);
    bool apart = v[0].at >= (const char *)m->memory;
    for (size_t i = 1; i < n; i++)
        apart = apart && v[i - 1].at + v[i - 1].bytes <= v[i].at;
    ok(apart && v[n - 1].at + v[n - 1].bytes <=
                    (const char *)m->memory + model_planned(r.m)->bytes_total,
       "%zu arrays in the arena, each on its own", n);
    rig_clear(&r);
}

static void refused(struct mobilenet_conf conf, const char *what)
{
    struct error err = ERROR_INIT;
    struct model_plan plan = {.params = -7};
    ok(mobilenet_plan(&conf, &plan, &err) == -1 && err.code == ERR_INVAL &&
           plan.params == -7,
       "refused: %s: %s", what, err.msg);
}

static void test_refused(void)
{
    struct mobilenet_conf c = tiny;
    c.width_mult = 0;
    refused(c, "no width");
    c = tiny;
    c.width_mult = NAN;
    refused(c, "a width that is not a number");
    c = tiny;
    c.dropout = 1;
    refused(c, "dropout of everything");
    c = tiny;
    c.num_classes = 0;
    refused(c, "no classes");
    c = tiny;
    c.image_size = 0;
    refused(c, "no image");
    c = tiny;
    c.in_channels = 2;
    refused(c, "two channels");
    c = tiny;
    c.batch = 0;
    refused(c, "no batch");
    c = tiny;
    c.image_size = 1024;
    c.batch = 8192; /* 512 * 512 * 8192 = 2^31 rows */
    refused(c, "more rows than 32 bits count");
    c = tiny;
    c.dt = DT_N;
    refused(c, "no such type");
}

int main(void)
{
    struct golden g;
    golden_open(&g, "tests/golden/mobilenet.txt");
    test_counts(&g);
    test_gray();
    test_channels();
    test_names(&g);
    test_offsets();
    test_plan();
    test_no_overlap();
    test_refused();
    golden_close(&g);
    return tap_done();
}
