/* report_html.c - write the HTML report of a job: its specification, curves,
 * time per phase, attempts and events.
 *
 * The file has no script, and its policy forbids the browser to load anything;
 * text from outside is escaped.
 *
 * Writing into memory fails only when memory runs out. So each part only
 * records a failure (`bad`), and the end reports it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/state.h"
#include "scheduler/tools/common/render.h"
#include "scheduler/tools/export/curves.h"
#include "scheduler/tools/export/plot.h"
#include "scheduler/tools/views/show.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
    "'none'; style-src 'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<style>:root{--bg:#f4f5f7;--card:#fff;--ink:#1c1f24;--dim:#5b626d;"
    "--rule:#e3e6ea;--bar:#1f6fd0;--ok:#14805e;--no:#c2293f;--on:#1f6fd0}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#0d1014;--card:#15181d;"
    "--ink:#e8eaed;--dim:#a3abb7;--rule:#2a2f37;--bar:#6fb1ff;--ok:#4fd1a1;"
    "--no:#ff7b88;--on:#6fb1ff}}\n"
    "body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 "
    "system-ui,sans-serif}main{max-width:1100px;margin:0 auto;padding:24px "
    "16px 64px}h1{font-size:26px;margin:0 0 4px}h2{font-size:18px;margin:32px "
    "0 10px}section,.card{background:var(--card);border:1px solid var(--rule);"
    "border-radius:10px;padding:14px 16px}\n"
    ".state{font-weight:600}.ok{color:var(--ok)}.no{color:var(--no)}"
    ".on{color:var(--on)}.dim{color:var(--dim)}\n"
    "dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(210px,1fr));"
    "gap:10px 24px;margin:0}dt{color:var(--dim);font-size:13px}dd{margin:0;"
    "overflow-wrap:anywhere}\n"
    ".charts{display:grid;gap:14px;grid-template-columns:"
    "repeat(auto-fit,minmax(min(480px,100%),1fr))}.charts svg{display:block;"
    "width:100%;height:auto}.charts .card{padding:6px}\n"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:right;padding:5px 12px 5px 0;border-bottom:1px solid "
    "var(--rule);white-space:nowrap;font-variant-numeric:tabular-nums}"
    "th{color:var(--dim);font-weight:500;font-size:13px}"
    "th.l,td.l{text-align:left}td.w{white-space:normal;min-width:18em;text-"
    "align:left;"
    "overflow-wrap:anywhere}td{vertical-align:top}tr:last-child "
    "td{border-bottom:0}\n"
    ".bar{height:8px;border-radius:4px;background:var(--bar);min-width:1px}"
    "td.b{width:45%;vertical-align:middle}pre{margin:0;overflow-x:auto;font:"
    "13px/1.5 "
    "ui-monospace,monospace}</style>\n";

/* The maximum of the daemon; more points would not be visible. */
enum { ROWS_SHOWN = 100000 };

struct page {
    struct buf out;
    int bad;
};

static void add(struct page *p, const char *raw)
{
    p->bad |= buf_addstr(&p->out, raw, NULL);
}

static void say(struct page *p, const char *text)
{
    p->bad |= chart_escape(text, &p->out, NULL);
}

static void cell(struct page *p, const char *class, const char *text)
{
    p->bad |= buf_addf(&p->out, NULL, "<td class=\"%s\">", class);
    say(p, text);
    add(p, "</td>");
}

/* A title, or "<attempt" for a left-aligned column of text. */
static void heads(struct page *p, const char *const *titles)
{
    add(p, "<div class=\"scroll\"><table><tr>");
    for (; *titles; titles++) {
        bool is_left = **titles == '<';
        add(p, is_left ? "<th class=\"l\">" : "<th>");
        say(p, *titles + is_left);
        add(p, "</th>");
    }
    add(p, "</tr>\n");
}

static void fact(struct page *p, const char *name, const char *value)
{
    if (!*value || strcmp(value, "-") == 0)
        return;
    add(p, "<div><dt>");
    say(p, name);
    add(p, "</dt><dd>");
    say(p, value);
    add(p, "</dd></div>\n");
}

