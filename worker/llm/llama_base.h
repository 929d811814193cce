/* llama_base.h - the layout of a layer's tensors in a frozen base of four bits,
 * and the linears that a pass rounds.
 *
 * A linear whose values are a multiple of 64 is quantised; norms and biases
 * stay, and so do other linears. All layers are alike. What stays of the model
 * lies in one array: what is before the layers, what is behind them, and then
 * layer by layer. The codes of all layers are one array, too, and so are their
 * scalers, factors and means: each tensor has scalers, groups and a mean of its
 * own.
 *
 * Where the base is sharded (llama_shard.h), each layer is one piece
 * of memory instead, with codes, scalers, factors, means and what stays one
 * behind the other.
 *
 * With 8da4w (method qat) weights are kept as they are. A pass computes with
 * what int4 leaves of them, and int8 of what they are multiplied with; the
 * gradient goes straight through both. A linear is rounded if the groupsize
 * divides its inputs, and an output layer that is the embedding is not. Where
 * the weights are sharded, a layer is rounded from its unit, all of it
 * before the gradient takes the unit's place.
 */
#ifndef MGPU_WORKER_LLM_LLAMA_BASE_H
#define MGPU_WORKER_LLM_LLAMA_BASE_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/spec/spec.h"
#include "kernels/dtype.h"
#include "worker/llm/llama_shape.h"

/* A tensor of a layer. */
struct llama_base_tensor {
    int64_t at, n; /* in the weights of its layer, in elements */
    bool is_packed;
    /* Counts before it in its layer: packed values, groups of scalers and
     * means; or elements that stay. */
    int64_t values, groups, stays;
    int32_t means;
};

struct llama_base {
    enum spec_quantizer quantizer;
    struct llama_base_tensor tensor[LLAMA_INNERS];
    /* The sums over a layer. */
    int64_t quantised, groups, stays;
    int32_t means;
    int64_t outside; /* elements beside the layers */
    /* For 8da4w; else 0 and none. */
    int32_t groupsize;
    bool rounds[PRODUCTS];
};

/* Offsets of a layer's arrays in its piece of memory, in bytes. */
struct llama_base_piece {
    int64_t codes, scalers, factors, mean; /* with double quantisation */
    int64_t absmax;                        /* without */
    int64_t stays;
    int64_t packed, bytes; /* of what is quantised, of all */
};
struct llama_base_piece llama_base_piece(const struct llama_base *b,
                                         enum dtype dt);

/* Zeroed without a quantizer of the base.
 * err  ERR_INVAL no linear has a multiple of 64 values */
int llama_base_init(struct llama_base *ret, const struct llama_shape *s,
                    enum spec_quantizer quantizer,
                    struct error *err) MUST_CHECK;

/* Chooses the linears that 8da4w rounds; b has no other quantizer.
 * err  ERR_INVAL the groupsize divides the inputs of no linear */
int llama_base_round(struct llama_base *b, const struct llama_shape *s,
                     int32_t groupsize, struct error *err) MUST_CHECK;
/* The most inputs of a linear that is rounded; 0: none is. */
int32_t llama_base_widest(const struct llama_base *b,
                          const struct llama_shape *s);

struct llama;

/* Puts the weights of layer l where llama_layer_weight() finds them, until
 * another layer is opened. Only enqueues. */
int llama_open_layer(struct llama *m, int32_t l, struct error *err) MUST_CHECK;
/* A tensor of the open layer.
 * in   offset  in layer 0 */
const void *llama_layer_weight(const struct llama *m, int64_t offset);
/* Implements model_ops.reached: from some iteration on weights are rounded. */
struct model;
void llama_reached(struct model *model, int64_t iterations);
/* "; fake-quantised from iteration 4 on: 30 linears to 8da4w in ..." */
void llama_say_rounded(const struct llama *m, char *ret, size_t cap);
/* The same of a piece of the output layer, which was needed and stays open
 * until another unit is. */
int llama_open_head(struct llama *m, int32_t piece,
                    struct error *err) MUST_CHECK;
const void *llama_head_weight(const struct llama *m, int32_t piece);
/* Input of a product: x [rows, in], or x rounded to int8, until the next
 * call. */
int llama_round_input(struct llama *m, enum llama_product p, int64_t rows,
                      const void *x, const void **ret,
                      struct error *err) MUST_CHECK;
/* Closes all layers, before a pass. */
void llama_close_layers(struct llama *m);
/* room() says where to load tensor i of the weights, keep() takes it from
 * there. The tensors are loaded in their order.
 * out  ret  NULL: it goes to llama_put_weights() */
int llama_base_room(struct llama *m, int32_t i, void **ret,
                    struct error *err) MUST_CHECK;
int llama_base_keep(struct llama *m, int32_t i, struct error *err) MUST_CHECK;

/* "nf4"; "" without a quantizer. */
const char *llama_base_word(enum spec_quantizer quantizer);

/* "q_proj, down_proj": the linears that stay; "" if none does. */
void llama_base_stays(const struct llama_shape *s, const struct llama_base *b,
                      char *ret, size_t cap);

#endif
