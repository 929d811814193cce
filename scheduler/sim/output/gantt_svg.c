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

#include "scheduler/tools/export/chart.h"

enum { COLOURS = 8, LEFT = 48, TOP = 34, PLOT_WIDTH = 1140, MARGIN = 12 };
enum { TICKS_MAX = 10, ROWS_HEIGHT = 640, CLASSES_MAX = 512 };
static const double ROW_MIN = 2, ROW_MAX = 14;
static const double WIDTH_MIN = 1.4; /* a short job is still seen */

static const char style[] =
    "<style>"
    "svg{background:#fff;font:11px sans-serif}"
    ".t{fill:#222}.g{stroke:#ddd}.n{stroke:#bbb}rect{stroke:#fff;"
    "stroke-width:.4}"
    ".c0{fill:#4477aa}.c1{fill:#ee6677}.c2{fill:#228833}.c3{fill:#ccbb44}"
    ".c4{fill:#66ccee}.c5{fill:#aa3377}.c6{fill:#dd8833}.c7{fill:#6655aa}"
    ".c8{fill:#999}"
    "@media(prefers-color-scheme:dark){svg{background:#181818}"
    ".t{fill:#ddd}.g{stroke:#333}.n{stroke:#555}rect{stroke:#181818}"
    ".c0{fill:#6699cc}.c2{fill:#44aa55}.c5{fill:#dd66aa}.c7{fill:#9988dd}}"
    "</style>\n";

struct class_use {
    const char *name;
    double gpu_s;
};

struct gantt {
    const struct sim_conf *conf;
    const struct sim_output *o;
    struct class_use classes[CLASSES_MAX]; /* the largest first */
    size_t n_classes;
    int32_t *first; /* owned; [nodes] the first row of each */
    double row, from_s, to_s;
    struct buf *out;
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

static void count_classes(struct gantt *g)
{
    for (size_t i = 0; i < g->o->n; i++) {
        const char *name = g->conf->trace->jobs[i].class;
        size_t k = 0;
        while (k < g->n_classes && strcmp(g->classes[k].name, name) != 0)
            k++;
        if (k == CLASSES_MAX)
            continue;
        if (k == g->n_classes)
            g->classes[g->n_classes++].name = name;
        g->classes[k].gpu_s += g->o->results[i].gpu_s;
    }
    qsort(g->classes, g->n_classes, sizeof(*g->classes), by_use);
}

static int colour(const struct gantt *g, const char *class)
{
    for (size_t k = 0; k < g->n_classes && k < COLOURS; k++)
        if (strcmp(g->classes[k].name, class) == 0)
            return (int)k;
    return COLOURS;
}

static double x_of(const struct gantt *g, double t_s)
{
    return LEFT + PLOT_WIDTH * (t_s - g->from_s) / (g->to_s - g->from_s);
}

/* The rows of neighbouring GPUs are one bar. */
static int bars(const struct gantt *g, const struct sim_span *s,
                struct error *err)
{
    const struct sim_job *job = &g->conf->trace->jobs[s->job];
    double to_s = isnan(s->to_s) ? g->to_s : s->to_s;
    double x = x_of(g, s->from_s), width = x_of(g, to_s) - x;

