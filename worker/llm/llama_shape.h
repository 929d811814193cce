/* llama_shape.h - offset and name of each tensor of a Llama.
 *
 * The weights are one array: embedding, layers, norm, output layer. Linears
 * that read the same input lie one behind the other and are one product: q,
 * k, v, and gate, up; behind them are their biases, which are one, too, and
 * the norms of queries and keys.
 * Adapters are another array, layer after layer, the
 * output layer's last. The array that is trained (model.h) is the weights
 * with method full, the adapters with lora.
 *
 * The adapters of linears that read the same input have their A one behind
 * the other, too: [lows, in], and then a B [width, rank] each. Each may have
 * another rank and alpha, in each layer, and some layers none
 * (adapter_ranks.h).
 */
#ifndef MGPU_WORKER_LLM_LLAMA_SHAPE_H
#define MGPU_WORKER_LLM_LLAMA_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/llm/config/llama_config.h"
#include "worker/llm/files/adapter_ranks.h"
#include "worker/process/card_limits.h"

/* A linear of a product that has an adapter in some layer. */
struct llama_part {
    uint32_t target;    /* enum lora_target */
    int32_t col, width; /* its columns in the product's output */
};

/* The adapters of a product in a layer. */
struct llama_lora {
    int32_t parts, lows; /* lows: columns of x A^T, those of all parts */
    int64_t a;           /* offset of A [lows, in] */
    int64_t values;      /* of all A and B */
    struct llama_lora_part {
        struct llama_part of;
        int32_t rank, low; /* low: its first column of x A^T */
        double scale;      /* alpha / rank */
        int64_t b;         /* offset of its B [width, rank] */
    } part[3];
};

struct llama_linear {
    int32_t in, out;
    int64_t weight; /* offset of [out, in] */
    int64_t bias;   /* of [out], which is added; 0: there is none */
    int32_t parts;  /* that have an adapter */
    struct llama_part part[3];
};

/* A tensor of a layer. */
struct llama_layer_tensor {
    enum llama_inner which;
    int64_t at;         /* in its layer */
    int32_t rows, cols; /* cols 0: of one dimension */
};

struct llama_shape {
    struct llama_config c;
    bool is_full;
    int32_t rank;     /* the highest */
    uint32_t targets; /* of lora */
    double alpha;
    const struct adapter_ranks *ranks; /* of each linear; NULL: rank, alpha */
    /* Offsets of the four of layer 0; those of layer l are l strides behind.
     * PRODUCT_HEAD: the output layer's. */
    struct llama_linear linear[PRODUCTS];
    int64_t embed, norm1, norm2, norm; /* norm1, norm2: of layer 0 */
    int64_t q_norm, k_norm;            /* of layer 0; 0: there is none */
    int64_t layer_weights;             /* the stride */
    int64_t layers;                    /* where layer 0 begins */
    struct llama_layer_tensor inner[LLAMA_INNERS]; /* those of a layer */
    int32_t inners;
    int64_t weights, adapters; /* elements in all */
    int64_t params;            /* that are trained */
    /* Rows of a sharded embedding's or output layer's unit (llama_shard.h):
     * vocab, or a piece. */
    int32_t unit_rows;
};

/* in   targets  bits of enum lora_target; 0 with is_full
 * err  ERR_INVAL no adapter at all */
int llama_shape_init(struct llama_shape *ret, const struct llama_config *c,
                     bool is_full, int32_t rank, double alpha, uint32_t targets,
                     struct error *err) MUST_CHECK;
/* Gives each linear a rank of its own; adapters are then as many as these say.
 * in   r  of as many layers; borrowed, outlives the shape. Without a table
 *         nothing changes */
void llama_shape_set_ranks(struct llama_shape *s,
                           const struct adapter_ranks *r);
void llama_lora(const struct llama_shape *s, int32_t layer,
                enum llama_product p, struct llama_lora *ret);
/* Where a layer's adapters begin; behind the last layer, the output layer's. */
int64_t llama_adapters_at(const struct llama_shape *s, int32_t layer);
/* The most columns of x A^T of a product in any layer. */
int64_t llama_lows(const struct llama_shape *s, enum llama_product p);

/* ---- units -----------------------------------------------------------------
 * What travels at once of sharded weights: the embedding, or each piece of it;
 * each layer; the last norm with an output layer of its own, or with its first
 * piece, and its other pieces. Where the output layer is the embedding, its
 * units are those. */

enum { LLAMA_PIECES_MOST = 512 };
int32_t llama_pieces(const struct llama_shape *s);
int32_t llama_units(const struct llama_shape *s);
int32_t llama_unit_of_embed(int32_t piece);
int32_t llama_unit_of_layer(const struct llama_shape *s, int32_t l);
int32_t llama_unit_of_norm(const struct llama_shape *s);
int32_t llama_unit_of_head(const struct llama_shape *s, int32_t piece);
/* The unit that a weight is in. */
int32_t llama_unit_at(const struct llama_shape *s, int64_t offset);
/* The first weight of a unit; behind the last unit, that behind all. */
int64_t llama_unit_first(const struct llama_shape *s, int32_t unit);
/* Rows of the vocabulary in a piece. */
int32_t llama_piece_rows(const struct llama_shape *s, int32_t piece);

/* A tensor and its name in a file. */
enum { LLAMA_NAME_CAP = 112 };
struct llama_tensor {
    char name[LLAMA_NAME_CAP];
    int32_t dims, shape[2];
    int64_t at, n;  /* in its array, elements */
    bool is_norm;   /* or a bias: of one dimension */
    int32_t fan_in; /* of an A: its in; 0: any other tensor */
    double scale;   /* of an adapter's: alpha / rank */
};

/* Tensor i of the weights, under its name of Hugging Face, or of the
 * adapters, under PEFT's, in the order of the array. */
int32_t llama_weight_count(const struct llama_shape *s);
void llama_weight(const struct llama_shape *s, int32_t i,
                  struct llama_tensor *ret);
int32_t llama_adapter_count(const struct llama_shape *s);
void llama_adapter(const struct llama_shape *s, int32_t i,
                   struct llama_tensor *ret);
/* The same for the trained tensors. */
int32_t llama_trained_count(const struct llama_shape *s);
void llama_trained(const struct llama_shape *s, int32_t i,
                   struct llama_tensor *ret);
/* Elements of the largest of them. */
int64_t llama_largest(const struct llama_shape *s);

/* The work of both passes over a batch. */
struct llama_work {
    double tokens, labelled, attends, windowed; /* struct batch */
    double value_bytes;  /* of an activation, and of what is trained */
    double weight_bytes; /* of a weight of the layers' linears */
    bool has_reference;  /* of pairs, whose pass comes first */
};
/* Adds its floor. Adapters are part of the product that they belong to. Logits
 * need not be in memory, nor scores. Attention is two products forward, and
 * five backward, which make the scores again: to keep them would take longer.
 * What is made again to save memory is not counted: layers with activation
 * checkpointing, and the logits of an output layer that is trained. */
void llama_shape_floor(const struct llama_shape *s, const struct llama_work *w,
                       struct card_floor *io);

#endif
