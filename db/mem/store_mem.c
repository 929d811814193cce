/* store_mem.c - an in-memory store, as long as the process lives.
 *
 * The world holds the contents, a store is an attachment to it: a test restarts
 * a simulated daemon by destroying the store and attaching again. As with a
 * directory, one store at a time may be attached.
 *
 * append() copies a batch and reserves its space before it changes anything, so
 * that a failed allocation stores nothing. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "db/mem/mem.h"
#include "db/mem/store_mem.h"

struct store_mem_world {
    pthread_mutex_t lock; /* other threads call query() and rows() */
    bool attached;
    struct mem_table tables[VIEW_N];
    struct mem_archive archive;
    struct mem_guesses guesses;
    uint64_t last_seq; /* of all events, including removed ones */
};

struct store_mem {
    struct store base;
    struct store_mem_world *world;
};

static struct store_mem_world *world_of(struct store *s)
{
    return ((struct store_mem *)s)->world;
}

/* ---- items --------------------------------------------------------------- */

enum { TEXTS_MAX = 8 };

/* The text members of an item of `view`, so that one loop copies them. */
static size_t texts_of(struct mem_item *it, enum store_view view,
                       const char **ret[TEXTS_MAX])
{
    size_t n = 0;

    if (view == VIEW_EVENT)
        ret[n++] = &it->event.detail;
    if (view == VIEW_ATTEMPT) {
        ret[n++] = &it->attempt.state;
        ret[n++] = &it->attempt.native_id;
        ret[n++] = &it->attempt.place;
        ret[n++] = &it->attempt.reason;
        ret[n++] = &it->attempt.class;
        ret[n++] = &it->attempt.cause;
        ret[n++] = &it->attempt.gpu_type;
        ret[n++] = &it->attempt.account;
    }
    if (view == VIEW_JOB) {
        ret[n++] = &it->job.name;
        ret[n++] = &it->job.user;
        ret[n++] = &it->job.kind;
        ret[n++] = &it->job.state;
        ret[n++] = &it->job.reason;
        ret[n++] = &it->job.idempotency_key;
        ret[n++] = &it->job.spec;
        ret[n++] = &it->job.dir;
    }
    return n;
}

/* One allocation, so that free() frees the item. */
static struct mem_item *item_copy(const struct mem_item *from,
                                  enum store_view view, struct error *err)
{
    struct mem_item shallow = *from;
    const char **texts[TEXTS_MAX];
    size_t n = texts_of(&shallow, view, texts), size = sizeof(*from);

    for (size_t i = 0; i < n; i++)
        size += *texts[i] ? strlen(*texts[i]) + 1 : 0;
    struct mem_item *it = malloc(size);
    if (!it) {
        (void)error_set(err, ERR_NOMEM, "a row of %zu bytes", size);
        return NULL;
    }
    *it = *from;
    if (view == VIEW_METRIC) /* the item itself holds the name */
        it->key.name = it->value.name;
    (void)texts_of(it, view, texts);
    char *at = (char *)(it + 1);
    for (size_t i = 0; i < n; i++) {
        if (!*texts[i])
            continue;
        size_t len = strlen(*texts[i]) + 1;
        memcpy(at, *texts[i], len);
        *texts[i] = at;
        at += len;
    }
    return it;
}

/* ---- append and load ----------------------------------------------------- */

struct staged { /* a batch, copied and not yet stored */
    struct mem_item **items;
    size_t n;
};

static int stage(struct staged *st, enum store_view view,
                 const struct mem_item *from, struct error *err)
{
    struct mem_item *it = item_copy(from, view, err);
    if (!it)
        return -1;
    st->items[st->n++] = it;
    return 0;
}

static void keep(const char **text, const char *was)
{
    if (!*text)
        *text = was;
}

