/* job_charts.h - the curves of one job in an HTML report. */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_JOB_CHARTS_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_JOB_CHARTS_H

#include <jansson.h>

#include "scheduler/tools/common/metric_set.h"
#include "scheduler/tools/export/html_page.h"

/* A chart for each measure of the job that has values, of mgpu.iterations/1,
 * mgpu.epochs/1 and the metrics that it named itself. */
void job_charts_add(struct page *p, const json_t *job, const json_t *iterations,
                    const json_t *epochs, const struct metric_set *own);
/* The share of each phase in the step time, if any phase was reported. */
void job_charts_phases(struct page *p, const json_t *iterations);

#endif
