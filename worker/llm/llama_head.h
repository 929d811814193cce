/* llama_head.h - the output layer and the loss, for the other llama*.c. */
#ifndef MGPU_WORKER_LLM_LLAMA_HEAD_H
#define MGPU_WORKER_LLM_LLAMA_HEAD_H

#include "worker/llm/llama.h"
#include "worker/llm/llama_shape.h"

struct llama;
struct llama_base;

/* shape.unit_rows: as many as are no larger than a layer, or with their
 * gradient where they are trained, so that slots need no more; all, if the
 * weights are whole. */
int32_t llama_unit_rows(const struct llama_conf *conf,
                        const struct llama_shape *s,
                        const struct llama_base *b);

/* How many rows of logits there are at a time, of a batch of up to so many
 * tokens. in  rest  bytes of what the job takes beside them */
int32_t llama_head_rows(const struct llama_conf *c, int64_t tokens,
                        int64_t rest);
/* Before a pass over n_labelled tokens, on all ranks. */
int llama_head_begin(struct llama *m, struct error *err) MUST_CHECK;
/* A piece of the output layer: some rows of its weights, which are columns of
 * the logits. */
struct llama_piece {
    int32_t i, step; /* step 0: none yet */
    int32_t first, rows;
    const void *w; /* [rows, hidden], until the next one */
};
/* Goes on to the next piece, in one direction or the other: first come those
 * that are there. Returns 1, 0 behind the last one, -1 with an error. */
int llama_head_piece(struct llama *m, struct llama_piece *p,
                     struct error *err) MUST_CHECK;
/* Whether the output layer has gradients of its own. */
bool llama_trains_head(const struct llama *m);
/* Whether the backward pass makes the logits again, and with them the gradients
 * of the output layer; else llama_forward() leaves these. */
bool llama_head_is_again(const struct llama *m);
/* Loss and hits of the labelled tokens of normed. With `grads` also their
 * gradient, in mem.labelled, and that of an output layer that is trained; not
 * where that is sharded. */
int llama_head(struct llama *m, const struct batch *b, bool train, bool grads,
               struct error *err) MUST_CHECK;
/* The same backward where the gradient is sharded: fills in mem.labelled, and
 * hands out the gradient of all pieces but the first, which may have the last
 * norm's, too. normed is that of the forward pass. */
int llama_head_back(struct llama *m, const struct batch *b,
                    struct error *err) MUST_CHECK;
/* Loss and hits of the last forward pass; waits for it. model_ops.result.
 * err  ERR_STATE it was over another number of rows, or there was none */
int llama_result(struct model *model, const struct batch *b,
                 struct model_result *ret, struct error *err) MUST_CHECK;

#endif
