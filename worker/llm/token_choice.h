/* token_choice.h - choose the next token from logits. */
#ifndef MGPU_WORKER_LLM_TOKEN_CHOICE_H
#define MGPU_WORKER_LLM_TOKEN_CHOICE_H

#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/base/rng.h"

struct token_rank; /* a token by its logit */

struct token_choice {
    int32_t vocab;
    double temperature, top_p;
    int32_t top_k;
    struct rng rng;
    double *logits;          /* [vocab]: write them before each next() */
    struct token_rank *rank; /* [vocab] */
};

/* in   temperature  0: the likeliest, of equal ones the first
 *      top_k  of so many of the likeliest; 0: of all
 *      top_p  of the fewest of these whose probabilities add up to it; 0, 1:
 *             of all
 * err  ERR_INVAL a value is out of range; ERR_NOMEM */
int token_choice_init(struct token_choice *c, int32_t vocab, double temperature,
                      int32_t top_k, double top_p, uint32_t seed,
                      struct error *err) MUST_CHECK;
void token_choice_clear(struct token_choice *c);

/* The same tokens for the same logits and the same seed. */
int32_t token_choice_next(struct token_choice *c);

#endif
