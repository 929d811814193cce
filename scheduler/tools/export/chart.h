/* chart.h - line charts as SVG.
 *
 * A picture follows the reader's preference for light or dark
 * (prefers-color-scheme), has no script and loads nothing. Text from outside is
 * escaped.
 */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_CHART_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_CHART_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

/* Eight colours; further lines have them again, in other patterns. */
enum { CHART_COLOURS = 8, CHART_SERIES_MAX = 64 };

struct chart_series {
    const char *name;
    const double *x, *y; /* borrowed; a NAN y is a gap */
    size_t n;
    bool marks;  /* draw a dot at each point, if there is room */
    bool dashed; /* a reference line */
};

struct chart {
    const char *title, *x_title, *y_title;
    const struct chart_series *series;
    size_t n;        /* 1..CHART_SERIES_MAX */
    bool from_zero;  /* y starts at 0 */
    bool log_y;      /* draw only values above 0 */
    bool categories; /* x are whole numbers, each with a tick */
};

/* Appends an <svg> element; is_file: as a complete file, else with its scales
 * as data-x, data-y, data-log and data-plot, for the script of a page.
 * err  ERR_INVAL no series, or too many;  ERR_NOMEM */
int chart_svg(const struct chart *c, bool is_file, struct buf *out,
              struct error *err) MUST_CHECK;

/* Appends the colours; once per document with several charts. */
int chart_style(struct buf *out, struct error *err) MUST_CHECK;

/* Appends the classes of line i: its colour and pattern. */
int chart_class(size_t i, bool dashed, struct buf *out,
                struct error *err) MUST_CHECK;

/* Escapes text for XML and HTML; an invalid character becomes '?'. */
int chart_escape(const char *text, struct buf *out,
                 struct error *err) MUST_CHECK;

#endif
