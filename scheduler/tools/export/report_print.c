/* report_print.c - print a paper report as a table with notes, as CSV and as
 * JSON.
 */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"
#include "scheduler/tools/export/report.h"

/* A report with metrics has the keys, three times, the job, and for each metric
 * its seconds, its share and the paper's share. */
enum { COLUMNS_CAP = PAPER_KEYS + 3 + 3 * PAPER_METRICS + 1, TEXT_CAP = 64 };

/* "precision" of "train.precision". */
static const char *tail_of(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot ? dot + 1 : key;
}

static void upper(const char *text, char *out, size_t cap)
{
    size_t n = 0;
    for (; text[n] && n + 1 < cap; n++)
        out[n] = (char)toupper((unsigned char)text[n]);
    out[n] = '\0';
}

static bool has_paper_metrics(const struct report *r)
{
    for (size_t i = 0; i < r->n_rows; i++)
        for (size_t m = 0; m < r->paper.n_metrics; m++)
            if (isfinite(r->rows[i].paper_metrics[m]))
                return true;
    return false;
}

/* ---- the table ------------------------------------------------------------
 */
/* The columns of a report of times, besides the keys; "%s" is the value that
 * the paper compares with. */
static const struct time_column {
    const char *title;
    size_t at;
    char fmt;
    enum { ALWAYS, WITH_ACCURACY, WITH_S_PER_IT, WITH_COMPARE } when;
} times[] = {
    {"TIME s", offsetof(struct report_row, time_s), 's', ALWAYS},
    {"TRAIN s", offsetof(struct report_row, train_s), 's', ALWAYS},
    {"TEST ACC", offsetof(struct report_row, accuracy), 'a', ALWAYS},
    {"PAPER ACC", offsetof(struct report_row, paper_accuracy), 'a',
     WITH_ACCURACY},
    {"s/IT", offsetof(struct report_row, s_per_it), 'i', WITH_S_PER_IT},
    {"PAPER s/IT", offsetof(struct report_row, paper_s_per_it), 'i',
     WITH_S_PER_IT},
    {"SPEED-UP", offsetof(struct report_row, speedup), 'x', ALWAYS},
    {"EFFICIENCY", offsetof(struct report_row, efficiency), '%', ALWAYS},
    {"VS %s", offsetof(struct report_row, compared), '%', WITH_COMPARE},
    {"PAPER VS %s", offsetof(struct report_row, paper_compared), '%',
     WITH_COMPARE},
    {"PAPER s", offsetof(struct report_row, paper_s), 's', ALWAYS},
    {"SPEED-UP", offsetof(struct report_row, paper_speedup), 'x', ALWAYS},
    {"EFFICIENCY", offsetof(struct report_row, paper_efficiency), '%', ALWAYS},
    {"PAPER/OURS", offsetof(struct report_row, times_paper), 'x', ALWAYS},
};
enum { N_TIMES = sizeof(times) / sizeof(*times) };
_Static_assert(PAPER_KEYS + N_TIMES + 1 <= COLUMNS_CAP, "all its columns");

static bool is_shown(const struct paper *p, const struct time_column *c)
{
    return c->when == ALWAYS || (c->when == WITH_ACCURACY && p->has_accuracy) ||
           (c->when == WITH_S_PER_IT && p->has_s_per_it) ||
           (c->when == WITH_COMPARE && p->compare_key);
}

static void time_title(const struct paper *p, const struct time_column *c,
                       char out[TEXT_CAP])
{
    char value[32] = "";
    int n = (int)strcspn(c->title, "%");
    if (c->when == WITH_COMPARE)
        upper(p->compare_value, value, sizeof(value));
    (void)snprintf(out, TEXT_CAP, "%.*s%s", n, c->title, value);
}

