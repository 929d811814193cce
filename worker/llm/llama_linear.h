/* llama_linear.h - a product with its adapters, for the other llama*.c. */
#ifndef MGPU_WORKER_LLM_LLAMA_LINEAR_H
#define MGPU_WORKER_LLM_LLAMA_LINEAR_H

#include "worker/llm/llama_internal.h"

/* A product over the tokens x, with what belongs to its layer added to its
 * offsets. */
struct llama_call {
    enum llama_product product;
    int32_t layer; /* 0 for PRODUCT_HEAD */
    int64_t rows;
    int64_t first; /* of the rows, in the batch; for dropout */
    bool train;    /* with dropout */
    bool adds;     /* gradients of weights are added, not written */
    const void *x; /* [rows, in] */
    void *low;     /* [rows, lows], of adapters */
};

/* y [rows, out] = x W^T + alpha / rank * (x A^T) B^T + b, where there is a bias
 * b. Fills in low. */
int llama_linear(struct llama *m, const struct llama_call *c, void *y,
                 struct error *err) MUST_CHECK;
/* Fills in low alone, where there is an adapter. */
int llama_linear_low(struct llama *m, const struct llama_call *c,
                     struct error *err) MUST_CHECK;
/* Backward: from dy [rows, out] the gradients of W and b, or of A and B, and dx
 * [rows, in]; dx NULL: not wanted. dx is neither x nor dy. */
int llama_linear_back(struct llama *m, const struct llama_call *c,
                      const void *dy, void *dx, struct error *err) MUST_CHECK;
/* The same in two calls, one behind the other with no product between them: dx
 * and the gradient of B, for which c->x is not needed yet, and then the
 * gradients of W and b, or that of A. */
int llama_linear_back_input(struct llama *m, const struct llama_call *c,
                            const void *dy, void *dx,
                            struct error *err) MUST_CHECK;
int llama_linear_back_weights(struct llama *m, const struct llama_call *c,
                              const void *dy, struct error *err) MUST_CHECK;
/* One piece of the output layer, which is trained: its logits y [rows, p->rows]
 * of c->x, and from their gradient dy that of the piece, and dx [rows, in], to
 * which it is added unless `is_first`. */
int llama_linear_piece(struct llama *m, const struct llama_call *c,
                       const struct llama_piece *p, void *y,
                       struct error *err) MUST_CHECK;
int llama_linear_piece_back(struct llama *m, const struct llama_call *c,
                            const struct llama_piece *p, const void *dy,
                            bool is_first, void *dx,
                            struct error *err) MUST_CHECK;

#endif
