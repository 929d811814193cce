/* sql.c - see sql.h. */
#include "scheduler/tools/stat/sql.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/export/export_internal.h"

/* What the daemon allows without --timeout, and what the way may take. */
static const double USUAL_S = 10, WAY_S = 20;
enum { NAME_CAP = 200 };

int sql_ask(struct client *c, const char *text, unsigned long long count,
            double timeout_s, json_t **ret, struct error *err)
{
    json_t *body = json_pack("{s:s}", "sql", text);
    if (!body)
        return error_set(err, ERR_INVAL, "--sql is not UTF-8");
    if ((count > 0 &&
         json_object_set_new(body, "limit", json_integer((json_int_t)count)) <
             0) ||
        (timeout_s > 0 &&
         json_object_set_new(body, "timeout_s", json_real(timeout_s)) < 0)) {
        json_decref(body);
        return error_set(err, ERR_NOMEM, "request");
    }
    int rc =
        client_patience(c, (timeout_s > 0 ? timeout_s : USUAL_S) + WAY_S, err);
    if (rc == 0)
        rc = client_post(c, "/v1/admin/sql", body, NULL, ret, err);
    json_decref(body);
    return rc;
}

static bool is_number(const json_t *rows, size_t column)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        const json_t *v = json_array_get(row, column);
        if (!json_is_number(v) && !json_is_null(v))
            return false;
    }
    return true;
}

static int add_cell(struct render_table *t, const json_t *v, struct error *err)
{
    if (json_is_integer(v))
        return render_table_add(t, err, "%" PRId64,
                                (int64_t)json_integer_value(v));
    if (json_is_real(v))
        return render_table_add(t, err, "%.10g", json_real_value(v));
    return render_table_put(t, json_is_string(v) ? json_string_value(v) : "-",
                            err);
}

static int fill(struct render_table *t, const json_t *rows, size_t n,
                struct error *err)
{
    size_t i;
    json_t *row;
    int rc = 0;
    json_array_foreach(rows, i, row)
    {
        for (size_t k = 0; rc == 0 && k < n; k++)
            rc = add_cell(t, json_array_get(row, k), err);
    }
    return rc;
}

int show_sql(const struct show_conf *s, const json_t *reply, struct error *err)
{
    const json_t *names = json_object_get(reply, "columns");
    const json_t *rows = json_object_get(reply, "rows");
    size_t n = json_array_size(names);
    struct render_column *columns = calloc(n + 1, sizeof(*columns));
    char(*titles)[NAME_CAP] = calloc(n + 1, sizeof(*titles));
    struct render_table *t = NULL;
    int rc = columns && titles ? 0 : error_set(err, ERR_NOMEM, "table");
    if (n > RENDER_COLUMNS_MAX)
        rc = error_set(err, ERR_USAGE,
                       "%zu columns are too many for a table: choose some, or "
                       "--export csv",
                       n);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        columns[i] = (struct render_column){
            .title = render_escape(name, titles[i], NAME_CAP),
            .align = is_number(rows, i) ? RENDER_RIGHT : RENDER_LEFT};
    }
    if (rc == 0)
        rc = render_table_create(columns, n, &t, err);
    if (rc == 0)
        rc = fill(t, rows, n, err);
    if (rc == 0)
        render_table_print(t, &s->style, s->header, s->out);
    if (rc == 0 && field_yes(reply, "is_cut"))
        (void)fprintf(s->out, "only the first %zu rows; --count N for more\n",
                      json_array_size(rows));
    render_table_destroy(t);
    free(columns);
    free(titles);
    return rc;
}

static int add_field(struct buf *line, const json_t *v, struct error *err)
{
    if (json_is_integer(v))
        return buf_addf(line, err, "%" PRId64, (int64_t)json_integer_value(v));
    if (json_is_real(v))
        return buf_addf(line, err, "%.17g", json_real_value(v));
    return json_is_string(v) ? export_add_csv(line, json_string_value(v), err)
                             : 0;
}

static int put_line(const json_t *row, FILE *out, struct error *err)
{
    struct buf line = BUF_INIT;
    size_t i;
    json_t *v;
    int rc = 0;
    json_array_foreach(row, i, v)
    {
        if (rc == 0 && i > 0)
            rc = buf_addstr(&line, ",", err);
        if (rc == 0)
            rc = add_field(&line, v, err);
    }
    if (rc == 0)
        rc = buf_addstr(&line, "\r\n", err);
    if (rc == 0 && fwrite(line.data, 1, line.len, out) != line.len)
        rc = error_set(err, ERR_IO, "write: %s", strerror(errno));
    buf_clear(&line);
    return rc;
}

int sql_csv(const struct show_conf *s, const json_t *reply, FILE *out,
            struct error *err)
{
    const json_t *rows = json_object_get(reply, "rows");
    size_t i;
    json_t *row;
    int rc =
        s->header ? put_line(json_object_get(reply, "columns"), out, err) : 0;
    json_array_foreach(rows, i, row)
    {
        if (rc == 0)
            rc = put_line(row, out, err);
    }
    if (rc == 0 && field_yes(reply, "is_cut"))
        (void)fprintf(stderr,
                      "mgpu-stat: only the first %zu rows; --count N for "
                      "more\n",
                      json_array_size(rows));
    return rc;
}
