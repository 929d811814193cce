/* metric_set.c - collect the values of a job's own metrics by name and rank;
 * see metric_set.h.
 */
#include "scheduler/tools/common/metric_set.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/common/row_pages.h"
#include "scheduler/tools/views/show.h"

static int grow(void **io, size_t *io_cap, size_t size, struct error *err)
{
    size_t cap = *io_cap ? 2 * *io_cap : 16;
    void *more = realloc(*io, cap * size);
    if (!more)
        return error_set(err, ERR_NOMEM, "%zu values", cap);
    *io = more;
    *io_cap = cap;
    return 0;
}

static int add_point(struct metric_curve *c, double x, double y,
                     struct error *err)
{
    double after = c->n > 0 ? c->x[c->n - 1] + 1 : 1;
    x = isfinite(x) && x >= 0 ? x : after;
    /* A retry starts behind its checkpoint: its points replace those that were
     * lost. */
    while (c->n > 0 && c->x[c->n - 1] >= x)
        c->n--;
    if (c->n == c->cap) {
        size_t cap = c->cap;
        if (grow((void **)&c->x, &cap, sizeof(double), err) < 0)
            return -1;
        cap = c->cap;
        if (grow((void **)&c->y, &cap, sizeof(double), err) < 0)
            return -1;
        c->cap = cap;
    }
    c->x[c->n] = x;
    c->y[c->n++] = y;
    return 0;
}

static bool is_it(const struct metric_curve *c, const char *name, int rank)
{
    return c->rank == rank && strcmp(c->name, name) == 0;
}

int metric_set_add(struct metric_set *s, const char *name, int rank, double x,
                   double y, struct error *err)
{
    size_t at = 0;
    /* Each iteration names the same metrics in the same order. */
    for (; at < s->n; at++)
        if (is_it(&s->curves[(s->next + at) % s->n], name, rank))
            break;
    if (at == s->n) {
        if (s->n == s->cap &&
            grow((void **)&s->curves, &s->cap, sizeof(*s->curves), err) < 0)
            return -1;
        struct metric_curve *c = &s->curves[s->n++];
        *c = (struct metric_curve){.rank = rank};
        (void)snprintf(c->name, sizeof(c->name), "%s", name);
        at = s->n - 1;
    } else
        at = (s->next + at) % s->n;
    s->next = at + 1;
    return add_point(&s->curves[at], x, y, err);
}

static int column_of(const json_t *reply, const char *name)
{
    size_t i;
    json_t *column;
    json_array_foreach(json_object_get(reply, "columns"), i, column)
    {
        const char *s = json_string_value(column);
        if (s && strcmp(s, name) == 0)
            return (int)i;
    }
    return -1;
}

static double cell_of(const json_t *row, int column)
{
    return cells_number(column < 0 ? NULL
                                   : json_array_get(row, (size_t)column));
}

int metric_set_take(struct metric_set *s, const json_t *reply, size_t n,
                    struct error *err)
{
    const json_t *rows = json_object_get(reply, "rows");
    int c_name = column_of(reply, "name"), c_rank = column_of(reply, "rank");
    int c_x = column_of(reply, "iteration"), c_y = column_of(reply, "value");
    for (size_t i = 0; i < n && c_name >= 0; i++) {
        const json_t *row = json_array_get(rows, i);
        const char *name =
            json_string_value(json_array_get(row, (size_t)c_name));
        double rank = cell_of(row, c_rank);
        if (name && metric_set_add(
                        s, name, rank >= 0 && rank < INT32_MAX ? (int)rank : 0,
                        cell_of(row, c_x), cell_of(row, c_y), err) < 0)
            return -1;
    }
    return 0;
}

static int take_page(void *arg, const json_t *reply, size_t n,
                     struct error *err)
{
    return metric_set_take(arg, reply, n, err);
}

int metric_set_read(struct client *c, const char *word, struct metric_set *s,
                    struct error *err)
{
    int64_t job = 0;
    return row_pages(c, word, "values", &job, take_page, s, err);
}

const struct metric_curve *metric_set_find(const struct metric_set *s,
                                           const char *name)
{
    const struct metric_curve *found = NULL;
    for (size_t i = 0; i < s->n; i++) {
        const struct metric_curve *c = &s->curves[i];
        if (strcmp(c->name, name) == 0 && (!found || c->rank < found->rank))
            found = c;
    }
    return found;
}

bool metric_set_is_first(const struct metric_set *s,
                         const struct metric_curve *c)
{
    return metric_set_find(s, c->name) == c;
}

void metric_set_clear(struct metric_set *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->curves[i].x);
        free(s->curves[i].y);
    }
    free(s->curves);
    *s = (struct metric_set){.n = 0};
}
