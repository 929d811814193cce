/* chart.c - draw a line chart as SVG; see chart.h.
 *
 * The drawing is 720 by 320 units. If a series has more points than the plot
 * has units of width, each unit shows the lowest and the highest of its points,
 * in their order: a peak is never lost, and the size of a picture is bounded.
 */
#include "scheduler/tools/export/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 720,
    HEIGHT = 320,
    LEFT = 64,
    RIGHT = 16,
    TOP = 56,
    BOTTOM = 48,
    PLOT_W = WIDTH - LEFT - RIGHT,
    PLOT_H = HEIGHT - TOP - BOTTOM,
    TICKS = 6,
    MARKS_APART = 11, /* a dot is 8 wide, and the line must show between two */
};

/* Colours that colour-blind people can distinguish, on light and dark
 * ground. */
static const char style[] =
    "<style>"
    ".c-bg{fill:#fff}.c-ink{fill:#1c1f24}.c-dim{fill:#5b626d}"
    ".c-grid{stroke:#e3e6ea}.c-axis{stroke:#8a919c}"
    ".c-s0{stroke:#1f6fd0;fill:#1f6fd0}.c-s1{stroke:#d1690b;fill:#d1690b}.c-s2{"
    "stroke:#14805e;fill:#14805e}"
    ".c-s3{stroke:#a8329a;fill:#a8329a}.c-s4{stroke:#7a6a00;fill:#7a6a00}.c-s5{"
    "stroke:#c2293f;fill:#c2293f}"
    ".c-s6{stroke:#5b4fc9;fill:#5b4fc9}.c-s7{stroke:#3d7d99;fill:#3d7d99}"
    "@media(prefers-color-scheme:dark){"
    ".c-bg{fill:#15181d}.c-ink{fill:#e8eaed}.c-dim{fill:#a3abb7}"
    ".c-grid{stroke:#2a2f37}.c-axis{stroke:#6b7380}"
    ".c-s0{stroke:#6fb1ff;fill:#6fb1ff}.c-s1{stroke:#ffa657;fill:#ffa657}.c-s2{"
    "stroke:#4fd1a1;fill:#4fd1a1}"
    ".c-s3{stroke:#e58bd8;fill:#e58bd8}.c-s4{stroke:#d9c54a;fill:#d9c54a}.c-s5{"
    "stroke:#ff7b88;fill:#ff7b88}"
    ".c-s6{stroke:#a79dff;fill:#a79dff}.c-s7{stroke:#7cc4e0;fill:#7cc4e0}}"
    ".c-line{fill:none;stroke-width:2;"
    "stroke-linejoin:round;stroke-linecap:round}"
    ".c-dash,.c-d1{stroke-dasharray:6 5}.c-d2{stroke-dasharray:2 5}"
    ".c-d3{stroke-dasharray:10 5 2 5}.c-d4{stroke-dasharray:14 4}"
    ".c-d5{stroke-dasharray:6 4 2 4 2 4}.c-d6{stroke-dasharray:1 3}"
    ".c-d7{stroke-dasharray:18 4 6 4}.c-dot{stroke:none}"
    ".c-t{font:13px system-ui,sans-serif}.c-h{font:600 15px "
    "system-ui,sans-serif}"
    "</style>";

/* ---- text ----------------------------------------------------------------
 */

int chart_escape(const char *text, struct buf *out, struct error *err)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        char one[2] = {(char)*p, '\0'};
        const char *as = *p == '&'                               ? "&amp;"
                         : *p == '<'                             ? "&lt;"
                         : *p == '>'                             ? "&gt;"
                         : *p == '"'                             ? "&quot;"
                         : *p == '\''                            ? "&#39;"
                         : *p < 0x20 && *p != '\t' && *p != '\n' ? "?"
                                                                 : one;
        if (buf_addstr(out, as, err) < 0)
            return -1;
    }
    return 0;
}

int chart_style(struct buf *out, struct error *err)
{
    return buf_addstr(out, style, err);
}

static int add_text(struct buf *out, double x, double y, const char *class,
                    const char *anchor, const char *text, struct error *err)
{
    if (buf_addf(out, err,
                 "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" "
                 "text-anchor=\"%s\">",
                 x, y, class, anchor) < 0 ||
        chart_escape(text, out, err) < 0)
        return -1;
    return buf_addstr(out, "</text>", err);
}

/* ---- scales --------------------------------------------------------------
 */

