/* dpo.c - preference pairs on other numbers of ranks, resumed, and with a
 * reference that is computed once.
 *
 * Four batches of two pairs are an iteration, dealt to 1, 2 and 4 ranks. In
 * fp64 the first loss and the step after it agree to 1e-12 and six steps to
 * 1e-10, of adapters and of all weights; so does a run that was stopped and
 * goes on. With precompute_reference, of which the second run reads what the
 * first kept, the losses agree to 1e-12.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <unistd.h>

#include "tests/mpi/trace.h"

enum { PARTS = 4, STEPS = 6 };

static const char yaml[] =
    "version: 1\n"
    "kind: llm\n"
    "name: t\n"
    "method: dpo\n"
    "train:\n"
    "  checkpointer: {checkpoint_dir: %s/tests/data/llama-untied}\n"
    "  model: {lora_rank: %d}\n"
    "  loss: {label_smoothing: 0.05, precompute_reference: %s}\n"
    "  dataset: {template: tokens, samples: 17,\n"
    "            path: %s/tests/data/pairs.jsonl}\n"
    "  dataset_val: {samples: 5, path: %s/tests/data/pairs.jsonl}\n"
    "  device: host\n"
    "  epochs: 3\n"
    "  batch_size: 2\n"
    "  max_steps_per_epoch: 2\n"
    "  precision: fp64\n"
    "  seed: 5\n"
    "  clip_grad_norm: 1\n"
    "  optimizer: {name: adamw, lr: 1e-3}\n"
    "  lr_scheduler: {name: constant}\n"
    "checkpoint: {keep_last: 2}\n"
    "retry: {resume: latest}\n"
    "resources: {gpus: 0}\n";

static bool open_spec(struct job_spec *ret, int rank, bool precomputed)
{
    char here[PATH_MAX], text[5 * PATH_MAX];
    const char *src = getenv("MGPU_SRC");
    struct error err = ERROR_INIT;
    struct spec_options opt = {.file = NULL};
    struct spec_report report;
    if (realpath(src != NULL ? src : ".", here) == NULL)
        return mpi_ok(false, NULL, "where the tree is");
    int n = snprintf(text, sizeof(text), yaml, here, rank,
                     precomputed ? "true" : "false", here, here);
    int rc = spec_parse(text, (size_t)n, &opt, ret, &report, &err);
    if (rc < 0 && report.n > 0)
        tap_diag("%s: %s", report.findings[0].path, report.findings[0].message);
    diagnostics_clear(&report);
    return mpi_ok(rc == 0, &err, "specification");
}

/* With as many batches on each rank as make PARTS together. */
static int run_parts(int ranks, struct job_spec *spec, const char *dir, int at,
                     struct train_result *r, struct trace *t)
{
    spec->train.gradient_accumulation_steps = PARTS / ranks;
    return run_on(ranks, spec, dir, at, r, t);
}

/* Other ranks than the first have nothing to compare. */
static void near(const struct trace *t, const struct trace *want, double most,
                 const char *what)
{
    char line[160];
    const double first = mpi_rank == 0 ? trace_apart(t, want, 2) : 0;
    const double all = mpi_rank == 0 ? trace_apart(t, want, STEPS) : 0;
    const double eval =
        mpi_rank == 0 ? fabs(t->eval_loss[3] / want->eval_loss[3] - 1) : 0;
    (void)snprintf(line, sizeof(line), "%s: %.2g, %.2g apart, evaluation %.2g",
                   what, first, all, eval);
    (void)mpi_ok(first <= 1e-12 && all <= most && eval <= most, NULL, line);
}

static struct trace whole_run(int ranks, struct job_spec *spec,
                              const char *what)
{
    struct trace t = {.n = 0};
    struct train_result r = {.end = TRAIN_STOPPED};
    char dir[64];
    train_dir(dir);
    (void)mpi_ok(run_parts(ranks, spec, dir, 0, &r, &t) == 0 &&
                     (mpi_rank > 0 ||
                      (t.n == STEPS && fabs(t.loss[1] - log(2)) < 1e-12 &&
                       t.loss[STEPS] < t.loss[1] && isfinite(t.eval_loss[3]))),
                 NULL, what);
    train_remove(dir);
    return t;
}

/* Stopped in mid-epoch, and resumed on another number of ranks. */
static void test_moved(struct job_spec *spec, const struct trace *whole,
                       int from, int to)
{
    struct trace t = {.n = 0};
    struct train_result r = {.iteration = -1};
    char dir[64], line[80];
    train_dir(dir);
    (void)snprintf(line, sizeof(line), "from %d ranks to %d", from, to);
    (void)mpi_ok(run_parts(from, spec, dir, 3, &r, &t) == 0 &&
                     run_parts(to, spec, dir, 0, &r, &t) == 0 &&
                     (mpi_rank > 0 || (r.iteration == STEPS && t.n == STEPS)),
                 NULL, line);
    near(&t, whole, 1e-10, line);
    train_remove(dir);
}

static void test_method(int rank)
{
    struct job_spec spec = {.version = 0}, once = {.version = 0};
    const int most = mpi_size >= 4 ? 4 : mpi_size >= 2 ? 2 : 1;
    char line[80];
    if (!open_spec(&spec, rank, false) || !open_spec(&once, rank, true))
        return;
    tap_diag(rank > 0 ? "adapters" : "all weights");
    const struct trace one = whole_run(1, &spec, "one rank");
    for (int ranks = 2; ranks <= most; ranks *= 2) {
        (void)snprintf(line, sizeof(line), "%d ranks", ranks);
        const struct trace t = whole_run(ranks, &spec, line);
        near(&t, &one, 1e-10, line);
    }
    test_moved(&spec, &one, most, 1);
    const struct trace first = whole_run(most, &once, "computed once");
    const struct trace all = whole_run(most, &spec, "computed each time");
    near(&first, &all, 1e-12, "the reference is computed once");
    const struct trace again = whole_run(most, &once, "read again");
    (void)mpi_ok(mpi_rank > 0 || same_trace(&first, &again), NULL,
                 "and read again: the same bits");
    test_moved(&once, &one, 1, most);
    spec_clear(&spec);
    spec_clear(&once);
}

/* What rank 0 kept; nobody else writes there. */
static void empty_cache(const char *cache)
{
    char path[400];
    (void)snprintf(path, sizeof(path), "%s/mgpu", cache);
    DIR *d = mpi_rank == 0 ? opendir(path) : NULL;
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d != NULL)
        (void)closedir(d);
    (void)rmdir(path);
}

int main(int argc, char **argv)
{
    char cache[64];
    struct error err = ERROR_INIT;
    mpi_tap_start(&argc, &argv);
    train_dir(cache);
    (void)setenv("XDG_CACHE_HOME", cache, 1);
    test_method(4);
    test_method(0);
    empty_cache(cache);
    train_remove(cache);
    (void)mpi_ok(comm_mpi_use(0, &err) == 0, &err, "all again");
    return mpi_tap_done();
}