    for (int i = 0; i < 64; i++) {
        int n = 0;
        while (i + n < 64 && (s->mask >> (unsigned)(i + n) & 1) != 0)
            n++;
        if (n == 0)
            continue;
        if (buf_addf(g->out, err,
                     "<rect class=\"c%d\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" "
                     "height=\"%.1f\"><title>",
                     colour(g, job->class), x,
                     TOP + g->row * (g->first[s->node] + i),
                     fmax(width, WIDTH_MIN), g->row * n) < 0 ||
            chart_escape(job->name, g->out, err) < 0 ||
            buf_addstr(g->out, "</title></rect>\n", err) < 0)
            return -1;
        i += n;
    }
    return 0;
}

static int nodes(const struct gantt *g, struct error *err)
{
    double last = -100;

    for (int32_t i = 0; i < g->conf->cluster->nodes; i++) {
        double y = TOP + g->row * g->first[i];
        if (buf_addf(g->out, err,
                     "<line class=\"n\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" "
                     "y2=\"%.1f\"/>\n",
                     LEFT, LEFT + PLOT_WIDTH, y, y) < 0)
            return -1;
        if (y - last < 11) /* the height of a line of text */
            continue;
        last = y;
        if (buf_addf(g->out, err,
                     "<text class=\"t\" x=\"%d\" y=\"%.1f\" "
                     "text-anchor=\"end\">n%" PRId32 "</text>\n",
                     LEFT - 4, y + 10, i + 1) < 0)
            return -1;
    }
    return 0;
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

static int axis(const struct gantt *g, double bottom, struct error *err)
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

    int64_t first = (int64_t)ceil(g->from_s / tick_s);
    int64_t last = (int64_t)floor(g->to_s / tick_s);

    for (int64_t i = first; i <= last; i++) {
        double t_s = (double)i * tick_s, x = x_of(g, t_s);
        if (buf_addf(g->out, err,
                     "<line class=\"g\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" "
                     "y2=\"%.1f\"/><text class=\"t\" x=\"%.1f\" y=\"%.1f\" "
                     "text-anchor=\"middle\">%g %s</text>\n",
                     x, x, TOP, bottom, x, bottom + 14, t_s / unit_s, unit) < 0)
            return -1;
    }
    return 0;
}

static int legend(const struct gantt *g, struct error *err)
{
    double x = LEFT;

    for (size_t k = 0; k < g->n_classes && k <= COLOURS; k++) {
        const char *name = k < COLOURS ? g->classes[k].name : "others";
        if (buf_addf(g->out, err,
                     "<rect class=\"c%zu\" x=\"%.0f\" y=\"10\" width=\"10\" "
                     "height=\"10\"/><text class=\"t\" x=\"%.0f\" y=\"19\">",
                     k, x, x + 14) < 0 ||
            chart_escape(name, g->out, err) < 0 ||
            buf_addstr(g->out, "</text>\n", err) < 0)
            return -1;
        x += 30 + 6.5 * (double)strlen(name);
    }
    return 0;
}

static int draw(const struct gantt *g, struct error *err)
{
    double bottom = TOP + g->row * g->conf->cluster->gpus_total;

    if (buf_addf(g->out, err,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d "
                 "%.0f\">\n%s",
                 LEFT + PLOT_WIDTH + MARGIN + MARGIN, bottom + 24, style) < 0 ||
        legend(g, err) < 0 || axis(g, bottom, err) < 0 || nodes(g, err) < 0)
        return -1;
    for (size_t i = 0; i < g->o->n_spans; i++)
        if (bars(g, &g->o->spans[i], err) < 0)
            return -1;
    return buf_addstr(g->out, "</svg>\n", err);
}

int gantt_svg(const struct sim_conf *conf, const struct sim_output *o,
              struct buf *out, struct error *err)
{
    struct gantt *g = calloc(1, sizeof(*g));
    int32_t rows = 0;

    if (g)
        g->first = calloc((size_t)conf->cluster->nodes, sizeof(*g->first));
    if (!g || !g->first) {
        free(g);
        return error_set(err, ERR_NOMEM, "picture");
    }
    g->conf = conf;
    g->o = o;
    g->out = out;
    g->to_s = fmax(o->last_s, o->first_s + 1);
    double tick_s = tick_of(g->to_s - o->first_s);
    g->from_s = floor(o->first_s / tick_s) * tick_s;
    for (int32_t i = 0; i < conf->cluster->nodes; i++) {
        g->first[i] = rows;
        rows += sim_cluster_group(conf->cluster, i)->gpus;
    }
    g->row = fmin(ROW_MAX, fmax(ROW_MIN, (double)ROWS_HEIGHT / rows));
    count_classes(g);
    int rc = draw(g, err);
    free(g->first);
    free(g);
    return rc;
}
