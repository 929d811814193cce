/* train.c - a run that is stopped and resumed is the run that was not: the
 * same losses to the last bit, at every iteration, and the same model, byte
 * by byte - in mid-epoch, at an epoch's end, and from an older checkpoint
 * when the newest is damaged. */
#include <inttypes.h>
#include <math.h>

#include "tests/unit/worker/daemon.h"

#include "tests/mpi/trace.h" /* after it: a variable is called stop */

static bool same_file(const char *a_dir, const char *b_dir, int64_t step,
                      const char *name)
{
    struct buf a = BUF_INIT, b = BUF_INIT;
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/ckpt/step-%" PRId64 "/%s", a_dir,
                   step, name);
    int rc = buf_read_file(&a, path, 1 << 26, NULL);
    (void)snprintf(path, sizeof(path), "%s/ckpt/step-%" PRId64 "/%s", b_dir,
                   step, name);
    rc |= buf_read_file(&b, path, 1 << 26, NULL);
    bool same = rc == 0 && a.len > 100000 && a.len == b.len &&
                memcmp(a.data, b.data, a.len) == 0;
    buf_clear(&a);
    buf_clear(&b);
    return same;
}

static bool has_step(const char *dir, int64_t step)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/ckpt/step-%" PRId64, dir, step);
    return access(path, F_OK) == 0;
}

/* Rank 0 changes one byte in the middle of a file. */
static void damage(const char *dir, int64_t step)
{
    char path[160];
    (void)MPI_Barrier(MPI_COMM_WORLD);
    (void)snprintf(path, sizeof(path),
                   "%s/ckpt/step-%" PRId64 "/model.safetensors", dir, step);
    FILE *f = mpi_rank == 0 ? fopen(path, "r+b") : NULL;
    if (f != NULL && fseek(f, 100000, SEEK_SET) == 0) {
        int c = fgetc(f);
        (void)fseek(f, 100000, SEEK_SET);
        (void)fputc(c ^ 1, f);
    }
    if (f != NULL)
        (void)fclose(f);
    (void)MPI_Barrier(MPI_COMM_WORLD);
}

struct whole {
    char dir[64];
    struct trace trace;
    struct train_result result;
};

static void test_stopped(struct comm *c, const struct job_spec *spec,
                         const struct whole *w, int at)
{
    char dir[64], want[80];
    struct trace t = {.n = 0};
    struct train_result r = {.end = TRAIN_DONE};
    train_dir(dir);
    (void)mpi_ok(run(c, spec, dir, at, &r, &t) == 0 && r.end == TRAIN_STOPPED &&
                     r.iteration == at && t.n == at,
                 NULL, "every rank stops at the same iteration");
    (void)snprintf(want, sizeof(want),
                   "stopped by signal, checkpoint at iteration %d", at);
    (void)mpi_ok(strcmp(r.why, want) == 0, NULL, want);
    (void)mpi_ok(run(c, spec, dir, 0, &r, &t) == 0 && r.end == TRAIN_DONE, NULL,
                 "resumed, it ends");
    (void)mpi_ok(same_trace(&t, &w->trace), NULL,
                 "with the losses of the run that was not stopped");
    (void)mpi_ok(r.eval_accuracy == w->result.eval_accuracy, NULL,
                 "its accuracy");
    (void)mpi_ok(
        same_file(dir, w->dir, r.iteration, "model.safetensors") &&
            same_file(dir, w->dir, r.iteration, "train/optim.safetensors"),
        NULL, "and its model");
    int64_t all = r.iteration;
    (void)mpi_ok(run(c, spec, dir, 0, &r, &t) == 0 && r.end == TRAIN_DONE &&
                     r.iteration == all,
                 NULL, "resumed at the end, it has nothing to do");
    train_remove(dir);
}

/* A run without a daemon draws a seed each time. */
static void test_seed(struct comm *c, const struct job_spec *spec,
                      const struct whole *w, int at)
{
    char dir[64];
    struct trace t = {.n = 0};
    struct train_result r;
    struct job_spec drawn = *spec;
    drawn.train.seed = 99;
    train_dir(dir);
    (void)mpi_ok(run(c, spec, dir, at, &r, &t) == 0 &&
                     run(c, &drawn, dir, 0, &r, &t) == 0 &&
                     same_trace(&t, &w->trace),
                 NULL, "resumed with another seed, it keeps its own");
    train_remove(dir);
}

