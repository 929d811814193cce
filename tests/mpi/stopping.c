/* stopping.c - what ends a training before its last epoch, and one that only
 * evaluates: on every rank at the same iteration, after a signal and on another
 * number of ranks as without. With $MGPU_TEST_ALL, which .ci/nightly sets, of
 * one method more. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>

#include "tests/mpi/trace.h"
#include "worker/train/trainer_position.h"

enum { EPOCHS = 3 };

static bool says(const struct train_result *r, const char *want)
{
    if (strcmp(r->why, want) == 0)
        return true;
    tap_diag("%s", r->why);
    return false;
}

static bool has_step(const char *dir, int64_t step)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/ckpt/step-%" PRId64, dir, step);
    return access(path, F_OK) == 0;
}

/* ---- kind cv ---------------------------------------------------------------
 */
static bool open_cv(struct job_spec *ret)
{
    if (!train_spec(ret))
        return false;
    ret->dataset.train_samples = 24;
    ret->dataset.eval_samples = 9;
    ret->train.epochs = EPOCHS;
    ret->train.batch_size = 2;
    ret->train.global_batch_size = 4; /* 6 iterations an epoch */
    ret->train.lr_scheduler.name = SCHEDULE_CONSTANT;
    return true;
}

/* Nothing improves by so much, but the first value. */
static void never_improves(struct job_spec *s, enum spec_watched metric)
{
    s->train.early_stopping = (struct spec_early_stopping){
        .metric = metric, .patience = 2, .min_delta = 1e9};
}

/* On 2 ranks and on 1, stopped by a signal in between. */
static int run_way(const struct job_spec *spec, const char *dir, int at,
                   struct train_result *r, struct trace *t)
{
    const int most = mpi_size < 2 ? mpi_size : 2;
    *r = (struct train_result){.iteration = -1};
    int rc = run_on(most, spec, dir, at, r, t);
    return rc < 0 || at == 0 ? rc : run_on(1, spec, dir, 0, r, t);
}

static void test_limit(struct job_spec *spec)
{
    struct trace whole = {.n = 0}, t = {.n = 0};
    struct train_result r;
    char dir[64], other[64];
    train_dir(dir);
    int rc = run_way(spec, dir, 0, &r, &whole);
    train_remove(dir);
    spec->train.max_iterations = 8;
    train_dir(dir);
    rc = rc < 0 ? rc : run_way(spec, dir, 3, &r, &t);
    (void)mpi_ok(mpi_rank > 0 ||
                     (rc == 0 && r.end == TRAIN_DONE && r.iteration == 8 &&
                      t.n == 8 && has_step(dir, 8)),
                 NULL, "train.max_iterations ends a job inside an epoch");
    (void)mpi_ok(mpi_rank > 0 ||
                     says(&r, "train.max_iterations: 8, in epoch 2 of 3"),
                 NULL, "  and says so");
    (void)mpi_ok(mpi_rank > 0 || (isfinite(r.eval_accuracy) &&
                                  t.eval_loss[2] > 0 && t.epoch_loss[2] > 0),
                 NULL, "  with an evaluation");
    rc = rc < 0 ? rc : run_on(1, spec, dir, 0, &r, &t);
    (void)mpi_ok(mpi_rank > 0 || (rc == 0 && r.iteration == 8 && t.n == 8),
                 NULL, "resumed there, it trains nothing");
    /* Another job goes on from it, with more iterations. */
    train_dir(other);
    spec->train.max_iterations = 0;
    spec->train.resume_from = dir;
    rc = rc < 0 ? rc : run_way(spec, other, 0, &r, &t);
    (void)mpi_ok(
        mpi_rank > 0 ||
            (rc == 0 && r.iteration == 18 && r.why[0] == '\0' &&
             memcmp(&t.loss[1], &whole.loss[1], 18 * sizeof(double)) == 0),
        NULL, "with more iterations it goes on with the same losses");
    spec->train.max_iterations = 18;
    spec->train.resume_from = other;
    char third[64];
    train_dir(third);
    rc = run_on(1, spec, third, 0, &r, &t);
    (void)mpi_ok(mpi_rank > 0 || rc < 0, NULL,
                 "with as many as it has, it is refused");
    train_remove(third);
    spec->train.max_iterations = 0;
    spec->train.resume_from = NULL;
    train_remove(other);
    train_remove(dir);
}

