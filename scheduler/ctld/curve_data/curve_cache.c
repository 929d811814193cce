/* curve_cache.c - see curve_cache.h. */
#include "scheduler/ctld/curve_data/curve_cache.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/wire/metric_rows.h"

struct place {
    int32_t attempt;
    int64_t x; /* iteration or epoch */
};
static const struct place NOWHERE = {.attempt = INT32_MAX, .x = INT64_MAX};

/* A curve. Only the reader's thread uses `read` and changes the list; the lock
 * is for those who look for a curve meanwhile, and for `late`. */
struct kept {
    struct kept *next;
    char of[METRIC_NAME_CAP];
    struct curve_read read;
    struct place late; /* from there on rows came late; NOWHERE */
};

struct curve_cache {
    pthread_mutex_t lock;
    struct kept *first; /* the one that was asked for last */
    size_t max_bytes;
};

int curve_cache_create(size_t max_bytes, struct curve_cache **ret,
                       struct error *err)
{
    struct curve_cache *c = calloc(1, sizeof(*c));
    if (!c)
        return error_set(err, ERR_NOMEM, "curves");
    (void)pthread_mutex_init(&c->lock, NULL);
    c->max_bytes = max_bytes;
    *ret = c;
    return 0;
}

static void kept_free(struct kept *k)
{
    curve_read_clear(&k->read);
    free(k);
}

void curve_cache_destroy(struct curve_cache *cache)
{
    if (!cache)
        return;
    for (struct kept *k = cache->first, *next = NULL; k; k = next) {
        next = k->next;
        kept_free(k);
    }
    (void)pthread_mutex_destroy(&cache->lock);
    free(cache);
}

static bool is_of(const struct kept *k, const struct curve_read *like)
{
    return k->read.job == like->job &&
           k->read.source.view == like->source.view &&
           strcmp(k->of, like->source.name) == 0;
}

/* The curve, which becomes the first one; NULL: it is not there. */
static struct kept *find(struct curve_cache *cache,
                         const struct curve_read *like)
{
    for (struct kept **p = &cache->first; *p; p = &(*p)->next) {
        struct kept *k = *p;
        if (!is_of(k, like))
            continue;
        *p = k->next;
        k->next = cache->first;
        cache->first = k;
        return k;
    }
    return NULL;
}

static struct kept *add(struct curve_cache *cache,
                        const struct curve_read *like)
{
    struct kept *k = calloc(1, sizeof(*k));
    if (!k)
        return NULL;
    (void)snprintf(k->of, sizeof(k->of), "%s", like->source.name);
    curve_read_init(&k->read, like, CURVE_CACHE_POINTS, 1);
    k->read.source.name = k->of;
    k->read.attempt = 1;
    k->read.begin = 0;
    k->late = NOWHERE;
    k->next = cache->first;
    cache->first = k;
    return k;
}

/* The curve with what came late put right. */
static struct kept *take(struct curve_cache *cache,
                         const struct curve_read *like)
{
    (void)pthread_mutex_lock(&cache->lock);
    struct kept *k = find(cache, like);
    if (!k)
        k = add(cache, like);
    const struct place late = k ? k->late : NOWHERE;
    if (k)
        k->late = NOWHERE;
    (void)pthread_mutex_unlock(&cache->lock);
    if (k && curve_read_has(&k->read, late.attempt, late.x))
        curve_read_again(&k->read, late.attempt, late.x);
    return k;
}

/* Those that were not asked for the longest are the last ones. */
static void drop_oldest(struct curve_cache *cache)
{
    size_t bytes = 0, n = 0;
    struct kept *gone = NULL;
    (void)pthread_mutex_lock(&cache->lock);
    for (struct kept **p = &cache->first; *p && !gone; p = &(*p)->next) {
        bytes += sizeof(**p) + thinning_bytes(&(*p)->read.curve);
        if ((bytes > cache->max_bytes && n > 0) || n == CURVE_CACHE_CURVES) {
            gone = *p;
            *p = NULL;
            break;
        }
        n++;
    }
    (void)pthread_mutex_unlock(&cache->lock);
    for (struct kept *next = NULL; gone; gone = next) {
        next = gone->next;
        kept_free(gone);
    }
}

static void drop_first(struct curve_cache *cache)
{
    (void)pthread_mutex_lock(&cache->lock);
    struct kept *k = cache->first;
    cache->first = k->next;
    (void)pthread_mutex_unlock(&cache->lock);
    kept_free(k);
}

int curve_cache_read(struct curve_cache *cache, struct store *s,
                     const struct curve_read *like, int64_t *io_n,
                     const struct curve_read **ret, struct error *err)
{
    struct kept *k = take(cache, like);
    if (!k)
        return error_set(err, ERR_NOMEM, "curves");
    k->read.attempt_last = like->attempt_last;
    if (curve_read_portion(&k->read, s, io_n, err) < 0) {
        drop_first(cache);
        return -1;
    }
    drop_oldest(cache);
    *ret = &k->read;
    return 0;
}

/* The x of a row that the curve may have; -1: it has it not. */
static int64_t x_of(const struct kept *k, const struct metric_row *row)
{
    const struct curve_read *r = &k->read;
    const bool is_any = r->rank < 0;
    if (row->kind == METRIC_ITERATION && r->source.view == VIEW_ITERATION &&
        (is_any || r->rank == row->iteration.rank))
        return row->iteration.iteration;
    if (row->kind == METRIC_EPOCH && r->source.view == VIEW_EPOCH)
        return row->epoch.epoch;
    if (row->kind == METRIC_VALUE && r->source.view == VIEW_METRIC &&
        strcmp(k->of, row->value.name) == 0)
        return row->value.iteration;
    return -1;
}

static void note_late(struct kept *k, int32_t attempt, int64_t x)
{
    if (attempt < k->late.attempt ||
        (attempt == k->late.attempt && x < k->late.x))
        k->late = (struct place){.attempt = attempt, .x = x};
}

void curve_cache_note(struct curve_cache *cache, uint64_t job, int32_t attempt,
                      const struct metric_row *rows, size_t n)
{
    if (!cache)
        return;
    (void)pthread_mutex_lock(&cache->lock);
    for (struct kept *k = cache->first; k; k = k->next)
        for (size_t i = 0; k->read.job == job && i < n; i++) {
            const int64_t x = x_of(k, &rows[i]);
            if (x >= 0)
                note_late(k, attempt, x);
        }
    (void)pthread_mutex_unlock(&cache->lock);
}

void curve_cache_forget(struct curve_cache *cache, uint64_t first,
                        uint64_t last)
{
    (void)pthread_mutex_lock(&cache->lock);
    for (struct kept *k = cache->first; k; k = k->next)
        if (k->read.job >= first && k->read.job <= last)
            note_late(k, 0, 0);
    (void)pthread_mutex_unlock(&cache->lock);
}
