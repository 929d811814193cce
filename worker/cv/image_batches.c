/* image_batches.c - the source of batches of images: opens the data, deals
 * it to the ranks, and loads it in turn.
 *
 * Batches are put ahead as far as the loader has room, before and after one
 * is taken, so that its threads work while the device does. */
#include "worker/cv/image_batches.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/data/dataset.h"
#include "worker/data/loader.h"
#include "worker/data/sampler.h"
#include "worker/process/rank_cores.h"

enum { WORKERS_MOST = 32 };

/* Batches of one loader, put ahead and taken in turn. */
struct feed {
    struct dataset data;
    struct sampler sampler;
    struct loader *loader;
    int32_t parts;           /* batches of an iteration: so many samplers */
    int32_t shares;          /* ranks whose samples are read */
    int32_t put, taken, end; /* batches of the epoch */
};

struct image_batches {
    struct batch_source source;
    struct batch_env env;
    struct batch_info info;
    struct feed feeds[BATCH_PARTS];
    struct batch_epoch epoch;
    int32_t *index; /* [batch of all shares]; owned */
};

static struct image_batches *images_of(struct batch_source *s)
{
    return (struct image_batches *)s; /* its first member */
}

static const struct image_batches *images_at(const struct batch_source *s)
{
    return (const struct image_batches *)s;
}

/* ---- opening ------------------------------------------------------------- */

static int open_part(const struct image_batches *s, enum dataset_part part,
                     int32_t samples, struct dataset *ret, struct error *err)
{
    const struct job_spec *spec = s->env.spec;
    struct dataset_conf conf = {.source = spec->dataset.source,
                                .path = spec->dataset.path,
                                .samples = samples,
                                .num_classes = spec->model.num_classes,
                                .split = spec->dataset.split,
                                .seed = spec->train.seed,
                                .skip_bad =
                                    spec->dataset.on_bad_row == BAD_ROW_SKIP,
                                .gray = spec->model.in_channels == 1};
    if (dataset_open(&conf, part, ret, err) < 0)
        return error_wrap(err, "data");
    int32_t n = ret->folder.strays;
    if (n > 0)
        batch_say(&s->env, "%s: passed over %d file%s: %s%s",
                  spec->dataset.path, n, n > 1 ? "s" : "",
                  ret->folder.first_strays, n > 3 ? ", ..." : "");
    return 0;
}

/* Ranks number the files by what each of them found. */
static int agree_on_files(struct image_batches *s, struct error *err)
{
    uint64_t sum = folder_digest(&s->feeds[BATCH_TRAIN].data.folder) ^
                   folder_digest(&s->feeds[BATCH_EVAL].data.folder) << 1;
    int64_t v[2] = {(int64_t)(sum >> 1), -(int64_t)(sum >> 1)};
    if (comm_all_reduce_now(s->env.comm, v, 2, COMM_I64, COMM_MAX,
                            s->env.deadline_s, err) < 0)
        return -1;
    if (v[0] != -v[1])
        return error_set(err, ERR_INVAL,
                         "%s: the ranks do not find the same files in it",
                         s->env.spec->dataset.path);
    return 0;
}

static int open_feeds(struct image_batches *s, struct error *err)
{
    const struct job_spec *spec = s->env.spec;
    const struct comm *c = s->env.comm;
    struct feed *train = &s->feeds[BATCH_TRAIN], *eval = &s->feeds[BATCH_EVAL];
    uint32_t flags = (spec->train.shuffle ? SAMPLER_SHUFFLE : 0) |
                     (spec->dataset.drop_last ? SAMPLER_DROP_LAST : 0);
    train->parts = s->env.parts;
    train->shares = s->env.shares;
    eval->parts = eval->shares = 1;
    if (sampler_init(&train->sampler, train->data.n, s->env.first,
                     s->env.streams, spec->train.seed, flags, err) < 0 ||
        sampler_init(&eval->sampler, eval->data.n, c->rank, c->size,
                     spec->train.seed, SAMPLER_EVAL, err) < 0)
        return -1;
    eval->end = sampler_batches(&eval->sampler, spec->train.batch_size);
    return 0;
}

static int open_all(struct image_batches *s, struct error *err)
{
    const struct job_spec *spec = s->env.spec;
    struct dataset *train = &s->feeds[BATCH_TRAIN].data;
    struct dataset *eval = &s->feeds[BATCH_EVAL].data;
    if (open_part(s, DATASET_TRAIN, spec->dataset.train_samples, train, err) <
            0 ||
        open_part(s, DATASET_EVAL, spec->dataset.eval_samples, eval, err) < 0)
        return -1;
    int32_t classes = spec->model.num_classes;
    int32_t have = train->num_classes > eval->num_classes ? train->num_classes
                                                          : eval->num_classes;
    if (classes == 0)
        classes = have;
    if (have > classes)
        return error_set(err, ERR_INVAL,
                         "model.num_classes is %d, the data has %d", classes,
                         have);
    size_t side = (size_t)spec->dataset.image_size;
    s->info = (struct batch_info){.classes = classes, .sample_weight = 1};
    s->info.sample_bytes[IMAGE_X] =
        side * side * (size_t)spec->model.in_channels * dtype_bytes(s->env.dt);
    s->info.sample_bytes[IMAGE_LABEL] = sizeof(int32_t);
    if (spec->dataset.source == SOURCE_IMAGE_FOLDER &&
        agree_on_files(s, err) < 0)
        return -1;
    return open_feeds(s, err);
}