/* Keeps texts of the old row that the new one leaves NULL. */
static void keep_texts(const struct mem_table *jobs, struct mem_item *it)
{
    size_t at;
    if (!mem_table_find(jobs, &it->key, &at))
        return;
    const struct store_job *was = &jobs->items[at]->job;
    keep(&it->job.name, was->name);
    keep(&it->job.user, was->user);
    keep(&it->job.kind, was->kind);
    keep(&it->job.idempotency_key, was->idempotency_key);
    keep(&it->job.spec, was->spec);
    keep(&it->job.dir, was->dir);
}

/* Events, then jobs, then attempts. */
static int stage_batch(const struct store_mem_world *w, struct staged *st,
                       const struct store_batch *b, uint64_t seq,
                       struct error *err)
{
    for (size_t i = 0; i < b->n_events; i++) {
        struct mem_item it = {.event = b->events[i]};
        it.event.seq = ++seq;
        it.key = (struct mem_key){.job = it.event.job,
                                  .attempt = it.event.attempt,
                                  .at = (int64_t)seq,
                                  .name = ""};
        if (stage(st, VIEW_EVENT, &it, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < b->n_jobs; i++) {
        const struct store_job *j = &b->jobs[i];
        struct mem_item it = {.job = *j};
        it.key =
            (struct mem_key){.job = j->id, .at = (int64_t)j->id, .name = ""};
        keep_texts(&w->tables[VIEW_JOB], &it);
        if (stage(st, VIEW_JOB, &it, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < b->n_attempts; i++) {
        const struct store_attempt *a = &b->attempts[i];
        struct mem_item it = {.attempt = *a};
        it.key = (struct mem_key){
            .job = a->job, .attempt = a->attempt, .at = a->attempt, .name = ""};
        if (stage(st, VIEW_ATTEMPT, &it, err) < 0)
            return -1;
    }
    return 0;
}

static int append_locked(struct store_mem_world *w, const struct store_batch *b,
                         struct staged *st, struct store_archived *archived,
                         struct error *err)
{
    struct mem_table *events = &w->tables[VIEW_EVENT];
    struct mem_table *jobs = &w->tables[VIEW_JOB];
    struct mem_table *attempts = &w->tables[VIEW_ATTEMPT];

    if (stage_batch(w, st, b, w->last_seq, err) < 0 ||
        mem_table_reserve(events, b->n_events, err) < 0 ||
        mem_table_reserve(jobs, b->n_jobs, err) < 0 ||
        mem_table_reserve(attempts, b->n_attempts, err) < 0)
        return -1;
    struct mem_item **it = st->items;
    for (size_t i = 0; i < b->n_events; i++, it++) {
        b->events[i].seq = (*it)->event.seq;
        mem_table_insert(events, events->n, *it);
    }
    for (size_t i = 0; i < b->n_jobs; i++)
        mem_table_put(jobs, *it++);
    for (size_t i = 0; i < b->n_attempts; i++)
        mem_table_put(attempts, *it++);
    st->n = 0; /* the tables own them now */
    w->last_seq += b->n_events;
    mem_archive_put(&w->archive, archived, b->n_archived);
    return 0;
}

static int mem_append(struct store *s, const struct store_batch *b,
                      struct error *err)
{
    struct store_mem_world *w = world_of(s);
    size_t n = b->n_events + b->n_jobs + b->n_attempts;
    struct staged st = {.items = calloc(n + 1, sizeof(struct mem_item *))};

    if (!st.items)
        return error_set(err, ERR_NOMEM, "a batch of %zu rows", n);
    struct store_archived *archived = NULL;
    pthread_mutex_lock(&w->lock);
    int rc = mem_archive_stage(&w->archive, b, &archived, err);
    if (rc == 0)
        rc = append_locked(w, b, &st, archived, err);
    pthread_mutex_unlock(&w->lock);
    for (size_t i = 0; i < st.n; i++)
        free(st.items[i]);
    free(st.items);
    mem_archive_free(archived, b->n_archived);
    return rc;
}

/* Only append() changes events, and the same thread calls load(). */
static int mem_load(struct store *s,
                    int (*each)(void *arg, const struct store_event *event,
                                struct error *err),
                    void *arg, struct error *err)
{
    const struct store_mem_world *w = world_of(s);
    const struct mem_table *t = &w->tables[VIEW_EVENT];

    for (size_t i = 0; i < t->n; i++)
        if (!mem_archive_has(&w->archive, t->items[i]->event.job) &&
            each(arg, &t->items[i]->event, err) < 0)
            return -1;
    return 0;
}

static int mem_load_jobs(struct store *s, uint64_t first, uint64_t last,
                         int (*each)(void *arg, const struct store_event *event,
                                     struct error *err),
                         void *arg, struct error *err)
{
    struct store_mem_world *w = world_of(s);
    const struct mem_table *t = &w->tables[VIEW_EVENT];
    int rc = 0;

    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; rc == 0 && i < t->n; i++) {
        const struct store_event *e = &t->items[i]->event;
        if (e->job >= first && e->job <= last)
            rc = each(arg, e, err);
    }
    pthread_mutex_unlock(&w->lock);
    return rc;
}

static int mem_past(struct store *s, struct store_past *ret, struct error *err)
{
    struct store_mem_world *w = world_of(s);

    (void)err;
    pthread_mutex_lock(&w->lock);
    mem_archive_count(&w->archive, ret);
    ret->last_seq = w->last_seq;
    pthread_mutex_unlock(&w->lock);
    return 0;
}

static int mem_archived(struct store *s, const struct store_archive_query *q,
                        int (*each)(void *arg, const struct store_archived *job,
                                    struct error *err),
                        void *arg, struct error *err)
{
    struct store_mem_world *w = world_of(s);

    pthread_mutex_lock(&w->lock);
    int rc =
        mem_archive_find(&w->archive, &w->tables[VIEW_JOB], q, each, arg, err);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

static int mem_lines(struct store *s, uint64_t first, uint64_t last,
                     int (*each)(void *arg, uint64_t job, const char *line,
                                 struct error *err),
                     void *arg, struct error *err)
{
    struct store_mem_world *w = world_of(s);

    pthread_mutex_lock(&w->lock);
    int rc = mem_archive_lines(&w->archive, first, last, each, arg, err);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

static int mem_remove_jobs(struct store *s, const uint64_t *jobs, size_t n,
                           double at_s, struct error *err)
{
    struct store_mem_world *w = world_of(s);

    pthread_mutex_lock(&w->lock);
    int rc = mem_remove(&w->archive, w->tables, jobs, n, at_s, err);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

static int mem_find_removed(struct store *s, uint64_t job,
                            struct store_removed *ret, struct error *err)
{
    struct store_mem_world *w = world_of(s);

    pthread_mutex_lock(&w->lock);
    int rc = mem_removed(&w->archive, job, ret, err);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

/* ---- rows ---------------------------------------------------------------- */

static enum store_view row_view(const struct metric_row *row)
{
    return row->kind == METRIC_ITERATION ? VIEW_ITERATION
           : row->kind == METRIC_EPOCH   ? VIEW_EPOCH
           : row->kind == METRIC_PROFILE ? VIEW_PROFILE
                                         : VIEW_METRIC;
}

static enum store_view row_item(uint64_t job, int32_t attempt,
                                const struct metric_row *row,
                                struct mem_item *ret)
{
    *ret = (struct mem_item){.key = {.job = job, .attempt = attempt}};
    ret->key.name = "";
    switch (row->kind) {
    case METRIC_ITERATION:
        ret->iteration = row->iteration;
        ret->key.at = row->iteration.iteration;
        ret->key.rank = row->iteration.rank;
        break;
    case METRIC_EPOCH:
        ret->epoch = row->epoch;
        ret->key.at = row->epoch.epoch;
        break;
    case METRIC_PROFILE:
        ret->profile = row->profile;
        ret->key.at = row->profile.epoch;
        ret->key.rank = row->profile.rank;
        ret->key.name = row->profile.metric;
        break;
    default:
        ret->value = row->value;
        ret->key.at = row->value.iteration;
        ret->key.rank = row->value.rank;
        ret->key.name = row->value.name;
    }
    return row_view(row);
}

static int rows_locked(struct store_mem_world *w, struct mem_item **copies,
                       const struct metric_row *rows, size_t n, size_t *ret_new,
                       struct error *err)
{
    for (enum store_view v = VIEW_ITERATION; v <= VIEW_PROFILE; v++)
        if (mem_table_reserve(&w->tables[v], n, err) < 0)
            return -1;
    size_t added = 0;
    for (size_t i = 0; i < n; i++) {
        struct mem_table *t = &w->tables[row_view(&rows[i])];
        size_t at;
        if (mem_table_find(t, &copies[i]->key, &at))
            continue;
        mem_table_insert(t, at, copies[i]);
        copies[i] = NULL;
        added++;
    }
    if (ret_new)
        *ret_new = added;
    return 0;
}

static int mem_rows(struct store *s, uint64_t job, int32_t attempt,
                    const struct metric_row *rows, size_t n, size_t *ret_new,
                    struct error *err)
{
    struct store_mem_world *w = world_of(s);
    struct mem_item **copies = calloc(n + 1, sizeof(struct mem_item *));

    if (!copies)
        return error_set(err, ERR_NOMEM, "%zu rows", n);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct mem_item it;
        enum store_view view = row_item(job, attempt, &rows[i], &it);
        copies[i] = item_copy(&it, view, err);
        rc = copies[i] ? 0 : -1;
    }
    if (rc == 0) {
        pthread_mutex_lock(&w->lock);
        rc = rows_locked(w, copies, rows, n, ret_new, err);
        pthread_mutex_unlock(&w->lock);
    }
    for (size_t i = 0; i < n; i++)
        free(copies[i]);
    free(copies);
    return rc;
}

static int mem_sync_rows(struct store *s, struct error *err)
{
    (void)s;
    (void)err;
    return 0;
}

static int mem_set_guesses(struct store *s, const char *class,
                           const char *gpu_type,
                           const struct store_guess *guesses, size_t n,
                           struct error *err)
{
    struct store_mem_world *w = world_of(s);
    pthread_mutex_lock(&w->lock);
    int rc = mem_guesses_set(&w->guesses, class, gpu_type, guesses, n, err);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

static int mem_purge_rows(struct store *s, struct store_purge *io,
                          struct error *err)
{
    struct store_mem_world *w = world_of(s);
    (void)err;
    pthread_mutex_lock(&w->lock);
    mem_purge(w->tables, io);
    pthread_mutex_unlock(&w->lock);
    return 0;
}

/* ---- query --------------------------------------------------------------- */

static bool matches(const struct mem_key *k, const struct store_query *q)
{
    const struct view *v = &views[q->view];

    return (!v->of_jobs || q->job == 0 || k->job == q->job) &&
           (!v->of_attempts || q->attempt == 0 || k->attempt == q->attempt) &&
           (!v->of_ranks || q->rank == -1 || k->rank == q->rank) &&
           (q->after == 0 || k->at > q->after);
}

static int query_locked(struct store_mem_world *w, const struct store_query *q,
                        int (*row)(void *arg, const struct store_cell *cells,
                                   size_t n, struct error *err),
                        void *arg, struct error *err)
{
    const struct mem_table *t = &w->tables[q->view];
    size_t n = 0, skip = 0, limit = q->limit ? (size_t)q->limit : SIZE_MAX;

    if (q->view == VIEW_USAGE)
        return mem_usage(&w->archive, w->tables, q, row, arg, err);
    if (q->view == VIEW_SCALING)
        return mem_scaling(&w->tables[VIEW_ATTEMPT], &w->tables[VIEW_ITERATION],
                           &w->guesses, q, row, arg, err);
    for (size_t i = 0; i < t->n; i++)
        n += matches(&t->items[i]->key, q);
    if (q->last && n > limit)
        skip = n - limit;
    n = 0;
    for (size_t i = 0; i < t->n && n < limit; i++) {
        struct mem_cells cells;
        if (!matches(&t->items[i]->key, q) || (skip > 0 && skip--))
            continue;
        mem_cells_fill(&cells, q->view, t->items[i]);
        n++;
        if (row(arg, cells.at, cells.n, err) < 0)
            return -1;
    }
    return 0;
}

static int mem_query(struct store *s, const struct store_query *q,
                     int (*row)(void *arg, const struct store_cell *cells,
                                size_t n, struct error *err),
                     void *arg, struct error *err)
{
    struct store_mem_world *w = world_of(s);

    if (view_check_query(q, err) < 0)
        return -1;
    pthread_mutex_lock(&w->lock);
    int rc = query_locked(w, q, row, arg, err);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

/* ---- create and destroy -------------------------------------------------- */

static int mem_intact(struct store *s, enum store_file f, struct error *err)
{
    (void)s, (void)f, (void)err;
    return 0;
}

static int mem_rescue(struct store *s, enum store_file f,
                      const _Atomic bool *stop,
                      char ret[STORE_FILE_CAP], // NOLINT(*-non-const-parameter)
                      struct error *err)
{
    (void)s, (void)f, (void)stop, (void)ret;
    return error_set(err, ERR_STATE, "this store has no files");
}

static void mem_destroy(struct store *s)
{
    if (!s)
        return;
    world_of(s)->attached = false;
    free(s);
}

static const struct event_store_ops mem_ops = {
    .name = "mem",
    .append = mem_append,
    .load = mem_load,
    .load_jobs = mem_load_jobs,
    .past = mem_past,
    .archived = mem_archived,
    .lines = mem_lines,
    .remove_jobs = mem_remove_jobs,
    .removed = mem_find_removed,
    .destroy = mem_destroy,
};

static const struct metric_store_ops mem_metric_ops = {
    .rows = mem_rows,
    .sync_rows = mem_sync_rows,
    .guesses = mem_set_guesses,
    .purge_rows = mem_purge_rows,
    .query = mem_query,
    .intact = mem_intact,
    .rescue = mem_rescue,
};

int store_mem_world_create(struct store_mem_world **ret, struct error *err)
{
    struct store_mem_world *w = calloc(1, sizeof(*w));
    if (!w)
        return error_set(err, ERR_NOMEM, "a store in memory");
    pthread_mutex_init(&w->lock, NULL); /* cannot fail with NULL attributes */
    *ret = w;
    return 0;
}

void store_mem_world_destroy(struct store_mem_world *w)
{
    if (!w)
        return;
    for (int v = 0; v < VIEW_N; v++)
        mem_table_clear(&w->tables[v]);
    mem_table_clear(&w->archive.gone_jobs);
    mem_table_clear(&w->archive.gone_attempts);
    mem_archive_free(w->archive.jobs, w->archive.n);
    free(w->archive.removed);
    mem_guesses_clear(&w->guesses);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

int store_mem_create(struct store_mem_world *w, struct store **ret,
                     struct error *err)
{
    if (w->attached)
        return error_set(err, ERR_STATE, "another store is attached");
    struct store_mem *s = calloc(1, sizeof(*s));
    if (!s)
        return error_set(err, ERR_NOMEM, "a store in memory");
    s->base = (struct store){.ops = &mem_ops, .metrics = &mem_metric_ops};
    s->world = w;
    w->attached = true;
    *ret = &s->base;
    return 0;
}
