/* mem_usage.c - the rows of v_usage: what each attempt used, of jobs that are
 * there and of jobs that were removed. Equal to the SQL in
 * db/schema/001-state.sql. */
#include <math.h>
#include <stdlib.h>

#include "db/mem/mem.h"

struct use_row {
    struct store_attempt attempt; /* texts are borrowed */
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

static bool runs(const struct store_job *j)
{
    enum job_state state;
    return job_state_from_name(j->state, &state) == 0 &&
           job_state_is_live(state);
}

/* An attempt of a job that no longer runs has ended at the last of its events,
 * but for a cancel. */
static double end_of(const struct store_attempt *a, const struct store_job *j,
                     const struct mem_table *events)
{
    double end_s = a->end_s;
    if (!isnan(end_s) || runs(j))
        return end_s;
    for (size_t i = 0; i < events->n; i++) {
        const struct store_event *e = &events->items[i]->event;
        if (e->job == a->job && e->attempt == a->attempt && e->ev != EV_CANCEL)
            end_s = fmax(end_s, e->at_s); /* the one that is no NaN */
    }
    return end_s;
}

void mem_usage_close(struct mem_table *tables, uint64_t job)
{
    const struct store_job *j = job_of(&tables[VIEW_JOB], job);
    struct mem_table *t = &tables[VIEW_ATTEMPT];
    for (size_t i = 0; j && i < t->n; i++) {
        struct store_attempt *a = &t->items[i]->attempt;
        if (a->job == job)
            a->end_s = end_of(a, j, &tables[VIEW_EVENT]);
    }
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
                const struct mem_table *jobs, const struct mem_table *events,
                const struct store_query *q)
{
    for (size_t i = 0; i < attempts->n; i++) {
        struct store_attempt a = attempts->items[i]->attempt;
        const struct store_job *j = job_of(jobs, a.job);
        if (!j)
            continue;
        a.end_s = end_of(&a, j, events);
        if (fits(&a, q))
            to->at[to->n++] = (struct use_row){.attempt = a, .job = j};
    }
}

static int by_key(const void *x, const void *y)
{
    const struct store_attempt *a = &((const struct use_row *)x)->attempt;
    const struct store_attempt *b = &((const struct use_row *)y)->attempt;
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
    add(&rows, attempts, &tables[VIEW_JOB], &tables[VIEW_EVENT], q);
    add(&rows, &a->gone_attempts, &a->gone_jobs, &tables[VIEW_EVENT], q);
    qsort(rows.at, rows.n, sizeof(*rows.at), by_key);
    size_t limit = q->limit ? (size_t)q->limit : rows.n;
    size_t first = q->last && rows.n > limit ? rows.n - limit : 0;
    for (size_t i = first; rc == 0 && i < rows.n && i - first < limit; i++) {
        struct mem_cells cells;
        mem_cells_usage(&cells, &rows.at[i].attempt, rows.at[i].job);
        rc = row(arg, cells.at, cells.n, err);
    }
    free(rows.at);
    return rc;
}
