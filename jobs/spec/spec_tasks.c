/* spec_tasks.c - what must hold for all tasks of a sweep together: how many
 * jobs they depend on, and that no two write into one directory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/schema/interpolate.h"
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

int spec_axes_check_awaited(struct expansion *x, const struct spec_jobs *jobs)
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
        diagnostics_add(
            x->report, "E020", x->sweep->key_at, "sweep",
            "the number of a sweep stands for all of its tasks",
            "'sweep' makes jobs that wait for %zu others; at most %d", n,
            SPEC_AWAITED_MAX);
    return rc;
}

/* ---- directories ----------------------------------------------------------
 */

/* Where a task writes to. */
struct place {
    const char *dir, *name; /* name: "" unless it is a part of dir */
    int32_t number;
};

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int c = strcmp(x->dir, y->dir);
    c = c != 0 ? c : strcmp(x->name, y->name);
    return c != 0 ? c : (x->number > y->number) - (x->number < y->number);
}

/* NULL: a directory of its own, whatever the others have, or none. One below
 * output_dir is as good as that. */
static const char *fixed_dir(const struct job_spec *s, bool is_ckpt)
{
    const char *dir = is_ckpt ? s->checkpoint.dir : s->train.output_dir;
    bool differs = !dir || s->kind == SPEC_COMMAND || s->train.eval_only ||
                   interpolate_has(dir, "job_id") ||
                   interpolate_has(dir, "task_id") ||
                   (is_ckpt && interpolate_has(dir, "output_dir"));
    return differs ? NULL : dir;
}

static struct mark place_of_key(const struct expansion *x, const char *key)
{
    for (size_t i = 0; i < x->n_varied; i++)
        if (strcmp(x->varied[i].key, key) == 0)
            return x->varied[i].at;
    for (size_t i = 0; i < spec_schema.n; i++)
        if (strcmp(spec_schema.keys[i].path, key) == 0 && x->base.from[i].node)
            return x->base.from[i].node->at;
    return x->sweep->key_at;
}

static int check_one_dir(struct expansion *x, const struct spec_jobs *jobs,
                         const char *key, bool is_ckpt)
{
    struct place *all = calloc(jobs->n + 1, sizeof(*all));
    size_t n = 0;
    if (!all)
        return error_set(x->err, ERR_NOMEM, "%zu tasks", jobs->n);
    for (size_t i = 0; i < jobs->n; i++) {
        const struct job_spec *s = &jobs->tasks[i].spec;
        const char *dir = fixed_dir(s, is_ckpt);
        if (dir)
            all[n++] =
                (struct place){dir, interpolate_has(dir, "name") ? s->name : "",
                               jobs->tasks[i].number};
    }
    qsort(all, n, sizeof(*all), by_place);
    size_t i = 1;
    while (i < n && (strcmp(all[i].dir, all[i - 1].dir) != 0 ||
                     strcmp(all[i].name, all[i - 1].name) != 0))
        i++;
    if (i < n)
        diagnostics_add(
            x->report, "E020", place_of_key(x, key), key,
            "put ${task_id} into it, or leave the key out: then each job "
            "has one of its own",
            "tasks %d and %d would write into one directory, '%.120s'",
            all[i - 1].number, all[i].number, all[i].dir);
    free(all);
    return 0;
}

int spec_axes_check_dirs(struct expansion *x, const struct spec_jobs *jobs)
{
    return check_one_dir(x, jobs, "train.output_dir", false) < 0
               ? -1
               : check_one_dir(x, jobs, "checkpoint.dir", true);
}
