/* token_rows.h - rows of token data put into the arrays of a batch. */
#ifndef MGPU_WORKER_LLM_TOKEN_ROWS_H
#define MGPU_WORKER_LLM_TOKEN_ROWS_H

#include <stdint.h>

#include "worker/data/text/packing.h"
#include "worker/llm/batches/token_batches.h"

/* Samples of a batch, and the data that they come from. */
struct token_pick {
    const struct token_data *data;
    const struct packing *packs;
    const int32_t *index; /* [n] samples; SAMPLER_NONE: a row of padding */
    int32_t n;
    int32_t pad; /* the id of padding */
    /* For pairs: log p of their answers, [2 packs.n]; NULL: not known. */
    const double *reference;
};

/* Tokens of the longest sample; 1 where none is a sample. */
int32_t token_rows_longest(const struct token_pick *p);
/* The fewest tokens of a row with which n rows hold all samples, which need
 * not begin with a row. */
int32_t token_rows_dense(const struct token_pick *p, int32_t n);

/* Fills the arrays of a batch. With r->answers the samples are pairs.
 * in     counts  [classes] of the data; overwritten
 * inout  r       n >= p->n, S >= the longest and the arrays are given; the
 *                rest is filled in, and what the arrays point to
 * err    as token_data_read() */
int token_rows_fill(struct token_rows *r, const struct token_pick *p,
                    int32_t *counts, int32_t classes,
                    struct error *err) MUST_CHECK;

#endif
