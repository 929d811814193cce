/* trainer_data.c - the data of a job: opening it, and batches in turn.
 *
 * Batches are put ahead as far as the loader has room, before and after one
 * is taken, so that its threads work while the device does. */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "jobs/base/log.h"
#include "worker/cv/image_batches.h"
#include "worker/train/trainer_internal.h"

enum { WORKERS_MOST = 32, NAMED_BAD = 3 };

static int open_part(const struct trainer *t, enum dataset_part part,
                     int32_t samples, struct dataset *ret, struct error *err)
{
    const struct job_spec *s = t->spec;
    struct dataset_conf conf = {.source = s->dataset.source,
                                .path = s->dataset.path,
                                .samples = samples,
                                .num_classes = s->model.num_classes,
                                .split = s->dataset.split,
                                .seed = s->train.seed,
                                .skip_bad =
                                    s->dataset.on_bad_row == BAD_ROW_SKIP,
                                .gray = s->model.in_channels == 1};
    if (dataset_open(&conf, part, ret, err) < 0)
        return error_wrap(err, "data");
    int32_t n = ret->folder.strays;
    if (n > 0)
        trainer_say(t, "%s: passed over %d file%s: %s%s", s->dataset.path, n,
                    n > 1 ? "s" : "", ret->folder.first_strays,
                    n > 3 ? ", ..." : "");
    return 0;
}

/* Ranks number the files by what each of them found. */
static int agree_on_files(struct trainer *t, struct error *err)
{
    uint64_t sum =
        folder_digest(&t->train.folder) ^ folder_digest(&t->eval.folder) << 1;
    int64_t v[2] = {(int64_t)(sum >> 1), -(int64_t)(sum >> 1)};
    if (comm_all_reduce_now(t->env->comm, v, 2, COMM_I64, COMM_MAX,
                            TRAIN_DEADLINE_S, err) < 0)
        return -1;
    if (v[0] != -v[1])
        return error_set(err, ERR_INVAL,
                         "%s: the ranks do not find the same files in it",
                         t->spec->dataset.path);
    return 0;
}

static int open_samplers(struct trainer *t, struct error *err)
{
    const struct job_spec *s = t->spec;
    const struct comm *c = t->env->comm;
    uint32_t flags = (s->train.shuffle ? SAMPLER_SHUFFLE : 0) |
                     (s->dataset.drop_last ? SAMPLER_DROP_LAST : 0);
    /* A rank takes the part of so many; see trainer_pass.c. */
    int32_t parts = s->train.gradient_accumulation_steps;
    bool is_all = s->train.distribution == DIST_DDP;
    if ((int64_t)parts * c->size > INT32_MAX)
        return error_set(err, ERR_LIMIT,
                         "%d batches on each of %d ranks are too many", parts,
                         c->size);
    if (sampler_init(
            &t->train_sampler, t->train.n, is_all ? 0 : c->rank * parts,
            is_all ? parts : c->size * parts, s->train.seed, flags, err) < 0)
        return -1;
    return sampler_init(&t->eval_sampler, t->eval.n, c->rank, c->size,
                        s->train.seed, SAMPLER_EVAL, err);
}

int trainer_open_data(struct trainer *t, struct error *err)
{
    const struct job_spec *s = t->spec;
    if (open_part(t, DATASET_TRAIN, s->dataset.train_samples, &t->train, err) <
            0 ||
        open_part(t, DATASET_EVAL, s->dataset.eval_samples, &t->eval, err) < 0)
        return -1;
    int32_t classes = s->model.num_classes;
    int32_t have = t->train.num_classes > t->eval.num_classes
                       ? t->train.num_classes
                       : t->eval.num_classes;
    if (classes == 0)
        classes = have;
    if (have > classes)
        return error_set(err, ERR_INVAL,
                         "model.num_classes is %d, the data has %d", classes,
                         have);
    size_t side = (size_t)s->dataset.image_size;
    t->data.classes = classes;
    t->data.sample_weight = 1;
    t->data.sample_bytes[IMAGE_X] =
        side * side * (size_t)s->model.in_channels * dtype_bytes(t->dt);
    t->data.sample_bytes[IMAGE_LABEL] = sizeof(int32_t);
    if (s->dataset.source == SOURCE_IMAGE_FOLDER && agree_on_files(t, err) < 0)
        return -1;
    return open_samplers(t, err);
}

/* Batch norm cannot train on one value per channel, which a last batch of
 * one sample is where the last feature map has one pixel: torch raises an
 * error then, at the end of the first epoch; we leave that batch out. */
int trainer_count_batches(struct trainer *t, struct error *err)
{
    const struct job_spec *s = t->spec;
    int32_t batch = s->train.batch_size, share = t->train_sampler.per_rank;
    t->batches = sampler_batches(&t->train_sampler, batch);
    int32_t last = share - (t->batches - 1) * batch;
    if (s->dataset.drop_last && share < batch)
        return error_set(err, ERR_INVAL,
                         "dataset.drop_last leaves nothing: a rank has %d "
                         "images, train.batch_size is %d",
                         share, batch);
    if (s->dataset.drop_last) {
        t->batches = share / batch;
    } else if (last == 1 && s->dataset.image_size <= 32 && t->batches > 1) {
        t->batches--;
        trainer_say(t, "the last batch of each epoch is left out: it has 1 "
                       "sample per rank, and batch norm cannot train on one "
                       "value per channel");
    }
    if (s->train.max_steps_per_epoch > 0 &&
        t->batches > s->train.max_steps_per_epoch)
        t->batches = s->train.max_steps_per_epoch;
    t->total = (int64_t)t->batches * s->train.epochs;
    return 0;
}