/* Without a global batch size an iteration of twice the batch is counted as
 * two in the epoch, but it is one iteration that was done. */
static void test_done(struct job_spec *spec)
{
    const int32_t was = spec->train.global_batch_size;
    struct trace t = {.n = 0};
    struct train_result r = {.iteration = -1};
    char dir[64];
    train_dir(dir);
    spec->train.max_iterations = 8;
    int rc = run_on(1, spec, dir, 4, &r, &t);
    spec->train.global_batch_size = 2 * was;
    rc = rc < 0 ? rc : run_on(1, spec, dir, 0, &r, &t);
    /* 4 of 6 in the epoch are 2 of 3; 4 more are left. */
    (void)mpi_ok(mpi_rank > 0 ||
                     (rc == 0 && r.end == TRAIN_DONE && r.iteration == 6),
                 NULL, "another global batch does not set the count back");
    spec->train.max_iterations = 0;
    spec->train.global_batch_size = was;
    train_remove(dir);
}

/* The learning rate ends where the job does. */
static void test_rate(struct job_spec *spec)
{
    static const struct {
        int64_t done;
        double factor;
    } rows[] = {{0, 1}, {4, 0.5}, {8, 0}};
    struct trainer t = {.spec = spec, .batches = 6, .at = {.epoch = 1}};
    bool right = true;
    spec->train.lr_scheduler.name = SCHEDULE_COSINE;
    spec->train.lr_scheduler.num_warmup_steps = 0;
    spec->train.max_iterations = 8;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        t.at.done = rows[i].done;
        t.at.iteration = rows[i].done / 2; /* of twice the batch */
        trainer_position_limit(&t);
        right =
            right && fabs(trainer_lr(&t) -
                          rows[i].factor * spec->train.optimizer.lr) < 1e-15;
    }
    (void)mpi_ok(right && t.is_cut, NULL, "cosine ends at the limit");
    spec->train.max_iterations = 0;
    spec->train.lr_scheduler.name = SCHEDULE_CONSTANT;
}

static void test_early(struct job_spec *spec, enum spec_watched metric,
                       const char *name, const char *of)
{
    struct trace t = {.n = 0};
    struct train_result r;
    char dir[64], line[120];
    spec->train.epochs = 6;
    never_improves(spec, metric);
    train_dir(dir);
    int rc = run_way(spec, dir, 9, &r, &t); /* in the second epoch */
    (void)snprintf(line, sizeof(line), "%s: stops after the third epoch", name);
    (void)mpi_ok(mpi_rank > 0 ||
                     (rc == 0 && r.end == TRAIN_DONE && r.iteration == 18 &&
                      t.n == 18 && has_step(dir, 18)),
                 NULL, line);
    (void)snprintf(line, sizeof(line),
                   "early stopping at iteration 18 of 36: no %s better than ",
                   name);
    const size_t n = strlen(r.why), tail = strlen(of);
    (void)mpi_ok(mpi_rank > 0 ||
                     (strncmp(r.why, line, strlen(line)) == 0 && n > tail &&
                      strcmp(r.why + n - tail, of) == 0),
                 NULL, r.why);
    rc = rc < 0 ? rc : run_on(1, spec, dir, 0, &r, &t);
    (void)mpi_ok(mpi_rank > 0 || (rc == 0 && r.iteration == 18 && t.n == 18),
                 NULL, "resumed there, it has stopped");
    train_remove(dir);
    spec->train.early_stopping.metric = WATCH_NONE;
    spec->train.epochs = EPOCHS;
}