struct scale {
    double lo, hi, step; /* for a log axis: exponents of ten */
    bool is_log;
};

static double nice(double v)
{
    double base = pow(10, floor(log10(v)));
    double f = v / base;
    return base * (f <= 1 ? 1 : f <= 2 ? 2 : f <= 5 ? 5 : 10);
}

static void widen(struct scale *s, const struct chart *c, bool is_y)
{
    s->lo = INFINITY;
    s->hi = -INFINITY;
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < c->series[i].n; k++) {
            double x = c->series[i].x[k], y = c->series[i].y[k];
            double v = is_y ? y : x;
            if (!isfinite(x) || !isfinite(y) || (c->log_y && !(y > 0)))
                continue;
            v = s->is_log ? log10(v) : v;
            s->lo = v < s->lo ? v : s->lo;
            s->hi = v > s->hi ? v : s->hi;
        }
    if (!(s->lo <= s->hi)) {
        s->lo = 0;
        s->hi = 1;
    }
}

static struct scale scale_of(const struct chart *c, bool is_y)
{
    struct scale s = {.is_log = is_y && c->log_y};
    widen(&s, c, is_y);
    if (is_y && c->from_zero && !s.is_log)
        s.lo = s.lo < 0 ? s.lo : 0;
    if (s.lo == s.hi) {
        double by = s.lo != 0 ? fabs(s.lo) / 2 : 0.5;
        s.lo -= is_y && c->from_zero ? 0 : by;
        s.hi += by;
    }
    s.step = nice((s.hi - s.lo) / (double)TICKS);
    if (s.is_log)
        s.step = s.step < 1 ? 1 : ceil(s.step);
    if (!is_y && c->categories)
        s.step = s.step < 1 ? 1 : ceil(s.step);
    if (is_y) { /* the x axis ends with the data */
        s.lo = floor(s.lo / s.step + 1e-9) * s.step;
        s.hi = ceil(s.hi / s.step - 1e-9) * s.step;
    } else if (c->categories) {
        s.lo -= 0.3;
        s.hi += 0.3;
    }
    return s;
}

static double at_x(const struct scale *s, double v)
{
    return (double)LEFT + (double)PLOT_W * (v - s->lo) / (s->hi - s->lo);
}

/* v: as on the axis, the logarithm where that is logarithmic. */
static double axis_y(const struct scale *s, double v)
{
    return (double)TOP + (double)PLOT_H * (1 - (v - s->lo) / (s->hi - s->lo));
}

static double at_y(const struct scale *s, double v)
{
    return axis_y(s, s->is_log ? log10(v) : v);
}

static void tick_text(const struct scale *s, double v, char *out, size_t cap)
{
    if (s->is_log)
        (void)snprintf(out, cap, "%.6g", pow(10, v));
    else if (fabs(v) < s->step / 1e6)
        (void)snprintf(out, cap, "0");
    else if (fabs(v) >= 1e6)
        (void)snprintf(out, cap, "%.4gM", v / 1e6);
    else if (fabs(v) >= 1e4)
        (void)snprintf(out, cap, "%.5gk", v / 1e3);
    else
        (void)snprintf(out, cap, "%.6g", v);
}

/* ---- parts ---------------------------------------------------------------
 */

