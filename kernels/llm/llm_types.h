/* llm_types.h - what operations of llm_ops.h are given. */
#ifndef MGPU_KERNELS_LLM_LLM_TYPES_H
#define MGPU_KERNELS_LLM_LLM_TYPES_H

#include <stdint.h>

#include "kernels/dtype.h"

/* Query head h reads key and value head h / (heads / kv_heads). */
struct attention {
    int64_t rows; /* tokens */
    int32_t heads, kv_heads, head_dim;
    double scale;   /* of the scores: 1 / sqrt(head_dim) */
    int32_t window; /* tokens that one sees at most, itself among them; 0: all
                     * of its document up to itself */
};

/* Rows [first, first + rows) of a table of `limit` rows. */
struct row_part {
    int64_t first, rows, limit;
};

/* n values in four bits each. Q, the type of what is beside the codes, is bf16
 * for bf16 and f32 for all others. */
enum { NF4_BLOCK = 64, NF4_GROUP = 256 };
struct nf4 {
    int64_t n;       /* a multiple of NF4_BLOCK */
    uint8_t *codes;  /* [n / 2]: value 2 i in the high half of byte i */
    int8_t *scalers; /* [n / 64] of blocks; NULL: not quantised themselves */
    void *factors;   /* [scalers / 256, rounded up] Q, with scalers */
    void *mean;      /* [1] Q: of what the scalers stand for */
    void *absmax;    /* [n / 64] Q, without scalers */
};
static inline enum dtype nf4_dtype(enum dtype dt) /* Q */
{
    return dt == DT_BF16 ? DT_BF16 : DT_F32;
}
/* One of the two answers of a preference pair: its labelled tokens, neighbours
 * in the lists of these, and its log p by the reference. */
struct pair_answer {
    int32_t first, n; /* n 0: there is none */
    double reference; /* nats */
};

#endif
