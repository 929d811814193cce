/* bpe_vocab.h - the tokens of a byte-level BPE and which pairs of them merge.
 *
 * Readers of files fill it; after that it does not change. */
#ifndef MGPU_WORKER_DATA_TOKENIZER_BPE_VOCAB_H
#define MGPU_WORKER_DATA_TOKENIZER_BPE_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

enum { BPE_IDS_MAX = 1 << 21 }; /* the largest known have 2^18 */

struct bpe_token {
    uint32_t at, len; /* in bytes; len 0: no token has this id */
};

struct bpe_merge {
    uint64_t pair; /* id of the left token << 32 | that of the right one */
    int32_t rank;  /* pairs of lower ranks merge first */
    int32_t id;    /* the token that they become; -1: the slot is free */
};

struct bpe_slot {
    uint32_t hash;
    int32_t id; /* -1: the slot is free */
};

struct bpe_vocab {
    struct buf bytes;        /* of all tokens */
    struct bpe_token *token; /* by id */
    int32_t size;            /* ids are 0..size-1 */
    int32_t tokens;
    struct bpe_slot *slot; /* ids by bytes */
    uint32_t slots;        /* a power of 2 */
    struct bpe_merge *merge;
    uint32_t merges, used; /* slots, a power of 2, and those in use */
    int32_t byte[256];     /* the token of each byte; -1: none */
};

/* No tokens and no pairs.
 * in   size  ids are 0..size-1; 1..BPE_IDS_MAX */
int bpe_vocab_init(struct bpe_vocab *v, int32_t size,
                   struct error *err) MUST_CHECK;
void bpe_vocab_clear(struct bpe_vocab *v); /* a zeroed one is fine */

/* err  ERR_INVAL the id or the bytes have a token already, or there are no
 *      bytes, or no such id; ERR_NOMEM */
int bpe_vocab_add(struct bpe_vocab *v, int32_t id, const char *bytes,
                  size_t len, struct error *err) MUST_CHECK;

/* The id of a token by its bytes; -1: there is none. */
int32_t bpe_vocab_find(const struct bpe_vocab *v, const char *bytes,
                       size_t len);

/* The text of an id; len 0 if no token has it. */
static inline const char *bpe_vocab_text(const struct bpe_vocab *v, int32_t id,
                                         size_t *ret_len)
{
    *ret_len = v->token[id].len;
    return buf_str(&v->bytes) + v->token[id].at;
}

/* Two tokens merge to the one that has the bytes of both. The first call for
 * a pair counts.
 * err  ERR_INVAL no token has these bytes; ERR_NOMEM */
int bpe_vocab_merge(struct bpe_vocab *v, int32_t left, int32_t right,
                    int32_t rank, struct error *err) MUST_CHECK;

/* Any two tokens merge whose bytes together are a token, and the id of that is
 * the rank: tiktoken's rule. */
int bpe_vocab_merge_all(struct bpe_vocab *v, struct error *err) MUST_CHECK;

/* Multiplication spreads the ids; slots are then tried one after the
 * other. */
static inline uint32_t bpe_pair_slot(uint64_t pair, uint32_t slots)
{
    return (uint32_t)((pair * 0x9e3779b97f4a7c15U) >> 32) & (slots - 1);
}

/* The merge of a pair; NULL: it has none. Inline, because an encoding spends
 * most of its time here. */
static inline const struct bpe_merge *bpe_vocab_pair(const struct bpe_vocab *v,
                                                     int32_t left,
                                                     int32_t right)
{
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint32_t i = bpe_pair_slot(pair, v->merges);
    while (v->merge[i].id >= 0) {
        if (v->merge[i].pair == pair)
            return &v->merge[i];
        i = (i + 1) & (v->merges - 1);
    }
    return NULL;
}

#endif
