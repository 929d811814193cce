/* trainer_setup.c - prepare device, data, model and position before the first
 * step.
 *
 * Whatever one rank may find and another not (a GPU) is settled by all of
 * them together, so that no rank waits for one that went another way. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "kernels/blas_host.h"
#include "worker/process/gpu_select.h"
#include "worker/process/rank_cores.h"
#include "worker/train/memory_plan.h"
#include "worker/train/optimizer_state8.h"
#include "worker/train/trainer_internal.h"
#include "worker/train/trainer_position.h"
#include "worker/train/trainer_profile.h"

/* ---- the device -----------------------------------------------------------
 */

/* The cores that we may use, shared by the ranks of this node. */
static int32_t host_threads(const struct comm *c)
{
    if (getenv("OMP_NUM_THREADS") != NULL)
        return 0; /* the device reads it */
    const int32_t n = (int32_t)rank_cores_share(c);
    return n > 1 ? n : 1;
}

/* Whose GPU works leaves the word to the rank whose does not: the first that
 * is heard counts, and that one knows its node. It ends all of them. */
static const double WORD_S = 60;
enum { MISSING = 1, FAILED = 2 };

/* *ret_missing 0: every rank has its GPU; else at least one has none, and err
 * says why. */
static int try_cuda(struct trainer *t, int *ret_missing, struct error *err)
{
    struct comm *c = t->env->comm;
    struct error why = ERROR_INIT;
    struct device *dev = NULL;
    int32_t visible = 0, index = 0;
    int64_t missing = device_cuda_count(&visible, &why) < 0 ||
                      gpu_index(visible, c->local_rank, &index, &why) < 0 ||
                      device_cuda_create(index, &dev, &why) < 0;
    bool mine = missing != 0;
    if (mine && why.code == ERR_DEVICE)
        missing = FAILED;
    bool is_failed = missing == FAILED;
    if (comm_all_reduce_now(c, &missing, 1, COMM_I64, COMM_MAX,
                            TRAIN_DEADLINE_S, err) < 0)
        return -1;
    *ret_missing = missing != 0;
    if (!*ret_missing) {
        assert(dev != NULL); /* none is missing, so mine is there */
        t->dev = dev;
        t->sol.gpu = index;
        return 0;
    }
    if (dev != NULL)
        dev->ops->destroy(dev);
    if (missing == FAILED && !is_failed)
        (void)c->ops->barrier(c, WORD_S, NULL);
    if (mine)
        (void)error_set(err, is_failed ? ERR_DEVICE : ERR_UNAVAIL,
                        "device cuda: %s", why.msg);
    else
        (void)error_set(err, ERR_UNAVAIL,
                        "device cuda: another rank has no GPU");
    return 0;
}

void trainer_prepare(const struct job_spec *spec, int32_t gpus_per_node)
{
    const enum spec_device want = spec->train.device;
    struct error met_again = ERROR_INIT;
    if (spec->kind != SPEC_COMMAND &&
        (want == DEVICE_HOST || (want == DEVICE_AUTO && gpus_per_node == 0)))
        (void)(blas_open(&met_again) == 0);
}

static int open_device(struct trainer *t, struct error *err)
{
    enum spec_device want = t->spec->train.device;
    int missing = 1;
    struct error why = ERROR_INIT;
    bool try = want == DEVICE_CUDA ||
               (want == DEVICE_AUTO && t->env->gpus_per_node > 0);
    bool is_over = try && try_cuda(t, &missing, &why) < 0;
    /* The host is a hundred times slower: a GPU that failed is an error, for
     * other nodes have GPUs. */
    if (is_over ||
        (missing && (want == DEVICE_CUDA || why.code == ERR_DEVICE))) {
        if (err != NULL)
            *err = why;
        return -1;
    }
    if (try && missing)
        trainer_say(t, "train.device auto uses the host: %s", why.msg);
    if (missing &&
        device_host_create(host_threads(t->env->comm), &t->dev, err) < 0)
        return -1;
    const struct device_ops *ops = t->dev->ops;
    if (t->spec->train.precision == PRECISION_TF32 && ops->allow_tf32 &&
        ops->allow_tf32(t->dev, true, err) < 0)
        return -1;
    if (!t->spec->train.deterministic && ops->tune)
        return ops->tune(t->dev, true, err);
    return 0;
}

