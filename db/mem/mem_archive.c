/* mem_archive.c - the archived jobs of the in-memory store. The caller holds
 * the lock. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "db/mem/mem.h"

/* The index of the first job with this id or a higher one. */
static size_t place_of(const struct mem_archive *a, uint64_t job)
{
    size_t lo = 0, hi = a->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (a->jobs[mid].job < job)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool mem_archive_has(const struct mem_archive *a, uint64_t job)
{
    size_t at = place_of(a, job);

    return at < a->n && a->jobs[at].job == job;
}

void mem_archive_free(struct store_archived *jobs, size_t n)
{
    for (size_t i = 0; jobs && i < n; i++) {
        free((char *)jobs[i].key);
        free((char *)jobs[i].line);
    }
    free(jobs);
}

static int reserve(struct mem_archive *a, size_t need, struct error *err)
{
    if (need <= a->cap)
        return 0;
    struct store_archived *p = realloc(a->jobs, 2 * need * sizeof(*p));
    if (!p)
        return error_set(err, ERR_NOMEM, "an archive of %zu jobs", need);
    a->jobs = p;
    a->cap = 2 * need;
    return 0;
}

int mem_archive_stage(struct mem_archive *a, const struct store_batch *b,
                      struct store_archived **ret, struct error *err)
{
    for (size_t i = 0; i < b->n_archived; i++)
        if (mem_archive_has(a, b->archived[i].job))
            return error_set(err, ERR_IO, "a job is archived twice");
    if (reserve(a, a->n + b->n_archived, err) < 0)
        return -1;
    struct store_archived *copies = calloc(b->n_archived + 1, sizeof(*copies));
    bool ok = copies != NULL;
    for (size_t i = 0; ok && i < b->n_archived; i++) {
        copies[i] = b->archived[i];
        copies[i].key = copies[i].key ? strdup(copies[i].key) : NULL;
        copies[i].line = copies[i].line ? strdup(copies[i].line) : NULL;
        ok = !copies[i].key == !b->archived[i].key &&
             !copies[i].line == !b->archived[i].line;
    }
    if (ok) {
        *ret = copies;
        return 0;
    }
    mem_archive_free(copies, b->n_archived);
    return error_set(err, ERR_NOMEM, "%zu jobs to archive", b->n_archived);
}

void mem_archive_put(struct mem_archive *a, struct store_archived *copies,
                     size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = place_of(a, copies[i].job);
        memmove(a->jobs + at + 1, a->jobs + at, (a->n - at) * sizeof(*a->jobs));
        a->jobs[at] = copies[i];
        copies[i].key = copies[i].line = NULL;
        a->n++;
    }
}

void mem_archive_count(const struct mem_archive *a, struct store_past *ret)
{
    *ret = (struct store_past){.last_job = a->last_removed};
    for (size_t i = 0; i < a->n; i++) {
        ret->n[a->jobs[i].state]++;
        if (a->jobs[i].job > ret->last_job)
            ret->last_job = a->jobs[i].job;
    }
}

static bool fits(const struct store_archived *a,
                 const struct store_archive_query *q)
{
    bool is_any = isinf(q->since_s) && q->since_s < 0;

    if (q->key)
        return a->key && a->uid == q->uid && a->job > q->after &&
               strcmp(a->key, q->key) == 0;
    if (q->before > 0 && a->job >= q->before)
        return false;
    if (q->order == ARCHIVE_BY_END)
        return a->end_s > q->since_s ||
               (a->end_s >= q->since_s && a->job > q->after);
    return a->job > q->after && (is_any || a->end_s >= q->since_s);
}

static int by_end(const void *x, const void *y)
{
    const struct store_archived *a = x, *b = y;

    if (a->end_s > b->end_s || a->end_s < b->end_s)
        return a->end_s > b->end_s ? 1 : -1;
    return (a->job > b->job) - (a->job < b->job);
}

static int newest(const void *x, const void *y)
{
    const struct store_archived *a = x, *b = y;

    return (a->job < b->job) - (a->job > b->job);
}

static void put_names(struct store_archived *io, const struct mem_table *jobs)
{
    const struct mem_key key = {.job = io->job};
    size_t at;

    if (!mem_table_find(jobs, &key, &at))
        return;
    io->name = jobs->items[at]->job.name;
    io->user = jobs->items[at]->job.user;
}

