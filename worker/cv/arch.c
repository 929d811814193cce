/* arch.c - see arch.h. Sandler et al. 2018, table 2, with torchvision's
 * rounding of channels and its module names. */
#include "worker/cv/arch.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Expansion t, channels c, repeats n, stride s of the first repeat. */
static const struct {
    int32_t t, c, n, s;
} stages[] = {
    {1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2},  {6, 64, 4, 2},
    {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1},
};

enum { STEM = 32, LAST = 1280, LAST_FEATURE = 18 };

struct builder {
    struct arch *a;
    int32_t n;        /* rows so far */
    int32_t channels; /* of the output of the last row */
    int32_t side;
};

int32_t arch_channels(double v)
{
    int32_t c = (int32_t)(v + 4) / 8 * 8;
    if (c < 8)
        c = 8;
    return c < 0.9 * v ? c + 8 : c;
}

/* Appends a convolution and its norm, named "features.F.conv" and so on. */
static struct layer *add(struct builder *b, enum layer_kind kind, int32_t cout,
                         int32_t stride, double cap)
{
    assert(b->n < ARCH_LAYERS);
    struct arch *a = b->a;
    struct layer *l = &a->layers[b->n++];
    *l = (struct layer){
        .kind = kind,
        .cin = b->channels,
        .cout = cout,
        .side = b->side,
        .out_side = (b->side - 1) / stride + 1,
        .stride = stride,
        .cap = cap,
        .skip = -1,
    };
    switch (kind) {
    case LAYER_STEM:
        l->weights = (int64_t)9 * l->cin * cout;
        break;
    case LAYER_POINTWISE:
        l->weights = (int64_t)l->cin * cout;
        break;
    case LAYER_DEPTHWISE:
        l->weights = (int64_t)9 * cout;
        break;
    }
    l->weight = a->params;
    l->gamma = l->weight + l->weights;
    l->beta = l->gamma + cout;
    a->params = l->beta + cout;
    l->mean = a->running;
    l->var = l->mean + cout;
    a->running = l->var + cout;
    b->channels = cout;
    b->side = l->out_side;
    return l;
}

/* torchvision wraps convolution, norm and activation into one module, whose
 * parts are "0" and "1"; the projection has no activation, and its two parts
 * stand beside those modules. */
static void name(struct layer *l, const char *module)
{
    (void)snprintf(l->conv, sizeof(l->conv), "%s.0", module);
    (void)snprintf(l->norm, sizeof(l->norm), "%s.1", module);
}

static void add_block(struct builder *b, int32_t feature, int32_t t,
                      int32_t cout, int32_t stride)
{
    char module[ARCH_NAME_CAP - 8];
    int32_t before = b->n - 1, cin = b->channels, k = 0;
    if (t != 1) {
        (void)snprintf(module, sizeof(module), "features.%d.conv.%d", feature,
                       k++);
        name(add(b, LAYER_POINTWISE, cin * t, 1, 6), module);
    }
    (void)snprintf(module, sizeof(module), "features.%d.conv.%d", feature, k++);
    name(add(b, LAYER_DEPTHWISE, cin * t, stride, 6), module);
    struct layer *l = add(b, LAYER_POINTWISE, cout, 1, 0);
    (void)snprintf(l->conv, sizeof(l->conv), "features.%d.conv.%d", feature, k);
    (void)snprintf(l->norm, sizeof(l->norm), "features.%d.conv.%d", feature,
                   k + 1);
    if (stride != 1 || cin != cout)
        return;
    l->skip = before;
    b->a->layers[before].is_kept = true;
}

static int check(const struct mobilenet_conf *c, struct error *err)
{
    if ((int)c->dt < 0 || c->dt >= DT_N)
        return error_set(err, ERR_INVAL, "model: data type %d", (int)c->dt);
    if (!(c->width_mult > 0 && c->width_mult <= 16))
        return error_set(err, ERR_INVAL, "model: width_mult %g", c->width_mult);
    if (!(c->dropout >= 0 && c->dropout < 1))
        return error_set(err, ERR_INVAL, "model: dropout %g", c->dropout);
    if (c->num_classes < 1 || c->num_classes > 1 << 20)
        return error_set(err, ERR_INVAL, "model: %d classes", c->num_classes);
    if (c->in_channels != 0 && c->in_channels != 1 && c->in_channels != 3)
        return error_set(err, ERR_INVAL, "model: %d input channels, not 1 or 3",
                         c->in_channels);
    if (c->image_size < 1 || c->image_size > 1 << 14)
        return error_set(err, ERR_INVAL, "model: image size %d", c->image_size);
    /* The kernels count the rows of a matrix in 32 bits. */
    int64_t side = (c->image_size - 1) / 2 + 1;
    if (c->batch < 1 || c->batch > INT32_MAX / (side * side))
        return error_set(err, ERR_INVAL,
                         "model: a batch of %d images of %dx%d; at most %lld "
                         "at that size: lower train.batch_size",
                         c->batch, c->image_size, c->image_size,
                         (long long)(INT32_MAX / (side * side)));
    return 0;
}

int arch_build(const struct mobilenet_conf *conf, struct arch *ret,
               struct error *err)
{
    if (check(conf, err) < 0)
        return -1;
    double w = conf->width_mult;
    int32_t feature = 0;
    memset(ret, 0, sizeof(*ret));
    struct builder b = {.a = ret,
                        .channels = conf->in_channels ? conf->in_channels : 3,
                        .side = conf->image_size};
    name(add(&b, LAYER_STEM, arch_channels((double)STEM * w), 2, 6),
         "features.0");
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++)
        for (int32_t k = 0; k < stages[i].n; k++)
            add_block(&b, ++feature, stages[i].t,
                      arch_channels(stages[i].c * w), k ? 1 : stages[i].s);
    assert(feature + 1 == LAST_FEATURE);
    ret->features = arch_channels((double)LAST * (w > 1 ? w : 1));
    name(add(&b, LAYER_POINTWISE, ret->features, 1, 6), "features.18");
    assert(b.n == ARCH_LAYERS);
    ret->fc_weight = ret->params;
    ret->fc_bias = ret->fc_weight + (int64_t)conf->num_classes * ret->features;
    ret->params = ret->fc_bias + conf->num_classes;
    return 0;
}
