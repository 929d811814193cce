/* optimizer.c - 20 steps of each optimizer under each schedule, clipped and
 * with exempt parameters: what PyTorch computes (tests/golden/optim.py). */
#include "worker/train/optimizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/rng.h"
#include "tests/golden/golden.h"
#include "worker/train/lr_schedule.h"

/* As in optim.py. */
enum { STEPS = 20, PER_EPOCH = 3, WARMUP = 4, N = 13, EXEMPT = 5 };
static const double rate = 0.05, tolerance = 1e-13;

struct named {
    const char *name;
    struct job_spec spec;
};

#define OPT(word, ...)                            \
    {                                             \
        .name = (word), .spec.train.optimizer = { \
            .lr = 0.05,                           \
            .weight_decay = 0.1,                  \
            __VA_ARGS__                           \
        }                                         \
    }
#define RMSPROP .name = OPTIM_RMSPROP, .alpha = 0.9, .eps = 1e-3

static const struct named optimizers[] = {
    OPT("sgd", .name = OPTIM_SGD),
    OPT("momentum", .name = OPTIM_SGD, .momentum = 0.9),
    OPT("nesterov", .name = OPTIM_SGD, .momentum = 0.9, .nesterov = true),
    OPT("adamw", .name = OPTIM_ADAMW, .eps = 1e-6,
        .betas = {.n = 2, .v = {0.8, 0.95}}),
    OPT("rmsprop", RMSPROP),
    OPT("rmsprop_momentum", RMSPROP, .momentum = 0.9),
    OPT("rmsprop_centered", RMSPROP, .momentum = 0.9, .centered = true),
};

#define PLAN(word, ...)                                            \
    {                                                              \
        .name = (word), .spec.train.lr_scheduler = { __VA_ARGS__ } \
    }
static const struct named plans[] = {
    PLAN("constant", .name = SCHEDULE_CONSTANT),
    PLAN("warmup", .name = SCHEDULE_CONSTANT, .num_warmup_steps = WARMUP),
    PLAN("cosine", .name = SCHEDULE_COSINE),
    PLAN("cosine_warmup", .name = SCHEDULE_COSINE, .num_warmup_steps = WARMUP),
    PLAN("step", .name = SCHEDULE_STEP, .step_size = 2, .gamma = 0.5),
    PLAN("multistep", .name = SCHEDULE_MULTISTEP, .gamma = 0.3,
         .milestones = {.n = 2, .v = {1, 4}}),
};
enum { PLANS = sizeof(plans) / sizeof(plans[0]) };

static void draw(struct rng *r, double v[N])
{
    for (int i = 0; i < N; i++)
        v[i] = 2 * rng_uniform(r) - 1;
}

/* The parameters after all steps; the norms, when they are wanted. */
static void run(struct device *dev, const struct job_spec *spec, uint32_t seed,
                double clip, double ret[N], double norms[STEPS])
{
    static const struct optimizer_range ranges[] = {{0, N - EXEMPT, false},
                                                    {N - EXEMPT, EXEMPT, true}};
    struct error err = ERROR_INIT;
    struct optimizer o = {.dev = NULL};
    struct rng r;
    double g[N];
    int rc = optimizer_init(&o, dev, spec, DT_F64, N, ranges, 2, &err);
    rng_seed(&r, seed);
    draw(&r, ret);
    for (int step = 0; step < STEPS && rc == 0; step++) {
        double scale = 1, lr = rate;
        draw(&r, g);
        for (int i = 0; i < N; i++)
            g[i] += 0.3 * ret[i];
        if (clip > 0) {
            rc = optimizer_grad_norm(&o, g, &norms[step], &err);
            scale = optimizer_clip(norms[step], clip);
        }
        lr *= schedule_factor(spec, step, PER_EPOCH, STEPS);
        rc =
            rc < 0 ? rc : optimizer_step(&o, ret, g, step + 1, lr, scale, &err);
    }
    optimizer_clear(&o);
    if (rc < 0)
        ok(false, "%s", err.msg);
}

static void test_optimizer(struct device *dev, const struct golden *g,
                           const struct named *o, uint32_t seed)
{
    double p[N], norms[STEPS];
    char name[64];
    struct job_spec spec = o->spec;
    for (int k = 0; k < PLANS; k++) {
        spec.train.lr_scheduler = plans[k].spec.train.lr_scheduler;
        (void)snprintf(name, sizeof(name), "%s %s", o->name, plans[k].name);
        run(dev, &spec, seed + (uint32_t)k, 0, p, norms);
        golden_is(g, name, p, N, tolerance);
    }
    seed += PLANS - 1;
    spec.train.lr_scheduler = plans[0].spec.train.lr_scheduler;
    spec.train.optimizer.no_decay = NO_DECAY_NORM_BIAS;
    (void)snprintf(name, sizeof(name), "%s exempt", o->name);
    run(dev, &spec, seed, 0, p, norms);
    golden_is(g, name, p, N, tolerance);
    spec.train.optimizer.no_decay = NO_DECAY_NONE;
    (void)snprintf(name, sizeof(name), "%s clipped", o->name);
    run(dev, &spec, seed, 1.5, p, norms);
    golden_is(g, name, p, N, tolerance);
    (void)snprintf(name, sizeof(name), "%s norms", o->name);
    golden_is(g, name, norms, STEPS, tolerance);
}

static void test_rates(const struct golden *g)
{
    double lr[STEPS];
    char name[64];
    for (int k = 0; k < PLANS; k++) {
        for (int i = 0; i < STEPS; i++)
            lr[i] = rate * schedule_factor(&plans[k].spec, i, PER_EPOCH, STEPS);
        (void)snprintf(name, sizeof(name), "lr %s", plans[k].name);
        golden_is(g, name, lr, STEPS, tolerance);
    }
}

static void test_bytes(struct device *dev)
{
    struct job_spec spec = optimizers[6].spec;
    struct optimizer o;
    struct error err = ERROR_INIT;
    is_int(optimizer_bytes(&spec, DT_F32, 100, 1), 1200 + 8 + 40,
           "three arrays of a centered one with momentum");
    spec.train.optimizer.momentum = 0;
    is_int(optimizer_bytes(&spec, DT_F64, 100, 1), 1600 + 8 + 40,
           "two without");
    if (ok(optimizer_init(&o, dev, &spec, DT_F64, 1, NULL, 0, &err) == 0,
           "no ranges are needed without an exemption")) {
        is_str(o.state[0].name, "square_avg", "by PyTorch's names");
        is_str(o.state[1].name, "grad_avg", "in order");
        optimizer_clear(&o);
    }
}

int main(void)
{
    struct golden g;
    struct device *dev = NULL;
    struct error err = ERROR_INIT;
    if (device_host_create(1, &dev, &err) < 0) {
        ok(false, "%s", err.msg);
        return tap_done();
    }
    golden_open(&g, "tests/golden/optim.txt");
    test_rates(&g);
    for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++)
        test_optimizer(dev, &g, &optimizers[i], 1 + (uint32_t)i * PLANS);
    ok(optimizer_clip(2, 0) == 1 && optimizer_clip(0.5, 1) == 1,
       "what is not asked for or short enough stays");
    ok(isnan(optimizer_clip(NAN, 1)), "no number, no number");
    test_bytes(dev);
    golden_close(&g);
    dev->ops->destroy(dev);
    return tap_done();
}