static void metric_titles(const struct paper *p, bool has_paper,
                          char titles[COLUMNS_CAP][TEXT_CAP], size_t *io_n)
{
    char word[32];
    (void)snprintf(titles[(*io_n)++], TEXT_CAP, "TRAIN s");
    if (p->has_s_per_it)
        (void)snprintf(titles[(*io_n)++], TEXT_CAP, "s/IT");
    (void)snprintf(titles[(*io_n)++], TEXT_CAP, "PROFILED s");
    for (size_t m = 0; m < p->n_metrics; m++) {
        upper(p->metrics[m].name, word, sizeof(word));
        (void)snprintf(titles[(*io_n)++], TEXT_CAP, "%s s", word);
        (void)snprintf(titles[(*io_n)++], TEXT_CAP, "%s %%", word);
    }
    for (size_t m = 0; has_paper && m < p->n_metrics; m++) {
        upper(p->metrics[m].name, word, sizeof(word));
        (void)snprintf(titles[(*io_n)++], TEXT_CAP, "PAPER %s %%", word);
    }
}

static size_t make_columns(const struct report *r,
                           struct render_column columns[COLUMNS_CAP],
                           char titles[COLUMNS_CAP][TEXT_CAP])
{
    const struct paper *p = &r->paper;
    size_t n = 0;
    for (size_t k = 0; k < p->n_keys; k++)
        upper(tail_of(p->keys[k]), titles[n++], TEXT_CAP);
    if (p->n_metrics == 0)
        for (size_t i = 0; i < N_TIMES; i++) {
            if (is_shown(p, &times[i]))
                time_title(p, &times[i], titles[n++]);
        }
    else
        metric_titles(p, has_paper_metrics(r), titles, &n);
    (void)snprintf(titles[n++], TEXT_CAP, "JOB");
    for (size_t i = 0; i < n; i++)
        columns[i] = (struct render_column){titles[i], RENDER_RIGHT};
    return n;
}

static double number_at(const struct report_row *row, size_t at)
{
    double v;
    memcpy(&v, (const char *)row + at, sizeof(v));
    return v;
}

static int add_number(struct render_table *t, double v, char fmt,
                      struct error *err)
{
    char text[TEXT_CAP] = "-";
    if (isfinite(v) && fmt == 'a')
        (void)snprintf(text, sizeof(text), "%.2f %%", 100 * v);
    else if (isfinite(v) && fmt == '%')
        (void)snprintf(text, sizeof(text), "%.1f %%", 100 * v);
    else if (isfinite(v) && fmt == 'i')
        (void)snprintf(text, sizeof(text), "%.3g", v);
    else if (isfinite(v) && fmt == 'x')
        (void)snprintf(text, sizeof(text), "%.2f x", v);
    else if (isfinite(v))
        (void)snprintf(text, sizeof(text), v < 100 ? "%.2f" : "%.0f", v);
    return render_table_add(t, err, "%s", text);
}

static int add_times(struct render_table *t, const struct paper *p,
                     const struct report_row *row, struct error *err)
{
    for (size_t i = 0; i < N_TIMES; i++)
        if (is_shown(p, &times[i]) &&
            add_number(t, number_at(row, times[i].at), times[i].fmt, err) < 0)
            return -1;
    return 0;
}

static int add_metrics(struct render_table *t, const struct report *r,
                       const struct report_row *row, struct error *err)
{
    const struct paper *p = &r->paper;
    bool has_paper = has_paper_metrics(r);
    int rc = add_number(t, row->train_s, 's', err);
    if (rc == 0 && p->has_s_per_it)
        rc = add_number(t, row->s_per_it, 'i', err);
    if (rc == 0)
        rc = add_number(t, row->profiled_s, 's', err);
    for (size_t m = 0; rc == 0 && m < p->n_metrics; m++) {
        rc = add_number(t, row->seconds[m], 's', err);
        if (rc == 0)
            rc = add_number(t, row->metrics[m], '%', err);
    }
    for (size_t m = 0; rc == 0 && has_paper && m < p->n_metrics; m++)
        rc = add_number(t, row->paper_metrics[m], '%', err);
    return rc;
}

