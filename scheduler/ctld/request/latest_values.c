/* latest_values.c - see latest_values.h. */
#include "scheduler/ctld/request/latest_values.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/wire/metric_rows.h"

enum { NAMES_MAX = 256 };

struct latest {
    char name[METRIC_NAME_CAP];
    int64_t attempt, iteration; /* -1: without an iteration */
    int64_t rank;
    struct store_cell value;
};

struct latest_values {
    struct latest at[NAMES_MAX];
    size_t n;
    size_t next; /* where the next name probably is */
    bool is_early;
    bool has_first;
    int64_t first_attempt, first_iteration; /* of the first row */
};

struct latest_values *latest_values_create(void)
{
    return calloc(1, sizeof(struct latest_values));
}

void latest_values_reset(struct latest_values *l)
{
    l->n = l->next = 0;
    l->is_early = l->has_first = false;
}

bool latest_values_has(const struct latest_values *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->at[i].name, name) == 0)
            return l->at[i].attempt != l->first_attempt ||
                   l->at[i].iteration != l->first_iteration;
    return false;
}

void latest_values_early(struct latest_values *l)
{
    l->is_early = true;
}

/* Names take turns, so the place after the last one is tried first. */
static size_t find(struct latest_values *l, const char *name)
{
    size_t i =
        l->next < l->n && strcmp(l->at[l->next].name, name) == 0 ? l->next : 0;
    while (i < l->n && strcmp(l->at[i].name, name) != 0)
        i++;
    l->next = i + 1 < l->n ? i + 1 : 0;
    return i;
}

void latest_values_take(struct latest_values *l, const struct store_cell *cells,
                        size_t n)
{
    const struct store_cell *name = store_cell(cells, n, "name");
    const struct store_cell *it = store_cell(cells, n, "iteration");
    struct latest is = {
        .attempt = store_cell(cells, n, "attempt")->i,
        .iteration = it->kind == CELL_INT ? it->i : -1,
        .rank = store_cell(cells, n, "rank")->i,
        .value = *store_cell(cells, n, "value"),
    };
    if (!l->has_first) {
        l->first_attempt = is.attempt;
        l->first_iteration = is.iteration;
        l->has_first = true;
    }
    if (name->kind != CELL_TEXT || is.value.kind == CELL_TEXT ||
        (l->is_early && is.iteration >= 0))
        return;
    (void)snprintf(is.name, sizeof(is.name), "%s", name->s);
    const size_t i = find(l, is.name);
    const bool is_new = i == l->n;
    if (i == NAMES_MAX ||
        (!is_new && (l->is_early || (l->at[i].attempt == is.attempt &&
                                     l->at[i].iteration == is.iteration))))
        return;
    l->n += is_new;
    l->at[i] = is;
}

int latest_values_each(const struct latest_values *l,
                       int (*row)(void *arg, const struct store_cell *cells,
                                  size_t n, struct error *err),
                       void *arg, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < l->n; i++) {
        const struct latest *v = &l->at[i];
        const struct store_cell cells[] = {
            {.name = "attempt", .kind = CELL_INT, .i = v->attempt},
            {.name = "rank", .kind = CELL_INT, .i = v->rank},
            {.name = "iteration",
             .kind = v->iteration < 0 ? CELL_NULL : CELL_INT,
             .i = v->iteration},
            {.name = "name", .kind = CELL_TEXT, .s = v->name},
            {.name = "value",
             .kind = v->value.kind,
             .i = v->value.i,
             .r = v->value.r},
        };
        rc = row(arg, cells, sizeof(cells) / sizeof(cells[0]), err);
    }
    return rc;
}
