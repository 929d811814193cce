/* export.c - export the rows of a job as CSV and JSON Lines; see export.h.
 *
 * The daemon returns at most 100,000 rows per reply. Rows are ordered by
 * iteration, then rank, so a full page may end within an iteration: its last
 * iteration is left to the next page.
 */
#include "scheduler/tools/export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"
#include "scheduler/tools/export/export_internal.h"
#include "scheduler/tools/views/show.h"

enum { PAGE = 100000 };

int export_format_of(const char *word, enum export_format *ret,
                     struct error *err)
{
    static const char *const words[] = {"csv", "jsonl", "tensorboard"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(word, words[i]) == 0) {
            *ret = (enum export_format)i;
            return 0;
        }
    return error_set(err, ERR_USAGE,
                     "--export '%.20s': expected csv, jsonl or tensorboard",
                     word);
}

/* ---- pages ---------------------------------------------------------------
 */

static const char *key_of(const char *view)
{
    return strcmp(view, "epochs") == 0 || strcmp(view, "profile") == 0
               ? "epoch"
               : "iteration";
}

/* How many rows of a page are complete iterations, and where the next page
 * begins. */
static size_t whole_rows(const json_t *reply, const char *key,
                         int64_t *io_after)
{
    const json_t *rows = json_object_get(reply, "rows");
    size_t n = json_array_size(rows);
    int column = show_column(reply, key);
    if (n < PAGE)
        return n;
    double last = show_cell(json_array_get(rows, n - 1), column);
    size_t whole = n;
    while (whole > 0 &&
           show_cell(json_array_get(rows, whole - 1), column) == last)
        whole--;
    /* An iteration with more ranks than a page has rows does not exist. */
    *io_after = whole > 0 ? (int64_t)last - 1 : (int64_t)last;
    return whole > 0 ? whole : n;
}

struct each {
    export_head_f head; /* NULL: already called, or not wanted */
    export_row_f row;
    void *arg;
    bool said;
};

static int each_row(struct each *e, const json_t *reply, size_t n,
                    struct error *err)
{
    const json_t *rows = json_object_get(reply, "rows");
    int rc = 0;
    if (e->head)
        rc = e->head(e->arg, json_object_get(reply, "columns"), err);
    e->head = NULL;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = e->row(e->arg, reply, json_array_get(rows, i), err);
    return rc;
}

static int each_page(struct client *c, const char *word, const char *view,
                     int64_t attempt, struct each *e, struct error *err)
{
    int64_t after = -2; /* below all keys: values without an iteration have
                           -1 */
    for (;;) {
        json_t *reply = NULL;
        if (client_get(c, &reply, err,
                       "/v1/jobs/%s/%s?attempt=%" PRId64 "&after=%" PRId64,
                       word, view, attempt, after) < 0)
            return -1;
        const json_t *rows = json_object_get(reply, "rows");
        bool is_last = json_array_size(rows) < PAGE;
        e->said = e->said || show_removed(stderr, reply);
        size_t n = whole_rows(reply, key_of(view), &after);
        int rc = each_row(e, reply, n, err);
        json_decref(reply);
        if (rc < 0 || is_last)
            return rc;
    }
}

int export_each(struct client *c, const char *word, const char *view,
                int64_t *ret_job, export_head_f head, export_row_f row,
                void *arg, struct error *err)
{
    struct each e = {.head = head, .row = row, .arg = arg};
    json_t *job = NULL;
    if (client_get(c, &job, err, "/v1/jobs/%s", word) < 0)
        return -1;
    const json_t *o = json_object_get(job, "job");
    int64_t attempts = field_int(o, "attempt", 0);
    *ret_job = field_int(o, "id", 0);
    int rc = 0;
    for (int64_t k = 1; rc == 0 && (k <= attempts || e.head); k++)
        rc = each_page(c, word, view, k, &e, err);
    json_decref(job);
    return rc;
}

/* ---- text ----------------------------------------------------------------
 */

struct text {
    FILE *out;
    enum export_format format;
    int64_t job; /* set before the first row */
    struct buf line;
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
    if (!is_csv)
        return text_add_json(&t->line, json_string_value(v), err);
    return export_add_csv(&t->line, json_string_value(v), err);
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
    return put_line(t, err);
}

static int put_row(void *arg, const json_t *reply, const json_t *row,
                   struct error *err)
{
    struct text *t = arg;
    const json_t *columns = json_object_get(reply, "columns");
    bool is_csv = t->format == EXPORT_CSV;
    size_t i;
    json_t *v;
    if (buf_addf(&t->line, err, is_csv ? "%" PRId64 : "{\"job\":%" PRId64,
                 t->job) < 0)
        return -1;
    json_array_foreach(row, i, v)
    {
        int rc = is_csv
                     ? buf_addstr(&t->line, ",", err)
                     : buf_addf(&t->line, err, ",\"%s\":",
                                json_string_value(json_array_get(columns, i)));
        if (rc < 0 || add_field(t, v, err) < 0)
            return -1;
    }
    if (!is_csv && buf_addstr(&t->line, "}", err) < 0)
        return -1;
    return put_line(t, err);
}

int export_rows(struct client *c, const char *word, const char *view,
                enum export_format format, FILE *out, struct error *err)
{
    struct text t = {.out = out, .format = format};
    buf_init(&t.line);
    int rc =
        export_each(c, word, view, &t.job,
                    format == EXPORT_CSV ? put_head : NULL, put_row, &t, err);
    buf_clear(&t.line);
    return rc;
}
