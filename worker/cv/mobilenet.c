/* mobilenet.c - memory: the plan, the arena, and what outlives a step.
 *
 * lay_out() gives every array its place. It runs with base 0 for the plan
 * and with the real base afterwards, so the plan cannot differ from what is
 * used. The arena is one allocation: either a job fits or it is refused
 * before its first step.
 */
#include <assert.h>
#include <stdlib.h>

#include "worker/cv/mobilenet_internal.h"

enum { ALIGN = 256 };

struct cursor {
    char *base; /* NULL: only count */
    size_t at;
};

static void *take(struct cursor *c, int64_t n, size_t size)
{
    void *p = c->base ? c->base + c->at : NULL;
    c->at += ((size_t)n * size + ALIGN - 1) / ALIGN * ALIGN;
    return p;
}

static void lay_out(const struct model_conf *conf, const struct arch *a,
                    void *base, struct arena *ret, struct model_plan *plan)
{
    const size_t t = dtype_bytes(conf->dt), acc = dtype_acc_bytes(conf->dt);
    const int64_t n = conf->batch;
    struct cursor c = {.base = base};
    size_t mark;

    ret->params = take(&c, a->params, t);
    ret->running = take(&c, a->running, acc);
    plan->bytes_params = (int64_t)(mark = c.at);
    ret->grads = take(&c, a->params, t);
    plan->bytes_grads = (int64_t)(c.at - mark);
    mark = c.at;

    int64_t largest = 0, widest = 0;
    for (int32_t i = 0; i < ARCH_LAYERS; i++) {
        const struct layer *l = &a->layers[i];
        int64_t elems = layer_rows(l, conf->batch) * l->cout;
        largest = elems > largest ? elems : largest;
        int64_t pair = layer_rows(l, conf->batch) * (l->cin + l->cout);
        widest = pair > widest ? pair : widest;
        ret->acts[i].z = take(&c, elems, t);
        ret->acts[i].y = row_keeps_y(a, i) ? take(&c, elems, t) : NULL;
        ret->acts[i].mean = take(&c, l->cout, acc);
        ret->acts[i].rstd = take(&c, l->cout, acc);
        ret->acts[i].sums = take(&c, (int64_t)2 * l->cout, acc);
    }
    const struct layer *stem = &a->layers[0];
    ret->col = take(&c, layer_rows(stem, conf->batch) * 9 * stem->cin, t);
    ret->pooled = take(&c, n * a->features, t);
    ret->dropped = conf->dropout > 0 ? take(&c, n * a->features, t) : NULL;
    ret->logits = take(&c, n * conf->num_classes, t);
    ret->loss = take(&c, n, acc);
    ret->hit = take(&c, n, sizeof(*ret->hit));
    ret->seed = take(&c, 1, sizeof(*ret->seed));
    ret->scale = take(&c, 1, sizeof(*ret->scale));
    plan->bytes_activations = (int64_t)(c.at - mark);
    mark = c.at;

    ret->dpooled = take(&c, n * a->features, t);
    for (int32_t i = 0; i < MODEL_DY; i++)
        ret->dy[i] = take(&c, largest, t);
    plan->bytes_work = (int64_t)(c.at - mark);
    plan->bytes_total = (int64_t)c.at;
    plan->bytes_scratch = widest * (int64_t)t;
    plan->params = a->params;
    plan->running = a->running;
}

int model_plan(const struct model_conf *conf, struct model_plan *ret,
               struct error *err)
{
    struct arch a;
    struct arena unused;
    if (arch_build(conf, &a, err) < 0)
        return -1;
    lay_out(conf, &a, NULL, &unused, ret);
    return 0;
}

