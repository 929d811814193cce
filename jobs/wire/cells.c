/* cells.c - see cells.h. */
#include "jobs/wire/cells.h"

#include <math.h>
#include <string.h>

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
