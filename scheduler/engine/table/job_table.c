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
            struct entry **b = eng_bucket(e, en->job.uid, en->own.key);
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
    struct entry **b = eng_bucket(e, en->job.uid, en->own.key);
    en->next_by_key = *b;
    *b = en;
    e->n_keys++;
    return 0;
}

static void remove_key(struct engine *e, const struct entry *en)
{
    if (!en->own.key || e->n_buckets == 0)
        return;
    for (struct entry **p = eng_bucket(e, en->job.uid, en->own.key); *p;
         p = &(*p)->next_by_key) {
        if (*p == en) {
            *p = en->next_by_key;
            e->n_keys--;
            return;
        }
    }
}

/* Reserves room for one more pointer; the array and its capacity change only on
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

int eng_put(struct engine *e, struct entry *en, struct error *err)
{
    uint64_t id = en->job.id;
    struct page *p = page_for(e, id, err);
    if (!p)
        return -1;
    assert(!p->jobs[(id - 1) % PAGE_IDS]);
    p->jobs[(id - 1) % PAGE_IDS] = en;
    p->n++;
    return 0;
}

int eng_add(struct engine *e, struct entry *en, struct error *err)
{
    uint64_t id = en->job.id;

    if (grow(&e->active, &e->cap_active, e->n_active + 1, err) < 0 ||
        (e->files.are_kept && eng_files_reserve(e, 1, err) < 0) ||
        eng_put(e, en, err) < 0)
        return -1;
    /* Ids come in ascending order, except those of damaged events. */
    size_t at = eng_at_id(e->active, e->n_active, id);
    memmove(&e->active[at + 1], &e->active[at],
            (e->n_active - at) * sizeof(struct entry *));
    e->active[at] = en;
    e->n_active++;
    if (id > e->last_id)
        e->last_id = id;
    return 0;
}

int eng_add_new(struct engine *e, uint64_t id, struct entry **ret,
                struct error *err)
{
    struct entry *en = eng_entry_new(e->parts.conf->jobs_dir, id);

    if (!en)
        return error_set(err, ERR_NOMEM, "out of memory");
    if (eng_add(e, en, err) < 0) {
        eng_entry_free(en);
        return -1;
    }
    *ret = en;
    return 0;
}

void eng_forget(struct engine *e, struct entry *en)
{
    remove_key(e, en);
    leave_page(e, en->job.id);
    eng_entry_free(en);
}

/* last_id stays: an id is never used twice, not even after an undo. */
void eng_remove(struct engine *e, struct entry *en)
{
    size_t i = eng_at_id(e->active, e->n_active, en->job.id);

    assert(i < e->n_active && e->active[i] == en);
    eng_unfile(e, en);
    e->n_active--;
    memmove(&e->active[i], &e->active[i + 1],
            (e->n_active - i) * sizeof(struct entry *));
    eng_forget(e, en);
}

void eng_set_ended(struct engine *e, const struct entry *en)
{
    if (isfinite(en->job.end_s))
        e->pages[(en->job.id - 1) / PAGE_IDS]
            ->ended_s[(en->job.id - 1) % PAGE_IDS] = en->job.end_s;
}

/* An end that is not durable yet may be undone. */
static bool lingers(const struct entry *en)
{
    return en->is_saved || en->dropped > 0;
}

static void leave(struct engine *e, struct entry *en)
{
    eng_unfile(e, en);
    e->n_ended[en->job.state]++;
    eng_runs_note(e, en);
    eng_set_ended(e, en);
    eng_list_ended(e, en);
}

/* Goes from the end, so that the entries before are where their ids say.
 * Returns the index of the first that was removed. */
static size_t take_out_ended(struct engine *e)
{
    const struct entry_list *over = &e->files.over;
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
        struct entry *en = e->active[i];
        if (job_state_is_final(en->job.state) && !lingers(en))
            leave(e, en);
        else
            e->active[n++] = en;
    }
    e->n_active = n;
}

void eng_compact(struct engine *e)
{
    const struct entry_list *over = &e->files.over;
    size_t n = take_out_ended(e), n_active = e->n_active;

    e->n_active = n;
    for (size_t i = n; i < n_active; i++)
        if (e->active[i])
            e->active[e->n_active++] = e->active[i];
    for (size_t i = 0; i < over->n;) {
        struct entry *en = over->at[i];
        if (lingers(en)) {
            i++;
            continue;
        }
        leave(e, en); /* from `over`, too */
    }
}

static void page_free(struct page *p)
{
    for (size_t i = 0; p && i < PAGE_IDS; i++)
        eng_entry_free(p->jobs[i]);
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
    eng_files_clear(e);
}
