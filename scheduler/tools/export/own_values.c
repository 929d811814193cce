/* own_values.c - collect the metrics that a job named itself; see own_values.h.
 */
#include "scheduler/tools/export/own_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/common/row_pages.h"
#include "scheduler/tools/views/show.h"

static int name_of(struct own_values *o, const char *name, size_t guess,
                   size_t *ret, struct error *err)
{
    size_t n = o->n_names;
    /* Each iteration names the same metrics in the same order. */
    for (size_t i = 0; i < n; i++)
        if (strcmp(o->names[(guess + i) % n], name) == 0) {
            *ret = (guess + i) % n;
            return 0;
        }
    if (n == o->cap_names) {
        size_t cap = n ? 2 * n : 16;
        void *more = realloc(o->names, cap * sizeof(*o->names));
        if (!more)
            return error_set(err, ERR_NOMEM, "%zu names", cap);
        o->names = more;
        o->cap_names = cap;
    }
    (void)snprintf(o->names[n], sizeof(o->names[n]), "%s", name);
    *ret = o->n_names++;
    return 0;
}

static int64_t whole(const json_t *row, int column)
{
    const json_t *v = column < 0 ? NULL : json_array_get(row, (size_t)column);
    return json_is_integer(v) ? json_integer_value(v) : -1;
}

static int take_page(void *arg, const json_t *reply, size_t n,
                     struct error *err)
{
    struct own_values *o = arg;
    const json_t *rows = json_object_get(reply, "rows");
    int c_name = cells_column(reply, "name");
    int c_attempt = cells_column(reply, "attempt");
    int c_iteration = cells_column(reply, "iteration");
    int c_rank = cells_column(reply, "rank");
    int c_value = cells_column(reply, "value");
    size_t guess = 0;
    for (size_t i = 0; i < n && c_name >= 0; i++) {
        const json_t *row = json_array_get(rows, i);
        const char *name =
            json_string_value(json_array_get(row, (size_t)c_name));
        struct own_value v = {.attempt = whole(row, c_attempt),
                              .iteration = whole(row, c_iteration),
                              .rank = whole(row, c_rank),
                              .value = show_cell(row, c_value)};
        if (!name)
            continue;
        if (o->n == o->cap) {
            size_t cap = o->cap ? 2 * o->cap : 1024;
            void *more = realloc(o->v, cap * sizeof(*o->v));
            if (!more)
                return error_set(err, ERR_NOMEM, "%zu values", cap);
            o->v = more;
            o->cap = cap;
        }
        if (name_of(o, name, guess, &v.name, err) < 0)
            return -1;
        guess = v.name + 1;
        o->v[o->n++] = v;
    }
    return 0;
}

int own_values_read(struct client *c, const char *word, struct own_values *ret,
                    struct error *err)
{
    struct own_values o = {.n = 0};
    int64_t job = 0;
    if (row_pages(c, word, "values", &job, take_page, &o, err) < 0) {
        own_values_clear(&o);
        return -1;
    }
    *ret = o;
    return 0;
}

void own_values_clear(struct own_values *o)
{
    free(o->names);
    free(o->v);
    *o = (struct own_values){.n = 0};
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

int own_values_order(const struct own_values *o, int64_t attempt,
                     int64_t iteration, int64_t rank)
{
    if (o->at >= o->n)
        return 1;
    const struct own_value *v = &o->v[o->at];
    int by_attempt = compare(v->attempt, attempt);
    int by_iteration = compare(v->iteration, iteration);
    return by_attempt     ? by_attempt
           : by_iteration ? by_iteration
                          : compare(v->rank, rank);
}

const struct own_value *own_values_take(struct own_values *o, double *ret)
{
    if (o->at >= o->n)
        return NULL;
    const struct own_value *first = &o->v[o->at];
    for (size_t i = 0; i < o->n_names; i++)
        ret[i] = NAN;
    while (own_values_order(o, first->attempt, first->iteration, first->rank) ==
           0) {
        ret[o->v[o->at].name] = o->v[o->at].value;
        o->at++;
    }
    return first;
}
