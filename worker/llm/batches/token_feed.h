/* token_feed.h - one part of the data, training or evaluation: its rows, packed
 * into samples, and its batches. */
#ifndef MGPU_WORKER_LLM_TOKEN_FEED_H
#define MGPU_WORKER_LLM_TOKEN_FEED_H

#include <stddef.h>

#include "worker/batch.h"
#include "worker/data/sampler.h"
#include "worker/data/text/packing.h"
#include "worker/llm/batches/token_stage.h"

/* The samples of one part, and its batches in order. */
struct token_feed {
    const struct spec_text *text;
    struct token_data data; /* n 0: the part has no data */
    struct packing packs;
    struct sampler sampler;
    struct token_stage stage;
    int32_t batch;       /* samples */
    int32_t longest;     /* tokens of a sample at most */
    int32_t packs_other; /* samples that the other order would make */
    int32_t parts;       /* batches of an iteration: so many samplers */
    int32_t next, end;   /* batches of the epoch: to be taken, all */
    bool pairs;          /* a sample is two answers */
    double *reference;   /* [2 packs.n] of pairs; NULL: not known; owned */
    struct batch on_way; /* made and sent; without its arrays */
    size_t on_way_bytes; /* of a sample in each array; 0: none is */
};

/* Reads the rows, of the cache or of their files, and packs them.
 * inout  f    with text; the rest is zero
 * in     eos  the id that ends an answer; -1: that of the tokenizer
 * err    ERR_INVAL, ERR_LIMIT, ERR_NOTFOUND, ERR_IO, ERR_NOMEM */
int token_feed_open(struct token_feed *f, const struct batch_env *env,
                    const struct tokenizer *tokenizer, int32_t eos,
                    struct error *err) MUST_CHECK;
void token_feed_close(struct token_feed *f); /* zeroed is fine */

/* "11 rows (7 packs of 8 tokens, 35.7 % padding; best_fit: 10.0 %)" */
void token_feed_describe(const struct token_feed *f, char *ret, size_t cap);

#endif
