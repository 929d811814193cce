/* report_html.c - write the HTML report of a job: curves, efficiency, time per
 * phase, epochs, attempts, the end of its log, events, its specification.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/advice/advice.h"
#include "jobs/spec/spec.h"
#include "jobs/spec/spec_editor.h"
#include "jobs/state.h"
#include "scheduler/tools/common/render.h"
#include "scheduler/tools/export/curves.h"
#include "scheduler/tools/export/html_page.h"
#include "scheduler/tools/export/job_charts.h"
#include "scheduler/tools/export/plot.h"
#include "scheduler/tools/views/show.h"

enum { LOG_LINES = 60, LOG_LINE_CAP = 1000 };

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
    page_title(p, "Job", field_str(job, "display_id"), field_str(job, "name"));
    p->bad |= buf_addf(&p->out, NULL, "<p><span class=\"state %s\">",
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
    bool is_text = cells_has(epochs, "tokens_per_s");
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
            number(p, row, cells_column(epochs, cells[c].column), cells[c].fmt);
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
    page_add(p, "</h2><section class=\"text\">");
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
    int c_epoch = cells_column(reply, "epoch");
    double epoch = show_cell(json_array_get(rows, n - 1), c_epoch);
    p->bad |=
        buf_addf(&p->out, NULL,
                 "<h2>Profile of epoch %.0f, rank 0</h2><section>", epoch);
    page_heads(p, titles);
    json_array_foreach(rows, i, row)
    {
        const json_t *name =
            json_array_get(row, (size_t)cells_column(reply, "metric"));
        if (show_cell(row, c_epoch) != epoch || !json_is_string(name) ||
            show_cell(row, cells_column(reply, "rank")) != 0)
            continue;
        page_add(p, "<tr>");
        page_cell(p, "l", json_string_value(name));
        double calls = show_cell(row, cells_column(reply, "calls"));
        page_cell(p, "",
                  isfinite(calls)
                      ? render_count((long long)calls, text, sizeof(text))
                      : "-");
        page_cell(p, "",
                  render_time(show_cell(row, cells_column(reply, "total_s")),
                              text, sizeof(text)));
        page_cell(p, "",
                  render_bytes(show_cell(row, cells_column(reply, "bytes")),
                               text, sizeof(text)));
        page_add(p, "</tr>\n");
    }
    page_add(p, "</table></div></section>\n");
}

/* ---- efficiency ------------------------------------------------------------
 */

static void add_share(struct page *p, const char *name, double share)
{
    char text[32] = "-";
    if (isfinite(share))
        (void)snprintf(text, sizeof(text), "%.0f %%", 100 * share);
    page_add(p, "<tr>");
    page_cell(p, "l", name);
    page_cell(p, "", text);
    page_bar(p, share);
}

