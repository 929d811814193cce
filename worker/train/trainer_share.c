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

int64_t trainer_share_bytes(const struct trainer *t)
{
    int64_t n = t->spec->train.batch_size, bytes = 0;
    if (!trainer_is_dp(t))
        return 0;
    for (int32_t i = 0; i < BATCH_ARRAYS; i++)
        bytes += n * (int64_t)t->data.sample_bytes[i];
    return bytes;
}

int trainer_share_open(struct trainer *t, struct error *err)
{
    size_t n = (size_t)t->spec->train.batch_size;
    if (!trainer_is_dp(t))
        return 0;
    for (int32_t i = 0; i < BATCH_ARRAYS; i++)
        if (t->data.sample_bytes[i] > 0 &&
            t->dev->ops->alloc(t->dev, n * t->data.sample_bytes[i], &t->own[i],
                               err) < 0)
            return -1;
    return 0;
}

void trainer_share_close(struct trainer *t)
{
    for (int32_t i = 0; i < BATCH_ARRAYS && t->dev != NULL; i++)
        t->dev->ops->release(t->dev, t->own[i]);
}

/* How many samples each rank has in it. */
static int32_t count_of(struct trainer *t, int32_t part)
{
    struct sampler s = t->train_sampler;
    s.rank += part;
    return sampler_batch(&s, t->at.batch, t->spec->train.batch_size, t->index);
}

static int scatter(struct trainer *t, struct batch *b, struct error *err)
{
    for (int32_t i = 0; i < BATCH_ARRAYS; i++) {
        size_t bytes = t->data.sample_bytes[i];
        if (bytes == 0)
            continue;
        if (comm_scatter_now(t->comm, t->own[i], b->arrays[i].data,
                             (size_t)b->n * bytes, 0, TRAIN_DEADLINE_S,
                             err) < 0)
            return error_wrap(err, "scatter");
        b->arrays[i] = (struct batch_array){t->own[i], bytes};
    }
    return 0;
}

/* This rank's part of what was read for `shares` ranks. */
static void take_share(const struct trainer *t, int32_t shares, struct batch *b)
{
    size_t before = (size_t)(shares > 1 ? t->env->comm->rank * b->n : 0);
    for (int32_t i = 0; i < BATCH_ARRAYS; i++)
        if (b->arrays[i].bytes > 0)
            b->arrays[i].data =
                (char *)b->arrays[i].data + before * b->arrays[i].bytes;
    b->valid /= shares;
    b->weight /= shares;
    b->tokens = b->tokens > 0 ? b->tokens / shares : b->tokens;
}

int trainer_share_batch(struct trainer *t, int32_t part, struct batch *ret,
                        struct error *err)
{
    int32_t i = t->at.batch * t->train_feed.parts + part;
    int32_t shares = t->train_feed.shares;
    struct batch b = {.n = 0, .tokens = -1};
    if (shares > 0 && trainer_batch(t, &t->train_feed, i, &b, err) < 0)
        return -1;
    b.n = shares > 0 ? b.n / shares : count_of(t, part);
    if (trainer_is_dp(t)) {
        t->valid += (double)b.valid;
        t->weight += b.weight;
        b.valid = b.n;
        if (scatter(t, &b, err) < 0)
            return -1;
    } else {
        /* What several ranks read is counted by all of them. */
        t->valid += (double)b.valid / shares;
        t->weight += b.weight / shares;
        take_share(t, shares, &b);
    }
    *ret = b;
    return 0;
}

int trainer_share_state(struct trainer *t, struct error *err)
{
    size_t n = (size_t)model_planned(t->model)->state;
    if (n == 0)
        return 0;
    return comm_broadcast_now(t->comm, model_state(t->model),
                              n * dtype_acc_bytes(t->dt), 0, TRAIN_DEADLINE_S,
                              err);
}