/* NCCL on GPUs, MPI otherwise and where NCCL is not there. */
static int open_comm(struct trainer *t, struct error *err)
{
    if (t->env->comm->size == 1)
        return comm_alone_create(t->dev, &t->comm, err);
    if (!t->dev->host_memory) {
        struct error why = ERROR_INIT;
        t->overlaps = comm_nccl_create(t->dev, &t->comm, &why) == 0;
        if (t->overlaps)
            return 0;
        if (why.code != ERR_UNAVAIL) {
            if (err != NULL)
                *err = why;
            return -1;
        }
        trainer_say(t, "gradients travel through host memory: %s", why.msg);
    }
    return comm_mpi_create(t->dev, &t->comm, err);
}

/* ---- memory ---------------------------------------------------------------
 */

/* All ranks ask for the free memory before one of them takes any. */
static int check_memory(struct trainer *t, const struct memory_plan *p,
                        struct error *err)
{
    struct comm *c = t->env->comm;
    struct memory_room room = {.gpu = -1,
                               .gpu_all = -1,
                               .host = memory_left(""),
                               .ranks = c->local_size};
    if (p->is_gpu && t->dev->ops->memory != NULL) {
        if (trainer_ask_memory(t, p, &room, err) < 0)
            return -1;
        t->sol.room = room.gpu + room.gpu_held;
    }
    if (c->ops->barrier(c, TRAIN_DEADLINE_S, err) < 0)
        return -1;
    return memory_plan_check(p, &room, t->env->refusal, err);
}

static int open_extra(struct trainer *t, struct error *err)
{
    const struct job_spec *s = t->spec;
    const struct model_plan *p = model_planned(t->model);
    if (t->parts > 1 &&
        t->dev->ops->alloc(t->dev, (size_t)p->params * dtype_bytes(t->dt),
                           &t->partial, err) < 0)
        return -1;
    if (s->train.on_nan == ON_NAN_SKIP && p->state > 0 &&
        t->dev->ops->alloc(t->dev, (size_t)p->state * dtype_acc_bytes(t->dt),
                           &t->state, err) < 0)
        return -1;
    if (s->train.mixed &&
        mixed_init(&t->mixed, t->dev, t->model, t->dt, err) < 0)
        return -1;
    return ema_init(&t->ema, t->dev, t->model, t->dt, t->mixed.weights,
                    s->train.ema.decay, err);
}

/* The plan's memory is not taken yet, so the resident memory is all the rest:
 * the program, its libraries, and data that was read. BLAS's buffers and what a
 * checkpoint is written from come later; trainer.c prints the highest value. */
static void say_host_memory(const struct trainer *t, int64_t planned)
{
    const double mib = 1 << 20;
    int64_t used = memory_used("").bytes;
    if (used >= 0)
        trainer_say(t,
                    "host memory per rank: %.1f MiB (planned %.1f; program, "
                    "MPI, libraries and data: %.1f MiB)",
                    (double)(planned + used) / mib, (double)planned / mib,
                    (double)used / mib);
}

/* The plan with batches that are so many times as large. */
static int make_plan(const struct trainer *t, int32_t times,
                     struct memory_plan *ret, struct error *err)
{
    struct job_spec spec = *t->spec; /* shares what it points to */
    struct memory_ask ask = {.spec = &spec,
                             .dt = t->dt,
                             .parts = t->parts,
                             .ranks = t->overlaps ? t->comm->size : 1,
                             .is_gpu = !t->dev->host_memory,
                             .shared = trainer_share_bytes(t) * times};
    spec.train.batch_size *= times;
    if (t->env->kind->plan(&spec, t->dt, &t->data, t->comm->size, &ask.model,
                           err) < 0)
        return -1;
    t->source->ops->plan(t->source, &ask.batches, &ask.host);
    ask.batches *= times;
    ask.host *= times;
    memory_plan_make(&ask, ret);
    return 0;
}