/* What counts as an improvement: more than min_delta, and a number. */
static void test_watch(struct job_spec *spec)
{
    static const struct {
        double x;
        int32_t waited;
    } rows[] = {{NAN, 1}, {0.5, 0}, {0.55, 1}, {0.61, 0},
                {0.1, 1}, {NAN, 2}, {0.72, 0}, {0.82, 1}};
    struct trainer t = {.spec = spec, .at = {.watched = NAN}};
    bool right = true;
    spec->train.early_stopping = (struct spec_early_stopping){
        .metric = WATCH_EVAL_ACCURACY, .patience = 5, .min_delta = 0.1};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct evaluation v = {.accuracy = rows[i].x, .loss = -rows[i].x};
        trainer_position_watch(&t, NULL, &v);
        right = right && t.at.waited == rows[i].waited;
    }
    (void)mpi_ok(right, NULL, "an accuracy improves upwards");
    spec->train.early_stopping.metric = WATCH_EVAL_LOSS;
    t.at.watched = NAN;
    t.at.waited = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct evaluation v = {.accuracy = rows[i].x, .loss = -rows[i].x};
        trainer_position_watch(&t, NULL, &v);
        right = right && t.at.waited == rows[i].waited;
    }
    (void)mpi_ok(right, NULL, "a loss downwards");
    /* In the last epoch there is nothing that it could have ended early. */
    char why[140];
    t.at.waited = 5;
    t.at.iteration = 11;
    t.total = 12;
    trainer_position_reason(&t, why, sizeof(why));
    (void)mpi_ok(strncmp(why, "early stopping at iteration 11 of 12: ", 38) ==
                     0,
                 NULL, why);
    t.at.iteration = 12;
    trainer_position_reason(&t, why, sizeof(why));
    (void)mpi_ok(why[0] == '\0', NULL, "no early end after the last epoch");
    spec->train.early_stopping.metric = WATCH_NONE;
}

static void test_eval_only(struct job_spec *spec)
{
    struct trace t = {.n = 0}, seen = {.n = 0};
    struct train_result r, v = {.iteration = -1};
    char dir[64], own[64];
    train_dir(dir);
    train_dir(own);
    int rc = run_way(spec, dir, 0, &r, &t);
    spec->train.eval_only = true;
    spec->train.resume_from = dir;
    spec->train.epochs = 1; /* nothing is trained */
    rc = rc < 0 ? rc : run_way(spec, own, 0, &v, &seen);
    (void)mpi_ok(mpi_rank > 0 || (rc == 0 && v.end == TRAIN_DONE &&
                                  v.eval_accuracy == r.eval_accuracy &&
                                  seen.eval_loss[3] == t.eval_loss[3]),
                 NULL, "train.eval_only has the job's last evaluation");
    (void)mpi_ok(
        mpi_rank > 0 ||
            (strncmp(v.why, "evaluated at iteration 18: loss ", 32) == 0 &&
             seen.n == 0 && !has_step(own, 18)),
        NULL, v.why);
    /* The mean of the weights, and those in fp32, begin with what was read. */
    train_remove(own);
    train_dir(own);
    spec->train.weights_only = true;
    spec->train.ema.decay = 0.9;
    v.eval_accuracy = NAN;
    seen.eval_loss[3] = NAN;
    rc = rc < 0 ? rc : run_way(spec, own, 0, &v, &seen);
    (void)mpi_ok(mpi_rank > 0 || (rc == 0 && v.end == TRAIN_DONE &&
                                  v.eval_accuracy == r.eval_accuracy &&
                                  seen.eval_loss[3] == t.eval_loss[3]),
                 NULL, "  and with train.weights_only and train.ema, too");
    spec->train.weights_only = false;
    spec->train.ema.decay = 0;
    spec->train.eval_only = false;
    spec->train.resume_from = NULL;
    spec->train.epochs = EPOCHS;
    train_remove(own);
    train_remove(dir);
}

/* In the order of the rows, the first loss is what the other job has for the
 * same batch in its next epoch. Its optimizer, seed and position are its own.
 */
