/* curves.c - extract the curve of one column from the rows of a reply; see
 * curves.h.
 */
#include "scheduler/tools/export/curves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/views/show.h"

/* A retry starts behind its checkpoint: its points replace those that were
 * lost. Rows come attempt by attempt, so it is enough to drop points at the
 * end. */
static void add(struct curve *c, double x, double y)
{
    while (c->n > 0 && c->x[c->n - 1] >= x)
        c->n--;
    c->x[c->n] = x;
    c->y[c->n++] = y;
}

int curve_of(const json_t *reply, const char *x, const char *y, int rank,
             struct curve *ret, struct error *err)
{
    const json_t *rows = json_object_get(reply, "rows");
    int c_x = cells_column(reply, x), c_y = cells_column(reply, y);
    int c_rank = cells_column(reply, "rank");
    size_t n = json_array_size(rows), i;
    json_t *row;
    if (c_x < 0 || c_y < 0)
        return error_set(err, ERR_NOTFOUND, "no column '%s'", c_x < 0 ? x : y);
    struct curve c = {.x = calloc(n + 1, sizeof(double)),
                      .y = calloc(n + 1, sizeof(double))};
    if (!c.x || !c.y) {
        curve_clear(&c);
        return error_set(err, ERR_NOMEM, "%zu points", n);
    }
    json_array_foreach(rows, i, row)
    {
        double v = show_cell(row, c_x);
        if (isfinite(v) &&
            (rank < 0 || c_rank < 0 || show_cell(row, c_rank) == rank))
            add(&c, v, show_cell(row, c_y));
    }
    c.names_gaps = strcmp(y, "loss") == 0;
    (void)snprintf(c.name, sizeof(c.name), "%s", y);
    *ret = c;
    return 0;
}

int curve_of_metric(const struct metric_curve *m, struct curve *ret,
                    struct error *err)
{
    struct curve c = {.x = calloc(m->n + 1, sizeof(double)),
                      .y = calloc(m->n + 1, sizeof(double)),
                      .n = m->n,
                      .names_gaps = true};
    if (!c.x || !c.y) {
        curve_clear(&c);
        return error_set(err, ERR_NOMEM, "%zu points", m->n);
    }
    for (size_t i = 0; i < m->n; i++) {
        c.x[i] = m->x[i];
        c.y[i] = m->y[i];
    }
    (void)snprintf(c.name, sizeof(c.name), "%s", m->name);
    *ret = c;
    return 0;
}

size_t curve_points(const struct curve *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        n += isfinite(c->y[i]) != 0;
    return n;
}

void curve_clear(struct curve *c)
{
    free(c->x);
    free(c->y);
    *c = (struct curve){.n = 0};
}

struct chart_series curve_series(const struct curve *c)
{
    return (struct chart_series){.name = c->name,
                                 .x = c->x,
                                 .y = c->y,
                                 .n = c->n,
                                 .marks = c->n <= 40,
                                 .names_gaps = c->names_gaps,
                                 .smooth = c->names_gaps};
}
