/* spec_awaited.c - count the jobs that the tasks of a sweep depend on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/spec/dependency.h"
#include "jobs/spec/spec_axes.h"

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Tasks mostly have the same dependencies. */
static bool is_same(const struct spec_list *a, const struct spec_list *b)
{
    bool is = a->n == b->n;
    for (size_t i = 0; is && i < a->n; i++)
        is = strcmp(a->items[i], b->items[i]) == 0;
    return is;
}

/* Adds the numbers that one task names; invalid ones have been reported. */
static int add_named(const struct spec_list *list, struct buf *out,
                     struct error *err)
{
    struct depend found[DEPEND_MAX];
    size_t n = 0;
    int rc = 0;

    for (size_t i = 0; i < list->n; i++)
        if (depend_parse(list->items[i], found, &n, NULL) < 0)
            break;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = buf_add(out, &found[i].job, sizeof(found[i].job), err);
    return rc;
}

static size_t count_distinct(struct buf *all)
{
    uint64_t *ids = (uint64_t *)(void *)all->data;
    size_t n = all->len / sizeof(*ids), n_distinct = 0;

    if (n > 0)
        qsort(ids, n, sizeof(*ids), compare);
    for (size_t i = 0; i < n; i++)
        n_distinct += i == 0 || ids[i] != ids[i - 1];
    return n_distinct;
}

int axes_check_awaited(struct expansion *x, const struct spec_jobs *jobs)
{
    const struct spec_list *last = NULL;
    struct buf all = BUF_INIT;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < jobs->n; i++) {
        const struct spec_list *list = &jobs->tasks[i].spec.depends_on;
        if (!last || !is_same(last, list))
            rc = add_named(list, &all, x->err);
        last = list;
    }
    size_t n = rc == 0 ? count_distinct(&all) : 0;
    buf_clear(&all);
    if (n > SPEC_AWAITED_MAX)
        report_add(x->report, "E020", x->sweep->key_at, "sweep",
                   "the number of a sweep stands for all of its tasks",
                   "'sweep' makes jobs that wait for %zu others; at most %d", n,
                   SPEC_AWAITED_MAX);
    return rc;
}