/* Stopped after an epoch of two batches, the second of which is small. */
static void test_batch(struct comm *c, const struct job_spec *spec, int total)
{
    char dir[64];
    struct trace t = {.n = 0};
    struct train_result r;
    struct job_spec large = *spec;
    large.train.batch_size = 32 / mpi_size;
    train_dir(dir);
    (void)mpi_ok(run(c, &large, dir, 2, &r, &t) == 0 && r.iteration == 2 &&
                     run(c, spec, dir, 0, &r, &t) == 0 && r.iteration == total,
                 NULL, "resumed with a smaller batch, an epoch is no longer");
    train_remove(dir);
}

/* Two checkpoints of a first run; the newer is damaged. */
static void test_damaged(struct comm *c, const struct job_spec *spec,
                         const struct whole *w, int epoch)
{
    char dir[64];
    struct trace t = {.n = 0};
    struct train_result r;
    int at = epoch + 2;
    train_dir(dir);
    (void)mpi_ok(run(c, spec, dir, at, &r, &t) == 0 && has_step(dir, epoch) &&
                     has_step(dir, at),
                 NULL, "a checkpoint per epoch, and one at the signal");
    damage(dir, at);
    memset(&t.loss[at], 0, sizeof(double)); /* done again below */
    (void)mpi_ok(run(c, spec, dir, 1, &r, &t) == 0 &&
                     r.iteration == epoch + 1 && !has_step(dir, at),
                 NULL, "the one before is taken, the damaged one goes");
    (void)mpi_ok(run(c, spec, dir, 0, &r, &t) == 0 && same_trace(&t, &w->trace),
                 NULL, "and the losses are the same");
    (void)mpi_ok(has_step(dir, r.iteration) && !has_step(dir, epoch), NULL,
                 "two are kept");
    train_remove(dir);
}

static void test_nan(struct comm *c, const struct job_spec *spec)
{
    struct job_spec wild = *spec;
    struct error err = ERROR_INIT;
    struct train_result r;
    struct train_rig rig;
    wild.train.optimizer.lr = 1e300;
    stop = 0;
    int rc = train_rig_open(&rig, c, &wild, &stop, &save, &err);
    rc = rc < 0 ? 0 : trainer_run(&rig.env, &r, &err);
    (void)mpi_ok(rc < 0 && err.code == ERR_STATE &&
                     strstr(err.msg, "the loss is not a number") != NULL,
                 &err, "a loss that is no number ends the run on every rank");
    train_rig_close(&rig);
}

/* What else a step leaves: the arrays of a centered RMSprop, a mean of the
 * weights, batches that are added up. */
static void test_state(struct comm *c, const struct job_spec *spec)
{
    struct whole w = {.trace = {.n = 0}};
    struct job_spec more = *spec;
    more.train.optimizer.name = OPTIM_RMSPROP;
    more.train.optimizer.lr = 1e-3;
    more.train.optimizer.eps = 1e-3;
    more.train.optimizer.alpha = 0.9;
    more.train.optimizer.centered = true;
    more.train.ema.decay = 0.9;
    more.train.clip_grad_norm = 1;
    more.train.gradient_accumulation_steps = 2;
    train_dir(w.dir);
    if (mpi_ok(run(c, &more, w.dir, 0, &w.result, &w.trace) == 0, NULL,
               "a run with more state")) {
        test_stopped(c, &more, &w, 1);
        test_stopped(c, &more, &w, (int)w.result.iteration - 1);
    }
    train_remove(w.dir);
}

/* With the 4 rows that the last norms have in the other tests, or 2, a variance
 * can be nearly 0, and a gradient too large for fp16: 10 rows on every rank. */
static struct job_spec half_spec(const struct job_spec *spec,
                                 enum spec_precision precision, bool mixed)
{
    struct job_spec s = *spec;
    s.dataset.train_samples = 60;
    s.train.batch_size = 10;
    s.train.precision = precision;
    s.train.mixed = mixed;
    s.train.ema.decay = mixed ? 0.9 : 0;
    return s;
}

/* In 16 bits, all or with fp32 weights: what a checkpoint keeps of them is
 * every bit, of the loss scale, too. */
static void test_precision(struct comm *c, const struct job_spec *spec,
                           enum spec_precision precision, bool mixed)
{
    struct whole w = {.trace = {.n = 0}};
    struct job_spec half = half_spec(spec, precision, mixed);
    train_dir(w.dir);
    if (mpi_ok(run(c, &half, w.dir, 0, &w.result, &w.trace) == 0, NULL,
               precision == PRECISION_FP16 ? "a run in fp16" : "a run in bf16"))
        test_stopped(c, &half, &w, 3);
    train_remove(w.dir);
}

