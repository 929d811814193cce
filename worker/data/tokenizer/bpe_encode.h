/* bpe_encode.h - a text as the ids of a tokenizer that merges. */
#ifndef MGPU_WORKER_DATA_TOKENIZER_BPE_ENCODE_H
#define MGPU_WORKER_DATA_TOKENIZER_BPE_ENCODE_H

#include "worker/data/tokenizer/pretokenize.h"
#include "worker/data/tokenizer/tokenizer_bpe.h"

/* The ids of a text, as tokenizer_encode_some().
 * in   pieces  one for each pattern of the parts */
int bpe_encode_text(const struct bpe_parts *p,
                    struct pretokenizer *const *pieces, const char *text,
                    size_t len, enum text_place place, size_t most,
                    struct buf *ret, struct error *err) MUST_CHECK;

#endif
