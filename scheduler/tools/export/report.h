/* report.h - own runs beside the results of a paper: mgpu-stat --report. */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_REPORT_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/render.h"
#include "scheduler/tools/export/paper_results.h"

enum { REPORT_ROWS = 2 * PAPER_ROWS, REPORT_VALUE_CAP = 48 };

/* One row: of the paper, or of own runs with other values of the keys. */
struct report_row {
    char keys[PAPER_KEYS][REPORT_VALUE_CAP];
    int64_t gpus; /* resources.gpus if it is a key; 0: it is not */

    bool is_run; /* the following values are of the newest completed run */
    char display_id[REPORT_VALUE_CAP], place[160], started[40];
    double time_s;   /* from its worker's claim to its end, over all attempts */
    double train_s;  /* of that, the training part of the epochs */
    double accuracy; /* 0..1, of the last epoch */
    double s_per_it; /* of a batch of each GPU, of the last epoch */
    double profiled_s; /* of train_s, what was profiled, on average of a rank */
    double seconds[PAPER_METRICS]; /* in profiled_s, summed over the ranks */
    double metrics[PAPER_METRICS]; /* of profiled_s on each rank, 0..1 */
    bool is_like; /* as far as known it is the same task as the paper's */

    double paper_s, paper_metrics[PAPER_METRICS];
    double paper_accuracy; /* 0..1 */
    double paper_s_per_it;
    /* Relative to one GPU with the same other keys; NAN without such a row. */
    double speedup, efficiency, paper_speedup, paper_efficiency;
    /* The time of the row that the paper compares this one with (compare_key of
     * struct paper), divided by this row's; NAN without such a row. */
    double compared, paper_compared;
    double times_paper; /* paper_s / time_s; NAN unless is_like */
};

struct report {
    struct paper paper;
    struct report_row rows[REPORT_ROWS];
    size_t n_rows, n_runs;
    struct buf differs;      /* "train.epochs is 1, not 20; ": what differs from
                                the paper's task */
    struct buf ran_on;       /* "n1: h100 (12 runs)" */
    size_t n_open, n_denied; /* number of jobs: not completed; of other users */
};

/* in   words  jobs and sweeps to take the runs from; n 0: all visible jobs with
 *      the report's name
 * own  *ret: report_clear() */
int report_collect(struct client *c, const char *name, char **words, size_t n,
                   struct report *ret, struct error *err) MUST_CHECK;
void report_clear(struct report *r);

/* ---- the parts of it, for tests -------------------------------------------
 */
/* Adds the paper's rows to r, which has its paper. */
void report_begin(struct report *r);
/* Adds one run: mgpu.job/1, mgpu.epochs/1, mgpu.profile/1 (or NULL). A later
 * call for the same row is an older run, and changes nothing. */
int report_add_run(struct report *r, const json_t *job, const json_t *epochs,
                   const json_t *profile, struct error *err) MUST_CHECK;
/* Computes speed-up and the other derived figures; ran_on from mgpu.nodes/1. */
int report_finish(struct report *r, const json_t *nodes,
                  struct error *err) MUST_CHECK;

/* ---- what is made of it ----------------------------------------------------
 */
int report_show(const struct report *r, const struct render_style *s,
                bool header, FILE *out, struct error *err) MUST_CHECK;
int report_csv(const struct report *r, FILE *out, struct error *err) MUST_CHECK;
json_t *report_json(const struct report *r); /* NULL: out of memory */
/* Draws one picture for light and dark; it loads no fonts or scripts. */
int report_svg(const struct report *r, FILE *out, struct error *err) MUST_CHECK;

/* Everything that mgpu-stat --report does. */
struct report_conf {
    const char *name;      /* "table2" */
    const char *csv, *svg; /* files to write; "-": standard output */
    bool json, header;
    struct render_style style;
};
/* How many documents go to standard output: JSON, and files named "-". */
int report_stdouts(const struct report_conf *conf);
/* err  as report_collect(); of a file that cannot be written */
int report_view(struct client *c, const struct report_conf *conf, char **words,
                size_t n, FILE *out, struct error *err) MUST_CHECK;

/* Seconds since 1970 of "2026-11-21T10:02:11.123Z"; NAN if malformed. */
double report_time(const char *text);

#endif
