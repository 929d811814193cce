/* gantt_svg.c - which job has which GPU; see gantt_svg.h.
 *
 * A row for each GPU, in the order of the nodes; a bar for each attempt, with
 * the name of its job for the pointer. The colour is that of the job's class:
 * the eight largest classes have one each, the others share grey. */
#include "scheduler/sim/output/gantt_svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"
#include "scheduler/tools/export/svg.h"

enum { LEFT = 48, TOP = 34, PLOT_WIDTH = 1140, MARGIN = 12 };
enum { TICKS_MAX = 10, ROWS_HEIGHT = 640 };
static const double ROW_MIN = 2, ROW_MAX = 14;
static const double WIDTH_MIN = 1.4; /* a short job is still seen */

struct class_use {
    const char *name;
    double gpu_s;
};

struct gantt {
    const struct sim_conf *conf;
    const struct sim_output *o;
    struct class_use *classes; /* owned; the largest first */
    size_t n_classes;
    int32_t *first; /* owned; [nodes] the first row of each */
    double row, from_s, to_s;
    double least_gpu_s; /* of the bars that are drawn, */
    size_t n_least;     /* and so many of those with as much */
    bool is_file;
    struct svg *out;
};

static int by_use(const void *a, const void *b)
{
    double x = ((const struct class_use *)a)->gpu_s;
    double y = ((const struct class_use *)b)->gpu_s;
    if (x < y || x > y)
        return x > y ? -1 : 1;
    return strcmp(((const struct class_use *)a)->name,
                  ((const struct class_use *)b)->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct class_use *)a)->name,
                  ((const struct class_use *)b)->name);
}

/* `classes` has room for one of each job. */
static void count_classes(struct gantt *g)
{
    struct class_use *c = g->classes;
    size_t n = 0;

    for (size_t i = 0; i < g->o->n; i++)
        c[i] = (struct class_use){g->conf->trace->jobs[i].class,
                                  g->o->results[i].gpu_s};
    qsort(c, g->o->n, sizeof(*c), by_name);
    for (size_t i = 0; i < g->o->n; i++)
        if (n > 0 && by_name(&c[n - 1], &c[i]) == 0)
            c[n - 1].gpu_s += c[i].gpu_s;
        else
            c[n++] = c[i];
    qsort(c, n, sizeof(*c), by_use);
    g->n_classes = n;
}

/* k  the place of the class */
static const char *class_at(size_t k, char out[24])
{
    if (k < SVG_COLOURS)
        (void)snprintf(out, 24, "c-s%zu c-bar", k);
    else
        (void)snprintf(out, 24, "c-rest c-bar");
    return out;
}

static const char *colour(const struct gantt *g, const char *class,
                          char out[24])
{
    size_t k = 0;
    while (k < g->n_classes && k < SVG_COLOURS &&
           strcmp(g->classes[k].name, class) != 0)
        k++;
    return class_at(k < g->n_classes ? k : SVG_COLOURS, out);
}

static double x_of(const struct gantt *g, double t_s)
{
    return LEFT + PLOT_WIDTH * (t_s - g->from_s) / (g->to_s - g->from_s);
}

static double end_of(const struct sim_output *o, const struct sim_span *s)
{
    return isnan(s->to_s) ? fmax(o->last_s, o->first_s + 1) : s->to_s;
}

static double gpu_s_of(const struct sim_output *o, const struct sim_span *s)
{
    return s->gpus * (end_of(o, s) - s->from_s);
}

/* The rows of neighbouring GPUs are one bar. */
static void bars(const struct gantt *g, const struct sim_span *s)
{
    const struct sim_job *job = &g->conf->trace->jobs[s->job];
    double x = x_of(g, s->from_s), width = x_of(g, end_of(g->o, s)) - x;
    char class[24];

    for (int i = 0; i < 64; i++) {
        int n = 0;
        while (i + n < 64 && (s->mask >> (unsigned)(i + n) & 1) != 0)
            n++;
        if (n == 0)
            continue;
        svg_rect(g->out, x, TOP + g->row * (g->first[s->node] + i),
                 fmax(width, WIDTH_MIN), g->row * n,
                 colour(g, job->class, class), job->name);
        svg_add(g->out, "\n");
        i += n;
    }
}

static void nodes(const struct gantt *g)
{
    double last = -100;
    char name[24];

    for (int32_t i = 0; i < g->conf->cluster->nodes; i++) {
        double y = TOP + g->row * g->first[i];
        svg_line(g->out, LEFT, LEFT + PLOT_WIDTH, y, y, "c-axis");
        if (y - last < 11) /* the height of a line of text */
            continue;
        last = y;
        (void)snprintf(name, sizeof(name), "n%" PRId32, i + 1);
        svg_text(g->out, LEFT - 4, y + 10, "c-ink c-small", "end", name);
    }
}

/* The shortest round time that gives the axis at most TICKS_MAX ticks. */
static double tick_of(double span_s)
{
    static const double round_s[] = {1,     2,     5,     10,   30,   60,
                                     120,   300,   600,   1800, 3600, 7200,
                                     14400, 21600, 43200, 86400};
    const size_t n = sizeof(round_s) / sizeof(round_s[0]);
    size_t i = 0;

    while (i + 1 < n && span_s / round_s[i] > TICKS_MAX)
        i++;
    return round_s[i] * fmax(1, ceil(span_s / round_s[i] / TICKS_MAX));
}

