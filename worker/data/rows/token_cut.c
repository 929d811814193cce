/* token_cut.c - see token_cut.h. */
#include "worker/data/rows/token_cut.h"

static size_t ints_of(const struct buf *b)
{
    return b->len / sizeof(int32_t);
}

static void shorten(struct buf *b, size_t ints)
{
    b->len = ints * sizeof(int32_t);
    if (b->data != NULL)
        b->data[b->len] = '\0';
}

int32_t token_cut_labelled(const struct buf *labels, size_t first)
{
    const int32_t *label = (const void *)labels->data;
    int32_t n = 0;
    for (size_t i = first + 1; i < ints_of(labels); i++)
        n += label[i] >= 0;
    return n;
}

void token_cut_label(const struct buf *ids, struct buf *labels, size_t first,
                     size_t n)
{
    const int32_t *id = (const void *)ids->data;
    int32_t *label = (void *)labels->data;
    for (size_t i = first; i < ints_of(ids); i++)
        label[i] = i - first < n ? -1 : id[i];
}

int32_t token_cut(struct buf *ids, struct buf *labels, size_t first,
                  size_t most)
{
    if (most == 0 || ints_of(ids) - first <= most)
        return -1;
    const int32_t all = token_cut_labelled(labels, first);
    shorten(ids, first + most);
    shorten(labels, first + most);
    return all - token_cut_labelled(labels, first);
}
