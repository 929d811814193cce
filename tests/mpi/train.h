/* train.h - small jobs of kind cv for tests: fp64, synthetic images, a
 * directory that goes away at the end. */
#ifndef MGPU_TESTS_MPI_TRAIN_H
#define MGPU_TESTS_MPI_TRAIN_H

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/mpi/mpi_tap.h"
#include "worker/checkpoint/checkpoint_internal.h"
#include "worker/cv/mobilenet.h"
#include "worker/model_kind.h"
#include "worker/train/trainer_internal.h"

static const char train_yaml[] =
    "version: 1\n"
    "kind: cv\n"
    "name: t\n"
    "model: {width_mult: 0.25, dropout: 0.2}\n"
    "dataset: {source: synthetic, image_size: 32, train_samples: 50,\n"
    "          eval_samples: 23}\n"
    "train: {device: host, epochs: 2, batch_size: 4, precision: fp64,\n"
    "        seed: 5, optimizer: {name: sgd, lr: 0.05, momentum: 0.9},\n"
    "        lr_scheduler: {name: cosine, num_warmup_steps: 3}}\n"
    "checkpoint: {keep_last: 2}\n"
    "retry: {resume: latest}\n"
    "resources: {gpus: 0}\n";

static inline bool train_spec(struct job_spec *ret)
{
    struct error err = ERROR_INIT;
    struct spec_options opt = {.file = NULL};
    struct spec_report report;
    int rc =
        spec_parse(train_yaml, strlen(train_yaml), &opt, ret, &report, &err);
    if (rc < 0 && report.n > 0)
        tap_diag("%s: %s", report.findings[0].path, report.findings[0].message);
    diagnostics_clear(&report);
    return mpi_ok(rc == 0, &err, "specification");
}

/* The same directory on every rank. */
static inline void train_dir(char ret[64])
{
    (void)snprintf(ret, 64, "/tmp/mgpu-train.XXXXXX");
    if (mpi_rank == 0 && mkdtemp(ret) == NULL)
        abort();
    (void)MPI_Bcast(ret, 64, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static inline void train_remove(const char *dir)
{
    /* What a language model leaves. */
    static const char *const results[] = {
        "samples.jsonl",     "adapter_config.json",
        "config.json",       "adapter_model.safetensors",
        "model.safetensors", "tokenizer.model",
        "README.md"};
    (void)MPI_Barrier(MPI_COMM_WORLD);
    if (mpi_rank != 0)
        return;
    char path[200];
    for (int i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof(path), "%s/spool.%d", dir, i);
        (void)unlink(path);
    }
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, results[i]);
        (void)unlink(path);
        (void)snprintf(path, sizeof(path), "%s/last/%s", dir, results[i]);
        (void)unlink(path);
    }
    (void)snprintf(path, sizeof(path), "%s/last", dir);
    (void)rmdir(path);
    (void)snprintf(path, sizeof(path), "%s/ckpt", dir);
    (void)checkpoint_remove(path, CKPT_BEST, "", NULL);
    for (int i = 0; i < 256; i++)
        (void)checkpoint_remove(path, i, "", NULL);
    (void)rmdir(path);
    if (rmdir(dir) < 0)
        tap_diag("'%s' is not empty", dir);
}

/* What a run needs beside its specification and its ranks. */
struct train_rig {
    char dir[64];
    struct reporter *reporter; /* to nobody */
    struct train_env env;
};

/* The caller asks for an end, or a checkpoint, by stop and save. Ends with
 * train_rig_close(), also after a failure. */
static inline int train_rig_open(struct train_rig *r, struct comm *c,
                                 const struct job_spec *spec,
                                 volatile sig_atomic_t *stop,
                                 volatile sig_atomic_t *save, struct error *err)
{
    *r = (struct train_rig){.reporter = NULL};
    train_dir(r->dir);
    struct report_conf conf = {
        .url = "", .token = "", .dir = r->dir, .rank = mpi_rank};
    int rc = reporter_create(&conf, &r->reporter, err);
    r->env = (struct train_env){.spec = spec,
                                .ckpt_dir = r->dir,
                                .comm = c,
                                .reporter = r->reporter,
                                .clock = &clock_real,
                                .stop = stop,
                                .save = save};
    rc = rc < 0 ? rc : model_kind_find(spec, &r->env.kind, err);
    return rc;
}

static inline void train_rig_close(struct train_rig *r)
{
    reporter_destroy(r->reporter);
    train_remove(r->dir);
}

#endif
