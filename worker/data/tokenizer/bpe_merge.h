/* bpe_merge.h - merge the bytes of a piece of text to tokens. */
#ifndef MGPU_WORKER_DATA_TOKENIZER_BPE_MERGE_H
#define MGPU_WORKER_DATA_TOKENIZER_BPE_MERGE_H

#include "worker/data/tokenizer/bpe_vocab.h"

/* Appends the ids of the piece to ret: of all pairs of neighbours that merge,
 * the one of the lowest rank does, the leftmost of several, until none is left.
 *
 * work  memory for calls to come; zeroed before the first, and buf_clear()ed
 *       by the caller
 * err   ERR_INVAL a byte without a token; ERR_NOMEM
 * cost  n log n for n bytes; short pieces: n^2, which is faster for them */
int bpe_merge(const struct bpe_vocab *v, const char *piece, size_t len,
              struct buf *work, struct buf *ret, struct error *err) MUST_CHECK;

/* The same of tokens: ids are changed. */
int bpe_merge_ids(const struct bpe_vocab *v, int32_t *ids, size_t n,
                  struct buf *work, struct buf *ret,
                  struct error *err) MUST_CHECK;

#endif
