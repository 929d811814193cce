/* mem_usage.c - the rows of v_usage: what each attempt used, of jobs that are
 * there and of jobs that were removed. */
#include <math.h>
#include <stdlib.h>

#include "db/mem/mem.h"

struct use_row {
    const struct store_attempt *attempt;
    const struct store_job *job;
};

struct use_rows {
    struct use_row *at; /* owned */
    size_t n;
};

static const struct store_job *job_of(const struct mem_table *jobs, uint64_t id)
{
    const struct mem_key key = {.job = id, .at = (int64_t)id, .name = ""};
    size_t at;
    return mem_table_find(jobs, &key, &at) ? &jobs->items[at]->job : NULL;
}

/* The key is the end of the attempt; one that has not ended is after any. */
static bool fits(const struct store_attempt *a, const struct store_query *q)
{
    bool is_live = isnan(a->end_s);
    return (q->job == 0 || a->job == q->job) &&
           (q->attempt == 0 || a->attempt == q->attempt) &&
           (q->after == 0 || is_live || a->end_s > (double)q->after);
}

static void add(struct use_rows *to, const struct mem_table *attempts,
                const struct mem_table *jobs, const struct store_query *q)
{
    for (size_t i = 0; i < attempts->n; i++) {
        const struct store_attempt *a = &attempts->items[i]->attempt;
        const struct store_job *j = job_of(jobs, a->job);
        if (j && fits(a, q))
            to->at[to->n++] = (struct use_row){.attempt = a, .job = j};
    }
}

static int by_key(const void *x, const void *y)
{
    const struct store_attempt *a = ((const struct use_row *)x)->attempt;
    const struct store_attempt *b = ((const struct use_row *)y)->attempt;
    int c = (a->job > b->job) - (a->job < b->job);
    return c ? c : (a->attempt > b->attempt) - (a->attempt < b->attempt);
}

int mem_usage(const struct mem_archive *a, const struct mem_table *tables,
              const struct store_query *q,
              int (*row)(void *arg, const struct store_cell *cells, size_t n,
                         struct error *err),
              void *arg, struct error *err)
{
    const struct mem_table *attempts = &tables[VIEW_ATTEMPT];
    struct use_rows rows = {.n = 0};
    int rc = 0;

    rows.at = calloc(attempts->n + a->gone_attempts.n + 1, sizeof(*rows.at));
    if (!rows.at)
        return error_set(err, ERR_NOMEM, "%zu attempts", attempts->n);
    add(&rows, attempts, &tables[VIEW_JOB], q);
    add(&rows, &a->gone_attempts, &a->gone_jobs, q);
    qsort(rows.at, rows.n, sizeof(*rows.at), by_key);
    size_t limit = q->limit ? (size_t)q->limit : rows.n;
    size_t first = q->last && rows.n > limit ? rows.n - limit : 0;
    for (size_t i = first; rc == 0 && i < rows.n && i - first < limit; i++) {
        struct mem_cells cells;
        mem_cells_usage(&cells, rows.at[i].attempt, rows.at[i].job);
        rc = row(arg, cells.at, cells.n, err);
    }
    free(rows.at);
    return rc;
}
