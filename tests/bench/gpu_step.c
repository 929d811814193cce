/* gpu_step.c - images per second of a training step, as mgpu-worker makes it.
 *
 *   gpu_step cuda|host [size [batch [fp32 [data|nodata [fast|paper]]]]]
 *                                       224 64 fp32 nodata fast
 *
 * Forward and backward pass and Nesterov SGD on MobileNetV2 for 10 classes;
 * where the device captures, one graph. `nodata`: on a batch that is there
 * already. `data`: each step takes another batch of 28x28 images, resized, by
 * the loader, which copies ahead. fp16 and bf16 keep fp32 weights (mixed), as
 * PyTorch's AMP does. For each line of its input, until there is none, it works
 * for half a second, waits for the device and prints the images/s of that:
 * tests/gpu/bench.sh has it take turns with PyTorch. The line says how:
 * `default`, as a job runs that says nothing of it, or `tuned`, as one with
 * train.deterministic: false, for which the algorithms of the products are
 * chosen by time. A device that has nothing to choose answers `- ` and why.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/clock.h"
#include "worker/cv/image_batches.h"
#include "worker/cv/mobilenet.h"
#include "worker/data/loader.h"
#include "worker/train/device_graph.h"
#include "worker/train/mixed_precision.h"

enum { SAMPLES = 4096 };
static const double turn_s = 0.5;
enum how { DEFAULT, TUNED, HOWS };

struct bench {
    struct device *d;
    struct model *m;
    struct loader *loader;
    struct mixed mixed;
    struct replay replay[HOWS]; /* the algorithms are part of the graph */
    int32_t steps[HOWS];        /* of a turn; 0: not known yet */
    enum how how;
    void *momentum;
    int32_t *index;
    int32_t batch, at;
    enum dtype dt;
    bool has_data;
    struct loader_batch data;
};

static void must(int rc, const struct error *err)
{
    if (rc < 0) {
        (void)fprintf(stderr, "gpu_step: %s\n", err->msg);
        exit(error_exit_status(err->code));
    }
}

static void next_batch(struct bench *b, struct error *err)
{
    for (int32_t i = 0; i < b->batch; i++, b->at++)
        b->index[i] = b->at % SAMPLES;
    const struct fetch_ask ask = {.index = b->index, .n = b->batch};
    must(loader_put(b->loader, &ask, err), err);
}

static struct batch batch_of(const struct bench *b)
{
    return image_batch(b->data.x, 0, b->data.label, b->batch);
}

static int calls(struct bench *b, struct error *err)
{
    const struct sgd_args sgd = {.lr = 0.01,
                                 .momentum = 0.9,
                                 .weight_decay = 4e-5,
                                 .grad_scale = 1,
                                 .nesterov = true};
    bool mixed = b->mixed.dev != NULL;
    const struct batch data = batch_of(b);
    if (model_forward(b->m, &data, true, err) < 0 ||
        model_backward(b->m, &data, NULL, NULL, err) < 0 ||
        (mixed && mixed_take_grads(&b->mixed, err) < 0))
        return -1;
    if (b->d->ops->sgd(b->d, mixed ? DT_F32 : b->dt,
                       mixed ? b->mixed.weights : model_params(b->m),
                       b->momentum, mixed ? b->mixed.grads : model_grads(b->m),
                       model_planned(b->m)->params, &sgd, err) < 0)
        return -1;
    return mixed ? mixed_give_weights(&b->mixed, err) : 0;
}

static void step(struct bench *b, struct error *err)
{
    const struct batch size = {.n = b->batch};
    struct model_result result;
    if (b->has_data) {
        if (loader_has_room(b->loader))
            next_batch(b, err);
        must(loader_take(b->loader, &b->data, err), err);
        if (loader_has_room(b->loader))
            next_batch(b, err);
    }
    must(model_put(b->m, (uint64_t)b->at, 1.0 / b->batch, err), err);
    struct replay *r = &b->replay[b->how];
    enum replay_what what = device_graph_next(r);
    /* A figure without graphs is no figure of a job: it ends here. */
    if (what == REPLAY_CAPTURE)
        must(device_graph_end(
                 r, device_graph_begin(r, err) < 0 || calls(b, err) < 0, err),
             err);
    if (what == REPLAY_LAUNCH)
        model_repeat(b->m, &size, true);
    must(what == REPLAY_RUN ? calls(b, err) : device_graph_piece(r, 0, err),
         err);
    if (b->has_data) { /* as the trainer does: the loss of each step */
        must(loader_ahead(b->loader, err), err);
        must(model_result(b->m, &size, &result, err), err);
    }
}

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