static int add_ticks(const struct scale *s, bool is_y, struct buf *out,
                     struct error *err)
{
    char text[32];
    double first = ceil(s->lo / s->step - 1e-9) * s->step;
    for (int i = 0; i < 40; i++) {
        double v = first + i * s->step;
        if (v > s->hi + s->step * 1e-9)
            break;
        tick_text(s, v, text, sizeof(text));
        double x = at_x(s, v), y = axis_y(s, v);
        int rc = is_y ? buf_addf(out, err,
                                 "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" "
                                 "y2=\"%.1f\" class=\"c-grid\"/>",
                                 LEFT, LEFT + PLOT_W, y, y)
                      : buf_addf(out, err,
                                 "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" "
                                 "y2=\"%d\" class=\"c-axis\"/>",
                                 x, x, TOP + PLOT_H, TOP + PLOT_H + 5);
        rc = rc < 0 ? rc
             : is_y
                 ? add_text(out, LEFT - 8, y + 4, "c-dim c-t", "end", text, err)
                 : add_text(out, x, TOP + PLOT_H + 20, "c-dim c-t", "middle",
                            text, err);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int add_frame(const struct chart *c, const struct scale *x,
                     const struct scale *y, struct buf *out, struct error *err)
{
    if (add_ticks(y, true, out, err) < 0 || add_ticks(x, false, out, err) < 0 ||
        buf_addf(out, err,
                 "<line x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\" "
                 "class=\"c-axis\"/>",
                 LEFT, LEFT + PLOT_W, TOP + PLOT_H, TOP + PLOT_H) < 0 ||
        add_text(out, LEFT + PLOT_W, HEIGHT - 8, "c-dim c-t", "end", c->x_title,
                 err) < 0)
        return -1;
    return 0;
}

static int add_titles(const struct chart *c, struct buf *out, struct error *err)
{
    if (add_text(out, LEFT, 22, "c-ink c-h", "start", c->title, err) < 0)
        return -1;
    return add_text(out, LEFT + PLOT_W, 22, "c-dim c-t", "end", c->y_title,
                    err);
}

/* An estimate of the width of a text of 13 px, rather too wide than too
 * narrow. */
static double text_width(const char *text)
{
    double width = 0;
    for (; *text; text++) {
        bool is_rest = ((unsigned char)*text & 0xc0) == 0x80; /* UTF-8 */
        width += is_rest                            ? 0
                 : strchr("mwMW@%", *text)          ? 12
                 : strchr("fijlrt.,:;'|!()", *text) ? 5
                 : *text >= 'A' && *text <= 'Z'     ? 9.2
                                                    : 7.6;
    }
    return width;
}

int chart_class(size_t i, bool dashed, struct buf *out, struct error *err)
{
    size_t pattern = i / CHART_COLOURS;
    if (buf_addf(out, err, "c-line c-s%zu", i % CHART_COLOURS) < 0)
        return -1;
    if (dashed)
        return buf_addstr(out, " c-dash", err);
    return pattern > 0 ? buf_addf(out, err, " c-d%zu", pattern) : 0;
}

/* Draws the legend in rows under the title. `out` NULL: only computes its
 * height beyond the first row, which has its room above the plot. */
static int add_legend(const struct chart *c, struct buf *out, int *ret_more,
                      struct error *err)
{
    enum { ROW = 18 };
    const double left = LEFT, key = 26, gap = 18;
    double x = left;
    *ret_more = 0;
    for (size_t i = 0; c->n > 1 && i < c->n; i++) {
        const struct chart_series *s = &c->series[i];
        double w = key + text_width(s->name);
        if (x > left && x + w > WIDTH - RIGHT) {
            x = left;
            *ret_more += ROW;
        }
        if (out &&
            (buf_addf(out, err,
                      "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" "
                      "class=\"",
                      x, x + 20, 40 + *ret_more, 40 + *ret_more) < 0 ||
             chart_class(i, s->dashed, out, err) < 0 ||
             buf_addstr(out, "\"/>", err) < 0 ||
             add_text(out, x + key, 44 + *ret_more, "c-ink c-t", "start",
                      s->name, err) < 0))
            return -1;
        x += w + gap;
    }
    return 0;
}

/* Adds one point to a path; after a gap the path starts anew. */
static int add_point(struct buf *out, double x, double y, bool *io_gap,
                     struct error *err)
{
    int rc = buf_addf(out, err, "%s%.1f %.1f", *io_gap ? "M" : "L", x, y);
    *io_gap = false;
    return rc;
}

struct extremes { /* of the points within one unit of width */
    int column;
    double first_x, lo, hi;
    bool hi_first, has;
};

static int flush(struct extremes *e, const struct scale *ys, struct buf *out,
                 bool *io_gap, struct error *err)
{
    if (!e->has)
        return 0;
    e->has = false;
    double a = e->hi_first ? e->hi : e->lo, b = e->hi_first ? e->lo : e->hi;
    if (add_point(out, e->first_x, at_y(ys, a), io_gap, err) < 0)
        return -1;
    return e->lo != e->hi ? add_point(out, e->first_x, at_y(ys, b), io_gap, err)
                          : 0;
}

static int add_path(const struct chart_series *s, const struct scale *xs,
                    const struct scale *ys, struct buf *out, struct error *err)
{
    struct extremes e = {.has = false};
    bool gap = true;
    for (size_t k = 0; k < s->n; k++) {
        double x = at_x(xs, s->x[k]), y = s->y[k];
        if (!isfinite(x) || !isfinite(y) || (ys->is_log && !(y > 0))) {
            if (flush(&e, ys, out, &gap, err) < 0)
                return -1;
            gap = true;
            continue;
        }
        int column = s->n > 2UL * PLOT_W ? (int)x : (int)k;
        if (e.has && e.column == column) {
            e.hi_first = y < e.lo ? true : y > e.hi ? false : e.hi_first;
            e.lo = y < e.lo ? y : e.lo;
            e.hi = y > e.hi ? y : e.hi;
            continue;
        }
        if (flush(&e, ys, out, &gap, err) < 0)
            return -1;
        e = (struct extremes){column, x, y, y, false, true};
    }
    return flush(&e, ys, out, &gap, err);
}

/* Dots that touch hide the line, for example of a short run beside a long
 * one. */
static bool has_room(const struct chart_series *s, const struct scale *xs)
{
    if (s->n < 2)
        return true;
    double apart =
        (at_x(xs, s->x[s->n - 1]) - at_x(xs, s->x[0])) / (double)(s->n - 1);
    return fabs(apart) >= (double)MARKS_APART;
}

static int add_series(const struct chart *c, size_t i, const struct scale *xs,
                      const struct scale *ys, struct buf *out,
                      struct error *err)
{
    const struct chart_series *s = &c->series[i];
    if (buf_addf(out, err, "<g class=\"c-s%zu\"><title>", i % CHART_COLOURS) <
            0 ||
        chart_escape(s->name, out, err) < 0 ||
        buf_addstr(out, "</title><path class=\"", err) < 0 ||
        chart_class(i, s->dashed, out, err) < 0 ||
        buf_addstr(out, "\" d=\"", err) < 0 ||
        add_path(s, xs, ys, out, err) < 0 || buf_addstr(out, "\"/>", err) < 0)
        return -1;
    bool marks = s->marks && has_room(s, xs);
    for (size_t k = 0; marks && k < s->n; k++) {
        double x = at_x(xs, s->x[k]);
        if (!isfinite(x) || !isfinite(s->y[k]) ||
            (ys->is_log && !(s->y[k] > 0)))
            continue;
        if (buf_addf(out, err,
                     "<circle class=\"c-dot\" cx=\"%.1f\" cy=\"%.1f\" "
                     "r=\"4\"><title>%.6g</title></circle>",
                     x, at_y(ys, s->y[k]), s->y[k]) < 0)
            return -1;
    }
    return buf_addstr(out, "</g>", err);
}

int chart_svg(const struct chart *c, bool is_file, struct buf *out,
              struct error *err)
{
    if (c->n < 1 || c->n > CHART_SERIES_MAX)
        return error_set(err, ERR_INVAL, "a chart of %zu lines, expected 1..%d",
                         c->n, (int)CHART_SERIES_MAX);
    struct scale x = scale_of(c, false), y = scale_of(c, true);
    char size[256] = "";
    int more = 0;
    if (add_legend(c, NULL, &more, err) < 0)
        return -1;
    if (is_file)
        (void)snprintf(size, sizeof(size), " width=\"%d\" height=\"%d\"", WIDTH,
                       HEIGHT + more);
    else
        (void)snprintf(size, sizeof(size),
                       " data-x=\"%.9g %.9g\" data-y=\"%.9g %.9g\" "
                       "data-log=\"%d\" data-plot=\"%d %d %d %d\"",
                       x.lo, x.hi, y.lo, y.hi, y.is_log, LEFT, TOP + more,
                       PLOT_W, PLOT_H);
    if (buf_addf(out, err,
                 "%s<svg xmlns=\"http://www.w3.org/2000/svg\" "
                 "viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"",
                 is_file ? "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" : "",
                 WIDTH, HEIGHT + more) < 0 ||
        chart_escape(c->title, out, err) < 0 ||
        buf_addf(out, err, "\"%s>", size) < 0 ||
        (is_file && chart_style(out, err) < 0) ||
        buf_addf(out, err, "<rect width=\"%d\" height=\"%d\" class=\"c-bg\"/>",
                 WIDTH, HEIGHT + more) < 0 ||
        add_titles(c, out, err) < 0 || add_legend(c, out, &more, err) < 0 ||
        buf_addf(out, err, "<g transform=\"translate(0,%d)\">", more) < 0 ||
        add_frame(c, &x, &y, out, err) < 0)
        return -1;
    for (size_t i = 0; i < c->n; i++)
        if (add_series(c, i, &x, &y, out, err) < 0)
            return -1;
    return buf_addstr(out, "</g></svg>\n", err);
}