void trainer_say_data(const struct trainer *t)
{
    const struct job_spec *s = t->spec;
    int64_t used = (int64_t)t->batches * s->train.batch_size *
                   (int64_t)t->train_sampler.size;
    char train[80];
    if (used < t->train.n)
        (void)snprintf(train, sizeof(train),
                       "%d training samples, %" PRId64
                       " of them in each epoch,",
                       t->train.n, used);
    else
        (void)snprintf(train, sizeof(train), "%d training", t->train.n);
    trainer_say(t,
                "data: %s and %d evaluation samples at %dx%d, %d iterations "
                "per epoch",
                train, t->eval.n, s->dataset.image_size, s->dataset.image_size,
                t->batches);
}

/* ---- loaders -------------------------------------------------------------
 */

/* On a GPU the rank's own thread mostly waits; on the host all cores compute,
 * and what decodes slows every one of their loops down. */
static int32_t workers_of(const struct trainer *t)
{
    cpu_set_t set;
    int32_t asked = t->spec->dataset.workers, n;
    if (asked >= 0)
        return asked;
    if (t->spec->dataset.source != SOURCE_IMAGE_FOLDER ||
        sched_getaffinity(0, sizeof(set), &set) < 0)
        return 0;
    n = CPU_COUNT(&set) / t->env->comm->local_size;
    n = t->dev->host_memory ? n / 4 : n - 1;
    return n < 0 ? 0 : n < WORKERS_MOST ? n : WORKERS_MOST;
}

struct loader_conf trainer_loader_conf(const struct trainer *t, bool is_train)
{
    const struct job_spec *s = t->spec;
    return (struct loader_conf){
        .dt = t->dt,
        .image_size = s->dataset.image_size,
        .batch = s->train.batch_size *
                 (is_train && trainer_shares(t) > 1 ? trainer_shares(t) : 1),
        .gray = s->model.in_channels == 1,
        .pin = s->train.pin_memory != TRI_FALSE,
        .augment = s->dataset.augment,
        .is_train = is_train,
        .skip_bad = s->dataset.on_bad_row == BAD_ROW_SKIP,
        .workers = workers_of(t),
        .ahead = t->dev->ops->send != NULL,
        .slot = is_train ? 0 : 2,
        .floats = s->dataset.data_path == DATA_PATH_PAPER,
    };
}

/* The samples of batch i, of this rank or of all one after the other. */
static int32_t sample(struct trainer *t, const struct feed *f, int32_t i)
{
    int32_t batch = t->spec->train.batch_size, n = 0;
    for (int32_t r = 0; r < f->shares; r++) {
        struct sampler s = *f->sampler;
        s.rank = (f->shares > 1 ? r * f->parts : s.rank) + i % f->parts;
        n += sampler_batch(&s, i / f->parts, batch, t->index + n);
    }
    return n;
}

static int feed(struct trainer *t, struct feed *f, struct error *err)
{
    while (f->put < f->end && loader_has_room(f->loader)) {
        const struct fetch_ask ask = {.n = sample(t, f, f->put),
                                      .index = t->index,
                                      .seed = t->at.seed,
                                      .epoch = t->at.epoch};
        if (loader_put(f->loader, &ask, err) < 0)
            return -1;
        f->put++;
    }
    return 0;
}

/* The first ones are named, once: the epochs after it will see them again. */
static void note_bad(struct trainer *t, const struct feed *f,
                     const struct batch *b)
{
    /* What all ranks read is counted once. */
    if (f == &t->eval_feed || t->env->comm->rank == 0 ||
        t->spec->train.distribution == DIST_DDP_DS)
        t->bad += b->bad;
    if (b->bad > 0 && t->bad_named == 0)
        t->bad_epoch = t->at.epoch;
    if (b->bad == 0 || t->at.epoch != t->bad_epoch ||
        t->bad_named++ >= NAMED_BAD)
        return;
    log_warn("worker", "left out of a batch rank=%d images=%d why=\"%s\"",
             t->env->comm->rank, b->bad, b->first_bad.msg);
}

static struct batch batch_of(const struct trainer *t,
                             const struct loader_batch *b)
{
    struct batch ret =
        image_batch(b->x, t->data.sample_bytes[IMAGE_X], b->label, b->n);
    ret.valid = b->valid;
    ret.weight = b->valid;
    ret.bad = b->bad;
    ret.first_bad = b->first_bad;
    ret.data_s = b->data_s;
    ret.h2d_s = b->h2d_s;
    return ret;
}

int trainer_batch(struct trainer *t, struct feed *f, int32_t i,
                  struct batch *ret, struct error *err)
{
    struct loader_batch b;
    if (i == 0 || i != f->taken) {
        loader_reset(f->loader);
        f->put = f->taken = i;
    }
    if (feed(t, f, err) < 0 || loader_take(f->loader, &b, err) < 0)
        return -1;
    f->taken++;
    *ret = batch_of(t, &b);
    note_bad(t, f, ret);
    return feed(t, f, err);
}
