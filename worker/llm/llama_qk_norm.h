/* llama_qk_norm.h - where the heads are that the norms of queries and keys are
 * of.
 *
 * The product of q, k and v is normed in place. The backward pass gets q and k
 * as they were before, which the forward pass copies beside: from what is kept
 * of them behind norm and rotation they could not be made again where a weight
 * is 0. */
#ifndef MGPU_WORKER_LLM_LLAMA_QK_NORM_H
#define MGPU_WORKER_LLM_LLAMA_QK_NORM_H

#include "worker/llm/llama_internal.h"

/* The values of the longest norm. */
static inline int32_t llama_norm_widest(const struct llama_shape *s)
{
    return s->q_norm > 0 && s->c.head_dim > s->c.hidden ? s->c.head_dim
                                                        : s->c.hidden;
}

/* The heads of q or of k. */
struct llama_qk_part {
    int64_t weight; /* offset of that of layer 0 */
    int32_t col, heads;
    int64_t ahead; /* heads of all tokens before them in the copy */
};
enum { LLAMA_QK_PARTS = 2 };

static inline struct llama_qk_part llama_qk_part_of(const struct llama *m,
                                                    int i)
{
    const struct llama_shape *s = &m->shape;
    const struct llama_config *c = &s->c;
    if (i == 0)
        return (struct llama_qk_part){s->q_norm, 0, c->heads, 0};
    return (struct llama_qk_part){s->k_norm, c->heads * c->head_dim,
                                  c->kv_heads, m->tokens * c->heads};
}

#endif
