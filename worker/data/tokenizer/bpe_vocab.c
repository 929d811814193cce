/* bpe_vocab.c - see bpe_vocab.h. Both tables are open hash tables, at most
 * half full. */
#include "worker/data/tokenizer/bpe_vocab.h"

#include <stdlib.h>
#include <string.h>

enum { MERGES_FIRST = 1024 };

static int no_memory(struct error *err)
{
    return error_set(err, ERR_NOMEM, "the tokens of a tokenizer");
}

static struct bpe_merge *free_merges(uint32_t n)
{
    struct bpe_merge *m = malloc(n * sizeof(*m));
    for (uint32_t i = 0; m != NULL && i < n; i++)
        m[i] = (struct bpe_merge){.id = -1};
    return m;
}

int bpe_vocab_init(struct bpe_vocab *v, int32_t size, struct error *err)
{
    *v = (struct bpe_vocab){.size = size, .slots = 2, .merges = MERGES_FIRST};
    while (v->slots < 2 * (uint32_t)size)
        v->slots *= 2;
    v->token = calloc((size_t)size, sizeof(*v->token));
    v->slot = malloc(v->slots * sizeof(*v->slot));
    v->merge = free_merges(v->merges);
    if (v->token == NULL || v->slot == NULL || v->merge == NULL) {
        bpe_vocab_clear(v);
        return no_memory(err);
    }
    for (uint32_t i = 0; i < v->slots; i++)
        v->slot[i].id = -1;
    for (int i = 0; i < 256; i++)
        v->byte[i] = -1;
    return 0;
}

void bpe_vocab_clear(struct bpe_vocab *v)
{
    buf_clear(&v->bytes);
    free(v->token);
    free(v->slot);
    free(v->merge);
    *v = (struct bpe_vocab){.size = 0};
}

/* Eight bytes at a time; what is multiplied is folded, so that each byte
 * changes all bits. */
static uint32_t hash_of(const char *p, size_t len)
{
    const uint64_t k = 0x9e3779b97f4a7c15U;
    uint64_t h = len * k, w;
    for (; len >= sizeof(w); p += sizeof(w), len -= sizeof(w)) {
        memcpy(&w, p, sizeof(w));
        h = (h ^ w) * k;
        h ^= h >> 29;
    }
    w = 0;
    for (size_t i = 0; i < len; i++)
        w |= (uint64_t)(unsigned char)p[i] << (8 * i);
    h = (h ^ w) * k;
    h ^= h >> 29;
    return (uint32_t)((h * k) >> 32);
}

/* The slot of the bytes, or the free one where they would be. */
static uint32_t slot_of(const struct bpe_vocab *v, uint32_t hash,
                        const char *bytes, size_t len)
{
    uint32_t i = hash & (v->slots - 1);
    for (; v->slot[i].id >= 0; i = (i + 1) & (v->slots - 1)) {
        const struct bpe_token *t = &v->token[v->slot[i].id];
        if (v->slot[i].hash == hash && t->len == len &&
            memcmp(v->bytes.data + t->at, bytes, len) == 0)
            break;
    }
    return i;
}

int32_t bpe_vocab_find(const struct bpe_vocab *v, const char *bytes, size_t len)
{
    if (len == 1)
        return v->byte[(unsigned char)bytes[0]];
    return v->slot[slot_of(v, hash_of(bytes, len), bytes, len)].id;
}

int bpe_vocab_add(struct bpe_vocab *v, int32_t id, const char *bytes,
                  size_t len, struct error *err)
{
    if (id < 0 || id >= v->size)
        return error_set(err, ERR_INVAL, "id %d, allowed are 0 to %d", id,
                         v->size - 1);
    if (len == 0)
        return error_set(err, ERR_INVAL, "the token of id %d is empty", id);
    if (v->token[id].len > 0)
        return error_set(err, ERR_INVAL, "two tokens have id %d", id);
    const uint32_t hash = hash_of(bytes, len);
    const uint32_t i = slot_of(v, hash, bytes, len);
    if (v->slot[i].id >= 0)
        return error_set(err, ERR_INVAL, "ids %d and %d have the same bytes",
                         v->slot[i].id, id);
    const size_t at = v->bytes.len; /* files are below 4 GiB */
    if (buf_add(&v->bytes, bytes, len, err) < 0)
        return -1;
    v->token[id] = (struct bpe_token){(uint32_t)at, (uint32_t)len};
    v->slot[i] = (struct bpe_slot){hash, id};
    if (len == 1)
        v->byte[(unsigned char)bytes[0]] = id;
    v->tokens++;
    return 0;
}

/* ---- pairs -------------------------------------------------------------- */

static void put(struct bpe_merge *list, uint32_t n, struct bpe_merge m)
{
    uint32_t i = bpe_pair_slot(m.pair, n);
    while (list[i].id >= 0)
        i = (i + 1) & (n - 1);
    list[i] = m;
}

static int more_merges(struct bpe_vocab *v, struct error *err)
{
    const uint32_t n = 2 * v->merges;
    struct bpe_merge *m = free_merges(n);
    if (m == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < v->merges; i++)
        if (v->merge[i].id >= 0)
            put(m, n, v->merge[i]);
    free(v->merge);
    v->merge = m;
    v->merges = n;
    return 0;
}

static int add_merge(struct bpe_vocab *v, int32_t left, int32_t right,
                     int32_t rank, int32_t id, struct error *err)
{
    if (bpe_vocab_pair(v, left, right) != NULL)
        return 0;
    if (2 * (v->used + 1) > v->merges && more_merges(v, err) < 0)
        return -1;
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    put(v->merge, v->merges, (struct bpe_merge){pair, rank, id});
    v->used++;
    return 0;
}

int bpe_vocab_merge(struct bpe_vocab *v, int32_t left, int32_t right,
                    int32_t rank, struct error *err)
{
    struct buf both = BUF_INIT;
    size_t n, m;
    const char *a = bpe_vocab_text(v, left, &n);
    const char *b = bpe_vocab_text(v, right, &m);
    int rc = buf_add(&both, a, n, err);
    rc = rc < 0 ? rc : buf_add(&both, b, m, err);
    const int32_t id = rc < 0 ? -1 : bpe_vocab_find(v, both.data, both.len);
    buf_clear(&both);
    if (rc < 0)
        return -1;
    if (id < 0)
        return error_set(err, ERR_INVAL,
                         "ids %d and %d merge to a token that is not there",
                         left, right);
    return add_merge(v, left, right, rank, id, err);
}

int bpe_vocab_merge_all(struct bpe_vocab *v, struct error *err)
{
    for (int32_t id = 0; id < v->size; id++) {
        size_t len;
        const char *p = bpe_vocab_text(v, id, &len);
        for (size_t n = 1; n < len; n++) {
            const int32_t left = bpe_vocab_find(v, p, n);
            const int32_t right =
                left < 0 ? -1 : bpe_vocab_find(v, p + n, len - n);
            if (right >= 0 && add_merge(v, left, right, id, id, err) < 0)
                return -1;
        }
    }
    return 0;
}