static void test_weights_only(struct job_spec *spec)
{
    struct job_spec s = *spec;
    struct trace whole = {.n = 0}, t = {.n = 0};
    struct train_result r, v = {.iteration = -1};
    char dir[64], own[64], last[64];
    s.train.shuffle = false;
    s.model.dropout = 0;
    train_dir(dir);
    int rc = run_way(&s, dir, 0, &r, &whole);
    train_remove(dir);
    s.train.epochs = 1;
    train_dir(dir);
    rc = rc < 0 ? rc : run_way(&s, dir, 0, &r, &t);
    s.train.weights_only = true;
    s.train.resume_from = dir;
    s.train.optimizer.name =
        s.train.optimizer.name == OPTIM_SGD ? OPTIM_ADAMW : OPTIM_SGD;
    s.train.seed++;
    train_dir(own);
    t.n = 0;
    rc = rc < 0 ? rc : run_way(&s, own, 0, &v, &t);
    (void)mpi_ok(mpi_rank > 0 || (rc == 0 && v.end == TRAIN_DONE &&
                                  v.iteration == 6 && t.n == 6),
                 NULL, "train.weights_only begins with iteration 1");
    (void)mpi_ok(mpi_rank > 0 ||
                     (t.loss[1] == whole.loss[7] && t.loss[1] != whole.loss[1]),
                 NULL, "  and with the weights of the other job");
    s.train.weights_only = false;
    s.train.epochs = 2;
    train_dir(last);
    rc = run_on(1, &s, last, 0, &v, &t);
    (void)mpi_ok(mpi_rank > 0 || rc < 0, NULL,
                 "without it another optimizer is refused");
    train_remove(last);
    train_remove(own);
    train_remove(dir);
}

/* ---- kind llm --------------------------------------------------------------
 */
static const char yaml[] =
    "version: 1\n"
    "kind: llm\n"
    "name: t\n"
    "method: %s\n"
    "train:\n"
    "  checkpointer: {checkpoint_dir: %s/jobs/examples/stories260K}\n"
    "  tokenizer: {max_seq_len: 128}\n"
    "  dataset: {template: %s, samples: 8,\n"
    "            path: %s/jobs/examples/%s/train.jsonl}\n"
    "  dataset_val: {template: %s, samples: 3,\n"
    "            path: %s/jobs/examples/%s/val.jsonl}\n"
    "  run_val_every_n_steps: 1\n"
    "  early_stopping: {metric: eval_loss, patience: 2, min_delta: 1000}\n"
    "  device: host\n"
    "  epochs: 2\n"
    "  batch_size: 1\n"
    "  global_batch_size: 2\n"
    "  precision: fp64\n"
    "  seed: 5\n"
    "  optimizer: {name: adamw, lr: 1e-4}\n"
    "  lr_scheduler: {name: constant}\n"
    "checkpoint: {keep_last: 9, every: 1steps, keep_best: true, mode: max}\n"
    "retry: {resume: latest}\n"
    "resources: {gpus: 0}\n";

static bool open_llm(struct job_spec *ret, const char *method)
{
    char here[PATH_MAX], text[5 * PATH_MAX];
    const char *src = getenv("MGPU_SRC");
    const bool is_dpo = strcmp(method, "dpo") == 0;
    const char *rows = is_dpo ? "preference" : "tokens";
    const char *of = is_dpo ? "story-pairs" : "story-names";
    struct error err = ERROR_INIT;
    struct spec_options opt = {.file = NULL};
    struct spec_report report;
    if (realpath(src != NULL ? src : ".", here) == NULL)
        return mpi_ok(false, NULL, "where the tree is");
    int n = snprintf(text, sizeof(text), yaml, method, here, rows, here, of,
                     rows, here, of);
    int rc = spec_parse(text, (size_t)n, &opt, ret, &report, &err);
    if (rc < 0 && report.n > 0)
        tap_diag("%s: %s", report.findings[0].path, report.findings[0].message);
    diagnostics_clear(&report);
    return mpi_ok(rc == 0, &err, method);
}

/* What <dir>/ckpt/best says of itself. */
static bool best_is_of(const char *dir, int64_t iteration)
{
    char path[160], want[60];
    struct buf text = BUF_INIT;
    struct error err = ERROR_INIT;
    (void)snprintf(path, sizeof(path), "%s/ckpt/best/train/state.json", dir);
    (void)snprintf(want, sizeof(want), "\"iteration\":%" PRId64 ",", iteration);
    bool is = buf_read_file(&text, path, 65536, &err) == 0 &&
              strstr(buf_str(&text), want) != NULL;
    if (!is)
        tap_diag("%s%s", err.msg, buf_str(&text));
    buf_clear(&text);
    return is;
}

