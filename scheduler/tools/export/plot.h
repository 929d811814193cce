/* plot.h - files with pictures of jobs: a chart, or an HTML report. */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_PLOT_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_PLOT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "jobs/base/buf.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/tools/export/chart.h"

/* What is known of a column of v_iteration or v_epoch. */
struct plot_column {
    const char *name, *title, *unit;
    bool is_epoch, from_zero;
    int best; /* -1: the lowest value is the best, 1: the highest, 0: neither */
};
/* NULL: i is past the last. */
const struct plot_column *plot_column_at(size_t i);
/* NULL: perhaps a metric that a job named itself. */
const struct plot_column *plot_column_named(const char *name);
/* A chart of a column; of such a metric without one. It borrows the lines.
 * in  job  NULL: it trains a model of ours. What the loss or the accuracy of a
 *          program is measured in, only the program knows */
struct chart plot_chart(const struct plot_column *column, const json_t *job,
                        const char *title, const struct chart_series *series,
                        size_t n);
/* "3_1 lr=0.1 precision=fp16" of a task, "3 mnist" of a job. */
int plot_name(const char *word, const json_t *job, char *out, size_t cap,
              struct error *err) MUST_CHECK;

/* Draws a chart of one column, a line per job and per task of a sweep that has
 * started, as an SVG file.
 * in   words   jobs and sweeps, as "12" or "12_3"
 *      column  of v_iteration or v_epoch: "loss", "eval_accuracy"; or a metric
 *              that the jobs named themselves
 *      path    "-": standard output
 * err  ERR_NOTFOUND no such column, with the existing ones, or no data;
 *      ERR_IO */
int plot_jobs(struct client *c, char *const *words, size_t n,
              const char *column, const char *path,
              struct error *err) MUST_CHECK;

/* Writes the HTML report of one job or task, or of a sweep as a whole, as one
 * file that loads nothing. */
int report_job(struct client *c, const char *word, const char *path,
               struct error *err) MUST_CHECK;

/* The part of it for a sweep, of its mgpu.job/1. */
int report_sweep(struct client *c, const char *word, const json_t *reply,
                 const char *path, struct error *err) MUST_CHECK;

/* "create 'loss.svg': No such file or directory": of a file that the user
 * named, which is no missing job. Returns -1 with ERR_IO. */
int plot_file_error(struct error *err, int why, const char *what,
                    const char *path);
/* Writes the whole text, or leaves no file; "-" is standard output.
 * err  ERR_IO */
int plot_write(const char *path, const struct buf *text,
               struct error *err) MUST_CHECK;

#endif
