/* cells.c - helpers for tables: read a cell of a reply, print remarks that
 * several views share.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/show.h"

int cells_column(const json_t *reply, const char *name)
{
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(reply, "columns"), i, c)
    {
        const char *s = json_string_value(c);
        if (s && strcmp(s, name) == 0)
            return (int)i;
    }
    return -1;
}

double cells_number(const json_t *v)
{
    const char *s = json_string_value(v);
    if (s)
        return strcmp(s, "Infinity") == 0    ? (double)INFINITY
               : strcmp(s, "-Infinity") == 0 ? -(double)INFINITY
                                             : (double)NAN;
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

double show_cell(const json_t *row, int column)
{
    return cells_number(column >= 0 ? json_array_get(row, (size_t)column)
                                    : NULL);
}

bool cells_has(const json_t *reply, const char *name)
{
    int column = cells_column(reply, name);
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(reply, "rows"), i, row)
    {
        if (isfinite(show_cell(row, column)))
            return true;
    }
    return false;
}

bool cells_removed(FILE *out, const json_t *reply)
{
    bool has_some = json_array_size(json_object_get(reply, "rows")) > 0;
    if (!field_yes(reply, "rows_removed"))
        return false;
    (void)fprintf(out,
                  "its rows %s removed: it ended longer ago than "
                  "store.metrics_retention keeps them\n",
                  has_some ? "are being" : "were");
    return true;
}

const char *cells_asked(const json_t *event)
{
    const json_t *detail = json_object_get(event, "detail");
    bool is = strcmp(field_str(event, "event"), "preempt") == 0 &&
              field_int(event, "uid", -1) >= 0 &&
              !json_object_get(detail, "for_job") &&
              !json_object_get(detail, "to_gpus");
    return is ? "asked to be queued again" : NULL;
}
