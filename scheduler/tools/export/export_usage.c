/* export_usage.c - export mgpu.usage/1 as CSV; see export.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "jobs/text/text.h"
#include "scheduler/tools/export/export.h"
#include "scheduler/tools/export/export_internal.h"

static const char *const keys[] = {
    "name",
    "jobs",
    "failed",
    "gpu_hours",
    "measured_gpu_hours",
    "busy_gpu_hours",
    "mean_wait_s",
    "job_name", /* of classes */
};
enum { N_KEYS = sizeof(keys) / sizeof(keys[0]) };

static int add_value(const json_t *v, struct buf *line, struct error *err)
{
    if (json_is_integer(v))
        return buf_addf(line, err, "%" PRId64, (int64_t)json_integer_value(v));
    if (json_is_real(v))
        return buf_addf(line, err, "%.17g", json_real_value(v));
    return json_is_string(v) ? text_add_csv(line, json_string_value(v), err)
                             : 0;
}

/* row NULL: the header line, whose first column is what the rows are by. */
static int add_line(const json_t *reply, const json_t *row, struct buf *out,
                    struct error *err)
{
    bool is_class = strcmp(field_str(reply, "by"), "class") == 0;
    for (int i = 0; i < N_KEYS - !is_class; i++) {
        const char *title = i == 0 ? field_str(reply, "by") : keys[i];
        if (buf_addstr(out, i ? "," : "", err) < 0 ||
            (row ? add_value(json_object_get(row, keys[i]), out, err)
                 : text_add_csv(out, title, err)) < 0)
            return -1;
    }
    return buf_addstr(out, "\r\n", err);
}

int export_usage(const json_t *reply, bool header, FILE *out, struct error *err)
{
    struct buf text = BUF_INIT;
    int rc = header ? add_line(reply, NULL, &text, err) : 0;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(reply, "rows"), i, row)
    {
        if (rc == 0)
            rc = add_line(reply, row, &text, err);
    }
    if (rc == 0 && fwrite(text.data, 1, text.len, out) != text.len)
        rc = error_set(err, ERR_IO, "write: %s", strerror(errno));
    buf_clear(&text);
    return rc;
}
