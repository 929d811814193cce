/* plot.h - files with pictures of jobs: one chart, or a report. */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_PLOT_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_PLOT_H

#include "jobs/base/buf.h"
#include "scheduler/tools/common/client.h"

/* A chart of one column, a line for each job, as an SVG file.
 * in   words   jobs, as "12" or "12_3"
 *      column  of v_iteration or v_epoch: "loss", "eval_accuracy"
 *      path    "-": standard output
 * err  ERR_NOTFOUND no such column, with those there are, or nothing to draw;
 *      ERR_IO */
int plot_jobs(struct client *c, char *const *words, size_t n,
              const char *column, const char *path,
              struct error *err) MUST_CHECK;

/* All about one job, or task of a sweep, as one HTML file that fetches nothing.
 */
int report_job(struct client *c, const char *word, const char *path,
               struct error *err) MUST_CHECK;

/* The whole text, or no file. err ERR_IO */
int plot_write(const char *path, const struct buf *text,
               struct error *err) MUST_CHECK;

#endif
