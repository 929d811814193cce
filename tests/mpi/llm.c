/* llm.c - a Llama on other numbers of ranks, and resumed.
 *
 * So many ranks with so many micro-batches each as make 4 together: in fp64
 * the first loss and the step after it agree to 1e-12, six steps to 1e-10,
 * for lora, qlora, full and qat, packed and not, with clipping. A run that was
 * stopped and goes on has the same bits on as many ranks, and 1e-10 on others.
 * The loss is over labelled tokens, whose number differs from rank to rank.
 */
#include <limits.h>
#include <math.h>

#include "tests/mpi/trace.h"

enum { PARTS = 4 };

static const char yaml[] =
    "version: 1\n"
    "kind: llm\n"
    "name: t\n"
    "method: %s\n"
    "train:\n"
    "  checkpointer: {checkpoint_dir: %s/jobs/examples/stories260K}\n"
    "  tokenizer: {max_seq_len: 256}\n"
    "  dataset: {template: tokens, packed: %s, samples: 21,\n"
    "            path: %s/jobs/examples/story-names/train.jsonl}\n"
    "  dataset_val: {template: tokens, samples: 5,\n"
    "            path: %s/jobs/examples/story-names/val.jsonl}\n"
    "  device: host\n"
    "  epochs: %d\n"
    "  batch_size: %d\n"
    "  max_steps_per_epoch: 2\n"
    "  precision: fp64\n"
    "  seed: 5\n"
    "  clip_grad_norm: 1\n"
    "%s"
    "  optimizer: {name: adamw, lr: %s}\n"
    "  lr_scheduler: {name: constant}\n"
    "checkpoint: {keep_last: 2}\n"
    "retry: {resume: latest}\n"
    "resources: {gpus: 0}\n";

/* From the third iteration on: before a run is stopped, and so when it goes
 * on. */
static const char rounding[] =
    "  quantizer: {groupsize: 32, fake_quant_after_n_steps: 2}\n";

static bool open_spec(struct job_spec *ret, const char *method, bool packed)
{
    char here[PATH_MAX], text[4 * PATH_MAX];
    const char *src = getenv("MGPU_SRC");
    struct error err = ERROR_INIT;
    struct spec_options opt = {.file = NULL};
    struct spec_report report;
    if (realpath(src != NULL ? src : ".", here) == NULL)
        return mpi_ok(false, NULL, "where the tree is");
    const bool is_qat = strcmp(method, "qat") == 0;
    const bool is_full = is_qat || strcmp(method, "full") == 0;
    int n = snprintf(text, sizeof(text), yaml, method, here,
                     packed ? "true" : "false", here, here, 3, packed ? 1 : 2,
                     is_qat ? rounding : "", is_full ? "1e-4" : "1e-2");
    int rc = spec_parse(text, (size_t)n, &opt, ret, &report, &err);
    if (rc < 0 && report.n > 0)
        tap_diag("%s: %s", report.findings[0].path, report.findings[0].message);
    diagnostics_clear(&report);
    return mpi_ok(rc == 0, &err, "specification");
}

/* With as many micro-batches on each rank as make PARTS together. */
static int run_parts(int ranks, struct job_spec *spec, const char *dir, int at,
                     struct train_result *r, struct trace *t)
{
    spec->train.gradient_accumulation_steps = PARTS / ranks;
    return run_on(ranks, spec, dir, at, r, t);
}

/* Other ranks than the first have nothing to compare. */
static void near(const struct trace *t, const struct trace *want,
                 const char *what)
{
    char line[160];
    const double first = mpi_rank == 0 ? trace_apart(t, want, 2) : 0;
    const double all = mpi_rank == 0 ? trace_apart(t, want, 6) : 0;
    const double eval =
        mpi_rank == 0 ? fabs(t->eval_loss[3] / want->eval_loss[3] - 1) : 0;
    (void)snprintf(line, sizeof(line), "%s: %.2g, %.2g apart, evaluation %.2g",
                   what, first, all, eval);
    (void)mpi_ok(first <= 1e-12 && all <= 1e-10 && eval <= 1e-10, NULL, line);
}