/* A scale that makes every gradient infinite: such iterations change
 * nothing, and halve it. */
static void test_overflow(struct comm *c, const struct job_spec *spec,
                          double fits, double *ret_moved)
{
    struct error err = ERROR_INIT;
    struct trainer t;
    struct train_rig rig;
    struct agreed a = {.stop = false};
    struct job_spec s = half_spec(spec, PRECISION_FP16, true);
    stop = 0;
    int rc = train_rig_open(&rig, c, &s, &stop, &save, &err);
    rc = rc < 0 ? rc : trainer_open(&t, &rig.env, &err);
    if (mpi_ok(rc == 0 && t.at.loss_scale.scale == 65536, &err, "open")) {
        t.at.loss_scale.scale = 0x1p40;
        rc = trainer_step(&t, &a, &err);
        (void)mpi_ok(rc == 0 && t.at.loss_scale.scale == 0x1p39 &&
                         t.at.updates == 0 && t.at.iteration == 1 &&
                         isfinite(a.loss),
                     &err, "an overflow is left out, the scale is halved");
        float *w = t.mixed.weights, before = w[0];
        t.at.loss_scale.scale = fits;
        rc = rc < 0 ? rc : trainer_step(&t, &a, &err);
        *ret_moved = fabs((double)(w[0] - before));
        (void)mpi_ok(rc == 0 && t.at.updates == 1 &&
                         t.at.loss_scale.scale == fits &&
                         t.at.loss_scale.good_steps == 1,
                     &err, "one that fits changes the weights");
        trainer_close(&t);
    }
    train_rig_close(&rig);
}

/* A second passes with each look at it, for rank 0 alone. */
static double ticking_now(const struct clock *c)
{
    static double now_s;
    (void)c;
    return mpi_rank == 0 ? ++now_s : 0;
}

static bool is_best(const char *dir)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/ckpt/best/train/state.json", dir);
    return access(path, F_OK) == 0;
}

static void remove_best(const char *dir)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/ckpt", dir);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    if (mpi_rank == 0)
        (void)checkpoint_remove(path, CKPT_BEST, "", NULL);
}

/* By iterations, by epochs, by the clock of rank 0; and the best. */
static void test_every(struct comm *c, const struct job_spec *spec, int total)
{
    static char steps[] = "2steps", epochs[] = "3epochs", time[] = "1h";
    char dir[64];
    struct trace t = {.n = 0};
    struct train_result r;
    struct job_spec s = *spec;
    s.checkpoint.keep_last = 100;
    s.checkpoint.every = steps;
    train_dir(dir);
    bool right = run(c, &s, dir, 0, &r, &t) == 0;
    for (int i = 1; i <= total; i++)
        right = right && has_step(dir, i) == (i % 2 == 0 || i == total);
    (void)mpi_ok(right && !is_best(dir), NULL, "every second iteration");
    /* And one more at the end, whose iteration may have one. */
    (void)mpi_ok(t.saves == (mpi_rank == 0 ? total / 2 + 1 : 0), NULL,
                 "rank 0 says when it writes one, and when it has");
    train_remove(dir);
    s.checkpoint.every = epochs;
    s.checkpoint.keep_best = true;
    s.checkpoint.metric = METRIC_EVAL_LOSS;
    train_dir(dir);
    right = run(c, &s, dir, 0, &r, &t) == 0;
    for (int i = 1; i <= total; i++)
        right = right && has_step(dir, i) == (i == total);
    (void)mpi_ok(right && is_best(dir), NULL,
                 "every third epoch of two: at the end");
    (void)mpi_ok(t.saves >= (mpi_rank == 0 ? 2 : 0), NULL, "of the best, too");
    remove_best(dir);
    train_remove(dir);
    s.checkpoint.every = time;
    s.checkpoint.keep_best = false;
    train_dir(dir);
    right = run(c, &s, dir, 0, &r, &t) == 0;
    for (int i = 1; i <= total; i++)
        right = right && has_step(dir, i) == (i == total);
    (void)mpi_ok(right, NULL, "not an hour yet");
    train_remove(dir);
}

