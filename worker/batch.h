/* batch.h - samples for the model: the seam between the trainer and the sources
 * of batches.
 *
 * A batch is arrays in device memory, and numbers in host memory that the
 * trainer counts with. The trainer does not know what the arrays hold: the
 * source that fills them and the model that reads them agree on that, by
 * the index of each array (images and labels of CV: image_batches.h).
 */
#ifndef MGPU_WORKER_BATCH_H
#define MGPU_WORKER_BATCH_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "jobs/base/clock.h"
#include "jobs/base/error.h"
#include "jobs/spec/spec.h"
#include "kernels/device.h"
#include "worker/comm/comm.h"

enum { BATCH_ARRAYS = 6 };

/* [n, bytes], device, dense: sample i begins at data + i * bytes. */
struct batch_array {
    void *data;
    size_t bytes; /* of one sample; 0: the batch has no such array */
};

struct batch {
    struct batch_array arrays[BATCH_ARRAYS];
    int32_t n;     /* samples, with those that are no samples (padding) */
    int32_t valid; /* real samples */
    /* Losses are averaged over this: the real samples for CV, the tokens with a
     * label for an LLM, or its pairs of answers. The host counts it when it
     * makes the batch, so no model has to fetch it from the device. */
    double weight;
    int64_t tokens;         /* read by the model; -1: it reads none */
    int64_t attends;        /* pairs of a token and one that it attends to,
                               itself or one before it in its document */
    int64_t windowed;       /* the same where a layer has a window; attends, if
                               none has */
    int32_t labelled;       /* tokens with a label */
    int32_t bad;            /* samples that cannot be read and are left out */
    struct error first_bad; /* why, of the first of these */
    double data_s;          /* host: making the batch, or waiting for it */
    double h2d_s;           /* copying to the device, enqueueing its work */
};

/* Properties of the data that the model needs. */
struct batch_info {
    int32_t classes;    /* of labels, and of tokens: all are below it; 0:
                         * labels are no classes */
    int32_t row_tokens; /* of the longest row; 0: rows are no tokens */
    int32_t positions;  /* of the longest document in a row */
    size_t sample_bytes[BATCH_ARRAYS]; /* at most; 0: no such array */
    /* The weight of a sample that is complete: 1 for CV. Where weights
     * differ from sample to sample, any number of their size. The gradient
     * of a pass is divided by it, and corrected by the batches' weights
     * before the update. */
    double sample_weight;
    int64_t left_out; /* training samples that could not be read at opening */
};

enum batch_part { BATCH_TRAIN, BATCH_EVAL, BATCH_PARTS };

/* Arguments of a source. All pointers are borrowed and outlive the source.
 *
 * The training samples of an epoch are dealt to `streams` streams. A rank
 * has `parts` of them, from `first` on: an iteration is a batch of each, so
 * that batch i of the rank's epoch is batch i / parts of stream
 * first + i % parts. Samples of the evaluation are dealt to the ranks, and
 * none is there twice. */
struct batch_env {
    const struct job_spec *spec;
    struct device *dev;
    enum dtype dt;
    struct comm *comm; /* of all ranks, over host memory */
    double deadline_s; /* of its collectives */
    const struct clock *clock;
    int32_t first, parts, streams;
    /* How many ranks' batches this rank reads in training, one behind the
     * other: 1, all, or 0 if another rank reads them. */
    int32_t shares;
    /* Prints a line for people in the log of rank 0. */
    void (*say)(void *arg, const char *line);
    /* Reports the share of the data that this rank, or the process that it
     * waits for, has tokenised; NAN: all. NULL: not reported. */
    void (*tokenised)(void *arg, double share);
    void *arg;
};

/* Formats a line for say(). */
__attribute__((format(printf, 2, 3))) static inline void batch_say(
    const struct batch_env *env, const char *fmt, ...)
{
    char line[400];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    if (n >= 0 && env->say != NULL)
        env->say(env->arg, line);
}

/* An epoch of training. */
struct batch_epoch {
    int64_t seed;
    int32_t epoch;   /* from 1 */
    int32_t batches; /* that will be taken of each stream */
};

struct batch_source;

struct batch_source_ops {
    const char *noun; /* "images": what its samples are */

    void (*destroy)(struct batch_source *s);

    /* Valid until destroy(). */
    const struct batch_info *(*info)(const struct batch_source *s);

    /* Bytes of memory that start() will take. */
    void (*plan)(const struct batch_source *s, int64_t *ret_device,
                 int64_t *ret_host);
    /* Takes the memory; call it before the first take().
     * err  ERR_NOMEM */
    int (*start)(struct batch_source *s, struct error *err);

    /* Batches of an epoch: of each stream, of each rank's evaluation.
     * err  ERR_INVAL there are none */
    int (*count)(struct batch_source *s, int32_t *ret_train, int32_t *ret_eval,
                 struct error *err);

    /* Batches of training are of this epoch from now on; the order of its
     * samples follows from seed and epoch. */
    int (*begin)(struct batch_source *s, const struct batch_epoch *e,
                 struct error *err);

    /* Batch i of the part's epoch: from 0 on, or where a run resumes, then
     * in turn; reads ahead as far as there is room. With shares 0, n alone
     * is filled in. The arrays are valid until the next take() of the part.
     * out  ret  n: with shares > 1 the sum of all of them, each has the same
     * err  why a sample cannot be read; the device's otherwise */
    int (*take)(struct batch_source *s, enum batch_part part, int32_t i,
                struct batch *ret, struct error *err);

    /* Begins to copy the next batch of the part to the device, if it costs
     * no waiting. Call it when the device has work to do.
     * err  as take() */
    int (*ahead)(struct batch_source *s, enum batch_part part,
                 struct error *err);

    /* A line about itself, without an end of line.
     * in  batches  of each stream in an epoch */
    void (*describe)(const struct batch_source *s, int32_t batches, char *ret,
                     size_t cap);
};

/* First member of every implementation's own struct. */
struct batch_source {
    const struct batch_source_ops *ops;
};

#endif
