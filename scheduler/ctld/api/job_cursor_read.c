/* job_cursor_read.c - a walk's side on the reader's thread, see job_cursor.c.
 */
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>

#include "scheduler/ctld/api/job_cursor.h"
#include "scheduler/ctld/api/job_cursor_private.h"
#include "scheduler/ctld/api/job_filter.h"
#include "scheduler/engine/store/archive.h"

/* ---- looking ---------------------------------------------------------------
 */
int walk_keep(struct walk_ids *ids, uint64_t id, struct error *err)
{
    if (ids->n == ids->cap) {
        size_t cap = ids->cap ? 2 * ids->cap : 256;
        struct walk_id *v = realloc(ids->v, cap * sizeof(*v));
        if (!v)
            return error_set(err, ERR_NOMEM, "list of jobs");
        ids->v = v;
        ids->cap = cap;
    }
    ids->v[ids->n++] = (struct walk_id){.id = id};
    return 0;
}

/* When it ended is not always known. */
static bool is_stale(const struct ctld_filter *f,
                     const struct store_archived *a)
{
    return isfinite(a->end_s) && a->end_s < f->since_s;
}

static bool may_fit(const struct ctld_filter *f, const struct store_archived *a)
{
    return (!f->states || a->state >= JOB_STATE_N ||
            (f->states >> a->state & 1u)) &&
           !is_stale(f, a) && ctld_filter_is_of(f, a->uid, a->user) &&
           (!f->name || !a->name || fnmatch(f->name, a->name, 0) == 0);
}

static int on_archived(void *arg, const struct store_archived *a,
                       struct error *err)
{
    struct walk *w = arg;
    w->n_looked++;
    w->n_stale = is_stale(&w->conf.f, a) ? w->n_stale + 1 : 0;
    w->end_s = a->end_s;
    w->end_id = a->job;
    if (!w->is_by_end)
        w->before = a->job;
    return may_fit(&w->conf.f, a) ? walk_keep(&w->past, a->job, err) : 0;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct walk_id *)a)->id,
             y = ((const struct walk_id *)b)->id;
    return (x > y) - (x < y);
}

/* A place is in a line, what is charged, where it goes and its labels are
 * not. */
bool walk_is_brief(const struct walk_conf *conf)
{
    const struct ctld_filter *f = &conf->f;
    return conf->is_brief && !f->account && !f->partition && !f->labels;
}

/* ---- reading ----------------------------------------------------------------
 */
/* Those in a row with one query. One without a line is left to a READ. */
static int read_lines(struct walk *w, struct error *err)
{
    struct job *jobs[WALK_CHUNK] = {NULL};
    struct walk_id *v = w->past.v;
    for (size_t i = 0, n; i < w->past.n; i += n) {
        n = 1;
        while (i + n < w->past.n && n < WALK_CHUNK &&
               v[i + n].id == v[i].id + n)
            n++;
        for (size_t k = 0; k < n && w->n_spare > 0; k++)
            jobs[k] = w->spare[--w->n_spare];
        if (engine_past_lines(w->conf.c->parts.store, v[i].id, v[i + n - 1].id,
                              jobs, err) < 0)
            return -1;
        for (size_t k = 0; k < n; k++) {
            v[i + k].read = jobs[k];
            jobs[k] = NULL;
        }
    }
    return 0;
}

/* Where few fit many are looked at in one go. */
static void choose_rows(struct walk *w, int64_t n_looked)
{
    bool are_few = w->is_by_end || !walk_is_brief(&w->conf) ||
                   (int64_t)w->past.n < n_looked / 4;
    w->rows = !are_few                  ? WALK_CHUNK
              : w->rows < WALK_ROWS / 2 ? 2 * w->rows
                                        : WALK_ROWS;
}

static int find_some(struct walk *w, struct error *err)
{
    struct store *s = w->conf.c->parts.store;
    const struct ctld_filter *f = &w->conf.f;
    int64_t before = w->n_looked;
    const struct store_archive_query q = {
        .order = w->is_by_end ? ARCHIVE_BY_END : ARCHIVE_NEWEST,
        .after = w->is_by_end ? w->end_id : w->first,
        .before = w->before,
        .since_s = w->is_by_end ? w->end_s : -INFINITY,
        .has_names = f->user || f->name,
        .limit = w->rows};
    if (s->ops->archived(s, &q, on_archived, w, err) < 0)
        return -1;
    w->has_more = w->n_looked - before == w->rows;
    choose_rows(w, w->n_looked - before);
    /* By their ends, all of them are there before the first is shown. */
    if (w->past.n > 0 && (!w->is_by_end || !w->has_more))
        qsort(w->past.v, w->past.n, sizeof(*w->past.v), by_id);
    bool can_read =
        walk_is_brief(&w->conf) && !w->is_by_end && w->past.n <= WALK_CHUNK;
    return can_read ? read_lines(w, err) : 0;
}

/* Those in a row, ascending, with one query; of what has no line the events. */
static int read_row(struct walk *w, uint64_t first, struct job **jobs, size_t n,
                    struct error *err)
{
    struct store *s = w->conf.c->parts.store;
    struct error damage = ERROR_INIT;
    if (walk_is_brief(&w->conf) &&
        engine_past_lines(s, first, first + n - 1, jobs, err) < 0)
        return -1;
    for (size_t i = 0, k; i < n; i += k) {
        for (k = 0; i + k < n && !jobs[i + k]; k++)
            continue;
        if (k > 0 &&
            engine_past_read(s, w->jobs_dir, first + i, first + i + k - 1,
                             jobs + i, &damage, err) < 0) {
            engine_past_free(jobs, n);
            return -1;
        }
        if (damage.code != ERR_NONE)
            w->damage = damage;
        k += i + k < n;
    }
    return 0;
}

/* Those in a row with one query. */
static int read_chunk(struct walk *w, struct walk_chunk *k, struct error *err)
{
    struct job *jobs[WALK_CHUNK] = {NULL};
    for (size_t i = k->at, n; i < k->n; i += n) {
        n = 1;
        if (k->skip[i])
            continue;
        while (i + n < k->n && !k->skip[i + n] && k->id[i + n] == k->id[i] - n)
            n++;
        if (read_row(w, k->id[i + n - 1], jobs, n, err) < 0)
            return -1;
        for (size_t m = 0; m < n; m++) { /* the chunk has them from now on */
            k->read[i + m] = jobs[n - 1 - m];
            k->was_read[i + m] = true;
            jobs[n - 1 - m] = NULL;
        }
    }
    return 0;
}

void walk_run(struct task *t)
{
    struct walk *w = (struct walk *)t;
    w->rc = w->errand == FIND ? find_some(w, &w->err)
                              : read_chunk(w, w->reading, &w->err);
}