/* Rank 0's clock decides for all. */
static void test_clock(struct comm *c, const struct job_spec *spec)
{
    static char time[] = "5s";
    static const struct clock ticking = {.now_s = ticking_now,
                                         .wall_s = counting_wall};
    struct error err = ERROR_INIT;
    struct trainer t;
    struct train_rig rig;
    struct agreed a = {.stop = false};
    struct job_spec s = *spec;
    s.checkpoint.every = time;
    stop = 0;
    stop_at = 0;
    int rc = train_rig_open(&rig, c, &s, &stop, &save, &err);
    rig.env.clock = &ticking;
    rc = rc < 0 ? rc : trainer_open(&t, &rig.env, &err);
    if (mpi_ok(rc == 0, &err, "open")) {
        t.saved_s = mpi_rank == 0 ? ticking_now(NULL) : 0;
        rc = trainer_step(&t, &a, &err);
        (void)mpi_ok(rc == 0 && a.save, &err,
                     "the clock of rank 0 wants a checkpoint, so all do");
        t.saved_s = mpi_rank == 0 ? ticking_now(NULL) + 1e6 : 0;
        rc = trainer_step(&t, &a, &err);
        (void)mpi_ok(rc == 0 && !a.save, &err, "not before its time");
        trainer_close(&t);
    }
    train_rig_close(&rig);
}

/* The daemon refuses rank 0's heartbeat: all ranks stop, at the same
 * iteration, and leave no checkpoint to whoever holds the lease now. */
static void test_fenced(struct comm *c, const struct job_spec *spec)
{
    struct job_spec longer = *spec;
    struct error err = ERROR_INIT;
    struct train_result r = {.end = TRAIN_DONE};
    struct reporter *reporter = NULL;
    struct daemon d;
    char dir[64], ckpt[80];
    train_dir(dir);
    (void)snprintf(ckpt, sizeof(ckpt), "%s/ckpt", dir);
    longer.train.epochs = 10000;
    longer.train.max_steps_per_epoch = 0;
    daemon_init(&d, false);
    d.mode = DAEMON_FENCES;
    daemon_up(&d);
    struct report_conf conf = {.url = mpi_rank == 0 ? d.url : "",
                               .token = "0",
                               .dir = dir,
                               .rank = mpi_rank,
                               .heartbeat_s = 0.05,
                               .period_s = 0.05};
    struct train_env env = {.spec = &longer,
                            .kind = &mobilenet_kind,
                            .ckpt_dir = ckpt,
                            .comm = c,
                            .clock = &clock_real,
                            .stop = &stop,
                            .save = &save};
    stop = 0;
    int rc = reporter_create(&conf, &reporter, &err);
    env.reporter = reporter;
    rc = rc < 0 ? rc : trainer_run(&env, &r, &err);
    (void)mpi_ok(rc == 0 && r.end == TRAIN_FENCED, &err,
                 "a fenced attempt stops on every rank");
    (void)mpi_ok(mpi_rank != 0 || strstr(r.why, "attempt 2") != NULL, &err,
                 "rank 0 says what the daemon said");
    reporter_destroy(reporter);
    daemon_clear(&d);
    train_remove(dir);
}

/* A signal to one rank, in the middle of an evaluation. */
static void test_evaluation(struct comm *c, const struct job_spec *spec)
{
    struct error err = ERROR_INIT;
    struct trainer t;
    struct train_rig rig;
    struct agreed a = {.stop = false};
    struct evaluation v = {.loss = -1, .accuracy = -1};
    int rc = train_rig_open(&rig, c, spec, &stop, &save, &err);
    stop = mpi_rank == mpi_size - 1 ? SIGTERM : 0;
    rc = rc < 0 ? rc : trainer_open(&t, &rig.env, &err);
    if (mpi_ok(rc == 0, &err, "open")) {
        rc = trainer_evaluate(&t, &v, &a, &err);
        (void)mpi_ok(rc == 0 && a.stop && !a.fenced && v.loss < 0 &&
                         v.accuracy < 0,
                     &err, "a signal ends an evaluation on every rank");
        stop = 0;
        rc = trainer_evaluate(&t, &v, &a, &err);
        (void)mpi_ok(rc == 0 && !a.stop && v.loss > 0 && v.accuracy >= 0, &err,
                     "without one it ends with a result");
        trainer_close(&t);
    }
    train_rig_close(&rig);
}

/* A device that copies while the CPU goes on, as a GPU does from pinned
 * memory. Nothing else takes time there. */
static struct device_ops late;
static const struct device_ops *prompt;
static struct clock_virtual copy_clock;
static bool is_copying;

