/* chart.c - draw a line chart as SVG; see chart.h.
 *
 * The drawing is 720 by 320 units. If a series has more points than the plot
 * has units of width, each unit shows the lowest and the highest of its points,
 * in their order: a peak is never lost, and the size of a picture is bounded.
 */
#include "scheduler/tools/export/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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
    TICKS_CAP = 64,
    MARKS_APART = 11, /* a dot is 8 wide, and the line must show between two */
    NOTE = 18,
    MARGIN = 16,       /* before a text that begins left of the plot */
    SMOOTH_LEAST = 80, /* of fewer points each is seen */
    SMOOTH_PARTS = 40,
};

/* ---- scales --------------------------------------------------------------
 */

struct scale {
    double lo, hi, step; /* for a log axis: exponents of ten; no step */
    bool is_log;
};

static double nice(double v)
{
    double base = pow(10, floor(log10(v)));
    double f = v / base;
    return base * (f <= 1 ? 1 : f <= 2 ? 2 : f <= 5 ? 5 : 10);
}

static bool is_point(const struct chart *c, double x, double y)
{
    return isfinite(x) && isfinite(y) && (!c->log_x || x > 0) &&
           (!c->log_y || y > 0);
}

static void widen(struct scale *s, const struct chart *c, bool is_y)
{
    s->lo = INFINITY;
    s->hi = -INFINITY;
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < c->series[i].n; k++) {
            double x = c->series[i].x[k], y = c->series[i].y[k];
            double v = is_y ? y : x;
            if (!is_point(c, x, y))
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

/* Points do not touch the end of a logarithmic axis. */
static struct scale log_scale(const struct chart *c, bool is_y)
{
    struct scale s = {.is_log = true};
    widen(&s, c, is_y);
    double by = is_y ? log10(1.3) : s.lo == s.hi ? 0.5 : (s.hi - s.lo) / 20;
    s.lo -= by;
    s.hi += by;
    return s;
}

static struct scale scale_of(const struct chart *c, bool is_y)
{
    struct scale s = {.is_log = false};
    if (is_y ? c->log_y : c->log_x)
        return log_scale(c, is_y);
    widen(&s, c, is_y);
    if (is_y && c->from_zero)
        s.lo = s.lo < 0 ? s.lo : 0;
    if (s.lo == s.hi) {
        double by = s.lo != 0 ? fabs(s.lo) / 2 : 0.5;
        s.lo -= is_y && c->from_zero ? 0 : by;
        s.hi += by;
    }
    s.step = nice((s.hi - s.lo) / (double)TICKS);
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
    v = s->is_log ? log10(v) : v;
    return (double)LEFT + (double)PLOT_W * (v - s->lo) / (s->hi - s->lo);
}

static double at_y(const struct scale *s, double v)
{
    v = s->is_log ? log10(v) : v;
    return (double)TOP + (double)PLOT_H * (1 - (v - s->lo) / (s->hi - s->lo));
}

/* ---- ticks ---------------------------------------------------------------
 */

/* The steps of a logarithmic axis in each power of ten: the coarsest with at
 * least three ticks, so that it is readable also if the values differ little.
 */
static size_t log_ticks(const struct scale *s, double ret[TICKS_CAP])
{
    static const double sets[][15] = {
        {1}, {1, 2, 5}, {1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8}};
    size_t n = 0;
    for (size_t i = 0; n < 3 && i < sizeof(sets) / sizeof(sets[0]); i++) {
        n = 0;
        for (int e = (int)floor(s->lo); e <= (int)floor(s->hi); e++)
            for (size_t k = 0; sets[i][k] > 0 && n < TICKS_CAP; k++) {
                ret[n] = sets[i][k] * pow(10, e);
                n += log10(ret[n]) >= s->lo && log10(ret[n]) <= s->hi;
            }
    }
    return n;
}

/* Each x of the points, once. */
static size_t own_ticks(const struct chart *c, double ret[TICKS_CAP])
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < c->series[i].n; k++) {
            double x = c->series[i].x[k];
            size_t at = 0;
            while (at < n && ret[at] != x)
                at++;
            if (at == n && n < TICKS_CAP && is_point(c, x, c->series[i].y[k]))
                ret[n++] = x;
        }
    return n;
}

static size_t ticks_of(const struct chart *c, const struct scale *s, bool is_y,
                       double ret[TICKS_CAP])
{
    if (s->is_log)
        return is_y ? log_ticks(s, ret) : own_ticks(c, ret);
    double first = ceil(s->lo / s->step - 1e-9) * s->step;
    size_t n = 0;
    for (; n < 40; n++) {
        ret[n] = first + (double)n * s->step;
        if (ret[n] > s->hi + s->step * 1e-9)
            break;
    }
    return n;
}

