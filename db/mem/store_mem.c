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
    pthread_mutex_t lock; /* other threads read the archive */
    bool attached;
    struct mem_table tables[MEM_KIND_N];
    struct mem_archive archive;
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

enum { TEXTS_MAX = 9 };

/* The text members of an item, so that one loop copies them. */
static size_t texts_of(struct mem_item *it, enum mem_kind kind,
                       const char **ret[TEXTS_MAX])
{
    size_t n = 0;

    if (kind == MEM_EVENT)
        ret[n++] = &it->event.detail;
    if (kind == MEM_ATTEMPT) {
        ret[n++] = &it->attempt.state;
        ret[n++] = &it->attempt.native_id;
        ret[n++] = &it->attempt.place;
        ret[n++] = &it->attempt.reason;
        ret[n++] = &it->attempt.class;
        ret[n++] = &it->attempt.program;
        ret[n++] = &it->attempt.cause;
        ret[n++] = &it->attempt.gpu_type;
        ret[n++] = &it->attempt.account;
    }
    if (kind == MEM_JOB) {
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
                                  enum mem_kind kind, struct error *err)
{
    struct mem_item shallow = *from;
    const char **texts[TEXTS_MAX];
    size_t n = texts_of(&shallow, kind, texts), size = sizeof(*from);

    for (size_t i = 0; i < n; i++)
        size += *texts[i] ? strlen(*texts[i]) + 1 : 0;
    struct mem_item *it = malloc(size);
    if (!it) {
        (void)error_set(err, ERR_NOMEM, "a row of %zu bytes", size);
        return NULL;
    }
    *it = *from;
    (void)texts_of(it, kind, texts);
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

static int stage(struct staged *st, enum mem_kind kind,
                 const struct mem_item *from, struct error *err)
{
    struct mem_item *it = item_copy(from, kind, err);
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

/* Keeps texts of the old row that the new one leaves NULL, and its parent. */
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
    if (it->job.parent == 0)
        it->job.parent = was->parent;
}

/* Events, then jobs, then attempts. */
static int stage_batch(const struct store_mem_world *w, struct staged *st,
                       const struct store_batch *b, uint64_t seq,
                       struct error *err)
{
    for (size_t i = 0; i < b->n_events; i++) {
        struct mem_item it = {.event = b->events[i]};
        it.event.seq = ++seq;
        it.key = (struct mem_key){.job = it.event.job, .seq = seq};
        if (stage(st, MEM_EVENT, &it, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < b->n_jobs; i++) {
        const struct store_job *j = &b->jobs[i];
        struct mem_item it = {.key = {.job = j->id}, .job = *j};
        keep_texts(&w->tables[MEM_JOB], &it);
        if (stage(st, MEM_JOB, &it, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < b->n_attempts; i++) {
        const struct store_attempt *a = &b->attempts[i];
        struct mem_item it = {.key = {.job = a->job, .attempt = a->attempt},
                              .attempt = *a};
        if (stage(st, MEM_ATTEMPT, &it, err) < 0)
            return -1;
    }
    return 0;
}

static int append_locked(struct store_mem_world *w, const struct store_batch *b,
                         struct staged *st, struct store_archived *archived,
                         struct error *err)
{
    struct mem_table *events = &w->tables[MEM_EVENT];
    struct mem_table *jobs = &w->tables[MEM_JOB];
    struct mem_table *attempts = &w->tables[MEM_ATTEMPT];

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
    const struct mem_table *t = &w->tables[MEM_EVENT];

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
    const struct mem_table *t = &w->tables[MEM_EVENT];
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
        mem_archive_find(&w->archive, &w->tables[MEM_JOB], q, each, arg, err);
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

/* ---- create and destroy -------------------------------------------------- */

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
    for (int k = 0; k < MEM_KIND_N; k++)
        mem_table_clear(&w->tables[k]);
    mem_archive_free(w->archive.jobs, w->archive.n);
    free(w->archive.removed);
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
    s->base.ops = &mem_ops;
    s->world = w;
    w->attached = true;
    *ret = &s->base;
    return 0;
}

/* ---- what tests read ------------------------------------------------------
 */

static const struct mem_item *find(const struct store_mem_world *w,
                                   enum mem_kind kind, uint64_t job,
                                   int32_t attempt)
{
    const struct mem_table *t = &w->tables[kind];
    const struct mem_key key = {.job = job, .attempt = attempt};
    size_t at;
    return mem_table_find(t, &key, &at) ? t->items[at] : NULL;
}

const struct store_job *store_mem_job(const struct store_mem_world *w,
                                      uint64_t job)
{
    const struct mem_item *it = find(w, MEM_JOB, job, 0);
    return it ? &it->job : NULL;
}

const struct store_attempt *store_mem_attempt(const struct store_mem_world *w,
                                              uint64_t job, int32_t attempt)
{
    const struct mem_item *it = find(w, MEM_ATTEMPT, job, attempt);
    return it ? &it->attempt : NULL;
}