/* A row of mgpu.eff/1, with its advice. */
static void add_efficiency(struct page *p, const json_t *eff)
{
    static const char *const titles[] = {"<Share of its time or resource", "",
                                         "", NULL};
    static const struct {
        const char *key, *name;
    } shares[] = {
        {"computing", "computing"},
        {"waiting_for_data", "waiting for data"},
        {"copying", "copying"},
        {"waiting_for_ranks", "waiting for ranks"},
        {"efficiency", "parallel efficiency"},
        {"sol", "GPU's limit reached"},
        {"gpu_memory", "GPU memory"},
        {"cpu", "CPU"},
        {"limit_used", "time limit used"},
    };
    const json_t *notes = json_object_get(eff, "notes"), *note;
    size_t i;
    page_add(p, "<h2>Efficiency</h2><section>");
    page_heads(p, titles);
    for (i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
        add_share(p, shares[i].name, field_real(eff, shares[i].key));
    page_add(p, "</table></div>");
    if (json_array_size(notes) == 0)
        page_add(p, "<p class=\"dim\">Nothing stands out.</p>");
    else
        page_add(p, "<ul>");
    json_array_foreach(notes, i, note)
    {
        page_add(p, "<li>");
        page_say(p, json_string_value(note));
        page_add(p, "</li>\n");
    }
    page_add(p, json_array_size(notes) ? "</ul></section>\n" : "</section>\n");
}

/* ---- the end of its log ----------------------------------------------------
 */

struct log_tail {
    char lines[LOG_LINES][LOG_LINE_CAP];
    size_t n; /* of the whole log */
    int64_t attempt;
    struct error why; /* it cannot be read */
};

static int take_line(void *arg, const char *text, size_t len, struct error *err)
{
    struct log_tail *t = arg;
    (void)err;
    (void)snprintf(t->lines[t->n++ % LOG_LINES], LOG_LINE_CAP, "%.*s",
                   len < LOG_LINE_CAP ? (int)len : LOG_LINE_CAP - 1, text);
    return 0;
}

/* A log that cannot be read leaves the report as it is, and is told there. */
static void read_log(struct client *c, const char *word, int64_t attempt,
                     struct log_tail *t)
{
    char path[160];
    *t = (struct log_tail){.attempt = attempt, .why = ERROR_INIT};
    (void)snprintf(path, sizeof(path),
                   "/v1/jobs/%s/logs?follow=0&attempt=%" PRId64, word, attempt);
    if (attempt > 0 && client_stream(c, path, 30, take_line, t, &t->why) < 0 &&
        t->why.code == ERR_NONE)
        t->why.code = ERR_IO;
}

static void add_log(struct page *p, const struct log_tail *t)
{
    size_t first = t->n > LOG_LINES ? t->n - LOG_LINES : 0;
    if (t->attempt < 1)
        return;
    page_add(p, "<h2>End of its log</h2><section>");
    p->bad |= buf_addf(&p->out, NULL,
                       "<p class=\"dim\">Lines %zu to %zu of attempt %" PRId64
                       "; the others by mgpu-stat --logs.</p><pre>",
                       t->n ? first + 1 : 0, t->n, t->attempt);
    for (size_t i = first; i < t->n; i++) {
        char safe[4 * LOG_LINE_CAP];
        char line[LOG_LINE_CAP];
        (void)snprintf(line, sizeof(line), "%s", t->lines[i % LOG_LINES]);
        for (char *c = line; (c = strchr(c, '\t')) != NULL;)
            *c = ' ';
        page_say(p, render_escape(line, safe, sizeof(safe)));
        page_add(p, "\n");
    }
    page_add(p, "</pre>");
    if (t->why.code) {
        page_add(p, "<p class=\"dim\">It cannot be read: ");
        page_say(p, t->why.msg);
        page_add(p, "</p>");
    }
    page_add(p, "</section>\n");
}

/* A stored specification as YAML; -1: it cannot be read, as of a newer mgpu. */
static int add_yaml(const char *json, struct buf *ret)
{
    const struct spec_options stored = {.is_stored = true};
    struct spec_report report = {.n = 0};
    struct job_spec spec = {.version = 0};
    int rc = spec_parse(json, strlen(json), &stored, &spec, &report, NULL);
    if (rc == 0)
        rc = spec_brief(&spec, ret, NULL);
    diagnostics_clear(&report);
    spec_clear(&spec);
    return rc;
}

static void add_spec(struct page *p, const json_t *job)
{
    char *json = json_dumps(json_object_get(job, "spec"), JSON_INDENT(2));
    struct buf yaml = BUF_INIT;
    if (!json)
        return;
    bool is_brief = add_yaml(json, &yaml) == 0;
    page_add(p, "<h2>Specification</h2><section>");
    if (is_brief)
        page_add(p, "<p class=\"dim\">Keys that are not here have their "
                    "defaults.</p>");
    page_add(p, "<pre>");
    page_say(p, is_brief ? buf_str(&yaml) : json);
    page_add(p, "</pre></section>\n");
    buf_clear(&yaml);
    free(json);
}

static void add_all(struct page *p, const json_t *job, const json_t *iterations,
                    const json_t *epochs, const struct metric_set *own,
                    const json_t *profile, const json_t *eff,
                    const struct log_tail *log, const json_t *events)
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
        if (cells_asked(e))
            p->bad |=
                json_object_set_new(e, "detail", json_string(cells_asked(e)));
        else if (strcmp(field_str(e, "event"), "submit") == 0)
            p->bad |= json_object_set_new(
                e, "detail", json_string("as in the specification below"));
    }
    add_head(p, o);
    job_charts_add(p, o, iterations, epochs, own);
    add_efficiency(p, eff);
    job_charts_phases(p, iterations);
    add_epochs(p, epochs);
    add_profile(p, profile);
    add_objects(p, "Attempts", attempt_heads, attempt_keys, attempts);
    add_log(p, log);
    add_objects(p, "Events", event_heads, event_keys, list);
    add_spec(p, o);
    page_end(p, "job", o);
}