static int add_row(struct render_table *t, const struct report *r,
                   const struct report_row *row, struct error *err)
{
    const struct paper *p = &r->paper;
    int rc = 0;
    for (size_t k = 0; rc == 0 && k < p->n_keys; k++)
        rc = render_table_add(t, err, "%s", row->keys[k]);
    if (rc == 0)
        rc = p->n_metrics == 0 ? add_times(t, p, row, err)
                               : add_metrics(t, r, row, err);
    return rc < 0 ? -1
                  : render_table_add(t, err, "%s",
                                     row->is_run ? row->display_id : "-");
}

/* ---- what is to be known of it --------------------------------------------
 */
/* "key=value" as a member of a mapping. */
static int add_each(const char *each, struct buf *out, struct error *err)
{
    const char *value = each ? strchr(each, '=') : NULL;
    return value ? buf_addf(out, err, ", %.*s: %s", (int)(value - each), each,
                            value + 1)
                 : 0;
}

/* "{train.precision: fp64, resources.gpus: 1}, ...": a sweep of the missing
 * rows. */
static int missing_list(const struct report *r, struct buf *out, size_t *ret_n,
                        struct error *err)
{
    const struct paper *p = &r->paper;
    int rc = 0;
    *ret_n = 0;
    for (size_t i = 0; rc == 0 && i < p->n_rows; i++) {
        const struct report_row *row = &r->rows[i];
        if (row->is_run)
            continue;
        rc = buf_addf(out, err, "%s{", (*ret_n)++ > 0 ? ", " : "");
        for (size_t k = 0; rc == 0 && k < p->n_keys; k++)
            rc = buf_addf(out, err, "%s%s: %s", k > 0 ? ", " : "", p->keys[k],
                          row->keys[k]);
        if (rc == 0)
            rc = add_each(p->each, out, err);
        if (rc == 0)
            rc = buf_addstr(out, "}", err);
    }
    return rc;
}

/* The command line that runs what is missing.
 * in  list  rows of a sweep; NULL: all that the file has */
static void print_submit(const struct paper *p, const char *list, FILE *out)
{
    (void)fputs("  mgpu-submit ", out);
    for (const char *at = p->set; at && *at;) {
        const size_t n = strcspn(at, " ");
        (void)fprintf(out, "--set %.*s ", (int)n, at);
        at += n + strspn(at + n, " ");
    }
    if (list)
        (void)fprintf(out, "--set 'sweep={list: [%s]}' ", list);
    (void)fprintf(out, "jobs/paper/%s.yaml\n", p->name);
}

static int print_missing(const struct report *r, FILE *out, struct error *err)
{
    const struct paper *p = &r->paper;
    struct buf list = BUF_INIT;
    size_t n = 0;
    int rc = missing_list(r, &list, &n, err);
    if (rc == 0 && n > 0) {
        if (n == p->n_rows)
            (void)fputs("missing: no run yet", out);
        else
            (void)fprintf(out, "missing: %zu of %zu", n, p->n_rows);
        (void)fprintf(out, "%s%s:\n", p->needs ? "; with " : "",
                      p->needs ? p->needs : "");
        print_submit(p, n < p->n_rows || p->each ? buf_str(&list) : NULL, out);
    }
    buf_clear(&list);
    return rc;
}

static void print_runs(const struct report *r, FILE *out)
{
    char safe[1200];
    const char *first = "9", *last = "";
    for (size_t i = 0; i < r->n_rows; i++) {
        const char *s = r->rows[i].started;
        if (!r->rows[i].is_run || !*s)
            continue;
        first = strcmp(s, first) < 0 ? s : first;
        last = strcmp(s, last) > 0 ? s : last;
    }
    if (r->n_runs > 0)
        (void)fprintf(out, "ours:    %zu run%s on %s, %.10s to %.10s\n",
                      r->n_runs, r->n_runs == 1 ? "" : "s",
                      render_escape(buf_str(&r->ran_on), safe, sizeof(safe)),
                      first, last);
    if (r->n_open > 0)
        (void)fprintf(out, "         %zu jobs more have not completed\n",
                      r->n_open);
    if (r->n_denied > 0)
        (void)fprintf(out, "         %zu jobs of other users are left out\n",
                      r->n_denied);
    if (r->differs.len > 0)
        (void)fprintf(out, "not like for like: %s\n",
                      render_escape(buf_str(&r->differs), safe, sizeof(safe)));
}