/* Returns the last loss of one rank. */
static double test_ranks(struct job_spec *spec, const char *what)
{
    struct trace one = {.n = 0};
    struct train_result r = {.end = TRAIN_STOPPED};
    char dir[64], line[120];
    train_dir(dir);
    (void)mpi_ok(
        run_parts(1, spec, dir, 0, &r, &one) == 0 &&
            (mpi_rank > 0 || (one.n == 6 && one.loss[6] < one.loss[1] &&
                              isfinite(one.eval_loss[3]))),
        NULL, what);
    train_remove(dir);
    for (int ranks = 2; ranks <= mpi_size && ranks <= PARTS; ranks *= 2) {
        struct trace t = {.n = 0};
        train_dir(dir);
        int rc = run_parts(ranks, spec, dir, 0, &r, &t);
        (void)snprintf(line, sizeof(line), "%s, %d ranks and one", what, ranks);
        (void)mpi_ok(rc == 0, NULL, line);
        near(&t, &one, line);
        train_remove(dir);
    }
    return one.loss[6];
}

/* The mean of the batches' means is the same on any number of ranks, and is
 * not the mean over the tokens. */
static void test_normalize(struct job_spec *spec)
{
    const double tokens = test_ranks(spec, "the mean over tokens");
    spec->train.loss.normalize = NORMALIZE_MICRO_BATCH;
    const double means = test_ranks(spec, "the mean of batches");
    spec->train.loss.normalize = NORMALIZE_TOKENS;
    (void)mpi_ok(mpi_rank > 0 || (fabs(means / tokens - 1) > 1e-6 &&
                                  fabs(means / tokens - 1) < 0.2),
                 NULL, "which differ a little");
}

/* Stopped in mid-epoch on one number of ranks, resumed on another. */
static void test_moved(struct job_spec *spec, int from, int to)
{
    struct trace whole = {.n = 0}, t = {.n = 0};
    struct train_result r = {.iteration = -1};
    char dir[64], line[80];
    train_dir(dir);
    (void)mpi_ok(run_parts(from, spec, dir, 0, &r, &whole) == 0, NULL, "whole");
    train_remove(dir);
    train_dir(dir);
    (void)snprintf(line, sizeof(line), "from %d ranks to %d", from, to);
    (void)mpi_ok(run_parts(from, spec, dir, 3, &r, &t) == 0 &&
                     run_parts(to, spec, dir, 0, &r, &t) == 0 &&
                     (mpi_rank > 0 || (r.iteration == 6 && t.n == 6)),
                 NULL, line);
    near(&t, &whole, line);
    if (from == to)
        (void)mpi_ok(mpi_rank > 0 ||
                         memcmp(t.loss, whole.loss, sizeof(t.loss)) == 0,
                     NULL, "the same bits");
    train_remove(dir);
}

int main(int argc, char **argv)
{
    mpi_tap_start(&argc, &argv);
    struct error err = ERROR_INIT;
    for (int k = 0; k < 6; k++) {
        struct job_spec spec = {.version = 0};
        char what[40];
        static const char *const methods[] = {"lora", "full",  "lora",
                                              "full", "qlora", "qat"};
        const char *method = methods[k];
        (void)snprintf(what, sizeof(what), "%s, %s", method,
                       k & 2 ? "packed" : "padded");
        if (!open_spec(&spec, method, k & 2))
            continue;
        (void)test_ranks(&spec, what);
        if (k == 0)
            test_normalize(&spec);
        if (k == 0 || k >= 3) {
            const int most = mpi_size >= 4 ? 4 : mpi_size >= 2 ? 2 : 1;
            test_moved(&spec, most, most);
            test_moved(&spec, most, 1);
        }
        spec_clear(&spec);
    }
    (void)mpi_ok(comm_mpi_use(0, &err) == 0, &err, "all again");
    return mpi_tap_done();
}