static void axis(const struct gantt *g, double bottom)
{
    double tick_s = tick_of(g->to_s - g->from_s);
    double unit_s = tick_s >= 86400  ? 86400
                    : tick_s >= 1800 ? 3600
                    : tick_s >= 60   ? 60
                                     : 1;
    const char *unit = tick_s >= 86400  ? "d"
                       : tick_s >= 1800 ? "h"
                       : tick_s >= 60   ? "min"
                                        : "s";
    char text[40];

    int64_t first = (int64_t)ceil(g->from_s / tick_s);
    int64_t last = (int64_t)floor(g->to_s / tick_s);

    for (int64_t i = first; i <= last; i++) {
        double t_s = (double)i * tick_s, x = x_of(g, t_s);
        svg_line(g->out, x, x, TOP, bottom, "c-grid");
        (void)snprintf(text, sizeof(text), "%g %s", t_s / unit_s, unit);
        svg_text(g->out, x, bottom + 14, "c-ink c-small", "middle", text);
    }
}

/* Names are shortened if they do not fit side by side. Returns the width. */
static double legend_of(const struct gantt *g, size_t cap, bool draws)
{
    double x = LEFT;
    char class[24], name[SIM_CLASS_CAP + 1];

    for (size_t k = 0; k < g->n_classes && k <= SVG_COLOURS; k++) {
        (void)text_quote(name, cap,
                         k < SVG_COLOURS ? g->classes[k].name : "others");
        if (draws) {
            svg_rect(g->out, x, 10, 10, 10, class_at(k, class), NULL);
            svg_text(g->out, x + 14, 19, "c-ink c-small", "start", name);
        }
        x += 30 + 6.5 * (double)strlen(name);
    }
    return x;
}

static void legend(const struct gantt *g)
{
    enum { SHORT = 18 }; /* eight of them fit */
    bool fits = legend_of(g, SIM_CLASS_CAP, false) <= LEFT + PLOT_WIDTH;

    (void)legend_of(g, fits ? SIM_CLASS_CAP : SHORT, true);
}

static void draw(const struct gantt *g)
{
    double bottom = TOP + g->row * g->conf->cluster->gpus_total;
    size_t n_least = 0;

    svg_begin(g->out, LEFT + PLOT_WIDTH + MARGIN + MARGIN, ceil(bottom + 24),
              "jobs by GPU and time", "", g->is_file);
    legend(g);
    axis(g, bottom);
    nodes(g);
    for (size_t i = 0; i < g->o->n_spans; i++) {
        double gpu_s = gpu_s_of(g->o, &g->o->spans[i]);
        if (gpu_s > g->least_gpu_s ||
            (gpu_s >= g->least_gpu_s && n_least++ < g->n_least))
            bars(g, &g->o->spans[i]);
    }
    svg_end(g->out);
}

static void clear(struct gantt *g)
{
    if (g) {
        free(g->first);
        free(g->classes);
    }
    free(g);
}

static int picture(const struct sim_conf *conf, const struct sim_output *o,
                   double least_gpu_s, size_t n_least, bool is_file,
                   struct buf *out, struct error *err)
{
    struct gantt *g = calloc(1, sizeof(*g));
    struct svg svg = {.out = out, .err = err};
    int32_t rows = 0;

    if (g) {
        g->first = calloc((size_t)conf->cluster->nodes, sizeof(*g->first));
        g->classes = calloc(o->n + 1, sizeof(*g->classes));
    }
    if (!g || !g->first || !g->classes) {
        clear(g);
        return error_set(err, ERR_NOMEM, "picture");
    }
    g->conf = conf;
    g->o = o;
    g->out = &svg;
    g->least_gpu_s = least_gpu_s;
    g->n_least = n_least;
    g->is_file = is_file;
    g->to_s = fmax(o->last_s, o->first_s + 1);
    double tick_s = tick_of(g->to_s - o->first_s);
    g->from_s = floor(o->first_s / tick_s) * tick_s;
    for (int32_t i = 0; i < conf->cluster->nodes; i++) {
        g->first[i] = rows;
        rows += sim_cluster_group(conf->cluster, i)->gpus;
    }
    g->row = fmin(ROW_MAX, fmax(ROW_MIN, (double)ROWS_HEIGHT / rows));
    count_classes(g);
    draw(g);
    clear(g);
    return svg.rc;
}

int gantt_svg(const struct sim_conf *conf, const struct sim_output *o,
              struct buf *out, struct error *err)
{
    return picture(conf, o, 0, SIZE_MAX, true, out, err);
}

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

int gantt_svg_largest(const struct sim_conf *conf, const struct sim_output *o,
                      size_t most, struct gantt_shown *ret, struct buf *out,
                      struct error *err)
{
    double *gpu_s = calloc(o->n_spans + 1, sizeof(*gpu_s));
    struct gantt_shown shown = {.bars = o->n_spans,
                                .shown = o->n_spans < most ? o->n_spans : most};
    double all_s = 0, shown_s = 0, least_s = 0;
    size_t n_least = 0;

    if (!gpu_s)
        return error_set(err, ERR_NOMEM, "picture");
    for (size_t i = 0; i < o->n_spans; i++)
        gpu_s[i] = gpu_s_of(o, &o->spans[i]);
    qsort(gpu_s, o->n_spans, sizeof(*gpu_s), by_number);
    if (shown.shown > 0)
        least_s = gpu_s[shown.shown - 1];
    for (size_t i = 0; i < o->n_spans; i++) {
        all_s += gpu_s[i];
        shown_s += i < shown.shown ? gpu_s[i] : 0;
        n_least += i < shown.shown && gpu_s[i] <= least_s;
    }
    free(gpu_s);
    shown.share = all_s > 0 ? shown_s / all_s : 1;
    *ret = shown;
    return picture(conf, o, least_s, n_least, false, out, err);
}
