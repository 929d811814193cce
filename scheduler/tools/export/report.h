/* report.h - own runs beside the results of a paper, or beside each other:
 * mgpu-stat --report NAME. */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_REPORT_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/render.h"
#include "scheduler/tools/export/export.h"
#include "scheduler/tools/export/paper_results.h"

enum { REPORT_ROWS = 256, REPORT_VALUE_CAP = 48 };

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
    double s_per_update;           /* train_s by iterations */
    double samples_per_s, tokens_per_s; /* of all ranks, in the last epoch */
    /* The memory of the fullest rank, planned if no GPU measured it; what a
     * rank moves in an iteration, from host to device and by collectives. */
    double memory_bytes, h2d_bytes, collective_bytes;
    bool is_planned;
    double t_data_s, t_h2d_s; /* a rank's mean in the last epoch */
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

void report_clear(struct report *r);

/* Replies about one run: mgpu.job/1, mgpu.epochs/1; mgpu.profile/1 and
 * mgpu.iterations/1, or NULL. */
struct report_run {
    const json_t *job, *epochs, *profile, *iterations;
};
/* The figures of a row. */
void report_figures(struct report_row *row, const struct paper *p,
                    const struct report_run *run);

/* ---- the parts of it, for tests -------------------------------------------
 */
/* Adds the paper's rows to r, which has its paper. */
void report_begin(struct report *r);
/* Adds one run. A later call for the same row is an older run, and changes
 * nothing. */
int report_add_run(struct report *r, const struct report_run *run,
                   struct error *err) MUST_CHECK;
/* Computes speed-up and the other derived figures; ran_on from mgpu.nodes/1. */
int report_finish(struct report *r, const json_t *nodes,
                  struct error *err) MUST_CHECK;

/* The row with this value of `key` and the same other keys; NULL: there is
 * none, or no such key. */
const struct report_row *report_base(const struct report *r,
                                     const struct report_row *row,
                                     const char *key, const char *value);
/* A number of a row by its offset. */
double report_number(const struct report_row *row, size_t at);

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
    const char *name; /* "table2" */
    bool exports;     /* in `format`, CSV or SVG, in place of printing */
    enum export_format format;
    const char *output; /* the file; NULL: standard output */
    bool json, header;
    struct render_style style;
};
/* in   words  jobs and sweeps to take the runs from; n 0: all visible jobs with
 *      the report's name, the newest 500
 * err  ERR_USAGE no such report, or not in that form; a word is no job; of a
 *      file that cannot be written; the client's */
int report_view(struct client *c, const struct report_conf *conf, char **words,
                size_t n, FILE *out, struct error *err) MUST_CHECK;

/* Seconds since 1970 of "2026-11-21T10:02:11.123Z"; NAN if malformed. */
double report_time(const char *text);

#endif
