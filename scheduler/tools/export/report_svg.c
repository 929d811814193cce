/* report_svg.c - draw a paper report as one picture.
 *
 * It shows seconds over GPUs on logarithmic axes: perfect scaling follows the
 * diagonal, and runs of seconds and of hours are both readable. Own results are
 * solid lines, the paper's are dashed lines of the same colour. A report of
 * shares has a bar for each row instead. The colours are those of Okabe and
 * Ito, which colour-blind people can distinguish, on both backgrounds; text
 * uses the reader's sans-serif font and follows the preference for light or
 * dark.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/export/report.h"

enum {
    WIDTH = 760,
    HEIGHT = 440,
    LEFT = 72,
    TOP = 56,
    RIGHT = 210, /* room for the legend */
    BOTTOM = 60,
    SERIES_MAX = 12
};

static const char *const colours[] = {"#0072b2", "#e69f00", "#009e73",
                                      "#cc79a7", "#56b4e9", "#d55e00",
                                      "#8a8a00", "#999999"};
enum { N_COLOURS = sizeof(colours) / sizeof(*colours) };

static int add_escaped(struct buf *b, const char *text, struct error *err)
{
    int rc = 0;
    for (; rc == 0 && *text; text++) {
        switch (*text) {
        case '<':
            rc = buf_addstr(b, "&lt;", err);
            break;
        case '>':
            rc = buf_addstr(b, "&gt;", err);
            break;
        case '&':
            rc = buf_addstr(b, "&amp;", err);
            break;
        case '"':
            rc = buf_addstr(b, "&quot;", err);
            break;
        default:
            /* XML does not allow control characters, not even escaped. */
            rc = (unsigned char)*text < 0x20 ? buf_addstr(b, "?", err)
                                             : buf_add(b, text, 1, err);
        }
    }
    return rc;
}

static int add_label(struct buf *b, double x, double y, const char *class,
                     const char *text, struct error *err)
{
    int rc = buf_addf(b, err, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y,
                      class);
    if (rc == 0)
        rc = add_escaped(b, text, err);
    return rc < 0 ? -1 : buf_addstr(b, "</text>\n", err);
}

static int add_head(const struct report *r, int height, const char *about,
                    struct buf *b, struct error *err)
{
    int rc = buf_addf(
        b, err,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
        "viewBox=\"0 0 %d %d\" role=\"img\">\n"
        "<style>\n"
        "svg{--ink:#1a1a1a;--dim:#5f5f5f;--grid:#d9d9d9;--back:#fff}\n"
        "@media (prefers-color-scheme:dark){svg{--ink:#eee;--dim:#b0b0b0;"
        "--grid:#3c3c3c;--back:#161616}}\n"
        ".back{fill:#fff;fill:var(--back)}\n"
        "text{font:12px sans-serif;fill:#1a1a1a;fill:var(--ink)}\n"
        ".title{font-size:15px;font-weight:600}\n"
        ".dim{fill:#5f5f5f;fill:var(--dim)}\n"
        ".mid{text-anchor:middle}.end{text-anchor:end}\n"
        ".grid{stroke:#d9d9d9;stroke:var(--grid)}\n"
        ".ours{fill:none;stroke-width:2.2}\n"
        ".paper{fill:none;stroke-width:1.6;stroke-dasharray:6 4}\n"
        "</style>\n<rect width=\"%d\" height=\"%d\" class=\"back\"/>\n",
        WIDTH, height, WIDTH, height, WIDTH, height);
    if (rc == 0)
        rc = add_label(b, 16, 26, "title", r->paper.title, err);
    return rc < 0 ? -1 : add_label(b, 16, 44, "dim", about, err);
}

/* ---- seconds over GPUs ----------------------------------------------------
 */
struct scale {
    double x_max, y_min, y_max;
};

static double to_x(const struct scale *s, double gpus)
{
    double part = s->x_max > 1 ? log(gpus) / log(s->x_max) : 0.5;
    return LEFT + 14 + part * (WIDTH - LEFT - RIGHT - 28);
}

static double to_y(const struct scale *s, double v)
{
    return (double)TOP + log(s->y_max / v) / log(s->y_max / s->y_min) *
                             (HEIGHT - TOP - BOTTOM);
}

