/* plot.h - files with pictures of jobs: a chart, or an HTML report. */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_PLOT_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_PLOT_H

#include "jobs/base/buf.h"
#include "scheduler/tools/common/client.h"

/* Draws a chart of one column, a line per job, as an SVG file.
 * in   words   jobs, as "12" or "12_3"
 *      column  of v_iteration or v_epoch: "loss", "eval_accuracy"
 *      path    "-": standard output
 * err  ERR_NOTFOUND no such column, with the existing ones, or no data;
 *      ERR_IO */
int plot_jobs(struct client *c, char *const *words, size_t n,
              const char *column, const char *path,
              struct error *err) MUST_CHECK;

/* Writes the HTML report of one job or task as one file that loads nothing. */
int report_job(struct client *c, const char *word, const char *path,
               struct error *err) MUST_CHECK;

/* Writes the whole text, or leaves no file. err ERR_IO */
int plot_write(const char *path, const struct buf *text,
               struct error *err) MUST_CHECK;

#endif
