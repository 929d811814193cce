/* chart.h - lines over numbers, as SVG.
 *
 * A picture is light or dark as its reader prefers (prefers-color-scheme),
 * has no script and fetches nothing. Text from elsewhere is escaped.
 */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_CHART_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_CHART_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

enum { CHART_SERIES_MAX = 8 };

struct chart_series {
    const char *name;
    const double *x, *y; /* borrowed; a NAN y is a gap */
    size_t n;
    bool marks;  /* a dot at each point, where they have room */
    bool dashed; /* another's, to compare with */
};

struct chart {
    const char *title, *x_title, *y_title;
    const struct chart_series *series;
    size_t n;        /* 1..CHART_SERIES_MAX */
    bool from_zero;  /* y begins at 0 */
    bool log_y;      /* only values above 0 are drawn */
    bool categories; /* x are whole numbers, each with its tick */
};

/* Appends an <svg> element; is_file: with what makes it a file of its own.
 * err  ERR_INVAL no series, or too many;  ERR_NOMEM */
int chart_svg(const struct chart *c, bool is_file, struct buf *out,
              struct error *err) MUST_CHECK;

/* The colours, once per document that has several charts in it. */
int chart_style(struct buf *out, struct error *err) MUST_CHECK;

/* Text as XML and HTML have it; what is no character in them becomes '?'. */
int chart_escape(const char *text, struct buf *out,
                 struct error *err) MUST_CHECK;

#endif