static void widen(struct scale *s, double gpus, double v)
{
    if (!(v > 0) || !(gpus > 0))
        return;
    s->x_max = gpus > s->x_max ? gpus : s->x_max;
    s->y_min = v < s->y_min ? v : s->y_min;
    s->y_max = v > s->y_max ? v : s->y_max;
}

static struct scale scale_of(const struct report *r)
{
    struct scale s = {1, INFINITY, 0};
    for (size_t i = 0; i < r->n_rows; i++) {
        widen(&s, (double)r->rows[i].gpus, r->rows[i].time_s);
        widen(&s, (double)r->rows[i].gpus, r->rows[i].paper_s);
    }
    s.y_min /= 1.3;
    s.y_max *= 1.3;
    return s;
}

/* The steps of an axis in each power of ten: the coarsest steps with at least
 * three lines, so that the axis is readable also if the runs differ little. */
struct steps {
    size_t n;
    double at[14];
};

static bool is_inside(const struct scale *s, double v)
{
    return v >= s->y_min && v <= s->y_max;
}

static const struct steps *steps_of(const struct scale *s)
{
    static const struct steps sets[] = {
        {1, {1}},
        {3, {1, 2, 5}},
        {14, {1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8}},
    };
    enum { FINEST = sizeof(sets) / sizeof(*sets) - 1 };
    for (size_t i = 0; i < FINEST; i++) {
        size_t n = 0;
        for (int e = -6; e < 9; e++)
            for (size_t k = 0; k < sets[i].n; k++)
                n += is_inside(s, sets[i].at[k] * pow(10, e));
        if (n >= 3)
            return &sets[i];
    }
    return &sets[FINEST];
}

static int add_grid(const struct scale *s, struct buf *b, struct error *err)
{
    const struct steps *steps = steps_of(s);
    int rc = 0;
    for (int e = -6; rc == 0 && e < 9; e++) {
        for (size_t k = 0; rc == 0 && k < steps->n; k++) {
            double v = steps->at[k] * pow(10, e);
            char text[32];
            if (!is_inside(s, v))
                continue;
            (void)snprintf(text, sizeof(text), "%g s", v);
            rc = buf_addf(b, err,
                          "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" "
                          "class=\"grid\"/>\n",
                          LEFT, WIDTH - RIGHT, to_y(s, v), to_y(s, v));
            if (rc == 0)
                rc = add_label(b, LEFT - 8, to_y(s, v) + 4, "end dim", text,
                               err);
        }
    }
    return rc;
}

static int add_gpus(const struct report *r, const struct scale *s,
                    struct buf *b, struct error *err)
{
    bool seen[64] = {false};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->n_rows; i++) {
        int64_t g = r->rows[i].gpus;
        char text[24];
        if (g < 1 || g >= 64 || seen[g])
            continue;
        seen[g] = true;
        (void)snprintf(text, sizeof(text), "%d", (int)g);
        rc = add_label(b, to_x(s, (double)g), HEIGHT - BOTTOM + 20, "mid dim",
                       text, err);
    }
    return rc < 0 ? -1
                  : add_label(b, (LEFT + WIDTH - RIGHT) / 2.0,
                              HEIGHT - BOTTOM + 40, "mid dim",
                              "GPUs, or CPU slots", err);
}

/* The name of a line: the values of the other keys. */
static void series_of(const struct report *r, const struct report_row *row,
                      char *out, size_t cap)
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t k = 0; k < r->paper.n_keys; k++)
        if (strcmp(r->paper.keys[k], "resources.gpus") != 0) {
            const char *dot = strrchr(r->paper.keys[k], '.');
            bool is_switch = strcmp(row->keys[k], "true") == 0 ||
                             strcmp(row->keys[k], "false") == 0;
            bool is_size = strcmp(dot + 1, "image_size") == 0;
            len += (size_t)snprintf(
                out + len, cap - len, "%s%s%s%s%s", len > 0 ? ", " : "",
                is_switch ? dot + 1 : "", is_switch ? " " : "", row->keys[k],
                is_size ? " px" : "");
            len = len < cap ? len : cap - 1;
        }
}

static double y_of(const struct report_row *row, bool is_paper)
{
    return is_paper ? row->paper_s : row->time_s;
}

