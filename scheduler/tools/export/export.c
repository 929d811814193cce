/* export.c - export the rows of a job as CSV and JSON Lines; see export.h. */
#include "scheduler/tools/export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"
#include "scheduler/tools/common/row_pages.h"
#include "scheduler/tools/export/export_internal.h"
#include "scheduler/tools/export/own_values.h"
#include "scheduler/tools/views/show.h"

static const char *const words[] = {"csv", "jsonl", "tensorboard", "svg"};
enum { N_WORDS = sizeof(words) / sizeof(words[0]) };

static bool find_format(const char *word, enum export_format *ret)
{
    size_t i = 0;
    while (i < N_WORDS && strcmp(word, words[i]) != 0)
        i++;
    if (i < N_WORDS)
        *ret = (enum export_format)i;
    return i < N_WORDS;
}

int export_format_of(const char *word, enum export_format *ret,
                     struct error *err)
{
    if (find_format(word, ret))
        return 0;
    return error_set(err, ERR_USAGE,
                     "--export '%.20s': expected csv, jsonl, tensorboard or "
                     "svg",
                     word);
}

int export_format_of_file(const char *path, enum export_format *ret,
                          struct error *err)
{
    const char *dot = strrchr(path, '.');
    enum export_format format;
    if (dot && find_format(dot + 1, &format) && format != EXPORT_TENSORBOARD) {
        *ret = format;
        return 0;
    }
    return error_set(err, ERR_USAGE,
                     "--output '%.60s': expected a name that ends in .csv, "
                     ".jsonl or .svg, or --export FORMAT beside it",
                     path);
}

/* ---- pages ---------------------------------------------------------------
 */

struct each {
    export_head_f head; /* NULL: already called, or not wanted */
    export_row_f row;
    void *arg;
    bool said;
};

static int each_page(void *arg, const json_t *reply, size_t n,
                     struct error *err)
{
    struct each *e = arg;
    const json_t *rows = json_object_get(reply, "rows");
    int rc = 0;
    e->said = e->said || cells_removed(stderr, reply);
    if (e->head)
        rc = e->head(e->arg, json_object_get(reply, "columns"), err);
    e->head = NULL;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = e->row(e->arg, reply, json_array_get(rows, i), err);
    return rc;
}

int export_each(struct client *c, const char *word, const char *view,
                int64_t *ret_job, export_head_f head, export_row_f row,
                void *arg, struct error *err)
{
    struct each e = {.head = head, .row = row, .arg = arg};
    return row_pages(c, word, view, ret_job, each_page, &e, err);
}

/* ---- text ----------------------------------------------------------------
 */

struct text {
    FILE *out;
    enum export_format format;
    int64_t job; /* set before the first row */
    struct buf line;
    struct own_values own; /* of the view "iterations"; else empty */
    double *values;        /* owned: of a row, by name */
};

static int add_field(struct text *t, const json_t *v, struct error *err)
{
    bool is_csv = t->format == EXPORT_CSV;
    if (json_is_integer(v))
        return buf_addf(&t->line, err, "%" PRId64,
                        (int64_t)json_integer_value(v));
    if (json_is_real(v))
        return buf_addf(&t->line, err, "%.17g", json_real_value(v));
    if (!json_is_string(v))
        return buf_addstr(&t->line, is_csv ? "" : "null", err);
    if (is_csv && isinf(cells_number(v)))
        return buf_addstr(&t->line, json_string_value(v), err);
    if (!is_csv)
        return text_add_json(&t->line, json_string_value(v), err);
    return text_add_csv(&t->line, json_string_value(v), err);
}

static int put_line(struct text *t, struct error *err)
{
    if (buf_addstr(&t->line, t->format == EXPORT_CSV ? "\r\n" : "\n", err) < 0)
        return -1;
    if (fwrite(t->line.data, 1, t->line.len, t->out) != t->line.len)
        return error_set(err, ERR_IO, "write: %s", strerror(errno));
    buf_reset(&t->line);
    return 0;
}

/* Whether a name is a column of the view, too: a program may report a loss
 * without an iteration. */
static bool is_column(const json_t *columns, const char *name)
{
    size_t i;
    json_t *column;
    json_array_foreach(columns, i, column)
    {
        if (strcmp(json_string_value(column), name) == 0)
            return true;
    }
    return false;
}

static int put_head(void *arg, const json_t *columns, struct error *err)
{
    struct text *t = arg;
    size_t i;
    json_t *name;
    if (buf_addstr(&t->line, "job", err) < 0)
        return -1;
    json_array_foreach(columns, i, name)
    {
        if (buf_addf(&t->line, err, ",%s", json_string_value(name)) < 0)
            return -1;
    }
    for (i = 0; i < t->own.n_names; i++)
        if (!is_column(columns, t->own.names[i]) &&
            (buf_addstr(&t->line, ",", err) < 0 ||
             text_add_csv(&t->line, t->own.names[i], err) < 0))
            return -1;
    return put_line(t, err);
}

static int begin_field(struct text *t, const char *name, struct error *err)
{
    if (t->format == EXPORT_CSV)
        return buf_addstr(&t->line, ",", err);
    return buf_addstr(&t->line, ",", err) < 0 ||
                   text_add_json(&t->line, name, err) < 0
               ? -1
               : buf_addstr(&t->line, ":", err);
}