static double run(struct bench *b, int32_t steps, struct error *err)
{
    double start_s = now_s();
    for (int32_t i = 0; i < steps; i++)
        step(b, err);
    must(b->d->ops->sync(b->d, err), err);
    return now_s() - start_s;
}

/* Run, captured, launched; then how many steps a turn takes. */
static int32_t steps_of_turn(struct bench *b, struct error *err)
{
    (void)run(b, 3, err);
    double once_s = run(b, 1, err);
    double again_s = run(b, 1, err);
    once_s = again_s < once_s ? again_s : once_s;
    return once_s < turn_s ? (int32_t)(turn_s / once_s) + 1 : 1;
}

static void take_turns(struct bench *b, struct error *err)
{
    char line[16];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        bool tuned = strcmp(line, "tuned\n") == 0;
        if (tuned && b->d->ops->tune == NULL) {
            (void)printf("- nothing to tune on this device\n");
            (void)fflush(stdout);
            continue;
        }
        b->how = tuned ? TUNED : DEFAULT;
        if (b->d->ops->tune != NULL)
            must(b->d->ops->tune(b->d, tuned, err), err);
        if (b->steps[b->how] == 0)
            b->steps[b->how] = steps_of_turn(b, err);
        double s = run(b, b->steps[b->how], err) / b->steps[b->how];
        (void)printf("%.1f\n", b->batch / s);
        (void)fflush(stdout);
    }
}

static void open_all(struct bench *b, const struct mobilenet_conf *conf,
                     const struct dataset *ds, bool floats, struct error *err)
{
    const struct loader_conf lc = {.dt = conf->dt,
                                   .image_size = conf->image_size,
                                   .batch = conf->batch,
                                   .pin = true,
                                   .floats = floats,
                                   .ahead = b->d->ops->send != NULL};
    must(mobilenet_create(b->d, conf, &b->m, err), err);
    must(model_init(b->m, 1, err), err);
    must(loader_create(b->d, &lc, ds, &clock_real, &b->loader, err), err);
    if (conf->dt == DT_F16 || conf->dt == DT_BF16) {
        must(mixed_init(&b->mixed, b->d, b->m, conf->dt, err), err);
        must(mixed_begin(&b->mixed, err), err);
    }
    size_t params = (size_t)model_planned(b->m)->params;
    must(b->d->ops->alloc(b->d, params * dtype_acc_bytes(conf->dt),
                          &b->momentum, err),
         err);
    b->index = calloc((size_t)conf->batch, sizeof(*b->index));
    if (b->index == NULL)
        exit(1);
    for (int i = 0; i < HOWS; i++)
        device_graph_init(&b->replay[i], b->d);
    next_batch(b, err);
    must(loader_take(b->loader, &b->data, err), err);
}

static void close_all(struct bench *b)
{
    for (int i = 0; i < HOWS; i++)
        device_graph_clear(&b->replay[i]);
    free(b->index);
    b->d->ops->release(b->d, b->momentum);
    mixed_clear(&b->mixed);
    loader_destroy(b->loader);
    model_destroy(b->m);
    b->d->ops->destroy(b->d);
}

static bool is(int argc, char **argv, int i, const char *word)
{
    return argc > i && strcmp(argv[i], word) == 0;
}

int main(int argc, char **argv)
{
    const struct mobilenet_conf conf = {
        .dt = argc > 4 ? dtype_named(argv[4]) : DT_F32,
        .width_mult = 1,
        .dropout = 0.2,
        .num_classes = 10,
        .image_size = argc > 2 ? (int32_t)strtol(argv[2], NULL, 10) : 224,
        .batch = argc > 3 ? (int32_t)strtol(argv[3], NULL, 10) : 64,
    };
    const struct dataset_conf dc = {.source = SOURCE_SYNTHETIC,
                                    .samples = SAMPLES};
    struct bench b = {.batch = conf.batch,
                      .dt = conf.dt,
                      .has_data = is(argc, argv, 5, "data")};
    struct dataset ds;
    struct error err = ERROR_INIT;

    if (conf.dt == DT_N || argc < 2) {
        (void)fprintf(stderr, "usage: gpu_step cuda|host [size [batch [type "
                              "[data|nodata [fast|paper]]]]]\n");
        return 2;
    }
    must(is(argc, argv, 1, "cuda") ? device_cuda_create(0, &b.d, &err)
                                   : device_host_create(0, &b.d, &err),
         &err);
    must(dataset_open(&dc, DATASET_TRAIN, &ds, &err), &err);
    open_all(&b, &conf, &ds, is(argc, argv, 6, "paper"), &err);
    take_turns(&b, &err);
    close_all(&b);
    dataset_clear(&ds);
    return 0;
}
