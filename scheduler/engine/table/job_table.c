/* job_table.c - the table of jobs in memory: by id, by (uid, idempotency key),
 * and those not yet ended.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/store/archive_list.h"

static int grow_buckets(struct engine *e, struct error *err)
{
    size_t n = e->n_buckets > 0 ? 2 * e->n_buckets : 64;
    struct job_record **old = e->by_key;
    size_t n_old = e->n_buckets;
    struct job_record **new = calloc(n, sizeof(struct job_record *));

    if (!new)
        return error_set(err, ERR_NOMEM, "out of memory");
    e->by_key = new;
    e->n_buckets = n;
    for (size_t i = 0; i < n_old; i++) {
        struct job_record *next;
        for (struct job_record *rec = old[i]; rec; rec = next) {
            next = rec->next_by_key;
            struct job_record **b = eng_bucket(e, rec->job.uid, rec->own.key);
            rec->next_by_key = *b;
            *b = rec;
        }
    }
    free(old);
    return 0;
}

int eng_add_key(struct engine *e, struct job_record *rec, struct error *err)
{
    if (e->n_keys >= e->n_buckets && grow_buckets(e, err) < 0)
        return -1;
    struct job_record **b = eng_bucket(e, rec->job.uid, rec->own.key);
    rec->next_by_key = *b;
    *b = rec;
    e->n_keys++;
    return 0;
}

static void remove_key(struct engine *e, const struct job_record *rec)
{
    if (!rec->own.key || e->n_buckets == 0)
        return;
    for (struct job_record **p = eng_bucket(e, rec->job.uid, rec->own.key); *p;
         p = &(*p)->next_by_key) {
        if (*p == rec) {
            *p = rec->next_by_key;
            e->n_keys--;
            return;
        }
    }
}

/* Reserves room for one more pointer; the array and its capacity change only on
 * success. */
static int grow(struct job_record ***array, size_t *cap, size_t need,
                struct error *err)
{
    if (need <= *cap)
        return 0;
    size_t n = *cap > 0 ? *cap : 64;
    while (n < need)
        n *= 2;
    struct job_record **p = realloc(*array, n * sizeof(struct job_record *));
    if (!p)
        return error_set(err, ERR_NOMEM, "out of memory");
    memset(p + *cap, 0, (n - *cap) * sizeof(struct job_record *));
    *array = p;
    *cap = n;
    return 0;
}

/* The page of the id, with room for it. NULL: out of memory */
static struct page *page_for(struct engine *e, uint64_t id, struct error *err)
{
    size_t at = (size_t)((id - 1) / PAGE_IDS);
    size_t n = e->n_pages > 0 ? e->n_pages : 64;

    while (n <= at)
        n *= 2;
    if (n > e->n_pages) {
        struct page **pages = realloc(e->pages, n * sizeof(struct page *));
        if (!pages) {
            (void)error_set(err, ERR_NOMEM, "out of memory");
            return NULL;
        }
        memset(pages + e->n_pages, 0, (n - e->n_pages) * sizeof(struct page *));
        e->pages = pages;
        e->n_pages = n;
    }
    if (!e->pages[at]) {
        struct page *p = calloc(1, sizeof(*p));
        for (size_t i = 0; p && i < PAGE_IDS; i++)
            p->ended_s[i] = INFINITY;
        e->pages[at] = p;
    }
    if (!e->pages[at])
        (void)error_set(err, ERR_NOMEM, "out of memory");
    return e->pages[at];
}

/* Frees the page with its last job. */
static void leave_page(struct engine *e, uint64_t id)
{
    size_t at = (size_t)((id - 1) / PAGE_IDS);
    struct page *p = e->pages[at];

    p->jobs[(id - 1) % PAGE_IDS] = NULL;
    p->ended_s[(id - 1) % PAGE_IDS] = INFINITY;
    if (--p->n > 0)
        return;
    free(p);
    e->pages[at] = NULL;
}

int eng_put(struct engine *e, struct job_record *rec, struct error *err)
{
    uint64_t id = rec->job.id;
    struct page *p = page_for(e, id, err);
    if (!p)
        return -1;
    assert(!p->jobs[(id - 1) % PAGE_IDS]);
    p->jobs[(id - 1) % PAGE_IDS] = rec;
    p->n++;
    return 0;
}

