/* trainer_share.c - deal the samples of a batch to the ranks.
 *
 *   ddp-ds  each rank reads its own; fsdp, too
 *   ddp-rr  each reads those of all ranks, to its device, and uses its own
 *   ddp     each reads and uses the same
 *   dp      rank 0 reads those of all and scatters them
 *
 * The shares lie one behind the other in what is read for several ranks, and
 * are those of ddp-ds, so that all but ddp compute the same gradient. (torch's
 * DataParallel cuts its batch into consecutive parts.)
 */
#include "jobs/base/log.h"
#include "jobs/spec/gpu_sizes.h"
#include "worker/train/trainer_internal.h"

enum { NAMED_BAD = 3 };

bool trainer_is_dp(const struct trainer *t)
{
    return t->spec->train.distribution == DIST_DP && t->env->comm->size > 1;
}

int32_t trainer_copies(const struct trainer *t)
{
    return t->spec->train.distribution == DIST_DDP ? t->env->comm->size : 1;
}

/* How many ranks' samples this one reads. */
static int32_t shares_of(const struct trainer *t)
{
    const struct comm *c = t->env->comm;
    switch (t->spec->train.distribution) {
    case DIST_DDP_RR:
        return c->size;
    case DIST_DP:
        return c->rank == 0 ? c->size : 0;
    case DIST_DDP:
    case DIST_DDP_DS:
    case DIST_FSDP:
        break;
    }
    return 1;
}

static void say(void *arg, const char *line)
{
    trainer_say(arg, "%s", line);
}

/* A rank takes the part of so many; see trainer_pass.c. */
static int deal(struct trainer *t, struct error *err)
{
    const struct comm *c = t->env->comm;
    bool is_all = t->spec->train.distribution == DIST_DDP;
    int32_t whole = gpu_sizes_parts(t->spec);
    if (whole % c->size != 0)
        return error_set(err, ERR_INVAL,
                         "train.global_batch_size: %d ranks cannot divide %d "
                         "batches of %d equally among them",
                         c->size, whole, t->spec->train.batch_size);
    t->parts = whole > 0 ? whole / c->size
                         : t->spec->train.gradient_accumulation_steps;
    if ((int64_t)t->parts * c->size > INT32_MAX)
        return error_set(err, ERR_LIMIT,
                         "%d batches on each of %d ranks are too many",
                         t->parts, c->size);
    t->first = is_all ? 0 : c->rank * t->parts;
    t->streams = is_all ? t->parts : c->size * t->parts;
    return 0;
}

static void tokenised(void *arg, double share)
{
    const struct trainer *t = arg;
    reporter_tokenised(t->env->reporter, share);
}

static struct batch_env env_of(struct trainer *t)
{
    return (struct batch_env){.spec = t->spec,
                              .dev = t->dev,
                              .dt = t->dt,
                              .comm = t->env->comm,
                              .deadline_s = TRAIN_DEADLINE_S,
                              .clock = t->env->clock,
                              .first = t->first,
                              .parts = t->parts,
                              .streams = t->streams,
                              .shares = shares_of(t),
                              .say = say,
                              .tokenised = tokenised,
                              .arg = t};
}

int trainer_share_prepare(struct trainer *t, struct error *err)
{
    const struct batch_env env = env_of(t);
    if (t->env->kind->prepare == NULL)
        return 0;
    return t->env->kind->prepare(&env, t->source, t->model, err);
}

int trainer_share_data(struct trainer *t, struct error *err)
{
    if (deal(t, err) < 0)
        return -1;
    const struct batch_env env = env_of(t);
    if (t->env->kind->open_data(&env, &t->source, err) < 0)
        return -1;
    t->data = *t->source->ops->info(t->source);
    return 0;
}

int trainer_share_count(struct trainer *t, struct error *err)
{
    const struct job_spec *s = t->spec;
    if (t->source->ops->count(t->source, &t->batches, &t->eval_batches, err) <
        0)
        return -1;
    if (s->train.max_steps_per_epoch > 0 &&
        t->batches > s->train.max_steps_per_epoch)
        t->batches = s->train.max_steps_per_epoch;
    t->total = (int64_t)t->batches * s->train.epochs;
    if (t->eval_batches == 0 &&
        (s->train.early_stopping.metric == WATCH_EVAL_LOSS ||
         s->train.early_stopping.metric == WATCH_EVAL_ACCURACY ||
         s->train.eval_only))
        return error_set(err, ERR_INVAL, "%s: there are no %s to evaluate",
                         s->train.eval_only ? "train.eval_only"
                                            : "train.early_stopping",
                         t->source->ops->noun);
    return 0;
}

int trainer_share_epoch(struct trainer *t, struct error *err)
{
    const struct batch_epoch e = {
        .seed = t->at.seed, .epoch = t->at.epoch, .batches = t->batches};
    return t->source->ops->begin(t->source, &e, err);
}

/* The first ones are named, once: the epochs after it will see them again. */
static void note_bad(struct trainer *t, enum batch_part part,
                     const struct batch *b)
{
    /* Samples that all ranks read are counted once. */
    if (part == BATCH_EVAL || t->env->comm->rank == 0 ||
        t->spec->train.distribution == DIST_DDP_DS ||
        t->spec->train.distribution == DIST_FSDP)
        t->bad += b->bad;
    if (b->bad > 0 && t->bad_named == 0)
        t->bad_epoch = t->at.epoch;
    if (b->bad == 0 || t->at.epoch != t->bad_epoch ||
        t->bad_named++ >= NAMED_BAD)
        return;
    log_warn(
        "worker", "samples are left out of a batch rank=%d %s=%d why=\"%s\"",
        t->env->comm->rank, t->source->ops->noun, b->bad, b->first_bad.msg);
}

int trainer_share_take(struct trainer *t, enum batch_part part, int32_t i,
                       struct batch *ret, struct error *err)
{
    if (t->source->ops->take(t->source, part, i, ret, err) < 0)
        return -1;
    note_bad(t, part, ret);
    return 0;
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
    int32_t i = t->at.batch * t->parts + part;
    int32_t shares = shares_of(t);
    struct batch b;
    if (trainer_share_take(t, BATCH_TRAIN, i, &b, err) < 0)
        return -1;
    b.n = shares > 1 ? b.n / shares : b.n;
    if (trainer_is_dp(t)) {
        t->valid += (double)b.valid;
        t->weight += b.weight;
        b.valid = b.n;
        if (scatter(t, &b, err) < 0)
            return -1;
    } else {
        /* Each rank that reads a sample counts its share of it. */
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
