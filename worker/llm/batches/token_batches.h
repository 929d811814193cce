/* token_batches.h - batches of token rows: the source of kind llm, over the
 * tokenizer, templates and packing of worker/data/text.
 *
 * A batch is n rows of S tokens, n always train.batch_size (or
 * batch_size_val) and S the longest row of the batch: rows that are shorter
 * are filled up with padding, and so are rows that are missing. The tokens of
 * the batch are one list of n * S; token i's label is token i + 1 of its
 * document where that one is judged.
 */
#ifndef MGPU_WORKER_LLM_TOKEN_BATCHES_H
#define MGPU_WORKER_LLM_TOKEN_BATCHES_H

#include "worker/batch.h"

/* The arrays of a batch, [n, S] i32 each; bytes of a sample: 4 S. */
enum token_array {
    TOKENS_ID,
    /* The position in its document, from 0; a row of a pack holds several
     * documents. Padding: 0. */
    TOKENS_POS,
    /* 0..n*S-1, so that the ids in this order ascend, equal ones in the order
     * of the list. */
    TOKENS_ORDER,
    /* The tokens that have a label, ascending, and their labels: weight of
     * them (batch.h); what follows in the arrays is not read. */
    TOKENS_JUDGED,
    TOKENS_LABEL,
};

/* What the arrays of a batch hold, in host memory; for batches and tests.
 * All arrays are [n * S]. */
struct token_rows {
    int32_t n, S;
    int32_t *id, *pos, *order, *judged, *label;
    int32_t judges; /* how many have a label */
    int64_t tokens; /* without padding */
};

/* Opens train.dataset and train.dataset_val; without the latter there are no
 * batches of evaluation. The source's info has in `classes` the highest id + 1.
 * in   env  shares 1: each rank reads for itself
 *      eos  the id that ends an answer; -1: that of the tokenizer
 * err  ERR_INVAL the data does not fit the specification, or the ranks do not
 *      read the same rows; ERR_LIMIT a batch of too many tokens; ERR_NOTFOUND,
 *      ERR_IO, ERR_NOMEM */
int token_batches_open(const struct batch_env *env, int32_t eos,
                       struct batch_source **ret, struct error *err) MUST_CHECK;

/* The model has all ids of the data.
 * in   s  of token_batches_open()
 * err  ERR_INVAL "data: PATH: row 17: token id 600, ..." */
int token_batches_check(const struct batch_source *s, int32_t vocab,
                        struct error *err) MUST_CHECK;

#endif
