/* fake_attempts.c - the attempts that the simulated cluster knows: a table
 * sorted by (job, attempt), and a list of those that are live, by age. */
#include <stdlib.h>
#include <string.h>

#include "slurm/fake/fake.h"

/* The index of (job, attempt), or the index to insert it at. */
static size_t position(const struct alloc_fake_world *w, uint64_t job,
                       int32_t attempt)
{
    size_t lo = 0;
    size_t hi = w->n_all;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct fake_attempt *f = w->all[mid];
        if (f->job < job || (f->job == job && f->attempt < attempt))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct fake_attempt *fake_find(const struct alloc_fake_world *w, uint64_t job,
                               int32_t attempt)
{
    size_t i = position(w, job, attempt);
    if (i < w->n_all && w->all[i]->job == job && w->all[i]->attempt == attempt)
        return w->all[i];
    return NULL;
}

void fake_live_remove(struct alloc_fake_world *w, struct fake_attempt *f)
{
    if (f->prev)
        f->prev->next = f->next;
    else
        w->first = f->next;
    if (f->next)
        f->next->prev = f->prev;
    else
        w->last = f->prev;
    f->prev = f->next = NULL;
    w->n_live--;
}

int fake_add(struct alloc_fake_world *w, struct fake_attempt *f,
             struct error *err)
{
    if (w->n_all == w->cap_all) {
        size_t cap = w->cap_all ? 2 * w->cap_all : 64;
        struct fake_attempt **p = calloc(cap, sizeof(struct fake_attempt *));
        if (!p)
            return error_set(err, ERR_NOMEM, "table of %zu attempts", cap);
        if (w->n_all > 0)
            memcpy(p, w->all, w->n_all * sizeof(struct fake_attempt *));
        free(w->all);
        w->all = p;
        w->cap_all = cap;
    }
    size_t i = position(w, f->job, f->attempt);
    memmove(w->all + i + 1, w->all + i,
            (w->n_all - i) * sizeof(struct fake_attempt *));
    w->all[i] = f;
    w->n_all++;
    f->prev = w->last;
    if (w->last)
        w->last->next = f;
    else
        w->first = f;
    w->last = f;
    w->n_live++;
    return 0;
}

void fake_free(struct fake_attempt *f)
{
    if (!f)
        return;
    free(f->may_use);
    free(f->at);
    free(f);
}

void fake_forget(struct alloc_fake_world *w)
{
    size_t n = 0;

    if (!w->conf.forgets || w->n_ended == 0)
        return;
    for (size_t i = 0; i < w->n_all; i++) {
        struct fake_attempt *f = w->all[i];
        if (f->is_over) {
            w->n_ended--;
            fake_free(f);
            continue;
        }
        f->is_over = f->state == FAKE_ENDED;
        w->all[n++] = f;
    }
    w->n_all = n;
}
