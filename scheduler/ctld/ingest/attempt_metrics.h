/* attempt_metrics.h - the metric rows of the attempts, and what is learnt from
 * them. */
#ifndef MGPU_SCHEDULER_CTLD_INGEST_ATTEMPT_METRICS_H
#define MGPU_SCHEDULER_CTLD_INGEST_ATTEMPT_METRICS_H

#include "jobs/wire/metric_rows.h"
#include "scheduler/ctld/ctld_internal.h"

/* ---- metric_ingest.c, spool_drain.c: metric rows --------------------------
 */
int ctld_ingest_init(struct ctld *c, struct error *err) MUST_CHECK;
void ctld_ingest_clear(struct ctld *c);
/* Its end is durable. */
void ctld_ingest_forget(struct ctld *c, uint64_t job, int32_t attempt);
struct ctld_names; /* below */
/* One batch of lines to rows in the store; on the writer's thread. */
struct ingest_count {
    uint64_t stored, repeated;
    uint64_t dropped;  /* lines that are no rows */
    uint64_t unwanted; /* rows under too many names */
    int64_t iteration; /* the highest; 0: there is none */
};
int ctld_store_lines(struct store *s, uint64_t job, int32_t attempt,
                     int32_t rank, struct ctld_names *names, const char *text,
                     size_t len, struct ingest_count *io,
                     struct error *err) MUST_CHECK;

/* stragglers.c: engine_parts.lags: "; rank 2 lags: at iteration 117, others at
 * 118".
 */
void ctld_lags(void *arg, const struct job *job, char *ret, size_t cap);
void ctld_count_rows(struct ctld *c, const struct ingest_count *n);
/* engine_on_exit's callback. */
int ctld_drain(void *arg, const struct job *job, struct error *err);

/* ---- metric_name_limit.c: how many names of metrics an attempt may have ----
 */
struct ctld_names *ctld_names_create(void); /* NULL: no memory */
struct ctld_names *ctld_names_ref(struct ctld_names *n);
void ctld_names_unref(struct ctld_names *n); /* NULL is fine */
/* Whether the row may be stored; on the writer's thread. */
bool ctld_names_take(struct ctld_names *n, const struct metric_row *row);

/* ---- worker_report.c: the last word of an attempt's worker ------------------
 */
struct worker_report {
    int32_t exit_code;
    char why[JOB_REASON_CAP], fault_node[ALLOC_NODE_NAME_CAP];
    struct engine_report_extra extra;
};
/* err  ERR_INVAL it has no exit code; *ret is untouched */
int worker_report_parse(const json_t *o, struct worker_report *ret,
                        struct error *err) MUST_CHECK;
/* engine_report() */
int worker_report_use(struct engine *e, uint64_t job, int32_t attempt,
                      const struct worker_report *r,
                      struct error *err) MUST_CHECK;

enum { INTAKE_IDLE, INTAKE_DRAINING, INTAKE_DRAINED, INTAKE_FAILED };
/* How far the spools have been read. */
struct drain_at {
    int32_t rank;
    int64_t offset; /* -1: from what is acknowledged */
    int64_t cost;   /* bytes of this spool, holes for less */
    bool is_cut;    /* one was not read to its end */
};
struct figures {             /* attempt_progress.c */
    struct engine_beat last; /* zeroes and NAN: no row says so */
    int32_t epochs_done;
};
struct rank_seen {
    int64_t iteration; /* of its rows in this life of the daemon; 0: none */
    double heard_s;    /* when it last sent any, or none; NAN */
};
struct intake {
    struct intake *next;
    uint64_t job;
    int32_t attempt;
    int state;
    struct error why;           /* INTAKE_FAILED */
    double failed_s, failing_s; /* the last and the first failed try; NAN */
    double complained_s;        /* -INFINITY: not yet */
    bool undrained;  /* its end was staged, but not all rows are stored */
    bool looked;     /* for report.json */
    bool has_report; /* kept for as often as its event is undone */
    struct worker_report report;
    bool has_figures;
    struct figures figures;
    struct ctld_names *names; /* a reference */
    int64_t *acked;           /* by rank; -1: nothing known */
    struct rank_seen *seen;   /* by rank, too; stragglers.c */
    int32_t n_ranks;
    struct drain_at at;
};
struct intake *ctld_intake(struct ctld *c, uint64_t job, int32_t attempt,
                           bool create);

/* ---- attempt_progress.c: how far an attempt came, from its rows -----------
 */
/* From any thread. */
int figures_read(struct store *s, uint64_t job, int32_t attempt,
                 struct figures *ret, struct error *err) MUST_CHECK;
/* Of the job's attempt that is about to end. */
void figures_use(struct engine *e, const struct job *job,
                 const struct figures *f);

#endif
