/* token_stage.h - the memory of one part's batches, and their copies to the
 * device.
 *
 * A batch is filled in host memory and copied as one piece. Where the device
 * copies beside its work there are two stages, page-locked, with a twin on the
 * device each, so that the next batch is on its way while this one is used.
 */
#ifndef MGPU_WORKER_LLM_TOKEN_STAGE_H
#define MGPU_WORKER_LLM_TOKEN_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/device.h"
#include "worker/llm/batches/token_batches.h"

struct token_stage {
    struct device *d;
    int64_t tokens; /* of the largest batch */
    int32_t pairs;  /* of a batch; 0: samples are no pairs */
    int32_t slot;   /* of the device: this one and the next */
    bool pin;
    int32_t *host[2], *twin[2]; /* the second ones where the device sends */
    int32_t *x;                 /* device: what is used */
    int32_t pinned, turn;       /* turn: of the stage that is filled next */
    bool sent[2];               /* there may be a copy that reads the stage */
    int64_t filled;             /* tokens of the batch on its way */
};

bool token_stage_is_ahead(const struct token_stage *s);

/* Memory that start() takes. */
int64_t token_stage_device_bytes(const struct token_stage *s);
int64_t token_stage_host_bytes(const struct token_stage *s);

/* in   d, tokens, pairs, slot and pin are set, all else is zero */
int token_stage_start(struct token_stage *s, struct error *err) MUST_CHECK;
/* Zeroed and half started are fine. */
void token_stage_clear(struct token_stage *s);

/* The arrays of a batch of n * S tokens, to be filled and then sent; its
 * numbers are zero. */
int token_stage_open(struct token_stage *s, int32_t n, int32_t S,
                     struct token_rows *ret, struct error *err) MUST_CHECK;
int token_stage_send(struct token_stage *s, struct error *err) MUST_CHECK;
/* The batch sent last is in the arrays ret from now on, until the next call.
 * out  ret  TOKENS_PAIR: NULL where samples are no pairs */
int token_stage_receive(struct token_stage *s, void *ret[BATCH_ARRAYS],
                        struct error *err) MUST_CHECK;

#endif