int eng_add(struct engine *e, struct job_record *rec, struct error *err)
{
    uint64_t id = rec->job.id;

    if (grow(&e->active, &e->cap_active, e->n_active + 1, err) < 0 ||
        (e->lists.are_kept && eng_lists_reserve(e, 1, err) < 0) ||
        eng_put(e, rec, err) < 0)
        return -1;
    /* Ids come in ascending order, except those of damaged events. */
    size_t at = eng_at_id(e->active, e->n_active, id);
    memmove(&e->active[at + 1], &e->active[at],
            (e->n_active - at) * sizeof(struct job_record *));
    e->active[at] = rec;
    e->n_active++;
    if (id > e->last_id)
        e->last_id = id;
    return 0;
}

int eng_add_new(struct engine *e, uint64_t id, struct job_record **ret,
                struct error *err)
{
    struct job_record *rec = job_record_new(e->parts.conf->jobs_dir, id);

    if (!rec)
        return error_set(err, ERR_NOMEM, "out of memory");
    if (eng_add(e, rec, err) < 0) {
        job_record_free(rec);
        return -1;
    }
    *ret = rec;
    return 0;
}

void eng_forget(struct engine *e, struct job_record *rec)
{
    remove_key(e, rec);
    leave_page(e, rec->job.id);
    job_record_free(rec);
}

/* last_id stays: an id is never used twice, not even after an undo. */
void eng_remove(struct engine *e, struct job_record *rec)
{
    size_t i = eng_at_id(e->active, e->n_active, rec->job.id);

    assert(i < e->n_active && e->active[i] == rec);
    eng_lists_remove(e, rec);
    e->n_active--;
    memmove(&e->active[i], &e->active[i + 1],
            (e->n_active - i) * sizeof(struct job_record *));
    eng_forget(e, rec);
}

void eng_set_ended(struct engine *e, const struct job_record *rec)
{
    if (isfinite(rec->job.end_s))
        e->pages[(rec->job.id - 1) / PAGE_IDS]
            ->ended_s[(rec->job.id - 1) % PAGE_IDS] = rec->job.end_s;
}

/* An end that is not durable yet may be undone. */
static bool lingers(const struct job_record *rec)
{
    return rec->is_saved || rec->dropped > 0;
}

static void leave(struct engine *e, struct job_record *rec)
{
    eng_lists_remove(e, rec);
    e->n_ended[rec->job.state]++;
    if (!rec->job.is_run) { /* it says nothing of jobs of its name */
        eng_runtime_note(e, rec);
        eng_length_note(e, &rec->job);
    }
    eng_set_ended(e, rec);
    eng_list_ended(e, rec);
}

/* Goes from the end, so that the records before are where their ids say.
 * Returns the index of the first that was removed. */
static size_t take_out_ended(struct engine *e)
{
    const struct record_list *over = &e->lists.over;
    size_t at = e->n_active;

    for (size_t i = over->n; i-- > 0;) {
        if (lingers(over->at[i]))
            continue;
        at = eng_at_id(e->active, at, over->at[i]->job.id);
        e->active[at] = NULL;
    }
    return at;
}

void eng_compact_all(struct engine *e)
{
    size_t n = 0;

    for (size_t i = 0; i < e->n_active; i++) {
        struct job_record *rec = e->active[i];
        if (job_state_is_final(rec->job.state) && !lingers(rec))
            leave(e, rec);
        else
            e->active[n++] = rec;
    }
    e->n_active = n;
}

void eng_compact(struct engine *e)
{
    const struct record_list *over = &e->lists.over;
    size_t n = take_out_ended(e), n_active = e->n_active;

    e->n_active = n;
    for (size_t i = n; i < n_active; i++)
        if (e->active[i])
            e->active[e->n_active++] = e->active[i];
    for (size_t i = 0; i < over->n;) {
        struct job_record *rec = over->at[i];
        if (lingers(rec)) {
            i++;
            continue;
        }
        leave(e, rec); /* from `over`, too */
    }
}

static void page_free(struct page *p)
{
    for (size_t i = 0; p && i < PAGE_IDS; i++)
        job_record_free(p->jobs[i]);
    free(p);
}

void eng_index_clear(struct engine *e)
{
    for (size_t i = 0; i < e->n_pages; i++)
        page_free(e->pages[i]);
    free(e->pages);
    eng_leaving_free(e->leaving, e->n_leaving);
    free(e->by_key);
    free(e->active);
    eng_lists_clear(e);
}
