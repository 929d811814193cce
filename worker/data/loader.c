/* loader.c - see loader.h.
 *
 * A stage has a twin on the device: one copy moves a batch of any size. With
 * ahead there are two of them, which are filled in turn; labels and images
 * then have places of their own, because a captured graph has their addresses.
 */
#include "worker/data/loader.h"

#include <stdlib.h>

struct loader {
    struct device *d;
    struct loader_conf conf;
    const struct dataset *ds;
    const struct clock *clock;
    struct fetch *fetch;
    struct prefetch_layout layout;
    uint8_t *dev[2]; /* the second one with ahead only */
    int32_t pinned;  /* stages */
    void *x;         /* NULL: in dev, as it was copied */
    int32_t *label;  /* NULL: in dev */
    uint8_t *pixels; /* planar, of bytes: the images of dev as [H, W, C] */
    /* Used with `ahead` alone: */
    struct fetch_batch next;
    bool has_next;
    int32_t turn; /* of the dev that is filled next */
    bool has_sent;
};

static struct fetch_conf fetch_conf_of(const struct loader_conf *c)
{
    return (struct fetch_conf){.view = {.augment = c->augment,
                                        .is_train = c->is_train,
                                        .S = c->image_size,
                                        .gray = c->gray},
                               .batch = c->batch,
                               .workers = c->workers,
                               .skip_bad = c->skip_bad,
                               .floats = c->floats,
                               .planar = c->planar,
                               .dt = c->dt};
}

static int32_t channels_of(const struct loader_conf *c)
{
    return c->gray ? 1 : IMAGE_CHANNELS;
}

static size_t x_bytes(const struct loader_conf *c)
{
    size_t s = (size_t)c->image_size, values = s * s * (size_t)channels_of(c);
    return (size_t)c->batch * values * dtype_bytes(c->dt);
}

static size_t label_bytes(const struct loader_conf *c)
{
    return (size_t)c->batch * sizeof(int32_t);
}

/* The images are elsewhere than where they are copied to. */
static bool has_x(const struct loader_conf *c)
{
    return c->ahead || !c->floats || c->planar;
}

static size_t pixels_bytes(const struct loader_conf *c,
                           const struct prefetch_layout *at)
{
    return c->planar && !c->floats ? at->cap - at->bytes_at : 0;
}

int64_t loader_bytes(const struct loader_conf *conf, const struct dataset *ds)
{
    const struct fetch_conf fc = fetch_conf_of(conf);
    const struct prefetch_layout at = prefetch_layout(&fc, ds);
    int64_t cap = (int64_t)at.cap;
    int64_t bytes = cap + (int64_t)pixels_bytes(conf, &at);
    if (has_x(conf))
        bytes += (int64_t)x_bytes(conf);
    if (conf->ahead)
        bytes += cap + (int64_t)label_bytes(conf);
    return bytes;
}

int64_t loader_host_bytes(const struct loader_conf *conf,
                          const struct dataset *ds)
{
    const struct fetch_conf fc = fetch_conf_of(conf);
    return prefetch_bytes(&fc, ds);
}

static int pin_stages(struct loader *l, struct error *err)
{
    struct device *d = l->d;
    uint8_t *p;
    if (!l->conf.pin || !d->ops->pin)
        return 0;
    for (int32_t i = 0; (p = prefetch_stage(l->fetch, i)) != NULL; i++) {
        if (d->ops->pin(d, p, l->layout.cap, err) < 0)
            return -1;
        l->pinned++;
    }
    return 0;
}

static int alloc_all(struct loader *l, struct error *err)
{
    const struct loader_conf *c = &l->conf;
    const struct device_ops *ops = l->d->ops;
    void *p = NULL;
    for (int32_t i = 0; i < (c->ahead ? 2 : 1); i++) {
        if (ops->alloc(l->d, l->layout.cap, &p, err) < 0)
            return -1;
        l->dev[i] = p;
    }
    if (has_x(c) && ops->alloc(l->d, x_bytes(c), &l->x, err) < 0)
        return -1;
    const size_t pixels = pixels_bytes(c, &l->layout);
    p = NULL;
    if (pixels > 0 && ops->alloc(l->d, pixels, &p, err) < 0)
        return -1;
    l->pixels = p;
    if (!c->ahead)
        return 0;
    if (ops->alloc(l->d, label_bytes(c), &p, err) < 0)
        return -1;
    l->label = p;
    return 0;
}

int loader_create(struct device *d, const struct loader_conf *conf,
                  const struct dataset *ds, const struct clock *clock,
                  struct loader **ret, struct error *err)
{
    const struct fetch_conf fc = fetch_conf_of(conf);
    struct loader *l = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, ERR_NOMEM, "loader");
    *l = (struct loader){.d = d, .conf = *conf, .ds = ds, .clock = clock};
    if (prefetch_create(&fc, ds, &l->fetch, err) < 0)
        goto fail;
    l->layout = prefetch_layout(&fc, ds);
    if (pin_stages(l, err) < 0 || alloc_all(l, err) < 0)
        goto fail;
    *ret = l;
    return 0;
fail:
    loader_destroy(l);
    return error_wrap(err, "loader");
}

void loader_destroy(struct loader *l)
{
    if (!l)
        return;
    if (l->has_sent) /* it reads the stages */
        (void)l->d->ops->sent(l->d, l->conf.slot + (l->turn ^ 1), NULL);
    l->d->ops->release(l->d, l->pixels);
    l->d->ops->release(l->d, l->label);
    l->d->ops->release(l->d, l->x);
    l->d->ops->release(l->d, l->dev[0]);
    l->d->ops->release(l->d, l->dev[1]);
    for (int32_t i = 0; i < l->pinned; i++)
        l->d->ops->unpin(l->d, prefetch_stage(l->fetch, i));
    prefetch_destroy(l->fetch);
    free(l);
}

