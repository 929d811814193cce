/* metrics.c - how much longer an iteration takes that is reported.
 *
 *   metrics [threads [size [batch [pairs]]]]       1 28 64 100
 *
 * Training steps in fp32, in blocks of a second: with a row and a progress
 * for each, which a thread sends to a daemon in this process, and without.
 * Neighbouring blocks are a pair, and every other pair begins with the one
 * without: what else this machine does meets both. Between two blocks the
 * daemon gets what is left. Prints the ratio of the times of an iteration, the
 * geometric mean over all pairs, and where it is with 95 % confidence. Not a
 * test: no number is expected. The target is 1.005.
 */
#include <math.h>

#include "tests/unit/worker/cv_rig.h"
#include "tests/unit/worker/daemon.h"
#include "worker/report/reporter.h"

struct bench {
    struct rig rig;
    void *momentum;
    struct reporter *reporter;
    int64_t iteration;
};

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

static void step(struct bench *b, bool reports)
{
    const struct sgd_args sgd = {
        .lr = 0.01, .momentum = 0.9, .grad_scale = 1, .nesterov = true};
    struct rig *r = &b->rig;
    struct error err = ERROR_INIT;
    double begin_s = now_s(), loss = rig_loss(r, 1) / r->conf.batch;

    rig_backward(r, 1.0 / r->conf.batch);
    must(r->d->ops->sgd(r->d, r->conf.dt, model_params(r->m), b->momentum,
                        model_grads(r->m), model_planned(r->m)->params, &sgd,
                        &err),
         &err);
    if (!reports)
        return;
    const struct metric_row row = {
        .kind = METRIC_ITERATION,
        .iteration = {.epoch = 1,
                      .iteration = ++b->iteration,
                      .started_at = clock_real.wall_s(&clock_real),
                      .t_iter = now_s() - begin_s,
                      .t_forward = 0.01456,
                      .t_backward = 0.02833,
                      .t_optimizer = 0.00101,
                      .loss = loss,
                      .lr = 0.05,
                      .samples = r->conf.batch,
                      .tokens = -1,
                      .gpu_mem_bytes = -1}};
    const struct report_progress p = {.iteration = b->iteration,
                                      .iterations_total = -1,
                                      .epoch = 1,
                                      .epochs_total = -1,
                                      .loss = loss,
                                      .t_iter = row.iteration.t_iter};
    reporter_row(b->reporter, &row);
    reporter_progress(b->reporter, &p);
}

/* Seconds per iteration of a block of n. */
static double block(struct bench *b, bool reports, int32_t n)
{
    const struct timespec tick = {.tv_nsec = 5000000};
    struct report_stats s;
    double begin_s = now_s(), each_s;

    for (int32_t i = 0; i < n; i++)
        step(b, reports);
    each_s = (now_s() - begin_s) / n;
    for (begin_s = now_s(); now_s() - begin_s < 5;) {
        reporter_stats(b->reporter, &s);
        if (s.acked == s.bytes)
            return each_s;
        (void)nanosleep(&tick, NULL);
    }
    (void)fprintf(stderr, "metrics: the daemon lacks rows\n");
    exit(1);
}

static void measure(struct bench *b, int32_t pairs)
{
    double sum = 0, squares = 0, first_s = block(b, true, 10);
    const int32_t n = (int32_t)(1 / first_s) + 1;

    for (int32_t i = 0; i < pairs; i++) {
        double s[2];
        for (int32_t k = 0; k < 2; k++) {
            bool reports = (i + k) % 2 == 0;
            s[reports] = block(b, reports, n);
        }
        double d = log(s[1] / s[0]);
        sum += d;
        squares += d * d;
    }
    double mean = sum / pairs;
    double half = 1.96 * sqrt((squares / pairs - mean * mean) / (pairs - 1));
    (void)printf("with metrics an iteration takes %.4f times as long, with "
                 "95 %% confidence %.4f to %.4f; %d pairs of %d iterations of "
                 "%.2f ms\n",
                 exp(mean), exp(mean - half), exp(mean + half), pairs, n,
                 1e3 * first_s);
}

static int32_t number(int argc, char **argv, int i, int32_t otherwise)
{
    return argc > i ? (int32_t)strtol(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    const struct mobilenet_conf conf = {.dt = DT_F32,
                                        .width_mult = 1,
                                        .num_classes = 10,
                                        .image_size = number(argc, argv, 2, 28),
                                        .batch = number(argc, argv, 3, 64)};
    const int32_t pairs = number(argc, argv, 4, 100);
    static struct daemon d; /* rows are kept: some megabytes */
    struct bench b = {.iteration = 0};
    struct error err = ERROR_INIT;

    if (pairs < 2)
        return error_exit_status(ERR_USAGE);
    daemon_init(&d, false);
    daemon_up(&d);
    const struct report_conf rc = {.url = d.url,
                                   .token = "0123456789abcdef",
                                   .dir = d.dir,
                                   .job = 1,
                                   .attempt = 1,
                                   .heartbeat_s = 10};
    must(reporter_create(&rc, &b.reporter, &err), &err);
    rig_init(&b.rig, &conf, number(argc, argv, 1, 1), 1);
    size_t params = (size_t)model_planned(b.rig.m)->params;
    must(
        b.rig.d->ops->alloc(b.rig.d, params * sizeof(float), &b.momentum, &err),
        &err);
    measure(&b, pairs);
    b.rig.d->ops->release(b.rig.d, b.momentum);
    rig_clear(&b.rig);
    reporter_destroy(b.reporter);
    daemon_clear(&d);
    return 0;
}
