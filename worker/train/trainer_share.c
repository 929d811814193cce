/* trainer_share.c - how the samples of a batch reach the ranks.
 *
 *   ddp-ds  each rank reads its own
 *   ddp-rr  each reads those of all ranks, to its device, and uses its own
 *   ddp     each reads and uses the same
 *   dp      rank 0 reads those of all and scatters them
 *
 * The shares lie one behind the other in what is read for several ranks, and
 * are those of ddp-ds, so that all but ddp compute the same gradient. (torch's
 * DataParallel cuts its batch into consecutive parts.)
 */
#include "worker/train/trainer_internal.h"

bool trainer_is_dp(const struct trainer *t)
{
    return t->spec->train.distribution == DIST_DP && t->env->comm->size > 1;
}

int32_t trainer_copies(const struct trainer *t)
{
    return t->spec->train.distribution == DIST_DDP ? t->env->comm->size : 1;
}

int32_t trainer_shares(const struct trainer *t)
{
    const struct comm *c = t->env->comm;
    switch (t->spec->train.distribution) {
    case DIST_DDP_RR:
        return c->size;
    case DIST_DP:
        return c->rank == 0 ? c->size : 0;
    case DIST_DDP:
    case DIST_DDP_DS:
        break;
    }
    return 1;
}

/* One image, in the device's memory. */
static size_t image_bytes(const struct trainer *t)
{
    size_t side = (size_t)t->spec->dataset.image_size;
    size_t channels = (size_t)t->spec->model.in_channels;
    return side * side * channels * dtype_bytes(t->dt);
}

int64_t trainer_share_bytes(const struct trainer *t)
{
    int64_t n = t->spec->train.batch_size;
    if (!trainer_is_dp(t))
        return 0;
    return n * (int64_t)(image_bytes(t) + sizeof(int32_t));
}

int trainer_share_open(struct trainer *t, struct error *err)
{
    size_t n = (size_t)t->spec->train.batch_size;
    void *label = NULL;
    if (!trainer_is_dp(t))
        return 0;
    if (t->dev->ops->alloc(t->dev, n * image_bytes(t), &t->x, err) < 0 ||
        t->dev->ops->alloc(t->dev, n * sizeof(int32_t), &label, err) < 0)
        return -1;
    t->label = label;
    return 0;
}

/* How many samples each rank has in it. */
static int32_t count_of(struct trainer *t, int32_t part)
{
    struct sampler s = t->train_sampler;
    s.rank += part;
    return sampler_batch(&s, t->at.batch, t->spec->train.batch_size, t->index);
}

static int scatter(struct trainer *t, struct loader_batch *b, struct error *err)
{
    size_t n = (size_t)b->n;
    if (comm_scatter_now(t->comm, t->x, b->x, n * image_bytes(t), 0,
                         TRAIN_DEADLINE_S, err) < 0 ||
        comm_scatter_now(t->comm, t->label, b->label, n * sizeof(int32_t), 0,
                         TRAIN_DEADLINE_S, err) < 0)
        return error_wrap(err, "scatter");
    b->x = t->x;
    b->label = t->label;
    return 0;
}

int trainer_share_batch(struct trainer *t, int32_t part,
                        struct loader_batch *ret, struct error *err)
{
    int32_t i = t->at.batch * t->train_feed.parts + part;
    int32_t shares = t->train_feed.shares;
    struct loader_batch b = {.n = 0};
    if (shares > 0 && trainer_batch(t, &t->train_feed, i, &b, err) < 0)
        return -1;
    b.n = shares > 0 ? b.n / shares : count_of(t, part);
    if (trainer_is_dp(t)) {
        t->valid += (double)b.valid;
        b.valid = b.n;
        if (scatter(t, &b, err) < 0)
            return -1;
    } else {
        /* What several ranks read is counted by all of them. */
        t->valid += (double)b.valid / shares;
        b.x =
            (char *)b.x + (size_t)(shares > 1 ? t->env->comm->rank * b.n : 0) *
                              image_bytes(t);
        b.label += shares > 1 ? t->env->comm->rank * b.n : 0;
        b.valid /= shares;
    }
    *ret = b;
    return 0;
}