bool loader_has_room(const struct loader *l)
{
    return prefetch_has_room(l->fetch);
}

int loader_put(struct loader *l, const struct fetch_ask *ask, struct error *err)
{
    return prefetch_put(l->fetch, ask, err) < 0 ? error_wrap(err, "loader") : 0;
}

/* Waits until the device has read the stage of the last batch. */
static int wait_for_copy(struct loader *l, struct error *err)
{
    if (!l->has_sent)
        return 0;
    return l->d->ops->sent(l->d, l->conf.slot + (l->turn ^ 1), err);
}

void loader_reset(struct loader *l)
{
    (void)wait_for_copy(l, NULL); /* what is wrong will be wrong later */
    l->has_next = false;
    prefetch_reset(l->fetch);
}

/* The next batch, from the threads into the next dev. */
static int begin_next(struct loader *l, struct error *err)
{
    if (wait_for_copy(l, err) < 0)
        return error_wrap(err, "loader");
    if (prefetch_take(l->fetch, &l->next, err) < 0)
        return error_wrap(err, "data");
    if (l->d->ops->send(l->d, l->conf.slot + l->turn, l->dev[l->turn],
                        l->next.stage, l->next.used, err) < 0)
        return error_wrap(err, "loader");
    l->turn ^= 1;
    l->has_next = l->has_sent = true;
    return 0;
}

int loader_ahead(struct loader *l, struct error *err)
{
    if (!l->conf.ahead || l->has_next || !prefetch_is_ready(l->fetch))
        return 0;
    return begin_next(l, err);
}

static int unpack_floats(struct loader *l, const uint8_t *from, int32_t n,
                         struct error *err)
{
    const struct loader_conf *c = &l->conf;
    if (c->planar)
        return l->d->ops->nchw_to_nhwc(
            l->d, dtype_bytes(c->dt), l->x, from, NULL, n,
            (int64_t)c->image_size * c->image_size, channels_of(c), err);
    return l->d->ops->copy(l->d, l->x, from,
                           x_bytes(c) / (size_t)c->batch * (size_t)n, err);
}

static int unpack_bytes(struct loader *l, const uint8_t *from, const void *list,
                        int32_t n, struct error *err)
{
    const struct loader_conf *c = &l->conf;
    const struct device_ops *ops = l->d->ops;
    if (c->planar) {
        const int64_t pixels = (int64_t)c->image_size * c->image_size;
        if (ops->nchw_to_nhwc(l->d, 1, l->pixels, from, list, n, pixels,
                              channels_of(c), err) < 0)
            return -1;
        from = l->pixels;
    }
    return ops->images_u8(l->d, c->dt, l->x, from, list, n, c->image_size,
                          channels_of(c), &l->ds->norm, err);
}

/* Unpacks the device's copy of a stage into what the model reads. */
static int unpack(struct loader *l, const uint8_t *dev, int32_t n,
                  struct error *err)
{
    const struct prefetch_layout *at = &l->layout;
    if (l->label != NULL &&
        l->d->ops->copy(l->d, l->label, dev, (size_t)n * sizeof(int32_t), err) <
            0)
        return -1;
    if (l->x == NULL)
        return 0;
    if (l->conf.floats)
        return unpack_floats(l, dev + at->bytes_at, n, err);
    return unpack_bytes(l, dev + at->bytes_at, dev + at->list_at, n, err);
}

/* The batch that is, or is now put, on its way. */
static int take_ahead(struct loader *l, double *ret_s, struct error *err)
{
    int32_t slot;
    if (!l->has_next && begin_next(l, err) < 0)
        return -1;
    *ret_s = l->clock->now_s(l->clock);
    l->has_next = false;
    slot = l->turn ^ 1;
    if (l->d->ops->receive(l->d, l->conf.slot + slot, err) < 0 ||
        unpack(l, l->dev[slot], l->next.n, err) < 0 ||
        l->d->ops->reuse(l->d, l->conf.slot + slot, err) < 0)
        return error_wrap(err, "loader");
    return 0;
}

static int take_now(struct loader *l, double *ret_s, struct error *err)
{
    struct fetch_batch *b = &l->next;
    if (prefetch_take(l->fetch, b, err) < 0)
        return error_wrap(err, "data");
    *ret_s = l->clock->now_s(l->clock);
    if (l->d->ops->to_device(l->d, l->dev[0], b->stage, b->used, err) < 0 ||
        unpack(l, l->dev[0], b->n, err) < 0)
        return error_wrap(err, "loader");
    return 0;
}

int loader_take(struct loader *l, struct loader_batch *ret, struct error *err)
{
    double t0 = l->clock->now_s(l->clock), t1 = t0;
    if ((l->conf.ahead ? take_ahead(l, &t1, err) : take_now(l, &t1, err)) < 0)
        return -1;
    double t2 = l->clock->now_s(l->clock);
    const struct fetch_batch b = l->next;
    *ret = (struct loader_batch){
        .x = l->x != NULL ? l->x : l->dev[0] + l->layout.bytes_at,
        .label = l->label != NULL ? l->label : (int32_t *)(void *)l->dev[0],
        .n = b.n,
        .valid = b.valid,
        .bad = b.bad,
        .first_bad = b.first_bad,
        .data_s = t1 - t0,
        .h2d_s = t2 - t1,
    };
    return 0;
}

int loader_next(struct loader *l, const int32_t *index, int32_t n,
                struct loader_batch *ret, struct error *err)
{
    const struct fetch_ask ask = {.index = index, .n = n};
    if (loader_put(l, &ask, err) < 0)
        return -1;
    return loader_take(l, ret, err);
}
