/* report_sweep.c - write the HTML report of a sweep: a chart for each measure,
 * with a line for each task, and a table of the varied values with the final
 * and the best figures.
 *
 * The charts have the first tasks with values, the table has all tasks.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/common/render.h"
#include "scheduler/tools/export/curves.h"
#include "scheduler/tools/export/html_page.h"
#include "scheduler/tools/export/plot.h"
#include "scheduler/tools/views/fetch.h"
#include "scheduler/tools/views/show.h"

struct figures { /* of one task; NAN: none */
    double final, lowest, highest;
};

struct measure {
    char name[METRIC_NAME_CAP];
    const struct plot_column *column; /* NULL: a metric of the jobs' own */
    struct figures *of;               /* owned: by task */
    struct curve curves[CHART_SERIES_MAX];
    size_t n_curves, n_with; /* n_with: tasks with values */
};

struct sweep {
    json_t *jobs; /* borrowed: the tasks */
    size_t n;
    struct measure **measures; /* owned */
    size_t n_measures, cap;
};

/* Of the columns of a job these matter for a comparison; its own metrics all
 * do. */
static bool is_compared(const char *name)
{
    static const char *const names[] = {"loss",          "lr",
                                        "t_iter",        "train_loss",
                                        "eval_loss",     "eval_accuracy",
                                        "samples_per_s", "tokens_per_s"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static struct measure *measure_of(struct sweep *s, const char *name,
                                  const struct plot_column *column,
                                  struct error *err)
{
    for (size_t i = 0; i < s->n_measures; i++)
        if (s->measures[i]->column == column &&
            strcmp(s->measures[i]->name, name) == 0)
            return s->measures[i];
    if (s->n_measures == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 16;
        void *more = realloc(s->measures, cap * sizeof(struct measure *));
        if (!more) {
            (void)error_set(err, ERR_NOMEM, "%zu measures", cap);
            return NULL;
        }
        s->measures = more;
        s->cap = cap;
    }
    struct measure *m = calloc(1, sizeof(*m));
    struct figures *of = calloc(s->n + 1, sizeof(*of));
    if (!m || !of) {
        free(m);
        free(of);
        (void)error_set(err, ERR_NOMEM, "a measure of %zu tasks", s->n);
        return NULL;
    }
    for (size_t i = 0; i < s->n; i++)
        of[i] = (struct figures){NAN, NAN, NAN};
    m->of = of;
    m->column = column;
    (void)snprintf(m->name, sizeof(m->name), "%s", name);
    s->measures[s->n_measures++] = m;
    return m;
}

static void sweep_clear(struct sweep *s)
{
    for (size_t i = 0; i < s->n_measures; i++) {
        for (size_t k = 0; k < s->measures[i]->n_curves; k++)
            curve_clear(&s->measures[i]->curves[k]);
        free(s->measures[i]->of);
        free(s->measures[i]);
    }
    free(s->measures);
}

/* Takes the curve of a task; one without a value is nothing. */
static int note(struct sweep *s, size_t task, const char *name,
                const struct plot_column *column, struct curve *curve,
                struct error *err)
{
    struct measure *m = NULL;
    int rc = 0;
    if (curve_points(curve) > 0) {
        m = measure_of(s, name, column, err);
        rc = m ? 0 : -1;
    }
    for (size_t i = 0; m && i < curve->n; i++) {
        struct figures *f = &m->of[task];
        if (!isfinite(curve->y[i]))
            continue;
        f->final = curve->y[i];
        f->lowest = fmin(f->lowest, curve->y[i]); /* of NAN, the other */
        f->highest = fmax(f->highest, curve->y[i]);
    }
    const json_t *job = json_array_get(s->jobs, task);
    if (m)
        m->n_with++;
    if (m && m->n_curves < CHART_SERIES_MAX) {
        rc = plot_name(field_str(job, "display_id"), job, curve->name,
                       sizeof(curve->name), err);
        m->curves[m->n_curves++] = *curve;
    } else
        curve_clear(curve);
    return rc;
}

static int note_columns(struct sweep *s, size_t task, const json_t *reply,
                        bool is_epoch, struct error *err)
{
    const struct plot_column *column;
    for (size_t i = 0; (column = plot_column_at(i)) != NULL; i++) {
        struct curve curve;
        if (column->is_epoch != is_epoch || !is_compared(column->name) ||
            cells_column(reply, column->name) < 0)
            continue;
        if (curve_of(reply, is_epoch ? "epoch" : "iteration", column->name,
                     is_epoch ? -1 : 0, &curve, err) < 0 ||
            note(s, task, column->name, column, &curve, err) < 0)
            return -1;
    }
    return 0;
}

static int note_own(struct sweep *s, size_t task, const struct metric_set *own,
                    struct error *err)
{
    for (size_t i = 0; i < own->n; i++) {
        struct curve curve;
        if (!metric_set_is_first(own, &own->curves[i]))
            continue;
        if (curve_of_metric(&own->curves[i], &curve, err) < 0 ||
            note(s, task, own->curves[i].name, NULL, &curve, err) < 0)
            return -1;
    }
    return 0;
}

static int read_task(struct client *c, struct sweep *s, size_t task,
                     struct error *err)
{
    const json_t *job = json_array_get(s->jobs, task);
    const char *word = field_str(job, "display_id");
    json_t *rows = NULL, *epochs = NULL;
    struct metric_set own = {.n = 0};
    if (field_int(job, "attempt", 0) < 1)
        return 0;
    int rc = client_get(c, &rows, err, "/v1/jobs/%s/iterations?rank=0", word);
    if (rc == 0)
        rc = client_get(c, &epochs, err, "/v1/jobs/%s/epochs", word);
    if (rc == 0)
        rc = metric_set_read(c, word, &own, err);
    if (rc == 0)
        rc = note_columns(s, task, rows, false, err);
    if (rc == 0)
        rc = note_columns(s, task, epochs, true, err);
    if (rc == 0)
        rc = note_own(s, task, &own, err);
    json_decref(rows);
    json_decref(epochs);
    metric_set_clear(&own);
    return rc;
}

/* ---- the page -------------------------------------------------------------
 */

static void add_head(struct page *p, const json_t *sweep, const json_t *jobs)
{
    const json_t *first = json_array_get(jobs, 0);
    const char *state, *sep = "";
    json_t *count;
    char text[64];
    (void)snprintf(text, sizeof(text), "%" PRId64, field_int(sweep, "id", 0));
    page_title(p, "Sweep", text, field_str(first, "name"));
    page_add(p, "<p class=\"dim\">");
    json_object_foreach(json_object_get(sweep, "states"), state, count)
    {
        p->bad |= buf_addf(&p->out, NULL, "%s%" JSON_INTEGER_FORMAT " ", sep,
                           json_integer_value(count));
        page_say(p, state);
        sep = ", ";
    }
    page_add(p, "</p>\n<section><dl>\n");
    page_fact(p, "User", field_str(first, "user"));
    (void)snprintf(text, sizeof(text), "%zu", json_array_size(jobs));
    page_fact(p, "Tasks", text);
    (void)snprintf(text, sizeof(text), "%" PRId64,
                   field_int(sweep, "max_parallel", 0));
    page_fact(p, "At a time", strcmp(text, "0") == 0 ? "" : text);
    page_fact(p, "Submitted", field_str(first, "submitted"));
    page_fact(p, "Account", field_str(first, "account"));
    page_fact(p, "Partition", field_str(first, "partition"));
    page_add(p, "</dl></section>\n");
}

static void add_charts(struct page *p, const struct sweep *s)
{
    if (s->n_measures == 0)
        return;
    page_add(p, "<h2>Curves</h2>");
    page_add(p, s->n > SVG_COLOURS ? "<div class=\"charts wide\">\n"
                                   : "<div class=\"charts\">\n");
    for (size_t i = 0; i < s->n_measures; i++) {
        const struct measure *m = s->measures[i];
        struct chart_series series[CHART_SERIES_MAX];
        char title[160];
        for (size_t k = 0; k < m->n_curves; k++)
            series[k] = curve_series(&m->curves[k]);
        const char *name = m->column ? m->column->title : m->name;
        if (m->n_with > m->n_curves)
            (void)snprintf(title, sizeof(title),
                           "%s (the first %zu of %zu tasks)", name, m->n_curves,
                           m->n_with);
        else
            (void)snprintf(title, sizeof(title), "%s", name);
        const struct chart chart = plot_chart(
            m->column, json_array_get(s->jobs, 0), title, series, m->n_curves);
        page_chart(p, &chart);
    }
    page_add(p, "</div>\n");
}

/* ---- the table ------------------------------------------------------------
 */

/* A cell with the value that a reader's browser sorts by. */
static void sort_cell(struct page *p, const char *class, const char *text,
                      const char *by)
{
    p->bad |= buf_addf(&p->out, NULL, "<td class=\"%s\" data-v=\"", class);
    page_say(p, by);
    page_add(p, "\">");
    page_say(p, text);
    page_add(p, "</td>");
}

static void sort_number(struct page *p, double v, const char *text)
{
    char by[40] = "";
    if (isfinite(v))
        (void)snprintf(by, sizeof(by), "%.9g", v);
    sort_cell(p, "", text, by);
}

static void figure_cell(struct page *p, const struct measure *m, double v)
{
    char text[40] = "-";
    if (m->column && strcmp(m->column->name, "eval_accuracy") == 0)
        (void)render_accuracy(v, text, sizeof(text));
    else if (isfinite(v))
        (void)snprintf(text, sizeof(text), "%.5g", v);
    sort_number(p, v, text);
}

static void head_cell(struct page *p, bool is_left, const char *name,
                      const char *what)
{
    page_add(p, is_left ? "<th class=\"l\">" : "<th>");
    page_say(p, name);
    page_add(p, what);
    page_add(p, "</th>");
}

/* Measures without a best value, as the step time, are in the charts. */
static bool is_in_table(const struct measure *m)
{
    return !m->column || m->column->best != 0;
}

static void add_table_head(struct page *p, const struct sweep *s,
                           const json_t *keys)
{
    size_t i;
    json_t *key;
    page_add(p, "<h2>Tasks</h2><section><div class=\"scroll\">"
                "<table class=\"sort\"><tr>");
    head_cell(p, true, "Task", "");
    head_cell(p, true, "State", "");
    json_array_foreach(keys, i, key)
    {
        head_cell(p, false, json_string_value(key), "");
    }
    head_cell(p, false, "Time", "");
    for (i = 0; i < s->n_measures; i++) {
        const struct measure *m = s->measures[i];
        const char *name = m->column ? m->column->title : m->name;
        if (!is_in_table(m))
            continue;
        head_cell(p, false, name, ", final");
        head_cell(p, false, name, m->column ? ", best" : ", lowest");
        if (!m->column)
            head_cell(p, false, name, ", highest");
    }
    head_cell(p, true, "Reason", "");
    page_add(p, "</tr>\n");
}

static void vary_cell(struct page *p, const json_t *value)
{
    char *text = value && !json_is_string(value)
                     ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY |
                                             JSON_REAL_PRECISION(9))
                     : NULL;
    const char *word = text ? text : json_string_value(value);
    sort_cell(p, "", word ? word : "-", word ? word : "");
    free(text);
}

static void add_row(struct page *p, const struct sweep *s, const json_t *keys,
                    size_t task)
{
    const json_t *job = json_array_get(s->jobs, task);
    const json_t *vary = json_object_get(job, "vary");
    char text[40];
    size_t i;
    json_t *key;
    page_add(p, "<tr>");
    (void)snprintf(text, sizeof(text), "%" PRId64, field_int(job, "task", 0));
    sort_cell(p, "l", field_str(job, "display_id"), text);
    sort_cell(p, "l", field_str(job, "state"), field_str(job, "state"));
    json_array_foreach(keys, i, key)
    {
        vary_cell(p, json_object_get(vary, json_string_value(key)));
    }
    double ran_s = field_real(job, "elapsed_s");
    sort_number(p, ran_s, render_duration(ran_s, text, sizeof(text)));
    for (i = 0; i < s->n_measures; i++) {
        const struct measure *m = s->measures[i];
        const struct figures *f = &m->of[task];
        if (!is_in_table(m))
            continue;
        figure_cell(p, m, f->final);
        figure_cell(p, m,
                    m->column && m->column->best > 0 ? f->highest : f->lowest);
        if (!m->column)
            figure_cell(p, m, f->highest);
    }
    sort_cell(p, "p", field_str(job, "reason"), field_str(job, "reason"));
    page_add(p, "</tr>\n");
}

/* The keys that the tasks vary, in the order of their appearance. */
static json_t *keys_of(const json_t *jobs)
{
    json_t *seen = json_object(), *keys = json_array(), *job, *value;
    const char *key;
    size_t i;
    int bad = seen && keys ? 0 : -1;
    json_array_foreach(jobs, i, job)
    {
        json_object_foreach(json_object_get(job, "vary"), key, value)
        {
            if (bad || json_object_get(seen, key))
                continue;
            bad |= json_object_set_new(seen, key, json_true());
            bad |= json_array_append_new(keys, json_string(key));
        }
    }
    json_decref(seen);
    if (bad) {
        json_decref(keys);
        return NULL;
    }
    return keys;
}

static json_t *number_or_null(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

/* What the table shows, for programs. */
static json_t *tasks_json(const struct sweep *s)
{
    json_t *tasks = json_array();
    int bad = tasks ? 0 : -1;
    for (size_t i = 0; !bad && i < s->n; i++) {
        const json_t *job = json_array_get(s->jobs, i);
        json_t *figures = json_object();
        for (size_t k = 0; !bad && k < s->n_measures; k++) {
            const struct figures *f = &s->measures[k]->of[i];
            bad |= json_object_set_new(
                figures, s->measures[k]->name,
                json_pack("{s:o,s:o,s:o}", "final", number_or_null(f->final),
                          "lowest", number_or_null(f->lowest), "highest",
                          number_or_null(f->highest)));
        }
        bad |= json_array_append_new(
            tasks, json_pack("{s:s,s:s,s:O?,s:o,s:o}", "display_id",
                             field_str(job, "display_id"), "state",
                             field_str(job, "state"), "vary",
                             json_object_get(job, "vary"), "elapsed_s",
                             number_or_null(field_real(job, "elapsed_s")),
                             "metrics", figures));
    }
    if (bad) {
        json_decref(tasks);
        return NULL;
    }
    return tasks;
}

static int write_page(const json_t *sweep, const struct sweep *s,
                      const char *path, struct error *err)
{
    struct page p;
    json_t *keys = keys_of(s->jobs), *tasks = tasks_json(s);
    page_begin(&p);
    add_head(&p, sweep, s->jobs);
    add_charts(&p, s);
    add_table_head(&p, s, keys);
    for (size_t i = 0; i < s->n; i++)
        add_row(&p, s, keys, i);
    page_add(&p, "</table></div></section>\n");
    page_end(&p, "tasks", tasks);
    int rc = p.bad || !keys || !tasks ? error_set(err, ERR_NOMEM, "report")
                                      : plot_write(path, &p.out, err);
    json_decref(keys);
    json_decref(tasks);
    page_clear(&p);
    return rc;
}

int report_sweep(struct client *c, const char *word, const json_t *reply,
                 const char *path, struct error *err)
{
    json_t *tasks = NULL;
    int rc = fetch_tasks(c, word, reply, false, &tasks, err);
    struct sweep s = {.jobs = json_object_get(tasks, "jobs")};
    s.n = json_array_size(s.jobs);
    for (size_t i = 0; rc == 0 && i < s.n; i++)
        rc = read_task(c, &s, i, err);
    if (rc == 0)
        rc = write_page(json_object_get(reply, "sweep"), &s, path, err);
    sweep_clear(&s);
    json_decref(tasks);
    return rc;
}