/* Printed before anything is allocated, and refused if it cannot fit. */
static int plan_memory(struct trainer *t, struct error *err)
{
    struct memory_plan p;
    char line[MEMORY_LINE_CAP];
    if (make_plan(t, 1, &p, err) < 0)
        return -1;
    t->bytes = p.total;
    memory_plan_line(&p, line, sizeof(line));
    trainer_say(t, "%s", line);
    say_host_memory(t, p.host + (p.is_gpu ? 0 : p.total));
    return check_memory(t, &p, err);
}

/* The arrays are those of a checkpoint, in its order. */
static void open_exchange(struct trainer *t)
{
    struct shard_exchange *x = t->exchange = model_exchange(t->model);
    if (x == NULL)
        return;
    const struct checkpoint_parts parts = trainer_parts(t);
    for (int32_t i = 0; i < parts.n; i++)
        x->arrays[x->n++] =
            (struct shard_array){parts.arrays[i].data, dtype_acc(t->dt)};
    x->host = t->env->comm;
    t->buckets.comm = NULL; /* the model sums them */
}

/* Memory that the check found may be gone a moment later, and not every GPU
 * says what it has: names the lines of the plan that it was for. */
static int lacks(const char *part, struct error *err)
{
    if (err != NULL && err->code == ERR_NOMEM)
        (void)error_wrap(err, "%s of the memory plan", part);
    return -1;
}

static int take_memory(struct trainer *t, struct error *err)
{
    const struct job_spec *s = t->spec;
    if (plan_memory(t, err) < 0)
        return -1;
    if (t->env->kind->create(t->dev, t->comm, s, t->dt, &t->data, &t->model,
                             err) < 0)
        return lacks("parameters, gradients, activations and work", err);
    if (t->source->ops->start(t->source, err) < 0)
        return lacks("batches", err);
    int64_t n = model_planned(t->model)->params;
    if (trainer_open_optimizer(t, err) < 0 || open_extra(t, err) < 0 ||
        trainer_share_open(t, err) < 0)
        return lacks("optimizer", err);
    trainer_open_replays(t);
    buckets_init(&t->buckets, t->comm, t->env->clock, model_grads(t->model), n,
                 t->dt, TRAIN_DEADLINE_S);
    if (trainer_is_dp(t) || model_planned(t->model)->parts > 0)
        t->buckets.comm =
            NULL; /* rank 0 gathers them, or each part is summed */
    open_exchange(t);
    return 0;
}

/* Says what to lower if memory lacks, at the check or behind it. */
static int open_model(struct trainer *t, struct error *err)
{
    const struct model_kind *kind = t->env->kind;
    char advice[300] = "";
    if (take_memory(t, err) == 0)
        return 0;
    if (err == NULL || err->code != ERR_NOMEM)
        return -1;
    if (kind->advise != NULL && t->model == NULL)
        kind->advise(t->spec, t->dt, &t->data, t->comm->size, advice,
                     sizeof(advice));
    return error_wrap(err, "%s", advice[0] != '\0' ? advice : kind->too_large);
}

/* Whether the specification takes a batch so many times as large: an epoch has
 * one at least, or train.global_batch_size is dealt in such ones evenly. */
static bool takes_batch(const struct trainer *t, int32_t times)
{
    return t->spec->train.global_batch_size > 0 ? t->parts % times == 0
                                                : times <= t->batches;
}

/* The largest of this batch size, twice it, four times ... with a plan that
 * fits what the GPU had free. */