/* ---- what it says of itself ---------------------------------------------- */

static const struct batch_info *info(const struct batch_source *source)
{
    return &images_at(source)->info;
}

/* Batch norm cannot train on one value per channel, which a last batch of
 * one sample is where the last feature map has one pixel: torch raises an
 * error then, at the end of the first epoch; we leave that batch out. */
static int count(struct batch_source *source, int32_t *ret_train,
                 int32_t *ret_eval, struct error *err)
{
    const struct image_batches *s = images_of(source);
    const struct job_spec *spec = s->env.spec;
    const struct sampler *sampler = &s->feeds[BATCH_TRAIN].sampler;
    int32_t batch = spec->train.batch_size, share = sampler->per_rank;
    int32_t batches = sampler_batches(sampler, batch);
    int32_t last = share - (batches - 1) * batch;
    if (spec->dataset.drop_last && share < batch)
        return error_set(err, ERR_INVAL,
                         "dataset.drop_last leaves nothing: a rank has %d "
                         "images, train.batch_size is %d",
                         share, batch);
    if (spec->dataset.drop_last) {
        batches = share / batch;
    } else if (last == 1 && spec->dataset.image_size <= 32 && batches > 1) {
        batches--;
        batch_say(&s->env,
                  "the last batch of each epoch is left out: it has 1 "
                  "sample per rank, and batch norm cannot train on one "
                  "value per channel");
    }
    *ret_train = batches;
    *ret_eval = s->feeds[BATCH_EVAL].end;
    return 0;
}

static void describe(const struct batch_source *source, int32_t batches,
                     char *ret, size_t cap)
{
    const struct image_batches *s = images_at(source);
    const struct job_spec *spec = s->env.spec;
    const int32_t n = s->feeds[BATCH_TRAIN].data.n;
    int64_t used =
        (int64_t)batches * spec->train.batch_size * (int64_t)s->env.streams;
    char train[80];
    if (used < n)
        (void)snprintf(
            train, sizeof(train),
            "%d training samples, %" PRId64 " of them in each epoch,", n, used);
    else
        (void)snprintf(train, sizeof(train), "%d training", n);
    (void)snprintf(ret, cap,
                   "%s and %d evaluation samples at %dx%d, %d iterations "
                   "per epoch",
                   train, s->feeds[BATCH_EVAL].data.n, spec->dataset.image_size,
                   spec->dataset.image_size, batches);
}

/* ---- loaders ------------------------------------------------------------- */

/* On a GPU the rank's own thread mostly waits. On the host all cores compute,
 * and decoding threads slow every loop down. */
static int32_t workers_of(const struct image_batches *s)
{
    int32_t asked = s->env.spec->dataset.workers, n;
    if (asked >= 0)
        return asked;
    if (s->env.spec->dataset.source != SOURCE_IMAGE_FOLDER)
        return 0;
    n = (int32_t)rank_cores_share(s->env.comm);
    n = s->env.dev->host_memory ? n / 4 : n - 1;
    return n < 0 ? 0 : n < WORKERS_MOST ? n : WORKERS_MOST;
}

static struct loader_conf loader_conf_of(const struct image_batches *s,
                                         enum batch_part part)
{
    const struct job_spec *spec = s->env.spec;
    const bool is_train = part == BATCH_TRAIN;
    const int32_t shares = is_train ? s->env.shares : 1;
    return (struct loader_conf){
        .dt = s->env.dt,
        .image_size = spec->dataset.image_size,
        .batch = spec->train.batch_size * (shares > 1 ? shares : 1),
        .gray = spec->model.in_channels == 1,
        .pin = spec->train.pin_memory != TRI_FALSE,
        .augment = spec->dataset.augment,
        .is_train = is_train,
        .skip_bad = spec->dataset.on_bad_row == BAD_ROW_SKIP,
        .workers = workers_of(s),
        .ahead = s->env.dev->ops->send != NULL,
        .slot = is_train ? 0 : 2,
        .floats = spec->dataset.data_path == DATA_PATH_PAPER,
        .planar = !spec->train.channels_last,
    };
}

static void plan(const struct batch_source *source, int64_t *ret_device,
                 int64_t *ret_host)
{
    const struct image_batches *s = images_at(source);
    int64_t device = 0, host = 0;
    for (int i = 0; i < BATCH_PARTS; i++) {
        const struct loader_conf conf = loader_conf_of(s, (enum batch_part)i);
        device += loader_bytes(&conf, &s->feeds[i].data);
        host += loader_host_bytes(&conf, &s->feeds[i].data);
    }
    *ret_device = device;
    *ret_host = host;
}