static int by_gpus(const void *a, const void *b)
{
    const struct report_row *x = *(const struct report_row *const *)a;
    const struct report_row *y = *(const struct report_row *const *)b;
    return (x->gpus > y->gpus) - (x->gpus < y->gpus);
}

static int add_line(const struct report_row *const *rows, size_t n,
                    const struct scale *s, const char *colour, bool is_paper,
                    struct buf *b, struct error *err)
{
    bool first = true;
    int rc = buf_addf(b, err, "<path class=\"%s\" stroke=\"%s\" d=\"",
                      is_paper ? "paper" : "ours", colour);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        double v = y_of(rows[i], is_paper);
        if (!(v > 0))
            continue;
        rc = buf_addf(b, err, "%s%.1f %.1f", first ? "M" : "L",
                      to_x(s, (double)rows[i]->gpus), to_y(s, v));
        first = false;
    }
    if (rc == 0)
        rc = buf_addstr(b, "\"/>\n", err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        double v = y_of(rows[i], is_paper);
        if (v > 0)
            rc = buf_addf(b, err,
                          "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" "
                          "fill=\"%s\"/>\n",
                          to_x(s, (double)rows[i]->gpus), to_y(s, v),
                          is_paper ? "2.5" : "4", colour);
    }
    return rc;
}

static int add_legend(size_t at, const char *name, const char *colour,
                      bool is_paper, struct buf *b, struct error *err)
{
    char text[200];
    double y = TOP + 8 + 20 * (double)at;
    (void)snprintf(text, sizeof(text), "%s%s", name, is_paper ? ", paper" : "");
    int rc = buf_addf(b, err,
                      "<path class=\"%s\" stroke=\"%s\" d=\"M%d %.1fL%d "
                      "%.1f\"/>\n",
                      is_paper ? "paper" : "ours", colour, WIDTH - RIGHT + 16,
                      y, WIDTH - RIGHT + 46, y);
    return rc < 0 ? -1 : add_label(b, WIDTH - RIGHT + 54, y + 4, "", text, err);
}

static bool any(const struct report_row *const *rows, size_t n, bool is_paper)
{
    for (size_t i = 0; i < n; i++)
        if (y_of(rows[i], is_paper) > 0)
            return true;
    return false;
}

/* Collects the rows of one line; false if an earlier line has drawn them. */
static bool gather(const struct report *r, size_t at,
                   const struct report_row **rows, size_t *ret_n, char *name,
                   size_t cap)
{
    char other[160];
    *ret_n = 0;
    series_of(r, &r->rows[at], name, cap);
    for (size_t i = 0; i < r->n_rows; i++) {
        series_of(r, &r->rows[i], other, sizeof(other));
        if (strcmp(other, name) != 0)
            continue;
        if (i < at)
            return false;
        rows[(*ret_n)++] = &r->rows[i];
    }
    qsort(rows, *ret_n, sizeof(struct report_row *), by_gpus);
    return true;
}

static int add_lines(const struct report *r, const struct scale *s,
                     struct buf *b, struct error *err)
{
    const struct report_row *rows[REPORT_ROWS];
    size_t n = 0, k = 0, named = 0;
    char name[160];
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < r->n_rows && k < SERIES_MAX; at++) {
        if (!gather(r, at, rows, &n, name, sizeof(name)))
            continue;
        for (int paper = 0; rc == 0 && paper < 2; paper++) {
            if (!any(rows, n, paper))
                continue;
            rc = add_line(rows, n, s, colours[k % N_COLOURS], paper, b, err);
            if (rc == 0)
                rc = add_legend(named++, name, colours[k % N_COLOURS], paper, b,
                                err);
        }
        k++;
    }
    return rc;
}

static int draw_times(const struct report *r, const char *about, struct buf *b,
                      struct error *err)
{
    struct scale s = scale_of(r);
    int rc = add_head(r, HEIGHT, about, b, err);
    if (rc == 0 && s.y_max == 0)
        rc = add_label(b, (double)WIDTH / 2, (double)HEIGHT / 2, "mid dim",
                       "no run yet", err);
    else if (rc == 0) {
        rc = add_grid(&s, b, err);
        if (rc == 0)
            rc = add_gpus(r, &s, b, err);
        if (rc == 0)
            rc = add_lines(r, &s, b, err);
    }
    return rc;
}

