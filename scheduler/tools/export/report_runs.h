/* report_runs.h - the runs that a report of mgpu-stat compares, and the file of
 * those reports that are tables of their own. */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_REPORT_RUNS_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_REPORT_RUNS_H

#include <jansson.h>

#include "scheduler/tools/export/report.h"

/* in job mgpu.job/1 */
typedef int runs_take_f(struct client *c, const char *display_id,
                        const json_t *job, void *arg, struct error *err);
typedef void runs_write_f(const void *report, FILE *out);

/* Calls take for each job, the newest first: for those that words name, jobs
 * or sweeps, the last word first; without words for the newest 500 with that
 * name. It counts the jobs of other users in a list, and leaves them out.
 * err  ERR_USAGE a word is no job; take's; the client's */
int runs_each(struct client *c, const char *name, char **words, size_t n,
              runs_take_f *take, void *arg, size_t *ret_denied,
              struct error *err) MUST_CHECK;
/* Says how many jobs are not among the rows. */
void runs_say_rest(size_t n_open, size_t n_denied, FILE *out);

/* err  ERR_USAGE --json or --svg was asked for: such a report has neither */
int runs_refuse(const struct report_conf *conf, struct error *err) MUST_CHECK;

/* err  ERR_IO "open 'path'" and the like */
int runs_write(const char *path, runs_write_f *write, const void *report,
               struct error *err) MUST_CHECK;

#endif
