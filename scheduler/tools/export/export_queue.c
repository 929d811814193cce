/* export_queue.c - export the queue as CSV; see export.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "jobs/text/text.h"
#include "scheduler/tools/common/columns.h"
#include "scheduler/tools/export/export.h"
#include "scheduler/tools/export/export_internal.h"

static int add_value(const struct columns *c, size_t i, json_t *job,
                     struct buf *line, struct error *err)
{
    const struct field *f = c->at[i];
    const json_t *v =
        c->own[i][0]
            ? columns_own_value(c->own[i], json_object_get(job, "values"))
        : f->is_number ? json_object_get(job, f->key)
                       : NULL;
    struct members m;
    char text[COLUMN_TEXT_CAP] = "";
    json_members_of_json(job, &m);
    if (json_is_integer(v))
        (void)snprintf(text, sizeof(text), "%" PRId64,
                       (int64_t)json_integer_value(v));
    else if (json_is_real(v))
        (void)snprintf(text, sizeof(text), "%.17g", json_real_value(v));
    else if (json_is_string(v)) /* an infinity */
        (void)snprintf(text, sizeof(text), "%s", json_string_value(v));
    else if (!f->is_number)
        f->text(&m, text, sizeof(text));
    return text_add_csv(line, strcmp(text, "-") == 0 ? "" : text, err);
}

/* job NULL: the header line. */
static int put_line(const struct columns *c, json_t *job, FILE *out,
                    struct error *err)
{
    struct buf line = BUF_INIT;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->n; i++) {
        rc = buf_addstr(&line, i ? "," : "", err);
        if (rc == 0)
            rc = job ? add_value(c, i, job, &line, err)
                     : text_add_csv(&line,
                                    c->own[i][0] ? c->own[i] : c->at[i]->name,
                                    err);
    }
    if (rc == 0)
        rc = buf_addstr(&line, "\r\n", err);
    if (rc == 0 && fwrite(line.data, 1, line.len, out) != line.len)
        rc = error_set(err, ERR_IO, "write: %s", strerror(errno));
    buf_clear(&line);
    return rc;
}

int export_queue(const struct show_conf *s, const json_t *reply, FILE *out,
                 struct error *err)
{
    const json_t *jobs = json_object_get(reply, "jobs");
    json_t *sorted = NULL, *job;
    struct columns columns;
    size_t i;
    if (columns_parse(s->format, &columns, err) < 0)
        return -1;
    int rc = s->sort ? columns_sort(jobs, s->sort, &sorted, err) : 0;
    if (rc == 0 && s->header)
        rc = put_line(&columns, NULL, out, err);
    json_array_foreach(sorted ? sorted : jobs, i, job)
    {
        if (rc == 0)
            rc = put_line(&columns, job, out, err);
    }
    json_decref(sorted);
    return rc;
}
