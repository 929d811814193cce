/* seam.c - the trainer with a model and data that are not those of images:
 * weights that differ from sample to sample and rank to rank, tokens, extra
 * values of an iteration, and a model without a state.
 *
 * MobileNetV2 and its source, with some of their operations replaced. */
#include <math.h>

#include "jobs/base/buf.h"
#include "jobs/wire/metric_rows.h"
#include "tests/mpi/train.h"

static volatile sig_atomic_t none;

/* ---- the replaced operations ---------------------------------------------
 */

static struct model_ops model_ops;
static const struct model_ops *model_real;
static struct model_plan plan;
static struct batch_source_ops source_ops;
static const struct batch_source_ops *source_real;
static struct batch_info info;

static double sample_weight;    /* what the source says */
static double loss_sum, weight; /* of this rank's passes so far */

static const char *const values[] = {"half_loss", "one", NULL};

static int result(struct model *m, const struct batch *b,
                  struct model_result *ret, struct error *err)
{
    if (model_real->result(m, b, ret, err) < 0)
        return -1;
    ret->values[0] = ret->loss_sum / 2;
    ret->values[1] = b->weight;
    loss_sum += ret->loss_sum;
    weight += b->weight;
    return 0;
}

static const struct model_plan *planned(const struct model *m)
{
    plan = *model_real->planned(m);
    plan.state = 0;
    return &plan;
}

static void *state(struct model *m)
{
    (void)m;
    return NULL;
}

/* Rank r's samples have a weight of 3 + r, and so many tokens. */
static int take(struct batch_source *s, enum batch_part part, int32_t i,
                struct batch *ret, struct error *err)
{
    if (source_real->take(s, part, i, ret, err) < 0)
        return -1;
    ret->weight = ret->valid * (3.0 + mpi_rank);
    ret->tokens = 10 * (int64_t)ret->valid;
    return 0;
}

static const struct batch_info *info_of(const struct batch_source *s)
{
    info = *source_real->info(s);
    info.sample_weight = sample_weight;
    return &info;
}

static int open_data(const struct batch_env *env, struct batch_source **ret,
                     struct error *err)
{
    if (mobilenet_kind.open_data(env, ret, err) < 0)
        return -1;
    source_real = (*ret)->ops;
    source_ops = *source_real;
    source_ops.take = take;
    source_ops.info = info_of;
    (*ret)->ops = &source_ops;
    return 0;
}

static int plan_of(const struct job_spec *spec, enum dtype dt,
                   const struct batch_info *data, int32_t ranks,
                   struct model_plan *ret, struct error *err)
{
    if (mobilenet_kind.plan(spec, dt, data, ranks, ret, err) < 0)
        return -1;
    ret->state = 0;
    return 0;
}

static int create(struct device *d, struct comm *comm,
                  const struct job_spec *spec, enum dtype dt,
                  const struct batch_info *data, struct model **ret,
                  struct error *err)
{
    if (mobilenet_kind.create(d, comm, spec, dt, data, ret, err) < 0)
        return -1;
    model_real = (*ret)->ops;
    model_ops = *model_real;
    model_ops.values = values;
    model_ops.result = result;
    model_ops.planned = planned;
    model_ops.state = state;
    (*ret)->ops = &model_ops;
    return 0;
}

static const struct model_kind odd = {.name = "odd",
                                      .too_large = "lower it",
                                      .open_data = open_data,
                                      .plan = plan_of,
                                      .create = create};

/* ---- tests ---------------------------------------------------------------
 */

struct world {
    struct trainer t;
    struct train_rig rig;
};

/* With said 0: the images themselves. */
static bool open_world(struct world *w, struct comm *c,
                       const struct job_spec *spec, double said)
{
    struct error err = ERROR_INIT;
    sample_weight = said;
    loss_sum = weight = 0;
    int rc = train_rig_open(&w->rig, c, spec, &none, &none, &err);
    w->rig.env.kind = said > 0 ? &odd : &mobilenet_kind;
    rc = rc < 0 ? rc : trainer_open(&w->t, &w->rig.env, &err);
    return mpi_ok(rc == 0, &err, "open");
}

static void close_world(struct world *w)
{
    trainer_close(&w->t);
    train_rig_close(&w->rig);
}

static double over_ranks(double x)
{
    (void)MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_SUM,
                        MPI_COMM_WORLD);
    return x;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fabs(b);
}

/* The rows that the rank has in its spool. */
static int32_t read_rows(const char *dir, struct metric_row *ret, int32_t cap,
                         struct error *err)
{
    struct buf b = BUF_INIT;
    char path[128];
    int32_t rows = 0;
    (void)snprintf(path, sizeof(path), "%s/spool.%d", dir, mpi_rank);
    int rc = buf_read_file(&b, path, 1 << 20, err);
    for (const char *at = buf_str(&b); rc == 0 && *at != '\0' && rows < cap;) {
        size_t len = strcspn(at, "\n"), n = 0;
        rc = metric_line_decode(at, len, mpi_rank, &ret[rows], 1, &n, err);
        rows += (int32_t)n;
        at += len + (at[len] == '\n');
    }
    buf_clear(&b);
    return rc < 0 ? -1 : rows;
}

static void test_rows(const struct world *w, const struct agreed *a)
{
    enum { ROWS = 16 };
    static struct metric_row row[ROWS];
    struct error err = ERROR_INIT;
    int32_t n = read_rows(w->rig.dir, row, ROWS, &err), named = 0;
    int64_t tokens = -1;
    for (int32_t i = 0; i < n; i++) {
        const struct metric_value *v = &row[i].value;
        if (row[i].kind == METRIC_ITERATION)
            tokens = row[i].iteration.tokens;
        if (row[i].kind == METRIC_VALUE && v->iteration == 1)
            named += (strcmp(v->name, "half_loss") == 0 &&
                      v->value == a->values[0]) ||
                     (strcmp(v->name, "one") == 0 && v->value == 1);
    }
    (void)mpi_ok(n > 0 && tokens == 10 * 4 * 2, &err,
                 "an iteration's tokens are those of both its batches");
    (void)mpi_ok(named == (mpi_rank == 0 ? 2 : 0), &err,
                 "rank 0 reports the extra values");
}

