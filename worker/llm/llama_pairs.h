/* llama_pairs.h - the loss of preference pairs, for the other llama*.c. */
#ifndef MGPU_WORKER_LLM_LLAMA_PAIRS_H
#define MGPU_WORKER_LLM_LLAMA_PAIRS_H

#include "worker/llm/llama_internal.h"

/* llama_forward.c: b is not larger than planned. */
int llama_check_batch(const struct llama *m, const struct batch *b, bool train,
                      struct error *err) MUST_CHECK;

/* Log p of the answers by the reference, before the pass of the model. */
int llama_pairs_reference(struct llama *m, const struct batch *b,
                          struct error *err) MUST_CHECK;
/* Follows the output layer: log p of the answers by the model, and with `grads`
 * the factors of the labelled tokens. */
int llama_pairs_forward(struct llama *m, const struct batch *b, bool grads,
                        struct error *err) MUST_CHECK;
/* Bytes of host memory that the result takes, on its way. */
size_t llama_pairs_host(const struct llama_conf *c);
/* Implements model_ops.result. */
int llama_pairs_result(struct model *model, const struct batch *b,
                       struct model_result *ret, struct error *err) MUST_CHECK;
/* Implements model_ops.begin. */
void llama_pairs_begin(struct model *model);
extern const char *const llama_pair_values[];

#endif
