/* job_charts.c - draw the curves of a job for its HTML report, and how its step
 * time divides into phases; see job_charts.h.
 */
#include "scheduler/tools/export/job_charts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/tools/common/render.h"
#include "scheduler/tools/export/curves.h"
#include "scheduler/tools/export/plot.h"
#include "scheduler/tools/views/show.h"

/* The maximum of the daemon; more points would not be visible. */
enum { ROWS_SHOWN = 100000, RANKS_SHOWN = SVG_COLOURS };

/* Draws columns of one view as the lines of one chart.
 * in  title  NULL: that of the first column */
static void draw_columns(struct page *p, const json_t *job, const json_t *reply,
                         const char *title, const char *const *columns)
{
    const struct plot_column *first = plot_column_named(columns[0]);
    struct curve curves[RANKS_SHOWN] = {{.n = 0}};
    struct chart_series series[RANKS_SHOWN];
    size_t n = 0;
    for (size_t i = 0; n < RANKS_SHOWN && columns[i]; i++) {
        if (curve_of(reply, first->is_epoch ? "epoch" : "iteration", columns[i],
                     0, &curves[n], NULL) < 0 ||
            curve_points(&curves[n]) == 0) {
            curve_clear(&curves[n]);
            continue;
        }
        for (char *u = curves[n].name; (u = strchr(u, '_')) != NULL;)
            *u = ' ';
        series[n] = curve_series(&curves[n]);
        n++;
    }
    const struct chart chart =
        plot_chart(first, job, title ? title : first->title, series, n);
    page_chart(p, &chart);
    for (size_t i = 0; i < n; i++)
        curve_clear(&curves[i]);
}

/* Draws a line for each of the first eight ranks. */
static void draw_ranks(struct page *p, const json_t *reply)
{
    struct curve curves[RANKS_SHOWN] = {{.n = 0}};
    struct chart_series series[RANKS_SHOWN];
    size_t n = 0;
    for (; n < RANKS_SHOWN; n++) {
        if (curve_of(reply, "iteration", "t_iter", (int)n, &curves[n], NULL) <
                0 ||
            curves[n].n == 0)
            break;
        (void)snprintf(curves[n].name, sizeof(curves[n].name), "rank %zu", n);
        series[n] = curve_series(&curves[n]);
    }
    const struct chart chart =
        plot_chart(plot_column_named("t_iter"), NULL, "Step time", series, n);
    if (n > 0)
        page_chart(p, &chart);
    for (size_t i = 0; i < RANKS_SHOWN; i++)
        curve_clear(&curves[i]);
}

/* A chart for each metric that the job named itself, with a line for each of
 * the first eight ranks that report it. */
static void draw_own(struct page *p, const struct metric_set *own)
{
    for (size_t i = 0; i < own->n; i++) {
        const struct metric_curve *m = &own->curves[i];
        struct curve curves[RANKS_SHOWN] = {{.n = 0}};
        struct chart_series series[RANKS_SHOWN];
        size_t n = 0;
        if (!metric_set_is_first(own, m))
            continue;
        for (size_t k = 0; k < own->n && n < RANKS_SHOWN; k++) {
            if (strcmp(own->curves[k].name, m->name) != 0)
                continue;
            p->bad |= curve_of_metric(&own->curves[k], &curves[n], NULL);
            (void)snprintf(curves[n].name, sizeof(curves[n].name), "rank %d",
                           own->curves[k].rank);
            series[n] = curve_series(&curves[n]);
            n++;
        }
        const struct chart chart = plot_chart(NULL, NULL, m->name, series, n);
        if (n > 0)
            page_chart(p, &chart);
        for (size_t k = 0; k < n; k++)
            curve_clear(&curves[k]);
    }
}

void job_charts_add(struct page *p, const json_t *job, const json_t *iterations,
                    const json_t *epochs, const struct metric_set *own)
{
    static const char *const loss[] = {"loss", NULL};
    static const char *const rate[] = {"lr", NULL};
    static const char *const losses[] = {"train_loss", "eval_loss", NULL};
    static const char *const accuracy[] = {"eval_accuracy", NULL};
    static const char *const rates[][2] = {{"samples_per_s", NULL},
                                           {"tokens_per_s", NULL}};
    bool is_text = cells_has(epochs, "tokens_per_s");
    if (json_array_size(json_object_get(iterations, "rows")) == 0 &&
        own->n == 0)
        return;
    page_add(p, "<h2>Curves</h2>");
    if (json_array_size(json_object_get(iterations, "rows")) >= ROWS_SHOWN)
        page_add(
            p,
            "<p class=\"dim\">Only the first 100,000 rows of iterations.</p>");
    page_add(p, "<div class=\"charts\">\n");
    draw_columns(p, job, iterations, NULL, loss);
    draw_columns(p, job, iterations, NULL, rate);
    draw_ranks(p, iterations);
    draw_columns(p, job, epochs, "Loss by epoch", losses);
    draw_columns(p, job, epochs, NULL, accuracy);
    draw_columns(p, job, epochs, NULL, rates[is_text]);
    draw_own(p, own);
    page_add(p, "</div>\n");
}

/* ---- where its time went -------------------------------------------------
 */

/* NAN: no row has a value. */
static double sum_of(const json_t *reply, const char *column)
{
    int c = cells_column(reply, column);
    double sum = 0;
    if (!cells_has(reply, column))
        return NAN;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(reply, "rows"), i, row)
    {
        double v = show_cell(row, c);
        sum += isfinite(v) ? v : 0;
    }
    return sum;
}

static void add_phase(struct page *p, const char *name, double sum,
                      double whole, size_t n)
{
    char text[32];
    double share = isfinite(sum) ? 100 * sum / whole : 0;
    page_add(p, "<tr>");
    page_cell(p, "l", name);
    page_cell(p, "", render_time(sum / (double)n, text, sizeof(text)));
    (void)snprintf(text, sizeof(text), "%.1f %%", share);
    page_cell(p, "", isfinite(sum) ? text : "-");
    page_bar(p, share / 100);
}

void job_charts_phases(struct page *p, const json_t *iterations)
{
    static const char *const titles[] = {"<Phase", "Mean", "Share", "", NULL};
    static const struct {
        const char *column, *name;
    } phases[] = {
        {"t_data", "data"},          {"t_h2d", "host to device"},
        {"t_forward", "forward"},    {"t_backward", "backward"},
        {"t_comm", "communication"}, {"t_optimizer", "optimizer"},
    };
    size_t n = json_array_size(json_object_get(iterations, "rows"));
    double whole = sum_of(iterations, "t_iter"), rest = whole;
    bool is_known = false;
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
        is_known = is_known || cells_has(iterations, phases[i].column);
    if (n == 0 || !(whole > 0) || !is_known)
        return;
    page_add(p, "<h2>Time per phase of an iteration</h2><section>");
    page_heads(p, titles);
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        double sum = sum_of(iterations, phases[i].column);
        rest -= isfinite(sum) ? sum : 0;
        add_phase(p, phases[i].name, sum, whole, n);
    }
    add_phase(p, "other", rest > 0 ? rest : 0, whole, n);
    page_add(p, "</table></div></section>\n");
}