/* Two steps; the weights behind them, which the caller frees. */
static double *train(struct comm *c, const struct job_spec *spec, double said,
                     bool looks)
{
    struct world w;
    struct agreed a = {.loss = 0};
    struct error err = ERROR_INIT;
    if (!open_world(&w, c, spec, said))
        exit(1);
    size_t bytes = (size_t)model_planned(w.t.model)->params * sizeof(double);
    double *p = malloc(bytes);
    int rc = trainer_step(&w.t, &a, &err);
    double all = over_ranks(weight), mean = over_ranks(loss_sum) / all;
    if (looks) {
        (void)mpi_ok(rc == 0 && near(a.loss, mean) && near(a.weight, all), &err,
                     "the loss is the mean over the weight of all ranks");
        (void)mpi_ok(a.samples == 8 * mpi_size &&
                         (double)w.t.at.samples == a.samples,
                     NULL, "samples are counted as samples");
        (void)mpi_ok(w.t.at.tokens == 10 * w.t.at.samples, NULL,
                     "tokens of all ranks as tokens");
        (void)mpi_ok(near(a.values[0], mean / 2) && near(a.values[1], 1), NULL,
                     "extra values are averaged as the loss is");
        test_rows(&w, &a);
    }
    rc = rc < 0 ? rc : trainer_step(&w.t, &a, &err);
    (void)mpi_ok(rc == 0 && w.t.at.updates == 2, &err, "two steps");
    memcpy(p, model_params(w.t.model), bytes);
    close_world(&w);
    return p;
}

static double most_apart(const struct job_spec *spec, const double *a,
                         const double *b)
{
    const struct batch_info data = {.classes = 10};
    struct model_plan all = {.params = 0};
    struct error err = ERROR_INIT;
    double apart = 0, most = 0;
    (void)mpi_ok(mobilenet_kind.plan(spec, DT_F64, &data, 1, &all, &err) == 0,
                 &err, "plan");
    for (int64_t i = 0; i < all.params; i++) {
        apart = fmax(apart, fabs(a[i] - b[i]));
        most = fmax(most, fabs(a[i]));
    }
    return apart / most;
}

/* All samples with the weight of 1 have a gradient that is larger by the mean
 * weight, which a smaller rate makes up for. */
static void test_weights(struct comm *c, struct job_spec spec)
{
    double *a = train(c, &spec, 1, true), *b = train(c, &spec, 4, false);
    (void)mpi_ok(most_apart(&spec, a, b) <= 1e-12, NULL,
                 "the update does not depend on the weight a sample is said "
                 "to have");
    free(b);
    if (mpi_size == 1) {
        spec.train.optimizer.lr /= 3;
        b = train(c, &spec, 0, false);
        (void)mpi_ok(most_apart(&spec, a, b) <= 1e-12, NULL,
                     "it is that of the mean over the weight");
        free(b);
    }
    free(a);
}

/* Rank 0's rows of epochs: ten tokens for each sample. */
static void test_epochs(const char *dir, int32_t epochs)
{
    enum { ROWS = 128 };
    static struct metric_row row[ROWS];
    struct error err = ERROR_INIT;
    int32_t n = read_rows(dir, row, ROWS, &err), seen = 0;
    for (int32_t i = 0; i < n; i++)
        seen +=
            row[i].kind == METRIC_EPOCH &&
            near(row[i].epoch.tokens_per_s, 10 * row[i].epoch.samples_per_s);
    (void)mpi_ok(n > 0 && n < ROWS && seen == (mpi_rank == 0 ? epochs : 0),
                 &err, "an epoch has the tokens of all ranks per second");
}

/* From the data to the last checkpoint, and on from there. */
static void test_whole(struct comm *c, struct job_spec spec)
{
    struct train_rig rig;
    struct train_result r = {.end = TRAIN_STOPPED};
    char dir[80];
    struct error err = ERROR_INIT;
    spec.train.on_nan = ON_NAN_SKIP;
    spec.train.ema.decay = 0.5;
    int rc = train_rig_open(&rig, c, &spec, &none, &none, &err);
    rig.env.kind = &odd;
    (void)snprintf(dir, sizeof(dir), "%s/ckpt", rig.dir);
    rig.env.ckpt_dir = dir;
    rc = rc < 0 ? rc : trainer_run(&rig.env, &r, &err);
    (void)mpi_ok(rc == 0 && r.end == TRAIN_DONE && isfinite(r.eval_accuracy),
                 &err, "a model without a state trains");
    test_epochs(rig.dir, spec.train.epochs);
    int64_t iteration = r.iteration;
    spec.train.epochs++;
    rc = rc < 0 ? rc : trainer_run(&rig.env, &r, &err);
    (void)mpi_ok(rc == 0 && r.end == TRAIN_DONE && r.iteration > iteration,
                 &err, "and goes on from its checkpoint");
    train_rig_close(&rig);
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
        spec.train.gradient_accumulation_steps = 2;
        spec.train.lr_scheduler.num_warmup_steps = 0;
        spec.train.optimizer.weight_decay = 0;
        spec.train.optimizer.lr = 1e-3;
        test_weights(c, spec);
        test_whole(c, spec);
    }
    spec_clear(&spec);
    if (c != NULL)
        c->ops->destroy(c);
    return mpi_tap_done();
}
