/* report_svg.c - draw a paper report as one picture.
 *
 * It shows seconds over GPUs on logarithmic axes: perfect scaling follows a
 * straight line, and runs of seconds and of hours are both readable. Own
 * results are solid lines, the paper's are dashed lines of the same colour. A
 * report of shares has a bar for each row instead.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/export/chart.h"
#include "scheduler/tools/export/report.h"

enum { WIDTH = 760, TOP = 56, BAR = 22, BAR_LEFT = 270, SERIES_MAX = 12 };

static void begin(struct svg *s, const struct report *r, int height,
                  const char *about)
{
    char size[64];
    (void)snprintf(size, sizeof(size), " width=\"%d\" height=\"%d\"", WIDTH,
                   height);
    svg_begin(s, WIDTH, height, r->paper.title, size, true);
    svg_text(s, 16, 26, "c-ink c-h", "start", r->paper.title);
    svg_text(s, 16, 44, "c-dim c-small", "start", about);
}

/* ---- seconds over GPUs ----------------------------------------------------
 */
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

/* One line: own results, or the paper's. */
struct line {
    char name[200];
    double x[REPORT_ROWS], y[REPORT_ROWS];
};

/* Fills a line with the rows that have a value; returns how many. */
static size_t fill(struct line *l, const struct report_row *const *rows,
                   size_t n, const char *name, bool is_paper)
{
    size_t points = 0;
    (void)snprintf(l->name, sizeof(l->name), "%s%s", name,
                   is_paper ? ", paper" : "");
    for (size_t i = 0; i < n; i++) {
        double v = y_of(rows[i], is_paper);
        if (!(v > 0) || rows[i]->gpus < 1)
            continue;
        l->x[points] = (double)rows[i]->gpus;
        l->y[points++] = v;
    }
    return points;
}

/* in  lines[2 * SERIES_MAX]  memory for the points */
static size_t make_series(const struct report *r, struct line *lines,
                          struct chart_series ret[2 * SERIES_MAX])
{
    const struct report_row *rows[REPORT_ROWS];
    size_t n = 0, used = 0, k = 0;
    char name[160];
    for (size_t at = 0; at < r->n_rows && k < SERIES_MAX; at++) {
        if (!gather(r, at, rows, &n, name, sizeof(name)))
            continue;
        k++;
        for (int paper = 0; paper < 2; paper++) {
            struct line *l = &lines[used];
            size_t points = fill(l, rows, n, name, paper);
            if (points > 0)
                ret[used++] = (struct chart_series){.name = l->name,
                                                    .x = l->x,
                                                    .y = l->y,
                                                    .n = points,
                                                    .marks = true,
                                                    .dashed = paper,
                                                    .like = k};
        }
    }
    return used;
}

static int draw_times(const struct report *r, const char *about, struct buf *b,
                      struct error *err)
{
    struct chart_series series[2 * SERIES_MAX];
    struct line *lines = calloc(2UL * SERIES_MAX, sizeof(*lines));
    if (!lines)
        return error_set(err, ERR_NOMEM, "picture");
    const struct chart chart = {.title = r->paper.title,
                                .x_title = "seconds by GPUs, or CPU slots",
                                .y_title = "", /* titles are long */
                                .note = about,
                                .series = series,
                                .n = make_series(r, lines, series),
                                .log_x = true,
                                .log_y = true};
    struct svg none = {.out = b, .err = err};
    if (chart.n == 0) {
        begin(&none, r, 2 * TOP, about);
        svg_text(&none, (double)WIDTH / 2, 1.5 * TOP, "c-dim c-t", "middle",
                 "no run yet");
        svg_end(&none);
    } else
        none.rc = chart_svg(&chart, true, b, err);
    free(lines);
    return none.rc;
}

/* ---- shares ---------------------------------------------------------------
 */
static const char *colour(size_t i, char out[8])
{
    (void)snprintf(out, 8, "c-s%zu", i % SVG_COLOURS);
    return out;
}

static void add_bar(const struct report *r, const struct report_row *row,
                    double y, double width, struct svg *s)
{
    char name[240] = "", text[16], class[8];
    double x = BAR_LEFT;
    size_t len = 0;
    for (size_t k = 0; k < r->paper.n_keys; k++) {
        const char *dot = strrchr(r->paper.keys[k], '.');
        len += (size_t)snprintf(name + len, sizeof(name) - len, "%s%s %s",
                                k > 0 ? ", " : "", dot + 1, row->keys[k]);
        len = len < sizeof(name) ? len : sizeof(name) - 1;
    }
    svg_text(s, BAR_LEFT - 8, y + 15, "c-ink c-t", "end", name);
    if (!row->is_run || !isfinite(row->metrics[0]))
        svg_text(s, BAR_LEFT + 4, y + 15, "c-dim c-t", "start",
                 row->is_run ? "not profiled" : "no run yet");
    for (size_t m = 0; m < r->paper.n_metrics; m++) {
        double w = row->metrics[m] * width;
        if (!(w > 0))
            continue;
        (void)snprintf(text, sizeof(text), "%.0f %%", 100 * row->metrics[m]);
        svg_rect(s, x, y, w, BAR, colour(m, class), NULL);
        if (w > 40)
            svg_text(s, x + w / 2, y + 15, "c-on c-t", "middle", text);
        x += w;
    }
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
    struct svg s = {.out = b, .err = err};
    char class[8];
    begin(&s, r, height, about);
    for (size_t m = 0; m < r->paper.n_metrics; m++) {
        const char *name = r->paper.metrics[m].name;
        svg_rect(&s, x, TOP + 8, 12, 12, colour(m, class), NULL);
        svg_text(&s, x + 18, TOP + 18, "c-ink c-t", "start", name);
        x += 40 + 8 * (double)strlen(name);
    }
    for (size_t i = 0; i < r->n_rows; i++)
        add_bar(r, &r->rows[i], TOP + 36 + (BAR + 8) * (double)i, width, &s);
    svg_end(&s);
    return s.rc;
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
        (void)fwrite(buf_str(&b), 1, b.len, out);
    buf_clear(&b);
    return rc;
}
