/* bpe_merge.c - see bpe_merge.h.
 *
 * A short piece is an array of tokens that closes up after each merge, and
 * the pair of the lowest rank is searched from the left. A long one is a list
 * of tokens and a heap of pairs: a pair that a merge has changed stays in the
 * heap and is recognised when it comes up. */
#include "worker/data/tokenizer/bpe_merge.h"

#include <limits.h>
#include <stdlib.h>

enum {
    SHORT_MAX = 64, /* bytes; all words are shorter */
    NO_RANK = INT_MAX
};

/* ---- short pieces ------------------------------------------------------- */

struct pair {
    int32_t rank, id; /* what this token and the next one become */
};

static struct pair pair_of(const struct bpe_vocab *v, int32_t left,
                           int32_t right)
{
    const struct bpe_merge *m = bpe_vocab_pair(v, left, right);
    return m == NULL ? (struct pair){NO_RANK, -1}
                     : (struct pair){m->rank, m->id};
}

static int merge_short(const struct bpe_vocab *v, int32_t *id, int n,
                       struct buf *ret, struct error *err)
{
    struct pair pair[SHORT_MAX];
    for (int i = 0; i + 1 < n; i++)
        pair[i] = pair_of(v, id[i], id[i + 1]);
    while (n > 1) {
        int at = 0;
        for (int i = 1; i + 1 < n; i++)
            if (pair[i].rank < pair[at].rank)
                at = i;
        if (pair[at].rank == NO_RANK)
            break;
        id[at] = pair[at].id;
        n--;
        for (int i = at + 1; i < n; i++) {
            id[i] = id[i + 1];
            pair[i - 1] = pair[i];
        }
        if (at > 0)
            pair[at - 1] = pair_of(v, id[at - 1], id[at]);
        if (at + 1 < n)
            pair[at] = pair_of(v, id[at], id[at + 1]);
    }
    return buf_add(ret, id, (size_t)n * sizeof(*id), err);
}

/* ---- long pieces -------------------------------------------------------- */

struct node {
    int32_t id; /* -1: merged into the node before it */
    int32_t before, after;
};

/* at orders pairs of one rank; left and right say whether it still is one. */
struct candidate {
    int32_t rank, at, left, right, id;
};

struct heap {
    struct candidate *c;
    size_t n;
};

static bool is_first(const struct candidate *a, const struct candidate *b)
{
    return a->rank < b->rank || (a->rank == b->rank && a->at < b->at);
}

static void push(struct heap *h, struct candidate c)
{
    size_t i = h->n++;
    while (i > 0 && is_first(&c, &h->c[(i - 1) / 2])) {
        h->c[i] = h->c[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h->c[i] = c;
}

static struct candidate pop(struct heap *h)
{
    const struct candidate first = h->c[0], last = h->c[--h->n];
    size_t i = 0, k;
    while ((k = 2 * i + 1) < h->n) {
        if (k + 1 < h->n && is_first(&h->c[k + 1], &h->c[k]))
            k++;
        if (!is_first(&h->c[k], &last))
            break;
        h->c[i] = h->c[k];
        i = k;
    }
    h->c[i] = last;
    return first;
}

static void consider(const struct bpe_vocab *v, const struct node *list,
                     int32_t at, struct heap *h)
{
    const int32_t after = list[at].after;
    if (after < 0)
        return;
    const struct pair p = pair_of(v, list[at].id, list[after].id);
    if (p.rank != NO_RANK)
        push(h,
             (struct candidate){p.rank, at, list[at].id, list[after].id, p.id});
}

static void merge_list(const struct bpe_vocab *v, struct node *list, int32_t n,
                       struct heap *h)
{
    for (int32_t i = 0; i + 1 < n; i++)
        consider(v, list, i, h);
    while (h->n > 0) {
        const struct candidate c = pop(h);
        struct node *node = &list[c.at];
        if (node->id != c.left || node->after < 0 ||
            list[node->after].id != c.right)
            continue;
        struct node *gone = &list[node->after];
        node->id = c.id;
        node->after = gone->after;
        gone->id = -1;
        if (node->after >= 0)
            list[node->after].before = c.at;
        consider(v, list, c.at, h);
        if (node->before >= 0)
            consider(v, list, node->before, h);
    }
}

/* n bytes make n - 1 pairs, and each of at most n - 1 merges two more. */
static int merge_long(const struct bpe_vocab *v, const int32_t *id, size_t n,
                      struct buf *work, struct buf *ret, struct error *err)
{
    const size_t nodes = n * sizeof(struct node);
    const size_t pairs = 3 * n * sizeof(struct candidate);
    buf_reset(work);
    if (buf_reserve(work, nodes + pairs, err) < 0)
        return -1;
    struct node *list = (void *)work->data;
    struct heap h = {.c = (void *)(work->data + nodes)};
    for (size_t i = 0; i < n; i++)
        list[i] = (struct node){id[i], (int32_t)i - 1,
                                i + 1 < n ? (int32_t)i + 1 : -1};
    merge_list(v, list, (int32_t)n, &h);
    for (int32_t i = 0; i >= 0; i = list[i].after)
        if (buf_add(ret, &list[i].id, sizeof(int32_t), err) < 0)
            return -1;
    return 0;
}

static int ids_of_bytes(const struct bpe_vocab *v, const char *piece,
                        size_t len, int32_t *ret, struct error *err)
{
    for (size_t i = 0; i < len; i++) {
        ret[i] = v->byte[(unsigned char)piece[i]];
        if (ret[i] < 0)
            return error_set(err, ERR_INVAL,
                             "the tokenizer has no token for byte 0x%02x of "
                             "the text",
                             (unsigned char)piece[i]);
    }
    return 0;
}

int bpe_merge_ids(const struct bpe_vocab *v, int32_t *ids, size_t n,
                  struct buf *work, struct buf *ret, struct error *err)
{
    if (n == 0)
        return 0;
    return n <= SHORT_MAX ? merge_short(v, ids, (int)n, ret, err)
                          : merge_long(v, ids, n, work, ret, err);
}

int bpe_merge(const struct bpe_vocab *v, const char *piece, size_t len,
              struct buf *work, struct buf *ret, struct error *err)
{
    int32_t few[SHORT_MAX];
    if (len <= SHORT_MAX) {
        if (ids_of_bytes(v, piece, len, few, err) < 0)
            return -1;
        return bpe_merge_ids(v, few, len, work, ret, err);
    }
    int32_t *ids = malloc(len * sizeof(*ids));
    if (ids == NULL)
        return error_set(err, ERR_NOMEM, "a piece of %zu bytes", len);
    int rc = ids_of_bytes(v, piece, len, ids, err);
    rc = rc < 0 ? rc : bpe_merge_ids(v, ids, len, work, ret, err);
    free(ids);
    return rc;
}
