/* job_cursor_read.c - the side of a cursor on the reader's thread, see
 * job_cursor.c. */
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>

#include "scheduler/ctld/job_list/job_cursor.h"
#include "scheduler/ctld/job_list/job_cursor_private.h"
#include "scheduler/ctld/job_list/job_filter.h"
#include "scheduler/engine/store/archive.h"

/* ---- looking ---------------------------------------------------------------
 */
int job_cursor_keep(struct job_cursor_ids *ids, uint64_t id, struct error *err)
{
    if (ids->n == ids->cap) {
        size_t cap = ids->cap ? 2 * ids->cap : 256;
        struct job_cursor_id *v = realloc(ids->v, cap * sizeof(*v));
        if (!v)
            return error_set(err, ERR_NOMEM, "list of jobs");
        ids->v = v;
        ids->cap = cap;
    }
    ids->v[ids->n++] = (struct job_cursor_id){.id = id};
    return 0;
}

/* When it ended is not always known. */
static bool is_stale(const struct job_filter *f, const struct store_archived *a)
{
    return isfinite(a->end_s) && a->end_s < f->since_s;
}

static bool may_fit(const struct job_filter *f, const struct store_archived *a)
{
    return (!f->states || a->state >= JOB_STATE_N ||
            (f->states >> a->state & 1u)) &&
           !is_stale(f, a) && job_filter_is_of(f, a->uid, a->user) &&
           (!f->name || !a->name || fnmatch(f->name, a->name, 0) == 0);
}

static int on_archived(void *arg, const struct store_archived *a,
                       struct error *err)
{
    struct job_cursor *cur = arg;
    cur->n_looked++;
    cur->n_stale = is_stale(&cur->conf.f, a) ? cur->n_stale + 1 : 0;
    cur->end_s = a->end_s;
    cur->end_id = a->job;
    if (!cur->is_by_end)
        cur->before = a->job;
    return may_fit(&cur->conf.f, a) ? job_cursor_keep(&cur->past, a->job, err)
                                    : 0;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct job_cursor_id *)a)->id,
             y = ((const struct job_cursor_id *)b)->id;
    return (x > y) - (x < y);
}

/* A place is in a line, what is charged, where it goes and its labels are
 * not. */
bool job_cursor_is_brief(const struct job_cursor_conf *conf)
{
    const struct job_filter *f = &conf->f;
    return conf->is_brief && !f->account && !f->partition && !f->labels;
}

/* ---- reading ----------------------------------------------------------------
 */
/* Those in a row with one query. One without a line is left to a READ. */
static int read_lines(struct job_cursor *cur, struct error *err)
{
    struct job *jobs[CURSOR_CHUNK] = {NULL};
    struct job_cursor_id *v = cur->past.v;
    for (size_t i = 0, n; i < cur->past.n; i += n) {
        n = 1;
        while (i + n < cur->past.n && n < CURSOR_CHUNK &&
               v[i + n].id == v[i].id + n)
            n++;
        for (size_t k = 0; k < n && cur->n_spare > 0; k++)
            jobs[k] = cur->spare[--cur->n_spare];
        if (engine_archive_lines(cur->conf.c->parts.store, v[i].id,
                                 v[i + n - 1].id, jobs, err) < 0)
            return -1;
        for (size_t k = 0; k < n; k++) {
            v[i + k].read = jobs[k];
            jobs[k] = NULL;
        }
    }
    return 0;
}

/* Where few fit many are looked at in one go. */
static void choose_rows(struct job_cursor *cur, int64_t n_looked)
{
    bool are_few = cur->is_by_end || !job_cursor_is_brief(&cur->conf) ||
                   (int64_t)cur->past.n < n_looked / 4;
    cur->rows = !are_few                      ? CURSOR_CHUNK
                : cur->rows < CURSOR_ROWS / 2 ? 2 * cur->rows
                                              : CURSOR_ROWS;
}

static int find_some(struct job_cursor *cur, struct error *err)
{
    struct store *s = cur->conf.c->parts.store;
    const struct job_filter *f = &cur->conf.f;
    int64_t before = cur->n_looked;
    const struct store_archive_query q = {
        .order = cur->is_by_end ? ARCHIVE_BY_END : ARCHIVE_NEWEST,
        .after = cur->is_by_end ? cur->end_id : cur->first,
        .before = cur->before,
        .since_s = cur->is_by_end ? cur->end_s : -INFINITY,
        .has_names = f->user || f->name,
        .limit = cur->rows};
    if (s->ops->archived(s, &q, on_archived, cur, err) < 0)
        return -1;
    cur->has_more = cur->n_looked - before == cur->rows;
    choose_rows(cur, cur->n_looked - before);
    /* By their ends, all of them are there before the first is shown. */
    if (cur->past.n > 0 && (!cur->is_by_end || !cur->has_more))
        qsort(cur->past.v, cur->past.n, sizeof(*cur->past.v), by_id);
    bool can_read = job_cursor_is_brief(&cur->conf) && !cur->is_by_end &&
                    cur->past.n <= CURSOR_CHUNK;
    return can_read ? read_lines(cur, err) : 0;
}

/* Those in a row, ascending, with one query; of what has no line the events. */
static int read_row(struct job_cursor *cur, uint64_t first, struct job **jobs,
                    size_t n, struct error *err)
{
    struct store *s = cur->conf.c->parts.store;
    struct error damage = ERROR_INIT;
    if (job_cursor_is_brief(&cur->conf) &&
        engine_archive_lines(s, first, first + n - 1, jobs, err) < 0)
        return -1;
    for (size_t i = 0, k; i < n; i += k) {
        for (k = 0; i + k < n && !jobs[i + k]; k++)
            continue;
        if (k > 0 &&
            engine_archive_read(s, cur->jobs_dir, first + i, first + i + k - 1,
                                jobs + i, &damage, err) < 0) {
            engine_archive_free(jobs, n);
            return -1;
        }
        if (damage.code != ERR_NONE)
            cur->damage = damage;
        k += i + k < n;
    }
    return 0;
}

/* Those in a row with one query. */
static int read_chunk(struct job_cursor *cur, struct job_cursor_chunk *k,
                      struct error *err)
{
    struct job *jobs[CURSOR_CHUNK] = {NULL};
    for (size_t i = k->at, n; i < k->n; i += n) {
        n = 1;
        if (k->skip[i])
            continue;
        while (i + n < k->n && !k->skip[i + n] && k->id[i + n] == k->id[i] - n)
            n++;
        if (read_row(cur, k->id[i + n - 1], jobs, n, err) < 0)
            return -1;
        for (size_t m = 0; m < n; m++) { /* the chunk has them from now on */
            k->read[i + m] = jobs[n - 1 - m];
            k->was_read[i + m] = true;
            jobs[n - 1 - m] = NULL;
        }
    }
    return 0;
}

void job_cursor_run(struct task *t)
{
    struct job_cursor *cur = (struct job_cursor *)t;
    cur->rc = cur->work == FIND ? find_some(cur, &cur->err)
                                : read_chunk(cur, cur->reading, &cur->err);
}