/* An evaluation after each iteration: the first is the best, also by its loss,
 * of which more is better here; and the third ends the job. The checkpoint of
 * the second is written before its evaluation, with which a run that lost
 * everything else goes on. */
static void test_llm(const char *method)
{
    struct job_spec spec = {.version = 0};
    struct trace t = {.n = 0};
    struct train_result r = {.iteration = -1};
    struct error err = ERROR_INIT;
    char dir[64], line[120], path[160];
    if (!open_llm(&spec, method))
        return;
    train_dir(dir);
    int rc = run_way(&spec, dir, 0, &r, &t);
    (void)snprintf(line, sizeof(line), "%s: stops inside an epoch", method);
    (void)mpi_ok(mpi_rank > 0 || (rc == 0 && r.end == TRAIN_DONE &&
                                  r.iteration == 3 && t.eval_loss[1] > 0),
                 &err, line);
    (void)mpi_ok(mpi_rank > 0 || best_is_of(dir, 1), NULL,
                 "  an evaluation inside an epoch is the best");
    /* As after a crash: the newest is that of iteration 2. */
    (void)snprintf(path, sizeof(path), "%s/ckpt", dir);
    if (mpi_rank == 0)
        (void)checkpoint_remove(path, 3, "", NULL);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    r.iteration = -1;
    rc = rc < 0 ? rc : run_on(1, &spec, dir, 0, &r, &t);
    (void)mpi_ok(mpi_rank > 0 ||
                     (rc == 0 && r.end == TRAIN_DONE && r.iteration == 3),
                 &err, "  and so after a crash, whose evaluation is repeated");
    /* An adapter that was trained is not its reference. */
    char own[64];
    train_dir(own);
    spec.train.weights_only = true;
    spec.train.resume_from = dir;
    spec.train.max_iterations = 1;
    r.iteration = -1;
    rc = rc < 0 ? rc : run_on(1, &spec, own, 0, &r, &t);
    (void)mpi_ok(mpi_rank > 0 ||
                     (rc == 0 && r.end == TRAIN_DONE && r.iteration == 1),
                 &err, "  and another job goes on with its weights alone");
    spec.train.weights_only = false;
    spec.train.resume_from = NULL;
    spec.train.max_iterations = 0;
    train_remove(own);
    train_remove(dir);
    spec.train.eval_only = true;
    train_dir(dir);
    r = (struct train_result){.iteration = -1, .eval_accuracy = NAN};
    rc = rc < 0 ? rc : run_way(&spec, dir, 0, &r, &t);
    (void)mpi_ok(
        mpi_rank > 0 ||
            (rc == 0 && r.end == TRAIN_DONE && r.eval_accuracy >= 0 &&
             strncmp(r.why, "evaluated at iteration 0: loss ", 31) == 0),
        &err, "  the base is evaluated");
    train_remove(dir);
    spec_clear(&spec);
}

int main(int argc, char **argv)
{
    mpi_tap_start(&argc, &argv);
    struct error err = ERROR_INIT;
    struct job_spec spec = {.version = 0};
    if (open_cv(&spec)) {
        test_rate(&spec);
        test_watch(&spec);
        test_limit(&spec);
        test_done(&spec);
        test_early(&spec, WATCH_EVAL_LOSS, "eval_loss", " in 2 evaluations");
        test_early(&spec, WATCH_TRAIN_LOSS, "train_loss", " in 2 epochs");
        test_eval_only(&spec);
        test_weights_only(&spec);
    }
    spec_clear(&spec);
    test_llm("dpo");
    if (getenv("MGPU_TEST_ALL") != NULL)
        test_llm("qlora");
    (void)mpi_ok(comm_mpi_use(0, &err) == 0, &err, "all again");
    return mpi_tap_done();
}
