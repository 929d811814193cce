/* report_html.c - write the HTML report of a job: its specification, curves,
 * time per phase, attempts and events.
 *
 * The file has no script, and its policy forbids the browser to load anything.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/state.h"
#include "scheduler/tools/common/render.h"
#include "scheduler/tools/common/row_pages.h"
#include "scheduler/tools/export/curves.h"
#include "scheduler/tools/export/html_page.h"
#include "scheduler/tools/export/plot.h"
#include "scheduler/tools/views/show.h"

/* The maximum of the daemon; more points would not be visible. */
enum { ROWS_SHOWN = 100000 };

static void fact_pairs(struct page *p, const char *name, const json_t *o)
{
    char *text = json_object_size(o) ? field_pairs(o, NULL) : NULL;
    page_fact(p, name, text ? text : "");
    free(text);
}

/* ---- what it was ---------------------------------------------------------
 */

static const char *class_of(const char *state)
{
    enum job_state s = JOB_NEW;
    if (job_state_from_name(state, &s) < 0 || !job_state_is_final(s))
        return "on";
    return s == JOB_COMPLETED ? "ok" : "no";
}

static void add_head(struct page *p, const json_t *job)
{
    char text[64];
    const char *state = field_str(job, "state");
    page_add(p, "<title>Job ");
    page_say(p, field_str(job, "display_id"));
    page_add(p, " ");
    page_say(p, field_str(job, "name"));
    page_add(p, "</title>\n");
    p->bad |= chart_style(&p->out, NULL);
    page_add(p, "</head><body><main>\n<h1>Job ");
    page_say(p, field_str(job, "display_id"));
    page_add(p, " ");
    page_say(p, field_str(job, "name"));
    p->bad |= buf_addf(&p->out, NULL, "</h1><p><span class=\"state %s\">",
                       class_of(state));
    page_say(p, state);
    page_add(p, "</span> <span class=\"dim\">");
    page_say(p, field_str(job, "reason"));
    page_add(p, "</span></p>\n<section><dl>\n");
    page_fact(p, "User", field_str(job, "user"));
    page_fact(p, "Submitted", field_str(job, "submitted"));
    page_fact(p, "Started", field_str(job, "started"));
    page_fact(p, "Ended", field_str(job, "ended"));
    page_fact(
        p, "Ran",
        render_duration(field_real(job, "elapsed_s"), text, sizeof(text)));
    page_fact(p, "Time limit",
              render_duration(field_real(job, "limit_s"), text, sizeof(text)));
    int64_t lo = field_int(job, "gpus_min", 0);
    int64_t hi = field_int(job, "gpus_max", lo);
    int n = snprintf(text, sizeof(text), "%" PRId64 " of %" PRId64,
                     field_int(job, "gpus", 0), lo);
    if (hi != lo)
        (void)snprintf(text + n, sizeof(text) - (size_t)n, "..%" PRId64, hi);
    page_fact(p, "GPUs (allocated of requested)", text);
    page_fact(p, "Account", field_str(job, "account"));
    page_fact(p, "Partition", field_str(job, "partition"));
    fact_pairs(p, "Labels", json_object_get(job, "labels"));
    fact_pairs(p, "Sweep values", json_object_get(job, "vary"));
    page_fact(p, "Place", field_str(job, "place"));
    (void)snprintf(text, sizeof(text), "%" PRId64,
                   field_int(job, "attempt", 0));
    page_fact(p, "Attempt", text);
    if (field_int(job, "exit_code", -1) >= 0) {
        (void)snprintf(text, sizeof(text), "%" PRId64,
                       field_int(job, "exit_code", 0));
        page_fact(p, "Exit code", text);
    }
    page_fact(
        p, "Test accuracy, last",
        render_accuracy(field_real(job, "eval_accuracy"), text, sizeof(text)));
    page_fact(p, "Directory", field_str(job, "dir"));
    page_add(p, "</dl></section>\n");
}

/* ---- charts --------------------------------------------------------------
 */

static void draw(struct page *p, const struct chart *c)
{
    bool has_points = false;
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < c->series[i].n; k++)
            has_points = has_points || isfinite(c->series[i].y[k]);
    if (!has_points)
        return;
    page_add(p, "<div class=\"card\">");
    p->bad |= chart_svg(c, false, &p->out, NULL);
    page_add(p, "</div>\n");
}