int report_show(const struct report *r, const struct render_style *s,
                bool header, FILE *out, struct error *err)
{
    struct render_column columns[COLUMNS_CAP];
    char titles[COLUMNS_CAP][TEXT_CAP];
    struct render_table *t = NULL;
    size_t n = make_columns(r, columns, titles);
    int rc = render_table_create(columns, n, &t, err);
    for (size_t i = 0; rc == 0 && i < r->n_rows; i++)
        rc = add_row(t, r, &r->rows[i], err);
    if (rc == 0) {
        if (header)
            (void)fprintf(out, "%s\n\n", r->paper.title);
        render_table_print(t, s, header, out);
    }
    render_table_destroy(t);
    if (rc < 0 || !header)
        return rc;
    (void)fputc('\n', out);
    print_runs(r, out);
    (void)fprintf(out, "paper:   %s; %s\n", r->paper.source, r->paper.platform);
    for (size_t i = 0; i < r->paper.n_notes; i++)
        (void)fprintf(out, "note:    %s\n", r->paper.notes[i]);
    return print_missing(r, out, err);
}

/* ---- CSV and JSON ---------------------------------------------------------
 */
/* The numbers of a row by name; the metrics follow. */
static const struct {
    const char *name;
    size_t at;
} numbers[] = {
    {"time_s", offsetof(struct report_row, time_s)},
    {"train_s", offsetof(struct report_row, train_s)},
    {"accuracy", offsetof(struct report_row, accuracy)},
    {"speedup", offsetof(struct report_row, speedup)},
    {"efficiency", offsetof(struct report_row, efficiency)},
    {"paper_time_s", offsetof(struct report_row, paper_s)},
    {"paper_speedup", offsetof(struct report_row, paper_speedup)},
    {"paper_efficiency", offsetof(struct report_row, paper_efficiency)},
    {"times_paper", offsetof(struct report_row, times_paper)},
    {"paper_accuracy", offsetof(struct report_row, paper_accuracy)},
    {"compared", offsetof(struct report_row, compared)},
    {"paper_compared", offsetof(struct report_row, paper_compared)},
    {"s_per_it", offsetof(struct report_row, s_per_it)},
    {"paper_s_per_it", offsetof(struct report_row, paper_s_per_it)},
};
enum { N_NUMBERS = sizeof(numbers) / sizeof(*numbers) };

/* Quotes commas, quotes and line ends; a cell that a spreadsheet would take for
 * a formula stays as it is. */
static int add_text(struct buf *b, const char *text, struct error *err)
{
    return buf_addstr(b, ",", err) < 0 ? -1 : text_add_csv(b, text, err);
}

static int add_value(struct buf *b, double v, struct error *err)
{
    return isfinite(v) ? buf_addf(b, err, ",%.9g", v) : buf_addstr(b, ",", err);
}

static int csv_header(const struct report *r, struct buf *b, struct error *err)
{
    int rc = buf_addstr(b, "report", err);
    for (size_t k = 0; rc == 0 && k < r->paper.n_keys; k++)
        rc = buf_addf(b, err, ",%s", r->paper.keys[k]);
    for (size_t i = 0; rc == 0 && i < N_NUMBERS; i++)
        rc = buf_addf(b, err, ",%s", numbers[i].name);
    if (rc == 0 && r->paper.n_metrics > 0)
        rc = buf_addstr(b, ",profiled_s", err);
    for (size_t m = 0; rc == 0 && m < r->paper.n_metrics; m++)
        rc = buf_addf(b, err, ",%s_s,%s,paper_%s", r->paper.metrics[m].name,
                      r->paper.metrics[m].name, r->paper.metrics[m].name);
    return rc < 0 ? -1
                  : buf_addstr(b, ",like_the_paper,job,place,started\n", err);
}

