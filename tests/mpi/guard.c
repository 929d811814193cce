/* guard.c - a loss that is no number: skip leaves everything as it was, warn
 * goes on, fail ends; and what the mean of the weights is to an evaluation. */
#include <math.h>

#include "tests/mpi/train.h"

static volatile sig_atomic_t none;

struct world {
    struct trainer t;
    struct train_rig rig;
};

static bool open_world(struct world *w, struct comm *c,
                       const struct job_spec *spec)
{
    struct error err = ERROR_INIT;
    int rc = train_rig_open(&w->rig, c, spec, &none, &none, &err);
    rc = rc < 0 ? rc : trainer_open(&w->t, &w->rig.env, &err);
    return mpi_ok(rc == 0, &err, "open");
}

static void close_world(struct world *w)
{
    trainer_close(&w->t);
    train_rig_close(&w->rig);
}

/* The parameters and the statistics, in one array. */
static double *copy_of(struct world *w)
{
    const struct model_plan *p = model_planned(w->t.model);
    double *v = malloc((size_t)(p->params + p->state) * sizeof(double));
    memcpy(v, model_params(w->t.model), (size_t)p->params * sizeof(double));
    memcpy(v + p->params, model_state(w->t.model),
           (size_t)p->state * sizeof(double));
    return v;
}

static bool is_same(struct world *w, const double *was)
{
    const struct model_plan *p = model_planned(w->t.model);
    double *is = copy_of(w);
    bool same =
        memcmp(is, was, (size_t)(p->params + p->state) * sizeof(double)) == 0;
    free(is);
    return same;
}

static void test_skip(struct comm *c, struct job_spec spec)
{
    struct world w;
    struct agreed a;
    struct error err = ERROR_INIT;
    spec.train.on_nan = ON_NAN_SKIP;
    spec.train.ema.decay = 0.5;
    if (!open_world(&w, c, &spec))
        return;
    double *p = model_params(w.t.model);
    (void)mpi_ok(trainer_step(&w.t, &a, &err) == 0 && isfinite(a.loss), &err,
                 "a step that works");
    double right = p[0];
    if (mpi_rank == mpi_size - 1)
        p[0] = NAN; /* one rank's loss is enough */
    double *was = copy_of(&w);
    int64_t samples = w.t.at.samples, counted = w.t.at.counted;
    (void)mpi_ok(trainer_step(&w.t, &a, &err) == 0 && isnan(a.loss), &err,
                 "one that does not is passed over");
    (void)mpi_ok(is_same(&w, was), NULL,
                 "weights and statistics are as they were");
    (void)mpi_ok(w.t.at.iteration == 2 && w.t.at.updates == 1 &&
                     w.t.at.counted == counted,
                 NULL, "it counts as an iteration, not for the loss");
    (void)mpi_ok(samples > 0 && w.t.at.samples == 2 * samples, NULL,
                 "its samples were trained on in that time");
    p[0] = right;
    (void)mpi_ok(trainer_step(&w.t, &a, &err) == 0 && isfinite(a.loss) &&
                     w.t.at.updates == 2 && !is_same(&w, was),
                 &err, "and the next one works");
    p[0] = NAN;
    int rc = 0, n = 0;
    for (; rc == 0 && n < 200; n++) {
        w.t.at.batch = 0;
        rc = trainer_step(&w.t, &a, &err);
    }
    (void)mpi_ok(rc < 0 && n == 101 && err.code == ERR_STATE, &err,
                 "but not 101 times in a row");
    free(was);
    close_world(&w);
}

static void test_warn(struct comm *c, struct job_spec spec)
{
    struct world w;
    struct agreed a;
    struct error err = ERROR_INIT;
    spec.train.on_nan = ON_NAN_WARN;
    if (!open_world(&w, c, &spec))
        return;
    ((double *)model_params(w.t.model))[0] = NAN;
    (void)mpi_ok(trainer_step(&w.t, &a, &err) == 0 && isnan(a.loss) &&
                     w.t.at.updates == 1 && w.t.at.loss_sum == 0 &&
                     w.t.at.counted == 0 && w.t.at.samples > 0,
                 &err, "warned, it goes on");
    close_world(&w);
}

