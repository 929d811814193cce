/* resize.c - a job whose number of ranks changes on its way: with
 * train.global_batch_size it runs on 1, 2, 4, 3 and 1 ranks, each time stopped
 * in the middle of an epoch, and its losses are those of a run that nobody
 * disturbed: as near as rounding in fp64 allows, and in every precision bit for
 * bit where an iteration has two micro-batches.
 *
 * 12 micro-batches make an iteration, 2 iterations an epoch. With fewer than 4
 * ranks the test takes those that there are. It trains one model of each kind
 * and, without a sanitizer, one in bf16; with $MGPU_TEST_ALL, which .ci/nightly
 * sets, all.
 */
#include <limits.h>
#include <math.h>

#include "tests/mpi/trace.h"
#include "tests/slow.h"

enum { PARTS = 12, ITERATIONS = 8, STEPS = 5 };

/* Other ranks than the first have nothing to compare. */
static void test_way(struct job_spec *spec, const char *what)
{
    static const int ranks[STEPS] = {1, 2, 4, 3, 1};
    static const int stops[STEPS] = {1, 2, 2, 2, 0};
    struct trace whole = {.n = 0}, t = {.n = 0};
    struct train_result r = {.iteration = -1};
    char dir[64], line[160];
    int rc = 0;

    train_dir(dir);
    (void)snprintf(line, sizeof(line), "%s, undisturbed", what);
    (void)mpi_ok(run_on(1, spec, dir, 0, &r, &whole) == 0, NULL, line);
    train_remove(dir);
    const double bound = trace_sensitivity(spec, &whole);
    train_dir(dir);
    for (int i = 0; i < STEPS && rc == 0; i++) {
        rc = run_on(ranks[i] < mpi_size ? ranks[i] : mpi_size, spec, dir,
                    stops[i], &r, &t);
        (void)snprintf(line, sizeof(line), "%s, step %d ends at %d", what, i,
                       2 * i + 1);
        bool ended =
            mpi_rank > 0 ||
            (stops[i] > 0 ? r.end == TRAIN_STOPPED && r.iteration == 2 * i + 1
                          : r.end == TRAIN_DONE && r.iteration == ITERATIONS);
        (void)mpi_ok(rc == 0 && ended, NULL, line);
    }
    double apart = mpi_rank > 0        ? 0
                   : t.n == ITERATIONS ? trace_apart(&t, &whole, ITERATIONS)
                                       : INFINITY;
    (void)snprintf(line, sizeof(line), "%s: %.2g apart", what, apart);
    (void)mpi_ok(apart < bound, NULL, line);
    train_remove(dir);
}

/* Ranks that cannot divide the micro-batches are refused, by all of them. */
static void test_refused(struct job_spec *spec)
{
    struct trace t = {.n = 0};
    struct train_result r;
    char dir[64];
    int32_t was = spec->train.global_batch_size;
    if (mpi_size < 2)
        return;
    spec->train.global_batch_size = spec->train.batch_size * 7;
    train_dir(dir);
    int rc = run_on(2, spec, dir, 0, &r, &t);
    (void)mpi_ok(mpi_rank > 1 || rc < 0, NULL, "2 ranks, 7 micro-batches");
    train_remove(dir);
    spec->train.global_batch_size = was;
}

/* Two micro-batches have one sum, whoever computes them: two ranks, one, and a
 * run that goes from one to two and back have the same bits, at rates that
 * multiply any rounding error. */
static void test_bits(struct job_spec *spec, const char *what)
{
    static const int ranks[] = {1, 2, 1}, stops[] = {2, 3, 0};
    struct trace one = {.n = 0}, two = {.n = 0}, t = {.n = 0};
    struct train_result r = {.iteration = -1};
    char dir[64], line[160];
    int rc = 0;
    if (mpi_size < 2)
        return;
    spec->train.global_batch_size = 2 * spec->train.batch_size;
    for (int n = 1; n <= 2 && rc == 0; n++) {
        train_dir(dir);
        rc = run_on(n, spec, dir, 0, &r, n == 1 ? &one : &two);
        train_remove(dir);
    }
    train_dir(dir);
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]) && rc == 0; i++)
        rc = run_on(ranks[i], spec, dir, stops[i], &r, &t);
    train_remove(dir);
    double apart = mpi_rank > 0 || rc < 0 ? 0 : trace_apart(&two, &one, one.n);
    double moved = mpi_rank > 0 || rc < 0 ? 0 : trace_apart(&t, &one, one.n);
    (void)snprintf(line, sizeof(line),
                   "%s, the same bits on 1 and 2 ranks: %.2g apart, %.2g when "
                   "it moves",
                   what, apart, moved);
    (void)mpi_ok(rc == 0 && (mpi_rank > 0 || one.n >= 8) && apart <= 0 &&
                     moved <= 0,
                 NULL, line);
}

