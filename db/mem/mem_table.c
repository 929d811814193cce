/* mem_table.c - the tables of the in-memory store: arrays sorted by key. */
#include <stdlib.h>
#include <string.h>

#include "db/mem/mem.h"

static int order(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int key_cmp(const struct mem_key *a, const struct mem_key *b)
{
    int c = order(a->job, b->job);
    c = c ? c : (a->attempt > b->attempt) - (a->attempt < b->attempt);
    return c ? c : order(a->seq, b->seq);
}

bool mem_table_find(const struct mem_table *t, const struct mem_key *key,
                    size_t *ret_at)
{
    size_t lo = 0, hi = t->n;

    /* Rows mostly arrive in order: check the end first. */
    if (t->n > 0 && key_cmp(&t->items[t->n - 1]->key, key) < 0)
        lo = t->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (key_cmp(&t->items[mid]->key, key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    *ret_at = lo;
    return lo < t->n && key_cmp(&t->items[lo]->key, key) == 0;
}

int mem_table_reserve(struct mem_table *t, size_t more, struct error *err)
{
    size_t cap = t->cap ? t->cap : 16;

    while (cap < t->n + more)
        cap *= 2;
    if (cap == t->cap)
        return 0;
    struct mem_item **items =
        realloc(t->items, cap * sizeof(struct mem_item *));
    if (!items)
        return error_set(err, ERR_NOMEM, "a table of %zu rows", cap);
    t->items = items;
    t->cap = cap;
    return 0;
}

void mem_table_insert(struct mem_table *t, size_t at, struct mem_item *it)
{
    memmove(t->items + at + 1, t->items + at,
            (t->n - at) * sizeof(struct mem_item *));
    t->items[at] = it;
    t->n++;
}

void mem_table_put(struct mem_table *t, struct mem_item *it)
{
    size_t at;

    if (mem_table_find(t, &it->key, &at)) {
        free(t->items[at]);
        t->items[at] = it;
    } else {
        mem_table_insert(t, at, it);
    }
}

void mem_table_clear(struct mem_table *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->items[i]);
    free(t->items);
    *t = (struct mem_table){.items = NULL};
}
