/* tokenizer_bpe.c - see tokenizer_bpe.h: text is cut, cut into pieces, and the
 * bytes of each piece are merged.
 *
 * Bytes that are no UTF-8 are pieces of their own, so that the text of the ids
 * is what was encoded, whatever it was. */
#include "worker/data/tokenizer/tokenizer_bpe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/tokenizer/bpe_merge.h"
#include "worker/data/tokenizer/pretokenize.h"
#include "worker/data/tokenizer/text_cut.h"
#include "worker/data/tokenizer/tokenizer_internal.h"

/* ---- its parts ---------------------------------------------------------- */

static struct bpe_special *specials(const struct bpe_parts *p, size_t *ret_n)
{
    *ret_n = p->special.len / sizeof(struct bpe_special);
    return (void *)p->special.data;
}

void bpe_parts_clear(struct bpe_parts *p)
{
    size_t n;
    struct bpe_special *s = specials(p, &n);
    for (size_t i = 0; i < n; i++)
        free(s[i].name);
    buf_clear(&p->special);
    buf_clear(&p->names);
    bpe_vocab_clear(&p->vocab);
    free(p->pattern);
    *p = (struct bpe_parts){.pattern = NULL};
}

/* The first that has this id or a higher one. */
static size_t place_of(const struct bpe_special *s, size_t n, int32_t id)
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (s[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct bpe_special *bpe_parts_special(const struct bpe_parts *p,
                                            int32_t id)
{
    size_t n;
    const struct bpe_special *s = specials(p, &n);
    const size_t i = place_of(s, n, id);
    return i < n && s[i].id == id ? &s[i] : NULL;
}

static const uint32_t *names(const struct bpe_parts *p)
{
    return (const uint32_t *)(const void *)p->names.data;
}

static const struct bpe_special *by_name(const struct bpe_parts *p,
                                         const char *name)
{
    size_t n, low = 0;
    const struct bpe_special *s = specials(p, &n);
    size_t high = p->names.len / sizeof(uint32_t);
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const int order = strcmp(s[names(p)[middle]].name, name);
        if (order == 0)
            return &s[names(p)[middle]];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

int bpe_parts_add_special(struct bpe_parts *p, const char *name, int32_t id,
                          bool shown, struct error *err)
{
    struct bpe_special new = {.id = id, .shown = shown};
    assert(id >= 0 && id < BPE_IDS_MAX);
    new.name = strdup(name);
    if (new.name != NULL && buf_add(&p->special, &new, sizeof(new), err) == 0)
        return 0;
    free(new.name);
    return error_set(err, ERR_NOMEM, "special tokens");
}

static int compare_ids(const void *a, const void *b)
{
    const struct bpe_special *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int compare_names(const void *a, const void *b, void *arg)
{
    const struct bpe_special *s = arg;
    return strcmp(s[*(const uint32_t *)a].name, s[*(const uint32_t *)b].name);
}

static int twice(const struct bpe_special *s, struct error *err)
{
    return error_set(err, ERR_INVAL,
                     "two special tokens have the id or the name of %.40s, %d",
                     s->name, s->id);
}

int bpe_parts_sort_special(struct bpe_parts *p, struct error *err)
{
    size_t n;
    struct bpe_special *s = specials(p, &n);
    if (n == 0)
        return 0;
    qsort(s, n, sizeof(*s), compare_ids);
    buf_reset(&p->names);
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && s[i - 1].id == s[i].id)
            return twice(&s[i], err);
        if (buf_add(&p->names, &i, sizeof(i), err) < 0)
            return -1;
    }
    qsort_r(p->names.data, n, sizeof(uint32_t), compare_names, s);
    for (size_t i = 1; i < n; i++)
        if (strcmp(s[names(p)[i - 1]].name, s[names(p)[i]].name) == 0)
            return twice(&s[names(p)[i]], err);
    return 0;
}

/* ---- the tokenizer ------------------------------------------------------ */

struct bpe {
    struct tokenizer tokenizer; /* first */
    struct bpe_parts parts;
    struct pretokenizer *pieces;
};

static struct bpe *bpe_of(struct tokenizer *t)
{
    return (struct bpe *)(void *)t;
}

static const struct bpe *bpe_of_const(const struct tokenizer *t)
{
    return (const struct bpe *)(const void *)t;
}

static void bpe_close(struct tokenizer *t)
{
    struct bpe *b = bpe_of(t);
    pretokenizer_close(b->pieces);
    bpe_parts_clear(&b->parts);
    free(b);
}

struct encoding {
    const struct bpe_parts *parts;
    size_t full; /* bytes of ids in ret that are enough */
    struct buf work, *ret;
};

/* Returns 1: there are enough ids already. */
static int add_piece(void *arg, const char *piece, size_t n, struct error *err)
{
    struct encoding *e = arg;
    const struct bpe_vocab *v = &e->parts->vocab;
    if (e->ret->len >= e->full)
        return 1;
    if (e->parts->whole) {
        const int32_t id = bpe_vocab_find(v, piece, n);
        if (id >= 0)
            return buf_add(e->ret, &id, sizeof(id), err);
    }
    return bpe_merge(v, piece, n, &e->work, e->ret, err);
}

static int bpe_encode(const struct tokenizer *t, const char *text, size_t len,
                      bool goes_on, size_t most, struct buf *ret,
                      struct error *err)
{
    const struct bpe *b = bpe_of_const(t);
    struct encoding e = {.parts = &b->parts, .full = SIZE_MAX, .ret = ret};
    struct text_cut cut = text_cut_of(text, len);
    struct text_slice s;
    int rc = 0;
    (void)goes_on; /* it puts no space before a text */
    if (most > 0 && most < (SIZE_MAX - ret->len) / sizeof(int32_t))
        e.full = ret->len + most * sizeof(int32_t);
    while (rc == 0 && text_cut_next(&cut, &s))
        rc = s.utf8 ? pretokenize(b->pieces, s.at, s.len, add_piece, &e, err)
                    : add_piece(&e, s.at, s.len, err);
    buf_clear(&e.work);
    return rc < 0 ? -1 : 0;
}

static int add_text(const struct bpe_parts *p, int32_t id, struct buf *ret,
                    struct error *err)
{
    const struct bpe_special *s = bpe_parts_special(p, id);
    size_t len = 0;
    if (s != NULL)
        return s->shown ? buf_addstr(ret, s->name, err) : 0;
    const char *text =
        id < p->vocab.size ? bpe_vocab_text(&p->vocab, id, &len) : "";
    if (len == 0)
        return error_set(err, ERR_INVAL, "tokenizer: it has no id %d", id);
    return buf_add(ret, text, len, err);
}

static int bpe_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
                      struct buf *ret, struct error *err)
{
    for (size_t i = 0; i < n; i++)
        if (add_text(&bpe_of_const(t)->parts, ids[i], ret, err) < 0)
            return -1;
    return 0;
}

static int32_t bpe_special(const struct tokenizer *t, const char *name)
{
    const struct bpe_special *s = by_name(&bpe_of_const(t)->parts, name);
    return s == NULL ? -1 : s->id;
}

static const struct tokenizer_ops ops = {
    bpe_close,
    bpe_encode,
    bpe_decode,
    bpe_special,
};

/* The first of the names that a special token has: neither kind of file says
 * which of its tokens begins or ends a text. */
static int32_t named(const struct tokenizer *t, const char *const names[3])
{
    int32_t id = -1;
    for (int i = 0; i < 3 && id < 0; i++)
        id = bpe_special(t, names[i]);
    return id;
}

static void set_ids(struct bpe *b)
{
    static const char *const bos[3] = {"<|begin_of_text|>", "<s>",
                                       "<|startoftext|>"};
    static const char *const eos[3] = {"<|end_of_text|>", "</s>",
                                       "<|endoftext|>"};
    struct tokenizer *t = &b->tokenizer;
    size_t n;
    const struct bpe_special *s = specials(&b->parts, &n);
    t->ids.size = b->parts.vocab.size;
    if (n > 0 && s[n - 1].id >= t->ids.size)
        t->ids.size = s[n - 1].id + 1;
    t->ids.bos = named(t, bos);
    t->ids.eos = named(t, eos);
    t->ids.unk = -1;
}

int tokenizer_bpe_open(struct bpe_parts *parts, struct tokenizer **ret,
                       struct error *err)
{
    struct bpe *b = calloc(1, sizeof(*b));
    if (b == NULL)
        return error_set(err, ERR_NOMEM, "a tokenizer");
    if (pretokenizer_open(parts->pattern, &b->pieces, err) < 0) {
        free(b);
        return -1;
    }
    b->tokenizer.ops = &ops;
    b->parts = *parts;
    *parts = (struct bpe_parts){.pattern = NULL};
    set_ids(b);
    *ret = &b->tokenizer;
    return 0;
}
