/* cv_step.c - how fast a whole training step of MobileNetV2 is.
 *
 *   cv_step [threads|cuda [size [batch [fp32|fp64 [width]]]]]
 *                                                  1 32 64 fp32 1.0
 *
 * Loads, runs forward, backward and SGD on synthetic images, and prints
 * images per second, by the wall and by the CPU time of all threads (which
 * other programs on the machine disturb less), best of several rounds, and
 * the share of each phase. Not a test: no number is expected.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jobs/base/clock.h"
#include "kernels/device.h"
#include "tests/pass.h"
#include "worker/cv/mobilenet.h"
#include "worker/data/loader.h"

enum { ROUNDS = 5, PHASES = 4 };
static const char *const phases[PHASES] = {"load", "forward", "backward",
                                           "optimizer"};

struct bench {
    struct device *d;
    struct model *m;
    struct loader *loader;
    void *mom;
    int32_t *index;
    int32_t batch;
    enum dtype dt;
};

static void must(int rc, const struct error *err)
{
    if (rc < 0) {
        (void)fprintf(stderr, "cv_step: %s\n", err->msg);
        exit(error_exit_status(err->code));
    }
}

static double now(clockid_t id)
{
    struct timespec t;
    (void)clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The wall time since the last mark goes to *ret; the device is idle. */
static void mark(const struct bench *b, double *at, double *ret,
                 struct error *err)
{
    must(b->d->ops->sync(b->d, err), err);
    double t = now(CLOCK_MONOTONIC);
    *ret += t - *at;
    *at = t;
}

static void step(struct bench *b, double *ret_s, struct error *err)
{
    const struct sgd_args sgd = {.lr = 0.01,
                                 .momentum = 0.9,
                                 .weight_decay = 4e-5,
                                 .grad_scale = 1,
                                 .nesterov = true};
    struct loader_batch data;
    double at = now(CLOCK_MONOTONIC);
    must(loader_next(b->loader, b->index, b->batch, &data, err), err);
    mark(b, &at, &ret_s[0], err);
    must(pass_forward(b->m, data.x, data.label, b->batch, true, 1, err), err);
    mark(b, &at, &ret_s[1], err);
    must(pass_backward(b->m, b->batch, 1, 1.0 / b->batch, err), err);
    mark(b, &at, &ret_s[2], err);
    must(b->d->ops->sgd(b->d, b->dt, model_params(b->m), b->mom,
                        model_grads(b->m), model_planned(b->m)->params, &sgd,
                        err),
         err);
    mark(b, &at, &ret_s[3], err);
}

static void measure(struct bench *b, struct error *err)
{
    double best_wall = 0, best_cpu = 0, total = 0, sum[PHASES] = {0};
    int32_t steps = 1;
    for (int32_t r = -1; r < ROUNDS; r++) { /* the first one warms up */
        double s[PHASES] = {0};
        double wall = now(CLOCK_MONOTONIC);
        double cpu = now(CLOCK_PROCESS_CPUTIME_ID);
        for (int32_t i = 0; i < steps; i++)
            step(b, s, err);
        wall = now(CLOCK_MONOTONIC) - wall;
        cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        if (r < 0) { /* rounds of half a second */
            steps = wall < 0.5 ? (int32_t)(0.5 / wall) + 1 : 1;
            continue;
        }
        double images = (double)steps * b->batch;
        best_wall = images / wall > best_wall ? images / wall : best_wall;
        best_cpu = images / cpu > best_cpu ? images / cpu : best_cpu;
        for (int32_t k = 0; k < PHASES; k++) {
            sum[k] += s[k];
            total += s[k];
        }
    }
    (void)printf("%8.0f images/s  %8.0f images/CPU-s ", best_wall, best_cpu);
    for (int32_t k = 0; k < PHASES; k++)
        (void)printf("  %s %.0f %%", phases[k], 100 * sum[k] / total);
    (void)printf("\n");
}

int main(int argc, char **argv)
{
    const char *where = argc > 1 ? argv[1] : "1";
    const struct mobilenet_conf conf = {
        .dt = argc > 4 ? dtype_named(argv[4]) : DT_F32,
        .width_mult = argc > 5 ? strtod(argv[5], NULL) : 1,
        .dropout = 0.2,
        .num_classes = 10,
        .image_size = argc > 2 ? (int32_t)strtol(argv[2], NULL, 10) : 32,
        .batch = argc > 3 ? (int32_t)strtol(argv[3], NULL, 10) : 64,
    };
    const struct loader_conf lc = {
        .dt = conf.dt, .image_size = conf.image_size, .batch = conf.batch};
    const struct dataset_conf dc = {.source = SOURCE_SYNTHETIC,
                                    .samples = conf.batch};
    struct bench b = {.batch = conf.batch, .dt = conf.dt};
    struct dataset ds;
    struct error err = ERROR_INIT;

    if (conf.dt == DT_N) {
        (void)fprintf(stderr, "cv_step: no type '%s'\n", argv[4]);
        return 2;
    }
    if (strcmp(where, "cuda") == 0)
        must(device_cuda_create(0, &b.d, &err), &err);
    else
        must(device_host_create((int32_t)strtol(where, NULL, 10), &b.d, &err),
             &err);
    must(dataset_open(&dc, DATASET_TRAIN, &ds, &err), &err);
    must(mobilenet_create(b.d, &conf, &b.m, &err), &err);
    must(model_init(b.m, 1, &err), &err);
    must(loader_create(b.d, &lc, &ds, &clock_real, &b.loader, &err), &err);
    size_t params = (size_t)model_planned(b.m)->params;
    must(b.d->ops->alloc(b.d, params * dtype_acc_bytes(conf.dt), &b.mom, &err),
         &err);
    b.index = calloc((size_t)conf.batch, sizeof(*b.index));
    if (!b.index)
        return 1;
    for (int32_t i = 0; i < conf.batch; i++)
        b.index[i] = i;
    (void)printf("%s, %d threads, %dx%d, batch %d, %s, width %g, %lld MB:\n",
                 b.d->ops->name, b.d->threads, conf.image_size, conf.image_size,
                 conf.batch, dtype_name(conf.dt), conf.width_mult,
                 (long long)(model_planned(b.m)->bytes_total >> 20));
    measure(&b, &err);
    free(b.index);
    b.d->ops->release(b.d, b.mom);
    loader_destroy(b.loader);
    model_destroy(b.m);
    dataset_clear(&ds);
    b.d->ops->destroy(b.d);
    return 0;
}
