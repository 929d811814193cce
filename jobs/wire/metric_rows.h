/* metric_rows.h - encode and decode the rows that a job reports, in the format
 * that the spool, the wire, $MGPU_METRICS and the views of mgpu-db(5) share.
 *
 * A row is one JSON object on one line, its keys the columns of the view:
 *   {"iteration":17,"rank":0,"epoch":1,"started_at":1763712000.5,
 *    "t_iter":0.031,"t_data":0.001,...,"loss":0.52,"samples":64}  v_iteration
 *   {"epoch":1,"seconds":9.1,"eval_accuracy":0.96,...}            v_epoch
 *   {"profile":"cudaLaunchKernel","epoch":1,"rank":0,"calls":9200,
 *    "total_s":0.11,"bytes":null,"sampled":1}                     v_profile
 * "step" is another name of "iteration", but not in a row of v_epoch.
 * A line with a "profile", the only text that a line can have, is a profile row
 * and has an epoch; one with "iteration" is an iteration row, and one with
 * "epoch" alone an epoch row. Numeric keys that are not columns become metric
 * rows (v_metric: job, attempt, rank, iteration, name, value). NaN is
 * sent as null and stored as NULL, an infinite loss or value as 1e999. Others,
 * and columns whose number is out of range, are ignored. Seconds, bytes. */
#ifndef MGPU_JOBS_WIRE_METRIC_ROWS_H
#define MGPU_JOBS_WIRE_METRIC_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

enum metric_kind {
    METRIC_ITERATION,
    METRIC_EPOCH,
    METRIC_PROFILE,
    METRIC_VALUE
};

/* A NAN double and a negative integer mean "not reported". */
struct metric_iteration {
    int32_t rank, epoch; /* epoch counts from 1 */
    int64_t iteration;   /* counts from 1 through the whole job */
    double started_at;   /* seconds since 1970 */
    double t_iter, t_data, t_h2d, t_forward, t_backward, t_comm, t_optimizer;
    double loss, lr;
    int64_t samples, tokens, gpu_mem_bytes;
};

struct metric_epoch {
    int32_t epoch;
    double seconds, train_loss, eval_loss, eval_accuracy, samples_per_s;
    double tokens_per_s;
};

enum { METRIC_NAME_CAP = 65 };

/* A profiler's figures for one rank in one epoch. */
struct metric_profile {
    int32_t rank, epoch;
    char metric[METRIC_NAME_CAP]; /* "cudaLaunchKernel" */
    int64_t calls, bytes;
    double total_s;
    double sampled; /* share of the iterations that were profiled; the other
                     * figures are scaled up from them */
};

struct metric_value {
    int32_t rank;
    int64_t iteration; /* -1: the line has none */
    char name[METRIC_NAME_CAP];
    double value;
};

struct metric_row {
    enum metric_kind kind;
    union {
        struct metric_iteration iteration;
        struct metric_epoch epoch;
        struct metric_profile profile;
        struct metric_value value;
    };
};

/* Appends the row as one line with its '\n'. */
int metric_row_encode(const struct metric_row *row, struct buf *out,
                      struct error *err) MUST_CHECK;

/* Members of a line that are no metrics; n may be more than the first ones that
 * are named. name "": it cannot be shown; why: static. */
enum { METRIC_IGNORED_CAP = 8 };
struct metric_ignored {
    size_t n;
    struct metric_ignored_key {
        char name[METRIC_NAME_CAP];
        const char *why; /* "is a text, not a number" */
    } keys[METRIC_IGNORED_CAP];
};

/* Decodes one line, with or without its '\n'; `rank` is used if the line has
 * none.
 * out  rows[cap], *ret_n: the line's row first, if it is one, then its values
 * err  ERR_INVAL not an object, no number for "iteration", "rank" or "epoch", a
 *      profile without its epoch;
 *      ERR_LIMIT more than cap rows */
int metric_line_decode(const char *line, size_t len, int32_t rank,
                       struct metric_row *rows, size_t cap, size_t *ret_n,
                       struct error *err) MUST_CHECK;
/* The same.
 * out  ret_ignored  what the line has besides */
int metric_line_decode_named(const char *line, size_t len, int32_t rank,
                             struct metric_row *rows, size_t cap, size_t *ret_n,
                             struct metric_ignored *ret_ignored,
                             struct error *err) MUST_CHECK;
/* Whether it is "iterations_total" or "epochs_total": what the whole job has,
 * and no metric. */
bool metric_is_total(const struct metric_row *row);

#endif
