/* attempt_metrics.h - what the daemon knows about the metric rows of one
 * attempt.
 */
#ifndef MGPU_SCHEDULER_CTLD_INGEST_ATTEMPT_METRICS_H
#define MGPU_SCHEDULER_CTLD_INGEST_ATTEMPT_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "scheduler/ctld/ingest/attempt_progress.h"
#include "scheduler/ctld/ingest/metric_name_limit.h"
#include "scheduler/ctld/ingest/worker_report.h"

struct ctld;

enum { SPOOL_IDLE, SPOOL_DRAINING, SPOOL_DRAINED, SPOOL_FAILED };

/* How far the files of the ranks have been read. */
struct drain_at {
    int32_t rank;
    bool is_program; /* in what the program wrote; else in the spool */
    int64_t offset;  /* -1: from the acknowledged bytes on, or from those that
                      * the worker has read */
    int64_t cost;    /* bytes of this spool, holes for less */
    bool is_cut;     /* one was not read to its end */
};

struct rank_seen {
    int64_t iteration; /* of its rows since the daemon started; 0: none */
    double heard_s;    /* when it last sent any, or none; NAN */
};

/* One of each live attempt that sent rows, and of each that is ending. */
struct attempt_metrics {
    struct attempt_metrics *next;
    uint64_t job;
    int32_t attempt;
    int state;
    struct error why;           /* SPOOL_FAILED */
    double failed_s, failing_s; /* the last and the first failed try; NAN */
    double complained_s;        /* -INFINITY: not yet */
    bool undrained;  /* its end was staged, but not all rows are stored */
    bool looked;     /* for report.json */
    bool has_report; /* kept, because the engine may undo the event */
    struct worker_report report;
    bool has_progress;
    struct attempt_progress progress;
    struct metric_name_limit *names; /* a reference */
    int64_t *acked;                  /* by rank; -1: nothing known */
    struct rank_seen *seen;          /* by rank, for stragglers.c */
    int32_t n_ranks;
    int64_t sol_counted; /* the last iteration that is in sol_counts */
    int64_t taught;      /* the last iteration whose time the engine was told */
    int64_t n_taught;    /* how many since the daemon started */
    int64_t guess_at;    /* when so many are, scaling_guess_note() stores */
    bool is_compared;    /* predicted_per_s is set, or was compared */
    double predicted_per_s; /* rate of a size that had not run; NAN: none */
    struct drain_at at;
};

/* NULL: there is none, or no memory to create it. */
struct attempt_metrics *attempt_metrics_of(struct ctld *c, uint64_t job,
                                           int32_t attempt, bool create);
/* The bytes of the rank's rows that are stored; -1: not known. NULL: no memory.
 * Valid until the next call. */
int64_t *attempt_metrics_acked(struct attempt_metrics *i, int32_t rank);

#endif