static void fact_pairs(struct page *p, const char *name, const json_t *o)
{
    char *text = json_object_size(o) ? field_pairs(o, NULL) : NULL;
    fact(p, name, text ? text : "");
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
    add(p, head);
    add(p, "<title>Job ");
    say(p, field_str(job, "display_id"));
    add(p, " ");
    say(p, field_str(job, "name"));
    add(p, "</title>\n");
    p->bad |= chart_style(&p->out, NULL);
    add(p, "</head><body><main>\n<h1>Job ");
    say(p, field_str(job, "display_id"));
    add(p, " ");
    say(p, field_str(job, "name"));
    p->bad |= buf_addf(&p->out, NULL, "</h1><p><span class=\"state %s\">",
                       class_of(state));
    say(p, state);
    add(p, "</span> <span class=\"dim\">");
    say(p, field_str(job, "reason"));
    add(p, "</span></p>\n<section><dl>\n");
    fact(p, "User", field_str(job, "user"));
    fact(p, "Submitted", field_str(job, "submitted"));
    fact(p, "Started", field_str(job, "started"));
    fact(p, "Ended", field_str(job, "ended"));
    fact(p, "Ran",
         render_duration(field_real(job, "elapsed_s"), text, sizeof(text)));
    fact(p, "Time limit",
         render_duration(field_real(job, "limit_s"), text, sizeof(text)));
    int64_t lo = field_int(job, "gpus_min", 0);
    int64_t hi = field_int(job, "gpus_max", lo);
    int n = snprintf(text, sizeof(text), "%" PRId64 " of %" PRId64,
                     field_int(job, "gpus", 0), lo);
    if (hi != lo)
        (void)snprintf(text + n, sizeof(text) - (size_t)n, "..%" PRId64, hi);
    fact(p, "GPUs (allocated of requested)", text);
    fact(p, "Account", field_str(job, "account"));
    fact(p, "Partition", field_str(job, "partition"));
    fact_pairs(p, "Labels", json_object_get(job, "labels"));
    fact_pairs(p, "Sweep values", json_object_get(job, "vary"));
    fact(p, "Place", field_str(job, "place"));
    (void)snprintf(text, sizeof(text), "%" PRId64,
                   field_int(job, "attempt", 0));
    fact(p, "Attempt", text);
    if (field_int(job, "exit_code", -1) >= 0) {
        (void)snprintf(text, sizeof(text), "%" PRId64,
                       field_int(job, "exit_code", 0));
        fact(p, "Exit code", text);
    }
    if (isfinite(field_real(job, "eval_accuracy"))) {
        (void)snprintf(text, sizeof(text), "%.2f %%",
                       100 * field_real(job, "eval_accuracy"));
        fact(p, "Test accuracy, last", text);
    }
    fact(p, "Directory", field_str(job, "dir"));
    add(p, "</dl></section>\n");
}

/* ---- charts --------------------------------------------------------------
 */

static void draw(struct page *p, const struct chart *c)
{
    size_t points = 0;
    for (size_t i = 0; i < c->n; i++)
        points += c->series[i].n;
    if (points == 0)
        return;
    add(p, "<div class=\"card\">");
    p->bad |= chart_svg(c, false, &p->out, NULL);
    add(p, "</div>\n");
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

static void add_charts(struct page *p, const json_t *iterations,
                       const json_t *epochs)
{
    static const char *const loss[] = {"loss", NULL};
    static const char *const losses[] = {"train_loss", "eval_loss", NULL};
    static const char *const accuracy[] = {"eval_accuracy", NULL};
    static const char *const rates[][2] = {{"samples_per_s", NULL},
                                           {"tokens_per_s", NULL}};
    bool is_text = show_has(epochs, "tokens_per_s");
    if (json_array_size(json_object_get(iterations, "rows")) == 0)
        return;
    add(p, "<h2>Curves</h2>");
    if (json_array_size(json_object_get(iterations, "rows")) >= ROWS_SHOWN)
        add(p,
            "<p class=\"dim\">Only the first 100,000 rows of iterations.</p>");
    add(p, "<div class=\"charts\">\n");
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
    add(p, "</div>\n");
}

/* ---- where its time went -------------------------------------------------
 */

static double sum_of(const json_t *reply, const char *column)
{
    int c = show_column(reply, column);
    double sum = 0;
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
    double share = whole > 0 ? 100 * sum / whole : 0;
    add(p, "<tr>");
    cell(p, "l", name);
    cell(p, "", render_time(sum / (double)n, text, sizeof(text)));
    (void)snprintf(text, sizeof(text), "%.1f %%", share);
    cell(p, "", text);
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
    if (n == 0 || whole <= 0)
        return;
    add(p, "<h2>Time per phase of an iteration</h2><section>");
    heads(p, titles);
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        double sum = sum_of(iterations, phases[i].column);
        rest -= sum;
        add_phase(p, phases[i].name, sum, whole, n);
    }
    add_phase(p, "other", rest > 0 ? rest : 0, whole, n);
    add(p, "</table></div></section>\n");
}

/* ---- tables --------------------------------------------------------------
 */