static int late_to_device(struct device *d, void *dst, const void *src,
                          size_t bytes, struct error *err)
{
    is_copying = true;
    return prompt->to_device(d, dst, src, bytes, err);
}

static int late_sync(struct device *d, struct error *err)
{
    if (is_copying)
        copy_clock.t_s += 0.25;
    is_copying = false;
    return prompt->sync(d, err);
}

static void test_copy(struct comm *c, const struct job_spec *spec)
{
    struct error err = ERROR_INIT;
    struct trainer t;
    struct train_rig rig;
    struct agreed a;
    struct buf b = BUF_INIT;
    struct metric_row row = {.kind = METRIC_VALUE};
    char path[128];
    size_t n = 0;
    stop = 0;
    clock_virtual_init(&copy_clock, 0, 1e9);
    int rc = train_rig_open(&rig, c, spec, &stop, &save, &err);
    rig.env.clock = &copy_clock.base;
    rc = rc < 0 ? rc : trainer_open(&t, &rig.env, &err);
    if (mpi_ok(rc == 0, &err, "open")) {
        prompt = t.dev->ops;
        late = *prompt;
        late.to_device = late_to_device;
        late.sync = late_sync;
        t.dev->ops = &late;
        t.dev->host_memory = false;
        rc = trainer_step(&t, &a, &err);
        t.dev->host_memory = true;
        t.dev->ops = prompt;
        (void)snprintf(path, sizeof(path), "%s/spool.%d", rig.dir, mpi_rank);
        rc = rc < 0 ? rc : buf_read_file(&b, path, 1 << 20, &err);
        rc = rc < 0
                 ? rc
                 : metric_line_decode(buf_str(&b), strcspn(buf_str(&b), "\n"),
                                      mpi_rank, &row, 1, &n, &err);
        (void)mpi_ok(rc == 0 && n == 1 && row.iteration.t_h2d >= 0.25 &&
                         row.iteration.t_forward == 0,
                     &err, "the time of the copy is not the forward pass's");
        const struct model_plan *p = model_planned(t.model);
        (void)mpi_ok(row.iteration.gpu_mem_bytes >
                         p->bytes_total + p->params * (int64_t)sizeof(double),
                     NULL, "the memory is that of the optimizer too");
        buf_clear(&b);
        trainer_close(&t);
    }
    train_rig_close(&rig);
}

int main(int argc, char **argv)
{
    mpi_tap_start(&argc, &argv);
    struct error err = ERROR_INIT;
    struct comm *c = NULL;
    struct job_spec spec = {.version = 0};
    struct whole w = {.trace = {.n = 0}};
    train_dir(w.dir);
    if (mpi_ok(comm_mpi_create(NULL, &c, &err) == 0, &err, "comm") &&
        train_spec(&spec) &&
        mpi_ok(run(c, &spec, w.dir, 0, &w.result, &w.trace) == 0, NULL,
               "a run that nobody stops")) {
        int total = (int)w.result.iteration, epoch = total / 2;
        (void)mpi_ok(w.trace.n == total && total % 2 == 0 &&
                         w.result.end == TRAIN_DONE,
                     NULL, "each iteration left its row");
        test_stopped(c, &spec, &w, 1);
        test_stopped(c, &spec, &w, epoch);
        test_stopped(c, &spec, &w, epoch + 3);
        test_seed(c, &spec, &w, 3);
        test_batch(c, &spec, total);
        test_damaged(c, &spec, &w, epoch);
        test_evaluation(c, &spec);
        test_copy(c, &spec);
        test_nan(c, &spec);
        test_state(c, &spec);
        test_precision(c, &spec, PRECISION_FP16, false);
        test_precision(c, &spec, PRECISION_BF16, false);
        test_precision(c, &spec, PRECISION_FP16, true);
        test_precision(c, &spec, PRECISION_BF16, true);
        double by_16 = 0, by_4 = 0;
        test_overflow(c, &spec, 16, &by_16);
        test_overflow(c, &spec, 4, &by_4);
        (void)mpi_ok(by_16 > 0 && fabs(by_4 / by_16 - 1) < 0.05, NULL,
                     "what is scaled is scaled back");
        test_every(c, &spec, total);
        test_clock(c, &spec);
        test_fenced(c, &spec);
    }
    train_remove(w.dir);
    spec_clear(&spec);
    if (c != NULL)
        c->ops->destroy(c);
    return mpi_tap_done();
}