int model_create(struct device *d, const struct model_conf *conf,
                 struct model **ret, struct error *err)
{
    struct model *m = calloc(1, sizeof(*m));
    if (!m)
        return error_set(err, ERR_NOMEM, "model");
    m->d = d;
    m->conf = *conf;
    if (arch_build(conf, &m->arch, err) < 0)
        goto fail;
    lay_out(conf, &m->arch, NULL, &m->mem, &m->plan);
    /* Losses and hits, as they lie in the arena, or logits. */
    m->host = malloc((size_t)conf->batch * ((size_t)conf->num_classes + 2) *
                         sizeof(double) +
                     ALIGN);
    if (!m->host) {
        (void)error_set(err, ERR_NOMEM, "model: host memory for the results");
        goto fail;
    }
    if (d->ops->alloc(d, (size_t)m->plan.bytes_total, &m->base, err) < 0) {
        (void)error_wrap(err, "model of %lld bytes at batch %d",
                         (long long)m->plan.bytes_total, conf->batch);
        goto fail;
    }
    lay_out(conf, &m->arch, m->base, &m->mem, &m->plan);
    *ret = m;
    return 0;
fail:
    model_destroy(m);
    return -1;
}

void model_destroy(struct model *m)
{
    if (!m)
        return;
    m->d->ops->release(m->d, m->base);
    free(m->host);
    free(m);
}

void *model_params(struct model *m)
{
    return m->mem.params;
}

void *model_grads(struct model *m)
{
    return m->mem.grads;
}

void *model_running(struct model *m)
{
    return m->mem.running;
}

const struct model_plan *model_planned(const struct model *m)
{
    return &m->plan;
}

int32_t model_ranges(const struct model *m,
                     struct model_range ret[MODEL_RANGES])
{
    const struct arch *a = &m->arch;
    int32_t n = 0;
    static_assert(2 * (ARCH_LAYERS + 1) <= MODEL_RANGES, "room for all");
    for (int32_t i = 0; i < ARCH_LAYERS; i++) {
        const struct layer *l = &a->layers[i];
        ret[n++] = (struct model_range){l->weight, l->weights, false};
        ret[n++] =
            (struct model_range){l->gamma, l->beta + l->cout - l->gamma, true};
    }
    ret[n++] =
        (struct model_range){a->fc_weight, a->fc_bias - a->fc_weight, false};
    ret[n++] = (struct model_range){a->fc_bias, a->params - a->fc_bias, true};
    return n;
}

static int check_last(const struct model *m, int32_t n, struct error *err)
{
    if (m->n == 0 || n != m->n)
        return error_set(err, ERR_STATE,
                         "model: the last forward pass had %d samples, not %d",
                         m->n, n);
    return 0;
}

int model_result(struct model *m, int32_t n, double *ret_loss_sum,
                 int64_t *ret_hits, struct error *err)
{
    if (check_last(m, n, err) < 0)
        return -1;
    /* Both at once: each copy waits for the device. */
    size_t apart = (size_t)((char *)m->mem.hit - (char *)m->mem.loss);
    if (m->d->ops->to_host(m->d, m->host, m->mem.loss,
                           apart + (size_t)n * sizeof(*m->mem.hit), err) < 0)
        return -1;
    const enum dtype acc = dtype_acc(m->conf.dt);
    const int32_t *hit = (void *)((char *)m->host + apart);
    double sum = 0;
    int64_t hits = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += dtype_get(acc, m->host, i);
        hits += hit[i];
    }
    *ret_loss_sum = sum;
    *ret_hits = hits;
    return 0;
}

int model_logits(struct model *m, int32_t n, double *ret, struct error *err)
{
    if (check_last(m, n, err) < 0)
        return -1;
    int64_t elems = (int64_t)n * m->conf.num_classes;
    if (m->d->ops->to_host(m->d, m->host, m->mem.logits,
                           (size_t)elems * dtype_bytes(m->conf.dt), err) < 0)
        return -1;
    for (int64_t i = 0; i < elems; i++)
        ret[i] = dtype_get(m->conf.dt, m->host, i);
    return 0;
}
