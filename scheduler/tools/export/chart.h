/* chart.h - line charts as SVG. */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_CHART_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_CHART_H

#include <stdbool.h>
#include <stddef.h>

#include "scheduler/tools/export/svg.h"

/* Further lines than colours have them again, in other patterns. */
enum { CHART_SERIES_MAX = 64, CHART_CLASS_CAP = 48 };

struct chart_series {
    const char *name;
    const double *x, *y; /* borrowed; a NAN y is a gap, an infinite one a mark
                          * at the end of the axis */
    size_t n;
    bool marks;      /* draw a dot at each point, if there is room */
    bool dashed;     /* a reference line */
    bool smooth;     /* of many points draw a running mean, the points pale */
    bool names_gaps; /* a NAN y was not a number: a mark, too */
    size_t like;     /* it has the colour of line like - 1; 0: its own */
};

struct chart {
    const char *title, *x_title, *y_title;
    const char *note; /* below it; NULL: none */
    const struct chart_series *series;
    size_t n;        /* 1..CHART_SERIES_MAX */
    bool from_zero;  /* y starts at 0 */
    bool log_x;      /* with a tick at each x */
    bool log_y;      /* of logarithmic axes draw only values above 0 */
    bool categories; /* x are whole numbers, each with a tick */
};

/* Appends an <svg> element; is_file: as a complete file, else with its scales
 * as data-x, data-y, data-log and data-plot, for the script of a page.
 * err  ERR_INVAL no series, or too many;  ERR_NOMEM */
int chart_svg(const struct chart *c, bool is_file, struct buf *out,
              struct error *err) MUST_CHECK;

/* The classes of line i: its colour and pattern. */
const char *chart_class(const struct chart *c, size_t i,
                        char out[CHART_CLASS_CAP]);

#endif
