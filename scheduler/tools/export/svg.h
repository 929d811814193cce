/* svg.h - write a picture as SVG: the elements that all pictures are made of,
 * and their colours.
 *
 * A picture follows the reader's preference for light or dark
 * (prefers-color-scheme), has no script and loads nothing. Text from outside is
 * escaped. Numbers have one digit behind the point, if it is not 0.
 *
 * Writing into memory fails only when memory runs out: then `rc` is -1, and the
 * functions do nothing any more.
 */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_SVG_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_SVG_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

/* Classes: c-s0 to c-s7 are the colours, c-rest is grey; c-ink and c-dim are
 * text, c-on is text on a colour, c-t and c-h its fonts, c-small a smaller one;
 * c-grid and c-axis are lines, c-line is a curve, c-dash or c-d1 to c-d7 its
 * pattern, c-pale one behind another; c-dot is a point, c-bar a part of a bar.
 */
enum { SVG_COLOURS = 8 };

struct svg {
    struct buf *out;
    struct error *err; /* may be NULL */
    int rc;
};

/* Begins an <svg> element with its ground.
 * in  label       for a reader that does not see it
 *     attributes  further ones of the element, each after a blank
 *     is_file     as a complete file, with the style */
void svg_begin(struct svg *s, double width, double height, const char *label,
               const char *attributes, bool is_file);
void svg_end(struct svg *s);
void svg_style(struct svg *s); /* once per document with several pictures */

void svg_add(struct svg *s, const char *raw);
void svg_escape(struct svg *s, const char *text);
/* anchor  "start", "middle" or "end" */
void svg_text(struct svg *s, double x, double y, const char *class,
              const char *anchor, const char *text);
void svg_line(struct svg *s, double x1, double x2, double y1, double y2,
              const char *class);
/* tip  what a pointer shows; NULL: nothing */
void svg_rect(struct svg *s, double x, double y, double width, double height,
              const char *class, const char *tip);
void svg_dot(struct svg *s, double x, double y, const char *tip);
/* A point of a path; after a gap the path starts anew. */
void svg_point(struct svg *s, double x, double y, bool *io_gap);

#endif