/* Draws columns of one view as the lines of one chart. */
static void draw_columns(struct page *p, const json_t *reply, const char *x,
                         const char *const *columns, struct chart chart)
{
    struct curve curves[CHART_SERIES_MAX] = {{.n = 0}};
    struct chart_series series[CHART_SERIES_MAX];
    size_t n = 0;
    for (; n < CHART_SERIES_MAX && columns[n]; n++) {
        if (curve_of(reply, x, columns[n], 0, &curves[n], NULL) < 0)
            curves[n] = (struct curve){.n = 0};
        for (char *u = curves[n].name; (u = strchr(u, '_')) != NULL;)
            *u = ' ';
        series[n] = curve_series(&curves[n]);
    }
    chart.x_title = x;
    chart.series = series;
    chart.n = n;
    draw(p, &chart);
    for (size_t i = 0; i < n; i++)
        curve_clear(&curves[i]);
}

/* Draws a line for each of the first eight ranks. */
static void draw_ranks(struct page *p, const json_t *reply)
{
    struct curve curves[CHART_SERIES_MAX] = {{.n = 0}};
    struct chart_series series[CHART_SERIES_MAX];
    size_t n = 0;
    for (; n < CHART_SERIES_MAX; n++) {
        if (curve_of(reply, "iteration", "t_iter", (int)n, &curves[n], NULL) <
                0 ||
            curves[n].n == 0)
            break;
        (void)snprintf(curves[n].name, sizeof(curves[n].name), "rank %zu", n);
        series[n] = curve_series(&curves[n]);
    }
    struct chart chart = {.title = "Step time",
                          .x_title = "iteration",
                          .y_title = "seconds",
                          .series = series,
                          .n = n,
                          .from_zero = true};
    if (n > 0)
        draw(p, &chart);
    for (size_t i = 0; i < CHART_SERIES_MAX; i++)
        curve_clear(&curves[i]);
}

/* A chart for each metric that the job named itself, with a line for each of
 * the first eight ranks that report it. */
static void draw_own(struct page *p, const struct metric_set *own)
{
    for (size_t i = 0; i < own->n; i++) {
        const struct metric_curve *m = &own->curves[i];
        struct curve curves[CHART_SERIES_MAX] = {{.n = 0}};
        struct chart_series series[CHART_SERIES_MAX];
        size_t n = 0;
        for (size_t k = 0;
             metric_set_is_first(own, m) && k < own->n && n < CHART_SERIES_MAX;
             k++) {
            if (strcmp(own->curves[k].name, m->name) != 0)
                continue;
            p->bad |= curve_of_metric(&own->curves[k], &curves[n], NULL);
            (void)snprintf(curves[n].name, sizeof(curves[n].name), "rank %d",
                           own->curves[k].rank);
            series[n] = curve_series(&curves[n]);
            n++;
        }
        struct chart chart = {.title = m->name,
                              .x_title = "iteration",
                              .y_title = "",
                              .series = series,
                              .n = n};
        if (n > 0)
            draw(p, &chart);
        for (size_t k = 0; k < n; k++)
            curve_clear(&curves[k]);
    }
}

static void add_charts(struct page *p, const json_t *iterations,
                       const json_t *epochs, const struct metric_set *own)
{
    static const char *const loss[] = {"loss", NULL};
    static const char *const losses[] = {"train_loss", "eval_loss", NULL};
    static const char *const accuracy[] = {"eval_accuracy", NULL};
    static const char *const rates[][2] = {{"samples_per_s", NULL},
                                           {"tokens_per_s", NULL}};
    bool is_text = show_has(epochs, "tokens_per_s");
    if (json_array_size(json_object_get(iterations, "rows")) == 0 &&
        own->n == 0)
        return;
    page_add(p, "<h2>Curves</h2>");
    if (json_array_size(json_object_get(iterations, "rows")) >= ROWS_SHOWN)
        page_add(
            p,
            "<p class=\"dim\">Only the first 100,000 rows of iterations.</p>");
    page_add(p, "<div class=\"charts\">\n");
    draw_columns(p, iterations, "iteration", loss,
                 (struct chart){.title = "Loss", .y_title = "nats"});
    draw_ranks(p, iterations);
    draw_columns(p, epochs, "epoch", losses,
                 (struct chart){.title = "Loss by epoch",
                                .y_title = "nats",
                                .categories = true});
    draw_columns(p, epochs, "epoch", accuracy,
                 (struct chart){.title = "Test accuracy",
                                .y_title = "accuracy, 0 to 1",
                                .categories = true});
    draw_columns(p, epochs, "epoch", rates[is_text],
                 (struct chart){.title = "Throughput",
                                .y_title = is_text ? "tokens/s" : "samples/s",
                                .from_zero = true,
                                .categories = true});
    draw_own(p, own);
    page_add(p, "</div>\n");
}