/* Visits the matching jobs in the order of their ids. */
static int each_by_id(const struct mem_archive *a, const struct mem_table *jobs,
                      const struct store_archive_query *q,
                      int (*each)(void *arg, const struct store_archived *job,
                                  struct error *err),
                      void *arg, struct error *err)
{
    int64_t n = 0;

    for (size_t i = place_of(a, q->after + 1); i < a->n; i++) {
        struct store_archived job = a->jobs[i];
        job.line = NULL;
        if (!fits(&job, q))
            continue;
        if (q->has_names && !q->key)
            put_names(&job, jobs);
        if (each(arg, &job, err) < 0)
            return -1;
        if (++n == q->limit)
            break;
    }
    return 0;
}

/* A sorted copy of the matching jobs. */
static struct mem_archive sorted_copy(const struct mem_archive *a,
                                      const struct store_archive_query *q)
{
    struct mem_archive to = {.jobs = malloc((a->n + 1) * sizeof(*to.jobs))};

    for (size_t i = 0; to.jobs && i < a->n; i++)
        if (fits(&a->jobs[i], q))
            to.jobs[to.n++] = a->jobs[i];
    for (size_t i = 0; i < to.n; i++)
        to.jobs[i].line = NULL;
    if (to.jobs)
        qsort(to.jobs, to.n, sizeof(*to.jobs),
              q->order == ARCHIVE_NEWEST ? newest : by_end);
    return to;
}

int mem_archive_find(const struct mem_archive *a, const struct mem_table *jobs,
                     const struct store_archive_query *q,
                     int (*each)(void *arg, const struct store_archived *job,
                                 struct error *err),
                     void *arg, struct error *err)
{
    if (q->key || q->order == ARCHIVE_BY_ID)
        return each_by_id(a, jobs, q, each, arg, err);
    struct mem_archive found = sorted_copy(a, q);
    if (!found.jobs)
        return error_set(err, ERR_NOMEM, "an archive of %zu jobs", a->n);
    if (q->limit > 0 && found.n > (size_t)q->limit)
        found.n = (size_t)q->limit;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < found.n; i++) {
        if (q->has_names)
            put_names(&found.jobs[i], jobs);
        rc = each(arg, &found.jobs[i], err);
    }
    free(found.jobs);
    return rc;
}

int mem_archive_lines(const struct mem_archive *a, uint64_t first,
                      uint64_t last,
                      int (*each)(void *arg, uint64_t job, const char *line,
                                  struct error *err),
                      void *arg, struct error *err)
{
    for (size_t i = place_of(a, first); i < a->n && a->jobs[i].job <= last; i++)
        if (a->jobs[i].line &&
            each(arg, a->jobs[i].job, a->jobs[i].line, err) < 0)
            return -1;
    return 0;
}

/* ---- removal --------------------------------------------------------------
 */
static void drop_job(struct mem_table *t, uint64_t job)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->n; i++)
        if (t->items[i]->key.job != job)
            t->items[kept++] = t->items[i];
        else
            free(t->items[i]);
    t->n = kept;
}

int mem_remove(struct mem_archive *a, struct mem_table *tables,
               const uint64_t *jobs, size_t n, double at_s, struct error *err)
{
    for (size_t i = 0; i < n; i++)
        if (!mem_archive_has(a, jobs[i]))
            return error_set(err, ERR_STATE, "job %llu is not archived",
                             (unsigned long long)jobs[i]);
    struct store_removed *p =
        realloc(a->removed, (a->n_removed + n + 1) * sizeof(*p));
    if (!p)
        return error_set(err, ERR_NOMEM, "%zu jobs to remove", n);
    a->removed = p;
    for (size_t i = 0; i < n; i++) {
        size_t at = place_of(a, jobs[i]);
        a->removed[a->n_removed++] = (struct store_removed){
            .job = jobs[i], .end_s = a->jobs[at].end_s, .removed_s = at_s};
        if (jobs[i] > a->last_removed)
            a->last_removed = jobs[i];
        free((char *)a->jobs[at].key);
        free((char *)a->jobs[at].line);
        memmove(a->jobs + at, a->jobs + at + 1,
                (--a->n - at) * sizeof(*a->jobs));
        for (int k = 0; k < MEM_KIND_N; k++)
            drop_job(&tables[k], jobs[i]);
    }
    return 0;
}

int mem_removed(const struct mem_archive *a, uint64_t job,
                struct store_removed *ret, struct error *err)
{
    for (size_t i = 0; i < a->n_removed; i++)
        if (a->removed[i].job == job) {
            *ret = a->removed[i];
            return 0;
        }
    return error_set(err, ERR_NOTFOUND, "job %llu was not removed",
                     (unsigned long long)job);
}
