/* json_pipeline.h - what tokenizer.json does to a text around its model:
 * normalizer, pre_tokenizer and decoder. */
#ifndef MGPU_WORKER_DATA_TOKENIZER_JSON_PIPELINE_H
#define MGPU_WORKER_DATA_TOKENIZER_JSON_PIPELINE_H

#include <jansson.h>

#include "worker/data/tokenizer/tokenizer_bpe.h"

/* in   root  the file
 * out  ret_bytes  tokens are written in ByteLevel's alphabet
 * err  ERR_INVAL what is not understood, with its path in the file; ERR_NOMEM
 */
int json_pipeline_read(const json_t *root, struct bpe_parts *p, bool *ret_bytes,
                       struct error *err) MUST_CHECK;

#endif