/* The figures and the advice of --eff. */
static int read_eff(struct client *c, const char *word, json_t *job,
                    const json_t *iterations, json_t *profile,
                    const json_t *events, bool has_sol, json_t **ret,
                    struct error *err)
{
    json_t *scaling = NULL, *values = NULL;
    int rc = client_get(c, &scaling, err, "/v1/jobs/%s/scaling", word);
    if (rc == 0 && has_sol)
        rc = client_get(c, &values, err, "/v1/jobs/%s/values", word);
    if (rc == 0 && (json_object_set(job, "events",
                                    json_object_get(events, "events")) < 0 ||
                    json_object_set(job, "profile", profile) < 0 ||
                    (values && json_object_set(job, "values", values) < 0)))
        rc = error_set(err, ERR_NOMEM, "report");
    if (rc == 0)
        rc = advice_row(job, iterations, scaling, ret, err);
    json_decref(scaling);
    json_decref(values);
    return rc;
}

static int report_one(struct client *c, const char *word, json_t *job,
                      const char *path, struct error *err)
{
    struct page p;
    json_t *iterations = NULL, *epochs = NULL, *events = NULL;
    json_t *profile = NULL, *eff = NULL;
    struct metric_set own = {.n = 0};
    struct log_tail *log = calloc(1, sizeof(*log));
    page_begin(&p);
    int rc = log ? 0 : error_set(err, ERR_NOMEM, "report");
    if (rc == 0)
        rc = client_get(c, &iterations, err, "/v1/jobs/%s/iterations", word);
    if (rc == 0)
        rc = client_get(c, &epochs, err, "/v1/jobs/%s/epochs", word);
    if (rc == 0)
        rc = metric_set_read(c, word, &own, err);
    if (rc == 0)
        rc = client_get(c, &profile, err, "/v1/jobs/%s/profile", word);
    if (rc == 0)
        rc = client_get(c, &events, err, "/v1/jobs/%s/events", word);
    if (rc == 0)
        rc = read_eff(c, word, job, iterations, profile, events,
                      metric_set_find(&own, "sol") != NULL, &eff, err);
    if (rc == 0) {
        read_log(c, word, field_int(json_object_get(job, "job"), "attempt", 0),
                 log);
        add_all(&p, job, iterations, epochs, &own, profile, eff, log, events);
        rc = p.bad ? error_set(err, ERR_NOMEM, "report")
                   : plot_write(path, &p.out, err);
    }
    json_decref(iterations);
    json_decref(epochs);
    json_decref(events);
    json_decref(profile);
    json_decref(eff);
    metric_set_clear(&own);
    free(log);
    page_clear(&p);
    return rc;
}

int report_job(struct client *c, const char *word, const char *path,
               struct error *err)
{
    json_t *job = NULL;
    if (client_get(c, &job, err, "/v1/jobs/%s", word) < 0)
        return -1;
    bool is_sweep = json_is_object(json_object_get(job, "sweep")) &&
                    strchr(word, '_') == NULL;
    int rc = is_sweep ? report_sweep(c, word, job, path, err)
                      : report_one(c, word, job, path, err);
    json_decref(job);
    return rc;
}