static void test_fail(struct comm *c, const struct job_spec *spec)
{
    struct world w;
    struct agreed a;
    struct error err = ERROR_INIT;
    if (!open_world(&w, c, spec))
        return;
    ((double *)model_params(w.t.model))[0] = NAN;
    const struct model_plan *plan = model_planned(w.t.model);
    double *was = copy_of(&w);
    (void)mpi_ok(trainer_step(&w.t, &a, &err) < 0 && err.code == ERR_STATE &&
                     w.t.at.updates == 0,
                 &err, "without a word it fails");
    (void)mpi_ok(memcmp(was, model_params(w.t.model),
                        (size_t)plan->params * sizeof(double)) == 0,
                 NULL, "before the weights change");
    free(was);
    close_world(&w);
}

/* An evaluation sees the mean, and leaves the weights. */
static void test_mean(struct comm *c, struct job_spec spec)
{
    struct world w;
    struct agreed a;
    struct evaluation v = {.loss = 0}, plain = {.loss = 0};
    struct error err = ERROR_INIT;
    spec.train.ema.decay = 0.75;
    spec.train.lr_scheduler.num_warmup_steps = 0;
    if (!open_world(&w, c, &spec))
        return;
    int64_t n = model_planned(w.t.model)->params;
    const double *p = model_params(w.t.model);
    double *want = calloc((size_t)n, sizeof(double)), apart = 0;
    int rc = 0;
    for (int step = 0; step < 4 && rc == 0; step++) {
        rc = trainer_step(&w.t, &a, &err);
        for (int64_t i = 0; i < n; i++)
            want[i] = step == 0 ? p[i] : 0.75 * want[i] + 0.25 * p[i];
    }
    for (int64_t i = 0; i < n; i++)
        apart = fmax(apart, fabs(want[i] - ((double *)w.t.ema.mean)[i]));
    (void)mpi_ok(rc == 0 && apart < 1e-14, &err, "the mean of four steps");
    double *was = copy_of(&w);
    rc = trainer_evaluate(&w.t, &v, &a, &err);
    (void)mpi_ok(rc == 0 && is_same(&w, was), &err,
                 "an evaluation gives the weights back");
    struct ema shown = w.t.ema;
    w.t.ema = (struct ema){.dev = NULL};
    rc = trainer_evaluate(&w.t, &plain, &a, &err);
    w.t.ema = shown;
    (void)mpi_ok(rc == 0 && v.loss != plain.loss && isfinite(v.loss), &err,
                 "it is one of the mean, not of them");
    /* Put in by hand, the mean gives the same. */
    memcpy(model_params(w.t.model), w.t.ema.mean, (size_t)n * sizeof(double));
    memcpy(model_state(w.t.model), w.t.ema.state,
           (size_t)model_planned(w.t.model)->state * sizeof(double));
    w.t.ema = (struct ema){.dev = NULL};
    rc = trainer_evaluate(&w.t, &plain, &a, &err);
    w.t.ema = shown;
    (void)mpi_ok(rc == 0 && v.loss == plain.loss, &err, "to the last bit");
    free(want);
    free(was);
    close_world(&w);
}

int main(int argc, char **argv)
{
    mpi_tap_start(&argc, &argv);
    struct error err = ERROR_INIT;
    struct comm *c = NULL;
    struct job_spec spec = {.version = 0};
    if (mpi_ok(comm_mpi_create(NULL, &c, &err) == 0, &err, "comm") &&
        train_spec(&spec)) {
        spec.dataset.train_samples = 24 * mpi_size;
        test_skip(c, spec);
        test_warn(c, spec);
        test_fail(c, &spec);
        test_mean(c, spec);
    }
    spec_clear(&spec);
    if (c != NULL)
        c->ops->destroy(c);
    return mpi_tap_done();
}