static int add_real(struct text *t, double v, struct error *err)
{
    const char *quote = t->format == EXPORT_CSV ? "" : "\"";
    if (isnan(v))
        return 0;
    return isinf(v) ? buf_addf(&t->line, err, "%s%sInfinity%s", quote,
                               v > 0 ? "" : "-", quote)
                    : buf_addf(&t->line, err, "%.17g", v);
}

/* JSON Lines leave out what a row has not. */
static int add_own(struct text *t, const json_t *columns, bool has_values,
                   struct error *err)
{
    bool is_csv = t->format == EXPORT_CSV;
    for (size_t i = 0; i < t->own.n_names; i++) {
        double v = has_values ? t->values[i] : (double)NAN;
        if (is_column(columns, t->own.names[i]) || (!is_csv && isnan(v)))
            continue;
        if (begin_field(t, t->own.names[i], err) < 0 || add_real(t, v, err) < 0)
            return -1;
    }
    return 0;
}

static int put_cells(struct text *t, const json_t *columns, const json_t *row,
                     bool has_values, struct error *err)
{
    bool is_csv = t->format == EXPORT_CSV;
    size_t i;
    json_t *v;
    if (buf_addf(&t->line, err, is_csv ? "%" PRId64 : "{\"job\":%" PRId64,
                 t->job) < 0)
        return -1;
    json_array_foreach(row, i, v)
    {
        if (begin_field(t, json_string_value(json_array_get(columns, i)), err) <
                0 ||
            add_field(t, v, err) < 0)
            return -1;
    }
    if (add_own(t, columns, has_values, err) < 0 ||
        (!is_csv && buf_addstr(&t->line, "}", err) < 0))
        return -1;
    return put_line(t, err);
}

/* A row for values of an iteration that reported nothing else. */
static int put_own_row(struct text *t, const json_t *columns, struct error *err)
{
    const struct own_value *own = own_values_take(&t->own, t->values);
    json_t *row = json_array(), *column;
    size_t i;
    int bad = row && own ? 0 : -1;
    json_array_foreach(columns, i, column)
    {
        const char *name = json_string_value(column);
        json_t *v = NULL;
        if (!bad && strcmp(name, "attempt") == 0)
            v = json_integer(own->attempt);
        else if (!bad && strcmp(name, "rank") == 0)
            v = json_integer(own->rank);
        else if (!bad && strcmp(name, "iteration") == 0 && own->iteration >= 0)
            v = json_integer(own->iteration);
        for (size_t k = 0; !bad && !v && k < t->own.n_names; k++)
            if (strcmp(name, t->own.names[k]) == 0 && !isnan(t->values[k]))
                v = isfinite(t->values[k])
                        ? json_real(t->values[k])
                        : json_string(t->values[k] > 0 ? "Infinity"
                                                       : "-Infinity");
        bad |= json_array_append_new(row, v ? v : json_null());
    }
    int rc = bad ? error_set(err, ERR_NOMEM, "a row")
                 : put_cells(t, columns, row, true, err);
    json_decref(row);
    return rc;
}

static int64_t whole(const json_t *reply, const json_t *row, const char *name)
{
    double v = show_cell(row, cells_column(reply, name));
    return isfinite(v) ? (int64_t)v : -1;
}

static int put_row(void *arg, const json_t *reply, const json_t *row,
                   struct error *err)
{
    struct text *t = arg;
    const json_t *columns = json_object_get(reply, "columns");
    bool has_values = false;
    int rc = 0;
    if (t->own.n > 0) {
        int64_t attempt = whole(reply, row, "attempt");
        int64_t iteration = whole(reply, row, "iteration");
        int64_t rank = whole(reply, row, "rank");
        while (rc == 0 &&
               own_values_order(&t->own, attempt, iteration, rank) < 0)
            rc = put_own_row(t, columns, err);
        has_values = rc == 0 &&
                     own_values_order(&t->own, attempt, iteration, rank) == 0 &&
                     own_values_take(&t->own, t->values);
    }
    return rc < 0 ? rc : put_cells(t, columns, row, has_values, err);
}

/* What comes after the last row of iterations. */
static int put_rest(struct text *t, struct client *c, const char *word,
                    struct error *err)
{
    json_t *reply = NULL;
    if (t->own.at >= t->own.n)
        return 0;
    int rc = client_get(c, &reply, err, "/v1/jobs/%s/iterations?limit=1", word);
    while (rc == 0 && t->own.at < t->own.n)
        rc = put_own_row(t, json_object_get(reply, "columns"), err);
    json_decref(reply);
    return rc;
}

int export_rows(struct client *c, const char *word, const char *view,
                enum export_format format, FILE *out, struct error *err)
{
    struct text t = {.out = out, .format = format};
    buf_init(&t.line);
    int rc = strcmp(view, "iterations") == 0
                 ? own_values_read(c, word, &t.own, err)
                 : 0;
    t.values = calloc(t.own.n_names + 1, sizeof(*t.values));
    if (rc == 0 && !t.values)
        rc = error_set(err, ERR_NOMEM, "%zu names", t.own.n_names);
    if (rc == 0)
        rc = export_each(c, word, view, &t.job,
                         format == EXPORT_CSV ? put_head : NULL, put_row, &t,
                         err);
    if (rc == 0)
        rc = put_rest(&t, c, word, err);
    own_values_clear(&t.own);
    free(t.values);
    buf_clear(&t.line);
    return rc;
}