static int csv_row(const struct report *r, const struct report_row *row,
                   struct buf *b, struct error *err)
{
    int rc = buf_addstr(b, r->paper.name, err);
    for (size_t k = 0; rc == 0 && k < r->paper.n_keys; k++)
        rc = add_text(b, row->keys[k], err);
    for (size_t i = 0; rc == 0 && i < N_NUMBERS; i++)
        rc = add_value(b, number_at(row, numbers[i].at), err);
    if (rc == 0 && r->paper.n_metrics > 0)
        rc = add_value(b, row->profiled_s, err);
    for (size_t m = 0; rc == 0 && m < r->paper.n_metrics; m++) {
        rc = add_value(b, row->seconds[m], err);
        if (rc == 0)
            rc = add_value(b, row->metrics[m], err);
        if (rc == 0)
            rc = add_value(b, row->paper_metrics[m], err);
    }
    if (rc == 0)
        rc = buf_addf(b, err, ",%s",
                      !row->is_run   ? ""
                      : row->is_like ? "true"
                                     : "false");
    if (rc == 0)
        rc = add_text(b, row->display_id, err);
    if (rc == 0)
        rc = add_text(b, row->place, err);
    if (rc == 0)
        rc = add_text(b, row->started, err);
    return rc < 0 ? -1 : buf_addstr(b, "\n", err);
}

int report_csv(const struct report *r, FILE *out, struct error *err)
{
    struct buf b = BUF_INIT;
    int rc = csv_header(r, &b, err);
    for (size_t i = 0; rc == 0 && i < r->n_rows; i++)
        rc = csv_row(r, &r->rows[i], &b, err);
    if (rc == 0)
        (void)fwrite(buf_str(&b), 1, b.len, out);
    buf_clear(&b);
    return rc;
}

static json_t *real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *row_json(const struct report *r, const struct report_row *row)
{
    json_t *keys = json_object(), *o = json_object(), *m = json_object();
    json_t *seconds = json_object();
    for (size_t k = 0; k < r->paper.n_keys; k++)
        (void)json_object_set_new(keys, r->paper.keys[k],
                                  json_string(row->keys[k]));
    (void)json_object_set_new(o, "keys", keys);
    for (size_t i = 0; i < N_NUMBERS; i++)
        (void)json_object_set_new(o, numbers[i].name,
                                  real(number_at(row, numbers[i].at)));
    for (size_t i = 0; i < r->paper.n_metrics; i++) {
        (void)json_object_set_new(seconds, r->paper.metrics[i].name,
                                  real(row->seconds[i]));
        (void)json_object_set_new(m, r->paper.metrics[i].name,
                                  real(row->metrics[i]));
    }
    (void)json_object_set_new(o, "profiled_s", real(row->profiled_s));
    (void)json_object_set_new(o, "seconds", seconds);
    (void)json_object_set_new(o, "shares", m);
    (void)json_object_set_new(o, "like_the_paper",
                              row->is_run ? json_boolean(row->is_like)
                                          : json_null());
    (void)json_object_set_new(
        o, "job", row->is_run ? json_string(row->display_id) : json_null());
    (void)json_object_set_new(
        o, "place", *row->place ? json_string(row->place) : json_null());
    return o;
}

json_t *report_json(const struct report *r)
{
    json_t *rows = json_array();
    for (size_t i = 0; rows && i < r->n_rows; i++)
        (void)json_array_append_new(rows, row_json(r, &r->rows[i]));
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "schema",
                     "mgpu.report/1", "report", r->paper.name, "title",
                     r->paper.title, "source", r->paper.source, "platform",
                     r->paper.platform, "ran_on", buf_str(&r->ran_on),
                     "differs", buf_str(&r->differs), "rows", rows);
}
