/* mobilenet_floor.c - the least time of both passes on a card
 * (worker/process/card_limits.h).
 *
 * An output is stored before its norm, because the statistics of the batch are
 * known when all of it is there: each layer reads the output of the one before
 * and writes its own. Its backward pass reads the gradient and that output,
 * from which the norm's gradient follows, and its input, and writes the input's
 * gradient. Depthwise layers take their bytes alone: 18 operations for a value
 * that is read and one that is written take no card longer. */
#include "worker/cv/mobilenet_internal.h"
#include "worker/process/card_limits.h"

/* Values and multiplications of a layer, of a batch. */
struct layer_sizes {
    double in, out, skip; /* skip: read besides */
    double weights, mults;
};

static void add(struct card_floor *io, double bytes_each, double mults,
                double values)
{
    card_floor_add(io, 2 * mults, bytes_each * values);
}

static struct layer_sizes sizes_of(const struct layer *l, int32_t n)
{
    const double in = (double)n * l->side * l->side * l->cin;
    const double out = (double)layer_rows(l, n) * l->cout;
    const double taps = l->kind == LAYER_STEM        ? 9.0 * l->cin
                        : l->kind == LAYER_POINTWISE ? l->cin
                                                     : 0;
    return (struct layer_sizes){.in = in,
                                .out = out,
                                .skip = l->skip >= 0 ? out : 0,
                                .weights = (double)l->weights + 2.0 * l->cout,
                                .mults = out * taps};
}

void mobilenet_floor(const struct model *model, const struct batch *b,
                     struct card_floor *io)
{
    const struct mobilenet *m = (const struct mobilenet *)model;
    const struct arch *a = &m->arch;
    const double each = (double)dtype_bytes(m->conf.dt);
    const double pooled = (double)b->valid * a->features;
    const double classes = (double)b->valid * m->conf.num_classes;
    const double fc = (double)(a->params - a->fc_weight);
    const double mults = pooled * m->conf.num_classes;
    if (b->valid < 1)
        return;
    for (int32_t i = 0; i < ARCH_LAYERS; i++) {
        const struct layer_sizes s = sizes_of(&a->layers[i], b->valid);
        /* The gradient of the last one is that of the means that are pooled;
         * nothing is below the first one. */
        const double grad = i == ARCH_LAYERS - 1 ? pooled : s.out;
        const double below = i > 0 ? s.in : 0;
        add(io, each, s.mults, s.in + s.skip + s.weights + s.out);
        add(io, each, i > 0 ? 2 * s.mults : s.mults,
            grad + s.out + s.in + s.skip + below + 2 * s.weights);
    }
    const struct layer_sizes last =
        sizes_of(&a->layers[ARCH_LAYERS - 1], b->valid);
    add(io, each, 0, last.out + pooled);
    add(io, each, mults, pooled + fc + classes);
    add(io, each, 2 * mults, classes + 2 * pooled + 2 * fc);
}
