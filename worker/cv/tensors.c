/* tensors.c - see tensors.h. Names and layouts; what differs from torchvision
 * is only where the 3x3 window stands: before the channels here, last there. */
#include "worker/cv/tensors.h"

#include <stdio.h>
#include <string.h>

static void shape_of_weight(const struct layer *l, struct slot *s)
{
    int32_t side = l->kind == LAYER_POINTWISE ? 1 : 3;
    int32_t cin = l->kind == LAYER_DEPTHWISE ? 1 : l->cin;
    s->dims = 4;
    s->shape[0] = l->cout;
    s->shape[1] = cin;
    s->shape[2] = s->shape[3] = side;
    s->n = l->weights;
    s->at = l->weight;
}

static void get_row(const struct mobilenet *m, struct slot *s)
{
    static const char *const part[SLOTS_PER_ROW] = {
        "weight",       "weight",      "bias",
        "running_mean", "running_var", "num_batches_tracked",
    };
    const struct layer *l = &m->arch.layers[s->row];
    const int64_t at[SLOTS_PER_ROW] = {
        l->weight, l->gamma, l->beta, l->mean, l->var, 0,
    };
    (void)snprintf(s->name, sizeof(s->name), "%s.%s",
                   s->part == 0 ? l->conv : l->norm, part[s->part]);
    if (s->part == 0) {
        shape_of_weight(l, s);
        return;
    }
    s->at = at[s->part];
    s->n = s->part < 5 ? l->cout : 1;
    s->dims = s->part < 5 ? 1 : 0;
    s->shape[0] = l->cout;
    if (s->part >= 3)
        s->kind = s->part < 5 ? SLOT_RUNNING : SLOT_TRACKED;
}

void tensor_slot_get(const struct mobilenet *m, int32_t i, struct slot *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (i < SLOTS - 2) {
        ret->row = i / SLOTS_PER_ROW;
        ret->part = i % SLOTS_PER_ROW;
        get_row(m, ret);
        return;
    }
    const struct arch *a = &m->arch;
    ret->row = -1;
    ret->part = i - (SLOTS - 2);
    ret->shape[0] = m->conf.num_classes;
    if (ret->part == 0) {
        (void)snprintf(ret->name, sizeof(ret->name), "classifier.1.weight");
        ret->dims = 2;
        ret->shape[1] = a->features;
        ret->at = a->fc_weight;
        ret->n = a->fc_bias - a->fc_weight;
    } else {
        (void)snprintf(ret->name, sizeof(ret->name), "classifier.1.bias");
        ret->dims = 1;
        ret->at = a->fc_bias;
        ret->n = a->params - a->fc_bias;
    }
}

int64_t tensor_slot_largest(const struct mobilenet *m)
{
    int64_t most = 0;
    struct slot s;
    for (int32_t i = 0; i < SLOTS; i++) {
        tensor_slot_get(m, i, &s);
        most = s.n > most ? s.n : most;
    }
    return most;
}

/* Index in our layout of torchvision's element j of the slot. */
static int64_t ours(const struct mobilenet *m, const struct slot *s, int64_t j)
{
    if (s->row < 0 || s->part != 0)
        return j;
    const struct layer *l = &m->arch.layers[s->row];
    int64_t k = j % 9, c = j / 9; /* place in the window, channel */
    switch (l->kind) {
    case LAYER_POINTWISE:
        return j;
    case LAYER_DEPTHWISE: /* [C, 1, 3, 3] -> [3, 3, C] */
        return k * l->cout + c;
    case LAYER_STEM: /* [Cout, Cin, 3, 3] -> [Cout, 3, 3, Cin] */
        return (c / l->cin * 9 + k) * l->cin + c % l->cin;
    }
    return j;
}

enum dtype tensor_slot_dtype(const struct mobilenet *m, const struct slot *s)
{
    return s->kind == SLOT_RUNNING ? dtype_acc(m->conf.dt) : m->conf.dt;
}

static void *place(struct mobilenet *m, const struct slot *s)
{
    return s->kind == SLOT_RUNNING ? at_a(m, m->mem.running, s->at)
                                   : at_t(m, m->mem.params, s->at);
}

int tensor_slot_read(struct mobilenet *m, const struct slot *s, double *v,
                     void *raw, struct error *err)
{
    const enum dtype dt = tensor_slot_dtype(m, s);
    if (m->d->ops->to_host(m->d, raw, place(m, s),
                           (size_t)s->n * dtype_bytes(dt), err) < 0)
        return error_wrap(err, "%s", s->name);
    for (int64_t j = 0; j < s->n; j++)
        v[j] = dtype_get(dt, raw, ours(m, s, j));
    return 0;
}

int tensor_slot_write(struct mobilenet *m, const struct slot *s,
                      const double *v, void *raw, struct error *err)
{
    const enum dtype dt = tensor_slot_dtype(m, s);
    for (int64_t j = 0; j < s->n; j++)
        dtype_set(dt, raw, ours(m, s, j), v[j]);
    /* raw is the caller's again when this returns, whatever the device does
     * in the background. */
    if (m->d->ops->to_device(m->d, place(m, s), raw,
                             (size_t)s->n * dtype_bytes(dt), err) < 0 ||
        m->d->ops->sync(m->d, err) < 0)
        return error_wrap(err, "%s", s->name);
    return 0;
}