static int32_t batch_that_fits(const struct trainer *t)
{
    const int32_t batch = t->spec->train.batch_size;
    int32_t times = 1;
    while (times <= INT32_MAX / 2 / batch && takes_batch(t, 2 * times)) {
        struct memory_plan p;
        if (make_plan(t, 2 * times, &p, NULL) < 0 || p.total > t->sol.room)
            break;
        times *= 2;
    }
    return batch * times;
}

static void open_sol(struct trainer *t)
{
    char line[SOL_LINE_CAP], fits[60] = "";
    sol_open(&t->sol, t->spec, t->dt, line);
    if (t->sol.is_on && t->sol.room >= 0 && t->env->comm->rank == 0) {
        const int32_t batch = batch_that_fits(t);
        trainer_report_value(t, "batch_fits", -1, batch);
        (void)snprintf(fits, sizeof(fits), "; train.batch_size %d fits", batch);
    }
    if (line[0] != '\0')
        trainer_say(t, "%s%s", line, fits);
}

/* ---- the position ---------------------------------------------------------
 */

/* Everything that must be the same on every rank, from rank 0. */
static int broadcast_all(struct trainer *t, struct error *err)
{
    const struct model_plan *p = model_planned(t->model);
    struct checkpoint_parts parts = trainer_parts(t);
    size_t acc = dtype_acc_bytes(t->dt);
    if (comm_broadcast_now(t->env->comm, &t->at, sizeof(t->at), 0,
                           TRAIN_DEADLINE_S, err) < 0)
        return error_wrap(err, "start");
    if (t->exchange != NULL) /* each rank has its share already */
        return 0;
    if (comm_broadcast_now(t->comm, model_params(t->model),
                           (size_t)p->params * dtype_bytes(t->dt), 0,
                           TRAIN_DEADLINE_S, err) < 0 ||
        trainer_share_state(t, err) < 0)
        return error_wrap(err, "start");
    for (int32_t i = 0; i < parts.n && t->at.iteration > 0; i++) {
        const struct checkpoint_array *a = &parts.arrays[i];
        const size_t size = a->fetch == NULL              ? acc
                            : a->i < t->optimizer.n_state ? 1
                                                          : sizeof(float);
        if (comm_broadcast_now(t->comm, a->data, (size_t)a->n * size, 0,
                               TRAIN_DEADLINE_S, err) < 0)
            return error_wrap(err, "start");
    }
    return 0;
}

static int find_position(struct trainer *t, struct error *err)
{
    const struct job_spec *s = t->spec;
    const struct comm *c = t->env->comm;
    t->at = (struct checkpoint_state){
        .seed = s->train.seed,
        .global_batch = (int64_t)s->train.batch_size * t->streams,
        .epoch = 1,
        .ranks = c->size,
        .batch_size = s->train.batch_size,
        .best = NAN,
        .watched = NAN,
        .loss_scale = loss_scale_first(t->dt, s->train.mixed)};
    if (model_init(t->model, (uint32_t)s->train.seed, err) < 0 ||
        trainer_share_prepare(t, err) < 0)
        return -1;
    if ((s->retry.resume || s->train.resume_from != NULL) &&
        trainer_find_newest(t, err) < 0)
        return -1;
    if (broadcast_all(t, err) < 0)
        return -1;
    trainer_position_limit(t);
    /* Weights of another job are no beginning of the model's own. */
    if (t->at.iteration == 0 && !s->train.weights_only)
        model_begin(t->model);
    model_reached(t->model, t->at.iteration);
    /* What a checkpoint was not asked for begins with its weights. */
    const bool begins =
        t->at.iteration == 0 || (s->train.eval_only && s->train.weights_only);
    if (t->mixed.dev != NULL && begins && mixed_begin(&t->mixed, err) < 0)
        return -1;
    if (begins && ema_update(&t->ema, true, err) < 0)
        return -1;
    /* The rest of an epoch is in the order in which it was begun, though
     * another seed may have been drawn since: it is in t->at. */
    return s->train.eval_only ? 0 : trainer_share_epoch(t, err);
}

