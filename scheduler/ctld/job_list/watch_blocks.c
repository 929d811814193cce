/* watch_blocks.c - see watch_blocks.h.
 *
 * There are few: a list of 10,000 jobs is 160 blocks of one kind of viewer, and
 * all go after a second. So they are looked for one by one. */
#include "scheduler/ctld/job_list/watch_blocks.h"

#include <stdlib.h>

const struct watch_block *watch_blocks_find(const struct watch_blocks *b,
                                            uint64_t after, int64_t viewer)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->v[i].after == after && b->v[i].viewer == viewer)
            return &b->v[i];
    return NULL;
}

const struct watch_block *watch_blocks_add(struct watch_blocks *b,
                                           const struct watch_block *block)
{
    if (b->n == b->cap) {
        size_t cap = b->cap ? 2 * b->cap : 16;
        struct watch_block *v = realloc(b->v, cap * sizeof(*v));
        if (!v) {
            http_shared_unref(block->text);
            return NULL;
        }
        b->v = v;
        b->cap = cap;
    }
    b->v[b->n] = *block;
    return &b->v[b->n++];
}

void watch_blocks_changed(struct watch_blocks *b, uint64_t job)
{
    for (size_t i = 0; i < b->n;) {
        if (job <= b->v[i].after || job > b->v[i].last) {
            i++;
            continue;
        }
        http_shared_unref(b->v[i].text);
        b->v[i] = b->v[--b->n];
    }
}

void watch_blocks_clear(struct watch_blocks *b)
{
    for (size_t i = 0; i < b->n; i++)
        http_shared_unref(b->v[i].text);
    free(b->v);
    *b = (struct watch_blocks){.n = 0};
}
