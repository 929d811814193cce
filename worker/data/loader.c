/* loader.c - see loader.h.
 *
 * A stage has a twin on the device: one copy moves a batch of any size.
 */
#include "worker/data/loader.h"

#include <stdlib.h>

struct loader {
    struct device *d;
    struct loader_conf conf;
    const struct dataset *ds;
    const struct clock *clock;
    struct fetch *fetch;
    struct fetch_layout layout;
    uint8_t *dev;
    int32_t pinned; /* stages */
    void *x;
};

static struct fetch_conf fetch_conf_of(const struct loader_conf *c)
{
    return (struct fetch_conf){.view = {.augment = c->augment,
                                        .is_train = c->is_train,
                                        .S = c->image_size,
                                        .gray = c->gray},
                               .batch = c->batch,
                               .workers = c->workers,
                               .skip_bad = c->skip_bad};
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

int64_t loader_bytes(const struct loader_conf *conf, const struct dataset *ds)
{
    const struct fetch_conf fc = fetch_conf_of(conf);
    return (int64_t)(fetch_layout(&fc, ds).cap + x_bytes(conf));
}

static int pin_stages(struct loader *l, struct error *err)
{
    struct device *d = l->d;
    uint8_t *p;
    if (!l->conf.pin || !d->ops->pin)
        return 0;
    for (int32_t i = 0; (p = fetch_stage(l->fetch, i)) != NULL; i++) {
        if (d->ops->pin(d, p, l->layout.cap, err) < 0)
            return -1;
        l->pinned++;
    }
    return 0;
}

int loader_create(struct device *d, const struct loader_conf *conf,
                  const struct dataset *ds, const struct clock *clock,
                  struct loader **ret, struct error *err)
{
    const struct fetch_conf fc = fetch_conf_of(conf);
    void *dev = NULL;
    struct loader *l = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, ERR_NOMEM, "loader");
    *l = (struct loader){.d = d, .conf = *conf, .ds = ds, .clock = clock};
    if (fetch_create(&fc, ds, &l->fetch, err) < 0)
        goto fail;
    l->layout = fetch_layout(&fc, ds);
    if (pin_stages(l, err) < 0 ||
        d->ops->alloc(d, l->layout.cap, &dev, err) < 0)
        goto fail;
    l->dev = dev;
    if (d->ops->alloc(d, x_bytes(conf), &l->x, err) < 0)
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
    l->d->ops->release(l->d, l->x);
    l->d->ops->release(l->d, l->dev);
    for (int32_t i = 0; i < l->pinned; i++)
        l->d->ops->unpin(l->d, fetch_stage(l->fetch, i));
    fetch_destroy(l->fetch);
    free(l);
}

bool loader_has_room(const struct loader *l)
{
    return fetch_has_room(l->fetch);
}

int loader_put(struct loader *l, const struct fetch_ask *ask, struct error *err)
{
    return fetch_put(l->fetch, ask, err) < 0 ? error_wrap(err, "loader") : 0;
}

void loader_reset(struct loader *l)
{
    fetch_reset(l->fetch);
}

int loader_take(struct loader *l, struct loader_batch *ret, struct error *err)
{
    const struct device_ops *ops = l->d->ops;
    const struct fetch_layout *at = &l->layout;
    struct fetch_batch b;
    double t0 = l->clock->now_s(l->clock);
    if (fetch_take(l->fetch, &b, err) < 0)
        return error_wrap(err, "data");
    double t1 = l->clock->now_s(l->clock);
    const void *list = l->dev + at->list_at;
    if (ops->to_device(l->d, l->dev, b.stage, b.used, err) < 0 ||
        ops->images_u8(l->d, l->conf.dt, l->x, l->dev + at->bytes_at, list, b.n,
                       l->conf.image_size, channels_of(&l->conf), &l->ds->norm,
                       err) < 0)
        return error_wrap(err, "loader");
    double t2 = l->clock->now_s(l->clock);
    *ret = (struct loader_batch){
        .x = l->x,
        .label = (int32_t *)(void *)l->dev,
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