/* ---- shares ---------------------------------------------------------------
 */
enum { BAR = 22, BAR_LEFT = 270 };

static int add_bar(const struct report *r, const struct report_row *row,
                   double y, double width, struct buf *b, struct error *err)
{
    char name[240] = "", text[16];
    double x = BAR_LEFT;
    size_t len = 0;
    for (size_t k = 0; k < r->paper.n_keys; k++) {
        const char *dot = strrchr(r->paper.keys[k], '.');
        len += (size_t)snprintf(name + len, sizeof(name) - len, "%s%s %s",
                                k > 0 ? ", " : "", dot + 1, row->keys[k]);
        len = len < sizeof(name) ? len : sizeof(name) - 1;
    }
    int rc = add_label(b, BAR_LEFT - 8, y + 15, "end", name, err);
    if (rc == 0 && !row->is_run)
        rc = add_label(b, BAR_LEFT + 4, y + 15, "dim", "no run yet", err);
    else if (rc == 0 && !isfinite(row->metrics[0]))
        rc = add_label(b, BAR_LEFT + 4, y + 15, "dim", "not profiled", err);
    for (size_t m = 0; rc == 0 && m < r->paper.n_metrics; m++) {
        double w = row->metrics[m] * width;
        if (!(w > 0))
            continue;
        rc = buf_addf(b, err,
                      "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                      "height=\"%d\" fill=\"%s\"/>\n",
                      x, y, w, BAR, colours[m % N_COLOURS]);
        (void)snprintf(text, sizeof(text), "%.0f %%", 100 * row->metrics[m]);
        if (rc == 0 && w > 40)
            rc = buf_addf(b, err,
                          "<text x=\"%.1f\" y=\"%.1f\" class=\"mid\" "
                          "style=\"fill:#000\">%s</text>\n",
                          x + w / 2, y + 15, text);
        x += w;
    }
    return rc;
}

static double most(const struct report *r)
{
    double all = 1;
    for (size_t i = 0; i < r->n_rows; i++) {
        double sum = 0;
        for (size_t m = 0; m < r->paper.n_metrics; m++)
            if (isfinite(r->rows[i].metrics[m]))
                sum += r->rows[i].metrics[m];
        all = sum > all ? sum : all;
    }
    return all;
}

static int draw_shares(const struct report *r, const char *about, struct buf *b,
                       struct error *err)
{
    int height = TOP + 40 + (BAR + 8) * (int)r->n_rows + 24;
    double width = (WIDTH - BAR_LEFT - 30) / most(r), x = BAR_LEFT;
    int rc = add_head(r, height, about, b, err);
    for (size_t m = 0; rc == 0 && m < r->paper.n_metrics; m++) {
        const char *name = r->paper.metrics[m].name;
        rc = buf_addf(b, err,
                      "<rect x=\"%.1f\" y=\"%d\" width=\"12\" height=\"12\" "
                      "fill=\"%s\"/>\n",
                      x, TOP + 8, colours[m % N_COLOURS]);
        if (rc == 0)
            rc = add_label(b, x + 18, TOP + 18, "", name, err);
        x += 40 + 8 * (double)strlen(name);
    }
    for (size_t i = 0; rc == 0 && i < r->n_rows; i++)
        rc = add_bar(r, &r->rows[i], TOP + 36 + (BAR + 8) * (double)i, width, b,
                     err);
    return rc;
}

int report_svg(const struct report *r, FILE *out, struct error *err)
{
    struct buf b = BUF_INIT;
    char about[300];
    (void)snprintf(
        about, sizeof(about), "%zu run%s%s%.160s%s%s; paper: %.60s", r->n_runs,
        r->n_runs == 1 ? "" : "s", r->n_runs > 0 ? " on " : "",
        buf_str(&r->ran_on), r->differs.len > 0 ? "; not like for like" : "",
        r->paper.n_metrics > 0 ? "; shares of the training time" : "",
        r->paper.source);
    int rc = r->paper.n_metrics > 0 ? draw_shares(r, about, &b, err)
                                    : draw_times(r, about, &b, err);
    if (rc == 0)
        rc = buf_addstr(&b, "</svg>\n", err);
    if (rc == 0)
        (void)fwrite(buf_str(&b), 1, b.len, out);
    buf_clear(&b);
    return rc;
}