/* ---- where its time went -------------------------------------------------
 */

/* NAN: no row has a value. */
static double sum_of(const json_t *reply, const char *column)
{
    int c = show_column(reply, column);
    double sum = 0;
    if (!show_has(reply, column))
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
    p->bad |= buf_addf(&p->out, NULL,
                       "<td class=\"b\"><div class=\"bar\" "
                       "style=\"width:%.1f%%\"></div></td></tr>\n",
                       share > 100 ? 100 : share);
}

static void add_phases(struct page *p, const json_t *iterations)
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
        is_known = is_known || show_has(iterations, phases[i].column);
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

/* ---- tables --------------------------------------------------------------
 */

static void number(struct page *p, const json_t *row, int column,
                   const char *fmt)
{
    char text[40] = "-";
    double v = show_cell(row, column);
    if (isfinite(v) && strcmp(fmt, "%.0f") == 0)
        (void)snprintf(text, sizeof(text), "%.0f", v);
    else if (strcmp(fmt, "%") == 0)
        (void)render_accuracy(v, text, sizeof(text));
    else if (isfinite(v))
        (void)snprintf(text, sizeof(text), "%.4g", v);
    page_cell(p, "", text);
}

static void add_epochs(struct page *p, const json_t *epochs)
{
    bool is_text = show_has(epochs, "tokens_per_s");
    const char *const titles[] = {"Epoch",
                                  "Attempt",
                                  "Seconds",
                                  "Training loss",
                                  "Test loss",
                                  "Test accuracy",
                                  is_text ? "Tokens/s" : "Samples/s",
                                  NULL};
    const struct {
        const char *column, *fmt;
    } cells[] = {{"epoch", "%.0f"},
                 {"attempt", "%.0f"},
                 {"seconds", "%.4g"},
                 {"train_loss", "%.4g"},
                 {"eval_loss", "%.4g"},
                 {"eval_accuracy", "%"},
                 {is_text ? "tokens_per_s" : "samples_per_s", "%.0f"}};
    size_t i;
    json_t *row;
    if (json_array_size(json_object_get(epochs, "rows")) == 0)
        return;
    page_add(p, "<h2>Epochs</h2><section>");
    page_heads(p, titles);
    json_array_foreach(json_object_get(epochs, "rows"), i, row)
    {
        page_add(p, "<tr>");
        for (size_t c = 0; c < sizeof(cells) / sizeof(cells[0]); c++)
            number(p, row, show_column(epochs, cells[c].column), cells[c].fmt);
        page_add(p, "</tr>\n");
    }
    page_add(p, "</table></div></section>\n");
}

/* A table of text: `fields` of each object. */
static void add_objects(struct page *p, const char *title,
                        const char *const *titles, const char *const *fields,
                        const json_t *list)
{
    size_t i;
    json_t *o;
    if (json_array_size(list) == 0)
        return;
    page_add(p, "<h2>");
    page_say(p, title);
    page_add(p, "</h2><section>");
    page_heads(p, titles);
    json_array_foreach(list, i, o)
    {
        page_add(p, "<tr>");
        for (const char *const *f = fields; *f; f++) {
            const json_t *v = json_object_get(o, *f);
            char *text = json_is_string(v) || json_is_null(v) || !v ? NULL
                         : json_is_object(v)
                             ? field_pairs(v, "key") /* without the
                                                        idempotency key */
                             : json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
            /* Only the last column is running text. */
            page_cell(p,
                      json_is_number(v) ? ""
                      : f[1]            ? "l"
                                        : "w",
                      text ? text : field_str(o, *f));
            free(text);
        }
        page_add(p, "</tr>\n");
    }
    page_add(p, "</table></div></section>\n");
}

/* The profile of the last epoch and its first rank; mgpu-stat --profile has the
 * others. */
