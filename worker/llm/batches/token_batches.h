/* token_batches.h - batches of token rows: the source of kind llm, over the
 * tokenizer, templates and packing of worker/data/text.
 *
 * A batch is n rows of S tokens, n always train.batch_size (or
 * batch_size_val) and S the longest row of the batch: rows that are shorter
 * are filled up with padding, and so are rows that are missing. The tokens of
 * the batch are one list of n * S; token i's label is token i + 1 of its
 * document where that one has a label.
 *
 * With method dpo a sample is a pair: two documents, its chosen answer and its
 * rejected one. Pairs lie one behind the other, wherever a row ends, and S is
 * as small as n * S can hold them all: less than n tokens are padding.
 */
#ifndef MGPU_WORKER_LLM_TOKEN_BATCHES_H
#define MGPU_WORKER_LLM_TOKEN_BATCHES_H

#include "jobs/http/digest_ssl.h"
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
    TOKENS_LABELLED,
    TOKENS_LABEL,
    TOKENS_LISTS, /* so many are lists of tokens */
    /* For pairs: [n, 2] struct pair_answer, the chosen answer and the rejected
     * one. */
    TOKENS_PAIR = TOKENS_LISTS,
};

/* Host memory of a batch's arrays, for batches and tests. All arrays are [n *
 * S]. */
struct token_rows {
    int32_t n, S;
    int32_t *id, *pos, *order, *labelled, *label;
    struct pair_answer *answers; /* [2 n]; NULL: samples are no pairs */
    int32_t n_labelled;          /* how many have a label */
    int64_t tokens;              /* without padding */
    int32_t window;              /* that a layer has; 0: none */
    int64_t attends, windowed;   /* struct batch */
};

/* Opens train.dataset and train.dataset_val; without the latter there are no
 * batches of evaluation. The source's info has in `classes` the highest id + 1.
 * in   env  shares 1: each rank reads for itself
 *      eos  the id that ends an answer; -1: that of the tokenizer
 *      window  tokens that a token sees in some layers, for struct batch; 0:
 *              all
 * err  ERR_INVAL the data does not fit the specification, or the ranks do not
 *      read the same rows; ERR_LIMIT a batch of too many tokens; ERR_NOTFOUND,
 *      ERR_IO, ERR_NOMEM */
int token_batches_open(const struct batch_env *env, int32_t eos, int32_t window,
                       struct batch_source **ret, struct error *err) MUST_CHECK;

/* The model has all ids of the data.
 * in   s  of token_batches_open()
 * err  ERR_INVAL "data: PATH: row 17: token id 600, ..." */
int token_batches_check(const struct batch_source *s, int32_t vocab,
                        struct error *err) MUST_CHECK;

/* ---- of pairs ------------------------------------------------------------ */

/* How many are trained on, or evaluated; 0 where samples are no pairs. */
int32_t token_batches_pairs(const struct batch_source *s, enum batch_part part);
/* Pairs [first, first + ret->valid) of the part, at most a batch of them; the
 * arrays are valid until the next call. Not between a take() and its pass. */
int token_batches_take_pairs(struct batch_source *s, enum batch_part part,
                             int32_t first, struct batch *ret,
                             struct error *err) MUST_CHECK;
/* The SHA-256 of their tokens and labels. */
int token_batches_pairs_digest(const struct batch_source *s,
                               enum batch_part part, char ret[DIGEST_HEX_CAP],
                               struct error *err) MUST_CHECK;
/* Log p [2 pairs] of the answers, from malloc(), for all batches to come.
 * own  reference: the source's */
void token_batches_set_reference(struct batch_source *s, enum batch_part part,
                                 double *reference);

#endif