static void number(struct page *p, const json_t *row, int column,
                   const char *fmt, double by)
{
    char text[40] = "-";
    double v = show_cell(row, column);
    if (isfinite(v) && strcmp(fmt, "%.0f") == 0)
        (void)snprintf(text, sizeof(text), "%.0f", v);
    else if (isfinite(v) && strcmp(fmt, "%.2f %%") == 0)
        (void)snprintf(text, sizeof(text), "%.2f %%", v * by);
    else if (isfinite(v))
        (void)snprintf(text, sizeof(text), "%.4g", v);
    cell(p, "", text);
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
                 {"eval_accuracy", "%.2f %%"},
                 {is_text ? "tokens_per_s" : "samples_per_s", "%.0f"}};
    size_t i;
    json_t *row;
    if (json_array_size(json_object_get(epochs, "rows")) == 0)
        return;
    add(p, "<h2>Epochs</h2><section>");
    heads(p, titles);
    json_array_foreach(json_object_get(epochs, "rows"), i, row)
    {
        add(p, "<tr>");
        for (size_t c = 0; c < sizeof(cells) / sizeof(cells[0]); c++)
            number(p, row, show_column(epochs, cells[c].column), cells[c].fmt,
                   100);
        add(p, "</tr>\n");
    }
    add(p, "</table></div></section>\n");
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
    add(p, "<h2>");
    say(p, title);
    add(p, "</h2><section>");
    heads(p, titles);
    json_array_foreach(list, i, o)
    {
        add(p, "<tr>");
        for (const char *const *f = fields; *f; f++) {
            const json_t *v = json_object_get(o, *f);
            char *text = json_is_string(v) || json_is_null(v) || !v ? NULL
                         : json_is_object(v)
                             ? field_pairs(v, "key") /* without the
                                                        idempotency key */
                             : json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
            /* Only the last column is running text. */
            cell(p,
                 json_is_number(v) ? ""
                 : f[1]            ? "l"
                                   : "w",
                 text ? text : field_str(o, *f));
            free(text);
        }
        add(p, "</tr>\n");
    }
    add(p, "</table></div></section>\n");
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
    heads(p, titles);
    json_array_foreach(rows, i, row)
    {
        const json_t *name =
            json_array_get(row, (size_t)show_column(reply, "metric"));
        if (show_cell(row, c_epoch) != epoch || !json_is_string(name) ||
            show_cell(row, show_column(reply, "rank")) != 0)
            continue;
        add(p, "<tr>");
        cell(p, "l", json_string_value(name));
        double calls = show_cell(row, show_column(reply, "calls"));
        cell(p, "",
             isfinite(calls)
                 ? render_count((long long)calls, text, sizeof(text))
                 : "-");
        cell(p, "",
             render_time(show_cell(row, show_column(reply, "total_s")), text,
                         sizeof(text)));
        cell(p, "",
             render_bytes(show_cell(row, show_column(reply, "bytes")), text,
                          sizeof(text)));
        add(p, "</tr>\n");
    }
    add(p, "</table></div></section>\n");
}

static void add_spec(struct page *p, const json_t *job)
{
    char *text = json_dumps(json_object_get(job, "spec"), JSON_INDENT(2));
    if (!text)
        return;
    add(p, "<h2>Specification</h2><section><pre>");
    say(p, text);
    add(p, "</pre></section>\n");
    free(text);
}

static void add_all(struct page *p, const json_t *job, const json_t *iterations,
                    const json_t *epochs, const json_t *profile,
                    const json_t *events)
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
    add_charts(p, iterations, epochs);
    add_phases(p, iterations);
    add_epochs(p, epochs);
    add_profile(p, profile);
    add_objects(p, "Attempts", attempt_heads, attempt_keys, attempts);
    add_objects(p, "Events", event_heads, event_keys, list);
    add_spec(p, o);
    add(p, "</main></body></html>\n");
}

int report_job(struct client *c, const char *word, const char *path,
               struct error *err)
{
    struct page p = {.bad = 0};
    json_t *job = NULL, *iterations = NULL, *epochs = NULL, *events = NULL;
    json_t *profile = NULL;
    buf_init(&p.out);
    int rc = client_get(c, &job, err, "/v1/jobs/%s", word);
    if (rc == 0)
        rc = client_get(c, &iterations, err, "/v1/jobs/%s/iterations", word);
    if (rc == 0)
        rc = client_get(c, &epochs, err, "/v1/jobs/%s/epochs", word);
    if (rc == 0)
        rc = client_get(c, &profile, err, "/v1/jobs/%s/profile", word);
    if (rc == 0)
        rc = client_get(c, &events, err, "/v1/jobs/%s/events", word);
    if (rc == 0) {
        add_all(&p, job, iterations, epochs, profile, events);
        rc = p.bad ? error_set(err, ERR_NOMEM, "report")
                   : plot_write(path, &p.out, err);
    }
    json_decref(job);
    json_decref(iterations);
    json_decref(epochs);
    json_decref(events);
    json_decref(profile);
    buf_clear(&p.out);
    return rc;
}