static void add_profile(struct page *p, const json_t *reply)
{
    static const char *const titles[] = {"<Metric", "Calls", "Time", "Bytes",
                                         NULL};
    const json_t *rows = json_object_get(reply, "rows");
    size_t n = json_array_size(rows), i;
    json_t *row;
    char text[40];
    if (n == 0)
        return;
    int c_epoch = show_column(reply, "epoch");
    double epoch = show_cell(json_array_get(rows, n - 1), c_epoch);
    p->bad |=
        buf_addf(&p->out, NULL,
                 "<h2>Profile of epoch %.0f, rank 0</h2><section>", epoch);
    page_heads(p, titles);
    json_array_foreach(rows, i, row)
    {
        const json_t *name =
            json_array_get(row, (size_t)show_column(reply, "metric"));
        if (show_cell(row, c_epoch) != epoch || !json_is_string(name) ||
            show_cell(row, show_column(reply, "rank")) != 0)
            continue;
        page_add(p, "<tr>");
        page_cell(p, "l", json_string_value(name));
        double calls = show_cell(row, show_column(reply, "calls"));
        page_cell(p, "",
                  isfinite(calls)
                      ? render_count((long long)calls, text, sizeof(text))
                      : "-");
        page_cell(p, "",
                  render_time(show_cell(row, show_column(reply, "total_s")),
                              text, sizeof(text)));
        page_cell(p, "",
                  render_bytes(show_cell(row, show_column(reply, "bytes")),
                               text, sizeof(text)));
        page_add(p, "</tr>\n");
    }
    page_add(p, "</table></div></section>\n");
}

static void add_spec(struct page *p, const json_t *job)
{
    char *text = json_dumps(json_object_get(job, "spec"), JSON_INDENT(2));
    if (!text)
        return;
    page_add(p, "<h2>Specification</h2><section><pre>");
    page_say(p, text);
    page_add(p, "</pre></section>\n");
    free(text);
}

static void add_all(struct page *p, const json_t *job, const json_t *iterations,
                    const json_t *epochs, const struct metric_set *own,
                    const json_t *profile, const json_t *events)
{
    static const char *const attempt_heads[] = {"Attempt", "<State",   "<Place",
                                                "GPUs",    "<Started", "<Ended",
                                                "<Reason", NULL};
    static const char *const attempt_keys[] = {"attempt", "state",   "place",
                                               "gpus",    "claimed", "ended",
                                               "reason",  NULL};
    static const char *const event_heads[] = {"No.",    "<Time",   "Attempt",
                                              "<Event", "<Detail", NULL};
    static const char *const event_keys[] = {"seq",   "at",     "attempt",
                                             "event", "detail", NULL};
    const json_t *o = json_object_get(job, "job");
    json_t *attempts = json_object_get(job, "attempts"), *a;
    json_t *list = json_object_get(events, "events"), *e;
    size_t i;
    json_array_foreach(attempts, i, a)
    {
        p->bad |=
            json_object_set_new(a, "state", json_string(attempt_state(a)));
    }
    json_array_foreach(list, i, e)
    {
        if (show_asked(e))
            p->bad |=
                json_object_set_new(e, "detail", json_string(show_asked(e)));
    }
    add_head(p, o);
    add_charts(p, iterations, epochs, own);
    add_phases(p, iterations);
    add_epochs(p, epochs);
    add_profile(p, profile);
    add_objects(p, "Attempts", attempt_heads, attempt_keys, attempts);
    add_objects(p, "Events", event_heads, event_keys, list);
    add_spec(p, o);
    page_add(p, "</main></body></html>\n");
}

static int take_page(void *arg, const json_t *reply, size_t n,
                     struct error *err)
{
    return metric_set_take(arg, reply, n, err);
}

int report_job(struct client *c, const char *word, const char *path,
               struct error *err)
{
    struct page p;
    json_t *job = NULL, *iterations = NULL, *epochs = NULL, *events = NULL;
    json_t *profile = NULL;
    struct metric_set own = {.n = 0};
    int64_t id = 0;
    page_begin(&p);
    int rc = client_get(c, &job, err, "/v1/jobs/%s", word);
    if (rc == 0)
        rc = client_get(c, &iterations, err, "/v1/jobs/%s/iterations", word);
    if (rc == 0)
        rc = client_get(c, &epochs, err, "/v1/jobs/%s/epochs", word);
    if (rc == 0)
        rc = row_pages(c, word, "values", &id, take_page, &own, err);
    if (rc == 0)
        rc = client_get(c, &profile, err, "/v1/jobs/%s/profile", word);
    if (rc == 0)
        rc = client_get(c, &events, err, "/v1/jobs/%s/events", word);
    if (rc == 0) {
        add_all(&p, job, iterations, epochs, &own, profile, events);
        rc = p.bad ? error_set(err, ERR_NOMEM, "report")
                   : plot_write(path, &p.out, err);
    }
    json_decref(job);
    json_decref(iterations);
    json_decref(epochs);
    json_decref(events);
    json_decref(profile);
    metric_set_clear(&own);
    buf_clear(&p.out);
    return rc;
}
