/* llm_small.h - small jobs of kind llm: fp64, six iterations in three epochs.
 */
#ifndef MGPU_TESTS_MPI_LLM_SMALL_H
#define MGPU_TESTS_MPI_LLM_SMALL_H

#include <limits.h>
#include <stdlib.h>

#include "tests/mpi/train.h"

static const char llm_yaml[] =
    "version: 1\n"
    "kind: llm\n"
    "name: t\n"
    "method: %s\n"
    "train:\n"
    "  checkpointer: {checkpoint_dir: %s/%s}\n"
    "  dataset: {template: tokens, samples: 12, path: %s/%s}\n"
    "  dataset_val: {template: tokens, samples: 5, path: %s/%s}\n"
    "  device: host\n"
    "  epochs: 3\n"
    "  max_steps_per_epoch: 2\n"
    "  batch_size: 1\n"
    "  precision: fp64\n"
    "  seed: 5\n"
    "  %s\n"
    "  optimizer: {name: adamw, lr: 1e-3, weight_decay: 0.1}\n"
    "  lr_scheduler: {name: constant}\n"
    "checkpoint: {keep_last: 2}\n"
    "retry: {resume: latest}\n"
    "resources: {gpus: 0}\n";

/* A model of the tests, or the stories with data that they can be asked. */
struct llm_material {
    const char *model, *rows;
};
static const struct llm_material llm_tied = {
    "tests/data/llama-tied", "tests/data/llama-tied/rows.jsonl"};
static const struct llm_material llm_untied = {
    "tests/data/llama-untied", "tests/data/llama-untied/rows.jsonl"};
__attribute__((unused)) static const struct llm_material llm_pairs = {
    "tests/data/llama-untied", "tests/data/pairs.jsonl"};
__attribute__((unused)) static const struct llm_material llm_stories = {
    "jobs/examples/stories260K", "jobs/examples/story-names/train.jsonl"};

/* in   more  a further key of train */
static inline bool llm_small(struct job_spec *ret, const char *method,
                             const struct llm_material *m, const char *more)
{
    char here[PATH_MAX], text[4 * PATH_MAX];
    const char *src = getenv("MGPU_SRC");
    struct error err = ERROR_INIT;
    struct spec_options opt = {.file = NULL};
    struct spec_report report;
    if (realpath(src != NULL ? src : ".", here) == NULL)
        return mpi_ok(false, NULL, "where the tree is");
    int n = snprintf(text, sizeof(text), llm_yaml, method, here, m->model, here,
                     m->rows, here, m->rows, more);
    int rc = spec_parse(text, (size_t)n, &opt, ret, &report, &err);
    if (rc < 0 && report.n > 0)
        tap_diag("%s: %s", report.findings[0].path, report.findings[0].message);
    diagnostics_clear(&report);
    return mpi_ok(rc == 0, &err, "specification");
}

#endif
