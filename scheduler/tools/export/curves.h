/* curves.h - curves of a job: the columns of a reply as lines of a chart. */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_CURVES_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_CURVES_H

#include <jansson.h>

#include "scheduler/tools/common/metric_set.h"
#include "scheduler/tools/export/chart.h"

struct curve {
    char name[96];
    double *x, *y; /* owned */
    size_t n;
    bool names_gaps; /* a loss, or a metric of the job's own: rows without a
                      * value had one that was not a number */
};

/* Column `y` against column `x` of the rows of one rank (-1: the view has no
 * ranks). Of several attempts, the last one that reached a point counts.
 * err  ERR_NOTFOUND no such column;  ERR_NOMEM */
int curve_of(const json_t *reply, const char *x, const char *y, int rank,
             struct curve *ret, struct error *err) MUST_CHECK;
/* A metric that the job named itself. err ERR_NOMEM */
int curve_of_metric(const struct metric_curve *m, struct curve *ret,
                    struct error *err) MUST_CHECK;
/* Points that can be drawn: an unknown value is none. */
size_t curve_points(const struct curve *c);
void curve_clear(struct curve *c); /* zeroed is fine */

/* The curve as a line of a chart, which borrows it. */
struct chart_series curve_series(const struct curve *c);

#endif