/* ---- kind cv ---------------------------------------------------------------
 */
/* As in ranks.c: batches of 4 and 3, of 64 by 64 pixels; two iterations more,
 * so at a tenth of the rate: at 0.02 the batch norms of so few values make 1e-4
 * of 2^-30 by then. */
static void cv_begin(struct job_spec *spec)
{
    spec->dataset.train_samples = 82;
    spec->dataset.image_size = 64;
    spec->train.epochs = 4;
    spec->train.global_batch_size = PARTS * spec->train.batch_size;
    spec->train.optimizer.lr = 2e-3;
    spec->train.clip_grad_norm = 1;
}

static void test_cv_bits(bool all)
{
    struct job_spec spec = {.version = 0};
    if (!train_spec(&spec))
        return;
    spec.train.epochs = 2;
    spec.dataset.train_samples = 37;
    spec.train.precision = PRECISION_FP32;
    test_bits(&spec, "cv, fp32");
    if (all) {
        spec.train.precision = PRECISION_BF16;
        test_bits(&spec, "cv, bf16");
        spec.train.mixed = true;
        test_bits(&spec, "cv, bf16 and fp32");
    }
    spec_clear(&spec);
}

static void test_cv(bool all)
{
    struct job_spec spec = {.version = 0};
    if (!train_spec(&spec))
        return;
    cv_begin(&spec);
    test_way(&spec, "cv, sgd, clipped");
    test_refused(&spec);
    test_cv_bits(all);
    if (!all) {
        spec_clear(&spec);
        return;
    }
    spec.train.optimizer.name = OPTIM_RMSPROP;
    spec.train.optimizer.lr = 1e-4;
    spec.train.optimizer.eps = 1e-3;
    spec.train.optimizer.alpha = 0.9;
    spec.train.optimizer.centered = true;
    spec.train.on_nan = ON_NAN_SKIP;
    spec.train.ema.decay = 0.9;
    test_way(&spec, "cv, rmsprop, with a mean");
    spec_clear(&spec);
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
    "  dataset: {template: tokens, packed: %s, samples: %d,\n"
    "            path: %s/jobs/examples/story-names/train.jsonl}\n"
    "  device: host\n"
    "  epochs: 4\n"
    "  batch_size: 1\n"
    "  global_batch_size: 12\n"
    "  max_steps_per_epoch: 2\n"
    "  precision: %s\n"
    "  seed: 5\n"
    "  clip_grad_norm: 1\n"
    "  optimizer: {name: adamw, lr: %s}\n"
    "  lr_scheduler: {name: constant}\n"
    "checkpoint: {keep_last: 2}\n"
    "retry: {resume: latest}\n"
    "resources: {gpus: 0}\n";

static bool open_llm(struct job_spec *ret, bool is_full, bool packed,
                     const char *precision)
{
    char here[PATH_MAX], text[4 * PATH_MAX];
    const char *src = getenv("MGPU_SRC");
    struct error err = ERROR_INIT;
    struct spec_options opt = {.file = NULL};
    struct spec_report report;
    if (realpath(src != NULL ? src : ".", here) == NULL)
        return mpi_ok(false, NULL, "where the tree is");
    int n = snprintf(text, sizeof(text), yaml, is_full ? "full" : "lora", here,
                     packed ? "true" : "false", packed ? 60 : 21, here,
                     precision, is_full ? "1e-4" : "1e-2");
    int rc = spec_parse(text, (size_t)n, &opt, ret, &report, &err);
    if (rc < 0 && report.n > 0)
        tap_diag("%s: %s", report.findings[0].path, report.findings[0].message);
    diagnostics_clear(&report);
    return mpi_ok(rc == 0, &err, "specification");
}

static void test_llm(bool is_full, bool packed, const char *precision)
{
    struct job_spec spec = {.version = 0};
    char what[60];
    (void)snprintf(what, sizeof(what), "llm, %s, %s, %s",
                   is_full ? "full" : "lora", packed ? "packed" : "padded",
                   precision);
    if (open_llm(&spec, is_full, packed, precision)) {
        if (spec.train.precision == PRECISION_FP64)
            test_way(&spec, what);
        test_bits(&spec, what);
    }
    spec_clear(&spec);
}

int main(int argc, char **argv)
{
    mpi_tap_start(&argc, &argv);
    struct error err = ERROR_INIT;
    const bool all = getenv("MGPU_TEST_ALL") != NULL;
    test_cv(all);
    test_llm(false, true, "fp64");
    if (all || !is_slow)
        test_llm(true, true, "bf16");
    if (all) {
        test_llm(false, false, "fp64");
        test_llm(true, false, "fp64");
        test_llm(true, true, "fp64");
        test_llm(false, false, "fp32");
    }
    (void)mpi_ok(comm_mpi_use(0, &err) == 0, &err, "all again");
    return mpi_tap_done();
}
