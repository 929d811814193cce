/* token_rates.h - how fast tokens are read and made: those of prompts, and
 * those of answers, as programs that generate count them. */
#ifndef MGPU_WORKER_MODEL_TOOL_TOKEN_RATES_H
#define MGPU_WORKER_MODEL_TOOL_TOKEN_RATES_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/clock.h"

struct token_rates {
    const struct clock *clock; /* borrowed */
    /* Of all answers: tokens of prompts that were computed, tokens of prompts
     * whose keys and values were there, tokens of answers. */
    int64_t prompt, kept, made;
    /* The time to the first token of each answer, and the time behind it, which
     * `passes` passes took. A pass that ends an answer makes no token. */
    double prompt_s, made_s;
    int64_t passes;
    /* Of the answer at hand: */
    double begin_s, first_s; /* first_s < 0: it has no token yet */
    int64_t made_before;
};

static inline struct token_rates token_rates_of(const struct clock *c)
{
    return (struct token_rates){.clock = c};
}

/* An answer begins, to a prompt of so many tokens. */
void token_rates_begin(struct token_rates *r, int64_t prompt, int64_t kept);
/* It has one more token. */
void token_rates_add(struct token_rates *r);
/* It ends. in  by_token  a pass gave the token that ends it */
void token_rates_end(struct token_rates *r, bool by_token);

/* Tokens a second; 0: not known. */
double token_rates_prompt(const struct token_rates *r);
double token_rates_made(const struct token_rates *r);

/* Appends "prompt: 36 tokens (12 kept), 1520 tokens/s; generation: 100 tokens,
 * 56.1 tokens/s". */
int token_rates_text(const struct token_rates *r, struct buf *out,
                     struct error *err) MUST_CHECK;

#endif
