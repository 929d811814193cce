/* tokenizer_bpe.c - see tokenizer_bpe.h: its parts, special tokens, and the
 * text of ids. bpe_encode.c has the way there. */
#include "worker/data/tokenizer/tokenizer_bpe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/tokenizer/bpe_encode.h"
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
    for (int i = 0; i < p->patterns; i++)
        free(p->pattern[i]);
    added_tokens_clear(&p->raw);
    added_tokens_clear(&p->formed);
    *p = (struct bpe_parts){.whole = false};
}

int bpe_parts_add_pattern(struct bpe_parts *p, const char *pattern,
                          struct error *err)
{
    if (p->patterns == BPE_PATTERNS)
        return error_set(err, ERR_INVAL, "more than %d expressions",
                         BPE_PATTERNS);
    p->pattern[p->patterns] = strdup(pattern);
    if (p->pattern[p->patterns] == NULL)
        return error_set(err, ERR_NOMEM, "an expression");
    p->patterns++;
    return 0;
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
    struct pretokenizer *pieces[BPE_PATTERNS];
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
    for (int i = 0; i < BPE_PATTERNS; i++)
        pretokenizer_close(b->pieces[i]);
    bpe_parts_clear(&b->parts);
    free(b);
}

static int bpe_encode(const struct tokenizer *t, const char *text, size_t len,
                      enum text_place place, size_t most, struct buf *ret,
                      struct error *err)
{
    const struct bpe *b = bpe_of_const(t);
    return bpe_encode_text(&b->parts, b->pieces, text, len, place, most, ret,
                           err);
}

/* The text of a token, with its gaps as spaces. */
static int add_shown(const struct bpe_parts *p, const char *text, size_t len,
                     struct buf *ret, struct error *err)
{
    const char *end = text + len, *gap;
    const size_t n = strlen(p->gap);
    while (n > 0 &&
           (gap = memmem(text, (size_t)(end - text), p->gap, n)) != NULL) {
        if (buf_add(ret, text, (size_t)(gap - text), err) < 0 ||
            buf_add(ret, " ", 1, err) < 0)
            return -1;
        text = gap + n;
    }
    return buf_add(ret, text, (size_t)(end - text), err);
}

/* The byte that a token stands for; -1: it stands for text. */
static int byte_of(const struct bpe_parts *p, const char *text, size_t len)
{
    char digits[3] = "";
    char *end;
    if (!p->chars || len != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    memcpy(digits, text + 3, 2);
    const long b = strtol(digits, &end, 16);
    return end == digits + 2 && b >= 0 ? (int)b : -1;
}

static int add_text(const struct bpe_parts *p, int32_t id, struct buf *ret,
                    struct error *err)
{
    const struct bpe_special *s = bpe_parts_special(p, id);
    size_t len = 0;
    if (s != NULL)
        return s->shown ? add_shown(p, s->name, strlen(s->name), ret, err) : 0;
    const char *text =
        id < p->vocab.size ? bpe_vocab_text(&p->vocab, id, &len) : "";
    if (len == 0)
        return error_set(err, ERR_INVAL, "tokenizer: it has no id %d", id);
    const int byte = byte_of(p, text, len);
    const char one = (char)byte;
    if (byte >= 0 && p->byte_id[byte] == id)
        return buf_add(ret, &one, 1, err);
    return add_shown(p, text, len, ret, err);
}

static int bpe_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
                      struct buf *ret, struct error *err)
{
    const struct bpe_parts *p = &bpe_of_const(t)->parts;
    const size_t first = ret->len;
    for (size_t i = 0; i < n; i++)
        if (add_text(p, ids[i], ret, err) < 0)
            return -1;
    if (p->strips && ret->len > first && ret->data[first] == ' ') {
        memmove(ret->data + first, ret->data + first + 1, ret->len - first);
        ret->len--;
    }
    return 0;
}

static int32_t bpe_special(const struct tokenizer *t, const char *name)
{
    const struct bpe_special *s = by_name(&bpe_of_const(t)->parts, name);
    return s == NULL ? -1 : s->id;
}

static const struct tokenizer_ops ops = {
    bpe_close, bpe_encode, bpe_decode, bpe_special, true,
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
    b->tokenizer.ops = &ops;
    for (int i = 0; i < parts->patterns; i++)
        if (pretokenizer_open(parts->pattern[i], &b->pieces[i], err) < 0) {
            bpe_close(&b->tokenizer);
            return -1;
        }
    b->parts = *parts;
    *parts = (struct bpe_parts){.whole = false};
    set_ids(b);
    *ret = &b->tokenizer;
    return 0;
}
