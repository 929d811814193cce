/* index.c - jobs by id, by (uid, idempotency key), and those not yet ended. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "scheduler/engine/core.h"

struct entry *eng_find(const struct engine *e, uint64_t id)
{
    return id >= 1 && id <= e->last_id && id <= e->cap_ids ? e->by_id[id - 1]
                                                           : NULL;
}

/* FNV-1a, 64 bits, over the uid's and the key's bytes. */
static uint64_t hash(int64_t uid, const char *key)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; i < 64; i += 8)
        h = (h ^ (((uint64_t)uid >> i) & 0xff)) * 0x100000001b3u;
    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 0x100000001b3u;
    return h;
}

static struct entry **bucket(const struct engine *e, int64_t uid,
                             const char *key)
{
    return &e->by_key[hash(uid, key) & (e->n_buckets - 1)];
}

struct entry *eng_find_key(const struct engine *e, int64_t uid, const char *key)
{
    if (e->n_buckets == 0)
        return NULL;
    for (struct entry *en = *bucket(e, uid, key); en; en = en->next_by_key) {
        if (en->job.uid == uid && strcmp(en->own.key, key) == 0)
            return en;
    }
    return NULL;
}

static int grow_buckets(struct engine *e, struct error *err)
{
    size_t n = e->n_buckets > 0 ? 2 * e->n_buckets : 64;
    struct entry **old = e->by_key;
    size_t n_old = e->n_buckets;
    struct entry **new = calloc(n, sizeof(struct entry *));

    if (!new)
        return error_set(err, ERR_NOMEM, "out of memory");
    e->by_key = new;
    e->n_buckets = n;
    for (size_t i = 0; i < n_old; i++) {
        struct entry *next;
        for (struct entry *en = old[i]; en; en = next) {
            next = en->next_by_key;
            struct entry **b = bucket(e, en->job.uid, en->own.key);
            en->next_by_key = *b;
            *b = en;
        }
    }
    free(old);
    return 0;
}

int eng_add_key(struct engine *e, struct entry *en, struct error *err)
{
    if (e->n_keys >= e->n_buckets && grow_buckets(e, err) < 0)
        return -1;
    struct entry **b = bucket(e, en->job.uid, en->own.key);
    en->next_by_key = *b;
    *b = en;
    e->n_keys++;
    return 0;
}

static void remove_key(struct engine *e, const struct entry *en)
{
    if (!en->own.key || e->n_buckets == 0)
        return;
    for (struct entry **p = bucket(e, en->job.uid, en->own.key); *p;
         p = &(*p)->next_by_key) {
        if (*p == en) {
            *p = en->next_by_key;
            e->n_keys--;
            return;
        }
    }
}

/* Room for one more pointer; the array and its capacity are changed only on
 * success. */
static int grow(struct entry ***array, size_t *cap, size_t need,
                struct error *err)
{
    if (need <= *cap)
        return 0;
    size_t n = *cap > 0 ? *cap : 64;
    while (n < need)
        n *= 2;
    struct entry **p = realloc(*array, n * sizeof(struct entry *));
    if (!p)
        return error_set(err, ERR_NOMEM, "out of memory");
    memset(p + *cap, 0, (n - *cap) * sizeof(struct entry *));
    *array = p;
    *cap = n;
    return 0;
}

static void entry_free(struct entry *en)
{
    if (!en)
        return;
    texts_clear(&en->own);
    free(en->dir);
    free(en);
}

static struct entry *entry_new(const char *jobs_dir, uint64_t id)
{
    struct buf dir = BUF_INIT;
    struct entry *en = calloc(1, sizeof(*en));

    if (!en || buf_addf(&dir, NULL, "%s/%" PRIu64, jobs_dir, id) < 0 ||
        !(en->dir = buf_detach(&dir))) {
        buf_clear(&dir);
        free(en);
        return NULL;
    }
    en->job.id = id;
    en->job.dir = en->dir;
    en->job.state = JOB_NEW;
    en->job.exit_code = en->attempt_exit = -1;
    en->job.submit_s = en->job.start_s = en->job.end_s = NAN;
    en->job.intent_s = en->job.claim_s = en->job.run_s = NAN;
    en->job.stopped_s = NAN;
    en->job.loss = en->job.t_iter = en->job.eval_accuracy = NAN;
    en->job.start_estimate_s = en->job.beat_s = en->job.requeue_s = NAN;
    en->attempt_end_s = en->start_now_s = NAN;
    en->stalled_s = en->granted_s = NAN;
    en->ask_at_s = en->release_at_s = en->tell_at_s = INFINITY;
    en->warn_at_s = INFINITY;
    en->told_s = en->job.preempt_s = NAN;
    en->preempted_s = -INFINITY;
    en->not_before_s = -INFINITY;
    return en;
}

/* For as many jobs as by_id has room for. */
static int grow_ended(struct engine *e, struct error *err)
{
    if (e->cap_ended >= e->cap_ids)
        return 0;
    double *p = realloc(e->ended_s, e->cap_ids * sizeof(*p));
    if (!p)
        return error_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = e->cap_ended; i < e->cap_ids; i++)
        p[i] = INFINITY;
    e->ended_s = p;
    e->cap_ended = e->cap_ids;
    return 0;
}

int eng_add(struct engine *e, uint64_t id, struct entry **ret,
            struct error *err)
{
    if (grow(&e->by_id, &e->cap_ids, id, err) < 0 || grow_ended(e, err) < 0 ||
        grow(&e->active, &e->cap_active, e->n_active + 1, err) < 0 ||
        grow(&e->queue, &e->cap_queue, e->n_active + 1, err) < 0)
        return -1;
    struct entry *en = entry_new(e->parts.conf->jobs_dir, id);
    if (!en)
        return error_set(err, ERR_NOMEM, "out of memory");
    assert(!e->by_id[id - 1]);
    e->by_id[id - 1] = en;
    e->active[e->n_active++] = en;
    if (id > e->last_id)
        e->last_id = id;
    *ret = en;
    return 0;
}

/* last_id stays: an id is never given twice, not even one that was undone. */
void eng_remove(struct engine *e, struct entry *en)
{
    size_t i = e->n_active; /* who goes mostly came last */
    remove_key(e, en);
    e->by_id[en->job.id - 1] = NULL;
    while (i > 0 && e->active[i - 1] != en)
        i--;
    if (i > 0) {
        memmove(&e->active[i - 1], &e->active[i],
                (e->n_active - i) * sizeof(*e->active));
        e->n_active--;
    }
    e->is_ranked = false;
    entry_free(en);
}

void eng_compact(struct engine *e)
{
    size_t n = 0;
    for (size_t i = 0; i < e->n_active; i++) {
        const struct job *job = &e->active[i]->job;
        /* An end that is not durable yet may be undone. */
        if (!job_state_is_final(job->state) || e->active[i]->is_saved ||
            e->active[i]->dropped > 0) {
            e->active[n++] = e->active[i];
            continue;
        }
        e->n_ended[job->state]++;
        if (isfinite(job->end_s))
            e->ended_s[job->id - 1] = job->end_s;
    }
    e->n_active = n;
}

void eng_index_clear(struct engine *e)
{
    for (size_t i = 0; i < e->cap_ids; i++)
        entry_free(e->by_id[i]);
    free(e->by_id);
    free(e->ended_s);
    free(e->by_key);
    free(e->active);
    free(e->queue);
}