static int start(struct batch_source *source, struct error *err)
{
    struct image_batches *s = images_of(source);
    for (int i = 0; i < BATCH_PARTS; i++) {
        const struct loader_conf conf = loader_conf_of(s, (enum batch_part)i);
        if (loader_create(s->env.dev, &conf, &s->feeds[i].data, s->env.clock,
                          &s->feeds[i].loader, err) < 0)
            return -1;
    }
    s->index = calloc((size_t)s->env.spec->train.batch_size *
                          (size_t)s->env.comm->size,
                      sizeof(*s->index));
    if (s->index == NULL)
        return error_set(err, ERR_NOMEM, "batch");
    return 0;
}

/* ---- batches in turn ----------------------------------------------------- */

static int begin(struct batch_source *source, const struct batch_epoch *e,
                 struct error *err)
{
    struct image_batches *s = images_of(source);
    struct feed *f = &s->feeds[BATCH_TRAIN];
    (void)err;
    s->epoch = *e;
    f->end = e->batches * f->parts;
    f->sampler.seed = e->seed;
    sampler_epoch(&f->sampler, e->epoch - 1);
    return 0;
}

/* The samples of batch i, of this rank or of all one after the other. */
static int32_t sample(struct image_batches *s, const struct feed *f, int32_t i)
{
    int32_t batch = s->env.spec->train.batch_size, n = 0;
    for (int32_t r = 0; r < f->shares; r++) {
        struct sampler one = f->sampler;
        one.rank = (f->shares > 1 ? r * f->parts : one.rank) + i % f->parts;
        n += sampler_batch(&one, i / f->parts, batch, s->index + n);
    }
    return n;
}

static int feed(struct image_batches *s, struct feed *f, struct error *err)
{
    while (f->put < f->end && loader_has_room(f->loader)) {
        const struct fetch_ask ask = {.n = sample(s, f, f->put),
                                      .index = s->index,
                                      .seed = s->epoch.seed,
                                      .epoch = s->epoch.epoch};
        if (loader_put(f->loader, &ask, err) < 0)
            return -1;
        f->put++;
    }
    return 0;
}

static struct batch batch_of(const struct image_batches *s,
                             const struct loader_batch *b)
{
    struct batch ret =
        image_batch(b->x, s->info.sample_bytes[IMAGE_X], b->label, b->n);
    ret.valid = b->valid;
    ret.weight = b->valid;
    ret.bad = b->bad;
    ret.first_bad = b->first_bad;
    ret.data_s = b->data_s;
    ret.h2d_s = b->h2d_s;
    return ret;
}

/* Another rank reads it: how many samples it has for this one. */
static struct batch size_of(struct image_batches *s, const struct feed *f,
                            int32_t i)
{
    struct sampler one = f->sampler;
    one.rank += i % f->parts;
    return (struct batch){.n = sampler_batch(&one, i / f->parts,
                                             s->env.spec->train.batch_size,
                                             s->index),
                          .tokens = -1};
}

static int take(struct batch_source *source, enum batch_part part, int32_t i,
                struct batch *ret, struct error *err)
{
    struct image_batches *s = images_of(source);
    struct feed *f = &s->feeds[part];
    struct loader_batch b;
    if (f->shares == 0) {
        *ret = size_of(s, f, i);
        return 0;
    }
    if (i == 0 || i != f->taken) {
        loader_reset(f->loader);
        f->put = f->taken = i;
    }
    if (feed(s, f, err) < 0 || loader_take(f->loader, &b, err) < 0)
        return -1;
    f->taken++;
    *ret = batch_of(s, &b);
    return feed(s, f, err);
}

static int ahead(struct batch_source *source, enum batch_part part,
                 struct error *err)
{
    return loader_ahead(images_of(source)->feeds[part].loader, err);
}

static void destroy(struct batch_source *source)
{
    struct image_batches *s = images_of(source);
    for (int i = 0; i < BATCH_PARTS; i++) {
        loader_destroy(s->feeds[i].loader);
        sampler_clear(&s->feeds[i].sampler);
        dataset_clear(&s->feeds[i].data);
    }
    free(s->index);
    free(s);
}

static const struct batch_source_ops ops = {
    .noun = "images",
    .destroy = destroy,
    .info = info,
    .plan = plan,
    .start = start,
    .count = count,
    .begin = begin,
    .take = take,
    .ahead = ahead,
    .describe = describe,
};

int image_batches_open(const struct batch_env *env, struct batch_source **ret,
                       struct error *err)
{
    struct image_batches *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return error_set(err, ERR_NOMEM, "data");
    s->source.ops = &ops;
    s->env = *env;
    s->epoch = (struct batch_epoch){.seed = env->spec->train.seed, .epoch = 1};
    if (open_all(s, err) < 0) {
        destroy(&s->source);
        return -1;
    }
    *ret = &s->source;
    return 0;
}
