/* loader.c - see loader.h.
 *
 * A staging buffer and its twin on the device are [labels | images], labels
 * rounded up to 256 bytes, so that one copy moves a batch of any size.
 */
#include "worker/data/loader.h"

#include <stdlib.h>
#include <string.h>

#include "worker/data/sampler.h"

enum { ALIGN = 256 };

struct loader {
    struct device *d;
    struct loader_conf conf;
    const struct dataset *ds;
    const struct clock *clock;
    size_t images_at, image_bytes; /* in a staging buffer */
    uint8_t *host[2], *dev;
    bool is_pinned[2];
    void *x;
    int32_t turn;
};

static size_t images_at(const struct loader_conf *c)
{
    size_t labels = (size_t)c->batch * sizeof(int32_t);
    return (labels + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t stage_bytes(const struct loader_conf *c, const struct dataset *ds)
{
    return images_at(c) + (size_t)c->batch * (size_t)ds->H * (size_t)ds->W;
}

static size_t x_bytes(const struct loader_conf *c)
{
    size_t s = (size_t)c->image_size;
    return (size_t)c->batch * s * s * 3 * dtype_bytes(c->dt);
}

int64_t loader_bytes(const struct loader_conf *conf, const struct dataset *ds)
{
    return (int64_t)(stage_bytes(conf, ds) + x_bytes(conf));
}

int loader_create(struct device *d, const struct loader_conf *conf,
                  const struct dataset *ds, const struct clock *clock,
                  struct loader **ret, struct error *err)
{
    if (conf->batch < 1 || conf->image_size < 1)
        return error_set(err, ERR_INVAL, "loader: batch %d, image size %d",
                         conf->batch, conf->image_size);
    struct loader *l = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, ERR_NOMEM, "loader");
    *l = (struct loader){
        .d = d,
        .conf = *conf,
        .ds = ds,
        .clock = clock,
        .images_at = images_at(conf),
        .image_bytes = (size_t)ds->H * (size_t)ds->W,
    };
    size_t bytes = stage_bytes(conf, ds);
    void *dev = NULL;
    for (int i = 0; i < 2; i++) {
        l->host[i] = calloc(1, bytes);
        if (!l->host[i]) {
            (void)error_set(err, ERR_NOMEM, "loader: %zu bytes", bytes);
            goto fail;
        }
        if (!conf->pin || !d->ops->pin)
            continue;
        if (d->ops->pin(d, l->host[i], bytes, err) < 0)
            goto fail;
        l->is_pinned[i] = true;
    }
    if (d->ops->alloc(d, bytes, &dev, err) < 0)
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
    for (int i = 0; i < 2; i++) {
        if (l->is_pinned[i])
            l->d->ops->unpin(l->d, l->host[i]);
        free(l->host[i]);
    }
    free(l);
}

static int gather(const struct loader *l, const int32_t *index, int32_t n,
                  uint8_t *host, int32_t *ret_valid, struct error *err)
{
    int32_t *label = (int32_t *)(void *)host, valid = 0;
    uint8_t *image = host + l->images_at;
    for (int32_t i = 0; i < n; i++, image += l->image_bytes) {
        int32_t at = index[i];
        if (at == SAMPLER_NONE) {
            label[i] = -1;
            memset(image, 0, l->image_bytes);
            continue;
        }
        if (at < 0 || at >= l->ds->n)
            return error_set(err, ERR_INVAL, "loader: sample %d of %d", at,
                             l->ds->n);
        label[i] = l->ds->labels[at];
        memcpy(image, l->ds->images + (size_t)at * l->image_bytes,
               l->image_bytes);
        valid++;
    }
    *ret_valid = valid;
    return 0;
}

int loader_next(struct loader *l, const int32_t *index, int32_t n,
                struct loader_batch *ret, struct error *err)
{
    const struct device_ops *ops = l->d->ops;
    const struct dataset *ds = l->ds;
    int32_t valid = 0;
    if (n < 1 || n > l->conf.batch)
        return error_set(err, ERR_INVAL, "loader: %d samples, at most %d", n,
                         l->conf.batch);
    double t0 = l->clock->now_s(l->clock);
    uint8_t *host = l->host[l->turn];
    if (gather(l, index, n, host, &valid, err) < 0)
        return -1;
    double t1 = l->clock->now_s(l->clock);
    size_t bytes = l->images_at + (size_t)n * l->image_bytes;
    if (ops->to_device(l->d, l->dev, host, bytes, err) < 0 ||
        ops->resize_u8(l->d, l->conf.dt, l->x, l->dev + l->images_at, n, ds->H,
                       ds->W, l->conf.image_size, 3, ds->mean, ds->std,
                       err) < 0)
        return error_wrap(err, "loader");
    double t2 = l->clock->now_s(l->clock);
    l->turn = 1 - l->turn;
    *ret = (struct loader_batch){
        .x = l->x,
        .label = (int32_t *)(void *)l->dev,
        .n = n,
        .valid = valid,
        .data_s = t1 - t0,
        .h2d_s = t2 - t1,
    };
    return 0;
}
