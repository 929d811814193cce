/* profile.h - what a rank's epochs consisted of: calls, seconds, bytes.
 *
 * A source counts. There are two: cupti, for GPUs, has NVIDIA's own figures
 * of the calls that the papers compare; host counts what the host does in
 * their place. A source that fails is turned off, with one line in the log:
 * training does not need it.
 *
 * Profiling costs time, which is measured: blocks of PROFILE_BLOCK of an
 * epoch's first iterations run in turn with and without it, and their medians
 * are compared. If it costs more than PROFILE_MOST, only windows of an epoch
 * are profiled from then on, as few as it takes, and their counts are scaled
 * up; v_profile's `sampled` says so. All ranks profile the same iterations,
 * because a slower rank makes all slower.
 */
#ifndef MGPU_WORKER_PROFILE_PROFILE_H
#define MGPU_WORKER_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/spec/spec.h"
#include "jobs/wire/metric_rows.h"
#include "kernels/device.h"
#include "worker/comm/comm.h"

#define PROFILE_MOST 0.01 /* of an iteration's time */
#define PROFILE_SHARE 0.1 /* of the iterations, with profile: sampled */
enum {
    PROFILE_BLOCK = 4, /* iterations that are profiled in a row */
    PROFILE_PAIRS = 8, /* blocks, on and off, that are compared */
    PROFILE_WARM = 3,  /* iterations that are no measure of anything */
    PROFILE_ROWS = 64,
};

/* ---- the seam ------------------------------------------------------------ */

struct profile_row {
    char metric[METRIC_NAME_CAP];
    int64_t calls, bytes; /* bytes -1: it moves none */
    double total_s;
};
struct profile_rows {
    struct profile_row at[PROFILE_ROWS];
    int32_t n;
};
/* Adds to the metric's row, or to a new one; when all are taken, to the last,
 * which is then called "other". */
void profile_add(struct profile_rows *io, const char *metric, int64_t calls,
                 double total_s, int64_t bytes);

struct profile_source;
struct profile_source_ops {
    const char *name;
    int (*start)(struct profile_source *s, struct error *err);
    int (*stop)(struct profile_source *s, struct error *err);
    /* Adds what was counted since the last time. The device is idle. */
    int (*take)(struct profile_source *s, struct profile_rows *io,
                struct error *err);
    void (*destroy)(struct profile_source *s); /* NULL is fine */
};
struct profile_source {
    const struct profile_source_ops *ops;
};

/* The host's launches, products and copies, and the collectives of both
 * communicators, which are of comm_count_create(). All are borrowed. */
int profile_host_create(struct device *dev, struct comm *a, struct comm *b,
                        struct profile_source **ret,
                        struct error *err) MUST_CHECK;
/* CUPTI's activity records. One at a time in a process.
 * in   library  NULL: $MGPU_CUPTI, or where CUDA puts it
 * err  ERR_UNAVAIL there is none, or a build without its header;
 *      ERR_EXTERN it refused;  ERR_STATE there is one */
int profile_cupti_create(const char *library, struct profile_source **ret,
                         struct error *err) MUST_CHECK;

/* ---- the iterations ------------------------------------------------------ */

struct profile; /* NULL: no profile; every function takes it */

/* own  source  also on failure */
int profile_create(struct profile_source *source, enum spec_profile mode,
                   struct profile **ret, struct error *err) MUST_CHECK;
void profile_destroy(struct profile *p);

/* Around iteration `batch` of `batches` of an epoch, from 0. */
void profile_begin(struct profile *p, int32_t batch, int32_t batches);
void profile_end(struct profile *p, double t_iter);
/* Between two iterations: ends the profile, on all ranks alike. */
void profile_finish(struct profile *p);

struct profile_epoch {
    struct profile_rows rows; /* scaled up */
    int32_t seen, iterations; /* of those that this rank did */
    double iterations_s;      /* what these took */
    double sampled;           /* seen / iterations */
    double cost_s;            /* what profiling took, as far as it is known */
};
/* All since the last call; false: nothing was seen. Ends the epoch. */
bool profile_take(struct profile *p, struct profile_epoch *ret);

/* Cost of profiling as a share of an iteration's time, and its standard error;
 * NAN before it is known. */
double profile_cost(const struct profile *p, double *ret_error);
/* The share of the iterations that this rank would look at, above 0 to 1;
 * and what the ranks agreed on. */
double profile_wish(const struct profile *p);
void profile_agree(struct profile *p, double share);

#endif
