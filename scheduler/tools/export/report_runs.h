/* report_runs.h - the runs that a report of mgpu-stat compares, and its file:
 * for the reports that are tables of their own. */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_REPORT_RUNS_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_REPORT_RUNS_H

#include "scheduler/tools/export/report.h"

typedef int runs_take_f(struct client *c, const char *display_id, void *arg,
                        struct error *err);
typedef void runs_write_f(const void *report, FILE *out);

/* Calls take for each job, the newest first: for those that words name, jobs
 * or sweeps, the last word first; without words for the newest 500 with that
 * name.
 * err  ERR_USAGE a word is no job; take's; the client's */
int runs_each(struct client *c, const char *name, char **words, size_t n,
              runs_take_f *take, void *arg, struct error *err) MUST_CHECK;

/* err  ERR_USAGE --json or --svg was asked for: such a report has neither */
int runs_refuse(const struct report_conf *conf, struct error *err) MUST_CHECK;

/* err  ERR_IO "open 'path'" and the like */
int runs_write(const char *path, runs_write_f *write, const void *report,
               struct error *err) MUST_CHECK;

#endif
