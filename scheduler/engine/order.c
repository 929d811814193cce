/* order.c - who is in a policy's view, in the policy's order.
 *
 * Sorted are keys, not the jobs of the view, which are six times as large and
 * are then written once, at their place. And seldom is anything sorted: ids
 * are given in the order of arrival, so the jobs of one priority stand in
 * their order already. They are dealt to a pile for each priority. What that
 * leaves out of order, because the clock was set back or there are many
 * priorities, is sorted.
 */
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/order.h"

enum { PILES_MAX = 16 };

struct pile {
    const struct eng_order *of; /* one of them */
    size_t n, at;
};

static bool in_view(const struct entry *en, double now_s)
{
    return job_state_is_live(en->job.state) ||
           (en->job.state == JOB_QUEUED && !en->is_waiting &&
            en->dropped == 0 && en->not_before_s <= now_s);
}

static int compare(const struct eng_order *a, const struct eng_order *b)
{
    if (a->is_owed != b->is_owed)
        return a->is_owed ? -1 : 1;
    if (a->priority != b->priority)
        return a->priority > b->priority ? -1 : 1;
    if (a->submit_s < b->submit_s || a->submit_s > b->submit_s)
        return a->submit_s < b->submit_s ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static int by_order(const void *a, const void *b)
{
    return compare(a, b);
}

static bool is_sorted(const struct eng_order *o, size_t n)
{
    size_t i = 1;
    while (i < n && compare(&o[i - 1], &o[i]) < 0)
        i++;
    return i >= n;
}

/* The pile of o; n: it has none yet. */
static size_t pile_of(const struct pile *piles, size_t n,
                      const struct eng_order *o)
{
    size_t k = 0;
    while (k < n && (piles[k].of->priority != o->priority ||
                     piles[k].of->is_owed != o->is_owed))
        k++;
    return k;
}

static int by_pile(const void *a, const void *b)
{
    return compare(((const struct pile *)a)->of, ((const struct pile *)b)->of);
}

/* From o to ret; false: there are too many piles. */
static bool deal(const struct eng_order *o, size_t n, struct eng_order *ret)
{
    struct pile piles[PILES_MAX] = {0};
    size_t n_piles = 0, at = 0;

    for (size_t i = 0; i < n; i++) {
        size_t k = pile_of(piles, n_piles, &o[i]);
        if (k == PILES_MAX)
            return false;
        if (k == n_piles)
            piles[n_piles++] = (struct pile){.of = &o[i]};
        piles[k].n++;
    }
    qsort(piles, n_piles, sizeof(*piles), by_pile);
    for (size_t k = 0; k < n_piles; k++) {
        piles[k].at = at;
        at += piles[k].n;
    }
    for (size_t i = 0; i < n; i++)
        ret[piles[pile_of(piles, n_piles, &o[i])].at++] = o[i];
    return true;
}

int eng_order(const struct engine *e, double now_s, double wall_s,
              struct eng_order **ret, size_t *ret_n, struct error *err)
{
    struct eng_order *o = calloc(2 * (e->n_active + 1), sizeof(*o));
    struct eng_order *dealt = o ? o + e->n_active + 1 : NULL;
    size_t n = 0;

    if (!o)
        return error_set(err, ERR_NOMEM, "out of memory");
    eng_find_owed(e);
    for (size_t i = 0; i < e->n_active; i++) {
        struct entry *en = e->active[i];
        if (in_view(en, now_s))
            o[n++] = (struct eng_order){
                .entry = en,
                .id = en->job.id,
                .submit_s = now_s - (wall_s - en->job.submit_s),
                .priority = en->job.priority,
                .is_owed = eng_is_owed(e, en),
            };
    }
    if (!is_sorted(o, n) && deal(o, n, dealt))
        memcpy(o, dealt, n * sizeof(*o));
    if (!is_sorted(o, n))
        qsort(o, n, sizeof(*o), by_order);
    *ret = o;
    *ret_n = n;
    return 0;
}