static void tick_text(const struct scale *s, double v, char *out, size_t cap)
{
    if (fabs(v) < s->step / 1e6)
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

static void add_ticks(const struct chart *c, const struct scale *s, bool is_y,
                      struct svg *out)
{
    char text[32];
    double v[TICKS_CAP] = {0};
    size_t n = ticks_of(c, s, is_y, v);
    for (size_t i = 0; i < n; i++) {
        tick_text(s, v[i], text, sizeof(text));
        if (is_y) {
            double y = at_y(s, v[i]);
            svg_line(out, LEFT, LEFT + PLOT_W, y, y, "c-grid");
            svg_text(out, LEFT - 8, y + 4, "c-dim c-t", "end", text);
        } else {
            double x = at_x(s, v[i]);
            svg_line(out, x, x, TOP + PLOT_H, TOP + PLOT_H + 5, "c-axis");
            svg_text(out, x, TOP + PLOT_H + 20, "c-dim c-t", "middle", text);
        }
    }
}

static void add_frame(const struct chart *c, const struct scale *x,
                      const struct scale *y, struct svg *out)
{
    add_ticks(c, y, true, out);
    add_ticks(c, x, false, out);
    svg_line(out, LEFT, LEFT + PLOT_W, TOP + PLOT_H, TOP + PLOT_H, "c-axis");
    svg_text(out, LEFT + PLOT_W, HEIGHT - 8, "c-dim c-t", "end", c->x_title);
    if (c->note)
        svg_text(out, MARGIN, HEIGHT - 8 + NOTE, "c-dim c-small", "start",
                 c->note);
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

const char *chart_class(const struct chart *c, size_t i,
                        char out[CHART_CLASS_CAP])
{
    const struct chart_series *s = &c->series[i];
    size_t place = s->like > 0 ? s->like - 1 : i, pattern = place / SVG_COLOURS;
    char more[24] = "";
    if (pattern > 0)
        (void)snprintf(more, sizeof(more), " c-d%zu", pattern);
    (void)snprintf(out, CHART_CLASS_CAP, "c-line c-s%zu%s", place % SVG_COLOURS,
                   s->dashed ? " c-dash" : more);
    return out;
}

/* Draws the legend in rows under the title. `out` NULL: only computes its
 * height beyond the first row, which has its room above the plot. */
static int add_legend(const struct chart *c, struct svg *out)
{
    enum { ROW = 18 };
    const double left = LEFT, key = 26, gap = 18;
    char class[CHART_CLASS_CAP];
    double x = left;
    int more = 0;
    for (size_t i = 0; c->n > 1 && i < c->n; i++) {
        const struct chart_series *s = &c->series[i];
        double w = key + text_width(s->name);
        if (x > left && x + w > WIDTH - RIGHT) {
            x = left;
            more += ROW;
        }
        if (out) {
            svg_line(out, x, x + 20, 40 + more, 40 + more,
                     chart_class(c, i, class));
            svg_text(out, x + key, 44 + more, "c-ink c-t", "start", s->name);
        }
        x += w + gap;
    }
    return more;
}

struct extremes { /* of the points within one unit of width */
    int column;
    double first_x, lo, hi;
    bool hi_first, has;
};

static void flush(struct extremes *e, const struct scale *ys, struct svg *out,
                  bool *io_gap)
{
    if (!e->has)
        return;
    e->has = false;
    double a = e->hi_first ? e->hi : e->lo, b = e->hi_first ? e->lo : e->hi;
    svg_point(out, e->first_x, at_y(ys, a), io_gap);
    if (e->lo != e->hi)
        svg_point(out, e->first_x, at_y(ys, b), io_gap);
}

static void add_path(const struct chart *c, const struct chart_series *s,
                     const struct scale *xs, const struct scale *ys,
                     struct svg *out)
{
    struct extremes e = {.has = false};
    bool gap = true;
    for (size_t k = 0; k < s->n; k++) {
        double x = at_x(xs, s->x[k]), y = s->y[k];
        if (!is_point(c, s->x[k], y)) {
            flush(&e, ys, out, &gap);
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
        flush(&e, ys, out, &gap);
        e = (struct extremes){column, x, y, y, false, true};
    }
    flush(&e, ys, out, &gap);
}

/* A mean whose weights fall exponentially over a 40th of the points, divided by
 * their sum, so that it begins at the first point. Gaps stay. */
static void smooth(const struct chart_series *s, double *y)
{
    const double keep = 1 - (double)SMOOTH_PARTS / (double)s->n;
    double sum = 0, weight = 0;
    for (size_t k = 0; k < s->n; k++) {
        if (isfinite(s->y[k])) {
            sum = keep * sum + s->y[k];
            weight = keep * weight + 1;
        }
        y[k] = isfinite(s->y[k]) ? sum / weight : s->y[k];
    }
}

/* Draws the line; a smoothed one in front of its points. Without memory for it
 * the points are what there is. */
static void add_lines(const struct chart *c, size_t i, const struct scale *xs,
                      const struct scale *ys, struct svg *out)
{
    struct chart_series s = c->series[i];
    const bool is_smooth = s.smooth && s.n >= SMOOTH_LEAST;
    double *mean = is_smooth ? calloc(s.n, sizeof(*mean)) : NULL;
    char class[CHART_CLASS_CAP];
    if (mean)
        smooth(&s, mean);
    for (int k = mean ? 0 : 1; k < 2; k++) {
        if (mean && k == 1)
            s.y = mean;
        svg_add(out, "<path class=\"");
        svg_add(out, chart_class(c, i, class));
        svg_add(out, k == 0 ? " c-pale\" d=\"" : "\" d=\"");
        add_path(c, &s, xs, ys, out);
        svg_add(out, "\"/>");
    }
    free(mean);
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

/* What has no place on the axis is named where it ends: an infinite value at
 * that end, one that is not a number at the bottom. */
static void add_lacks(const struct chart_series *s, const struct scale *xs,
                      struct svg *out)
{
    const double apart = 24; /* as wide as "NaN" */
    double last[3] = {-INFINITY, -INFINITY, -INFINITY};
    for (size_t k = 0; k < s->n; k++) {
        const bool is_nan = isnan(s->y[k]);
        const int which = is_nan ? 2 : s->y[k] < 0;
        const double x = isfinite(s->x[k]) && (!xs->is_log || s->x[k] > 0)
                             ? at_x(xs, s->x[k])
                             : (double)NAN;
        if (isfinite(s->y[k]) || (is_nan && !s->names_gaps) ||
            !(x >= last[which] + apart))
            continue;
        last[which] = x;
        svg_text(out, x, which == 0 ? TOP + 10 : TOP + PLOT_H - 4,
                 "c-dim c-small", "middle",
                 is_nan       ? "NaN"
                 : which == 0 ? "\xe2\x88\x9e"
                              : "\xe2\x88\x92\xe2\x88\x9e");
    }
}

static void add_series(const struct chart *c, size_t i, const struct scale *xs,
                       const struct scale *ys, struct svg *out)
{
    const struct chart_series *s = &c->series[i];
    char text[32];
    size_t place = s->like > 0 ? s->like - 1 : i;
    (void)snprintf(text, sizeof(text), "%zu", place % SVG_COLOURS);
    svg_add(out, "<g class=\"c-s");
    svg_add(out, text);
    svg_add(out, "\"><title>");
    svg_escape(out, s->name);
    svg_add(out, "</title>");
    add_lines(c, i, xs, ys, out);
    bool marks = s->marks && has_room(s, xs);
    for (size_t k = 0; marks && k < s->n; k++) {
        if (!is_point(c, s->x[k], s->y[k]))
            continue;
        (void)snprintf(text, sizeof(text), "%.6g", s->y[k]);
        svg_dot(out, at_x(xs, s->x[k]), at_y(ys, s->y[k]), text);
    }
    add_lacks(s, xs, out);
    svg_add(out, "</g>");
}

int chart_svg(const struct chart *c, bool is_file, struct buf *out,
              struct error *err)
{
    if (c->n < 1 || c->n > CHART_SERIES_MAX)
        return error_set(err, ERR_INVAL, "a chart of %zu lines, expected 1..%d",
                         c->n, (int)CHART_SERIES_MAX);
    struct svg s = {.out = out, .err = err};
    struct scale x = scale_of(c, false), y = scale_of(c, true);
    char text[256];
    int more = add_legend(c, NULL),
        height = HEIGHT + more + (c->note ? NOTE : 0);
    if (is_file)
        (void)snprintf(text, sizeof(text), " width=\"%d\" height=\"%d\"", WIDTH,
                       height);
    else
        (void)snprintf(text, sizeof(text),
                       " data-x=\"%.9g %.9g\" data-y=\"%.9g %.9g\" "
                       "data-log=\"%d\" data-plot=\"%d %d %d %d\"",
                       x.lo, x.hi, y.lo, y.hi, y.is_log, LEFT, TOP + more,
                       PLOT_W, PLOT_H);
    svg_begin(&s, WIDTH, height, c->title, text, is_file);
    bool is_long = text_width(c->title) * 15 / 13 > PLOT_W;
    svg_text(&s, is_long ? MARGIN : LEFT, 22,
             is_long ? "c-ink c-t" : "c-ink c-h", "start", c->title);
    svg_text(&s, LEFT + PLOT_W, 22, "c-dim c-t", "end", c->y_title);
    (void)add_legend(c, &s);
    (void)snprintf(text, sizeof(text), "<g transform=\"translate(0,%d)\">",
                   more);
    svg_add(&s, text);
    add_frame(c, &x, &y, &s);
    for (size_t i = 0; i < c->n; i++)
        add_series(c, i, &x, &y, &s);
    svg_add(&s, "</g>");
    svg_end(&s);
    return s.rc;
}