static void warn_of_mean(const struct trainer *t)
{
    double rest = ema_rest(t->spec->train.ema.decay, t->total);
    if (rest > EMA_REST_MAX && t->env->comm->rank == 0)
        log_warn(
            "worker",
            "train.ema.decay: after all iterations the mean of the "
            "weights still has %.0f %% of its start, and evaluations use "
            "the mean: lower it, or train longer decay=%g iterations=%" PRId64,
            100 * rest, t->spec->train.ema.decay, t->total);
}

int trainer_open(struct trainer *t, const struct train_env *env,
                 struct error *err)
{
    char products[400];
    char model[400], data[200];
    *t = (struct trainer){.env = env,
                          .spec = env->spec,
                          .eval_loss = NAN,
                          .eval_accuracy = NAN,
                          .sol = {.gpu = -1, .room = -1},
                          .said_s = -INFINITY};
    t->progress = (struct report_progress){.iteration = -1,
                                           .iterations_total = -1,
                                           .epoch = -1,
                                           .epochs_total = -1,
                                           .loss = NAN,
                                           .t_iter = NAN,
                                           .eval_loss = NAN,
                                           .eval_accuracy = NAN};
    t->dt = memory_plan_dtype(env->spec);
    if (spec_every(env->spec->checkpoint.every, &t->every, err) < 0)
        return error_wrap(err, "checkpoint.every");
    const char *samples = env->spec->train.sample.every;
    t->samples.is_on = env->spec->train.sample.prompts.n > 0 &&
                       samples != NULL && strcmp(samples, "never") != 0;
    if (t->samples.is_on && spec_every(samples, &t->samples.every, err) < 0)
        return error_wrap(err, "train.sample.every");
    if (open_device(t, err) < 0 || open_comm(t, err) < 0)
        return -1;
    trainer_profile_open(t); /* may count the communicators from here on */
    if (trainer_share_data(t, err) < 0 || open_model(t, err) < 0 ||
        trainer_share_count(t, err) < 0 || find_position(t, err) < 0)
        return -1;
    model_describe(t->model, model, sizeof(model));
    t->source->ops->describe(t->source, t->batches, data, sizeof(data));
    trainer_say(t, "%s, %s%s on %s (%s), %d rank%s, batch %d each", model,
                dtype_name(t->dt),
                t->mixed.dev != NULL ? " (weights in fp32)" : "",
                t->dev->ops->name, t->comm->ops->name, env->comm->size,
                env->comm->size == 1 ? "" : "s", env->spec->train.batch_size);
    trainer_say(t, "data: %s", data);
    if (t->dev->host_memory) {
        blas_describe(products, sizeof(products));
        trainer_say(t, "products: %s", products);
    }
    open_sol(t);
    warn_of_mean(t);
    const int64_t warmup = env->spec->train.lr_scheduler.num_warmup_steps;
    if (warmup > 0 && warmup >= t->total && !env->spec->train.eval_only)
        trainer_say(t,
                    "train.lr_scheduler.num_warmup_steps is %" PRId64
                    ", the run has %" PRId64
                    " iterations: the learning rate never gets to "
                    "train.optimizer.lr",
                    warmup, t->total);
    return 0;
}

void trainer_close(struct trainer *t)
{
    trainer_profile_close(t);
    trainer_close_replays(t);
    optimizer_clear(&t->optimizer);
    ema_clear(&t->ema);
    mixed_clear(&t->mixed);
    if (t->dev != NULL) {
        t->dev->ops->release(t->dev, t->partial);
        t->dev->ops->release(t->dev, t->state);
    }
    trainer_share_close(t);
    model_destroy(t->model);
    if (t->source != NULL)
        t->source->ops->destroy(t->source);
    if (t->comm != NULL)
        t->comm->ops->destroy(t->comm);
    if (t->dev != NULL)
        t->dev->ops->destroy(t->dev);
}
